"""Questions to the cluster, asked again while a broker restarts or a coordinator moves, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from worker.errors import StopError
from worker.shell.kafka.errors import passing, translated

CALL_S_MIN = 0.5  # less, and a call on a busy machine could not be answered at all
CALL_S_MAX = 3.0  # more, and a broker that stands still would hold the question long after another has taken over
PAUSE_S = 0.1

Answer = TypeVar("Answer")


def retry(
    ask: Callable[[float], Answer],
    doing: str,
    wait_s: float,
    on_wait: Callable[[float], None] = lambda _left_s: None,
) -> Answer:
    """
    Ask until there is an answer.

    Whoever asks changes nothing by asking twice: a coordinator that has moved, a leader that is being elected and a
    call that timed out are no answer yet. What cannot pass ends the asking at once.

    Args:
        ask: one call, given the seconds that it may take: at most half of what is left, so that a call which a dying
            broker holds is never the last one.
        doing: what for, the beginning of the error's text.
        wait_s: how long to ask.
        on_wait: told after each call without an answer how long it will be asked for still, s.

    Raises:
        StopError: a later call would get the same answer.
        RetryError: no answer in time, with the last reason.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ask(min(max((deadline - time.monotonic()) / 2, CALL_S_MIN), CALL_S_MAX))
        except KafkaException as error:
            ours = translated(error, doing)
            if isinstance(ours, StopError):
                raise ours from error
            if time.monotonic() + PAUSE_S > deadline:
                raise passing(error, doing, wait_s) from error
        on_wait(deadline - time.monotonic())
        time.sleep(PAUSE_S)


def span(consumer: Consumer, part: TopicPartition, name: str, wait_s: float) -> tuple[int, int]:
    """Return a partition's first offset and the one behind its last (committed, if `consumer` reads those) message."""

    def ask(timeout_s: float) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(part, timeout=timeout_s, cached=False)
        return int(low), int(high)

    return retry(ask, f"asking for the end of {name}", wait_s)
