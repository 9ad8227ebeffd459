"""The index under any order and size of calls, held against a look at everything that it should hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from worker.core.index import PermutedIndex
from worker.core.tables import content


class Held:
    """What the index should hold, and the slow answers."""

    def __init__(self, max_distance: int) -> None:
        self.max_distance = max_distance
        self.rows: dict[int, int] = {}  # row -> fingerprint
        self.next_row = 0

    def matches(self, fingerprint: int) -> list[tuple[int, int]]:
        """Every match as (row, distance), by distance, then row."""
        found = [(row, (fingerprint ^ other).bit_count()) for row, other in self.rows.items()]
        return sorted((match for match in found if match[1] <= self.max_distance), key=lambda match: match[::-1])

    def judge(self, fingerprint: int) -> tuple[int, int]:
        """Leader clustering, one fingerprint: the best match, or a new row."""
        matches = self.matches(fingerprint)
        if matches:
            return matches[0]
        self.rows[self.next_row] = fingerprint
        self.next_row += 1
        return -1, 255


def near(dice: random.Random, bases: list[int], max_distance: int) -> int:
    """A fingerprint that is often near a known one, sometimes equal, sometimes just too far."""
    fingerprint = dice.choice(bases) if dice.random() < 0.7 else dice.getrandbits(64)
    for _ in range(dice.randrange(max_distance + 3)):
        fingerprint ^= 1 << dice.randrange(64)
    return fingerprint


@pytest.mark.parametrize("seed", range(32))
def test_any_calls_in_any_order_are_exact(seed: int) -> None:
    """Judging, deleting and asking, for every distance up to 7, from an empty index and from one sized for millions."""
    dice = random.Random(seed)
    max_distance = seed % 8
    index = PermutedIndex(max_distance, documents_expected=dice.choice([0, 10, 100_000, 3_000_000]))
    held = Held(max_distance)
    bases = [dice.getrandbits(64) for _ in range(dice.choice([3, 50, 400]))]
    for _ in range(dice.choice([3, 12])):
        if dice.random() < 0.7:
            asked = [near(dice, bases, max_distance) for _ in range(dice.choice([1, 10, 300]))]
            judged = index.judge(np.array(asked, np.uint64), held.next_row)
            expected = [held.judge(fingerprint) for fingerprint in asked]
            assert list(zip(judged.rows.tolist(), judged.distances.tolist(), strict=True)) == expected
            assert judged.new == sum(row < 0 for row, _ in expected)
        elif held.rows:
            for row in dice.sample(sorted(held.rows), min(len(held.rows), dice.choice([1, 20, 2_000]))):
                assert index.delete(held.rows[row], row)
                assert not index.delete(held.rows.pop(row), row)
        if held.rows:
            fingerprint = near(dice, list(held.rows.values()), max_distance)
            assert index.query_all(fingerprint) == held.matches(fingerprint)
        assert len(index) == len(held.rows)
        index.check()


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
