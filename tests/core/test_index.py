"""The permuted index against a linear scan."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from worker.core import planner
from worker.core.index import PermutedIndex
from worker.core.nearest import nearest
from worker.core.permutation import Layout, nested, permuted, probed
from worker.core.search import NO_MATCH
from worker.core.tables import content


@pytest.fixture(params=["as it is", "tables from the first", "buckets split at 8"], autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test runs three times: a small index without and with tables, and with buckets that split early."""
    if request.param != "as it is":
        monkeypatch.setattr(planner, "FLAT_MIN", 0)
        monkeypatch.setattr(planner, "FLAT_MAX", 0)
    if request.param == "buckets split at 8":
        monkeypatch.setattr(content, "HOT_MIN", 8)
    yield


def near(generator: random.Random, fingerprint: int, bits: int) -> int:
    """The fingerprint with so many of its bits flipped."""
    for bit in generator.sample(range(64), bits):
        fingerprint ^= 1 << bit
    return fingerprint


def crawl(generator: random.Random, documents: int, distance_max: int) -> list[int]:
    """Fingerprints in a crawl's order: new ones, equal ones and ones some bits away from an earlier one."""
    made = [generator.getrandbits(64)]
    while len(made) < documents:
        if generator.random() < 0.5:
            made.append(generator.getrandbits(64))
        else:
            made.append(near(generator, generator.choice(made), generator.randint(0, distance_max)))
    return made


def best(indexed: list[tuple[int, int]], fingerprint: int, max_distance: int) -> tuple[int, int]:
    """The oracle: (row, distance) of the smallest distance, then the earliest row; (-1, 255) for none."""
    matches = [((held ^ fingerprint).bit_count(), row) for held, row in indexed]
    distance, row = min(matches, default=(65, -1))
    return (row, distance) if distance <= max_distance else (-1, NO_MATCH)


@pytest.mark.parametrize("max_distance", range(8))
def test_judging_is_leader_clustering(max_distance: int) -> None:
    """Each fingerprint gets its best earlier leader, or becomes one; batch borders do not matter."""
    generator = random.Random(max_distance)
    stream = crawl(generator, 600, max_distance + 3)
    index = PermutedIndex(max_distance)
    leaders: list[tuple[int, int]] = []
    position = 0
    while position < len(stream):
        batch = stream[position : position + generator.randint(0, 50)]
        first_row = len(leaders)
        judgement = index.judge(np.array(batch, np.uint64), first_row)
        expected = []
        for fingerprint in batch:
            expected.append(best(leaders, fingerprint, max_distance))
            if expected[-1][0] < 0:
                leaders.append((fingerprint, len(leaders)))
        assert list(zip(judgement.rows.tolist(), judgement.distances.tolist(), strict=True)) == expected
        assert judgement.new == len(leaders) - first_row
        position += len(batch)
    assert len(index) == len(leaders)
    index.check()


def test_zero_is_a_fingerprint() -> None:
    """The fingerprint 0 is found like any other."""
    index = PermutedIndex(3)
    index.insert(np.array([0], np.uint64), np.array([9], np.uint32))
    assert index.query(np.array([0, 0b111, 0b1111], np.uint64)).rows.tolist() == [9, 9, -1]


def test_all_matches_are_ranked() -> None:
    """query_all gives every match and nothing else; nearest, over what is held, the closest whatever their distance."""
    generator = random.Random(3)
    stream = crawl(generator, 400, 5)
    index = PermutedIndex(5)
    index.insert(np.array(stream, np.uint64), np.arange(400, dtype=np.uint32))
    for fingerprint in [*stream[::20], 0, 2**64 - 1]:
        ranked = sorted(((held ^ fingerprint).bit_count(), row) for row, held in enumerate(stream))
        assert index.query_all(fingerprint) == [(row, distance) for distance, row in ranked if distance <= 5]
        near = nearest(index.tables.fingerprints, index.tables.rows, fingerprint, 10)
        assert near == [(row, distance) for distance, row in ranked[:10]]


@pytest.mark.parametrize(
    "layout",
    [
        *(permuted(k, m) for m in range(1, 9) for k in range(m)),
        *(probed(k, m) for k in range(4, 8) for m in (3, 4, 5)),
        probed(10, 4),
        nested(3, 4, 4),
        permuted(3, 5, (20, 20, 20, 3, 1)),
    ],
    ids=lambda layout: f"{layout.name}, k={layout.max_distance}",
)
def test_every_layout_is_exact(layout: Layout) -> None:
    """The permuted index misses no fingerprint within max_distance and invents none, under every layout."""
    generator = random.Random(6)
    max_distance = layout.max_distance
    held = crawl(generator, 300, max_distance + 2)
    index = PermutedIndex(max_distance, layout)
    index.insert(np.array(held, np.uint64), np.arange(300, dtype=np.uint32))
    index.check()
    asked = [near(generator, generator.choice(held), generator.randint(0, max_distance + 2)) for _ in range(300)]
    judgement = index.query(np.array(asked, np.uint64))
    indexed = [(fingerprint, row) for row, fingerprint in enumerate(held)]
    expected = [best(indexed, fingerprint, max_distance) for fingerprint in asked]
    assert list(zip(judgement.rows.tolist(), judgement.distances.tolist(), strict=True)) == expected


def test_many_equal_fingerprints_are_one_entry() -> None:
    """Thousands of copies are found by the earliest row, ranked by row, and can go one by one, the earliest first."""
    index = PermutedIndex(3)
    copies = 5_000
    index.insert(np.full(copies, 7, np.uint64), np.arange(copies, dtype=np.uint32)[::-1])
    index.check()
    assert index.query_all(7)[:3] == [(0, 0), (1, 0), (2, 0)]
    assert len(index.query_all(6)) == copies
    assert index.tables.stores[0].entries == len(index.layout.permutations)
    for row in (0, 1, 4_999, 2_500):
        assert index.delete(7, row)
    assert index.query(np.array([6], np.uint64)).rows.tolist() == [2]
    assert index.delete_many(np.full(copies - 4, 7, np.uint64), index.arrays()["rows"].astype(np.uint32)).all()
    index.check()
    assert len(index) == 0


def test_mistakes_of_the_caller_are_named() -> None:
    """Wrong distances and columns of different lengths are refused with both values."""
    with pytest.raises(ValueError, match="max_distance must be 0 to 16, got 17"):
        PermutedIndex(17)
    with pytest.raises(ValueError, match="layout is for distance 2, got max_distance=3"):
        PermutedIndex(3, permuted(2, 4))
    with pytest.raises(ValueError, match="one column of uint64, got int64"):
        PermutedIndex(3).query(np.array([1]))
    with pytest.raises(ValueError, match="one column of uint64, got uint64 of shape"):
        PermutedIndex(3).judge(np.zeros((2, 2), np.uint64), 0)
    with pytest.raises(ValueError, match="rows must be 0 to 4294967295, got first_row=4294967295 and 2 more"):
        PermutedIndex(3).judge(np.zeros(2, np.uint64), 2**32 - 1)
    with pytest.raises(ValueError, match="a fingerprint is 0 to"):
        PermutedIndex(3).query_all(-1)
    with pytest.raises(ValueError, match="got 2 fingerprints and 1 rows"):
        PermutedIndex(3).insert(np.array([1, 2], np.uint64), np.array([1], np.uint32))
