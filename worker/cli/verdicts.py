"""`neardup verdicts`: a group's verdicts, as they are committed; and how answers are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import typer

from worker.cli.options import with_cluster
from worker.cli.shared import TableColumn, TableColumns, cut_to_difference, echo_json, printable
from worker.core.document import Verdict
from worker.settings import Settings
from worker.shell.admin.watch import PublishedAnswer, time_ms, watch

Format = Literal["table", "jsonl"]
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
FormatOption = Annotated[
    Format, typer.Option("--format", help="A table for people, or JSON Lines.")
]


@with_cluster("group", "topic_verdicts")
def verdicts(
    settings: Settings,
    follow: FollowOption = False,
    output: FormatOption = "table",
    only: Annotated[
        Only | None, typer.Option("--only", help="Print only verdicts of this kind.")
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option(help="Print only verdicts of this doc_id or URL.")
    ] = None,
    since: SinceOption = None,
    limit: LimitOption = None,
) -> None:
    """Print the committed verdicts, from the beginning of the topic."""

    def row(published: PublishedAnswer) -> tuple[bytes, list[str]] | None:
        answer = published.answer
        if not isinstance(answer, Verdict) or only not in (None, answer.outcome.value):
            return None
        if doc_id in (None, answer.doc_id, answer.url):
            return published.value, cells_that_differ(answer, columns.width_of("url"))
        return None

    columns = TableColumns(
        TableColumn("verdict", 9),
        TableColumn("bits", 4, is_right=True),
        TableColumn("url"),
        TableColumn("duplicate of"),
    )
    print_published(settings, settings.topic_verdicts, columns, row, output, follow, since, limit)


def print_published(
    settings: Settings,
    topic: str,
    columns: TableColumns,
    row: Callable[[PublishedAnswer], tuple[bytes, list[str]] | None],
    output: Format,
    follow: bool,
    since: str | None,
    limit: int | None,
) -> None:
    """
    Print what was published on a topic, as a table or as JSON Lines.

    Args:
        settings: the cluster and the group.
        topic: its name.
        columns: of the table.
        row: returns the JSON line and the cells of an answer; None: it is not asked for.
        output: a table for people, or JSON Lines.
        follow: go on after the present end, until the process is interrupted.
        since: only what was published since then, a time or an age; None: all.
        limit: rows at most; None: all.
    Raises:
        StopError: `since` is neither, or the topic cannot be read.
    """
    since_ms = None if since is None else time_ms(since)
    count = 0
    if output == "table":
        typer.echo(columns.head())
    for published in watch(settings, [topic], follow=follow, since_ms=since_ms):
        found = None if published is None else row(published)
        if found is not None:
            line, cells = found
            if output == "jsonl":
                echo_json(line)
            else:
                typer.echo(columns.line(cells))
            count += 1
            if count == limit:
                return


_CHANGED = {"not": "unchanged", "little": "changed a little", "much": "changed much"}


def cells(verdict: Verdict) -> list[str]:
    """
    Return what a table shows of a verdict: outcome, bits, URL, and the original or the reason.
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
        url_width: of each of the two columns; None: nothing is cut.
    """
    outcome, bits, url, other = cells(verdict)
    if verdict.duplicate_of is not None and url_width is not None:
        url, other = cut_to_difference(printable(url), printable(other), url_width)
    return [outcome, bits, url, other]
