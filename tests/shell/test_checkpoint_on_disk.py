"""Originals on disk: once a snapshot is written, a large replica reads from it what it held in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.test_replica import DEFINITION, TOPIC, one_row
from tests.log.test_snapshot import LOG, record_of, to_bytes
from worker.log.record import Row, RowKind, Source, decode
from worker.log.replica import Replica
from worker.shell.storage import checkpoint as module
from worker.shell.storage.checkpoint import Checkpoint

ROWS = 150_000
STEP = 10_000


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    """A log of 150,000 short documents, each unlike the others, with long URLs."""
    fields = [
        Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n:060}", n, 0, n * 0x9E37_79B9 % 2**64, 1)
        for n in range(ROWS)
    ]
    return [record_of(fields[first : first + STEP], first) for first in range(0, ROWS, STEP)]


def applied(records: list[bytes]) -> Replica:
    """A replica of this log."""
    replica = Replica(DEFINITION)
    for offset, data in enumerate(records):
        replica.apply(decode(data), offset, 0)
    return replica


def ticked(folder: Path, replica: Replica, on_disk_from: int = ROWS) -> Checkpoint:
    """Write a snapshot as a worker does, and let the replica know of it."""
    ticking = Checkpoint(folder, DEFINITION, LOG, "one", 1e-9, on_disk_from=on_disk_from)
    ticking.tick(replica)
    assert ticking.join()
    ticking.tick(replica)
    return ticking


def test_a_large_replica_frees_what_the_snapshot_holds(tmp_path: Path, records: list[bytes]) -> None:
    """Most of the texts' memory is free, every original reads the same, and so does the next snapshot."""
    replica, whole = applied(records), applied(records)
    before = replica.judge.held.originals.nbytes
    ticked(tmp_path, replica)
    assert replica.judge.held.originals.nbytes < before / 3
    for each in (replica, whole):
        for offset in range(len(records), len(records) + 5):
            each.apply(decode(one_row(ROWS + offset, doc_id=f"doc-{offset}", fingerprint=1 << offset)), offset, 0)
        each.check()
        held = each.judge.held
        held.live.put(held.live_between(0, len(held))[:3], 1)
    assert to_bytes(replica) == to_bytes(whole)
    for row in (0, 65_535, 65_536, 131_071, 131_072, ROWS - 1):
        assert replica.judge.held.originals.get(row) == whole.judge.held.originals.get(row)


def test_a_replica_below_the_threshold_stays_in_memory(tmp_path: Path, records: list[bytes]) -> None:
    """One original more would have made it large."""
    replica = applied(records)
    before = replica.judge.held.originals.nbytes
    ticked(tmp_path, replica, ROWS + 1)
    assert replica.judge.held.originals.nbytes == before


def test_the_file_may_be_dropped_while_it_is_mapped(tmp_path: Path, records: list[bytes]) -> None:
    """Later snapshots replace it in the folder; what it held is still read."""
    replica = applied(records)
    before = replica.judge.held.originals.nbytes
    ticked(tmp_path, replica)
    for path in tmp_path.glob("snapshot-*"):
        path.unlink()
    assert replica.judge.held.originals.get(7).doc_id == "doc-7"
    restored = ticked(tmp_path, replica).restore()
    assert to_bytes(restored) == to_bytes(replica)
    assert restored.judge.held.originals.nbytes < before / 3


def test_what_reads_back_damaged_is_not_mapped(
    tmp_path: Path, records: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica keeps its memory, and says what it said."""
    replica, mapped = applied(records), module.map_file

    def damaged(path: Path) -> bytes | memoryview:
        data = bytearray(mapped(path))
        data[len(data) // 2] ^= 1
        return bytes(data)

    monkeypatch.setattr(module, "map_file", damaged)
    before = replica.judge.held.originals.nbytes
    ticked(tmp_path, replica)
    assert replica.judge.held.originals.nbytes == before
    row = Row(ROWS, RowKind.SHORT, "copy", "https://example.org/", 0, 0, 7 * 0x9E37_79B9 % 2**64, 1)
    replica.apply(decode(record_of([row], ROWS)), len(records), 0)
    verdict = replica.answer(Source(TOPIC, 0), ROWS, "documents")
    assert "doc-7" in repr(verdict)
