"""
The ordered log and the stages together at their limits: a start, when to give up, what one that
stops still does.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from prometheus_client import Gauge
from structlog.testing import capture_logs

from tests.shell.memory_log import MemoryLog, MemoryReader
from tests.shell.simulated_cluster import DEFINITION, TOPIC_ID, Scripted
from tests.shell.simulation import History, SimulatedWorker
from worker.errors import FencedError, RetryError, StopError
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Ignored
from worker.settings import Settings
from worker.shell.ask.questions import Questions
from worker.shell.pipeline import replicated_log, service
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.sequencer import STOP_GRACE_S
from worker.shell.ports import LogEntry
from worker.shell.runtime import metrics


def one_worker(publisher: Any = None) -> SimulatedWorker:
    """A group of one, without faults."""
    history = History(seed=1, workers=0)
    history.world.faults = False
    return history.start("w0", publisher)


def test_reading_again_has_a_limit_however_many_batches_are_on_their_way() -> None:
    """Batches that a rewind has made void are no success: the attempts in a row go on counting."""
    worker = one_worker(Scripted(always=RetryError("timed out")))
    with pytest.raises(StopError, match="4 times in a row: timed out"):
        for _ in range(500):
            worker.fill()
            while len(worker.preparer):
                worker.sequencer.step()
            while not worker.publishing.join(0):
                worker.sequencer.follow()


@pytest.mark.parametrize(
    ("cores", "idle", "threads"), [(8, 3, 4), (8, 0, 1), (2, 3, 2), (2, 2, 1), (1, 3, 1)]
)
def test_threads_that_prepare_nothing_search(
    monkeypatch: pytest.MonkeyPatch, cores: int, idle: int, threads: int
) -> None:
    """
    A worker that catches up, or whose batches wait for the log, searches with its idle threads and
    its own; one whose threads prepare, or that has one core, searches alone. Threads that prepare
    have a core each.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    worker = one_worker()
    worker.settings = worker.settings.model_copy(update={"threads": 3})
    worker.sequencer.settings = worker.settings
    monkeypatch.setattr(worker.preparer, "idle_threads", lambda: idle)
    worker.fill()
    worker.sequencer.step()
    assert worker.log.replica.judge.held.threads == threads


def test_what_has_been_read_is_published_before_the_worker_leaves_the_group() -> None:
    """
    Told to stop, the intake stays a member until the batches behind it are answered and committed.
    """
    worker = one_worker()
    left = threading.Event()

    def leave() -> None:
        worker.source.revoke(sorted(worker.source.owned))
        left.set()

    worker.source.close = leave  # type: ignore[method-assign]
    worker.fill()
    read = dict(worker.source.owned)
    worker.stop.set()
    worker.intake.start()
    worker.sequencer.run(lambda: None)
    assert worker.world.committed == {partition: stop for partition, stop in read.items() if stop}
    assert not left.is_set()
    assert worker.intake.join(60) and left.is_set()
    worker.intake.check()


def test_a_worker_that_stops_waits_ten_seconds_for_each_batch_and_no_longer() -> None:
    """
    A queue that moves is published to its end; what is not prepared by then is left with the
    batches behind it.
    """
    for is_slow, left in ((False, 0), (True, 3)):
        worker = one_worker()
        worker.fill()
        worker.preparer.is_slow = is_slow
        now_s = 0.0
        stopping = worker.make_sequencer(clock=lambda: now_s)  # noqa: B023
        stopping.close()
        for _ in range(3):
            now_s += STOP_GRACE_S if not is_slow else STOP_GRACE_S / 3
            stopping.step()
        assert len(worker.preparer) == left
        now_s += 0.1
        stopping.run(worker.preparer.close)
        assert len(worker.preparer) == 0 and any(worker.world.committed.values()) != is_slow


def test_a_batch_that_is_handed_on_late_has_its_ten_seconds() -> None:
    """
    An intake that waits for the end of a transaction hands on what it has when the worker has long
    been stopping.
    """
    worker = one_worker()
    now_s = 0.0
    stopping = worker.make_sequencer(clock=lambda: now_s)
    stopping.close()
    now_s = 5 * STOP_GRACE_S
    stopping.step()
    worker.preparer.is_slow = True
    worker.fill()
    stopping.step()
    assert len(worker.preparer) == 3


def test_what_has_been_committed_is_forgotten_and_told() -> None:
    """
    Verdicts are kept until then and no longer; by the next record the other replicas forget them,
    too.
    """
    worker = one_worker()
    worker.fill()
    worker.sequencer.step()
    kept = sum(map(len, worker.replica.pending.values()))
    worker.publishing.step()
    worker.sequencer.follow()
    # Partitions of which nothing was answered yet have their beginning committed.
    committed = {part: stop for part, stop in worker.world.committed.items() if stop}
    assert committed and sum(map(len, worker.replica.pending.values())) < kept
    assert all(
        worker.replica.pending[Source(TOPIC_ID, part)].pruned == stop
        for part, stop in committed.items()
    )
    while len(worker.preparer):
        worker.sequencer.step()
        worker.publishing.step()
    worker.intake.step()
    worker.sequencer.step()
    sections = [
        one for entry in worker.world.log.entries[1:] for one in decode(entry.value).sections
    ]
    assert any(one.committed == committed.get(one.source.partition) for one in sections)


