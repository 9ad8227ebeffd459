"""A log as workers would have written it, as a file: records of 1,000 rows, half of the documents copies of others."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.log.record import RowKind, Rows, Section, Source, encode
from worker.log.rules import Definition
from worker.log.texts import Texts

DEFINITION = Definition("nd1", "0" * 16, SearchRules())
RECORD_ROWS = 1_000
PARTITIONS = 12
SHORT_SHARE = 0.02
_LENGTH = struct.Struct("<I")
_SHARE_OF_SITES = 5_000


def write_log(path: Path, rows: int, seed: int = 1) -> int:
    """
    Write a log; gives its size in bytes.

    Half of the rows are copies of an earlier original drawn from all of them, other in 1.5 doubtful bits on average; a
    quarter of all bits is doubtful, as in prose. doc_ids have 32 hex digits, URLs some 70 characters; each record is
    one partition's, whose author has committed the one before.
    """
    random = np.random.default_rng(seed)
    originals = np.empty((10, rows // 2 + 2 * RECORD_ROWS), np.uint64)  # fingerprints, doubts and sketches
    known = 0
    with path.open("wb") as file:
        for number, first in enumerate(range(0, rows, RECORD_ROWS)):
            count = min(RECORD_ROWS, rows - first)
            prints = random.integers(0, 2**64, (10, count), np.uint64)
            prints[1] &= random.integers(0, 2**64, count, np.uint64)
            copies = np.flatnonzero(random.random(count) < 0.5) if known else np.empty(0, np.int64)
            prints[:, copies] = originals[:, random.integers(0, max(known, 1), len(copies))]
            for _ in range(6):  # a flip that is drawn twice is none, and so is one of a sure bit
                flips = np.uint64(1) << random.integers(0, 64, len(copies), np.uint64)
                prints[0, copies] ^= flips & prints[1, copies]
            new = np.delete(prints, copies, axis=1)[:, : originals.shape[1] - known]
            originals[:, known : known + new.shape[1]] = new
            known += new.shape[1]
            record = _record(random, prints, number, first)
            file.write(_LENGTH.pack(len(record)) + record)
    return path.stat().st_size


def _record(random: np.random.Generator, prints: NDArray[np.uint64], number: int, first: int) -> bytes:
    count = len(prints[0])
    sites = random.integers(0, _SHARE_OF_SITES, count).tolist()
    urls = [
        b"https://www.site-%04d.example.org/news/2026/%02d/an-article-with-the-number-%08d"
        % (site, site % 12, first + at)
        for at, site in enumerate(sites)
    ]
    partition, at = number % PARTITIONS, number // PARTITIONS * RECORD_ROWS
    rows = Rows(
        offsets=at + np.arange(count),
        kinds=np.where(random.random(count) < SHORT_SHARE, RowKind.SHORT, RowKind.FULL).astype(np.uint8),
        doc_ids=Texts.of([random.bytes(16).hex().encode() for _ in range(count)]),
        urls=Texts.of(urls),
        fetched_at_ms=1_760_000_000_000 + first + np.arange(count),
        fingerprints=prints[0],
        digests=random.integers(0, 2**64, count, np.uint64),
        features=np.full(count, 300, np.uint32),
        notes=Texts.of([b""] * count),
        doubts=prints[1],
        sketches=np.ascontiguousarray(prints[2:].T),
    )
    section = Section(Source(b"bench-documents!", partition), at, at + count, at, rows)
    return next(encode(DEFINITION.author("bench"), [section], 1 << 30))


def read_log(path: Path) -> Iterator[bytes]:
    """Return the records in order."""
    with path.open("rb", buffering=1 << 20) as file:
        while length := file.read(_LENGTH.size):
            yield file.read(_LENGTH.unpack(length)[0])
