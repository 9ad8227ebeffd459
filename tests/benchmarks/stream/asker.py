"""
Asks a worker at a steady rate until stdin ends, and prints what came of it.

    python asker.py WORKER RATE_PER_S TOGETHER FILE    FILE: documents, one message per line

TOGETHER documents are asked about in one request. The rate is that of requests.

A question's wait counts from when it was due, not from when a connection was free for it. So a worker
that stops for a second delays all questions of that second, as it would those of a crawler.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

THREADS = 16
_LENGTH = b"\r\nContent-Length: "
_HEAD = (
    "POST /v1/seen HTTP/1.1\r\nHost: worker\r\nContent-Type: application/x-ndjson\r\n"
    "Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
)


class Asker:
    """
    Questions that are due one after the other, shared by threads.

    Requests are made beforehand and answers are not parsed: what this program takes of the
    processor, the worker next to it does not have.
    """

    def __init__(
        self, worker: str, rate_per_s: float, together: int, documents: list[bytes]
    ) -> None:
        parts = urlsplit(worker)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = parts.hostname, parts.port
        self._rate_per_s = rate_per_s
        token = os.environ.get("NEARDUP_ASK_TOKEN", "")
        bodies = [
            b"\n".join(documents[first : first + together])
            for first in range(0, len(documents), together)
        ]
        self._requests = [
            _HEAD.format(token=token, length=len(body)).encode() + body for body in bodies
        ]
        self._numbers = itertools.count()
        self._started = time.perf_counter()
        self.stopping = threading.Event()
        # Of the questions that were answered, in seconds; and how many had another status.
        self.waits_s: list[float] = []
        self.statuses: dict[str, int] = {}

    def run(self) -> None:
        """Ask until `stopping`."""
        connection = None
        while not self.stopping.is_set():
            number = next(self._numbers)  # a call that no other thread comes between
            due = self._started + number / self._rate_per_s
            time.sleep(max(due - time.perf_counter(), 0))
            try:
                connection = connection or socket.create_connection(self._address, timeout=30)
                connection.sendall(self._requests[number % len(self._requests)])
                status = _status(connection)
            except OSError as error:
                status = type(error).__name__
            if status == "200":
                self.waits_s.append(time.perf_counter() - due)
                continue
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if connection is not None:
                connection.close()
                connection = None


def _status(connection: socket.socket) -> str:
    """Read an answer to its end; return its status."""
    data = connection.recv(1 << 16)
    while b"\r\n\r\n" not in data:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("ended within the head")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    left = int(head.partition(_LENGTH)[2].partition(b"\r\n")[0]) - len(body)
    while left > 0:
        part = connection.recv(left)
        if not part:
            raise ConnectionError("ended within the body")
        left -= len(part)
    return head[9:12].decode()


def main() -> None:
    worker, rate_per_s, together, file = sys.argv[1:]
    documents = Path(file).read_bytes().splitlines()
    asker = Asker(worker, float(rate_per_s), int(together), documents)
    threads = [threading.Thread(target=asker.run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    asker.stopping.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"waits_s": asker.waits_s, "statuses": asker.statuses}))


if __name__ == "__main__":
    main()
