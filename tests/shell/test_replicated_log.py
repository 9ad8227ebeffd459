"""Restoring from the log: to its present end, or an error that says why not."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from worker.core.chance import chance
from worker.core.search import SearchRules
from worker.errors import StopError
from worker.log.definition import Definition
from worker.log.record import Row, RowKind, Rows, Section, Source
from worker.log.replica import Replica
from worker.shell.pipeline import replicated_log
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.ports import LogEntry
from worker.shell.runtime import metrics
from worker.shell.storage.memory_log import MemoryLog, MemoryReader, MemoryWriter

DEFINITION = Definition("nd1", "0" * 16, SearchRules("exact", 3))


class Silent(MemoryReader):
    """A log that says how long it is, and gives nothing: its leader is away."""

    def read(self, wait_s: float) -> list[LogEntry]:
        """Return nothing."""
        return []


def test_a_log_that_gives_nothing_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waits for ever looks like one that works: after a while it ends with what it waits for."""
    monkeypatch.setattr(replicated_log, "PATIENCE_S", 0.05)
    log = MemoryLog(lambda: 0)
    log.append(b"a record")
    waiting = ReplicatedLog(Replica(DEFINITION), Silent(log), MemoryWriter(log), DEFINITION.author("w"), 900_000)
    with pytest.raises(StopError, match=r"gave nothing for 0\.05 s, at offset 0 of 1"):
        waiting.restore()


def test_a_warning_says_when_originals_outgrow_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrelated documents lie within 16 bits once in 20,000 pairs: one original is more than such rules serve."""
    monkeypatch.setattr(replicated_log, "CHANCE_FROM", 1)
    for max_distance, is_warned in ((16, True), (3, False)):
        definition = Definition("nd1", "0" * 16, SearchRules("exact", max_distance))
        log = MemoryLog(lambda: 0)
        follower = ReplicatedLog(
            Replica(definition), MemoryReader(log), MemoryWriter(log), definition.author("w"), 900_000
        )
        rows = [Row(n, RowKind.FULL, f"d{n}", "https://example.org/", 5, n << 40, 0, n) for n in range(2)]
        with capture_logs() as said:
            for row in rows:
                follower.append([Section(Source(b"t" * 16, 0), row.offset, row.offset + 1, -1, Rows.of([row]))])
        assert [line["event"] for line in said].count("index.chance") == is_warned
        assert metrics.FALSE_MATCHES._value.get() == follower.replica.documents * chance(definition.search) > 0
