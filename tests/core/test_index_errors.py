"""What an index refuses: wrong columns, rows that are there, arrays that are no index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.core.test_index import few_buckets, held, plain  # noqa: F401  # few_buckets is a fixture
from worker.core.hash_table import HashTable
from worker.core.index import PermutedIndex, SearchIndex
from worker.core.permutation import permuted
from worker.core.search import SearchRules
from worker.core.tables import exact
from worker.core.tables.buckets import COUNT_MASK, START_SHIFT


@pytest.mark.parametrize("rules", [SearchRules(), SearchRules("exact", 3)])
def test_wrong_columns_are_refused(rules: SearchRules) -> None:
    """
    One column of doubts for the fingerprints, both of 64 bits; a sketch of each, and of each
    indexed row.
    """
    index, nothing, sketches = (
        SearchIndex(rules),
        np.zeros(2, np.uint64),
        np.zeros((2, 8), np.uint64),
    )
    for fingerprints, doubts, made, first_row, message in (
        (nothing, nothing[:1], sketches, 0, "doubts"),
        (nothing.astype(np.int64), nothing, sketches, 0, "uint64"),
        (nothing, nothing, sketches, 2**32 - 1, "first_row"),
        (nothing, nothing, sketches[:, :4], 0, r"uint64\[2, 8\]"),
    ):
        with pytest.raises(ValueError, match=message):
            index.match_or_insert(fingerprints, doubts, made, first_row)  # type: ignore[arg-type]
    index.match_or_insert(*plain([(1, 0)]), first_row=0)
    with pytest.raises(ValueError, match="got row 0 and 0 sketches"):
        index.query(*plain([(1, 0)]))
    marked = SearchIndex(SearchRules())
    with pytest.raises(ValueError, match=r"a mark, uint64\[2\], got uint64 of shape \(1,\)"):
        marked.match_or_insert(nothing, nothing, sketches, 0, nothing[:1])


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("rules", [SearchRules(), SearchRules("exact", 3, similarity_min=0.75)])
def test_a_row_that_is_indexed_is_not_given_again(rules: SearchRules, asks: bool) -> None:
    """Its sketch would be sought among those of the call, at a place that nothing has set."""
    rows = plain([(0, 0), (1 << 40, 0), (1 << 50, 0)])
    index = SearchIndex(rules, sketches=held(rows[2]))
    index.asks = asks
    index.query_then_insert(*rows, first_row=0)
    for call in (index.match_or_insert, index.query_then_insert):
        with pytest.raises(ValueError, match="got first_row=2 and row 2"):
            call(*rows, first_row=2)
    assert len(index) == 3 and index.query(*rows).rows.tolist() == [0, 1, 2]
    index.check()


KEY = np.array([7], np.uint64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PermutedIndex(17), "max_distance must be 0 to 16, got 17"),
        (lambda: PermutedIndex(3, permuted(2, 4)), "layout is for distance 2, got max_distance=3"),
        (lambda: PermutedIndex(3).query(np.array([1])), "one column of uint64, got int64"),
        (
            lambda: PermutedIndex(3).judge(np.zeros((2, 2), np.uint64), 0),
            "one column of uint64, got uint64 of shape",
        ),
        (lambda: PermutedIndex(3).query_all(-1), "a fingerprint is 0 to"),
        (
            lambda: PermutedIndex(3).insert(np.zeros(2, np.uint64), np.zeros(1, np.uint32)),
            "2 fingerprints and 1 rows",
        ),
        (lambda: HashTable(KEY.take).insert(KEY, np.array([], np.uint32)), "got 1 keys and 0 rows"),
        (lambda: HashTable(KEY.take).find(np.array([7.0])), "float64"),
        (
            lambda: HashTable(KEY.take).insert(KEY, np.array([2**32])),
            "got 4294967296 to 4294967296",
        ),
    ],
)
def test_mistakes_of_the_caller_are_named(call: Callable[[], object], message: str) -> None:
    """
    Wrong distances, columns of different lengths and what would lose bits are refused with both
    values.
    """
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("seed", range(8))
def test_a_caller_who_breaks_the_rules_breaks_no_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Rows that repeat, rows out of bounds, deletions of what is not there, any size: refused, or the
    stores hold.
    """
    monkeypatch.setattr(exact, "HOT_MIN", 8)
    dice = np.random.default_rng(seed)
    index = PermutedIndex(
        int(dice.integers(0, 9)), documents_expected=int(dice.choice([0, 10, 1_000_000]))
    )
    live = np.uint64(
        int(dice.choice(np.array([2**64 - 1, 0xFFFF, 0xFFF0_0000_0000_00FF], np.uint64)))
    )
    for _ in range(25):
        size = int(dice.choice([0, 1, 7, 300, 1_000]))
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
                index.delete_many,
                held["fingerprints"][some].astype(np.uint64),
                held["rows"][some].astype(np.uint32),
            ),
            partial(index.query, fingerprints),
            partial(index.query_all, 7),
        ]
        with suppress(ValueError):
            calls[int(dice.integers(len(calls)))]()
    for store in index.tables.stores:
        store.check()
    assert len(index.arrays()["rows"]) == len(index)


