"""What a first start says while it compiles kernels."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from worker.core import compiled
from worker.settings import Settings
from worker.shell.runtime import kernels

MISSING = ("has_special", "longest_bucket")  # two that compile quickly
PAGES = "extract_batch"  # takes as long to compile as all the rest, and texts do not need it
COUNTED = re.compile(r"compiling kernel (\d+) of (\d+), once: (\w+)")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Processes for which the code of all kernels is kept, except that of MISSING and of PAGES."""
    kernels.ready(Settings(), with_pages=False)
    folder = tmp_path / "cache" / "neardup"
    folder.mkdir(parents=True, mode=0o755)
    ours = [found for found in compiled._kernels if found.py_func.__module__.startswith("worker.")]
    for kernel in ours:  # other tests of this process make kernels that no file is kept of
        for path in kernel._cache._files():
            if kernel.__name__ not in (*MISSING, PAGES):
                shutil.copy(path, folder)
    (tmp_path / "texts.jsonl").write_text('{"text": "The river is open to all ships."}\n')
    return {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TERM": "xterm"}


def command(tmp_path: Path) -> list[str]:
    """Judge one text."""
    files = [str(tmp_path / "texts.jsonl"), "--output", str(tmp_path / "verdicts.jsonl")]
    return [sys.executable, "-m", "worker", "dedup", *files]


def test_a_terminal_counts_the_kernels_that_are_compiled(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """
    Each that is missing, in one line that is gone at the end. The next start has nothing to say.
    """
    said = on_terminal(command(tmp_path), environment)
    counted = COUNTED.findall(said)
    assert [(number, total) for number, total, _ in counted] == [("1", "2"), ("2", "2")]
    assert {name for _, _, name in counted} == set(MISSING)
    assert "\r\x1b[K" in said[said.rindex(counted[-1][2]) :]
    assert "compiling" not in on_terminal(command(tmp_path), environment)


def test_without_a_terminal_one_line_says_how_many_are_compiled(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """The log has it, so a pipe or a library's user sees it once."""
    done = subprocess.run(
        command(tmp_path),
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        done.stderr.count("compiling 2 kernels, once: 20 s on two idle cores. `neardup warm-up`")
        == 1
    )
    assert done.stderr.count("compil") == 1


def on_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """Run a command with a terminal as its stderr; return what it wrote there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        arguments, env=environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=theirs
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                read = os.read(ours, 4_096)
            except OSError:  # the terminal is closed at its other end
                break
            if not read:
                break
            said += read
    os.close(ours)
    assert process.returncode == 0, said
    return said.decode()
