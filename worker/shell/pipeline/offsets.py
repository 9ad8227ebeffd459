"""
Where a partition may begin: whose the group's offsets are, and what the log says of them.

The group's offsets are Kafka's, and anybody may change them: they expire when a group stands idle
(after seven days by default), tools delete or set them, and a consumer with the workers' group id
commits its own. A worker that believed such an offset would publish verdicts a second time, or
would never judge some documents. So each commit of a worker carries `CommitMetadata`, and
`Admission` compares it with the log before a partition is read:

    the group has             the log covers the partition    it does not
    a commit of ours          go on there                     go on there
    no commit                 refused                         the beginning is committed, then read
    a commit of another       refused                         refused if it skips a document, else
                                                              as without a commit

A commit is ours if it names this log, stands at the offset that it was made for, and lies between
what the log knows to be committed and what it covers.

The invariant that makes this decidable: the group has a commit of ours for a partition *before* the
log has anything of it. So a worker that dies between its first append and its first commit leaves a
partition that goes on by itself: all that the log has of it is answered again from the beginning
that was committed. If the log covers a partition without such a commit, somebody has removed it.

The first commit is made by the member that was given the partition, so the group refuses it when
another member has the partition meanwhile. And it is made only when everything is applied that the
log held after the group had answered. Until then another worker's records may be on their way.

A worker also checks all partitions before it joins, while others commit and append. What the log
said *before* the group was asked must be in the group's answer. What the answer says must be in the
log *after* it. Of records that came in between, the answer need not know.

Rejected, and why
- The log alone: its records carry their author's commits, but the last commit of a partition is in
  no record, so a batch that was published could not be told from one that was not.
- Reading the topic of verdicts at every assignment: it takes minutes, and retention may have
  deleted what would have to be found. `neardup offsets restore` does it, once.
- Accepting any offset of a partition that the log does not cover: a consumer with the workers'
  group id takes added partitions, commits, and their documents would never be judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, Self

from worker.errors import OffsetError, RetryError, StopError
from worker.log.record import Source
from worker.log.replica import SourceReach
from worker.settings import TOPICS, Settings, command
from worker.shell.ports import CommittedOffset

LAG_WAIT_S = 10.0  # a new leader may show an end of the log that is a moment old
UNKNOWN = -1

Committed = Mapping[int, CommittedOffset]  # by partition


class CommitMetadata(NamedTuple):
    """
    A log, the next offset in it, and the source offset itself: kept with each committed offset.

    The group's offsets may outlive the log, and others may change them. With this metadata, a
    worker notices both.

    >>> CommitMetadata.parse(str(CommitMetadata("0d9f", 7, "5c", 3)))
    CommitMetadata(log_id='0d9f', next_offset=7, digest='5c', at=3)
    """

    log_id: str  # of the topic, in hex
    next_offset: int
    digest: str = ""  # of the record before `next_offset`; empty if unknown
    at: int = UNKNOWN  # the source offset that it was committed with; commits of 0.1 lack it

    def __str__(self) -> str:
        text = f"log={self.log_id} next={self.next_offset}"
        if self.digest:
            text = f"{text} last={self.digest}"
        return f"{text} at={self.at}" if self.at != UNKNOWN else text

    @classmethod
    def parse(cls, metadata: str | None) -> Self | None:
        """Parse metadata that a worker has written. None for an offset that another has set."""
        fields = dict(part.partition("=")[::2] for part in (metadata or "").split())
        try:
            next_offset = int(fields["next"])
            at = int(fields.get("at", UNKNOWN))
            return cls(fields["log"], next_offset, fields.get("last", ""), at)
        except (KeyError, ValueError):
            return None

    def committed_at(self, offset: int) -> CommittedOffset:
        """Return the commit of a source offset with this metadata."""
        return CommittedOffset(offset, str(self._replace(at=offset)))


NO_LOG = CommitMetadata("", 0)


def is_ours(commit: CommittedOffset, log_id: str) -> bool:
    """
    Return whether a worker has committed this offset with this log.

    >>> mine = CommitMetadata("0d9f", 7).committed_at(3)
    >>> is_ours(mine, "0d9f"), is_ours(mine._replace(offset=2), "0d9f"), is_ours(mine, "77aa")
    (True, False, False)
    """
    return commit.offset is not None and _doubt(commit, log_id) is None


def _doubt(commit: CommittedOffset, log_id: str) -> str | None:
    """Return why a commit is not one of ours, or None."""
    metadata = CommitMetadata.parse(commit.metadata)
    if commit.offset is None:
        return "the group has no offset (expired, or deleted)"
    if metadata is None:
        return f"the group's offset is {commit.offset}, and no worker has committed it"
    if metadata.log_id != log_id:
        return (
            f"the group's offset is {commit.offset}, committed with another log "
            f"({metadata.log_id}, and this one is {log_id})"
        )
    if metadata.at not in (UNKNOWN, commit.offset):
        return f"the group's offset is {commit.offset}, and a worker has committed {metadata.at}"
    return None


class AppliedLog(Protocol):
    """The questions that `Admission` asks of the log, from any thread."""

    log_id: str

    def end(self) -> int:
        """Return the offset after the log's last record, as a broker has it now."""

    def await_applied(self, offset: int) -> bool:
        """Return whether all below this offset is applied, after a short wait."""

    def reach(self, source: Source) -> SourceReach:
        """Return the coverage of a source partition by the applied records."""

    def commit_metadata(self) -> CommitMetadata:
        """Return the log, and how much of it is applied."""


