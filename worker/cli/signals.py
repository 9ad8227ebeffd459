"""Signals as an event: SIGTERM and Ctrl-C end a worker cleanly, once it has something to finish."""

from __future__ import annotations

import signal
import threading

import structlog

_log = structlog.get_logger(__name__)


def stop_on_signals(stop: threading.Event) -> None:
    """Have SIGTERM and SIGINT set `stop` from now on."""

    def handle(number: int, _frame: object) -> None:
        _log.info("stopping", signal=signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
