"""
From messages to rows of the log: decode, extract, fingerprint. Stateless, so several batches are on their way at once.

    batch ──► jobs of at most JOB_BYTES_MAX ──► worker threads ──► rows
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from worker.core.fingerprint import Fingerprinter
from worker.log.record import Rows
from worker.settings import Settings
from worker.shell.pipeline.job import JOB_BYTES_MAX, JobReader
from worker.shell.pipeline.stage import Batch, Stage, cut
from worker.shell.ports import SourceMessage
from worker.shell.runtime import metrics

JOB_DOCUMENTS_MAX = 1_000


class Preparer(Stage):
    """
    The stage between intake and sequencer: works on batches in threads.

    Each thread holds the decoded documents of one job, and what the kernels need for one text. The end of the context
    drops what has not begun, and waits for what has: a job, or one document of the largest size.
    """

    def __init__(self, settings: Settings, fingerprinter: Fingerprinter | None = None, batches_max: int = 4) -> None:
        super().__init__(batches_max)
        self._reader = JobReader(settings, fingerprinter or Fingerprinter(settings.parameters))
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="prepare")
        self._awaited_since_s: float | None = None

    def _begin(self, batch: Batch) -> None:
        jobs = cut(batch.messages, JOB_DOCUMENTS_MAX, JOB_BYTES_MAX)
        batch.jobs = [self._threads.submit(self._reader.rows, job) for job in jobs]

    def _finish(self, batch: Batch, wait_s: float) -> bool:
        self._awaited_since_s = self._awaited_since_s or time.monotonic()
        if wait(batch.jobs, wait_s).not_done:
            return False
        batch.rows = Rows.joined([job.result() for job in batch.jobs])
        metrics.STAGE_S.labels("prepare").observe(time.monotonic() - self._awaited_since_s)
        self._awaited_since_s = None
        return True

    def rows(self, messages: Sequence[SourceMessage]) -> Rows:
        """Return the row of each message of a job, here and now."""
        return self._reader.rows(messages)

    def __enter__(self) -> Preparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(finish=False)
        self._threads.shutdown(wait=True, cancel_futures=True)
