"""Snapshots: what comes back is what went in, and what is not whole is refused."""

from __future__ import annotations

import ast
import struct

import numpy as np
import pytest
import xxhash

from tests.log.test_replica import DEFINITION, SOURCE, one_row, packed, replay, small_chunks, told
from worker.errors import RestoreError, StopError
from worker.log import snapshot
from worker.log.record import Row, RowKind, decode
from worker.log.replica import Replica
from worker.log.snapshot import FORMAT_VERSION, LogIdentity, capture, restore

LOG = LogIdentity("cluster", b"l" * 16)


def to_bytes(replica: Replica) -> bytes:
    taken = capture(replica, LOG)
    data = b"".join(taken.parts())
    assert len(data) == taken.nbytes
    return data


def test_no_type_is_parsed_while_threads_write_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    numpy parses types like "(8,)<u8" as Python; CPython 3.11 fails when two threads do that at once
    (gh-106905).
    """

    def parse(*_args: object, **_settings: object) -> None:
        raise AssertionError("a snapshot's thread may parse at the same time")

    replay([one_row(0)])  # the first call of a kernel in a process may parse something, too
    monkeypatch.setattr(ast, "parse", parse)
    data = to_bytes(replay([one_row(0), one_row(1, fingerprint=2**40 - 1)]))
    restored = restore(data, DEFINITION, LOG)
    assert told(restored, (0, 1)) and to_bytes(restored) == data


def test_cut_anywhere_or_with_any_byte_changed_it_is_refused() -> None:
    """
    Every length below the whole, every single byte: a RestoreError that says so, never a replica,
    never a crash.
    """
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


def test_of_a_replica_that_failed_in_the_midst_of_a_record_it_is_refused() -> None:
    """Its rows were begun and not completed: every later original would have the row of another."""
    replica = replay([one_row(0)])
    replica.judge.held.begin_rows(np.zeros((1, 8), np.uint64), np.zeros(1, np.uint64))
    with pytest.raises(RestoreError, match=r"length: originals\.kinds has 1 entries, 2 "):
        restore(to_bytes(replica), DEFINITION, LOG)


@pytest.mark.parametrize(
    ("more", "error", "says"),
    [(1, StopError, "a newer one"), (-1, RestoreError, "an older one")],
)
def test_of_a_newer_format_it_stops_the_worker_and_an_older_one_is_passed_over(
    more: int, error: type[Exception], says: str
) -> None:
    """
    A whole snapshot of another format is no damage; of an older one the log has everything. Both
    are named.
    """
    data = bytearray(to_bytes(Replica(DEFINITION)))
    struct.pack_into("<I", data, 8, FORMAT_VERSION + more)
    struct.pack_into("<Q", data, 24, xxhash.xxh3_64_intdigest(data[:24] + data[32:]))
    with pytest.raises(error, match=f"format {FORMAT_VERSION + more}, .* {FORMAT_VERSION}: {says}"):
        restore(bytes(data), DEFINITION, LOG)


def test_a_start_leaves_out_what_has_been_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Most of 6,000 documents are deleted: the restored replica is small; `test_retention` shows what
    it says.
    """
    monkeypatch.setattr(snapshot, "_LEFT_MIN", 1_000)
    count, step = 6_000, 500
    rows = [
        Row(n, RowKind.SHORT, f"doc-{n}", f"https://example.org/{n}", n, 0, n, 1)
        for n in range(count)
    ]
    rows += [Row(count + n, RowKind.DELETED, f"doc-{n}", "", 0) for n in range(count) if n % 50]
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    with small_chunks(rows_bits=8):
        whole = Replica(DEFINITION)
        for number, first in enumerate(range(0, len(rows), step)):
            whole.apply(decode(record_of(rows[first : first + step], first)), number, 0)
        whole.committed(SOURCE, len(rows))
        small = restore(to_bytes(whole), DEFINITION, LOG)
        small.check()
        assert len(small.judge.held) == small.documents == whole.documents == 120
        assert (
            len(small.judge.held.texts.data._chunks) < len(whole.judge.held.texts.data._chunks) / 2
        )
        assert to_bytes(restore(to_bytes(small), DEFINITION, LOG)) == to_bytes(small)


def record_of(chosen: list[Row], first: int) -> bytes:
    return packed(DEFINITION, chosen, (first, first + len(chosen)), committed=first)
