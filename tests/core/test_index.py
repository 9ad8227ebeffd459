"""The index, exact and directed, against its definition in plain Python."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from tests.benchmarks.common import flipped
from tests.conftest import EXAMPLES, run_machine
from worker.core import planner
from worker.core.index import Judgement, PermutedIndex, SearchIndex
from worker.core.marks import LONG, TITLE_SHIFT, URL_SHIFT
from worker.core.permutation import Layout, permuted, probed
from worker.core.search import (
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    best,
    block_of,
    kept_apart,
    listed,
    patterns,
)
from worker.core.sketch import (
    SIMILARITY_MIN,
    SKETCH,
    sketch,
    sketch_of,
    sketch_similarities,
    sketch_similarity,
    words_of,
)
from worker.core.tables import exact, parallel, scan
from worker.core.tables.memory import QUERY, DirectedMemory
from worker.core.tables.parts import Part
from worker.core.tables.patterns import FLIPS_MAX, patterns_for
from worker.log.columns import ChunkedColumn, Field

RULES = (
    *(SearchRules("exact", distance) for distance in range(8)),
    SearchRules("exact", 3, similarity_min=0.5),
    SearchRules("exact", 7, similarity_min=1),
    SearchRules(similarity_min=0.3, similarity_margin=0.05),
    SearchRules(look_min=0, patterns=128, similarity_min=0.05, similarity_margin=0.3),
    SearchRules(),
    SearchRules(look_min=0, max_distance=16, patterns=128, similarity_min=0),
    SearchRules(look_min=500, max_distance=16, patterns=128, similarity_min=0.5),
    SearchRules(blocks=2, patterns=64, look_min=700),
    SearchRules(blocks=3, block_bits=20, patterns=32, max_distance=7),
    SearchRules(blocks=10, block_bits=26, patterns=32),
    SearchRules(blocks=6, block_bits=30, patterns=5, prefix_max=3),
    SearchRules(prefix_max=2, similarity_min=1),
    SearchRules(blocks=15, block_bits=22, prefix_max=2, look_min=500),
    SearchRules(patterns=1, max_distance=0, look_min=1_000),
    SearchRules(patterns=128, max_distance=2, look_min=0, similarity_min=0),
    SearchRules(blocks=6, block_bits=16, patterns=40, look_min=500),
)
# skewed: few live bits, shared prefixes.
LIVE = (2**64 - 1, 0xFFFF, 0xFFFF_0000_0000_00FF, 0xF00F_00F0_0F00_FFFF)
COMPARED = 8  # documents of a batch that are compared with the definition
Columns = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]
MARKED = np.dtype([("sketch", "<u8", 8), ("mark", "<u8"), ("time", "<i8")])


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide blocks have no more buckets than the others; few rows are enough for several threads."""
    monkeypatch.setattr(planner, "WIDE_EXPECTED", 0)
    monkeypatch.setattr(parallel, "SHARE_MIN", 2)


def doubts_of(generator: random.Random) -> int:
    """About a quarter of the bits; sometimes none, or all."""
    share = generator.choice([0.25, 0.25, 0.25, 0.6, 0.0, 1.0])
    return sum(1 << bit for bit in range(64) if generator.random() < share)


def crawl(
    generator: random.Random, documents: int, live: int = 2**64 - 1
) -> list[SearchedDocument]:
    """
    Documents in a crawl's order: new ones, equal ones, and copies in which mostly doubtful bits
    differ.

    Of a copy a part of the sketch is another one: none, some, or all, as of pages with other facts.
    """
    made = [
        SearchedDocument(
            generator.getrandbits(64) & live,
            doubts_of(generator),
            generator.getrandbits(512),
            drawn_mark(generator),
        )
    ]
    while len(made) < documents:
        fingerprint, doubts, sketch, mark = generator.choice(made)
        if generator.random() < 0.7:
            mark = drawn_mark(generator)
        if generator.random() < 0.6:
            sketch ^= generator.getrandbits(512) & generator.choice(
                [0xFF << 128, (1 << 128) - 1, (1 << 512) - 1]
            )
        if generator.random() < 0.4:
            fingerprint = generator.getrandbits(64) & live
        for bit in generator.sample(range(64), generator.choice([0, 1, 2, 4, 8, 16])):
            if doubts >> bit & 1 or generator.random() < 0.1:
                fingerprint ^= 1 << bit
        for bit in generator.sample(range(64), generator.choice([0, 0, 3, 12])):
            doubts ^= 1 << bit
        made.append(
            SearchedDocument(
                fingerprint,
                doubts if generator.random() < 0.9 else doubts_of(generator),
                sketch,
                mark,
            )
        )
    return made


