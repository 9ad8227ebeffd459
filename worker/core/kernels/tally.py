"""
From the hashes of shingles to signs and doubts: how often each feature occurs, the weighted sums of
its bits, and what the sums say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core import definition
from worker.core.compiled import fused

# How often each feature of a document occurs, without a branch and without clearing a table.
#
# Every hash writes its number into the slot of its leading bits; the last one to write stays.
# Reading the slots again finds the last occurrence of each hash (it reads its own number), the
# earlier occurrences (they read the number of an equal hash) and the few whose slot another hash
# has taken. Those few go through the same again, with their bits mixed anew, until none is left.
# Different hashes rarely share a slot twice, so a text needs few rounds, even a text that was
# chosen to need many.
#
#     hashes   a  b  a  c  d        slots of a, d = 1; of b = 2; of c = 3
#     slot     1  2  1  3  1   ──►  table[1] = 4 (d), table[2] = 1 (b), table[3] = 3 (c)
#     b, c, d found themselves; both a go to the second round

U = np.uint64
ONE = 0  # term frequencies: what n occurrences leave in the list
LOG = 1
TF = 2
TABLE_BITS_MAX = 21  # 8 MB; in a longer text, several hashes share a slot


@fused
def table_bits(count: Any) -> Any:
    """Return the bits of a table for this many hashes: four to eight slots for each."""
    bits = U(6)
    while (U(1) << bits) < U(4) * count and bits < U(TABLE_BITS_MAX):
        bits += U(1)
    return bits


@fused
def settle(hashes: Any, count: Any, rule: Any, out: Any, scratch: Any) -> Any:
    """
    Write each distinct hash of `hashes[:count]` to `out`, as often as the term frequency says.

    That is once (ONE), once for each power of two that its occurrences reach (LOG), or once for
    every occurrence (TF).

    Args:
        out: uint64[count + 1].
        scratch: any content: uint32[1 << table_bits(count)], two uint32[count + 1], uint64[count +
            1].
    Returns:
        How many hashes were written, and how many distinct ones there were.
    """
    _, _, _, displaced = scratch
    shift = U(64) - table_bits(count)
    factor = U(definition.MULTIPLIER)
    kept, distinct, pending = _round(hashes, count, U(1), shift, rule, out, U(0), scratch)
    while pending != U(0):
        kept, more, pending = _round(displaced, pending, factor, shift, rule, out, kept, scratch)
        distinct += more
        factor *= U(definition.MULTIPLIER)
    return kept, distinct


@fused
def _round(
    source: Any, count: Any, factor: Any, shift: Any, rule: Any, out: Any, kept: Any, scratch: Any
) -> tuple[Any, Any, Any]:
    """
    Write the hashes that keep their slot, and collect those whose slot another hash has taken.

    Returns:
        How many hashes `out` now has, how many distinct ones were written, and how many were
        displaced.
    """
    table, again, losers, displaced = scratch
    for k in range(count):
        table[(source[k] * factor) >> shift] = k
        again[k] = 0
    left = U(0)
    for k in range(count):
        value = source[k]
        wins = U(table[(value * factor) >> shift] == k)
        out[kept] = value
        kept += wins
        losers[left] = k
        left += wins ^ U(1)
    pending = U(0)
    for j in range(left):
        value = source[losers[j]]
        winner = U(table[(value * factor) >> shift])
        same = U(source[winner] == value)
        more = U(again[winner]) + same  # occurrences beyond the first
        again[winner] = more
        counts = U(rule == TF) | (U(rule == LOG) & U((more & (more + U(1))) == U(0)))
        out[kept] = value
        kept += same & counts
        displaced[pending] = value
        pending += same ^ U(1)
    return kept, count - left, pending


# The sign of 64 sums at once: hashes are added as columns of bits, not as 64 counters.
#
# `planes[p]` holds bit p of all 64 counts. Adding a hash is an addition with carry: plane 0 takes
# the bit, and a carry moves up to the next plane. Sixteen hashes go through a tree of carry-save
# adders first, so the upper planes are touched only once per sixteen hashes (Harley and Seal's
# population count, by position). There the carry goes through all planes that a text of common
# length needs: to stop where none is left would be a branch that cannot be predicted, and cost more
# than the rest.
#
#     planes[2]  0 1 1 …        the count of bit 0 is 0·4 + 1·2 + 1·1 = 3
#     planes[1]  1 0 1 …
#     planes[0]  1 1 0 …

PLANES = 40  # counts to 2**40: more shingles than any text has
GROUP = 16  # hashes that are added together
_COMMON = 10  # planes of up to 1,023 hashes


@fused
def add_hashes(hashes: Any, count: Any, weight: Any, planes: Any, tally: Any) -> None:
    """
    Add `weight` to `tally[bit]` for each of `hashes[:count]` that has the bit; subtract it if not.

    Args:
        planes: uint64[PLANES + GROUP], scratch.
        tally: int64[64 or more]; the first 64 are used.
    """
    planes[:] = U(0)
    rest = planes[PLANES:]
    ones = U(0)
    twos = U(0)
    fours = U(0)
    eights = U(0)
    for begin in range(U(0), count, U(GROUP)):
        source = hashes
        at = U(begin)
        if count - at < U(GROUP):  # the last ones, and zeros
            for k in range(count - at):
                rest[k] = hashes[at + U(k)]
            source = rest
            at = U(0)
        ones, twos, fours, eight_a = _eight_added(ones, twos, fours, source, at)
        ones, twos, fours, eight_b = _eight_added(ones, twos, fours, source, at + U(8))
        eights, carry = _added(eights, eight_a, eight_b)
        for plane in range(4, _COMMON):
            overflow = planes[plane] & carry
            planes[plane] ^= carry
            carry = overflow
        _carry(planes, np.int64(_COMMON), carry)
    planes[0], planes[1], planes[2], planes[3] = ones, twos, fours, eights
    top = 0
    while count >> U(top):
        top += 1
    for bit in range(64):
        tally[bit] -= weight * np.int64(count)
    for plane in range(top):
        twice = weight << np.int64(plane + 1)
        for bit in range(64):  # a mask, since few processors multiply lanes of 64 bits
            tally[bit] += twice & -np.int64((planes[plane] >> U(bit)) & U(1))


@fused
def _eight_added(ones: Any, twos: Any, fours: Any, hashes: Any, i: Any) -> Any:
    """Add `hashes[i:i + 8]` to the three lowest planes: returns these, and the carries."""
    ones, two_a = _added(ones, hashes[i], hashes[i + U(1)])
    ones, two_b = _added(ones, hashes[i + U(2)], hashes[i + U(3)])
    twos, four_a = _added(twos, two_a, two_b)
    ones, two_a = _added(ones, hashes[i + U(4)], hashes[i + U(5)])
    ones, two_b = _added(ones, hashes[i + U(6)], hashes[i + U(7)])
    twos, four_b = _added(twos, two_a, two_b)
    fours, carry = _added(fours, four_a, four_b)
    return ones, twos, fours, carry


@fused
def _added(a: Any, b: Any, c: Any) -> Any:
    """Add three columns of bits: returns the sums and the carries."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


