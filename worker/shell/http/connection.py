"""
One client's connection: h11 reads its requests one after the other, within limits of size and time.

    waits for a request   IDLE_S_MAX; then the connection ends without an answer
    head                  HEAD_BYTES_MAX, and REQUEST_S_MAX from its first byte to the body's end
    body                  read only when it is asked for; its length stands in the head
    answer                ANSWER_S_MAX for the client to take it

The library `h11` knows the protocol and no socket: what a head is, where a body ends, whether the
connection can be used again. A request that does not conform to HTTP/1.1 is an error there. This
file has the socket and the clock: each limit is that of a whole head, body or answer, so a client
that trickles, stops or does not read costs no more than one that is quick.

Why no whole server. Three were tried, each once, with a handler that does nothing, at most 64
connections or 16 threads, and 5 s for an idle one, on two loaded cores. The wait is the 99th
percentile of 400 requests, next to two threads that compute as those of a worker do. The 70 clients
send nothing, or a byte of a head every half second; those of h11 are this module's own test:

| | processor, µs | wait, ms | a probe, 70 silent | a probe, 70 that trickle |
|---|---|---|---|---|
| h11 and threads | 150 | 24 | answered | answered |
| uvicorn 0.54 | 360 | 29 | 503 | 503 |
| waitress 3.0 | 295 | 28 | after 3.5 s | after 4.5 s |
| cheroot 11.1 | 250 | 27 | none in 8 s | none in 8 s |

A worker that does not tell Kubernetes that it is alive is ended. In 8 s of trickling, no server
ended a request, so the limits would still be ours, around the insides of a server. Granian was not
tried: it adds 21 MB to the image, uvicorn some 1.5 MB, h11 0.3 MB. The standard library's
`http.server` takes 90 µs, but it takes much for a head that is none, and all of that would be ours
to refuse.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import h11

from schemas.fields import URL_BYTES_MAX
from worker.shell.ask.questions import RefusedError

HEAD_BYTES_MAX = 3 * URL_BYTES_MAX + 8_192  # a URL of the largest size, percent-encoded
REQUEST_S_MAX = 10.0  # from the first byte of a request to the end of its body
ANSWER_S_MAX = 5.0  # how long an answer waits for a client that does not read it
IDLE_S_MAX = 30.0  # how long a connection may wait for a request
_UNREAD_S_MAX = 1.0  # how long a refused body is still read, so that the client sees why
_PART_BYTES = 1 << 16  # bytes of a body that are read at once
_ONCE = (b"authorization", b"content-type")  # two of them could be read in two ways


class Request(NamedTuple):
    """
    The head of a request.

    Attributes:
        method: in upper case.
        target: the path with the query, or what the client sent instead.
        headers: by name in lower case.
        body_bytes: the length of the body by `Content-Length`; 0 without one.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body_bytes: int

    @property
    def url(self) -> SplitResult:
        """The parts of the target. RefusedError: it is none."""
        try:
            return urlsplit(self.target)
        except ValueError as error:
            raise RefusedError(400, "bad-request", f"the target is no URL: {error}") from None


