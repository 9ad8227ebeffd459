"""
Questions: from the body of a request to the answers, as of one offset of the log.

    body ─► split ─► rows (as in the topic) ─► between two calls of the judge ─► answers

No socket and no HTTP here: `shell/http` has those. A body is taken apart into the bytes of each
document, and these go the way of a message of the topic, through the same functions with the same
limits: so a document that the topic would dead-letter is refused for the same reason.

One thread computes at a time, for all requests that wait by then: most of what a document costs is
the calls of kernels and of numpy, which take many documents for the price of a few. One document in
a request of its own took 0.44 ms, one of 20 together 0.05 ms. So the busier the worker, the less a
question costs, and no number of them takes more than one core from the log.

Rejected, and why
- Fingerprinting by the pool of preparing threads. It takes jobs in their order, and next to a
  stream at full speed its queue holds four batches. By calculation, not measured: 4,000 documents
  at 28,000/s, so 0.14 s before each question. So the thread of a question does it, with the
  preparing threads' functions.
- A question that the sequencer's thread answers between two batches. That thread waits for Kafka
  most of the time, and a question would wait with it. Under a lock (`FairLock`) a question comes in
  between any two calls of the judge, while that thread waits or not.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from schemas.ask import DOCUMENTS_MAX
from schemas.fields import URL_BYTES_MAX, format_timestamp
from worker.core.document import Outcome
from worker.errors import DocumentError
from worker.log.record import Rows
from worker.settings import Settings
from worker.shell.ask.pace import QuestionPace
from worker.shell.messages import SeenBytes, encode_seen
from worker.shell.pipeline.replicated_log import AsOfOffset, ReplicatedLog
from worker.shell.ports import InputMessage
from worker.shell.runtime import metrics

ReadRows = Callable[[Sequence[InputMessage]], Rows]

RETRY_S = 5  # while the log is replayed
_FIRST_CHARACTER = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*([^ \t\r\n])")  # behind a BOM, too
_LINE = re.compile(rb"[^ \t\r\n][^\n]*")  # a line from its first visible character on
_SPACE = re.compile(r"[ \t\r\n]*")
# Only the ends of values matter here. `len` accepts a number of any length and is cheap; `int`
# accepts only 4,300 digits.
_VALUES = json.JSONDecoder(strict=False, parse_int=len, parse_float=len, parse_constant=len)


class RefusedError(Exception):
    """
    There is no answer to a whole request; the server says why. It never leaves this package.

    Args:
        status: the HTTP status.
        code: a short stable class for machines, in kebab case.
        text: for people: the value, the bound and the remedy.
        behind: records that have not been applied, while the log is replayed.
    """

    def __init__(self, status: int, code: str, text: str, behind: int | None = None) -> None:
        self.status = status
        self.code = code
        self.text = text
        self.behind = behind
        super().__init__(f"{code}: {text}")


class AskedBody(NamedTuple):
    """The documents of a request's body, as bytes, and how the answers are to be given."""

    documents: Sequence[bytes]
    form: str  # "one", "array" or "lines"


class _Answer(NamedTuple):
    """
    The answer to one document as JSON, and what it counts as in the metrics.

    problem: why there is none; `line` says so.
    """

    line: bytes
    counted: str
    problem: DocumentError | None = None


class _Waiting:
    """The documents of a request that wait for their answers, and what becomes of them."""

    __slots__ = ("answers", "documents", "failure")

    def __init__(self, documents: Sequence[bytes]) -> None:
        self.documents = documents
        self.answers: Sequence[_Answer] | None = None
        self.failure: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.answers is not None or self.failure is not None


