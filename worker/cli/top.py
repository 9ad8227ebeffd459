"""`neardup top` shows a group live."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.cli.options import with_cluster
from worker.cli.shared import (
    URL_CONTEXT,
    foreign_offsets_line,
    held_up_line,
    printable,
    terminal_width,
)
from worker.cli.verdicts import cells_that_differ
from worker.settings import Settings
from worker.shell.admin.watch import (
    GroupWatch,
    PartitionSample,
    Sample,
    WorkerStatus,
    last_problem,
    rate,
)
from worker.shell.kafka.admin import foreign_members
from worker.shell.runtime.metrics import STAGES

WIDTH_PIPE = 160  # width of a frame that goes into a pipe
PARTITIONS_SHOWN = 8  # if there are more, those with the largest lag
PROBLEM_FRESH_S = 60  # an older one stands there dimmed: the worker may be well again
NONE = "–"
HINT = "latency, times by stage, originals: --worker HOST:PORT, of each worker's metrics"
_BITS_WIDTH = 4
_COLUMN_GAP = 2  # which a table of rich puts between two columns


@with_cluster("group", "topic_documents", "topic_fingerprints", "topic_verdicts")
def top(
    settings: Settings,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A worker's metrics_port (or the URL of a proxy before it), "
            "to show its rates and times. Repeatable.",
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between two frames.", min=0.1, max=60)
    ] = 2,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print one frame as text, with the rates of one interval, and exit."
        ),
    ] = False,
) -> None:
    """
    Show a running group live: members, lag, rates, duplicates.

    Members, partitions, lag and rates are read from Kafka; stage times, originals and log offsets
    are read from the workers given with --worker. Ctrl-C ends it.
    """
    width = terminal_width()
    console = Console(highlight=False, width=WIDTH_PIPE if width is None else width)

    def shown(before: Sample, now: Sample) -> Group:
        return frame(before, now, settings.group, settings.bootstrap, console.width)

    with GroupWatch(settings, worker or []) as watch:
        before = watch.sample()
        time.sleep(interval)
        now = watch.sample()
        if once:
            console.print(shown(before, now))
            return
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(shown(before, now), refresh=True)
                time.sleep(interval)
                before = now
                now = watch.sample()


def frame(before: Sample, now: Sample, group: str, bootstrap: str, width: int) -> Group:
    """
    Lay out the screen of a group.

    Args:
        before: the group a while ago. Rates are those between the two samples.
        now: the group as it is.
        group: its name.
        bootstrap: the brokers that were asked.
        width: columns to fill; below 80 some lines fold.
    """
    blank = Text()
    parts: list[RenderableType] = [
        _head(before, now, group, bootstrap),
        blank,
        _members(before, now),
        blank,
    ]
    answering = [status for status in now.statuses if not status.error]
    if answering:
        parts.append(Text("what they say of their last minute, times in ms", style="dim"))
        parts.append(_last_minutes(answering, {member.worker_id for member in now.members}))
    elif not now.statuses:
        parts.append(Text(HINT, style="dim"))
    parts += _foreign(now)
    if now.held_up:
        parts.append(Text(held_up_line(now.held_up), style="red"))
    if now.foreign_offsets:
        parts.append(Text(foreign_offsets_line(now.foreign_offsets), style="red"))
    parts += _problems(now)
    parts += [blank, _partitions(now), blank, _duplicates(now, width)]
    return Group(*parts)


def _head(before: Sample, now: Sample, group: str, bootstrap: str) -> Text:
    """
    Return two lines: the group and its brokers, then the documents that wait, arrive and are
    answered.
    """
    state = now.state or "its coordinator does not answer"
    fed = _per_s(rate(before, now, lambda sample: sample.fed))
    answered = _per_s(rate(before, now, lambda sample: sample.answered))
    text = Text(printable(f"group {group} at {bootstrap}: {state}"), "bold")
    text.append(
        f"\nwaiting {now.lag:,}   fed {fed}   answered {answered}   log {now.log_end:,} records",
        style="not bold",
    )
    return text


def _per_s(count: float | None) -> str:
    return NONE if count is None else f"{count:,.0f}/s"


def _table(*columns: tuple[str, bool]) -> Table:
    """Return a table with these columns: the name of each, and whether it is flush right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_right in columns:
        table.add_column(
            name, justify="right" if is_right else "left", no_wrap=is_right, overflow="fold"
        )
    return table


