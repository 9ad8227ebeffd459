"""
One record of the ordered log: the rows that one worker made of one batch, as columns.

    header    magic "NDLG" | version u16 | sections u16 | rows u32 | parameters u64
              | scheme 32 bytes | author u16 | 0
    sections  one per partition: topic id 16 bytes | partition i32 | rows u32 | first i64 | stop i64
              | committed i64
    columns   one entry per row: fingerprint u64 | doubts u64 | sketch 8 u64 | mark u64 | digest u64
              | fetched_at_ms i64 | features u32
              | offset delta u32 | doc_id length u16 | url length u16 | note length u16 | kind u8
    text      author, then all doc_ids, all urls, all notes: UTF-8, back to back

All numbers are little-endian. A section covers the source offsets [first, stop): each message in
that range has a row, so that a replica knows of every offset what became of it. Only where a log is
renewed is a section without rows, of offsets that the log before it had (`Section.is_carried`).
Columns, not objects: replay runs at array speed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import DTypeLike, NDArray

from worker.core.sketch import WORDS, sketch_of, words_of
from worker.errors import RecordError
from worker.log.texts import Texts

FORMAT_VERSION = 4
FORMAT_OLDEST = 4  # oldest readable format: records of older ones have no marks
ROWS_MAX = 1 << 20
TEXT_BYTES_MAX = (1 << 16) - 1
SCHEME_BYTES_MAX = 32
# The years 1 to 9999.
TIME_MS_MIN = -62_135_596_800_000
TIME_MS_MAX = 253_402_300_799_999

_MAGIC = b"NDLG"
_HEADER = struct.Struct("<4sHHIQ32sHxx")
_SECTION = struct.Struct("<16siIqqq")
_COLUMNS: tuple[tuple[str, DTypeLike], ...] = (
    ("fingerprints", "<u8"),
    ("doubts", "<u8"),
    # Not "(8,)<u8": numpy parses that as Python each time, which no two threads may do.
    ("sketches", ("<u8", 8)),
    ("marks", "<u8"),
    ("digests", "<u8"),
    ("fetched_at_ms", "<i8"),
    ("features", "<u4"),
    ("deltas", "<u4"),
    ("doc_id_lengths", "<u2"),
    ("url_lengths", "<u2"),
    ("note_lengths", "<u2"),
    ("kinds", "u1"),
)
_TEXTS = ("doc_id", "url", "note")
# Brokers refuse messages over 1,048,588 bytes by default. Longer records gain nothing: this one has
# some 5,000 rows, and a batch that needs more is split.
RECORD_BYTES_MAX = 900_000
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)


class RowKind(IntEnum):
    """The fate of a source message. The first three are the kinds of text of `Fingerprinter`."""

    SKIPPED = 0  # nothing to fingerprint; the note says why
    SHORT = 1  # too few tokens: one feature, only equal texts match
    FULL = 2  # judged by Hamming distance
    DELETED = 3  # a null value: the document with this doc_id leaves the index
    DEAD = 4  # cannot be judged: a dead letter; the note is "code: text"


COMPARED_KINDS = (RowKind.FULL, RowKind.SHORT)  # of rows with a text


class Source(NamedTuple):
    """
    One partition of the source topic.

    The topic is named by its id. If it is deleted and created again, it has another id and other
    offsets.
    """

    topic_id: bytes
    partition: int


class Row(NamedTuple):
    """
    One source message as it goes into the log: a line of `Rows`, for people and tests.

    `offset` is absolute. `note` is empty except for SKIPPED and DEAD rows. Bit i of `doubts` says
    that bit i of the fingerprint is doubtful, and `sketch` confirms what the fingerprint finds.
    `mark` says which page of which host it is (`core/marks.py`).
    """

    offset: int
    kind: int
    doc_id: str
    url: str
    fetched_at_ms: int
    fingerprint: int = 0
    digest: int = 0
    features: int = 0
    note: str = ""
    doubts: int = 0
    sketch: int = 0
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """
    Source messages as they go into the log: columns of one length, named and meant as in `Row`.

    >>> rows = Rows.of([Row(7, RowKind.SKIPPED, "a", "https://example.org/", 0, note="empty-text")])
    >>> len(rows), rows.between(0, 1).doc_ids[0]
    (1, b'a')
    """

    offsets: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    doc_ids: Texts
    urls: Texts
    fetched_at_ms: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    digests: NDArray[np.uint64]
    features: NDArray[np.uint32]
    notes: Texts
    doubts: NDArray[np.uint64]
    sketches: NDArray[np.uint64]  # [n, 8]
    marks: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Row]:
        """Yield each row as an object. Cost: 4 µs each."""
        lists = []
        for column in self._columns():
            values = column.tolist()
            if isinstance(column, Texts):
                values = [text.decode("utf-8", "surrogatepass") for text in values]
            lists.append(values)
        *columns, sketches, marks = lists
        return map(Row, *columns, map(sketch_of, sketches), marks)

    def _columns(self) -> list[NDArray[Any] | Texts]:
        return list(_columns_of(self))

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows [first, stop). Copies nothing."""
        return Rows(*[column[first:stop] for column in self._columns()])  # type: ignore[arg-type]

    def take(self, places: NDArray[np.int64]) -> Rows:
        """Return the rows at these places, in their order."""
        columns: list[Any] = [
            column.take(places) if isinstance(column, Texts) else column[places]
            for column in self._columns()
        ]
        return Rows(*columns)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts, in order; at least one part. Cost: O(bytes), a copy."""
        joined: list[Any] = []
        for pieces in zip(*(part._columns() for part in parts), strict=True):
            join: Any = Texts.joined if isinstance(pieces[0], Texts) else np.concatenate
            joined.append(join(pieces))
        return cls(*joined)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Rows:
        """Return rows as columns; for people and tests. Cost: some µs per row."""
        rows = list(rows)
        values_of = dict(zip(Row._fields, zip(*rows, strict=True), strict=True)) if rows else {}

        def numbers(name: str, kind: str) -> NDArray[Any]:
            return np.array(values_of.get(name, ()), kind)

        def texts(name: str) -> Texts:
            return Texts.of(
                [text.encode("utf-8", "surrogatepass") for text in values_of.get(name, ())]
            )

        sketches = [words_of(sketch) for sketch in values_of.get("sketch", ())]
        return cls(
            offsets=numbers("offset", "i8"),
            kinds=numbers("kind", "u1"),
            doc_ids=texts("doc_id"),
            urls=texts("url"),
            fetched_at_ms=numbers("fetched_at_ms", "i8"),
            fingerprints=numbers("fingerprint", "u8"),
            digests=numbers("digest", "u8"),
            features=numbers("features", "u4"),
            notes=texts("note"),
            doubts=numbers("doubts", "u8"),
            sketches=np.array(sketches, np.uint64).reshape(-1, WORDS),
            marks=numbers("mark", "u8"),
        )


_columns_of = attrgetter(*(field.name for field in fields(Rows)))


class Span(NamedTuple):
    """Offsets from `first` up to, but without, `stop`."""

    first: int
    stop: int


class Section(NamedTuple):
    """The offsets [first, stop) of one source that a record covers, with their rows."""

    source: Source
    first: int
    stop: int
    committed: int  # the author's committed offset; -1: not known
    rows: Rows

    @property
    def is_carried(self) -> bool:
        """
        Whether it only says that the log before this one had these offsets, all answered.

        No worker appends such a section: what it appends, it commits later.
        """
        return not len(self.rows) and self.committed >= self.stop


class Author(NamedTuple):
    """The group that wrote a record, and its definition of the fingerprint."""

    name: str
    scheme: str
    parameters_hash: int


@dataclass(frozen=True, slots=True)
class LogRecord(Rows):
    """
    A decoded record: the rows of all its sections, in their order.

    The arrays are views of the record's bytes.
    """

    author: Author
    format: int
    sections: tuple[Section, ...]
    data: bytes  # the record as it stands in the log


def encode(
    author: Author,
    sections: Sequence[Section],
    record_bytes_max: int,
    record_format: int = FORMAT_VERSION,
) -> Iterator[bytes]:
    """
    Pack sections into as few records as `record_bytes_max` allows, in their order.

    Equal sections give equal bytes. A section that does not fit is cut between two rows, so that
    each record covers exactly the offsets that it answers. A row that is larger than a record may
    be gets one of its own.

    Args:
        author: who writes them, under which definition.
        sections: their rows ascend by offset, within [first, stop).
        record_bytes_max: the largest size of one record.
        record_format: the format of the log's records.
    Yields:
        The records' bytes.
    Raises:
        ValueError: a text is longer than 65,535 bytes: the shell must have refused such a document
            before.
    Cost: O(rows), some 0.2 µs each.
    """
    fixed = _fixed_bytes(author)
    pending: list[Section] = []
    size = fixed
    for source, start, stop, committed, rows in sections:
        if pending and size + _SECTION.size > record_bytes_max:
            # Sections without rows fill a record, too.
            yield _pack(author, pending, record_format)
            pending = []
            size = fixed
        size += _SECTION.size
        sums = _bytes_before(rows)
        first = start
        at = 0
        while size + sums[-1] - sums[at] > record_bytes_max:
            end = _fitting(sums, at, record_bytes_max - size)
            end = max(end, at if pending else at + 1)
            if end >= len(rows):
                break
            if end > at:
                cut = int(rows.offsets[end])
                pending.append(Section(source, first, cut, committed, rows.between(at, end)))
                first = cut
            yield _pack(author, pending, record_format)
            pending = []
            size = fixed + _SECTION.size
            at = end
        pending.append(Section(source, first, stop, committed, rows.between(at, len(rows))))
        size += int(sums[-1] - sums[at])
    if pending:
        yield _pack(author, pending, record_format)


def record_ends(author: Author, rows: Rows, record_bytes_max: int) -> list[int]:
    """
    Return the row behind the last one of each record that `encode` makes of one section.

    `rows` are the section's, at least one.

    Cost: some 20 ns per row.
    """
    room = record_bytes_max - _fixed_bytes(author) - _SECTION.size
    sums = _bytes_before(rows)
    ends = []
    at = 0
    while sums[-1] - sums[at] > room:
        end = max(_fitting(sums, at, room), at + 1)
        if end >= len(rows):
            break
        ends.append(end)
        at = end
    return [*ends, len(rows)]


def _fixed_bytes(author: Author) -> int:
    """Return the bytes of a record without sections."""
    return _HEADER.size + len(author.name.encode()) + 8


def _bytes_before(rows: Rows) -> NDArray[np.int64]:
    """Return how many bytes of a record are before each row, and behind the last one."""
    text_bytes = _lengths(rows.doc_ids) + _lengths(rows.urls) + _lengths(rows.notes)
    return np.concatenate([[0], np.cumsum(ROW_BYTES + text_bytes)])


def _fitting(sums: NDArray[np.int64], at: int, room: int) -> int:
    """Return the row behind the last one that fits into so many bytes, from row `at` on."""
    return int(np.searchsorted(sums, sums[at] + room, "right")) - 1


def _lengths(texts: Texts) -> NDArray[np.int64]:
    lengths = texts.sizes
    if len(lengths) and lengths.max() > TEXT_BYTES_MAX:
        raise ValueError(
            f"a text in the log has at most {TEXT_BYTES_MAX} bytes of UTF-8, got {lengths.max()}"
        )
    return lengths


def _pack(author: Author, sections: Sequence[Section], record_format: int) -> bytes:
    name = author.name.encode("utf-8", "surrogatepass")
    scheme = author.scheme.encode("ascii")
    if len(name) > TEXT_BYTES_MAX or len(scheme) > SCHEME_BYTES_MAX:
        raise ValueError(
            f"an author has at most {TEXT_BYTES_MAX} bytes of name and {SCHEME_BYTES_MAX} of "
            f"scheme, got {author}"
        )
    count = sum(len(section.rows) for section in sections)
    header = _HEADER.pack(
        _MAGIC, record_format, len(sections), count, author.parameters_hash, scheme, len(name)
    )
    pieces = [header]
    for source, first, stop, committed, rows in sections:
        pieces.append(_SECTION.pack(*source, len(rows), first, stop, committed))
    # As one, for each column costs some µs, and a worker's record has a section per partition.
    rows = Rows.joined([section.rows for section in sections])
    # What is not a column of the rows as it stands there.
    made = {f"{text_name}_lengths": getattr(rows, f"{text_name}s").sizes for text_name in _TEXTS}
    firsts = [section.first for section in sections]
    made["deltas"] = rows.offsets - np.repeat(firsts, [len(section.rows) for section in sections])
    for column_name, kind in _COLUMNS:
        values = made[column_name] if column_name in made else getattr(rows, column_name)
        pieces.append(values.astype(np.dtype(kind).base).tobytes())
    pieces.append(name)
    for text_name in _TEXTS:
        texts = getattr(rows, f"{text_name}s")
        pieces.append(texts.data.tobytes())
    return b"".join(pieces)


def row_count(data: bytes) -> int:
    """
    Return how many rows a record says that it has, without decoding it, at most ROWS_MAX; 0 for
    bytes that are none.
    """
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        return 0
    return min(int(_HEADER.unpack_from(data)[3]), ROWS_MAX)


def decode(data: bytes) -> LogRecord:
    """
    Read one record of the log; every size is checked before it is used.

    Raises:
        RecordError: the bytes are no record, a cut or damaged one, or one of a newer format.
    Cost: some 50 µs, and 1 ns a byte of text: columns and texts are views of the record.
    """
    try:
        magic, version, section_count, rows, parameters_hash, scheme, name_length = (
            _HEADER.unpack_from(data)
        )
    except struct.error as error:
        raise RecordError(
            f"a record of {len(data)} bytes is too short for its header ({_HEADER.size})"
        ) from error
    if magic != _MAGIC:
        raise RecordError(
            f"not a record of neardup's log: it starts with {data[:4]!r}, not {_MAGIC!r}"
        )
    if not FORMAT_OLDEST <= version <= FORMAT_VERSION:
        read = " to ".join(dict.fromkeys((str(FORMAT_OLDEST), str(FORMAT_VERSION))))
        raise RecordError(
            f"the record has format {version}, this version reads {read}", record_format=version
        )
    at = _HEADER.size + section_count * _SECTION.size
    if rows > ROWS_MAX or len(data) < at + rows * ROW_BYTES + name_length:
        raise RecordError(
            f"a record of {len(data)} bytes cannot hold {section_count} sections and {rows} rows"
        )
    columns: dict[str, Any] = {}
    for name, kind in _COLUMNS:
        columns[name] = np.frombuffer(data, dtype=kind, count=rows, offset=at)
        at += columns[name].nbytes
        columns[name] = columns[name].astype(columns[name].dtype.newbyteorder("="), copy=False)
    author = Author(
        data[at : at + name_length].decode("utf-8", "replace"),
        scheme.rstrip(b"\0").decode("ascii", "replace"),
        parameters_hash,
    )
    texts = _texts(data, at + name_length, [columns.pop(f"{kind}_lengths") for kind in _TEXTS])
    columns |= zip((f"{kind}s" for kind in _TEXTS), texts, strict=True)
    heads = list(
        _SECTION.iter_unpack(data[_HEADER.size : _HEADER.size + section_count * _SECTION.size])
    )
    columns["offsets"] = columns.pop("deltas").astype(np.int64)
    sections = tuple(_sections(heads, Rows(**columns)))
    return LogRecord(author=author, format=version, sections=sections, data=data, **columns)


def _sections(heads: Sequence[tuple[Any, ...]], rows: Rows) -> Iterator[Section]:
    """
    Yield each section with its rows; what counted from its first offset becomes absolute.

    Raises RecordError: damaged.
    """
    at = 0
    for index, (topic_id, partition, count, first, stop, committed) in enumerate(heads):
        if not 0 <= first <= stop or at + count > len(rows):
            raise RecordError(
                f"section {index} is damaged: offsets [{first}, {stop}), "
                f"{count} rows of {len(rows)}"
            )
        offsets = rows.offsets[at : at + count]
        offsets += first
        if count and not (
            offsets[0] >= first and offsets[-1] < stop and (offsets[1:] > offsets[:-1]).all()
        ):
            raise RecordError(
                f"the offsets of a section do not ascend from {first} to below {stop}"
            )
        # Of one section, as most records are, the rows need not be cut: 82 µs instead of 101.
        section_rows = rows.between(at, at + count) if count < len(rows) else rows
        yield Section(Source(topic_id, partition), first, stop, committed, section_rows)
        at += count
    if at != len(rows):
        raise RecordError(f"the sections hold {at} rows, the header says {len(rows)}")
    if len(rows):
        if rows.kinds.max() > max(RowKind):
            raise RecordError(f"a row is of kind {rows.kinds.max()}, there are {len(RowKind)}")
        times = rows.fetched_at_ms
        if times.min() < TIME_MS_MIN or times.max() > TIME_MS_MAX:
            raise RecordError(
                f"a time lies outside [{TIME_MS_MIN}, {TIME_MS_MAX}]: "
                f"{times.min()} to {times.max()}"
            )


def _texts(data: bytes, at: int, lengths: Iterable[NDArray[np.generic]]) -> list[Texts]:
    texts = []
    for column in lengths:
        ends = np.cumsum(column, dtype=np.int64)
        size = int(ends[-1]) if len(ends) else 0
        if at + size > len(data):
            raise RecordError(f"the record ends at byte {len(data)}, its texts at {at + size}")
        texts.append(Texts(np.frombuffer(data, np.uint8, size, at), ends))
        fault = texts[-1].utf8_fault()
        if fault:
            raise RecordError(f"a text {fault}")
        at += size
    if at != len(data):
        raise RecordError(f"{len(data) - at} bytes lie behind the record's end")
    return texts


def record_digest(value: bytes) -> str:
    """Return 64 bits of a record, in hex. Cost: 0.1 ms for the longest."""
    return xxhash.xxh3_64_hexdigest(value)
