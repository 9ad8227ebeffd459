"""Retention: what leaves, when, and that every replica agrees on it, against the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import one_in
from tests.log import test_replica as logs
from tests.log.test_snapshot import LOG, to_bytes
from worker.core.search import SearchRules
from worker.log import snapshot
from worker.log.originals import OriginalStore
from worker.log.record import Row, RowKind, Source
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.snapshot import restore
from worker.shell.checkpoint import DiskMemory


class ColdDisk(DiskMemory):
    """
    Memory in a folder, where nothing is left behind; whatever is read there is asked for before.
    """

    def pages_read(self) -> int:
        self._read = getattr(self, "_read", 0) + 1_000
        return self._read


def on_disk() -> DiskMemory:
    return ColdDisk(Path(gettempdir()))


@settings(max_examples=one_in(2))
@given(logs.retentions, logs.rows(), logs.steps, st.integers(0, 25))
def test_a_replica_restored_at_any_point_goes_on_equal(
    retention: Retention, messages: list[Row], taken: list[logs.Step], cut: int
) -> None:
    """
    Clock, horizon and queue are in the snapshot: what would have left after it leaves after a
    restart, too.
    """
    of = logs.definition(retention)
    with logs.small_chunks():
        log, original = (
            logs.log_of(of, {0: messages, 1: messages}, taken),
            logs.declared(of, on_disk()),
        )
        for offset, (data, time_ms) in enumerate(log[:cut]):
            original.read(data, offset, time_ms)
        restored = restore(to_bytes(original), of, LOG)
        for offset, (data, time_ms) in enumerate(log[cut:], start=cut):
            for each in (original, restored):
                each.read(data, offset, time_ms)
                each.check()
        assert to_bytes(restored) == to_bytes(original)
        rebuilt = restore(to_bytes(original), of, LOG).judge.held
    held = original.judge.held  # what a table is left with is what one built of the live rows holds
    index, fresh = (
        {name: sorted(values.tolist()) for name, values in each.index.arrays().items()}
        for each in (held, rebuilt)
    )
    assert index == fresh
    for table in ("short", "names", "urls"):
        assert getattr(held, table).rows.tolist() == getattr(rebuilt, table).rows.tolist()


def content(replica: Replica) -> bytes:
    """What a replica's snapshot says, without the originals that only take up room."""
    restored = restore(to_bytes(replica), replica.definition, LOG)
    restored.compact()
    return to_bytes(restored)


def crawled(chance: random.Random, offset: int) -> Row:
    """
    A message of a small site whose front page changes all the time; now and then a page is a copy,
    or goes.
    """
    kind = chance.choice([RowKind.FULL] * 6 + [RowKind.SHORT] * 2 + [RowKind.DELETED])
    if chance.random() < 0.4:
        return Row(
            offset, kind, "front", "front", 0, chance.getrandbits(64), chance.getrandbits(64), 9
        )
    story = chance.randrange(14)
    names = f"page-{chance.randrange(60)}", f"page-{chance.randrange(20)}"
    return Row(offset, kind, *names, 0, story * 0x1111_0000_0001, story, 9, "", 1 << story)


