"""
Compiles or loads the kernels before the first document needs them, by running each on tiny input.

numba compiles one function at a time in a process. So on a first start a second process compiles
the same kernels in reverse order. Each finds the other's machine code in the cache, until they
meet. Meanwhile a line says how many kernels are still to come.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from worker.core import carried
from worker.core.bodies import settle
from worker.core.compiled import cache_directory, is_kept, kernels_of, watched
from worker.core.definition import Parameters
from worker.core.document import TEXT_CHARACTERS_MAX
from worker.core.extract import AS_PLAIN
from worker.core.fingerprint import Fingerprinter
from worker.core.hash_table import HashTable
from worker.core.index import PermutedIndex
from worker.core.kernels.fingerprint import fingerprint_batch
from worker.core.kernels.json_elements import LEVELS_MAX, STATE_SIZE, scan_element
from worker.core.kernels.marks import page_marks
from worker.core.kernels.texts import ask_for
from worker.core.pages import extract_pages
from worker.core.pairs import all_pairs, clusters
from worker.core.search import SearchRules
from worker.log.replica import Replica
from worker.log.rules import ENDLESS, Definition
from worker.settings import Settings
from worker.shell.messages import decode_documents, encode_answers

DISTANCE = 3  # the kernels are the same at any other

Mode = Literal["directed", "exact"]

_looked_for: set[tuple[Mode, bool]] = set()  # by this process, with and without pages
_SHARED_MIN = 8  # kernels that are worth the start of a second process
_log = logging.getLogger("neardup")


class KernelRules(NamedTuple):
    """The settings that decide which kernels are needed; attributes as those of `Settings`."""

    parameters: Parameters
    rules: Definition
    search_threads: int


def ready(
    settings: Settings | KernelRules, *, with_pages: bool = True, everything: bool = False
) -> None:
    """
    Compile or load the kernels that a document meets on its way to a verdict.

    Args:
        settings: decide which search is compiled.
        with_pages: include what makes texts of pages, which is almost half of the work.
        everything: include what only some commands need.

    Cost: 0.5 s if the cache has it, else half a minute of processor time.
    """
    rules = KernelRules(settings.parameters, settings.rules, settings.search_threads)
    mode = rules.rules.search.mode
    steps = _steps(mode, with_pages=with_pages, everything=everything)
    missing = len(_missing(steps, mode))
    with (
        _shown(steps, mode, missing),
        _meanwhile(steps, mode, missing, rules.search_threads),
    ):
        for step in steps:
            step(rules)


def compile_first(settings: Settings | KernelRules, *, with_pages: bool = False) -> None:
    """
    Do the same, but only if a kernel is missing that can be kept. Otherwise each kernel is loaded
    when it is first needed.

    Cost: 6 ms, once a process; then nothing.
    """
    mode = settings.rules.search.mode
    if (mode, with_pages) in _looked_for:
        return
    _looked_for.add((mode, with_pages))
    if kept_in() is not None and _missing(_steps(mode, with_pages=with_pages), mode):
        ready(settings, with_pages=with_pages)


def compile_backwards(mode: Mode, threads: int, steps: list[str]) -> None:
    """Run steps in reverse order, as the second process of a first start does."""
    parameters = Parameters()
    search_rules = SearchRules(mode=mode)
    definition = Definition.of(parameters, search_rules, ENDLESS, "compare", TEXT_CHARACTERS_MAX)
    rules = KernelRules(parameters, definition, threads)
    by_name = {step.__name__: step for step in _KERNELS}
    for name in reversed(steps):
        by_name[name](rules)


def fingerprints(rules: KernelRules) -> None:
    """Compile what makes fingerprints of texts."""
    Fingerprinter(rules.parameters).warm_up()


def messages(_rules: KernelRules) -> None:
    """
    Compile what makes documents of messages, texts of their bodies unless these are pages, and
    marks of their URLs.
    """
    found = decode_documents([])
    settle(found.bodies, found.spans, np.empty(0, np.intp), [], [])
    page_marks(found.urls.data, found.urls.ends, np.empty(0, np.uint32), np.empty(0, np.uint32))
    extract_pages(["warm"], [AS_PLAIN])


def hash_tables(_rules: KernelRules) -> None:
    """Compile what finds documents by their id, URL and text."""
    table = HashTable(np.zeros(1, np.uint64).take)
    table.insert(np.zeros(1, np.uint64), np.zeros(1, np.uint32))
    table.find(np.zeros(1, np.uint64))
    table.find_all(0)
    assert table.rows.tolist() == [0]
    table.delete_many(np.zeros(1, np.uint64), np.zeros(1, np.uint32))


def arrays(_rules: KernelRules) -> None:
    """Compile what reads the elements of JSON arrays in files."""
    state = np.zeros(STATE_SIZE, np.int64)
    scan_element(np.zeros(1, np.uint8), 0, np.zeros(LEVELS_MAX, np.uint8), state)


def exact_index(_rules: KernelRules) -> None:
    """Compile exact search."""
    index = PermutedIndex(DISTANCE)
    index.judge(np.zeros(1, np.uint64), 0)
    index.query_all(0)
    index.tables.equal_bound(0)
    index.delete(0, 0)


def pairs(_rules: KernelRules) -> None:
    """Compile the search for all pairs of a set, and for clusters."""
    numbers = np.arange(2, dtype=np.uint64)
    list(all_pairs(numbers, DISTANCE))
    clusters(numbers, DISTANCE)


def search(rules: KernelRules) -> None:
    """Compile the search for originals, what writes the answers, and what stores a snapshot."""
    replica = Replica(rules.rules)
    replica.use_threads(rules.search_threads)
    replica.warm_up(encode_answers)
    column = np.zeros(1, np.uint8)
    ask_for(column.ctypes.data, column.nbytes)


def pages(_rules: KernelRules) -> None:
    """Compile what makes texts of pages."""
    extract_pages(["<p>warm"])


Step = Callable[[KernelRules], None]

_DIRECTED = (
    "tables.directed",
    "tables.entries",
    "tables.patterns",
    "tables.parallel",
    "tables.sorted_probes",
)
# The steps in the order of a first start without pages, and the modules of the core whose kernels
# each needs. The second process begins at the end, so the longest steps stand at both ends.
_KERNELS: Mapping[Step, tuple[str, ...]] = {
    fingerprints: ("kernels.fingerprint",),
    messages: ("kernels.documents", "kernels.bodies", "kernels.marks", "pages.plain"),
    hash_tables: ("hash_table",),
    arrays: ("kernels.json_elements",),
    exact_index: ("tables.exact",),
    pairs: ("pairs",),
    search: ("tables.buckets", "kernels.json_columns", "kernels.texts", *_DIRECTED),
    pages: ("pages.batch",),
}


def _steps(mode: Mode, *, with_pages: bool, everything: bool = False) -> list[Step]:
    """Return the steps that are needed, in their order."""
    needed: set[Step] = {fingerprints, messages, hash_tables, search}
    if everything:
        needed = set(_KERNELS)
    if mode == "exact":
        needed.add(exact_index)
    order = list(_KERNELS)
    if with_pages:
        needed.add(pages)
        # The second process compiles them while the first one compiles fingerprints and the search.
        order.remove(search)
        order.insert(1, search)
    return [step for step in order if step in needed]


def _missing(steps: Iterable[Step], mode: Mode) -> list[Any]:
    """Return the kernels of these steps whose machine code is not kept yet."""
    modules = {module for step in steps for module in _KERNELS[step]}
    if mode == "exact":
        modules.difference_update(_DIRECTED)
    kernels = kernels_of(f"worker.core.{module}" for module in modules)
    return [kernel for kernel in kernels if not is_kept(kernel)]


@contextmanager
def _shown(steps: list[Step], mode: Mode, missing: int) -> Iterator[None]:
    """
    Say that kernels are compiled: on a terminal in a line that counts them and goes at the end,
    else in one line of the log.
    """
    if not missing:
        yield
        return
    if carried.why_unused():
        _log.warning("%s", carried.why_unused())
    stream = sys.stderr
    if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
        _log.warning(
            "compiling %d %s, once: 20 s on two idle cores. `neardup warm-up` does it beforehand",
            missing,
            "kernel" if missing == 1 else "kernels",
        )
        with watched(lambda _kernel: None):
            yield
        return
    begun = 0

    def show(kernel: str) -> None:
        nonlocal begun
        # The second process compiles, too. Where nothing can be kept, this one counts for itself.
        begun = min(max(begun + 1, missing - len(_missing(steps, mode)) + 1), missing)
        stream.write(f"\r\x1b[Kcompiling kernel {begun} of {missing}, once: {kernel}")
        stream.flush()

    try:
        with watched(show):
            yield
    finally:
        stream.write("\r\x1b[K")
        stream.flush()


@contextmanager
def _meanwhile(steps: list[Step], mode: Mode, missing: int, threads: int) -> Iterator[None]:
    """
    Compile in a second process as well while the block runs, if there is much to do, a second core
    and a place to keep the machine code.
    """
    if missing < _SHARED_MIN or (os.cpu_count() or 1) < 2 or kept_in() is None:
        yield
        return
    names = [step.__name__ for step in steps]
    code = f"from {__name__} import *; compile_backwards({mode!r}, {threads}, {names})"
    command = [sys.executable, "-P", "-c", code]
    nothing = subprocess.DEVNULL
    # Our own functions.
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603
    try:
        yield
    finally:
        process.kill()  # this process has all it needs
        process.wait()


def kept_in() -> Path | None:
    """
    Return where machine code is kept for the next process; None if each compiles for itself.
    """
    return cache_directory(fingerprint_batch.py_func)
