"""What a record of the log is made of: rows as columns, in sections, one a source partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.sketch import WORDS, sketch_of, words_of
from worker.log.texts import Texts


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
    """
    One source message as it goes into the log: a line of `Rows`, for people and tests.

    `offset` is absolute; `note` is empty but for SKIPPED and DEAD; bit i of `doubts` says that bit i of the fingerprint
    nearly was the other one, and `sketch` confirms what the fingerprint finds.
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

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Row]:
        """Yield each row as an object. Cost: 4 µs each."""
        *columns, sketches = (
            [text.decode("utf-8", "surrogatepass") for text in column.between(0, len(self))]
            if isinstance(column, Texts)
            else column.tolist()
            for column in self._columns()
        )
        return map(Row, *columns, map(sketch_of, sketches))

    def _columns(self) -> list[NDArray[Any] | Texts]:
        return [getattr(self, field.name) for field in fields(Rows)]

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows [first, stop). Copies nothing."""
        return Rows(*(column[first:stop] for column in self._columns()))  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts, in order."""
        columns = zip(*(part._columns() for part in parts), strict=True)
        each: Any = (Texts.joined(c) if isinstance(c[0], Texts) else np.concatenate(c) for c in columns)
        return cls(*each)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Rows:
        """Return rows as columns."""
        offsets, kinds, doc_ids, urls, times, fingerprints, digests, features, notes, doubts, sketches = (
            zip(*rows, strict=True) if (rows := list(rows)) else [()] * len(Row._fields)
        )
        return cls(
            np.array(offsets, np.int64), np.array(kinds, np.uint8), _texts(doc_ids), _texts(urls),
            np.array(times, np.int64), np.array(fingerprints, np.uint64), np.array(digests, np.uint64),
            np.array(features, np.uint32), _texts(notes), np.array(doubts, np.uint64),
            np.array([words_of(sketch) for sketch in sketches], np.uint64).reshape(-1, WORDS),
        )  # fmt: skip


def _texts(texts: Iterable[str]) -> Texts:
    return Texts.of([text.encode("utf-8", "surrogatepass") for text in texts])


class Section(NamedTuple):
    """The covered range [first, stop) of one source, its rows, and the author's committed offset (-1: not known)."""

    source: Source
    first: int
    stop: int
    committed: int
    rows: Rows


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
class Record(Rows):
    """A decoded record: the rows of all its sections. The arrays are views of the record's bytes."""

    author: Author
    format: int
    spans: tuple[SectionRows, ...]
    data: bytes  # the record as it stands in the log
