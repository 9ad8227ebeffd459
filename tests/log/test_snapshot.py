"""Snapshots: what comes back is what went in, and what is not whole is refused."""

from __future__ import annotations

import ast
import random
import struct

import pytest
import xxhash

from tests.log.test_replica import DEFINITION, SOURCE, TOPIC, one_row, packed, replay, told
from worker.core.search import SearchRules
from worker.errors import RestoreError, StopError
from worker.log import originals, snapshot
from worker.log.record import Row, RowKind, Source, decode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import FORMAT_VERSION, LogIdentity, capture, restore

LOG = LogIdentity("cluster", b"l" * 16)


def to_bytes(replica: Replica) -> bytes:
    taken = capture(replica, LOG)
    data = b"".join(taken.parts())
    assert len(data) == taken.nbytes
    return data


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
    data = to_bytes(replay([one_row(0), one_row(1, fingerprint=2**40 - 1)]))
    restored = restore(data, DEFINITION, LOG)
    assert told(restored, (0, 1)) and to_bytes(restored) == data


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


@pytest.mark.parametrize(("more", "error", "says"), [(1, StopError, "worker reads up to"), (-1, RestoreError, "reads")])
def test_of_a_newer_format_it_stops_the_worker_and_an_older_one_is_passed_over(
    more: int, error: type[Exception], says: str
) -> None:
    """A whole snapshot of another format is no damage; of an older one the log has everything. Both are named."""
    data = bytearray(to_bytes(Replica(DEFINITION)))
    struct.pack_into("<I", data, 8, FORMAT_VERSION + more)
    struct.pack_into("<Q", data, 24, xxhash.xxh3_64_intdigest(data[:24] + data[32:]))
    with pytest.raises(error, match=f"format {FORMAT_VERSION + more}, .*{says} {FORMAT_VERSION}"):
        restore(bytes(data), DEFINITION, LOG)


@pytest.mark.parametrize(
    ("definition", "log", "named"),
    [
        (DEFINITION, LOG._replace(cluster_id="other"), "cluster other"),
        (DEFINITION, LOG._replace(topic_id=b"m" * 16), (b"m" * 16).hex()),
        (Definition("nd1", "0" * 16, SearchRules("exact", 6)), LOG, "max_distance is 3 there, 6 here$"),
        (Definition("nd1", "f" * 16, SearchRules("exact", 3)), LOG, "f" * 16),
    ],
)
def test_of_another_log_or_definition_it_stops_the_worker(definition: Definition, log: LogIdentity, named: str) -> None:
    """Another cluster, topic or definition is refused with both sides named."""
    with pytest.raises(StopError, match=named):
        restore(to_bytes(replay([one_row(0)])), definition, log)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks, as of millions of rows."""
    monkeypatch.setattr(originals, "ROWS_BITS", 8)
    monkeypatch.setattr(originals, "BYTES_BITS", 11)


@pytest.mark.usefixtures("small_chunks")
def test_more_rows_than_a_chunk_come_back() -> None:
    """Columns of several chunks, the last one partly filled, survive and grow on without touching the bytes."""
    digests = random.Random(1)
    fields = [
        Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n}", n, 0, digests.getrandbits(64), 1)
        for n in range(1_100)
    ]
    replica = replay([packed(DEFINITION, fields[first : first + 200]) for first in range(0, 1_100, 200)])
    stored = to_bytes(replica)
    restored = restore(stored, DEFINITION, LOG)
    for row in (0, 1, 255, 256, 1_099):
        assert restored.judge.held.get(row) == replica.judge.held.get(row)
    for each in (restored, replica):
        each.apply(decode(one_row(1_100, doc_id="later", fingerprint=1)), 6, 0)
        each.check()
    assert to_bytes(restored) == to_bytes(replica)
    assert to_bytes(restore(stored, DEFINITION, LOG)) == stored


@pytest.mark.usefixtures("small_chunks")
def test_a_start_leaves_out_what_has_been_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of 6,000 documents are deleted: the restored replica is small, and says and will say the same."""
    monkeypatch.setattr(snapshot, "_LEFT_MIN", 1_000)
    count, step = 6_000, 500
    rows = [Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n}", n, 0, n, 1) for n in range(count)]
    rows += [Row(count + n, RowKind.DELETED, f"doc-{n}", "", 0) for n in range(count) if n % 50]
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    copies = [Row(len(rows) + n, RowKind.SHORT, f"copy-{n}", f"copy-{n}", n, 0, n * 50, 1) for n in range(100)]
    gone = [Row(len(rows) + 100 + n, RowKind.DELETED, f"doc-{n * 50}", "", 0) for n in range(50)]
    whole = Replica(DEFINITION)
    for number, first in enumerate(range(0, len(rows), step)):
        whole.apply(decode(record_of(rows[first : first + step], first)), number, 0)
    kept = [row._replace(offset=n) for n, row in enumerate(copies + gone)]
    whole.apply(decode(packed(DEFINITION, kept, source=Source(TOPIC, 1))), 100, 0)
    small = restore(to_bytes(whole), DEFINITION, LOG)
    small.check()
    assert len(small.judge.held) == 120 and small.documents == whole.documents == 70
    assert len(small.judge.held.texts.data._chunks) < len(whole.judge.held.texts.data._chunks) / 2
    later = [Row(len(rows) + n, RowKind.SHORT, f"later-{n}", f"later-{n}", n, 0, n * 50, 1) for n in range(100)]
    for each in (small, whole):
        each.apply(decode(record_of(later, len(rows))), 101, 0)
    for source, offsets in ((Source(TOPIC, 1), range(150)), (SOURCE, range(len(rows), len(rows) + 100))):
        assert told(small, offsets, source) == told(whole, offsets, source)
    assert to_bytes(restore(to_bytes(small), DEFINITION, LOG)) == to_bytes(small)


def record_of(chosen: list[Row], first: int) -> bytes:
    return packed(DEFINITION, chosen, (first, first + len(chosen)), committed=first)
