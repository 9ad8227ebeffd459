"""
How many copies an original has had: what counts, and what ends a count.

That the counts of any history are right, with retention, restarts and new versions, is shown where
the replica is held against the oracle (`test_replica.py`, `test_retention.py`, `test_ask.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.log import test_replica as logs
from tests.log.histories import applied, in_records
from tests.log.test_ask import ask, feed
from tests.log.test_snapshot import LOG, to_bytes
from worker.core.document import Verdict
from worker.log.copies import COPIES_MAX
from worker.log.record import Row, RowKind, decode
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.snapshot import restore

ORIGINAL = Row(0, RowKind.FULL, "page", "https://example.org/1", 0, 7, 1, 9)
COPY = ORIGINAL._replace(doc_id="copy", url="https://mirror.example/1")
SHORT = Row(0, RowKind.SHORT, "short", "https://example.org/s", 0, 0, 5, 2)
GONE = Row(0, RowKind.DELETED, "page", "", 0)
HISTORIES: dict[str, tuple[list[Row], list[int | None]]] = {
    "each copy counts": ([ORIGINAL, COPY, COPY._replace(doc_id="b")], [None, 1, 2]),
    "a duplicate that is delivered again counts again": ([ORIGINAL, COPY, COPY], [None, 1, 2]),
    "an original that is delivered again does not": (
        [ORIGINAL, COPY, ORIGINAL, COPY._replace(doc_id="b")],
        [None, 1, None, 2],
    ),
    "a re-crawl of the original under another doc_id counts": (
        [ORIGINAL, ORIGINAL._replace(doc_id="page-2"), COPY],
        [None, 1, 2],
    ),
    "short texts count": ([SHORT, SHORT._replace(doc_id="a"), SHORT._replace(doc_id="b")], [None, 1, 2]),
    "each original has its own count": (
        [ORIGINAL, SHORT, COPY, SHORT._replace(doc_id="a"), COPY._replace(doc_id="b")],
        [None, None, 1, 1, 2],
    ),
    "the count ends with the original": (
        [ORIGINAL, COPY, GONE, COPY, COPY._replace(doc_id="b")],
        [None, 1, None, None, 1],
    ),
    "a new version of the original has no copies yet": (
        [ORIGINAL, COPY, ORIGINAL._replace(fingerprint=2**64 - 1, digest=2),
         COPY._replace(doc_id="b", fingerprint=2**64 - 1, digest=2)],
        [None, 1, None, 1],
    ),
}  # fmt: skip


def copies_of(answer: object) -> int | None:
    """Return what an answer says; None if it is of no duplicate."""
    assert isinstance(answer, Verdict)
    return answer.duplicate_of.copies if answer.duplicate_of else None


@pytest.mark.parametrize("rows_a_record", [1, 2, 9])
@pytest.mark.parametrize("case", HISTORIES)
def test_what_counts(case: str, rows_a_record: int) -> None:
    """The counts are those of the rows in their order, however records are cut."""
    rows, expected = HISTORIES[case]
    replica = applied(logs.DEFINITION, *in_records(rows, rows_a_record))
    assert [told[-1] for told in logs.told(replica, range(len(rows)))] == expected


def test_a_row_that_the_log_has_already_does_not_count() -> None:
    """Another worker has appended the same source offset a second time."""
    replica = Replica(logs.DEFINITION)
    rows = [row._replace(offset=at) for at, row in enumerate([ORIGINAL, COPY])]
    for log_offset in range(2):
        replica.apply(decode(logs.packed(logs.DEFINITION, rows)), log_offset, 0)
    assert copies_of(feed(replica, COPY, 2, 0)) == 2


@pytest.mark.parametrize("is_restored", [False, True])
def test_an_original_that_is_kept_for_longer_keeps_its_count(is_restored: bool) -> None:
    """It gets another row each time that retention moves it, and snapshots have the count."""
    of: Definition = replace(logs.DEFINITION, retention=Retention(16, "last", 0))
    replica = Replica(of)
    feed(replica, ORIGINAL, 0, 0)
    for number in range(1, 100):
        assert copies_of(feed(replica, COPY, number, 2 * number)) == number
        if is_restored and number % 10 == 0:
            replica = restore(to_bytes(replica), of, LOG)
    assert copies_of(feed(replica, COPY, 100, 1_000)) is None, "it has expired"
    assert copies_of(feed(replica, ORIGINAL, 101, 1_000)) == 1, "of the copy, which has its place"


def test_a_count_stops_at_the_largest_number() -> None:
    """It never begins again at 0, within a record or between two, nor in a question."""
    replica = Replica(logs.DEFINITION)
    feed(replica, ORIGINAL, 0, 0)
    replica.judge.held.copies.put(np.array([0]), COPIES_MAX - 2)
    rows = [COPY._replace(offset=1 + at) for at in range(4)]
    replica.apply(decode(logs.packed(logs.DEFINITION, rows)), 1, 0)
    counted = [told[-1] for told in logs.told(replica, range(1, 5))]
    assert counted == [COPIES_MAX - 1, *[COPIES_MAX] * 3]
    assert copies_of(ask(replica, COPY)[0]) == COPIES_MAX
    assert copies_of(feed(replica, COPY, 5, 0)) == COPIES_MAX
