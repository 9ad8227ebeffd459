"""The stages together at their limits: when to give up, and what a worker that is told to stop still does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.shell.simulation import TOPIC_ID, History, Scripted, SimulatedWorker
from tests.shell.test_partitions import state
from worker.errors import FencedError, RetryError, StopError
from worker.log.record import Source, decode
from worker.shell.pipeline.partitions import State
from worker.shell.pipeline.sequencer import STOP_GRACE_S
from worker.shell.pipeline.stage import Batch, Stage


def one_worker(publisher: Any = None) -> SimulatedWorker:
    """A group of one, without faults."""
    history = History(seed=1, workers=0)
    history.world.faults = False
    return history.start("w0", publisher)


class Counting(Stage):
    """A stage as CONTRIBUTING.md says one is added: it stands behind another and has its verbs."""

    def __init__(self, before: Stage) -> None:
        self.before, self.messages = before, 0
        self.submit, self.close, self.join = before.submit, before.close, before.join  # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self.before)

    def poll(self, wait_s: float = 0.0) -> Batch | None:
        if batch := self.before.poll(wait_s):
            self.messages += len(batch.messages)
        return batch


def test_a_stage_is_added_behind_another() -> None:
    """The sequencer takes what it is given; every batch comes by once."""
    worker = one_worker()
    worker.preparer = counting = Counting(worker.preparer)  # type: ignore[assignment]
    worker.fill()
    worker.preparer.close()
    worker.make_sequencer().run(lambda: None)
    assert counting.messages == sum(worker.world.committed.values()) > 0


def test_reading_again_has_a_limit_however_many_batches_are_on_their_way() -> None:
    """Batches that a rewind has made void are no success: the attempts in a row go on counting."""
    worker = one_worker(Scripted(always=RetryError("timed out")))
    with pytest.raises(StopError, match="4 times in a row: timed out"):
        for _ in range(500):
            worker.fill()
            while len(worker.preparer):
                worker.sequencer.step()
            while not worker.publishing.join(0):
                worker.sequencer.follow()


def test_what_has_been_read_is_published_before_the_worker_leaves_the_group() -> None:
    """Told to stop, the intake stays a member until the batches behind it are answered and committed."""
    worker = one_worker()
    left = threading.Event()

    def leave() -> None:
        worker.source.revoke(sorted(worker.source.owned))
        left.set()

    worker.source.close = leave  # type: ignore[method-assign]
    worker.fill()
    read = dict(worker.source.owned)
    worker.stop.set()
    worker.intake.start()
    worker.sequencer.run(lambda: None)
    assert worker.world.committed == {partition: stop for partition, stop in read.items() if stop}
    assert not left.is_set()
    assert worker.intake.join(60) and left.is_set()
    worker.intake.check()


def test_a_batch_that_is_not_prepared_in_time_is_left_when_the_worker_stops() -> None:
    """Ten seconds after it was told to stop it goes without this batch and the ones behind it: nothing is committed."""
    worker = one_worker()
    worker.fill()
    worker.preparer.is_slow = True
    now_s = 0.0
    sequencer = worker.make_sequencer(clock=lambda: now_s)
    sequencer.step()
    sequencer.close()
    now_s = STOP_GRACE_S
    sequencer.step()
    assert len(worker.preparer) == 3
    now_s += 0.1
    sequencer.run(worker.preparer.close)
    assert len(worker.preparer) == 0 and worker.world.committed == {}


def test_a_worker_that_stops_waits_ten_seconds_for_each_batch() -> None:
    """A full queue is published to its end, however long it takes, while it moves."""
    worker = one_worker()
    worker.fill()
    now_s = 0.0
    sequencer = worker.make_sequencer(clock=lambda: now_s)
    sequencer.close()
    worker.preparer.close()
    for _ in range(3):
        now_s += STOP_GRACE_S
        sequencer.step()
    sequencer.run(lambda: None)
    assert all(state(worker.partitions, part) is not State.IN_FLIGHT for part in range(3)) and worker.world.committed


def test_a_batch_that_is_handed_on_late_has_its_ten_seconds() -> None:
    """An intake that waits for the end of a transaction hands on what it has when the worker has long been stopping."""
    worker = one_worker()
    now_s = 0.0
    sequencer = worker.make_sequencer(clock=lambda: now_s)
    sequencer.close()
    now_s = 5 * STOP_GRACE_S
    sequencer.step()
    worker.preparer.is_slow = True
    worker.fill()
    sequencer.step()
    assert len(worker.preparer) == 3


def test_the_next_record_says_what_has_been_committed() -> None:
    """By that the other replicas forget verdicts; without it they would keep all of them."""
    worker = one_worker()
    worker.fill()
    worker.sequencer.step()
    worker.publishing.step()
    committed = dict(worker.world.committed)
    assert committed
    while len(worker.preparer):
        worker.sequencer.step()
        worker.publishing.step()
    worker.intake.step()
    worker.sequencer.step()
    spans = [span for entry in worker.world.log.entries[1:] for span in decode(entry.value).spans]
    assert any(
        span.committed == committed[span.source.partition] for span in spans if span.source.partition in committed
    )


def test_the_replica_forgets_what_has_been_committed() -> None:
    """Verdicts are kept until their offset is committed, and no longer."""
    worker = one_worker()
    worker.fill()
    worker.sequencer.step()
    kept = sum(map(len, worker.replica.pending.values()))
    worker.publishing.step()
    worker.sequencer.follow()
    assert sum(map(len, worker.replica.pending.values())) < kept
    for partition, stop in worker.world.committed.items():
        assert worker.replica.pending[Source(TOPIC_ID, partition)].pruned == stop


def test_the_sequencer_ends_when_publishing_has_failed_and_nothing_comes() -> None:
    """A fenced worker leaves the group, so that its partitions move; it does not wait for its next document."""
    worker = one_worker(Scripted(FencedError("taken over")))
    worker.fill()
    worker.sequencer.step()
    worker.publishing.start()
    with pytest.raises(FencedError, match="taken over"):
        worker.sequencer.run(lambda: None)
