"""
Workers and other commands, forked from a process that has imported everything and loaded its
kernels: most of a start is done once.

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
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PR_SET_PDEATHSIG = 1
COMMAND_S = 300.0  # only a command that hangs takes as long
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
    arguments = ["worker", "--worker-id", worker_id]
    process = FORKED.Process(target=_work, args=(module, arguments, dict(environment), output))
    process.start()
    output.close()
    return process


def ran(
    *arguments: str | Path, environment: Mapping[str, str], module: str = "worker"
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENTS` to its end; return its exit code and what it printed."""
    words = [*map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "stdout", Path(folder) / "stderr"
        process = FORKED.Process(target=_command, args=(module, words, dict(environment), outputs))
        process.start()
        process.join(COMMAND_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, COMMAND_S, *map(Path.read_bytes, outputs))
        return subprocess.CompletedProcess(
            words, process.exitcode, *(path.read_text("utf-8") for path in outputs)
        )


def _work(
    module: str, arguments: list[str], environment: dict[str, str], output: Connection
) -> None:
    _write_to(output.fileno(), output.fileno())
    output.close()
    _become(module, arguments, environment)


def _command(
    module: str, arguments: list[str], environment: dict[str, str], outputs: tuple[Path, Path]
) -> None:
    _write_to(*(os.open(path, os.O_WRONLY | os.O_CREAT) for path in outputs))
    _become(module, arguments, environment)


def _write_to(stdout: int, stderr: int) -> None:
    """Make these files this process's output, and leave it no input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, number in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(given, number)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", 1, "utf-8", closefd=False) for number in (1, 2)
    )


def _become(module: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run the module as `python -m` does, with nothing in the environment but what is given."""
    # When the tests are killed nothing stays behind.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    faulthandler.enable()
    runpy.run_module(module, None, "__main__", alter_sys=True)
