"""/status and the line of each minute: what the metrics say, in numbers of the last minute."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from worker.shell.runtime import logging, metrics
from worker.shell.runtime.health import SAMPLE_S, SAMPLES, HealthServer, Readiness, Status


class _Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(logging_as_before: None) -> Iterator[_Clock]:
    """A clock of our own; two partitions with 7 and 3 documents to do."""
    metrics.SOURCE_LAG.lags = lambda: {4: metrics.Lag(7, 2.5), 2: metrics.Lag(3, 1.0)}
    yield _Clock()
    metrics.SOURCE_LAG.lags = dict


def _answered(new: int, duplicate: int, dead: int) -> None:
    for outcome, count in (("new", new), ("duplicate", duplicate), ("dead-letter", dead)):
        metrics.ANSWERS.labels(outcome).inc(count)


def test_a_line_a_minute_tells_rates_lag_index_duplicates_and_dead_letters(clock: _Clock) -> None:
    """Twelve samples make a minute; the line counts what came in it."""
    status = Status(clock)
    metrics.DOCUMENTS_INDEXED.set(500)
    with capture_logs() as lines:
        for _ in range(2 * SAMPLES):
            clock.now_s += SAMPLE_S
            _answered(10, 5, 1)
            status.tick()
    first, second = lines
    assert (first["event"], first["documents_per_s"]) == ("last minute", 16 / SAMPLE_S)
    assert (second["new"], second["duplicate"], second["dead_letter"]) == (120, 60, 12)
    assert (second["lag"], second["lag_s"], second["originals"]) == (10, 2.5, 500)


def test_stage_times_are_means_of_the_last_minute(clock: _Clock) -> None:
    """Of batches; a stage that had none has no time."""
    metrics.STAGE_S.labels("append").observe(9)
    status = Status(clock)
    metrics.STAGE_S.labels("append").observe(0.010)
    metrics.STAGE_S.labels("append").observe(0.030)
    assert status.to_dict()["stages_ms"]["append"] == 20.0
    assert status.to_dict()["stages_ms"]["publish"] is None


def test_status_is_served_as_json(clock: _Clock) -> None:
    """With what is missing until the worker is ready, and the last error of its log, but no traceback."""
    logging.configure("info", "json")
    structlog.get_logger("test").error("topic is not as it should be", remedy="create it", exc_info=RuntimeError("x"))
    readiness = Readiness()
    readiness.needs("log replayed", lambda: False)
    with (
        HealthServer("127.0.0.1", port := _free_port(), readiness, Status(clock).to_dict),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as answer,
    ):
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        found = json.load(answer)
    assert (found["ready"], found["missing"]) == (False, ["log replayed"])
    assert found["partitions"] == {"2": 3, "4": 7}
    assert (found["last_error"]["event"], found["last_error"]["remedy"]) == (
        "topic is not as it should be",
        "create it",
    )
    assert "exc_info" not in found["last_error"] and "exception" not in found["last_error"]
    assert set(found["log"]) == {"offset", "lag"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
