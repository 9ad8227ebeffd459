"""
One record of the ordered log: the rows that one worker made of one batch, as columns.

    header    magic "NDLG" | version u16 | sections u16 | rows u32 | parameters u64 | scheme 32 bytes | author u16 | 0
    sections  topic id 16 bytes | partition i32 | rows u32 | first i64 | stop i64 | committed i64      one a partition
    columns   fingerprint u64 | doubts u64 | sketch 8 u64 | digest u64 | fetched_at_ms i64 | features u32
              offset delta u32 | doc_id length u16 | url length u16 | note length u16 | kind u8         one entry a row
    text      author, then all doc_ids, all urls, all notes: UTF-8, back to back

All numbers are little-endian. A section covers the source offsets [first, stop): each message in that range has a row,
so that a replica knows of every offset what became of it. Columns, not objects: replay runs at array speed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from worker.errors import RecordError
from worker.log.rows import Author, Record, RowKind, Rows, Section, SectionRows, Source
from worker.log.texts import Texts

FORMAT_VERSION = 3
FORMAT_OLDEST = 3  # that is still read: those before had no sketches, by which documents are judged
ROWS_MAX = 1 << 20
TEXT_BYTES_MAX = (1 << 16) - 1
SCHEME_BYTES_MAX = 32
TIME_MS_MIN, TIME_MS_MAX = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999

_MAGIC = b"NDLG"
_HEADER = struct.Struct("<4sHHIQ32sHxx")
_SECTION = struct.Struct("<16siIqqq")
_COLUMNS: tuple[tuple[str, DTypeLike], ...] = (
    ("fingerprints", "<u8"),
    ("doubts", "<u8"),
    ("sketches", ("<u8", 8)),  # not "(8,)<u8": numpy parses that as Python each time, which no two threads may do
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
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)


def encode(
    author: Author, sections: Sequence[Section], record_bytes_max: int, record_format: int = FORMAT_VERSION
) -> Iterator[bytes]:
    """
    Pack sections into as few records as `record_bytes_max` allows, in their order.

    A section that does not fit is cut between two rows, so that each record covers exactly the offsets that it answers.
    Deterministic: the same sections give the same bytes.

    Args:
        record_format: the log's; what it has is told by `FORMAT_OLDEST` and the formats since.
    Raises:
        ValueError: a text is longer than 65,535 bytes: the shell must have refused such a document before.
    Cost: O(rows), some 0.2 µs each.
    """
    fixed = _HEADER.size + len(author.name.encode()) + 8
    pending: list[Section] = []
    size = fixed
    for source, start, stop, committed, rows in sections:
        if pending and size + _SECTION.size > record_bytes_max:  # sections without rows fill a record, too
            yield _pack(author, pending, record_format)
            pending, size = [], fixed
        size += _SECTION.size
        sums = np.concatenate([[0], np.cumsum(ROW_BYTES + sum(_lengths(texts) for texts in _texts_of(rows)))])
        first, at = start, 0
        while size + sums[-1] - sums[at] > record_bytes_max:
            end = int(np.searchsorted(sums, sums[at] + record_bytes_max - size, "right")) - 1
            end = max(end, at if pending else at + 1)
            if end >= len(rows):
                break
            if end > at:
                cut = int(rows.offsets[end])
                pending.append(Section(source, first, cut, committed, rows.between(at, end)))
                first = cut
            yield _pack(author, pending, record_format)
            pending, size, at = [], fixed + _SECTION.size, end
        pending.append(Section(source, first, stop, committed, rows.between(at, len(rows))))
        size += int(sums[-1] - sums[at])
    if pending:
        yield _pack(author, pending, record_format)


def _texts_of(rows: Rows) -> tuple[Texts, Texts, Texts]:
    return rows.doc_ids, rows.urls, rows.notes


def _lengths(texts: Texts) -> NDArray[np.int64]:
    lengths = np.diff(texts.ends, prepend=0)
    if len(lengths) and lengths.max() > TEXT_BYTES_MAX:
        raise ValueError(f"a text in the log has at most {TEXT_BYTES_MAX} bytes of UTF-8, got {lengths.max()}")
    return lengths


def _pack(author: Author, sections: Sequence[Section], record_format: int) -> bytes:
    name = _text(author.name)
    count = sum(len(section.rows) for section in sections)
    header = _HEADER.pack(
        _MAGIC, record_format, len(sections), count, author.parameters_hash, _scheme(author.scheme), len(name)
    )
    texts = list(zip(*(_texts_of(section.rows) for section in sections), strict=True))
    columns: dict[str, list[NDArray[Any]]] = {
        "deltas": [section.rows.offsets - section.first for section in sections],
        **{f"{kind}_lengths": list(map(_lengths, column)) for kind, column in zip(_TEXTS, texts, strict=True)},
    }
    return b"".join(
        [
            header,
            *(_SECTION.pack(*s.source, len(s.rows), s.first, s.stop, s.committed) for s in sections),
            *(
                part.astype(np.dtype(kind).base).tobytes()
                for column, kind in _COLUMNS
                for part in columns.get(column) or [getattr(section.rows, column) for section in sections]
            ),
            name,
            *(part.data[: part.ends[-1]].tobytes() for column in texts for part in column if len(part)),
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
        RecordError: the bytes are no record, a cut or damaged one, or one of a newer format.
    Cost: some 50 µs, and 1 ns a byte of text: columns and texts are views of the record.
    """
    try:
        magic, version, section_count, row_count, parameters_hash, scheme, name_length = _HEADER.unpack_from(data)
    except struct.error as error:
        raise RecordError(f"a record of {len(data)} bytes is too short for its header ({_HEADER.size})") from error
    if magic != _MAGIC:
        raise RecordError(f"not a record of neardup's log: it starts with {data[:4]!r}, not {_MAGIC!r}")
    if not FORMAT_OLDEST <= version <= FORMAT_VERSION:
        read = " to ".join(dict.fromkeys((str(FORMAT_OLDEST), str(FORMAT_VERSION))))
        raise RecordError(f"the record has format {version}, this version reads {read}", record_format=version)
    at = _HEADER.size + section_count * _SECTION.size
    if row_count > ROWS_MAX or len(data) < at + row_count * ROW_BYTES + name_length:
        raise RecordError(f"a record of {len(data)} bytes cannot hold {section_count} sections and {row_count} rows")
    columns: dict[str, Any] = {}
    for name, kind in _COLUMNS:
        columns[name] = np.frombuffer(data, dtype=kind, count=row_count, offset=at)
        at += columns[name].nbytes
        columns[name] = columns[name].astype(columns[name].dtype.newbyteorder("="), copy=False)
    author_name = data[at : at + name_length]
    texts = _texts(data, at + name_length, [columns.pop(f"{name}_lengths") for name in _TEXTS])
    spans = tuple(_spans(data, section_count, row_count))
    firsts = np.repeat(
        np.array([span.first for span in spans], np.int64), [span.row_stop - span.row_first for span in spans]
    )
    author = author_name.decode("utf-8", "replace"), scheme.rstrip(b"\0").decode("ascii", "replace"), parameters_hash
    offsets = _checked(firsts + columns.pop("deltas").astype(np.int64), spans, columns)
    columns |= zip(("doc_ids", "urls", "notes"), texts, strict=True)
    return Record(author=Author(*author), format=version, spans=spans, offsets=offsets, data=data, **columns)


