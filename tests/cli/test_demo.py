"""`neardup demo`: the main job from end to end, and nothing left behind, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import EVENTUALLY_S, REPOSITORY, eventually, plain_environment
from worker.devkit.broker import Runtime

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("broker_runtime")]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the demo on a broker of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "worker", "demo", "--documents", "300", "--keep", str(folder), *arguments],
        cwd=REPOSITORY,
        env={
            **plain_environment(),
            "PATH": os.defpath,
            "COLUMNS": "200",
            "PYTHONIOENCODING": "ascii",
        },  # must not end it
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Every process that the demo has started, and that those have started."""
    found: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    return found


def in_the_midst(process: subprocess.Popen[str], folder: Path) -> list[psutil.Process]:
    """Wait until broker and worker have been started and are at it. Return all processes."""
    log = folder / "worker-1.log"
    eventually(lambda: log.exists() and b"partitions assigned" in log.read_bytes())
    assert process.poll() is None and len(descendants(process)) >= 2  # broker and worker
    return descendants(process)


def number(name: str, summary: str) -> int:
    """A figure of the summary."""
    found = re.search(rf"^{name} +([\d,]+)", summary, re.MULTILINE)
    assert found is not None, summary
    return int(found[1].replace(",", ""))


def test_the_demo_answers_every_document_once(tmp_path: Path, broker_runtime: Runtime) -> None:
    """Exit code 0, nothing unanswered or repeated, no false pair or merged template, duplicates across workers."""
    process = start(tmp_path / "demo", "--rate", "0")
    summary, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 0, summary
    assert number("unanswered", summary) == number("answered twice", summary) == 0
    answered = sum(number(name, summary) for name in ("new", "exact duplicates", "near duplicates", "skipped"))
    assert answered + number("dead letters", summary) == number("documents", summary) > 250
    assert number("duplicates found across workers", summary) > 0
    found, missed, false = map(int, re.findall(r"(\d+) (?:found|missed|false)", summary.replace(",", ""))[-3:])
    assert false == 0
    assert found > missed
    merged = dict(re.findall(r"(\w+) (\d+) of \d+", summary[summary.index("pages of a template merged") :]))
    assert {kind for kind, count in merged.items() if count != "0"} <= {"legal"}  # legal notices are borderline
    assert len(merged) == 6
    assert re.search(r"^(new|duplicate) .*http", summary, re.MULTILINE)  # the last rows stay
    assert len(re.findall(r"bits? of 64 differ", summary)) == 3
    crawl = tmp_path / "demo" / "crawl.warc.gz"
    assert summary.rstrip().splitlines()[-5:-1] == [
        "Next",
        f"  . {os.path.relpath(sys.prefix, REPOSITORY)}/bin/activate",  # `make demo` leaves a shell without `neardup`
        f"  neardup dedup {crawl} --output verdicts.jsonl",
        f"  neardup report verdicts.jsonl --documents {crawl}",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in the midst of it, or SIGKILL, which runs no clean-up: broker and workers notice that they are alone."""
    process = start(tmp_path / "demo", "--rate", "5", "--workers", "1")
    started = in_the_midst(process, tmp_path / "demo")
    process.send_signal(number)
    output, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == (130 if number == signal.SIGINT else -number), output
    _, alive = psutil.wait_procs(started, timeout=EVENTUALLY_S)
    assert alive == []
