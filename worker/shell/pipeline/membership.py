"""
What a worker knows of its group as a whole: members that are no workers, and partitions that no
worker has.

A consumer with the workers' group id is given partitions of the documents like a worker. Nobody
judges their documents meanwhile, and no worker's own lag counts them. So each worker looks at the
group now and then:

    members that are no workers     each worker logs them by name, and has a metric of each
    partitions without a worker     one worker counts their lag: the one with the lowest partition

By that rule no partition is counted twice: a worker's own lag has those that it owns, and only one
worker has the rest. If no worker has any partition, the first one by its name counts all. Two may
count the same for the time of a rebalance, and all do while none of them can join; so queries take
the largest value of each partition.

If a partition has no owner at all, `rejoin.py` decides by the `Shares` whether this worker has to
end that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.kafka.admin import Admin, Member, foreign_members
from worker.shell.kafka.reader import GroupOffsets, first_messages
from worker.shell.pipeline.intake import REJOIN_S
from worker.shell.pipeline.rejoin import LookEvent, RejoinRule, Shares
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

_log = get_logger(__name__)


class GroupLook(NamedTuple):
    """The group at one time."""

    partitions: int  # how many the documents have
    foreign: Sequence[Member]
    workers: Sequence[Member]
    shares: Shares

    @property
    def without_worker(self) -> list[int]:
        """The partitions that no worker owns, though another member may."""
        owned = {number for member in self.workers for number in member.partitions}
        return [number for number in range(self.partitions) if number not in owned]


class GroupNews(NamedTuple):
    """A finding of a look at the group that somebody should know."""

    foreign: Sequence[Member]
    lags: Mapping[int, int]  # as `lags` returns them


def partitions_of(settings: Settings, admin: Admin) -> int:
    """
    Return how many partitions the documents have.

    Raises:
        NeardupError: the cluster does not answer, or there is no such topic.
    """
    name = settings.topic_documents
    return admin.existing([name])[name].partitions


def look(settings: Settings, admin: Admin, count: int) -> GroupLook | None:
    """
    Look at the group. Returns None while it rebalances.

    Nothing else is asked for here: what is decided by the answer must not wait for it.

    Args:
        count: how many partitions the documents have.
    Raises:
        NeardupError: the group's coordinator does not answer.
    """
    state, members = admin.members(settings.group)
    if not state:
        raise RetryError(f"the coordinator of group {settings.group} does not answer")
    if state != "stable":
        return None
    foreign = foreign_members(members, are_static=settings.static_membership)
    workers = [member for member in members if member not in foreign]
    return GroupLook(
        count, foreign, workers, Shares.of(members, workers, settings.worker_id, count)
    )


def lags(settings: Settings, admin: Admin, seen: GroupLook) -> dict[int, int]:
    """
    Return how many documents wait in each partition that no worker has.

    It is empty if another worker counts them.

    Cost: some requests, and up to FIRST_S_MAX for what stands before the first document.

    Raises:
        NeardupError: the cluster does not answer.
    """
    unowned = seen.without_worker
    if not unowned or counting(seen.workers) not in (None, settings.worker_id):
        return {}
    name, count = settings.topic_documents, seen.partitions
    ends = admin.ends({name: count}, stable=True)
    with closing(GroupOffsets(settings, count)) as offsets:
        committed = offsets.get()
    starts = {}
    for number in unowned:
        first, end = ends[name, number]
        start = max(committed[number].offset or 0, first)
        if start < end:
            starts[name, number] = start
    stops = {place: ends[place][1] for place in starts}
    firsts = first_messages(settings, starts, stops) if starts else {}
    waiting = dict.fromkeys(unowned, 0)
    for place, start in starts.items():
        waiting[place[1]] = stops[place] - firsts.get(place, start)
    return waiting


def counting(workers: Sequence[Member]) -> str | None:
    """
    Return the id of the worker that counts the lag of partitions without a worker.

    >>> counting([Member("m1", "w1", "a", (3,)), Member("m2", "w2", "b", (1, 2))])
    'w2'
    >>> counting([Member("m1", "w1", "a", ()), Member("m2", "w0", "b", ())])
    'w0'
    """
    owners = {member.partitions[0]: member.worker_id for member in workers if member.partitions}
    if owners:
        return owners[min(owners)]
    return min((member.worker_id for member in workers), default=None)


def patience_s(settings: Settings) -> float:
    """Return how long a partition may have no owner for a good reason: see `rejoin.py`."""
    return settings.session_timeout_ms / 1_000 + 4 * settings.call_timeout_s


class Membership:
    """
    Looks at the group, leaves it if that has to be, and logs and counts what it sees.

    Args:
        rejoin: leaves the group and joins it again, in another thread.
        clock: returns seconds, which never go back.
    """

    def __init__(
        self,
        settings: Settings,
        admin: Admin,
        rejoin: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._rejoin = rejoin
        self._clock = clock
        self._rule = RejoinRule(patience_s(settings), clock)
        self._told: set[str] = set()  # each foreign member is logged once

    def look(self) -> GroupNews | None:
        """
        Look at the group, decide at once whether to join it again, and then count what waits.

        Counting takes requests of its own. By their end the look may be too old to decide by, and
        so is an answer that takes longer than REJOIN_S. Then the next look decides.

        Returns:
            What to tell; None while the group rebalances.
        Raises:
            NeardupError: the cluster does not answer. If it did not even say who is in the group,
                nothing is decided: the next look is compared with the last one that had an answer.
        """
        count = partitions_of(self._settings, self._admin)
        asked_s = self._clock()
        seen = look(self._settings, self._admin, count)
        took_s = self._clock() - asked_s
        if took_s <= REJOIN_S:
            self._decide(None if seen is None else seen.shares)
        else:
            _log.info("the group answers too late to decide by", seconds=round(took_s, 1))
        if seen is None:
            return None
        return GroupNews(seen.foreign, lags(self._settings, self._admin, seen))

    def _decide(self, shares: Shares | None) -> None:
        if self._settings.group_protocol != "classic":
            return
        attempts = self._rule.attempts
        match self._rule.take(shares):
            case LookEvent.WHOLE if attempts:
                _log.info("every partition has an owner again", attempts=attempts)
            case LookEvent.DUE if shares is not None:
                _log.warning(
                    "partitions have no owner, and the group does not share them out: leaving it "
                    "and joining it again",
                    partitions=list(shares.without_owner),
                    attempt=self._rule.attempts,
                    next_after_s_min=self._rule.wait_s(shares.turn or 0),
                )
                self._rejoin()

    def tell(self, news: GroupNews | None) -> None:
        """Log and count what a look has found; None is no news."""
        if news is None:
            return
        metrics.SOURCE_LAG.unowned = news.lags
        metrics.SOURCE_LAG.foreign = {
            (member.worker_id, member.host): len(member.partitions) for member in news.foreign
        }
        for member in news.foreign:
            self._tell(member)
        self._told &= {member.member_id for member in news.foreign}

    def _tell(self, member: Member) -> None:
        if member.member_id in self._told:
            return
        self._told.add(member.member_id)
        _log.warning(
            "a member of the group is no worker",
            client_id=member.worker_id,
            host=member.host,
            member_id=member.member_id,
            documents_partitions=list(member.partitions),
            other_partitions=list(member.elsewhere),
            remedy=f"group {self._settings.group} is the workers' own: give that program another "
            "group.id. The documents of its partitions are not judged while it has them, and if "
            "it commits offsets, workers refuse them: neardup offsets restore",
        )
