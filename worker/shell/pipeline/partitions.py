"""
What a worker knows of its partitions: one state machine, the only thing that intake, sequencer and
publishing share.

`TABLE` below draws what happens to a partition, and what state it has then.

`publish` commits a part of what was read, `finish` the last of it. `rewind` asks for everything
since the committed offset to be read again; `restart` says from where. `leave` is a revocation, or
that the partition is lost already.

A claim is the right to publish what was read of a partition. Each `assign` and each `rewind` makes
a new one, and what
was read under an old one is void: its next reader, which may be this worker again, begins at the
committed offset. So a "-" cannot happen: whoever would cause it holds a void claim.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import structlog

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


# The state after an event, by the one before: as this is drawn it rules.
TABLE = """
    state       assign      read        publish     finish      rewind      restart     leave
    away        ready       -           -           -           -           -           -
    ready       ready       in-flight   -           -           rewinding   -           away
    in-flight   ready       in-flight   in-flight   ready       rewinding   -           away
    rewinding   ready       -           -           -           rewinding   ready       away
"""
_HEAD, *_ROWS = (line.split() for line in TABLE.strip().splitlines())
TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State(state): {
        Event(event): State(to) for event, to in zip(_HEAD[1:], cells, strict=True) if to != "-"
    }
    for state, *cells in _ROWS
}


class Claim(NamedTuple):
    """The right to publish what was read of a partition under it."""

    partition: int
    number: int  # no two claims have the same


class Partition(NamedTuple):
    """What is known of one partition."""

    claim: Claim
    state: State = State.AWAY
    position: int | None = None  # the next offset to read; None: the beginning
    published: int = -1  # the committed offset as far as it is known; -1: it is not
    # Time stamp of what was read and is not published, a little earlier at most; 0: nothing.
    waits_since_ms: int = 0

    def after(self, event: Event, **changed: Any) -> Partition:
        return self._replace(state=TRANSITIONS[self.state][event], **changed)

    def begin(self, event: Event, claim: Claim, start: int | None) -> Partition:
        published = -1 if start is None else start
        return self.after(event, claim=claim, position=start, published=published, waits_since_ms=0)


class Partitions:
    """
    The partitions of one worker. Any thread may call; the intake thread alone assigns, reads,
    restarts, lets go.
    """

    def __init__(self, transaction_wait_s: float = 60.0) -> None:
        self._transaction_wait_s = transaction_wait_s
        self._lock = threading.Lock()  # held while `_known` is replaced
        # Held while one runs, to hold off revocations; ask `holds` inside.
        self.transaction = threading.Lock()
        self._known: Mapping[int, Partition] = {}  # ours; never changed
        self._last_number = 0
        # What a commit carries; None before the first rebalance, and each has another.
        self.group_metadata: Any = None

    def known(self) -> Mapping[int, Partition]:
        """Return what is known now of each partition that is ours."""
        return self._known

    def claims(self) -> dict[int, Claim]:
        """Return the claim on each partition that may be read."""
        return {
            number: ours.claim
            for number, ours in self._known.items()
            if ours.state is not State.REWINDING
        }

    def holds(self, claim: Claim) -> bool:
        """Return whether what was read under this claim may still be published."""
        ours = self._known.get(claim.partition)
        return ours is not None and ours.claim == claim and ours.state is not State.REWINDING

    def are_in_flight(self) -> bool:
        """Return whether anything that was read is not published yet."""
        return any(ours.state is State.IN_FLIGHT for ours in self._known.values())

    def _new_claim(self, partition: int) -> Claim:
        self._last_number += 1
        return Claim(partition, self._last_number)

    def assign(self, starts: Mapping[int, int | None]) -> None:
        """Take partitions over, with their committed offsets (None: none)."""
        with self._lock:
            came = {}
            for number, start in starts.items():
                claim = self._new_claim(number)
                came[number] = self._known.get(number, Partition(claim)).begin(
                    Event.ASSIGN, claim, start
                )
            self._known = {**self._known, **came}
        _log.info("partitions assigned", offsets=dict(starts))

    def revoke(self, partitions: Collection[int]) -> None:
        """
        Let partitions go at once, and wait for the end of a transaction that may hold offsets of
        them.
        """
        self._leave(partitions)
        if ended := self.transaction.acquire(timeout=self._transaction_wait_s):
            self.transaction.release()
        _log.info("partitions revoked", partitions=partitions, transaction_ended=ended)

    def lose(self, partitions: Collection[int]) -> None:
        """
        Let partitions go that another member may have already: the group refuses what we still
        commit of them.
        """
        self._leave(partitions)
        _log.warning("partitions lost", partitions=partitions)

    def _leave(self, partitions: Collection[int]) -> None:
        with self._lock:
            after = {
                number: ours.after(Event.LEAVE) if number in partitions else ours
                for number, ours in self._known.items()
            }
            self._known = {
                number: ours for number, ours in after.items() if ours.state is not State.AWAY
            }

    def read(self, claim: Claim, first: int, stop: int, timestamp_ms: int = 0) -> int | None:
        """
        Take what was read up to `stop` into a batch; `first` and `timestamp_ms` are of its first
        message.

        Returns where the range begins: at the position, whatever gap the topic has there. None: the
        claim is void.
        """
        with self._lock:
            if not self.holds(claim):
                return None
            ours = self._known[claim.partition]
            since_ms = ours.waits_since_ms or timestamp_ms
            after = ours.after(Event.READ, position=stop, waits_since_ms=since_ms)
            self._known = {**self._known, claim.partition: after}
            return first if ours.position is None else ours.position

    def rewind(self) -> None:
        """
        Have everything since the committed offsets read again; between two transactions, so that
        they stay.
        """
        with self._lock:
            self._known = {
                number: ours.after(Event.REWIND, claim=self._new_claim(number))
                for number, ours in self._known.items()
            }

    def rewinding(self) -> list[Claim]:
        """Return the claims to come of the partitions that are to be read again."""
        return [ours.claim for ours in self._known.values() if ours.state is State.REWINDING]

    def restart(self, starts: Mapping[Claim, int | None]) -> None:
        """
        Read on from these committed offsets; what has been rewound since they were asked for waits
        on.
        """
        with self._lock:
            again = {
                claim.partition: self._known[claim.partition].begin(Event.RESTART, claim, start)
                for claim, start in starts.items()
                if claim in self.rewinding()
            }
            self._known = {**self._known, **again}

    def publish(self, stops: Mapping[Claim, int], timestamps_ms: Mapping[Claim, int] = {}) -> None:
        """
        Remember what was committed under claims that hold, with the time stamps of the last
        messages of it.
        """
        with self._lock:
            known = dict(self._known)
            for claim, stop in stops.items():
                if self.holds(claim):
                    ours = known[claim.partition]
                    event = Event.FINISH if stop == ours.position else Event.PUBLISH
                    since_ms = 0 if event is Event.FINISH else timestamps_ms.get(claim, 0)
                    known[claim.partition] = ours.after(
                        event, published=stop, waits_since_ms=since_ms
                    )
            self._known = known
