"""A question that is asked every so often on a thread of its own; its last answer is there when somebody has time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from worker.errors import NeardupError

Answer = TypeVar("Answer")

_log = structlog.get_logger(__name__)


class Periodic(Generic[Answer]):
    """
    Asks until it is closed. Without an answer it asks again the next time.

    Args:
        without: what the log says when there is no answer; nothing if left out.
    """

    def __init__(self, name: str, ask: Callable[[], Answer], every_s: float, without: str = "") -> None:
        self._ask = ask
        self._every_s = every_s
        self._without = without
        self._answers: list[Answer] = []
        self._closed = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            try:
                self._answers = [self._ask()]
            except NeardupError as error:
                if self._without:
                    _log.warning(self._without, cause=str(error))

    def take(self) -> Answer | None:
        """Return the last answer, once; None when there is no new one."""
        try:
            return self._answers.pop()
        except IndexError:
            return None

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
