"""
One record of the ordered log: the rows that one worker made of one batch, as columns.

    header    magic "NDLG" | version u16 | sections u16 | rows u32 | parameters u64 | scheme 32 bytes | author u16 | 0
    sections  topic id 16 bytes | partition i32 | rows u32 | first i64 | stop i64 | committed i64      one a partition
    columns   fingerprint u64 | digest u64 | fetched_at_ms i64 | features u32 | offset delta u32
              doc_id length u16 | url length u16 | note length u16 | kind u8                            one entry a row
    text      author, then all doc_ids, all urls, all notes: UTF-8, back to back

All numbers are little-endian. A section covers the source offsets [first, stop): each message in that range has a row,
so that a replica knows of every offset what became of it. Columns, not objects: replay runs at array speed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.errors import StopError
from worker.log.texts import Texts

__all__ = [
    "FORMAT_VERSION",
    "Author",
    "Record",
    "Row",
    "RowKind",
    "Section",
    "SectionRows",
    "Source",
    "decode",
    "encode",
]

FORMAT_VERSION = 1
ROWS_MAX = 1 << 20
TEXT_BYTES_MAX = (1 << 16) - 1
SCHEME_BYTES_MAX = 32

_MAGIC = b"NDLG"
_HEADER = struct.Struct("<4sHHIQ32sHxx")
_SECTION = struct.Struct("<16siIqqq")
_COLUMNS: tuple[tuple[str, str], ...] = (
    ("fingerprints", "<u8"),
    ("digests", "<u8"),
    ("fetched_at_ms", "<i8"),
    ("features", "<u4"),
    ("deltas", "<u4"),
    ("doc_id_lengths", "<u2"),
    ("url_lengths", "<u2"),
    ("note_lengths", "<u2"),
    ("kinds", "u1"),
)
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)


class RowKind(IntEnum):
    """What became of a source message. The first three are the fingerprint engine's own kinds of text."""

    SKIPPED = 0  # nothing to fingerprint; the note says why
    SHORT = 1  # too few tokens: one feature, only exact matches count
    FULL = 2  # judged by Hamming distance
    DELETED = 3  # a null value: the document with this doc_id leaves the index
    DEAD = 4  # cannot be judged: a dead letter; the note is "code: text"


class Source(NamedTuple):
    """One partition of one incarnation of the source topic: a topic made anew has another id, and other offsets."""

    topic_id: bytes
    partition: int


class Row(NamedTuple):
    """One source message as it goes into the log. `offset` is absolute; `note` is empty but for SKIPPED and DEAD."""

    offset: int
    kind: int
    doc_id: str
    url: str
    fetched_at_ms: int
    fingerprint: int = 0
    digest: int = 0
    features: int = 0
    note: str = ""


class Section(NamedTuple):
    """The covered range [first, stop) of one source, its rows, and the author's committed offset (-1: not known)."""

    source: Source
    first: int
    stop: int
    committed: int
    rows: Sequence[Row]


class Author(NamedTuple):
    """Who wrote a record, under which definition of a fingerprint."""

    name: str
    scheme: str
    parameters_hash: int


@dataclass(frozen=True, slots=True)
class SectionRows:
    """One section of a decoded record: its rows are [row_first, row_stop) of the record's columns."""

    source: Source
    first: int
    stop: int
    committed: int
    row_first: int
    row_stop: int


@dataclass(frozen=True, slots=True)
class Record:
    """A decoded record: columns of one length over all its sections. The arrays are views of the record's bytes."""

    author: Author
    spans: tuple[SectionRows, ...]
    offsets: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    fingerprints: NDArray[np.uint64]
    digests: NDArray[np.uint64]
    fetched_at_ms: NDArray[np.int64]
    features: NDArray[np.uint32]
    doc_ids: Texts
    urls: Texts
    notes: Texts
    data: bytes  # the record as it stands in the log

    def __len__(self) -> int:
        return len(self.kinds)


def encode(author: Author, sections: Sequence[Section], record_bytes_max: int) -> Iterator[bytes]:
    """
    Pack sections into as few records as `record_bytes_max` allows, in their order.

    A section that does not fit is cut between two rows, so that each record covers exactly the offsets that it answers.
    Deterministic: the same sections give the same bytes.

    Raises:
        ValueError: a text is longer than 65,535 bytes: the shell must have refused such a document before.
    Cost: O(rows).
    """
    fixed = _HEADER.size + len(author.name.encode()) + 8
    pending: list[Section] = []
    size = fixed
    for section in sections:
        rows: list[Row] = []
        first = section.first
        if pending and size + _SECTION.size > record_bytes_max:  # sections without rows fill a record, too
            yield _pack(author, pending)
            pending, size = [], fixed
        size += _SECTION.size
        for row in section.rows:
            cost = ROW_BYTES + len(row.doc_id) * 4 + len(row.url) * 4 + len(row.note) * 4  # UTF-8's worst case
            if size + cost > record_bytes_max and (rows or pending):
                if rows:
                    pending.append(Section(section.source, first, row.offset, section.committed, rows))
                yield _pack(author, pending)
                pending, rows, first = [], [], row.offset if rows else first
                size = fixed + _SECTION.size
            rows.append(row)
            size += cost
        pending.append(Section(section.source, first, section.stop, section.committed, rows))
    if pending:
        yield _pack(author, pending)


