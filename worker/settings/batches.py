"""Settings of the pipeline: how large batches and messages may be, and how long a call may take."""

from __future__ import annotations

import os

from pydantic import BaseModel

from worker.settings.declaration import setting

MESSAGE_BYTES_MAX = 8 * 2**20  # what the Kafka client takes; topics are created with it
OVERHEAD_BYTES_MAX = 2**16  # key, headers and the client's own bytes of a message


def _threads_for(cores: int) -> int:
    return cores if cores < 3 else cores - 1


class BatchSettings(BaseModel):
    """Sizes and times of the pipeline."""

    batch_documents_max: int = setting(
        2_000,
        "documents",
        (
            "Documents that share an append to the log and a transaction. Each append and "
            "transaction costs 6 ms, at any size: with 1,000, a worker judges 6 % fewer texts of "
            "5 KB per second."
        ),
        low=1,
        high=100_000,
    )
    batch_wait_ms: int = setting(
        20,
        "ms",
        (
            "How long a batch waits for more documents. "
            "This adds to the latency when few documents arrive."
        ),
        low=0,
        high=10_000,
    )
    batch_bytes_max: int = setting(
        32 * 2**20,
        "bytes",
        (
            "Bytes of messages that share a batch; a larger message is a batch of its own. This "
            "bounds the memory: two batches wait, and up to five are being processed. With 8 MiB, "
            "which 110 large pages fill, a worker judges a fifth fewer pages per second."
        ),
        low=65_536,
        high=2**30,
    )
    call_timeout_s: float = setting(
        60.0,
        "s",
        (
            "How long a call into the Kafka client may take. A longer call is taken for one that "
            "never returns: the watchdog ends the process after 1.5 times this time, or after up "
            "to 10 times if several calls belong together."
        ),
        low=1,
        high=3_600,
    )
    document_bytes_max: int = setting(
        8 * 2**20,
        "bytes",
        (
            "Size of a message in the topic of documents. A larger one becomes a dead letter. The "
            "topic's max.message.bytes must allow this size."
        ),
        low=1_024,
        high=64 * 2**20,
    )
    threads: int = setting(
        lambda: _threads_for(len(os.sched_getaffinity(0))),
        "threads",
        (
            "Threads that prepare documents. They decode, extract and fingerprint, and search for "
            "originals when they have nothing else to do. The default is the number of the "
            "machine's cores, from three on less one: on two cores, a second thread prepares a "
            "third more pages, and a twelfth more texts."
        ),
        low=1,
        high=256,
        default_text="cores, from three on less one",
    )

    @property
    def search_threads(self) -> int:
        """
        Threads that may search for originals at a time while nothing is prepared: those of the
        pages, and the one that judges, but no more than there are cores.
        """
        return min(self.threads + 1, len(os.sched_getaffinity(0)))
