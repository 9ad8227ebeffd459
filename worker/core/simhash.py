"""The definition, step 4: weighted features to a SimHash fingerprint; and how two fingerprints compare."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.shingles import finish

SECOND_HALF = 0x9E3779B97F4A7C15  # added before the mix that makes bits 64 to 127 of a feature's hash
WEIGHT_SUM_MAX = 1 << 62  # the kernels' tally is a signed 64-bit number
DOUBT_BITS = 24  # of a sum that enters the rule of doubt: its square times 400 * 128 still fits 64 bits
DOUBT_LEFT, DOUBT_RIGHT = 400, 49  # (7 / 20)^2: doubtful below 0.35 of the root mean square


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
    return signs(tally(features, bits))


def tally(features: Iterable[tuple[int, int]], bits: int = 64) -> list[int]:
    """
    Return the sums whose signs are the fingerprint: for each bit the weights of features that have it, less all others.

    Args and errors are those of `fold`.

    >>> tally([(0b01, 1), (0b10, 300)], bits=32)[:3]
    [-299, 299, -301]
    """
    sums = [0] * bits
    total = 0
    for value, weight in features:
        if weight < 1:
            raise ValueError(f"a weight must be at least 1, got {weight}: leave the feature out instead")
        total += weight
        wide = wide_hash(value, bits)
        for bit in range(bits):
            sums[bit] += weight if wide >> bit & 1 else -weight
    if not 0 < total < WEIGHT_SUM_MAX:
        raise ValueError(f"the weights of a fingerprint must sum to 1 to 2**62, got {total}")
    return sums


def signs(sums: Sequence[int]) -> int:
    """
    Return the fingerprint of a tally: bit i is 1 where sum i is above 0.

    >>> signs([5, 0, -5, 1])
    9
    """
    return sum(1 << bit for bit, one in enumerate(sums) if one > 0)


def doubts(sums: Sequence[int]) -> int:
    """
    Return the doubt bits of a tally: bit i is 1 when sum i is so near zero that a small edit may change its sign.

    Near is below 0.35 of the root mean square of all sums, in whole numbers: 400 n s_i^2 < 49 (s_1^2 + ... + s_n^2),
    where each s is its absolute value without the low bits that the largest has beyond 24. A tie is no doubt.

    Cost: O(bits).  Source: Sood and Loguinov, CIKM 2011 (volatile bits).

    >>> bin(doubts([100, -34, 3, -100]))
    '0b100'
    """
    shift = max(0, max(abs(one) for one in sums).bit_length() - DOUBT_BITS)
    squares = [(abs(one) >> shift) ** 2 for one in sums]
    limit = DOUBT_RIGHT * sum(squares)
    return sum(1 << bit for bit, square in enumerate(squares) if DOUBT_LEFT * len(sums) * square < limit)


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
    Return the fingerprints of sums: bit i is 1 where the sum of bit i is above 0.

    Args:
        tallies: [n, bits or more].
    Returns:
        uint64[n, 1], or for 128 bits uint64[n, 2], low half first.
    """
    return _packed(tallies[:, :bits] > 0)


def packed_doubts(tallies: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """`doubts` of each row of sums, in the shape of `packed_signs`."""
    sizes = np.abs(tallies[:, :bits]).astype(np.uint64)
    for shift in (32, 16, 8, 4, 2, 1):  # the largest of each row ends below 2**24
        too_long = sizes.max(axis=1, initial=0) >> np.uint64(DOUBT_BITS + shift - 1) > 0
        sizes[too_long] >>= np.uint64(shift)
    squares = sizes * sizes
    limits = np.uint64(DOUBT_RIGHT) * squares.sum(axis=1, keepdims=True)
    return _packed(np.uint64(DOUBT_LEFT * bits) * squares < limits)


def _packed(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Flags [n, bits] as whole words of 64 bits, low half first."""
    padded = np.zeros((len(flags), max(64, flags.shape[1])), np.bool_)
    padded[:, : flags.shape[1]] = flags
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def hamming_distance(a: int, b: int) -> int:
    """
    Return the bits in which two fingerprints differ.

    Raises:
        ValueError: one is negative, as numbers of a signed column are.

    Cost: O(1).

    >>> hamming_distance(0b1010, 0b0110)
    2
    """
    if a < 0 or b < 0:
        raise ValueError(f"a fingerprint is 0 or more, got {a} and {b}: an int64 column is .view(np.uint64)")
    return (a ^ b).bit_count()
