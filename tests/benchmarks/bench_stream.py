"""
Throughput and latency of the whole, from `documents` to committed verdicts, on Apache Kafka on this
machine.

    text, 5 KB    the bare loop (the limit), one worker, and a Quix Streams pipeline over the same backlog
    pages, 56 KB  the bare loop (the limit), one worker
    archives      the same pages, fed from a WARC file: their bodies travel as base64
    latency       one worker fed at a steady 1,000 documents/s, after 20 s of that, and where a
                  document waits

    python -m tests.benchmarks.bench_stream [--quick] [--text N] [--pages N] [--rounds N] [--only
    text,archives,…]
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from confluent_kafka import Consumer, Producer, TopicPartition
from numpy.typing import NDArray

from tests.benchmarks.common import REPOSITORY, names, options, reached, table
from tests.benchmarks.kept import DEPLOYED, WIDER, finish, machine, this_build
from tests.benchmarks.stream import stages
from tests.conftest import free_ports
from worker.core.stopwords import stopwords
from worker.devkit.broker import EmbeddedKafka
from worker.settings import Settings
from worker.shell.files.crawl import CrawlFiles
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.configuration import feeder_config, reader_config
from worker.shell.kafka.feeding import FED_BODY_BYTES_MAX, feed_documents
from worker.shell.kafka.reader import Feeder, GroupOffsets
from worker.shell.kafka.topics import create_topics

STREAM = Path(__file__).parent / "stream"
RATE_PER_S = 1_000
PARTS = ("text", "html", "archives", "latency")
HTML, OF_ARCHIVE = "HTML of 56 KB", "HTML of 56 KB, out of a WARC file"
# Of the bare loop's rate, by part; of latency, ms.
BARS = {
    DEPLOYED: {"text": 0.62, "html": 0.58, "archives": 0.50, "p50": 70, "p99": 250},
    WIDER: {"text": 0.70, "html": 0.70, "archives": 0.55, "p50": 60, "p99": 250},
}
# Texts, pages, rounds, seconds of the latency's feed.
FULL, QUICK = ((160_000, 16_000, 3, 50), (80_000, 12_000, 1, 35))

# ---- where a contender runs: topics of its own beside the shared documents, its processes, how far it has come

PARTITIONS = 6
_STEP_S = 0.05
_END_S = 20.0


class Progress(NamedTuple):
    """How a backlog was worked off."""

    documents: int
    first_s: float  # from the start of the processes to the first commit after all had partitions
    commits: list[tuple[int, float]]  # from then on: documents answered, and when that was seen

    @property
    def docs_per_s(self) -> float:
        """
        Documents a second in the middle half of the backlog, as far as commits reach.

        Start-up and joining are not in it, and as many documents are being prepared at its end as at
        its beginning: a worker has up to five batches on the way, 3,000 pages of a WARC.

        Raises RuntimeError: these commits are less than a quarter of the backlog apart.
        """
        quarter = self.documents // 4
        middle = [one for one in self.commits if quarter <= one[0] <= self.documents - quarter]
        first, first_at = middle[0] if middle else (0, 0.0)
        last, last_at = middle[-1] if middle else (0, 0.0)
        if last - first < quarter:
            raise RuntimeError(
                f"of {self.documents} documents, {last - first} were answered between the commits "
                f"that were seen in the middle half: take more documents"
            )
        return (last - first) / (last_at - first_at)


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

    def start_worker(self, name: str, **variables: str) -> None:
        """Start a worker; `variables` are more of its environment."""
        chosen = self.settings(worker_id=name)
        given = {key: str(getattr(chosen, key)) for key in chosen.model_fields_set}
        environment = {f"NEARDUP_{key.upper()}": value for key, value in given.items()} | variables
        self._start(name, [sys.executable, "-m", "worker", "worker"], environment)

    def start_script(self, script: Path, python: str = sys.executable) -> None:
        """Start a contender that is a script: it gets the cluster, its group and its topics."""
        given = [
            self.bootstrap,
            self.name,
            self.documents,
            f"{self.name}.fingerprints",
            f"{self.name}.verdicts",
        ]
        self._start(script.stem, [python, str(script), *given], {})

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{self.name}-{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, **environment},
                    stdout=log,
                    stderr=log,
                    cwd=REPOSITORY,
                )
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
        Follow the committed offsets until `documents` have been answered; note the commits from
        when each process has partitions.
        """
        admin = Admin(self.settings(), 10.0)
        joined = False
        offsets = GroupOffsets(self.settings(), PARTITIONS)
        started = first_at = time.monotonic()
        before = 0
        commits: list[tuple[int, float]] = []
        try:
            while True:
                done = sum(offset or 0 for offset, _ in offsets.get().values())
                shares = {} if joined else admin.assigned(self.name)
                now = time.monotonic()
                if not joined:
                    joined = len(shares) == len(self.processes) and all(shares.values())
                    first_at, before = now, done
                elif done > before:
                    if not commits:
                        first_at = now
                    commits.append((done, now))
                    before = done
                if done >= documents:
                    return Progress(documents, first_at - started, commits)
                for process in self.processes:
                    if process.poll() is not None:
                        raise RuntimeError(
                            f"a process of {self.name} ended with {process.returncode}: see "
                            f"{self.logs}"
                        )
                if now - started > limit_s:
                    raise RuntimeError(
                        f"{self.name}: {done} of {documents} after {limit_s:g} s: see {self.logs}"
                    )
                time.sleep(_STEP_S)
        finally:
            offsets.close()


