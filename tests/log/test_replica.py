"""The replica, held against an oracle that knows only what the log's rules say."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from tests.oracle import Oracle, Said, read_answer, read_answers, said
from worker.core.document import Verdict
from worker.core.index import Judgement, SearchIndex
from worker.core.marks import LONG, TITLE_SHIFT, URL_SHIFT
from worker.core.search import (
    Apart,
    Match,
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    best,
    kept_apart,
    listed,
)
from worker.core.sketch import sketch_of
from worker.core.tables.parallel import Candidates
from worker.errors import DocumentError, RetryError
from worker.log import columns, duplicates, originals
from worker.log import replica as log_replica
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition, LogDefinition, Retention

EXACT, CONFIRMED = SearchRules("exact", 3), SearchRules("exact", 3, similarity_min=0.75)
DEFINITION = Definition("nd1", "0" * 16, EXACT)
DIRECTED = Definition("nd1", "0" * 16, SearchRules(look_min=700))
REPLACED = replace(DIRECTED, recrawls="replace")
# Of two pages of one template.
FACTS = [(_dice := random.Random(1)).getrandbits(512), _dice.getrandbits(512)]
FACTS.append(FACTS[0] ^ (1 << 15) - 1)  # a copy of the first
TOPIC = b"t" * 16
SOURCE = Source(TOPIC, 0)
# Of documents without a mark, and of pages of two hosts, thin and long, with two URLs and titles.
MARKS = [
    0,
    0,
    *(
        host | url << URL_SHIFT | title << TITLE_SHIFT | length
        for host in (1, 2)
        for url in (1, 2)
        for title in (1, 2)
        for length in (0, LONG)
    ),
]
KINDS = [RowKind.FULL] * 6 + [RowKind.SHORT] * 3 + [RowKind.DELETED, RowKind.SKIPPED, RowKind.DEAD]


BACK_MS = -(10**9)  # a record of another time: those behind it go on from the time before it


class Step(NamedTuple):
    """
    A record of the log: offsets [first, first + length) of a partition, time since the one before,
    a commit.
    """

    partition: int
    first: int
    length: int
    passed_ms: int
    committed: int


def rows() -> st.SearchStrategy[list[Row]]:
    """
    Forty source messages whose fingerprints and doc_ids collide often; drawn at once: single draws
    take longer.
    """
    return st.binary(min_size=40 * 8, max_size=40 * 8).map(
        lambda drawn: [_row(at, drawn[at::40]) for at in range(40)]
    )


def _row(offset: int, drawn: bytes) -> Row:
    story, bit, digest, doc_id, doubts = (
        part % size for part, size in zip(drawn, (16, 64, 4, 31, 8), strict=False)
    )
    kind, facts = KINDS[drawn[5] % len(KINDS)], FACTS[drawn[6] % len(FACTS)]
    note = "why: because" if kind in (RowKind.SKIPPED, RowKind.DEAD) else ""
    fingerprint = story * 0x1111_0000_0001 ^ (1 << bit)
    url, doubtful = f"https://example.org/{digest}" * (digest > 0), 0x0101_0000_8000_0001 << doubts
    return Row(
        offset, kind, f"d{doc_id}", url, offset, fingerprint, digest, 9, note, doubtful, facts,
        MARKS[drawn[7] % len(MARKS)],
    )  # fmt: skip


steps = st.lists(
    st.builds(
        Step, st.integers(0, 1), st.integers(0, 39), st.integers(1, 15),
        st.sampled_from([*range(-3, 13), BACK_MS]),
        st.sampled_from([0, 0, 0, 20, 39]),
    ),
    min_size=5,
    max_size=25,
)  # fmt: skip
searches = st.sampled_from([EXACT, SearchRules(look_min=700)])
retentions = st.builds(
    Retention,
    st.sampled_from([0, 1, 5, 20, 60]),
    st.sampled_from(["first", "last"]),
    st.sampled_from([0, 1, 2, 5, 40]),
)
recrawled: st.SearchStrategy[Literal["compare", "replace"]] = st.sampled_from(
    ["compare", "replace"]
)


def definition(
    retention: Retention,
    search: SearchRules = EXACT,
    recrawls: Literal["compare", "replace"] = "compare",
) -> Definition:
    return Definition("nd1", "0" * 16, search, retention, recrawls=recrawls)


@contextmanager
def small_chunks(rows_bits: int = 1) -> Iterator[pytest.MonkeyPatch]:
    """
    Chunks of two rows and of sixteen bytes: forgetting, sharing, mapping, building anew happen all
    the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "ROWS_BITS", rows_bits)
        patch.setattr(columns, "BYTES_BITS", rows_bits + 3)
        patch.setattr(originals, "_REBUILT_MIN", 1 << rows_bits)
        patch.setattr(duplicates, "STEP_BITS", rows_bits)
        patch.setattr(duplicates, "TEXTS_MIN", 6)
        yield patch


