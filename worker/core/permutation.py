"""
Blocks and permutations: which bits key which table, so that no match within k bits is missed.

Two fingerprints that differ in k bits agree in at least m - k of m blocks, wherever the bits fall.
One table for each choice of m - k blocks therefore finds every match by an exact look-up of its
leading blocks (Manku, Jain and Das Sarma, WWW 2007). The 64 bits, most significant first, as 6
blocks for k = 3:

    AAAAAAAAAAABBBBBBBBBBBCCCCCCCCCCCDDDDDDDDDDDEEEEEEEEEEFFFFFFFFFF

and some of the 20 tables, leading blocks before the bar, each with the bits by which it is keyed:

    ABC|DEF  AAAAAAAAAAABBBBBBBBBBBCCCCCCCCCCC...............................
    ABD|CEF  AAAAAAAAAAABBBBBBBBBBB...........DDDDDDDDDDD....................
    DEF|ABC  .................................DDDDDDDDDDDEEEEEEEEEEFFFFFFFFFF

Fewer blocks than differing bits also work when the leading block need not be equal but may differ
in some bits (multi-index hashing: Norouzi, Punjani, Fleet, 2012): 7 bits over 4 blocks leave one
block with at most 1 of them, so 4 tables probed at all 17 neighbouring prefixes miss nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from math import comb
from typing import NamedTuple

BITS = 64
TABLES_MAX = 1_024  # C(12, 5) = 792; beyond that a scan is faster than the tables


class Block(NamedTuple):
    """A run of adjacent bits: `width` of them, the lowest is bit `shift`."""

    shift: int
    width: int

    @property
    def mask(self) -> int:
        """The block's bits, set."""
        return ((1 << self.width) - 1) << self.shift


@dataclass(frozen=True, slots=True)
class Permutation:
    """
    An order of blocks: the first `leading` of them key a table.

    `radius`: a look-up also probes every prefix that differs from its own in at most this many
    bits.
    """

    blocks: tuple[Block, ...]
    leading: int
    radius: int = 0

    @property
    def mask(self) -> int:
        """The bits of the leading blocks, set."""
        return sum(block.mask for block in self.blocks[: self.leading])

    @property
    def prefix_bits(self) -> int:
        """How many bits key the table."""
        return sum(block.width for block in self.blocks[: self.leading])

    @property
    def probes(self) -> int:
        """Prefixes probed by one look-up: all within `radius` bits."""
        return sum(comb(self.prefix_bits, bits) for bits in range(self.radius + 1))

    def flips(self) -> list[int]:
        """Return what to xor a fingerprint with for each probe: 0 first, then by flipped bits."""
        bits = [1 << bit for bit in range(BITS) if self.mask >> bit & 1]
        return [
            sum(chosen) for count in range(self.radius + 1) for chosen in combinations(bits, count)
        ]


@dataclass(frozen=True, slots=True)
class Layout:
    """Tables that together miss no match within `max_distance`."""

    name: str
    max_distance: int
    permutations: tuple[Permutation, ...]

    @property
    def probes(self) -> int:
        """Prefixes probed by one query, over all tables."""
        return sum(permutation.probes for permutation in self.permutations)


def split_bits(blocks: int, bits: int = BITS) -> tuple[int, ...]:
    """
    Return the widths of this many blocks, as even as possible, the wider ones first.

    >>> split_bits(5, 64)
    (13, 13, 13, 13, 12)
    """
    if not 1 <= blocks <= bits:
        raise ValueError(f"blocks must be 1 to {bits}, got {blocks}: each block needs a bit")
    return tuple(bits // blocks + (number < bits % blocks) for number in range(blocks))


def permuted(max_distance: int, blocks: int) -> Layout:
    """
    Return a table for each choice of `blocks - max_distance` leading blocks, looked up exactly.

    Args:
        max_distance: k, at least 0.
        blocks: m, more than `max_distance`; as even as can be.
    Raises:
        ValueError: no block would be left to match on; too many tables.

    >>> [len(permuted(*rules).permutations) for rules in ((3, 4), (3, 6), (6, 8))]
    [4, 20, 28]
    """
    if not 0 <= max_distance < blocks:
        raise ValueError(
            f"blocks must exceed max_distance, got blocks={blocks}, max_distance={max_distance}: "
            "no block would be left to match on"
        )
    cut = _cut(blocks)
    if (tables := comb(blocks, max_distance)) > TABLES_MAX:
        raise ValueError(
            f"{blocks} blocks for distance {max_distance} need {tables} tables, "
            f"more than {TABLES_MAX}"
        )
    leading = blocks - max_distance
    permutations = []
    for first in combinations(cut, leading):
        others = [block for block in cut if block not in first]
        permutations.append(Permutation((*first, *others), leading))
    return Layout(f"{blocks} blocks / {tables} tables", max_distance, tuple(permutations))


def probed(max_distance: int, blocks: int) -> Layout:
    """
    Return a table for each block; prefixes are looked up with their neighbours within a radius.

    Args:
        max_distance: k, at least 0.
        blocks: m, 1 to 64; as even as can be.
    Raises:
        ValueError: a block would have no bit.

    k bits over m blocks, k = m * radius + rest: were more than `radius` bits in each of the first
    `rest + 1` blocks and at least `radius` in each other, they would be more than k. So the first
    `rest + 1` tables need `radius`, the others one less; a table that needs less than 0 is left
    out.

    >>> [table.radius for table in probed(6, 4).permutations], probed(7, 4).probes
    ([1, 1, 1, 0], 68)
    """
    cut = _cut(blocks)
    radius, rest = divmod(max_distance, blocks)
    tables = []
    for number, block in enumerate(cut):
        radius_here = radius if number <= rest else radius - 1
        if radius_here >= 0:
            others = [other for other in cut if other != block]
            tables.append(Permutation((block, *others), 1, radius_here))
    return Layout(
        f"{blocks} blocks / {len(tables)} tables, radius {radius}", max_distance, tuple(tables)
    )


def nested(max_distance: int, outer: int, inner: int) -> Layout:
    """
    Return a choice of blocks, then one among the bits that are left: Manku's 4 x 4 = 16 tables for
    k = 3.
    """
    tables: list[Permutation] = []
    for first in permuted(max_distance, outer).permutations:
        chosen = first.blocks[: first.leading]
        rest = first.blocks[first.leading :]
        free = [
            bit
            for block in rest
            for bit in range(block.shift + block.width - 1, block.shift - 1, -1)
        ]
        ends = accumulate((0, *split_bits(inner, len(free))))
        parts = [free[start:end] for start, end in pairwise(ends)]
        for picked in combinations(range(inner), inner - max_distance):
            leading = (
                *chosen,
                *(piece for number in picked for piece in _pieces(parts[number], rest)),
            )
            left = [
                piece
                for number in range(inner)
                if number not in picked
                for piece in _pieces(parts[number], rest)
            ]
            tables.append(Permutation((*leading, *left), len(leading)))
    return Layout(f"{outer} x {inner} blocks / {len(tables)} tables", max_distance, tuple(tables))


def _cut(blocks: int) -> list[Block]:
    """So many blocks, from the most significant down."""
    widths = split_bits(blocks)
    return [Block(BITS - end, width) for end, width in zip(accumulate(widths), widths, strict=True)]


def _pieces(bits: list[int], blocks: tuple[Block, ...]) -> list[Block]:
    """Descending bit numbers as blocks: one piece for each block that they touch."""
    pieces = []
    for block in blocks:
        inside = [bit for bit in bits if block.mask >> bit & 1]
        if inside:
            pieces.append(Block(inside[-1], len(inside)))
    return pieces
