"""
What a worker knows about its last minute, and a watchdog that ends a process that hangs.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from prometheus_client.registry import Collector

from worker.shell.runtime import logging, metrics
from worker.shell.runtime.logging import get_logger

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h

_log = get_logger(__name__)


# A worker's last minute: one line per minute in its log, and /status at any time.

SAMPLE_S = 5.0
SAMPLES = 12  # make a minute

# The time, and the values of the metrics by name and labels.
_Sample = tuple[float, dict[tuple[str, ...], float]]


class Status:
    """
    Samples the metrics every 5 s on its own thread. Use it as a context manager.

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
        """Return the JSON of /status. The broker is asked for the lag of each owned partition."""
        (first_s, first), (now_s, now) = self._samples[0], self._sample()
        lags = sorted(metrics.SOURCE_LAG.lags().items())
        answered = {name: int(now["neardup_answers_total", name]) for name in metrics.OUTCOMES}
        done = {
            name: count - int(first["neardup_answers_total", name])
            for name, count in answered.items()
        }

        def mean_ms(name: str, *labels: str) -> float | None:
            spent, count = (
                now[f"{name}_{part}", *labels] - first[f"{name}_{part}", *labels]
                for part in ("sum", "count")
            )
            return round(spent / count * 1_000, 1) if count else None

        return {
            **_samples_of(metrics.BUILD)[0].labels,
            "partitions": {str(number): lag.documents for number, lag in lags},
            "lag_s": round(max((lag.seconds for _, lag in lags), default=0.0), 1),
            "log": {"offset": _value(metrics.LOG_OFFSET), "lag": _value(metrics.LOG_LAG)},
            "originals": _value(metrics.DOCUMENTS_INDEXED),
            "answered": answered,
            "last_minute": {
                "documents_per_s": round(sum(done.values()) / (now_s - first_s), 1)
                if now_s > first_s
                else 0.0,
                **{name.replace("-", "_"): count for name, count in done.items()},
                "latency_ms": mean_ms("neardup_latency_seconds"),
            },
            "stages_ms": {name: mean_ms("neardup_stage_seconds", name) for name in metrics.STAGES},
            "snapshot_at": _value(metrics.SNAPSHOT_TIME) or None,
            "last_error": logging.last_problem(),
        }

    def _sample(self) -> _Sample:
        found = [
            one
            for metric in (metrics.ANSWERS, metrics.STAGE_S, metrics.LATENCY_S)
            for one in _samples_of(metric)
        ]
        return self._clock(), {(one.name, *one.labels.values()): one.value for one in found}

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            try:
                self.tick()
            except (
                Exception
            ) as error:  # a broker that does not answer now must not end these lines for good
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


# Some client calls can hang for good after a broker restart. No other thread can interrupt them,
# and a worker that hangs holds its partitions: ending the process, which the supervisor restarts,
# is the only remedy that always works.


def _end(doing: str, limit_s: float) -> None:
    _log.error(
        "a call outlived its limit, ending the process",
        call=doing,
        limit_s=limit_s,
        exit_code=EXIT_CODE,
    )
    os._exit(EXIT_CODE)


class Watchdog:
    """
    A thread that looks at the running calls four times a second.

    `on_hang` gets each call that has outlived its limit.
    """

    def __init__(self, on_hang: Callable[[str, float], None] = _end) -> None:
        self._on_hang = on_hang
        self._running: dict[object, tuple[str, float, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def limit(self, doing: str, limit_s: float) -> Iterator[None]:
        """
        Run the block. If it takes longer than `limit_s`, the process ends, and the log names
        `doing`.
        """
        token = object()
        self._running[token] = (doing, limit_s, time.monotonic() + limit_s)
        try:
            yield
        finally:
            del self._running[token]

    def _watch(self) -> None:
        while not self._stopped.wait(0.25):
            now = time.monotonic()
            for doing, limit_s, deadline in list(self._running.values()):
                if now > deadline:
                    self._on_hang(doing, limit_s)

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
