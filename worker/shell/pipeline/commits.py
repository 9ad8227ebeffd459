"""The group's committed offsets, asked for every so often: verdicts that others have published need not wait here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from worker.errors import NeardupError

__all__ = ["Commits"]

_log = structlog.get_logger(__name__)


class Commits:
    """
    Asks on a thread of its own.

    A record of the log tells its author's commits of the partitions in it; no record tells the last commit of a
    partition that falls silent.

    Args:
        ask: gives the committed offset of each partition.
    """

    def __init__(self, ask: Callable[[], Mapping[int, int]], every_s: float) -> None:
        self._ask = ask
        self._every_s = every_s
        self._answer: Mapping[int, int] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="commits", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            try:
                self._answer = self._ask()
            except NeardupError as error:
                _log.warning("committed offsets are not known, verdicts wait until they are", cause=str(error))

    def take(self) -> Mapping[int, int]:
        """Return the last answer, once; nothing when there is no new one."""
        answer, self._answer = self._answer, {}
        return answer

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
