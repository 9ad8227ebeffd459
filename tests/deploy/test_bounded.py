"""What `make test-deploy` waits for has an end, which says what it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.conftest import eventually
from tests.deploy import bounded


def test_a_program_that_does_not_end_is_named_and_killed_with_its_children(tmp_path: Path) -> None:
    """Its child, too, of which only the program knew."""
    script = "sleep 1000 & echo $! > child; wait"
    with (
        pytest.raises(pytest.fail.Exception, match=r"the sleeper did not end within 2 s"),
        bounded.running("the sleeper", "sh", "-c", script, cwd=tmp_path) as process,
    ):
        eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
        bounded.wait(process, "the sleeper", 2)
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not _runs(child), "the child has ended")


def _runs(number: int) -> bool:
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_bad_end_is_named_with_what_was_written() -> None:
    """A good one gives the text."""
    assert bounded.run("echo", 60, "echo", "done", stdout=subprocess.PIPE) == "done\n"
    with pytest.raises(AssertionError, match=r"the failure ended with 3: half"):
        bounded.run("the failure", 60, "sh", "-c", "echo half; exit 3", stdout=subprocess.PIPE)
