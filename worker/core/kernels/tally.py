"""
The sign of 64 sums at once: hashes are added as columns of bits, not as 64 counters.

`planes[p]` holds bit p of all 64 counts. Adding a hash is an addition with carry: plane 0 takes the bit, what
overflows moves up. Eight hashes go through a tree of carry-save adders first, so the upper planes are touched once in
eight (Harley and Seal's population count, by position).

    planes[2]  0 1 1 …        the count of bit 0 is 0·4 + 1·2 + 1·1 = 3
    planes[1]  1 0 1 …
    planes[0]  1 1 0 …
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.simhash import DOUBT_BITS, DOUBT_LEFT, DOUBT_RIGHT

U = np.uint64
PLANES = 40  # counts to 2**40: more shingles than any text has


@fused
def add_hashes(hashes: Any, count: Any, weight: Any, planes: Any, tally: Any) -> None:
    """
    Add `weight` to `tally[bit]` for every hash that has the bit, subtract it for every one that has not.

    Args:
        hashes: uint64, the first `count` of them.
        planes: uint64[PLANES], scratch.
        tally: int64[64 or more], the first 64 of them.
    """
    for plane in range(PLANES):
        planes[plane] = U(0)
    ones = U(0)
    twos = U(0)
    fours = U(0)
    i = U(0)
    while i + U(8) <= count:
        ones, two_a = _added(ones, hashes[i], hashes[i + U(1)])
        ones, two_b = _added(ones, hashes[i + U(2)], hashes[i + U(3)])
        twos, four_a = _added(twos, two_a, two_b)
        ones, two_a = _added(ones, hashes[i + U(4)], hashes[i + U(5)])
        ones, two_b = _added(ones, hashes[i + U(6)], hashes[i + U(7)])
        twos, four_b = _added(twos, two_a, two_b)
        fours, carry = _added(fours, four_a, four_b)
        _carry(planes, np.int64(3), carry)
        i += U(8)
    planes[0], planes[1], planes[2] = ones, twos, fours
    while i < count:
        _carry(planes, np.int64(0), hashes[i])
        i += U(1)
    top = 0
    while count >> U(top):
        top += 1
    for bit in range(64):
        tally[bit] -= weight * np.int64(count)
    for plane in range(top):
        twice = weight << np.int64(plane + 1)
        for bit in range(64):
            tally[bit] += twice * np.int64((planes[plane] >> U(bit)) & U(1))


@fused
def _added(a: Any, b: Any, c: Any) -> Any:
    """Three columns of bits added: the sums, and what overflows."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


@fused
def _carry(planes: Any, plane: Any, carry: Any) -> None:
    """Add one column of bits at a plane, and what overflows above it."""
    while carry != U(0):
        overflow = planes[plane] & carry
        planes[plane] ^= carry
        carry = overflow
        plane += 1


@fused
def signs(tally: Any) -> Any:
    """Bit i is 1 where `tally[i]` is above 0."""
    value = U(0)
    for bit in range(64):
        value |= U(tally[bit] > 0) << U(bit)
    return value


@fused
def doubt_rule(tally: Any, bits: Any) -> Any:
    """
    How far sums are shifted, and the square below which one is doubtful: `simhash.doubts`.

    Args:
        bits: of the fingerprint; `tally[:bits]` count.
    """
    every = U(0)  # as long as the largest
    for bit in range(bits):
        every |= U(abs(tally[bit]))
    shift = U(0)
    while every >> (shift + U(DOUBT_BITS)):
        shift += U(1)
    total = U(0)
    for bit in range(bits):
        size = U(abs(tally[bit])) >> shift
        total += size * size
    # left * square < right * total, for whole squares: square < ceil(right * total / left)
    left = U(DOUBT_LEFT) * U(bits)
    return shift, (U(DOUBT_RIGHT) * total + left - U(1)) // left


@fused
def doubts(tally: Any, shift: Any, limit: Any) -> Any:
    """Bit i is 1 where `tally[i]` is doubtful by this rule."""
    value = U(0)
    for bit in range(64):
        size = U(abs(tally[bit])) >> shift
        value |= U(size * size < limit) << U(bit)
    return value
