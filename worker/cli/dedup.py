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
from typing import Annotated, BinaryIO, Literal

import numpy as np
import typer
import xxhash

from worker.cli import shared
from worker.cli.options import DOCUMENTS, ENGINE, with_settings
from worker.cli.progress import counted
from worker.cli.shared import EncodingOption, FetchedAtOption, FilesArgument, QuietOption, option
from worker.core.document import Verdict
from worker.core.planner import Growth
from worker.core.search import SearchRules
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.archives import Damage, Message, Record
from worker.shell.files.archives.rows import ColumnNames
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import Answer, FileEngine, file_engine, line_of
from worker.shell.files.formats import FileFormat
from worker.shell.files.frames import verdict_writer
from worker.shell.files.keeping import Choice, Prefer, copy_documents, format_kept
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
        Prefer,
        option("With --keep: first, longest, newest, shortest-url.", "WHICH"),
    ] = "first",
    id_column: Annotated[str | None, option("Of tables and JSON: the doc_id.", "NAME")] = None,
    text_column: Annotated[str | None, option("Of tables and JSON: the text.", "NAME")] = None,
    encoding: EncodingOption = None,
    damage: Annotated[str | None, option("All damaged places, as JSON Lines.")] = None,
    quiet: QuietOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON on stdout.")
    ] = False,
) -> None:
    """
    Judge the documents of files, as a group of workers would: one verdict per line.

    What cannot be judged gets its error and its place. Where nothing can be, the exit code is 1.
    """
    outputs = [output] if duplicates is None else [output, duplicates]
    all_outputs = outputs if damage is None else [*outputs, damage]
    _check_options(files, outputs, keep, prefer)
    if as_json and STDIO in all_outputs:
        raise typer.BadParameter("--json writes its summary to stdout: name an --output")
    check_places([*files, *settings.files], all_outputs, state)
    columns = ColumnNames(id_column, text_column) if id_column or text_column else None
    reading = partial(CrawlFiles, fetched_at_default=fetched_at, columns=columns, encoding=encoding)
    crawl = reading(files)
    choice = None if keep is None else Choice(prefer, originals=keep == "revisits")
    kind = None if choice is None else format_kept(files, outputs, revisits=keep == "revisits")
    tally = _AnswerTally()
    started = time.monotonic()
    with ExitStack() as stack:
        engine = stack.enter_context(file_engine(settings, state))
        crawl.number_from = engine.next_offset
        write = None
        if choice is None:
            write = stack.enter_context(
                verdict_writer(stack.enter_context(shared.opened_output(output, ())), output)
            )
        judge = engine.answers if quiet else _watched(engine, settings.search)
        with ExitStack() as reading_stack:  # the damage is written whatever becomes of the rest
            if damage is not None:
                damaged = reading_stack.enter_context(shared.opened_lines(damage, ()))
                crawl.on_damage = partial(_write_damage, damaged)
            for record, answered in with_answers(
                shared.tracked(crawl, "judging", quiet=quiet), judge
            ):
                line = tally.take(record, answered)
                if write is not None:
                    write(line, answered)
                if choice is not None:
                    choice.take(answered.answer)
        tally.check(crawl)
        kept = None if choice is None else _copy(files, kind, choice, outputs, reading, quiet)
    if not quiet:
        tally.tell_of_replaced()
    seconds = time.monotonic() - started
    if as_json:
        typer.echo(
            json.dumps(
                shared.tally_of(crawl)
                | {"outcomes": tally.outcomes, "kept": kept, "seconds": round(seconds, 3)}
            )
        )
    elif not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(tally.outcomes.items()))
        copied = "" if kept is None else f"; {kept:,} kept in {output}"
        typer.echo(
            shared.printable(f"{shared.summary(crawl)}; {counts}{copied}; {seconds:.1f} s"),
            err=True,
        )


def _write_damage(stream: BinaryIO, damage: Damage) -> None:
    stream.write(damage.json_line())


def _watched(
    engine: FileEngine, rules: SearchRules
) -> Callable[[Iterable[Message]], Generator[Answer, None, None]]:
    """Return `engine.answers`, which says on the way that the originals outgrow their search."""
    growth = Growth(rules, "judge from the beginning with")

    def answers(messages: Iterable[Message]) -> Generator[Answer, None, None]:
        for answer in engine.answers(messages):
            notice = growth.notice(engine.replica.documents)
            if notice:
                typer.echo(notice, err=True)
            yield answer

    return answers


def _check_options(files: list[str], outputs: list[str], keep: str | None, prefer: str) -> None:
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


class _AnswerTally:
    """What the answers were, in numbers."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._first_dead = ""  # the first that could not be judged
        self._named = array("Q")  # of each document the hashes of its doc_id and of its text

    def take(self, record: Record, answered: Answer) -> bytes:
        """Count an answer; return its line of JSON."""
        outcome, line = line_of(record, answered)
        self.outcomes[outcome] += 1
        answer = answered.answer
        if isinstance(answer, Verdict):
            doc_id_hash = xxhash.xxh3_64_intdigest(answer.doc_id.encode())
            self._named.extend((doc_id_hash, answer.fingerprint or 0))
        elif not self._first_dead:
            self._first_dead = f"; {record.place}: {answer.code}: {answer.text}"
        return line

    def check(self, crawl: CrawlFiles) -> None:
        """Raise StopError if nothing could be judged."""
        if self.outcomes.total() == self.outcomes["dead-letter"]:
            summary = shared.summary(crawl)
            raise StopError(f"nothing could be judged: {summary}{self._first_dead}")

    def tell_of_replaced(self) -> None:
        """Say how many documents have the doc_id of another text."""
        ids, texts = np.frombuffer(self._named, np.uint64).reshape(-1, 2).T
        count = len(np.unique(ids * np.uint64(3) ^ texts)) - len(np.unique(ids))
        if count:
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
        tell = stack.enter_context(counted("documents", quiet=quiet))
        streams = [(stack.enter_context(shared.opened_output(name, ())), name) for name in outputs]
        return copy_documents(
            files,
            kind,
            choice,
            streams,
            reading,
            lambda done: tell("writing", done, len(choice.kept)),
        )
