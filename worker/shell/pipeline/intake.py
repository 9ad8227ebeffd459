"""
The intake thread: reads the source as a member of the group, starts each batch, hands it on in order.

The only thread that reads with the source consumer; a scrape asks it for the ends that it knows. The queue towards the
ordering thread is bounded; while it is full the consumer is still polled, for one message at a time and paused in the
end, so that the member stays in the group however long the ordered part takes.

A batch is handed on when it is full, or when fewer than `IN_FLIGHT_MAX` are on their way: with little to do a document
waits for no other, with more to do the batches grow, and no queue of small ones forms with a transaction for each.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import NamedTuple

import structlog

from worker.errors import NeardupError
from worker.settings import Settings
from worker.shell.pipeline.ownership import Claim, Ownership
from worker.shell.pipeline.prepare import Prepared, Preparer, cut
from worker.shell.ports import GroupSource, SourceMessage
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.watchdog import Watchdog

__all__ = ["Batch", "BatchSection", "Intake"]

IN_FLIGHT_MAX = 1  # batches read and not yet published, while the next one is not full
GATHER_S = 0.005  # how long one poll waits meanwhile

_log = structlog.get_logger(__name__)


class BatchSection(NamedTuple):
    """The messages of one partition in a batch: positions [begin, end) of the batch, offsets [first, stop)."""

    claim: Claim
    first: int
    stop: int
    begin: int
    end: int


class Batch(NamedTuple):
    """
    Messages on their way. Sections are in the order of their partitions, messages in the order of their offsets.

    `ended` is set when nothing more will happen to it: it is published, or must be read again.
    """

    sections: tuple[BatchSection, ...]
    messages: tuple[SourceMessage, ...]
    prepared: Prepared
    read_at_s: float  # monotonic
    ended: threading.Event


class Intake:
    """
    Reads and prepares until told to stop.

    Args:
        connect: makes the source consumer, given the three rebalance callbacks.
        batches: where prepared batches go, in order; None follows the last one.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[..., GroupSource],
        preparer: Preparer,
        ownership: Ownership,
        batches: queue.Queue[Batch | None],
        watchdog: Watchdog,
        reach: FaultHook = never,
    ) -> None:
        self._settings = settings
        self._watchdog = watchdog
        self._reach = reach
        self._preparer = preparer
        self._ownership = ownership
        self._batches = batches
        self._positions: dict[int, int | None] = {}
        self._assigned_now: set[int] = set()
        self._moved: set[int] = set()  # partitions that came or went: what was gathered of them is void
        self._gathered: list[SourceMessage] = []
        self._gathered_bytes = 0
        self._gathered_since_s = 0.0
        self._underway: list[threading.Event] = []
        self._rewinds_done = 0
        self._bytes_mean = 4_096.0  # of a message, a moving average
        self._connect = connect
        self.stopping = threading.Event()
        self.answered = threading.Event()  # set by the owner when nothing more will be published
        self.failure: BaseException | None = None

    def run(self) -> None:
        """
        Run until `stopping` is set or something fails; `failure` then says what. The last thing queued is None.

        Stays in the group until `answered` is set: what has been read can be published by a member only.
        """
        source: GroupSource | None = None
        try:
            with self._limit("joining the group"):
                source = self._connect(self._on_assigned, self._on_revoked, self._on_lost)
            while not self.stopping.is_set():
                self._step(source)
            self._offer(None, source)
            while not self.answered.wait(0.05):
                self._poll_paused(source)
        except NeardupError as error:
            self.failure = error
        except BaseException as error:
            self.failure = error
            _log.exception("the intake thread failed")
        finally:
            if self.failure is not None:
                self._offer(None, None)
            if source is not None:
                with self._limit("leaving the group"):
                    source.close()

    def _limit(self, doing: str) -> AbstractContextManager[None]:
        """
        Have the process end if a call of ours never returns.

        A poll may run callbacks that wait for a transaction and for committed offsets, each up to its own limit.
        """
        return self._watchdog.limit(doing, 4 * self._settings.call_timeout_s)

    def _step(self, source: GroupSource) -> None:
        if self._ownership.rewinds != self._rewinds_done:
            self._read_again(source)
        wait_s = GATHER_S if self._gathered else self._settings.batch_wait_ms / 1_000
        self._read(source, self._messages_max(), wait_s)
        if self._gathered and (self._is_full() or not self._is_busy()):
            self._hand_on(source)

    def _read(self, source: GroupSource, messages_max: int, wait_s: float) -> None:
        """Gather what the source has."""
        self._assigned_now.clear()
        with self._limit("reading the source"):
            messages = source.poll(messages_max, wait_s)
            self._ownership.membership = source.membership()
        if self._assigned_now:
            # What this poll gave of a partition that was assigned inside it may be from before: read that again.
            owned = self._assigned_now.intersection(self._ownership.partitions())  # some may have gone again
            again = {part: self._positions[part] for part in owned if part in self._positions}
            touched = {message.partition for message in messages} & set(again)
            messages = [message for message in messages if message.partition not in again]
            with self._limit("going back in the source"):
                source.seek({part: again[part] for part in touched})
        self._gather(messages)

    def _gather(self, messages: Sequence[SourceMessage]) -> None:
        if self._moved:
            self._gathered = [message for message in self._gathered if message.partition not in self._moved]
            self._gathered_bytes = _bytes(self._gathered)
            self._moved.clear()
        if messages and not self._gathered:
            self._gathered_since_s = time.monotonic()
        self._gathered.extend(messages)
        self._gathered_bytes += _bytes(messages)

    def _is_full(self) -> bool:
        settings = self._settings
        return len(self._gathered) >= settings.batch_documents_max or self._gathered_bytes >= settings.batch_bytes_max

    def _is_busy(self) -> bool:
        return sum(not ended.is_set() for ended in self._underway) >= IN_FLIGHT_MAX

    def _hand_on(self, source: GroupSource) -> None:
        messages, self._gathered, self._gathered_bytes = self._gathered, [], 0
        since_s = self._gathered_since_s  # the next batch may begin to gather below
        self._underway = [ended for ended in self._underway if not ended.is_set()]
        self._reach(Point.READ)
        # Claimed at once: while one batch waits for room a partition may go and come back, to be read again.
        self._bytes_mean = 0.5 * self._bytes_mean + 0.5 * max(_bytes(messages) / len(messages), 256)
        pieces = cut(messages, len(messages), self._settings.batch_bytes_max)
        claimed = [self._claim(piece, self._rewinds_done) for piece in pieces]
        for sections, kept in claimed:
            if sections:
                ended = threading.Event()
                self._underway.append(ended)
                prepared = self._preparer.submit(kept)
                self._offer(Batch(sections, kept, prepared, since_s, ended), source)

    def _messages_max(self) -> int:
        """Return how many messages to ask for: what should fill the batch, by the size that they had lately."""
        by_bytes = int((self._settings.batch_bytes_max - self._gathered_bytes) / self._bytes_mean)
        return max(1, min(self._settings.batch_documents_max - len(self._gathered), by_bytes))

    def _read_again(self, source: GroupSource) -> None:
        """Go back to the committed offsets of every owned partition: what was read since then is void."""
        self._rewinds_done = self._ownership.rewinds
        self._gathered, self._gathered_bytes = [], 0
        with self._limit("going back in the source"):
            starts = source.committed(self._ownership.partitions())
            source.seek(starts)
        self._positions.update(starts)
        _log.info("reading again from the committed offsets", offsets=starts)

    def _claim(
        self, messages: Sequence[SourceMessage], rewinds: int
    ) -> tuple[tuple[BatchSection, ...], tuple[SourceMessage, ...]]:
        """Put messages in order under the claims that hold now; those of partitions that are not ours fall away."""
        groups: dict[int, list[SourceMessage]] = {}
        for message in messages:
            groups.setdefault(message.partition, []).append(message)
        sections: list[BatchSection] = []
        kept: list[SourceMessage] = []
        for partition, group in sorted(groups.items()):
            claim = self._ownership.claim(partition, rewinds)
            position = self._positions.get(partition)
            group.sort(key=attrgetter("offset"))
            mine = [message for message in group if position is None or message.offset >= position]
            if claim is None or not mine:
                continue
            first = mine[0].offset if position is None else position
            stop = mine[-1].offset + 1
            sections.append(BatchSection(claim, first, stop, len(kept), len(kept) + len(mine)))
            kept.extend(mine)
            self._positions[partition] = stop
        return tuple(sections), tuple(kept)

    def _offer(self, batch: Batch | None, source: GroupSource | None) -> None:
        """
        Queue a batch; while there is no room, keep the membership alive, reading next to nothing.

        Not paused at once: a consumer that is resumed may fetch nothing for up to a second.
        """
        paused = False
        while True:
            try:
                self._batches.put(batch, timeout=0.05)
                break
            except queue.Full:
                if source is None:
                    continue
                if batch is not None and not (paused or self._is_full()):
                    self._read(source, 1, 0.0)
                    continue
                paused = True
                if self._poll_paused(source) and batch is not None:
                    self._ownership.rewind()  # fetched by a partition that came in just now: read it again later
        if paused and source is not None:
            source.resume()

    def _poll_paused(self, source: GroupSource) -> bool:
        """Stay in the group without reading; return whether something came all the same."""
        with self._limit("staying in the group"):
            source.pause()  # each time: a partition assigned meanwhile comes unpaused
            came = bool(source.poll(1, 0.0))
            self._ownership.membership = source.membership()
        return came

    def _on_assigned(self, starts: dict[int, int | None]) -> None:
        self._positions.update(starts)
        self._assigned_now.update(starts)
        self._moved.update(starts)
        self._ownership.assign(starts)
        _log.info("partitions assigned", offsets=starts)

    def _on_lost(self, partitions: list[int]) -> None:
        self._ownership.drop(partitions)
        self._moved.update(partitions)
        _log.warning("partitions lost", partitions=partitions)

    def _on_revoked(self, partitions: list[int]) -> None:
        ended = self._ownership.give_up(partitions, self._settings.call_timeout_s)
        self._moved.update(partitions)
        _log.info("partitions revoked", partitions=partitions, transaction_ended=ended)


def _bytes(messages: Sequence[SourceMessage]) -> int:
    return sum(message.size_bytes for message in messages)
