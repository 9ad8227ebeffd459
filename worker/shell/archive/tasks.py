"""
The tasks of a run that lead to answers. One task per file makes rows of the log, and one task
judges all rows. `outputs.py` writes verdicts and documents.

    read, extract, fingerprint, sketch, as a worker does ──► rows/000000.parquet
                                                  damage ──► rows/000000.jsonl
    rows/*.parquet ──► records of the log ──► Replica ──► judge/answers-FIRST-STOP.npz
                                    now and then └──► judge/snapshot-….ndsnap

Rows are stored in the order of their file, so the engine does not have to keep any order. They have
their final names: a document without one is named by its file's place among the inputs and its own
in the file (`inputs.py`), and no task has to know what the other files hold.

The judge lets the log's own state machine read the rows. So its verdicts are those of one machine
that judges in order. An answer names its original by a row in a small store of originals, which is
written next to the answers and has everything that a verdict says about an original. So the tasks
that write verdicts need nothing else, and nothing is joined or shuffled. Columns that the search
does not need lie in files on the task's own disk (TMPDIR).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from worker.core.fingerprint import Fingerprinter
from worker.core.planner import TOGETHER_ROWS
from worker.core.search import SearchRules
from worker.errors import DocumentError, StopError
from worker.log.judge import JUDGEMENT_COLUMNS, NAMING_COLUMNS, JudgedRows, Judgements
from worker.log.originals import OriginalStore
from worker.log.record import Author, LogRecord, RowKind, Rows, Span
from worker.log.snapshot import header_of
from worker.log.texts import Texts
from worker.shell.archive.legs import leg_of, outside_of, plan
from worker.shell.archive.rows import NUMBERS, SCHEMA, TEXTS, read_rows
from worker.shell.archive.run import Run
from worker.shell.checkpoint import Checkpoint, locked, map_file, newest
from worker.shell.files import archives
from worker.shell.files.account import InputTally
from worker.shell.files.apart import NamesApart, named_apart
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import (
    LOG,
    Answer,
    FileEngine,
    judged_answers,
    source_message,
)
from worker.shell.files.formats import are_pages_expected
from worker.shell.files.inputs import Inputs
from worker.shell.files.keeping import format_kept
from worker.shell.files.outputs import written
from worker.shell.files.places import shown_name
from worker.shell.pipeline.prepare import JOB_BYTES_MAX, JOB_DOCUMENTS_MAX, JobReader, Preparer
from worker.shell.pipeline.stage import cut
from worker.shell.ports import InputMessage
from worker.shell.runtime import kernels

GROUP_ROWS = 1 << 15  # rows that are in memory at once while a file of rows is written or read
ANSWERS = 1 << 16  # answers in a file; the last batch may exceed it
# Rows between two snapshots, at least. They are also at least half of the originals, so all earlier
# snapshots together are at most twice as large as the last one.
SNAPSHOT_ROWS_MIN = 1 << 21
# Records are judged in one call until they have so many rows; the last one may exceed it.
ROWS_TOGETHER = TOGETHER_ROWS
ROWS_STOP = 1 << 32  # rows of originals have 32 bits
_ANY = archives.Record("", 0, None, b"")  # the place of a judged document, which is never shown


# ---- rows


class _Source(NamedTuple):
    """A document's place, key and score in a file, next to its message."""

    line: int | None
    offset: int
    key: bytes | None  # only of a document that cannot be judged
    score: float | None  # the number that `--prefer highest:FIELD` compares


def make_rows(run: Run, number: int) -> dict[str, Any]:
    """
    Write the rows of an input, and return the counts of what it contains.

    Memory: that of one preparation job, plus GROUP_ROWS rows.
    """
    run.check_unchanged(number)
    if run.options.keep and number >= run.references:  # refused before anything is judged
        format_kept([run.inputs[number].path], [run.kept_name(number)], run.options)
    damage: list[archives.Damage] = []
    crawl = run.options.open(
        [run.inputs[number].path],
        is_reference=number < run.references,
        on_damage=damage.append,
    )
    crawl.begin(Inputs(run.first, number, offset=0))
    crawl.is_digested = True  # the state remembers what was read
    kernels.compile_first(run.settings, with_pages=are_pages_expected([run.inputs[number].path]))
    reader = JobReader(run.settings, _fingerprinter(run.settings.parameters))
    ahead = deque[_Source]()
    report = run.reporter("rows", number)
    groups = [Rows.of([])]
    sources = list[_Source]()
    with written(run.path("rows", f"{number:06}.parquet")) as stream:
        with parquet.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:

            def flush() -> None:
                writer.write_batch(_batch(Rows.joined(groups), sources))
                groups.clear()
                sources.clear()

            for job in cut(
                _messages(crawl, run.settings.document_bytes_max, ahead),
                JOB_DOCUMENTS_MAX,
                JOB_BYTES_MAX,
            ):
                rows = reader.rows(job)
                groups.append(rows)
                of_rows = [ahead.popleft() for _ in job]
                sources += of_rows
                _note_dead(crawl.tally, run.inputs[number].path, rows, of_rows)
                report(crawl.bytes_read)
                if len(sources) >= GROUP_ROWS:
                    flush()
            if groups:
                flush()
        run.check_unchanged(number)
        if damage:
            with written(run.path("rows", f"{number:06}.jsonl")) as lines:
                lines.writelines(found.json_line() for found in damage)
    return vars(crawl.tally) | {"digest": list(crawl.digests[0])}