@settings(max_examples=one_in(4))
@example(Retention(0, "last", 9), 5, logs.EXACT, "compare")
@example(Retention(0, "last", 9), 8, logs.EXACT, "compare")
@given(
    st.builds(
        Retention,
        st.sampled_from([0, 40]),
        st.sampled_from(["last", "last", "first"]),
        st.sampled_from([0, 4, 6, 9]),
    ),
    st.integers(0, 2**32),
    logs.searches,
    logs.recrawled,
)
def test_row_23_restores_and_compactions_at_any_moment_change_nothing(
    retention: Retention, seed: int, search: SearchRules, recrawls: Literal["compare", "replace"]
) -> None:
    """
    Versions, deletions, duplicates, every retention, on disk: later verdicts and snapshots are as
    without them.
    """
    of, chance = logs.definition(retention, search, recrawls), random.Random(seed)
    with logs.small_chunks(rows_bits=3) as patch:
        patch.setattr(snapshot, "_LEFT_MIN", 1)
        if seed % 2:  # doc_ids and URLs that a table cannot tell apart
            patch.setattr(OriginalStore, "hashes", lambda _, texts: texts.hashes(7) % np.uint64(5))
        # A queue of few has places between its ends, too.
        patch.setattr("worker.log.judge._RENEWALS", 2)
        memory = on_disk()
        plain, other = logs.declared(of), logs.declared(of, memory)
        for offset in range(80):
            action = chance.choice(["compact", "restore", *["go on"] * 6])
            if action == "compact":
                other.compact()
            elif action == "restore":
                other = restore(to_bytes(other), of, LOG, memory)
            data = logs.packed(of, [crawled(chance, offset)], committed=offset // 2)
            for each in (plain, other):
                each.read(data, offset, offset)
            kept = range(max(offset // 2, offset - 3), offset + 1)
            assert logs.told(plain, kept) == logs.told(other, kept)
        other.check()
        assert content(other) == content(plain)


# rows: sixteen times fewer than a replica's chunks have, and the steps of these tests.
CHUNK, STEP = (1 << 12, 1_250)


@pytest.fixture
def chunks() -> Iterator[None]:
    """Chunks of 4,096 rows."""
    with logs.small_chunks(rows_bits=12):
        yield


def _many(of: Definition, first: int, count: int, committed: int) -> bytes:
    chosen = [
        Row(first + at, RowKind.SHORT if at % 3 else RowKind.FULL, f"doc-{first + at}", "https://example.org/" * 3,
            at, value, value, 9)
        for at, value in enumerate(_prints(first, count))
    ]  # fmt: skip
    return logs.packed(of, chosen, committed=committed)


def _prints(first: int, count: int) -> list[int]:
    """The fingerprints of `count` documents from one on."""
    return list(map(int, np.random.default_rng(first).integers(0, 2**64, count, np.uint64)))


@pytest.mark.parametrize("expire_from", ["first", "last"])
@pytest.mark.usefixtures("chunks")
def test_memory_is_given_back(expire_from: str) -> None:
    """
    After many windows a replica is no larger than after the first, and what a kept verdict names is
    still there.
    """
    of = logs.definition(Retention(3, expire_from))  # type: ignore[arg-type]
    replica, sizes = logs.declared(of), []
    for number in range(14):
        first = number * STEP
        committed = max(first - STEP, 0) if number < 12 else 11 * STEP
        replica.read(_many(of, first, STEP, committed), number, number)
        held = replica.judge.held
        columns = [*held.columns().values(), held.texts.data]
        tables = held.index.nbytes + held.names.nbytes + held.urls.nbytes
        tables += held.short.nbytes + held.thin.nbytes
        sizes.append(
            tables + sum(len(one._chunks) * one.size * one.dtype.itemsize for one in columns)
        )
    replica.check()
    assert replica.documents == 4 * STEP
    assert held.first >= 2 * CHUNK
    for row in (-1, held.first - 1, len(held)):
        with pytest.raises(
            IndexError,
            match=f"row {row} of {len(held)} originals, of which the first {held.first} ",
        ):
            held.get(row)
    assert max(sizes[8:]) < 1.02 * max(sizes[:8])


def test_memory_is_given_back_without_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Documents whose content changes with every fetch take no more rows than there are documents, and
    a few.
    """
    monkeypatch.setattr("worker.log.replica.LEFT_MIN", 5_000)
    of = logs.definition(Retention())
    replica, sizes = logs.declared(of), []
    for number in range(60):
        prints = _prints(number, 500)
        offsets = range(number * 500, number * 500 + 500)
        rows = [
            Row(o, RowKind.FULL, f"doc-{o % 500}", f"u-{o % 500}", 0, prints[o % 500], o, 9)
            for o in offsets
        ]
        replica.read(logs.packed(of, rows, committed=offsets[0]), number, 0)
        sizes.append(len(replica.judge.held) - replica.judge.held.first)
    replica.check()
    assert replica.documents == 500
    assert max(sizes) < 500 + 5_000 + 1_000


@pytest.mark.usefixtures("chunks")
def test_item_3_a_partition_that_fell_silent_keeps_no_original() -> None:
    """
    Its last verdict, a copy of the first original, has long been committed: the group's offset says
    so.
    """
    of = logs.definition(Retention(3))
    replica = logs.declared(of)
    replica.read(_many(of, 0, STEP, 0), 0, 0)
    copy = Row(0, RowKind.FULL, "copy", "copy", 0, _prints(0, 1)[0], 1, 9)
    replica.read(logs.packed(of, [copy], committed=0, source=Source(logs.TOPIC, 1)), 1, 0)
    for number in range(1, 8):
        replica.read(_many(of, number * STEP, STEP, number * STEP), 1 + number, number)
    assert replica.judge.held.first == 0
    replica.serve(logs.TOPIC, {0: 8 * STEP, 1: 1})
    replica.read(_many(of, 8 * STEP, 1, 8 * STEP), 9, 8)
    assert replica.judge.held.first == CHUNK


@pytest.mark.parametrize(
    ("wrong", "error", "reason"),
    [
        ({"expire_after_ms": 0.5}, TypeError, "expire_after_ms must be a whole number, got 0.5"),
        ({"expire_after_ms": float("inf")}, TypeError, "must be a whole number, got inf"),
        ({"documents_max": True}, TypeError, "documents_max must be a whole number, got True"),
        ({"documents_max": 4_000_000_001}, ValueError, "0 .* to 4,000,000,000, got 4,000,000,001"),
    ],
)
def test_a_retention_that_no_snapshot_could_carry_is_refused(
    wrong: dict[str, object], error: type[Exception], reason: str
) -> None:
    """A snapshot that was saved with it could not be loaded."""
    with pytest.raises(error, match=reason):
        Retention(**wrong)  # type: ignore[arg-type]


def test_a_retention_takes_numbers_of_numpy() -> None:
    """Records and snapshots of it are JSON, which knows Python's numbers alone."""
    retention = Retention(documents_max=np.int64(1_000))  # type: ignore[arg-type]
    assert type(retention.documents_max) is int
