"""`neardup verdicts`: subscribe to the answers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import app
from worker.cli.options import with_settings
from worker.settings import ConnectionSettings, Settings

if TYPE_CHECKING:
    from worker.core.verdict import Verdict


class Format(StrEnum):
    """How verdicts are printed."""

    TABLE = "table"
    JSONL = "jsonl"


class Only(StrEnum):
    """Which verdicts are printed."""

    NEW = "new"
    DUPLICATE = "duplicate"
    SKIPPED = "skipped"
    DELETED = "deleted"


@app.command()
@with_settings(ConnectionSettings)
def verdicts(
    settings: Settings,
    follow: Annotated[bool, typer.Option("--follow", help="Go on after the present end, until Ctrl-C.")] = False,
    output: Annotated[Format, typer.Option("--format", help="A table for people, or JSON Lines.")] = Format.TABLE,
    only: Annotated[Only | None, typer.Option("--only", help="Only these verdicts.")] = None,
) -> None:
    """Print the committed verdicts, from the beginning of the topic."""
    from worker.core.verdict import Verdict  # noqa: PLC0415
    from worker.shell.watch import watch  # noqa: PLC0415

    if output is Format.TABLE:
        typer.echo(f"{'verdict':<9}  {'bits':>4}  {'url':<60}  duplicate of")
    try:
        for seen in watch(settings, follow=follow, dead_letters=False):
            if seen is None or not isinstance(seen.answer, Verdict):
                continue
            if only is not None and seen.answer.outcome.value != only.value:
                continue
            typer.echo(seen.value.decode() if output is Format.JSONL else _line(seen.answer))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _line(verdict: Verdict) -> str:
    match = verdict.duplicate_of
    url = verdict.url or verdict.doc_id
    if match is None:
        return f"{verdict.outcome.value:<9}  {'':>4}  {_cut(url, 60):<60}  {verdict.reason or ''}".rstrip()
    bits = "same" if match.kind.value == "exact" else str(match.distance)
    return f"{verdict.outcome.value:<9}  {bits:>4}  {_cut(url, 60):<60}  {match.original.url}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
