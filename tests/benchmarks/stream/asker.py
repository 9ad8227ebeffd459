"""
Asks a worker at a steady rate, one document a request, until stdin ends; prints what came of it.

    python asker.py WORKER RATE_PER_S FILE    FILE: documents, one message per line

A question's wait counts from when it was due, not from when a connection was free for it. So a worker
that stops for a second delays all questions of that second, as it would those of a crawler.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

THREADS = 8
_HEADERS = {
    "Authorization": f"Bearer {os.environ.get('NEARDUP_ASK_TOKEN', '')}",
    "Content-Type": "application/json",
}


class Asker:
    """Questions that are due one after the other, shared by threads."""

    def __init__(self, worker: str, rate_per_s: float, documents: list[bytes]) -> None:
        parts = urlsplit(worker)
        assert parts.hostname is not None
        self._address = parts.hostname, parts.port
        self._rate_per_s = rate_per_s
        self._documents = documents
        self._numbers = itertools.count()
        self._started = time.perf_counter()
        self.stopping = threading.Event()
        # Of the questions that were answered, in seconds; and how many had another status.
        self.waits_s: list[float] = []
        self.statuses: dict[str, int] = {}

    def run(self) -> None:
        """Ask until `stopping`."""
        connection = HTTPConnection(*self._address, timeout=30)
        while not self.stopping.is_set():
            number = next(self._numbers)  # a call that no other thread comes between
            due = self._started + number / self._rate_per_s
            time.sleep(max(due - time.perf_counter(), 0))
            document = self._documents[number % len(self._documents)]
            status = self._ask(connection, document)
            if status == "200":
                self.waits_s.append(time.perf_counter() - due)
            else:
                self.statuses[status] = self.statuses.get(status, 0) + 1
        connection.close()

    @staticmethod
    def _ask(connection: HTTPConnection, document: bytes) -> str:
        try:
            connection.request("POST", "/v1/seen", document, _HEADERS)
            with connection.getresponse() as response:
                response.read()
                return str(response.status)
        except (OSError, HTTPException) as error:
            connection.close()
            return type(error).__name__


def main() -> None:
    worker, rate_per_s, file = sys.argv[1:]
    asker = Asker(worker, float(rate_per_s), Path(file).read_bytes().splitlines())
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
