"""
The topics as they were when the worker started. One that is deleted and created again has other offsets under its name:
what is read of it would be taken for what was there before.
"""

from __future__ import annotations

from collections.abc import Mapping

from worker.errors import NeardupError, StopError
from worker.shell.kafka import Admin
from worker.shell.pipeline.periodic import Periodic

EVERY_S = 5.0


class Incarnation:
    """
    Looks at the topics' ids every few seconds.

    Args:
        topics: name -> id, as found at the start.
    """

    def __init__(self, admin: Admin, topics: Mapping[str, bytes], every_s: float = EVERY_S) -> None:
        self._admin = admin
        self.topics = topics
        self._found = Periodic("incarnation", self._ask, every_s)  # without an answer, readers and writers learn of it

    def _ask(self) -> Mapping[str, bytes]:
        return self._admin.topic_ids(list(self.topics))

    def check(self) -> None:
        """
        Compare what has been found.

        Raises:
            StopError: a topic is another one.
        """
        self._compare(self._found.take() or {})

    def look(self) -> None:
        """Look now, and compare. Cost: a request."""
        try:
            found = self._ask()
        except NeardupError:
            return
        self._compare(found)

    def _compare(self, found: Mapping[str, bytes]) -> None:
        for name, topic_id in found.items():
            if topic_id != self.topics[name]:
                raise StopError(
                    f"topic {name} was deleted and created again while this worker ran (its id was "
                    f"{self.topics[name].hex()}, now {topic_id.hex()}): start the worker again"
                )

    def close(self) -> None:
        """Look no more."""
        self._found.close()
