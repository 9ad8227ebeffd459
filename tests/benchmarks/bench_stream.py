"""
Throughput and latency of the whole, from `documents` to committed verdicts, on Apache Kafka on this machine.

    text, 5 KB       the bare loop (the limit), one worker, and a Quix Streams pipeline over the same backlog
    pages, 56 KB     the bare loop (the limit), one worker
    archives         the same pages, fed from a WARC file: their bodies travel as base64
    latency          one worker fed at a steady 1,000 documents/s, after 20 s of that

    python -m tests.benchmarks.bench_stream [--quick] [--text N] [--pages N] [--rounds N] [--only text,archives,…]
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.common import keep, options, reached, table
from tests.benchmarks.machine import machine
from tests.benchmarks.stream import latency
from tests.benchmarks.stream.corpus import Message, html_documents, text_documents
from tests.benchmarks.stream.scene import PARTITIONS, Progress, Scene, feed, feed_archive
from worker.devkit.broker import EmbeddedKafka
from worker.settings import Settings

STREAM = Path(__file__).parent / "stream"
TEXT_BAR, SHARE_BAR, HTML_BAR, P50_BAR_MS, P99_BAR_MS = 20_000, 0.70, 2_500, 60, 250
RATE_PER_S = 1_000
HTML, OF_ARCHIVE = "HTML of 56 KB", "HTML of 56 KB, out of a WARC file"
FULL, QUICK = (120_000, 6_000, 3, 50), (80_000, 2_500, 1, 35)  # texts, pages, rounds, seconds of the latency's feed


class Line(NamedTuple):
    """One row of the table."""

    workload: str
    contender: str
    value: float
    unit: str
    ratio: str = ""  # to another contender in the same run
    bar: str = ""  # what it must reach
    reached: bool | None = None


class Bench:
    """One run on one cluster: prepares the backlogs, lets the contenders work, collects the lines of the table."""

    def __init__(self, bootstrap: str, logs: Path, rounds: int, quix_python: str | None) -> None:
        self._bootstrap = bootstrap
        self._logs = logs
        self._rounds = rounds
        self._quix_python = quix_python
        self._stamp = time.strftime("%H%M%S")
        self._numbers = itertools.count(1)
        self.lines: list[Line] = []

    def _scene(self, documents: str) -> Scene:
        scene = Scene(self._bootstrap, f"bench-{self._stamp}-{next(self._numbers)}", documents, self._logs)
        scene.create_topics()
        return scene

    def _backlog(self, name: str, fill: Callable[[Scene], int]) -> str:
        """Feed a topic of its own; every contender then reads it with its own group."""
        topic = f"bench-{self._stamp}-{name}"
        started = time.monotonic()
        count = fill(self._scene(topic))
        print(f"{name}: {count:,} documents over {PARTITIONS} partitions in {time.monotonic() - started:.0f} s")
        return topic

    def _run(self, topic: str, count: int, start: Callable[[Scene], None], limit_s: float = 300) -> Progress:
        scene = self._scene(topic)
        try:
            start(scene)
            return scene.watch(count, limit_s)
        finally:
            scene.stop()

    def _best(self, name: str, topic: str, count: int, starts: dict[str, Callable[[Scene], None]]) -> dict[str, float]:
        """Run each contender in turn, several rounds; give the median rate of each."""
        rates: dict[str, list[float]] = {contender: [] for contender in starts}
        for _ in range(self._rounds):
            for contender, start in starts.items():
                progress = self._run(topic, count, start)
                rates[contender].append(progress.docs_per_s)
                print(f"{name} | {contender}: {progress.docs_per_s:,.0f}/s (first after {progress.first_s:.1f} s)")
        return {contender: statistics.median(found) for contender, found in rates.items()}

    def text(self, count: int) -> None:
        name = "text of 5 KB"
        topic = self._backlog("text", lambda scene: feed(scene.settings(), text_documents(count)))
        ours = self._beside_the_bare_loop(name, topic, count, TEXT_BAR, SHARE_BAR)
        if self._quix_python:
            python, some = self._quix_python, min(count, 15_000)
            peer = self._run(
                topic, some, lambda scene: scene.start_script(STREAM / "quix_pipeline.py", [], python), 600
            )
            ratio = f"{ours / peer.docs_per_s:.2f} × slower than the worker"
            self.lines.append(Line(name, "Quix Streams + gaoya", peer.docs_per_s, "docs/s", ratio))
        else:
            print("Quix Streams is not installed: make bench-stream does that")

    def pages(self, part: str, name: str, fill: Callable[[Settings, Iterable[Message]], int], count: int) -> None:
        topic = self._backlog(part, lambda scene: fill(scene.settings(), html_documents(count)))
        self._beside_the_bare_loop(name, topic, count, HTML_BAR)

    def _beside_the_bare_loop(self, name: str, topic: str, count: int, bar: int, share_bar: float = 0.0) -> float:
        """Let the bare loop and one worker work off a backlog in turn; return the worker's rate."""
        limit, ours = "bare Kafka loop", "neardup worker"
        rates = self._best(
            name,
            topic,
            count,
            {
                limit: lambda scene: scene.start_script(STREAM / "bare_loop.py", []),
                ours: lambda scene: scene.start_worker("w1"),
            },
        )
        share = rates[ours] / rates[limit]
        wanted = f"≥ {bar:,}" + (f", ≥ {share_bar:.0%}" if share_bar else "")
        self.lines += [
            Line(name, limit, rates[limit], "docs/s"),
            Line(name, ours, rates[ours], "docs/s", f"{share:.2f} × the bare loop", wanted,
                 rates[ours] >= bar and share >= share_bar),
        ]  # fmt: skip
        return rates[ours]

    def latency(self, seconds: int) -> None:
        name = f"latency at {RATE_PER_S:,} docs/s"
        scene = self._scene(f"bench-{self._stamp}-latency")
        try:
            scene.start_worker("w1")
            warm_up = feed(scene.settings(), text_documents(500, seed=8))
            scene.watch(warm_up)
            found = latency.measure(scene.settings(), text_documents(RATE_PER_S * seconds, seed=9), RATE_PER_S)
        finally:
            scene.stop()
        print(f"{name}: {found}")
        for label, value, bar in (("p50", found.p50_ms, P50_BAR_MS), ("p99", found.p99_ms, P99_BAR_MS)):
            self.lines.append(Line(name, f"neardup worker, {label}", value, "ms", "", f"≤ {bar} ms", value <= bar))


