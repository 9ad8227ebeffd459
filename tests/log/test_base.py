"""A log that begins with the originals of a snapshot: who may follow it, and what it says."""

from __future__ import annotations

import struct
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import one_in
from tests.log.test_acceptance import answers
from tests.log.test_replica import DEFINITION, DIRECTED, Step, one_row, record, rows, steps
from tests.log.test_snapshot import LOG
from tests.oracle import Oracle, read_answer, said
from worker.errors import DefinitionError
from worker.log.record import FORMAT_VERSION, Row, record_digest
from worker.log.replica import Replica
from worker.log.rules import Base, Definition, Ignored, LogDefinition, Retention
from worker.log.snapshot import LogIdentity, adopt, capture, restore, with_base
from worker.shell.ports import LogEntry

FILES = LogIdentity("files", b"f" * 16)
FORGETFUL = replace(DEFINITION, retention=Retention(6, "last", 9))


def snapshot(replica: Replica, log: LogIdentity = FILES) -> bytes:
    return b"".join(capture(replica, log).parts())


def read(replica: Replica, records: list[bytes], author: str = "w") -> list[LogEntry]:
    """Have a replica read a log of these records behind its declaration; return the log."""
    declared = replica.definition.declaration(author, FORMAT_VERSION)
    entries = [
        LogEntry(offset, 3 + offset, data) for offset, data in enumerate([declared, *records])
    ]
    for entry in entries:
        replica.read(entry.value, entry.offset, entry.timestamp_ms)
        replica.check()
    return entries


def base_of(*records: bytes, definition: Definition = DEFINITION) -> bytes:
    """The snapshot of a log of these records, none of whose offsets is committed."""
    replica = Replica(definition)
    read(replica, list(records))
    return snapshot(replica)


@settings(max_examples=one_in(2))
@given(
    rows(),
    rows(),
    steps,
    steps,
    st.integers(0, 20),
    st.sampled_from([DEFINITION, DIRECTED, FORGETFUL]),
)
def test_a_group_goes_on_where_its_base_ends(
    one: list[Row], two: list[Row], before: list[Step], taken: list[Step], cut: int, of: Definition
) -> None:
    """
    What follows a base is judged against it as one log's rows are, and so by who restores a
    snapshot without it.
    """
    replica = Replica(of)
    base_log = read(replica, [record({0: two, 1: one}, step, of) for step in before])
    data = snapshot(replica)
    begun = adopt(data, of)
    assert (begun.next_offset, begun.documents, begun.coverage, begun.pending) == (
        0,
        replica.documents,
        {},
        {},
    )
    records = [record({0: one, 1: two}, step, begun.definition) for step in taken]
    log = read(begun, records)
    oracle = Oracle.of(begun.definition, base_log)
    oracle.answers = {}  # the base's offsets are not the topic's
    for entry in log:
        oracle.apply(entry.value, entry.timestamp_ms)
    for (source, offset), expected in oracle.answers.items():
        assert said(read_answer(begun, source, offset)) == expected
    half = adopt(data, of)
    for entry in log[:cut]:
        half.read(entry.value, entry.offset, entry.timestamp_ms)
    restored = restore(snapshot(half, LOG), of, LOG)
    for entry in log[cut:]:
        restored.read(entry.value, entry.offset, entry.timestamp_ms)
    assert restored.definition == begun.definition
    assert answers(restored) == answers(begun)
    assert snapshot(restored) == snapshot(begun)


def test_the_first_record_names_the_base_and_a_log_without_one_stays_as_it_was() -> None:
    """
    Digest and number of originals, for people and in the hash; without a base not a byte is another
    one.
    """
    data = base_of(one_row(0), one_row(1, fingerprint=2**40 - 1))
    begun = with_base(DEFINITION, data)
    assert begun.base == Base(f"{struct.unpack_from('<Q', data, 24)[0]:016x}", 2)
    declared = orjson.loads(begun.declaration("w", FORMAT_VERSION))
    plain = orjson.loads(DEFINITION.declaration("w", FORMAT_VERSION))
    assert declared["rules"] == {**plain["rules"], "base_snapshot": begun.base._asdict()}
    assert declared["hash"] != plain["hash"] == "a450a26320794e1d"
    assert LogDefinition.decode(begun.declaration("w", 3)).base == begun.base


def replace_author(data: bytes, replica: Replica) -> bytes:
    """The record as a worker of this replica's definition writes it."""
    return data[:12] + struct.pack("<Q", replica.definition.hash) + data[20:]


ONE, OTHER = base_of(one_row(0)), base_of(one_row(0, doc_id="other"))


@pytest.mark.parametrize(
    ("own", "logs", "said_of_it"),
    [
        (
            None,
            ONE,
            r"base_snapshot is \{'digest': '[0-9a-f]{16}', 'documents': 1\} there, None here. Name the snap",
        ),
        (
            OTHER,
            ONE,
            r"is \{'digest'.* there, \{'digest'.* here. Name the snapshot with this digest as base_snapshot",
        ),
        (
            ONE,
            None,
            r"is None there, \{'digest'.* here. The log began without it: leave base_snapshot out, or",
        ),
    ],
)
def test_whoever_has_not_the_base_of_the_log_stops(
    own: bytes | None, logs: bytes | None, said_of_it: str
) -> None:
    """
    Without it (as every version that knows no bases), with another one, or with one on a log that
    has none.
    """
    mine, theirs = (
        DEFINITION if data is None else with_base(DEFINITION, data) for data in (own, logs)
    )
    first = theirs.declaration("first", FORMAT_VERSION)
    replica = Replica(mine) if own is None else adopt(own, DEFINITION)
    with pytest.raises(DefinitionError, match=f"record 0, written by 'first'.*{said_of_it}"):
        replica.read(first, 0, 0)
    follower = Replica(theirs) if logs is None else adopt(logs, DEFINITION)
    follower.read(first, 0, 0)
    before = snapshot(follower)
    for late in (mine.declaration("late", FORMAT_VERSION), replace_author(one_row(0), replica)):
        assert follower.read(late, follower.next_offset, 0).ignored is Ignored.DEFINITION
    follower.next_offset, follower.last_digest = 1, record_digest(first)
    assert snapshot(follower) == before
    with pytest.raises(DefinitionError, match="base_snapshot"):
        restore(before, replace(mine, base=mine.base or Base("0" * 16, 1)), FILES)