def feed_archive(settings: Settings, pages: Iterable[Message]) -> int:
    """Write pages to a WARC file and feed that, as `neardup feed` does; give their number."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n%b"
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: "
        b"<urn:uuid:%08d-0000-0000-0000-000000000000>\r\n"
        b"WARC-Date: %b\r\nWARC-Target-URI: %b\r\nContent-Type: application/http; "
        b"msgtype=response\r\n"
        b"Content-Length: %d\r\n\r\n%b\r\n\r\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.warc"
        with path.open("wb") as file:
            for number, page in enumerate(pages):
                fields = orjson.loads(page.value)
                content = http % fields["html"].encode()
                time, url = fields["fetched_at"].encode(), fields["url"].encode()
                file.write(record % (number, time, url, len(content), content))
        return feed_documents(
            settings, CrawlFiles([str(path)], body_max=FED_BODY_BYTES_MAX)
        ).delivered


def feed(settings: Settings, messages: Iterable[Message]) -> int:
    """Produce documents as `neardup feed` does; give their number."""
    feeder = Feeder(settings)
    for message in messages:
        feeder.send(message.key, message.value)
    feeder.flush(120.0)
    return feeder.delivered


# ---- how long a document waits for its verdict: from the producer's call to a subscriber that reads what is committed

# A Java broker that has only just met small transactions compiles them for some 15 s.
_WARM_UP_S = 20.0
_WAIT_S = 10.0


class Latency(NamedTuple):
    """Of the documents after the first twenty seconds."""

    documents: int
    fed_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    shares_ms: dict[str, float]  # of the mean: `stages.shares_ms`


class _Subscriber(threading.Thread):
    """Notes when each verdict is there to read."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer({**reader_config(settings), "enable.partition.eof": False})
        parts = [TopicPartition(settings.topic_verdicts, number) for number in range(PARTITIONS)]
        for part in parts:
            part.offset = self._consumer.get_watermark_offsets(part, timeout=10, cached=False)[1]
        self._consumer.assign(parts)
        self.seen: dict[str, float] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                now = time.perf_counter()
                self.seen[str(orjson.loads(message.value() or b"")["doc_id"])] = now
        self._consumer.close()


