"""The definition, step 4: weighted features to a SimHash fingerprint; and how two fingerprints compare."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.shingles import finish

__all__ = ["fold", "fold_columns", "hamming_distance", "packed_signs", "similarity", "wide_hash"]

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


def fold_columns(hashes: Sequence[int], weights: Sequence[int], bits: int = 64) -> int:
    """
    `fold`, quicker for many features.

    Args:
        hashes, weights: of each feature; integers of any kind, NumPy's too.
    Raises:
        ValueError: as `fold`, and for a hash below 0 or beyond 64 bits.
        TypeError: a hash or a weight is not a whole number: 1.5 would count as 1.

    Cost: about 0.1 ms for 1,000 features of 64 bits.

    >>> fold_columns([0b01, 0b10], [1, 300])
    2
    """
    hashes, weights = list(map(operator.index, hashes)), list(map(operator.index, weights))
    for value, weight in zip(hashes, weights, strict=True):
        if not 0 <= value < 1 << 64:
            raise ValueError(f"a feature's hash has 64 bits, got {value:#x}")
        if weight < 1:
            raise ValueError(f"a weight must be at least 1, got {weight}: leave the feature out instead")
    if not 0 < sum(weights) < WEIGHT_SUM_MAX:
        raise ValueError(f"the weights of a fingerprint must sum to 1 to 2**62, got {sum(weights)}")
    wide = np.array([[wide_hash(value, bits) >> 32 * part & 0xFFFFFFFF for part in range(bits // 32)]
                     for value in hashes], "<u4")  # fmt: skip
    ones = np.unpackbits(wide.view(np.uint8), axis=1, bitorder="little").T @ np.array(weights, np.int64)
    tallies = (2 * ones - sum(weights)).astype(np.int64)
    (halves,) = packed_signs(tallies[np.newaxis], bits)
    return sum(int(half) << 64 * place for place, half in enumerate(halves))


def packed_signs(tallies: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """
    The fingerprints of sums: bit i is 1 where the sum of bit i is above 0.

    Args:
        tallies: [n, bits or more].
    Returns:
        uint64[n, 1], or for 128 bits uint64[n, 2], low half first.
    """
    signs = np.zeros((len(tallies), max(64, bits)), np.bool_)
    signs[:, :bits] = tallies[:, :bits] > 0
    packed = np.packbits(signs, axis=1, bitorder="little").view("<u8")
    return packed.astype(np.uint64)


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