def marks_of(documents: Sequence[SearchedDocument | SearchedOriginal]) -> NDArray[np.uint64]:
    return np.array([one.mark for one in documents], np.uint64)


def drawn_mark(generator: random.Random) -> int:
    """Mostly one of some pages of two hosts with few URLs and titles, thin or long; or none."""
    if generator.random() < 0.3:
        return 0
    host, url = generator.randint(1, 2), generator.randint(1, 2)
    title = generator.choice([0b11, 0b111, 0b1110, 1 << 30])
    return host | url << URL_SHIFT | title << TITLE_SHIFT | generator.choice([0, LONG])


def columns(documents: Sequence[SearchedDocument | SearchedOriginal]) -> Columns:
    sketches = np.array([words_of(one.sketch) for one in documents], np.uint64).reshape(-1, 8)
    first, second = (
        [getattr(one, name) for one in documents] for name in ("fingerprint", "doubts")
    )
    return np.array(first, np.uint64), np.array(second, np.uint64), sketches


def plain(pairs: Sequence[tuple[int, int]]) -> Columns:
    """Documents whose sketches say nothing."""
    return columns([SearchedDocument(fingerprint, doubts, 1) for fingerprint, doubts in pairs])


def held(sketches: NDArray[np.uint64], bits: int = 3) -> ChunkedColumn[np.uint64]:
    """Sketches by row, in short chunks."""
    column: ChunkedColumn[np.uint64] = ChunkedColumn(SKETCH, bits)
    column.append(sketches)
    return column


def said(found: Judgement, number: int) -> tuple[int, ...] | None:
    """What an index says of one document, as the definition does."""
    row, *rest = (int(column[number]) for column in found[:4])
    return (row, *rest) if row >= 0 else None


def check(
    found: Judgement,
    number: int,
    rules: SearchRules,
    document: SearchedDocument,
    originals: Sequence[SearchedOriginal],
) -> None:
    """Assert that an index says of one document what the definition says, and why not more."""
    assert said(found, number) == best(rules, document, originals)
    apart = kept_apart(rules, document, originals)
    told = (apart.told, apart.row) if apart else (0, -1)
    assert (found.kept_apart[number], found.apart_from[number]) == told