class Questions:
    """
    Answers questions. Any thread may ask.

    Until `open` it refuses with 503, and says how far behind the worker is once it follows a log.
    From `close` on it refuses again.
    """

    def __init__(self, settings: Settings) -> None:
        self.body_bytes_max = settings.document_bytes_max
        self._log: ReplicatedLog | None = None
        self._rows: ReadRows | None = None
        self._is_closed = False
        self._splitting = threading.Lock()  # JSON of many small values takes 30 times its size
        self._changed = threading.Condition()
        self._is_computing = False
        self._waiting: deque[_Waiting] = deque()
        self.pace = QuestionPace()

    def follow(self, log: ReplicatedLog) -> None:
        """Say from now on how far this log has been applied."""
        self._log = log

    def open(self, rows: ReadRows) -> None:
        """Answer from now on; `rows` makes rows of messages, as the preparing threads do."""
        self._rows = rows

    def yield_to(self, documents_wait: Callable[[], bool]) -> None:
        """Leave documents their share (`pace.py`) from now on, while this says that some wait."""
        self.pace.documents_wait = documents_wait

    def close(self) -> None:
        """Answer nothing more."""
        self._is_closed = True

    def check_open(self) -> ReplicatedLog:
        """
        Return the log that answers are based on.

        Raises:
            RefusedError: 503, the log is being replayed, or the worker ends.
        """
        if self._is_closed:
            raise RefusedError(503, "ending", "this worker ends: ask another one")
        log = self._log
        if log is None or self._rows is None:
            behind = None if log is None else log.behind()
            records = "records" if behind is None else f"{behind:,} records"
            raise RefusedError(
                503,
                "replaying",
                f"{records} of the log are not applied yet: ask again in {RETRY_S} s",
                behind,
            )
        return log

    def answer(self, body: bytes, *, is_lines: bool) -> bytes:
        """
        Return the answers to the documents of a body, in its form.

        Raises:
            RefusedError: there are none, or the one document cannot be judged.
        Cost: 0.4 ms for one document alone, 0.05 ms each for 20, and what fingerprinting costs.
        """
        self.check_open()
        with self._splitting:
            asked = split(body, is_lines=is_lines)
        answers = self._answers_to(asked.documents) if asked.documents else []
        if asked.form == "one" and (problem := answers[0].problem) is not None:
            raise RefusedError(422, problem.code, problem.text)
        for answer in answers:
            metrics.QUESTIONS.labels(answer.counted).inc()
        lines = [answer.line for answer in answers]
        if asked.form == "one":
            return lines[0]
        if asked.form == "array":
            return b"[%b]" % b",".join(lines)
        return b"".join([b"%b\n" % line for line in lines])

    def _answers_to(self, documents: Sequence[bytes]) -> Sequence[_Answer]:
        """
        Return the answers to documents.

        The thread that computes them also does so for all requests that wait by then.
        """
        request = _Waiting(documents)
        with self._changed:
            self._waiting.append(request)
        while not request.is_done:
            with self._changed:
                self._changed.wait_for(lambda: request.is_done or not self._is_computing)
                if request.is_done:
                    break
                self._is_computing = True
            try:
                with self.pace.turn():
                    self._compute(self._next_waiting())
            finally:
                with self._changed:
                    self._is_computing = False
                    self._changed.notify_all()
        if request.failure is not None:
            raise request.failure
        assert request.answers is not None
        return request.answers

    def _next_waiting(self) -> list[_Waiting]:
        """Take requests off the queue: one, or several of no more than one may have."""
        requests = [self._waiting.popleft()]
        count = len(requests[0].documents)
        size = sum(map(len, requests[0].documents))
        while self._waiting:
            following = self._waiting[0]
            count += len(following.documents)
            size += sum(map(len, following.documents))
            if count > DOCUMENTS_MAX or size > self.body_bytes_max:
                break
            requests.append(self._waiting.popleft())
        return requests

    def _compute(self, requests: Sequence[_Waiting]) -> None:
        """Answer requests together, as of one offset; what fails is each one's own."""
        log = self._log
        assert log is not None and self._rows is not None, "it is open"
        documents = [document for request in requests for document in request.documents]
        messages = [InputMessage(0, offset, None, value) for offset, value in enumerate(documents)]
        try:
            verdicts, as_of = log.ask(self._rows(messages), encode_seen)
            answers = [_answer(verdict, as_of) for verdict in verdicts]
        except Exception as error:
            if len(requests) == 1:
                requests[0].failure = error
                return
            for request in requests:
                self._compute([request])
            return
        begin = 0
        for request in requests:
            end = begin + len(request.documents)
            request.answers = answers[begin:end]
            begin = end

    def latest(self, url: str) -> bytes:
        """
        Return the latest original of a URL.

        Raises:
            RefusedError: no original has it, or it is no URL.
        """
        size = len(url.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= URL_BYTES_MAX:
            raise RefusedError(
                400,
                "url-too-long" if size else "bad-request",
                f"url must have 1 to {URL_BYTES_MAX:,} bytes in UTF-8, got {size:,}",
            )
        log = self.check_open()
        with self.pace.turn():
            latest, as_of = log.latest_of(url)
        if latest is None:
            metrics.QUESTIONS.labels("new").inc()
            raise RefusedError(
                404, "unknown-url", "no original of this URL is in the index: it may be new"
            )
        metrics.QUESTIONS.labels("seen").inc()
        original = latest.original
        return orjson.dumps(
            {
                "original": {
                    "doc_id": _unicode(original.doc_id),
                    "url": _unicode(original.url),
                    "fetched_at": format_timestamp(original.fetched_at_ms),
                    "digest": f"{latest.digest:016x}",
                    "fingerprint": f"{latest.fingerprint:016x}",
                    "copies": latest.copies,
                },
                "as_of": as_of._asdict(),
                "binding": False,
            }
        )


def split(body: bytes, *, is_lines: bool) -> AskedBody:
    """
    Take a body apart into the bytes of each document.

    A JSON body that begins with a bracket, also behind a byte order mark, is an array; any other
    body is one document. Blank lines do not count.

    Raises:
        RefusedError: 400, it is no array; 413, it has too many documents.
    Cost: O(bytes); an array is parsed.

    >>> split(b'[{"url": "a"}, 7]', is_lines=False).documents
    [b'{"url": "a"}', b'7']
    """
    documents: list[bytes] = []
    if is_lines:
        for line in _LINE.finditer(body):
            _add(documents, line[0])
        return AskedBody(documents, "lines")
    first = _FIRST_CHARACTER.match(body)
    if first is None or first[1] != b"[":
        return AskedBody([body], "one")
    # A character per byte: what stands between brackets and commas is not decoded here, and each
    # place is one of the body's.
    text = body.decode("latin-1")
    at = _after_space(text, first.end())
    if text[at : at + 1] == "]":
        _check_end(text, at + 1)
        return AskedBody(documents, "array")
    while True:
        end = _end_of_value(text, at)
        _add(documents, body[at:end])
        at = _after_space(text, end)
        if text[at : at + 1] == "]":
            _check_end(text, at + 1)
            return AskedBody(documents, "array")
        if text[at : at + 1] != ",":
            raise _no_array(at, "a comma or a bracket must stand there")
        at = _after_space(text, at + 1)


def _add(documents: list[bytes], document: bytes) -> None:
    if len(documents) == DOCUMENTS_MAX:
        raise RefusedError(
            413,
            "too-many-documents",
            f"a request has at most {DOCUMENTS_MAX} documents: send the others in another one",
        )
    documents.append(document)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None, "it matches nothing, too"
    return match.end()


def _end_of_value(text: str, at: int) -> int:
    try:
        _, end = _VALUES.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _no_array(error.pos, error.msg) from None
    except RecursionError:
        raise _no_array(at, "a value there nests too deep for a list; send it alone") from None
    return int(end)


def _check_end(text: str, at: int) -> None:
    stop = _after_space(text, at)
    if stop < len(text):
        raise _no_array(stop, "the array has ended before")


def _no_array(at: int, why: str) -> RefusedError:
    return RefusedError(400, "invalid-json", f"the body is no JSON array: {why}, at byte {at:,}")


def _answer(verdict: SeenBytes | DocumentError, as_of: AsOfOffset) -> _Answer:
    """Return the answer that a verdict makes, as of an offset."""
    if isinstance(verdict, DocumentError):
        return _Answer(orjson.dumps(problem(422, verdict.code, verdict.text)), "refused", verdict)
    known = "seen" if verdict.is_known else "new"
    counted = "skipped" if verdict.outcome is Outcome.SKIPPED else known
    state = orjson.dumps(as_of._asdict())
    return _Answer(b'%b,"as_of":%b,"binding":false}' % (verdict.value[:-1], state), counted)


def problem(status: int, code: str, text: str, behind: int | None = None) -> dict[str, Any]:
    """Return problem details; `schemas.ask.ProblemDetails` says what they are."""
    fields = {"title": _TITLES[status], "status": status, "code": code, "detail": _unicode(text)}
    return fields if behind is None else {**fields, "behind": behind}


# Python's own words for some of them change from version to version.
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _unicode(text: str) -> str:
    """Return a text with "?" for lone surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