def test_the_sequencer_ends_when_publishing_has_failed_and_nothing_comes() -> None:
    """
    A fenced worker leaves the group, so that its partitions move; it does not wait for its next
    document.
    """
    worker = one_worker(Scripted(FencedError("taken over")))
    worker.fill()
    worker.sequencer.step()
    worker.publishing.start()
    with pytest.raises(FencedError, match="taken over"):
        worker.sequencer.run(lambda: None)


class Silent(MemoryReader):
    """A log that says how long it is, and gives nothing: its leader is away."""

    def read(self, wait_s: float) -> list[LogEntry]:
        return []


def test_a_log_that_gives_nothing_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A start that waits for ever looks like one that works: after a while it ends with what it waits
    for.
    """
    monkeypatch.setattr(replicated_log, "PATIENCE_S", 0.05)
    log = MemoryLog(lambda: 0)
    log.append([b"a record"])
    waiting = ReplicatedLog(Replica(DEFINITION), Silent(log), log, DEFINITION.author("w"))
    with pytest.raises(StopError, match=r"gave nothing for 0\.05 s, at offset 0 of 1"):
        waiting.restore()


def test_records_are_counted_as_ignored_when_they_come_not_at_each_start() -> None:
    """A foreign record of long ago says nothing of now: each start would raise the alarm again."""
    counted = metrics.LOG_RECORDS_IGNORED.labels(Ignored.FOREIGN)._value
    log = MemoryLog(lambda: 0)
    log.append([b"a console's line"])
    follower = ReplicatedLog(Replica(DEFINITION), MemoryReader(log), log, DEFINITION.author("w"))
    before = counted.get()
    follower.restore()
    assert counted.get() == before
    log.append([b"another"])
    follower.follow(0)
    assert counted.get() == before + 1


def _record(number: int) -> bytes:
    """A record with one document."""
    row = Row(number, RowKind.FULL, f"d{number}", "https://example.org/", 5, 7, 7, 9)
    section = Section(Source(TOPIC_ID, 0), number, number + 1, number, Rows.of([row]))
    return next(encode(DEFINITION.author("w"), [section], 10_000))


def test_a_record_that_is_ignored_is_told_by_its_own_offset() -> None:
    """Also where the records around it are judged in one call with it."""
    log = MemoryLog(lambda: 0)
    log.append([DEFINITION.declaration("w", FORMAT_VERSION)])
    log.append([_record(0), _record(1), b"a console's line", _record(2), _record(3)])
    follower = ReplicatedLog(Replica(DEFINITION), MemoryReader(log), log, DEFINITION.author("w"))
    with capture_logs() as entries:
        assert follower.follow(0) == len(log.entries)
    ignored = [one["offset"] for one in entries if one["event"] == "a record of the log is ignored"]
    assert ignored == [3]
    assert follower.replica.rows_applied == 4


def test_the_state_of_a_snapshot_is_told_before_the_log_is_replayed() -> None:
    """A replay may take an hour: until its first record, both would stand at 0."""
    log = MemoryLog(lambda: 0)
    log.append([DEFINITION.declaration("w", FORMAT_VERSION), _record(0)])
    replica = Replica(DEFINITION)
    for entry in log.entries:
        replica.read(entry.value, entry.offset, entry.timestamp_ms)
    metrics.LOG_OFFSET.set(0)
    metrics.DOCUMENTS_INDEXED.set(0)
    ReplicatedLog(replica, MemoryReader(log, 2), log, DEFINITION.author("w"))
    assert (metrics.LOG_OFFSET._value.get(), metrics.DOCUMENTS_INDEXED._value.get()) == (2, 1)


def test_the_lag_of_the_log_is_told_while_it_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the beginning of the replay on, not only when the worker serves."""
    log = MemoryLog(lambda: 0)
    log.append([DEFINITION.declaration("neardup/w", FORMAT_VERSION), b"a", b"b"])
    lag = Gauge("lag", "Of this test", registry=None)
    monkeypatch.setattr(metrics, "LOG_LAG", lag)
    monkeypatch.setattr(service, "LogConsumer", lambda *_, **__: MemoryReader(log))
    monkeypatch.setattr(service, "LogAppender", lambda _settings: log)
    questions = Questions(Settings())
    with ExitStack() as stack:
        replicated = service._replicated_log(Settings(), Replica(DEFINITION), "", stack, questions)
        lags = [_value(lag)]
        replicated.restore(lambda: lags.append(_value(lag)))
    assert lags == [3, 0]


def _value(gauge: Gauge) -> float:
    [sample] = next(iter(gauge.collect())).samples
    return sample.value


@pytest.mark.parametrize("is_late", [False, True])
def test_a_log_that_another_group_begins_is_refused_as_soon_as_it_has(is_late: bool) -> None:
    """Also by a worker that has followed it from the time when it was empty."""
    log = MemoryLog(lambda: 0)
    authors: list[str] = []

    def refuse(author: str) -> None:
        authors.append(author)
        raise StopError("begun by another group")

    follower = ReplicatedLog(
        Replica(DEFINITION), MemoryReader(log), log, DEFINITION.author("b/w"), "", refuse
    )
    if is_late:
        follower.restore()
        follower.follow(0)
    log.append([DEFINITION.declaration("a/w", FORMAT_VERSION)])
    with pytest.raises(StopError, match="begun by another group"):
        follower.follow(0) if is_late else follower.restore()
    assert authors == ["a/w"]
