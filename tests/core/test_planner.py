"""The planner: which layout it takes, and that what it promises is what the index then holds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.test_index import held
from worker.core import index as index_module
from worker.core.index import PermutedIndex, SearchIndex
from worker.core.permutation import nested, permuted
from worker.core.planner import candidates, choose, estimate, estimate_directed, plan
from worker.core.search import SearchRules


def test_few_tables_first_longer_prefixes_when_buckets_fill() -> None:
    """Four tables serve k = 3 to 10 M documents; at 2^30 in one memory, prefixes of 16 bits are too short."""
    for documents in (1_000_000, 10_000_000):
        assert plan(documents, 3)[0].search == permuted(3, 4)
    assert min(table.prefix_bits for table in plan(2**30, 3)[0].search.permutations) > 16
    names = [one.search.name for one in plan(10_000_000, 3)]
    assert {"4 blocks / 4 tables", "6 blocks / 20 tables", "4 x 4 blocks / 16 tables"} <= set(names)
    assert "8 blocks / 28 tables" in {one.search.name for one in plan(10_000_000, 6)}


@pytest.mark.parametrize("max_distance", range(17))
def test_there_is_a_plan_for_every_distance(max_distance: int) -> None:
    """Each covers the distance it was asked for."""
    plans = plan(1_000_000, max_distance)
    assert plans
    assert all(one.search.max_distance == max_distance for one in plans)
    assert choose(max_distance).search.max_distance == max_distance


def test_the_fastest_within_the_memory_is_taken() -> None:
    """Less memory, fewer tables; none of those that fit on as few machines is faster."""
    free, tight = plan(300_000_000, 3), plan(300_000_000, 3, 20e9)
    assert free[0].memory_bytes > 20e9 >= tight[0].memory_bytes
    fitting = [one for one in tight if one.machines == 1]
    assert tight[0].query_insert_ns == min(one.query_insert_ns for one in fitting)
    assert [one.machines for one in tight] == sorted(one.machines for one in tight)


def test_many_machines_hold_what_one_cannot() -> None:
    """2^34 documents: each machine stays within its memory, and another machine fewer would not do."""
    limit = 64e9
    for one in plan(2**34, 3, limit):
        assert one.machines > 1
        assert one.memory_bytes <= one.machines * limit
        assert one.memory_bytes > 0.5 * one.machines * limit


def test_candidates_are_those_of_the_paper() -> None:
    """2^34 fingerprints and d leading bits leave 2^(34 - d) candidates per table."""
    for layout, expected in ((permuted(3, 4), 4 * 2**18), (nested(3, 4, 4), 16 * 2**6)):
        assert candidates(layout, 2**34) == expected


@pytest.mark.parametrize("max_distance", [3, 7])
def test_an_index_takes_the_memory_that_was_planned(max_distance: int) -> None:
    """Within a third at 200,000 documents, where free places and heads weigh most."""
    documents = 200_000
    index = PermutedIndex(max_distance, documents_expected=documents)
    drawn = np.random.default_rng(1).integers(0, 2**64, documents, dtype=np.uint64)
    index.insert(drawn, np.arange(documents, dtype=np.uint32))
    planned = estimate(index.layout, documents).memory_bytes
    assert 0.67 * planned < index.nbytes < 1.34 * planned


@pytest.mark.parametrize("rules", [SearchRules(), SearchRules(blocks=10, block_bits=26, patterns=32)])
def test_a_directed_index_takes_the_memory_and_reads_the_entries_that_were_planned(
    rules: SearchRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a third at 200,000 documents, where free places and heads weigh most."""
    monkeypatch.setattr(index_module, "WIDE_EXPECTED", 0)
    documents = 200_000
    sketches = np.zeros((documents, 8), np.uint64)
    index = SearchIndex(rules, documents, held(sketches, 16))
    drawn, doubts = np.random.default_rng(1).integers(0, 2**64, (2, documents), dtype=np.uint64)
    index.insert(drawn, doubts & (doubts >> np.uint64(7)), np.arange(documents, dtype=np.uint32))
    planned = estimate_directed(rules, documents)
    assert 0.67 * planned.memory_bytes < index.nbytes < 1.34 * planned.memory_bytes
    before = index.filters_read
    index.query(doubts[:500], drawn[:500] & (drawn[:500] >> np.uint64(7)), sketches[:500])
    assert 0.67 * planned.scanned < (index.filters_read - before) / 500 < 1.34 * planned.scanned


def test_plans_that_cannot_be_are_refused() -> None:
    """With both values and the reason."""
    with pytest.raises(ValueError, match="documents must be 1 to 2\\^40, got 0"):
        plan(0, 3)
    with pytest.raises(ValueError, match="max_distance must be 0 to 16, got 17"):
        plan(10, 17)
    with pytest.raises(ValueError, match="memory must be at least 134217728 bytes, got 1000"):
        plan(10, 3, 1_000)
