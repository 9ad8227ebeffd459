"""
Batches of messages, and the stages that they go through: verbs, a bounded queue, and a thread.

Each stage adds its column to a batch, an entry per message, and reads the columns before it. A
batch belongs to one stage at a time; a queue hands it to the next one. Where a share was void
before a stage came to it, that stage's column has None.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from worker.errors import DocumentError, NeardupError, RetryError, StopError
from worker.log.record import Rows
from worker.shell.messages import VerdictBytes
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.ports import InputMessage, Outgoing

POLL_S = 0.05  # longest wait of a thread that has other work as well

_NO_ROWS = Rows.of([])
_log = structlog.get_logger(__name__)


class Share(NamedTuple):
    """One partition's share of a batch: its offsets [first, stop) and entries [begin, end)."""

    claim: Claim
    first: int
    stop: int
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Batch:
    """Messages with all that becomes of them."""

    messages: Sequence[InputMessage]
    # By partition, without those that `drop_void` has found to be not ours any more.
    shares: Sequence[Share] = ()
    read_at_s: float = 0.0  # monotonic, of the first message
    jobs: Sequence[Future[Rows]] = ()  # the rows while they are made
    rows: Rows = _NO_ROWS  # what the log gets
    # What the log says: a verdict, or why there is none.
    answers: Sequence[VerdictBytes | DocumentError | None] = ()
    failure: RetryError | None = None  # why the log gives no answers: everything must be read again
    # Kept beside the offsets: the log, and how much of it had been applied.
    commit_metadata: str = ""
    outgoing: Sequence[Outgoing | None] = ()  # what leaves

    def drop_void(self, partitions: Partitions) -> bool:
        """
        Drop the shares whose claims are void by now: their next owner answers them.

        Returns whether any is left.
        """
        self.shares = [share for share in self.shares if partitions.holds(share.claim)]
        return bool(self.shares)


def cut(
    messages: Iterable[InputMessage], documents_max: int, bytes_max: int
) -> Iterator[list[InputMessage]]:
    """
    Cut messages into pieces of at most so many messages and bytes.

    A message of more bytes is a piece of its own.
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
    A queue of at most `batches_max` batches, which leave in their order.

    A subclass says in `_begin` and `_finish` what is done with them.
    """

    def __init__(self, batches_max: int) -> None:
        self._batches_max = batches_max
        self._batches: deque[Batch] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_dropped = False

    def _begin(self, batch: Batch) -> None:
        """Do what is to be done at once with a batch for which there is room."""

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
        """Return how many threads of the stage's own have nothing to do; most have none."""
        return 0

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """
        Take a batch; False: there was no room for it within `wait_s`.

        After `close(finish=False)` there is always room: what comes is dropped.
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
        """Return the next batch that is finished; None: there was none within `wait_s`."""
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
            finish: let those that are here go on; else drop them, and what comes all the same.
        """
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
    """
    A stage's thread: does `run` once it is started, and keeps what that fails with.

    Whoever hands batches on calls `check`, so that the failure ends the worker in its own thread.
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
        """Raise what it has failed with."""
        if self._failure is not None:
            raise self._failure

    def join(self, wait_s: float) -> bool:
        """Return whether it has ended within `wait_s`, or was never started."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()
