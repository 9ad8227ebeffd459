"""The index under any layout; what its check notices; what deletions leave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from worker.core.index import PermutedIndex
from worker.core.permutation import BITS, Layout, permuted, probed
from worker.core.tables.store import DIRECTION, ENTRIES, UNSWEPT
from worker.core.tables.words import BACKS, BASE, FINGERPRINTS, NEXTS, SIZE


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to 8 blocks of any widths, for any distance up to 7."""
    max_distance = draw(st.integers(0, 7))
    is_probed = max_distance >= 2 and draw(st.booleans())
    blocks = draw(st.integers(2, 8) if is_probed else st.integers(max_distance + 1, 8))
    cuts = draw(st.lists(st.integers(1, BITS - 1), min_size=blocks - 1, max_size=blocks - 1, unique=True))
    ends = [0, *sorted(cuts), BITS]
    widths = tuple(ends[number + 1] - ends[number] for number in range(blocks))
    if not is_probed:
        return permuted(max_distance, blocks, widths)
    layout = probed(max_distance, blocks, widths)
    return layout if layout.probes <= 300 else probed(max_distance, max(2, max_distance - 1))


def near(numbers: NDArray[np.uint64], flips_max: int, dice: np.random.Generator) -> NDArray[np.uint64]:
    """Each with 0 to `flips_max` bits flipped."""
    flips = dice.integers(0, flips_max + 1, len(numbers))
    for number in range(flips_max):
        bit = np.uint64(1) << dice.integers(0, 64, len(numbers), dtype=np.uint64)
        numbers = np.where(number < flips, numbers ^ bit, numbers)
    return numbers


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts(), st.integers(0, 2**32 - 1))
def test_any_blocks_of_any_widths_miss_nothing_and_invent_nothing(layout: Layout, seed: int) -> None:
    """The best match is that of a scan, whatever the widths."""
    dice = np.random.default_rng(seed)
    held = dice.integers(0, 2**64, 150, dtype=np.uint64)
    held = np.concatenate((held, near(held, layout.max_distance + 2, dice)))
    index = PermutedIndex(layout.max_distance, layout, documents_expected=300)
    index.tables.flat_below = 0
    index.insert(held, np.arange(len(held), dtype=np.uint32))
    asked = near(held, layout.max_distance + 2, dice)
    distances = np.bitwise_count(asked[:, None] ^ held[None, :])
    smallest = distances.min(axis=1)
    found = index.query(asked)
    within = smallest <= layout.max_distance
    assert (found.rows == np.where(within, distances.argmin(axis=1), -1)).all()
    assert (found.distances[within] == smallest[within]).all()
    index.check()


def filled() -> PermutedIndex:
    """Tables, a ring of equal ones, and a sweep under way."""
    index = PermutedIndex(3)
    index.tables.flat_below = 0
    numbers = np.random.default_rng(5).integers(0, 2**64, 30_000, dtype=np.uint64)
    numbers[100:110] = 7
    for begin in range(0, len(numbers), 1_000):
        index.insert(numbers[begin : begin + 1_000], np.arange(begin, begin + 1_000, dtype=np.uint32))
    index.tables.stores[0].grow()
    index.check()
    return index


def first_full(index: PermutedIndex) -> int:
    """The first bucket with two entries."""
    heads = index.tables.stores[0].heads.array
    return int(np.flatnonzero((heads[:-1] & np.uint64(0xFFFFFF)) >= 2)[0])


def entry_of(index: PermutedIndex) -> int:
    """The place of that bucket's first entry."""
    return int(index.tables.stores[0].heads.array[first_full(index)] >> np.uint64(26))


def _fingerprint(index: PermutedIndex) -> None:
    index.tables.columns[FINGERPRINTS].array[17] ^= np.uint64(1 << 33)


def _filter(index: PermutedIndex) -> None:
    index.tables.stores[0].filters.array[entry_of(index)] ^= np.uint32(1)


def _reference(index: PermutedIndex) -> None:
    refs = index.tables.stores[0].refs.array
    refs[entry_of(index)] = refs[entry_of(index) + 1]


def _count(index: PermutedIndex) -> None:
    index.tables.stores[0].heads.array[first_full(index)] -= np.uint64(1)


def _start(index: PermutedIndex) -> None:
    index.tables.stores[0].heads.array[5] += np.uint64(1 << 40)


def _ring(index: PermutedIndex) -> None:
    nexts = index.tables.columns[NEXTS].array
    nexts[np.flatnonzero(nexts)[0]] = 1


def _ring_backwards(index: PermutedIndex) -> None:
    backs = index.tables.columns[BACKS].array
    backs[np.flatnonzero(backs)[0]] = 0


def _word(place: int) -> Callable[[PermutedIndex], None]:
    def corrupt(index: PermutedIndex) -> None:
        index.tables.words[place] += 1

    return corrupt


@pytest.mark.parametrize(
    "corrupt",
    [
        _fingerprint,
        _filter,
        _reference,
        _count,
        _start,
        _ring,
        _ring_backwards,
        _word(int(BASE + ENTRIES)),
        _word(int(BASE + UNSWEPT)),
        _word(int(SIZE)),
    ],
    ids=[
        "fingerprint",
        "filter",
        "reference",
        "count",
        "start",
        "ring",
        "ring backwards",
        "entries",
        "unswept",
        "size",
    ],
)
def test_the_check_notices(corrupt: Callable[[PermutedIndex], None]) -> None:
    """One wrong bit or number anywhere is an AssertionError."""
    index = filled()
    assert index.tables.words[BASE + DIRECTION] != 0
    corrupt(index)
    with pytest.raises(AssertionError):
        index.check()


def test_deletions_give_memory_back_and_leave_what_a_new_index_holds() -> None:
    """Of 200,000 every twentieth stays. The store is cut while changes go on; the answers are those of a new index."""
    numbers = np.random.default_rng(6).integers(0, 2**64, 200_000, dtype=np.uint64)
    rows = np.arange(len(numbers), dtype=np.uint32)
    index = PermutedIndex(3)
    index.insert(numbers, rows)
    before = index.nbytes
    gone = rows % 20 != 0
    assert index.delete_many(numbers[gone], rows[gone]).all()
    for _ in range(4):
        index.insert(numbers[gone][:10_000], rows[gone][:10_000])
        index.delete_many(numbers[gone][:10_000], rows[gone][:10_000])
    assert index.nbytes < before / 3
    index.check()
    rebuilt = PermutedIndex(3)
    rebuilt.insert(numbers[~gone], rows[~gone])
    asked = near(numbers, 4, np.random.default_rng(7))
    found, expected = index.query(asked), rebuilt.query(asked)
    assert (found.rows == expected.rows).all()
    assert (found.distances == expected.distances).all()
    for name, column in index.arrays().items():
        assert (column == rebuilt.arrays()[name]).all()
