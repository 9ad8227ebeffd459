"""The command `neardup`: hands over to the command line and turns our errors into one line and an exit code."""

from __future__ import annotations

import errno
import io
import signal
import sys
from types import FrameType

from worker.errors import NeardupError

INTERRUPTED = 130  # what the command line makes of Ctrl-C
_OF_A_FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_interrupts: list[
    int
] = []  # signals: what Ctrl-C raises within a call of the Kafka client may end as any other error


def main() -> None:
    """Run the command line; an error of ours is one line on stderr and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _run()
    except KeyboardInterrupt:  # before the command line has begun, which takes a second
        _end("interrupted")
        sys.exit(INTERRUPTED)
    except NeardupError as error:
        _end(str(error))
        sys.exit(1)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end("interrupted")
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
        from worker.cli import app  # noqa: PLC0415  # `python -c 'import worker.__main__'` stays cheap

        app()
    except Exception as error:
        if _interrupts:
            raise KeyboardInterrupt from error
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def _end(text: str, error: Exception | None = None) -> bool:
    from worker.shell.runtime import logging  # noqa: PLC0415  # the same

    return logging.end(text, error)


if __name__ == "__main__":
    main()
