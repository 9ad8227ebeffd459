"""
The pool of page processes: batches of messages in, futures of results out. The wall against hostile pages.

    submit ──► bounded queue ──► one thread a process ──► page process (extract + fingerprint)
                                     │ it dies, hangs or outgrows its memory
                                     └► a fresh process, the batch again message by message:
                                        the one that ends it a second time is the culprit, the others are answered
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass

from worker.core.extract import PageLimits
from worker.core.pages import BatchFingerprinter
from worker.core.parameters import Parameters
from worker.errors import DocumentError, StopError
from worker.shell.page_child import hello
from worker.shell.page_process import COMMAND, PageProcess, ProcessDiedError
from worker.shell.page_protocol import PageRead
from worker.shell.page_reader import read_pages

__all__ = ["PagePool"]

STARTS_FAILED_MAX = 3  # in a row: a process that never gets ready will not with more patience either
_QUEUED_PER_PROCESS = 2  # one in work, one that waits: more would only be memory
_START_PAUSE_S = 0.5
_PUT_SLICE_S = 0.2


@dataclass(frozen=True, slots=True)
class _Job:
    """One batch: its messages, and where the results go."""

    messages: Sequence[bytes]
    future: Future[list[PageRead]]


class PagePool:
    """
    Reads, extracts and fingerprints batches of messages in child processes, or in this one with `processes=0`.

    A child is replaced when a page crashes it, takes longer than `limits.page_timeout_s`, or makes it grow by more than
    `limits.memory_mb`. Children die with this process, however it ends, and ignore SIGINT. With `processes=0` there
    is no such wall: only what `extract` guards against itself.

    Args:
        on_death: told of each lost child, from the pool's threads: for logs and metrics.
        command: what a child runs; it speaks page_protocol.

    Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        processes: int,
        parameters: Parameters,
        limits: PageLimits | None = None,
        *,
        on_death: Callable[[ProcessDiedError], None] = lambda _: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        if processes < 0:
            raise ValueError(f"processes must be 0 (in this process) or more, got {processes}")
        self._limits = limits or PageLimits()
        self._parameters = parameters
        self._on_death = on_death
        self._command = command
        self._fingerprinter: BatchFingerprinter | None = None
        self._closed = threading.Event()
        self._broken: StopError | None = None
        self._jobs: queue.Queue[_Job | None] = queue.Queue(max(1, processes * _QUEUED_PER_PROCESS))
        self._processes: list[PageProcess | None] = [None] * processes
        self._ready = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"pages-{slot}", daemon=True)
            for slot in range(processes)
        ]
        for thread in self._threads:
            thread.start()

    def wait_ready(self) -> None:
        """
        Wait until every child has its kernels warm, so that the first batch is as fast as the others.

        Raises:
            StopError: the children do not start; the text holds what they said.
        """
        if not self._threads:
            self._own_fingerprinter()
        for _ in self._threads:
            self._ready.acquire()
        for _ in self._threads:
            self._ready.release()
        if self._broken:
            raise self._broken

    def submit(self, messages: Sequence[bytes]) -> Future[list[PageRead]]:
        """
        Hand in a batch of messages of `documents`; its future gives what came of each, in order.

        Waits while two batches a process are queued: that is the back-pressure. A future may be cancelled at any
        time; its results are then dropped.

        Raises:
            StopError: the pool is closed, or its children do not start.
        """
        future: Future[list[PageRead]] = Future()
        if not self._threads:
            self._check_open()
            future.set_result(read_pages(messages, self._own_fingerprinter(), self._limits))
            return future
        job = _Job(messages, future)
        self._check_open()
        while not self._offer(job):
            self._check_open()
        if self._closed.is_set():  # closed meanwhile: nobody will take it from the queue
            future.cancel()
        return future

    def close(self) -> None:
        """End the children at once and cancel what is unanswered. Safe to call twice."""
        self._closed.set()
        self._drop_queued()
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._jobs.put_nowait(None)
        for thread in self._threads:
            thread.join()
        self._drop_queued()

    def __enter__(self) -> PagePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that live now."""
        return [process.pid for process in self._processes if process is not None]

    def _offer(self, job: _Job) -> bool:
        try:
            self._jobs.put(job, timeout=_PUT_SLICE_S)
        except queue.Full:
            return False
        return True

    def _check_open(self) -> None:
        if self._broken:
            raise self._broken
        if self._closed.is_set():
            raise StopError("the page pool is closed: it takes no more batches")

    def _own_fingerprinter(self) -> BatchFingerprinter:
        if self._fingerprinter is None:
            from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415  # the kernels take a second to import

            self._fingerprinter = Fingerprinter(self._parameters)
            self._fingerprinter.warm_up()
        return self._fingerprinter

    def _work(self, slot: int) -> None:
        """One thread: it starts its child, feeds it, replaces it; the child cannot outlive it."""
        try:
            self._replace(slot)
            self._ready.release()
            while not self._closed.is_set() and (job := self._jobs.get()) is not None:
                self._answer(slot, job)
        except StopError as error:
            self._broken = self._broken or error
            self._ready.release()
            self._drop_queued()
        finally:
            process, self._processes[slot] = self._processes[slot], None
            if process is not None:
                process.kill()

    def _answer(self, slot: int, job: _Job) -> None:
        """Settle the job's future, whatever happens."""
        try:
            results = self._run(slot, job.messages)
        except StopError as error:
            with contextlib.suppress(InvalidStateError):
                job.future.set_exception(error)
            raise
        except ProcessDiedError:  # closed: nobody waits
            job.future.cancel()
            return
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            job.future.set_result(results)

    def _run(self, slot: int, messages: Sequence[bytes]) -> list[PageRead]:
        """Run a batch; when it ends its child, run its messages one by one."""
        try:
            return self._run_once(slot, messages)
        except ProcessDiedError:
            if self._closed.is_set():
                raise
        pages: list[PageRead] = []
        for message in messages:
            try:
                pages += self._run_once(slot, [message])
            except ProcessDiedError as death:
                if self._closed.is_set():
                    raise
                pages.append(PageRead("", "", 0, DocumentError(death.code, str(death))))
        return pages

    def _run_once(self, slot: int, messages: Sequence[bytes]) -> list[PageRead]:
        if self._closed.is_set():
            raise ProcessDiedError("stopped", "the page pool is closed")
        process = self._processes[slot]
        if process is None or process.is_bloated():
            process = self._replace(slot)
        try:
            return process.run(messages)
        except ProcessDiedError as death:
            self._processes[slot] = None
            if not self._closed.is_set():
                self._on_death(death)
            raise

    def _replace(self, slot: int) -> PageProcess:
        """Start a child in place of the one that was there."""
        old, self._processes[slot] = self._processes[slot], None
        if old is not None:
            old.kill()
        for failed in range(1, STARTS_FAILED_MAX + 1):
            if self._closed.is_set():
                break
            try:
                process = PageProcess(hello(self._parameters, self._limits), self._limits, self._closed, self._command)
            except (ProcessDiedError, OSError) as error:
                reason = str(error)
                time.sleep(_START_PAUSE_S * failed)
            else:
                self._processes[slot] = process
                return process
        else:
            raise StopError(f"page processes do not start, {STARTS_FAILED_MAX} attempts failed: {reason}")
        raise StopError("the page pool is closed")

    def _drop_queued(self) -> None:
        """Take what is queued out and settle it: cancelled, or failed when the pool is broken."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is None:
                    continue
                if self._broken:
                    with contextlib.suppress(InvalidStateError):
                        job.future.set_exception(self._broken)
                else:
                    job.future.cancel()
