"""
Asks a worker over HTTP whether it has seen documents or a URL: the other side of `schemas.ask`.

    documents ─► batches of at most 100 and 1 MiB ─► POST /v1/seen ─► an answer for each, in order
                                                       │
                  429 and 503 are asked again when Retry-After says; a question's waits are bounded
                  413 for several documents: each half is asked for itself

A question changes nothing at the worker, so it may be asked again whenever a connection breaks.

Why the standard library's client: urllib3 was tried and takes 124 of 1,412 tokens off this file,
for 1 MB in the image. It keeps the connection and tries again, but the waits with their bound,
halves, batches and errors remain. As it was configured in the trial, it also asked again after a
408 on a new connection. httpx with what it requires takes 4.8 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from schemas.ask import DOCUMENTS_MAX, LINES, PATH
from worker.errors import StopError
from worker.shell.admin.address import WorkerAddress

BATCH_BYTES_MAX = 1 << 20  # of one request, unless one document is longer
WAIT_S = 60.0  # for all that a worker puts off one question
CALL_TIMEOUT_S = 30.0
# 100 answers have fewer bytes, even with three of the longest URLs and doc_ids each and every
# character escaped. So a server that sends more than this is no worker.
_ANSWER_BYTES_MAX = 64 << 20
# A document goes as a line. In JSON a line break stands between tokens only, where a blank will do.
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_RETRIED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
# Statuses that concern one document when they answer a request that has only one.
_OF_A_DOCUMENT = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)


class SeenAnswer(NamedTuple):
    """
    A worker's answer about one document or URL.

    Attributes:
        line: the answer as JSON, without a line break.
        fields: the same, read: a `SeenVerdict`, a `SeenPage` or a `ProblemDetails` of
            `schemas.ask`.
    """

    line: bytes
    fields: Mapping[str, Any]

    @property
    def is_problem(self) -> bool:
        """Whether there is no answer, but the reason why."""
        return "as_of" not in self.fields


class _Reply(NamedTuple):
    """The reply to one request."""

    status: int
    retry_after: str | None
    body: bytes

    def problem(self) -> Mapping[str, Any]:
        """Return the fields of the problem that it is; none where something else answered."""
        try:
            fields = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return fields if isinstance(fields, dict) else {}


class SeenClient(AbstractContextManager["SeenClient"]):
    """
    Asks one worker, over one connection that is kept. Not for several threads at once.

    Args:
        worker: its address, as `WorkerAddress.of` reads it.
        token: its `ask_token`; "": it requires none.
        wait_s: seconds that one question may be put off, all in all.
        sleep: waits.
    Raises:
        StopError: it is no such address.

    Every call raises StopError if the worker cannot be reached, refuses the token, goes on putting
    the question off, or is no worker.
    """

    def __init__(
        self,
        worker: str,
        token: str = "",
        *,
        wait_s: float = WAIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        address = WorkerAddress.of(worker)
        if not token.isascii() or not token.isprintable():
            raise StopError(
                "ask_token must be printable ASCII, because HTTP carries nothing else: give the "
                "worker and the command another one"
            )
        self._worker = worker
        self._path = address.path + PATH
        # A worker that is busy may have the question wait, which is putting it off as well.
        self._connection = address.connection(max(CALL_TIMEOUT_S, wait_s))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._wait_s = wait_s
        self._sleep = sleep

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask_documents(self, values: Iterable[bytes]) -> Iterator[SeenAnswer]:
        """
        Return the answer for each document, in order; up to 100 of them are read ahead.

        Args:
            values: messages as in the topic `documents`.

        Cost: a request for each 100 documents or MiB.
        """
        for batch in _batches(values):
            yield from self._ask_batch(batch)

    def ask_url(self, url: str) -> SeenAnswer:
        """Return the latest original of a URL; a problem of status 404 if the worker has none."""
        quoted = quote(url, safe="", errors="surrogateescape")  # a byte of the command line
        reply = self._ask("GET", f"{self._path}?url={quoted}")
        problem = reply.problem()
        if reply.status == HTTPStatus.NOT_FOUND and problem.get("code") == "unknown-url":
            return SeenAnswer(reply.body.strip(), problem)
        self._check(reply)
        [answer] = self._answers(reply, 1)
        return answer

    def _ask_batch(self, batch: list[bytes]) -> Iterator[SeenAnswer]:
        lines = [value.translate(_ONE_LINE) for value in batch]
        reply = self._ask("POST", self._path, b"\n".join(lines))
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
            half = len(batch) // 2
            yield from self._ask_batch(batch[:half])
            yield from self._ask_batch(batch[half:])
            return
        problem = reply.problem()
        if reply.status in _OF_A_DOCUMENT and len(batch) == 1 and "code" in problem:
            yield SeenAnswer(reply.body.strip(), problem)
            return
        self._check(reply)
        yield from self._answers(reply, len(batch))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> _Reply:
        """Return the worker's reply, once it no longer puts the question off."""
        left_s = self._wait_s
        while True:
            reply = self._reply(method, path, body)
            if reply.status not in _RETRIED:
                return reply
            pause_s = min(_seconds(reply.retry_after), left_s)
            if pause_s <= 0:
                raise StopError(self._put_off(reply))
            self._sleep(pause_s)
            left_s -= pause_s

    def _reply(self, method: str, path: str, body: bytes | None) -> _Reply:
        """
        Send a request and read its reply. Send it again if the server has closed the kept
        connection.
        """
        try:
            if self._connection.sock is not None:
                with suppress(ConnectionError, HTTPException):
                    reply = self._exchange(method, path, body)
                    # A server or proxy may say so of a kept connection that was idle: of no
                    # request.
                    if reply.status != HTTPStatus.REQUEST_TIMEOUT:
                        return reply
                self._connection.close()
            return self._exchange(method, path, body)
        except (OSError, UnicodeError, HTTPException) as error:  # no host may have such a name
            self._connection.close()
            raise StopError(self._unreachable(error)) from error

    def _exchange(self, method: str, path: str, body: bytes | None) -> _Reply:
        headers = self._headers if body is None else self._headers | {"Content-Type": LINES}
        if self._connection.sock is None:
            self._connection.connect()
        # A worker that refuses a request answers and closes, before it has read all of the body.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.request(method, path, body, headers)
        with self._connection.getresponse() as response:
            content = response.read(_ANSWER_BYTES_MAX + 1)
            return _Reply(response.status, response.getheader("Retry-After"), content)

    def _check(self, reply: _Reply) -> None:
        """Raise StopError unless the reply has answers."""
        if reply.status == HTTPStatus.OK:
            return
        if reply.status == HTTPStatus.UNAUTHORIZED:
            raise StopError(
                f"the worker at {self._worker} refuses the token: "
                "set NEARDUP_ASK_TOKEN to the worker's ask_token"
            )
        detail = reply.problem().get("detail")
        if detail is not None:
            raise StopError(
                f"the worker at {self._worker} cannot answer (status {reply.status}): {detail}"
            )
        raise StopError(
            f"{self._worker} answers {PATH} with status {reply.status}, as no worker does: name "
            f"the worker's metrics_port"
        )

    def _answers(self, reply: _Reply, count: int) -> list[SeenAnswer]:
        """Return the answers of a reply, which must be so many."""
        answers = []
        for line in reply.body.splitlines():
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:
                fields = None
            if isinstance(fields, dict) and ("as_of" in fields or "code" in fields):
                answers.append(SeenAnswer(line, fields))
        if len(answers) != count:
            raise StopError(
                f"{self._worker} gave {len(answers)} answers to {count} questions, as no worker "
                f"does: name the worker's metrics_port"
            )
        return answers

    def _put_off(self, reply: _Reply) -> str:
        """Say why the worker has not answered within the time."""
        waited = f"after {self._wait_s:g} s the worker at {self._worker} still"
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            return f"{waited} has as many questions as it may (429): ask fewer at a time, or later"
        problem = reply.problem()
        if problem.get("code") == "ending":
            return f"{waited} ends (503): ask another worker"
        behind = problem.get("behind")
        records = "" if behind is None else f", {behind:,} records behind"
        remedy = "ask another worker, or give a longer --wait"
        return f"{waited} replays the log (503{records}): {remedy}"

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return (
            f"no answer from {self._worker}: {reason}. Is it the address of a worker's "
            f"metrics_port, and does the network let you through?"
        )


def _batches(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """
    Yield values in their order, as many together as one request may have.

    >>> [len(batch) for batch in _batches([b"x"] * 150)]
    [100, 50]
    >>> [len(batch) for batch in _batches([b"x", b"x" * BATCH_BYTES_MAX, b"x"])]
    [1, 1, 1]
    """
    batch: list[bytes] = []
    batch_bytes = 0
    for value in values:
        is_full = len(batch) == DOCUMENTS_MAX or batch_bytes + len(value) > BATCH_BYTES_MAX
        if batch and is_full:
            yield batch
            batch = []
            batch_bytes = 0
        batch.append(value)
        batch_bytes += len(value)
    if batch:
        yield batch


def _seconds(retry_after: str | None) -> float:
    """
    Return how long a worker wants to be left alone: a second where it does not say so in seconds.

    >>> _seconds("3"), _seconds("Wed, 21 Oct 2026 07:28:00 GMT"), _seconds("0")
    (3.0, 1.0, 1.0)
    """
    if retry_after is None or not retry_after.isdecimal():
        return 1.0
    return max(float(retry_after), 1.0)
