"""
One run: the deployment, the feed, the faults in their time, then peace, and the check of all that
was written.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import pickle
import resource
import shutil
import signal
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.faults import cluster
from tests.faults.chaos.checker import Result, Topics, judge
from tests.faults.chaos.relay import Relay
from tests.faults.chaos.schedule import FEED_S, WORKERS, Fault, Kind, Schedule
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.errors import NeardupError, StopError
from worker.settings import TOPICS

# A call that hangs at the last moment ends its worker after 45 s, which then starts anew.
SETTLE_S_MAX = 240.0
STOP_S_MAX = 60.0  # as that one
RESTART_S = 0.5  # a supervisor's pause
NO_ROOM_BYTES = 4_096
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

SETTINGS = {
    "call_timeout_s": 30.0,
    "kafka": {"transaction.timeout.ms": 5_000, "session.timeout.ms": 6_000},
    "log_level": "info",
}


class Outcome(NamedTuple):
    """What came of a run. `folder` has the traces of one that failed."""

    schedule: Schedule
    result: Result
    settled_s: float
    unconsumed: int
    endings: tuple[tuple[str, int], ...]
    hung: tuple[str, ...]
    # Whose log holds a traceback: an end that nobody foresaw, restarted or not.
    crashed: tuple[str, ...]
    folder: Path | None

    @property
    def clean(self) -> bool:
        """
        Return whether everything was answered once, rightly and in time, and no worker hung or
        crashed.
        """
        return self.result.clean and not self.unconsumed and not self.hung and not self.crashed

    def line(self) -> str:
        """Say it in one line."""
        schedule, result = self.schedule, self.result
        ended = ", ".join(f"{worker_id} {code}" for worker_id, code in self.endings) or "none"
        kinds = ", ".join(f"{fault.kind} {fault.target}{'/' + fault.node if fault.node else ''}"
                          for fault in schedule.faults)  # fmt: skip
        return (
            f"seed {schedule.seed}: {result.report.documents} documents, {schedule.partitions} "
            f"partitions, {len(schedule.faults)} faults ({kinds}), ended by themselves: {ended}; "
            f"settled in {self.settled_s:.1f} s, log rows repeated "
            f"{result.report.log_rows_repeated}; lost {result.lost} repeated {result.repeated} "
            f"wrong {result.wrong}"
            + (f" unconsumed {self.unconsumed}" if self.unconsumed else "")
            + (f" hung {', '.join(self.hung)}" if self.hung else "")
            + (f" crashed {', '.join(self.crashed)}" if self.crashed else "")
            + (f"; kept in {self.folder}" if self.folder else "")
        )


class _Slot:
    """A worker's place: the process that has it now, and until when a fault keeps it empty."""

    def __init__(self, start: Callable[[str], WorkerProcess]) -> None:
        self._start = start
        self.process = start("")
        self.wanted = True
        self.empty_until_s = 0.0
        self.next_fault = ""

    def look_after(self, now_s: float) -> int | None:
        """
        Start the process again when it is gone and may be. Return the exit code of one that ended
        by itself.
        """
        if not self.wanted or self.process.exit_code is None or now_s < self.empty_until_s:
            return None
        if self.empty_until_s:  # we ended it
            self.process = self._start(self.next_fault)
            self.empty_until_s, self.next_fault = 0.0, ""
            return None
        self.empty_until_s = now_s + RESTART_S
        return self.process.exit_code


