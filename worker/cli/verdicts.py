"""`neardup verdicts` prints the verdicts of a group, or its dead letters."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from worker.cli.options import with_cluster
from worker.cli.shared import (
    LinesOption,
    TableColumn,
    TableColumns,
    cut_to_difference,
    echo_json,
    notice,
    printable,
    terminal_width,
)
from worker.core.document import Verdict
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.watch import watch
from worker.shell.messages import DeadLetter
from worker.shell.times import time_ms

Only = Literal["new", "duplicate", "skipped", "deleted", "dead"]
# A doc_id that neardup derives has 32 characters, which only a wide terminal shows. `explain` also
# takes the beginning of one.
_DOC_ID_WIDTH = 12
_DOC_ID_WIDTH_MAX = 32
_WIDE = 120  # columns of a terminal
_OF_LETTERS = (
    TableColumn("class", 19),
    TableColumn("source", 15, is_right=True),
    TableColumn("doc_id"),
    TableColumn("reason"),
)


def _of_verdicts() -> tuple[TableColumn, ...]:
    is_wide = (terminal_width() or _WIDE) >= _WIDE
    return (
        TableColumn("verdict", 9),
        TableColumn("bits", 4, is_right=True),
        TableColumn("doc_id", _DOC_ID_WIDTH_MAX if is_wide else _DOC_ID_WIDTH),
        TableColumn("url"),
        TableColumn("duplicate of"),
    )


def _since_ms(since: str) -> int:
    """Return what --since says as Unix milliseconds. Raises BadParameter: it is no time."""
    try:
        return time_ms(since)
    except StopError as error:
        raise typer.BadParameter(str(error)) from None


@with_cluster("group", "topic_verdicts", "topic_dead_letter")
def verdicts(
    settings: Settings,
    follow: Annotated[
        bool, typer.Option("--follow", help="At the end of the topic, wait for more until Ctrl-C.")
    ] = False,
    as_json: LinesOption = False,
    only: Annotated[
        Only | None,
        typer.Option(
            "--only",
            help=(
                "Print only verdicts of this kind. dead: the dead letters, documents that could "
                "not be judged, and why."
            ),
        ),
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option(help="Print only those of this doc_id or URL.")
    ] = None,
    since_ms: Annotated[
        int | None,
        typer.Option(
            "--since",
            parser=_since_ms,
            metavar="TIME|AGE",
            help="Only what was published since a time (2026-01-31T12:00:00Z) "
            "or an age (90s, 15m, 2h, 7d).",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Print at most this many.", min=1)] = None,
) -> None:
    """
    Print the committed verdicts, from the beginning of the topic.

    You can copy a doc_id into `neardup explain`, even if it is cut off here.
    """
    is_dead = only == "dead"
    topic = settings.topic_dead_letter if is_dead else settings.topic_verdicts
    columns = TableColumns(*(_OF_LETTERS if is_dead else _of_verdicts()))
    count = 0

    def begin(_: int) -> None:  # not before: there may be no such topic
        if not as_json:
            typer.echo(columns.head())

    for published in watch(settings, [topic], follow=follow, since_ms=since_ms, on_start=begin):
        answer = None if published is None else published.answer
        if published is None or not _is_wanted(answer, only, doc_id):
            continue
        if as_json:
            echo_json(answer.line() if isinstance(answer, DeadLetter) else published.value)
        else:
            typer.echo(columns.line(_row(answer, columns)))
        count += 1
        if count == limit:
            return
    if not count:
        is_part = doc_id is not None or since_ms is not None or only not in (None, "dead")
        such = "such " if is_part else ""
        notice(f"there is no {such}{'dead letter' if is_dead else 'verdict'} in {topic}")


def _is_wanted(answer: Verdict | DeadLetter | None, only: Only | None, doc_id: str | None) -> bool:
    """Return whether an answer is of the kind and of the document that were asked for."""
    if isinstance(answer, DeadLetter):
        return only == "dead" and doc_id in (None, answer.doc_id)
    if answer is None or only not in (None, answer.outcome.value):
        return False
    return doc_id in (None, answer.doc_id, answer.url)


def _row(answer: Verdict | DeadLetter | None, columns: TableColumns) -> list[str]:
    if isinstance(answer, DeadLetter):
        source = f"[{answer.source_partition}] {answer.source_offset}"
        return [answer.code, source, answer.doc_id or "", answer.text]
    assert answer is not None, "nothing is no answer that is wanted"
    outcome, bits, *urls = cells_that_differ(answer, columns.width_of("url"))
    return [outcome, bits, answer.doc_id, *urls]


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
