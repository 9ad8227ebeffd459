"""What an index costs, counted in entries read and buckets moved: the same on every machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.core.test_index import few_buckets, held  # noqa: F401  # few_buckets is a fixture
from worker.core import planner
from worker.core.index import PermutedIndex, SearchIndex
from worker.core.permutation import permuted
from worker.core.planner import BEYOND, WIDE_EXPECTED
from worker.core.search import (
    SearchRules,
)
from worker.core.tables import exact


def sharing(count: int, live: int, seed: int = 1) -> NDArray[np.uint64]:
    """Different fingerprints that differ in `live` bits only."""
    drawn = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64) & np.uint64(live)
    return np.random.default_rng(seed).permutation(np.unique(drawn))


def filled(fingerprints: NDArray[np.uint64], max_distance: int, step: int) -> PermutedIndex:
    """An index that got them in batches of `step`."""
    index = PermutedIndex(max_distance, permuted(max_distance, max_distance + 1))
    for start in range(0, len(fingerprints), step):
        part = fingerprints[start : start + step]
        index.insert(part, np.arange(start, start + len(part), dtype=np.uint32))
    return index


def filters_read(index: PermutedIndex, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many filters each query for all matches reads."""
    counts = []
    for fingerprint in fingerprints.tolist():
        before = index.filters_read
        index.query_all(fingerprint)
        counts.append(index.filters_read - before)
    return np.array(counts)


def buckets_moved(index: PermutedIndex) -> int:
    """How many buckets insertions went over to make room, those of every store together."""
    memory = index.tables.memory
    return memory.root.dealt + memory.deep.dealt


def test_a_hot_bucket_costs_a_query_no_more_than_its_limit_and_its_sub_tables() -> None:
    """
    200,000 fingerprints with one first block: a query reads 1.5 % of them where a plain table would
    read all.
    """
    hot = sharing(200_000, 0x0000_FFFF_FFFF_FFFF)
    index = filled(hot, 3, 5_000)
    counts = filters_read(index, hot[::2_000])
    assert counts.min() > exact.HOT_MIN
    assert counts.max() < 3_000
    index.check()


@pytest.mark.parametrize("step", [1, 100_000], ids=["one by one", "all at once"])
@pytest.mark.parametrize(("max_distance", "hot"), [(3, 1_024), (7, 64)])
def test_an_insertion_moves_few_buckets_however_skewed(
    monkeypatch: pytest.MonkeyPatch, max_distance: int, hot: int, step: int
) -> None:
    """
    Sixteen live bits: every table's bucket overflows. The stores grow before free places are far to
    seek.
    """
    monkeypatch.setattr(exact, "HOT_MIN", hot)
    index = filled(sharing(1_500, 0xFFFF), max_distance, step)
    entries = sum(store.entries for store in index.tables.stores)
    assert buckets_moved(index) < 40 * entries
    index.check()


def test_insertions_into_a_store_that_gathers_move_few_buckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Most leave and come again. The sweep that gathers is not so slow that each insertion seeks its
    room anew.
    """
    monkeypatch.setattr(exact, "HOT_MIN", 64)
    fingerprints = sharing(3_000, 0xFFFF)
    index = filled(fingerprints, 7, 100_000)
    rows, gone = np.arange(len(fingerprints), dtype=np.uint32), len(fingerprints) * 19 // 20
    assert index.delete_many(fingerprints[:gone], rows[:gone]).all()
    assert index.tables.memory.deep.direction == 1
    moved, held = buckets_moved(index), sum(store.entries for store in index.tables.stores)
    index.insert(fingerprints[:2_400], rows[:2_400])
    assert buckets_moved(index) - moved < sum(store.entries for store in index.tables.stores) - held
    index.check()


def test_what_an_emptied_index_still_holds_is_told() -> None:
    """The heads of its buckets stay; of sub-tables that were never needed nothing is there."""
    index = PermutedIndex(3)
    numbers, rows = (
        np.random.default_rng(1).integers(0, 2**64, 50_000, dtype=np.uint64),
        np.arange(50_000),
    )
    for begin in (0, 25_000):
        index.insert(numbers[begin:][:25_000], rows[begin:][:25_000].astype(np.uint32))
    before = index.nbytes
    assert index.delete_many(numbers, rows.astype(np.uint32)).all()
    base, deep = index.tables.stores
    assert deep.nbytes == 0
    assert base.heads.array.nbytes < index.nbytes <= before


def test_few_that_come_to_an_emptied_index_find_its_buckets_there() -> None:
    """
    A lone original that is renewed again and again costs its own entries, and not all buckets anew.
    """
    index = PermutedIndex(3)
    buckets, one = index.tables.stores, np.array([5], np.uint64)
    for row in range(3):
        index.insert(one, np.array([row], np.uint32))
        assert index.delete(5, row)
    assert index.tables.stores is buckets


def test_a_load_may_have_to_grow_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of fingerprints that share their prefixes more entries come than an empty store has room for.
    """
    monkeypatch.setattr(exact, "HOT_MIN", 4)
    fingerprints = sharing(3_000, 0xFFFF)
    rows = np.arange(len(fingerprints), dtype=np.uint32)
    index = PermutedIndex.from_arrays(
        {"fingerprints": fingerprints, "rows": rows}, 7, permuted(7, 8)
    )
    index.check()


