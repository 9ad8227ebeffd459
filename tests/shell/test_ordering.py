"""Restoring from the log: to its present end, or an error that says why not."""

from __future__ import annotations

import pytest

from worker.errors import StopError
from worker.log.definition import Definition
from worker.log.replica import Replica
from worker.shell import ordering
from worker.shell.memory_log import MemoryLog, MemoryReader, MemoryWriter
from worker.shell.ordering import Ordering
from worker.shell.ports import LogEntry

DEFINITION = Definition("nd1", "0" * 16, 3)


class Silent(MemoryReader):
    """A log that says how long it is, and gives nothing: its leader is away."""

    def read(self, wait_s: float) -> list[LogEntry]:
        """Give nothing."""
        return []


def test_a_log_that_gives_nothing_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waits for ever looks like one that works: after a while it ends with what it waits for."""
    monkeypatch.setattr(ordering, "PATIENCE_S", 0.05)
    log = MemoryLog(lambda: 0)
    log.append(b"a record")
    waiting = Ordering(Replica(DEFINITION), Silent(log), MemoryWriter(log), DEFINITION.author("w"), 900_000)
    with pytest.raises(StopError, match=r"gave nothing for 0\.05 s, at offset 0 of 1"):
        waiting.restore()