@dataclass(frozen=True)
class Admission:
    """
    Decides where partitions begin, and refuses offsets that no worker has committed.

    Args:
        settings: the group and its topics.
        topic_id: that of the source topic, as the log knows it.
        log: applied by another thread, or by `await_applied` itself.
    """

    settings: Settings
    topic_id: bytes
    log: AppliedLog

    def starts(
        self, committed: Committed, first_of: Callable[[int], int]
    ) -> dict[int, CommittedOffset]:
        """
        Return the commit at which each partition begins, for another thread than the log's.

        Args, Returns, and OffsetError: see `decide`.
        Raises:
            RetryError: the log is not applied as far as it must be; ask again.
        """
        needed = self.needed(committed)
        if not self.log.await_applied(needed):
            raise RetryError(
                f"the log is not applied up to offset {needed}, "
                "by which the group's offsets are checked"
            )
        return self.decide(committed, first_of)

    def needed(self, committed: Committed) -> int:
        """
        Return how far the log must be applied: as far as our commits say, and to its present end
        for those that are not ours.
        """
        needed = 0
        are_ours = True
        for commit in committed.values():
            metadata = CommitMetadata.parse(commit.metadata)
            if metadata is not None and is_ours(commit, self.log.log_id):
                needed = max(needed, metadata.next_offset)
            else:
                are_ours = False
        # The end is asked for once, however many partitions begin: on a quiet log, the answer waits
        # behind a fetch of the same connection for a tenth of a second.
        return needed if are_ours else max(needed, self.log.end())

    def reaches(self, partitions: Iterable[int]) -> dict[int, SourceReach]:
        """Return what the log says of some partitions now."""
        return {number: self.log.reach(Source(self.topic_id, number)) for number in partitions}

    def decide(
        self,
        committed: Committed,
        first_of: Callable[[int], int],
        before: Mapping[int, SourceReach] | None = None,
    ) -> dict[int, CommittedOffset]:
        """
        Return the commit at which each partition begins.

        If it is not the one that the group has, it must be committed before the partition is read.

        Args:
            committed: what the group has committed, as it was answered before the log was applied
                up to `needed`.
            first_of: returns a partition's first offset that is still there.
            before: what the log said before the group was asked, if other members may have these
                partitions. Without them nobody commits meanwhile, and the present log says it.
        Raises:
            OffsetError: an offset is not ours; the text names all of them, and the remedy.
        """
        present = self.reaches(committed)
        before = before or present
        starts: dict[int, CommittedOffset] = {}
        refused: list[str] = []
        for number, commit in sorted(committed.items()):
            reach = present[number]._replace(committed=before[number].committed)
            is_covered = before[number].stop > 0
            doubt = _doubt(commit, self.log.log_id) or _beyond(
                commit, reach, partial(first_of, number)
            )
            if doubt is None:
                starts[number] = commit
                continue
            first = 0 if is_covered else first_of(number)
            if not is_covered and (commit.offset or 0) <= first:
                starts[number] = self.log.commit_metadata().committed_at(first)
            else:
                refused.append(f"partition {number}: {doubt}. {_remedy(commit, reach, first)}")
        if refused:
            raise OffsetError(self._refusal(refused), len(refused))
        return starts

    def _refusal(self, refused: list[str]) -> str:
        settings = self.settings
        return (
            f"the offsets of group {settings.group} in {settings.topic_documents} are not those "
            f"that its workers have committed. {'; '.join(refused)}. Going on there would publish "
            "verdicts a second time, or leave documents without one. Stop all workers of the "
            f"group, then: {restore_command(settings)}"
        )


def _beyond(commit: CommittedOffset, reach: SourceReach, first: Callable[[], int]) -> str | None:
    """Return why the log does not allow the position of a commit of ours, or None."""
    offset = commit.offset or 0
    if offset < reach.committed:
        return f"the group's offset is {offset}, and a record of the log knows of {reach.committed}"
    # Where retention has deleted documents before they were judged, nothing covers them.
    if offset > reach.stop and offset > first():
        return f"the group's offset is {offset}, and the log covers no more than {reach.stop}"
    return None


