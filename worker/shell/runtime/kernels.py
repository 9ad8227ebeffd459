"""
What a worker computes with, made ready before it is waited for.

numba compiles one function at a time in a process. So on a first start a second process compiles some kernels while
this one compiles the others; each then finds the other's machine code in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

from worker.core import warm
from worker.core.fingerprint import Fingerprinter
from worker.log.replica import Replica
from worker.settings import Settings


def ready(settings: Settings, *more: Callable[[], None]) -> None:
    """
    Compile, or load, what a document meets on its way to a verdict.

    Args:
        more: functions of `core.warm`, for what it does not meet.

    Cost: 0.5 s when the cache has it, else some seconds.
    """
    steps = (warm.pages, warm.messages, warm.fingerprints, *more)
    with nullcontext() if warm.are_pages_kept() else _beside(steps):
        Fingerprinter(settings.parameters).batch(["warm"])
        Replica(settings.definition).warm_up()
    for step in steps:
        step()


def compile_first(settings: Settings) -> None:
    """Do the same on a first start only: whoever starts later needs not wait for all of it at once."""
    if not warm.are_pages_kept():
        ready(settings)


@contextmanager
def _beside(steps: Iterable[Callable[[], None]]) -> Iterator[None]:
    """Have functions of `core.warm` run in a second process meanwhile, where there is a second core."""
    if (os.cpu_count() or 1) < 2:
        yield
        return
    code = "from worker.core import warm; " + "; ".join(f"warm.{step.__name__}()" for step in steps)
    with subprocess.Popen(  # noqa: S603  # our own functions
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ):
        yield
