"""Compiled kernels: their code is made once, whoever asks; a cache that cannot be written costs only time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.core import compiled

MODULE = """
import sys
from worker.core.compiled import kernel

@kernel
def total(numbers):
    found = 0.0
    for number in numbers:
        found += number ** 0.5
    return found

import numpy as np
sys.stdin.readline()  # all begin together
assert total(np.arange(4.0)) > 4
print(sum(total.stats.cache_misses.values()), sum(total.stats.cache_hits.values()))
"""


def started(script: Path, cache: Path) -> subprocess.Popen[str]:
    """A process that compiles, or loads, one kernel once it is told to."""
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(compiled.__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    """One compiles, the others wait and load its code."""
    script = tmp_path / "script.py"
    script.write_text(MODULE)
    processes = [started(script, tmp_path / "cache") for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    counted = sorted(tuple(map(int, process.communicate(timeout=120)[0].split())) for process in processes)
    assert [process.returncode for process in processes] == [0] * 4
    assert counted == [(0, 1), (0, 1), (0, 1), (1, 0)]


@pytest.mark.timeout(30)
def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that does not let go costs the time limit, no more."""
    monkeypatch.setattr(compiled, "TURN_S_MAX", 0.2)
    path = tmp_path / "lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        turn = compiled._Turn(path)
        turn.take()
        turn.give()


def test_a_lock_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    """A read-only installation goes on without."""
    turn = compiled._Turn(tmp_path / "no" / "folder" / "lock")
    turn.take()
    turn.give()
