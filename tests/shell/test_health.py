"""Probes and metrics over HTTP, by real requests."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from worker.errors import StopError
from worker.shell import metrics
from worker.shell.health import HealthServer, Readiness


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def port(readiness: Readiness) -> Iterator[int]:
    """The port of a server that runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    with HealthServer("127.0.0.1", number, readiness):
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
    """What is counted and what is asked at the scrape both come; a name is in the text under its own name."""
    metrics.ANSWERS.labels("new").inc(0)
    metrics.watch_source(lambda: {4: 7, 2: 0})
    try:
        status, text = _get(port, "/metrics")
    finally:
        metrics.watch_source(dict)
    assert status == 200
    found = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert "neardup_answers_total" in found
    lags = [line for line in text.splitlines() if line.startswith(f"{metrics.SOURCE_LAG}{{")]
    assert lags == ['neardup_source_lag{partition="2"} 0.0', 'neardup_source_lag{partition="4"} 7.0']


def test_a_taken_port_is_said_with_its_remedy(port: int, readiness: Readiness) -> None:
    """The address and the flags stand in the error."""
    with pytest.raises(StopError, match=rf"127\.0\.0\.1:{port} .*--metrics-port"):
        HealthServer("127.0.0.1", port, readiness)


def test_port_0_serves_nothing(readiness: Readiness) -> None:
    """It is the default: no port is opened that nobody asked for."""
    HealthServer("127.0.0.1", 0, readiness).close()
