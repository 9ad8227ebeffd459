"""
Batches of messages, and what all stages have in common: their verbs, a bounded queue and a thread.

Each stage reads the columns of earlier stages and adds its own column to the batch, with one entry
per message. A batch belongs to one stage at a time, and a queue hands it to the next one. If a
share was void before a stage worked on it, that stage's column has None for its messages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from worker.errors import DocumentError, NeardupError, RetryError, StopError
from worker.log.record import Rows
from worker.shell.messages import VerdictBytes
from worker.shell.pipeline.offsets import NO_LOG, CommitMetadata
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.ports import InputMessage, Outgoing
from worker.shell.runtime.logging import get_logger

POLL_S = 0.05  # the longest wait of a thread that has other work, too

_NO_ROWS = Rows.of([])
_log = get_logger(__name__)


class Share(NamedTuple):
    """One partition's share of a batch: its offsets [first, stop) and entries [begin, end)."""

    claim: Claim
    first: int
    stop: int
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Batch:
    """Messages, and what each stage has made of them."""

    messages: Sequence[InputMessage]
    # One per partition, without those that `drop_void` has dropped.
    shares: Sequence[Share] = ()
    read_at_s: float = 0.0  # when the first message was read; monotonic
    jobs: Sequence[Future[Rows]] = ()  # the rows, while threads make them
    rows: Rows = _NO_ROWS  # what is appended to the log
    # What the log says about each message: a verdict, or why there is none.
    answers: Sequence[VerdictBytes | DocumentError | None] = ()
    failure: RetryError | None = None  # why the log gives no answers: everything must be read again
    # Committed with the offsets: the log's id, and how much of it had been applied.
    commit_metadata: CommitMetadata = NO_LOG
    outgoing: Sequence[Outgoing | None] = ()  # what is published for each message

    def drop_void(self, partitions: Partitions) -> bool:
        """
        Drop the shares whose claims have become void. The next owners of the partitions answer
        them.

        Returns whether any share is left.
        """
        self.shares = [share for share in self.shares if partitions.holds(share.claim)]
        return bool(self.shares)


def cut(
    messages: Iterable[InputMessage], documents_max: int, bytes_max: int
) -> Iterator[list[InputMessage]]:
    """
    Cut messages into pieces with at most this many messages and bytes.

    A message with more bytes than that is a piece by itself.
    """
    piece: list[InputMessage] = []
    size_bytes = 0
    for message in messages:
        more_bytes = message.size_bytes
        if piece and (len(piece) >= documents_max or size_bytes + more_bytes > bytes_max):
            yield piece
            piece = []
            size_bytes = 0
        piece.append(message)
        size_bytes += more_bytes
    if piece:
        yield piece


class Stage:
    """
    A queue of at most `batches_max` batches, which leave in the order in which they came.

    Subclasses do their work in `_begin` and `_finish`.
    """

    def __init__(self, batches_max: int) -> None:
        self._batches_max = batches_max
        self._batches: deque[Batch] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_dropped = False

    def _begin(self, batch: Batch) -> None:
        """Begin the work on a batch, when there is room for it."""

    # There is nothing to finish.
    def _finish(self, batch: Batch, wait_s: float) -> bool:  # noqa: ARG002
        """
        Add the stage's column to the next batch; return whether that was possible within `wait_s`.
        """
        return True

    def __len__(self) -> int:
        """Return the number of batches that are here."""
        return len(self._batches)

    def idle_threads(self) -> int:
        """
        Return how many threads of the stage are idle. Most stages have no threads of their own.
        """
        return 0

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """
        Take a batch. Returns False if there was no room for it within `wait_s`.

        After `close(finish=False)` there is always room, because every batch is dropped.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._is_dropped or len(self) < self._batches_max, wait_s
            ):
                return False
            if not self._is_dropped:
                self._begin(batch)
                self._batches.append(batch)
                self._changed.notify_all()
            return True

    def poll(self, wait_s: float = 0.0) -> Batch | None:
        """Return the next finished batch, or None if there was none within `wait_s`."""
        until_s = time.monotonic() + wait_s
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._is_closed, wait_s)
            batch = self._batches[0] if self._batches else None
        if batch is None or not self._finish(batch, max(until_s - time.monotonic(), 0)):
            return None
        with self._changed:
            self._changed.notify_all()
            return self._batches.popleft() if self._batches else None  # dropped meanwhile

    def close(self, *, finish: bool = True) -> None:
        """
        Take no more batches.

        Args:
            finish: let the batches that are here go on; otherwise drop them and all later ones.
        """
        with self._changed:
            self._is_closed = True
            if not finish:
                self._is_dropped = True
                self._batches.clear()
            self._changed.notify_all()

    def join(self, wait_s: float) -> bool:
        """Return whether the stage was closed and all of its batches were done within `wait_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed and not self._batches, wait_s)


class StageThread:
    """
    A stage's thread. It does `run` once it is started, and keeps the error with which that ends.

    The thread that hands over batches calls `check`, which raises this error and so ends the
    worker.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._run = run
        self._failure: NeardupError | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)
        self.start = self._thread.start

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
        """Raise the error with which the thread has ended, if any."""
        if self._failure is not None:
            raise self._failure

    def join(self, wait_s: float) -> bool:
        """Return whether the thread has ended within `wait_s`, or was never started."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()
