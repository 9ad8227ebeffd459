"""The exact table against a dictionary of lists, under any order and size of calls."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from worker.core.exact import ExactTable


class ExactOracle:
    """Rows by key, as plainly as can be."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}

    def insert(self, key: int, row: int) -> None:
        """Add a row under a key."""
        self.rows[key] = sorted([*self.rows.get(key, []), row])

    def delete(self, key: int, row: int) -> bool:
        """Take it out once."""
        held = self.rows.get(key, [])
        if row not in held:
            return False
        held.remove(row)
        if not held:
            del self.rows[key]
        return True

    def pairs(self) -> list[tuple[int, int]]:
        """Everything, by row, then key."""
        return sorted((row, key) for key, rows in self.rows.items() for row in rows)


def columns(pairs: list[tuple[int, int]]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Pairs of key and row as the table takes them."""
    keys = np.array([key for key, _ in pairs], np.uint64)
    return keys, np.array([row for _, row in pairs], np.uint32)


# A few keys that come again, the ends of the range, and any other.
keys = st.one_of(st.integers(0, 12), st.sampled_from([2**64 - 1, 2**63, 1 << 40]), st.integers(0, 2**64 - 1))
rows = st.one_of(st.integers(0, 20), st.sampled_from([2**32 - 1, 2**31]), st.integers(0, 2**32 - 1))
several = st.lists(st.tuples(keys, rows), max_size=40)


class ExactMachine(RuleBasedStateMachine):
    """Insert, delete, snapshot and ask in any order; some steps take so many keys that segments are cut and joined."""

    @initialize(expected=st.sampled_from([0, 1, 20_000]))
    def begin(self, expected: int) -> None:
        """An empty table, sized for any number."""
        self.table, self.oracle = ExactTable(expected, seed=1), ExactOracle()
        self.crowds: list[list[tuple[int, int]]] = []

    @rule(pairs=several)
    def insert(self, pairs: list[tuple[int, int]]) -> None:
        """Some keys."""
        self.table.insert(*columns(pairs))
        for key, row in pairs:
            self.oracle.insert(key, row)

    @rule(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6_000))
    def insert_crowd(self, seed: int, count: int) -> None:
        """Thousands of keys that differ."""
        drawn = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False).tolist()
        crowd = [(key, at) for at, key in enumerate(drawn)]
        self.insert(crowd)
        self.crowds.append(crowd)

    @rule(share=st.floats(0.5, 1))
    def delete_crowd(self, share: float) -> None:
        """Most of a crowd, in one call; twice, so that the second finds nothing."""
        if self.crowds:
            crowd = self.crowds.pop()
            gone = crowd[: int(len(crowd) * share)]
            for _ in range(2):
                done = self.table.delete_many(*columns(gone)).tolist()
                assert done == [self.oracle.delete(key, row) for key, row in gone]

    @rule(pairs=several)
    def delete(self, pairs: list[tuple[int, int]]) -> None:
        """Pairs that may be there."""
        for key, row in pairs:
            assert self.table.delete(key, row) == self.oracle.delete(key, row)

    @rule(data=st.data())
    def delete_held(self, data: st.DataObject) -> None:
        """Pairs that are there, several of them under one key perhaps."""
        held = [(key, row) for row, key in self.oracle.pairs()[:60]]
        if held:
            gone = data.draw(st.lists(st.sampled_from(held), max_size=20, unique=True))
            done = self.table.delete_many(*columns(gone)).tolist()
            assert done == [self.oracle.delete(key, row) for key, row in gone]

    @rule()
    def reload(self) -> None:
        """The table becomes the one of its own snapshot."""
        self.table = ExactTable.from_arrays(self.table.arrays(), seed=2)

    @rule(asked=st.lists(keys, max_size=30))
    def ask(self, asked: list[int]) -> None:
        """Keys that may be there."""
        found = self.table.find(np.array(asked, np.uint64)).tolist()
        assert found == [min(self.oracle.rows.get(key, [-1])) for key in asked]
        for key in asked:
            assert self.table.find_all(key) == self.oracle.rows.get(key, [])

    @invariant()
    def content_is_equal(self) -> None:
        """All of it, by row."""
        content = self.table.arrays()
        assert list(zip(content["rows"].tolist(), content["keys"].tolist(), strict=True)) == self.oracle.pairs()
        assert len(self.table) == len(content["keys"])
        self.table.check()


TestExactMachine = ExactMachine.TestCase
TestExactMachine.settings = settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)


def test_memory_follows_the_content() -> None:
    """16 to 32 bytes a key from a million on, and hardly anything once all are gone."""
    drawn = np.random.default_rng(1).permutation(np.arange(1_000_000, dtype=np.uint64) << np.uint64(20))
    table, numbers = ExactTable(), np.arange(1_000_000, dtype=np.uint32)
    for at in range(0, 1_000_000, 10_000):
        table.insert(drawn[at : at + 10_000], numbers[at : at + 10_000])
        if at >= 100_000:
            assert 14 <= table.nbytes / len(table) <= 34
    for at in range(0, 1_000_000, 10_000):
        assert table.delete_many(drawn[at : at + 10_000], numbers[at : at + 10_000]).all()
    assert len(table) == 0 and table.nbytes < 1_000_000
    assert (table.find(drawn) == -1).all()


@pytest.mark.parametrize("step", [1, 2**9, 2**32, 2**55, 2**63])
def test_keys_in_a_pattern_cost_no_more_than_others(step: int) -> None:
    """Keys with equal low bits, or with equal high bits, do not meet: the processor time stays that of any keys."""
    count = 200_000
    pattern = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.arange(count, dtype=np.uint64) // np.uint64(2)
    pattern = np.unique(pattern)
    numbers = np.arange(len(pattern), dtype=np.uint32)
    ExactTable.from_arrays({"keys": pattern[:10], "rows": numbers[:10]})  # compiled by now
    started = time.process_time()
    table = ExactTable.from_arrays({"keys": pattern, "rows": numbers})
    assert (table.find(pattern) == numbers).all()
    assert time.process_time() - started < 2
    table.check()


def test_many_rows_of_one_key_cost_no_more_each() -> None:
    """Twenty thousand rows under one key go in and out, the smallest first, in bounded time."""
    count = 20_000
    table, numbers = ExactTable(), np.arange(count, dtype=np.uint32)
    started = time.process_time()
    table.insert(np.full(count, 7, np.uint64), numbers[::-1].copy())
    assert table.find_all(7) == numbers.tolist()
    assert table.delete_many(np.full(count, 7, np.uint64), numbers).all()
    assert time.process_time() - started < 10
    assert len(table) == 0


def test_what_would_lose_bits_is_refused() -> None:
    """Columns of different lengths, other types, rows beyond 32 bits: both values are named."""
    table, key = ExactTable(), np.array([7], np.uint64)
    with pytest.raises(ValueError, match="got 1 keys and 0 rows"):
        table.insert(key, np.array([], np.uint32))
    with pytest.raises(ValueError, match="float64"):
        table.find(np.array([7.0]))
    with pytest.raises(ValueError, match="got 4294967296 to 4294967296"):
        table.insert(key, np.array([2**32], np.int64))
