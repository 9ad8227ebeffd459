"""What the stages of the pipeline are made of: the verbs of each, its bounded queue, and a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import structlog

from worker.errors import NeardupError, StopError
from worker.shell.pipeline.batch import Batch

SLICE_S = 0.05  # how long one wait takes of whoever has something else to look after

_log = structlog.get_logger(__name__)


class Stage:
    """
    A step of the pipeline, which here gives back what it is given: at most `batches_max` batches, in their order.

    The thread before it calls `submit` and `close`, the one behind it `poll` and `join`.
    """

    def __init__(self, batches_max: int) -> None:
        self._batches_max = batches_max
        self._batches: deque[Batch] = deque()
        self._changed = threading.Condition()
        self._is_closed = self._is_dropped = False

    def __len__(self) -> int:
        """Return the number of batches that wait."""
        return len(self._batches)

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Take a batch; False: there was no room for it within `wait_s`. Raises what the stage has failed with."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_dropped or len(self) < self._batches_max, wait_s):
                return False
            if not self._is_dropped:
                self._begin(batch)
                self._batches.append(batch)
                self._changed.notify_all()
            return True

    def _begin(self, batch: Batch) -> None:
        """Do what is to be done at once with a batch for which there is room."""

    def poll(self, wait_s: float = 0.0) -> Batch | None:
        """Return the next batch that is finished, if it is within `wait_s`. Raises what the stage has failed with."""
        return self._take() if self._head(wait_s) else None

    def _head(self, wait_s: float) -> Batch | None:
        """Return the next batch, which stays."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._is_closed, wait_s)
            return self._batches[0] if self._batches else None

    def _take(self) -> Batch | None:
        """Take the next batch out, if it has not been dropped."""
        with self._changed:
            self._changed.notify_all()
            return self._batches.popleft() if self._batches else None

    def close(self, *, finish: bool = True) -> None:
        """Take no more batches; unless `finish`, drop those that are here and what comes all the same."""
        with self._changed:
            self._is_closed = True
            if not finish:
                self._is_dropped = True
                self._batches.clear()
            self._changed.notify_all()

    def join(self, wait_s: float) -> bool:
        """Return whether the stage is closed and everything has come to its end within `wait_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed and not self._batches, wait_s)


class StageThread:
    """A stage's thread: does `run` once it is started, and keeps what that fails with."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
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
            _log.exception(f"the {self._thread.name} thread failed")
            self._failure = StopError(f"the {self._thread.name} thread failed: {error!r}")
            self._failure.__cause__ = error

    def check(self) -> None:
        """Raise what it has failed with."""
        if self._failure is not None:
            raise self._failure

    def join(self, wait_s: float) -> bool:
        """Return whether it has ended within `wait_s`, or was never started."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()
