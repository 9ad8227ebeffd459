"""
How often each feature of a document occurs, without a branch and without clearing a table.

Every hash writes its number into the slot of its leading bits; the last one to write stays. Reading the slots again
finds the last occurrence of each hash (it reads its own number), the earlier occurrences (they read the number of an
equal hash) and the few whose slot another hash has taken. Those few go through the same with other bits; what is left
after three rounds (nothing, or somebody chose the words for it) is sorted.

    hashes   a  b  a  c  d        slots of a, d = 1; of b = 2; of c = 3
    slot     1  2  1  3  1   ──►  table[1] = 4 (d), table[2] = 1 (b), table[3] = 3 (c)
    b, c, d found themselves; both a go to the second round
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, fused_allocating

U = np.uint64
ONE = 0  # term frequencies: what n occurrences leave in the list
LOG = 1
TF = 2
TABLE_BITS_MAX = 21  # three rounds of different bits out of 64
ROUNDS = 3


@fused
def table_bits(count: Any) -> Any:
    """The bits of a table for this many hashes: four to eight slots for each."""
    bits = U(6)
    while (U(1) << bits) < U(4) * count and bits < U(TABLE_BITS_MAX):
        bits += U(1)
    return bits


@fused
def settle(hashes: Any, count: Any, rule: Any, out: Any, scratch: Any) -> Any:
    """
    Write to `out` what the term frequency makes of `hashes[:count]`: each distinct hash once (ONE), once for each power
    of two that its occurrences reach (LOG), or every occurrence (TF).

    Args:
        out: uint64[count + 1].
        scratch: any content: uint32[1 << table_bits(count)], two uint32[count + 1], uint64[count + 1].
    Returns:
        How many hashes were written, and how many distinct ones there were.
    """
    table, again, losers, displaced = scratch
    bits = table_bits(count)
    mask = (U(1) << bits) - U(1)
    kept = U(0)
    distinct = U(0)
    pending = count
    source = hashes
    for turn in range(ROUNDS):
        shift = U(64) - bits * U(turn + 1)
        for k in range(pending):
            table[(source[k] >> shift) & mask] = k
            again[k] = 0
        left = U(0)
        for k in range(pending):
            value = source[k]
            wins = U(table[(value >> shift) & mask] == k)
            out[kept] = value
            kept += wins
            losers[left] = k
            left += wins ^ U(1)
        distinct += pending - left
        pending = U(0)
        for j in range(left):
            value = source[losers[j]]
            winner = U(table[(value >> shift) & mask])
            same = U(source[winner] == value)
            more = U(again[winner]) + same  # occurrences beyond the first
            again[winner] = more
            counts = U(rule == TF) | (U(rule == LOG) & U((more & (more + U(1))) == U(0)))
            out[kept] = value
            kept += same & counts
            displaced[pending] = value
            pending += same ^ U(1)
        source = displaced
        if pending == U(0):
            return kept, distinct
    return _settle_sorted(displaced, pending, rule, out, kept, distinct)


@fused_allocating
def _settle_sorted(source: Any, count: Any, rule: Any, out: Any, kept: Any, distinct: Any) -> Any:
    """The remaining hashes, sorted byte by byte: linear, whatever they are."""
    target = np.empty(count, np.uint64)
    places = np.empty(257, np.uint64)
    for byte in range(8):
        shift = U(8 * byte)
        for level in range(257):
            places[level] = 0
        for k in range(count):
            places[((source[k] >> shift) & U(255)) + U(1)] += U(1)
        for level in range(256):
            places[level + 1] += places[level]
        for k in range(count):
            at = (source[k] >> shift) & U(255)
            target[places[at]] = source[k]
            places[at] += U(1)
        source, target = target, source
    more = U(0)
    for k in range(count):
        same = U(k > 0 and source[U(k)] == source[U(k) - U(1)])
        more = (more + U(1)) * same
        distinct += same ^ U(1)
        counts = U(rule == TF) | (U(rule == LOG) & U((more & (more + U(1))) == U(0))) | (same ^ U(1))
        out[kept] = source[U(k)]
        kept += counts
    return kept, distinct
