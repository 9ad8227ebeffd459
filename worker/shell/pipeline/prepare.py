"""
From messages to rows of the log: decode, extract, fingerprint. Stateless, so several batches are on their way at once.

    batch ──► jobs of at most JOB_BYTES_MAX ──► worker threads ──► rows
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from worker.core.fingerprint import Fingerprinter
from worker.log.record import Rows
from worker.settings import Settings
from worker.shell.pipeline.batch import Batch, cut
from worker.shell.pipeline.job import JOB_BYTES_MAX, JobReader
from worker.shell.pipeline.stage import BatchQueue
from worker.shell.ports import SourceMessage
from worker.shell.runtime import metrics

__all__ = ["JOB_BYTES_MAX", "Preparer"]

JOB_DOCUMENTS_MAX = 1_000


class Preparer:
    """
    The stage between intake and sequencer: at most `batches_max` batches, worked on in threads.

    Each thread holds the decoded documents of one job, and what the kernels need for one text. The end of the
    context drops what has not begun, and waits for what has: a job, or one document of the largest size.
    """

    def __init__(self, settings: Settings, fingerprinter: Fingerprinter | None = None, batches_max: int = 4) -> None:
        self._reader = JobReader(settings, fingerprinter or Fingerprinter(settings.parameters))
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="prepare")
        self._batches: BatchQueue[tuple[Batch, list[Future[Rows]]]] = BatchQueue(batches_max)
        self._awaited_since_s: float | None = None

    def __len__(self) -> int:
        """Return the number of batches that `poll` has not given back yet."""
        return len(self._batches)

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Start a batch; False: there was no room for it within `wait_s`."""
        if not self._batches.has_room(wait_s):
            return False
        jobs = cut(batch.messages, JOB_DOCUMENTS_MAX, JOB_BYTES_MAX)
        self._batches.put((batch, [self._threads.submit(self._reader.rows, job) for job in jobs]))
        return True

    def poll(self, wait_s: float | None = 0.0) -> Batch | None:
        """Return the next batch with its rows, in order; None: it was not there within `wait_s` (None: for ever)."""
        began_s = time.monotonic()
        if (head := self._batches.head(wait_s)) is None:
            return None
        batch, jobs = head
        self._awaited_since_s = self._awaited_since_s or time.monotonic()
        if wait(jobs, wait_s and began_s + wait_s - time.monotonic()).not_done:
            return None
        batch.rows = Rows.joined([job.result() for job in jobs])
        self._batches.take()
        metrics.STAGE_S.labels("prepare").observe(time.monotonic() - self._awaited_since_s)
        self._awaited_since_s = None
        return batch

    def close(self, *, finish: bool = True) -> None:
        """Take no more batches; unless `finish`, drop those that are here."""
        self._batches.close(finish=finish)

    def join(self, wait_s: float) -> bool:
        """Return whether it is closed and has given everything back within `wait_s`."""
        return self._batches.join(wait_s)

    def rows(self, messages: Sequence[SourceMessage]) -> Rows:
        """Return the row of each message of a job, here and now."""
        return self._reader.rows(messages)

    def __enter__(self) -> Preparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(finish=False)
        self._threads.shutdown(wait=True, cancel_futures=True)
