"""
Exact copies first: before a document is searched for, its first bucket is looked at for an original
that is equal in all that is compared.

Many documents of a crawl are copies, byte for byte. Nothing is more similar than an equal one, so
they are not searched for: with 1 M originals a copy takes a sixth of the time of a new document.
Documents are looked at COPIES_TOGETHER at a time: their buckets are prefetched, then the doubts and
the sketches of what is equal.

    found    place of the entry, then its row (64 bits) | the call's row that it equals (64 bits)

It is a short cut, nothing else: a search without it finds the same. Where it is not sure, it finds
nothing: where more originals share a fingerprint than a search confirms, and where sketches are
prefetched before any is read (`asks`). If originals may be listed in other tables than the first
alone, it looks into each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import prefetch, read32, read64, write64
from worker.core.tables import confirm
from worker.core.tables.confirm import (
    LOOK_MAX,
    MARK_LAST,
    SIMILARITY_MAX,
    UNCONFIRMED,
)
from worker.core.tables.doubts import ask_doubts, doubts_of
from worker.core.tables.entries import TOP, ZERO, arranged, bucket_of
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.scan import BUCKET_SHIFT, View, ask_range, scan_probe
from worker.core.tables.second_look import look, products

COPIES_TOGETHER = signed(64)  # rows of a call that are looked at together
IDENTICAL = signed(1 << 32)  # a smaller rank is a row: similarity and look 1000, distance 0
LEAD = signed(8)  # rows whose buckets are prefetched ahead


@inner
def view_of_equal(view: View) -> View:
    """Return the view of a search for equal fingerprints alone."""
    return View(
        view.tables,
        view.bits,
        view.heads,
        view.filters,
        view.refs,
        view.doubts,
        view.found,
        signed(0),
        view.look_min,
        view.vectors,
    )


@inner
def is_equal(
    memory: DirectedMemory, view: View, i: int, doubts: NDArray[np.uint64], row: int
) -> bool:
    """Return whether an original with a document's fingerprint is equal in all else, too."""
    product, norms = products(ZERO, doubts[i], doubts_of(view.doubts, row))
    if look(product, norms) != LOOK_MAX:
        return False
    memory.sketches_read += 1
    own = memory.fresh + confirm.SKETCH_BYTES * i
    similarity = confirm.sketch_similarity(own, confirm.sketch_of(memory, row))
    if similarity != SIMILARITY_MAX:
        return False
    other = confirm.mark_of(memory, row)
    mark = read64(memory.fresh_marks, i) if memory.fresh_marks else confirm.NO_MARK
    return mark == confirm.NO_MARK or not confirm.are_apart(mark, other, similarity)


@inner
def scan_tables(memory: DirectedMemory, view: View, fingerprint: np.uint64, begin: int) -> int:
    """
    Queue the entries that equal a fingerprint, at place `begin` and behind it; return where they
    end: at `begin`, if there are more than the search keeps, which knows which of them count.
    """
    waiting = begin
    tables = view.tables if memory.unlisted else signed(1)
    for table in range(tables):
        own = arranged(memory, signed(table), fingerprint)
        probe = np.uint64(bucket_of(memory, signed(table), own)) << BUCKET_SHIFT
        below = TOP - read64(memory.widths, table)
        waiting, entries = scan_probe(view, probe, own, below, waiting)
        memory.filters_read += entries
        if waiting - begin > confirm.kept_max(memory):
            return begin
    return waiting


@inner
def find_equal(
    memory: DirectedMemory,
    view: View,
    fingerprints: NDArray[np.uint64],
    doubts: NDArray[np.uint64],
    ranks: NDArray[np.int64],
    begin: int,
    end: int,
) -> int:
    """
    Give rows `begin` to `end` - 1 of the call, COPIES_TOGETHER of them at most, the rank of the
    first original that equals them, and the others UNCONFIRMED; return where it stopped.
    """
    end = min(begin + COPIES_TOGETHER, end)
    for i in range(begin, end):
        ranks[i] = UNCONFIRMED
    if memory.asking or memory.fresh == 0:  # sketches must not be read yet, or there are none
        return signed(end)
    equal = view_of_equal(view)
    probes = memory.firsts
    count = signed(end - begin)
    for number in range(count):
        own = arranged(memory, signed(0), fingerprints[begin + number])
        bucket = bucket_of(memory, signed(0), own)
        write64(probes, number, np.uint64(bucket) << BUCKET_SHIFT)
        prefetch(view.heads, 8 * bucket)
    ask_range(view, probes, signed(0), min(LEAD, count))
    waiting = signed(0)
    for number in range(count):
        ask_range(view, probes, number + LEAD, min(number + LEAD + 1, count))
        before = waiting
        waiting = scan_tables(memory, equal, fingerprints[begin + number], before)
        for place in range(before, waiting):
            write64(view.found, 2 * place + 1, np.uint64(begin + number))
    for place in range(waiting):
        row = signed(read32(view.refs, signed(read64(view.found, 2 * place))))
        write64(view.found, 2 * place, np.uint64(row))
        ask_doubts(view.doubts, row)
        sketch = confirm.sketch_of(memory, row)
        prefetch(sketch, signed(0))
        prefetch(sketch, MARK_LAST)
    for place in range(waiting):
        row = signed(read64(view.found, 2 * place))
        i = signed(read64(view.found, 2 * place + 1))
        if row < ranks[i] and is_equal(memory, view, i, doubts, row):
            ranks[i] = row
    return signed(end)
