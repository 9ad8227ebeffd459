"""How long a process takes to its first fingerprint, with nothing cached and later."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from tests.conftest import REPOSITORY

_FIRST = "from neardup import Fingerprinter; Fingerprinter().one('the bridge over the river was built by two brothers')"


def first_fingerprints_s(rounds: int) -> tuple[float, float]:
    """
    Seconds from the start of a process to its end, the first fingerprint made: with an empty cache, and with that one.

    By the clock, the least of all rounds: other work on the machine only adds.
    """
    first, later = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            first.append(_process_s(cache))
            later += [_process_s(cache) for _ in range(3)]
    return min(first), min(later)


def _process_s(cache: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _FIRST], cwd=REPOSITORY, env=os.environ | {"NUMBA_CACHE_DIR": cache}, check=True
    )
    return time.perf_counter() - begun
