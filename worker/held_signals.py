"""Signals that wait for the end of a change: what their handlers raise cannot cut it in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

# Those whose handlers raise in programs: Ctrl-C, an orderly end, time limits. To look at all 64
# takes five times as long.
_RAISING: tuple[int, ...] = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGXCPU,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


# Of the blocks that delay signals now, the innermost last: calls the handlers of those that came.
_blocks: list[Callable[[], None]] = []


@contextmanager
def held_back() -> Iterator[None]:
    """
    Delay signals until the block ends, because a handler may raise at any instruction.

    Only handlers in Python can raise, and they run in the main thread alone. They are called when
    the block has ended, well or not, in the order in which their signals came: all of them, though
    one raises.

    Cost: some 25 µs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    heard: list[tuple[int, FrameType | None]] = []
    is_waiting = True

    def note(number: int, frame: FrameType | None) -> None:
        if is_waiting:
            heard.append((number, frame))
        else:  # an error has kept this block's end from putting the handler back
            handlers[number](number, frame)

    def call() -> None:
        with ExitStack() as calls:  # each is called, whatever another one raises
            for number, frame in reversed(heard):
                calls.callback(handlers[number], number, frame)
            heard.clear()

    try:
        for number in _RAISING:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler  # before it is replaced, so that it certainly comes back
                signal.signal(number, note)
        _blocks.append(call)
        yield
    finally:
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        finally:
            if call in _blocks:
                _blocks.remove(call)
            is_waiting = False
            call()


def hear() -> None:
    """
    Call the handlers of the signals that have come while blocks delay them, at a place at which
    these may end: a wait, where nothing is half done. What a handler raises leaves the blocks.
    """
    if threading.current_thread() is threading.main_thread():
        for call in reversed(_blocks):  # an inner block hands them to the next outer one
            call()
