"""
When a worker leaves its group and joins it again, because some partitions have no owner.

A group can come to rest although nobody owns some of its partitions. Kafka moves a partition in two
rebalances. After the first one nobody has it. The member that has given it up then joins again, and
that begins the second one. If that member is replaced in between, there is no second one: the
successor of a static member gets the share that the group has noted for its id (KIP-345), and does
not join again. A worker is replaced like this if it was fenced or has died, and is started again
within the session time-out:

    one {0 1 2 3}   two {}       two joins
    one {2 3}       two {}       first rebalance: one is to give up 0 and 1, and to join again
    one' {2 3}      two {}       one is replaced: the group is stable, and 0 and 1 have no owner

Their documents wait until a member comes or goes. So one worker goes and comes back. When it really
leaves (a static member that only ends keeps its share), the group's leader shares everything out
anew.

Each worker looks at the group every `LOOK_S`, and decides at once by what it sees:

    event     the look says                                    the worker
    moves     a rebalance is under way                         forgets since when
    whole     every partition has an owner                     forgets since when, and the attempts
    changed   some have none; members or shares are others     begins to wait
    lasts     some have none; nothing has changed              goes on waiting
    due       the same, and this worker's wait has run out     leaves and joins again: an attempt

A look without an answer is none, also if it is the group's coordinator that gave none, or one whose
answer is late.

The wait. There is a good reason for a partition without an owner while its former owner is still in
the poll that gives it up, or while the group still expects that owner, which it does for a session.
A poll waits for the end of a transaction and for committed offsets, and the intake allows it four
times `call_timeout_s`. So nobody acts before both times have passed.

The turns. The worker with the fewest partitions is the first, because it has the least to give up.
The next one waits twice as long, the one after it three times, in case the first one hangs. When
the first one acts, the others see the group change, and begin to wait again.

The attempts. If a wait has run out, the group has changed and partitions still have no owner, the
next waits are twice as long, whichever worker acted. Each worker counts these attempts for itself.
An attempt after which the group has not changed does not count: the worker was busy, or could not
leave. It tries again after the same wait.

An attempt loses no document and answers none twice: partitions are revoked as in any rebalance.

Only the classic protocol needs this. With the other one (KIP-848) no member shares out, but the
coordinator, which knows what nobody owns; and there a static member does not leave its group by
unsubscribing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

from worker.shell.kafka.admin import Member
from worker.shell.runtime.logging import get_logger

LOOK_S = 30.0
# A wait grows to at most 8 times its length: with the defaults 33 minutes for the first worker.
DOUBLINGS_MAX = 3

_log = get_logger(__name__)


class Shares(NamedTuple):
    """Who owns what in a stable group, and when it would be this worker's turn to change that."""

    owners: tuple[tuple[str, tuple[int, ...]], ...]  # member id, partitions of the documents
    without_owner: tuple[int, ...]
    turn: int | None  # how many workers have their turn before this one; None: it is no member

    @classmethod
    def of(
        cls, members: Sequence[Member], workers: Sequence[Member], worker_id: str, partitions: int
    ) -> Self:
        """
        Return the shares of a group.

        Args:
            members: all members, workers or not.
            workers: those of them that are workers.
            worker_id: who asks.
            partitions: how many partitions the documents have.

        >>> one, two = Member("m1", "one", "a", (2, 3)), Member("m2", "two", "b", ())
        >>> Shares.of([one, two], [one, two], "one", 4)[1:]
        ((0, 1), 1)
        """
        owned = {number for member in members for number in member.partitions}
        turns = sorted(workers, key=lambda one: (len(one.partitions), one.worker_id, one.member_id))
        names = [member.worker_id for member in turns]
        return cls(
            tuple(sorted((member.member_id, member.partitions) for member in members)),
            tuple(number for number in range(partitions) if number not in owned),
            names.index(worker_id) if worker_id in names else None,
        )


class LookEvent(StrEnum):
    """The result of a look; see the table above."""

    MOVES = "moves"
    WHOLE = "whole"
    CHANGED = "changed"
    LASTS = "lasts"
    DUE = "due"


class RejoinRule:
    """
    Decides, look after look, whether this worker leaves its group and joins it again.

    Args:
        patience_s: how long the first worker waits, at first.
        clock: returns seconds, which never go back.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        # Waits that have run out before the group changed, this worker's or another's, since WHOLE.
        self._counted = 0
        self._is_under_way = False  # this worker's attempt; the group has not changed since
        self._patience_s = patience_s
        self._clock = clock
        self._shares: Shares | None = None  # as of the last look, if some had no owner
        self._seen_s = 0.0  # when that was
        self._lasted_s = 0.0

    @property
    def attempts(self) -> int:
        """How many attempts there were since every partition had an owner, with one under way."""
        return self._counted + self._is_under_way

    def take(self, shares: Shares | None) -> LookEvent:
        """Take what a look says (None: moves), as soon as it is known. Return what it means."""
        event = self._event(shares)
        match event:
            case LookEvent.WHOLE:
                self._counted = 0
            case LookEvent.MOVES | LookEvent.CHANGED:
                self._counted += self._is_under_way or self._has_run_out()
        if event is not LookEvent.LASTS:
            self._is_under_way = event is LookEvent.DUE
            self._lasted_s = 0.0
        self._shares = None if event in (LookEvent.MOVES, LookEvent.WHOLE) else shares
        return event

    def wait_s(self, turn: int) -> float:
        """
        Return how long the worker of this turn waits at present.

        As long as it will wait after an attempt that is due now, if the group does not change.
        """
        return float(self._patience_s * (turn + 1) * 2 ** min(self._counted, DOUBLINGS_MAX))

    def _event(self, shares: Shares | None) -> LookEvent:
        if shares is None:
            return LookEvent.MOVES
        if not shares.without_owner:
            return LookEvent.WHOLE
        now_s = self._clock()
        # A process that stood still does not know what was in between.
        passed_s = min(now_s - self._seen_s, 2 * LOOK_S)
        self._seen_s = now_s
        if self._shares is None or self._shares.owners != shares.owners:
            return LookEvent.CHANGED
        self._lasted_s += passed_s
        if shares.turn is None or self._lasted_s < self.wait_s(shares.turn):
            return LookEvent.LASTS
        return LookEvent.DUE

    def _has_run_out(self) -> bool:
        """Return whether the first worker's wait had run out when the group changed."""
        return self._shares is not None and self._lasted_s + LOOK_S >= self.wait_s(0)
