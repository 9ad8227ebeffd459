"""How long verdicts fail to come when a worker leaves or dies: `python -m tests.faults.interruption`."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import orjson

from tests.busy import EVENTUALLY_S
from tests.faults.crawl import Message, crawl
from tests.faults.harness import SESSION_TIMEOUT_MS, Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.settings import Settings
from worker.shell.kafka import Feeder, TopicReader
from worker.shell.kafka import config as kafka_config
from worker.shell.kafka.clearing import VOID

__all__ = ["BATCH_DOCUMENTS_MAX", "DOCUMENTS_PER_S", "PARTITIONS", "Gaps", "Subscriber", "interruption"]

PARTITIONS = 6
BATCH_DOCUMENTS_MAX = 500  # who inherits partitions reads what has gathered there first, in batches of this size
DOCUMENTS_PER_S = 300
BEFORE_S, AFTER_S = 6.0, SESSION_TIMEOUT_MS / 1_000 + 4


class Gaps(NamedTuple):
    """
    The longest time without a verdict of one partition, in seconds: of those of who went, and of all others.

    `before_s` is the longest before anybody went: what the feed, the batches and a busy machine make.
    """

    own_s: float
    others_s: float
    before_s: float

    def __str__(self) -> str:
        return (
            f"its own partitions {self.own_s:.2f} s, the others {self.others_s:.2f} s (before: {self.before_s:.2f} s)"
        )


class Subscriber:
    """Reads the verdicts as they come, committed ones only, and remembers when each source partition had one."""

    def __init__(self, settings: Settings, *, committed_only: bool = True) -> None:
        config = kafka_config.reader(settings) | {"fetch.wait.max.ms": 20}
        if not committed_only:
            config["isolation.level"] = "read_uncommitted"
        topics = {settings.topic_verdicts: settings.partitions}
        self._reader = TopicReader(config, topics, 20.0, from_beginning=False)
        self._ended = threading.Event()
        self.seen_s: dict[int, list[float]] = {number: [] for number in range(settings.partitions)}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._reader.read(0.05):
                if message.value and message.value != VOID:  # which a worker writes to abort it
                    self.seen_s[orjson.loads(message.value)["source"]["partition"]].append(time.monotonic())

    def close(self) -> None:
        """Read no more."""
        self._ended.set()
        self._thread.join()
        self._reader.close()


def _longest_s(times: list[float], since_s: float, until_s: float) -> float:
    inside = [since_s, *(at for at in times if since_s <= at <= until_s), until_s]
    return max(after - before for before, after in pairwise(inside))


def _is_text(message: Message) -> bool:
    """Dead letters go elsewhere: only what gets a verdict is fed."""
    return message[1] is not None and b'"text"' in message[1]


@contextmanager
def _fed(deployment: Deployment) -> Iterator[None]:
    """Feed at an even rate while the block runs."""
    ended = threading.Event()
    messages = [message for seed in range(9) for message in crawl(seed, 2_000) if _is_text(message)]

    def feed() -> None:
        # One producer for all: each new one would first ask for its id, and be late.
        feeder = Feeder(kafka_config.feeder(deployment.settings), deployment.settings.topic_documents)
        begun = time.monotonic()
        for number, message in enumerate(messages):
            if ended.wait(max(begun + number / DOCUMENTS_PER_S - time.monotonic(), 0)):
                break
            feeder.send(*message)
        assert feeder.flush(EVENTUALLY_S) == 0 and feeder.failures == 0, feeder.failed
        deployment.fed += feeder.delivered

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _partitions(process: WorkerProcess) -> set[int]:
    """Return what a worker has, by its log."""
    owned: set[int] = set()
    for line in process.events():
        match line.get("event"):
            case "partitions assigned":
                owned |= set(map(int, line["offsets"]))
            case "partitions revoked" | "partitions lost":
                owned -= set(line["partitions"])
    return owned


def interruption(deployment: Deployment, *, kill: bool) -> Mapping[str, Gaps]:
    """
    Let one of three workers leave (SIGTERM) or kill it, and do not start it again.

    Gives the gaps as a subscriber of committed verdicts sees them, and as one sees them who reads uncommitted ones,
    too: that is, without the wait for a dead worker's open transaction.
    """
    going, *_ = deployment.start_all("w1", "w2", "w3")
    seen = {"committed": True, "uncommitted": False}
    subscribers = {
        name: Subscriber(deployment.settings, committed_only=committed_only) for name, committed_only in seen.items()
    }
    with _fed(deployment):
        deployment.until(lambda: len(_partitions(going)) == PARTITIONS // 3, "an even share of the partitions")
        deployment.until_committed(DOCUMENTS_PER_S)
        time.sleep(BEFORE_S)
        owned, begun_s = _partitions(going), time.monotonic()
        going.kill() if kill else going.stop()
        time.sleep(AFTER_S)
    until_s = time.monotonic() - 0.5
    gaps = {}
    for name, subscriber in subscribers.items():
        subscriber.close()
        longest = {part: _longest_s(times, begun_s, until_s) for part, times in subscriber.seen_s.items()}
        gaps[name] = Gaps(
            max(gap for part, gap in longest.items() if part in owned),
            max(gap for part, gap in longest.items() if part not in owned),
            max(_longest_s(times, begun_s - BEFORE_S, begun_s) for times in subscriber.seen_s.values()),
        )
    return gaps


def main() -> None:
    """Print the figures for leaving and dying, with and without static membership."""
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        for kill in (False, True):
            for static in (False, True):
                settings = {
                    "partitions": PARTITIONS,
                    "static_membership": static,
                    "batch_documents_max": BATCH_DOCUMENTS_MAX,
                }
                with Deployment(kafka.bootstrap, Path(folder), **settings) as deployment:
                    for name, gaps in interruption(deployment, kill=kill).items():
                        how = "killed" if kill else "leaves"
                        print(
                            f"{how}, {'static' if static else 'dynamic'} membership, {name} verdicts: {gaps}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