def _members(before: Sample, now: Sample) -> Table:
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
        owned = [number for number in member.partitions if number in now.partitions]
        lag = sum(now.partitions[number].lag for number in owned)
        answered = sum(  # in partitions that it owned before, too
            now.partitions[number].answered - before.partitions[number].answered
            for number in owned
            if number in before.partitions
        )
        table.add_row(
            Text(printable(member.worker_id)),
            Text(printable(member.host)),
            f"{len(owned):,}",
            f"{lag:,}",
            _number(answered / seconds if seconds > 0 else None, 0),
        )
    if not now.members:
        table.add_row("none", *[NONE] * 4)
    return table


def _last_minutes(statuses: Sequence[WorkerStatus], member_ids: set[str]) -> Table:
    """Return what workers say of their last minute."""
    names = ("docs/s", "latency", *STAGES, "originals", "log at")
    table = _table(("worker", False), *((name, True) for name in names))
    for status in statuses:
        worker_id = status.fields["worker_id"]
        shown_id = printable(worker_id)
        minute = _part(status.fields, "last_minute")
        stages = _part(status.fields, "stages_ms")
        log = _part(status.fields, "log")
        table.add_row(
            Text(shown_id if worker_id in member_ids else f"{shown_id}, no member"),
            _number(minute.get("documents_per_s"), 0),
            _number(minute.get("latency_ms"), 1),
            *(_number(stages.get(stage), 1) for stage in STAGES),
            _number(status.fields.get("originals"), 0),
            _number(log.get("offset"), 0),
        )
    return table


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = fields.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else NONE


def _partitions(now: Sample) -> Table:
    """Return the partitions of the source, those with the largest lag where there are many."""

    def most_lag_first(item: tuple[int, PartitionSample]) -> tuple[int, int]:
        number, partition = item
        return -partition.lag, number

    owners = {number: member.worker_id for member in now.members for number in member.partitions}
    table = _table(
        ("partition", True),
        ("worker", False),
        ("ends at", True),
        ("answered to", True),
        ("waiting", True),
    )
    ordered = sorted(now.partitions.items(), key=most_lag_first)
    for number, partition in sorted(ordered[:PARTITIONS_SHOWN]):
        owner = Text(printable(owners.get(number, "nobody")))
        table.add_row(
            f"{number}",
            owner,
            f"{partition.end:,}",
            f"{partition.answered:,}",
            f"{partition.lag:,}",
        )
    others = ordered[PARTITIONS_SHOWN:]
    if others:
        lag = sum(partition.lag for _, partition in others)
        table.add_row("", f"{len(others):,} others", "", "", f"{lag:,}")
    return table


def _foreign(now: Sample) -> list[Text]:
    """Return a line for each member that is no worker."""
    lines = []
    for member in foreign_members(now.members):
        numbers = ", ".join(map(str, member.partitions))
        has = f"has partitions {numbers} of the documents" if numbers else "has no documents"
        line = f"{member} is no worker, and {has}: give it another group.id"
        if member.elsewhere:
            line = f"{line} (it reads {', '.join(member.elsewhere)})"
        lines.append(Text(printable(line), style="red"))
    return lines


def _problems(now: Sample) -> list[Text]:
    """
    Return a line for each worker that does not answer, and for the last problem of the others.
    """
    lines = []
    for status in now.statuses:
        if status.error:
            lines.append(Text(printable(f"{status.address}: {status.error}"), style="red"))
    for status in now.statuses:
        problem = last_problem(status, now.unix_ms)
        if problem is not None:
            is_old = problem.age_s is not None and problem.age_s > PROBLEM_FRESH_S
            when = "" if problem.age_s is None else f", {_ago(problem.age_s)}"
            line = f"{status.fields['worker_id']}{when}: {problem.text}"
            lines.append(Text(printable(line), style="dim" if is_old else "red"))
    return lines


def _ago(age_s: float) -> str:
    """
    Say how long ago something was, in its largest whole unit.

    >>> _ago(0.2), _ago(59), _ago(200), _ago(7_300), _ago(200_000)
    ('0 s ago', '59 s ago', '3 min ago', '2 h ago', '2 d ago')
    """
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= unit_s:
            return f"{age_s // unit_s:.0f} {unit} ago"
    return f"{int(age_s)} s ago"


def _duplicates(now: Sample, width: int) -> Table:
    """Return the last duplicates, the latest first, by the URLs of document and original."""
    url_width = max((width - _BITS_WIDTH) // 2 - _COLUMN_GAP, URL_CONTEXT)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("bits", justify="right", width=_BITS_WIDTH)
    for name in ("last duplicates", "of"):
        table.add_column(name, width=url_width, no_wrap=True, overflow="ellipsis")
    for verdict in reversed(now.duplicates):
        _, bits, url, original_url = cells_that_differ(verdict, url_width)
        table.add_row(bits, Text(url), Text(original_url))
    return table
