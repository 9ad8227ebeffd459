"""Other people's programs, run with a bound: a test that gives up says what it waited for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

KILLED_S = 60.0  # the kernel ends a killed process at once, unless it waits for a disk or a mount


@contextmanager
def running(what: str, *command: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """
    Run a program while the block lasts; then kill what is left of it and of its children.

    Args:
        what: the program, as the failure names it.
        options: further arguments of `subprocess.Popen`.
    """
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(KILLED_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{what} was killed, and has not ended after {KILLED_S:g} s")


def wait(process: subprocess.Popen[str], what: str, timeout_s: float) -> str:
    """Wait for the end of a program and return what it wrote, if that is a pipe."""
    try:
        return process.communicate(timeout=timeout_s)[0] or ""
    except subprocess.TimeoutExpired:
        pytest.fail(f"{what} did not end within {timeout_s:g} s", pytrace=False)


def run(what: str, timeout_s: float, *command: str | Path, **options: Any) -> str:
    """
    Run a program to its end, which must be a good one, and return what it wrote to a pipe.

    Its other output goes where the test's own goes, so a failure shows it.
    """
    with running(what, *command, **options) as process:
        said = wait(process, what, timeout_s)
    assert process.returncode == 0, f"{what} ended with {process.returncode}: {said}"
    return said
