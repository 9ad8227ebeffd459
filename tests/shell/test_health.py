"""Probes and metrics over HTTP, by real requests."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import REPOSITORY
from worker.core.verdict import Outcome
from worker.errors import StopError
from worker.shell.runtime import health, metrics
from worker.shell.runtime.health import HealthServer, Readiness
from worker.shell.runtime.metrics import Lag


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def port(readiness: Readiness) -> Iterator[int]:
    """The port of a server that runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    with HealthServer("127.0.0.1", number, readiness, registry=metrics.of_group("night")):
        yield number


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_worker_that_serves_is_alive(port: int) -> None:
    """/healthz says so from the first moment; other paths than the three do not exist."""
    assert _get(port, "/healthz") == (200, "alive\n")
    assert _get(port, "/")[0] == 404


def test_ready_when_every_condition_holds(port: int, readiness: Readiness) -> None:
    """/readyz names what is missing, and asks again each time."""
    member = False
    readiness.needs("log replayed", lambda: False)
    readiness.needs("member of the group", lambda: member)
    assert _get(port, "/readyz") == (503, "not ready: log replayed, member of the group\n")
    readiness.needs("log replayed", lambda: True)
    assert _get(port, "/readyz") == (503, "not ready: member of the group\n")
    member = True
    assert _get(port, "/readyz") == (200, "ready\n")


def test_metrics_are_in_prometheus_own_format(port: int) -> None:
    """What is counted and what is asked at the scrape both come, each with the worker's group."""
    metrics.SOURCE_LAG.lags = lambda: {4: Lag(7, 1.5), 2: Lag(0)}
    try:
        status, text = _get(port, "/metrics")
    finally:
        metrics.SOURCE_LAG.lags = dict
    assert status == 200
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert "neardup_log_offset" in {sample.name for sample in found}
    assert {sample.labels["group"] for sample in found} == {"night"}
    lags = {(one.name, one.labels["partition"]): one.value for one in found if "_source_lag" in one.name}
    assert lags == {
        ("neardup_source_lag", "2"): 0, ("neardup_source_lag", "4"): 7,
        ("neardup_source_lag_seconds", "2"): 0, ("neardup_source_lag_seconds", "4"): 1.5,
    }  # fmt: skip


def test_counters_with_labels_stand_at_0_before_their_first_event() -> None:
    """Every outcome, and every class of dead letter that the code can make: a rate would miss the first event."""
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "worker").rglob("*.py")]
    decoding = (REPOSITORY / "worker" / "shell" / "messages" / "documents.py").read_text(encoding="utf-8")
    made = {code for text in sources for code in re.findall(r'DocumentError\(\s*"([a-z0-9-]+)"', text)}
    made |= set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', decoding)) - {"utf-8"}
    made -= {"invalid-dead-letter", "invalid-verdict"}  # what readers of answers raise
    shown = {sample.labels["code"] for sample in next(iter(metrics.DEAD_LETTERS.collect())).samples}
    assert len(made) > 15 and made <= shown
    outcomes = {sample.labels["outcome"] for sample in next(iter(metrics.ANSWERS.collect())).samples}
    assert outcomes >= {*(outcome.value for outcome in Outcome), "dead-letter"}


def test_a_taken_port_is_said_with_its_remedy(port: int, readiness: Readiness) -> None:
    """The address and the flags stand in the error."""
    with pytest.raises(StopError, match=rf"127\.0\.0\.1:{port} .*--metrics-port"):
        HealthServer("127.0.0.1", port, readiness)


def test_port_0_serves_nothing(readiness: Readiness) -> None:
    """It is the default: no port is opened that nobody asked for."""
    before = _listening()
    with HealthServer("127.0.0.1", 0, readiness):
        assert _listening() == before


def _listening() -> list[Any]:
    """What this process listens on."""
    connections = psutil.Process().net_connections("tcp")
    return [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]


def test_silent_connections_hold_up_no_probe(port: int) -> None:
    """Of more than the server keeps the oldest end at once, and a probe among them is answered."""
    silent = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(health.CONNECTIONS_MAX + 10)]
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