class IndexMachine(RuleBasedStateMachine):
    """
    Batches of any size come, match and go; after each step the index holds what a plain list holds.
    """

    search: SearchRules

    @initialize(
        hot=st.sampled_from([4, 64]),
        seed=st.integers(0),
        documents=st.sampled_from([0, 10, 3_000_000]),
        threads=st.sampled_from([1, 3]),
        asks=st.booleans(),
        is_sorted=st.booleans(),
    )
    def start(
        self, hot: int, seed: int, documents: int, threads: int, asks: bool, is_sorted: bool
    ) -> None:
        """
        Begin empty, sized for few or for millions; buckets that many share are split early.

        What is on a disk may be asked for before it is read. Probes may be sorted, however few they
        are.
        """
        self.hot, exact.HOT_MIN = exact.HOT_MIN, hot
        self.generator = random.Random(seed)
        self.held: list[SearchedOriginal] = []
        self.listed: Counter[tuple[int, int]] = Counter()  # by block and value
        self.next_row = 0
        self.rows: ChunkedColumn[Any] = ChunkedColumn(MARKED, 4)
        self.sketches: Field[np.uint64] = Field(self.rows, "sketch")
        self.index = SearchIndex(
            self.search,
            documents if self.search.mode == "exact" else 0,
            self.sketches,
            are_marked=True,
        )
        self.threads = self.index.threads = threads
        self.asks = self.index.asks = asks
        if isinstance(self.index.tables, parallel.ParallelTables):
            self.index.tables.is_sorted = is_sorted

    def teardown(self) -> None:
        """Leave the module as it was."""
        if hasattr(self, "hot"):
            exact.HOT_MIN = self.hot

    def draw(self, size: int, live: int) -> list[SearchedDocument]:
        """Documents: new ones, equal ones, near ones, near ones with other facts."""
        mixed = crawl(self.generator, max(1, size), live)
        for _ in range(size // 2 if self.held else 0):
            _, fingerprint, doubts, sketch, mark, _ = self.generator.choice(self.held)
            if self.generator.random() < 0.7:
                mark = drawn_mark(self.generator)
            sketch ^= self.generator.choice([0, 0, 0xF0F0, (1 << 200) - 1])
            for bit in self.generator.sample(
                range(64), self.generator.choice([0, 1, 2, self.search.max_distance + 1])
            ):
                fingerprint ^= 1 << bit
            mixed.append(SearchedDocument(fingerprint, doubts, sketch, mark))
        return self.generator.sample(mixed, min(size, len(mixed)))

    def hold(self, document: SearchedDocument) -> int:
        """Remember a document under the next row; return where it is listed."""
        original = self.born(SearchedOriginal(self.next_row, *document))
        self.held.append(original)
        self.add_rows([document])
        self.next_row += 1
        return original.listed

    def add_rows(self, documents: Sequence[SearchedDocument]) -> None:
        """Add what the index reads of new rows."""
        rows = np.zeros(len(documents), MARKED)
        rows["sketch"] = columns(documents)[2]
        rows["mark"] = marks_of(documents)
        self.rows.append(rows)

    def born(self, original: SearchedOriginal) -> SearchedOriginal:
        """List an original, as `search.listed` says; counting is faster than to look at all."""
        mask = 0
        for block, value in self.values_of(original):
            mask |= (self.listed[block, value] < self.search.prefix_max) << block
        original = original._replace(listed=mask)
        self.listed.update(self.values_of(original, mask))
        return original

    def values_of(self, original: SearchedOriginal, mask: int = -1) -> list[tuple[int, int]]:
        """The blocks of a mask, and an original's value in each."""
        runs_of = self.search.runs if self.search.mode == "directed" else ()
        values = [(at, block_of(original.fingerprint, runs)) for at, runs in enumerate(runs_of)]
        return [(block, value) for block, value in values if mask >> block & 1]

    @rule(size=st.integers(0, 60), live=st.sampled_from(LIVE), everything=st.booleans())
    def match(self, size: int, live: int, everything: bool) -> None:
        """Match a batch and insert what is new, or all of it."""
        batch = self.draw(size, live)
        take = self.index.query_then_insert if everything else self.index.match_or_insert
        found = take(*columns(batch), self.next_row, marks_of(batch))
        for position, document in enumerate(batch):
            if position < COMPARED:
                check(found, position, self.search, document, self.held)
            listed_in = 0
            if everything or found.rows[position] < 0:
                listed_in = self.hold(document)
            assert found.listed[position] == listed_in
        assert found.new == np.count_nonzero(found.rows < 0)

    @rule(size=st.integers(0, 700), live=st.sampled_from(LIVE), shuffled=st.booleans())
    def insert(self, size: int, live: int, shuffled: bool) -> None:
        """Insert a batch without a search; each is born in the order of the call."""
        batch = self.draw(size, live)
        self.add_rows(batch)
        added = [SearchedOriginal(self.next_row + at, *one) for at, one in enumerate(batch)]
        self.next_row += len(added)
        if shuffled:
            self.generator.shuffle(added)
        rows = np.array([one.row for one in added], np.uint32)
        found = self.index.insert(*columns(added)[:2], rows)
        added = [self.born(one) for one in added]
        assert found.tolist() == [one.listed for one in added]
        self.held = sorted([*self.held, *added])

    @rule(share=st.floats(0, 1), front=st.booleans())
    def delete(self, share: float, front: bool) -> None:
        """Take a share of all rows out, the earliest or any, and fail to take them out again."""
        count = int(share * len(self.held))
        gone = self.held[:count] if front else self.generator.sample(self.held, count)
        fingerprints, _, _ = columns(gone)
        rows = np.array([one.row for one in gone], np.uint32)
        done = self.index.delete_many(fingerprints, rows)
        assert done.tolist() == [self.is_indexed(one) for one in gone]
        assert not self.index.delete_many(fingerprints, rows).any()
        for one in gone:
            self.listed.subtract(self.values_of(one, one.listed))
        self.held = sorted(set(self.held) - set(gone))

    def is_indexed(self, original: SearchedOriginal) -> bool:
        """Whether it is listed anywhere."""
        return self.search.mode == "exact" or original.listed > 0

    @rule()
    def restore(self) -> None:
        """Go on with an index made from the arrays."""
        self.index = SearchIndex.from_arrays(
            self.index.arrays(), self.search, sketches=self.sketches, are_marked=True
        )
        self.index.threads = self.threads
        self.index.asks = self.asks

    @rule(live=st.sampled_from(LIVE))
    def query(self, live: int) -> None:
        batch = self.draw(COMPARED, live)
        found = self.index.query(*columns(batch), marks_of(batch))
        for position, document in enumerate(batch):
            check(found, position, self.search, document, self.held)
        if self.search.mode == "exact":
            permuted_ = PermutedIndex.from_arrays(self.index.arrays(), self.search.max_distance)
            for fingerprint, *_ in batch[:2]:
                ranked = sorted(
                    ((one.fingerprint ^ fingerprint).bit_count(), one.row) for one in self.held
                )
                matches = [
                    (row, distance)
                    for distance, row in ranked
                    if distance <= self.search.max_distance
                ]
                assert permuted_.query_all(fingerprint) == matches

    @invariant()
    def holds_what_it_should(self) -> None:
        """Nothing is lost, nothing is left."""
        if hasattr(self, "index"):
            assert len(self.index) == sum(map(self.is_indexed, self.held))
            self.index.check()


@pytest.mark.timeout(580)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.text)
def test_any_calls_in_any_order_follow_the_definition(rules: SearchRules) -> None:
    """For rules of every kind."""

    class Machine(IndexMachine):
        search = rules

    run_machine(Machine, steps=12)


