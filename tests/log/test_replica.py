"""The replica, held against an oracle that knows only what the log's rules say."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Oracle, Said, read_answer, read_answers, said
from worker.core.search import SearchRules
from worker.core.verdict import Verdict
from worker.errors import RetryError
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition

DEFINITION = Definition("nd1", "0" * 16, SearchRules("exact", 3))
DIRECTED = Definition("nd1", "0" * 16, SearchRules(look_min=700))
REPLACED = replace(DIRECTED, recrawls="replace")
CONFIRMED = Definition("nd1", "0" * 16, SearchRules("exact", 3, similarity_min=750))
FACTS = [(_dice := random.Random(1)).getrandbits(512), _dice.getrandbits(512)]  # of two pages of one template
FACTS.append(FACTS[0] ^ (1 << 15) - 1)  # a copy of the first
TOPIC = b"t" * 16
SOURCE = Source(TOPIC, 0)
KINDS = [RowKind.FULL] * 6 + [RowKind.SHORT] * 3 + [RowKind.DELETED, RowKind.SKIPPED, RowKind.DEAD]


class Step(NamedTuple):
    """A record of the log: one section a partition, [first, stop), and how far its author had committed."""

    partition: int
    first: int
    length: int
    committed: int
    seed: int


def rows() -> st.SearchStrategy[list[Row]]:
    """Forty source messages whose fingerprints and doc_ids collide often; drawn at once: single draws take longer."""
    return st.binary(min_size=40 * 7, max_size=40 * 7).map(lambda drawn: [_row(at, drawn[at::40]) for at in range(40)])


def _row(offset: int, drawn: bytes) -> Row:
    story, bit, digest, doc_id, doubts = (part % size for part, size in zip(drawn, (16, 64, 4, 31, 8), strict=False))
    kind, facts = KINDS[drawn[5] % len(KINDS)], FACTS[drawn[6] % len(FACTS)]
    note = "why: because" if kind in (RowKind.SKIPPED, RowKind.DEAD) else ""
    fingerprint = story * 0x1111_0000_0001 ^ (1 << bit)
    url, doubtful = f"https://example.org/{digest}", 0x0101_0000_8000_0001 << doubts
    return Row(offset, kind, f"d{doc_id}", url, offset, fingerprint, digest, 9, note, doubtful, facts)


steps = st.lists(st.builds(Step, st.integers(0, 1), st.integers(0, 39), st.integers(1, 15), st.just(-1), st.just(0)))


def packed(
    of: Definition,
    chosen: Sequence[Row],
    span: tuple[int, int] | None = None,
    committed: int = -1,
    source: Source = SOURCE,
) -> bytes:
    """One record of rows; it covers their offsets, or a span that is given."""
    first, stop = span or (chosen[0].offset, chosen[-1].offset + 1)
    return next(encode(of.author("w"), [Section(source, first, stop, committed, Rows.of(chosen))], 1 << 26))


def record(rows_of: dict[int, list[Row]], step: Step, definition: Definition = DEFINITION) -> bytes:
    """One record, as a worker that read [first, first + length) would write it."""
    span = step.first, min(step.first + step.length, 40)
    return packed(
        definition, rows_of[step.partition][slice(*span)], span, step.committed, Source(TOPIC, step.partition)
    )


def replay(records: list[bytes], definition: Definition = DEFINITION) -> Replica:
    """A fresh replica that has applied these records, checked after each."""
    replica = Replica(definition)
    for offset, data in enumerate(records):
        replica.apply(decode(data), offset, 1_000 + offset)
        replica.check()
    return replica


@given(rows(), rows(), steps, st.sampled_from([DEFINITION, DIRECTED, REPLACED, CONFIRMED]))
def test_every_answer_is_the_oracles(one: list[Row], two: list[Row], taken: list[Step], of: Definition) -> None:
    """Whatever is appended, repeated or appended out of order, the replica says of each offset what the rules say."""
    records = [record({0: one, 1: two}, step, of) for step in taken]
    oracle, replica = Oracle(of.search, replaces=of.recrawls == "replace"), replay(records, of)
    for data in records:
        oracle.apply(data)
    for (source, offset), expected in oracle.answers.items():
        assert said(read_answer(replica, source, offset)) == expected
        assert replica.missing(source, offset, offset + 1) == []


@given(rows(), steps)
def test_no_two_documents_are_each_a_duplicate_of_the_other(one: list[Row], taken: list[Step]) -> None:
    """An original is never a duplicate of its own duplicate, as long as no doc_id comes twice or is deleted."""
    unique = [row._replace(doc_id=f"u{row.offset}", kind=RowKind.FULL) for row in one]
    replica = replay([record({0: unique, 1: unique}, step._replace(partition=0)) for step in taken])
    originals = {}
    for offset in range(40):
        if not replica.missing(SOURCE, offset, offset + 1):
            verdict = read_answer(replica, SOURCE, offset)
            assert isinstance(verdict, Verdict)
            if verdict.duplicate_of:
                originals[verdict.doc_id] = verdict.duplicate_of.original.doc_id
    assert not originals.keys() & set(originals.values())


def told(replica: Replica, offsets: Iterable[int], source: Source = SOURCE) -> list[Said]:
    """What a replica says of each offset, as the oracle says it."""
    return [said(answer) for answer in replica.answers(source, list(offsets), "documents", read_answers)]


def one_row(offset: int, **fields: object) -> bytes:
    row = Row(offset, RowKind.FULL, f"d{offset}", "https://example.org/", 5, 7, 7, 9)._replace(**fields)  # type: ignore[arg-type]
    return packed(DEFINITION, [row], (offset, offset + 1))


def test_a_topic_made_anew_has_other_offsets() -> None:
    """Coverage belongs to a topic's id, not to its name: the same offset of its successor is another document."""
    replica = replay([one_row(0)])
    assert replica.missing(Source(b"u" * 16, 0), 0, 1) == [(0, 1)]
    assert replica.missing(SOURCE, 0, 1) == []