def packed(
    of: Definition,
    chosen: Sequence[Row],
    span: tuple[int, int] | None = None,
    committed: int = -1,
    source: Source = SOURCE,
) -> bytes:
    """One record of rows; it covers their offsets, or a span that is given."""
    first, stop = span or (chosen[0].offset, chosen[-1].offset + 1)
    return next(
        encode(of.author("w"), [Section(source, first, stop, committed, Rows.of(chosen))], 1 << 26)
    )


def record(
    rows_of: dict[int, list[Row]], step: Step, of: Definition = DEFINITION, committed: int = -1
) -> bytes:
    """One record, as a worker that read [first, first + length) would write it."""
    span = step.first, min(step.first + step.length, 40)
    return packed(
        of, rows_of[step.partition][slice(*span)], span, committed, Source(TOPIC, step.partition)
    )


def log_of(
    of: Definition, rows_of: dict[int, list[Row]], taken: list[Step]
) -> list[tuple[bytes, int]]:
    """
    Records, each with its author's commit, with their time stamps, which may go back a little, or
    for a record far.
    """
    now_ms = 10**10
    records = []
    for step in taken:
        time_ms = now_ms + step.passed_ms
        records.append((record(rows_of, step, of, step.committed), time_ms))
        if step.passed_ms != BACK_MS:
            now_ms = time_ms
    return records


def declared(of: Definition, memory: columns.Memory = columns.anonymous) -> Replica:
    """A replica that reads the records of a log of this definition; what is committed it drops."""
    return Replica(of, LogDefinition.of(of, FORMAT_VERSION), memory)


def replay(records: list[bytes], definition: Definition = DEFINITION) -> Replica:
    """A fresh replica that has read these records, checked after each."""
    replica = declared(definition)
    for offset, data in enumerate(records):
        replica.read(data, offset, 1_000 + offset)
        replica.check()
    return replica


@settings(max_examples=2 * EXAMPLES)
@given(
    rows(), rows(), steps, st.just(Retention()) | retentions, searches | st.just(CONFIRMED),
    recrawled, st.sampled_from([2, 1 << 20]),
)  # fmt: skip
def test_every_answer_is_the_oracles(
    one: list[Row],
    two: list[Row],
    taken: list[Step],
    retention: Retention,
    search: SearchRules,
    recrawls: Literal["compare", "replace"],
    left_min: int,
) -> None:
    """
    Exact and near duplicates, re-crawls, redeliveries, deletions, records out of order: as the
    rules say.

    Whatever leaves, and however often rows that have left are left out and the others numbered
    anew, as they are before their 32 bits run out.
    """
    of, committed = definition(retention, search, recrawls), {0: 0, 1: 0}
    with small_chunks() as patch:
        patch.setattr(log_replica, "LEFT_MIN", left_min)
        patch.setattr(log_replica, "RENUMBERED_FROM", 30)
        oracle, replica = Oracle(search, retention, replaces=recrawls == "replace"), declared(of)
        for number, (data, now_ms) in enumerate(log_of(of, {0: one, 1: two}, taken)):
            oracle.apply(data, now_ms)
            replica.read(data, number, now_ms)
            replica.check()
            assert len(replica.judge.held) < 30 or replica.judge.held.first == 0
            partition = taken[number].partition
            committed[partition] = max(committed[partition], taken[number].committed)
            for source in replica.coverage:
                agree(oracle, replica, source, committed[source.partition])


def agree(oracle: Oracle, replica: Replica, source: Source, committed: int) -> None:
    """
    All answers that are not known to be committed, old and new, though what they name may have
    left.
    """
    offsets = sorted(at for of, at in oracle.answers if of == source and at >= committed)
    for at, answer in zip(
        offsets, replica.answers(source, offsets, "documents", read_answers), strict=True
    ):
        assert said(answer) == oracle.answers[source, at]
        assert isinstance(answer, DocumentError) or answer.horizon_ms == oracle.horizons[source, at]


def told(replica: Replica, offsets: Iterable[int], source: Source = SOURCE) -> list[Said]:
    """What a replica says of each offset, as the oracle says it."""
    return [
        said(answer) for answer in replica.answers(source, list(offsets), "documents", read_answers)
    ]


def one_row(offset: int, **fields: Any) -> bytes:
    row = Row(offset, RowKind.FULL, f"d{offset}", "https://example.org/", 5, 7, 7, 9)
    row = row._replace(**fields)
    return packed(DEFINITION, [row], (offset, offset + 1))


# ---- rows of one record that hide behind each other

LOOKALIKES = 8
PAGES = [random.Random(number).getrandbits(512) for number in range(4)]  # no two are alike


