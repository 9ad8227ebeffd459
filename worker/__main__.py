"""
The command `neardup`: hands over to the command line and turns our errors into one line and an exit
code.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

from worker import signals

INTERRUPTED = 130  # exit code after Ctrl-C


def main() -> None:
    """
    Run the command line. An error of neardup's own becomes one line on stderr and exit code 1,
    never a traceback.
    """
    _open_missing()
    signals.handle()  # before anything else is imported: that takes a while
    # At its end, Python looks for garbage among all that numba and its kernels have made: a quarter
    # of a short command's processor time. It passes over what is frozen, and memory goes with the
    # process. What else is registered for the exit has run by then.
    atexit.register(gc.freeze)
    try:
        _main()
    except KeyboardInterrupt:  # before the command line has begun
        _end_interrupted()


class _ClosedStdin(io.FileIO):
    """Stands in for a closed stdin: reading it says so, whoever does."""

    def readinto(self, _buffer: Any) -> int:
        raise _stdin_is_closed()

    def readall(self) -> bytes:
        raise _stdin_is_closed()


def _stdin_is_closed() -> Exception:
    from worker.errors import StopError  # noqa: PLC0415  # `import worker.__main__` stays cheap

    return StopError("cannot read stdin: it is closed")


def _open_missing() -> None:
    """
    Put something in the place of standard streams that are closed, as a supervisor may leave them.

    Otherwise Python has none, and the next file that is opened gets the number, so that a library
    writes its warnings into it. Reading stdin and writing to stdout are errors; what is written to
    stderr is lost.
    """
    for name, flags in (
        ("stdin", os.O_WRONLY),
        ("stdout", os.O_RDONLY),
        ("stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)  # as others are, for the processes that we start
            stream: Any
            if name == "stdin":
                stream = io.TextIOWrapper(io.BufferedReader(_ClosedStdin(number)))
            else:
                stream = os.fdopen(number, "w")
            stream.buffer.raw.name = f"<{name}>"  # as Python has it, for messages
            setattr(sys, name, stream)


def _main() -> None:
    from worker.errors import NeardupError, is_of_a_full_disk  # noqa: PLC0415  # after `handle`

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?"
    try:
        _run()
    except NeardupError as error:
        _end(str(error))
        sys.exit(1)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end_interrupted()
        raise
    except OSError as error:
        if is_of_a_full_disk(error) or error.errno in {errno.EFBIG, errno.EBADF}:
            _end(f"cannot write: {error.strerror}")
            sys.stdout = None  # its buffer cannot be written at the end either
        elif said := _said_of_place(error):
            _end(said)
        elif not _end("failed", error):
            raise
        sys.exit(1)
    except Exception as error:
        if not _end("failed", error):
            raise
        sys.exit(1)


def _said_of_place(error: OSError) -> str:
    """Return what is wrong with the place that an error is about; "" if it is about none."""
    if isinstance(error, PermissionError) and error.filename:
        # Asking whether a file is there is an error, too, where its folder may not be entered.
        return f"{error.filename}: {error.strerror}: allow it, or name another place"
    if error.errno == errno.ENAMETOOLONG and error.filename:
        return f"{error.filename}: {error.strerror}: name another place"
    try:
        os.getcwd()  # noqa: PTH109  # pathlib is not needed yet
    except FileNotFoundError:  # whoever looks for a relative name gets it
        return "the folder in which this command runs is gone: change into another one"
    return ""


def _run() -> None:
    try:
        from worker.cli import app  # noqa: PLC0415  # `import worker.__main__` stays cheap

        app()
    except Exception as error:
        if signals.received:
            raise KeyboardInterrupt from error
        raise


def _end_interrupted() -> NoReturn:
    code, text = signals.begin_to_end()
    try:
        _end(text)
    except Exception:
        # The signal came while a module was being imported, and `_end` imports what is only half
        # there. Nothing has been begun then, so the text alone will do.
        sys.stderr.write(f"neardup: {text}\n")
    # All that the command had begun is undone by now. At its end, Python would wait for the threads
    # of the Kafka client, which can take seconds, so the process does not wait for Python.
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _end(text: str, error: Exception | None = None) -> bool:
    from worker.shell.runtime import logging  # noqa: PLC0415  # the same

    return logging.end(text, error)


if __name__ == "__main__":
    main()
