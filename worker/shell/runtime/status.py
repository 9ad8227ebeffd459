"""What a worker has done in the last minute: one line of its log a minute, and /status at any time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import structlog
from prometheus_client.registry import Collector

from worker.shell.runtime import logging, metrics

SAMPLE_S = 5.0
SAMPLES = 12  # make a minute

_log = structlog.get_logger(__name__)


class _Sample(NamedTuple):
    at_s: float
    outcomes: dict[str, int]
    stages: dict[str, tuple[float, float]]  # seconds and batches
    latency: tuple[float, float]  # the same of documents, from their time stamps to the commit


class Status:
    """
    Samples the metrics every 5 s in a thread of its own, from `with` to its end.

    >>> Status(clock=lambda: 0.0).to_dict()["last_minute"]["documents_per_s"]
    0.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples = deque([self._sample()], SAMPLES + 1)
        self._ticks = 0
        self._ended = threading.Event()

    def tick(self) -> None:
        """Take a sample; every twelfth writes the line."""
        self._samples.append(self._sample())
        self._ticks += 1
        if self._ticks % SAMPLES == 0:
            status = self.to_dict()
            _log.info(
                "last minute",
                **status["last_minute"],
                lag=sum(status["partitions"].values()),
                lag_s=status["lag_s"],
                log_lag=status["log"]["lag"],
                originals=status["originals"],
            )

    def to_dict(self) -> dict[str, Any]:
        """Return what /status shows. The lag of each owned partition is asked of the broker."""
        first, now, lags = self._samples[0], self._sample(), sorted(metrics.source_lags().items())
        seconds = now.at_s - first.at_s
        done = {name: count - first.outcomes[name] for name, count in now.outcomes.items()}
        return {
            **_samples_of(metrics.BUILD)[0].labels,
            "partitions": {str(number): lag.documents for number, lag in lags},
            "lag_s": round(max((lag.seconds for _, lag in lags), default=0.0), 1),
            "log": {"offset": _value(metrics.LOG_OFFSET), "lag": _value(metrics.LOG_LAG)},
            "originals": _value(metrics.DOCUMENTS_INDEXED),
            "answered": now.outcomes,
            "last_minute": {
                "documents_per_s": round(sum(done.values()) / seconds, 1) if seconds > 0 else 0.0,
                **{name.replace("-", "_"): count for name, count in done.items()},
                "latency_ms": _mean_ms(first.latency, now.latency),
            },
            "stages_ms": {name: _mean_ms(first.stages[name], spent) for name, spent in now.stages.items()},
            "snapshot_at": _value(metrics.SNAPSHOT_TIME) or None,
            "last_error": logging.last_problem(),
        }

    def _sample(self) -> _Sample:
        outcomes = {one.labels["outcome"]: int(one.value) for one in _samples_of(metrics.ANSWERS)}
        stages = {name: _spent(metrics.STAGE_S, stage=name) for name in metrics.STAGES}
        return _Sample(self._clock(), outcomes, stages, _spent(metrics.LATENCY_S))

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            try:
                self.tick()
            except Exception as error:  # a broker that does not answer now must not end the lines for good
                _log.warning("the last minute cannot be told", error=str(error))

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="status", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()


def _samples_of(metric: Collector) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples]


def _value(gauge: Collector) -> int:
    return int(_samples_of(gauge)[0].value)


def _spent(histogram: Collector, **labels: str) -> tuple[float, float]:
    """Return the seconds and the number that a histogram has seen."""
    seen = [one for one in _samples_of(histogram) if labels.items() <= one.labels.items()]
    found = {one.name.rpartition("_")[2]: one.value for one in seen}
    return found["sum"], found["count"]


def _mean_ms(before: tuple[float, float], now: tuple[float, float]) -> float | None:
    """Return the mean of what came between two samples; None when nothing did."""
    count = now[1] - before[1]
    return round((now[0] - before[0]) / count * 1_000, 1) if count else None
