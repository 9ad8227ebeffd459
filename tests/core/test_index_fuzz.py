"""The index under any order and size of calls, held against a look at everything that it should hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from worker.core.index import PermutedIndex
from worker.core.tables import content


def test_growth_from_nothing_loses_nothing() -> None:
    """100,000 fingerprints through every size of the tables: each is found again, with one bit changed."""
    dice = np.random.default_rng(1)
    fingerprints = dice.integers(0, 2**64, 100_000, dtype=np.uint64)
    index = PermutedIndex(3)
    row = 0
    for start in range(0, len(fingerprints), 777):
        row += index.judge(fingerprints[start : start + 777], row).new
    assert row == len(index) == len(fingerprints)
    flipped = fingerprints ^ (np.uint64(1) << dice.integers(0, 64, len(fingerprints), dtype=np.uint64))
    found = index.query(flipped)
    assert (found.rows == np.arange(len(fingerprints))).all()
    assert (found.distances == 1).all()
    index.check()


@pytest.mark.parametrize("seed", range(8))
def test_a_caller_who_breaks_the_rules_breaks_no_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that repeat, rows out of bounds, deletions of what is not there, any size: refused, or the stores hold."""
    monkeypatch.setattr(content, "HOT_MIN", 8)
    dice = np.random.default_rng(seed)
    index = PermutedIndex(int(dice.integers(0, 9)), documents_expected=int(dice.choice([0, 10, 1_000_000])))
    index.tables.flat_below = int(dice.choice([0, 100, 5_000]))
    live = np.uint64(int(dice.choice(np.array([2**64 - 1, 0xFFFF, 0xFFF0_0000_0000_00FF], np.uint64))))
    for _ in range(25):
        size = int(dice.choice([0, 1, 7, 500, 3_000]))
        fingerprints = dice.integers(0, 2**64, size, dtype=np.uint64) & live
        rows = dice.integers(0, int(dice.choice([3, 2**32])), size).astype(np.uint32)
        held = index.arrays()
        some = dice.permutation(len(index))[:size]
        calls: list[Callable[[], object]] = [
            partial(index.insert, fingerprints, rows),
            partial(index.judge, fingerprints, int(dice.choice([0, 5, 2**32 - 1, -3, 2**33]))),
            partial(index.query_then_insert, fingerprints, int(dice.integers(0, 2**31))),
            partial(index.delete_many, fingerprints, rows),
            partial(
                index.delete_many, held["fingerprints"][some].astype(np.uint64), held["rows"][some].astype(np.uint32)
            ),
            partial(index.query, fingerprints),
            partial(index.query_all, 7),
        ]
        with suppress(ValueError):
            calls[int(dice.integers(len(calls)))]()
    for store in index.tables.stores:
        store.check()
    assert len(index.arrays()["rows"]) == len(index)