@contextmanager
def _cluster() -> Iterator[str]:
    own = os.environ.get("NEARDUP_BOOTSTRAP")
    if own:
        yield own
        return
    with EmbeddedKafka() as kafka:
        yield kafka.bootstrap


def tables(lines: Sequence[Line]) -> list[str]:
    rows = []
    for line in lines:
        mark = "" if line.reached is None else reached(line.reached)
        measured = f"{line.value:,.0f} {line.unit}"
        rows.append((line.workload, line.contender, measured, line.ratio, line.bar, mark))
    return table(("workload", "what", "measured", "ratio", "bar", ""), rows)


def main() -> None:
    parser = options(__doc__, "smaller backlogs, one round")
    parser.add_argument("--text", type=int, help="text documents in the backlog")
    parser.add_argument("--pages", type=int, help="pages in the backlog")
    parser.add_argument("--rounds", type=int, help="runs of each contender; the median counts")
    parser.add_argument("--only", default="text,html,archives,latency", help="parts to run, separated by commas")
    parser.add_argument("--quix-python", default=None, help="interpreter of an environment with Quix Streams")
    given = parser.parse_args()
    texts, pages, rounds, latency_s = QUICK if given.quick else FULL
    where = machine()
    logs = Path(tempfile.mkdtemp(prefix="neardup-bench-"))
    with _cluster() as bootstrap:
        bench = Bench(bootstrap, logs, given.rounds or rounds, given.quix_python)
        parts = {
            "text": lambda: bench.text(given.text or texts),
            "html": lambda: bench.pages("html", HTML, feed, given.pages or pages),
            "archives": lambda: bench.pages("archives", OF_ARCHIVE, feed_archive, given.pages or pages),
            "latency": lambda: bench.latency(latency_s),
        }
        failed = []
        for part in given.only.split(","):
            try:
                parts[part]()
            except RuntimeError as error:  # the other parts have their figures all the same
                failed.append(f"{part}: {error}")
    text = "\n".join(tables(bench.lines))
    print(f"\n{text}")
    if failed:
        raise SystemExit("failed: " + "; ".join(failed))
    if not (given.quick or given.no_save):
        keep("stream", {"machine": where, "lines": [line._asdict() for line in bench.lines]}, text)


if __name__ == "__main__":
    main()
