"""The stages of the pipeline: their verbs, the bounded queue before one, and the thread of one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import structlog

from worker.errors import NeardupError, StopError
from worker.shell.pipeline.batch import Batch

__all__ = ["SLICE_S", "BatchQueue", "Stage", "StageThread"]

SLICE_S = 0.05  # how long one wait takes of whoever has something else to look after

Item = TypeVar("Item")

_log = structlog.get_logger(__name__)


class Stage(Protocol):
    """
    A step of the pipeline as the stages beside it see it. Each belongs to one thread, on which `step` does its work;
    `submit` is for the thread before it, `poll` for the one behind it.
    """

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Take a batch; False: there was no room for it within `wait_s`. Raises what the stage has failed with."""

    def poll(self, wait_s: float = 0.0) -> Batch | None:
        """Return the next batch that is finished, in order, if it is within `wait_s`. Raises what has failed."""

    def close(self, *, finish: bool = True) -> None:
        """Take no more batches; unless `finish`, drop those that are here."""

    def join(self, wait_s: float) -> bool:
        """Return whether everything has come to its end within `wait_s`."""

    def __len__(self) -> int:
        """Return the number of batches that wait."""


class BatchQueue(Generic[Item]):
    """At most `batches_max` batches between two threads, one that puts and one that takes, with an end."""

    def __init__(self, batches_max: int) -> None:
        self._batches_max = batches_max
        self._batches: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_dropped = False

    def __len__(self) -> int:
        return len(self._batches)

    def has_room(self, wait_s: float = 0.0) -> bool:
        """Return whether `put` is possible within `wait_s`; always, once the rest is dropped."""
        with self._changed:
            return self._changed.wait_for(self._has_room, wait_s)

    def _has_room(self) -> bool:
        return self._is_dropped or len(self._batches) < self._batches_max

    def put(self, batch: Item) -> None:
        """Add a batch where there is room."""
        with self._changed:
            if not self._is_dropped:
                self._batches.append(batch)
            self._changed.notify_all()

    def head(self, wait_s: float | None = 0.0) -> Item | None:
        """Return the first batch, which stays; None: there was none within `wait_s` (None: wait until the end)."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._is_closed, wait_s)
            return self._batches[0] if self._batches else None

    def take(self) -> Item | None:
        """Take the first batch out; None: it has been dropped."""
        with self._changed:
            batch = self._batches.popleft() if self._batches else None
            self._changed.notify_all()
            return batch

    def close(self, *, finish: bool = True) -> None:
        """Say that no more will come; unless `finish`, drop what is here and whatever comes all the same."""
        with self._changed:
            self._is_closed = True
            if not finish:
                self._is_dropped = True
                self._batches.clear()
            self._changed.notify_all()

    def join(self, wait_s: float) -> bool:
        """Return whether it is closed and empty within `wait_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed and not self._batches, wait_s)


class StageThread:
    """A stage's thread: does `run` once it is started, and keeps what that fails with."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        self._failure: NeardupError | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except NeardupError as error:
            self._failure = error
        except BaseException as error:
            _log.exception(f"the {self._name} thread failed")
            self._failure = StopError(f"the {self._name} thread failed: {error!r}")
            self._failure.__cause__ = error

    def check(self) -> None:
        """Raise what it has failed with."""
        if self._failure is not None:
            raise self._failure

    def join(self, wait_s: float) -> bool:
        """Wait for the end; True also where it was never started."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()
