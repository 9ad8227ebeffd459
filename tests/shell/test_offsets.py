"""Which of a group's offsets are believed, what a partition begins with, and what sets it right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worker.errors import OffsetError, RetryError, StopError
from worker.log.record import Source
from worker.log.replica import SourceReach
from worker.settings import Settings
from worker.shell.admin import verify
from worker.shell.admin.audit import AnsweredPartition
from worker.shell.admin.offsets import Restoration, restorations
from worker.shell.admin.remains import MENDED
from worker.shell.admin.verify import oldest_left
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.reader import TopicMessage
from worker.shell.pipeline import service
from worker.shell.pipeline.offsets import (
    Admission,
    CommitMetadata,
    check_founder,
    is_ours,
    trusted,
)
from worker.shell.ports import CommittedOffset

LOG = "0d9f"
TOPIC_ID = bytes(16)
FIRST = 3  # the partition's first offset that is still there
NONE = CommittedOffset(None)


@dataclass
class Log:
    """A log of nine records, of which some are applied."""

    of: SourceReach
    applied: int = 9
    log_id: str = LOG
    awaited: list[int] = field(default_factory=list)
    ends_asked: int = 0

    def end(self) -> int:
        self.ends_asked += 1
        return 9

    def await_applied(self, offset: int) -> bool:
        self.awaited.append(offset)
        return offset <= self.applied

    def restore_to(self, offset: int) -> None:
        assert self.await_applied(offset)

    def reach(self, source: Source) -> SourceReach:
        assert source == Source(TOPIC_ID, 0)
        return self.of

    def commit_metadata(self) -> CommitMetadata:
        return CommitMetadata(self.log_id, self.applied, "5c")


def ours(offset: int, next_offset: int = 4) -> CommittedOffset:
    """A worker's commit."""
    return CommitMetadata(LOG, next_offset, "5c").committed_at(offset)


def older(offset: int) -> CommittedOffset:
    """A commit of a version that did not write the offset into the metadata."""
    return CommittedOffset(offset, f"log={LOG} next=4 last=5c")


NOT_COVERED = SourceReach(0, 0, 0)
COVERED = SourceReach(3, 60, 20)
KNOWN = SourceReach(3, 60, 60)


@pytest.mark.parametrize(
    ("commit", "reach", "start"),
    [
        (ours(40), COVERED, 40),
        (ours(20), COVERED, 20),
        (ours(60), COVERED, 60),
        (older(40), COVERED, 40),
        (ours(3), NOT_COVERED, 3),
        (ours(0), NOT_COVERED, 0),  # retention has deleted since what was never read: row 16
        (NONE, NOT_COVERED, FIRST),
        (CommittedOffset(0), NOT_COVERED, FIRST),
        (CommittedOffset(3, "a tool's"), NOT_COVERED, FIRST),
        (NONE, COVERED, "the group has no offset .*Set 60 if all .* from 20 on"),
        (NONE, KNOWN, "the group has no offset .*Set 60: all that the log has"),
        (CommittedOffset(60), COVERED, "is 60, and no worker has committed it"),
        (CommittedOffset(0), COVERED, "is 0, and no worker has committed it"),
        (CommittedOffset(4), NOT_COVERED, "would skip the documents from 3 on: set 3"),
        (ours(40)._replace(offset=39), COVERED, "is 39, and a worker has committed 40"),
        (CommittedOffset(40, "log=77aa next=4 at=40"), COVERED, "another log .77aa"),
        (ours(19), COVERED, "is 19, and a record of the log knows of 20"),
        (ours(61), COVERED, "is 61, and the log covers no more than 60"),
        (older(61), COVERED, "is 61, and the log covers no more than 60"),
        (ours(4), NOT_COVERED, "is 4, and the log covers no more than 0.*set 3"),
    ],
)
def test_a_partition_begins_at_an_offset_of_ours_or_not_at_all(
    commit: CommittedOffset, reach: SourceReach, start: int | str
) -> None:
    """Or at its beginning, with a commit of ours, if the log has nothing of it."""
    admission = Admission(Settings(group="night"), TOPIC_ID, Log(reach))
    if isinstance(start, int):
        [begun] = admission.starts({0: commit}, lambda _: FIRST).values()
        assert begun.offset == start and (begun == commit or is_ours(begun, LOG))
        return
    with pytest.raises(OffsetError, match=start) as refusal:
        admission.starts({0: commit}, lambda _: FIRST)
    assert refusal.value.partitions == 1 and "partition 0: " in str(refusal.value)
    assert str(refusal.value).endswith("neardup offsets restore --group night")


