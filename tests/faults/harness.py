"""
A deployment to break: topics of its own, workers that are real processes, and the check of its
whole history.

What goes wrong leaves its traces in the folder: one log file a worker process.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import orjson
import psutil

from tests.conftest import EVENTUALLY_S, eventually, own_names, plain_environment, variables
from tests.faults import cluster, forked
from tests.faults.chaos.checker import Topics, judge, read_answer
from tests.oracle import Said
from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.admin.audit import Report
from worker.shell.admin.published import AnswerMessage
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.reader import Feeder, GroupOffsets, TopicReader
from worker.shell.kafka.topics import create_topics, topic_specs
from worker.shell.ports import CommittedOffset, InputMessage, LogEntry
from worker.shell.runtime import fault_hooks

LOG_S = 30.0  # for the end of a log, which a process that has ended leaves in the pipe
SESSION_TIMEOUT_MS = 6_000  # the least that Kafka allows by default
TRANSACTION_TIMEOUT_MS = 4_000
# What a fault may cost: some ten seconds of time-outs, and what a busy machine adds.
SETTLE_S = 120.0

# Short times: what a fault costs is mostly the wait for one of them.
SETTINGS: Mapping[str, Any] = {
    "kafka": {
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    },
    "call_timeout_s": 20.0,
    "batch_documents_max": 20,
    "batch_wait_ms": 5,
    "threads": 1,
    "log_format": "json",
}


class WorkerProcess:
    """One process of `neardup worker`."""

    def __init__(
        self,
        worker_id: str,
        settings: Mapping[str, Any],
        log_path: Path,
        module: str = "worker",
        environment: Mapping[str, str] | None = None,
        is_forked: bool = True,
    ) -> None:
        self.worker_id = worker_id
        self.log_path = log_path
        read, write = multiprocessing.Pipe(duplex=False)
        start = forked.started if is_forked else forked.Executed
        self._process = start(
            module,
            worker_id,
            {**plain_environment(), **variables(settings), **(environment or {})},
            write,
        )
        log_path.touch()
        # Not by the process itself: a test that forbids it to write files means its snapshots.
        self._log = threading.Thread(target=self._keep_log, args=(read,), daemon=True)
        self._log.start()

    def _keep_log(self, output: Connection) -> None:
        with output, self.log_path.open("wb", buffering=0) as log:
            while data := os.read(output.fileno(), 1 << 16):
                log.write(data)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._log.join(LOG_S)

    def stop(self) -> int:
        """Ask it to end (SIGTERM). Return the exit code."""
        self._process.terminate()
        return self.wait()

    def wait(self, timeout_s: float = EVENTUALLY_S) -> int:
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            raise AssertionError(
                f"{self.worker_id} has not ended after {timeout_s:g} s\n{self.log_tail()}"
            )
        self._log.join(LOG_S)
        return self._process.exitcode

    def is_stopped(self) -> bool:
        return self.exit_code is None and bool(
            psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        )

    def events(self) -> list[dict[str, Any]]:
        """
        Return its log lines that are JSON and whole: the last one may be in the midst of being
        written.
        """
        lines = self.log_path.read_bytes().split(b"\n")[:-1]
        return [
            orjson.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")
        ]

    def said(self, event: str) -> bool:
        return any(line.get("event") == event for line in self.events())

    def partitions(self) -> set[int]:
        """Return the source partitions that it has, by its log."""
        owned: set[int] = set()
        for line in self.events():
            if line.get("event") == "partitions assigned":
                owned |= set(map(int, line["offsets"]))
            elif line.get("event") in {"partitions revoked", "partitions lost"}:
                owned -= set(line["partitions"])
        return owned

    def metrics(self, port: int) -> dict[str, float]:
        """
        Return what a scrape of its metrics has, by name and labels but the group; nothing while it
        is not ready.
        """
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60):
                pass
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {
            re.sub(r'group="[^"]*",?', "", name).replace("{}", ""): float(value)
            for name, value in pairs
        }

    def log_tail(self) -> str:
        lines = self.log_path.read_text("utf-8", "replace").splitlines()[-30:]
        return "\n".join([f"--- {self.log_path.name}, exit code {self.exit_code}", *lines])


class Deployment:
    """
    Topics, a group, and workers, whose logs go into the folder; `settings` is what differs from
    SETTINGS.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *,
        partitions: int = 4,
        replication_factor: int = 1,
        **settings: Any,
    ) -> None:
        self.folder = folder
        sizes = {"partitions": partitions, "replication_factor": replication_factor}
        self.values: dict[str, Any] = {
            **SETTINGS,
            "bootstrap": bootstrap,
            **own_names(),
            **sizes,
            **settings,
            "kafka": SETTINGS["kafka"] | settings.get("kafka", {}),
        }
        # Of the harness, whatever the workers have.
        kafkas = self.values["kafka"] | {"max.poll.interval.ms": 600_000}
        own = {"call_timeout_s": 60.0, "kafka": kafkas}
        self.settings = Settings(**self.values | own, worker_id="harness")
        self.admin = Admin(self.settings)
        self.processes: list[WorkerProcess] = []
        # Of supervised workers: who ended by itself, and how.
        self.endings: list[tuple[str, int]] = []
        self._supervised: dict[str, WorkerProcess] = {}
        self.fed = 0

    def __enter__(self) -> Self:
        create_topics(self.admin, self.settings)
        self._offsets = GroupOffsets(self.settings, self.settings.partitions, 20.0)
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self._offsets.close()
        self.end()
        if error is not None:
            for process in self.processes:
                print(process.log_tail())

    def end(self) -> None:
        self._supervised.clear()
        for process in self.processes:
            process.kill()

    def feed(
        self, messages: Iterable[tuple[bytes | None, bytes | None]], wait_s: float = EVENTUALLY_S
    ) -> int:
        """
        Write messages into the source topic and wait until all stand there. Return their number.
        """
        feeder = Feeder(self.settings)
        before = feeder.delivered
        for key, value in messages:
            feeder.send(key, value)
        assert feeder.flush(wait_s) == 0 and feeder.failures == 0, feeder.failed
        self.fed += feeder.delivered - before
        return feeder.delivered - before

    def start(
        self,
        worker_id: str,
        *,
        module: str = "worker",
        environment: Mapping[str, str] | None = None,
        is_forked: bool = True,
        fault: str = "",
        **settings: Any,
    ) -> WorkerProcess:
        """
        Start a worker; `settings` are its own. `module` stands in for the package's main, and
        `fault` says where it fails (see `fault_hooks`).
        """
        environment = {fault_hooks.VARIABLE: fault, **(environment or {})}
        log_path = self.folder / f"{self.settings.group}-{len(self.processes):02}-{worker_id}.log"
        process = WorkerProcess(
            worker_id, {**self.values, **settings}, log_path, module, environment, is_forked
        )
        self.processes.append(process)
        return process

    def start_all(self, *worker_ids: str, **settings: Any) -> list[WorkerProcess]:
        """Start workers and wait until each has partitions."""
        processes = [self.start(worker_id, **settings) for worker_id in worker_ids]
        self.until(
            lambda: all(process.said("partitions assigned") for process in processes),
            "partitions assigned",
        )
        return processes

    def until_shared(self) -> None:
        """Wait until the workers that run have all partitions, and even shares of them."""

        def is_shared() -> bool:
            shares = [
                process.partitions() for process in self.processes if process.exit_code is None
            ]
            counts = sorted(map(len, shares))
            return (
                set().union(*shares) == set(range(self.settings.partitions))
                and counts[-1] - counts[0] <= 1
            )

        self.until(is_shared, "even shares of the partitions")

    def supervise(self, *processes: WorkerProcess) -> None:
        """
        From now on start these again when they end by themselves, as every deployment's supervisor
        does.
        """
        self._supervised.update({process.worker_id: process for process in processes})

    def revive(self) -> None:
        """Look after the supervised workers once; `until` does it all the time."""
        for worker_id, process in self._supervised.items():
            if process.exit_code is not None:
                self.endings.append((worker_id, process.exit_code))
                self._supervised[worker_id] = self.start(worker_id)

    def until(
        self, condition: Callable[[], object], what: str, timeout_s: float = EVENTUALLY_S
    ) -> float:
        """
        Wait for something to become true. Return the seconds that it took. No answer from the
        cluster: not yet.
        """
        started = time.monotonic()
        while True:
            silence = ""
            try:
                if condition():
                    return time.monotonic() - started
            except RetryError as error:
                silence = f" ({error})"
            self.revive()
            if time.monotonic() - started > timeout_s:
                tails = "\n".join(process.log_tail() for process in self.processes)
                raise AssertionError(
                    f"not so after {time.monotonic() - started:.0f} s: {what}{silence}\n{tails}"
                )
            time.sleep(0.05)

    def committed(self) -> int:
        """Return the number of source offsets that the group has committed."""
        return sum(offset or 0 for offset, _ in self.group_offsets().values())

    def group_offsets(self) -> dict[int, CommittedOffset]:
        """Return the group's offset of each partition, with its metadata."""
        return self._offsets.get()

    def until_committed(self, at_least: int) -> float:
        """Wait until so many source offsets are committed. Return the seconds that it took."""
        return self.until(lambda: self.committed() >= at_least, f"{at_least} offsets committed")

    def until_all_committed(self) -> float:
        """Wait until everything that was fed is committed. Return the seconds that it took."""
        return self.until_committed(self.fed)

    def written(self) -> Topics:
        """Return all that stands in the topics, and the group's offsets."""
        settings, name = self.settings, self.settings.topic_documents
        return Topics(
            settings.rules,
            name,
            self.admin.describe([name])[name].topic_id,
            [
                LogEntry(m.offset, m.timestamp_ms, m.value or b"")
                for m in self.read(settings.topic_fingerprints)
            ],
            [
                InputMessage(m.partition, m.offset, m.key, m.value, headers=m.headers)
                for m in self.read(name)
            ],
            self.published(),
            {number: offset for number, (offset, _) in self.group_offsets().items()},
            self.fed,
            [
                (m.key, m.value, m.headers)
                for m in (self.read(settings.topic_new) if settings.topic_new else [])
            ],
        )

    def check(self) -> Report:
        """
        Hold the whole history against the rules by `judge`: each message that was fed has its one
        answer.
        """
        result = judge(self.written(), has_new=self.settings.topic_new is not None)
        report = result.report
        assert result.clean, result.findings
        assert (report.documents, report.answered, report.unanswered) == (self.fed, self.fed, 0), (
            report
        )
        return report

    def finish(self) -> Report:
        """Wait until everything is committed, then check the whole history."""
        self.until_all_committed()
        return self.check()

    def recreate(
        self, topic: str, config: Mapping[str, str] | None = None, *, partitions: int | None = None
    ) -> None:
        """Delete a topic and create it again, with these settings in place of the usual ones."""
        want = next(want for want in topic_specs(self.settings) if want.name == topic)
        cluster.delete_topic(self.settings.bootstrap, topic)
        made = (
            partitions or want.partitions,
            self.settings.replication_factor,
            {**want.config, **(config or {})},
        )
        eventually(lambda: self.admin.create(topic, *made), f"{topic} is gone")
        self.until(lambda: topic in self.admin.describe([topic]), f"{topic} is there again")
        if topic == self.settings.topic_documents:
            self.fed = 0

    def append_again(self) -> None:
        """Append the log's first records once more."""
        cluster.append(self.settings.bootstrap, self.settings.topic_fingerprints, self.log()[:3])

    def read(self, name: str) -> list[Any]:
        count = self.admin.describe([name])[name].partitions
        ends = {place: stop for place, (_, stop) in self.admin.ends({name: count}).items()}
        starts, messages = dict.fromkeys(ends, 0), []
        # What cannot be read there has a dead letter.
        is_source = name == self.settings.topic_documents
        with closing(TopicReader(self.settings, starts, ends=ends, step_over=is_source)) as reader:
            while not reader.at_end():
                messages += reader.read(0.5)
        return messages

    def log(self) -> list[bytes]:
        return [message.value or b"" for message in self.read(self.settings.topic_fingerprints)]

    def published(self) -> list[AnswerMessage]:
        letters = self.settings.topic_dead_letter
        return [
            AnswerMessage(m.key, m.value, m.headers, name == letters)
            for name in (self.settings.topic_verdicts, letters)
            for m in self.read(name)
        ]

    def answers(self) -> list[tuple[tuple[int, int], Said]]:
        """Return source partition and offset of every committed answer, and what it says."""
        return [read_answer(answer) for answer in self.published()]