class Connection:
    """
    Reads a client's requests and sends the answers. For one thread, except `end`.

    Attributes:
        holds_slot: whether the request is being answered, so that the connection is not ended to
            make room for another one.
    """

    def __init__(self, client: socket.socket) -> None:
        self.holds_slot = False
        self._has_ended = False
        self._client = client
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._until_s = 0.0  # monotonic: when the request must have arrived
        self._has_body = True  # whether answers have one: not those to HEAD

    @property
    def is_open(self) -> bool:
        """Whether another request can follow."""
        return not self._has_ended and self._http.our_state in (h11.IDLE, h11.DONE)

    def next_request(self) -> Request | None:
        """
        Return the client's next request; None if it sends none.

        Raises:
            RefusedError: what it sends is no request, is too long or arrives too slowly.
            OSError: the client has gone.
        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        self._has_body = True
        buffered = len(self._http.trailing_data[0])
        self._until_s = time.monotonic() + (REQUEST_S_MAX if buffered else IDLE_S_MAX)
        while (event := self._next_event()) is h11.NEED_DATA:
            buffered = len(self._http.trailing_data[0])
            try:
                is_more = self._receive(HEAD_BYTES_MAX + 1 - buffered, is_first=not buffered)
            except TimeoutError:
                if buffered:
                    raise _late() from None
                return None
            if not is_more:  # half a head is no request
                return None
            self._until_s = min(self._until_s, time.monotonic() + REQUEST_S_MAX)
        assert isinstance(event, h11.Request), "a client that has gone is not told to h11"
        return self._checked(event)

    def _checked(self, head: h11.Request) -> Request:
        """Return what the head says. RefusedError: it could be read in two ways."""
        if head.http_version not in (b"1.0", b"1.1"):
            raise _malformed("its version is another one")
        names = [name for name, _ in head.headers]
        for name in _ONCE:
            if names.count(name) > 1:
                raise _malformed(f"the header {name.decode()} must stand there once")
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        body_bytes = int(headers.get("content-length", 0))
        if not body_bytes and "transfer-encoding" not in headers:
            self._next_event()  # the end of a request without a body
        self._has_body = head.method != b"HEAD"
        return Request(head.method.decode(), head.target.decode(), headers, body_bytes)

    def read_body(self) -> bytes:
        """
        Return the body of the request, whose length has been checked.

        Raises:
            RefusedError: it arrives too slowly.
            OSError: the client has gone.
        """
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, reason=b"Continue", headers=[]))
        parts = []
        while self._http.their_state is h11.SEND_BODY:
            event = self._next_event()
            if isinstance(event, h11.Data):
                parts.append(event.data)
            elif event is h11.NEED_DATA:
                try:
                    is_more = self._receive(_PART_BYTES)
                except TimeoutError:
                    raise _late() from None
                if not is_more:
                    raise ConnectionError("the client ended in the middle of its body")
        return b"".join(parts)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                text = f"the head has more than {HEAD_BYTES_MAX:,} bytes: leave headers out"
                raise RefusedError(431, "headers-too-large", text) from None
            raise _malformed("a line of its head, or the length of its body, is wrong") from None

    def _receive(self, bytes_max: int, *, is_first: bool = False) -> bool:
        """
        Give h11 what the client sends next; return False if it sends nothing more.

        Raises:
            TimeoutError: the request's time is over. The timeout of a socket alone would not do: it
                starts again with each byte.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._client.settimeout(left_s)
        data = self._client.recv(bytes_max)
        if not data:
            return False
        if is_first:  # an empty line before a request is ignored: RFC 9112, 2.2
            data = data.removeprefix(b"\r\n")
        if data:  # h11 would take nothing for the end
            self._http.receive_data(data)
        return True

    def send(
        self, status: int, kind: str, answer: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """
        Send an answer. If the request has not been read to its end, the connection ends with it.

        Raises:
            OSError: the client has gone, or does not take it in time.
        """
        is_read = self._http.their_state in (h11.DONE, h11.MUST_CLOSE)
        fields = {"Content-Type": kind, "Content-Length": str(len(answer)), **(headers or {})}
        if not is_read:
            fields["Connection"] = "close"
        head = h11.Response(
            status_code=status,
            reason=HTTPStatus(status).phrase.encode(),
            headers=list(fields.items()),
        )
        # The answer to HEAD has the length of a body, and no body: RFC 9110, 9.3.2.
        body = [h11.Data(data=answer)] if self._has_body else []
        self._send(head, *body, h11.EndOfMessage())
        if not is_read:
            self._drop_rest()

    def _send(self, *events: h11.Event) -> None:
        self._client.settimeout(ANSWER_S_MAX)  # limits the whole answer, not each part
        self._client.sendall(b"".join(self._http.send(event) or b"" for event in events))

    def _drop_rest(self) -> None:
        """
        Read what the client still sends, for a moment: closed at once, the system would answer it
        with a reset, and the client might lose the answer to that.
        """
        until_s = time.monotonic() + _UNREAD_S_MAX
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
            while (left_s := until_s - time.monotonic()) > 0:
                self._client.settimeout(left_s)
                if not self._client.recv(_PART_BYTES):
                    return

    def end(self) -> None:
        """End the connection, from any thread."""
        self._has_ended = True
        with suppress(OSError):  # it has ended meanwhile
            self._client.shutdown(socket.SHUT_RDWR)


def _late() -> RefusedError:
    text = f"the request did not arrive within {REQUEST_S_MAX:g} s: send it at once"
    return RefusedError(408, "request-timeout", text)


def _malformed(why: str) -> RefusedError:
    return RefusedError(400, "bad-request", f"this is no request of HTTP/1.1: {why}")
