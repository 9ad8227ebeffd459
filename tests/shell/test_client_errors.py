"""Errors of the Kafka client that no restart mends: each says what does."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError

from worker.errors import StopError
from worker.shell.kafka.client import translate


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            KafkaError.GROUP_ID_NOT_FOUND,
            "with kafka.group.protocol=classic, and no worker can change it alone: stop all workers",
        ),
        (
            KafkaError.UNRELEASED_INSTANCE_ID,
            "or one that died and whose session has not ended yet. Give each worker its own "
            "--worker-id, or wait until the session ends",
        ),
        (KafkaError.UNKNOWN_MEMBER_ID, "the client has given up: .* restart the worker"),
    ],
)
def test_a_client_that_has_given_up_says_what_helps(code: int, says: str) -> None:
    """A restart alone helps neither against another protocol nor against an id that is taken."""
    text = f"Fatal error: {KafkaError(code).str()}: ConsumerGroupHeartbeat fatal error"
    error = translate(KafkaError(KafkaError._FATAL, text), "reading documents")
    assert isinstance(error, StopError)
    assert re.search(says, str(error)) and text in str(error)


def test_a_clock_that_a_topic_refuses_is_named() -> None:
    """A restart does not help: the clock is the same, and so is the topic."""
    with pytest.raises(StopError, match=r"by its clock.*Correct it, .*=LogAppendTime \(INVALID_TI"):
        raise translate(KafkaError(KafkaError.INVALID_TIMESTAMP), "appending to fingerprints")
