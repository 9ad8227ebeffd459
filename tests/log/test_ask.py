"""What a replica says of a row before the log brings it is what it says of it then."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import one_in
from tests.log import test_replica as logs
from tests.log.test_snapshot import LOG, to_bytes
from tests.oracle import read_answer, read_answers
from worker.core.document import Verdict
from worker.core.search import SearchRules
from worker.errors import DocumentError
from worker.log.originals import OriginalStore
from worker.log.record import Row, RowKind, Rows, decode
from worker.log.replica import Replica
from worker.log.rules import Retention
from worker.log.snapshot import restore

OF_THE_LOG: dict[str, Any] = {
    "source_topic": "",
    "source_partition": 0,
    "source_offset": 0,
    "decided_at_ms": 0,
}
Foreseen = Verdict | DocumentError


def plain(answer: Foreseen) -> Foreseen:
    """Return an answer without what only a row of the log has."""
    return answer if isinstance(answer, DocumentError) else answer._replace(**OF_THE_LOG)


def ask(replica: Replica, *rows: Row) -> list[Foreseen]:
    return [plain(answer) for answer in replica.ask(Rows.of(rows), read_answers)]


def feed(replica: Replica, row: Row, log_offset: int, now_ms: int) -> Foreseen:
    """Apply a record of this row alone, at a source offset of its own; return its answer."""
    row = row._replace(offset=log_offset)
    replica.apply(decode(logs.packed(replica.definition, [row])), log_offset, now_ms)
    return plain(read_answer(replica, logs.SOURCE, log_offset))


@settings(max_examples=one_in(2))
@given(
    logs.rows(),
    logs.rows(),
    st.lists(st.integers(-2, 6), min_size=80, max_size=80),
    st.just(Retention()) | logs.retentions,
    logs.searches | st.just(logs.CONFIRMED),
    logs.recrawled,
    st.booleans(),
)
def test_the_answer_is_the_verdict_of_the_row_that_comes_next(
    one: list[Row],
    two: list[Row],
    passed_ms: list[int],
    retention: Retention,
    search: SearchRules,
    recrawls: Literal["compare", "replace"],
    collide: bool,
) -> None:
    """
    Of every kind of row, under all rules, alone and among others; with retention by number also
    the horizon. A replica that is asked of everything all the time stays byte for byte what one is
    that nobody asks, so that the same question has the same answer. In the middle of the log it is
    restored from its snapshot, so that replicas at one offset answer alike.

    The levels above show only what they add: `tests/shell/test_ask.py` how a document becomes a
    row, `test_ask_many.py` what it is called, `tests/faults/test_ask.py` a group.
    """
    of = logs.definition(retention, search, recrawls)
    with logs.small_chunks() as patch:
        if collide:  # doc_ids and URLs that a table cannot tell apart
            patch.setattr(OriginalStore, "hashes", lambda _, texts: texts.hashes(7) % np.uint64(5))
        asked = Replica(of)
        unasked = Replica(of)
        now_ms = 1_000
        for log_offset, (row, later_ms) in enumerate(zip(one + two, passed_ms, strict=True)):
            now_ms += max(later_ms, 0)
            if log_offset == len(one):
                asked = restore(to_bytes(asked), of, LOG)
            foreseen = ask(asked, row)[0]
            if log_offset % 8 == 0:
                assert ask(asked, *one, row, *two)[len(one)] == foreseen
                asked.check()
            verdict = feed(asked, row, log_offset, now_ms)
            assert verdict == feed(unasked, row, log_offset, now_ms)
            if not retention.expire_after_ms or later_ms <= 0:  # no time has passed
                assert foreseen == verdict
        assert to_bytes(asked) == to_bytes(unasked)


def test_a_new_version_is_not_hidden_by_the_one_that_it_replaces() -> None:
    """
    A row is searched among the originals without those that it would replace: behind its former
    version, the best match, the next best is found; and afterwards the former version is back.
    """
    replica = Replica(logs.definition(Retention(), logs.EXACT, "replace"))
    former = Row(0, RowKind.FULL, "page", "https://example.org/2", 0, 0, 1, 9)
    other = former._replace(doc_id="other", url="https://example.org/1", fingerprint=0b11111)
    feed(replica, former, 0, 0)
    feed(replica, other, 1, 0)
    version = former._replace(doc_id="page-2", fingerprint=0b11, digest=3)
    answer = ask(replica, version)[0]
    assert isinstance(answer, Verdict)
    assert answer.duplicate_of is not None
    assert answer.duplicate_of.original.doc_id == "other"
    assert answer.former_version is not None
    assert answer.former_version.original.doc_id == "page"
    again = ask(replica, former._replace(doc_id="page-3", url="https://example.org/3"))[0]
    assert isinstance(again, Verdict)
    assert again.duplicate_of is not None
    assert again.duplicate_of.original.doc_id == "page"
    assert answer == feed(replica, version, 2, 0)


def test_the_latest_original_of_a_url() -> None:
    """It is the one whose document came last, with its content; none when that has left."""
    replica = Replica(logs.DIRECTED)
    first = Row(0, RowKind.FULL, "a", "https://example.org/", 5, 7, 70, 9, "", 1, logs.FACTS[0])
    second = first._replace(doc_id="b", fetched_at_ms=6, fingerprint=2**64 - 1, digest=71)
    for log_offset, row in enumerate((first, second)):
        feed(replica, row, log_offset, 0)
    latest = replica.latest_of("https://example.org/")
    assert latest is not None
    assert latest.original == ("b", "https://example.org/", 6)
    assert (latest.digest, latest.fingerprint, latest.copies) == (71, 2**64 - 1, 0)
    feed(replica, second._replace(doc_id="copy", url="https://example.org/copy"), 2, 0)
    counted = replica.latest_of("https://example.org/")
    assert counted is not None and counted.copies == 1
    assert replica.latest_of("https://example.org/none") is None
    feed(replica, Row(0, RowKind.DELETED, "b", "", 0), 3, 0)
    assert replica.latest_of("https://example.org/") is None