class Chaos:
    """
    One schedule against one cluster of three; a clean run removes the folder of its logs and
    snapshots.
    """

    def __init__(
        self, kafka: EmbeddedKafka, relay: Relay, schedule: Schedule, folder: Path
    ) -> None:
        self._kafka, self._relay, self._schedule, self._folder = kafka, relay, schedule, folder
        self._slots: dict[str, _Slot] = {}
        self._endings: list[tuple[str, int]] = []
        self._numbers = itertools.count()
        self._later: list[tuple[float, int, Callable[[], object]]] = []

    def run(self) -> Outcome:
        """Run it."""
        schedule = self._schedule
        self._folder.mkdir(parents=True)
        with Deployment(
            self._kafka.bootstrap,
            self._folder,
            partitions=schedule.partitions,
            replication_factor=3,
            static_membership=schedule.static_membership,
            batch_documents_max=schedule.batch_documents_max,
            topic_new=f"new-{uuid.uuid4().hex}",
            **SETTINGS,
        ) as deployment:
            self._deployment = deployment
            for worker_id in WORKERS:
                self._slots[worker_id] = _Slot(self._starter(worker_id))
            with ThreadPoolExecutor() as self._pool:
                fed = self._pool.submit(self._feed)
                self._break()
                fed.result()
            settled_s, unconsumed = self._settle()
            hung = self._stop()
            topics = deployment.written()
            result = judge(topics)
            outcome = Outcome(
                schedule,
                result,
                settled_s,
                unconsumed,
                tuple(self._endings),
                hung,
                self._crashed(),
                None,
            )
            if outcome.clean:
                self._clear()
                return outcome
            self._keep(topics, result)
            return outcome._replace(folder=self._folder)

    def _starter(self, worker_id: str) -> Callable[[str], WorkerProcess]:
        settings: dict[str, Any] = {
            "bootstrap": self._kafka.extra_bootstrap("RELAYED"),
            "state_dir": self._folder / f"state-{worker_id}",
            "snapshot_interval_s": self._schedule.snapshot_interval_s,
        }

        def start(fault: str) -> WorkerProcess:
            return self._deployment.start(worker_id, **settings, fault=fault)

        return start

    def _feed(self) -> None:
        """Feed the crawl evenly over the time of the faults."""
        messages = list(crawl(self._schedule.seed, self._schedule.documents))
        portions = int(FEED_S / 0.5)
        begun = time.monotonic()
        for number in range(portions):
            time.sleep(max(begun + number * 0.5 - time.monotonic(), 0))
            self._deployment.feed(messages[number::portions], wait_s=100)

    def _break(self) -> None:
        """Let each fault begin and end in its time; meanwhile look after the workers."""
        begun = time.monotonic()
        faults = list(self._schedule.faults)
        stop_s = max([FEED_S, *(fault.at_s + fault.for_s for fault in faults)])
        while (now_s := time.monotonic() - begun) < stop_s or faults or self._later:
            while faults and faults[0].at_s <= now_s:
                fault = faults.pop(0)
                end = self._begin(fault)
                if end is not None:
                    heapq.heappush(
                        self._later, (fault.at_s + fault.for_s, next(self._numbers), end)
                    )
            while self._later and self._later[0][0] <= now_s:
                heapq.heappop(self._later)[2]()
            self._look_after()
            time.sleep(0.02)

    def _look_after(self) -> None:
        for worker_id, slot in self._slots.items():
            code = slot.look_after(time.monotonic())
            if code is not None:
                self._endings.append((worker_id, code))

    def _begin(self, fault: Fault) -> Callable[[], object] | None:
        """Begin a fault. Return what ends it."""
        slot = self._slots.get(fault.target)
        match fault.kind:
            case Kind.BROKER_KILL:
                self._kafka.kill(int(fault.target))
                return lambda: self._pool.submit(self._up, int(fault.target))
            case Kind.BROKER_FREEZE:
                self._kafka.pause(int(fault.target))
                return lambda: self._kafka.resume(int(fault.target))
            case Kind.NETWORK_PAUSE:
                self._relay.pause(fault.target, fault.node)
                return lambda: self._relay.resume(fault.target, fault.node)
            case Kind.NETWORK_CUT:
                self._relay.cut(fault.target, fault.node)
                return None
            case Kind.JOIN:
                self._slots[fault.target] = guest = _Slot(self._starter(fault.target))
                return lambda: _dismiss(guest)
        assert slot is not None
        return _begin_at_worker(fault, slot)

    def _up(self, node: int) -> None:
        with contextlib.suppress(
            StopError
        ):  # killed again while it starts: the end of that fault starts it
            self._kafka.up(node)

    def _settle(self) -> tuple[float, int]:
        """Wait until everything is committed. Return the seconds that it took and what was not."""
        begun = time.monotonic()
        committed = 0
        while time.monotonic() - begun < SETTLE_S_MAX:
            self._look_after()
            with contextlib.suppress(NeardupError):  # a coordinator that moves has no answer
                committed = self._deployment.committed()
            if committed >= self._deployment.fed:
                break
            time.sleep(0.1)
        return time.monotonic() - begun, self._deployment.fed - committed

    def _stop(self) -> tuple[str, ...]:
        """Ask every worker to end. Return those that did not."""
        running = {
            name: slot.process
            for name, slot in self._slots.items()
            if slot.process.exit_code is None
        }
        for process in running.values():
            process.signal(signal.SIGTERM)
        hung = []
        for name, process in running.items():
            try:
                code = process.wait(STOP_S_MAX)
                if code != 0:
                    self._endings.append((name, code))
            except AssertionError:
                hung.append(name)
                process.signal(signal.SIGABRT)  # faulthandler writes where it hangs
        return tuple(hung)

    def _crashed(self) -> tuple[str, ...]:
        logs = sorted(self._folder.glob("*.log"))
        return tuple(
            log.stem for log in logs if b"Traceback (most recent call last)" in log.read_bytes()
        )

    def _clear(self) -> None:
        """Leave nothing of a clean run behind."""
        settings = self._deployment.settings
        for name in TOPICS:
            with contextlib.suppress(Exception):
                cluster.delete_topic(settings.bootstrap, getattr(settings, name))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep(self, topics: Topics, result: Result) -> None:
        """
        Keep what tells why a run failed: topics, findings, schedule, and the nodes' logs beside the
        workers'.
        """
        (self._folder / "topics.pickle").write_bytes(pickle.dumps(topics))
        (self._folder / "findings.txt").write_text("\n".join(result.findings))
        (self._folder / "schedule.txt").write_text("\n".join(map(str, self._schedule.faults)))
        (self._folder / "report.json").write_bytes(orjson.dumps(result.report.to_dict()))
        for log in self._kafka.data.glob("node-*/node.log"):
            shutil.copy(log, self._folder / f"{log.parent.name}.log")


def _begin_at_worker(fault: Fault, slot: _Slot) -> Callable[[], object] | None:
    """Begin a fault of one worker's process. Return what ends it."""
    process = slot.process
    if process.exit_code is not None:  # it is away already, by a fault of its own
        return None
    match fault.kind:
        case Kind.KILL | Kind.POINT | Kind.DISK_SLOW:
            process.kill()
            slot.empty_until_s, slot.next_fault = time.monotonic() + fault.for_s, fault.detail
            return None
        case Kind.LEAVE:
            process.signal(signal.SIGTERM)
            slot.empty_until_s = time.monotonic() + fault.for_s
            return None
        case Kind.FREEZE:
            process.signal(signal.SIGSTOP)
            return lambda: process.signal(signal.SIGCONT)
        case Kind.DISK_FULL:
            _limit(process, (NO_ROOM_BYTES, resource.RLIM_INFINITY))
            return lambda: _limit(process, NO_LIMIT)
    raise AssertionError(f"not a worker's fault: {fault}")


def _limit(process: WorkerProcess, limits: tuple[int, int]) -> None:
    if process.exit_code is None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)


def _dismiss(guest: _Slot) -> None:
    guest.wanted = False
    guest.process.signal(signal.SIGTERM)
