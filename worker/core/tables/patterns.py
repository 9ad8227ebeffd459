"""
The probes of a directed search: which buckets a fingerprint looks into, and what for. Equal to `worker.core.search`.

The bits of a block are taken to the top of the 64, the others below them. The topmost name a bucket, the lower 48 are
the filter of an entry, so that together they say all of a fingerprint.

    probe    block's width (8 bits) | distance left for the filter (8) | filter looked for (48)      one word
"""

from __future__ import annotations

import numpy as np

from worker.core.kernels.machine import popcount, read64, write64
from worker.core.tables.words import (
    BITS,
    DISTANCE_MAX,
    PATTERNS,
    PIECE_ENDS,
    PIECES,
    PROBES,
    TABLES,
    WIDTHS,
    Words,
    inner,
    signed,
)

TURNS = 4  # queries whose probes are kept: the one that is answered and those for which memory is asked for
FILTER_BITS = np.uint64(48)
FILTER_MASK = np.uint64((1 << 48) - 1)
ZERO, ONE = np.uint64(0), np.uint64(1)
TOP = np.uint64(64)
WIDTH_SHIFT = np.uint64(56)
SMALL_MASK = np.uint64(0xFF)


@inner
def turn_words(tables: int, patterns: int) -> int:
    """Words of one turn: how many probes it has, then a bucket and a probe each."""
    return signed(1 + 2 * tables * patterns)


def scratch_words(tables: int, patterns: int) -> int:
    """Words behind PROBES: some turns, and the patterns of a block."""
    return TURNS * (1 + 2 * tables * patterns) + patterns


@inner
def width_of(words: Words, table: int) -> np.uint64:
    return read64(words[WIDTHS], table)


@inner
def arranged(words: Words, table: int, fingerprint: np.uint64) -> np.uint64:
    """A fingerprint, or its doubts, with the bits of a table's block on top."""
    value = ZERO
    pieces = words[PIECES]
    for piece in range(signed(read64(words[PIECE_ENDS], table)), signed(read64(words[PIECE_ENDS], table + 1))):
        run = (fingerprint >> read64(pieces, 3 * piece)) & read64(pieces, 3 * piece + 1)
        value |= run << read64(pieces, 3 * piece + 2)
    return value


@inner
def bucket_of(words: Words, table: int, value: np.uint64) -> int:
    """The bucket of an arranged fingerprint."""
    return signed(value >> (TOP - np.uint64(words[BITS]))) + signed(table << words[BITS])


@inner
def turn_at(words: Words, turn: int) -> int:
    """The address of a turn's probes."""
    return signed(words[PROBES] + 8 * (turn & (TURNS - 1)) * turn_words(words[TABLES], words[PATTERNS]))


@inner
def probes_of(turn: int) -> int:
    """How many probes the query of a turn, by its address, has."""
    return signed(read64(turn, signed(0)))


@inner
def bucket_at(turn: int, number: int) -> int:
    return signed(read64(turn, 1 + 2 * number))


@inner
def probe_at(turn: int, number: int) -> np.uint64:
    return read64(turn, 2 + 2 * number)


@inner
def left_of(probe: np.uint64) -> np.uint32:
    """The distance that is left for the filter."""
    return np.uint32(probe >> FILTER_BITS & SMALL_MASK)


@inner
def below_block(probe: np.uint64) -> np.uint64:
    """How many bits lie below the block."""
    return TOP - (probe >> WIDTH_SHIFT)


@inner
def with_one_of(address: int, count: int, limit: int, taken: np.uint64, bits: np.uint64) -> int:
    """Write `taken` with each single one of `bits`, ascending; gives how many patterns there are now."""
    while bits != ZERO and count < limit:
        bit = bits & (~bits + ONE)
        bits ^= bit
        write64(address, count, taken | bit)
        count += 1
    return signed(count)


@inner
def with_two_of(address: int, count: int, limit: int, taken: np.uint64, bits: np.uint64) -> int:
    rest = bits
    while rest != ZERO and count < limit:
        bit = rest & (~rest + ONE)
        rest ^= bit
        count = with_one_of(address, count, limit, taken | bit, bits & (bit - ONE))
    return signed(count)


@inner
def with_three_of(address: int, count: int, limit: int, taken: np.uint64, bits: np.uint64) -> int:
    rest = bits
    while rest != ZERO and count < limit:
        bit = rest & (~rest + ONE)
        rest ^= bit
        count = with_two_of(address, count, limit, taken | bit, bits & (bit - ONE))
    return signed(count)


@inner
def write_patterns(address: int, doubts: np.uint64, width: np.uint64, limit: int) -> int:
    """Write the likeliest patterns of a block in their order; gives their number."""
    sure = ~doubts & ((ONE << width) - ONE)
    write64(address, signed(0), ZERO)
    count = with_one_of(address, signed(1), limit, ZERO, doubts)
    count = with_two_of(address, count, limit, ZERO, doubts)
    count = with_three_of(address, count, limit, ZERO, doubts)
    count = with_one_of(address, count, limit, ZERO, sure)
    rest = doubts
    while rest != ZERO and count < limit:
        bit = rest & (~rest + ONE)
        rest ^= bit
        count = with_three_of(address, count, limit, bit, doubts & (bit - ONE))
    while sure != ZERO and count < limit:
        bit = sure & (~sure + ONE)
        sure ^= bit
        count = with_one_of(address, count, limit, bit, doubts)
    return signed(count)


@inner
def prepare(words: Words, turn: int, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Write the probes of a query."""
    address = turn_at(words, turn)
    found = words[PROBES] + 8 * TURNS * turn_words(words[TABLES], words[PATTERNS])  # scratch
    number = signed(0)
    for table in range(words[TABLES]):
        width = width_of(words, table)
        below = TOP - width
        own = arranged(words, table, fingerprint)
        count = write_patterns(found, arranged(words, table, doubts) >> below, width, words[PATTERNS])
        for i in range(count):
            pattern = read64(found, i)
            flipped = np.uint64(popcount(pattern))
            if flipped <= np.uint64(words[DISTANCE_MAX]):
                value = own ^ (pattern << below)
                left = np.uint64(words[DISTANCE_MAX]) - flipped
                write64(address, 1 + 2 * number, np.uint64(bucket_of(words, table, value)))
                write64(address, 2 + 2 * number, width << WIDTH_SHIFT | left << FILTER_BITS | (value & FILTER_MASK))
                number += 1
    write64(address, signed(0), np.uint64(number))
