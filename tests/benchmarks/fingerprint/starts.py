"""How long a process takes to its first fingerprint, with nothing cached and later."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from tests.conftest import REPOSITORY

__all__ = ["first_fingerprints_s", "one_call_us"]

_FIRST = "from worker import Fingerprinter; Fingerprinter().one('the bridge over the river was built by two brothers')"


def first_fingerprints_s(rounds: int) -> tuple[list[float], list[float]]:
    """
    Seconds from the start of a process to its end, the first fingerprint made: with an empty cache, and with that one.

    By the clock: on a busy machine it says more of the machine.
    """
    first, later = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            first.append(_process_s(cache))
            later += [_process_s(cache) for _ in range(3)]
    return first, later


def _process_s(cache: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _FIRST], cwd=REPOSITORY, env=os.environ | {"NUMBA_CACHE_DIR": cache}, check=True
    )
    return time.perf_counter() - begun


def one_call_us(texts: list[str], rounds: int = 20) -> float:
    """Processor microseconds of a call with one `str`, the mean over the texts; the best of some rounds."""
    from worker import Fingerprinter  # noqa: PLC0415

    one = Fingerprinter().one
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for text in texts:
            one(text)
        best = min(best, time.process_time() - begun)
    return best / len(texts) * 1e6
