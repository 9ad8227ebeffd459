"""Publishing beside judging: what overlaps, what must not, and how a failure ends it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.shell.simulation import TOPIC_ID, History, SimulatedWorker, Transactions
from worker.errors import FencedError, RetryError, StopError
from worker.log.record import Source, decode
from worker.settings import Settings
from worker.shell.pipeline.ownership import Ownership
from worker.shell.pipeline.publishing import Answered, Publishing, PublishingThread
from worker.shell.ports import Outgoing
from worker.shell.runtime.fault_hooks import never


def one_worker() -> SimulatedWorker:
    """A group of one, without faults."""
    history = History(seed=1, workers=1)
    history.world.faults = False
    return history.workers["w0"]


def fill(worker: SimulatedWorker) -> None:
    """Read until no more batches fit."""
    while not worker.batches.full():
        worker.intake._step(worker.source)


def answer_next(worker: SimulatedWorker) -> None:
    """Have the next batch answered."""
    batch = worker.batches.get(timeout=60)
    assert batch is not None
    worker.loop.answer(batch)


class Scripted:
    """A publisher that does as it is told and keeps a diary."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.diary: list[str] = []

    def open(self) -> None:
        """Note it."""
        self.diary.append("open")

    def publish(
        self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
    ) -> None:
        """Note it and end as told."""
        self.diary.append("publish")
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome

    def close(self) -> None:
        """Nothing is open."""


def test_the_next_batch_is_in_the_log_while_the_one_before_is_being_committed() -> None:
    """Judging does not wait for a transaction, and the commits come in the order of the batches."""
    worker = one_worker()
    world = worker.world
    may_end, running = threading.Event(), threading.Event()
    commits: list[dict[int, int]] = []

    class Slow(Transactions):
        def publish(
            self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
        ) -> None:
            running.set()
            assert may_end.wait(60)
            super().publish(messages, offsets, membership, metadata)
            commits.append(dict(offsets))

    worker.publishing._publisher = Slow(world, "w0")
    thread = PublishingThread(worker.publishing.publish)
    worker.loop._publishing = thread
    fill(worker)
    answer_next(worker)
    assert running.wait(60)
    before = world.log.stop
    answer_next(worker)
    assert world.log.stop > before
    assert world.committed == {}
    may_end.set()
    thread.finish(worker.loop._follow)
    assert len(commits) == 2
    assert all(commits[1].get(part, stop) >= stop for part, stop in commits[0].items())
    assert world.committed == {**commits[0], **commits[1]}


def test_a_revocation_waits_for_the_transaction_that_runs_and_stops_the_one_that_waits() -> None:
    """When the group is answered nothing of the partition is in flight, and nothing will be."""
    worker = one_worker()
    may_end, running = threading.Event(), threading.Event()
    published: list[set[int]] = []

    class Slow(Scripted):
        def publish(
            self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
        ) -> None:
            running.set()
            assert may_end.wait(60)
            published.append(set(offsets))

    worker.publishing._publisher = Slow()
    thread = PublishingThread(worker.publishing.publish)
    worker.loop._publishing = thread
    fill(worker)
    answer_next(worker)
    assert running.wait(60)
    answer_next(worker)
    assert not worker.ownership.give_up([0, 1, 2], 0.2)
    may_end.set()
    assert worker.ownership.give_up([0, 1, 2], 10)
    thread.finish(worker.loop._follow)
    assert len(published) == 1


def test_what_is_in_doubt_is_settled_before_anything_is_read_again() -> None:
    """An open transaction hides the committed offsets: the producer is made anew at once, not with the next batch."""
    worker = one_worker()
    publisher = Scripted(RetryError("timed out"), None)
    worker.publishing._publisher = publisher
    rewinds: list[int] = []
    publisher.open = lambda: rewinds.append(worker.ownership.rewinds)  # type: ignore[method-assign]
    worker.publishing._sleep = lambda _seconds: None
    fill(worker)
    answer_next(worker)
    worker.steps.step()
    assert rewinds == [0]
    assert worker.ownership.rewinds == 1