@pytest.mark.parametrize(
    ("commit", "before", "is_refused"),
    [
        # Another member has committed 20 and appended since the group was asked.
        (ours(10), SourceReach(3, 60, 10), False),
        (ours(9), SourceReach(3, 60, 10), True),
        # Another member has begun the partition since then.
        (NONE, NOT_COVERED, False),
        (NONE, SourceReach(3, 60, 0), True),
    ],
)
def test_what_others_commit_while_a_worker_starts_is_no_fault(
    commit: CommittedOffset, before: SourceReach, is_refused: bool
) -> None:
    """The group's answer must know what the log said before it, not what has come since."""
    admission = Admission(Settings(), TOPIC_ID, Log(COVERED))
    with pytest.raises(OffsetError) if is_refused else nullcontext():
        admission.decide({0: commit}, lambda _: FIRST, {0: before})
    with pytest.raises(OffsetError):
        admission.decide({0: commit}, lambda _: FIRST)


def test_a_worker_that_starts_asks_the_log_before_it_asks_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile another member commits, and appends a record that says so."""
    log = Log(SourceReach(3, 60, 10))

    class Topics:
        """The ends of the one partition."""

        def ends(self, _: object) -> dict[tuple[str, int], tuple[int, int]]:
            return {("documents", 0): (FIRST, 90)}

    def committed(*_: object) -> dict[int, CommittedOffset]:
        answer = {0: ours(log.of.committed)}
        log.of = SourceReach(3, 70, 20)
        return answer

    monkeypatch.setattr(service, "committed", committed)
    monkeypatch.setattr(service, "record_digest_at", lambda *_: "5c")
    documents = Topic("documents", TOPIC_ID, 1, 1, {})
    service.admit(Settings(), cast("Any", Topics()), documents, cast("Any", log))
    assert log.of.committed == 20


@pytest.mark.parametrize(
    ("commit", "needed"), [(ours(40, 6), 6), (NONE, 9), (CommittedOffset(5), 9)]
)
def test_the_log_is_applied_as_far_as_the_commits_must_be_checked_by(
    commit: CommittedOffset, needed: int
) -> None:
    """As far as our commits say; to its end for those that are not ours. Until then: later."""
    log = Log(COVERED, applied=needed - 1)
    admission = Admission(Settings(), TOPIC_ID, log)
    with pytest.raises(RetryError, match=f"not applied up to offset {needed}"):
        admission.starts({0: commit}, lambda _: FIRST)
    assert log.awaited == [needed]


def test_the_end_of_the_log_is_asked_for_once_however_many_partitions_begin() -> None:
    """An answer takes a tenth of a second on a quiet log, and the group waits for all of them."""
    log = Log(NOT_COVERED)
    admission = Admission(Settings(), TOPIC_ID, log)
    assert admission.needed(dict.fromkeys(range(1_000), NONE) | {1_000: ours(40, 6)}) == 9
    assert log.ends_asked == 1
    assert admission.needed({0: ours(40, 6)}) == 6
    assert log.ends_asked == 1


def test_verdicts_are_forgotten_by_our_commits_alone() -> None:
    """One that another has set would drop verdicts that have to be published."""
    commits = {0: ours(7), 1: CommittedOffset(9), 2: NONE, 3: ours(5)._replace(offset=8)}
    assert trusted(commits, LOG) == {0: 7}


@pytest.mark.parametrize(
    ("commit", "known", "said"),
    [
        # covered, committed by the records, answered, aged
        (NONE, (60, 20, 50, 0), "offset none -> 50"),
        (NONE, (60, 55, 50, 0), "offset none -> 55"),
        (NONE, (60, 60, 0, 60), "offset none -> 60"),
        (NONE, (60, -1, 0, 0), "offset none -> 3"),
        (CommittedOffset(60), (60, 20, 50, 0), "offset 60 -> 50"),
        (ours(50), (60, 20, 50, 0), "offset 50: as it should be"),
        (ours(60), (60, 20, 50, 0), "offset 60: as it should be"),  # what is lost `--mend` finds
        (ours(40), (60, 20, 50, 0), "offset 40 -> 50"),
        (NONE, (0, 0, 0, 0), "offset none: as it should be"),
        (CommittedOffset(9), (0, 0, 0, 0), "offset 9 -> 3"),
        (NONE, (60, 20, 30, 45), "offset none: not decided. The log has the verdicts of 15"),
        (NONE, (60, 20, 50, 45), "offset none -> 50"),
        # Retention has deleted what it would go on with: no worker starts there.
        (ours(2), (0, 0, 0, 0), "offset 2 -> 3. Retention has deleted 1 offsets"),
        (ours(2), (60, -1, 0, 60), "offset 2 -> 3"),
    ],
)
def test_an_offset_is_restored_behind_the_last_answer(
    commit: CommittedOffset, known: tuple[int, int, int, int], said: str
) -> None:
    """
    And behind a commit that the log knows; not at all where retention may have deleted the answer.
    """
    covered, committed, answered, aged = known
    partition = AnsweredPartition(FIRST if covered else 0, covered, committed, answered, aged)
    [found] = restorations({0: commit}, {0: partition}, {0: FIRST}, LOG)
    assert str(found).startswith(f"partition 0: {said}")
    assert found.is_set == ("->" in said)


def test_what_nobody_can_decide_the_user_may() -> None:
    """What may have been answered is then taken for answered, and not published again."""
    partition = AnsweredPartition(FIRST, 60, 20, 30, 45)
    [found] = restorations({0: NONE}, {0: partition}, {0: FIRST}, LOG, assume_answered=True)
    assert found == Restoration(0, None, 45, is_set=True)


def test_what_was_skipped_or_deleted_is_told() -> None:
    """Documents that retention has deleted unanswered, and gaps below the last answer."""
    partition = AnsweredPartition(FIRST, 60, 20, 50, 0, unanswered=7)
    [found] = restorations({0: NONE}, {0: partition}, {0: 80}, LOG)
    assert (found.offset, found.deleted, found.unanswered, found.logged) == (80, 30, 7, 10)
    assert "the verdicts of 10 of them: when this offset is set, neardup verify --mend" in str(
        found
    )
    assert "deleted 30 offsets" in str(found) and "7 offsets below it have no verdict" in str(found)
    [found] = restorations({0: ours(60)}, {0: partition}, {0: 80}, LOG)
    assert (found.offset, found.is_set, found.deleted, found.logged) == (80, True, 20, 0)


def test_compaction_may_have_deleted_any_answer() -> None:
    """It leaves the topic's first offset as it was; without it, that one says what is there."""
    ends = {("verdicts", 0): (0, 9), ("verdicts", 1): (0, 0)}
    plain = Topic("verdicts", TOPIC_ID, 2, 1, {"cleanup.policy": "delete"})
    compacted = plain._replace(config={"cleanup.policy": "compact,delete"})
    assert oldest_left(Settings(), plain, ends) == []
    assert oldest_left(Settings(), compacted, ends) == [[]]


