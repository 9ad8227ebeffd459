"""
The sketch of a text: 64 bytes that estimate how many of two texts' shingles are the same.

One-permutation MinHash (Li, Owen, Zhang, NIPS 2012) of few bits (Li, Koenig, WWW 2010). The
distinct shingles fall into 256 bins by the top byte of their hash; a bin keeps two bits of the
least hash in it: 0 for an empty bin, else 1 to 3.

    bit b         low bit of bin b          bits 0 to 255: one plane
    bit 256 + b   high bit of bin b         bits 256 to 511: the other

The fingerprint finds, by signs that function words decide. The sketch confirms, and treats all
shingles alike, those of names and numbers too. Its shingles are wider than the fingerprint's
(`definition.sketch_hashes`). Of two related texts with a Jaccard index of .61 the estimate's
standard error is about .04, of unrelated ones .06.

In a short text one replaced word costs much: 4 of the 13 shingles that 16 words have, so that an
index of .53 is left. Four shingles on either side change eight bins at most. So two sketches that
differ in no more than eight bins, and have more than half of their shingles in common, are at least
as similar as a copy must be by default: .61, so a stricter threshold does without this rule. It
needs 15 bins, since two texts of 16 words that differ in one have 17 shingles, of which some share
a bin. In shorter texts, two other words pass for one: of 288,000 pairs of 8 to 30 words below a
Jaccard index of .5 (of three words), 94 became copies instead of 35. From 17 bins on they are 23,
but one other word in 16 is found in .77 of all cases instead of .88. A lower threshold for all
short texts was tried and not taken: pages of 20 words from one template, with two or three other
facts, became copies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BINS = 256
BITS = 2 * BINS
WORDS = BITS // 64
SKETCH = np.dtype((np.uint64, WORDS))  # of a column: [n, 8], the planes' words one after the other
SIMILARITY_MAX = 1_000  # similarities are in thousandths
SIMILARITY_MIN = 610  # that a duplicate must reach where nothing else is set
ONE_WORD_BINS = 8  # bins in which two sketches differ at most when one word of a text is another
ONE_WORD_EITHER = 15  # bins that at least one of the two must fill then: texts of 16 words
ONE_WORD_MIN = 520  # what they must have in common then: 9 of 17 shingles

_BIN_SHIFT = 56  # the top byte of a hash is its bin; the least of the other bits wins
# The value is taken from bits of the least hash, in the middle, of which nothing is known.
_VALUE_SHIFT = 20
_VALUE_BITS = 16


def sketch(hashes: Iterable[int]) -> int:
    """
    Return the sketch of shingle hashes as an integer of 512 bits; 0 if there are none.

    Args:
        hashes: of 64 bits each; their order and repetitions do not matter.

    Cost: O(hashes).

    >>> sketch([0x0100000000000000]) == 1 << 1, sketch([0x0100000000100000]) == 1 << 256 + 1
    (True, True)
    """
    least: dict[int, int] = {}
    for value in hashes:
        number = value >> _BIN_SHIFT
        rest = value & (1 << _BIN_SHIFT) - 1
        least[number] = min(rest, least.get(number, rest))
    made = 0
    for number, rest in least.items():
        value = 1 + (rest >> _VALUE_SHIFT & (1 << _VALUE_BITS) - 1) % 3
        made |= (value & 1) << number | (value >> 1) << BINS + number
    return made


def sketch_similarity(one: int, other: int) -> int:
    """
    Estimate the Jaccard index of the shingles of two sketches, in thousandths.

    Of the E bins that are filled in at least one sketch, B are filled in both, and M of these are
    equal. A third of unrelated values are equal by chance, so the estimate is (3 M - B) / 2 E, at
    least 0. Two empty sketches are equal: 1,000. If no more than one word of a text may be another
    (E >= 15, E - M <= 8), an estimate of ONE_WORD_MIN or more counts as SIMILARITY_MIN at least.

    >>> words = [finish << 56 for finish in range(13)]
    >>> one_replaced = [*words[:9], *(finish << 56 for finish in range(13, 17))]
    >>> sketch_similarity(sketch(words), sketch(one_replaced))  # 9 of 17
    610
    """
    low = (1 << BINS) - 1
    ones = (one | one >> BINS) & low
    others = (other | other >> BINS) & low
    differ = one ^ other
    either = (ones | others).bit_count()
    both = (ones & others).bit_count()
    equal = (ones & others & ~(differ | differ >> BINS)).bit_count()
    if either == 0:
        return SIMILARITY_MAX
    estimate = max(0, SIMILARITY_MAX * (3 * equal - both) // (2 * either))
    by_one_word = either >= ONE_WORD_EITHER and either - equal <= ONE_WORD_BINS
    if by_one_word and estimate >= ONE_WORD_MIN:
        return max(estimate, SIMILARITY_MIN)
    return estimate


def similarity(one: int, other: int) -> float:
    """
    Estimate the Jaccard index of two texts' shingles from their sketches, as verdicts do, 0 to 1.

    The standard error is about .04 at .61, and less above it.

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
    half = WORDS // 2
    ones = one[:, :half] | one[:, half:]
    others = other[:, :half] | other[:, half:]
    differ = one ^ other
    differ = differ[:, :half] | differ[:, half:]
    counts = (
        np.bitwise_count(part).sum(axis=1, dtype=np.int64)
        for part in (ones | others, ones & others)
    )
    either, both = counts
    equal = np.bitwise_count(ones & others & ~differ).sum(axis=1, dtype=np.int64)
    estimates = np.maximum(SIMILARITY_MAX * (3 * equal - both) // np.maximum(2 * either, 1), 0)
    by_one_word = (either >= ONE_WORD_EITHER) & (either - equal <= ONE_WORD_BINS)
    by_one_word &= estimates >= ONE_WORD_MIN
    estimates = np.where(by_one_word, np.maximum(estimates, SIMILARITY_MIN), estimates)
    return np.where(either == 0, SIMILARITY_MAX, estimates).astype(np.uint16)


def words_of(sketch: int) -> list[int]:
    """Return the eight words of a sketch, as a column has them."""
    return [sketch >> 64 * word & (1 << 64) - 1 for word in range(WORDS)]


def sketch_of(words: Iterable[int]) -> int:
    """Return the sketch of eight words."""
    return sum(word << 64 * place for place, word in enumerate(words))
