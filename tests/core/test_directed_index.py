"""The directed index against its definition in plain Python, `worker.core.search.best`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.core import directed_index, planner
from worker.core.directed_index import DirectedIndex
from worker.core.planner import LARGE
from worker.core.row_index import Judgement
from worker.core.search import Document, Original, SearchRules, best
from worker.core.search_index import index_from_arrays, new_index
from worker.core.sketch import SKETCH, sketch_similarity, words_of
from worker.log.originals import Column

RULES = (
    SearchRules(),
    SearchRules(look_min=0, max_distance=16, patterns=128, similarity_min=0),
    SearchRules(look_min=500, max_distance=16, patterns=128, similarity_min=500),
    SearchRules(blocks=2, patterns=64, look_min=700),
    SearchRules(blocks=3, block_bits=20, patterns=32, max_distance=7),
    SearchRules(blocks=10, block_bits=26, patterns=32),
    SearchRules(blocks=6, block_bits=30, patterns=5, prefix_max=3),
    SearchRules(prefix_max=2, similarity_min=1_000),
    SearchRules(blocks=15, block_bits=22, prefix_max=2, look_min=500),
    SearchRules(patterns=1, max_distance=0, look_min=1_000),
)
Documents = list[Document]


def doubts_of(generator: random.Random) -> int:
    """About a quarter of the bits; sometimes none, or all."""
    share = generator.choice([0.25, 0.25, 0.25, 0.6, 0.0, 1.0])
    return sum(1 << bit for bit in range(64) if generator.random() < share)


def crawl(generator: random.Random, documents: int, live: int = 2**64 - 1) -> Documents:
    """
    Documents in a crawl's order: new ones, equal ones, and copies in which mostly doubtful bits differ.

    Of a copy a part of the sketch is another one: none, some, or all, as of pages with other facts.
    """
    made = [Document(generator.getrandbits(64) & live, doubts_of(generator), generator.getrandbits(512))]
    while len(made) < documents:
        fingerprint, doubts, sketch = generator.choice(made)
        if generator.random() < 0.6:
            sketch ^= generator.getrandbits(512) & generator.choice([0xFF << 128, (1 << 128) - 1, (1 << 512) - 1])
        if generator.random() < 0.4:
            fingerprint = generator.getrandbits(64) & live
        for bit in generator.sample(range(64), generator.choice([0, 1, 2, 4, 8, 16])):
            if doubts >> bit & 1 or generator.random() < 0.1:
                fingerprint ^= 1 << bit
        for bit in generator.sample(range(64), generator.choice([0, 0, 3, 12])):
            doubts ^= 1 << bit
        made.append(Document(fingerprint, doubts if generator.random() < 0.9 else doubts_of(generator), sketch))
    return made


Columns = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]


def columns(documents: Sequence[Document | Original]) -> Columns:
    """Fingerprints, doubts and sketches."""
    sketches = np.array([words_of(one.sketch) for one in documents], np.uint64).reshape(-1, 8)
    first, second = ([getattr(one, name) for one in documents] for name in ("fingerprint", "doubts"))
    return np.array(first, np.uint64), np.array(second, np.uint64), sketches


def plain(pairs: Sequence[tuple[int, int]]) -> Columns:
    """Documents whose sketches say nothing."""
    return columns([Document(fingerprint, doubts, 1) for fingerprint, doubts in pairs])


def held(sketches: NDArray[np.uint64], bits: int = 3) -> Column[np.uint64]:
    """Sketches by row, in short chunks."""
    column: Column[np.uint64] = Column(SKETCH, bits)
    column.append(sketches)
    return column


def said(found: Judgement, number: int) -> tuple[int, ...] | None:
    """What an index says of one document, as the definition does."""
    row, *rest = (int(column[number]) for column in found[:4])
    return (row, *rest) if row >= 0 else None


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.text)
@pytest.mark.parametrize("live", [2**64 - 1, 0xFFFF, 0xF00F_00F0_0F00_FFFF], ids=["random", "one block", "skewed"])
def test_judging_is_what_the_definition_says(rules: SearchRules, live: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row and likeness of each document, whatever the batches; a small index is scanned, or has tables too."""
    generator = random.Random(live % 1_000 + rules.patterns)
    documents = crawl(generator, 120, live)
    sketches: Column[np.uint64] = Column(SKETCH, 3)
    scanned = DirectedIndex(rules, sketches=sketches)
    monkeypatch.setattr(directed_index, "FLAT_BELOW", 0)
    in_tables = DirectedIndex(rules, sketches=sketches)
    originals: list[Original] = []
    position = 0
    while position < len(documents):
        batch = documents[position : position + generator.choice([0, 1, 2, 3, 50])]
        judgements = [index.judge(*columns(batch), first_row=len(originals)) for index in (scanned, in_tables)]
        for number, document in enumerate(batch):
            expected = best(rules, document, originals)
            for found in judgements:
                assert said(found, number) == expected
            if expected is None:
                originals.append(Original(len(originals), *document))
                sketches.append(columns([document])[2])
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
        answers.append(np.array(index.judge(*documents, first_row=0)[:4]))
        index.check()
    for answer in answers[1:]:
        assert (answer == answers[0]).all()


