"""The directed index against its definition in plain Python, `worker.core.search.best`."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.core import directed_index, planner
from worker.core.chance import LARGE
from worker.core.directed_index import DirectedIndex
from worker.core.search import SearchRules, best
from worker.core.search_index import index_from_arrays, new_index

RULES = (
    SearchRules(),
    SearchRules(look_min=0, max_distance=16, patterns=128),
    SearchRules(blocks=2, patterns=64, look_min=700),
    SearchRules(blocks=3, block_bits=20, patterns=32, max_distance=7),
    SearchRules(blocks=10, block_bits=26, patterns=32),
    SearchRules(blocks=6, block_bits=30, patterns=5, prefix_max=3),
    SearchRules(prefix_max=2),
    SearchRules(blocks=15, block_bits=22, prefix_max=2, look_min=500),
    SearchRules(patterns=1, max_distance=0, look_min=1_000),
)
Documents = list[tuple[int, int]]  # fingerprint and doubts


def doubts_of(generator: random.Random) -> int:
    """About a quarter of the bits; sometimes none, or all."""
    share = generator.choice([0.25, 0.25, 0.25, 0.6, 0.0, 1.0])
    return sum(1 << bit for bit in range(64) if generator.random() < share)


def crawl(generator: random.Random, documents: int, live: int = 2**64 - 1) -> Documents:
    """Documents in a crawl's order: new ones, equal ones, and copies in which mostly doubtful bits differ."""
    made = [(generator.getrandbits(64) & live, doubts_of(generator))]
    while len(made) < documents:
        fingerprint, doubts = generator.choice(made)
        if generator.random() < 0.4:
            fingerprint = generator.getrandbits(64) & live
        for bit in generator.sample(range(64), generator.choice([0, 1, 2, 4, 8, 16])):
            if doubts >> bit & 1 or generator.random() < 0.1:
                fingerprint ^= 1 << bit
        for bit in generator.sample(range(64), generator.choice([0, 0, 3, 12])):
            doubts ^= 1 << bit
        made.append((fingerprint, doubts if generator.random() < 0.9 else doubts_of(generator)))
    return made


def columns(documents: Documents) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Fingerprints and doubts."""
    found = np.array(documents, np.uint64).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].copy()


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.text)
@pytest.mark.parametrize("live", [2**64 - 1, 0xFFFF, 0xF00F_00F0_0F00_FFFF], ids=["random", "one block", "skewed"])
def test_judging_is_what_the_definition_says(rules: SearchRules, live: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row, distance and look of each document, whatever the batches; a small index is scanned, or has tables too."""
    generator = random.Random(live % 1_000 + rules.patterns)
    documents = crawl(generator, 120, live)
    scanned = DirectedIndex(rules)
    monkeypatch.setattr(directed_index, "FLAT_BELOW", 0)
    in_tables = DirectedIndex(rules)
    originals: list[tuple[int, int, int]] = []
    position = 0
    while position < len(documents):
        batch = documents[position : position + generator.choice([0, 1, 2, 3, 50])]
        judgements = [index.judge(*columns(batch), first_row=len(originals)) for index in (scanned, in_tables)]
        for number, (fingerprint, doubts) in enumerate(batch):
            expected = best(rules, fingerprint, doubts, originals)
            for found in judgements:
                assert (found.rows[number], found.distances[number], found.looks[number]) == expected
            if expected[0] < 0:
                originals.append((len(originals), fingerprint, doubts))
        position += len(batch)
    for index in (scanned, in_tables):
        index.check()
        assert len(index) == len(originals)


