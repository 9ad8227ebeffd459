"""Publishing beside judging: what overlaps, what must not, and how a failure ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.shell.simulated_cluster import Scripted
from tests.shell.simulation import SimulatedWorker
from tests.shell.test_partitions import owned, published
from tests.shell.test_sequencer import one_worker
from worker.core.document import Outcome
from worker.errors import RetryError, StopError
from worker.settings import Settings
from worker.shell.messages import VerdictBytes
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.pipeline.publishing import (
    DEAD_LETTERS_TOLD_S,
    HEADERS_BYTES_MAX,
    DeadLetterLog,
    Publishing,
)
from worker.shell.pipeline.stage import Batch, Share
from worker.shell.ports import CommittedOffset, Headers, InputMessage, Outgoing
from worker.shell.runtime import metrics


class Held(Scripted):
    """A publisher whose first transaction runs until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.running, self.may_end = threading.Event(), threading.Event()

    def publish(self, *transaction: Any, **named: Any) -> None:
        self.running.set()
        assert self.may_end.wait(60)
        super().publish(*transaction, **named)


def on_its_thread(worker: SimulatedWorker, publisher: Scripted) -> Publishing:
    """The real stage with its thread, behind this worker's sequencer."""
    worker.publishing = Publishing(worker.settings, publisher, worker.partitions)  # type: ignore[assignment]
    worker.publishing.start()
    worker.sequencer = worker.make_sequencer()
    worker.fill()
    return worker.publishing


def committing() -> tuple[SimulatedWorker, Held, Publishing]:
    """A worker whose first transaction runs."""
    worker, publisher = one_worker(), Held()
    publishing = on_its_thread(worker, publisher)
    worker.sequencer.step()
    assert publisher.running.wait(60)
    return worker, publisher, publishing


def test_the_next_batch_is_in_the_log_while_the_one_before_is_being_committed() -> None:
    """Judging does not wait for a transaction, and the commits come in the order of the batches."""
    worker, publisher, publishing = committing()
    before = worker.world.log.stop
    worker.sequencer.step()
    assert worker.world.log.stop > before
    assert set(published(worker.partitions).values()) == {0}
    publisher.may_end.set()
    publishing.close()
    assert publishing.join(60)
    first, second, nothing = (publishing.poll() for _ in range(3))
    assert first is not None and second is not None and nothing is None
    stops = {
        share.claim.partition: share.stop for batch in (first, second) for share in batch.shares
    }
    assert published(worker.partitions) == {**dict.fromkeys(range(3), 0), **stops}
    assert all(
        share.first >= 0 and share.stop <= stops[share.claim.partition] for share in first.shares
    )


def test_a_revocation_waits_for_the_transaction_that_runs_and_stops_the_one_that_waits() -> None:
    """When the group is answered nothing of the partition is in flight, and nothing will be."""
    worker, publisher, publishing = committing()
    worker.sequencer.step()
    revoking = threading.Thread(target=worker.partitions.revoke, args=([0, 1, 2],))
    revoking.start()
    revoking.join(0.05)
    assert revoking.is_alive()
    publisher.may_end.set()
    revoking.join(60)
    assert not revoking.is_alive()
    publishing.close()
    assert publishing.join(60)
    assert len(publisher.diary) == 1


def test_what_is_in_doubt_is_settled_before_anything_is_read_again() -> None:
    """
    An open transaction hides the committed offsets: the producer is made anew at once, not with the
    next batch.
    """
    publisher = Scripted(RetryError("timed out"))
    worker = one_worker(publisher)
    opened: list[bool] = []
    publisher.open = lambda: opened.append(worker.partitions.are_in_flight())  # type: ignore[method-assign]
    worker.fill()
    worker.sequencer.step()
    worker.publishing.step()
    assert opened == [True]
    # `_sleep` lets the intake go on.
    assert worker.partitions.rewinding() or worker.partitions.claims()


