"""
A group whose workers are all stopped, for the commands that write in their place: `verify --mend`,
`offsets restore` and `log renew`.

    wait      until it has no member: a worker that was killed counts as one for a session
    look      at the offsets that it has
    refuse    a log that is not the one, whole, with which they were committed
              … the command reads the topics, and decides …
    write     only if it still has no member, and still those offsets
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.reader import GroupOffsets
from worker.shell.pipeline.offsets import (
    CommitMetadata,
    Committed,
    check_log,
    foreign,
    restore_command,
)
from worker.shell.pipeline.service import record_digest_at
from worker.shell.ports import CommittedOffset
from worker.shell.runtime.logging import get_logger

LOOK_S = 0.5
_STOPPED = ("empty", "dead")  # states of a group without a member

_log = get_logger(__name__)


class MembersError(StopError):
    """
    The group has members, or nobody knows whether it has.

    Args:
        names: their worker ids, for a message; empty if none is known.
    """

    def __init__(self, text: str, names: str) -> None:
        self.names = names
        super().__init__(text)


@dataclass(frozen=True)
class StoppedGroup:
    """
    A group that had no member, and the offsets that it had then.

    Attributes:
        settings: those of the group's workers.
        admin: asks for the group's members.
        offsets: asks for the group's offsets as they are now, and sets them.
        committed: the offsets by partition, as they were when the group had no member: nothing is
            written once they are others.
        log_id: the id of the log, with which the offsets were committed.
        doing: what may be done only while no worker runs, for messages.
    """

    settings: Settings
    admin: Admin
    offsets: GroupOffsets
    committed: Committed
    log_id: str
    doing: str

    def refuse_foreign(self) -> None:
        """
        Refuse offsets that no worker has committed: they do not say what is answered.

        Raises:
            StopError: there is such an offset.
        """
        if found := foreign(self.committed, self.log_id):
            raise StopError(
                f"no worker has committed the offsets of group {self.settings.group} "
                f"in partitions {', '.join(map(str, found))}, so they do not say what is answered. "
                f"First: {restore_command(self.settings)}"
            )

    def refuse_change(self) -> None:
        """
        Refuse to write for a group that is no longer as it was.

        Raises:
            MembersError: a worker has come.
            StopError: the offsets have changed, so somebody else commits them.
        """
        _refuse_members(self.settings, self.admin, self.doing)
        if self.offsets.get() != self.committed:
            raise StopError(
                f"the offsets of group {self.settings.group} have changed since they were looked "
                "at: they are left as they are. Find out who commits them, then run it again"
            )

    def set(self, commits: Mapping[int, CommittedOffset]) -> None:
        """
        Commit offsets for the group.

        Raises:
            RetryError, StopError: it is no longer as it was, or it does not answer.
        """
        self.refuse_change()
        self.offsets.set(commits)


@contextmanager
def stopped_group(
    settings: Settings, admin: Admin, topics: Mapping[str, Topic], doing: str
) -> Iterator[StoppedGroup]:
    """
    Wait until a group has no member, and look at its offsets.

    Args:
        topics: the topics of documents and of the log as they are now, and perhaps others.
        doing: what may be done only while no worker runs, for messages.
    Raises:
        MembersError: a session later it still has a member, or its coordinator does not answer.
        StopError: the offsets were committed with another log, or this one has lost records.
    """
    log_id = topics[settings.topic_fingerprints].topic_id.hex()
    partitions = topics[settings.topic_documents].partitions
    with closing(GroupOffsets(settings, partitions)) as offsets:
        _await_stopped(settings, admin, doing)
        committed = offsets.get()
        parsed = (CommitMetadata.parse(metadata) for _, metadata in committed.values())
        check_log(
            settings,
            [metadata for metadata in parsed if metadata is not None],
            log_id,
            log_end=lambda: admin.log_end(settings.topic_fingerprints),
            digest_at=lambda offset: record_digest_at(settings, offset),
        )
        yield StoppedGroup(settings, admin, offsets, committed, log_id, doing)


def _await_stopped(settings: Settings, admin: Admin, doing: str) -> None:
    """Wait for the end of the sessions: a static member that has ended counts until then."""
    session_s = settings.session_timeout_ms / 1_000
    deadline = time.monotonic() + session_s
    has_told = False
    while True:
        try:
            return _refuse_members(settings, admin, doing)
        except MembersError as error:
            if time.monotonic() > deadline:
                raise MembersError(
                    f"{error}: it has waited {session_s:g} s for sessions of workers that have "
                    "ended",
                    error.names,
                ) from error
            if not has_told:
                has_told = True
                whose = error.names or f"the workers of group {settings.group}"
                _log.warning(f"waiting up to {session_s:g} s for the sessions of {whose}")
        time.sleep(LOOK_S)


def _refuse_members(settings: Settings, admin: Admin, doing: str) -> None:
    """
    Refuse if a worker may still publish.

    Raises:
        MembersError: the group has members, or its members are unknown.
        StopError: the cluster refuses to say.
    """
    state, members = admin.members(settings.group)
    if members or state not in _STOPPED:
        names = ", ".join(member.worker_id for member in members)
        count = f"{len(members)} member{'' if len(members) == 1 else 's'}"
        known = state or "not known, for its coordinator does not answer"
        raise MembersError(
            f"group {settings.group} is {known}, with {count} ({names or 'nobody yet'}): "
            f"{doing} only while no worker runs. Stop all of them",
            names,
        )