def test_a_batch_behind_a_doubtful_one_is_not_published() -> None:
    """Its offsets would commit what may never have been answered."""
    worker = one_worker()
    publisher = Scripted(RetryError("timed out"), None)
    worker.publishing._publisher = publisher
    worker.publishing._sleep = lambda _seconds: None
    fill(worker)
    answer_next(worker)
    answer_next(worker)
    worker.steps.finish(worker.loop._follow)
    assert publisher.diary == ["publish", "open"]


def test_the_next_record_says_what_has_been_committed() -> None:
    """By that the other replicas forget verdicts; without it they would keep all of them."""
    worker = one_worker()
    fill(worker)
    answer_next(worker)
    worker.steps.step()
    committed = dict(worker.world.committed)
    assert committed
    while not worker.batches.empty():
        answer_next(worker)
        worker.steps.step()
    worker.intake._step(worker.source)
    answer_next(worker)
    spans = [span for entry in worker.world.log.entries[1:] for span in decode(entry.value).spans]
    assert any(
        span.committed == committed[span.source.partition] for span in spans if span.source.partition in committed
    )


def test_the_replica_forgets_what_has_been_committed() -> None:
    """Verdicts are kept until their offset is committed, and no longer."""
    worker = one_worker()
    fill(worker)
    answer_next(worker)
    kept = sum(map(len, worker.replica.pending.values()))
    worker.steps.step()
    worker.loop._follow()
    assert sum(map(len, worker.replica.pending.values())) < kept
    for partition, stop in worker.world.committed.items():
        assert worker.replica.pending[Source(TOPIC_ID, partition)].pruned == stop


def publishing(publisher: Scripted) -> Publishing:
    """Return one that sleeps never and may try twice."""
    settings = Settings(retries_max=1)
    return Publishing(settings, publisher, Ownership(), never, lambda _seconds: None)


def test_a_failure_of_the_thread_comes_out_where_batches_are_handed_over() -> None:
    """A successor has the worker's id: the ordering thread learns of it and ends."""

    def publish(_batch: Answered) -> None:
        raise FencedError("taken over")

    thread = PublishingThread(publish)
    batch = Answered((), "", 0.0, threading.Event())
    with pytest.raises(FencedError, match="taken over"):
        for _ in range(100):
            thread.offer(batch, lambda: None)
    with pytest.raises(FencedError, match="taken over"):
        thread.finish(lambda: None)


def test_a_failure_of_the_thread_is_noticed_without_another_batch() -> None:
    """On a quiet topic nothing is handed over any more; what waited behind the failure is not underway for ever."""
    begun = threading.Event()

    def publish(batch: Answered) -> None:
        begun.wait(60)
        batch.ended.set()
        raise FencedError("taken over")

    thread = PublishingThread(publish)
    failing, waiting = (Answered((), "", 0.0, threading.Event()) for _ in range(2))
    thread.offer(failing, lambda: None)
    thread.check()
    thread.offer(waiting, lambda: None)
    begun.set()
    assert waiting.ended.wait(60)
    with pytest.raises(FencedError, match="taken over"):
        thread.check()


def test_the_loop_ends_when_publishing_has_failed_and_nothing_comes() -> None:
    """A fenced worker leaves the group, so that its partitions move; it does not wait for its next document."""
    worker = one_worker()

    class Failed(PublishingThread):
        def check(self) -> None:
            """Raise at once."""
            raise FencedError("taken over")

    worker.loop._publishing = Failed(print)
    with pytest.raises(FencedError, match="taken over"):
        worker.loop.run()


def test_reading_again_for_ever_is_given_up() -> None:
    """A batch that can never be answered ends the worker with the cause."""
    answered = Answered((), "", 0.0, threading.Event(), RetryError("no longer kept"))
    mine = publishing(Scripted())
    mine.publish(answered)
    with pytest.raises(StopError, match="1 times in a row: no longer kept"):
        mine.publish(answered)