class Interrupted(Partitions):
    """Another thread comes in between before each question, one history after the other."""

    def __init__(self, moment: int, event: Callable[[Partitions], None]) -> None:
        super().__init__()
        self.moment, self.event = moment, event

    def _asked(self) -> None:
        if self._lock.locked():
            return  # nothing comes in between there
        self.moment -= 1
        if self.moment == 0:
            self.event(self)

    def holds(self, claim: Claim) -> bool:
        self._asked()
        return super().holds(claim)

    @property
    def group_metadata(self) -> Any:
        self._asked()
        return self._carried

    @group_metadata.setter
    def group_metadata(self, metadata: Any) -> None:
        self._carried = metadata


def lose_one(mine: Partitions) -> None:
    """The member was away for too long, and has joined again."""
    mine.lose([0])
    mine.group_metadata = {1}


def lose_and_regain(mine: Partitions) -> None:
    """The same, and another one has published the partition meanwhile."""
    lose_one(mine)
    mine.assign({0: 7})
    mine.group_metadata = {0, 1}


class Group(Scripted):
    """
    Takes what this worker may commit; under its first membership anything, which a group refuses
    later.
    """

    FIRST = frozenset({0, 1})

    def __init__(self, mine: Partitions) -> None:
        super().__init__()
        self.mine, self.claims = mine, list(mine.claims().values())

    def publish(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[int, CommittedOffset],
        group_metadata: Any,
    ) -> None:
        held = {claim.partition for claim in self.claims if Partitions.holds(self.mine, claim)}
        assert group_metadata is self.FIRST or set(offsets) <= held
        super().publish(messages, offsets, group_metadata)


@pytest.mark.parametrize("event", [lose_one, lose_and_regain, Partitions.rewind])
def test_a_transaction_commits_what_its_membership_has(event: Callable[[Partitions], None]) -> None:
    """
    Whenever the group changes its mind: old offsets go under the old membership, which it refuses,
    or not at all.
    """
    moments = []
    for moment in range(1, 16):
        mine = Interrupted(moment, event)
        mine.assign({0: 0, 1: 0})
        mine.group_metadata = Group.FIRST
        publishing = Publishing(Settings(), Group(mine), mine)
        assert publishing.submit(empty_batch(mine))
        publishing.step()
        assert event is Partitions.rewind or mine.known()[1].published == 1
        moments.append(mine.moment)
    assert moments[0] <= 0 < moments[-1]  # from before the first question to behind the last one


def empty_batch(mine: Partitions, failure: RetryError | None = None) -> Batch:
    """One offset of each partition, without a message."""
    claims = list(mine.claims().values())
    for claim in claims:
        mine.read(claim, 1)
    return Batch((), [Share(claim, 0, 1, 0, 0) for claim in claims], failure=failure)


def publish_stamped(mine: Partitions, claim: Claim, stamps: Sequence[int]) -> None:
    """Publish a batch of messages with these time stamps."""
    messages = [
        InputMessage(0, at, b"k", b"v", timestamp_ms=stamp) for at, stamp in enumerate(stamps)
    ]
    count = len(messages)
    publishing = Publishing(Settings(), Scripted(None), mine)
    publishing.submit(Batch(messages, [Share(claim, 0, count, 0, count)], answers=[None] * count))
    publishing.step()


def test_latency_is_each_documents_own_from_its_time_in_the_topic() -> None:
    """
    Documents that had waited 20 s before they were read show 20 s; one without a time shows none.
    """
    (mine, claim), before = owned(0), _latency()
    now_ms = int(time.time() * 1_000)
    stamps = [now_ms - 20_000, now_ms - 20_000, now_ms + 60_000, 0]
    mine.read(claim, 4, stamps[0])
    publish_stamped(mine, claim, stamps)
    after = {name: value - before[name] for name, value in _latency().items()}
    assert (after["15.0"], after["60.0"], after["+Inf"]) == (1, 3, 3)
    assert 40 <= after["sum"] < 50


@pytest.mark.parametrize(("stamps", "since_ms"), [([2_000, -1], 2_000), ([-1, -1], 1_000)])
def test_what_is_behind_a_document_without_a_time_stamp_still_waits(
    stamps: list[int], since_ms: int
) -> None:
    """Since the last document before it that has one, or as long as was known before."""
    mine, claim = owned(0)
    mine.read(claim, 2, 1_000)
    mine.read(claim, 3, 3_000)
    publish_stamped(mine, claim, stamps)
    assert mine.known()[0].waits_since_ms == since_ms


