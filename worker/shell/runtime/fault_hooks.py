"""
Named points at which a test can make the worker fail.

When it is off, a point costs one call of an empty function.

The variable NEARDUP_FAULT, which tests set, is "point:action:hit", for example
"after-append:kill:3": at the third batch that reaches the point the process gets SIGKILL. Actions:
kill, stop (SIGSTOP), sleep-N-ms (this thread), kill-in-N-ms (SIGKILL from another thread while this
one goes on), and slow-N-ms: this thread sleeps at that hit and at each one after it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from worker.errors import StopError
from worker.shell.runtime.logging import get_logger


class Point(StrEnum):
    """Points on the way of a batch or a snapshot, at which tests cause a fault."""

    READ = "read"  # out of the source; the intake thread reaches it
    # Fingerprinted, and the log asked what it lacks of it; the sequencer.
    BEFORE_APPEND = "before-append"
    AFTER_APPEND = "after-append"  # in the log, and applied; no verdict published; the sequencer
    # Verdicts sent, offsets not; this and what follows: the publishing thread.
    IN_TRANSACTION = "in-transaction"
    AFTER_OFFSETS = "after-offsets"  # verdicts and offsets sent, not committed
    AFTER_COMMIT = "after-commit"
    # A part of it is about to be written; a thread of its own, at the end the worker's.
    SNAPSHOT = "snapshot"


FaultHook = Callable[[Point], None]

VARIABLE = "NEARDUP_FAULT"
_log = get_logger(__name__)
_FAULT = re.compile(r"([a-z-]+):(?:(kill|stop)|(kill-in|sleep|slow)-([0-9]{1,6})-ms):([0-9]+)")


def never(_point: Point) -> None:
    """Do nothing: the ordinary case."""


def warn() -> None:
    """
    Warn if the variable is set, at the start: it would else end a worker without a trace.

    Raises:
        StopError: it names no point, no action or no hit.
    """
    if from_environment() is not never:
        fault = os.environ[VARIABLE]
        _log.warning("this worker fails on purpose", fault=fault, remedy=f"unset {VARIABLE}")


def from_environment() -> FaultHook:
    """
    Return the function that fails as the variable says.

    Raises:
        StopError: it names no point, no action or no hit.
    """
    fault = os.environ.get(VARIABLE)
    if not fault:
        return never
    found = _FAULT.fullmatch(fault)
    if found is None or found[1] not in set(Point):
        raise StopError(
            f"{VARIABLE} makes a worker fail in tests. It must be point:action:hit with point one "
            f"of {', '.join(Point)} and action one of kill, stop, kill-in-N-ms, sleep-N-ms, "
            f"slow-N-ms, got {fault!r}. Outside of tests, unset it"
        )
    point = Point(found[1])
    at_once = found[2]
    timed = found[3]
    delay_s = int(found[4] or 0) / 1_000
    hit = int(found[5])
    hits = 0

    def reach(reached: Point) -> None:
        nonlocal hits
        if reached is not point:
            return
        hits += 1
        if hits != hit and not (timed == "slow" and hits > hit):
            return
        if at_once:
            # To this thread, which then goes no step further; a signal to the process may reach
            # another one first.
            signal.pthread_kill(
                threading.get_ident(), signal.SIGKILL if at_once == "kill" else signal.SIGSTOP
            )
        elif timed == "kill-in":
            threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
        else:
            time.sleep(delay_s)

    return reach
