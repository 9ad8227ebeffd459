"""Questions to the cluster while a broker restarts: asked again, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from worker.errors import RetryError, StopError
from worker.settings import Settings
from worker.shell.kafka import Admin, GroupOffsets
from worker.shell.kafka.client import CALL_S_MAX, retry

NOWHERE = Settings(bootstrap="127.0.0.1:1")


class Answer(NamedTuple):
    """What the coordinator says of one partition; only the client itself can make its own with an error."""

    partition: int
    error: KafkaError | None
    offset: int = 7
    metadata: str | None = None


class Coordinator:
    """What a client is told about a group's offsets: these errors first, of the call or of a partition, then 7."""

    def __init__(self, *errors: int, of_the_call: bool = True) -> None:
        self.errors = list(errors)
        self.of_the_call = of_the_call
        self.timeouts_s: list[float] = []

    def committed(self, parts: Sequence[TopicPartition], timeout: float) -> list[Answer]:
        self.timeouts_s.append(timeout)
        code = self.errors.pop(0) if self.errors else None
        if code is not None and self.of_the_call:
            raise KafkaException(KafkaError(code))
        error = None if code is None else KafkaError(code)
        return [Answer(part.partition, error) for part in parts]

    def poll(self, _wait_s: float) -> None:
        """Nothing has come."""

    def close(self) -> None:
        """Nothing to end."""


def _offsets(monkeypatch: pytest.MonkeyPatch, coordinator: Coordinator, wait_s: float) -> GroupOffsets:
    offsets = GroupOffsets(NOWHERE, 2, wait_s)
    offsets.close()
    monkeypatch.setattr(offsets, "_consumer", coordinator)
    return offsets


@pytest.mark.parametrize("of_the_call", [True, False])
def test_offsets_are_asked_for_again_while_the_coordinator_moves(
    monkeypatch: pytest.MonkeyPatch, of_the_call: bool
) -> None:
    """Moved, still loading, timed out: nothing that a caller has to know of."""
    passing = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    )
    coordinator = Coordinator(*passing, of_the_call=of_the_call)
    assert _offsets(monkeypatch, coordinator, 30).get() == {0: (7, ""), 1: (7, "")}
    assert len(coordinator.timeouts_s) == len(passing) + 1


@pytest.mark.parametrize("of_the_call", [True, False])
def test_what_cannot_pass_ends_the_asking_at_once(monkeypatch: pytest.MonkeyPatch, of_the_call: bool) -> None:
    """Access denied is denied the next time, too."""
    coordinator = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, of_the_call=of_the_call)
    with pytest.raises(StopError, match="access to the group is denied"):
        _offsets(monkeypatch, coordinator, 30).get()
    assert len(coordinator.timeouts_s) == 1


def test_the_asking_ends_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the last reason and how long it was."""
    coordinator = Coordinator(*[KafkaError.NOT_COORDINATOR] * 1_000)
    with pytest.raises(RetryError, match=r"offsets of group neardup: NOT_COORDINATOR: .* \(asked again for 0\.5 s"):
        _offsets(monkeypatch, coordinator, 0.5).get()
    assert 1 < len(coordinator.timeouts_s) < 1_000


def test_no_call_takes_all_the_time() -> None:
    """A call that a dying broker holds until its time-out is not the last one."""
    allowed: list[float] = []

    def ask(timeout_s: float) -> str:
        allowed.append(timeout_s)
        if len(allowed) < 3:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "answer"

    assert retry(ask, "asking", 2) == "answer"
    assert all(0.5 <= timeout_s <= 1 for timeout_s in allowed)
    assert sorted(allowed, reverse=True) == allowed
    assert retry(lambda timeout_s: timeout_s, "asking", 60) == CALL_S_MAX


def test_a_worker_asks_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its broker may start after it, and nobody waits for its answer."""
    waits: list[float] = []
    monkeypatch.setattr("worker.shell.kafka.admin.retry", lambda _ask, _doing, wait_s, _on_wait: waits.append(wait_s))
    Admin(NOWHERE, 90).create("t", 1, 1, {})
    assert waits == [90]


def test_without_a_broker_the_remedy_is_told() -> None:
    """Not a code of the client's, but what to do."""
    admin = Admin(NOWHERE, 1)
    for question in (admin.cluster_id, lambda: admin.describe(["t"]), lambda: admin.ends({"t": 1}),
                     lambda: admin.create("t", 1, 1, {})):  # fmt: skip
        with pytest.raises(StopError, match=r"no answer from 127\.0\.0\.1:1 in 1 s \(.*refused.*\)\. Start a broker"):
            question()
    assert admin.assigned("group") == {}
