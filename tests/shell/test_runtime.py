"""
Probes, metrics and status over HTTP by real requests; what watches the process, and what makes it
fail.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from tests.conftest import REPOSITORY, free_ports
from worker.core.document import Outcome
from worker.errors import StopError
from worker.shell.runtime import health, logging, metrics
from worker.shell.runtime.fault_hooks import Point, from_setting
from worker.shell.runtime.health import (
    EXIT_CODE,
    SAMPLE_S,
    SAMPLES,
    Conditions,
    HealthServer,
    Status,
    Watchdog,
)
from worker.shell.runtime.metrics import Lag


@pytest.fixture
def conditions() -> dict[str, Callable[[], bool]]:
    """Of a worker that serves."""
    return {}


@pytest.fixture
def port(conditions: Conditions) -> Iterator[int]:
    """The port of a server that runs."""
    [number] = free_ports()
    with HealthServer("127.0.0.1", number, conditions, registry=metrics.of_group("night")):
        yield number


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_ready_when_every_condition_holds(
    port: int, conditions: dict[str, Callable[[], bool]]
) -> None:
    """
    /healthz says so from the first moment; /readyz names what is missing, and asks again each time.
    """
    assert (_get(port, "/healthz"), _get(port, "/")[0]) == ((200, "alive\n"), 404)
    member = False
    conditions |= {"log replayed": lambda: False, "member of the group": lambda: member}
    assert _get(port, "/readyz") == (503, "not ready: log replayed, member of the group\n")
    conditions["log replayed"] = lambda: True
    assert _get(port, "/readyz") == (503, "not ready: member of the group\n")
    member = True
    assert _get(port, "/readyz") == (200, "ready\n")


def test_metrics_are_in_prometheus_own_format(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted and what is asked at the scrape both come, each with the worker's group."""
    monkeypatch.setattr(metrics.SOURCE_LAG, "lags", lambda: {4: Lag(7, 1.5), 2: Lag(0)})
    status, text = _get(port, "/metrics")
    assert status == 200
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert "neardup_log_offset" in {sample.name for sample in found}
    assert {sample.labels["group"] for sample in found} == {"night"}
    lags = {
        (one.name, one.labels["partition"]): one.value for one in found if "_source_lag" in one.name
    }
    assert lags == {
        ("neardup_source_lag", "2"): 0, ("neardup_source_lag", "4"): 7,
        ("neardup_source_lag_seconds", "2"): 0, ("neardup_source_lag_seconds", "4"): 1.5,
    }  # fmt: skip


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


def test_a_taken_port_is_said_with_its_remedy(port: int) -> None:
    """The address and the flags stand in the error."""
    with pytest.raises(StopError, match=rf"127\.0\.0\.1:{port} .*--metrics-port"):
        HealthServer("127.0.0.1", port, {})


def test_port_0_serves_nothing() -> None:
    """It is the default: no port is opened that nobody asked for."""
    before = _listening()
    with HealthServer("127.0.0.1", 0, {}):
        assert _listening() == before


def _listening() -> list[Any]:
    """What this process listens on."""
    connections = psutil.Process().net_connections("tcp")
    return [
        connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN
    ]


def test_silent_connections_hold_up_no_probe(port: int) -> None:
    """Of more than the server keeps the oldest end at once, and a probe among them is answered."""
    silent = [
        socket.create_connection(("127.0.0.1", port), 60)
        for _ in range(health.CONNECTIONS_MAX + 10)
    ]
    assert _get(port, "/healthz") == (200, "alive\n")
    assert [connection.recv(1) for connection in silent[:10]] == [b""] * 10
    for connection in silent:
        connection.close()


def test_a_request_that_takes_too_long_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that sends a byte now and then; and nothing is left of it."""
    monkeypatch.setattr(health, "REQUEST_S_MAX", 0.5)
    threads = threading.active_count()
    with socket.create_connection(("127.0.0.1", port), 60) as slow, pytest.raises(OSError):
        begun = time.monotonic()
        while time.monotonic() < begun + 60:
            slow.sendall(b"G")
            time.sleep(0.05)
    while threading.active_count() > threads:
        assert time.monotonic() < begun + 60
        time.sleep(0.01)


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


@pytest.mark.usefixtures("two_lags")
def test_status_is_served_as_json() -> None:
    """
    With what is missing until the worker is ready, and the last error of its log, but no traceback.
    """
    logging.configure("info", "json")
    structlog.get_logger("test").error(
        "topic is not as it should be", remedy="create it", exc_info=RuntimeError("x")
    )
    conditions = {"log replayed": lambda: False}
    with (
        HealthServer(
            "127.0.0.1", port := free_ports()[0], conditions, Status(time.monotonic).to_dict
        ),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as answer,
    ):
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        found = json.load(answer)
    assert (found["ready"], found["missing"]) == (False, ["log replayed"])
    assert found["partitions"] == {"2": 3, "4": 7}
    last = found["last_error"]
    assert (last["event"], last["remedy"]) == ("topic is not as it should be", "create it")
    assert "exc_info" not in last and "exception" not in last
    assert set(found["log"]) == {"offset", "lag"}


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
    reach = from_setting(f"snapshot:{action}-30-ms:2")
    for _ in range(3):
        reach(Point.READ)
        reach(Point.SNAPSHOT)
    assert slept == expected


@pytest.mark.parametrize(
    "setting", ["nowhere:kill:1", "after-append:explode:1", "after-append:kill", "a:b:c:d"]
)
def test_a_fault_that_does_not_exist_is_refused(setting: str) -> None:
    """A test that injects nothing would pass for the wrong reason."""
    with pytest.raises(ValueError, match="point:action:hit"):
        from_setting(setting)
