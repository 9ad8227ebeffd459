"""Columns that forget, and that share their chunks with snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.log.originals import CONTENT, Column, OriginalStore
from worker.log.record import RowKind
from worker.log.texts import Texts

CHUNK = 65_536


def column(length: int) -> Column[np.int64]:
    """A column that holds its own row numbers."""
    made: Column[np.int64] = Column(np.int64)
    made.append(np.arange(length, dtype=np.int64))
    return made


def test_what_a_snapshot_was_given_stays_whatever_is_put_appended_or_forgotten_later() -> None:
    """A change after `pieces` is seen by the column alone."""
    growing = column(CHUNK + 10)
    given = growing.pieces()
    growing.put(np.array([3, CHUNK + 4]), -1)
    growing.append(np.array([7], np.int64))
    growing.forget(CHUNK + 5)
    assert np.concatenate(given).tolist() == list(range(CHUNK + 10))
    assert (growing.first, growing[CHUNK + 4], growing[CHUNK + 10], len(growing)) == (CHUNK, -1, 7, CHUNK + 11)


def test_forgotten_rows_are_an_error_and_give_their_memory_back() -> None:
    """Whole chunks go, the last one stays."""
    growing = column(3 * CHUNK)
    growing.forget(10 * CHUNK)
    assert (growing.first, growing.nbytes) == (2 * CHUNK, CHUNK * 8)
    for row in (0, 2 * CHUNK - 1, 3 * CHUNK):
        with pytest.raises(IndexError, match=f"131072, 196608.*got {row}"):
            growing[row]
    assert growing.slice(2 * CHUNK, 2 * CHUNK + 2).tolist() == [2 * CHUNK, 2 * CHUNK + 1]


def test_a_column_loaded_from_a_row_on_goes_on_like_the_one_it_was_taken_from() -> None:
    """The first row is that of a chunk; what was loaded is never written to."""
    growing = column(3 * CHUNK - 5)
    growing.forget(CHUNK)
    stored = np.concatenate(growing.pieces())
    stored.setflags(write=False)
    loaded = Column(np.int64).like(stored, CHUNK)
    loaded.put(np.array([CHUNK, 3 * CHUNK - 6]), 5)
    assert (loaded[CHUNK], loaded[3 * CHUNK - 6], loaded[CHUNK + 1], len(loaded)) == (5, 5, CHUNK + 1, 3 * CHUNK - 5)
    with pytest.raises(ValueError, match="multiple of 65536, got 7"):
        Column(np.int64).like(stored, 7)


def test_originals_that_are_kept_read_the_same_after_others_were_forgotten() -> None:
    """Texts of many chunks, empty ones at a chunk's border among them. What is forgotten, or not there, is an error."""
    held, count = OriginalStore(SearchRules("exact", 3)), 150_000
    texts = Texts.of([b"x" * (row % 50) for row in range(count)])
    hashes = np.random.default_rng(1).integers(0, 2**64, count, np.uint64)
    content: dict[str, NDArray[Any]] = dict.fromkeys(CONTENT, hashes)
    content |= {"kinds": np.full(count, RowKind.SHORT), "sketches": np.zeros((count, 8), np.uint64)}
    held.add(np.arange(count), (texts, texts), hashes, content, 0, latest=np.zeros(count, np.uint8))
    before = held.texts.data.nbytes
    held.forget(140_000)
    assert held.first == 2 * CHUNK and held.texts.data.nbytes < before / 2
    loaded = OriginalStore(held.search)
    loaded.load({name: np.concatenate(list(pieces)) for name, pieces in held.pieces().items()}, held.firsts)
    for each in (held, loaded):
        for row in (2 * CHUNK, 140_000, count - 1):
            assert each.get(row) == ("x" * (row % 50), "x" * (row % 50), row)
        for row in (-1, 2 * CHUNK - 1, count):
            with pytest.raises(IndexError, match=f"row {row} of 150000 originals, of which the first 131072"):
                each.get(row)
