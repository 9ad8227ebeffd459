"""`neardup demo`: the main job from end to end, and nothing left behind, however it ends."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.cli.program import run
from tests.conftest import EVENTUALLY_S, REPOSITORY, eventually, plain_environment
from worker.__main__ import main
from worker.cli import options
from worker.devkit import demo
from worker.devkit.broker import Runtime
from worker.devkit.demo import Demo, workers_running
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.crawl import CrawlFiles


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the demo on a broker of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "worker",
            "demo",
            "--documents",
            "300",
            "--keep",
            str(folder),
            *arguments,
        ],
        cwd=REPOSITORY,
        env=plain_environment()
        | {"PATH": os.defpath, "COLUMNS": "200", "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def number(name: str, summary: str) -> int:
    """A figure of the summary."""
    found = re.search(rf"^{name} +([\d,]+)", summary, re.MULTILINE)
    assert found is not None, summary
    return int(found[1].replace(",", ""))


@pytest.mark.slow
def test_the_demo_answers_every_document_once(tmp_path: Path, broker_runtime: Runtime) -> None:
    """
    Exit code 0, nothing unanswered or repeated, no false pair or merged template, duplicates across
    workers.
    """
    process = start(tmp_path / "demo", "--rate", "0")
    summary, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 0, summary
    assert number("unanswered", summary) == number("answered twice", summary) == 0
    answered = sum(
        number(name, summary) for name in ("new", "exact duplicates", "near duplicates", "skipped")
    )
    assert answered + number("dead letters", summary) == number("documents", summary) > 250
    assert number("duplicates found across workers", summary) > 0
    found, missed, false = map(
        int, re.findall(r"(\d+) (?:found|missed|false)", summary.replace(",", ""))[-3:]
    )
    assert false == 0
    assert found > missed
    merged = dict(
        re.findall(r"(\w+) (\d+) of \d+", summary[summary.index("pages of a template merged") :])
    )
    # Legal notices are borderline.
    assert {kind for kind, count in merged.items() if count != "0"} <= {"legal"}
    assert len(merged) == 6
    assert re.search(r"^(new|duplicate) .*http", summary, re.MULTILINE)  # the last rows stay
    assert len(re.findall(r"bits? of 64 differ", summary)) == 3
    crawl = tmp_path / "demo" / "crawl.warc.gz"
    assert (
        summary.rstrip().splitlines()[-5:-1]
        == [
            "Next",
            f"  . {os.path.relpath(sys.prefix, REPOSITORY)}/bin/activate",  # `make demo` leaves a shell without `neardup`
            f"  neardup dedup {crawl} --output verdicts.jsonl",
            f"  neardup report verdicts.jsonl --documents {crawl}",
        ]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("broker_runtime")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    """
    Ctrl-C in the midst of it, or SIGKILL, which runs no clean-up: broker and workers notice that
    they are alone.
    """
    process = start(tmp_path / "demo", "--rate", "5", "--workers", "1")
    log = tmp_path / "demo" / "worker-1.log"
    eventually(lambda: log.exists() and b"partitions assigned" in log.read_bytes())
    started = psutil.Process(process.pid).children(recursive=True)
    assert process.poll() is None and len(started) >= 2  # broker and worker
    process.send_signal(number)
    output, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), output
    _, alive = psutil.wait_procs(started, timeout=EVENTUALLY_S)
    assert alive == []


NOBODY = Settings(bootstrap="127.0.0.1:1", transaction_timeout_ms=1_000, call_timeout_s=1.5)


def test_workers_do_not_run_code_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker.py or a library's namesake there stays what it is: a file."""
    folder, marker = tmp_path / "stranger", tmp_path / "marker"
    folder.mkdir()
    for name in ("worker", "schemas", "typer", "json"):
        (folder / f"{name}.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n"
        )
    monkeypatch.chdir(folder)
    with workers_running(NOBODY, ["one"], tmp_path) as running:
        assert running["one"].wait(240) == 1
    assert not marker.exists()
    assert "no answer from 127.0.0.1:1" in (tmp_path / "one.log").read_text()


def test_what_a_failed_demo_has_left_is_kept_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that sends its reader to a log needs the log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY.bootstrap)
    monkeypatch.setattr(options, "WAIT_S", 0.25)
    result = run("demo", "--documents", "10", code=1)
    assert isinstance(result.exception, StopError)
    (folder,) = tmp_path.iterdir()
    assert f"kept in {folder}" in result.stderr and (folder / "crawl.warc.gz").exists()


def test_an_interrupted_demo_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a failure whose cause is looked for."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(archive: Path, *_: int) -> None:
        archive.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.demo.write_sample_crawl", interrupted)
    run("demo", "--documents", "10", code=130)
    assert list(tmp_path.iterdir()) == []


def test_sigterm_within_a_call_of_the_kafka_client_interrupts_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ctrl-C does there, whatever error it becomes."""

    def interrupted(*_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise TypeError from None

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("worker.cli.demo.write_sample_crawl", interrupted)
    monkeypatch.setattr("worker.signals.received", [])
    monkeypatch.setattr(sys, "argv", ["neardup", "demo", "--documents", "10"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err.splitlines()[-1]) == (
        143,
        "neardup: terminated",
    )


FAILED = SimpleNamespace(failures=2, failed=["too large", "too late"])


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (FAILED, "2 documents could not be fed: too large; too late"),
        (ValueError("odd"), "ValueError('odd')"),
    ],
)
def test_the_demo_ends_when_its_feeding_fails(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, text: str
) -> None:
    """Failed deliveries and failures of any kind end the demo at once, not after its patience."""

    def feed(*_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(demo, "feed_documents", feed)
    monkeypatch.setattr(demo, "watch", lambda *_, **__: itertools.repeat(None))
    running = Demo(Settings(), CrawlFiles([]), truth=None, rate=0)  # type: ignore[arg-type]
    with pytest.raises(StopError, match=re.escape(text)):
        deque(running.run(), maxlen=0)
