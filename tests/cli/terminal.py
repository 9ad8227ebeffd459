"""Commands as processes of their own, on a terminal or without one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.conftest import plain_environment

CTRL_C = b"\x03"
COLUMNS = 120


class Started:
    """
    A command that runs; what it writes is read as it comes, so that it never waits for a reader.

    Args:
        arguments: of `neardup`.
        folder: its working directory.
        terminal: stdin, stdout and stderr are a terminal of its own, else nothing and pipes.
        program: what Python runs, if it is not the command itself.
        environment: variables that it has in addition.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        terminal: bool,
        program: Sequence[str] = ("-m", "worker"),
        **environment: str,
    ) -> None:
        self.output = b""
        self.is_on_terminal = terminal
        if terminal:
            self._reading, writing = os.openpty()
            given: int = writing
        else:
            self._reading, writing = os.pipe()
            given = subprocess.DEVNULL
        plain = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": str(COLUMNS)}
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=folder,
            env=plain_environment() | plain | environment,
            stdin=given,
            stdout=writing,
            stderr=writing,
            # A session of its own; on a terminal it has that one as its controlling terminal.
            preexec_fn=(lambda: os.login_tty(writing)) if terminal else os.setsid,  # noqa: PLW1509
            pass_fds=[writing],
        )
        os.close(writing)

    def __enter__(self) -> Started:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._reading)

    def run_for(self, seconds: float) -> int | None:
        """Let it run; return its exit code if it ends within this time, else None."""
        until = time.monotonic() + seconds
        is_open = True
        while time.monotonic() < until:
            is_open = is_open and self._read(0.02)
            if not is_open:
                time.sleep(0.01)
            if self.process.poll() is not None:
                while is_open:
                    is_open = self._read(0)
                return self.process.returncode
        return None

    def run(self, seconds: float = 120.0) -> int:
        """Let it run to its end; return its exit code."""
        code = self.run_for(seconds)
        assert code is not None, f"still running after {seconds} s: {self.output[-500:]!r}"
        return code

    def end_by(self, number: signal.Signals) -> None:
        """Send a signal; SIGINT on a terminal by the key, so that the whole foreground gets it."""
        if self.is_on_terminal and number == signal.SIGINT:
            os.write(self._reading, CTRL_C)
        else:
            self.process.send_signal(number)

    def _read(self, wait_s: float) -> bool:
        """Read what there is; return whether there may be more."""
        if not select.select([self._reading], [], [], wait_s)[0]:
            return wait_s > 0
        try:
            piece = os.read(self._reading, 1 << 16)
        except OSError:  # of a terminal that nobody has open any more
            return False
        self.output += piece
        return bool(piece)
