"""No command destroys what is there: its input, or the output of an earlier run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.test_dedup import ARTICLE, lines, page
from tests.conftest import EVENTUALLY_S
from worker.__main__ import main
from worker.cli import app
from worker.errors import StopError


@pytest.mark.parametrize(
    "command",
    [
        ["dedup", "{same}"],
        ["fingerprint", "{same}"],
        ["find-all", "--documents", "{same}"],
        ["find-clusters", "--input", "{same}"],
        ["nearest", "{same}", "--to", "7"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_writes_over_its_input(tmp_path: Path, command: list[str]) -> None:
    """It is refused, and the input is as it was."""
    same = tmp_path / "same"
    content = "7\n8\n" if "--input" in command else lines(page(1, text=ARTICLE))
    same.write_text(content)
    arguments = [part.format(same=same) for part in command]
    result = CliRunner().invoke(app, [*arguments, "--output", str(same)])
    assert isinstance(result.exception, StopError) and "is an input and the output" in str(result.exception)
    assert same.read_text() == content and list(tmp_path.iterdir()) == [same]


def _until_written(process: subprocess.Popen[bytes], folder: Path, parts: int) -> None:
    deadline = time.monotonic() + EVENTUALLY_S
    while sum(path.stat().st_size > 0 for path in folder.glob("*.part")) < parts:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)


def test_an_interrupt_at_the_start_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second goes by before the command line has begun, and can see to it."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.app", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err) == (130, "neardup: interrupted\n")


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 130
    assert told.decode().splitlines()[-1] == "neardup: interrupted"


def test_an_interrupted_dedup_says_so_and_leaves_the_former_output(tmp_path: Path) -> None:
    """Ctrl-C in the midst of writing: exit code 130, and no half of a file."""
    target = tmp_path / "out.jsonl"
    target.write_text("the former\n")
    documents = [page(number, text=f"{ARTICLE} {number}") for number in range(50)]
    command = [sys.executable, "-m", "worker", "dedup", "-", "--output", str(target), "--batch-documents-max", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(lines(*documents).encode() * 20)  # and more would come
        process.stdin.flush()
        _until_written(process, tmp_path, 1)
        _interrupt(process)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.jsonl", "the former\n")]


def test_an_interrupted_sample_crawl_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    """Neither the archive nor its truth has its final name."""
    command = [
        sys.executable,
        "-m",
        "worker",
        "sample-crawl",
        str(tmp_path / "crawl.warc.gz"),
        "--documents",
        "1000000",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        _until_written(process, tmp_path, 2)
        _interrupt(process)
    assert list(tmp_path.iterdir()) == []
