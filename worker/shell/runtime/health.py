"""
What an orchestrator and Prometheus ask over HTTP.

/metrics   every metric of metrics.py
/healthz   200: the process serves. A call that hangs is the watchdog's: it ends the process
/readyz    200: the log is replayed and the worker is a member of the group; else 503 with what is missing
/status    what status.py knows, as JSON: partitions with their lag, rates, stage times, the last error
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import orjson
import structlog
from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from worker.errors import StopError
from worker.shell.runtime import logging, metrics

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


_POLL_S = 0.1
REQUEST_S_MAX = 10.0  # from connecting to the end of the answer
CONNECTIONS_MAX = 32


class Readiness:
    """
    Named conditions that must all hold.

    >>> readiness = Readiness()
    >>> readiness.needs("log replayed", lambda: False)
    >>> readiness.missing()
    ['log replayed']
    """

    def __init__(self) -> None:
        self._conditions: dict[str, Callable[[], bool]] = {}

    def needs(self, name: str, holds: Callable[[], bool]) -> None:
        """Add a condition, or put another in its place; any thread asks it at every request."""
        self._conditions[name] = holds

    def missing(self) -> list[str]:
        """Return the names of the conditions that do not hold."""
        return [name for name, holds in self._conditions.items() if not holds()]


class HealthServer:
    """
    Serves in threads of its own until it is closed, few at once and none for long; port 0 serves nothing.

    /readyz asks `readiness`, /status shows `status`, /metrics serves `registry`. Raises StopError: the address cannot
    be had.
    """

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Readiness,
        status: Callable[[], Mapping[str, Any]] = dict,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._readiness = readiness
        self._status = status
        self._metrics = make_wsgi_app(registry)
        self._server: WSGIServer | None = None
        if not port:
            return
        try:
            self._server = make_server(host, port, self._answer, _Server, _Handler)
        except OSError as error:
            raise StopError(
                f"metrics cannot be served on {host}:{port} ({error.strerror}): choose another --metrics-port or "
                f"--metrics-host"
            ) from error
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="health", daemon=True).start()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return self._metrics(environ, start_response)  # type: ignore[no-any-return]
        status, text, kind = "404 Not Found", "ask for /metrics, /healthz, /readyz or /status", "text/plain"
        if path == "/status":
            missing = self._readiness.missing()
            found = {"ready": not missing, "missing": missing, **self._status()}
            status, text, kind = "200 OK", orjson.dumps(found).decode(), "application/json"
        elif path == "/healthz":
            status, text = "200 OK", "alive"
        elif path == "/readyz":
            missing = self._readiness.missing()
            status = "503 Service Unavailable" if missing else "200 OK"
            text = f"not ready: {', '.join(missing)}" if missing else "ready"
        start_response(status, [("Content-Type", f"{kind}; charset=utf-8")])
        return [f"{text}\n".encode()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a request; one that takes too long is ended, and for one beyond the bound the oldest."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX  # of five, a burst's sixth would try again after a second
    _begun_s: dict[socket.socket, float]  # when each open connection was made, in their order

    def server_activate(self) -> None:
        self._begun_s = {}
        super().server_activate()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._begun_s[request] = time.monotonic()
        self.service_actions()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End what is too old or too much; the server calls it many times a second."""
        begun_s = list(self._begun_s.items())
        oldest_s = time.monotonic() - REQUEST_S_MAX
        for number, (connection, at_s) in enumerate(begun_s):
            if at_s < oldest_s or number < len(begun_s) - CONNECTIONS_MAX:
                with suppress(OSError):  # ended meanwhile
                    connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self._begun_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that has gone is no error of ours."""


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: probes come every few seconds."""


# What a worker has done in the last minute: one line of its log a minute, and /status at any time.

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
        first, now, lags = self._samples[0], self._sample(), sorted(metrics.SOURCE_LAG.lags().items())
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
