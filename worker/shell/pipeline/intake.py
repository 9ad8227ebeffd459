"""
The intake reads the source as a member of the group, and hands on batches in order.

Only its thread reads with the source consumer; a scrape asks the consumer for the ends that it
knows. While the next stage has no room, the intake still polls the consumer, for one message at a
time, and pauses it in the end. So the member stays in the group, even if later stages take long.

A batch is handed on when it is full, or when no other batch is in flight. If there is little to do,
a document does not wait for others. If there is more to do, batches grow; otherwise many small
batches would queue, each with its own transaction.

Tried: handing on the next batch as soon as the one before is being published. At 1,000 documents/s
on two cores the median to a verdict rose from 88 and 119 ms to 130 and 125 (two runs, in turn).
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

from worker.settings import Settings
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.pipeline.stage import POLL_S, Batch, Share, Stage, StageThread, cut
from worker.shell.ports import GroupSource, InputMessage, first_stamp_ms
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.health import Watchdog
from worker.shell.runtime.logging import get_logger

GATHER_S = 0.005  # how long one poll waits while a batch is gathered
REJOIN_S = 5.0  # an order to leave the group that has waited longer rests on an old look at it

_by_partition = attrgetter("partition")
_by_offset = attrgetter("offset")
_log = get_logger(__name__)


@dataclass(eq=False)
class Intake:
    """
    The first stage: it reads until `stop` is set, and stays a member until `join`.

    Only a member may publish, so it leaves the group when all that it has read is published.
    """

    settings: Settings
    connect: Callable[[], GroupSource]  # its rebalance callbacks are those of `partitions`
    preparer: Stage
    partitions: Partitions
    watchdog: Watchdog
    stop: threading.Event
    reach: FaultHook = never

    def __post_init__(self) -> None:
        self._source: GroupSource | None = None
        self._is_paused = False
        self._gathered: dict[Claim, list[InputMessage]] = {}
        # Of claims that have become void, too.
        self._gathered_documents = 0
        self._gathered_bytes = 0
        self._gathered_since_s = 0.0
        self._bytes_mean = 4_096.0  # the moving average of a message's size
        self._is_leaving = threading.Event()
        self._rejoin_until_s = 0.0  # an order to leave the group and to join it again; 0: none
        self._thread = StageThread("intake", self._run)
        self.start = self._thread.start
        self.check = self._thread.check

    def join(self, wait_s: float) -> bool:
        """Leave the group. Returns False if that was not possible within `wait_s`."""
        self._is_leaving.set()
        return self._thread.join(wait_s)

    def rejoin(self) -> None:
        """
        Order that the group be left and joined again, within `REJOIN_S` or not at all. Any thread
        may call.
        """
        self._rejoin_until_s = time.monotonic() + REJOIN_S

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
        End the process if a call never returns.

        The limit is four times a call's: its callbacks wait for a transaction and for committed
        offsets.
        """
        return self.watchdog.limit(doing, 4 * self.settings.call_timeout_s)

    def _member(self) -> GroupSource:
        if self._source is None:
            with self._limit("joining the group"):
                self._source = self.connect()
        return self._source

    def step(self) -> None:
        """Poll once, and hand on the gathered batch if it is due."""
        settings = self.settings
        rewinding = self.partitions.rewinding()
        if rewinding:
            self._read_again(rewinding)
        # As many messages as should fill the batch, by their recent size.
        by_bytes = int((settings.batch_bytes_max - self._gathered_bytes) / self._bytes_mean)
        by_documents = settings.batch_documents_max - self._gathered_documents
        wait_s = GATHER_S if self._gathered else settings.batch_wait_ms / 1_000
        self._read(max(1, min(by_documents, by_bytes)), wait_s)
        if self._gathered and (self._is_full() or not self.partitions.are_in_flight()):
            self._hand_on()

    def _leave_and_join(self) -> None:
        late_s = time.monotonic() - self._rejoin_until_s
        self._rejoin_until_s = 0.0
        if late_s > 0:
            _log.warning(
                "the group is not left: the order to leave it and to join it again has waited too "
                "long, and the group may have changed since; another look decides",
                waited_s=round(REJOIN_S + late_s, 1),
                waited_s_max=REJOIN_S,
            )
            return
        with self._limit("leaving the group to join it again"):
            self._member().rejoin()

    def _read(self, messages_max: int, wait_s: float) -> None:
        """
        Gather what the source has, under the claims that hold.

        A rebalance can happen within the poll. If the claim of a partition has changed after the
        poll, its messages may be from before the rebalance, so they are read again.
        """
        before = self.partitions.claims()
        if self._is_paused:
            self._member().resume()
            self._is_paused = False
        messages = self._poll("reading the source", messages_max, wait_s)
        claims = self.partitions.claims()
        late = set()
        if messages and not self._gathered:
            self._gathered_since_s = time.monotonic()
            self._gathered_documents = 0
            self._gathered_bytes = 0
        for partition, run in groupby(messages, _by_partition):
            claim = claims.get(partition)
            if claim is None or claim != before.get(partition):
                late.add(partition)
                continue
            added = list(run)
            self._gathered.setdefault(claim, []).extend(added)
            self._gathered_documents += len(added)
            self._gathered_bytes += _bytes(added)
        self._go_back(late)

    def _poll(self, doing: str, messages_max: int, wait_s: float) -> Sequence[InputMessage]:
        # Not while stopping: what has been read is still to be published, by a member.
        if self._rejoin_until_s and not self.stop.is_set():
            self._leave_and_join()
        source = self._member()
        with self._limit(doing):
            messages = source.poll(messages_max, wait_s)
            self.partitions.group_metadata = source.group_metadata()
        return messages

    def _go_back(self, partitions: Iterable[int]) -> None:
        """
        Read these partitions again from behind what is already in a batch, as far as they are ours.
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
        Go back to the committed offsets of these partitions.

        The messages that were read of them since are void. Gathered messages of other partitions
        stay, because without a seek they would not be read again.
        """
        self._gathered = {
            claim: messages
            for claim, messages in self._gathered.items()
            if self.partitions.holds(claim)
        }
        with self._limit("going back in the source"):
            starts = self._member().starts([claim.partition for claim in rewinding])
            self._member().seek(starts)
        self.partitions.restart({claim: starts[claim.partition] for claim in rewinding})
        _log.info("reading again from the committed offsets", offsets=starts)

    def _poll_paused(self) -> None:
        """
        Poll while paused, to stay in the group.

        A partition that was assigned meanwhile can still return messages. These are read again
        later.
        """
        self._member().pause()  # each time: a partition assigned meanwhile is not paused
        self._is_paused = True
        messages = self._poll("staying in the group", 1, 0.0)
        self._go_back({message.partition for message in messages})

    def _is_full(self) -> bool:
        settings = self.settings
        return (
            self._gathered_documents >= settings.batch_documents_max
            or self._gathered_bytes >= settings.batch_bytes_max
        )

    def _hand_on(self) -> None:
        """Hand on what was gathered; go on polling while the next stage has no room."""
        self.reach(Point.READ)
        mean = max(self._gathered_bytes / self._gathered_documents, 256)
        self._bytes_mean = 0.5 * self._bytes_mean + 0.5 * mean
        # All batches are made before the first is handed on: while one waits for room, a partition
        # may leave and come back, to be read again.
        for batch in list(self._batches()):
            # Not paused at once: a consumer that is resumed may fetch nothing for up to a second.
            while not self.preparer.submit(batch, POLL_S):
                if self._is_paused or self._is_full():
                    self._poll_paused()
                else:
                    self._read(1, 0.0)

    def _batches(self) -> Iterator[Batch]:
        """
        Yield what was gathered under claims that hold.

        If there is more than one batch, the rest comes first in the next one.
        """
        gathered = self._gathered
        since_s = self._gathered_since_s
        self._gathered = {}
        self._gathered_documents = 0
        self._gathered_bytes = 0
        claims = {claim.partition: claim for claim in gathered if self.partitions.holds(claim)}
        known = self.partitions.known()
        messages: list[InputMessage] = []
        for number, claim in claims.items():
            ordered = sorted(gathered[claim], key=_by_offset)
            # Messages below the position are from before a seek, and are already in a batch.
            before = bisect_left(ordered, known[number].position, key=_by_offset)
            messages += ordered[before:]
        pieces = list(cut(messages, len(messages), self.settings.batch_bytes_max))
        if len(pieces) > 1:
            rest = pieces.pop()
            self._gathered = {
                claims[number]: list(run) for number, run in groupby(rest, _by_partition)
            }
            self._gathered_documents = len(rest)
            self._gathered_bytes = _bytes(rest)
            self._gathered_since_s = time.monotonic()
        for piece in pieces:
            shares: list[Share] = []
            kept: list[InputMessage] = []
            for partition, run in groupby(piece, _by_partition):
                part = list(run)
                claim = claims[partition]
                stop = part[-1].offset + 1
                first = self.partitions.read(claim, stop, first_stamp_ms(part))
                if first is not None:  # otherwise the partition has left while the batch was made
                    shares.append(Share(claim, first, stop, len(kept), len(kept) + len(part)))
                    kept += part
            if shares:
                yield Batch(kept, shares, since_s)


def _bytes(messages: Iterable[InputMessage]) -> int:
    return sum(message.size_bytes for message in messages)
