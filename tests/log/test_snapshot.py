"""Snapshots: what comes back is what went in, and what is not whole is refused."""

from __future__ import annotations

import ast
import random
import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tests.log.test_replica import DEFINITION, TOPIC, Step, one_row, record, replay, rows, steps
from tests.oracle import read_answers
from worker.core.search import SearchRules
from worker.errors import RestoreError, RetryError, StopError
from worker.log import originals, snapshot
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import FORMAT_VERSION, LogIdentity, capture, restore

LOG = LogIdentity("cluster", b"l" * 16)


def to_bytes(replica: Replica) -> bytes:
    """The snapshot of a replica, as one piece."""
    taken = capture(replica, LOG)
    data = b"".join(taken.parts())
    assert len(data) == taken.nbytes
    return data


def answers(replica: Replica) -> list[object]:
    """Everything that a replica says of the first forty offsets of two partitions."""
    said: list[object] = [replica.documents, replica.next_offset]
    for partition in (0, 1):
        for offset in range(40):
            try:
                said.append(replica.answer(Source(TOPIC, partition), offset, "documents", read_answers))
            except (KeyError, RetryError) as error:
                said.append(repr(error))
            said.append(replica.missing(Source(TOPIC, partition), offset, offset + 3))
    return said


@given(rows(), rows(), steps, st.integers(0, 40), st.integers(0, 30))
def test_a_restored_replica_answers_like_the_original_and_goes_on_equal(
    one: list[Row], two: list[Row], taken: list[Step], cut: int, committed: int
) -> None:
    """At any point of any log, with any part committed: same answers now, same answers and bytes after the rest."""
    records = [record({0: one, 1: two}, step) for step in taken]
    original = replay(records[:cut])
    original.committed(Source(TOPIC, 0), committed)
    restored = restore(to_bytes(original), DEFINITION, LOG)
    restored.check()
    assert answers(restored) == answers(original)
    assert to_bytes(restored) == to_bytes(original)
    for offset, data in enumerate(records[cut:], start=cut):
        assert restored.apply(decode(data), offset, 5) == original.apply(decode(data), offset, 5)
    restored.check()
    assert answers(restored) == answers(original)
    assert to_bytes(restored) == to_bytes(original)


def test_a_snapshot_stays_what_it_was_while_its_replica_goes_on() -> None:
    """Taken at one offset and written after others were applied, it holds the first."""
    replica = replay([one_row(0), one_row(1, fingerprint=2**40 - 1)])
    before = to_bytes(replica)
    taken = capture(replica, LOG)
    for offset in range(2, 200):
        replica.apply(decode(one_row(offset, fingerprint=random.Random(offset).getrandbits(64))), offset, 0)
    replica.committed(Source(TOPIC, 0), 100)
    assert b"".join(taken.parts()) == before


