"""The command `neardup`: hands over to the command line and turns our errors into one line and an exit code."""

from __future__ import annotations

import errno
import io
import sys

from worker.errors import NeardupError

INTERRUPTED = 130  # what the command line makes of Ctrl-C
_OF_A_FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def main() -> None:
    """Run the command line; an error of ours is one line on stderr and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?"
    try:
        from worker.cli import app  # noqa: PLC0415  # `python -c 'import worker.__main__'` stays cheap

        app()
    except KeyboardInterrupt:  # before the command line has begun, which takes a second
        sys.stderr.write("neardup: interrupted\n")
        sys.exit(INTERRUPTED)
    except NeardupError as error:
        sys.stderr.write(f"neardup: {error}\n")
        sys.exit(1)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            sys.stderr.write("neardup: interrupted\n")
        raise
    except OSError as error:
        if error.errno not in _OF_A_FULL_DISK:
            raise
        sys.stderr.write(f"neardup: cannot write: {error.strerror}\n")
        sys.stdout = None  # what it holds cannot be written at the end either
        sys.exit(1)


if __name__ == "__main__":
    main()