def test_a_prefix_that_very_many_share_costs_no_more_than_its_first_ones() -> None:
    """
    30,000 originals that agree in one block: a query reads 4,096 of them, and 1,000 if the rules
    say so; twice, since it looks for an equal one first.
    """
    drawn = np.unique(
        np.random.default_rng(1).integers(0, 2**48, 30_000, dtype=np.uint64)
    ) << np.uint64(16)
    nothing = np.zeros(len(drawn), np.uint64)
    sketches = np.zeros((len(drawn), 8), np.uint64)
    for rules in (SearchRules(look_min=900), replace(SearchRules(look_min=900), prefix_max=1_000)):
        index = SearchIndex(rules, sketches=held(sketches, 16))
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        before = index.filters_read
        index.query(drawn[-1:], nothing[-1:], sketches[:1] + np.uint64(1))
        read = index.filters_read - before
        assert 2 * rules.prefix_max <= read < 2 * rules.prefix_max + 200


def test_wide_blocks_have_buckets_for_many_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A query of ten wide blocks reads few entries, in an index that is new as in one that is
    restored.
    """
    monkeypatch.setattr(planner, "WIDE_EXPECTED", WIDE_EXPECTED)
    drawn = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    nothing, read = np.zeros(len(drawn), np.uint64), []
    sketches = held(np.zeros((len(drawn), 8), np.uint64), 16)
    nobody = SearchIndex(BEYOND.rules).arrays()
    for index in (
        SearchIndex(BEYOND.rules, sketches=sketches),
        SearchIndex.from_arrays(nobody, BEYOND.rules, sketches=sketches),
    ):
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        index.query(drawn[:100] ^ np.uint64(0x5555), nothing[:100], np.zeros((100, 8), np.uint64))
        read.append(index.filters_read / 100)
    assert max(read) < 200  # with as many buckets as 16 bits have it is 465


def test_a_query_reads_a_bucket_of_several_prefixes_once() -> None:
    """
    30,000 originals of 28 prefixes share a bucket: any prefix costs one scan of it, after the one
    for what is equal.
    """
    rules = SearchRules(
        max_distance=12, blocks=10, block_bits=26, patterns=1, look_min=800, prefix_max=1_000
    )
    drawn = np.unique(
        np.random.default_rng(1).integers(0, 2**38, 30_000, dtype=np.uint64)
    ) << np.uint64(26)
    drawn |= np.arange(len(drawn), dtype=np.uint64) % np.uint64(28)
    nothing = np.zeros(len(drawn), np.uint64)
    sketches = np.zeros((len(drawn), 8), np.uint64)
    index = SearchIndex(rules, sketches=held(sketches, 16))
    index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
    scans = []
    for query in (drawn[:1] ^ np.uint64(1), drawn[:1]):
        before = index.filters_read
        index.query(query, nothing[:1], sketches[:1])
        scans.append((index.filters_read - before) / len(drawn))
    near, equal = scans
    assert 0.93 < near / 2 < 1
    assert 0.93 < equal < 1
    elsewhere = np.uint64(1 << 27 | 1 << 40 | 1 << 53)  # so that no other block finds them
    of_one = np.arange(0, len(drawn), 28)[998:1_001]
    found = index.query(drawn[of_one] ^ elsewhere, nothing[:3], sketches[:3]).rows.tolist()
    assert found == [*of_one[:2].tolist(), -1]