def _latency() -> dict[str, float]:
    [family] = metrics.LATENCY_S.collect()
    return {one.labels.get("le", one.name.rpartition("_")[2]): one.value for one in family.samples}


@pytest.mark.parametrize(
    ("headers", "are_kept"),
    [
        ((), True),
        ((("a", b"b"), ("null", None)), True),
        ((("a", bytes(HEADERS_BYTES_MAX - 11)),), True),
        ((("a", bytes(HEADERS_BYTES_MAX - 10)),), False),
        ((("a" * HEADERS_BYTES_MAX, None),), False),
        ((("", b""),) * HEADERS_BYTES_MAX, False),  # each takes some bytes of its own
    ],
)
def test_headers_that_the_topic_of_new_documents_may_refuse_are_left_out(
    headers: Headers, are_kept: bool
) -> None:
    """
    The first such document is named, and all are counted; one that a broker refuses would end every
    worker. An attempt that fails counts nothing.
    """
    counted = metrics.HEADERS_LEFT_OUT.labels("size")
    before = counted._value.get()
    mine, claim = owned(0)
    mine.read(claim, 2)
    publisher = Scripted(RetryError("no", settled=True))
    publishing = Publishing(Settings(topic_new="new"), publisher, mine, sleep=lambda _seconds: None)
    messages = [InputMessage(0, at, b"k", b"document", headers=headers) for at in range(2)]
    answer = VerdictBytes(b"id", b"{}", Outcome.NEW)
    publishing.submit(Batch(messages, [Share(claim, 0, 2, 0, 2)], answers=[answer] * 2))
    with capture_logs() as said:
        publishing.step()
    _, written = publisher.written
    assert (
        written.messages[2:]
        == [Outgoing("new", b"id", b"document", headers if are_kept else ())] * 2
    )
    named = [line["offset"] for line in said if "headers_bytes_max" in line]
    assert named == ([] if are_kept else [0])
    assert counted._value.get() - before == (0 if are_kept else 2)
    assert all("fewer or shorter headers" in line["remedy"] for line in said if "remedy" in line)


def test_reading_again_for_ever_is_given_up() -> None:
    """
    A batch that can never be answered ends the worker with the cause; one that is void says
    nothing.
    """
    mine, _ = owned(0)
    publishing = Publishing(
        Settings(), Scripted(), mine, sleep=lambda _seconds: None, retries_max=1
    )
    cause = RetryError("no longer kept")
    for _ in range(3):
        message = InputMessage(0, 0, b"k", b"v")
        publishing.submit(Batch([message], [Share(Claim(0, -1), 0, 1, 0, 1)], failure=cause))
        publishing.step()
    publishing.submit(empty_batch(mine, cause))
    publishing.step()
    mine.restart(dict.fromkeys(mine.rewinding(), 0))
    publishing.submit(empty_batch(mine, cause))
    with pytest.raises(StopError, match="1 times in a row: no longer kept"):
        publishing.step()


def test_the_first_of_each_class_and_then_a_count_a_minute() -> None:
    """A crawler that sends 50,000 of a class writes two lines, and a minute without any none."""
    now_s = 0.0
    letters = DeadLetterLog(lambda: now_s)
    with capture_logs() as said:
        for offset in range(50_000):
            letters.add("no-body", 3, offset)
            letters.tick()
        letters.add("invalid-json", 4, 7)
    assert [(line["event"], line["code"], line["partition"], line["offset"]) for line in said] == [
        ("dead letter", "no-body", 3, 0),
        ("dead letter", "invalid-json", 4, 7),
    ]
    with capture_logs() as said:
        letters.add("invalid-json", 4, 8)
        for minute in range(1, 5):
            now_s = minute * DEAD_LETTERS_TOLD_S
            letters.tick()
    assert said == [
        {"event": "more dead letters", "log_level": "warning", "no_body": 49_999, "invalid_json": 1}
    ]
