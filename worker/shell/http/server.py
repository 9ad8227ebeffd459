"""
The worker's one address: metrics, readiness, status and questions over HTTP.

    /metrics  every metric of metrics.py
    /healthz  200: the process serves. A call that hangs is the watchdog's
    /readyz   200: the log is replayed and the worker is in the group; else 503 and what is missing
    /status   what `Status` knows, as JSON: lag by partition, rates, stage times, last error
    /v1/seen  questions, for which `seen.py` has the token and the slots

Each connection has a thread (`connection.py`). There are at most CONNECTIONS_MAX of them: a new one
ends the one whose last answer is oldest, except those in which a question is being answered. These
are fewer, because they have slots. So neither slow questions nor silent clients hold up a probe.

TLS, compression and chunked bodies are a proxy's.
"""

from __future__ import annotations

import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from typing import Any, Self

import orjson
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from schemas.ask import JSON, PROBLEM
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.ask.questions import RETRY_S, Questions, RefusedError, problem
from worker.shell.http.connection import Connection, Request
from worker.shell.http.seen import BUSY_RETRY_S, SeenEndpoint
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

CONNECTIONS_MAX = 64  # more than the slots of questions
_POLL_S = 0.1
_UTF8 = "; charset=utf-8"

Conditions = Mapping[str, Callable[[], bool]]  # by name; a worker is ready if all are true

_log = get_logger(__name__)


class HttpServer:
    """
    Serves in threads of its own until it is closed; `metrics_port` 0 serves nothing.

    Args:
        questions: answers /v1/seen.
        conditions: asked by /readyz and /status, in any thread and at each request.
        status: what /status shows.
        registry: what /metrics shows.
    Raises:
        StopError: the address cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        questions: Questions,
        conditions: Conditions,
        status: Callable[[], Mapping[str, Any]] = dict,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._seen = SeenEndpoint(settings, questions)
        self._conditions = conditions
        self._status = status
        self._registry = registry
        self._server: _Connections | None = None
        host = settings.metrics_host
        port = settings.metrics_port
        if not port:
            return
        try:
            self._server = _Connections(host, port, self._answer)
        except OSError as error:
            raise StopError(
                f"metrics cannot be served on {host}:{port} ({error.strerror}): choose another "
                "--metrics-port or --metrics-host"
            ) from error
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="http", daemon=True
        ).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()

    def _answer(self, connection: Connection) -> None:
        """Read a request and answer it. OSError: the client has gone."""
        try:
            request = connection.next_request()
            if request is None:
                connection.end()
                return
            path = request.url.path
            if path in _PROBES:
                connection.send(*self._probe(request, path))
            else:
                self._seen.answer(connection, request)
        except RefusedError as error:
            _refuse(connection, error)
        except OSError:
            raise
        except Exception as error:  # nothing of the text may be logged, and errors may quote it
            where = traceback.extract_tb(error.__traceback__)[-1]
            _log.error(
                "a request failed",
                error=type(error).__name__,
                at=f"{PurePath(where.filename).name}:{where.lineno}",
            )
            text = f"the worker failed: {type(error).__name__}"
            _refuse(connection, RefusedError(500, "failed", text))

    def _probe(self, request: Request, path: str) -> tuple[int, str, bytes]:
        """Return status, media type and text of the answer to a probe or a scrape."""
        if path == "/metrics":
            try:
                encode, kind = choose_encoder(request.headers.get("accept", ""))
            except (ValueError, TypeError):  # a version that is none: the plain format
                encode, kind = choose_encoder("")
            return 200, kind, encode(self._registry)
        if path == "/healthz":
            return 200, "text/plain" + _UTF8, b"alive\n"
        missing = [name for name, holds in self._conditions.items() if not holds()]
        if path == "/status":
            found = {"ready": not missing, "missing": missing, **self._status()}
            return 200, JSON + _UTF8, orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE)
        if missing:
            return 503, "text/plain" + _UTF8, f"not ready: {', '.join(missing)}\n".encode()
        return 200, "text/plain" + _UTF8, b"ready\n"


_PROBES = ("/metrics", "/healthz", "/readyz", "/status")


def _refuse(connection: Connection, error: RefusedError) -> None:
    """Answer with a problem."""
    if error.code not in ("unknown-url", "not-found"):  # the answer "new", and no question
        metrics.QUESTIONS.labels("refused").inc()
    headers = {
        401: {"WWW-Authenticate": "Bearer"},
        405: {"Allow": "GET, POST"},
        429: {"Retry-After": str(BUSY_RETRY_S)},
        503: {"Retry-After": str(RETRY_S)},
    }.get(error.status)
    details = problem(error.status, error.code, error.text, error.behind)
    connection.send(error.status, PROBLEM, orjson.dumps(details), headers)


class _Connections(ThreadingMixIn, TCPServer):
    """Accepts connections, and ends the oldest one if there are too many."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, host: str, port: int, answer: Callable[[Connection], None]) -> None:
        self._answer = answer
        self._guard = threading.Lock()
        # Open connections in the order of their last answer.
        self._open: dict[Any, Connection] = {}
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), BaseRequestHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            if len(self._open) >= CONNECTIONS_MAX:
                oldest = next((key for key, one in self._open.items() if not one.holds_slot), None)
                if oldest is not None:
                    self._open.pop(oldest).end()
            self._open[request] = Connection(request)
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Answer a client's requests, in its thread, until it ends or one of them ends it."""
        connection = self._open.get(request)
        while connection is not None and connection.is_open:
            self._answer(connection)
            with self._guard:
                if self._open.pop(request, None) is None:  # ended, to make room
                    return
                self._open[request] = connection

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """End the connections that are open; the server accepts none any more."""
        with self._guard:
            for connection in self._open.values():
                connection.end()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing, because a client that disconnects is not an error of the worker."""
