"""
Status and metrics of the process; what watches it, and what makes it fail.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import threading
import time

import pytest
from structlog.testing import capture_logs

from tests.conftest import REPOSITORY
from worker.core.document import Outcome
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.pipeline import service
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import VARIABLE, Point, from_environment, warn
from worker.shell.runtime.health import (
    EXIT_CODE,
    SAMPLE_S,
    SAMPLES,
    Status,
    Watchdog,
)
from worker.shell.runtime.metrics import Lag


def test_counters_with_labels_stand_at_0_before_their_first_event() -> None:
    """
    Every outcome, and every class of dead letter that the code can make: a rate would miss the
    first event.
    """
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "worker").rglob("*.py")]
    decoding = (REPOSITORY / "worker" / "shell" / "messages" / "documents.py").read_text(
        encoding="utf-8"
    )
    made = {
        code for text in sources for code in re.findall(r'DocumentError\(\s*"([a-z0-9-]+)"', text)
    }
    made |= set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', decoding)) - {"utf-8"}
    made -= {"invalid-dead-letter", "invalid-verdict"}  # what readers of answers raise
    shown = {sample.labels["code"] for sample in next(iter(metrics.DEAD_LETTERS.collect())).samples}
    assert len(made) > 15 and made <= shown
    outcomes = {
        sample.labels["outcome"] for sample in next(iter(metrics.ANSWERS.collect())).samples
    }
    assert outcomes >= {*(outcome.value for outcome in Outcome), "dead-letter"}


@pytest.fixture
def two_lags(logging_as_before: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions with 7 and 3 documents to do."""
    monkeypatch.setattr(metrics.SOURCE_LAG, "lags", lambda: {4: Lag(7, 2.5), 2: Lag(3, 1.0)})


@pytest.mark.usefixtures("two_lags")
def test_a_line_a_minute_tells_rates_lag_index_duplicates_and_dead_letters() -> None:
    """Twelve samples make a minute; the line counts what came in it."""
    now_s = 1_000.0
    status = Status(lambda: now_s)
    metrics.DOCUMENTS_INDEXED.set(500)
    with capture_logs() as lines:
        for _ in range(2 * SAMPLES):
            now_s += SAMPLE_S
            for outcome, count in (("new", 10), ("duplicate", 5), ("dead-letter", 1)):
                metrics.ANSWERS.labels(outcome).inc(count)
            status.tick()
    first, second = lines
    assert (first["event"], first["documents_per_s"]) == ("last minute", 16 / SAMPLE_S)
    assert (second["new"], second["duplicate"], second["dead_letter"]) == (120, 60, 12)
    assert (second["lag"], second["lag_s"], second["originals"]) == (10, 2.5, 500)


def test_stage_times_are_means_of_the_last_minute() -> None:
    """Of batches; a stage that had none has no time."""
    metrics.STAGE_S.labels("append").observe(9)
    status = Status(lambda: 1_000.0)
    metrics.STAGE_S.labels("append").observe(0.010)
    metrics.STAGE_S.labels("append").observe(0.030)
    assert status.to_dict()["stages_ms"]["append"] == 20.0
    assert status.to_dict()["stages_ms"]["publish"] is None


def test_a_call_that_outlives_its_limit_is_reported_by_name_while_it_hangs() -> None:
    """
    Neither a return nor an exception leaves anything to watch, although the limits pass meanwhile.
    """
    seen: list[tuple[str, float]] = []
    called = threading.Event()

    def hung(doing: str, limit_s: float) -> None:
        seen.append((doing, limit_s))
        called.set()

    with Watchdog(hung) as watchdog, watchdog.limit("hanging", 1.0):
        with watchdog.limit("quick", 1.0):
            pass
        with pytest.raises(KeyError), watchdog.limit("failing", 1.0):
            raise KeyError
        assert called.wait(60)
    assert set(seen) == {("hanging", 1.0)}


def test_the_process_ends_while_the_call_hangs() -> None:
    """Nothing in Python can interrupt a call into the client library: the whole process goes."""
    hangs = "with Watchdog().limit('x', 0.2): time.sleep(60)"
    script = f"import time\nfrom worker.shell.runtime.health import Watchdog\n{hangs}\n"
    done = subprocess.run(
        [sys.executable, "-c", script], timeout=120, capture_output=True, check=False
    )
    assert done.returncode == EXIT_CODE


@pytest.mark.parametrize(("action", "expected"), [("sleep", [0.03]), ("slow", [0.03, 0.03])])
def test_a_slow_point_is_slow_from_its_hit_on(
    monkeypatch: pytest.MonkeyPatch, action: str, expected: list[float]
) -> None:
    """A sleep comes once; slowness stays. Other points are as fast as ever."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setenv(VARIABLE, f"snapshot:{action}-30-ms:2")
    reach = from_environment()
    for _ in range(3):
        reach(Point.READ)
        reach(Point.SNAPSHOT)
    assert slept == expected


@pytest.mark.parametrize(
    "fault", ["nowhere:kill:1", "after-append:explode:1", "after-append:kill", "a:b:c:d"]
)
def test_a_fault_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """
    A test that injects nothing would pass for the wrong reason. A worker is refused at its start,
    before it asks a broker for anything.
    """
    monkeypatch.setenv(VARIABLE, fault)
    with pytest.raises(StopError, match=r"point:action:hit .* Outside of tests, unset it"):
        service.run(Settings(bootstrap="127.0.0.1:1"), threading.Event())


def test_a_worker_that_fails_on_purpose_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that was left behind would else kill it again and again without a trace."""
    with capture_logs() as logs:
        warn()
        assert logs == []
        monkeypatch.setenv(VARIABLE, "after-append:kill:3")
        warn()
    (line,) = logs
    assert line == {
        "event": "this worker fails on purpose",
        "fault": "after-append:kill:3",
        "remedy": "unset NEARDUP_FAULT",
        "log_level": "warning",
    }


FREED = """
import ctypes
import psutil
from worker.shell.runtime.memory import give_back

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
blocks = [library.malloc(100_000) for _ in range(1_000)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    library.free(block)
held = psutil.Process().memory_info().rss
give_back()
print(held - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a function of glibc")
def test_free_memory_below_a_block_in_use_is_given_back() -> None:
    """The allocator keeps it otherwise: a block in use lies behind it."""
    told = subprocess.run(
        [sys.executable, "-c", FREED], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert int(told.stdout) > 90_000_000
