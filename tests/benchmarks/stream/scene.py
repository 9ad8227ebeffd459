"""Where a contender runs: topics of its own beside the shared documents, its processes, and how far it has come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Producer

from tests.benchmarks.common import REPOSITORY
from tests.benchmarks.stream.corpus import Message
from worker.settings import Settings
from worker.shell.files.crawl import FED_BODY_BYTES_MAX, CrawlFiles, feed_documents
from worker.shell.kafka.admin import Admin, create_topics
from worker.shell.kafka.client import feeder_config
from worker.shell.kafka.reader import GroupOffsets

PARTITIONS = 6
_STEP_S = 0.05
_END_S = 20.0


class Progress(NamedTuple):
    """How a backlog was worked off."""

    documents: int
    seconds: float  # from the first committed documents to the last: start-up and joining are not in it
    first_s: float  # from the start of the processes to the first committed documents
    docs_per_s: float


@dataclass
class Scene:
    """One contender's run over the documents of one topic."""

    bootstrap: str
    name: str  # unique in the cluster
    documents: str
    logs: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def settings(self, **more: Any) -> Settings:
        return Settings(
            bootstrap=self.bootstrap,
            group=self.name,
            topic_documents=self.documents,
            topic_fingerprints=f"{self.name}.fingerprints",
            topic_verdicts=f"{self.name}.verdicts",
            topic_dead_letter=f"{self.name}.dead-letter",
            partitions=PARTITIONS,
            **more,
        )

    def create_topics(self) -> None:
        settings = self.settings()
        create_topics(Admin(settings), settings)

    def start_worker(self, name: str, **settings: Any) -> None:
        chosen = self.settings(worker_id=name, **settings)
        given = {key: str(getattr(chosen, key)) for key in chosen.model_fields_set}
        environment = {f"NEARDUP_{key.upper()}": value for key, value in given.items()}
        self._start(name, [sys.executable, "-m", "worker", "worker"], environment)

    def start_script(self, script: Path, arguments: Sequence[str], python: str = sys.executable) -> None:
        """Start a contender that is a script: it gets the cluster, its group and its topics."""
        given = [self.bootstrap, self.name, self.documents, f"{self.name}.fingerprints", f"{self.name}.verdicts"]
        self._start(script.stem, [python, str(script), *given, *arguments], {})

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{self.name}-{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log, cwd=REPOSITORY)
            )

    def stop(self) -> None:
        """End the processes in order, or at once when they do not listen."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def watch(self, documents: int, limit_s: float = 300.0) -> Progress:
        """
        Follow the committed offsets until `documents` have been answered.

        The clock starts when each process has partitions and something has been committed after that.
        """
        admin = Admin(self.settings(), 10.0)
        joined = False
        offsets = GroupOffsets(self.settings(), PARTITIONS)
        started = first_at = time.monotonic()
        first = before = 0
        try:
            while True:
                done = sum(offset or 0 for offset, _ in offsets.get().values())
                shares = {} if joined else admin.assigned(self.name)
                now = time.monotonic()
                if not joined:
                    joined = len(shares) == len(self.processes) and all(shares.values())
                    first_at, before = now, done
                elif done > before and not first:
                    first, first_at = done, now
                if done >= documents:
                    if not first:
                        raise RuntimeError(f"{self.name}: all {documents} were answered before every process took part")
                    seconds = max(now - first_at, 1e-9)
                    return Progress(documents, seconds, first_at - started, (done - first) / seconds)
                for process in self.processes:
                    if process.poll() is not None:
                        raise RuntimeError(f"a process of {self.name} ended with {process.returncode}: see {self.logs}")
                if now - started > limit_s:
                    raise RuntimeError(f"{self.name}: {done} of {documents} after {limit_s:g} s: see {self.logs}")
                time.sleep(_STEP_S)
        finally:
            offsets.close()


def feed_archive(settings: Settings, pages: Iterable[Message]) -> int:
    """Write pages to a WARC file and feed that, as `neardup feed` does; give their number."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n%b"
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:%08d-0000-0000-0000-000000000000>\r\n"
        b"WARC-Date: %b\r\nWARC-Target-URI: %b\r\nContent-Type: application/http; msgtype=response\r\n"
        b"Content-Length: %d\r\n\r\n%b\r\n\r\n"
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pages.warc"
        with path.open("wb") as file:
            for number, page in enumerate(pages):
                fields = orjson.loads(page.value)
                content = http % fields["html"].encode()
                time, url = fields["fetched_at"].encode(), fields["url"].encode()
                file.write(record % (number, time, url, len(content), content))
        return feed_documents(settings, CrawlFiles([str(path)], body_max=FED_BODY_BYTES_MAX)).delivered


def feed(settings: Settings, messages: Iterable[Message]) -> int:
    """Produce documents as `neardup feed` does; give their number."""
    producer = Producer(feeder_config(settings))
    count = 0
    for message in messages:
        while True:
            try:
                producer.produce(settings.topic_documents, value=message.value, key=message.key)
                break
            except BufferError:
                producer.poll(0.05)
        count += 1
        if count % 256 == 0:
            producer.poll(0)
    producer.flush()
    return count