def _checked(
    offsets: NDArray[np.int64], spans: Sequence[SectionRows], columns: Mapping[str, NDArray[Any]]
) -> NDArray[np.int64]:
    """Return the rows' offsets, when they ascend within their sections and whatever reads the rows can take them."""
    for span in spans:
        mine = offsets[span.row_first : span.row_stop]
        if len(mine) and not (mine[0] >= span.first and mine[-1] < span.stop and (mine[1:] > mine[:-1]).all()):
            raise RecordError(f"the offsets of a section do not ascend from {span.first} to below {span.stop}")
    if len(offsets):
        if columns["kinds"].max() > max(RowKind):
            raise RecordError(f"a row is of kind {columns['kinds'].max()}, there are {len(RowKind)}")
        times = columns["fetched_at_ms"]
        if times.min() < TIME_MS_MIN or times.max() > TIME_MS_MAX:
            raise RecordError(f"a time lies outside [{TIME_MS_MIN}, {TIME_MS_MAX}]: {times.min()} to {times.max()}")
    return offsets


def _spans(data: bytes, section_count: int, row_count: int) -> Iterator[SectionRows]:
    row = 0
    for index in range(section_count):
        topic_id, partition, rows, first, stop, committed = _SECTION.unpack_from(
            data, _HEADER.size + index * _SECTION.size
        )
        if not 0 <= first <= stop or row + rows > row_count:
            raise RecordError(f"section {index} is damaged: offsets [{first}, {stop}), {rows} rows of {row_count}")
        yield SectionRows(Source(topic_id, partition), first, stop, committed, row, row + rows)
        row += rows
    if row != row_count:
        raise RecordError(f"the sections hold {row} rows, the header says {row_count}")


def _texts(data: bytes, at: int, lengths: Iterable[NDArray[np.generic]]) -> list[Texts]:
    texts = []
    for column in lengths:
        ends = np.cumsum(column, dtype=np.int64)
        size = int(ends[-1]) if len(ends) else 0
        if at + size > len(data):
            raise RecordError(f"the record ends at byte {len(data)}, its texts at {at + size}")
        texts.append(_well_formed(Texts(np.frombuffer(data, np.uint8, size, at), ends)))
        at += size
    if at != len(data):
        raise RecordError(f"{len(data) - at} bytes lie behind the record's end")
    return texts


def _well_formed(texts: Texts) -> Texts:
    """Return texts that are UTF-8, each for itself: none begins in the middle of a character."""
    try:
        texts.data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise RecordError(f"a text is not UTF-8: {error.reason}") from error
    begins = texts.ends[:-1]
    if len(begins) and (texts.data[begins[begins < len(texts.data)]] & 0xC0 == 0x80).any():
        raise RecordError("a text begins in the middle of a character")
    return texts
