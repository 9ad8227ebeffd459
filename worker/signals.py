"""
SIGINT and SIGTERM end a command: by an exception, so that outputs are removed and the cursor comes
back; where that is not certain to be heard, also by the clock.

    signal ─► handler ─► Interrupted in the main thread ─► the command's own clean-up ─► 130, 143
                 │            │ dropped on its way: the signal is sent again
                 │ while a module is being imported: it is sent again a moment later
                 └─ within `ended_in_time`, a thread: END_S later, or at the second signal

An exception that comes at any instruction can be lost: a finalizer reports and drops it, a
document's own `except Exception` gets it as the cause of another. So it is watched: if it is
dropped before the process has begun to end, the signal is sent again.

While a module is being imported, nothing is raised: modules written in C or Rust (orjson, for one)
can crash the interpreter when what they import in their turn fails half-way.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

END_S = 1.0  # from the first signal on; to kill an engine takes up to a second more
# signal: exit code as shells give it, and what is said.
ENDS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
# The signals that have come. What they raise within a call of the Kafka client may end as any other
# error, and the command line gives 130 for each of them.
received: list[int] = []
_AGAIN_S = 0.05  # by then the finalizer that lost the exception has ended
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"  # the file that its code objects name
_sent_again: list[int] = []
_watched: list[weakref.ref[Interrupted]] = []
_is_ending = threading.Event()
_ending = threading.Lock()  # one thread says the last word


class Interrupted(KeyboardInterrupt):
    """The exception that a signal raises in the main thread."""


def handle() -> None:
    """
    Have SIGINT and SIGTERM raise `Interrupted`, unless they are ignored: a shell has its background
    processes ignore Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _report_unraisable


def cause_of(error: BaseException) -> Interrupted | None:
    """
    Return what a signal raised among the causes of an error; `None` if no signal is behind it.

    A call into C that a signal interrupts may end with a SystemError, and that may have been the
    cause of another before it is seen.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, Interrupted):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def begin_to_end() -> tuple[int, str]:
    """
    Return the exit code and what is said; from here on no signal is sent again.

    Without a signal of its own (Ctrl-C before `handle`) it is that of SIGINT.
    """
    _is_ending.set()
    return ENDS[signal.Signals(received[0] if received else signal.SIGINT)]


@contextmanager
def ended_in_time() -> Iterator[list[Callable[[], None]]]:
    """
    End the process END_S after the first signal of this block, and at once at the second.

    Nothing else is waited for: the client of Spark has threads that talk to a server which may be
    gone, and Python would wait for them at its end. A library can also swallow the exception, or be
    deep in a call that does not return, so a thread of our own hears of signals, too, and ends the
    process when the time is over.

    Yields:
        A list of what is done right before the process ends, in order: it must not wait for
        anybody, and may be done already. A signal can cut off the block's own clean-up.
    """
    last: list[Callable[[], None]] = []
    received_before = len(received)
    heard, hears = os.pipe()
    os.set_blocking(hears, False)
    former = signal.set_wakeup_fd(hears, warn_on_full_buffer=False)
    threading.Thread(target=_end_in_time, args=(heard, last), daemon=True).start()
    try:
        yield last
    finally:
        if len(received) > received_before:
            _end(received[received_before], last)
        signal.set_wakeup_fd(former)
        os.close(hears)


def _interrupt(number: int, frame: FrameType | None) -> None:
    received.append(number)
    if _is_importing(frame):
        _send_again(number)
        return
    error = Interrupted()
    _watched.append(weakref.ref(error, lambda _: _send_again(number)))
    try:
        raise error
    finally:
        # The exception's traceback holds this frame. If the frame held the exception in turn, only
        # the garbage collector would drop it, perhaps never, and its end would go unnoticed.
        del error


def _is_importing(frame: FrameType | None) -> bool:
    """Tell whether the code at this frame runs as part of an import, however deep."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    if _is_ending.is_set() or sys.is_finalizing():
        return

    def send() -> None:
        _sent_again.append(number)  # before it is heard, as it is none of the user's
        os.kill(os.getpid(), number)

    again = threading.Timer(_AGAIN_S, send)
    again.daemon = True
    again.start()


def _report_unraisable(lost: sys.UnraisableHookArgs) -> None:
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)


def _end_in_time(heard: int, last: list[Callable[[], None]]) -> None:
    """
    End the process END_S after the first signal, or at the second. Returns when no process writes
    any more.
    """
    sent_before = len(_sent_again)
    count = 0
    first: int | None = None
    until_s = 0.0
    with os.fdopen(heard, "rb", buffering=0) as signals:
        while True:
            wait_s = None if first is None else max(until_s - time.monotonic(), 0)
            if not select.select([signals], [], [], wait_s)[0]:
                break
            number = signals.read(1)
            if not number:
                return
            if number[0] not in ENDS:
                continue
            count += 1
            if first is None:
                first = number[0]
                until_s = time.monotonic() + END_S
            if count - (len(_sent_again) - sent_before) > 1:
                break
        assert first is not None, "nothing else ends the loop"
        _end(first, last)


def _end(number: int, last: list[Callable[[], None]]) -> None:
    """
    End the process with the last word.

    The block's thread and the one that hears of signals may both come here: one of them speaks, and
    the other waits for the end. A signal within lets the other one go on.
    """
    with _ending:
        for action in last:
            with suppress(Exception):
                action()
        from worker.shell.runtime import logging  # noqa: PLC0415  # importing this module stays cheap

        code, text = ENDS[signal.Signals(number)]
        logging.end(text)
        sys.stderr.flush()
        os._exit(code)
