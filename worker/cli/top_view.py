"""One frame of `neardup top`: the group, its workers, its partitions, the last duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from worker.cli.columns import printable

if TYPE_CHECKING:
    from worker.shell.admin.group import Sample

__all__ = ["frame"]

PARTITIONS_SHOWN = 8  # those with the largest lag, where there are more
NONE = "–"
STAGES = ("prepare", "append", "answer", "publish")


def frame(before: Sample, now: Sample, group: str, bootstrap: str) -> Group:
    """Return what is shown; rates are those between two samples."""
    return Group(
        _head(before, now, group, bootstrap), Text(), _workers(before, now), Text(), _partitions(now), *_problems(now),
        Text(), _duplicates(now),
    )  # fmt: skip


def _head(before: Sample, now: Sample, group: str, bootstrap: str) -> Text:
    from worker.shell.admin.group import rate  # noqa: PLC0415

    told = {
        "waiting": f"{now.lag:,}",
        "fed": _per_s(rate(before, now, lambda one: sum(part.end for part in one.partitions.values()))),
        "answered": _per_s(rate(before, now, lambda one: one.answered)),
        "log": f"{now.log_end:,} records",
    }
    line = "   ".join(f"{name} {value}" for name, value in told.items())
    text = Text(printable(f"group {group} at {bootstrap}: {now.state or 'its coordinator does not answer'}"), "bold")
    return text.append(f"\n{line}", style="not bold")


def _per_s(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}/s"


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_right in columns:
        table.add_column(name, justify="right" if is_right else "left", no_wrap=is_right, overflow="fold")
    return table


def _workers(before: Sample, now: Sample) -> Table:
    table = _table(
        ("worker", False), ("host", False), ("partitions", True), ("waiting", True), ("docs/s", True),
        ("latency ms", True), *((f"{stage} ms", True) for stage in STAGES), ("originals", True), ("log at", True),
    )  # fmt: skip
    statuses = {one.fields["worker_id"]: one.fields for one in now.statuses if not one.error}
    for member in now.members:
        own = [number for number in member.partitions if number in now.partitions]
        fields = statuses.pop(member.worker_id, {})
        told = _of_status(fields)
        if not fields:  # what the committed offsets say, of partitions that it owned before, too
            seconds = now.at_s - before.at_s
            gone = sum(
                now.partitions[at].answered - before.partitions[at].answered for at in own if at in before.partitions
            )
            told[0] = f"{gone / seconds:,.0f}" if seconds > 0 else NONE
        lag = sum(now.partitions[number].lag for number in own)
        table.add_row(printable(member.worker_id), printable(member.host), f"{len(own):,}", f"{lag:,}", *told)
    for worker_id, fields in statuses.items():
        told = ["no member", NONE, NONE, *_of_status(fields)]
        table.add_row(printable(worker_id), *told)
    if not now.members and not statuses:
        table.add_row("none", *[NONE] * 11)
    return table


def _of_status(fields: Mapping[str, Any]) -> list[str]:
    """Return the cells from documents a second on."""
    stages = _part(fields, "stages_ms")
    minute, log = _part(fields, "last_minute"), _part(fields, "log")
    cells = [minute.get("documents_per_s"), minute.get("latency_ms"), *(stages.get(stage) for stage in STAGES)]
    return [_number(cell, 1) for cell in cells] + [_number(fields.get("originals"), 0), _number(log.get("offset"), 0)]


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else NONE


def _partitions(now: Sample) -> Table:
    owners = {number: member.worker_id for member in now.members for number in member.partitions}
    table = _table(("partition", True), ("worker", False), ("ends at", True), ("answered to", True), ("waiting", True))
    ordered = sorted(now.partitions.items(), key=lambda one: (-one[1].lag, one[0]))
    for number, part in sorted(ordered[:PARTITIONS_SHOWN]):
        owner = printable(owners.get(number, "nobody"))
        table.add_row(f"{number}", owner, f"{part.end:,}", f"{part.answered:,}", f"{part.lag:,}")
    if len(ordered) > PARTITIONS_SHOWN:
        rest = sum(part.lag for _, part in ordered[PARTITIONS_SHOWN:])
        table.add_row("", f"{len(ordered) - PARTITIONS_SHOWN:,} others", "", "", f"{rest:,}")
    return table


def _problems(now: Sample) -> list[Text]:
    found = [f"{one.address}: {one.error}" for one in now.statuses if one.error]
    found += [
        f"{one.fields['worker_id']}: {one.fields['last_error']}" for one in now.statuses if one.fields.get("last_error")
    ]
    return [Text(printable(line), style="red") for line in found]


def _duplicates(now: Sample) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("bits", justify="right", width=4)
    for name in ("last duplicates", "of"):
        table.add_column(name, ratio=1, no_wrap=True, overflow="ellipsis")
    for verdict in reversed(now.duplicates):
        match = verdict.duplicate_of
        if match is not None:
            bits = "same" if match.kind.value == "exact" else str(match.distance)
            table.add_row(bits, Text(printable(verdict.url or verdict.doc_id)), Text(printable(match.original.url)))
    return table
