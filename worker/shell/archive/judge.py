"""
What becomes of each row: one task judges them all in their order, then a task a file writes its verdicts.

    rows/*.parquet ──► cut into batches as `dedup` cuts them ──► Replica ──► judge/answers-FIRST-STOP.npz
                                                                    └──► judge/snapshot-….ndsnap, now and then
    rows/000000.parquet + judge/answers-… ──► verdicts/000000.jsonl.zst      kept/ duplicates/  000000-NAME

The judge has the log's own state machine read the rows, so its verdicts are those of one machine that judges in order,
by construction. An answer names its original by its row in a small store of originals beside the answers, which has all
that a verdict says of them: the tasks that write verdicts need nothing else, and nothing is joined or shuffled. Columns
that finding does not need lie in files of the task's own disk (TMPDIR).

With `--prefer longest` or `newest` one task chooses in between: which of a cluster stays depends on all of it.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.errors import DocumentError, StopError
from worker.log.coverage import Span
from worker.log.judge import JUDGEMENT_COLUMNS, JudgedRows, Judgements
from worker.log.originals import CONTENT, OriginalStore
from worker.log.record import Author, Record, Rows
from worker.log.rules import Definition
from worker.log.texts import Texts
from worker.shell.archive.rows import cut_rows, read_rows
from worker.shell.archive.run import Run
from worker.shell.checkpoint import Checkpoint, locked
from worker.shell.files import archives
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import LOG, TOPIC, Answer, FileEngine, line_of
from worker.shell.files.frames import verdict_writer
from worker.shell.files.keeping import Choice, Prefer, copy_documents, format_kept
from worker.shell.files.places import written
from worker.shell.messages import encode_answers
from worker.shell.pipeline.prepare import Preparer

ANSWERS = 1 << 16  # rows of a file of answers, and what a batch has more
SNAPSHOT_ROWS_MIN = 1 << 21  # between two snapshots; at least half of the originals, so that all write twice the last
_ANY = archives.Record("", 0, None, b"")  # of what has a verdict nobody asks for its place


def judge_rows(run: Run, _: int) -> dict[str, Any]:
    """
    Judge the rows of all inputs, from where a snapshot ends on. StopError: another task does, or the disk is full.

    Memory: that of a worker with `state_dir`, an original some 140 bytes. Disk: snapshots and files of originals, some
    190 bytes and the texts of each; two snapshots are kept.
    """
    settings, folder = run.settings, run.path("judge", "")
    with locked(folder), Preparer(settings) as preparer:
        scratch = Path(tempfile.gettempdir())
        checkpoint = Checkpoint(folder, settings.definition, LOG, "judge", math.inf, scratch=scratch)
        replica = checkpoint.restore(has_log=False)
        engine = FileEngine(replica, preparer, settings, lambda: run.started_at_ms)
        for path, first, _stop in answer_files(run):
            if first >= engine.next_offset:
                path.unlink()
        begin = saved_at = engine.next_offset
        noted = _Notes(begin)
        numbers = [number for number in range(len(run.inputs)) if run.firsts[number + 1] > begin]
        left = ((group.rows, group.sizes) for number in numbers for group in read_rows(run, number, begin))
        for rows in cut_rows(left, settings.batch_documents_max, settings.batch_bytes_max):
            engine.judge_rows(rows, noted.take)
            is_due = engine.next_offset - saved_at >= max(SNAPSHOT_ROWS_MIN, replica.documents // 2)
            if engine.next_offset - noted.first >= ANSWERS or is_due:
                noted.write(run, engine.next_offset)
                noted = _Notes(engine.next_offset)
            if is_due:
                _save(checkpoint, engine)
                saved_at = engine.next_offset
        noted.write(run, engine.next_offset)
        _save(checkpoint, engine)
        return {"originals": replica.documents, "next_offset": engine.next_offset}


def _save(checkpoint: Checkpoint, engine: FileEngine) -> None:
    if not checkpoint.save(engine.replica):
        raise StopError(f"no snapshot could be written to {checkpoint.folder}: free some space and run this again")


def answer_files(run: Run) -> list[tuple[Path, int, int]]:
    """Return the files of answers, in order: each with the documents that it answers."""
    found = sorted((run.folder / "judge").glob("answers-*.npz"))
    return [(path, *map(int, path.stem.split("-")[1:])) for path in found]  # type: ignore[misc]


class _Notes:
    """What is decided from one file of answers to the next."""

    def __init__(self, first: int) -> None:
        self.first = first  # document
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._texts: list[Texts] = []
        self._originals = 0

    def take(self, rows: JudgedRows, held: OriginalStore, _d: Definition, _p: int, _t: str) -> list[int]:
        """Note the answers to some rows, and all that they say of originals: `replica.answers` calls it."""
        judged = rows.judged
        named, places = np.unique(np.concatenate([judged.originals, judged.formers]), return_inverse=True)
        none = int(np.searchsorted(named, 0))
        places = np.where(places < none, -1, places - none + self._originals)
        named = named[none:]
        originals, formers = np.split(places, 2)
        columns: dict[str, NDArray[Any]] = {name: getattr(judged, name) for name in JUDGEMENT_COLUMNS}
        columns |= {"originals": originals, "formers": formers}
        columns["log_offsets"] = np.full(len(originals), rows.log_offset)
        columns |= {f"original_{name}": getattr(held, name).take(named) for name in ("times", *CONTENT)}
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(values)
        both = Texts.joined(held.texts.take(named))
        self._texts.append(both.take(np.arange(len(both)).reshape(2, -1).T.ravel()))
        self._originals += len(named)
        return rows.offsets()

    def write(self, run: Run, stop: int) -> None:
        """Write a file of answers, if there are any: those to the documents before `stop`."""
        if stop == self.first:
            return
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        texts = Texts.joined(self._texts)
        columns["original_text_begins"] = np.concatenate([[0], texts.ends[:-1]])[: len(texts)]
        columns["original_text_bytes"] = texts.data[: texts.ends[-1] if len(texts) else 0]
        name = f"answers-{self.first:015}-{stop:015}.npz"
        with written(run.path("judge", name)) as stream:
            np.savez(stream, **columns)  # type: ignore[arg-type]  # columns by name


class Answers:
    """A file of answers: which documents it answers, and how."""

    def __init__(self, path: Path, search: SearchRules) -> None:
        with np.load(path) as file:
            columns = dict(file)
        beside = {name.removeprefix("original_"): columns.pop(name) for name in list(columns) if "original_" in name}
        ones = np.ones(len(beside["times"]), np.uint8)
        self.held = OriginalStore(search)
        self.held.load(beside | {"live": ones, "latest": ones}, (0, 0))
        self._log_offsets = columns.pop("log_offsets")
        self._judged = Judgements(**columns, horizon_ms=None)

    def judged(self, rows: Rows, first: int, timestamp_ms: int) -> Iterator[JudgedRows]:
        """Yield rows, whose answers begin at `first` in the file, with what was found, in parts of a record each."""
        columns = {name: getattr(rows, name) for name in Rows.__dataclass_fields__}
        record = Record(**columns, author=Author("files", "", 0), format=0, sections=(), data=b"")
        offsets = self._log_offsets[first : first + len(rows)]
        edges = [0, *(np.flatnonzero(np.diff(offsets)) + 1).tolist(), len(rows)]
        for begin, stop in pairwise(edges):
            judged = self._judged.between(first + begin, first + stop)
            span = Span(int(rows.offsets[begin]), int(rows.offsets[stop - 1]) + 1)
            yield JudgedRows(span, record, begin, stop, judged, int(offsets[begin]), timestamp_ms)


def answers_of(run: Run, number: int) -> Iterator[tuple[archives.Record, Answer]]:
    """Yield the answer to each document of an input, in order; of what cannot be judged with its place."""
    definition = run.settings.definition
    files = [entry for entry in answer_files(run) if entry[2] > run.firsts[number]]
    opened = lru_cache(1)(Answers)
    for group in read_rows(run, number):
        for file, first, stop in files:
            begin, end = np.searchsorted(group.rows.offsets, [first, stop]).tolist()
            if begin == end:
                continue
            answers, at = opened(file, definition.search), int(group.rows.offsets[begin]) - first
            for rows in answers.judged(group.rows.between(begin, end), at, run.started_at_ms):
                given = encode_answers(rows, answers.held, definition, 0, TOPIC)
                for place, (one, at) in enumerate(zip(given, rows.offsets(), strict=True), start=begin + rows.first):
                    record = group.record(place, run.inputs[number].path) if isinstance(one, DocumentError) else _ANY
                    yield record, Answer(at, one)


def write_verdicts(run: Run, number: int) -> dict[str, Any]:
    """
    Write the verdicts on an input, and its documents that stay if they are asked for; return how many of each.

    Memory: the rows of two groups, a file of answers with its originals, and a byte a document for what stays.
    """
    options = run.options
    outcomes: Counter[str] = Counter()
    choice, dead = Choice(originals=options.keep == "revisits"), ""
    name = f"{number:06}.{options.format}"
    with written(run.path("verdicts", name)) as stream, verdict_writer(stream, name) as write:
        for record, answered in answers_of(run, number):
            outcome, line = line_of(record, answered)
            outcomes[outcome] += 1
            write(line, answered)
            if options.keep:
                choice.take(answered.answer)
            if isinstance(answered.written, DocumentError):
                dead = dead or f"{record.place}: {answered.written.code}: {answered.written.text}"
    kept = _copy(run, number, choice) if options.keep else None
    return {"outcomes": outcomes, "kept": kept, "dead": dead}


def _copy(run: Run, number: int, choice: Choice) -> int:
    """Copy the documents that stay, and the others if they are asked for; return how many stay."""
    options, source = run.options, run.inputs[number].path
    run.check_unchanged(number)
    if options.prefer != "first":
        choice.kept = bytearray((run.folder / "choice" / f"{number:06}.bin").read_bytes())
    reading = partial(CrawlFiles, fetched_at_default=options.fetched_at, columns=options.columns)
    name = run.kept_name(number)
    kind = format_kept([source], [name], revisits=options.keep == "revisits")
    folders = ["kept", "duplicates"] if options.duplicates else ["kept"]
    with ExitStack() as stack:
        streams = [(stack.enter_context(written(run.path(folder, name))), name) for folder in folders]
        return copy_documents([source], kind, choice, streams, reading)


def choose(run: Run, _: int) -> dict[str, Any]:
    """Write which documents of each input stay. Memory: a byte a document, 100 a cluster. Cost: 15 µs per document."""
    choice = Choice(cast("Prefer", run.options.prefer))
    for number in range(len(run.inputs)):
        for _record, answered in answers_of(run, number):
            choice.take(answered.answer)
    for number, (first, stop) in enumerate(zip(run.firsts, run.firsts[1:], strict=False)):
        with written(run.path("choice", f"{number:06}.bin")) as stream:
            stream.write(choice.kept[first - run.first : stop - run.first])
    return {}