def test_equal_fingerprints_with_different_doubts_are_different_originals() -> None:
    """What is sure of one document may be doubtful of the other: their second look may fail though no bit differs."""
    one, other = (0b1011, 0x0000_0000_FFFF_FFFF), (0b1011, 0xFFFF_FFFF_0000_0000)
    index = DirectedIndex(SearchRules(), sketches=held(plain([one, other])[2]))
    assert index.judge(*plain([one, other, one, other]), first_row=0).rows.tolist() == [-1, -1, 0, 1]
    assert index.delete_many(plain([one])[0], np.array([0], np.uint32)).all()
    assert index.query(*plain([one, other])).rows.tolist() == [-1, 1]
    index.check()


def test_of_many_equal_fingerprints_the_first_sixteen_are_confirmed() -> None:
    """Pages of one template: what is not among the first is not read, and what is read decides by its facts."""
    facts = [random.Random(number).getrandbits(512) for number in range(20)]
    family = columns([Document(7, 0, sketch) for sketch in facts])
    index = DirectedIndex(SearchRules(), sketches=held(family[2]))
    assert max(sketch_similarity(facts[0], other) for other in facts[1:]) < 750
    assert index.judge(*family, first_row=0).rows.tolist() == [-1] * 20
    again = index.query(*family)
    assert again.rows.tolist() == [*range(16), *[-1] * 4]
    assert again.similarities.tolist() == [1_000] * 16 + [0] * 4


def test_a_row_without_a_sketch_is_refused() -> None:
    """Whoever indexes must say where the sketches are: a kernel would read elsewhere."""
    index = DirectedIndex(SearchRules())
    index.judge(*plain([(1, 0)]), first_row=0)
    with pytest.raises(ValueError, match="got row 0 and 0 sketches"):
        index.query(*plain([(1, 0)]))
    with pytest.raises(ValueError, match=r"uint64\[1, 8\]"):
        DirectedIndex(SearchRules()).query(*plain([(1, 0)])[:2], np.zeros((1, 4), np.uint64))


def test_rows_may_be_given_later() -> None:
    """Renumbered, the earliest is still the earliest."""
    index = DirectedIndex(SearchRules(prefix_max=2), sketches=held(plain([(0, 0)] * 9)[2]))
    index.judge(*plain([(0xFFFF_FFFF, 0), (1 << 63, 0)]), first_row=0)
    index.renumber(np.array([0, 7], np.uint32))
    assert index.query(*plain([(1 << 63, 0)])).rows.tolist() == [7]
    with pytest.raises(ValueError, match="ascend"):
        index.renumber(np.array([9, 8], np.uint32))
    index.insert(*plain([(6, 0)])[:2], np.array([8], np.uint32))
    index.check()


