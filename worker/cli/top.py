"""`neardup top`: what a group does, live."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.cli.options import with_cluster
from worker.cli.shared import printable, terminal_width
from worker.cli.verdicts import cells
from worker.settings import Settings
from worker.shell.admin.watch import GroupWatch, Sample, rate
from worker.shell.runtime.metrics import STAGES

WIDTH_PIPE = 160  # of a frame that goes into a pipe
PARTITIONS_SHOWN = 8  # those with the largest lag, where there are more
NONE = "–"
HINT = "latency, times by stage, originals: --worker HOST:PORT, of each worker's metrics"


@with_cluster("group", "topic_documents", "topic_fingerprints", "topic_verdicts")
def top(
    settings: Settings,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            help="host:port of a worker's metrics, for its rates and times; one per option."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Seconds from a frame to the next.", min=0.1, max=60)
    ] = 2,
    once: Annotated[
        bool, typer.Option("--once", help="One frame as text, with the rates of one interval.")
    ] = False,
) -> None:
    """
    Show a running group live: members, lag, rates, duplicates.

    Kafka knows members, partitions, lag and rates; stage times, originals and log offsets come from
    the workers whose addresses are given. Ctrl-C ends it.
    """
    width = terminal_width()
    console = Console(highlight=False, width=WIDTH_PIPE if width is None else width)
    with GroupWatch(settings, worker or []) as watch:
        before = watch.sample()
        time.sleep(interval)
        now = watch.sample()
        if once:
            console.print(frame(before, now, settings.group, settings.bootstrap))
            return
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(frame(before, now, settings.group, settings.bootstrap), refresh=True)
                time.sleep(interval)
                before = now
                now = watch.sample()


def frame(before: Sample, now: Sample, group: str, bootstrap: str) -> Group:
    """Return what is shown, of 80 columns or more; rates are those between two samples."""
    own: list[RenderableType] = [
        Text("what they say of their last minute, times in ms", style="dim"),
        _own(now),
    ]
    if all(one.error for one in now.statuses):
        own = [] if now.statuses else [Text(HINT, style="dim")]
    return Group(
        _head(before, now, group, bootstrap), Text(), _workers(before, now), Text(),
        *own, *_problems(now), Text(), _partitions(now), Text(), _duplicates(now),
    )  # fmt: skip


def _head(before: Sample, now: Sample, group: str, bootstrap: str) -> Text:
    fed_per_s = rate(before, now, lambda one: sum(part.end for part in one.partitions.values()))
    fed, answered = (
        NONE if per_s is None else f"{per_s:,.0f}/s"
        for per_s in (fed_per_s, rate(before, now, lambda one: one.answered))
    )
    line = f"waiting {now.lag:,}   fed {fed}   answered {answered}   log {now.log_end:,} records"
    text = Text(
        printable(
            f"group {group} at {bootstrap}: {now.state or 'its coordinator does not answer'}"
        ),
        "bold",
    )
    return text.append(f"\n{line}", style="not bold")


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_right in columns:
        table.add_column(
            name, justify="right" if is_right else "left", no_wrap=is_right, overflow="fold"
        )
    return table


def _workers(before: Sample, now: Sample) -> Table:
    """Return what Kafka knows of the members."""
    table = _table(
        ("worker", False),
        ("host", False),
        ("partitions", True),
        ("waiting", True),
        ("docs/s", True),
    )
    seconds = now.at_s - before.at_s
    for member in now.members:
        own = [number for number in member.partitions if number in now.partitions]
        lag = sum(now.partitions[number].lag for number in own)
        answered = sum(  # of partitions that it owned before, too
            now.partitions[at].answered - before.partitions[at].answered
            for at in own
            if at in before.partitions
        )
        per_s = _number(answered / seconds if seconds > 0 else None, 0)
        names = (Text(printable(name)) for name in (member.worker_id, member.host))
        table.add_row(*names, f"{len(own):,}", f"{lag:,}", per_s)
    if not now.members:
        table.add_row("none", *[NONE] * 4)
    return table


def _own(now: Sample) -> Table:
    """Return what workers say of their last minute."""
    columns = ((name, True) for name in ("docs/s", "latency", *STAGES, "originals", "log at"))
    table = _table(("worker", False), *columns)
    members = {member.worker_id for member in now.members}
    for fields in (one.fields for one in now.statuses if not one.error):
        name = printable(fields["worker_id"])
        minute = _part(fields, "last_minute")
        log = _part(fields, "log")
        stages = _part(fields, "stages_ms")
        times = [minute.get("latency_ms"), *(stages.get(stage) for stage in STAGES)]
        table.add_row(
            Text(name if fields["worker_id"] in members else f"{name}, no member"),
            _number(minute.get("documents_per_s"), 0),
            *(_number(time_ms, 1) for time_ms in times),
            _number(fields.get("originals"), 0),
            _number(log.get("offset"), 0),
        )
    return table


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else NONE


def _partitions(now: Sample) -> Table:
    owners = {number: member.worker_id for member in now.members for number in member.partitions}
    table = _table(
        ("partition", True),
        ("worker", False),
        ("ends at", True),
        ("answered to", True),
        ("waiting", True),
    )
    ordered = sorted(now.partitions.items(), key=lambda one: (-one[1].lag, one[0]))
    for number, part in sorted(ordered[:PARTITIONS_SHOWN]):
        owner = Text(printable(owners.get(number, "nobody")))
        table.add_row(f"{number}", owner, f"{part.end:,}", f"{part.answered:,}", f"{part.lag:,}")
    if len(ordered) > PARTITIONS_SHOWN:
        rest = sum(part.lag for _, part in ordered[PARTITIONS_SHOWN:])
        table.add_row("", f"{len(ordered) - PARTITIONS_SHOWN:,} others", "", "", f"{rest:,}")
    return table


def _problems(now: Sample) -> list[Text]:
    found = [f"{one.address}: {one.error}" for one in now.statuses if one.error]
    found += [
        f"{one.fields['worker_id']}: {one.fields['last_error']}"
        for one in now.statuses
        if one.fields.get("last_error")
    ]
    return [Text(printable(line), style="red") for line in found]


def _duplicates(now: Sample) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("bits", justify="right", width=4)
    for name in ("last duplicates", "of"):
        table.add_column(name, ratio=1, no_wrap=True, overflow="ellipsis")
    for verdict in reversed(now.duplicates):
        if verdict.duplicate_of is not None:
            table.add_row(*(Text(printable(cell)) for cell in cells(verdict)[1:]))
    return table
