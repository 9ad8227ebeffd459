"""Originals that are kept when others are forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.log.originals import CONTENT, OriginalStore
from worker.log.record import RowKind
from worker.log.texts import Texts

CHUNK = 65_536


def test_originals_that_are_kept_read_the_same_after_others_were_forgotten() -> None:
    """Texts of many chunks, empty ones at a chunk's border among them. What is forgotten, or not there, is an error."""
    held, count = OriginalStore(SearchRules("exact", 3)), 150_000
    texts = Texts.of([b"x" * (row % 50) for row in range(count)])
    hashes = np.random.default_rng(1).integers(0, 2**64, count, np.uint64)
    content: dict[str, NDArray[Any]] = dict.fromkeys(CONTENT, hashes)
    content |= {"kinds": np.full(count, RowKind.SHORT), "sketches": np.zeros((count, 8), np.uint64)}
    held.add(np.arange(count), (texts, texts), hashes, content, 0, np.zeros(count, np.uint8))
    before = len(held.texts.data._chunks)
    held.forget(140_000)
    assert held.first == 2 * CHUNK and len(held.texts.data._chunks) < before / 2
    loaded = OriginalStore(held.search)
    firsts = held.first, held.texts.data.first
    loaded.load({name: np.concatenate(list(pieces)) for name, pieces in held.pieces().items()}, firsts)
    for each in (held, loaded):
        for row in (2 * CHUNK, 140_000, count - 1):
            assert each.get(row) == ("x" * (row % 50), "x" * (row % 50), row)
        for row in (-1, 2 * CHUNK - 1, count):
            with pytest.raises(IndexError, match=f"row {row} of 150000 originals, of which the first 131072"):
                each.get(row)
