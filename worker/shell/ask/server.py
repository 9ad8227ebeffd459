"""
The endpoint `/v1/seen` over HTTP: limits, the token, and problems; `questions.py` has the answers.

    a connection          a thread, one request after the other; at most CONNECTIONS_MAX
      waits for a request   IDLE_S_MAX; of too many, the one that has waited longest ends
      head                  HEAD_BYTES_MAX; path, token, length and type are checked by it alone
      a slot                at most SLOTS requests go beyond the head at a time, the others get 429
      body                  document_bytes_max; of all slots together BODIES times that
      answer                ANSWER_S_MAX for the client to take it

A request must have arrived REQUEST_S_MAX after its first line, however it trickles in. So a client
that sends slowly, sends half, or stops reading costs a slot for a bounded time, and nothing else.

Why the standard library's server
- HTTP is a third of what a question costs alone: see "Ask a worker" in `worker/README.md`. uvicorn
  with starlette and what both require add 6 MB to the image, granian alone 21 MB, and each a loop
  of its own next to the worker's threads. Their waits next to a busy log were not measured.
- TLS, compression and chunked bodies are a proxy's. A body needs its Content-Length.
"""

from __future__ import annotations

import hmac
import io
import re
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from pathlib import PurePath
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

import orjson
import structlog

from schemas.ask import JSON, LINES, PATH, PROBLEM
from schemas.fields import URL_BYTES_MAX
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.ask.questions import RETRY_S, Questions, RefusedError, problem
from worker.shell.runtime import metrics

CONNECTIONS_MAX = 64
SLOTS = 16
BODIES = 4  # bodies of the largest size that all slots together may hold
HEAD_BYTES_MAX = 3 * URL_BYTES_MAX + 8_192  # a URL of the largest size, percent-encoded
REQUEST_S_MAX = 10.0  # from the first line of a request to the end of its body
ANSWER_S_MAX = 5.0  # how long an answer waits for a client that does not read it
IDLE_S_MAX = 30.0  # how long a connection may wait for a request
BUSY_RETRY_S = 1
_UNREAD_S_MAX = 1.0  # how long a refused body is still read, so that the client sees why
_PART_BYTES = 1 << 16  # bytes of a body that are read at once
_POLL_S = 0.1
# The lines of a head by RFC 9112. The byte 0x85 is a line break to the standard library's parser.
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(_TOKEN + rb" [\x21-\x7e]+ HTTP/1\.[01]\r\n")
_HEADER_LINE = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\x84\x86-\xff]*\r\n")
_ONCE = ("Host", "Authorization", "Content-Type")  # two of them could be read in two ways

_log = structlog.get_logger(__name__)