@pytest.mark.parametrize("rules", [RULES[10], RULES[14], RULES[16]], ids=lambda rules: rules.text)
def test_what_is_found_does_not_depend_on_the_buckets(
    rules: SearchRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets of one prefix and buckets that many prefixes share give the same answers."""
    documents = columns(crawl(random.Random(3), 6_000, 0xFF0F_FF0F_FFFF_FFFF))
    answers = []
    for bits in (16, 19):
        monkeypatch.setattr(planner, "DIRECTED_BITS", (bits, 26))
        index = SearchIndex(rules)
        answers.append(np.array(index.match_or_insert(*documents, first_row=0)[:4]))
        index.check()
    assert (answers[0] == answers[1]).all()


def test_what_is_found_does_not_depend_on_how_many_entries_are_compared_at_a_time() -> None:
    """
    Buckets of any length, up to thousands of entries, give the same answers, compared in vectors of
    any number or in planes.
    """
    fingerprints, doubts, sketches = columns(crawl(random.Random(5), 3_000, LIVE[2]))
    index = SearchIndex(SearchRules(look_min=0, similarity_min=0), sketches=held(sketches, 12))
    index.insert(fingerprints, doubts, np.arange(len(fingerprints), dtype=np.uint32))
    near = fingerprints ^ np.uint64(1 << 40)  # nothing is identical: all that there is is searched
    answers = []
    memory = index.tables.memory
    assert isinstance(memory, DirectedMemory)
    assert isinstance(index.tables, parallel.ParallelTables)
    for vectors in range(scan.LONG + 1):
        memory.vectors = max(vectors, 1)
        index.tables.is_sorted = vectors == 0
        before = index.filters_read
        answers.append(np.array(index.query(near, doubts, sketches)[:4]))
        assert index.filters_read - before > 1_000 * len(near)
    assert all((answer == answers[0]).all() for answer in answers)
    assert len(np.unique(answers[0][0])) > 1_000


@pytest.mark.parametrize(
    "rules",
    [
        SearchRules(),
        SearchRules(prefix_max=3, look_min=0),
        SearchRules(blocks=10, block_bits=26, prefix_max=7, similarity_min=0.5),
    ],
    ids=lambda rules: rules.text,
)
@pytest.mark.parametrize("rows_max", [50, 1_024])
def test_threads_and_sorted_probes_find_what_one_row_after_the_other_finds(
    rules: SearchRules, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Rows of many families, some within a call and some from calls before, have the same originals,
    also where more rows of a call meet each other than there is room for.
    """
    are_paired = Counter[bool]()
    real = parallel.settle_rows

    def settle_rows(block: Any, part: Part, *given: Any) -> int:
        are_paired[part.is_paired] += 1
        return int(real(block, part, *given))

    monkeypatch.setattr(parallel, "settle_rows", settle_rows)
    monkeypatch.setattr(parallel, "PART_ROWS_MAX", rows_max)
    monkeypatch.setattr(parallel, "TOGETHER_ROWS", rows_max)
    fingerprints, doubts, sketches = columns(crawl(random.Random(7), 4_000, 0xFFF_FFFF_00FF_FFFF))
    answers = []
    runs = [(1, False, 0), (2, False, 0), (5, False, 0)]
    runs += [(threads, True, pairs) for threads in (1, 2) for pairs in (1 << 21, 10)]
    for threads, is_sorted, pairs_max in runs:
        monkeypatch.setattr(parallel, "PAIRS_MAX", pairs_max)
        are_paired.clear()
        column: ChunkedColumn[np.uint64] = ChunkedColumn(SKETCH)
        # Wide blocks get 2^17 buckets: an odd number of bits is halved, too.
        documents = 1_500_000 if rules.block_bits > 16 else 0
        index = SearchIndex(rules, documents, column)
        index.threads = threads
        assert isinstance(index.tables, parallel.ParallelTables)
        index.tables.is_sorted = is_sorted
        for begin in range(0, 4_000, 800):
            part = slice(begin, begin + 800)
            rows = fingerprints[part], doubts[part], sketches[part]
            judged = index.match_or_insert(*rows, len(column))
            column.append(rows[2][judged.rows < 0])
            answers.append((threads, begin, np.array(judged[:4])))
        index.check()
        if pairs_max != 10:
            assert set(are_paired) <= {is_sorted}
        else:
            assert are_paired[False]
    of_one = {begin: judged for _, begin, judged in answers[:5]}
    assert all((judged == of_one[begin]).all() for _, begin, judged in answers)
    assert 500 < np.count_nonzero(np.hstack(list(of_one.values()))[0] >= 0) < 3_500


def test_a_part_in_which_many_rows_are_near_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of 3,000 pages of one template each becomes an original, as one row after the other: the part
    ends where more pairs were near than are worth comparing, and the others are searched anew.
    """
    dice = np.random.default_rng(5)
    flips = np.uint64(1) << dice.integers(0, 64, (2, 3_000), dtype=np.uint64)
    fingerprints = np.uint64(0x1234_5678_9ABC_DEF0) ^ flips[0] ^ flips[1]
    sketches = dice.integers(0, 2**64, (3_000, 8), dtype=np.uint64)
    ends = []
    real = parallel.ParallelTables._settle

    def settle(tables: parallel.ParallelTables, *given: Any) -> int:
        ends.append(real(tables, *given))
        return ends[-1]

    monkeypatch.setattr(parallel.ParallelTables, "_settle", settle)
    answers = []
    for is_sorted in (False, True):
        index = SearchIndex(SearchRules())
        assert isinstance(index.tables, parallel.ParallelTables)
        index.tables.is_sorted = is_sorted
        doubts = np.zeros(3_000, np.uint64)
        answers.append(index.match_or_insert(fingerprints, doubts, sketches, 0))
        index.check()
    assert answers[0].new > 2_900
    assert all(map(np.array_equal, *answers))
    assert 1_024 < ends[0] < 3_000 == ends[-1]


def test_what_an_exact_copy_meets_in_its_part_is_no_candidate_of_the_next_row() -> None:
    """
    A page near the copy, and a third one with that page's words but another fingerprint: all three
    are told from each other, although the copy is known as one only after the search.
    """
    dice = np.random.default_rng(8)
    column: ChunkedColumn[np.uint64] = ChunkedColumn(SKETCH)
    index = SearchIndex(SearchRules(), 0, column)
    known, other = dice.integers(0, 2**64, (2, 8), dtype=np.uint64)
    column.append(known[None])
    first = np.array([0x123456789ABCDEF0], np.uint64)
    index.match_or_insert(first, np.zeros(1, np.uint64), known[None], 0)
    assert isinstance(index.tables, parallel.ParallelTables)
    index.tables.is_sorted = True
    index.asks = True
    fingerprints = first[0] ^ np.array([1 << 40, 0, (1 << 64) - 1], np.uint64)
    sketches = np.stack([other, known, other])
    judged = index.match_or_insert(fingerprints, np.zeros(3, np.uint64), sketches, 1)
    assert judged.rows.tolist() == [-1, 0, -1]


class _Scratch(parallel.Scratch):
    """A scratch whose search meets Ctrl-C before it begins, or begins late."""

    def __init__(self, rules: SearchRules, late: threading.Event | None) -> None:
        super().__init__(rules)
        self._late = late

    def block_like(self, memory: DirectedMemory) -> DirectedMemory:
        if self._late is None:
            raise KeyboardInterrupt
        time.sleep(0.2)
        self._late.set()
        return super().block_like(memory)


def test_an_interrupted_search_ends_when_its_threads_have_ended() -> None:
    """The caller gives up the columns that the threads read, so none reads on behind Ctrl-C."""
    rules = SearchRules()
    tables = parallel.ParallelTables(rules, 16)
    tables.threads = 2
    late = threading.Event()
    tables._scratches = [_Scratch(rules, None), _Scratch(rules, late)]
    count = 2 * parallel.SHARE_MIN
    columns = [np.zeros(count, np.uint64), np.zeros(count, np.uint64)]
    with pytest.raises(KeyboardInterrupt):
        tables.match(columns, 0, 0, np.empty(count, np.int64), QUERY)
    assert late.is_set()


@pytest.mark.parametrize("blocks", [4, 2])
@pytest.mark.parametrize("prefix_max", [1, 2, 3])
def test_a_row_of_the_same_call_may_be_beyond_the_first_of_its_prefix(
    prefix_max: int, blocks: int
) -> None:
    """
    Of one fingerprint with four sketches, the later sketches are found if they were listed.
    """
    rules = SearchRules(prefix_max=prefix_max, blocks=blocks)
    drawn = np.random.default_rng(1).integers(0, 2**63, (4, 8), dtype=np.uint64)
    sketches = drawn[[0, 1, 1, 2, 2, 3, 0, 3]]
    documents = [
        SearchedDocument(0x123456789ABCDEF1, 0x0101010101010101, sketch_of(sketch))
        for sketch in sketches.tolist()
    ]
    held_: list[SearchedOriginal] = []
    wanted = []
    for document in documents:
        match = best(rules, document, held_)
        wanted.append(-1 if match is None else match.row)
        if match is None:
            mask = listed(rules, document.fingerprint, held_)
            held_.append(SearchedOriginal(len(held_), *document, mask))
    index = SearchIndex(rules)
    index.threads = 4
    assert index.match_or_insert(*columns(documents), 0).rows.tolist() == wanted
    assert wanted[2] == (-1 if prefix_max == 1 else 1)


@pytest.mark.parametrize("are_marked", [True, False])
def test_the_first_of_equal_originals_is_found_whichever_tables_list_it(are_marked: bool) -> None:
    """
    `a` had the only place of a prefix when `first` was born, and has left. Then `later` was born, the
    same text in another page of the host or without a mark, and is listed there. A document that is
    kept apart from neither finds `first`, before the search or in it.
    """
    rules = SearchRules(prefix_max=1)
    draw = random.Random(3)
    numbers = [0x1234 | draw.getrandbits(48) << 16 for _ in range(2)]
    sketches = [draw.getrandbits(512) for _ in range(2)]
    marks = [1 | 1 << URL_SHIFT | 7 << TITLE_SHIFT, 1 | 2 << URL_SHIFT | 56 << TITLE_SHIFT]
    a = SearchedDocument(numbers[0], 0, sketches[0])
    first = SearchedDocument(numbers[1], 0, sketches[1], marks[0] if are_marked else 0)
    later = first._replace(mark=marks[1] if are_marked else 0)
    column: ChunkedColumn[Any] = ChunkedColumn(MARKED)
    index = SearchIndex(rules, sketches=Field(column, "sketch"), are_marked=True)
    held_: list[SearchedOriginal] = []
    for row, document in enumerate((a, first, later)):
        given_ = np.array([document.mark], np.uint64)
        judged = index.query_then_insert(*columns([document]), row, given_)
        held_.append(SearchedOriginal(row, *document, int(judged.listed[0])))
        entry = np.zeros(1, MARKED)
        entry["sketch"] = words_of(document.sketch)
        entry["mark"] = document.mark
        column.append(entry)
        if row == 1:
            index.delete_many(np.array(numbers[:1], np.uint64), np.zeros(1, np.uint32))
            del held_[0]
    asked = first._replace(mark=0)
    match = best(rules, asked, held_)
    assert match is not None and match.row == 1
    assert index.query(*columns([asked])).rows.tolist() == [1]


@pytest.mark.parametrize(("count", "max_distance"), [(1, 15), (32, 15), (64, 3), (128, 2)])
def test_the_table_of_patterns_is_the_definition(count: int, max_distance: int) -> None:
    """
    Of each set of doubtful bits it has the likeliest patterns in their order, but those that are
    too far.
    """
    known = patterns_for(frozenset([16]), count, min(max_distance, FLIPS_MAX))
    assert known.table is not None
    table = known.table.array.reshape(1 << 16, count)
    for doubts in (0, 0xFFFF, *np.random.default_rng(1).integers(0, 1 << 16, 300).tolist()):
        wanted = [
            pattern
            for pattern in patterns(doubts, 16, count)
            if pattern.bit_count() <= max_distance
        ]
        assert table[doubts, : len(wanted)].tolist() == wanted
        assert known.counts[0, doubts.bit_count()] == len(wanted)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to 8 blocks, for any distance up to 7."""
    max_distance = draw(st.integers(0, 7))
    if max_distance < 2 or draw(st.booleans()):
        return permuted(max_distance, draw(st.integers(max_distance + 1, 8)))
    layout = probed(max_distance, draw(st.integers(2, 8)))
    return layout if layout.probes <= 300 else probed(max_distance, max(2, max_distance - 1))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts(), st.integers(0, 2**32 - 1))
