"""
The demo: a crawl, a broker, a group of workers; every document followed from its feeding to its
verdict.

    sample crawl ──► feed ──► documents ──► three workers ──► verdicts
    ──► counted, timed, compared with the truth
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from schemas.fields import parse_timestamp
from worker.core.document import MatchKind, Verdict
from worker.devkit.sample.crawl import ROTATING, TEMPLATES
from worker.errors import NeardupError, RecordError, StopError
from worker.log.record import decode
from worker.settings import SETTINGS, Settings, environment
from worker.shell.admin.watch import watch
from worker.shell.files.crawl import CrawlFiles
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.feeding import feed_documents
from worker.shell.kafka.log import log_entries
from worker.shell.messages import DeadLetter

ARTICLE = "article"  # the kind of a page that has no template


class Truth:
    """The documents of a sample crawl that tell the same article."""

    def __init__(self, path: Path | None) -> None:
        self.groups: dict[tuple[str, int], str] = {}  # by URL and fetch time (Unix ms)
        self.templates: dict[str, str] = {}  # group -> kind of template, of its only page
        self.rotating: set[str] = set()  # groups in plain text, each copy with other advertisements
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                entry = orjson.loads(line)
                if entry.get("group") is not None:
                    self.groups[entry["url"], parse_timestamp(entry["fetched_at"])] = str(
                        entry["group"]
                    )
                if entry["relation"] == ROTATING:
                    self.rotating.add(entry["group"])
                if entry["relation"] in TEMPLATES:
                    self.templates[entry["group"]] = entry["relation"]

    def __bool__(self) -> bool:
        return bool(self.groups)


class Accuracy(NamedTuple):
    """How many copies of a sample crawl were found, and how many pages wrongly called copies."""

    copies: int  # pages with the article of an earlier page
    missed: int  # copies that were not found
    missed_rotating: int  # of these, plain texts whose advertisements rotate
    others: int  # pages with an article that no other page has
    # Pages that were called copies of a page with another article, by kind of template, or ARTICLE.
    wrong: Counter[str]


@contextmanager
def workers_running(
    settings: Settings, ids: Sequence[str], logs: Path
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """
    Run the workers of a group, each as a process, until the block ends. Yields them by their ids.

    They end with this process, however it ends: each waits for the end of its stdin. Each logs to
    `logs`/<id>.log.
    """
    running: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_end, running)
        for worker_id in ids:
            log = stack.enter_context((logs / f"{worker_id}.log").open("ab"))
            running[worker_id] = (
                subprocess.Popen(  # our own command; -P: not a worker.py of the current folder
                    [sys.executable, "-P", "-m", "worker", "worker", "--until-stdin-ends"],
                    env={**os.environ, **_environment(settings, worker_id)},
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is the parent's to handle
                )
            )
        yield running


def _end(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        process.terminate()
    for process in running.values():
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(settings: Settings, worker_id: str) -> dict[str, str]:
    """Return environment variables that give a worker these settings, except for its id."""
    named = [name for name in SETTINGS if name in settings.model_fields_set]
    given = {name: getattr(settings, name) for name in named}
    return environment(given | {"worker_id": worker_id, "log_format": "json"})


@dataclass
class Demo:
    """One run of the demo: the documents fed, their answers, and what was found."""

    settings: Settings
    crawl: CrawlFiles
    truth: Truth
    rate: float
    sent_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    answers: Counter[tuple[int, int]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    latencies_ms: list[int] = field(default_factory=list)
    latest: list[Verdict] = field(default_factory=list)
    _verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    _fed: threading.Event = field(default_factory=threading.Event)
    _failure: NeardupError | None = None
    started_s: float = 0.0
    finished_s: float = 0.0

    LATEST = 12
    PATIENCE_S = 90.0  # without a single answer
    START_S_MAX = 300.0  # until the group is complete; a first start compiles the kernels

    def wait_for(self, workers: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """
        Wait until the group's workers share all partitions, so that latencies do not include a
        start.
        """
        admin = Admin(self.settings)
        deadline = time.monotonic() + self.START_S_MAX
        while time.monotonic() < deadline:
            assigned = admin.assigned(self.settings.group)
            if len(assigned) == len(workers) and min(assigned.values()) > 0:
                return
            for worker_id, process in workers.items():
                if process.poll() is not None:
                    raise StopError(
                        f"{worker_id} ended with exit code {process.returncode}: its log says why"
                    )
            time.sleep(0.2)

    def run(self) -> Iterator[None]:
        """
        Feed and follow until every document has its answer; give control back many times a second.

        Raises:
            StopError: no answer came for a long time.
        """
        self.started_s = self.finished_s = time.monotonic()
        feeding = threading.Thread(target=self._feed, name="feed", daemon=True)
        feeding.start()
        answers = (self.settings.topic_verdicts, self.settings.topic_dead_letter)
        for seen in watch(self.settings, answers, follow=True):
            if seen is not None:
                self._take(seen.answer, seen.timestamp_ms)
            if self._failure is not None:
                raise self._failure
            if seen is None and self._fed.is_set() and len(self.answers) >= len(self.sent_ms):
                feeding.join()
                return
            if time.monotonic() - self.finished_s > self.PATIENCE_S:
                raise StopError(
                    f"no answer for {self.PATIENCE_S:g} s, {len(self.sent_ms) - len(self.answers)} "
                    "documents are open: see the workers' logs"
                )
            yield

    def _feed(self) -> None:
        try:
            outcome = feed_documents(self.settings, self.crawl, self.rate, self._sent)
            if outcome.failures:
                text = f"{outcome.failures} documents could not be fed: {'; '.join(outcome.failed)}"
                self._failure = StopError(text)
        except NeardupError as error:
            self._failure = error
        except BaseException as error:
            self._failure = StopError(f"the feeding thread failed: {error!r}")
        finally:
            self._fed.set()

    def _sent(self, partition: int, offset: int, timestamp_ms: int) -> None:
        self.sent_ms[partition, offset] = timestamp_ms

    def _take(self, answer: Verdict | DeadLetter, timestamp_ms: int) -> None:
        key = (answer.source_partition, answer.source_offset)
        self.answers[key] += 1
        self.finished_s = time.monotonic()
        if key in self.sent_ms:
            self.latencies_ms.append(timestamp_ms - self.sent_ms[key])
        if isinstance(answer, DeadLetter):
            self.outcomes["dead letters"] += 1
            return
        self._verdicts[key] = answer
        match = answer.duplicate_of
        self.outcomes[
            answer.outcome.value if match is None else f"{match.kind.value} duplicates"
        ] += 1
        self.latest = [*self.latest[-self.LATEST + 1 :], answer]

    @property
    def seconds(self) -> float:
        """From the first document fed to the last answer."""
        return max(self.finished_s - self.started_s, 1e-9)

    @property
    def unanswered(self) -> int:
        """Documents without an answer."""
        return len(self.sent_ms.keys() - self.answers.keys())

    @property
    def repeated(self) -> int:
        """Documents with more than one answer."""
        return sum(count > 1 for count in self.answers.values())

    @property
    def is_whole(self) -> bool:
        """Whether every document was answered exactly once."""
        return self.unanswered == 0 and self.repeated == 0 and bool(self.sent_ms)

    def near_duplicates(self, count: int) -> list[Verdict]:
        """
        Return the first near-duplicates in the order of the log: copies on other pages before those
        of the same page, none of a template.
        """
        near = [
            verdict
            for verdict in self._verdicts.values()
            if verdict.duplicate_of is not None
            and verdict.duplicate_of.kind is MatchKind.NEAR
            and self._group(verdict.url, verdict.fetched_at_ms) not in self.truth.templates
        ]

        def place(verdict: Verdict) -> tuple[bool, int, int]:
            assert verdict.duplicate_of is not None
            return verdict.duplicate_of.same_url, verdict.log_offset, verdict.source_offset

        return sorted(near, key=place)[:count]

    def percentile_ms(self, share: float) -> int:
        """
        Return the latency that this share of the documents stayed below, from feeding to verdict.
        """
        ordered = sorted(self.latencies_ms)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0

    def accuracy(self) -> Accuracy:
        """Compare the verdicts with the truth."""
        pages = Counter[str]()  # by group
        found = Counter[str]()  # copies, by group
        wrong = Counter[str]()
        for verdict in self._verdicts.values():
            group = self._group(verdict.url, verdict.fetched_at_ms)
            if group is None:
                continue
            pages[group] += 1
            if verdict.duplicate_of is not None:
                original = verdict.duplicate_of.original
                if self._group(original.url, original.fetched_at_ms) == group:
                    found[group] += 1
                else:
                    wrong[self.truth.templates.get(group, ARTICLE)] += 1
        missed = {group: count - 1 - found[group] for group, count in pages.items()}
        return Accuracy(
            copies=pages.total() - len(pages),
            missed=sum(missed.values()),
            missed_rotating=sum(missed.get(group, 0) for group in self.truth.rotating),
            others=len(pages),
            wrong=wrong,
        )

    def _group(self, url: str | None, fetched_at_ms: int | None) -> str | None:
        return self.truth.groups.get((url or "", fetched_at_ms or 0))

    def across_workers(self) -> int:
        """
        Return how many duplicates have an original that another worker handled, as the log says.
        """
        authors: dict[tuple[int, int], str] = {}  # who wrote each source offset into the log first
        for entry in log_entries(self.settings, 0):
            with suppress(RecordError):  # the log's definition
                record = decode(entry.value)
                for section in record.sections:
                    for offset in section.rows.offsets.tolist():
                        authors.setdefault((section.source.partition, offset), record.author.name)
        by_doc_id = {
            verdict.doc_id: key
            for key, verdict in self._verdicts.items()
            if verdict.duplicate_of is None
        }
        across = 0
        for key, verdict in self._verdicts.items():
            if verdict.duplicate_of is not None:
                origin = by_doc_id.get(verdict.duplicate_of.original.doc_id)
                across += origin is not None and authors.get(origin) != authors.get(key)
        return across