def measure_latency(
    settings: Settings, messages: Iterable[Message], rate_per_s: int, metrics_port: int
) -> Latency:
    """Feed at a steady rate and follow the verdicts; the worker runs already."""
    documents = list(messages)
    warm: list[stages.Totals] = []
    # In a thread of its own: the feed goes on while the worker answers.
    scraping = threading.Timer(_WARM_UP_S, lambda: warm.append(stages.scrape(metrics_port)))
    scraping.start()
    subscriber = _Subscriber(settings)
    subscriber.start()
    producer = Producer({**feeder_config(settings), "linger.ms": 1})
    sent: dict[str, float] = {}
    started = time.perf_counter()
    for number, message in enumerate(documents):
        # A poll of less than a millisecond does not wait, and the feed would take a core for itself.
        ahead = started + number / rate_per_s - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        producer.poll(0)
        sent[message.key.decode()] = time.perf_counter()
        producer.produce(settings.topic_documents, value=message.value, key=message.key)
    fed_per_s = len(documents) / (time.perf_counter() - started)
    producer.flush()
    deadline = time.perf_counter() + _WAIT_S
    while len(subscriber.seen) < len(documents) and time.perf_counter() < deadline:
        time.sleep(0.05)
    subscriber.stopping.set()
    subscriber.join()
    scraping.join()
    missing = sent.keys() - subscriber.seen.keys()
    if missing:
        raise RuntimeError(
            f"{len(missing)} of {len(sent)} documents had no verdict after {_WAIT_S:g} s"
        )
    waits_ms = 1_000 * np.array(
        [subscriber.seen[doc_id] - at for doc_id, at in sent.items() if at - started > _WARM_UP_S]
    )
    p50, p99 = np.percentile(waits_ms, [50, 99])
    shares_ms = stages.shares_ms(warm[0], stages.scrape(metrics_port), float(waits_ms.mean()))
    return Latency(
        len(waits_ms), fed_per_s, float(p50), float(p99), float(waits_ms.max()), shares_ms
    )


# ---- the run


def cluster(stack: ExitStack) -> str:
    """Return the brokers that NEARDUP_BOOTSTRAP names, or one that runs as long as the stack."""
    return os.environ.get("NEARDUP_BOOTSTRAP") or stack.enter_context(EmbeddedKafka()).bootstrap


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
    """
    One run on one cluster: prepares the backlogs, lets the contenders work, collects the lines of
    the table.
    """

    def __init__(self, bootstrap: str, logs: Path, rounds: int, quix_python: str | None) -> None:
        self._bootstrap = bootstrap
        self._logs = logs
        self._rounds = rounds
        self._quix_python = quix_python
        self._stamp = time.strftime("%H%M%S")
        self._numbers = itertools.count(1)
        self.lines: list[Line] = []

    def _scene(self, documents: str) -> Scene:
        scene = Scene(
            self._bootstrap, f"bench-{self._stamp}-{next(self._numbers)}", documents, self._logs
        )
        scene.create_topics()
        return scene

    def _backlog(self, name: str, fill: Callable[[Scene], int]) -> str:
        """Feed a topic of its own; every contender then reads it with its own group."""
        topic = f"bench-{self._stamp}-{name}"
        started = time.monotonic()
        count = fill(self._scene(topic))
        print(
            f"{name}: {count:,} documents over {PARTITIONS} partitions in "
            f"{time.monotonic() - started:.0f} s"
        )
        return topic

    def _run(
        self, topic: str, count: int, start: Callable[[Scene], None], limit_s: float = 300
    ) -> Progress:
        scene = self._scene(topic)
        try:
            start(scene)
            return scene.watch(count, limit_s)
        finally:
            scene.stop()

    def text(self, count: int) -> None:
        name = "text of 5 KB"
        topic = self._backlog("text", lambda scene: feed(scene.settings(), text_documents(count)))
        ours = self._beside_the_bare_loop(name, topic, count, BARS[this_build()]["text"])
        if self._quix_python:
            python, some = self._quix_python, min(count, 15_000)
            peer = self._run(
                topic,
                some,
                lambda scene: scene.start_script(STREAM / "quix_pipeline.py", python),
                600,
            )
            ratio = f"{ours / peer.docs_per_s:.2f} × slower than the worker"
            self.lines.append(Line(name, "Quix Streams + gaoya", peer.docs_per_s, "docs/s", ratio))
        else:
            print("Quix Streams is not installed: make bench-stream does that")

    def pages(
        self, part: str, name: str, fill: Callable[[Settings, Iterable[Message]], int], count: int
    ) -> None:
        topic = self._backlog(part, lambda scene: fill(scene.settings(), html_documents(count)))
        self._beside_the_bare_loop(name, topic, count, BARS[this_build()][part])

    def _beside_the_bare_loop(self, name: str, topic: str, count: int, bar: float) -> float:
        """
        Let the bare loop and one worker work off a backlog in turn; return the worker's median
        rate.
        """
        limit, ours = "bare Kafka loop", "neardup worker"
        starts: dict[str, Callable[[Scene], None]] = {
            limit: lambda scene: scene.start_script(STREAM / "bare_loop.py"),
            ours: lambda scene: scene.start_worker("w1"),
        }
        found: dict[str, list[float]] = {contender: [] for contender in starts}
        for _ in range(self._rounds):
            for contender, start in starts.items():
                progress = self._run(topic, count, start)
                found[contender].append(progress.docs_per_s)
                print(
                    f"{name} | {contender}: {progress.docs_per_s:,.0f}/s (first after "
                    f"{progress.first_s:.1f} s)"
                )
        rates = {contender: statistics.median(each) for contender, each in found.items()}
        share = rates[ours] / rates[limit]
        self.lines += [
            Line(name, limit, rates[limit], "docs/s"),
            Line(name, ours, rates[ours], "docs/s", f"{share:.2f} × the bare loop", f"≥ {bar:.2f} ×",
                 share >= bar),
        ]  # fmt: skip
        return rates[ours]

    def latency(self, seconds: int) -> None:
        name = f"latency at {RATE_PER_S:,} docs/s"
        scene = self._scene(f"bench-{self._stamp}-latency")
        try:
            [port] = free_ports()
            scene.start_worker("w1", NEARDUP_METRICS_PORT=str(port))
            warm_up = feed(scene.settings(), text_documents(500, seed=8))
            scene.watch(warm_up)
            found = measure_latency(
                scene.settings(), text_documents(RATE_PER_S * seconds, seed=9), RATE_PER_S, port
            )
        finally:
            scene.stop()
        print(f"{name}: {found}")
        for label, value in (("p50", found.p50_ms), ("p99", found.p99_ms)):
            bar = BARS[this_build()][label]
            self.lines.append(
                Line(name, f"neardup worker, {label}", value, "ms", "", f"≤ {bar} ms", value <= bar)
            )
        for share, value in found.shares_ms.items():
            self.lines.append(Line(name, f"of the mean, {share}", value, "ms"))


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
    parser.add_argument(
        "--only", type=names, default=PARTS, help="parts to run, separated by commas"
    )
    parser.add_argument(
        "--quix-python", default=None, help="interpreter of an environment with Quix Streams"
    )
    given = parser.parse_args()
    texts, pages, rounds, latency_s = QUICK if given.quick else FULL
    where = machine()
    logs = Path(tempfile.mkdtemp(prefix="neardup-bench-"))
    with ExitStack() as stack:
        bench = Bench(cluster(stack), logs, given.rounds or rounds, given.quix_python)
        parts = {
            "text": lambda: bench.text(given.text or texts),
            "html": lambda: bench.pages("html", HTML, feed, given.pages or pages),
            "archives": lambda: bench.pages(
                "archives", OF_ARCHIVE, feed_archive, given.pages or pages
            ),
            "latency": lambda: bench.latency(latency_s),
        }
        failed = []
        for part in given.only:
            try:
                parts[part]()
            except RuntimeError as error:  # the other parts have their figures all the same
                failed.append(f"{part}: {error}")
    if failed:
        print("", *tables(bench.lines), sep="\n")
        raise SystemExit("failed: " + "; ".join(failed))
    figures = {"machine": where, "lines": [line._asdict() for line in bench.lines]}
    finish(given, "stream", figures, tables(bench.lines))


