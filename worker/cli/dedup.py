"""`neardup dedup`: the whole pipeline over files, without Kafka."""

from __future__ import annotations

import json
import time
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
import xxhash

from worker.cli import shared
from worker.cli.options import DOCUMENTS, ENGINE, with_settings
from worker.cli.shared import EncodingOption, FetchedAtOption, FilesArgument, QuietOption, option
from worker.core.document import Verdict
from worker.core.planner import Growth
from worker.core.search import SearchRules
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.archives import Message
from worker.shell.files.archives.rows import ColumnNames
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import Answer, FileEngine, file_engine, line_of
from worker.shell.files.formats import FileFormat
from worker.shell.files.frames import verdict_writer
from worker.shell.files.keeping import Choice, copy_documents, format_kept
from worker.shell.files.places import STDIO, check_places


@with_settings(*ENGINE, *DOCUMENTS, "record_bytes_max")
def dedup(  # noqa: PLR0913, PLR0917  # each is an option
    settings: Settings,
    files: FilesArgument,
    fetched_at: FetchedAtOption = None,
    output: Annotated[str, option("Verdicts, with --keep documents; - is stdout.")] = STDIO,
    state: Annotated[Path | None, option("Go on where the last run with it ended.", "DIR")] = None,
    keep: Annotated[
        Literal["new", "revisits"] | None,
        option("Write the documents that stay, unchanged.", "new|revisits"),
    ] = None,
    duplicates: Annotated[str | None, option("With --keep: all other documents.")] = None,
    prefer: Annotated[
        Literal["first", "longest", "newest"],
        option("With --keep: of each cluster.", "first|longest|newest"),
    ] = "first",
    id_column: Annotated[
        str | None, option("Of Parquet, JSON Lines, CSV: the doc_id.", "NAME")
    ] = None,
    text_column: Annotated[
        str | None, option("Of Parquet, JSON Lines, CSV: the text.", "NAME")
    ] = None,
    encoding: EncodingOption = None,
    quiet: QuietOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The summary as JSON, on stdout.")
    ] = False,
) -> None:
    """
    Judge the documents of files, as a group of workers would: one verdict per line.

    What cannot be judged gets a line with its error and its place. When nothing could be judged the
    exit code is 1, and no output is made. --keep writes documents in the format they came in,
    compressed as the name says; with "revisits" a WARC revisit record for each duplicate.
    """
    outputs = [output] if duplicates is None else [output, duplicates]
    _check_options(files, outputs, keep, prefer, as_json)
    check_places([*files, *settings.files], outputs, state)
    columns = ColumnNames(id_column, text_column) if id_column or text_column else None
    reading = partial(CrawlFiles, fetched_at_default=fetched_at, columns=columns, encoding=encoding)
    crawl = reading(files)
    choice = None if keep is None else Choice(prefer, originals=keep == "revisits")
    kind = None if choice is None else format_kept(files, outputs, revisits=keep == "revisits")
    outcomes: Counter[str] = Counter()
    dead = ""  # the first that could not be judged
    named = array("Q")
    started = time.monotonic()
    with ExitStack() as stack:
        engine = stack.enter_context(file_engine(settings, state))
        crawl.number_from = engine.next_offset
        write = None
        if choice is None:
            write = stack.enter_context(
                verdict_writer(stack.enter_context(shared.opened_output(output, ())), output)
            )
        for record, answered in with_answers(
            shared.tracked(crawl, "judging", quiet=quiet), _watched(engine, settings.search, quiet)
        ):
            outcome, line = line_of(record, answered)
            answer = answered.answer
            if isinstance(answer, Verdict):
                named.extend(
                    (xxhash.xxh3_64_intdigest(answer.doc_id.encode()), answer.fingerprint or 0)
                )
            else:
                dead = dead or f"; {record.place}: {answer.code}: {answer.text}"
            outcomes[outcome] += 1
            if write is not None:
                write(line, answered)
            if choice is not None:
                choice.take(answer)
        if outcomes.total() == outcomes["dead-letter"]:
            raise StopError(f"nothing could be judged: {shared.summary(crawl)}{dead}")
        kept = None if choice is None else _copy(files, kind, choice, outputs, reading, quiet)
    _tell_of_replaced(named, quiet)
    seconds = time.monotonic() - started
    if as_json:
        typer.echo(
            json.dumps(
                shared.tally_of(crawl)
                | {"outcomes": outcomes, "kept": kept, "seconds": round(seconds, 3)}
            )
        )
    elif not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        copied = "" if kept is None else f"; {kept:,} kept in {output}"
        typer.echo(
            shared.printable(f"{shared.summary(crawl)}; {counts}{copied}; {seconds:.1f} s"),
            err=True,
        )


def _watched(
    engine: FileEngine, rules: SearchRules, quiet: bool
) -> Callable[[Iterable[Message]], Generator[Answer, None, None]]:
    """Return `engine.answers`, which says on the way that the originals outgrow their search."""
    growth = Growth(rules, "judge from the beginning with")

    def answers(messages: Iterable[Message]) -> Generator[Answer, None, None]:
        for answer in engine.answers(messages):
            notice = growth.notice(engine.replica.documents)
            if notice and not quiet:
                typer.echo(notice, err=True)
            yield answer

    return answers


def _check_options(
    files: list[str], outputs: list[str], keep: str | None, prefer: str, as_json: bool
) -> None:
    if keep is None and (len(outputs) > 1 or prefer != "first"):
        raise typer.BadParameter("--duplicates and --prefer want --keep new")
    if keep == "revisits" and prefer != "first":
        raise typer.BadParameter(
            "--keep revisits names originals, the first of their clusters: leave --prefer out"
        )
    if keep is not None and STDIO in files:
        raise typer.BadParameter(
            "--keep reads its files twice, and stdin can be read once: name a file"
        )
    if as_json and STDIO in outputs:
        raise typer.BadParameter("--json writes its summary to stdout: name an --output")


def _tell_of_replaced(named: array[int], quiet: bool) -> None:
    """
    Say how many documents have the doc_id of another text; of each there are two hashes, of its
    doc_id and text.
    """
    ids, texts = np.frombuffer(named, np.uint64).reshape(-1, 2).T
    count = len(np.unique(ids * np.uint64(3) ^ texts)) - len(np.unique(ids))
    if count and not quiet:
        again = f"{count:,} documents have the doc_id of an earlier one, and another text"
        typer.echo(
            f"{again}: each took its place. Where ids are not unique, name another --id-column",
            err=True,
        )


def _copy(
    files: list[str],
    kind: FileFormat | None,
    choice: Choice,
    outputs: list[str],
    reading: Callable[..., CrawlFiles],
    quiet: bool,
) -> int:
    """Write the documents that stay, and the others; return how many stay."""
    with ExitStack() as stack:
        tell = stack.enter_context(shared.counted("documents", quiet=quiet))
        streams = [(stack.enter_context(shared.opened_output(name, ())), name) for name in outputs]
        return copy_documents(
            files,
            kind,
            choice,
            streams,
            reading,
            lambda done: tell("writing", done, len(choice.kept)),
        )