def test_any_blocks_miss_nothing_and_invent_nothing(layout: Layout, seed: int) -> None:
    """The best match is that of a scan, whatever the layout."""
    dice = np.random.default_rng(seed)
    held = dice.integers(0, 2**64, 150, dtype=np.uint64)
    held = np.concatenate((held, flipped(held, layout.max_distance + 2, dice)))
    index = PermutedIndex(layout.max_distance, layout, documents_expected=300)
    index.insert(held, np.arange(len(held), dtype=np.uint32))
    asked = flipped(held, layout.max_distance + 2, dice)
    distances = np.bitwise_count(asked[:, None] ^ held[None, :])
    smallest = distances.min(axis=1)
    found = index.query(asked)
    within = smallest <= layout.max_distance
    assert (found.rows == np.where(within, distances.argmin(axis=1), -1)).all()
    assert (found.distances[within] == smallest[within]).all()
    index.check()


def test_many_equal_fingerprints_are_one_entry() -> None:
    """
    Thousands of copies are found by the earliest row, ranked by row, and can go one by one, the
    earliest first.
    """
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
    assert index.delete_many(
        np.full(copies - 4, 7, np.uint64), index.arrays()["rows"].astype(np.uint32)
    ).all()
    index.check()
    assert len(index) == 0


def test_numbers_columns_and_the_kernel_compare_short_texts_alike() -> None:
    """On both sides of each bound of the rule for one replaced word."""
    dice = random.Random(11)
    originals: list[SearchedDocument] = []
    copies: list[SearchedDocument] = []
    for _ in range(4_000):  # about as many words as the bounds are
        shared = [dice.getrandbits(64) for _ in range(dice.randrange(8, 14))]
        fingerprint = dice.getrandbits(64)
        for documents in (originals, copies):
            others = [dice.getrandbits(64) for _ in range(dice.randrange(6))]
            documents.append(SearchedDocument(fingerprint, 0, sketch([*shared, *others])))
    wanted = [
        sketch_similarity(original.sketch, copy.sketch)
        for original, copy in zip(originals, copies, strict=True)
    ]
    assert wanted.count(SIMILARITY_MIN) > 10
    held_columns, asked = columns(originals), columns(copies)
    assert sketch_similarities(held_columns[2], asked[2]).tolist() == wanted
    index = SearchIndex(
        SearchRules("exact", 3, similarity_min=0.001), sketches=held(held_columns[2])
    )
    index.match_or_insert(*held_columns, first_row=0)
    assert index.query(*asked).similarities.tolist() == wanted


