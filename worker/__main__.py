"""
The command `neardup`: hands over to the command line and turns our errors into one line and an exit
code.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import weakref
from types import FrameType
from typing import NoReturn

from worker.errors import NeardupError

INTERRUPTED = 130  # what the command line makes of Ctrl-C
_AGAIN_S = 0.05  # by then the finalizer that lost the exception has ended
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"  # the file that its code objects name
_OF_A_FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# signal: exit code as shells give it, and what is said.
_ENDS = {signal.SIGINT: (INTERRUPTED, "interrupted"), signal.SIGTERM: (143, "terminated")}
# The signals that have come. What they raise within a call of the Kafka client may end as any other
# error, and the command line gives 130 for each of them.
_received: list[int] = []
_watched: list[weakref.ref[Interrupted]] = []
_is_ending = threading.Event()


def main() -> None:
    """
    Run the command line; an error of ours is one line on stderr and exit code 1, never a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?"
    _handle_signals()
    try:
        _run()
    except KeyboardInterrupt:  # before the command line has begun, which takes a second
        _end_interrupted()
    except NeardupError as error:
        _end(str(error))
        sys.exit(1)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end_interrupted()
        raise
    except OSError as error:
        if error.errno in _OF_A_FULL_DISK:
            _end(f"cannot write: {error.strerror}")
            sys.stdout = None  # what it holds cannot be written at the end either
        elif not _end("failed", error):
            raise
        sys.exit(1)
    except Exception as error:
        if not _end("failed", error):
            raise
        sys.exit(1)


def _run() -> None:
    try:
        from worker.cli import app  # noqa: PLC0415  # `import worker.__main__` stays cheap

        app()
    except Exception as error:
        if _received:
            raise KeyboardInterrupt from error
        raise


class Interrupted(KeyboardInterrupt):
    """What a signal raises in the main thread."""


def _handle_signals() -> None:
    """
    Have SIGINT and SIGTERM end what runs by an exception: outputs are removed, the cursor comes
    back.

    An exception that comes at any instruction can be lost: a finalizer reports and drops it, a
    document's own `except Exception` gets it as the cause of another. So it is watched: if it is
    dropped before the process has begun to end, the signal is sent again.

    While a module is being imported, nothing is raised, and the signal is sent again a moment
    later: modules written in C or Rust (orjson, for one) can crash the interpreter when what they
    import in their turn fails half-way.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _report_unraisable


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if _is_importing(frame):
        _send_again(number)
        return
    error = Interrupted()
    _watched.append(weakref.ref(error, lambda _: _send_again(number)))
    raise error


def _is_importing(frame: FrameType | None) -> bool:
    """Tell whether the code at this frame runs as part of an import, however deep."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    if not (_is_ending.is_set() or sys.is_finalizing()):
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()


def _report_unraisable(lost: sys.UnraisableHookArgs) -> None:
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)


def _end_interrupted() -> NoReturn:
    _is_ending.set()
    number = _received[0] if _received else signal.SIGINT
    code, text = _ENDS[signal.Signals(number)]
    try:
        _end(text)
    except Exception:
        # The signal came while a module was being imported, and `_end` imports what is only half
        # there. Nothing has been begun then, so the text alone will do.
        sys.stderr.write(f"neardup: {text}\n")
    sys.exit(code)


def _end(text: str, error: Exception | None = None) -> bool:
    from worker.shell.runtime import logging  # noqa: PLC0415  # the same

    return logging.end(text, error)


if __name__ == "__main__":
    main()