def _pack(author: Author, sections: Sequence[Section]) -> bytes:
    rows = [row for section in sections for row in section.rows]
    deltas = [row.offset - section.first for section in sections for row in section.rows]
    doc_ids, urls, notes = (
        [_text(row.doc_id) for row in rows],
        [_text(row.url) for row in rows],
        [_text(row.note) for row in rows],
    )
    name = _text(author.name)
    header = _HEADER.pack(
        _MAGIC,
        FORMAT_VERSION,
        len(sections),
        len(rows),
        author.parameters_hash,
        _scheme(author.scheme),
        len(name),
    )
    columns = (
        [row.fingerprint for row in rows],
        [row.digest for row in rows],
        [row.fetched_at_ms for row in rows],
        [row.features for row in rows],
        deltas,
        [len(text) for text in doc_ids],
        [len(text) for text in urls],
        [len(text) for text in notes],
        [row.kind for row in rows],
    )
    return b"".join(
        [
            header,
            *(_SECTION.pack(*s.source, len(s.rows), s.first, s.stop, s.committed) for s in sections),
            *(np.array(column, dtype=kind).tobytes() for column, (_, kind) in zip(columns, _COLUMNS, strict=True)),
            name,
            *doc_ids,
            *urls,
            *notes,
        ]
    )


def _scheme(scheme: str) -> bytes:
    data = scheme.encode("ascii")
    if len(data) > SCHEME_BYTES_MAX:
        raise ValueError(f"a scheme id has at most {SCHEME_BYTES_MAX} ASCII characters, got {scheme!r}")
    return data


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"a text in the log has at most {TEXT_BYTES_MAX} bytes of UTF-8, got {len(data)}")
    return data


def decode(data: bytes) -> Record:
    """
    Read one record of the log; every size is checked before it is used.

    Raises:
        StopError: the bytes are no record, a cut one, or one of a newer format. The log cannot be followed past it.
    Cost: some 30 µs, whatever it holds: columns and texts are views of the record.
    """
    try:
        magic, version, section_count, row_count, parameters_hash, scheme, name_length = _HEADER.unpack_from(data)
    except struct.error as error:
        raise StopError(f"a record of {len(data)} bytes is too short for its header ({_HEADER.size})") from error
    if magic != _MAGIC:
        raise StopError(f"not a record of neardup's log (starts with {data[:4]!r}, expected {_MAGIC!r}): wrong topic?")
    if version > FORMAT_VERSION:
        raise StopError(
            f"the record has format {version}, this worker reads up to {FORMAT_VERSION}: upgrade every worker first"
        )
    at = _HEADER.size + section_count * _SECTION.size
    if row_count > ROWS_MAX or len(data) < at + row_count * ROW_BYTES + name_length:
        raise StopError(f"a record of {len(data)} bytes cannot hold {section_count} sections and {row_count} rows")
    columns: dict[str, NDArray[np.generic]] = {}
    for name, kind in _COLUMNS:
        columns[name] = np.frombuffer(data, dtype=kind, count=row_count, offset=at)
        at += columns[name].nbytes
    author_name = data[at : at + name_length]
    texts = _texts(data, at + name_length, [columns[f"{name}_lengths"] for name in ("doc_id", "url", "note")])
    spans = tuple(_spans(data, section_count, row_count))
    firsts = np.repeat(
        np.array([span.first for span in spans], np.int64), [span.row_stop - span.row_first for span in spans]
    )
    return Record(
        author=Author(
            author_name.decode("utf-8", "replace"), scheme.rstrip(b"\0").decode("ascii", "replace"), parameters_hash
        ),
        spans=spans,
        offsets=firsts + columns["deltas"].astype(np.int64),
        kinds=columns["kinds"].astype(np.uint8, copy=False),
        fingerprints=columns["fingerprints"].astype(np.uint64, copy=False),
        digests=columns["digests"].astype(np.uint64, copy=False),
        fetched_at_ms=columns["fetched_at_ms"].astype(np.int64, copy=False),
        features=columns["features"].astype(np.uint32, copy=False),
        doc_ids=texts[0],
        urls=texts[1],
        notes=texts[2],
        data=data,
    )


def _spans(data: bytes, section_count: int, row_count: int) -> Iterator[SectionRows]:
    row = 0
    for index in range(section_count):
        topic_id, partition, rows, first, stop, committed = _SECTION.unpack_from(
            data, _HEADER.size + index * _SECTION.size
        )
        if not 0 <= first <= stop or row + rows > row_count:
            raise StopError(f"section {index} is damaged: offsets [{first}, {stop}), {rows} rows of {row_count}")
        yield SectionRows(Source(topic_id, partition), first, stop, committed, row, row + rows)
        row += rows
    if row != row_count:
        raise StopError(f"the sections hold {row} rows, the header says {row_count}")


def _texts(data: bytes, at: int, lengths: Iterable[NDArray[np.generic]]) -> list[Texts]:
    texts = []
    for column in lengths:
        ends = np.cumsum(column, dtype=np.int64)
        size = int(ends[-1]) if len(ends) else 0
        if at + size > len(data):
            raise StopError(f"the record ends at byte {len(data)}, its texts at {at + size}")
        texts.append(Texts(np.frombuffer(data, np.uint8, size, at), ends))
        at += size
    if at != len(data):
        raise StopError(f"{len(data) - at} bytes lie behind the record's end")
    return texts
