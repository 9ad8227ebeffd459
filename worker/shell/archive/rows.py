"""
An input's documents as rows of the log, in a file of Parquet; and back, in their order.

    read, extract, fingerprint, sketch: as a worker does    ──►  rows/000000.parquet, damage in rows/000000.jsonl

The rows of a file stand in its order, so that no engine's order is needed. Which number a document has in the corpus is
known when all files have been counted; so a name that was made of a number is made again when rows are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from worker.core.fingerprint import Fingerprinter
from worker.core.sketch import WORDS
from worker.log.record import RowKind, Rows
from worker.log.texts import Texts
from worker.shell.archive.run import Run
from worker.shell.files.archives import Damage, Record
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import source_message
from worker.shell.files.keeping import format_kept
from worker.shell.files.places import written
from worker.shell.pipeline.prepare import JOB_BYTES_MAX, JOB_DOCUMENTS_MAX, JobReader
from worker.shell.pipeline.stage import cut
from worker.shell.ports import SourceMessage
from worker.shell.runtime import kernels

GROUP_ROWS = 1 << 15  # of a file of rows that are held at once, here and by those who read it
_URN = b"urn:neardup:"
_NUMBERS = {
    "kinds": pa.uint8(), "fetched_at_ms": pa.int64(), "fingerprints": pa.uint64(), "doubts": pa.uint64(),
    "digests": pa.uint64(), "features": pa.uint32(),
}  # fmt: skip
_TEXTS = ("doc_ids", "urls", "notes")
SCHEMA = pa.schema(
    {
        **_NUMBERS, "sketches": pa.binary(8 * WORDS), **dict.fromkeys(_TEXTS, pa.large_binary()),
        "size": pa.int64(), "line": pa.int64(), "offset": pa.int64(), "key": pa.binary(), "is_named": pa.bool_(),
    }
)  # fmt: skip


class _Number(int):
    """A document's place in its file, which notes whether a name has been made of it."""

    is_used = False

    def __format__(self, spec: str) -> str:
        self.is_used = True
        return super().__format__(spec)


class _Source(NamedTuple):
    """What a document is known by in its file."""

    size: int  # of the message, as a batch counts it
    line: int | None
    offset: int
    key: bytes | None  # of what cannot be judged
    is_named: bool


def make_rows(run: Run, number: int) -> dict[str, Any]:
    """Write the rows of an input; return what was in it. Memory: of a job of the preparation, and GROUP_ROWS rows."""
    run.check_unchanged(number)
    if run.options.keep:  # refused before anything is judged
        format_kept([run.inputs[number].path], [run.kept_name(number)], revisits=run.options.keep == "revisits")
    found = _Found(run, number)
    kernels.compile_first(run.settings)
    reader = JobReader(run.settings, _fingerprinter(run.settings.parameters))
    ahead, groups, sources = deque[_Source](), [Rows.of([])], list[_Source]()
    with written(run.path("rows", f"{number:06}.parquet")) as stream:
        with parquet.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:

            def flush() -> None:
                writer.write_batch(_batch(Rows.joined(groups), sources))
                groups.clear()
                sources.clear()

            for job in cut(found.messages(run.settings.document_bytes_max, ahead), JOB_DOCUMENTS_MAX, JOB_BYTES_MAX):
                groups.append(reader.rows(job))
                sources += (ahead.popleft() for _ in job)
                if len(sources) >= GROUP_ROWS:
                    flush()
            if groups:
                flush()
        run.check_unchanged(number)
        if found.damage:
            with written(run.path("rows", f"{number:06}.jsonl")) as lines:
                lines.writelines(found.damage)
    tally = found.tally
    return {"documents": tally.documents, "damaged": tally.damaged, "left_out": tally.left_out}


_fingerprinter = lru_cache(1)(Fingerprinter)


class _Found(CrawlFiles):
    """What is in an input; read once."""

    def __init__(self, run: Run, number: int) -> None:
        options = run.options
        self.damage: list[bytes] = []
        self._number = _Number(0)
        path = run.inputs[number].path
        super().__init__([path], self._note, fetched_at_default=options.fetched_at, columns=options.columns)

    def _number_of(self) -> int:
        self._number = _Number(super()._number_of())
        return self._number

    def _note(self, damage: Damage) -> None:
        self.damage.append(orjson.dumps(damage._asdict(), option=orjson.OPT_APPEND_NEWLINE))
        self._number = _Number(0)

    def messages(self, bytes_max: int, sources: deque[_Source]) -> Iterator[SourceMessage]:
        """Yield each document's message, and add what it is known by to `sources`."""
        for place, record in enumerate(self):
            message = source_message(place, record.key, record.content, bytes_max)
            sources.append(_Source(message.size_bytes, record.line, record.offset, record.key, self._number.is_used))
            self._number = _Number(0)
            yield message


