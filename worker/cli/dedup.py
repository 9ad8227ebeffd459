"""`neardup dedup`: the whole pipeline over files, without Kafka."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from worker.cli import shared
from worker.cli.options import DOCUMENTS, with_settings
from worker.cli.progress import counted
from worker.cli.reading import Reading
from worker.cli.shared import (
    FilesArgument,
    KeepOption,
    PerClusterOption,
    PreferOption,
    QuietOption,
    ReferenceOption,
    StateOption,
    SummaryOption,
    option,
)
from worker.core.planner import Growth
from worker.core.search import SearchRules
from worker.settings import Settings
from worker.shell.files.account import RunAccount, told_of
from worker.shell.files.archives import Damage, Message, Record
from worker.shell.files.choice import Choice, ChoiceNotes
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import Answer, FileEngine, file_engine
from worker.shell.files.formats import FileFormat, are_pages_expected
from worker.shell.files.frames import verdict_writer
from worker.shell.files.identity import RunIdentity, files_named
from worker.shell.files.keeping import copy_documents, format_kept
from worker.shell.files.options import FileOptions
from worker.shell.files.places import (
    STDIO,
    STDOUT,
    FileStamp,
    check_outside,
    check_places,
    check_references,
    descriptor_of,
    files_of,
    is_pipe,
    shown_input,
    stamp_of,
    tell_nobody,
)
from worker.shell.files.repeats import RepeatedIds
from worker.shell.files.state import FinishedRun, RunState, opened_state


@with_settings("definition", *DOCUMENTS)
def dedup(  # noqa: PLR0913  # each is an option
    settings: Settings,
    files: FilesArgument,
    reference: ReferenceOption = None,
    *,
    reading: Reading,
    output: Annotated[
        str, option("Verdicts and errors, or documents (--keep); - is stdout.")
    ] = STDIO,
    state: StateOption = None,
    keep: KeepOption = None,
    duplicates: Annotated[str | None, option("With --keep: all other documents.")] = None,
    prefer: PreferOption = "first",
    per_cluster: PerClusterOption = 1,
    damage: Annotated[str | None, option("All damaged places, as JSON Lines.")] = None,
    quiet: QuietOption = False,
    as_json: SummaryOption = False,
) -> None:
    """
    Judge the documents of files, as a group of workers would: one verdict per line.
    """
    options = reading.options(
        keep, prefer, duplicates=duplicates is not None, per_cluster=per_cluster
    )
    outputs = [output] if duplicates is None else [output, duplicates]
    all_outputs = outputs if damage is None else [*outputs, damage]
    inputs, references = _checked_places(files, reference or [], all_outputs, state, settings)
    reading.check_columns(inputs)
    reading.check_columns(references)
    _check_read_once(inputs, keep)
    _check_json(all_outputs, as_json=as_json)
    identity = RunIdentity(
        "dedup",
        options.identity(settings.document_bytes_max),
        all_outputs,
        files_named(references),
        files_named(inputs),
    )
    job = _Job(settings, options, identity, outputs, damage, quiet=quiet)
    with ExitStack() as stack:
        known = None if state is None else stack.enter_context(opened_state(state))
        try:
            summary = job.run(known)
        except _EndedBefore as ended:
            summary = ended.run.summary
            said = f"{output}: {ended.run.told()}"
        else:
            said = told_of(summary, "stdout" if output == STDIO else output)
    if as_json:
        typer.echo(json.dumps(summary))
    elif not quiet:
        shared.notice(said)


class _EndedBefore(Exception):  # noqa: N818  # it ends a run that has nothing to do
    """The state knows this run, and its outputs are as it wrote them."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run


