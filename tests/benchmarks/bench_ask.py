"""
Questions to one worker that works off a backlog at full speed: how long they wait, and how much they
slow it.

    none                  the worker alone
    100/s                 next to questions at a steady 100/s, one document each, half of them copies
    1,000/s               the same at 1,000/s
    1,000/s, 20 together  as many documents, 20 in a request

They take turns on the same backlog. The program that asks runs on the same machine, so on few cores
it slows the worker, too. Therefore the table also has the processor time that the worker itself takes
for a document of the backlog and its share of the questions. Waits are those of requests.

    python -m tests.benchmarks.bench_ask [--quick] [--text N] [--rounds N]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from tests.benchmarks.bench_stream import STREAM, Bench, cluster, feed, text_documents
from tests.benchmarks.common import options, reached, table
from tests.benchmarks.kept import finish, machine
from tests.conftest import free_ports


class Load(NamedTuple):
    """What is asked, next to the backlog."""

    requests_per_s: int
    together: int  # documents in a request


LOADS = {
    "none": Load(0, 1),
    "100/s": Load(100, 1),
    "1,000/s": Load(1_000, 1),
    "1,000/s, 20 together": Load(50, 20),
}
SHARE_BAR = 0.9  # of the rate without questions
TOKEN = "token-of-the-benchmark"
# Text documents in the backlog, rounds.
FULL, QUICK = (200_000, 3), (60_000, 1)
_ASKED = 5_000  # different documents
_READY_S = 120.0


class Trial(NamedTuple):
    """One worker over the backlog, next to one load of questions."""

    docs_per_s: float
    cpu_us: float  # of the worker from its first answer on, for each document of the backlog
    asked_per_s: float  # documents
    refused: float  # requests with another status than 200
    p50_ms: float
    p99_ms: float
    max_ms: float


class AskBench(Bench):
    """Runs the trials on one cluster."""

    def prepare(self, count: int, folder: Path) -> None:
        """Fill the backlog; write the questions, half of which repeat documents of the backlog."""
        self._count = count
        self._topic = self._backlog(
            "ask", lambda scene: feed(scene.settings(), text_documents(count))
        )
        self._questions = folder / "questions.jsonl"
        seen = text_documents(_ASKED // 2)
        new = text_documents(_ASKED // 2, seed=7)
        pairs = zip(seen, new, strict=True)
        lines = [message.value for pair in pairs for message in pair]
        self._questions.write_bytes(b"\n".join(lines))

    def trial(self, load: Load) -> Trial:
        """Let one worker work off the backlog while questions come."""
        scene = self._scene(self._topic)
        [port] = free_ports(1)
        asker: subprocess.Popen[str] | None = None
        try:
            scene.start_worker(
                "w1",
                NEARDUP_METRICS_PORT=str(port),
                NEARDUP_ASK_TOKEN=TOKEN,
            )
            [worker] = scene.processes
            _until_ready(f"http://127.0.0.1:{port}")
            before_s = _processor_s(worker)
            if load.requests_per_s:
                asker = self._ask(port, load)
            started = time.monotonic()
            progress = scene.watch(self._count)
            seconds = time.monotonic() - started
            cpu_us = 1e6 * (_processor_s(worker) - before_s) / self._count
            said = "" if asker is None else asker.communicate()[0]
        finally:
            if asker is not None:
                asker.kill()
            scene.stop()
        if asker is None:
            return Trial(progress.docs_per_s, cpu_us, 0.0, 0, 0.0, 0.0, 0.0)
        answers = json.loads(said)
        waits_ms = 1_000 * np.array(answers["waits_s"])
        p50, p99 = np.percentile(waits_ms, [50, 99])
        refused = sum(answers["statuses"].values())
        return Trial(
            progress.docs_per_s, cpu_us, len(waits_ms) * load.together / seconds, refused,
            float(p50), float(p99), float(waits_ms.max()),
        )  # fmt: skip

    def _ask(self, port: int, load: Load) -> subprocess.Popen[str]:
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, str(STREAM / "asker.py"), address]
        command += [str(load.requests_per_s), str(load.together), str(self._questions)]
        environment = os.environ | {"NEARDUP_ASK_TOKEN": TOKEN}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


def _processor_s(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time that a process has taken so far."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def _until_ready(worker: str) -> None:
    """Wait until a worker answers questions; that it has no such URL is an answer."""
    question = urllib.request.Request(
        f"{worker}/v1/seen?url=https://none.example/", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(question, timeout=5).close()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{worker} answered no question within {_READY_S:g} s")


def medians(trials: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Trial]:
    """Return the median of each figure, by load."""
    return {
        name: Trial(*(statistics.median(one[field] for one in found) for field in Trial._fields))
        for name, found in trials.items()
    }


def tables(of: dict[str, Trial]) -> list[str]:
    """Return the table of all loads."""
    alone = of["none"]
    rows = []
    for name, found in of.items():
        share = found.docs_per_s / alone.docs_per_s
        waits = ["–"] * 3
        mark = ""
        if found.asked_per_s:
            waits = [f"{ms:,.1f}" for ms in (found.p50_ms, found.p99_ms, found.max_ms)]
            mark = f"≥ {SHARE_BAR}: {reached(share >= SHARE_BAR)}"
        rows.append(
            [
                name, f"{found.asked_per_s:,.0f}", f"{found.refused:,.0f}", *waits,
                f"{found.docs_per_s:,.0f}", f"{share:.2f}", mark, f"{found.cpu_us:,.1f}",
            ]
        )  # fmt: skip
    head = (
        "questions", "answered/s", "refused", "p50, ms", "p99, ms", "longest, ms", "documents/s",
        "× without questions", "", "worker's processor time per document, µs",
    )  # fmt: skip
    return table(head, rows)


def main() -> None:
    parser = options(__doc__ or "", "a smaller backlog, one round")
    parser.add_argument("--text", type=int, help="text documents in the backlog")
    parser.add_argument("--rounds", type=int, help="trials of each load; the median counts")
    given = parser.parse_args()
    count, rounds = QUICK if given.quick else FULL
    rounds = given.rounds or rounds
    where = machine()
    folder = Path(tempfile.mkdtemp(prefix="neardup-bench-"))
    trials: dict[str, list[Trial]] = {name: [] for name in LOADS}
    with ExitStack() as stack:
        bench = AskBench(cluster(stack), folder, rounds, None)
        bench.prepare(given.text or count, folder)
        for _ in range(rounds):
            for name, found in trials.items():
                found.append(bench.trial(LOADS[name]))
                print(f"{name} | {found[-1]}", flush=True)
    figures = {name: [trial._asdict() for trial in found] for name, found in trials.items()}
    finish(given, "ask", {"machine": where, "trials": figures}, tables(medians(figures)))


if __name__ == "__main__":
    main()
