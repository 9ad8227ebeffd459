"""
The second look of a directed index: how alike two documents are by fingerprint and doubts, and the
rank that follows.

`search.look` defines it in plain Python: the cosine of two vectors of 64 tallies, in which a sure
bit counts SURE and a doubtful one 1. `tests/core/test_index.py` compares whole searches with that
definition, bit for bit.

No vector is made. Of two documents it is enough to count the bits in which both are doubtful, in
which one is, and in which none is, and how many of each differ.
"""

from __future__ import annotations

import numpy as np

from worker.core import search
from worker.core.compiled import inner
from worker.core.kernels.machine import read64
from worker.core.tables import confirm
from worker.core.tables.confirm import LOOK_MAX, LOOK_SHIFT, bits
from worker.core.tables.doubts import doubts_of
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.scan import View

SURE = signed(search.SURE)


@inner
def products(difference: np.uint64, doubts: np.uint64, other: np.uint64) -> tuple[int, int]:
    """
    Return the product of two documents' tallies, as far as it is known, and that of their squared
    norms.
    """
    both = doubts & other
    either = doubts | other
    product = SURE * SURE * (64 - bits(either) - 2 * bits(difference & ~either))
    product += SURE * (bits(either ^ both) - 2 * bits(difference & (either ^ both)))
    product += bits(both) - 2 * bits(difference & both)
    norm = 64 * SURE * SURE - (SURE * SURE - 1) * bits(doubts)
    other_norm = 64 * SURE * SURE - (SURE * SURE - 1) * bits(other)
    return product, norm * other_norm


@inner
def look(product: int, norms: int) -> int:
    """Return the second look in thousandths, 0 where the cosine is not positive."""
    if product <= 0:
        return signed(0)
    squared = np.uint64(LOOK_MAX * LOOK_MAX * product * product) // np.uint64(norms)
    root = np.uint64(0)
    for bit in range(9, -1, -1):
        longer = root | np.uint64(1) << np.uint64(bit)
        if longer * longer <= squared:
            root = longer
    return signed(root)


@inner
def is_alike(look_min: int, product: int, norms: int) -> bool:
    """
    Return whether the second look is at least `look_min`.

    Most fall short of it, so that is told without a division and a root: floor(sqrt(a / b)) >= m
    exactly when a >= m * m * b.
    """
    squares = LOOK_MAX * LOOK_MAX * product * product
    return bool(squares >= look_min * look_min * norms and (product > 0 or look_min == 0))


@inner
def rank_of(product: int, norms: int, difference: np.uint64, row: int) -> int:
    """Return the rank of a candidate whose sketch nobody has compared."""
    unlike = LOOK_MAX - look(product, norms)
    return signed(unlike << LOOK_SHIFT | bits(difference) << confirm.DISTANCE_SHIFT | row)


@inner
def rank_entry(memory: DirectedMemory, view: View, number: int, doubts: np.uint64) -> None:
    """
    Rank a row that was found, and keep it if it is among the best candidates.

    All lie within the distance: their filters and patterns have said so.
    """
    row = signed(read64(view.found, 2 * number))
    difference = read64(view.found, 2 * number + 1)
    product, norms = products(difference, doubts, doubts_of(view.doubts, row))
    if is_alike(view.look_min, product, norms):
        confirm.keep(memory, rank_of(product, norms, difference, row))


@inner
def rank_found(memory: DirectedMemory, view: View, count: int, doubts: np.uint64) -> None:
    """Rank the rows that were found, and keep the best candidates."""
    for number in range(count):
        rank_entry(memory, view, signed(number), doubts)
