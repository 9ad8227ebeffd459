"""
Named points where a test can make the worker fail. Off, a point costs one call of an empty function.

The setting `fault` is "point:action:hit", for example "after-append:kill:3": at the third batch that reaches the point
the process gets SIGKILL. Actions: kill, stop (SIGSTOP), sleep-N-ms (this thread), kill-in-N-ms (SIGKILL from another
thread while this one goes on), and slow-N-ms: this thread sleeps at that hit and at each one after it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """Where a batch stands, or a snapshot."""

    READ = "read"  # out of the source; the intake thread reaches it
    BEFORE_APPEND = "before-append"  # fingerprinted, and the log asked what it lacks of it; the sequencer
    AFTER_APPEND = "after-append"  # in the log, and applied; no verdict published; the sequencer
    IN_TRANSACTION = "in-transaction"  # verdicts sent, offsets not; this and what follows: the publishing thread
    AFTER_OFFSETS = "after-offsets"  # verdicts and offsets sent, not committed
    AFTER_COMMIT = "after-commit"
    SNAPSHOT = "snapshot"  # a part of it is about to be written; a thread of its own, at the end the worker's


FaultHook = Callable[[Point], None]

_TIMED = re.compile(r"(kill-in|sleep|slow)-([0-9]{1,6})-ms")


def _action(name: str) -> Callable[[], None]:
    timed = _TIMED.fullmatch(name)
    if timed is None:
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[name]
        # To this thread, which then goes no step further; a signal to the process may reach another one first.
        return lambda: signal.pthread_kill(threading.get_ident(), number)
    delay_s = int(timed[2]) / 1_000
    if timed[1] != "kill-in":
        return lambda: time.sleep(delay_s)
    return lambda: threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()


def never(_point: Point) -> None:
    """Do nothing: the ordinary case."""


def from_setting(setting: str | None) -> FaultHook:
    """Return the function that fails as the setting says. Raises ValueError: it names no point, action or hit."""
    if not setting:
        return never
    try:
        name, action_name, hit_text = setting.split(":")
        point, action, hit = Point(name), _action(action_name), int(hit_text)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"fault must be point:action:hit with point one of {', '.join(Point)} and action one of "
            f"kill, stop, kill-in-N-ms, sleep-N-ms, slow-N-ms, got {setting!r}"
        ) from error
    hits = 0
    again = action_name.startswith("slow-")

    def reach(reached: Point) -> None:
        nonlocal hits
        if reached is point:
            hits += 1
            if hits == hit or (again and hits > hit):
                action()

    return reach
