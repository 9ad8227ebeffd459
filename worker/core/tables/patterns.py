"""
The likeliest patterns of a block, for kernels: `search.patterns`, computed by recipes or read from
a table.

Which patterns are the likeliest depends on which bits of a block are doubtful, but their order only
on how many are: number the doubtful bits from 0 in ascending order, then the sure ones, and every
block of the same width and number of doubtful bits has the same list. A recipe is that list, taken
from the definition itself. Each pattern but the first is an earlier one with one more bit:

    step of a recipe    place of the earlier pattern (8 bits) | number of the added bit (8 bits)

A block of 16 bits has no more than 65,536 sets of doubtful bits, so the patterns of all of them are
kept in a table (4 MB with 32 patterns, in huge pages) and a search reads a cache line where a
recipe takes a hundred instructions. Wider blocks are made by their recipe for each query.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import search
from worker.core.compiled import inner
from worker.core.kernels.machine import popcount, read16, read32, read64, write16, write32
from worker.core.search import BLOCK_BITS_MAX, BLOCK_BITS_MIN
from worker.core.tables.columns import MappedColumn
from worker.core.tables.memory import DirectedMemory, kernel, signed

NARROW = signed(BLOCK_BITS_MIN)  # bits of a block whose patterns are in a table
FLIPS_MAX = 4  # bits of the longest patterns
NUMBERS = signed(BLOCK_BITS_MAX + 1)  # of doubtful bits that a block may have: 0 to 32
SCRATCH_BYTES = 4 * BLOCK_BITS_MAX
STEP_SHIFT = np.uint16(8)
BIT_MASK = np.uint16(0xFF)
TABLES_KEPT = 4  # of the rules used last in this process


class Patterns(NamedTuple):
    """
    What kernels read.

    `recipes` and `counts` are ordered by a block's width, from 16 on, then by its number of
    doubtful bits.
    """

    recipes: NDArray[np.uint16]  # steps[17, 33, patterns]
    counts: NDArray[np.int64]  # patterns[17, 33]
    table: MappedColumn[Any] | None  # patterns[65536, patterns], uint16; None: some block is wider


@inner
def recipe_number(width: int, doubts: np.uint64) -> int:
    """Return which recipe makes the patterns of a block with these doubtful bits."""
    return signed((width - NARROW) * NUMBERS + signed(popcount(doubts)))


@inner
def write_patterns(
    recipe: int, count: int, doubts: np.uint64, width: int, scratch: int, out: int
) -> None:
    """
    Write `count` patterns of a block as uint32 to the address `out`, by the recipe at another
    address.

    `scratch` is the address of SCRATCH_BYTES bytes.
    """
    doubtful = signed(0)
    sure = signed(popcount(doubts))
    for bit in range(width):  # without a branch: which bits are doubtful cannot be foreseen
        is_doubtful = signed((doubts >> np.uint64(bit)) & np.uint64(1))
        place = sure + (doubtful - sure) * is_doubtful
        write32(scratch, place, np.uint32(1) << np.uint32(bit))
        doubtful += is_doubtful
        sure += 1 - is_doubtful
    write32(out, signed(0), np.uint32(0))
    for number in range(1, count):
        step = read16(recipe, number)
        earlier = read32(out, signed(step >> STEP_SHIFT))
        write32(out, number, earlier | read32(scratch, signed(step & BIT_MASK)))


class BlockPatterns(NamedTuple):
    """The patterns of a block, where a search reads them."""

    address: int
    length: int
    are_narrow: bool  # 16 bits each, else 32


@inner
def patterns_of(memory: DirectedMemory, width: np.uint64, doubts: np.uint64) -> BlockPatterns:
    """Return the patterns of a block with these doubtful bits; wide ones are made."""
    recipe = recipe_number(signed(width), doubts)
    count = signed(read64(memory.counts, recipe))
    if memory.pattern_table:
        address = memory.pattern_table + 2 * memory.patterns * signed(doubts)
        return BlockPatterns(signed(address), count, True)
    made = signed(memory.scratch + SCRATCH_BYTES)
    steps = memory.recipes + 2 * memory.patterns * recipe
    write_patterns(steps, count, doubts, signed(width), memory.scratch, made)
    return BlockPatterns(made, count, False)


@inner
def pattern_at(patterns: BlockPatterns, number: int) -> np.uint64:
    if patterns.are_narrow:
        return np.uint64(read16(patterns.address, signed(number)))
    return np.uint64(read32(patterns.address, signed(number)))


@kernel
def fill_table(
    table: int, recipes: int, counts: NDArray[np.int64], patterns: int, buffer: int
) -> None:
    """
    Write the patterns of every block of 16 bits to the address `table`. Patterns that a block lacks
    stay 0.
    """
    made = buffer + signed(SCRATCH_BYTES)
    for doubts in range(1 << 16):
        number = recipe_number(NARROW, np.uint64(doubts))
        recipe = recipes + 2 * patterns * number
        write_patterns(recipe, counts[number], np.uint64(doubts), NARROW, buffer, made)
        for place in range(counts[number]):
            write16(table, doubts * patterns + place, np.uint16(read32(made, signed(place))))


@lru_cache(maxsize=TABLES_KEPT)
def patterns_for(widths: frozenset[int], patterns: int, flips_max: int) -> Patterns:
    """
    Return the tables of patterns that kernels need for blocks of these widths.

    Patterns that flip more than `flips_max` bits, the distance that is allowed, are left out.

    Cost: 5 to 30 ms for each width, the longer for the wider; for blocks of 16 bits alone 10 ms
    more.
    """
    kinds = BLOCK_BITS_MAX - BLOCK_BITS_MIN + 1
    recipes = np.zeros((kinds, int(NUMBERS), patterns), np.uint16)
    counts = np.zeros((kinds, int(NUMBERS)), np.int64)
    for width in widths:
        for doubtful in range(width + 1):
            steps = _recipe(doubtful, width, patterns, flips_max)
            recipes[width - BLOCK_BITS_MIN, doubtful, : len(steps)] = steps
            counts[width - BLOCK_BITS_MIN, doubtful] = len(steps)
    table = None
    if widths == {BLOCK_BITS_MIN}:
        table = MappedColumn(np.uint16, patterns << BLOCK_BITS_MIN)
        buffer = np.zeros(SCRATCH_BYTES + 4 * patterns, np.uint8)
        address = recipes.ctypes.data
        fill_table(table.address, address, counts.ravel(), patterns, buffer.ctypes.data)
    return Patterns(recipes, counts, table)


def _recipe(doubtful: int, width: int, patterns: int, flips_max: int) -> list[int]:
    """
    Return the steps of the blocks of a width with so many doubtful bits.

    >>> [(step >> 8, step & 0xFF) for step in _recipe(2, 16, 5, 4)]
    [(0, 0), (0, 0), (0, 1), (1, 1), (0, 2)]
    """
    likeliest = search.patterns((1 << doubtful) - 1, width, patterns)
    kept = [pattern for pattern in likeliest if pattern.bit_count() <= flips_max]
    places = {pattern: place for place, pattern in enumerate(kept)}
    steps = [0]
    for pattern in kept[1:]:
        bit = pattern.bit_length() - 1
        steps.append(places[pattern ^ 1 << bit] << 8 | bit)
    return steps