def test_the_oldest_answers_are_read_where_the_beginning_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each such partition a few, and none of one that is empty."""
    asked: list[object] = []

    def read(_settings: Settings, ends: dict[tuple[str, int], tuple[int, int]]) -> Iterator[Any]:
        asked.append(ends)
        [((name, number), (first, end))] = ends.items()
        return iter(
            TopicMessage(name, number, offset, 0, b"k", b"v", ()) for offset in range(first, end)
        )

    monkeypatch.setattr(verify, "read_committed", read)
    topic = Topic("verdicts", TOPIC_ID, 3, 1, {"cleanup.policy": "delete"})
    ends = {("verdicts", 0): (0, 9), ("verdicts", 1): (5, 905), ("verdicts", 2): (7, 7)}
    found = oldest_left(Settings(), topic, ends)
    assert asked == [{("verdicts", 1): (5, 905)}, {("verdicts", 2): (7, 7)}]
    assert [[message.offset for message in one] for one in found] == [[*range(5, 105)], []]


def test_what_was_mended_does_not_count_as_the_oldest_answer_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mended messages were published long after their commit, perhaps thousands in a row."""
    mended = [TopicMessage("v", 0, n, 0, b"k", b"v", ((MENDED, b"1"),)) for n in range(5, 905)]
    others = [TopicMessage("v", 0, n, 0, b"k", b"v", (("other", b"1"),)) for n in (905, 906)]
    monkeypatch.setattr(verify, "read_committed", lambda *_: iter([*mended, *others]))
    topic = Topic("v", TOPIC_ID, 1, 1, {"cleanup.policy": "delete"})
    assert oldest_left(Settings(), topic, {("v", 0): (5, 907)}) == [others]


def test_what_retention_has_deleted_of_the_new_documents_is_asked_for_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on while they are read: one that is gone by then would be called lost."""
    topic = Topic("new", TOPIC_ID, 1, 1, {"cleanup.policy": "delete"})
    messages = [TopicMessage("new", 0, offset, 0, b"k", b"{}", ()) for offset in (5, 6)]
    admin = cast(Admin, SimpleNamespace(ends=lambda _topics: {("new", 0): (5, 9)}))
    monkeypatch.setattr(verify, "read_committed", lambda *_: iter(messages))
    ends = {("new", 0): (0, 9)}  # before
    found = verify._new_documents(Settings(), admin, topic, ends, verify.no_progress)
    assert len(found) == 2 and [len(oldest) for oldest in found._oldest] == [2]


def test_a_log_belongs_to_the_group_that_has_begun_it() -> None:
    """An older log's author may name no group."""
    for author in (None, "w1", "night/w1"):
        check_founder(Settings(group="night"), author)
    with pytest.raises(StopError, match="begun by group night, and this is group nigth"):
        check_founder(Settings(group="nigth"), "night/w1")
