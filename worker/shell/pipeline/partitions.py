"""
What a worker knows about its partitions: one state machine, and the only thing that its three
threads share.

Intake, sequencer and publishing work on different batches at the same time, and the group can take
a partition away at any moment. The threads do not inform each other; each asks here which
partitions are still ours.

`TABLE` below draws what happens to a partition, and what state it has then.

    assign     the group gives us the partition, with its committed offset
    read       messages go into a batch
    publish    a part of what was read is committed; `finish`: the last of it
    rewind     everything since the committed offset is to be read again: a commit is in doubt
    restart    the intake has asked for the committed offset, and reads on from there
    leave      the group revokes it, or it is lost already

Claims. A claim is the right to publish what was read of a partition. Each `assign` and each
`rewind` makes a new one. All messages that were read under an old claim are void: the next reader,
which may be this worker again, begins at the committed offset. So no thread has to empty the
queues: a batch carries its claims, and a stage drops the shares whose claims are void. A "-" in the
table cannot happen, because the thread that would cause it holds a void claim. If it happens all
the same, a KeyError ends the worker.

Invariants
- `published` <= `position`, and both belong to the claim.
- The known partitions are a value that is replaced as a whole, under the lock, and never changed.
  So readers take no lock, and the value that they have read stays consistent.
- `transaction` is held from the look at the claims to the end of the commit; `revoke` waits for it.
  A lost partition is not waited for: the group refuses what we would commit.

Rejected, and why
- Parts of the state in three objects, with flags of two threads: a reader could not see whether
  they always agreed. Now one table is drawn, executed and tested as it stands.
- Kafka's fencing alone: it fences a member, not a partition, so a member that rejoined could commit
  offsets of a partition that it had lost meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from worker.shell.runtime.logging import get_logger

_log = get_logger(__name__)


class State(StrEnum):
    """The states of one partition."""

    AWAY = "away"  # another member has it, or none
    READY = "ready"  # ours; all that was read of it is published
    IN_FLIGHT = "in-flight"  # ours; something that was read is not published yet
    REWINDING = "rewinding"  # ours; nothing is read until the offset to read from is known


class Event(StrEnum):
    """An event in the life of a partition."""

    ASSIGN = "assign"
    READ = "read"
    PUBLISH = "publish"
    FINISH = "finish"
    REWIND = "rewind"
    RESTART = "restart"
    LEAVE = "leave"


# The state after an event, by the state before it. The code reads this drawing: "-" cannot happen.
TABLE = """
    state       assign      read        publish     finish      rewind      restart     leave
    away        ready       -           -           -           -           -           -
    ready       ready       in-flight   -           -           rewinding   -           away
    in-flight   ready       in-flight   in-flight   ready       rewinding   -           away
    rewinding   ready       -           -           -           rewinding   ready       away
