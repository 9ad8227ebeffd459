"""
Worker processes forked from one that has imported everything and loaded its kernels: most of a
start is done once.

Each is a process of its own with its own id, signals, environment and output, and runs the command
line from there on. What they do not test is what comes before, imports and the loading of machine
code, and the interpreter's end: it waits for threads, calls what is registered for the exit and
chooses the exit code. Rows 15 and 20 execute the command.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

PR_SET_PDEATHSIG = 1
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [__name__, "worker.cli", "worker.shell.pipeline.service", "tests.faults.loaded"]
)


class Executed(subprocess.Popen[bytes]):
    """The command itself, executed, with the names of a forked process."""

    def __init__(
        self, module: str, worker_id: str, environment: Mapping[str, str], output: Connection
    ) -> None:
        with output:
            super().__init__(
                [sys.executable, "-m", module, "worker", "--worker-id", worker_id], env=environment,
                stdin=subprocess.DEVNULL, stdout=output.fileno(), stderr=output.fileno(),
            )  # fmt: skip

    @property
    def exitcode(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.poll()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout)


def started(
    module: str, worker_id: str, environment: Mapping[str, str], output: Connection
) -> ForkServerProcess:
    """
    Start `python -m MODULE worker --worker-id ID`; what it prints goes to `output`, which is closed
    here.
    """
    process = FORKED.Process(target=_run, args=(module, worker_id, dict(environment), output))
    process.start()
    output.close()
    return process


def _run(module: str, worker_id: str, environment: dict[str, str], output: Connection) -> None:
    # When the tests are killed no worker stays behind.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for own, number in ((nothing, 0), (output.fileno(), 1), (output.fileno(), 2)):
        os.dup2(own, number)
    output.close()
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", 1, "utf-8", closefd=False) for number in (1, 2)
    )
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, "worker", "--worker-id", worker_id]
    faulthandler.enable()
    runpy.run_module(module, None, "__main__", alter_sys=True)
