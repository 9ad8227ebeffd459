"""
Intake: reads the source as a member of the group, and hands on batches in order.

Its thread alone reads with the source consumer; a scrape asks that for the ends it knows. While the
next stage has no room the consumer is still polled, for one message at a time and paused in the
end, so that the member stays in the group however long the ordered part takes.

A batch is handed on when it is full, or when none is in flight: with little to do a document waits
for no other, with more to do the batches grow, and no queue of small ones forms with a transaction
for each.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import structlog

from worker.settings import Settings
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.pipeline.stage import POLL_S, Batch, Share, Stage, StageThread, cut
from worker.shell.ports import GroupSource, SourceMessage
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.health import Watchdog

GATHER_S = 0.005  # how long one poll waits while a batch is gathered

_by_partition = attrgetter("partition")
_by_offset = attrgetter("offset")
_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Intake:
    """
    The first stage. It reads until `stop` is set, and stays a member until `join`: only a member
    may publish.
    """

    settings: Settings
    connect: Callable[[], GroupSource]  # whose rebalance callbacks are `partitions`' own
    preparer: Stage
    partitions: Partitions
    watchdog: Watchdog
    stop: threading.Event
    reach: FaultHook = never

    def __post_init__(self) -> None:
        self._source: GroupSource | None = None
        self._is_paused = False
        self._gathered: dict[Claim, list[SourceMessage]] = {}
        self._gathered_documents = self._gathered_bytes = 0  # of claims that have become void, too
        self._gathered_since_s = 0.0
        self._bytes_mean = 4_096.0  # of a message, a moving average
        self._is_leaving = threading.Event()
        self._thread = StageThread("intake", self._run)
        self.start, self.check = self._thread.start, self._thread.check

    def join(self, wait_s: float) -> bool:
        """Leave the group; False: that has not been possible within `wait_s`."""
        self._is_leaving.set()
        return self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            while not (self.stop.is_set() or self._is_leaving.is_set()):
                self.step()
            self.preparer.close()
            while not self._is_leaving.wait(POLL_S):
                if self._source is not None:
                    self._poll_paused()
        finally:
            self.preparer.close()
            if self._source is not None:
                with self._limit("leaving the group"):
                    self._source.close()

    def _limit(self, doing: str) -> AbstractContextManager[None]:
        """
        End the process if a call never returns; callbacks in it wait for a transaction and
        committed offsets.
        """
        return self.watchdog.limit(doing, 4 * self.settings.call_timeout_s)

    def _member(self) -> GroupSource:
        if self._source is None:
            with self._limit("joining the group"):
                self._source = self.connect()
        return self._source

    def step(self) -> None:
        """Read once, and hand on what has been gathered if it is time to."""
        if rewinding := self.partitions.rewinding():
            self._read_again(rewinding)
        # As many as should fill the batch, by the size that they had lately.
        by_bytes = int((self.settings.batch_bytes_max - self._gathered_bytes) / self._bytes_mean)
        messages_max = max(
            1, min(self.settings.batch_documents_max - self._gathered_documents, by_bytes)
        )
        self._read(
            messages_max, GATHER_S if self._gathered else self.settings.batch_wait_ms / 1_000
        )
        if self._gathered and (self._is_full() or not self.partitions.are_in_flight()):
            self._hand_on()

    def _read(self, messages_max: int, wait_s: float) -> None:
        """Gather what the source has."""
        before = self.partitions.claims()
        if self._is_paused:
            self._member().resume()
            self._is_paused = False
        messages = self._poll("reading the source", messages_max, wait_s)
        claims = self.partitions.claims()
        late = set()
        if messages and not self._gathered:
            self._gathered_since_s = time.monotonic()
            self._gathered_documents = self._gathered_bytes = 0
        for partition, run in groupby(messages, _by_partition):
            claim = claims.get(partition)
            if claim is None or claim != before.get(partition):
                late.add(partition)  # it came within this poll: the messages may be from before
                continue
            found = list(run)
            self._gathered.setdefault(claim, []).extend(found)
            self._gathered_documents += len(found)
            self._gathered_bytes += _bytes(found)
        self._go_back(late)

    def _poll(self, doing: str, messages_max: int, wait_s: float) -> Sequence[SourceMessage]:
        source = self._member()
        with self._limit(doing):
            messages = source.poll(messages_max, wait_s)
            self.partitions.group_metadata = source.group_metadata()
        return messages

    def _go_back(self, partitions: Iterable[int]) -> None:
        """
        Read these partitions again from where no batch has anything of them, if they are ours.
        """
        known = self.partitions.known()
        claims = self.partitions.claims()
        starts = {number: known[number].position for number in partitions if number in claims}
        for number in starts:
            self._gathered.pop(claims[number], None)
        if starts:
            with self._limit("going back in the source"):
                self._member().seek(starts)

    def _read_again(self, rewinding: Sequence[Claim]) -> None:
        """
        Go back to the committed offsets of these partitions: what was read of them since then is
        void.
        """
        self._gathered = {
            claim: found for claim, found in self._gathered.items() if self.partitions.holds(claim)
        }
        with self._limit("going back in the source"):
            starts = self._member().committed([claim.partition for claim in rewinding])
            self._member().seek(starts)
        self.partitions.restart({claim: starts[claim.partition] for claim in rewinding})
        _log.info("reading again from the committed offsets", offsets=starts)

    def _poll_paused(self) -> None:
        """
        Poll while paused, to stay in the group; messages of a partition assigned meanwhile are read
        again later.
        """
        self._member().pause()  # each time: a partition assigned meanwhile comes unpaused
        self._is_paused = True
        self._go_back({message.partition for message in self._poll("staying in the group", 1, 0.0)})

    def _is_full(self) -> bool:
        settings = self.settings
        return (
            self._gathered_documents >= settings.batch_documents_max
            or self._gathered_bytes >= settings.batch_bytes_max
        )

    def _hand_on(self) -> None:
        self.reach(Point.READ)
        self._bytes_mean = 0.5 * self._bytes_mean + 0.5 * max(
            self._gathered_bytes / self._gathered_documents, 256
        )
        # Taken at once: while one batch waits for room a partition may go and come back, to be read
        # again.
        for batch in list(self._batches()):
            # Not paused at once: a consumer that is resumed may fetch nothing for up to a second.
            while not self.preparer.submit(batch, POLL_S):
                if self._is_paused or self._is_full():
                    self._poll_paused()
                else:
                    self._read(1, 0.0)

    def _batches(self) -> Iterator[Batch]:
        """
        Yield what was gathered under claims that hold; a rest, too little for a batch, is first in
        the next one.
        """
        gathered = self._gathered
        since_s = self._gathered_since_s
        self._gathered = {}
        self._gathered_documents = 0
        self._gathered_bytes = 0
        claims = {claim.partition: claim for claim in gathered if self.partitions.holds(claim)}
        known = self.partitions.known()
        messages: list[SourceMessage] = []
        for number, claim in claims.items():
            found = sorted(gathered[claim], key=_by_offset)
            # These are from before a seek.
            before = bisect_left(found, known[number].position or 0, key=_by_offset)
            messages += found[before:]
        pieces = list(cut(messages, len(messages), self.settings.batch_bytes_max))
        if len(pieces) > 1:
            rest = pieces.pop()
            self._gathered = {
                claims[number]: list(run) for number, run in groupby(rest, _by_partition)
            }
            self._gathered_documents, self._gathered_bytes = len(rest), _bytes(rest)
            self._gathered_since_s = time.monotonic()
        for piece in pieces:
            shares: list[Share] = []
            kept: list[SourceMessage] = []
            for partition, run in groupby(piece, _by_partition):
                mine = list(run)
                stop = mine[-1].offset + 1
                first = self.partitions.read(
                    claims[partition], mine[0].offset, stop, mine[0].timestamp_ms
                )
                if first is not None:
                    shares.append(
                        Share(claims[partition], first, stop, len(kept), len(kept) + len(mine))
                    )
                    kept += mine
            if shares:
                yield Batch(kept, shares, since_s)


def _bytes(messages: Iterable[SourceMessage]) -> int:
    return sum(message.size_bytes for message in messages)
