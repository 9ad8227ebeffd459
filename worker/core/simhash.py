"""The definition, step 4: weighted features to a SimHash fingerprint; and how two fingerprints compare."""

from __future__ import annotations

from collections.abc import Iterable

from worker.core.shingles import finish

__all__ = ["fold", "hamming_distance", "similarity", "wide_hash"]

SECOND_HALF = 0x9E3779B97F4A7C15  # added before the mix that makes bits 64 to 127 of a feature's hash
WEIGHT_SUM_MAX = 1 << 62  # the kernels' tally is a signed 64-bit number


def wide_hash(value: int, bits: int) -> int:
    """
    A 64-bit feature hash as one of `bits` bits: the low 32, all 64, or 64 more mixed from them.

    >>> hex(wide_hash(0x1_0000_0002, 32))
    '0x2'
    """
    if bits == 128:
        return finish((value + SECOND_HALF) & (1 << 64) - 1) << 64 | value
    return value & (1 << bits) - 1


def fold(features: Iterable[tuple[int, int]], bits: int = 64) -> int:
    """
    Fold weighted features into one SimHash fingerprint.

    Bit i is 1 when the features whose hash has bit i set outweigh those whose hash has not. A tie gives 0. The order of
    the features does not matter.

    Args:
        features: pairs of a 64-bit hash and a weight (>= 1), at least one; an equal hash may come again.
        bits: 32, 64 or 128.
    Returns:
        An integer in [0, 2**bits). 0 is a fingerprint, not "none".
    Raises:
        ValueError: no features (every empty page would match every other), a weight below 1, a sum beyond 2**62.

    Cost: O(bits · features) time, O(bits) memory.  Source: Charikar, STOC 2002.

    >>> fold([(0b01, 1), (0b10, 1)])
    0
    >>> fold([(0b01, 1), (0b10, 300)])
    2
    """
    tally = [0] * bits
    total = 0
    for value, weight in features:
        if weight < 1:
            raise ValueError(f"a weight must be at least 1, got {weight}: leave the feature out instead")
        total += weight
        wide = wide_hash(value, bits)
        for bit in range(bits):
            tally[bit] += weight if wide >> bit & 1 else -weight
    if not 0 < total < WEIGHT_SUM_MAX:
        raise ValueError(f"the weights of a fingerprint must sum to 1 to 2**62, got {total}")
    return sum(1 << bit for bit in range(bits) if tally[bit] > 0)


def hamming_distance(a: int, b: int) -> int:
    """
    The bits in which two fingerprints differ.

    Cost: O(1).

    >>> hamming_distance(0b1010, 0b0110)
    2
    """
    return (a ^ b).bit_count()


def similarity(a: int, b: int, bits: int = 64) -> float:
    """
    The share of equal bits: 1 for equal fingerprints, about 0.5 for unrelated texts.

    Raises:
        ValueError: a fingerprint has more bits than `bits`.

    Cost: O(1).

    >>> similarity(0, 0b1111, bits=32)
    0.875
    """
    if (a | b) >> bits:
        raise ValueError(f"a fingerprint of {bits} bits is below 2**{bits}, got {a:#x} and {b:#x}")
    return 1 - hamming_distance(a, b) / bits
