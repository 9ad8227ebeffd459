"""
The topics as they were when the worker started. One that is deleted and created again has other offsets under its name:
what is read of it would be taken for what was there before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from worker.errors import NeardupError, StopError
from worker.shell.kafka import Admin

__all__ = ["Incarnation"]

EVERY_S = 5.0


class Incarnation:
    """
    Looks at the topics' ids every few seconds, on a thread of its own.

    Args:
        topics: name -> id, as found at the start.
    """

    def __init__(self, admin: Admin, topics: Mapping[str, bytes], every_s: float = EVERY_S) -> None:
        self._admin = admin
        self.topics = topics
        self._every_s = every_s
        self._failure: StopError | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="incarnation", daemon=True).start()

    def _run(self) -> None:
        while self._failure is None and not self._closed.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        try:
            found = self._admin.topic_ids(list(self.topics))
        except NeardupError:  # whoever reads and writes the topics learns of it
            return
        for name, topic_id in found.items():
            if topic_id != self.topics[name]:
                self._failure = StopError(
                    f"topic {name} was deleted and created again while this worker ran (its id was "
                    f"{self.topics[name].hex()}, now {topic_id.hex()}): start the worker again"
                )

    def check(self) -> None:
        """
        Raise what the last look has found.

        Raises:
            StopError: a topic is another one.
        """
        if self._failure is not None:
            raise self._failure

    def look(self) -> None:
        """Look now, and raise what was found. Cost: a request."""
        self._look()
        self.check()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
