"""
Exact copies first: before a document is searched for, the first of its buckets is looked at for an
original that is equal in all that is compared.

Half of a crawl are copies, byte for byte. Nothing is more similar than an equal one, so no other
probe is made for them: with 1 M originals a copy takes a sixth of the time of a new document.
Documents are looked at ROWS at a time: their buckets are prefetched, then the doubts and the
sketches of what is equal.

It is a short cut, nothing else: a search without it finds the same.
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
from worker.core.tables.entries import TOP, arranged, bucket_of
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.scan import BUCKET_SHIFT, View, ask_range, scan_probe
from worker.core.tables.second_look import look, products

ROWS = signed(64)  # of a call that are looked at together
IDENTICAL = signed(1 << 32)  # a smaller rank has similarity and look 1000 and distance 0
LEAD = signed(8)  # rows whose buckets are prefetched ahead
ZERO = np.uint64(0)


@inner
def of_equal_ones(view: View) -> View:
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
def is_first_equal(memory: DirectedMemory, row: int) -> bool:
    """
    Return whether no original before the first equal one in the first table can be equal, too.

    Such an original would be listed in other tables alone. The later one has become an original
    although it found it, so the two are kept apart, and it has a mark.
    """
    return memory.unlisted == 0 or bool(confirm.mark_of(memory, row) == confirm.NO_MARK)


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
    Rank the originals that equal rows `begin` to `end` - 1 of the call, ROWS of them at most;
    return where it stopped. Other rows get UNCONFIRMED.
    """
    end = min(begin + ROWS, end)
    for i in range(begin, end):
        ranks[i] = UNCONFIRMED
    if memory.asking or memory.fresh == 0:  # no sketch is read
        return signed(end)
    equal = of_equal_ones(view)
    probes = memory.firsts
    below = TOP - read64(memory.widths, signed(0))
    for i in range(begin, end):
        bucket = bucket_of(memory, signed(0), arranged(memory, signed(0), fingerprints[i]))
        write64(probes, i - begin, np.uint64(bucket) << BUCKET_SHIFT)
        prefetch(view.heads, 8 * bucket)
    ask_range(view, probes, signed(0), min(LEAD, end - begin))
    waiting = signed(0)
    for i in range(begin, end):
        ask_range(view, probes, i - begin + LEAD, min(i - begin + LEAD + 1, end - begin))
        own = arranged(memory, signed(0), fingerprints[i])
        before = waiting
        waiting, entries = scan_probe(equal, read64(probes, i - begin), own, below, waiting)
        memory.filters_read += entries
        if waiting - before > confirm.kept_max(memory):  # the search knows which of them count
            waiting = before
        for number in range(before, waiting):
            write64(view.found, 2 * number + 1, np.uint64(i))
    for number in range(waiting):
        row = signed(read32(view.refs, signed(read64(view.found, 2 * number))))
        write64(view.found, 2 * number, np.uint64(row))
        ask_doubts(view.doubts, row)
        sketch = confirm.sketch_of(memory, row)
        prefetch(sketch, signed(0))
        prefetch(sketch, MARK_LAST)
    for number in range(waiting):
        row = signed(read64(view.found, 2 * number))
        i = signed(read64(view.found, 2 * number + 1))
        if row < ranks[i] and is_equal(memory, view, i, doubts, row):
            ranks[i] = row
    for i in range(begin, end):
        if ranks[i] < IDENTICAL and not is_first_equal(memory, signed(ranks[i])):
            ranks[i] = UNCONFIRMED
    return signed(end)