class _Job:
    """
    One run: references, then inputs, then outputs.

    Args:
        identity: the run as its state will remember it.
        outputs: of verdicts or documents; `damage` is another.
    """

    def __init__(
        self,
        settings: Settings,
        options: FileOptions,
        identity: RunIdentity,
        outputs: list[str],
        damage: str | None,
        *,
        quiet: bool,
    ) -> None:
        self._settings = settings
        self._options = options
        self._identity = identity
        self._inputs = [file.name for file in identity.inputs]
        self._references = [file.name for file in identity.references]
        self._outputs = outputs
        self._damage = damage
        self._quiet = quiet
        self._stamps: list[FileStamp | None] = []  # of inputs that are read twice
        self._choice: ChoiceNotes | None = None  # which documents are copied; None: none
        self._kind: FileFormat | None = None  # in which format; None: no file has a document
        if options.keep is not None:
            self._stamps = [stamp_of(name) for name in self._inputs]  # before anything is read
            self._choice = ChoiceNotes(options.preference, revisits=options.has_revisits)
            self._kind = format_kept(self._inputs, outputs, options)
        self._crawl = options.open(self._inputs)
        self._matched = options.open(self._references, is_reference=True)

    def run(self, state: RunState | None) -> dict[str, Any]:
        """
        Do all of it; return the summary.

        Raises:
            _EndedBefore: the state knows this run, and there is nothing to do.
        """
        started = time.monotonic()
        names = (*self._inputs, *self._references)
        has_pipes = any(map(is_pipe, names))  # what comes through one is not known before
        with_pages = are_pages_expected(names)
        opened = partial(file_engine, self._settings, state, with_pages=with_pages)
        with opened() as engine:  # it checks the state
            if state is not None and not has_pipes:
                self._look_for(state)
            if state is None or state.again is None:
                return self._judge(engine, state, started, has_pipes=has_pipes)
        with opened() as engine:  # from the snapshot before
            return self._judge(engine, state, started, has_pipes=False)

    def _judge(
        self, engine: FileEngine, state: RunState | None, started: float, *, has_pipes: bool
    ) -> dict[str, Any]:
        """Judge everything, and write the outputs. Returns the summary."""
        self._crawl.is_digested = self._matched.is_digested = state is not None
        summary = self._write(engine, state if has_pipes else None)
        summary["seconds"] = round(time.monotonic() - started, 3)
        if state is not None:
            read = self._crawl.digests, self._matched.digests
            state.finished = FinishedRun.of(
                self._identity, *read, state.base, summary, time.time_ns() // 1_000_000
            )
        return summary

    def _look_for(self, state: RunState) -> None:
        """Look for this run and its inputs in the state, and say what it knows of them."""
        tell = tell_nobody if self._quiet else shared.notice
        read = (*self._crawl.digests, *self._matched.digests)
        done = state.find(self._identity, tell, read)
        if done is not None:
            raise _EndedBefore(done)

    def _write(self, engine: FileEngine, state: RunState | None) -> dict[str, Any]:
        """Judge, and write the outputs. `state`: what came through pipes is looked for in it."""
        crawl = self._crawl
        matched = self._matched
        choice = self._choice
        quiet = self._quiet
        outcomes: Counter[str] = Counter()
        kept = None
        with ExitStack() as stack:
            write = None
            if choice is None:
                write = stack.enter_context(verdict_writer(self._outputs[0]))
            judge = engine.answers if quiet else _watched(engine, self._settings.search)
            with _damage_written(self._damage, crawl, matched):
                if self._references:
                    _judge_references(engine, matched, judge, quiet=quiet)
                repeated = RepeatedIds(engine.begin(crawl))
                records = shared.tracked(crawl, "judging", quiet=quiet)
                stack.enter_context(engine.noting(repeated.take))
                if choice is not None:
                    stack.enter_context(engine.noting(choice.take_expected))
                    records = _expected_by(choice, records)
                for record, answered in with_answers(records, judge):
                    outcomes[answered.outcome] += 1
                    if answered.error is not None:
                        crawl.tally.note_dead(record.place, answered.error)
                    if write is not None:
                        write(record, answered)
                if state is not None:
                    self._look_for(state)
            crawl.tally.check_judged()
            if choice is not None:
                choice.check()
                kept = self._copy(choice.choice())
        if not quiet:
            names = engine.names
            named_apart = names.count, names.positions
            shared.tell_of_ids(repeated.repeats(), named_apart, self._options.id_column)
        unscored = None if choice is None else choice.unscored_said
        kept_before = None if choice is None else choice.kept_before
        account = RunAccount(
            crawl.tally,
            matched.tally,
            outcomes,
            repeated.redelivered,
            engine.names.count,
            kept,
            unscored,
            kept_before,
        )
        return account.summary()

    def _copy(self, choice: Choice) -> int:
        """Write the documents that are kept, and the others; return how many are kept."""
        with counted("documents", quiet=self._quiet) as tell:
            return copy_documents(
                self._inputs,
                self._kind,
                choice,
                self._outputs,
                self._options,
                lambda done: tell("writing", done, len(choice.kept)),
                stamps=self._stamps,
            )


@contextmanager
def _damage_written(path: str | None, *crawls: CrawlFiles) -> Iterator[None]:
    """Write the list of damaged places to `--damage`, if given, even if the command fails later."""
    if path is None:
        yield
        return
    with shared.opened_lines(path) as stream:
        for crawl in crawls:
            crawl.on_damage = partial(_write_damage, stream)
        yield


def _expected_by(choice: ChoiceNotes, records: Iterable[Record]) -> Iterator[Record]:
    """Yield records, and note what a choice needs of each."""
    for record in records:
        choice.expect(record.score)
        yield record


def _judge_references(
    engine: FileEngine,
    references: CrawlFiles,
    judge: Callable[[Iterable[Message]], Iterable[Answer]],
    *,
    quiet: bool,
) -> None:
    """
    Judge the documents that others are matched against, and say of none what it is.

    Raises:
        StopError: none could be judged.
    """
    engine.begin(references)
    records = shared.tracked(references, "references", quiet=quiet)
    for record, answered in with_answers(records, judge):
        if answered.error is not None:
            references.tally.note_dead(record.place, answered.error)
    references.tally.check_judged("no reference")


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


def _checked_places(
    names: list[str],
    reference_names: list[str],
    outputs: list[str],
    state: Path | None,
    settings: Settings,
) -> tuple[list[str], list[str]]:
    """
    Return the files to judge and those to match against.

    Raises:
        StopError: a name stands for no file; two places are one; an output or the state would be
            read, by this run or by a later one.
    """
    inputs = files_of(names, shared.notice)
    references = files_of(reference_names, shared.notice)
    check_places([*inputs, *references, *settings.files], outputs, {"--state": state})
    check_outside([*names, *reference_names], outputs, [] if state is None else [state])
    check_references(inputs, references)
    return inputs, references


def _check_read_once(files: list[str], keep: str | None) -> None:
    once = [name for name in files if is_pipe(name)]
    if keep is not None and once:
        raise typer.BadParameter(
            f"--keep reads its files twice, and {shown_input(once[0])} can be read only once: name "
            "a file"
        )


def _check_json(all_outputs: list[str], *, as_json: bool) -> None:
    if as_json and STDOUT in map(descriptor_of, all_outputs):
        raise typer.BadParameter("--json writes its summary to stdout: name an --output")
