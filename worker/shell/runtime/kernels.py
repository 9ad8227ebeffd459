"""
Compiles or loads the kernels before the first document needs them, by running each on tiny input.

numba compiles one function at a time in a process. So on a first start a second process compiles
some kernels while this one compiles the others; each then finds the other's machine code in the
cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from worker.core.bodies import settle
from worker.core.compiled import cache_directory, is_kept
from worker.core.fingerprint import Fingerprinter
from worker.core.index import PermutedIndex
from worker.core.kernels.fingerprint import fingerprint_batch
from worker.core.kernels.json_elements import LEVELS_MAX, STATE_SIZE, scan_element
from worker.core.kernels.marks import page_marks
from worker.core.kernels.texts import ask_for
from worker.core.pages import extract_pages
from worker.core.pages.batch import extract_batch
from worker.core.pairs import all_pairs, clusters
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.messages import decode_documents, encode_answers

DISTANCE = 3  # the kernels are the same at any other


def ready(settings: Settings, *more: Callable[[], None]) -> None:
    """
    Compile or load the kernels that a document meets on its way to a verdict.

    Args:
        more: functions of this module for further kernels.

    Cost: 0.5 s when the cache has it, else some seconds.
    """
    steps = (pages, messages, snapshots, *more)
    with _meanwhile(steps):
        Fingerprinter(settings.parameters).warm_up()
        replica = Replica(settings.definition)
        replica.use_threads(settings.search_threads)
        replica.warm_up(encode_answers)
    for step in steps:
        step()


def compile_first(settings: Settings) -> None:
    """
    Do the same, but only on a first start. A later start loads each kernel when it is first needed.
    """
    if not _are_pages_kept():
        ready(settings)


def pages() -> None:
    """Compile what makes texts of pages: half of what a first start waits for."""
    extract_pages(["<p>warm"])


def messages() -> None:
    """
    Compile what makes documents of messages, texts of their bodies of bytes, and marks of their
    URLs.
    """
    found = decode_documents([])
    settle(found.bodies, found.spans, np.empty(0, np.intp), [], [])
    page_marks(found.urls.data, found.urls.ends, np.empty(0, np.uint32), np.empty(0, np.uint32))


def snapshots() -> None:
    """Compile what writes a snapshot."""
    column = np.zeros(1, np.uint8)
    ask_for(column.ctypes.data, column.nbytes)


def arrays() -> None:
    """Compile what reads the elements of JSON arrays in files."""
    state = np.zeros(STATE_SIZE, np.int64)
    scan_element(np.zeros(1, np.uint8), 0, np.zeros(LEVELS_MAX, np.uint8), state)


def exact_index() -> None:
    """Compile exact search."""
    index = PermutedIndex(DISTANCE)
    index.judge(np.zeros(1, np.uint64), 0)
    index.query_all(0)
    index.delete(0, 0)


def pairs() -> None:
    """Compile the search for all pairs of a set, and for clusters."""
    numbers = np.arange(2, dtype=np.uint64)
    list(all_pairs(numbers, DISTANCE))
    clusters(numbers, DISTANCE)


def kept_in() -> Path | None:
    """
    Return where machine code is kept for the next process; None when each compiles for itself.
    """
    return cache_directory(fingerprint_batch.py_func)


def _are_pages_kept() -> bool:
    """Return whether `pages` would load its machine code, or have no place to keep it."""
    return is_kept(extract_batch._cache) or cache_directory(extract_batch.py_func) is None


def _meanwhile(steps: Iterable[Callable[[], None]]) -> AbstractContextManager[object]:
    """
    Run functions of this module in a second process, if this is a first start and there is a second
    core.
    """
    if _are_pages_kept() or (os.cpu_count() or 1) < 2:
        return nullcontext()
    code = f"from {__name__} import *; " + "; ".join(f"{step.__name__}()" for step in steps)
    command = [sys.executable, "-P", "-c", code]
    nothing = subprocess.DEVNULL
    # Our own functions.
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603
