"""
The definition, step 3: tokens to weighted features.

A shingle is `width` tokens in a row. It is anchored when at least one of them is a function word. A feature is the
64-bit hash of a shingle; its weight is that of the anchored or the unanchored, times what its occurrences count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import xxhash

from worker.core.parameters import Parameters
from worker.core.tokens import masked

_64 = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd: a bijection, so no token is lost in a product


class Feature(NamedTuple):
    """A distinct shingle of a document, with what the fingerprint knows of it."""

    shingle: str  # its tokens, joined by one space
    hash: int
    weight: int
    anchored: bool
    occurrences: int


def token_hash(token: str) -> int:
    """
    XXH64, seed 0, of the token's UTF-8 bytes.

    >>> hex(token_hash("the"))
    '0x4b1b03a21f8b5f26'
    """
    return xxhash.xxh64_intdigest(token.encode("utf-8", "surrogatepass"))


def finish(value: int) -> int:
    """
    Return the finishing mix of MurmurHash3: every bit of the value moves every bit of the result.

    >>> finish(0), hex(finish(1))
    (0, '0xb456bcfc34c2cb2c')
    """
    value = ((value ^ value >> 33) * 0xFF51AFD7ED558CCD) & _64
    value = ((value ^ value >> 33) * 0xC4CEB9FE1A85EC53) & _64
    return value ^ value >> 33


def shingle_hash(hashes: Sequence[int]) -> int:
    """
    One 64-bit hash of token hashes in order: `finish(((width · M + t0) · M + t1) · M + …)`, modulo 2**64.

    The width comes first, so shingles of different widths have nothing in common.

    >>> shingle_hash([1, 2]) == shingle_hash([2, 1])
    False
    """
    value = len(hashes)
    for one in hashes:
        value = (value * MULTIPLIER + one) & _64
    return finish(value)


def occurrences_weight(occurrences: int, term_frequency: str) -> int:
    """
    Return what n occurrences of a shingle count: "one" 1, "tf" n, "log" 1 + floor(log2 n).

    The logarithm is a whole number, so that every machine agrees on it.

    >>> [occurrences_weight(n, "log") for n in (1, 2, 3, 4, 100)]
    [1, 2, 2, 3, 7]
    """
    if term_frequency == "one":
        return 1
    return occurrences if term_frequency == "tf" else occurrences.bit_length()


def features(tokens: Sequence[str], parameters: Parameters, stopwords: Collection[str]) -> list[Feature]:
    """
    Return the features of a text of `tokens_min` tokens or more, those of weight 0 left out, by first occurrence.

    With unanchored weight 0 and fewer anchored shingles than `shingles_min`, every shingle counts as anchored: a
    fingerprint of three phrases would say nothing of the rest.

    Args:
        tokens: as `tokens.tokens` gives them.
        stopwords: the function words that anchor, folded like tokens.

    Cost: O(tokens · widths).
    """
    shown = [masked(token, parameters.mask_numbers, parameters.mask_identifiers) for token in tokens]
    anchor = [token in stopwords for token in shown]
    hashes = [token_hash(token) for token in shown]
    counts: dict[tuple[int, bool], list[int]] = {}  # (hash, anchored) -> occurrences, first position, width
    anchored_count = 0
    for width in parameters.shingle_widths:
        for position in range(len(tokens) - width + 1):
            anchored = any(anchor[position : position + width])
            anchored_count += anchored
            key = (shingle_hash(hashes[position : position + width]), anchored)
            counts.setdefault(key, [0, position, width])[0] += 1
    unanchored_weight = parameters.unanchored_weight
    if unanchored_weight == 0 and anchored_count < parameters.shingles_min:
        unanchored_weight = parameters.anchored_weight
    return [
        Feature(
            " ".join(shown[position : position + width]),
            value,
            (parameters.anchored_weight if anchored else unanchored_weight)
            * occurrences_weight(occurrences, parameters.term_frequency),
            anchored,
            occurrences,
        )
        for (value, anchored), (occurrences, position, width) in counts.items()
        if anchored or unanchored_weight
    ]
