"""
The endpoint `/v1/seen`: the token, and how many questions are answered at a time.

    head   path, token, length and type are checked by it alone
    slot   at most SLOTS requests go beyond the head at a time, the others get 429
    body   document_bytes_max; of all slots together BODIES times that

`ask/questions.py` has the answers. A body needs its Content-Length: what all of them take is known
before they are read.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

from schemas.ask import JSON, LINES, PATH
from worker.settings import Settings
from worker.shell.ask.questions import Questions, RefusedError
from worker.shell.http.connection import Connection, Request
from worker.shell.runtime import metrics

SLOTS = 16
BODIES = 4  # bodies of the largest size that all slots together may hold
BUSY_RETRY_S = 1
_SHOWN_MAX = 200  # characters of a query in an error


class SeenEndpoint:
    """Answers questions over HTTP, in the threads of their connections."""

    def __init__(self, settings: Settings, questions: Questions) -> None:
        self._questions = questions
        self._host = settings.metrics_host
        self._may_ask = settings.may_ask
        token = settings.ask_token
        self._token = token.get_secret_value().encode() if token else None
        self._guard = threading.Lock()
        self._slots = 0
        self._body_bytes = 0

    def answer(self, connection: Connection, request: Request) -> None:
        """
        Answer a request whose head has been read.

        Raises:
            RefusedError: there is no answer, but a reason.
            OSError: the client has gone.
        """
        with metrics.QUESTION_S.time():
            self._check_head(request)
            with self._slot(connection, request.body_bytes), self._questions.pace.charged():
                if request.method == "GET":
                    connection.send(200, JSON, self._questions.latest(_asked_url(request)))
                    return
                self._questions.check_open()  # before megabytes are read for nothing
                kind = _media_type(request)
                body = connection.read_body()
                connection.send(200, kind, self._questions.answer(body, is_lines=kind == LINES))

    def _check_head(self, request: Request) -> None:
        """
        Check everything that the head decides.

        Raises:
            RefusedError: the request is answered by this alone, its body is not looked at.
        """
        self._check_token(request)
        if request.url.path != PATH:
            raise RefusedError(
                404, "not-found", f"ask for /metrics, /healthz, /readyz, /status or {PATH}"
            )
        if not self._may_ask:
            raise RefusedError(
                403,
                "no-token",
                f"this worker answers on {self._host} and has no ask_token, so everyone could ask "
                f"what has been crawled: give it one",
            )
        if request.method not in ("GET", "POST"):
            raise RefusedError(405, "method-not-allowed", "POST documents, or GET with ?url=")
        has_length = "content-length" in request.headers
        is_chunked = "transfer-encoding" in request.headers
        if is_chunked or (request.method == "POST" and not has_length):
            raise RefusedError(
                411, "length-required", "a body needs its Content-Length; chunks are not taken"
            )
        if request.method == "GET":
            if request.body_bytes:
                raise RefusedError(400, "bad-request", "a GET has no body: POST documents")
            return
        bytes_max = self._questions.body_bytes_max
        if request.body_bytes > bytes_max:
            raise RefusedError(
                413,
                "oversize",
                f"the body has {request.body_bytes:,} bytes, at most {bytes_max:,} are taken: cut "
                f"the document's body, or send fewer documents at once",
            )
        if _media_type(request) not in (JSON, LINES) or "content-encoding" in request.headers:
            raise RefusedError(
                415,
                "unsupported-media-type",
                f"Content-Type must be {JSON} or {LINES}, without Content-Encoding",
            )

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Compared in constant time, so that a client cannot guess the token byte by byte.
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if scheme.lower() != "bearer" or not is_right:
            raise RefusedError(
                401, "unauthorized", "the header must be: Authorization: Bearer <ask_token>"
            )

    @contextmanager
    def _slot(self, connection: Connection, body_bytes: int) -> Iterator[None]:
        """
        Hold a slot, and room for a body of this size.

        Raises:
            RefusedError: 429, there is none.
        """
        with self._guard:
            bytes_max = BODIES * self._questions.body_bytes_max
            if self._slots == SLOTS or self._body_bytes + body_bytes > bytes_max:
                raise RefusedError(
                    429,
                    "busy",
                    f"{self._slots} requests with {self._body_bytes:,} bytes are being answered, "
                    f"of at most {SLOTS} with {bytes_max:,}: ask again in {BUSY_RETRY_S} s",
                )
            self._slots += 1
            self._body_bytes += body_bytes
        connection.holds_slot = True
        metrics.QUESTIONS_IN_FLIGHT.inc()
        try:
            yield
        finally:
            metrics.QUESTIONS_IN_FLIGHT.dec()
            connection.holds_slot = False
            with self._guard:
                self._slots -= 1
                self._body_bytes -= body_bytes


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _asked_url(request: Request) -> str:
    query = request.url.query
    if "&" in query or "#" in request.target:
        raise RefusedError(
            400,
            "bad-request",
            f"ask for {PATH}?url=… and nothing else: percent-encode the URL, because & begins "
            f"another parameter and # a fragment",
        )
    if "+" in query:  # a form has it for a space, a URL for itself: no reading is safe
        raise RefusedError(
            400,
            "bad-request",
            f"got {query[:_SHOWN_MAX]!r}, where + may be a plus or a space: percent-encode "
            "the URL, with %2B for a plus and %20 for a space",
        )
    try:
        fields = parse_qs(query, keep_blank_values=True, errors="strict")
    except ValueError:
        fields = {}
    urls = fields.get("url", [])
    if len(urls) != 1:
        raise RefusedError(
            400, "bad-request", f"ask for {PATH}?url=…, once, percent-encoded in UTF-8"
        )
    return urls[0]