def test_the_check_notices_one_wrong_bit() -> None:
    """
    Of a fingerprint, an entry, a bucket, a ring of equal ones, a count; while a store is swept.
    """
    index = PermutedIndex(3)
    drawn = np.random.default_rng(5).integers(0, 2**64, 30_000, dtype=np.uint64)
    drawn[100:110] = 7
    for begin in range(0, len(drawn), 1_000):
        index.insert(drawn[begin : begin + 1_000], np.arange(begin, begin + 1_000, dtype=np.uint32))
    tables, store = index.tables, index.tables.stores[0]
    store.grow()
    assert tables.memory.root.direction != 0
    heads, rings = store.heads.array, [tables.column(which) for which in ("nexts", "backs")]
    bucket = int(np.flatnonzero((heads[:-1] & COUNT_MASK) >= 2)[0])
    entry = int(heads[bucket] >> START_SHIFT)
    wrong: list[tuple[NDArray[Any], int]] = [
        (tables.fingerprints, 17), (store.filters.array, entry), (store.refs.array, entry),
        (heads, bucket), *((ring, int(ring.argmax())) for ring in rings),
        *((tables.memory.block["root"][name], 0) for name in ("entries", "unswept")),
        (tables.memory.block["held"], 0),
    ]  # fmt: skip
    index.check()
    for array, place in wrong:
        array[place] ^= array.dtype.type(1)
        with pytest.raises(AssertionError):
            index.check()
        array[place] ^= array.dtype.type(1)
    index.check()


NUMBERS = np.arange(3, dtype=np.uint64)
ROWS = np.arange(3, dtype=np.uint32)


@pytest.mark.parametrize(
    ("arrays", "error", "reason"),
    [
        ({}, ValueError, "there is no fingerprints, rows"),
        ({"fingerprints": NUMBERS}, ValueError, "there is no rows"),
        ({"fingerprints": NUMBERS, "rows": ROWS[:2]}, ValueError, "one row for each"),
        ({"fingerprints": NUMBERS, "rows": [0, 1, 2]}, TypeError, "rows"),
        ({"fingerprints": NUMBERS, "rows": np.array(3)}, ValueError, "rows must be one column"),
        ([NUMBERS, ROWS], TypeError, "arrays"),
    ],
    ids=["nothing", "no rows", "too few rows", "a list", "a number", "no dict"],
)
def test_arrays_that_are_no_index_are_refused(
    arrays: Any, error: type[Exception], reason: str
) -> None:
    """By what is wrong with them, whichever index is made of them."""
    with pytest.raises(error, match=reason):
        PermutedIndex.from_arrays(arrays)
    if isinstance(arrays, dict) and arrays:
        arrays = {"doubts": NUMBERS, "listed": ROWS, **arrays}
    with pytest.raises(
        error, match=reason.replace("fingerprints,", "fingerprints, doubts, listed,")
    ):
        SearchIndex.from_arrays(arrays, SearchRules())


def test_rows_that_are_listed_where_there_is_no_room_are_refused() -> None:
    """By their row, with the blocks that were given and those that have room for it."""
    rules = SearchRules(prefix_max=1)
    index = SearchIndex(rules)
    index.insert(np.array([0, 1], np.uint64), NUMBERS[:2], ROWS[:2])
    arrays = index.arrays()
    assert arrays["listed"].tolist() == [0b1111, 0b0001]
    SearchIndex.from_arrays(arrays, rules).check()
    arrays["listed"] = np.array([0b1111, 0b0011], np.uint16)
    with pytest.raises(ValueError, match="row 1 cannot be listed in the blocks 0b11, only in 0b1:"):
        SearchIndex.from_arrays(arrays, rules)
