"""
A worker's `/v1/seen` without a worker: it answers as `schemas.ask` says, and as a test wants it.

A document that has one of the texts that it knows is a duplicate, any other is new.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from schemas.ask import LINES, PATH, PROBLEMS, ProblemDetails, SeenPage, SeenVerdict

TOKEN = "a-token-of-the-test"
TIME = "2026-01-02T03:04:05.000Z"
AS_OF = {"log_offset": 88, "behind": 0}


@dataclass
class FakeWorker:
    """
    What it knows, what it answers, and what it was asked.

    Attributes:
        known: texts of documents, and the URL of the original of each.
        refusals: status and further headers of the next replies, before it answers.
        ends: whether it refuses with 503 because it ends, and not because it replays.
        as_of: what answers say of the log.
        body_bytes_max: of a request; a longer one is refused with 413.
        requests: documents of each POST that was answered, in order.
        statuses: of all replies.
    """

    known: dict[str, str] = field(default_factory=dict)
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    ends: bool = False
    as_of: dict[str, int] = field(default_factory=lambda: dict(AS_OF))
    body_bytes_max: int = 1 << 20
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    address: str = ""
    closes: bool = False  # after each reply, without a word

    def answer(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one document."""
        text = document.get("text") or document.get("html")
        if text is None:
            return problem(422, "no-body", "needs exactly one of text, html, body_base64")
        own = {
            "doc_id": document.get("doc_id", "derived"),
            "url": document["url"],
            "fetched_at": TIME,
        }
        verdict = own | {"verdict": "new", "index": {"documents": 7}, "binding": False}
        original_url = next((url for known, url in self.known.items() if known in text), None)
        if original_url is not None:
            verdict |= {
                "verdict": "duplicate",
                "duplicate_of": {
                    **own, "doc_id": "original", "url": original_url, "kind": "near", "distance": 4,
                    "similarity": 0.9, "same_url": False, "found_by": "directed",
                    "copies": 17,
                },
            }  # fmt: skip
        answer = verdict | {"as_of": self.as_of}
        SeenVerdict.model_validate(answer)
        return answer

    def page(self, url: str) -> dict[str, Any] | None:
        """Return the answer to a URL; None: it is not known."""
        if url not in self.known.values():
            return None
        original = {"doc_id": "original", "url": url, "fetched_at": TIME}
        hashes = {"digest": "5d1c0f9a3b7e2468", "fingerprint": "9f3a61c20b7d44e8", "copies": 17}
        answer = {"original": original | hashes, "as_of": self.as_of, "binding": False}
        SeenPage.model_validate(answer)
        return answer


def problem(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a problem."""
    fields = {"title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    ProblemDetails.model_validate(fields | more)
    return fields | more


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    worker: FakeWorker

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._is_refused(len(body)):
            return
        is_lines = self.headers["Content-Type"] == LINES
        documents = [orjson.loads(line) for line in (body.splitlines() if is_lines else [body])]
        self.worker.requests.append(documents)
        answers = [orjson.dumps(self.worker.answer(document)) for document in documents]
        self._reply(200, b"\n".join(answers))

    def do_GET(self) -> None:
        if self._is_refused(0):
            return
        [url] = parse_qs(urlsplit(self.path).query)["url"]
        page = self.worker.page(url)
        if page is None:
            self._problem(404)
        else:
            self._reply(200, orjson.dumps(page))

    def _is_refused(self, body_bytes: int) -> bool:
        if urlsplit(self.path).path != PATH:
            self._reply(404, b"ask for /v1/seen\n")
        elif self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._problem(401)
        elif self.worker.refusals:
            status, headers = self.worker.refusals.pop(0)
            self._problem(status, headers)
        elif body_bytes > self.worker.body_bytes_max:
            self._problem(413)
        else:
            return False
        return True

    def _problem(self, status: int, headers: dict[str, str] | None = None) -> None:
        code, detail = PROBLEMS[status]
        if status == 503 and self.worker.ends:
            code = "ending"
        more = {"behind": 120} if status == 503 else {}
        self._reply(status, orjson.dumps(problem(status, code, detail, **more)), headers)

    def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.worker.statuses.append(status)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or self.worker.closes

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def fake_worker() -> Iterator[FakeWorker]:
    """Serve one until the block ends."""
    worker = FakeWorker()
    handler = type("Handler", (_Handler,), {"worker": worker})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        worker.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield worker
        finally:
            server.shutdown()
            thread.join()
