"""Equal fingerprints in an exact index, against a sorted list of rows for each."""

from __future__ import annotations

import bisect
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.index import PermutedIndex
from worker.core.tables.exact import ExactTables
from worker.core.tables.rings import ring_of

# Equal ones, near ones, and one that shares no block with them.
FINGERPRINTS = (0, 1, 0xFFFF_FFFF_FFFF_FFFF, 1 << 63)


def rings(tables: ExactTables) -> dict[int, list[int]]:
    """Return the rows of each distinct fingerprint in the order of its ring, the smallest first."""
    nexts = tables.columns["nexts"].array
    found: dict[int, list[int]] = {}
    for slot in np.argsort(tables.rows, kind="stable").tolist():
        fingerprint = int(tables.fingerprints[slot])
        found.setdefault(fingerprint, tables.rows[ring_of(nexts, slot)].tolist())
    return found


@pytest.mark.parametrize("first_row", [0, 2**31 - 40, 2**32 - 400], ids=["0", "2^31", "2^32"])
@given(seed=st.integers(0), steps=st.lists(st.sampled_from(["in", "out", "restore"]), max_size=9))
def test_rings_are_sorted_lists(first_row: int, seed: int, steps: list[str]) -> None:
    """
    Rows come in their order and leave in any: the earliest, the latest, one between, or one that is
    not there. Each ring is then the sorted list of its rows, also across 2^31, beside the last row
    that there is, and in an index that is made again from its arrays.
    """
    dice = random.Random(seed)
    index = PermutedIndex(3)
    expected: dict[int, list[int]] = {}
    next_row = first_row
    for step in ["in", *steps]:
        if step == "in":
            numbers = [dice.choice(FINGERPRINTS) for _ in range(dice.choice([1, 2, 3, 40]))]
            rows = np.arange(next_row, next_row + len(numbers)).astype(np.uint32)
            index.insert(np.array(numbers, np.uint64), rows)
            for number, row in zip(numbers, rows.tolist(), strict=True):
                bisect.insort(expected.setdefault(number, []), row)
            next_row += len(numbers)
        elif step == "out":
            held = [(number, row) for number, rows_ in expected.items() for row in rows_]
            gone = dice.sample(held, dice.randint(0, len(held)))
            order = dice.choice([-1, 0, 1])  # the latest first, as drawn, the earliest first
            gone.sort(key=lambda one: one[1] * order)
            gone += [(number, first_row - 1) for number in FINGERPRINTS if first_row]
            done = index.delete_many(
                np.array([number for number, _ in gone], np.uint64),
                np.array([row for _, row in gone], np.uint32),
            )
            assert done.tolist() == [row >= first_row for _, row in gone]
            for number, row in gone:
                if row >= first_row:
                    expected[number].remove(row)
        else:
            index = PermutedIndex.from_arrays(index.arrays(), 3)
        expected = {number: rows_ for number, rows_ in expected.items() if rows_}
        assert rings(index.tables) == expected
        index.check()
    found = index.query(np.array(FINGERPRINTS, np.uint64)).rows.tolist()
    firsts = {number: rows_[0] for number, rows_ in expected.items()}
    assert all(
        row == firsts[number]
        for number, row in zip(FINGERPRINTS, found, strict=True)
        if number in firsts
    )