@fused
def _carry(planes: Any, plane: Any, carry: Any) -> None:
    """Add one column of bits to a plane, and the carries to the planes above it."""
    while carry != U(0):
        overflow = planes[plane] & carry
        planes[plane] ^= carry
        carry = overflow
        plane += 1


@fused
def signs(tally: Any) -> Any:
    """Return a number whose bit i is 1 where `tally[i]` is above 0."""
    value = U(0)
    for bit in range(64):
        value |= U(tally[bit] > 0) << U(bit)
    return value


@fused
def doubt_rule(tally: Any, bits: Any) -> Any:
    """
    Return the rule by which `definition.doubts` calls a sum doubtful, for the first `bits` sums.

    Returns:
        How far to shift each sum to the right, and the square below which the result is doubtful.
    """
    every = U(0)  # has as many bits as the largest sum
    for bit in range(bits):
        every |= U(abs(tally[bit]))
    shift = U(0)
    while every >> (shift + U(definition.DOUBT_BITS)):
        shift += U(1)
    total = U(0)
    for bit in range(bits):
        size = U(abs(tally[bit])) >> shift
        total += size * size
    # Squares of 32 bits, one multiplication of a lane instead of three, were no faster.
    # left * square < right * total, for whole squares: square < ceil(right * total / left)
    left = U(definition.DOUBT_LEFT) * U(bits)
    return shift, (U(definition.DOUBT_RIGHT) * total + left - U(1)) // left


@fused
def doubts(tally: Any, shift: Any, limit: Any) -> Any:
    """
    Return a number whose bit i is 1 where `tally[i]` is doubtful by the rule that `doubt_rule`
    returns.
    """
    value = U(0)
    for bit in range(64):
        size = U(abs(tally[bit])) >> shift
        value |= U(size * size < limit) << U(bit)
    return value
