"""
The ordering loop: takes prepared batches in order, has the log decide, hands the answers on to be published.

    batch ──► rows ──► append what the log lacks ──► apply the log ──► answers ──► publishing, on its own thread

The only thread that reads and writes the log and changes the replica; a scrape, and the writer of a snapshot, look on.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from worker.errors import RetryError
from worker.log.record import Row, Source
from worker.settings import Settings
from worker.shell.messages import encode_answers
from worker.shell.pipeline.intake import Batch, BatchSection
from worker.shell.pipeline.ordering import Ordering, Part
from worker.shell.pipeline.ownership import Ownership
from worker.shell.pipeline.publishing import Answered, Handover, Share
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point
from worker.shell.runtime.watchdog import Watchdog

__all__ = ["Loop", "Surroundings"]

STOP_GRACE_S = 10.0  # supervisors kill after 30 s

_log = structlog.get_logger(__name__)


def _nothing() -> None:
    pass


class Surroundings(NamedTuple):
    """
    What the loop has of the process that it runs in.

    `stopping` is set when the worker is to end: no batch is then waited for longer than ten seconds. `between` is
    called between batches, whether there are any or not: the replica stands still while it runs.
    """

    watchdog: Watchdog
    reach: FaultHook
    stopping: threading.Event
    between: Callable[[], None] = _nothing


class Loop:
    """
    Runs until the intake says that nothing more comes.

    Args:
        topic_id: of the source topic, as the log knows it.
        committed: (partition, offset) of what has been published; the replica forgets its verdicts.
    """

    def __init__(
        self,
        settings: Settings,
        topic_id: bytes,
        ordering: Ordering,
        publishing: Handover,
        committed: deque[tuple[int, int]],
        ownership: Ownership,
        batches: queue.Queue[Batch | None],
        surroundings: Surroundings,
    ) -> None:
        self._settings = settings
        self._topic_id = topic_id
        self._ordering = ordering
        self._publishing = publishing
        self._committed = committed
        self._ownership = ownership
        self._batches = batches
        self._watchdog, self._reach, self._stopping, self._between = surroundings

    def run(self) -> None:
        """Answer batch after batch, and follow the log while there is none."""
        try:
            while True:
                self._between()
                self._publishing.check()
                try:
                    batch = self._batches.get(timeout=0.01)
                except queue.Empty:
                    self._follow()
                else:
                    if batch is None:
                        break
                    self.answer(batch)
            self._publishing.finish(self._follow)
            self._forget()
        except BaseException:
            self._publishing.abandon(self._settings.call_timeout_s)
            raise

    def answer(self, batch: Batch) -> None:
        """Get every message of a batch its answer, if its partition is still ours, and hand them on."""
        if not any(self._ownership.holds(section.claim) for section in batch.sections):
            batch.ended.set()
            return
        with metrics.STAGE_S.labels("prepare").time():
            if not self._wait(batch):
                batch.ended.set()
                return
            rows = batch.prepared.rows()
        self._forget()
        parts = [
            (section, self._part(section, rows[section.begin : section.end]))
            for section in batch.sections
            if self._ownership.holds(section.claim)
        ]
        self._append([part for _, part in parts])
        try:
            with metrics.STAGE_S.labels("answer").time():
                shares = [
                    Share(
                        section.claim,
                        part.stop,
                        batch.messages[section.begin : section.end],
                        self._ordering.answers(part, self._settings.topic_documents, encode_answers),
                    )
                    for section, part in parts
                ]
        except RetryError as error:
            answered = Answered((), "", batch.read_at_s, batch.ended, error)
        else:
            answered = Answered(shares, str(self._ordering.commit_metadata()), batch.read_at_s, batch.ended)
        self._publishing.offer(answered, self._follow)

    def _append(self, parts: Sequence[Part]) -> None:
        """Append what the log lacks of these parts, and apply it."""
        limit_s = 2 * self._settings.call_timeout_s
        with self._watchdog.limit("appending to the log", limit_s), metrics.STAGE_S.labels("append").time():
            self._ordering.follow(0)
            lacking = self._ordering.missing(parts)
            self._reach(Point.BEFORE_APPEND)
            self._ordering.append(lacking)
        self._reach(Point.AFTER_APPEND)

    def _wait(self, batch: Batch) -> bool:
        """Follow the log until a batch is prepared; False if it takes too long while the worker is to stop."""
        deadline_s = math.inf
        while not batch.prepared.wait(0.05):
            self._publishing.check()
            self._follow()
            if self._stopping.is_set():
                deadline_s = min(deadline_s, time.monotonic() + STOP_GRACE_S)
                if time.monotonic() > deadline_s:
                    _log.warning("stopping without the last batch: its documents stay uncommitted")
                    self._ownership.rewind()  # and without the ones behind it
                    return False
        return True

    def _follow(self) -> None:
        """Apply what the log has, and forget what has been committed, while there is nothing else to do."""
        self._ordering.follow(0)
        self._forget()

    def _forget(self) -> None:
        while self._committed:
            partition, offset = self._committed.popleft()
            self._ordering.replica.committed(Source(self._topic_id, partition), offset)

    def _part(self, section: BatchSection, rows: Sequence[Row]) -> Part:
        partition = section.claim.partition
        committed = self._ownership.committed.get(partition, -1)
        return Part(Source(self._topic_id, partition), section.first, section.stop, committed, rows)
