"""What of the demo needs no broker: whose code its workers run, what is kept when it fails, when its feeding fails."""

from __future__ import annotations

import itertools
import re
import signal
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run
from worker.__main__ import main
from worker.cli import options
from worker.devkit import demo
from worker.devkit.demo import Demo, workers_running
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.crawl import CrawlFiles

NOBODY = Settings(bootstrap="127.0.0.1:1", transaction_timeout_ms=1_000, call_timeout_s=1.5)


def test_workers_do_not_run_code_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker.py or a library's namesake there stays what it is: a file."""
    folder, marker = tmp_path / "stranger", tmp_path / "marker"
    folder.mkdir()
    for name in ("worker", "schemas", "typer", "json"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(folder)
    with workers_running(NOBODY, ["one"], tmp_path) as running:
        assert running["one"].wait(240) == 1
    assert not marker.exists()
    assert "no answer from 127.0.0.1:1" in (tmp_path / "one.log").read_text()


def test_what_a_failed_demo_has_left_is_kept_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that sends its reader to a log needs the log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY.bootstrap)
    monkeypatch.setattr(options, "WAIT_S", 0.25)
    result = run("demo", "--documents", "10", code=1)
    assert isinstance(result.exception, StopError)
    (folder,) = tmp_path.iterdir()
    assert f"kept in {folder}" in result.stderr and (folder / "crawl.warc.gz").exists()


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a failure whose cause is looked for."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("worker.devkit.sample.crawl.write_sample_crawl", _interrupted)
    run("demo", "--documents", "10", code=130)
    assert list(tmp_path.iterdir()) == []


def _interrupted(archive: Path, *_: int) -> None:
    archive.write_bytes(b"half")
    raise KeyboardInterrupt


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
    monkeypatch.setattr("worker.devkit.sample.crawl.write_sample_crawl", interrupted)
    monkeypatch.setattr("worker.__main__._interrupts", [])
    monkeypatch.setattr(sys, "argv", ["neardup", "demo", "--documents", "10"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err.splitlines()[-1]) == (130, "neardup: interrupted")


class _Outcome:
    failures, failed = 2, ["too large", "too late"]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [(_Outcome(), "2 documents could not be fed: too large; too late"), (ValueError("odd"), "ValueError('odd')")],
)
def test_the_demo_ends_when_its_feeding_fails(monkeypatch: pytest.MonkeyPatch, outcome: Any, text: str) -> None:
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
