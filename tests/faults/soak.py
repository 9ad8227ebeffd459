"""
A day in short: `make soak [DOCUMENTS=n] [MINUTES=m]`. Three workers, one killed every minute, then
the whole check.

Prints memory, log and snapshots as it goes, and ends with the closing line `documents N lost 0
repeated 0 wrong 0`. A worker whose memory the originals in it do not explain is a failure, too.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.faults.crawl import Message, message, random_words
from tests.faults.harness import Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.devkit.broker.cluster import lay_out
from worker.shell.admin.audit import Defect
from worker.shell.admin.verify import verify
from worker.shell.kafka.reader import Feeder

WORKERS = ("w1", "w2", "w3")
SENTENCES = 4_000
RESTART_S = 2.0
STALL_S_MAX = 300.0
# With doc_id, URL and its share of the tables, which grow by half at a time.
ORIGINAL_BYTES_MAX = 200
# Queues, batches, a snapshot that is being written, and what the allocator has not given back.
WORK_MB_MAX = 120
LOOK_S = 5.0
SETTINGS: dict[str, Any] = {
    "partitions": 12,
    "batch_documents_max": 1_000,
    "batch_wait_ms": 20,
    "kafka": {"session.timeout.ms": 10_000, "transaction.timeout.ms": 10_000},
    "call_timeout_s": 60.0,
    "snapshot_interval_s": 60,
}


class Sample(NamedTuple):
    """A worker at one moment, ready and at work."""

    worker: str
    resident_mb: int
    originals: int

    def unexplained_mb(self, empty_mb: int) -> float:
        """
        Return bytes beyond those of an empty worker, its work and its originals; negative: room
        left.
        """
        return (
            self.resident_mb - empty_mb - WORK_MB_MAX - self.originals * ORIGINAL_BYTES_MAX / 2**20
        )


def documents(seed: int, count: int) -> Iterator[Message]:
    """
    Return texts of 1 KB: originals, copies under other names (one in seven), re-deliveries and
    deletions.
    """
    rng = random.Random(seed)
    sentences = [" ".join(random_words(rng, 14)) + "." for _ in range(SENTENCES)]
    kept: list[tuple[str, str]] = []
    for number in range(count):
        doc_id, draw = f"{number:08x}", rng.random()
        if draw < 0.005 and kept:
            yield kept[rng.randrange(len(kept))][0].encode(), None
            continue
        text = " ".join(rng.choices(sentences, k=12))
        if draw < 0.17 and kept:
            known, text = kept[rng.randrange(len(kept))]
            doc_id = known if draw < 0.03 else doc_id
        elif len(kept) < 10_000 or rng.random() < 0.01:
            kept.append((doc_id, text))
            if len(kept) > 20_000:
                del kept[:10_000]
        yield message(doc_id, f"https://site-{number % 997}.example/{number}", text=text)


def _feed(deployment: Deployment, messages: Iterator[Message], rate: float) -> None:
    """Feed at an even rate."""
    feeder = Feeder(deployment.settings)
    begun = time.monotonic()
    for number in itertools.count():
        portion = list(itertools.islice(messages, 500))
        if not portion:
            break
        for key, value in portion:
            feeder.send(key, value)
        time.sleep(max(begun + (number + 1) * 500 / rate - time.monotonic(), 0))
    assert feeder.flush(120) == 0 and feeder.failures == 0, feeder.failed
    deployment.fed = feeder.delivered


def _resident_mb(process: WorkerProcess) -> int:
    """Return the resident memory that belongs to the process alone (not files that it maps)."""
    held = psutil.Process(process.pid).memory_info()
    return int(held.rss - held.shared) >> 20


def _samples(workers: Mapping[str, WorkerProcess], ports: Mapping[str, int]) -> list[Sample]:
    """Look at the workers that are ready: before that, a snapshot or the log is being read."""
    found = []
    for name, process in workers.items():
        values = process.metrics(ports[name])
        if values and process.exit_code is None:
            found.append(
                Sample(name, _resident_mb(process), int(values["neardup_documents_indexed"]))
            )
    return found


def _size_mb(folder: Path, pattern: str) -> float:
    return sum(path.stat().st_size for path in folder.glob(pattern)) / 1e6


def _tell(
    begun_s: float,
    deployment: Deployment,
    workers: dict[str, WorkerProcess],
    folder: Path,
    data: Path,
) -> None:
    memory = " ".join(
        f"{name} {_resident_mb(process)} MB"
        for name, process in workers.items()
        if process.exit_code is None
    )
    log_mb = _size_mb(data, f"node-1/data/{deployment.settings.topic_fingerprints}-0/*.log")
    snapshot_mb = max((_size_mb(folder, f"state-{name}/snapshot-*") for name in WORKERS), default=0)
    print(
        f"{time.monotonic() - begun_s:5.0f} s: {deployment.committed():,} answered; {memory}; log "
        f"{log_mb:.1f} MB, snapshots of a worker {snapshot_mb:.1f} MB",
        flush=True,
    )


def soak(
    deployment: Deployment,
    folder: Path,
    data: Path,
    count: int,
    minutes: float,
    kill_every_s: float,
) -> int:
    """Run. Return the exit code."""

    ports = dict(zip(WORKERS, lay_out(3, 0).client_ports, strict=True))

    def start(name: str) -> WorkerProcess:
        return deployment.start(name, state_dir=folder / f"state-{name}", metrics_port=ports[name])

    workers = {name: start(name) for name in WORKERS}
    deployment.until(
        lambda: all(p.said("partitions assigned") for p in workers.values()), "partitions assigned"
    )
    deployment.until(lambda: len(_samples(workers, ports)) == len(WORKERS), "all are ready")
    empty_mb = max(sample.resident_mb for sample in _samples(workers, ports))
    samples: list[Sample] = []
    feed = threading.Thread(
        target=_feed, args=(deployment, documents(1, count), count / minutes / 60), daemon=True
    )
    feed.start()
    begun, kills, victims = time.monotonic(), 0, itertools.cycle(WORKERS)
    told_s, looked_s, kill_s = begun, begun, begun + kill_every_s / 2
    while feed.is_alive() or deployment.committed() < deployment.fed:
        now = time.monotonic()
        if now > kill_s and feed.is_alive():
            victim = next(victims)
            workers[victim].kill()
            time.sleep(RESTART_S)
            workers[victim] = start(victim)
            kills, kill_s = kills + 1, kill_s + kill_every_s
        for process in workers.values():
            assert process.exit_code is None, process.log_tail()
        if now > looked_s + LOOK_S:
            samples += _samples(workers, ports)
            looked_s = now
        if now > told_s + 6 * LOOK_S:
            _tell(begun, deployment, workers, folder, data)
            told_s = now
        assert now - begun < minutes * 60 + STALL_S_MAX, (
            "not all was answered long after the last was fed"
        )
        time.sleep(LOOK_S / 5)
    took_s = time.monotonic() - begun
    samples += _samples(workers, ports)
    _tell(begun, deployment, workers, folder, data)
    for process in workers.values():
        process.signal(signal.SIGTERM)
    for process in workers.values():
        assert process.wait() == 0
    _tell(begun, deployment, workers, folder, data)
    print(f"{took_s:.0f} s, {kills} kills")
    return _judge(deployment, samples, empty_mb)


def _judge(deployment: Deployment, samples: list[Sample], empty_mb: int) -> int:
    """Check the whole history and the memory; say what was found. Return the exit code."""
    report = verify(deployment.settings)
    print(f"{report.documents:,} documents, {dict(report.outcomes)}, "
          f"log rows repeated {report.log_rows_repeated}, records {report.log_records}")  # fmt: skip
    most = max(samples, key=lambda sample: sample.unexplained_mb(empty_mb))
    left_mb = -most.unexplained_mb(empty_mb)
    print(f"memory: {empty_mb} MB when ready and empty; nearest to its bound, in {len(samples)} "
          f"samples, {most.worker} with {most.resident_mb} MB and {most.originals:,} originals: "
          f"{left_mb:.0f} MB were "
          f"left")  # fmt: skip
    lost = report.defects[Defect.LOST] + report.unanswered + deployment.fed - report.documents
    wrong = report.defects[Defect.WRONG] + report.defects[Defect.MUTUAL]
    print(
        f"documents {report.documents} lost {lost} repeated {report.defects[Defect.REPEATED]} "
        f"wrong {wrong}"
    )
    return 0 if report.clean and not lost and left_mb > 0 else 1


def main() -> int:
    """Read the options, start a broker, run."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="over which they are fed")
    parser.add_argument("--kill-every-s", type=float, default=60.0)
    options = parser.parse_args()
    with (
        EmbeddedKafka() as kafka,
        tempfile.TemporaryDirectory() as name,
        Deployment(kafka.bootstrap, Path(name), **SETTINGS) as deployment,
    ):
        return soak(
            deployment,
            Path(name),
            kafka.data,
            options.documents,
            options.minutes,
            options.kill_every_s,
        )


if __name__ == "__main__":
    sys.exit(main())