# ---- documents: generated from a seed, in twelve languages and eight scripts, half of them near duplicates

DUPLICATES = 0.5  # share of documents that repeat an earlier one
_RECENT = 5_000  # originals that a duplicate may repeat
_WORDS = 6_000  # content words of a language
_FUNCTION_SHARE = 0.42  # of the running words of prose
_SENTENCE = 14  # words
_EPOCH_MS = 1_760_000_000_000

# onsets, nuclei and codas of syllables, separated by blanks; "·" is none
_Syllables = tuple[str, str, str]
_LATIN: _Syllables = ("b c d f g l m n p r s t v br st tr ch", "a e i o u ai ea", "· n r s l t")
_CYRILLIC: _Syllables = ("б в г д ж з к л м н п р с т ст пр", "а е и о у я ю", "· н й р ль")
_GREEK: _Syllables = ("β γ δ θ κ λ μ ν π ρ σ τ φ", "α ε η ι ο υ ω", "· ν ς ρ")
_ARABIC: _Syllables = ("ب ت ث ج ح خ د ر ز س ش ص ط ع ف ق ك ل م ن ه", "· ا و ي", "· ن ة")
_DEVANAGARI: _Syllables = ("क ख ग च ज ट ड त द न प ब म य र ल व स ह", "· ा ि ी ु े ो", "· न र")