def test_copies_are_found_in_one_bucket_each() -> None:
    """However many a call has: no other bucket is looked into."""
    fingerprints = np.random.default_rng(3).integers(0, 2**64, 130, dtype=np.uint64)
    family = fingerprints, np.zeros(130, np.uint64), np.zeros((130, 8), np.uint64)
    index = SearchIndex(SearchRules(), sketches=held(family[2]))
    index.insert(*family[:2], np.arange(130, dtype=np.uint32))
    before = index.filters_read
    assert index.query(*family).rows.tolist() == [*range(130)]
    assert index.filters_read - before == 130


def test_an_equal_original_behind_sixteen_others_of_its_fingerprint_is_not_found() -> None:
    """Although it is the only one of them that the first table lists."""
    rules = SearchRules(prefix_max=16)
    draw = random.Random(4)
    number = draw.getrandbits(64)
    before = [number ^ draw.getrandbits(48) << 16 for _ in range(16)]  # fill its first prefix
    documents = [
        SearchedDocument(fingerprint, 0, draw.getrandbits(512))
        for fingerprint in (*before, *[number] * 17)
    ]
    fingerprints, doubts, sketches = columns(documents)
    index = SearchIndex(rules, sketches=held(sketches))
    held_: list[SearchedOriginal] = []
    for row, document in enumerate(documents):
        if row == 32:
            index.delete_many(fingerprints[:1], np.zeros(1, np.uint32))
            del held_[0]
        part = slice(row, row + 1)
        judged = index.query_then_insert(fingerprints[part], doubts[part], sketches[part], row)
        held_.append(SearchedOriginal(row, *document, int(judged.listed[0])))
    assert [one.listed & 1 for one in held_[15:]] == [0] * 16 + [1]
    assert best(rules, documents[32], held_) is None
    assert index.query(fingerprints[32:], doubts[32:], sketches[32:]).rows.tolist() == [-1]


