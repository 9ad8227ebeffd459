"""
Rings of equal fingerprints: slots that hold the same one, ascending by row, the last and the first neighbours.

Only the first of a ring stands in the tables, for all. A million copies of one page cost a query no more than one.
"""

from __future__ import annotations

import numpy as np

from worker.core.kernels.machine import read32, write32
from worker.core.tables.words import BACKS, NEXTS, ROWS, Words, inner, signed

NOTHING = np.uint32(0)


@inner
def neighbour(words: Words, column: int, slot: int) -> int:
    """The slot after (NEXTS) or before (BACKS) one in its ring, or -1."""
    return signed(read32(words[column], slot)) - 1


@inner
def join(words: Words, before: int, after: int) -> None:
    """Make two slots neighbours in a ring."""
    write32(words[NEXTS], before, np.uint32(after + 1))
    write32(words[BACKS], after, np.uint32(before + 1))


@inner
def link(words: Words, first: int, slot: int) -> None:
    """Put a slot into the ring of `first`, by row; the smallest row is kept in `first`."""
    rows = words[ROWS]
    if neighbour(words, NEXTS, first) < 0:
        join(words, first, first)
    before = signed(first)
    own, held = read32(rows, slot), read32(rows, first)
    if own < held:
        write32(rows, slot, held)
        write32(rows, first, own)
    else:
        before = neighbour(words, BACKS, first)
        while before != first and read32(rows, before) > own:
            before = neighbour(words, BACKS, before)
    after = neighbour(words, NEXTS, before)
    join(words, before, slot)
    join(words, slot, after)


@inner
def unlink(words: Words, slot: int) -> None:
    """Take a slot out of its ring."""
    before = neighbour(words, BACKS, slot)
    after = neighbour(words, NEXTS, slot)
    join(words, before, after)
    for alone in (slot, before if before == after else slot):  # one that is left is no ring
        write32(words[NEXTS], alone, NOTHING)
        write32(words[BACKS], alone, NOTHING)