# share of documents, syllables
LANGUAGES: dict[str, tuple[float, _Syllables | None]] = {
    "en": (0.44, _LATIN), "ru": (0.08, _CYRILLIC), "es": (0.07, _LATIN), "de": (0.07, _LATIN),
    "fr": (0.06, _LATIN), "ja": (0.06, None), "zh": (0.06, None), "pt": (0.04, _LATIN),
    "it": (0.04, _LATIN), "ar": (0.03, _ARABIC), "hi": (0.03, _DEVANAGARI), "el": (0.02, _GREEK),
}  # fmt: skip


class Message(NamedTuple):
    """One message of the topic `documents`."""

    key: bytes
    value: bytes


class _Lexicon(NamedTuple):
    # Function words, content words, then all of them ending a sentence, then all of them starting
    # one.
    words: list[str]
    functions: int
    size: int
    joint: str
    mean_bytes: float


@cache
def _lexicon(language: str) -> _Lexicon:
    rng = np.random.default_rng(abs(hash(language.encode()[0])) + len(language))
    functions = sorted(stopwords(language))
    syllables = LANGUAGES[language][1]
    content: dict[str, None] = {}
    while len(content) < _WORDS:
        if syllables is None:  # one to three Han characters, kana endings in Japanese
            word = "".join(
                chr(int(code)) for code in rng.integers(0x4E00, 0x8000, int(rng.integers(1, 4)))
            )
            word += (
                chr(int(rng.integers(0x3042, 0x3090)))
                if language == "ja" and rng.random() < 0.5
                else ""
            )
        else:
            parts = [part.split() for part in syllables] * int(rng.integers(1, 4))
            word = "".join(str(part[int(rng.integers(len(part)))]).strip("·") for part in parts)
        content.setdefault(word)
    plain = functions + list(content)
    stop = "。" if syllables is None else "।" if language == "hi" else "."
    words = plain + [word + stop for word in plain] + [word[0].upper() + word[1:] for word in plain]
    joint = "" if syllables is None else " "
    sample = [
        words[i] for i in _draw(rng, len(functions), len(plain), 2_000, rng.integers(0, _WORDS, 40))
    ]
    return _Lexicon(
        words, len(functions), len(plain), joint, len(joint.join(sample).encode()) / len(sample)
    )