def test_committed_verdicts_are_dropped_and_asking_again_names_the_remedy() -> None:
    """What is committed is not kept; a group moved back gets an error, not a verdict made up against a newer index."""
    replica = replay([one_row(0), one_row(1)])
    replica.committed(SOURCE, 1)
    with pytest.raises(RetryError, match="moved back"):
        read_answer(replica, SOURCE, 0)
    assert isinstance(read_answer(replica, SOURCE, 1), Verdict)
    with pytest.raises(KeyError):
        read_answer(replica, SOURCE, 2)


def test_a_record_tells_what_its_author_has_committed() -> None:
    """Every replica drops what the record's author knows as committed, and keeps the rest."""
    rows = [Row(offset, RowKind.SHORT, f"d{offset}", "https://example.org/", 5, 7, offset, 9) for offset in range(3)]
    of_author = record({0: rows}, Step(partition=0, first=2, length=1, committed=1, seed=0))
    replica = replay([one_row(0), one_row(1), of_author])
    with pytest.raises(RetryError):
        read_answer(replica, SOURCE, 0)
    assert isinstance(read_answer(replica, SOURCE, 1), Verdict)


def test_item_3_what_nobody_will_ask_for_is_not_kept() -> None:
    """Verdicts of a partition that fell silent, and of a topic that was recreated; what arrives later included."""
    replica = replay([one_row(0), one_row(1)])
    successor = b"u" * 16
    rows = [Row(offset, RowKind.SHORT, f"d{offset}", f"d{offset}", 5, 7, offset, 9) for offset in range(4)]
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


def test_warming_up_leaves_a_replica_as_it_is() -> None:
    """The rows that load the kernels are judged in a replica of their own."""
    replica = replay([])
    replica.warm_up()
    replica.check()
    assert (replica.next_offset, replica.documents, replica.coverage, replica.pending) == (0, 0, {}, {})
