"""`neardup dedup`: the whole pipeline over files, without Kafka."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli import app
from worker.cli.lines import FetchedAtOption, FilesArgument, QuietOption, opened_output
from worker.cli.options import DOCUMENTS, ENGINE, with_settings
from worker.cli.progress import counted, report_damage, summary, tally_of, tracked
from worker.core.verdict import Verdict
from worker.errors import StopError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.shell.files.keeping import Choice

_STDIO = "-"


def _file(text: str, metavar: str = "FILE") -> Any:
    return typer.Option(metavar=metavar, help=text, show_default=False)


@app.command()
@with_settings(*ENGINE, *DOCUMENTS, "record_bytes_max")
def dedup(  # noqa: PLR0913, PLR0917  # each is an option
    settings: Settings,
    files: FilesArgument,
    fetched_at: FetchedAtOption = None,
    output: Annotated[str, _file("Verdicts, with --keep documents; - is stdout.")] = _STDIO,
    state: Annotated[Path | None, _file("Go on where the last run with it ended.", "DIR")] = None,
    keep: Annotated[
        Literal["new", "revisits"] | None, _file("Write the documents that stay, unchanged.", "new|revisits")
    ] = None,
    duplicates: Annotated[str | None, _file("With --keep: all other documents.")] = None,
    prefer: Annotated[
        Literal["first", "longest", "newest"], _file("With --keep: of each cluster.", "first|longest|newest")
    ] = "first",
    id_column: Annotated[str | None, _file("Of Parquet, JSON Lines: the doc_id.", "NAME")] = None,
    text_column: Annotated[str | None, _file("Of Parquet, JSON Lines: the text.", "NAME")] = None,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON, on stdout.")] = False,
) -> None:
    """
    Judge the documents of files, as a group of workers would: a verdict a line.

    What cannot be judged gets a line with its error and its place. When nothing could be judged the exit code is 1,
    and no output is made. --keep writes documents in the format they came in, compressed as the name says; with
    "revisits" a WARC revisit record for each duplicate.
    """
    from worker.shell.files.crawl import CrawlFiles, with_answers  # noqa: PLC0415
    from worker.shell.files.engine import file_engine, line_of  # noqa: PLC0415
    from worker.shell.files.keeping import Choice  # noqa: PLC0415
    from worker.shell.files.rows import ColumnNames  # noqa: PLC0415

    if keep is None and (duplicates or prefer != "first"):
        raise typer.BadParameter("--duplicates and --prefer want --keep new")
    if keep == "revisits" and prefer != "first":
        raise typer.BadParameter("--keep revisits names originals, the first of their clusters: leave --prefer out")
    if keep is not None and _STDIO in files:
        raise typer.BadParameter("--keep reads its files twice, and stdin can be read once: name a file")
    if as_json and _STDIO in (output, duplicates):
        raise typer.BadParameter("--json writes its summary to stdout: name an --output")
    columns = ColumnNames(id_column, text_column) if id_column or text_column else None
    crawl = CrawlFiles(files, report_damage, fetched_at_default=fetched_at, columns=columns)
    choice = None if keep is None else Choice(prefer, originals=keep == "revisits")
    outcomes: Counter[str] = Counter()
    dead = ""  # the first that could not be judged
    started = time.monotonic()
    with ExitStack() as stack:
        engine = stack.enter_context(file_engine(settings, state))
        stream = stack.enter_context(opened_output(output, files)) if choice is None else None
        for record, answered in with_answers(tracked(crawl, "judging", quiet=quiet), engine.judge):
            outcome, line = line_of(record, answered)
            if not isinstance(answered.answer, Verdict):
                dead = dead or f"; {record.place}: {answered.answer.code}: {answered.answer.text}"
            outcomes[outcome] += 1
            if stream is not None:
                stream.write(line + b"\n")
            if choice is not None:
                choice.take(answered.answer)
        if outcomes.total() == outcomes["dead-letter"]:
            raise StopError(f"nothing could be judged: {summary(crawl)}{dead}")
        kept = None if choice is None else _copy(files, choice, output, duplicates, fetched_at, quiet)
    seconds = time.monotonic() - started
    if as_json:
        typer.echo(json.dumps(tally_of(crawl) | {"outcomes": outcomes, "kept": kept, "seconds": round(seconds, 3)}))
    elif not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        copied = "" if kept is None else f"; {kept:,} kept in {output}"
        typer.echo(f"{summary(crawl)}; {counts}{copied}; {seconds:.1f} s", err=True)


def _copy(
    files: list[str], choice: Choice, output: str, duplicates: str | None, fetched_at: str | None, quiet: bool
) -> int:
    """Write the documents that stay, and the others; return how many stay."""
    from worker.shell.files.keeping import Output, copy_documents  # noqa: PLC0415

    with ExitStack() as stack:
        tell = stack.enter_context(counted("documents", quiet=quiet))
        kept, others = (
            None
            if name is None
            else stack.enter_context(
                closing(Output(stack.enter_context(opened_output(name, files)), "stdout" if name == _STDIO else name))
            )
            for name in (output, duplicates)
        )
        assert kept is not None
        copy_documents(files, choice, kept, others, fetched_at, lambda done: tell("writing", done, len(choice.kept)))
    return kept.documents