def _draw(
    rng: np.random.Generator, functions: int, size: int, count: int, topic: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Draw running words: function words, common and rare content words, and words of the topic."""
    function = (functions * rng.random(count) ** 2).astype(np.int64)
    content = functions + ((size - functions) * rng.random(count) ** 3).astype(np.int64)
    own = functions + topic[(len(topic) * rng.random(count) ** 1.5).astype(np.int64)]
    kind = rng.random(count)
    words = np.where(kind < _FUNCTION_SHARE, function, np.where(kind < 0.72, content, own))
    words[_SENTENCE - 1 :: _SENTENCE] += size
    words[::_SENTENCE] += 2 * size
    return words


class _Articles:
    """A stream of articles as word numbers; every second one repeats a recent one."""

    def __init__(self, seed: int, body_bytes: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._body_bytes = body_bytes
        self._recent: list[tuple[str, NDArray[np.int64]]] = []
        self._languages = list(LANGUAGES)
        self._shares = np.array([share for share, _ in LANGUAGES.values()])

    def text(self) -> tuple[str, str]:
        """Return the next article's language and text."""
        rng = self.rng
        if self._recent and rng.random() < DUPLICATES:
            language, words = self._recent[int(rng.integers(len(self._recent)))]
            words = words.copy()
            lexicon = _lexicon(language)
            changed = int(len(words) * float(rng.choice([0, 0.003, 0.01, 0.02])))
            words[rng.integers(0, len(words), changed)] = rng.integers(0, lexicon.size, changed)
            if rng.random() < 0.3:
                words = np.concatenate([words, rng.integers(0, lexicon.size, 8)])
        else:
            language = self._languages[int(rng.choice(len(self._languages), p=self._shares))]
            lexicon = _lexicon(language)
            count = int(self._body_bytes * rng.uniform(0.7, 1.3) / lexicon.mean_bytes)
            words = _draw(rng, lexicon.functions, lexicon.size, count, rng.integers(0, _WORDS, 120))
            if len(self._recent) < _RECENT:
                self._recent.append((language, words))
            else:
                self._recent[int(rng.integers(_RECENT))] = (language, words)
        return language, lexicon.joint.join(map(lexicon.words.__getitem__, words.tolist()))


def _message(number: int, language: str, body: dict[str, str], title: str) -> Message:
    doc_id = f"bench-{number:08d}"
    moment = np.datetime64(_EPOCH_MS + 7 * number, "ms").astype(str)
    fields = {
        "doc_id": doc_id,
        "url": f"https://site-{number * 7919 % 4001}.example/{language}/articles/{number:08d}.html",
        "fetched_at": f"{moment}Z",
        "content_type": "text/plain" if "text" in body else "text/html",
        "title": title,
        "language": language,
        **body,
    }
    return Message(doc_id.encode(), orjson.dumps(fields))


def text_documents(count: int, seed: int = 1, body_bytes: int = 4_800) -> Iterator[Message]:
    """Return `count` text documents of 5 KB on average, the JSON around the text included."""
    articles = _Articles(seed, body_bytes)
    for number in range(count):
        language, text = articles.text()
        yield _message(number, language, {"text": text}, text[:60])


def html_documents(count: int, seed: int = 2, page_bytes: int = 56_000) -> Iterator[Message]:
    """
    Return `count` pages of 56 KB: an article of 8 KB in a site's template.

    By bytes: a sixth scripts and styles, a sixth article with links in it, the rest menus,
    comments, and lists of links and cards. 54 tags a KB, where crawled pages have about 33. All but
    the article differs in copies.
    """
    articles = _Articles(seed, 8_000)
    rng = np.random.default_rng(seed + 1)
    for number in range(count):
        language, text = articles.text()
        html = _page(rng, language, text, page_bytes)
        yield _message(number, language, {"html": html}, text[:60])


def _page(rng: np.random.Generator, language: str, text: str, page_bytes: int) -> str:
    lexicon = _lexicon(language)

    def words(count: int) -> str:
        return lexicon.joint.join(
            lexicon.words[int(i)] for i in rng.integers(0, lexicon.size, count)
        )

    step = max(200, len(text) // 14)
    paragraphs = "".join(
        f"<p>{text[i : i + step // 2]}<a "
        f'href="/a/{i}">{text[i + step // 2 : i + step // 2 + 20]}</a>'
        f"<em>{text[i + step // 2 + 20 : i + step // 2 + 40]}</em>{text[i + step // 2 + 40 : i + step]}</p>\n"
        for i in range(0, len(text), step)
    )
    menu = "".join(f'<li class="nav-item"><a href="/c/{i}">{words(2)}</a></li>' for i in range(120))
    comments = "".join(
        f'<div class="comment"><span class="author">{words(1)}</span><p>{words(18)}</p></div>'
        for _ in range(12)
    )
    script = "".join(f"window.q{i}=function(a,b){{return a+b*{i};}};" for i in range(90))
    style = "".join(
        f".c{i}{{margin:{i % 9}px;padding:{i % 7}px;color:#{i * 4999 % 0xFFFFFF:06x}}}"
        for i in range(80)
    )
    head = f"<head><title>{text[:60]}</title><style>{style}</style><script>{script}</script></head>"
    top = f'<nav><ul class="menu">{menu}</ul></nav>'
    end = f'<section class="comments">{comments}</section><footer><p>{words(30)}</p></footer>'
    article = f"<main><article><h1>{text[:60]}</h1>\n{paragraphs}</article></main>"
    cards, size = [], len(f"{head}{top}{article}{end}".encode())
    while size < page_bytes:
        number = int(rng.integers(1_000_000))
        cards.append(
            f'<div class="card c{number % 80}"><div class="box"><a href="/articles/{number}.html">'
            f'<img src="/i/{number}.jpg"></a><h3><a '
            f'href="/articles/{number}.html"><span>{words(5)}</span></a></h3>'
            f'<ul class="tags"><li>{words(1)}</li><li><a '
            f'href="/t/{number % 97}">{words(1)}</a></li></ul>'
            f"<p><b>{words(1)}</b> {words(3)}<br><i>{number}</i></p></div></div>\n"
        )
        size += len(cards[-1].encode())
    aside = f'<aside class="related">{"".join(cards)}</aside>'
    return f'<!doctype html><html lang="{language}">{head}<body>{top}{article}{aside}{end}</body></html>'


if __name__ == "__main__":
    main()