def _batch(rows: Rows, sources: list[_Source]) -> pa.RecordBatch:
    size, line, offset, keys, is_named = zip(*sources, strict=True) if sources else [()] * 5
    is_dead = (rows.kinds == RowKind.DEAD).tolist()
    columns = [
        *(pa.array(getattr(rows, name), kind) for name, kind in _NUMBERS.items()),
        pa.Array.from_buffers(SCHEMA.field("sketches").type, len(rows), [None, pa.py_buffer(rows.sketches.tobytes())]),
        *(_arrow(getattr(rows, name)) for name in _TEXTS),
        *(pa.array(values, pa.int64()) for values in (size, line, offset)),
        pa.array([key if dead else None for key, dead in zip(keys, is_dead, strict=True)], pa.binary()),
        pa.array(is_named, pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _arrow(texts: Texts) -> pa.Array:
    ends = np.concatenate([[0], texts.ends]).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(texts.data.tobytes())]
    )


def _texts(column: pa.Array) -> Texts:
    _, ends, data = column.buffers()
    if not len(column):
        return Texts.of([])
    edges = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
    bytes_of = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Texts(bytes_of[edges[0] : edges[-1]], edges[1:] - edges[0])


class RowGroup(NamedTuple):
    """Rows as they are judged; beside each the size of its message and where it stands in its file."""

    rows: Rows
    sizes: NDArray[np.int64]
    places: Any  # columns line, offset and key, of Arrow

    def record(self, row: int, file: str) -> Record:
        """Return where a document stands."""
        line, offset, key = (column[row].as_py() for column in self.places)
        return Record(file, offset, key, b"", line)


def read_rows(run: Run, number: int, begin: int = 0) -> Iterator[RowGroup]:
    """Yield an input's rows from the corpus's document `begin` on, whose offsets they have. Cost: 0.2 to 3 µs each."""
    first = run.firsts[number]
    with parquet.ParquetFile(run.folder / "rows" / f"{number:06}.parquet") as file:
        at = first
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count > begin:
                for batch in file.read_row_group(group).combine_chunks().to_batches():  # one, or none of no rows
                    yield _group(batch.slice(max(begin - at, 0)), max(begin, at), first)
            at += count


def _group(batch: pa.RecordBatch, begin: int, first: int) -> RowGroup:
    """Return rows from document `begin` of the corpus on, of a file that begins with the document `first`."""
    columns: dict[str, Any] = {name: batch[name].to_numpy() for name in _NUMBERS}
    columns |= {name: _texts(batch[name]) for name in _TEXTS}
    at = batch["sketches"].offset
    sketches = np.frombuffer(batch["sketches"].buffers()[1], np.uint64).reshape(-1, WORDS)[at : at + batch.num_rows]
    rows = Rows(offsets=np.arange(begin, begin + batch.num_rows), sketches=sketches, **columns)
    sizes = batch["size"].to_numpy()
    beside = [batch["line"], batch["offset"], batch["key"]]
    named = np.flatnonzero(batch["is_named"].to_numpy(zero_copy_only=False))
    if first and len(named):
        rows, sizes, beside[2] = _renamed(rows, sizes, beside[2], named.tolist(), first)
    return RowGroup(rows, sizes, beside)


def _renamed(
    rows: Rows, sizes: NDArray[np.int64], keys: pa.Array, named: Iterable[int], first: int
) -> tuple[Rows, NDArray[np.int64], pa.Array]:
    """Make the names again that were made of a place in a file: of the number that it has in the corpus."""
    ids, urls = (texts.tolist() for texts in (rows.doc_ids, rows.urls))
    sizes, own = sizes.copy(), keys.to_pylist()
    for at in named:
        place = int(rows.offsets[at]) - first

        def new(name: bytes, place: int = place) -> bytes:
            return b"%d" % (first + place) + name.removeprefix(b"%d" % place)

        is_urn = urls[at] == _URN + ids[at]
        more = len(new(b"")) - len(b"%d" % place)
        sizes[at] += more * (2 + is_urn)  # in the key, in doc_id, in the URL
        if ids[at]:
            ids[at] = new(ids[at])
            urls[at] = _URN + ids[at] if is_urn else urls[at]
        own[at] = own[at] and new(own[at])
    return replace(rows, doc_ids=Texts.of(ids), urls=Texts.of(urls)), sizes, pa.array(own, pa.binary())


def cut_rows(groups: Iterable[tuple[Rows, NDArray[np.int64]]], documents_max: int, bytes_max: int) -> Iterator[Rows]:
    """
    Cut rows into batches as `pipeline.stage.cut` cuts their messages.

    >>> rows = Rows.of([(number, 0, "", "", 0, 0, 0, 0, "", 0, 0) for number in range(6)])
    >>> sizes = np.array([4, 4, 4, 99, 1, 1])
    >>> parts = [(rows.between(0, 2), sizes[:2]), (rows.between(2, 6), sizes[2:])]
    >>> [batch.offsets.tolist() for batch in cut_rows(parts, 3, 10)]
    [[0, 1], [2], [3], [4, 5]]
    """
    held: list[Rows] = []
    count = size = 0
    for rows, sizes in groups:
        ends, first = np.concatenate([[0], np.cumsum(sizes)]), 0
        while first < len(rows):
            fits = int(np.searchsorted(ends, ends[first] + bytes_max - size, "right")) - 1
            stop = max(min(fits, first + documents_max - count), first if count else first + 1)
            if stop > first:
                held.append(rows.between(first, stop))
            count, size = count + stop - first, size + int(ends[stop] - ends[first])
            if stop < len(rows):
                yield Rows.joined(held)
                held, count, size = [], 0, 0
            first = stop
    if held:
        yield Rows.joined(held)
