"""
Finds the offsets that a group should have, and sets them, for `neardup offsets restore`.

A worker refuses offsets that no worker has committed (`pipeline/offsets.py`). This command computes
the right ones from what cannot be lost with them:

    the log          which documents it covers, and commits that its records tell of
    the answers      verdicts and dead letters that were published: the last one of each partition
    the documents    where each partition begins now

The answers of a partition are published in order, together with its offset. So the right offset is
the one after the last answer, and what the log covers from there on is answered by the next worker.

What it must never do, and why it does not
- Cause a second verdict: it sets no offset below a published answer or a commit that the log knows.
- Skip a document without a verdict: it sets no offset above that. There are two exceptions, and it
  tells both. Retention may have deleted documents before they were judged: no offset brings them
  back. And retention may have deleted answers, so that nobody can say whether those documents were
  answered: these partitions are left alone, unless the user vouches for them (`assume_answered`).
- Move the offsets of a group that runs: it refuses while the group has a member, and so does Kafka.
  It waits one session at most, because a worker that was killed counts as a member for that long.
- Believe another group's topics: it refuses if another group has begun the log, if answers differ
  from the log, or if offsets were committed with another log. A message that is no answer at all,
  such as a tombstone, says nothing of the topics and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from worker.settings import Settings
from worker.shell.admin.audit import AnsweredPartition
from worker.shell.admin.stopped_group import stopped_group
from worker.shell.admin.verify import Progress, no_progress, refuse_wrong, verify
from worker.shell.kafka.admin import Admin
from worker.shell.pipeline.offsets import CommitMetadata, Committed, check_founder, is_ours
from worker.shell.pipeline.service import record_digest_at
from worker.shell.ports import CommittedOffset

NOTHING = AnsweredPartition()


class Restoration(NamedTuple):
    """The offset of one partition: as it was found, and as it should be."""

    partition: int
    found: int | None  # the group's offset now
    offset: int  # what it should be
    is_set: bool  # whether it has to be set
    undecided: int = 0  # documents of which nobody can say whether they were answered
    deleted: int = 0  # offsets that retention has deleted before they were judged
    unanswered: int = 0  # offsets below that have no verdict, and later ones have
    logged: int = 0  # of the deleted ones, how many the log has verdicts of

    def __str__(self) -> str:
        found = "none" if self.found is None else str(self.found)
        if self.undecided:
            text = f"offset {found}: not decided"
        elif self.is_set:
            text = f"offset {found} -> {self.offset}"
        else:
            text = f"offset {found}: as it should be"
        text = f"partition {self.partition}: {text}"
        if self.undecided:
            text += (
                f". The log has the verdicts of {self.undecided:,} documents below {self.offset}, "
                "and retention may have deleted the published ones"
            )
        if self.deleted:
            text += f". Retention has deleted {self.deleted:,} offsets that were not answered"
        if self.logged:
            text += (
                f". The log has the verdicts of {self.logged:,} of them: when this offset is set, "
                "neardup verify --mend publishes them"
            )
        if self.unanswered:
            text += (
                f". {self.unanswered:,} offsets below it have no verdict, and later ones have: "
                "neardup verify --mend publishes those that the log has; feed the others again"
            )
        return text


def restorations(
    committed: Committed,
    partitions: Mapping[int, AnsweredPartition],
    firsts: Mapping[int, int],
    log_id: str,
    *,
    assume_answered: bool = False,
) -> list[Restoration]:
    """
    Return the current and the right offset of each partition.

    Args:
        committed: what the group has.
        partitions: what log and answers say; nothing is known of a partition that is not there.
        firsts: the first offset of each partition that is still there.
        log_id: that of the log.
        assume_answered: take documents for answered whose answers retention may have deleted.
    """
    found = []
    for number, commit in sorted(committed.items()):
        known = partitions.get(number, NOTHING)
        proven = max(known.committed, known.answered)
        aged = min(known.aged, known.covered)
        target = max(proven, aged) if assume_answered else proven
        undecided = 0 if assume_answered else max(aged - proven, 0)
        first = firsts[number]
        is_believed = (
            is_ours(commit, log_id)
            and target <= (commit.offset or 0) <= max(known.covered, first)
        )  # fmt: skip
        if is_believed:
            target = commit.offset or 0
            undecided = 0
        # A worker begins a new partition by itself. But no worker passes over deleted documents.
        is_new = commit.offset is None and not known.covered
        is_settled = is_new or (is_believed and target >= first)
        offset = max(target, first)
        passed = max(target, known.first)  # up to here nothing is unanswered
        is_deleted = not (is_settled or undecided)
        found.append(
            Restoration(
                number,
                commit.offset,
                max(offset, aged) if undecided else offset,
                is_set=not is_settled and not undecided,
                undecided=0 if is_settled else undecided,
                deleted=max(first - passed, 0) if is_deleted else 0,
                unanswered=known.unanswered,
                logged=max(min(first, known.covered) - passed, 0) if is_deleted else 0,
            )
        )
    return found


def restore(
    settings: Settings,
    *,
    is_confirmed: bool,
    assume_answered: bool = False,
    on_found: Callable[[list[Restoration]], None],
    on_progress: Progress = no_progress,
) -> list[Restoration]:
    """
    Set the group's offsets to those that its workers had committed.

    Args:
        settings: the settings of the group's workers. No worker may be running.
        is_confirmed: otherwise nothing is written.
        assume_answered: see `restorations`.
        on_found: called with what is known of each partition, before anything is set.
        on_progress: called after each portion that was read.
    Returns:
        What is known of each partition, and whether it was, or has to be, set.
    Raises:
        StopError: what the head of this file says is refused.

    Cost: that of `verify` without the documents.
    """
    admin = Admin(settings)
    topics = admin.existing([settings.topic_documents, settings.topic_fingerprints])
    documents = topics[settings.topic_documents]
    with stopped_group(settings, admin, topics, "offsets are set") as group:
        # Documents that were forwarded do not matter, and their topic is as large as the source.
        audited = settings.model_copy(update={"topic_new": None})
        report = verify(audited, read_documents=False, on_progress=on_progress)
        check_founder(settings, report.log_author)
        refuse_wrong(report, "the right offsets are not known")
        ends = admin.ends({documents.name: documents.partitions})
        firsts = {number: first for (_, number), (first, _) in ends.items()}
        found = restorations(
            group.committed,
            report.partitions,
            firsts,
            group.log_id,
            assume_answered=assume_answered,
        )
        on_found(found)
        wanted = [one for one in found if one.is_set]
        if is_confirmed and wanted:
            group.set(_commits(settings, admin, group.log_id, wanted))
    return found


def _commits(
    settings: Settings, admin: Admin, log_id: str, wanted: list[Restoration]
) -> dict[int, CommittedOffset]:
    """Return the commits as a worker would make them that has applied the log to its end."""
    log_end = admin.log_end(settings.topic_fingerprints)
    digest = record_digest_at(settings, log_end - 1) if log_end else None
    metadata = CommitMetadata(log_id, log_end, digest or "")
    return {one.partition: metadata.committed_at(one.offset) for one in wanted}