def lookalikes(pages: Sequence[int], flips: Sequence[int] = (0,) * LOOKALIKES) -> list[Row]:
    """
    Return rows of new doc_ids with one fingerprint, or a bit from it, so that all share a prefix.

    The sketch of each is that of a page: rows of one page are copies, rows of two pages are not.
    """
    return [
        Row(
            offset,
            RowKind.FULL,
            f"d{offset}",
            f"https://example.org/{offset}",
            offset,
            0x1234_5678_9ABC_DEF0 ^ flip,
            digest=page,
            features=9,
            sketch=PAGES[page],
        )
        for offset, (page, flip) in enumerate(zip(pages, flips, strict=True))
    ]


def judge_lookalikes(rows: list[Row], prefix_max: int, records: int = 1) -> None:
    """Have a replica and the oracle judge rows, in so many records, and compare all answers."""
    search = SearchRules(prefix_max=prefix_max)
    of = definition(Retention(), search)
    oracle = Oracle(search)
    replica = Replica(of)
    size = LOOKALIKES // records
    for number in range(records):
        data = packed(of, rows[number * size : (number + 1) * size])
        oracle.apply(data, 1_000)
        replica.apply(decode(data), number, 1_000)
    agree(oracle, replica, SOURCE, 0)


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.integers(0, 3), min_size=LOOKALIKES, max_size=LOOKALIKES),
    st.lists(st.sampled_from([0, 0, 0, 1]), min_size=LOOKALIKES, max_size=LOOKALIKES),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
)
def test_rows_are_listed_in_one_record_as_in_several(
    pages: list[int], flips: list[int], prefix_max: int, records: int
) -> None:
    """Of a prefix `prefix_max` originals are listed; those that are born later are not found."""
    judge_lookalikes(lookalikes(pages, flips), prefix_max, records)


def match_or_insert_plainly(
    index: SearchIndex,
    within: SearchRules,
    columns: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]],
    first_row: int,
) -> Judgement:
    """Search an empty index: each row among the new ones of its own call, by the rules `within`."""
    originals: list[SearchedOriginal] = []
    matches: list[Match] = []
    refused: list[Apart | None] = []
    for fingerprint, doubts, words in zip(*columns, strict=True):
        document = SearchedDocument(int(fingerprint), int(doubts), sketch_of(words.tolist()))
        match = best(within, document, originals)
        matches.append(match or Match(-1, 255, 0, 0))
        refused.append(kept_apart(within, document, originals))
        if match is None:
            mask = listed(within, document.fingerprint, originals)
            originals.append(SearchedOriginal(first_row + len(originals), *document, mask))
    rows = np.array([match.row for match in matches])
    listed_in = np.zeros(len(rows), np.uint16)
    listed_in[rows < 0] = index.insert(
        columns[0][rows < 0],
        columns[1][rows < 0],
        np.arange(first_row, first_row + len(originals), dtype=np.uint32),
    )
    return Judgement(
        rows,
        np.array([match.distance for match in matches], np.uint8),
        np.array([match.look for match in matches], np.uint16),
        np.array([match.similarity for match in matches], np.uint16),
        len(originals),
        listed_in,
        np.array([apart.told if apart else 0 for apart in refused], np.uint16),
        np.array([apart.row if apart else -1 for apart in refused], np.int64),
    )


