"""A question asked every so often: the last answer counts, once, and a failure is no end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from structlog.testing import capture_logs

from worker.errors import RetryError
from worker.shell.pipeline.service import Periodic


def test_an_answer_is_taken_once_and_a_failure_is_asked_again() -> None:
    """The thread goes on after an error of the cluster, and ends when closed."""
    asked = threading.Semaphore(0)
    answers: Iterator[RetryError | int] = iter([RetryError("the coordinator moves"), 5])

    def ask() -> int:
        answer = next(answers, None)
        if answer is None:  # the one before has been kept
            asked.release()
            raise RetryError("no more")
        if isinstance(answer, RetryError):
            raise answer
        return answer

    with capture_logs() as said:
        periodic = Periodic("asking", ask, 0.001, "nothing is known")
        assert asked.acquire(timeout=60)
    assert periodic.take() == 5 and periodic.take() is None
    assert said[0] == {"event": "nothing is known", "log_level": "warning", "cause": "the coordinator moves"}
    periodic.close()
