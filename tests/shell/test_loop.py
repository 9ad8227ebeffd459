"""The loop and its intake at their limits: when to give up, and what a worker that is told to stop still does."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.shell.simulation import History, SimulatedWorker
from worker.errors import RetryError, StopError
from worker.settings import Settings
from worker.shell.kafka import GroupConsumer
from worker.shell.kafka import config as kafka_config
from worker.shell.ports import Outgoing, SourceMessage


class NeverThere:
    """A cluster that answers no transaction."""

    def open(self) -> None:
        """Take over the id."""

    def publish(
        self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
    ) -> None:
        """Leave everything in doubt."""
        raise RetryError("timed out")

    def close(self) -> None:
        """Nothing is open."""


def one_worker() -> tuple[History, SimulatedWorker]:
    """A group of one, without faults."""
    history = History(seed=1, workers=1)
    history.world.faults = False
    return history, history.workers["w0"]


def test_reading_again_has_a_limit_however_many_batches_are_on_their_way() -> None:
    """Batches that a rewind has made void are no success: the attempts in a row go on counting."""
    _, worker = one_worker()
    worker.publishing._publisher = NeverThere()
    worker.publishing._sleep = lambda _seconds: None
    with pytest.raises(StopError, match="4 times in a row: timed out"):
        for _ in range(500):
            while not worker.batches.full():
                worker.intake._step(worker.source)
            while not worker.batches.empty():
                batch = worker.batches.get()
                assert batch is not None
                worker.loop.answer(batch)
            worker.steps.finish(worker.loop._follow)


def test_what_has_been_read_is_published_before_the_worker_leaves_the_group() -> None:
    """Told to stop, the intake stays a member until the batches behind it are answered and committed."""
    history, worker = one_worker()
    left = threading.Event()

    def leave() -> None:
        worker.source.revoke(sorted(worker.source.owned))
        left.set()

    worker.source.close = leave  # type: ignore[method-assign]
    while not worker.batches.full():
        worker.intake._step(worker.source)
    read = dict(worker.source.owned)
    worker.intake.stopping.set()
    thread = threading.Thread(target=worker.intake.run, daemon=True)
    thread.start()
    assert not left.wait(0.3)
    worker.loop.run()
    assert history.world.committed == {partition: stop for partition, stop in read.items() if stop}
    worker.intake.answered.set()
    assert left.wait(60)
    thread.join(60)
    assert worker.intake.failure is None


def test_offsets_without_a_message_are_covered_and_messages_from_before_a_seek_are_not_taken() -> None:
    """A batch covers from the position on, whatever gap the topic has there; what lies below was read before."""
    _, worker = one_worker()
    worker.intake._step(worker.source)
    while not worker.batches.empty():
        worker.batches.get()
    worker.intake._positions[0] = 5
    late, next_one = SourceMessage(0, 3, b"k", b"v"), SourceMessage(0, 7, b"k", b"v")
    worker.source.poll = lambda _messages_max, _wait_s: [late, next_one]  # type: ignore[method-assign, assignment]
    worker.intake._step(worker.source)
    batch = worker.batches.get(timeout=30)
    assert batch is not None
    assert batch.messages == (next_one,)
    assert [(section.first, section.stop) for section in batch.sections] == [(5, 8)]


def test_what_comes_together_with_an_assignment_is_read_again() -> None:
    """Messages of a partition that the same poll assigned may be from before: they are dropped, and read once more."""
    _, worker = one_worker()
    worker.intake._step(worker.source)
    while not worker.batches.empty():
        worker.batches.get()

    def poll(_messages_max: int, _wait_s: float) -> list[SourceMessage]:
        worker.intake._on_assigned({0: 4})
        return [SourceMessage(0, 9, b"k", b"v")]

    worker.source.poll = poll  # type: ignore[method-assign, assignment]
    worker.source.owned[0] = 10
    worker.intake._step(worker.source)
    assert worker.batches.empty()
    assert worker.source.owned[0] == 4


def test_what_is_read_while_a_rewind_comes_in_is_void() -> None:
    """A poll that began before a rewind gives messages of before it: they may not be published."""
    _, worker = one_worker()
    worker.intake._step(worker.source)
    while not worker.batches.empty():
        worker.batches.get()
    ownership = worker.ownership

    def poll(_messages_max: int, _wait_s: float) -> list[SourceMessage]:
        ownership.rewind()
        return [SourceMessage(0, 9, b"k", b"v")]

    worker.source.poll = poll  # type: ignore[method-assign, assignment]
    worker.intake._step(worker.source)
    batch = worker.batches.get(timeout=30)
    assert batch is not None
    assert not ownership.holds(batch.sections[0].claim)


def test_a_consumer_outside_the_group_has_no_proof_of_membership() -> None:
    """An empty proof would be accepted by the broker without a check: none is given."""
    config = kafka_config.group_consumer(Settings(bootstrap="127.0.0.1:1", call_timeout_s=60))
    consumer = GroupConsumer(config, "documents", 1.0, lambda _: None, lambda _: None, lambda _: None)
    try:
        assert consumer.membership() is None
    finally:
        consumer.close()