class AskServer:
    """
    Serves `/v1/seen` in threads of its own until it is closed; port 0 serves nothing.

    Raises:
        StopError: the address cannot be had.
    """

    def __init__(self, settings: Settings, questions: Questions) -> None:
        self._server: _QuestionServer | None = None
        host = settings.ask_host
        port = settings.ask_port
        if not port:
            return
        try:
            self._server = _QuestionServer(host, port, settings, questions)
        except OSError as error:
            raise StopError(
                f"questions cannot be answered on {host}:{port} ({error.strerror}): choose another "
                f"--ask-port or --ask-host"
            ) from error
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="ask", daemon=True
        ).start()
        _log.info("questions are answered", host=host, port=port, token=bool(settings.ask_token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()


class _QuestionServer(ThreadingMixIn, TCPServer):
    """Accepts connections, and counts what they take."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, host: str, port: int, settings: Settings, questions: Questions) -> None:
        self.questions = questions
        token = settings.ask_token
        self.token = token.get_secret_value().encode() if token else None
        self._guard = threading.Lock()
        # Open connections in the order of their last request; True: waits for a request.
        self._waits: dict[socket.socket, bool] = {}
        self._slots = 0
        self._body_bytes = 0
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _QuestionHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection; where there are too many, the one that has waited longest ends."""
        with self._guard:
            has_room = len(self._waits) < CONNECTIONS_MAX
            if not has_room:
                idle = next((each for each, waits in self._waits.items() if waits), None)
                if idle is not None:
                    del self._waits[idle]
                    has_room = True
                    _end(idle)
            if has_room:
                self._waits[request] = True
        if has_room:
            super().process_request(request, client_address)
            return
        metrics.QUESTIONS.labels("refused").inc()
        request.setblocking(False)
        with suppress(OSError):  # a client that does not read is not waited for
            request.send(
                b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\nContent-Length: 0\r\n"
                b"Connection: close\r\n\r\n" % BUSY_RETRY_S
            )
        self.shutdown_request(request)

    def note(self, connection: socket.socket, *, waits: bool) -> None:
        """Remember whether a connection waits for a request."""
        with self._guard:
            if connection in self._waits:  # else it is being ended
                del self._waits[connection]
                self._waits[connection] = waits

    @contextmanager
    def slot(self, body_bytes: int) -> Iterator[None]:
        """
        Hold a slot, and room for a body of this size.

        Raises:
            RefusedError: 429, there is none.
        """
        with self._guard:
            bytes_max = BODIES * self.questions.body_bytes_max
            if self._slots == SLOTS or self._body_bytes + body_bytes > bytes_max:
                raise RefusedError(
                    429,
                    "busy",
                    f"{self._slots} requests with {self._body_bytes:,} bytes are being answered, "
                    f"of at most {SLOTS} with {bytes_max:,}: ask again in {BUSY_RETRY_S} s",
                )
            self._slots += 1
            self._body_bytes += body_bytes
        metrics.QUESTIONS_IN_FLIGHT.inc()
        try:
            yield
        finally:
            metrics.QUESTIONS_IN_FLIGHT.dec()
            with self._guard:
                self._slots -= 1
                self._body_bytes -= body_bytes

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._waits.pop(request, None)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """End the connections that are open; the server accepts none any more."""
        with self._guard:
            for connection in self._waits:
                _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing, because a client that disconnects is not an error of the worker."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class _HeadTooLongError(Exception):
    """The head of a request has more than HEAD_BYTES_MAX."""


class _BoundedReader(io.RawIOBase):
    """
    Reads from a client until a deadline, and at most a given number of bytes.

    The timeout of the socket itself would not do: it starts again with each byte.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until_s = 0.0  # monotonic; a later read is a TimeoutError
        self.bytes_left = 0  # bytes that may still arrive; one more is a _HeadTooLongError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self.bytes_left <= 0:
            raise _HeadTooLongError
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(memoryview(buffer)[: self.bytes_left])
        self.bytes_left -= count
        return count


class _QuestionHandler(BaseHTTPRequestHandler):
    """One connection: requests are read and answered until one of them ends it."""

    protocol_version = "HTTP/1.1"
    server: _QuestionServer
    connection: socket.socket
    headers: HTTPMessage

    def setup(self) -> None:
        self.connection = self.request
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._reader = _BoundedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)
        self._is_answered = False
        self._unread_bytes = 0  # of the body
        self._expects = False  # the client waits for "100 Continue"

    def finish(self) -> None:
        self.rfile.close()

    def handle_one_request(self) -> None:
        self.close_connection = True
        self.raw_requestline = b""  # not that of the request before, which has been answered
        self.command = ""
        self._is_answered = False
        self._unread_bytes = 0
        self._expects = False
        self.server.note(self.connection, waits=True)
        self._reader.bytes_left = HEAD_BYTES_MAX
        self._reader.until_s = time.monotonic() + IDLE_S_MAX
        try:
            self.raw_requestline = self.rfile.readline(HEAD_BYTES_MAX)
            if self.raw_requestline == b"\r\n":  # to be ignored before a request: RFC 9112, 2.2
                self.raw_requestline = self.rfile.readline(HEAD_BYTES_MAX)
            if not self.raw_requestline:  # the client has no more questions
                return
            self.server.note(self.connection, waits=False)
            self._reader.until_s = time.monotonic() + REQUEST_S_MAX
            if self.parse_request():
                with metrics.QUESTION_S.time():
                    self._respond()
        except _HeadTooLongError:
            self._refuse(
                RefusedError(
                    431,
                    "headers-too-large",
                    f"the head has more than {HEAD_BYTES_MAX:,} bytes: leave headers out",
                )
            )
        except TimeoutError:
            if self.raw_requestline and not self._is_answered:
                self._refuse(
                    RefusedError(
                        408,
                        "request-timeout",
                        f"the request did not arrive within {REQUEST_S_MAX:g} s: send it at once",
                    )
                )
        except OSError:  # the client has gone
            self.close_connection = True

    def parse_request(self) -> bool:
        """
        Read the head of a request; return False where there is none to answer.

        The standard library's parser takes more for a head than HTTP/1.1 does: it ends lines at
        control characters, joins folded ones, skips what it cannot read, and takes the end of the
        connection for the end of the head. A proxy might see another request, so all that is
        refused before it is parsed.
        """
        lines: list[bytes] = []
        while not lines or lines[-1] not in (b"\r\n", b"\n"):
            lines.append(self.rfile.readline(HEAD_BYTES_MAX))
            if not lines[-1]:  # the client has gone, or waits for an answer to what is no head
                if not _REQUEST_LINE.fullmatch(self.raw_requestline):
                    self.send_error(400, "the first line is no request")
                return False
        if not _REQUEST_LINE.fullmatch(self.raw_requestline):
            self.send_error(400, "the first line is no request")
            return False
        if lines.pop() != b"\r\n" or not all(map(_HEADER_LINE.fullmatch, lines)):
            self.send_error(400, "a line of the head is no header")
            return False
        rest = self.rfile
        self.rfile = io.BufferedReader(io.BytesIO(b"".join([*lines, b"\r\n"])))
        try:
            is_request = super().parse_request()
        finally:
            self.rfile = rest
        return is_request

    def _respond(self) -> None:
        """Answer a request whose head has been read."""
        try:
            body_bytes = self._check_head()
            with self.server.slot(body_bytes), self.server.questions.pace.charged():
                kind, answer = self._answer(body_bytes)
                self._send(200, kind, answer)
        except RefusedError as error:
            self._refuse(error)
        except (OSError, _HeadTooLongError):
            raise
        except Exception as error:  # nothing of the text may be logged, and errors may quote it
            where = traceback.extract_tb(error.__traceback__)[-1]
            _log.error(
                "a question failed",
                error=type(error).__name__,
                at=f"{PurePath(where.filename).name}:{where.lineno}",
            )
            self._refuse(RefusedError(500, "failed", f"the worker failed: {type(error).__name__}"))

    def _check_head(self) -> int:
        """
        Return the length of the body; everything that the head decides is checked.

        Raises:
            RefusedError: the request is answered by this alone, its body is not looked at.
        """
        self._unread_bytes = self._body_bytes()
        self._check_token()
        if self._target().path != PATH:
            raise RefusedError(404, "not-found", f"ask for {PATH}")
        if self.command not in ("GET", "POST"):
            raise RefusedError(405, "method-not-allowed", "POST documents, or GET with ?url=")
        if self.command == "GET":
            if self._unread_bytes:
                raise RefusedError(400, "bad-request", "a GET has no body: POST documents")
            return 0
        bytes_max = self.server.questions.body_bytes_max
        if self.headers["Content-Length"] is None:
            raise RefusedError(
                411, "length-required", "a body needs its Content-Length; chunks are not taken"
            )
        if self._unread_bytes > bytes_max:
            raise RefusedError(
                413,
                "oversize",
                f"the body has {self._unread_bytes:,} bytes, at most {bytes_max:,} are taken: cut "
                f"the document's body, or send fewer documents at once",
            )
        if self._media_type() not in (JSON, LINES) or "Content-Encoding" in self.headers:
            raise RefusedError(
                415,
                "unsupported-media-type",
                f"Content-Type must be {JSON} or {LINES}, without Content-Encoding",
            )
        return self._unread_bytes

    def _target(self) -> SplitResult:
        """Return the parts of the request's target. RefusedError: it is none."""
        try:
            return urlsplit(self.path)
        except ValueError as error:
            raise RefusedError(400, "bad-request", f"the target is no URL: {error}") from None

    def _body_bytes(self) -> int:
        """Return the body's length by its head. RefusedError: the head does not say it clearly."""
        if self.headers.defects:  # a proxy might read them in another way
            self.close_connection = True
            raise RefusedError(400, "bad-request", "the headers are not those of HTTP/1.1")
        hosts = len(self.headers.get_all("Host", []))
        if hosts == 0 and self.request_version != "HTTP/1.0":
            self.close_connection = True
            raise RefusedError(400, "bad-request", "the header Host is missing")
        for name in _ONCE:
            if len(self.headers.get_all(name, [])) > 1:
                self.close_connection = True
                raise RefusedError(400, "bad-request", f"the header {name} must stand there once")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise RefusedError(
                411, "length-required", "a body needs its Content-Length; chunks are not taken"
            )
        lengths = self.headers.get_all("Content-Length", ["0"])
        digits = lengths[0]
        is_number = len(lengths) == 1 and digits.isascii() and digits.isdigit()
        if not is_number or len(digits) > 18:
            self.close_connection = True
            raise RefusedError(400, "bad-request", "Content-Length must be one whole number")
        return int(digits)

    def _check_token(self) -> None:
        if self.server.token is None:
            return
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        # Compared in constant time, so that a client cannot guess the token byte by byte.
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.server.token)
        if scheme.lower() != "bearer" or not is_right:
            raise RefusedError(
                401, "unauthorized", "the header must be: Authorization: Bearer <ask_token>"
            )

    def _media_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def _answer(self, body_bytes: int) -> tuple[str, bytes]:
        """Return the media type and the bytes of the answer."""
        questions = self.server.questions
        if self.command == "GET":
            return JSON, questions.latest(self._asked_url())
        questions.check_open()  # before megabytes are read for nothing
        kind = self._media_type()
        return kind, questions.answer(self._read_body(body_bytes), is_lines=kind == LINES)

    def _asked_url(self) -> str:
        try:
            fields = parse_qs(
                self._target().query, keep_blank_values=True, errors="strict", max_num_fields=9
            )
        except ValueError:
            fields = {}
        urls = fields.get("url", [])
        if len(urls) != 1:
            raise RefusedError(
                400, "bad-request", f"ask for {PATH}?url=…, once, percent-encoded in UTF-8"
            )
        return urls[0]

    def _read_body(self, body_bytes: int) -> bytes:
        if self._expects:
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._reader.bytes_left = body_bytes
        parts = []
        while self._unread_bytes:
            part = self.rfile.read1(min(self._unread_bytes, _PART_BYTES))
            if not part:
                raise ConnectionError("the client ended in the middle of its body")
            parts.append(part)
            self._unread_bytes -= len(part)
        return b"".join(parts)

    def handle_expect_100(self) -> bool:
        """Ask for the body later: not before its head has been checked."""
        self._expects = True
        return True

    def _refuse(self, error: RefusedError) -> None:
        """Answer with a problem; of a connection with a rest unread nothing more is taken."""
        if error.status != 404 or error.code == "not-found":  # else it is the answer "new"
            metrics.QUESTIONS.labels("refused").inc()
        headers = {}
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        elif error.status == 405:
            headers["Allow"] = "GET, POST"
        elif error.status == 429:
            headers["Retry-After"] = str(BUSY_RETRY_S)
        elif error.status == 503:
            headers["Retry-After"] = str(RETRY_S)
        if self._unread_bytes or error.status in (408, 431):
            self.close_connection = True
        details = problem(error.status, error.code, error.text, error.behind)
        self._send(error.status, PROBLEM, orjson.dumps(details), headers)
        if self.close_connection:
            self._drop_rest()

    def _send(
        self, status: int, kind: str, answer: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self._is_answered = True
        lines = [
            f"HTTP/1.1 {status} {self.responses[status][0]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(answer)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
            f"Connection: {'close' if self.close_connection else 'keep-alive'}",
        ]
        self.connection.settimeout(ANSWER_S_MAX)  # limits the whole answer, not each part
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        # The answer to HEAD has the length of a body, and no body: RFC 9110, 9.3.2.
        self.connection.sendall(head if self.command == "HEAD" else head + answer)

    def _drop_rest(self) -> None:
        """
        Read what the client still sends, for a moment: closed at once, the system would answer it
        with a reset, and the client might lose the answer to that.
        """
        until_s = time.monotonic() + _UNREAD_S_MAX
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while (left_s := until_s - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not self.connection.recv(1 << 16):
                    return

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,  # noqa: ARG002  # the base class's signature
    ) -> None:
        """Refuse a request that the standard library could not read as HTTP."""
        self.close_connection = True
        if code == 431:
            self._refuse(RefusedError(431, "headers-too-large", f"leave headers out: {message}"))
            return
        self._refuse(RefusedError(400, "bad-request", f"this is no request of HTTP/1.1: {message}"))

    def log_message(self, *_: object) -> None:
        """Log nothing, because questions are private."""