def test_wrong_columns_are_refused() -> None:
    """One column of doubts for the fingerprints, both of 64 bits; rules that are directed."""
    index = DirectedIndex(SearchRules())
    with pytest.raises(ValueError, match="doubts"):
        index.judge(np.zeros(2, np.uint64), np.zeros(1, np.uint64), np.zeros((2, 8), np.uint64), 0)
    with pytest.raises(ValueError, match="uint64"):
        index.query(np.zeros(1, np.int64), np.zeros(1, np.uint64), np.zeros((1, 8), np.uint64))
    with pytest.raises(ValueError, match="directed"):
        DirectedIndex(SearchRules("exact", 3))
    with pytest.raises(ValueError, match="first_row"):
        index.judge(np.zeros(2, np.uint64), np.zeros(2, np.uint64), np.zeros((2, 8), np.uint64), 2**32 - 1)


def test_a_prefix_that_very_many_share_costs_no_more_than_its_first_ones() -> None:
    """30,000 originals that agree in one block: a query reads 4,096 of them, and 1,000 if the rules say so."""
    drawn = np.unique(np.random.default_rng(1).integers(0, 2**48, 30_000, dtype=np.uint64)) << np.uint64(16)
    nothing = np.zeros(len(drawn), np.uint64)
    sketches = np.zeros((len(drawn), 8), np.uint64)
    for rules in (SearchRules(look_min=900), replace(SearchRules(look_min=900), prefix_max=1_000)):
        index = DirectedIndex(rules, sketches=held(sketches, 16))
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        before = index.filters_read
        index.query(drawn[-1:], nothing[-1:], sketches[:1] + np.uint64(1))
        assert rules.prefix_max <= index.filters_read - before < rules.prefix_max + 200


def test_wide_blocks_have_buckets_for_many_from_the_beginning() -> None:
    """A query of ten wide blocks reads few entries, in an index that is new as in one that is restored."""
    drawn = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    nothing, read = np.zeros(len(drawn), np.uint64), []
    sketches = held(np.zeros((len(drawn), 8), np.uint64), 16)
    nobody = DirectedIndex(LARGE).arrays()
    for index in (new_index(LARGE, sketches=sketches), index_from_arrays(LARGE, nobody, sketches)):
        assert isinstance(index, DirectedIndex)
        index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
        index.query(drawn[:100] ^ np.uint64(0x5555), nothing[:100], np.zeros((100, 8), np.uint64))
        read.append(index.filters_read / 100)
    assert max(read) < 200  # with as many buckets as 16 bits have it is 465


def test_a_query_reads_a_bucket_of_several_prefixes_once() -> None:
    """Of 30,000 originals 26 bits agree: another prefix of their bucket costs a scan, their own at most 20."""
    rules = SearchRules(max_distance=12, blocks=10, block_bits=26, patterns=1, look_min=800, prefix_max=1_000)
    drawn = np.unique(np.random.default_rng(1).integers(0, 2**38, 30_000, dtype=np.uint64)) << np.uint64(26)
    nothing = np.zeros(len(drawn), np.uint64)
    sketches = np.zeros((len(drawn), 8), np.uint64)
    index = DirectedIndex(rules, sketches=held(sketches, 16))
    index.insert(drawn, nothing, np.arange(len(drawn), dtype=np.uint32))
    scans = []
    for query in (drawn[:1] ^ np.uint64(1), drawn[:1]):
        before = index.filters_read
        index.query(query, nothing[:1], sketches[:1])
        scans.append((index.filters_read - before) / len(drawn))
    assert 1 <= scans[0] < 1.1
    assert scans[0] < scans[1] < 20
    elsewhere = np.uint64(1 << 27 | 1 << 40 | 1 << 53)  # so that no other block finds them
    assert index.query(drawn[998:1_001] ^ elsewhere, nothing[:3], sketches[:3]).rows.tolist() == [998, 999, -1]
