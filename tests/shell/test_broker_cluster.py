"""A real Kafka of one and three nodes: it serves, nodes die and come back, and nothing is left behind."""

from __future__ import annotations

from tests.conftest import Kafka
from worker.shell.broker import EmbeddedKafka
from worker.shell.broker.wire import ask_metadata


def test_one_node_serves(kafka: Kafka) -> None:
    """The session's broker answers a Metadata request and lists itself."""
    port = int(kafka.bootstrap.split(",")[0].rpartition(":")[2])
    answer = ask_metadata(port)
    assert answer is not None
    assert port in answer.brokers.values()


def test_a_killed_node_comes_back(kafka3: EmbeddedKafka) -> None:
    """Two of three nodes go on without the third, which is known again to all after `up`."""
    kafka3.kill(2)
    assert [state.serves for state in kafka3.states()] == [True, False, True]
    kafka3.up(2)
    assert [state.serves for state in kafka3.states()] == [True, True, True]