def _remedy(commit: CommittedOffset, reach: SourceReach, first: int) -> str:
    """Say which offset is the right one, as far as the log knows."""
    if not reach.stop:
        return (
            f"The log has nothing of it, so {commit.offset} would skip the documents from {first} "
            f"on: set {first}"
        )
    if reach.committed >= reach.stop:
        return f"Set {reach.stop}: all that the log has of it was committed"
    known = max(reach.committed, reach.first)
    return (
        f"Set {reach.stop} if all verdicts that the log has of it were published, else the first "
        f"without one, from {known} on"
    )


def restore_command(settings: Settings) -> str:
    """Return the command that repairs the group's offsets."""
    return command(settings, "offsets restore", "group", *TOPICS, "definition", "base_snapshot")


def trusted(committed: Committed, log_id: str) -> dict[int, int]:
    """Return the offsets that a worker has committed with this log."""
    return {
        number: commit.offset
        for number, commit in committed.items()
        if commit.offset is not None and is_ours(commit, log_id)
    }


def foreign(committed: Committed, log_id: str) -> dict[int, int]:
    """Return the offsets that no worker has committed with this log, by partition."""
    return {
        number: commit.offset
        for number, commit in committed.items()
        if commit.offset is not None and not is_ours(commit, log_id)
    }


def check_founder(settings: Settings, log_author: str | None) -> None:
    """
    Refuse a log that another group has begun.

    If two groups shared a log, each would tell the other's replicas that verdicts are committed.
    These would then drop verdicts that they still have to publish.

    Args:
        settings: the group and its log.
        log_author: of the log's first declaration, "group/worker"; None if there is none. Without a
            slash it names no group.
    Raises:
        StopError: with both groups and the remedy.
    """
    group, is_named, _ = (log_author or "").partition("/")
    if is_named and group != settings.group:
        raise StopError(
            f"the log {settings.topic_fingerprints} was begun by group {group}, and this is group "
            f"{settings.group}: each would drop verdicts that the other still needs. Name a log of "
            "its own (--topic-fingerprints) and topics of answers (--topic-verdicts, "
            f"--topic-dead-letter), or --group {group}"
        )


def check_log(
    settings: Settings,
    committed: Iterable[CommitMetadata],
    log_id: str,
    log_end: Callable[[], int],
    digest_at: Callable[[int], str | None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Make sure that the group's offsets were committed with this log, and that it has lost nothing.

    Args:
        committed: what was committed with the offsets.
        log_id: the id of the present log.
        log_end: returns its end, which right after a new leader's election may be a moment old: it
            is asked again for `LAG_WAIT_S`.
        digest_at: returns the digest of the record at an offset, None where it has been deleted.
        sleep: waits between two questions.
    Raises:
        StopError: with both values and the remedy.
    """
    group = settings.group
    log_topic = settings.topic_fingerprints
    committed = list(committed)
    # 1. It is the same log.
    for metadata in committed:
        if metadata.log_id != log_id:
            raise StopError(
                f"the offsets of group {group} were committed with another log (topic id "
                f"{metadata.log_id}, {log_topic} has {log_id}): it was created again or renewed, "
                "and documents of the other log would be called new again. If it was renewed, use "
                "the settings that neardup log renew prints. Otherwise bring the old log back, or "
                "let another --group read the documents from their beginning"
            )
    # 2. It reaches as far as it did.
    needed = max((metadata.next_offset for metadata in committed), default=0)
    waited_s = 0.0
    while log_end() < needed:
        if waited_s >= LAG_WAIT_S:
            raise StopError(
                f"the log {log_topic} ends at offset {log_end()}, but verdicts were committed at "
                f"{needed}: records of it are lost. Let another --group with a new log read the "
                "documents from their beginning"
            )
        sleep(0.5)
        waited_s += 0.5
    # 3. The last record that verdicts were committed with is still the same: a log can lose its end
    #    and grow past it again, where a replica that was behind became the leader.
    last: CommitMetadata | None = None
    for metadata in committed:
        if metadata.digest and (last is None or metadata.next_offset > last.next_offset):
            last = metadata
    if last is not None and digest_at(last.next_offset - 1) not in (None, last.digest):
        raise StopError(
            f"record {last.next_offset - 1} of the log {log_topic} is not the one with which "
            "verdicts were committed: the log has lost records that it had acknowledged, and has "
            "grown again since. Let another --group with a new log read the documents from their "
            "beginning, and set unclean.leader.election.enable=false"
        )
