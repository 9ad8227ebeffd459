"""`neardup verdicts` prints the verdicts of a group, and shares its output with `dead-letters`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import typer

from worker.cli.options import with_cluster
from worker.cli.shared import (
    LinesOption,
    TableColumn,
    TableColumns,
    cut_to_difference,
    echo_json,
    printable,
    terminal_width,
)
from worker.core.document import Verdict
from worker.settings import Settings
from worker.shell.admin.watch import PublishedAnswer, time_ms, watch

Only = Literal["new", "duplicate", "skipped", "deleted"]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="At the end of the topic, wait for more until Ctrl-C.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "Only what was published since a time (2026-01-31T12:00:00Z) or an age (90s, 15m, 2h, "
            "7d)."
        )
    ),
]
LimitOption = Annotated[int | None, typer.Option(help="Print at most this many.", min=1)]
# A doc_id that neardup derives has 32 characters, which only a wide terminal shows. `explain` also
# takes the beginning of one.
_DOC_ID_WIDTH = 12
_DOC_ID_WIDTH_MAX = 32
_WIDE = 120  # columns of a terminal


@with_cluster("group", "topic_verdicts")
def verdicts(
    settings: Settings,
    follow: FollowOption = False,
    as_json: LinesOption = False,
    only: Annotated[
        Only | None, typer.Option("--only", help="Print only verdicts of this kind.")
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option(help="Print only verdicts of this doc_id or URL.")
    ] = None,
    since: SinceOption = None,
    limit: LimitOption = None,
) -> None:
    """
    Print the committed verdicts, from the beginning of the topic.

    You can copy a doc_id into `neardup explain`, even if it is cut off here.
    """

    def row(published: PublishedAnswer) -> tuple[bytes, list[str]] | None:
        answer = published.answer
        if not isinstance(answer, Verdict) or only not in (None, answer.outcome.value):
            return None
        if doc_id in (None, answer.doc_id, answer.url):
            outcome, bits, *urls = cells_that_differ(answer, columns.width_of("url"))
            return published.value, [outcome, bits, answer.doc_id, *urls]
        return None

    is_wide = (terminal_width() or _WIDE) >= _WIDE
    columns = TableColumns(
        TableColumn("verdict", 9),
        TableColumn("bits", 4, is_right=True),
        TableColumn("doc_id", _DOC_ID_WIDTH_MAX if is_wide else _DOC_ID_WIDTH),
        TableColumn("url"),
        TableColumn("duplicate of"),
    )
    print_published(
        settings,
        settings.topic_verdicts,
        columns,
        row,
        as_json=as_json,
        follow=follow,
        since=since,
        limit=limit,
    )


def print_published(
    settings: Settings,
    topic: str,
    columns: TableColumns,
    row: Callable[[PublishedAnswer], tuple[bytes, list[str]] | None],
    *,
    as_json: bool,
    follow: bool,
    since: str | None,
    limit: int | None,
) -> None:
    """
    Print the messages published on a topic, as a table or as JSON Lines.

    Args:
        settings: the cluster and the group.
        topic: the topic's name.
        columns: the columns of the table.
        row: returns the JSON line and the cells of an answer, or None to leave the answer out.
        as_json: print JSON Lines instead of the table.
        follow: go on after the present end, until the process is interrupted.
        since: a time or an age; leave out answers that were published before. None: print all.
        limit: the largest number of rows. None: print all.
    Raises:
        StopError: `since` is neither a time nor an age, or the topic cannot be read.
    """
    since_ms = None if since is None else time_ms(since)
    count = 0
    if not as_json:
        typer.echo(columns.head())
    for published in watch(settings, [topic], follow=follow, since_ms=since_ms):
        found = None if published is None else row(published)
        if found is not None:
            line, cells = found
            if as_json:
                echo_json(line)
            else:
                typer.echo(columns.line(cells))
            count += 1
            if count == limit:
                return


_CHANGED = {"not": "unchanged", "little": "changed a little", "much": "changed much"}


def cells(verdict: Verdict) -> list[str]:
    """
    Return the cells of a verdict in a table: outcome, bits, URL, and the original or the reason.
    """
    match = verdict.duplicate_of
    url = verdict.url or verdict.doc_id
    if match is None:
        former = verdict.former_version
        told = (
            f"new version of {former.original.doc_id}, {_CHANGED[former.changed]}" if former else ""
        )
        return [verdict.outcome.value, "", url, verdict.reason or told]
    bits = "same" if match.kind.value == "exact" else str(match.distance)
    return [verdict.outcome.value, bits, url, match.original.url]


def cells_that_differ(verdict: Verdict, url_width: int | None) -> list[str]:
    """
    Return the cells of a verdict, with the URLs of a duplicate cut so that they show where they
    differ.

    Args:
        verdict: any.
        url_width: the width of each of the two URL columns; None cuts nothing.
    """
    outcome, bits, url, other = cells(verdict)
    if verdict.duplicate_of is not None and url_width is not None:
        url, other = cut_to_difference(printable(url), printable(other), url_width)
    return [outcome, bits, url, other]