_fingerprinter = lru_cache(1)(Fingerprinter)


def _messages(crawl: CrawlFiles, bytes_max: int, sources: deque[_Source]) -> Iterator[InputMessage]:
    """Yield the message of each document, and add its `_Source` to `sources`."""
    for place, record in enumerate(crawl.documents()):
        sources.append(_Source(record.line, record.offset, record.key, record.score))
        yield source_message(place, record.key, record.content, bytes_max)


def _note_dead(tally: InputTally, file: str, rows: Rows, sources: Sequence[_Source]) -> None:
    """Count those of some rows that cannot be judged."""
    for at in np.flatnonzero(rows.kinds == RowKind.DEAD).tolist():
        error = DocumentError.parse(rows.notes[at].decode("utf-8", "surrogatepass"))
        tally.note_dead(archives.place_of(file, sources[at].offset, sources[at].line), error)


def _batch(rows: Rows, sources: list[_Source]) -> pa.RecordBatch:
    line, offset, keys, scores = zip(*sources, strict=True) if sources else [()] * 4
    is_dead = (rows.kinds == RowKind.DEAD).tolist()
    columns = [
        *(pa.array(getattr(rows, name), kind) for name, kind in NUMBERS.items()),
        pa.Array.from_buffers(
            SCHEMA.field("sketches").type, len(rows), [None, pa.py_buffer(rows.sketches.tobytes())]
        ),
        *(_arrow(getattr(rows, name)) for name in TEXTS),
        *(pa.array(values, pa.int64()) for values in (line, offset)),
        pa.array(
            [key if dead else None for key, dead in zip(keys, is_dead, strict=True)], pa.binary()
        ),
        pa.array(scores, pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _arrow(texts: Texts) -> pa.Array:
    ends = np.concatenate([[0], texts.ends]).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(),
        len(texts),
        [None, pa.py_buffer(ends), pa.py_buffer(texts.data.tobytes())],
    )


# ---- the judge, and what it says


def judge_rows(run: Run, number: int, threads: int = 1) -> dict[str, Any]:
    """
    Judge the rows of a leg, from the last snapshot on, and plan the next leg.

    Raises:
        StopError: another task is doing so, or a snapshot cannot be written.

    `threads` threads search, but no more than the task's machine has cores.

    Memory: that of a worker with a `state_dir`, some 140 bytes per original; in a run of several
    legs that of `planner.judge_bytes`. Disk: snapshots and files of originals, some 190 bytes per
    original and its texts. Two snapshots are kept.
    """
    settings = run.judging
    folder = run.path("judge", "")
    leg = leg_of(run, number)
    with locked(folder), Preparer(settings) as preparer:
        scratch = Path(tempfile.gettempdir())
        checkpoint = Checkpoint(folder, settings.rules, LOG, "judge", math.inf, scratch=scratch)
        replica = checkpoint.restore(has_log=False, outside=outside_of(run, number))
        engine = FileEngine(replica, preparer, settings, lambda: run.started_at_ms)
        engine.resume(run.places)
        _resume_names(run, engine)
        replica.use_threads(min(threads, len(os.sched_getaffinity(0))))
        for path, first, _stop in answer_files(run):
            if first >= engine.next_offset:
                path.unlink()
        report = run.reporter("judge", number)
        _judge_until(run, leg.stop, checkpoint, engine, lambda offset: report(offset - leg.begin))
        following = plan(run, number + 1, replica.judge.held, engine.next_offset)
        names = engine.names
        return {
            "originals": replica.documents,
            "next_offset": engine.next_offset,
            "named_apart": [names.count, names.positions],
            "next_leg": None if following is None else following._asdict(),
        }


def _judge_until(
    run: Run, stop: int, checkpoint: Checkpoint, engine: FileEngine, report: Callable[[int], None]
) -> None:
    """Judge rows up to the record that reaches `stop`; write their answers, and snapshots."""
    replica = engine.replica
    begin = saved_at = engine.next_offset
    noted = _Notes(begin, engine.names)
    numbers = [number for number in range(len(run.inputs)) if run.firsts[number + 1] > begin]
    left = (group.rows for number in numbers for group in read_rows(run, number, begin))
    records = engine.records(left)
    waiting = deque[Rows]()

    def is_snapshot_due(at: int, documents: int) -> bool:
        return at - saved_at >= max(SNAPSHOT_ROWS_MIN, documents // 2)

    def is_file_due(at: int) -> bool:
        return at - noted.first >= ANSWERS

    def until_due(first: int, documents: int) -> Iterator[Rows]:
        """Yield what waits, up to the record behind which something may be written."""
        for rows in waiting:
            yield rows
            at = int(rows.offsets[-1]) + 1
            documents_min = documents - (at - first)
            if at >= stop or is_file_due(at) or is_snapshot_due(at, documents_min):
                break

    while engine.next_offset < stop:
        first = engine.next_offset
        while not waiting or int(waiting[-1].offsets[-1]) < first + ROWS_TOGETHER:
            following = next(records, None)
            if following is None:
                break
            waiting.append(following)
        for _ in range(engine.judge_together(until_due(first, replica.documents), noted.take)):
            waiting.popleft()
        report(engine.next_offset)
        is_due = is_snapshot_due(engine.next_offset, replica.documents)
        if is_due or is_file_due(engine.next_offset):
            noted.write(run, engine.next_offset)
            noted = _Notes(engine.next_offset, engine.names)
        if is_due:
            _save(run, checkpoint, engine)
            saved_at = engine.next_offset
    noted.write(run, engine.next_offset)
    _save(run, checkpoint, engine)


_NAMES = "names"  # in the header of the judge's snapshots: where they are among the inputs


def _resume_names(run: Run, engine: FileEngine) -> None:
    """Go on among the inputs where this run's last snapshot ends; another run's says nothing."""
    last = newest(run.folder / "judge")
    header = {} if last is None else header_of(map_file(last))
    begun_ms, state = header.get(_NAMES, (None, {}))
    if begun_ms == run.started_at_ms:
        engine.names.resume(state, engine.replica.judge.held)


def _save(run: Run, checkpoint: Checkpoint, engine: FileEngine) -> None:
    names = engine.names.state(engine.replica.judge.held)
    checkpoint.extra_header = run.header() | {_NAMES: (run.started_at_ms, names)}
    checkpoint.save_or_stop(engine.replica, f"no snapshot can be written to {checkpoint.folder}")


def answer_files(run: Run) -> list[tuple[Path, int, int]]:
    """Return the files of answers in order, each with the numbers of the documents it answers."""
    found = sorted((run.folder / "judge").glob("answers-*.npz"))
    return [(path, *map(int, path.stem.split("-")[1:])) for path in found]  # type: ignore[misc]


class _Notes:
    """The answers since the last file of answers was written."""

    def __init__(self, first: int, names: NamesApart) -> None:
        self.first = first  # number of the first answered document
        self._names = names
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._texts: list[Texts] = []
        self._originals = 0

    def take(self, rows: JudgedRows, held: OriginalStore, log_offsets: NDArray[np.int64]) -> None:
        """
        Keep the answers to all rows of a call, and what a verdict says about their originals.

        `log_offsets` are those of the records, by row.
        """
        judged = rows.judged
        columns: dict[str, NDArray[Any]] = {
            name: getattr(judged, name) for name in JUDGEMENT_COLUMNS
        }
        # An original stands here once for each record that names it, by record and row.
        names = np.concatenate([columns[name] for name in NAMING_COLUMNS])
        records = np.tile(log_offsets - log_offsets[0], len(NAMING_COLUMNS))
        keys = np.where(names < 0, -1, records * ROWS_STOP + names)
        keys, places = np.unique(keys, return_inverse=True)
        none = int(np.searchsorted(keys, 0))
        places = np.where(places < none, -1, places - none + self._originals)
        named = keys[none:] % ROWS_STOP
        parts = np.split(places, len(NAMING_COLUMNS))
        columns |= dict(zip(NAMING_COLUMNS, parts, strict=True))
        offsets = rows.record.offsets[rows.first : rows.stop]
        columns["named_apart"] = np.isin(offsets, self._names.offsets)
        columns["log_offsets"] = log_offsets
        columns |= {
            f"original_{name}": getattr(held, name).take(named) for name in ("rows", "kinds")
        }
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(values)
        both = Texts.joined(held.texts.take(named))
        self._texts.append(both.take(np.arange(len(both)).reshape(2, -1).T.ravel()))
        self._originals += len(named)

    def write(self, run: Run, stop: int) -> None:
        """Write the answers to the documents before `stop` into a file, if there are any."""
        if stop == self.first:
            return
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        texts = Texts.joined(self._texts)
        # The doc_id and the URL of each original stand here one behind the other.
        begins = np.concatenate([[0], texts.ends[:-1]])[: len(texts)]
        columns["original_rows"]["texts"]["begin"] = begins[::2]
        columns["original_text_bytes"] = texts.data[: texts.ends[-1] if len(texts) else 0]
        name = f"answers-{self.first:015}-{stop:015}.npz"
        with written(run.path("judge", name)) as stream:
            np.savez(stream, **columns)  # type: ignore[arg-type]  # columns by name


class Answers:
    """The contents of a file of answers."""

    def __init__(self, path: Path, search: SearchRules) -> None:
        with np.load(path) as file:
            columns = dict(file)
        beside = {
            name.removeprefix("original_"): columns.pop(name)
            for name in list(columns)
            if "original_" in name
        }
        ones = np.ones(len(beside["rows"]), np.uint8)
        self.held = OriginalStore(search)
        self.held.load(beside | {"live": ones, "latest": ones}, (0, 0))
        self._log_offsets = columns.pop("log_offsets")
        self._is_apart = columns.pop("named_apart")
        self._judged = Judgements(**columns, horizon_ms=None)

    def judged(self, rows: Rows, first: int, timestamp_ms: int) -> Iterator[JudgedRows]:
        """
        Return an iterator over rows with their judgements, one part per record. `rows` must not be
        empty.

        The answers to these rows begin at place `first` of the file.
        """
        apart = np.flatnonzero(self._is_apart[first : first + len(rows)])
        if len(apart):
            rows = named_apart(rows, apart)
        columns = {name: getattr(rows, name) for name in Rows.__dataclass_fields__}
        record = LogRecord(
            **columns, author=Author("files", "", 0), format=0, sections=(), data=b""
        )
        stop = first + len(rows)
        span = Span(int(rows.offsets[0]), int(rows.offsets[-1]) + 1)
        offsets = self._log_offsets[first:stop]
        judged = self._judged.between(first, stop)
        together = JudgedRows(span, record, 0, len(rows), judged, int(offsets[0]), timestamp_ms)
        return together.by_record(offsets)


class JudgedPart(NamedTuple):
    """
    Some rows of an input with their judgements.

    Attributes:
        held: the originals that the judgements name.
        scores: the number of each by which `--prefer highest:FIELD` chooses; NaN: it has none.
        places: the Arrow columns line, offset and key of each.
    """

    rows: JudgedRows
    held: OriginalStore
    scores: NDArray[np.float64]
    places: list[Any]


def judged_of(run: Run, number: int) -> Iterator[JudgedPart]:
    """Yield the rows of an input with their judgements, in order."""
    search = run.judging.rules.search
    files = [entry for entry in answer_files(run) if entry[2] > run.firsts[number]]
    answered = run.firsts[number]
    for _, first, stop in files:
        answered = stop if first <= answered else answered
    if answered < run.firsts[number + 1]:
        raise StopError(
            f"{run.folder / 'judge'} has lost the answers to document {answered:,} and those "
            "behind it: begin another run, with another --output"
        )
    opened = lru_cache(1)(Answers)
    for group in read_rows(run, number):
        offsets = group.rows.offsets
        for file, first, stop in files:
            begin, end = np.searchsorted(offsets, [first, stop]).tolist()
            if begin == end:
                continue
            answers = opened(file, search)
            at = int(offsets[begin]) - first
            for rows in answers.judged(group.rows.between(begin, end), at, run.started_at_ms):
                own = slice(begin + rows.first, begin + rows.stop)
                places = [column[own] for column in group.places]
                yield JudgedPart(rows, answers.held, group.scores[own], places)


def answers_in(run: Run, number: int, part: JudgedPart) -> Iterator[tuple[archives.Record, Answer]]:
    """
    Yield the answer to each of these rows of an input.

    A document that cannot be judged comes with its place.
    """
    rows = part.rows
    answers = judged_answers(rows, part.held, run.judging.rules)
    file = shown_name(run.inputs[number].path)
    kinds = rows.record.kinds[rows.first : rows.stop]
    for row, (answered, kind) in enumerate(zip(answers, kinds, strict=True)):
        record = _ANY
        if kind == RowKind.DEAD:
            line, offset, key = (column[row].as_py() for column in part.places)
            record = archives.Record(file, offset, key, b"", line)
        yield record, answered
