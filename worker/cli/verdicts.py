"""`neardup verdicts` and `neardup dead-letters`: subscribe to the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from worker.cli import app
from worker.cli.options import with_cluster
from worker.cli.shared import Column, Columns
from worker.core.verdict import Verdict
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.shell.admin.watch import PublishedAnswer


Format = Literal["table", "jsonl"]
Only = Literal["new", "duplicate", "skipped", "deleted"]
FollowOption = Annotated[bool, typer.Option("--follow", help="Go on after the present end, until Ctrl-C.")]
SinceOption = Annotated[
    str | None, typer.Option(help="Only what was published since: 2026-01-31T12:00:00Z, or 90s, 15m, 2h, 7d ago.")
]
LimitOption = Annotated[int | None, typer.Option(help="At most so many.", min=1)]
FormatOption = Annotated[Format, typer.Option("--format", help="A table for people, or JSON Lines.")]


@app.command()
@with_cluster("group", "topic_verdicts")
def verdicts(
    settings: Settings,
    follow: FollowOption = False,
    output: FormatOption = "table",
    only: Annotated[Only | None, typer.Option("--only", help="Only these verdicts.")] = None,
    doc_id: Annotated[str | None, typer.Option(help="Only those of this doc_id or URL.")] = None,
    since: SinceOption = None,
    limit: LimitOption = None,
) -> None:
    """Print the committed verdicts, from the beginning of the topic."""

    def row(published: PublishedAnswer) -> tuple[bytes, list[str]] | None:
        answer = published.answer
        if not isinstance(answer, Verdict) or only not in (None, answer.outcome.value):
            return None
        if doc_id in (None, answer.doc_id, answer.url):
            return published.value, cells(answer)
        return None

    columns = Columns(Column("verdict", 9), Column("bits", 4, is_right=True), Column("url"), Column("duplicate of"))
    _print(settings, settings.topic_verdicts, columns, row, output, follow, since, limit)


@app.command("dead-letters")
@with_cluster("group", "topic_dead_letter")
def dead_letters(
    settings: Settings,
    follow: FollowOption = False,
    output: FormatOption = "table",
    since: SinceOption = None,
    limit: LimitOption = None,
) -> None:
    """Print what could not be judged, with class, source, doc_id and reason."""
    from worker.shell.messages import DeadLetter  # noqa: PLC0415

    def row(published: PublishedAnswer) -> tuple[bytes, list[str]] | None:
        letter = published.answer
        if not isinstance(letter, DeadLetter):
            return None
        source = f"[{letter.source_partition}] {letter.source_offset}"
        return letter.line(), [letter.code, source, letter.doc_id or "", letter.text]

    columns = Columns(Column("class", 19), Column("source", 15, is_right=True), Column("doc_id"), Column("reason"))
    _print(settings, settings.topic_dead_letter, columns, row, output, follow, since, limit)


def _print(
    settings: Settings,
    topic: str,
    columns: Columns,
    row: Callable[[PublishedAnswer], tuple[bytes, list[str]] | None],
    output: Format,
    follow: bool,
    since: str | None,
    limit: int | None,
) -> None:
    """Print each message for which `row` gives a JSON line and cells."""
    from worker.shell.admin.watch import time_ms, watch  # noqa: PLC0415

    since_ms = None if since is None else time_ms(since)
    count = 0
    if output == "table":
        typer.echo(columns.head())
    for published in watch(settings, [topic], follow=follow, since_ms=since_ms):
        found = None if published is None else row(published)
        if found is not None:
            typer.echo(found[0] if output == "jsonl" else columns.line(found[1]))
            count += 1
            if count == limit:
                return


_CHANGED = {"not": "unchanged", "little": "changed a little", "much": "changed much"}


def cells(verdict: Verdict) -> list[str]:
    """Return what a table shows of a verdict: outcome, bits, URL, and the original or the reason."""
    match, url = verdict.duplicate_of, verdict.url or verdict.doc_id
    if match is None:
        former = verdict.former_version
        told = f"new version of {former.original.doc_id}, {_CHANGED[former.changed]}" if former else ""
        return [verdict.outcome.value, "", url, verdict.reason or told]
    bits = "same" if match.kind.value == "exact" else str(match.distance)
    return [verdict.outcome.value, bits, url, match.original.url]