"""


def _transitions(table: str) -> dict[State, dict[Event, State]]:
    """Read the drawing: a row per state, a column per event."""
    (_, *events), *rows = (line.split() for line in table.strip().splitlines())
    transitions = {}
    for state, *cells in rows:
        row = zip(events, cells, strict=True)
        transitions[State(state)] = {Event(event): State(to) for event, to in row if to != "-"}
    return transitions


TRANSITIONS: Mapping[State, Mapping[Event, State]] = _transitions(TABLE)


class Claim(NamedTuple):
    """
    The right to publish answers to the messages that were read of a partition under this claim.
    """

    partition: int
    number: int  # no two claims have the same


class Partition(NamedTuple):
    """The state of one partition: a value, which each event replaces."""

    claim: Claim
    state: State = State.AWAY
    position: int = 0  # the next offset to read
    published: int = 0  # the last known committed offset
    # The time stamp of the oldest message that was read and not published, or slightly earlier; 0
    # if there is none.
    waits_since_ms: int = 0

    def after(self, event: Event, **changed: Any) -> Partition:
        """
        Return the partition after an event. Raises KeyError if the event cannot happen in this
        state.
        """
        return self._replace(state=TRANSITIONS[self.state][event], **changed)

    def begin(self, event: Event, claim: Claim, start: int) -> Partition:
        """Return the partition at its committed offset, with nothing read since."""
        return self.after(event, claim=claim, position=start, published=start, waits_since_ms=0)


class Partitions:
    """
    The partitions of one worker.

    Any thread may call. The intake's thread alone calls `assign`, `revoke`, `lose`, `read` and
    `restart`, all but `read` and `restart` as callbacks of its consumer; the publishing thread
    calls `publish` and `rewind`.

    Args:
        transaction_wait_s: how long a revocation waits for the end of a transaction.

    Cost: O(partitions) per change; a look takes no lock.
    """

    def __init__(self, transaction_wait_s: float = 60.0) -> None:
        self._transaction_wait_s = transaction_wait_s
        self._lock = threading.Lock()  # held while `_known` is replaced
        # Held by publishing during a transaction, so that revocations wait; ask `holds` inside.
        self.transaction = threading.Lock()
        self._known: Mapping[int, Partition] = {}  # ours; never changed
        self._last_number = 0
        # The metadata that a commit carries. None before the first rebalance; each rebalance
        # changes it.
        self.group_metadata: Any = None

    def known(self) -> Mapping[int, Partition]:
        """Return the present state of each partition that is ours."""
        return self._known

    def claims(self) -> dict[int, Claim]:
        """Return the claim on each partition that may be read."""
        return {
            number: ours.claim
            for number, ours in self._known.items()
            if ours.state is not State.REWINDING
        }

    def holds(self, claim: Claim) -> bool:
        """Return whether documents read under this claim may still be published."""
        ours = self._known.get(claim.partition)
        return ours is not None and ours.claim == claim and ours.state is not State.REWINDING

    def are_in_flight(self) -> bool:
        """Return whether anything that was read is not published yet."""
        return any(ours.state is State.IN_FLIGHT for ours in self._known.values())

    def _new_claim(self, partition: int) -> Claim:
        self._last_number += 1
        return Claim(partition, self._last_number)

    def assign(self, starts: Mapping[int, int]) -> None:
        """Take partitions over, with their committed offsets."""
        with self._lock:
            assigned = {}
            for number, start in starts.items():
                claim = self._new_claim(number)
                before = self._known.get(number, Partition(claim))
                assigned[number] = before.begin(Event.ASSIGN, claim, start)
            self._known = {**self._known, **assigned}
        _log.info("partitions assigned", offsets=dict(starts))

    def revoke(self, partitions: Collection[int]) -> None:
        """
        Let partitions go, and wait for the end of a transaction that may hold offsets of them.

        Their claims become void at once, so the next transaction contains nothing of them. When
        this returns, the group gives them to other members. The wait is limited, because the group
        expels a consumer that does not answer in time, and gives all of its partitions away.
        """
        self._leave(partitions)
        ended = self.transaction.acquire(timeout=self._transaction_wait_s)
        if ended:
            self.transaction.release()
        _log.info("partitions revoked", partitions=partitions, transaction_ended=ended)

    def lose(self, partitions: Collection[int]) -> None:
        """
        Let partitions go that another member may already have.

        It does not wait for a transaction, because the group refuses our commits of these
        partitions.
        """
        self._leave(partitions)
        _log.warning("partitions lost", partitions=partitions)

    def _leave(self, partitions: Collection[int]) -> None:
        with self._lock:
            stay = {}
            for number, ours in self._known.items():
                after = ours.after(Event.LEAVE) if number in partitions else ours
                if after.state is not State.AWAY:
                    stay[number] = after
            self._known = stay

    def read(self, claim: Claim, stop: int, timestamp_ms: int = 0) -> int | None:
        """
        Note that the messages up to `stop` go into a batch.

        Args:
            claim: the claim under which they were read.
            stop: the offset after the last message.
            timestamp_ms: time stamp of the first message that has one; 0: none has.
        Returns:
            The beginning of the range: the position. So ranges leave no gaps between them, even if
                the topic has gaps (aborted records, markers). None: the claim is void.
        """
        with self._lock:
            if not self.holds(claim):
                return None
            ours = self._known[claim.partition]
            since_ms = ours.waits_since_ms or timestamp_ms
            after = ours.after(Event.READ, position=stop, waits_since_ms=since_ms)
            self._known = {**self._known, claim.partition: after}
            return ours.position

    def rewind(self) -> None:
        """
        Void everything that has been read, so that it is read again from the committed offsets on.

        Publishing calls it between two transactions, so no open transaction can still move the
        committed offsets.
        """
        with self._lock:
            self._known = {
                number: ours.after(Event.REWIND, claim=self._new_claim(number))
                for number, ours in self._known.items()
            }

    def rewinding(self) -> list[Claim]:
        """
        Return the claims of the partitions that must be read again. They are valid after `restart`.
        """
        return [ours.claim for ours in self._known.values() if ours.state is State.REWINDING]

    def restart(self, starts: Mapping[Claim, int]) -> None:
        """
        Read on from these committed offsets.

        If a partition was rewound again after the offsets were asked for, it has another claim, and
        waits for the next answer.
        """
        with self._lock:
            known = dict(self._known)
            rewinding = self.rewinding()
            for claim, start in starts.items():
                if claim in rewinding:
                    known[claim.partition] = known[claim.partition].begin(
                        Event.RESTART, claim, start
                    )
            self._known = known

    def publish(self, stops: Mapping[Claim, int], timestamps_ms: Mapping[Claim, int] = {}) -> None:
        """
        Remember the committed offsets.

        Args:
            stops: the offset after the last committed message, by claim. Void claims are ignored.
            timestamps_ms: the time stamp of the last committed message that has one, from which the
                age of waiting messages is computed. If it is 0 or left out, none has, and the age
                goes on from where it was.
        """
        with self._lock:
            known = dict(self._known)
            for claim, stop in stops.items():
                if self.holds(claim):
                    ours = known[claim.partition]
                    event = Event.FINISH if stop == ours.position else Event.PUBLISH
                    since_ms = 0
                    if event is not Event.FINISH:
                        since_ms = timestamps_ms.get(claim) or ours.waits_since_ms
                    known[claim.partition] = ours.after(
                        event, published=stop, waits_since_ms=since_ms
                    )
            self._known = known
