"""The ordered log as a list in memory: what files are judged with, and what the contract test holds beside Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worker.shell.ports import LogEntry


class MemoryLog:
    """
    Records in order, with the time at which each was appended: a `ports.LogWriter`.

    Args:
        clock_ms: returns the time stamp of a record.
        keep: False forgets records once the one reader has them, so that a long run stays small.
    """

    def __init__(self, clock_ms: Callable[[], int], *, keep: bool = True) -> None:
        self.entries: list[LogEntry] = []
        self.first = 0  # offset of entries[0]
        self._clock_ms = clock_ms
        self._keep = keep

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

    def since(self, offset: int) -> list[LogEntry]:
        """Return the records from `offset` on."""
        found = self.entries[offset - self.first :]
        if not self._keep:
            self.first = self.stop
            self.entries.clear()
        return found


class MemoryReader:
    """Reads a MemoryLog from an offset on: a `ports.LogReader`, which says what each method does."""

    def __init__(self, log: MemoryLog, offset: int = 0) -> None:
        self._log = log
        self._offset = offset

    def read(self, wait_s: float) -> list[LogEntry]:  # noqa: ARG002  # nothing comes while we wait
        entries = self._log.since(self._offset)
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
