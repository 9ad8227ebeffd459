"""
The sketch of a text: 64 bytes that estimate how many phrases of two texts are the same. A phrase is
a shingle of four tokens, or of three where a token is a character (`definition.sketch_hashes`).

It is a bitmap. The distinct phrases fall into 504 bins by the top nine bits of their hash, and the
bit of a bin says that it holds a phrase. How many phrases a bitmap stands for follows from the
number of its bits (linear counting: Whang, Vander-Zanden, Taylor, TODS 1990). Two bitmaps and their
union thus give the phrases of both texts and of their union, and with these the Jaccard index.

    bit b, 0 to 503    bin b holds a phrase that counts
    bits 504 to 511    the level, 0 to 127

A long text would fill the bitmap. There, only the phrases with the least hashes count: at level l,
those whose lower half is below a share 8 / rate(l) of all (`rate`: 8, 9, 10, … 15, 16, 18, 20 …).
The level of a text is the lowest that leaves at most 312 bits set. Up to some 480 phrases all
count, and two texts of different levels are compared by the phrases that count in both.

The fingerprint finds, by signs that function words decide. The sketch confirms, and treats all
phrases alike, those of names and numbers too. Phrases are wider than the fingerprint's shingles.
The estimate's standard error at a Jaccard index of .6 is .02 for
texts of up to 200 words, .025 for 400, and .035 for long ones. It is .04 to .05 for long texts of
different levels. The estimate never says that two texts share more than one of them has. So if one
text lies wholly within another one of another level, errors upwards are cut off, and the estimate
is .02 too low on average.

Why a bitmap: a one-permutation MinHash of 256 bins with two bits each (Li, Owen, Zhang, NIPS 2012)
was used before, and had errors of .03 to .04 in the same 64 bytes. Its error came from the phrases
that the bins happened to choose, and was common to all pages of a template, so whole templates
passed. 512 bins of one bit with densification (.036) were no better. The error of an odd sketch
(Mitzenmacher, Pagh, Pham, WWW 2014) was a tenth smaller than that of the bitmap, but an odd sketch
has to find and count each distinct phrase, which takes time.

In a short text, one replaced word costs a lot. A text of 16 words has 13 phrases, and the word
changes 4 of them, so the index falls to .53. Therefore an estimate of more than a half is raised to
.54, the default threshold, if neither sketch has more than four bits that the other lacks. With a
stricter threshold this rule has no effect. Both sketches together must have 16 bits: two texts of
16 words that differ in one word have 17 phrases, and two of these may share a bin. In shorter
texts, the rule could not distinguish two replaced words from one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

WORDS = 8
BITS = 64 * WORDS
BINS = BITS - 8  # the last byte is the level
SKETCH = np.dtype((np.uint64, WORDS))  # of a column: [n, 8]
SIMILARITY_MAX = 1_000  # similarities are in thousandths
SIMILARITY_MIN = 540  # default that a duplicate must reach
BINS_MAX = 312  # a text fills at most so many: with more, shared bins cost accuracy
LEVEL_MAX = 127  # counts one phrase of 61,440
ONE_WORD_BINS = 4  # bits that either of two sketches may lack when one word of a text is another
ONE_WORD_EITHER = 16  # bits that both must have together then: texts of 16 words
ONE_WORD_MIN = 520  # they must then have this in common: 9 of 17 phrases

RATE_ONE = 8  # the rate at which every phrase counts
BIN_SHIFT = 55  # the top nine bits of a hash are its bin; those beyond the last bin ...
BINS_BACK = 256  # ... go into one that is so much lower
_HALF = 32  # bits: the lower half of a hash says at which levels it counts
_EMPTY = (1 << _HALF) - 1  # of a bin without a phrase: counts at no level
_COUNT_BITS = 8  # binary places of `COUNTS`


def _counts() -> tuple[int, ...]:
    """
    Return the number of phrases that this many set bits stand for, times 256.

    When i of the bins are filled, BINS / (BINS - i) phrases fall on average until one falls into
    an empty bin.
    """
    counts = [0]
    for filled in range(BINS):
        counts.append(counts[-1] + (BINS << _COUNT_BITS) // (BINS - filled))
    return tuple(counts)


COUNTS = _counts()
_COUNTS = np.array(COUNTS, np.int64)


def rate(level: int) -> int:
    """
    Return a level's rate: one phrase of `rate(level) / RATE_ONE` counts.

    >>> [rate(level) for level in (0, 1, 7, 8, 9, 16)]
    [8, 9, 15, 16, 18, 32]
    """
    return (RATE_ONE + level % RATE_ONE) << level // RATE_ONE


def sketch(hashes: Iterable[int]) -> int:
    """
    Return the sketch of phrase hashes as an integer of 512 bits; 0 if there are none.

    Args:
        hashes: hashes of 64 bits. Their order and repetitions do not matter.

    Cost: O(hashes).

    >>> sketch([0]) == 1 << 0, sketch([503 << 55]) == 1 << 503, sketch([504 << 55]) == 1 << 248
    (True, True, True)
    """
    least = [_EMPTY] * BINS
    for value in hashes:
        number = value >> BIN_SHIFT
        if number >= BINS:
            number -= BINS_BACK
        least[number] = min(value & _EMPTY, least[number])
    level = 0
    while level < LEVEL_MAX and sum(_counting(least, level)) > BINS_MAX:
        level += 1
    bits = sum(1 << number for number, is_set in enumerate(_counting(least, level)) if is_set)
    return level << BINS | bits


def _counting(least: list[int], level: int) -> list[bool]:
    """Return which bins have a phrase that counts at a level."""
    return [(one + 1) * rate(level) < RATE_ONE << _HALF for one in least]


def sketch_similarity(one: int, other: int) -> int:
    """
    Estimate the Jaccard index of the phrases of two sketches, in thousandths.

    The phrases that two texts share are those of both, less those of their union. Two empty
    sketches are equal: 1,000. If no more than one word of a text may be another (at most four bits
    that either lacks, of 16 or more), an estimate of ONE_WORD_MIN or more counts as SIMILARITY_MIN
    at least.

    >>> words = [finish << 55 for finish in range(13)]
    >>> one_replaced = [*words[:9], *(finish << 55 for finish in range(13, 17))]
    >>> sketch_similarity(sketch(words), sketch(one_replaced))  # 9 of 17
    540
    """
    bins = (1 << BINS) - 1
    filled = (one & bins).bit_count()
    other_filled = (other & bins).bit_count()
    either = ((one | other) & bins).bit_count()
    if either == 0:
        return SIMILARITY_MAX
    own_rate = rate(one >> BINS & LEVEL_MAX)
    other_rate = rate(other >> BINS & LEVEL_MAX)
    count = COUNTS[filled] * own_rate
    other_count = COUNTS[other_filled] * other_rate
    both = max(0, COUNTS[filled] + COUNTS[other_filled] - COUNTS[either])
    shared = min(both * max(own_rate, other_rate), count, other_count)
    estimate = SIMILARITY_MAX * shared // (count + other_count - shared)
    lacking = either - min(filled, other_filled)
    if either >= ONE_WORD_EITHER and lacking <= ONE_WORD_BINS and estimate >= ONE_WORD_MIN:
        return max(estimate, SIMILARITY_MIN)
    return estimate


def similarity(one: int, other: int) -> float:
    """
    Estimate the Jaccard index of two texts' phrases from their sketches, as verdicts do, 0 to 1.

    The standard error is .02 to .035 at .6, the larger the longer the texts are, and less above it.

    Args:
        one: a sketch as `Fingerprint.sketch` has it, an integer of 512 bits.
        other: the sketch that it is compared with.
    Raises:
        TypeError: a sketch is not a whole number.

    Cost: 1 µs.

    >>> similarity(sketch([1 << 60, 2 << 60]), sketch([1 << 60, 2 << 60]))
    1.0
    """
    return sketch_similarity(operator.index(one), operator.index(other)) / SIMILARITY_MAX


def sketch_similarities(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """`sketch_similarity` of many pairs; uint64[n, 8] each."""
    filled = _filled(one)
    other_filled = _filled(other)
    either = _filled(one | other)
    own_rate = _rates(one)
    other_rate = _rates(other)
    count = _COUNTS[filled] * own_rate
    other_count = _COUNTS[other_filled] * other_rate
    both = np.maximum(_COUNTS[filled] + _COUNTS[other_filled] - _COUNTS[either], 0)
    shared = np.minimum(both * np.maximum(own_rate, other_rate), np.minimum(count, other_count))
    estimates = SIMILARITY_MAX * shared // np.maximum(count + other_count - shared, 1)
    lacking = either - np.minimum(filled, other_filled)
    by_one_word = (either >= ONE_WORD_EITHER) & (lacking <= ONE_WORD_BINS)
    by_one_word &= estimates >= ONE_WORD_MIN
    estimates = np.where(by_one_word, np.maximum(estimates, SIMILARITY_MIN), estimates)
    return np.where(either == 0, SIMILARITY_MAX, estimates).astype(np.uint16)


def _filled(sketches: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits each sketch has, without its level."""
    bits: NDArray[np.int64] = np.bitwise_count(sketches).sum(axis=1, dtype=np.int64)
    bits -= np.bitwise_count(sketches[:, -1] >> np.uint64(BINS % 64))
    return bits


def _rates(sketches: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the rate of each sketch's level."""
    levels = (sketches[:, -1] >> np.uint64(BINS % 64)).astype(np.int64) & LEVEL_MAX
    rates: NDArray[np.int64] = (RATE_ONE + levels % RATE_ONE) << levels // RATE_ONE
    return rates


def words_of(sketch: int) -> list[int]:
    """Return the eight words of a sketch, as a column has them."""
    return [sketch >> 64 * word & (1 << 64) - 1 for word in range(WORDS)]


def sketch_of(words: Iterable[int]) -> int:
    """Return the sketch of eight words."""
    return sum(word << 64 * place for place, word in enumerate(words))
