"""The watchdog ends what hangs, and only that."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from worker.shell.runtime.watchdog import EXIT_CODE, Watchdog


def test_a_call_that_outlives_its_limit_is_reported_by_name() -> None:
    """The hook gets what was being done and its limit, while the call still hangs."""
    seen: list[tuple[str, float]] = []
    called = threading.Event()

    def hung(doing: str, limit_s: float) -> None:
        seen.append((doing, limit_s))
        called.set()

    with Watchdog(hung) as watchdog, watchdog.limit("committing", 0.1):
        assert called.wait(60)
    assert seen[0] == ("committing", 0.1)


def test_a_call_that_ends_in_time_is_forgotten() -> None:
    """Neither a return nor an exception leaves anything to watch, although the limits pass meanwhile."""
    seen: list[str] = []
    called = threading.Event()

    def hung(doing: str, _limit_s: float) -> None:
        seen.append(doing)
        called.set()

    with Watchdog(hung) as watchdog, watchdog.limit("hanging", 1.0):
        with watchdog.limit("quick", 1.0):
            pass
        with pytest.raises(KeyError), watchdog.limit("failing", 1.0):
            raise KeyError
        assert called.wait(60)
    assert set(seen) == {"hanging"}


def test_the_process_ends_while_the_call_hangs() -> None:
    """Nothing in Python can interrupt a call into the client library: the whole process goes."""
    hangs = "with Watchdog().limit('x', 0.2): time.sleep(60)"
    script = f"import time\nfrom worker.shell.runtime.watchdog import Watchdog\n{hangs}\n"
    done = subprocess.run([sys.executable, "-c", script], timeout=120, capture_output=True, check=False)
    assert done.returncode == EXIT_CODE
