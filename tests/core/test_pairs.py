"""
All pairs within a distance, and clusters: those of a comparison of everything with everything.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from worker.core.pairs import all_pairs, clusters


@st.composite
def fingerprints(draw: st.DrawFn) -> NDArray[np.uint64]:
    """Numbers that often differ in few bits, some of them twice."""
    bases = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6))
    bits = st.lists(st.integers(0, 63), max_size=9)
    near = draw(st.lists(st.tuples(st.sampled_from(bases), bits), max_size=40))
    numbers = bases + [base ^ sum({1 << bit for bit in flips}) for base, flips in near]
    return np.array(numbers, np.uint64)


def compared(numbers: NDArray[np.uint64], max_distance: int) -> set[tuple[int, int]]:
    ordered = sorted(set(numbers.tolist()))
    return {
        (a, b)
        for i, a in enumerate(ordered)
        for b in ordered[i + 1 :]
        if (a ^ b).bit_count() <= max_distance
    }


def given_pairs(
    numbers: NDArray[np.uint64], max_distance: int, blocks: int | None = None
) -> list[tuple[int, int]]:
    return [(a, b) for pairs in all_pairs(numbers, max_distance, blocks) for a, b in pairs.tolist()]


@given(fingerprints(), st.integers(0, 7), st.integers(1, 8))
def test_every_pair_is_given_once_and_no_other(
    numbers: NDArray[np.uint64], max_distance: int, more: int
) -> None:
    """Exact for every distance up to 7 and every number of blocks above it, up to 8."""
    blocks = min(max_distance + more, 8)
    found = given_pairs(numbers, max_distance, blocks)
    assert len(found) == len(set(found))
    assert set(found) == compared(numbers, max_distance)


@given(fingerprints(), st.integers(0, 7))
def test_clusters_are_the_components_of_the_pairs(
    numbers: NDArray[np.uint64], max_distance: int
) -> None:
    """Joined pair by pair; ascending, by their smallest member, never alone."""
    groups = {number: {number} for number in numbers.tolist()}
    for a, b in compared(numbers, max_distance):
        if groups[a] is not groups[b]:
            groups[a] |= groups[b]
            for member in groups[b]:
                groups[member] = groups[a]
    expected = sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1})
    assert [tuple(cluster.tolist()) for cluster in clusters(numbers, max_distance)] == expected


@pytest.mark.parametrize(
    "numbers", [[], [5], [7] * 1_000_000], ids=["none", "one", "a million equal"]
)
def test_one_fingerprint_alone_gives_no_pairs(numbers: list[int]) -> None:
    """However often it comes: repetitions cost their sort, not a comparison with each other."""
    assert given_pairs(np.array(numbers, np.uint64), 3) == []
    assert clusters(np.array(numbers, np.uint64), 3) == []


def test_more_matches_than_there_was_room_for_are_all_given() -> None:
    """
    5,000 fingerprints in one cluster: the first guess of 1,024 pairs a table is far too small.
    """
    numbers = (np.arange(5_000, dtype=np.uint64) % 128) | (
        np.arange(5_000, dtype=np.uint64) // 128 << np.uint64(57)
    )
    assert set(given_pairs(numbers, 2)) == compared(numbers, 2)
