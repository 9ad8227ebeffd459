"""
The engine of our own: a Spark Connect server without Java, in a process that can be killed.

    this process                                       the server's process
    own_server() ── starts ──────────────────────────► serve()
                 ◄── its URL, a line on stdout ──────── listens
    Engine       ── functions, through Spark Connect ─► tasks: threads of the server that run Python
    the block's end, however it comes ── SIGKILL ────► gone
    this process is gone, even by SIGKILL ── stdin ends ─► gone

A task is a thread deep in a kernel, and nothing ends a thread: the server answers a polite request
to stop when its tasks have ended, which can take minutes, and a Python process with such threads
aborts at its end. So the server is never asked. Killing it loses no file: a task's file has its
name when it is whole, and the next run makes the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec

from worker.errors import StopError

ENDING_S = 1.0  # from the end of its connections to that of the process
_servers: list[subprocess.Popen[bytes]] = []  # of this process, not yet killed
_SERVE = "from worker.shell.archive.server import serve; serve()"


class Server:
    """A server that has been started: by now it may be listening."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def url(self) -> str:
        """
        Return where it listens, once it does. StopError: it has ended before; stderr says why.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self.check()
        return line.decode().strip()

    def check(self, wait_s: float = 0) -> None:
        """Raise StopError if it has ended, or does in `wait_s`."""
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return
        reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise StopError(
            f"the engine {reason}. If memory is short, use fewer --threads. "
            "Run this again to continue"
        )


@contextmanager
def own_server(tasks_max: int) -> Iterator[Server]:
    """
    Start a server that runs this many tasks at once, and kill it at the end of the block.

    Raises ImportError: it is not installed.
    """
    if find_spec("pysail") is None:
        raise ImportError(name="pysail")
    # Python raises what a signal means in the main thread alone. Another thread starts the process
    # and notes it, so that no signal can come between the two. A signal can come as soon as that
    # thread has begun, even before `submit` returns.
    starter = ThreadPoolExecutor(1)
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield Server(starter.submit(_start, tasks_max, started).result())
    finally:
        starter.shutdown()
        for process in started:
            with process:  # which closes the pipes and waits
                process.kill()
            _servers.remove(process)


def _start(tasks_max: int, started: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start the server's process, and note it. The calling thread does nothing else."""
    variables = {"RUST_LOG": "off", "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(tasks_max)}
    # Ctrl-C reaches all processes of a terminal. This one handles it; the server inherits from this
    # thread that the signal is blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Our own function; -P: not a worker.py of the current folder.
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-c", _SERVE],
        env={**variables, **os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _servers.append(process)
    started.append(process)
    return process


def kill_servers() -> None:
    """
    Kill the servers of this process, from any thread, and see them gone: also one that is stopped,
    which would not notice that this process is gone.
    """
    for process in list(_servers):
        process.kill()
        process.wait(ENDING_S)


def serve() -> None:
    """Serve until stdin ends, which it does when the process that holds its other end is gone."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415

    from worker.shell.runtime import logging  # noqa: PLC0415

    logging.configure()
    server = SparkConnectServer()
    server.start()
    # To `Server.url`.
    print("sc://{}:{}".format(*server.listening_address), flush=True)  # noqa: T201
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # no more is read
    sys.stdin.buffer.read()
    os._exit(0)  # tasks may be running
