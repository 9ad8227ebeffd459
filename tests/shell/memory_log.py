"""
The ordered log as a list in memory: what the simulation stands on, and the contract test holds
beside Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worker.shell.ports import LogEntry


class MemoryLog:
    """
    Records in order, with the time at which each was appended, as `clock_ms` has it: a
    `ports.LogWriter`.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.entries: list[LogEntry] = []
        self.first = 0  # offset of entries[0]
        self._clock_ms = clock_ms

    @property
    def stop(self) -> int:
        """The offset behind the last record."""
        return self.first + len(self.entries)

    def append(self, records: Sequence[bytes]) -> int:
        for record in records:
            self.entries.append(LogEntry(self.stop, self._clock_ms(), record))
        return self.stop - 1

    def close(self) -> None:
        """It stays as it is."""


class MemoryReader:
    """
    Reads a MemoryLog from an offset on: a `ports.LogReader`, which says what each method does.
    """

    def __init__(self, log: MemoryLog, offset: int = 0) -> None:
        self._log = log
        self._offset = offset

    def read(self, wait_s: float) -> list[LogEntry]:
        entries = self._log.entries[self._offset - self._log.first :]
        self._offset = self._log.stop
        return entries

    def position(self) -> int:
        return self._offset

    def end(self) -> tuple[int, int]:
        return self._log.first, self._log.stop

    def end_seen(self) -> int:
        return self._log.stop

    def close(self) -> None:
        """Stop reading."""
