"""
Publishes missing answers, for `neardup verify --mend`.

A single broker that is killed within milliseconds of a commit can lose the end of the transaction
(KAFKA-20734). The group's offset is then past documents whose answers were never published. The log
still has these answers, and `mend` publishes them, in this order:

    1 refuse      while the group has a member, or does not belong to this log; it waits one
                  session, because a killed worker counts as a member until then
    2 fence       a producer of its own is opened: an earlier `mend` that still runs cannot commit
    3 verify      everything is read; what is committed and unanswered is what is missing
    4 replay      the log is read once more, for the answers to these offsets alone
    5 show        the caller is told what would be published; with `dry_run` that is all
    6 publish     in one transaction, if nothing has changed since

What it must never do, and why it does not
- Answer a document that has an answer. Step 3 reads up to the end of every topic of answers, and
  waits there for transactions that are open. Only what has no answer at all is missing.
- Answer a document that a worker is about to answer. Workers continue at the group's offsets, and
  `mend` stays below those that it saw in step 1. Step 6 checks again, within the transaction, that
  the group has no member and that no offset has changed.
- Publish an answer twice. A second `mend` finds nothing to do. If two run at the same time, the one
  that opened its producer last fences the other one, and reads only after that.
- Publish answers of another group. If answers differ from the log, or if offsets were committed
  with another log, the settings are wrong, and it refuses. It also refuses if more answers are
  missing than a broker's last transactions can have held.

What it leaves alone
- A second verdict on a document. It cannot be deleted from the topic, but both verdicts are the
  same. So it changes nothing for subscribers that store by source offset or by document.
- A committed document that the log does not have. No worker has judged it: feed it again.
- `topic_new`. Its messages are the documents themselves, and `verify` names their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from worker.errors import DocumentError, FencedError, RetryError, StopError
from worker.settings import Settings
from worker.shell.admin.audit import LOST_ANSWERS_MAX, Defect, Report, replayed_answers
from worker.shell.admin.remains import MENDED
from worker.shell.admin.stopped_group import stopped_group
from worker.shell.admin.verify import Progress, no_progress, read_log, refuse_wrong, verify
from worker.shell.admin.watch import Missing, message_at
from worker.shell.checkpoint import first_replica
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.messages import VerdictBytes, encode_dead_letter
from worker.shell.pipeline.offsets import Committed
from worker.shell.ports import UNREADABLE, InputMessage, Outgoing

# More than this is no end of a transaction: a topic was emptied, or the settings are another
# group's.
ANSWERS_MAX = LOST_ANSWERS_MAX - 1
# No worker id can have a slash. The ACL of the workers' ids, a prefix, covers it.
SLOT = "verify/mend"
DOING = "missing answers are published"
_MARK = (MENDED, b"1")  # `verify` must not take it for one of the time of its commit

Place = tuple[int, int]  # partition and offset of a document
Answers = Mapping[Place, VerdictBytes | DocumentError]


class MendReport(NamedTuple):
    """The findings of `verify`, and the places of the documents whose answers were published."""

    report: Report
    missing: Sequence[Place]
    is_published: bool

    @property
    def is_clean(self) -> bool:
        """Return whether everything is answered once, now that this is published."""
        lost = self.report.defects[Defect.LOST] - (len(self.missing) if self.is_published else 0)
        others = [count for name, count in self.report.defects.items() if name != Defect.LOST]
        return not (lost or any(others))


def mend(
    settings: Settings,
    *,
    dry_run: bool,
    read_documents: bool = True,
    on_found: Callable[[Report, Sequence[Outgoing]], None],
    on_progress: Progress = no_progress,
) -> MendReport:
    """
    Publish, in one transaction, the answers that the log has and the topics have not.

    Args:
        settings: the settings of the group's workers. No worker may be running.
        dry_run: only say what would be published. Nothing at all is written then.
        read_documents: see `verify`.
        on_found: called with the findings and the messages to publish, before they are published.
        on_progress: called after each portion that was read.

    Returns:
        What was found and published. Nothing is published if nothing is missing.

    Raises:
        StopError: what the head of this file says is refused, or the transaction failed: then
            `verify` says whether its answers are there.

    Cost: that of `verify`, and of reading the log once more if something is missing.
    """
    admin = Admin(settings)
    topics = admin.existing([settings.topic_documents, settings.topic_fingerprints])
    with ExitStack() as stack:
        group = stack.enter_context(stopped_group(settings, admin, topics, DOING))
        group.refuse_foreign()
        publisher = stack.enter_context(closing(TransactionalPublisher(settings, slot=SLOT)))
        if not dry_run:
            publisher.open()
        report = verify(settings, read_documents=read_documents, on_progress=on_progress)
        missing = report.lost_answers
        _refuse_doubt(report)
        _refuse_above(settings, group.committed, missing)
        topic_id = topics[settings.topic_documents].topic_id
        answers = _answers(settings, admin, topic_id, missing, on_progress) if missing else {}
        outgoing = [_outgoing(settings, place, answers[place]) for place in missing]
        on_found(report, outgoing)
        if dry_run or not outgoing:
            return MendReport(report, missing, is_published=False)
        try:
            with publisher.transaction({message.topic for message in outgoing}) as transaction:
                transaction.produce(outgoing)
                group.refuse_change()
        except FencedError as error:
            raise StopError(
                "another neardup verify --mend was started after this one. Nothing was published "
                "here: wait for the other one, then run neardup verify"
            ) from error
        except RetryError as error:
            raise StopError(
                f"{error}: all {len(outgoing)} answers are published, or none: neardup verify"
            ) from error
    return MendReport(report, missing, is_published=True)


def _refuse_doubt(report: Report) -> None:
    """
    Refuse where the log's word may not be what belongs into the topics.

    Raises:
        StopError: there are wrong answers, or too many are missing.
    """
    refuse_wrong(report, "its missing answers may not be right either")
    if len(report.lost_answers) > ANSWERS_MAX:
        raise StopError(
            f"more than {ANSWERS_MAX:,} answers are missing, more than a broker's last "
            f"transactions hold: was a topic emptied, or are these another group's topics? Let "
            f"another --group read the documents from their beginning"
        )


def _refuse_above(settings: Settings, committed: Committed, missing: Sequence[Place]) -> None:
    """
    Refuse where an answer is missing that a worker will publish.

    `verify` asks for the offsets itself: they may have been ahead for a moment, and be back by the
    time of step 6.

    Raises:
        StopError: an answer is missing at the group's offset, or behind it.
    """
    for partition, offset in missing:
        stop = committed[partition].offset if partition in committed else None
        if stop is None or offset >= stop:
            raise StopError(
                f"the offset of group {settings.group} in partition {partition} was {stop}, and "
                f"has changed since: a worker will answer offset {offset}. Nothing was published. "
                "Find out who commits offsets, then run it again"
            )


def _answers(
    settings: Settings,
    admin: Admin,
    topic_id: bytes,
    missing: Sequence[Place],
    on_progress: Progress,
) -> Answers:
    """
    Replay the log for the answers to these documents.

    Raises:
        StopError: the log has lost one since it was read.
    """
    wanted = set(missing)
    replica = first_replica(settings.rules, settings.base_snapshot)
    answers: dict[Place, VerdictBytes | DocumentError] = {}
    ends = admin.ends({settings.topic_fingerprints: 1})
    log = read_log(settings, ends, on_progress)
    for source, offset, answer in replayed_answers(replica, log, settings.topic_documents):
        place = source.partition, offset
        if source.topic_id == topic_id and place in wanted:
            answers[place] = answer
    if lost := sorted(wanted - answers.keys()):
        raise StopError(
            f"the log {settings.topic_fingerprints} had the answers to {len(lost)} documents a "
            f"moment ago, {lost[0]} the first of them: it was truncated or recreated meanwhile"
        )
    return answers


def _outgoing(settings: Settings, place: Place, answer: VerdictBytes | DocumentError) -> Outgoing:
    """
    Return the message that a worker would have published for a document, with the header MENDED.

    Raises:
        StopError: it is a dead letter, and the document that it must carry is not there.
    """
    if isinstance(answer, VerdictBytes):
        return Outgoing(settings.topic_verdicts, answer.key, answer.value, (_MARK,))
    documents = settings.topic_documents
    partition, offset = place
    message = InputMessage(partition, offset, None, None, defect=answer.text)
    if answer.code != UNREADABLE:  # such a one has no content to carry, and reading it would fail
        source = message_at(settings, documents, partition, offset)
        if source is Missing.DELETED:
            message = InputMessage(partition, offset, None, None, defect="deleted by retention")
        elif isinstance(source, Missing):
            raise StopError(
                f"offset {offset} of {documents}[{partition}], which its dead letter must carry, "
                f"is {source.value}"
            )
        else:
            message = InputMessage(partition, offset, source.key, source.value)
    key, value, headers = encode_dead_letter(documents, message, answer)
    return Outgoing(settings.topic_dead_letter, key, value, (*headers, _MARK))
