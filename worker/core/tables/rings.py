"""
The rings of an exact index: slots with equal fingerprints, linked so that the tables have to name
only one of them.

    slot 7 (row 3) ──► slot 2 (row 5) ──► slot 9 (row 8) ──► slot 7
    └ stands in the tables, for all

A ring ascends by row, the last and the first neighbours. Only the first stands in the tables: a
million copies of one page cost a query no more than one. A slot that is alone is in no ring: its
links are 0.

A ring is no second way to look something up: the tables find its first, and links of four bytes
the rest. `tables/__init__.py` says what entries for all of them would cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import read32, write32
from worker.core.tables.memory import ExactMemory, signed

NOTHING = np.uint32(0)


@inner
def neighbour(links: int, slot: int) -> int:
    """Return the slot after (by `nexts`) or before (by `backs`) one in its ring, or -1."""
    return signed(read32(links, slot)) - 1


@inner
def join(memory: ExactMemory, before: int, after: int) -> None:
    """Make two slots neighbours in a ring."""
    write32(memory.nexts, before, np.uint32(after + 1))
    write32(memory.backs, after, np.uint32(before + 1))


@inner
def link(memory: ExactMemory, first: int, slot: int) -> None:
    """Put a slot into the ring of `first`, by row; the smallest row is kept in `first`."""
    rows = memory.rows
    if neighbour(memory.nexts, first) < 0:
        join(memory, first, first)
    before = signed(first)
    own = read32(rows, slot)
    held = read32(rows, first)
    if own < held:
        write32(rows, slot, held)
        write32(rows, first, own)
    else:
        before = neighbour(memory.backs, first)
        while before != first and read32(rows, before) > own:
            before = neighbour(memory.backs, before)
    after = neighbour(memory.nexts, before)
    join(memory, before, slot)
    join(memory, slot, after)


@inner
def unlink(memory: ExactMemory, slot: int) -> None:
    """Take a slot out of its ring."""
    before = neighbour(memory.backs, slot)
    after = neighbour(memory.nexts, slot)
    join(memory, before, after)
    for alone in (slot, before if before == after else slot):  # one that is left is no ring
        write32(memory.nexts, alone, NOTHING)
        write32(memory.backs, alone, NOTHING)


@inner
def slot_of(memory: ExactMemory, first: int, row: np.uint32) -> int:
    """
    Return the slot of a ring, or of a slot alone, that has this row, or -1.

    The ring ascends by row and is looked through from both ends, so rows that leave in their order,
    or the latest first, cost O(1) each, however long the ring is. Others cost half of it at most.
    """
    rows = memory.rows
    low = first
    high = neighbour(memory.backs, first)
    if high < 0:
        high = first
    while read32(rows, low) < row < read32(rows, high) and low != high:
        low = neighbour(memory.nexts, low)
        high = high if low == high else neighbour(memory.backs, high)
    if read32(rows, low) == row:
        return low
    return high if read32(rows, high) == row else signed(-1)


def ring_of(nexts: NDArray[np.uint32], first: int) -> list[int]:
    """
    Return the slots of a ring from its first on, in plain Python.

    >>> ring_of(np.array([0, 4, 0, 2], np.uint32), 1), ring_of(np.array([0, 4, 0, 2]), 2)
    ([1, 3], [2])
    """
    slots = [first]
    while nexts[slots[-1]] and (slot := int(nexts[slots[-1]]) - 1) != first:
        slots.append(slot)
    return slots
