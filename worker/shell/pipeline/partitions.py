"""
What a worker knows of its partitions: one state machine, the only thing that intake, sequencer and publishing share.

    state       assign      read        publish     finish      rewind      restart     leave
    away        ready       -           -           -           -           -           -
    ready       ready       in-flight   -           -           rewinding   -           away
    in-flight   ready       in-flight   in-flight   ready       rewinding   -           away
    rewinding   ready       -           -           -           rewinding   ready       away

`publish` commits a part of what was read, `finish` the last of it. `rewind` asks for everything since the committed
offset to be read again; `restart` says from where. `leave` is a revocation, or that the partition is lost already.

A claim is the right to publish what was read of a partition. Each `assign` and each `rewind` makes a new one, and what
was read under an old one is void: its next reader, which may be this worker again, begins at the committed offset. So
a "-" cannot happen: whoever would cause it holds a void claim.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple

import structlog

__all__ = ["TRANSITIONS", "Claim", "Event", "Partitions", "State"]

_log = structlog.get_logger(__name__)


class State(StrEnum):
    """Of one partition."""

    AWAY = "away"  # another member's, or nobody's
    READY = "ready"  # ours; all that was read of it is published
    IN_FLIGHT = "in-flight"  # ours; something that was read is not published yet
    REWINDING = "rewinding"  # ours; nothing is read of it until it is known from where


class Event(StrEnum):
    """What happens to a partition."""

    ASSIGN = "assign"
    READ = "read"
    PUBLISH = "publish"
    FINISH = "finish"
    REWIND = "rewind"
    RESTART = "restart"
    LEAVE = "leave"


# fmt: off
TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.AWAY: {Event.ASSIGN: State.READY},
    State.READY: {
        Event.ASSIGN: State.READY, Event.READ: State.IN_FLIGHT, Event.REWIND: State.REWINDING, Event.LEAVE: State.AWAY,
    },
    State.IN_FLIGHT: {
        Event.ASSIGN: State.READY, Event.READ: State.IN_FLIGHT, Event.PUBLISH: State.IN_FLIGHT,
        Event.FINISH: State.READY, Event.REWIND: State.REWINDING, Event.LEAVE: State.AWAY,
    },
    State.REWINDING: {
        Event.ASSIGN: State.READY, Event.REWIND: State.REWINDING, Event.RESTART: State.READY, Event.LEAVE: State.AWAY,
    },
}
# fmt: on


class Claim(NamedTuple):
    """The right to publish what was read of a partition under it."""

    partition: int
    number: int  # no two claims have the same


class _Partition:
    __slots__ = ("claim", "position", "published", "state")

    def __init__(self) -> None:
        self.state = State.AWAY
        self.claim = Claim(-1, -1)
        self.position: int | None = None  # the next offset to read; None: the beginning
        self.published = -1  # the committed offset as far as it is known; -1: it is not

    def on(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]

    def begin_at(self, start: int | None) -> None:
        self.position, self.published = start, -1 if start is None else start


class Partitions:
    """
    The partitions of one worker. Any thread may call; the intake thread alone assigns, reads, restarts and lets go.

    Args:
        transaction_wait_s: how long a revocation waits for the end of a transaction.
    """

    def __init__(self, transaction_wait_s: float = 60.0) -> None:
        self._transaction_wait_s = transaction_wait_s
        self._lock = threading.Lock()
        self._transaction = threading.Lock()
        self._partitions: dict[int, _Partition] = {}  # ours
        self._claims: Mapping[int, Claim] = {}  # of those that may be read; replaced, never changed
        self._last_number = 0
        self._membership: Any = None

    def assign(self, starts: Mapping[int, int | None]) -> None:
        """Take partitions over, with their committed offsets (None: none)."""
        with self._lock:
            for partition, start in starts.items():
                ours = self._partitions.setdefault(partition, _Partition())
                ours.on(Event.ASSIGN)
                ours.begin_at(start)
                self._renew(partition, ours)
            self._publish_claims()
        _log.info("partitions assigned", offsets=dict(starts))

    def revoke(self, partitions: Iterable[int]) -> None:
        """Let partitions go at once, and wait for the end of a transaction that may hold offsets of them."""
        self._leave(partitions)
        if ended := self._transaction.acquire(timeout=self._transaction_wait_s):
            self._transaction.release()
        _log.info("partitions revoked", partitions=partitions, transaction_ended=ended)

    def lose(self, partitions: Iterable[int]) -> None:
        """Let partitions go that another member may have already: the group refuses what we still commit of them."""
        self._leave(partitions)
        _log.warning("partitions lost", partitions=partitions)

    def _leave(self, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                if ours := self._partitions.pop(partition, None):
                    ours.on(Event.LEAVE)
            self._publish_claims()

    def _renew(self, partition: int, ours: _Partition) -> None:
        self._last_number += 1
        ours.claim = Claim(partition, self._last_number)

    def _publish_claims(self) -> None:
        self._claims = {
            partition: ours.claim
            for partition, ours in self._partitions.items()
            if ours.state is not State.REWINDING
        }  # fmt: skip

    def claims(self) -> Mapping[int, Claim]:
        """Return the claim on each partition that may be read; the same object while none has changed."""
        return self._claims

    def holds(self, claim: Claim) -> bool:
        """Return whether what was read under this claim may still be published."""
        return self._claims.get(claim.partition) == claim

    def state(self, partition: int) -> State:
        """Return the state of a partition."""
        with self._lock:
            ours = self._partitions.get(partition)
            return State.AWAY if ours is None else ours.state

    def position(self, partition: int) -> int | None:
        """Return the next offset to read; None is the beginning."""
        with self._lock:
            ours = self._partitions.get(partition)
            return None if ours is None else ours.position

    def read(self, claim: Claim, first: int, stop: int) -> int | None:
        """
        Take what was read up to `stop` into a batch.

        Args:
            first: offset of the first message, which counts where the position is not known yet.
        Returns:
            where the range begins: at the position, whatever gap the topic has there. None: the claim is void.
        """
        with self._lock:
            ours = self._partitions.get(claim.partition)
            if ours is None or ours.claim != claim:
                return None
            ours.on(Event.READ)
            begin, ours.position = first if ours.position is None else ours.position, stop
            return begin

    def rewind(self) -> None:
        """
        Have everything since the committed offsets read again: what has been read so far is void.

        Publishing asks for it, between two transactions: nothing that is on its way can move these offsets any more.
        """
        with self._lock:
            for partition, ours in self._partitions.items():
                ours.on(Event.REWIND)
                self._renew(partition, ours)
            self._publish_claims()

    def rewinding(self) -> list[Claim]:
        """Return the claims to come of the partitions that are to be read again."""
        with self._lock:
            return [ours.claim for ours in self._partitions.values() if ours.state is State.REWINDING]

    def restart(self, starts: Mapping[Claim, int | None]) -> None:
        """Read on from these committed offsets; what has been rewound since they were asked for waits on."""
        with self._lock:
            for claim, start in starts.items():
                ours = self._partitions.get(claim.partition)
                if ours is not None and ours.claim == claim:
                    ours.on(Event.RESTART)
                    ours.begin_at(start)
            self._publish_claims()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold off revocations while a transaction runs; ask `holds` inside."""
        with self._transaction:
            yield

    def publish(self, stops: Mapping[Claim, int]) -> None:
        """Remember what has been committed; of a claim that is void by now another one knows the offset."""
        with self._lock:
            for claim, stop in stops.items():
                ours = self._partitions.get(claim.partition)
                if ours is not None and ours.claim == claim:
                    ours.on(Event.FINISH if stop == ours.position else Event.PUBLISH)
                    ours.published = stop

    def published(self) -> dict[int, int]:
        """Return the committed offset of each partition as far as it is known; -1: it is not."""
        with self._lock:
            return {partition: ours.published for partition, ours in self._partitions.items()}

    def are_in_flight(self) -> bool:
        """Return whether anything that was read is not published yet."""
        with self._lock:
            return any(ours.state is State.IN_FLIGHT for ours in self._partitions.values())

    def set_membership(self, membership: Any) -> None:
        """Keep the proof that the group has us; it changes with every rebalance."""
        self._membership = membership

    def membership(self) -> Any:
        """Return the proof that a commit carries; None before the first rebalance."""
        return self._membership
