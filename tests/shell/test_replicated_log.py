"""Restoring from the log: to its present end, or an error that says why not."""

from __future__ import annotations

import pytest

from worker.core.search import SearchRules
from worker.errors import StopError
from worker.log.replica import Replica
from worker.log.rules import Definition, Ignored
from worker.shell.pipeline import sequencer
from worker.shell.pipeline.sequencer import ReplicatedLog
from worker.shell.ports import LogEntry
from worker.shell.runtime import metrics
from worker.shell.storage.memory_log import MemoryLog, MemoryReader, MemoryWriter

DEFINITION = Definition("nd1", "0" * 16, SearchRules("exact", 3))


class Silent(MemoryReader):
    """A log that says how long it is, and gives nothing: its leader is away."""

    def read(self, wait_s: float) -> list[LogEntry]:
        return []


def test_a_log_that_gives_nothing_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waits for ever looks like one that works: after a while it ends with what it waits for."""
    monkeypatch.setattr(sequencer, "PATIENCE_S", 0.05)
    log = MemoryLog(lambda: 0)
    log.append(b"a record")
    waiting = ReplicatedLog(Replica(DEFINITION), Silent(log), MemoryWriter(log), DEFINITION.author("w"), 900_000)
    with pytest.raises(StopError, match=r"gave nothing for 0\.05 s, at offset 0 of 1"):
        waiting.restore()


def test_records_are_counted_as_ignored_when_they_come_not_at_each_start() -> None:
    """A foreign record of long ago says nothing of now: each start would raise the alarm again."""
    counted = metrics.LOG_RECORDS_IGNORED.labels(Ignored.FOREIGN)._value
    log = MemoryLog(lambda: 0)
    log.append(b"a console's line")
    follower = ReplicatedLog(Replica(DEFINITION), MemoryReader(log), MemoryWriter(log), DEFINITION.author("w"), 900_000)
    before = counted.get()
    follower.restore()
    assert counted.get() == before
    log.append(b"another")
    follower.follow(0)
    assert counted.get() == before + 1
