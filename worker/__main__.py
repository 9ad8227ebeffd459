"""The command `neardup`: hands over to the command line and turns our errors into one line and an exit code."""

from __future__ import annotations

import sys

from worker.errors import NeardupError


def main() -> None:
    """Run the command line; an error of ours is one line on stderr and exit code 1, never a traceback."""
    from worker.cli import app  # noqa: PLC0415  # `python -c 'import worker.__main__'` stays cheap

    try:
        app()
    except NeardupError as error:
        sys.stderr.write(f"neardup: {error}\n")
        sys.exit(1)
    except BrokenPipeError:  # `neardup verdicts | head`
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
