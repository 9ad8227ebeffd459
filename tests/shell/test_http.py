"""The worker's address by real requests: what it answers and refuses, and what a bad client costs."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError
from structlog.testing import capture_logs

from schemas.ask import PROBLEMS, ProblemDetails, SeenPage, SeenVerdict
from tests.conftest import eventually, free_ports
from tests.shell.asked import TOKEN, AskedWorker, document, served
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.ask.questions import Questions
from worker.shell.http import connection as limits
from worker.shell.http import seen, server
from worker.shell.http.server import HttpServer
from worker.shell.runtime import logging, metrics
from worker.shell.runtime.health import Status
from worker.shell.runtime.metrics import Lag

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
HEAD = f"Host: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture(scope="module")
def worker() -> AskedWorker:
    """One that knows document 0."""
    worker = AskedWorker(Settings(threads=4, document_bytes_max=300_000))
    worker.feed(document(0))
    return worker


@pytest.fixture(scope="module")
def port(worker: AskedWorker) -> Iterator[int]:
    with served(worker) as number:
        yield number


@pytest.fixture
def own_port(worker: AskedWorker) -> Iterator[int]:
    """Of a server that no other test has a connection to."""
    with served(worker) as number:
        yield number


class Reply:
    """An answer to a request."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.data = response.read()
        if self.status != 200:
            assert self.status in PROBLEMS
            assert self.headers["Content-Type"] == "application/problem+json"
            problem = ProblemDetails.model_validate_json(self.data)
            assert problem.status == self.status
            self.code = problem.code

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def ask(
    port: int,
    method: str = "POST",
    path: str = "/v1/seen",
    body: bytes | None = None,
    kind: str | None = "application/json",
    **headers: str,
) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    given = {**AUTHORIZED, **headers}
    if kind is not None:
        given["Content-Type"] = kind
    connection.request(method, path, body, given)
    try:
        return Reply(connection.getresponse())
    finally:
        connection.close()


