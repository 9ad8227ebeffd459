"""
A day in short: `make soak [DOCUMENTS=n] [MINUTES=m]`. Three workers that share a folder for snapshots,
one killed every minute, then the whole check. `make bench-week` also renews the log and lets originals
leave.

Prints memory, log and snapshots as it goes, and ends with the closing line `documents N lost 0
repeated 0 wrong 0`. A worker whose memory the originals in it do not explain is a failure, too.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.faults.crawl import Message, message, random_words
from tests.faults.harness import Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.devkit.broker.cluster import lay_out
from worker.shell.admin.audit import Defect
from worker.shell.admin.renew import renew, retire
from worker.shell.admin.verify import verify
from worker.shell.checkpoint import snapshots
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
TOLD_S = 60.0  # of a worker's log, before and after the sample that is over its bound
SETTINGS: dict[str, Any] = {
    "partitions": 12,
    "batch_documents_max": 1_000,
    "batch_wait_ms": 20,
    "kafka": {"session.timeout.ms": 10_000, "transaction.timeout.ms": 10_000},
    "call_timeout_s": 60.0,
    "snapshot_interval_s": 60,
}
_TIMESTAMP = re.compile(r'"timestamp":\s*"([^"]+)"')


class MemorySample(NamedTuple):
    """A worker at one moment, ready and at work."""

    worker: str
    resident_mb: int
    originals: int
    at: datetime
    log_path: Path  # of this process: a worker that was killed has another one later

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


def _samples(workers: Mapping[str, WorkerProcess], ports: Mapping[str, int]) -> list[MemorySample]:
    """Look at the workers that are ready: before that, a snapshot or the log is being read."""
    found = []
    for name, process in workers.items():
        values = process.metrics(ports[name])
        if values and process.exit_code is None:
            found.append(
                MemorySample(
                    name,
                    _resident_mb(process),
                    int(values["neardup_documents_indexed"]),
                    datetime.now(UTC),
                    process.log_path,
                )
            )
    return found


def told_around(sample: MemorySample) -> list[str]:
    """Return the lines of a worker's log within TOLD_S of a sample, with the seconds from it."""
    lines = []
    for line in sample.log_path.read_text("utf-8", "replace").splitlines():
        found = _TIMESTAMP.search(line)
        if found is None:
            continue
        seconds = (datetime.fromisoformat(found[1]) - sample.at).total_seconds()
        if abs(seconds) <= TOLD_S:
            lines.append(f"{seconds:+6.1f} s {line}")
    return lines


def _size_mb(folder: Path, pattern: str) -> float:
    """Return what these files take, without those of topics that Kafka will delete in a minute."""
    sizes = []
    for path in folder.glob(pattern):
        if path.parent.name.endswith("-delete"):
            continue
        with suppress(FileNotFoundError):  # deleted meanwhile
            sizes.append(path.stat().st_size)
    return sum(sizes) / 1e6


class Plan(NamedTuple):
    """What a run does."""

    documents: int
    minutes: float  # over which they are fed
    kill_every_s: float
    renewals: int = 0  # of the log, evenly spread over the minutes
    documents_max: int = 0  # originals that are kept; 0: all


class Look(NamedTuple):
    """The group at one moment. What is on the disk is that of all logs and of all workers."""

    seconds: float
    answered: int
    log_mb: float
    snapshots_mb: float  # with the bases of renewed logs
    originals: int
    resident_mb: dict[str, int]  # of each worker that is ready

    def line(self) -> str:
        """Return what is printed of it."""
        memory = " ".join(f"{name} {size} MB" for name, size in self.resident_mb.items())
        return (
            f"{self.seconds:5.0f} s: {self.answered:,} answered; {memory}; {self.originals:,} "
            f"originals; logs {self.log_mb:.1f} MB, snapshots {self.snapshots_mb:.1f} MB"
        )


class Renewed(NamedTuple):
    """A renewal of the log: when the workers were stopped, and for how long they stood still."""

    seconds: float
    pause_s: float
    verify_s: float  # of the pause: `verify` of the old log, which a renewal does not need
    records: int  # of the old log, which was then deleted