@pytest.mark.parametrize("rules", [RULES[0], RULES[4], RULES[6]], ids=lambda rules: rules.text)
def test_what_is_found_does_not_depend_on_the_layout(rules: SearchRules, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan, buckets of one prefix and buckets that many prefixes share give the same answers."""
    documents = columns(crawl(random.Random(3), 6_000, 0xFF0F_FF0F_FFFF_FFFF))
    answers = []
    for flat_below, bits in ((1 << 20, 16), (0, 16), (0, 19)):
        monkeypatch.setattr(directed_index, "FLAT_BELOW", flat_below)
        monkeypatch.setattr(planner, "DIRECTED_BITS", (bits, 26))
        index = DirectedIndex(rules)
        answers.append(np.array(index.judge(*documents, first_row=0)[:3]))
        index.check()
    for answer in answers[1:]:
        assert (answer == answers[0]).all()


def test_equal_fingerprints_with_different_doubts_are_different_originals() -> None:
    """What is sure of one document may be doubtful of the other: their second look may fail though no bit differs."""
    one, other = (0b1011, 0x0000_0000_FFFF_FFFF), (0b1011, 0xFFFF_FFFF_0000_0000)
    index = DirectedIndex(SearchRules())
    assert index.judge(*columns([one, other, one, other]), first_row=0).rows.tolist() == [-1, -1, 0, 1]
    assert index.delete_many(columns([one])[0], np.array([0], np.uint32)).all()
    assert index.query(*columns([one, other])).rows.tolist() == [-1, 1]
    index.check()


def test_rows_may_be_given_later() -> None:
    """Renumbered, the earliest is still the earliest."""
    index = DirectedIndex(SearchRules(prefix_max=2))
    index.judge(*columns([(0xFFFF_FFFF, 0), (1 << 63, 0)]), first_row=0)
    index.renumber(np.array([0, 7], np.uint32))
    assert index.query(*columns([(1 << 63, 0)])).rows.tolist() == [7]
    with pytest.raises(ValueError, match="ascend"):
        index.renumber(np.array([9, 8], np.uint32))
    index.insert(*columns([(6, 0)]), np.array([8], np.uint32))
    index.check()


def test_wrong_columns_are_refused() -> None:
    """One column of doubts for the fingerprints, both of 64 bits; rules that are directed."""
    index = DirectedIndex(SearchRules())
    with pytest.raises(ValueError, match="doubts"):
        index.judge(np.zeros(2, np.uint64), np.zeros(1, np.uint64), 0)
    with pytest.raises(ValueError, match="uint64"):
        index.query(np.zeros(1, np.int64), np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="directed"):
        DirectedIndex(SearchRules("exact", 3))
    with pytest.raises(ValueError, match="first_row"):
        index.judge(np.zeros(2, np.uint64), np.zeros(2, np.uint64), 2**32 - 1)


def test_a_prefix_that_very_many_share_costs_no_more_than_its_first_ones() -> None:
    """30,000 originals that agree in one block: a query reads 4,096 of them, and 1,000 if the rules say so."""
    drawn = np.unique(np.random.default_rng(1).integers(0, 2**48, 30_000, dtype=np.uint64)) << np.uint64(16)
    nothing = np.zeros(len(drawn), np.uint64)
    for rules in (SearchRules(look_min=900), replace(SearchRules(look_min=900), prefix_max=1_000)):
        index = DirectedIndex(rules)
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        before = index.filters_read
        index.query(drawn[-1:], nothing[-1:])
        assert rules.prefix_max <= index.filters_read - before < rules.prefix_max + 200


def test_wide_blocks_have_buckets_for_many_from_the_beginning() -> None:
    """A query of ten wide blocks reads few entries, in an index that is new as in one that is restored."""
    drawn = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    nothing, read = np.zeros(len(drawn), np.uint64), []
    for index in (new_index(LARGE), index_from_arrays(LARGE, DirectedIndex(LARGE).arrays())):
        assert isinstance(index, DirectedIndex)
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        index.query(drawn[:100] ^ np.uint64(0x5555), nothing[:100])
        read.append(index.filters_read / 100)
    assert max(read) < 200  # with as many buckets as 16 bits have it is 465


def test_a_query_reads_a_bucket_of_several_prefixes_once() -> None:
    """Of 30,000 originals 26 bits agree: another prefix of their bucket costs a scan, their own at most 20."""
    rules = SearchRules(blocks=10, block_bits=26, patterns=1, prefix_max=1_000)
    drawn = np.unique(np.random.default_rng(1).integers(0, 2**38, 30_000, dtype=np.uint64)) << np.uint64(26)
    nothing = np.zeros(len(drawn), np.uint64)
    index = DirectedIndex(rules)
    index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
    scans = []
    for query in (drawn[:1] ^ np.uint64(1), drawn[:1]):
        before = index.filters_read
        index.query(query, nothing[:1])
        scans.append((index.filters_read - before) / len(drawn))
    assert 1 <= scans[0] < 1.1
    assert scans[0] < scans[1] < 20
    elsewhere = np.uint64(1 << 27 | 1 << 40 | 1 << 53)  # so that no other block finds them
    assert index.query(drawn[998:1_001] ^ elsewhere, nothing[:3]).rows.tolist() == [998, 999, -1]
