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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import structlog

from worker.settings import Settings
from worker.shell.kafka.admin import Admin, Member, foreign_members
from worker.shell.kafka.reader import FIRST_S_MAX, GroupOffsets, first_messages
from worker.shell.runtime import metrics

LOOK_S = 30.0

_log = structlog.get_logger(__name__)


class GroupLook(NamedTuple):
    """The group at one time, as one worker reports it."""

    foreign: Sequence[Member]
    unowned: Mapping[int, int]  # partition -> documents that wait; empty if another counts them


def look(settings: Settings, admin: Admin) -> GroupLook | None:
    """
    Look at the group. Returns None while it rebalances.

    Raises:
        NeardupError: the cluster does not answer.
    """
    state, members = admin.members(settings.group)
    if state != "stable":
        return None
    foreign = foreign_members(members, are_static=settings.static_membership)
    workers = [member for member in members if member not in foreign]
    if counting(workers) not in (None, settings.worker_id):
        return GroupLook(foreign, {})
    name = settings.topic_documents
    count = admin.existing([name])[name].partitions
    owned = {number for member in workers for number in member.partitions}
    unowned = [number for number in range(count) if number not in owned]
    if not unowned:
        return GroupLook(foreign, {})
    with closing(GroupOffsets(settings, count)) as offsets:
        committed = offsets.get()
    ends = admin.ends({name: count}, stable=True)
    starts = {}
    for number in unowned:
        first, end = ends[name, number]
        start = max(committed[number].offset or 0, first)
        if start < end:
            starts[name, number] = start
    stops = {place: ends[place][1] for place in starts}
    firsts = first_messages(settings, starts, stops, FIRST_S_MAX) if starts else {}
    lags = dict.fromkeys(unowned, 0)
    for place, start in starts.items():
        lags[place[1]] = stops[place] - firsts.get(place, start)
    return GroupLook(foreign, lags)


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


class Membership:
    """Logs and counts what a worker sees of its group; each foreign member is logged once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._told: set[str] = set()

    def tell(self, seen: GroupLook | None) -> None:
        """Take a look at the group; None is no news."""
        if seen is None:
            return
        metrics.SOURCE_LAG.unowned = seen.unowned
        metrics.SOURCE_LAG.foreign = {
            (member.worker_id, member.host): len(member.partitions) for member in seen.foreign
        }
        for member in seen.foreign:
            self._tell(member)
        self._told &= {member.member_id for member in seen.foreign}

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