class Soak:
    """
    A run. The workers share a folder for snapshots, and nobody but this process starts them.

    Attributes:
        looks, kills, renewals: what happened, with the seconds since the beginning.
    """

    def __init__(self, deployment: Deployment, data: Path, plan: Plan) -> None:
        self.looks: list[Look] = []
        self.kills: list[float] = []
        self.renewals: list[Renewed] = []
        self._deployment = deployment
        self._data = data
        self._plan = plan
        self._samples: list[MemorySample] = []
        self._ports = dict(zip(WORKERS, lay_out(3, 0).client_ports, strict=True))
        self._log = deployment.settings.topic_fingerprints
        self._state = deployment.folder / "state"
        self._bases = deployment.folder / "bases"
        deployment.values["state_dir"] = str(self._state)
        deployment.settings = deployment.settings.model_copy(update={"state_dir": self._state})
        self._workers: dict[str, WorkerProcess] = {}
        self._begun = time.monotonic()

    def run(self) -> int:
        """Feed, kill and renew, then check. Return the exit code."""
        # A worker that compiles holds more, and would count as an empty one.
        subprocess.run([sys.executable, "-m", "worker", "warm-up"], check=True)
        self._start_all()
        self._deployment.until(self._are_ready, "all are ready")
        empty_mb = max(sample.resident_mb for sample in self._ready())
        plan, deployment = self._plan, self._deployment
        messages = documents(1, plan.documents)
        rate = plan.documents / plan.minutes / 60
        feed = threading.Thread(target=_feed, args=(deployment, messages, rate), daemon=True)
        feed.start()
        self._begun = time.monotonic()
        victims = itertools.cycle(WORKERS)
        told_s, looked_s, kill_s = 0.0, 0.0, plan.kill_every_s / 2
        while feed.is_alive() or deployment.committed() < deployment.fed:
            if self._seconds() > kill_s and feed.is_alive():
                self._kill(next(victims))
                kill_s += plan.kill_every_s
            if self._is_renewal_due() and self._are_ready():
                self._renew()
            for process in self._workers.values():
                assert process.exit_code is None, process.log_tail()
            if self._seconds() > looked_s + LOOK_S:
                looked_s = self._seconds()
                self._look()
            if self._seconds() > told_s + 6 * LOOK_S:
                told_s = self._seconds()
                print(self.looks[-1].line(), flush=True)
            # A renewal stops the group, and so adds to what is to be caught up with.
            stall_s = STALL_S_MAX * (1 + plan.renewals)
            assert self._seconds() < plan.minutes * 60 + stall_s, (
                "not all was answered long after the last was fed"
            )
            time.sleep(LOOK_S / 5)
        self._look()
        self._stop_all()
        print(f"{self.looks[-1].line()}\n{len(self.kills)} kills, {len(self.renewals)} renewals")
        assert len(self.renewals) == plan.renewals, "the log was not renewed as often as planned"
        return _judge(deployment, self._samples, empty_mb)

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _start(self, name: str) -> None:
        self._workers[name] = self._deployment.start(name, metrics_port=self._ports[name])

    def _start_all(self) -> None:
        for name in WORKERS:
            self._start(name)
        self._deployment.until(
            lambda: all(p.said("partitions assigned") for p in self._workers.values()),
            "partitions assigned",
        )

    def _stop_all(self) -> None:
        for process in self._workers.values():
            process.signal(signal.SIGTERM)
        for process in self._workers.values():
            assert process.wait() == 0, process.log_tail()

    def _kill(self, victim: str) -> None:
        self.kills.append(self._seconds())
        self._workers[victim].kill()
        time.sleep(RESTART_S)
        self._start(victim)

    def _ready(self) -> list[MemorySample]:
        return _samples(self._workers, self._ports)

    def _are_ready(self) -> bool:
        return len(self._ready()) == len(WORKERS)

    def _look(self) -> None:
        samples = self._ready()
        self._samples += samples
        self.looks.append(
            Look(
                round(self._seconds(), 1),
                self._deployment.committed(),
                _size_mb(self._data, f"node-1/data/{self._log}*/*.log"),
                _size_mb(self._deployment.folder, "state/**/snapshot-*")
                + _size_mb(self._bases, "*/snapshot-*"),
                max((sample.originals for sample in samples), default=0),
                {sample.worker: sample.resident_mb for sample in samples},
            )
        )

    def _is_renewal_due(self) -> bool:
        plan = self._plan
        done = len(self.renewals)
        every_s = plan.minutes * 60 / (plan.renewals + 1)
        return done < plan.renewals and self._seconds() > every_s * (done + 1)

    def _renew(self) -> None:
        """
        Move the group to a new log, as `deploy/changes.md` says, and delete what the old one leaves.

        Everything that the old log has judged is checked first: afterwards `verify` only counts it.
        """
        stopped_s = self._seconds()
        deployment = self._deployment
        old = deployment.settings
        self._stop_all()
        checked_s = self._seconds()
        report = verify(old)
        assert report.clean, report
        verify_s = self._seconds() - checked_s
        renewal = renew(old, self._bases)
        deployment.settings = renewal.settings
        deployment.values |= tomllib.loads("\n".join(renewal.switch()))
        self._start_all()
        pause_s = self._seconds() - stopped_s
        retire(renewal.settings, old.topic_fingerprints, is_confirmed=True)
        assert old.state_dir is not None
        for snapshot in snapshots(old.state_dir):
            snapshot.unlink()
        if old.base_snapshot is not None:
            old.base_snapshot.unlink()
        done = Renewed(stopped_s, pause_s, verify_s, report.log_records)
        self.renewals.append(done)
        print(
            f"{stopped_s:5.0f} s: log renewed, {done.records:,} records go; the group stood still "
            f"for {pause_s:.0f} s, {verify_s:.0f} of them for verify",
            flush=True,
        )


def _judge(deployment: Deployment, samples: list[MemorySample], empty_mb: int) -> int:
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
    if left_mb <= 0:
        print(f"what {most.worker} did then:", *told_around(most), sep="\n")
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
    code, _ = soaked(Plan(options.documents, options.minutes, options.kill_every_s))
    return code


def soaked(plan: Plan) -> tuple[int, Soak]:
    """Run on a broker and in a folder of its own. Return the exit code, and what happened."""
    with (
        EmbeddedKafka() as kafka,
        tempfile.TemporaryDirectory() as name,
        Deployment(
            kafka.bootstrap, Path(name), **SETTINGS, documents_max=plan.documents_max
        ) as deployment,
    ):
        run = Soak(deployment, kafka.data, plan)
        return run.run(), run


if __name__ == "__main__":
    sys.exit(main())