@pytest.mark.parametrize("prefix_max", [1, 2, 3])
def test_a_search_that_ignores_prefix_max_within_one_call_is_seen(
    prefix_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history above is red if rows of one call find each other beyond the bound, else green."""

    def search_within(bound: int) -> None:
        def match_or_insert(
            index: SearchIndex,
            fingerprints: NDArray[np.uint64],
            doubts: NDArray[np.uint64],
            sketches: NDArray[np.uint64],
            first_row: int,
            marks: NDArray[np.uint64],
            outside: Sequence[Candidates],
        ) -> Judgement:
            assert not marks.any() and not outside
            within = replace(index.rules, prefix_max=bound)
            columns = (fingerprints, doubts, sketches)
            return match_or_insert_plainly(index, within, columns, first_row)

        monkeypatch.setattr(SearchIndex, "match_or_insert", match_or_insert)

    pages = lookalikes([0, 1, 1, 2, 2, 3, 0, 3])
    # Equal digests in a crowded prefix would make several calls.
    rows = [row._replace(digest=row.offset) for row in pages]
    search_within(prefix_max)
    judge_lookalikes(rows, prefix_max)
    search_within(LOOKALIKES)
    with pytest.raises(AssertionError):
        judge_lookalikes(rows, prefix_max)


def test_a_topic_made_anew_has_other_offsets() -> None:
    """
    Coverage belongs to a topic's id, not to its name: the same offset of its successor is another
    document.
    """
    replica = replay([one_row(0)])
    assert replica.missing(Source(b"u" * 16, 0), 0, 1) == [(0, 1)]
    assert replica.missing(SOURCE, 0, 1) == []


def test_committed_verdicts_are_dropped_and_asking_again_names_the_remedy() -> None:
    """
    What is committed is not kept; a group moved back gets an error, not a verdict made up against a
    newer index.
    """
    replica = replay([one_row(0), one_row(1)])
    replica.committed(SOURCE, 1)
    with pytest.raises(RetryError, match="moved back"):
        read_answer(replica, SOURCE, 0)
    assert isinstance(read_answer(replica, SOURCE, 1), Verdict)
    with pytest.raises(KeyError):
        read_answer(replica, SOURCE, 2)


def test_a_record_tells_what_its_author_has_committed() -> None:
    """Every replica drops what the record's author knows as committed, and keeps the rest."""
    rows = [
        Row(offset, RowKind.SHORT, f"d{offset}", "https://example.org/", 5, 7, offset, 9)
        for offset in range(3)
    ]
    replica = replay([one_row(0), one_row(1), packed(DEFINITION, rows[2:], committed=1)])
    with pytest.raises(RetryError):
        read_answer(replica, SOURCE, 0)
    assert isinstance(read_answer(replica, SOURCE, 1), Verdict)


def test_item_3_what_nobody_will_ask_for_is_not_kept() -> None:
    """
    Verdicts of a partition that fell silent, and of a topic that was recreated; what arrives later
    included.
    """
    replica = replay([one_row(0), one_row(1)])
    successor = b"u" * 16
    rows = [
        Row(offset, RowKind.SHORT, f"d{offset}", f"d{offset}", 5, 7, offset, 9)
        for offset in range(4)
    ]
    replica.serve(successor, {0: 3, 1: 9})
    for source, log_offset in ((SOURCE, 2), (Source(successor, 0), 3)):
        replica.apply(decode(packed(DEFINITION, rows[2:3], source=source)), log_offset, 1_002)
    assert [len(pending) for pending in replica.pending.values()] == [0, 0]
    replica.apply(decode(packed(DEFINITION, rows[3:], source=Source(successor, 0))), 4, 1_003)
    assert isinstance(read_answer(replica, Source(successor, 0), 3), Verdict)
    replica.check()


def test_records_come_in_order() -> None:
    """A record from before the replica's offset is a mistake of the caller."""
    replica = replay([one_row(0), one_row(1)])
    with pytest.raises(ValueError, match="next is 2, got 1"):
        replica.apply(decode(one_row(1)), 1, 0)


def test_threads_outlive_the_tables() -> None:
    """Tables that are built anew are searched by as many threads as those before them."""
    replica = Replica(DIRECTED)
    replica.use_threads(3)
    replica.compact()
    assert replica.judge.held.index.threads == 3


def test_threads_are_warmed_up_before_they_search() -> None:
    """A worker that may search with several threads starts: both kinds of kernels are ready."""
    replica = Replica(DIRECTED)
    replica.use_threads(3)
    replica.warm_up()
    assert (replica.documents, replica.judge.held.index.threads) == (0, 3)


def test_a_cold_disk_is_warmed_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record that finds its originals on the disk waits for no compiler."""
    asked: list[bool] = []
    search = SearchIndex.match_or_insert

    def noted(index: SearchIndex, *columns: Any, **outside: Any) -> Judgement:
        asked.append(index.asks)
        return search(index, *columns, **outside)

    monkeypatch.setattr(SearchIndex, "match_or_insert", noted)
    replica = Replica(DIRECTED)
    replica.warm_up()
    assert {False, True} <= set(asked) and not replica.judge.held.asks


def test_warming_up_leaves_a_replica_as_it_is() -> None:
    """The rows that load the kernels are judged in a replica of their own."""
    replica = replay([])
    replica.warm_up()
    replica.check()
    assert (replica.next_offset, replica.documents, replica.coverage, replica.pending) == (
        0,
        0,
        {},
        {},
    )


def test_rows_that_were_judged_together_are_cut_by_record() -> None:
    """Also if they begin in the middle of the call. Each row keeps what was found for it."""
    chosen = [_row(at, bytes([at, 0, 0, at, 0, 0, 0, 0])) for at in range(6)]
    section = Section(SOURCE, 0, 6, 0, Rows.of(chosen))
    judged = Replica(DEFINITION).apply_together(section, 4, 0).between(2, 6)
    parts = list(judged.by_record(np.array([7, 7, 9, 10])))
    assert [(part.log_offset, part.offsets()) for part in parts] == [
        (7, [2, 3]),
        (9, [4]),
        (10, [5]),
    ]
    assert [part.judged.documents.tolist() for part in parts] == [[2, 3], [4], [5]]
