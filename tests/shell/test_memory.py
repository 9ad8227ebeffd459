"""
A worker that is far behind, with large pages before it, holds no more than its queues may hold.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Kafka
from tests.faults.harness import Deployment, WorkerProcess

BACKLOG = 150_000
PAGE_BYTES = (125_000, 250_000, 500_000, 1_000_000)
PAGES = 640  # 300 MB: far more than the queues may hold
BOUNDS = {"batch_bytes_max": 2**20, "document_bytes_max": 2**20}
ANSWERED = 40_000  # what the worker is watched for, at the least
WATCHED_S = 3.0  # and for so long after that
# 44 to 122 measured: seven batches, what the client fetched, what was not given back.
GROWN_MB_MAX = 200
ORIGINAL_BYTES_MAX = 250  # each of these texts is new, and stays in the index


def _large_pages() -> Iterator[tuple[bytes, bytes]]:
    rng = random.Random(1)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
        for _ in range(20_000)
    ]
    text = " ".join(rng.choices(words, k=PAGE_BYTES[-1] // 5))
    page = "<p>".join(text[at : at + 500] for at in range(0, len(text), 500)).encode()
    for number in range(PAGES):
        at, size = number * 10_007, PAGE_BYTES[number % len(PAGE_BYTES)]
        body = page[at : at + size - 300]  # each begins elsewhere in the same text
        yield (
            b"%d" % number,
            b'{"url":"http://a.example/%d","fetched_at":"2024-05-01T12:00:00Z","html":"%b"}'
            % (number, body),
        )


def _backlog() -> Iterator[tuple[bytes, bytes]]:
    yield from _large_pages()
    for number in range(BACKLOG):
        yield (
            b"%d" % number,
            (
                b'{"url":"http://b.example/%d","fetched_at":"2024-05-01T12:00:00Z","text":"the '
                b'note of the day %d"}' % (number, number)
            ),
        )


def _peak_mb(worker: WorkerProcess) -> int:
    """Return the most that a process has had in memory so far."""
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return (
        int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
        // 1_024
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_a_worker_far_behind_keeps_its_memory(kafka: Kafka, tmp_path: Path) -> None:
    """
    Pages of up to 1 MB in front of 150,000 documents, and a slow log: growth stays within what
    settings allow.
    """
    own = {**BOUNDS, "batch_documents_max": 1_000, "call_timeout_s": 60}
    with Deployment(kafka.bootstrap, tmp_path, **own) as deployment:
        idle = deployment.start_all("idle")[0]
        ready_mb = _peak_mb(idle)
        idle.stop()
        deployment.feed(_backlog())
        worker = deployment.start("one", fault="before-append:slow-50-ms:1")  # queues fill
        deployment.until_committed(ANSWERED)
        time.sleep(WATCHED_S)
        grown_mb, answered = _peak_mb(worker) - ready_mb, deployment.committed()
        print(
            f"resident: {ready_mb} MB when ready, at most {grown_mb} MB more at work on "
            f"{answered:,} documents"
        )
        assert worker.exit_code is None
        assert grown_mb < GROWN_MB_MAX + answered * ORIGINAL_BYTES_MAX / 2**20
