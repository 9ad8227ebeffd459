"""Asking for the group's committed offsets every so often: the last answer counts, once, and a failure is no end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from tests.conftest import EVENTUALLY_S
from worker.errors import RetryError
from worker.shell.pipeline.commits import Commits


def test_an_answer_is_taken_once_and_a_failure_is_asked_again() -> None:
    """The thread goes on after an error of the cluster, and ends when closed."""
    asked = threading.Semaphore(0)
    answers: Iterator[RetryError | dict[int, int]] = iter([RetryError("the coordinator moves"), {0: 5, 1: 7}])

    def ask() -> Mapping[int, int]:
        asked.release()
        answer = next(answers, {})
        if isinstance(answer, RetryError):
            raise answer
        return answer

    commits = Commits(ask, 0.001)
    for _ in range(2):
        assert asked.acquire(timeout=EVENTUALLY_S)
    taken: list[Mapping[int, int]] = []
    while not taken:
        taken += filter(None, [commits.take()])
    assert taken == [{0: 5, 1: 7}] and commits.take() == {}
    commits.close()
