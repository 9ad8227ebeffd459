"""
The watchdog: ends the process when a call outlives its limit.

Some client calls can hang for good after a broker restart. No other thread can interrupt them, and a worker that hangs
holds its partitions: ending the process, which the supervisor restarts, is the only remedy that always works.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h

_log = structlog.get_logger(__name__)


def _end(doing: str, limit_s: float) -> None:
    _log.error("a call outlived its limit, ending the process", call=doing, limit_s=limit_s, exit_code=EXIT_CODE)
    os._exit(EXIT_CODE)


class Watchdog:
    """One thread that looks at the running calls four times a second; `on_hang` gets what outlived its limit."""

    def __init__(self, on_hang: Callable[[str, float], None] = _end) -> None:
        self._on_hang = on_hang
        self._running: dict[object, tuple[str, float, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def limit(self, doing: str, limit_s: float) -> Iterator[None]:
        """Run the block; if it takes longer than `limit_s` the process ends and the log names `doing`."""
        token = object()
        self._running[token] = (doing, limit_s, time.monotonic() + limit_s)
        try:
            yield
        finally:
            del self._running[token]

    def _watch(self) -> None:
        while not self._stopped.wait(0.25):
            now = time.monotonic()
            for doing, limit_s, deadline in list(self._running.values()):
                if now > deadline:
                    self._on_hang(doing, limit_s)

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
