"""What a record of the log is made of: rows in sections, one a source partition; going in, and decoded as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.log.texts import Texts

__all__ = ["Author", "Record", "Row", "RowKind", "Section", "SectionRows", "Source"]


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
    One source message as it goes into the log.

    `offset` is absolute; `note` is empty but for SKIPPED and DEAD; bit i of `doubts` says that bit i of the fingerprint
    nearly was the other one.
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
    format: int
    spans: tuple[SectionRows, ...]
    offsets: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    fingerprints: NDArray[np.uint64]
    doubts: NDArray[np.uint64]
    digests: NDArray[np.uint64]
    fetched_at_ms: NDArray[np.int64]
    features: NDArray[np.uint32]
    doc_ids: Texts
    urls: Texts
    notes: Texts
    data: bytes  # the record as it stands in the log

    def __len__(self) -> int:
        return len(self.kinds)