def test_no_type_is_parsed_while_threads_write_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy parses types like "(8,)<u8" as Python; CPython 3.11 fails when two threads do that at once (gh-106905)."""

    def parse(*_args: object, **_settings: object) -> None:
        raise AssertionError("a snapshot's thread may parse at the same time")

    monkeypatch.setattr(ast, "parse", parse)
    original = replay([one_row(0), one_row(1, fingerprint=2**40 - 1)])
    assert answers(restore(to_bytes(original), DEFINITION, LOG)) == answers(original)


def test_cut_anywhere_or_with_any_byte_changed_it_is_refused() -> None:
    """Every length below the whole, every single byte: a RestoreError that says so, never a replica, never a crash."""
    data = to_bytes(replay([one_row(0), one_row(1, doc_id="other", url="https://example.org/x")]))
    for length in range(len(data)):
        with pytest.raises(RestoreError, match="cut"):
            restore(data[:length], DEFINITION, LOG)
    with pytest.raises(RestoreError, match="cut or damaged"):
        restore(data + b"\0", DEFINITION, LOG)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(RestoreError, match=r"damaged|not a snapshot"):
            restore(bytes(damaged), DEFINITION, LOG)


def test_of_a_newer_format_it_stops_the_worker() -> None:
    """A whole snapshot of a newer format is no damage: the text names both formats."""
    data = bytearray(to_bytes(Replica(DEFINITION)))
    struct.pack_into("<I", data, 8, FORMAT_VERSION + 1)
    struct.pack_into("<Q", data, 24, xxhash.xxh3_64_intdigest(data[:24] + data[32:]))
    with pytest.raises(StopError, match=f"format {FORMAT_VERSION + 1}, this worker reads up to {FORMAT_VERSION}"):
        restore(bytes(data), DEFINITION, LOG)


def test_of_an_older_format_it_is_passed_over() -> None:
    """The log has everything: a worker of a newer version falls back to it, and says why."""
    data = bytearray(to_bytes(Replica(DEFINITION)))
    struct.pack_into("<I", data, 8, FORMAT_VERSION - 1)
    struct.pack_into("<Q", data, 24, xxhash.xxh3_64_intdigest(data[:24] + data[32:]))
    with pytest.raises(RestoreError, match=f"format {FORMAT_VERSION - 1}, this worker reads {FORMAT_VERSION}"):
        restore(bytes(data), DEFINITION, LOG)


@pytest.mark.parametrize(
    ("definition", "log", "named"),
    [
        (DEFINITION, LOG._replace(cluster_id="other"), "cluster other"),
        (DEFINITION, LOG._replace(topic_id=b"m" * 16), (b"m" * 16).hex()),
        (
            Definition("nd1", "0" * 16, SearchRules("exact", 6)),
            LOG,
            "max_distance is 3 there, 6 here$",
        ),
        (Definition("nd1", "f" * 16, SearchRules("exact", 3)), LOG, "f" * 16),
    ],
)
def test_of_another_log_or_definition_it_stops_the_worker(definition: Definition, log: LogIdentity, named: str) -> None:
    """Another cluster, topic or definition is refused with both sides named."""
    with pytest.raises(StopError, match=named):
        restore(to_bytes(replay([one_row(0)])), definition, log)


def test_more_rows_than_a_chunk_come_back() -> None:
    """Columns of several chunks, the last one partly filled, survive and grow on without touching the bytes."""
    generator = random.Random(1)
    fields = [
        Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n}", n, 0, generator.getrandbits(64), 1)
        for n in range(70_000)
    ]
    replica = Replica(DEFINITION)
    for first in range(0, 70_000, 10_000):
        data = record_of(fields[first : first + 10_000], first)
        replica.apply(decode(data), first, 0)
    stored = to_bytes(replica)
    restored = restore(stored, DEFINITION, LOG)
    for row in (0, 1, 65_535, 65_536, 69_999):
        assert restored.judge.held.get(row) == replica.judge.held.get(row)
    later = one_row(70_000, doc_id="later", fingerprint=1)
    for each in (restored, replica):
        each.apply(decode(later), 70_000, 0)
        each.check()
    assert to_bytes(restored) == to_bytes(replica)
    assert to_bytes(restore(stored, DEFINITION, LOG)) == stored


def test_a_start_leaves_out_what_has_been_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of 6,000 documents are deleted: the restored replica is small, and says and will say the same."""
    monkeypatch.setattr(snapshot, "_LEFT_MIN", 1_000)
    monkeypatch.setattr(originals, "ROWS_BITS", 8)  # many chunks, as of millions
    monkeypatch.setattr(originals, "BYTES_BITS", 11)
    count, step = 6_000, 500
    rows = [Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n}", n, 0, n, 1) for n in range(count)]
    rows += [Row(count + n, RowKind.DELETED, f"doc-{n}", "", 0) for n in range(count) if n % 50]
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    copies = [Row(len(rows) + n, RowKind.SHORT, f"copy-{n}", f"copy-{n}", n, 0, n * 50, 1) for n in range(100)]
    gone = [Row(len(rows) + 100 + n, RowKind.DELETED, f"doc-{n * 50}", "", 0) for n in range(50)]
    whole = Replica(DEFINITION)
    for number, first in enumerate(range(0, len(rows), step)):
        whole.apply(decode(record_of(rows[first : first + step], first)), number, 0)
    kept = Section(
        Source(TOPIC, 1), 0, 150, -1, Rows.of([row._replace(offset=n) for n, row in enumerate(copies + gone)])
    )
    whole.apply(decode(next(encode(DEFINITION.author("w"), [kept], 1 << 24))), 100, 0)
    small = restore(to_bytes(whole), DEFINITION, LOG)
    small.check()
    assert len(small.judge.held) == 120 and small.documents == whole.documents == 70
    assert small.judge.held.texts.data.nbytes < whole.judge.held.texts.data.nbytes / 2
    later = [Row(len(rows) + n, RowKind.SHORT, f"later-{n}", f"later-{n}", n, 0, n * 50, 1) for n in range(100)]
    for each in (small, whole):
        each.apply(decode(record_of(later, len(rows))), 101, 0)
    for source, offsets in ((Source(TOPIC, 1), range(150)), (Source(TOPIC, 0), range(len(rows), len(rows) + 100))):
        told = small.answers(source, offsets, "documents", read_answers)
        assert told == whole.answers(source, offsets, "documents", read_answers)
    assert to_bytes(restore(to_bytes(small), DEFINITION, LOG)) == to_bytes(small)


def record_of(chosen: list[Row], first: int) -> bytes:
    section = Section(Source(TOPIC, 0), first, first + len(chosen), first, Rows.of(chosen))
    return next(encode(DEFINITION.author("w"), [section], 1 << 24))