@pytest.mark.parametrize("rules", [SearchRules(), SearchRules("exact", 3, similarity_min=0.75)])
@pytest.mark.parametrize("count", [16, 17, 20])
def test_of_many_equal_fingerprints_the_first_sixteen_are_confirmed(
    rules: SearchRules, count: int
) -> None:
    """
    Pages of one template: what is not among the first is not read, and what is read decides by its
    facts.
    """
    facts = [random.Random(number).getrandbits(512) for number in range(count)]
    family = columns([SearchedDocument(7, 0, sketch) for sketch in facts])
    index = SearchIndex(rules, sketches=held(family[2]))
    assert max(sketch_similarity(facts[0], other) for other in facts[1:]) < 750
    assert index.match_or_insert(*family, first_row=0).rows.tolist() == [-1] * count
    again = index.query(*family)
    assert again.rows.tolist() == [*range(16), *[-1] * (count - 16)]
    assert again.similarities.tolist() == [1_000] * 16 + [0] * (count - 16)


@pytest.mark.parametrize("rules", [SearchRules(prefix_max=2), SearchRules("exact", 3)])
def test_rows_may_be_given_later(rules: SearchRules) -> None:
    """Renumbered, the earliest is still the earliest."""
    index = SearchIndex(rules, sketches=held(plain([(0, 0)] * 9)[2]))
    index.match_or_insert(*plain([(0xFFFF_FFFF, 0), (1 << 63, 0)]), first_row=0)
    index.renumber(np.array([0, 7], np.uint32))
    assert index.query(*plain([(1 << 63, 0)])).rows.tolist() == [7]
    assert index.arrays()["rows"].tolist() == [0, 7]
    with pytest.raises(ValueError, match="ascend"):
        index.renumber(np.array([9, 8], np.uint32))
    index.check()
    index.insert(*plain([(6, 0)])[:2], np.array([8], np.uint32))
    index.check()