def talk(port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(sent)
    return connection


def reply_on(connection: socket.socket) -> Reply:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return Reply(response)


def reply_to(port: int, sent: bytes) -> Reply:
    """The answer on a connection of its own."""
    with contextlib.closing(talk(port, sent)) as connection:
        return reply_on(connection)


def in_flight() -> float:
    [sample] = next(iter(metrics.QUESTIONS_IN_FLIGHT.collect())).samples
    return float(sample.value)


def post(length: int) -> bytes:
    """The head of a request with a body of so many bytes."""
    return b"POST /v1/seen HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (HEAD, length)


def test_the_answer_has_the_shape_of_the_question(port: int) -> None:
    """One object for one document, an array for an array, lines for lines, in their order."""
    alone = ask(port, body=document(1))
    assert alone.status == 200
    assert SeenVerdict.model_validate_json(alone.data).verdict == "new"
    array = ask(port, body=b"[%b, 7, %b]" % (document(1), document(0, doc_id="copy")))
    assert array.headers["Content-Type"] == "application/json"
    assert [answer.get("verdict", answer.get("code")) for answer in array.json] == [
        "new",
        "not-an-object",
        "duplicate",
    ]
    body = document(0, doc_id="copy") + b"\n\n{}\r\n"
    lines = ask(port, body=body, kind="application/x-ndjson; charset=utf-8")
    assert lines.headers["Content-Type"] == "application/x-ndjson"
    copy, bad = [json.loads(line) for line in lines.data.splitlines()]
    assert copy == array.json[2]
    assert (bad["code"], bad["status"]) == ("no-body", 422)


def test_the_latest_original_of_a_url_is_found_by_it_percent_encoded(
    worker: AskedWorker, port: int
) -> None:
    """200 with the original, 404 where there is none, 400 where no URL is given, or two."""
    verdict = worker.feed(document(4, url="https://example.org/ä?a=b c"))
    url = urllib.parse.quote("https://example.org/ä?a=b c", safe="")
    found = ask(port, "GET", f"/v1/seen?url={url}", kind=None)
    SeenPage.model_validate_json(found.data)
    original = found.json["original"]
    assert (original["doc_id"], original["fetched_at"]) == ("d4", verdict["fetched_at"])
    assert original["fingerprint"] == verdict["fingerprint"]["value"]
    assert found.json["as_of"] == {"log_offset": worker.replica.next_offset, "behind": 0}
    told = ask(port, "GET", "/v1/seen?url=https://example.org/?a=1&b=2", kind=None).json["detail"]
    assert "percent-encode the URL, because & begins another parameter" in told
    told = ask(port, "GET", "/v1/seen?url=http://a/?q=a+b", kind=None).json["detail"]
    assert "got 'url=http://a/?q=a+b'" in told and "%2B for a plus and %20 for a space" in told
    for query, status in (
        ("url=https://example.org/none", 404),
        ("url=https://example.org/?q=a+b", 400),
        ("url=https://example.org/?q=a%2Bb", 404),
        ("", 400),
        ("url=a&url=b", 400),
        ("url=https://example.org/?a=1&b=2", 400),
        ("url=https://example.org/?a=1&", 400),
        ("url=https://example.org/#a", 400),
        ("url=%ff", 400),
        ("url=", 400),
        ("url=" + "%41" * 8_193, 400),
    ):
        assert ask(port, "GET", f"/v1/seen?{query}", kind=None).status == status


@pytest.mark.parametrize(
    "given",
    [None, "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ä"],
)
def test_without_the_token_nothing_is_answered(port: int, given: str | None) -> None:
    """Missing, in another scheme, too long, too short: 401, whatever is asked for."""
    headers = {} if given is None else {"Authorization": given.encode().decode("latin-1")}
    for method, path in (("POST", "/v1/seen"), ("GET", "/v1/seen?url=a"), ("GET", "/")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, b"{}" if method == "POST" else None, headers)
        reply = Reply(connection.getresponse())
        connection.close()
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert reply.headers["WWW-Authenticate"] == "Bearer"


def test_the_scheme_of_the_token_is_of_any_case_and_none_is_needed_without_one(
    worker: AskedWorker, port: int
) -> None:
    """On loopback a worker may answer without a token; elsewhere the settings demand one."""
    assert ask(port, body=document(1), Authorization=f"bearer  {TOKEN}").status == 200
    with served(worker, ask_token=None) as open_port:
        assert ask(open_port, body=document(1), Authorization="").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/", b"{}", {}, 404),
        ("PUT", "/v1/seen", b"{}", {}, 405),
        ("DELETE", "/v1/seen", None, {}, 405),
        ("HEAD", "/v1/seen", None, {}, 405),
        ("POST", "/v1/seen", b"{}", {"kind": "text/plain"}, 415),
        ("POST", "/v1/seen", b"{}", {"kind": None}, 415),
        ("POST", "/v1/seen", b"{}", {"Content-Encoding": "gzip"}, 415),
        ("POST", "/v1/seen", b" " * 300_001, {}, 413),
        ("POST", "/v1/seen", b"{}", {}, 422),
        ("GET", "/v1/seen?url=a", b"{}", {}, 400),
    ],
)
def test_what_is_refused_and_how(
    port: int, method: str, path: str, body: bytes | None, headers: dict[str, Any], status: int
) -> None:
    """Each refusal has its status, and its problem in JSON; that of HEAD has no body."""
    if method == "HEAD":
        connection = talk(port, b"HEAD /v1/seen HTTP/1.1\r\n%b\r\n" % HEAD)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            head, _, sent = stream.read().partition(b"\r\n\r\n")
        connection.close()
        assert head.startswith(b"HTTP/1.1 405 ") and not sent
        return
    reply = ask(port, method, path, body, **headers)
    assert reply.status == status
    if status == 405:
        assert reply.headers["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"\r\n", 411),
        (
            b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            411,
        ),
        (b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"Content-Length: 1e3\r\n\r\n", 400),
        (
            b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"Content-Length: 9" + b"9" * 30 + b"\r\n\r\n",
            400,
        ),
        (
            b"POST /v1/seen HTTP/1.1\r\n"
            + HEAD
            + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            400,
        ),
        (b"POST /v1/seen HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\n" * 2 + b"\r\n{}", 422),
        (b"GARBAGE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /v1/seen HTTP/3.0\r\n\r\n", 400),
        (b"GET /v1/seen HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /v1/seen HTTP/1.1\r\n" + HEAD + b"X: y\r\n" * 8_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 40_000, 431),
        (b"GET /v1/seen?url=a\r\n\r\n", 400),
        (b"GET /v1/seen?url=a HTTP/1.1\n" + HEAD + b"\r\n", 404),
        (b"GET  /v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"GET\t/v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"GET /v1/seen?url=\xe9 HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"GET http://[/v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"GET http://[::1/v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"GET /v1/seen?url=a HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n", 400),
        (b"GET /v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"Host: b\r\n\r\n", 400),
        (b"GET /v1/seen?url=a HTTP/1.1\r\n" + HEAD + b"Authorization: Bearer x\r\n\r\n", 400),
    ],
    ids=range(23),
)
def test_what_is_no_good_http_is_refused(port: int, sent: bytes, status: int) -> None:
    """Lengths that are missing or wrong, heads without an end, other protocols."""
    assert reply_to(port, sent).status == status


@pytest.mark.parametrize(
    "line",
    [
        b"X: a\rContent-Length: 9",
        b"X: a\x0bContent-Length: 9",
        b"X: a\x0cContent-Length: 9",
        b"X: a\nContent-Length: 9",
        b"X: \0",
        b"X\0: a",
        b"X : a",
        b" X: a",
        b": a",
        b"no colon",
        b"From me",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_line_that_is_no_header_is_refused(port: int, line: bytes, is_first: bool) -> None:
    """A proxy might read it in another way, and see another request behind it."""
    lines = [HEAD.removesuffix(b"\r\n"), b"Content-Length: 2"]
    lines.insert(0 if is_first else 2, line)
    sent = b"POST /v1/seen HTTP/1.1\r\n%b\r\n\r\n[]" % b"\r\n".join(lines)
    assert reply_to(port, sent).status == 400


@pytest.mark.parametrize("between", [b"\x1c", b"\x85", b"\r\n ", b"\r\n\t"])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_stands_in_a_value_or_in_a_folded_line_is_no_header(
    port: int, between: bytes, is_first: bool
) -> None:
    """
    Such a value is read to the end of its line (RFC 9110, 5.5) or a fold taken for a blank (RFC 9112,
    5.2): the length of the body is that of the header with this name, for any proxy as well.
    """
    lines = [HEAD.removesuffix(b"\r\n"), b"Content-Length: 2"]
    lines.insert(0 if is_first else 2, b"X: a%bContent-Length: 9" % between)
    sent = b"POST /v1/seen HTTP/1.1\r\n%b\r\n\r\n[]" % b"\r\n".join(lines)
    assert reply_to(port, sent).json == []


def test_half_a_head_is_no_request(port: int) -> None:
    """The end of a connection is not the end of a head."""
    connection = talk(port, b"GET /v1/seen?url=a HTTP/1.1\r\n" + HEAD)
    connection.shutdown(socket.SHUT_WR)
    assert not connection.recv(1)
    connection.close()


def test_an_empty_line_before_a_request_is_ignored(port: int) -> None:
    """Old clients send one behind a body."""
    assert reply_to(port, b"\r\n%b[]" % post(2)).status == 200


@pytest.mark.parametrize("has_asked", [False, True])
def test_an_idle_connection_ends_without_an_answer(
    port: int, monkeypatch: pytest.MonkeyPatch, has_asked: bool
) -> None:
    """An answer to no request would be taken for that to the next one."""
    monkeypatch.setattr(limits, "IDLE_S_MAX", 0.2)
    connection = talk(port, post(2) + b"[]" if has_asked else b"")
    if has_asked:
        assert reply_on(connection).status == 200
    assert not connection.recv(1)
    connection.close()


def test_a_connection_takes_one_request_after_the_other(port: int) -> None:
    """Answers and problems alike leave it open, as long as the whole request has been read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for body, status in ((document(1), 200), (b"{}", 422), (document(1), 200)):
        connection.request(
            "POST", "/v1/seen", body, AUTHORIZED | {"Content-Type": "application/json"}
        )
        assert Reply(connection.getresponse()).status == status
    own = connection.sock.getsockname()
    connection.request("GET", "/v1/seen?url=a", None, AUTHORIZED)
    assert Reply(connection.getresponse()).status == 404
    assert connection.sock.getsockname() == own
    connection.close()


def test_requests_that_are_sent_together_are_answered_in_their_order(port: int) -> None:
    """Also a probe between questions, and the last one ends the connection if the client has."""
    probe = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    connection = talk(port, post(2) + b"[]" + probe + post(2) + b"{}")
    connection.shutdown(socket.SHUT_WR)
    with connection.makefile("rb") as stream:
        said = stream.read()
    connection.close()
    statuses = [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"422"]
    assert said.index(b"[]") < said.index(b"alive") < said.index(b"no-")


def test_a_body_is_asked_for_when_its_head_is_good(port: int) -> None:
    """`Expect: 100-continue`: a head that is refused is refused before the body is sent."""
    body = document(1)
    head = b"POST /v1/seen HTTP/1.1\r\n%bExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    connection = talk(port, head % (HEAD, len(body)))
    wanted = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert connection.recv(len(wanted), socket.MSG_WAITALL) == wanted
    connection.sendall(body)
    assert reply_on(connection).status == 200
    connection.close()
    assert reply_to(port, head % (HEAD, 300_001)).status == 413


@pytest.mark.parametrize("sent", [0, 100], ids=["nothing of the body", "half of it"])
def test_a_request_that_stops_costs_a_slot_for_a_bounded_time(
    port: int, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """Its client gets 408, though the connection stays open, and the slot is free again."""
    monkeypatch.setattr(limits, "REQUEST_S_MAX", 0.3)
    connection = talk(port, post(200) + b"x" * sent)
    reply = reply_on(connection)
    assert (reply.status, reply.code) == (408, "request-timeout")
    eventually(lambda: in_flight() == 0, "the slot is free")
    connection.close()


@pytest.mark.parametrize("begin", [b"POST /v1/seen HTTP/1.1\r\nX: ", post(1 << 18)])
def test_a_request_that_trickles_in_is_ended(
    port: int, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """A byte now and then does not prolong it: the time is that of the whole request."""
    monkeypatch.setattr(limits, "REQUEST_S_MAX", 0.5)
    connection = talk(port, begin)
    is_answered = threading.Event()

    def trickle() -> None:
        while not is_answered.wait(0.02):
            try:
                connection.send(b"x")
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    assert reply_on(connection).status == 408
    is_answered.set()
    thread.join()
    connection.close()


def test_a_client_that_does_not_read_costs_a_slot_for_a_bounded_time(
    worker: AskedWorker, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is given up when nobody takes it, and others are answered meanwhile."""
    monkeypatch.setattr(limits, "ANSWER_S_MAX", 0.3)
    monkeypatch.setattr(
        worker.questions, "answer", lambda _body, *, is_lines: b"x" * (64 << 20), raising=True
    )
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(post(2) + b"{}")
    eventually(lambda: in_flight() == 1, "it has a slot")
    assert ask(port, "GET", "/v1/seen?url=a", kind=None).status == 404
    eventually(lambda: in_flight() == 0, "the slot is free")
    connection.close()


def test_questions_beyond_the_slots_are_told_to_come_again(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """429 with Retry-After, by slots and by the bytes of bodies; 200 when there is room again."""
    monkeypatch.setattr(seen, "SLOTS", 2)
    waiting = [talk(port, post(10)) for _ in range(2)]
    eventually(lambda: in_flight() == 2, "both have a slot")
    reply = ask(port, body=document(1))
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (429, "busy", "1")
    for connection in waiting:
        connection.close()
    eventually(lambda: in_flight() == 0, "the slots are free")
    assert ask(port, body=document(1)).status == 200
    monkeypatch.setattr(seen, "SLOTS", 100)
    waiting = [talk(port, post(300_000)) for _ in range(seen.BODIES)]
    eventually(lambda: in_flight() == seen.BODIES, "all bodies that may be held")
    assert ask(port, body=document(1)).status == 429
    assert ask(port, "GET", "/v1/seen?url=a", kind=None).status == 404
    for connection in waiting:
        connection.close()
    eventually(lambda: in_flight() == 0, "the slots are free")


def test_connections_that_wait_make_room_for_new_ones(
    own_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has waited longest ends; one in the middle of a request does not."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    busy = talk(own_port, post(2))
    eventually(lambda: in_flight() == 1, "it has a slot")
    idle = [talk(own_port, b"") for _ in range(2)]
    assert ask(own_port, body=document(1)).status == 200
    assert idle[0].recv(1) == b""
    busy.sendall(b"{}")
    assert reply_on(busy).status == 422
    for connection in (busy, *idle):
        connection.close()


@pytest.mark.parametrize("sent", [b"", b"G", b"POST /v1/seen HTTP/1.1\r\nX: ", post(1 << 18)])
def test_bad_clients_hold_up_no_probe(own_port: int, sent: bytes) -> None:
    """
    Of silent ones, and of those in the middle of a head, the oldest end at once. Those in a body
    have a slot, or are refused.
    """
    clients = []
    for _ in range(server.CONNECTIONS_MAX + 10):
        with contextlib.suppress(OSError):  # refused, and closed by now
            clients.append(talk(own_port, sent))
    assert get(own_port, "/healthz") == (200, "alive\n")
    assert get(own_port, "/readyz") == (200, "ready\n")
    eventually(
        lambda: threading.active_count() < server.CONNECTIONS_MAX + 20,
        "the threads of connections that were ended are gone",
    )
    for connection in clients:
        connection.close()
    eventually(lambda: in_flight() == 0, "the slots are free")


def test_probes_are_answered_while_questions_are_slow(
    worker: AskedWorker, own_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every slot and nearly every connection taken, for as long as it lasts."""
    is_over = threading.Event()

    def slow(_body: bytes, *, is_lines: bool) -> bytes:
        assert is_over.wait(60)
        return b"[]"

    monkeypatch.setattr(server, "CONNECTIONS_MAX", seen.SLOTS + 1)
    monkeypatch.setattr(worker.questions, "answer", slow)
    busy = [talk(own_port, post(2) + b"[]") for _ in range(seen.SLOTS)]
    eventually(lambda: in_flight() == seen.SLOTS, "all slots are taken")
    for _ in range(3):
        assert get(own_port, "/readyz") == (200, "ready\n")
        assert get(own_port, "/metrics")[0] == 200
    assert ask(own_port, body=document(1)).status == 429
    is_over.set()
    assert [reply_on(connection).status for connection in busy] == [200] * seen.SLOTS
    for connection in busy:
        connection.close()


def test_until_the_log_is_replayed_it_is_503(worker: AskedWorker) -> None:
    """With Retry-After and how far behind, and before a body is read."""
    late = AskedWorker(worker.settings, worker.log)
    late.questions._rows = None  # as before `open`
    worker.log.append([b"not applied"])
    with served(late) as port:
        reply = reply_to(port, post(100))
    worker.replicated.follow(0)
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "replaying", "5")
    assert reply.json["behind"] == 1


def test_neither_the_text_nor_the_token_is_logged(
    worker: AskedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when a worker fails on a document either: its error may quote it."""

    def fail(_messages: object) -> None:
        raise ValueError("a-secret-text")

    with capture_logs() as logs, served(worker) as port:
        ask(port, body=document(1, text="a-secret-text"))
        ask(port, body=b'{"url": "a-secret-text"}')
        ask(port, body=document(1), Authorization="Bearer a-secret-text")
        monkeypatch.setattr(worker.questions, "_rows", fail)
        failed = ask(port, body=document(1))
    assert (failed.status, failed.code) == (500, "failed")
    assert "a-secret-text" not in failed.data.decode()
    written = repr(logs)
    assert "a request failed" in written
    assert "a-secret-text" not in written
    assert TOKEN not in written
    assert TOKEN not in repr(Settings(ask_token=TOKEN))


def test_beyond_this_machine_questions_need_a_token_and_probes_none(worker: AskedWorker) -> None:
    """Without an ask_token, the worker says so to whoever asks; scrapes and probes are answered."""
    with served(worker, metrics_host="0.0.0.0", ask_token=None) as port:
        for given in ({}, AUTHORIZED):
            reply = ask(port, body=document(1), **given)
            assert (reply.status, reply.code) == (403, "no-token")
        assert "ask_token" in reply.json["detail"]
        assert [get(port, path)[0] for path in PROBES] == [200] * 4
    with served(worker, metrics_host="0.0.0.0") as port:
        assert ask(port, body=document(1)).status == 200
        assert ask(port, body=document(1), Authorization="").status == 401
        assert [get(port, path)[0] for path in PROBES] == [200] * 4


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ask_token": "short"}, "16 to 1,024 visible ASCII characters, got 5"),
        ({"ask_token": "x" * 20 + " y"}, "visible ASCII"),
    ],
)
def test_a_token_that_can_be_guessed_is_refused(values: dict[str, Any], says: str) -> None:
    """No error shows it."""
    with pytest.raises(ValidationError, match=re.escape(says)) as caught:
        Settings(**values)
    assert values["ask_token"] not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_no_token_is_needed(host: str) -> None:
    """Whoever is on this machine may ask; a name that is not looked up may be another machine's."""
    assert Settings(metrics_port=8_081, metrics_host=host).may_ask
    assert not Settings(metrics_port=8_081, metrics_host="worker-1").may_ask


# Probes, metrics and status


PROBES = ("/healthz", "/readyz", "/metrics", "/status")


@contextlib.contextmanager
def probed(conditions: dict[str, Callable[[], bool]]) -> Iterator[int]:
    """Serve the probes of a worker whose log is not there yet; yield the port."""
    [port] = free_ports()
    settings = Settings(metrics_port=port, threads=1)
    status = Status(time.monotonic).to_dict
    with HttpServer(settings, Questions(settings), conditions, status, metrics.of_group("night")):
        yield port


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_ready_when_every_condition_holds() -> None:
    """
    /healthz says so from the first moment; /readyz names what is missing, and asks again each time.
    """
    member = False
    conditions = {"log replayed": lambda: False, "member of the group": lambda: member}
    with probed(conditions) as port:
        assert (get(port, "/healthz"), get(port, "/")[0]) == ((200, "alive\n"), 404)
        assert get(port, "/healthz", "HEAD") == (200, "")
        assert get(port, f"http://127.0.0.1:{port}/healthz?by=proxy") == (200, "alive\n")
        assert get(port, "/readyz") == (503, "not ready: log replayed, member of the group\n")
        conditions["log replayed"] = lambda: True
        assert get(port, "/readyz") == (503, "not ready: member of the group\n")
        member = True
        assert get(port, "/readyz") == (200, "ready\n")


def test_a_probe_that_fails_is_answered(port: int) -> None:
    """500, and the next one is answered on the same connection."""
    conditions: dict[str, Callable[[], bool]] = {"x": lambda: bool(1 / 0)}
    with probed(conditions) as own, capture_logs() as logs:
        status, text = get(own, "/readyz")
        assert get(own, "/healthz")[0] == 200
    assert (status, json.loads(text)["code"]) == (500, "failed")
    assert [line["error"] for line in logs] == ["ZeroDivisionError"]


def test_metrics_are_in_prometheus_own_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted and what is asked at the scrape both come, each with the worker's group."""
    monkeypatch.setattr(metrics.SOURCE_LAG, "lags", lambda: {4: Lag(7, 1.5, 30), 2: Lag(0)})
    with probed({}) as port:
        status, text = get(port, "/metrics")
    assert status == 200
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert "neardup_log_offset" in {sample.name for sample in found}
    assert {sample.labels["group"] for sample in found} == {"night"}
    lags = {
        (one.name, one.labels["partition"]): one.value for one in found if "_source_" in one.name
    }
    assert lags == {
        ("neardup_source_lag", "2"): 0, ("neardup_source_lag", "4"): 7,
        ("neardup_source_lag_seconds", "2"): 0, ("neardup_source_lag_seconds", "4"): 1.5,
        ("neardup_source_held_seconds", "2"): 0, ("neardup_source_held_seconds", "4"): 30,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_a_scrape_that_asks_for_a_version_that_is_none_gets_the_plain_format(kind: str) -> None:
    """The library that chooses compares it with numbers."""
    with probed({}) as port:
        status, text = get(port, "/metrics", accept=f"{kind}; version=abc")
    assert status == 200 and "neardup_log_offset" in text


@pytest.mark.usefixtures("logging_as_before")
def test_status_is_served_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With what is missing until the worker is ready, and the last error of its log, but no traceback.
    """
    monkeypatch.setattr(metrics.SOURCE_LAG, "lags", lambda: {4: Lag(7, 2.5), 2: Lag(3, 1.0)})
    logging.configure("info", "json")
    structlog.get_logger("test").error(
        "topic is not as it should be", remedy="create it", exc_info=RuntimeError("x")
    )
    with probed({"log replayed": lambda: False}) as port:
        found = json.loads(get(port, "/status")[1])
    assert (found["ready"], found["missing"]) == (False, ["log replayed"])
    assert found["partitions"] == {"2": 3, "4": 7}
    last = found["last_error"]
    assert (last["event"], last["remedy"]) == ("topic is not as it should be", "create it")
    assert "exc_info" not in last and "exception" not in last
    assert set(found["log"]) == {"offset", "lag"}


def test_a_taken_port_is_said_with_its_remedy(worker: AskedWorker, port: int) -> None:
    """The address and the flags stand in the error."""
    settings = worker.settings.model_copy(update={"metrics_port": port})
    with pytest.raises(StopError, match=rf"127\.0\.0\.1:{port} .*--metrics-port"):
        HttpServer(settings, worker.questions, {})


def test_port_0_serves_nothing(worker: AskedWorker) -> None:
    """It is the default: no port is opened that nobody asked for."""
    before = listening()
    with HttpServer(Settings(), worker.questions, {}):
        assert listening() == before


def listening() -> list[Any]:
    """What this process listens on."""
    connections = psutil.Process().net_connections("tcp")
    return [
        connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN
    ]
