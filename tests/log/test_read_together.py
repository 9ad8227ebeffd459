"""Records judged in one call have the answers that they have one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import one_in
from tests.log.test_acceptance import raising
from tests.log.test_base import snapshot
from tests.log.test_replica import (
    DEFINITION,
    DIRECTED,
    REPLACED,
    Step,
    log_of,
    one_row,
    rows,
    small_chunks,
    steps,
)
from worker.errors import StopError
from worker.log import replica as log_replica
from worker.log.record import FORMAT_VERSION, Row
from worker.log.replica import ApplyResult, Replica
from worker.log.rules import Definition, Ignored, Retention

FORGETFUL = replace(DEFINITION, retention=Retention(6, "last", 9))
STRAY = b"no record of a log"
Entries = list[tuple[int, int, bytes]]


@settings(max_examples=one_in(2))
@given(
    rows(),
    rows(),
    steps,
    st.sampled_from([DEFINITION, DIRECTED, REPLACED, FORGETFUL]),
    st.lists(st.sampled_from(["declared", "stray"]) | st.none(), min_size=25, max_size=25),
    st.sampled_from([2, 1 << 20]),
    st.sampled_from([12, 1 << 14]),
)
def test_records_read_together_are_read_one_after_the_other(
    one: list[Row],
    two: list[Row],
    taken: list[Step],
    of: Definition,
    between: list[str | None],
    left_min: int,
    together_max: int,
) -> None:
    """
    The same results, and the same replica to the byte: verdicts that wait, coverage, originals.

    The log has redeliveries, deletions, commits, and bytes that are no record. Rows that have left
    are left out after a few or after many, and few or many rows go together.
    """
    declared = of.declaration("w", FORMAT_VERSION)
    entries: Entries = [(0, 1, declared)]
    for (data, time_ms), other in zip(log_of(of, {0: one, 1: two}, taken), between, strict=False):
        if other:
            entries.append((len(entries), time_ms, declared if other == "declared" else STRAY))
        entries.append((len(entries), time_ms, data))
    with small_chunks() as patch:
        patch.setattr(log_replica, "LEFT_MIN", left_min)
        patch.setattr(log_replica, "TOGETHER_MAX", together_max)
        singly, together = Replica(of), Replica(of)
        each = [singly.read(value, offset, time_ms) for offset, time_ms, value in entries]
        results: list[ApplyResult] = []
        while len(results) < len(entries):
            results += together.read_together(entries[len(results) :])
            together.check()
        assert results == each
        assert together.next_offset == len(entries)
        assert together.last_digest == singly.last_digest
        assert snapshot(together) == snapshot(singly)


def test_records_that_fit_are_one_call() -> None:
    """So many rows, or so many records, are judged at once; a declaration does not end the call."""
    declared = DEFINITION.declaration("w", FORMAT_VERSION)
    values = [declared, *map(one_row, range(20)), declared, STRAY, one_row(20)]
    replica = Replica(DEFINITION)
    results = replica.read_together([(at, at, value) for at, value in enumerate(values)])
    assert [applied.judged for applied in results] == [0, *[1] * 20, 0, 0, 1]
    assert [applied.ignored for applied in results[-2:]] == [Ignored.FOREIGN, None]


def test_what_ends_a_log_is_said_when_all_before_it_is_applied() -> None:
    """A format that this version cannot read: by the next call, which has it first."""
    values = [
        DEFINITION.declaration("w", FORMAT_VERSION),
        one_row(0),
        raising(DEFINITION, "new", FORMAT_VERSION + 1),
        one_row(1),
    ]
    entries = [(at, at, value) for at, value in enumerate(values)]
    replica = Replica(DEFINITION)
    assert len(replica.read_together(entries)) == 2
    assert (replica.next_offset, replica.documents) == (2, 1)
    with pytest.raises(StopError, match="start the newer version"):
        replica.read_together(entries[2:])
    assert replica.next_offset == 2


def test_an_offset_that_has_been_applied_is_refused_before_anything_is() -> None:
    """Also behind records that are the log's next: none of them is applied."""
    replica = Replica(DEFINITION)
    replica.read(DEFINITION.declaration("w", FORMAT_VERSION), 5, 0)
    with pytest.raises(ValueError, match="next is 7, got 6"):
        replica.read_together([(6, 0, one_row(0)), (6, 0, one_row(1))])
    assert (replica.next_offset, replica.documents, replica.coverage) == (6, 0, {})
    assert [one.judged for one in replica.read_together([(6, 0, one_row(0)), (7, 0, STRAY)])] == [
        1,
        0,
    ]
