"""
Chance: how often a search takes an unrelated document for the original, the more often the more originals there are.

The model: the signs of two unrelated documents differ by a coin's throw in each bit, and 27.37 % of the bits of each
are doubtful, all of it independent. (Tallies are sums of many signs, so near to normal, and `erf(0.35 / sqrt(2))` of
them lie below 0.35 of their root mean square.) What is summed up is every way in which such a pair can be found, lie
within the distance and reach the second look; a test holds it to simulated documents. Documents of one site are not
unrelated: labelled pairs tell what the search makes of them, this tells what a large number does.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb, erf, sqrt

import numpy as np
from numpy.typing import NDArray

from worker.core.search import BITS, KINDS, LOOK_MAX, SURE, SearchRules

__all__ = ["CHANCE_MAX", "LARGE", "SMALL", "chance", "documents_supported", "rules_for"]

CHANCE_MAX = 1e-5  # false matches a query that are put up with
DOUBTFUL = erf(0.35 / sqrt(2))
NEGLIGIBLE = 1e-5  # of a binomial's terms
SMALL = SearchRules()
LARGE = SearchRules(blocks=10, block_bits=26, patterns=32)
SMALL_MAX = 20_000_000  # documents: beyond it the buckets of 16-bit prefixes are long
LOOK_STEP = 5


def documents_supported(rules: SearchRules) -> int:
    """
    Originals up to which fewer than one query in 100,000 has a false match by chance.

    Cost: 1 s the first time for directed rules.

    >>> f"{documents_supported(SearchRules('exact', 3)):.2g}", f"{documents_supported(SearchRules('exact', 8)):.2g}"
    ('4.2e+09', '3.6e+04')
    """
    return int(CHANCE_MAX / chance(rules))


def rules_for(documents: int) -> SearchRules:
    """
    Return directed rules for so many originals: the default ones, or more blocks, and a look that few reach by chance.

    Raises:
        ValueError: no second look suffices.
    """
    rules = SMALL if documents <= SMALL_MAX else LARGE
    for look_min in range(rules.look_min, LOOK_MAX, LOOK_STEP):
        chosen = SearchRules(
            blocks=rules.blocks, block_bits=rules.block_bits, patterns=rules.patterns, look_min=look_min
        )
        if documents_supported(chosen) >= documents:
            return chosen
    raise ValueError(f"documents must be fewer, got {documents}: no second look keeps chance below {CHANCE_MAX}")


@lru_cache(maxsize=256)
def chance(rules: SearchRules) -> float:
    """
    Return how likely a query takes one given unrelated original for its own.

    Times the originals it is the expected number of false matches a query.
    """
    if rules.mode == "exact":
        ways = sum(comb(BITS, distance) for distance in range(rules.max_distance + 1))
        return float(ways / 2**BITS)
    found = _Found(rules)
    total = 0.0
    for doubtful in range(BITS + 1):
        share = comb(BITS, doubtful) * DOUBTFUL**doubtful * (1 - DOUBTFUL) ** (BITS - doubtful)
        if share < NEGLIGIBLE:
            continue
        for flipped in range(min(doubtful, rules.max_distance) + 1):
            for sure in range(min(BITS - doubtful, rules.max_distance - flipped) + 1):
                ways = comb(doubtful, flipped) * comb(BITS - doubtful, sure) / 2**BITS
                seen = _seen(rules.look_min, doubtful, flipped, sure)
                if seen:
                    total += share * ways * seen * found(doubtful, flipped, sure)
    return total


class _Found:
    """How likely a pair is found that differs in so many doubtful and sure bits of the query, wherever they lie."""

    def __init__(self, rules: SearchRules) -> None:
        self._widths = [sum(width for _, width in runs) for runs in rules.runs]
        self._taken = {width: _taken(width, rules.patterns) for width in self._widths}
        self._choices = np.array([[float(comb(n, k)) for k in range(BITS + 1)] for n in range(BITS + 1)])

    def __call__(self, doubtful: int, flipped: int, sure: int) -> float:
        chances = {width: self._in_block(width, doubtful, flipped, sure) for width in self._taken}
        return min(1.0, sum(chances[width] for width in self._widths))  # at most: some are found by two blocks

    def _in_block(self, width: int, doubtful: int, flipped: int, sure: int) -> float:
        choices, within = self._choices, np.arange(width + 1)  # doubtful bits within the block
        total = 0.0
        for (a, b), taken in zip(KINDS, self._taken[width], strict=True):
            if a <= flipped and b <= sure:
                rest = width - within - b
                ways = choices[doubtful - flipped, np.maximum(within - a, 0)] * (within >= a)
                ways = ways * choices[BITS - doubtful - sure, np.maximum(rest, 0)] * (rest >= 0)
                total += float((ways * taken).sum() * choices[flipped, a] * choices[sure, b])
        return total / float(choices[BITS, width])


def _taken(width: int, patterns: int) -> list[NDArray[np.float64]]:
    """Of each kind of pattern the share that is looked up, by the number of doubtful bits in the block."""
    shares: list[list[float]] = [[] for _ in KINDS]
    for doubtful in range(width + 1):
        left = patterns
        for kind, (a, b) in enumerate(KINDS):
            size = comb(doubtful, a) * comb(width - doubtful, b)
            shares[kind].append(min(1.0, left / size) if size else 0.0)
            left = max(0, left - size)
    return [np.array(share) for share in shares]


def _seen(look_min: int, doubtful: int, flipped: int, sure: int) -> float:
    """Return how likely the second look suffices, over the doubts of the other document."""
    same = doubtful - flipped, BITS - doubtful - sure
    weights, gains, counts = np.ones(()), np.full((), (SURE * same[0] - SURE * flipped)), np.zeros((), np.int64)
    gains = gains + SURE * SURE * (same[1] - sure)
    # each bit that is doubtful in the other one too counts 1 in place of 6, and 6 in place of 36
    for size, gain in (
        (flipped, SURE - 1),
        (same[0], 1 - SURE),
        (sure, SURE * (SURE - 1)),
        (same[1], SURE * (1 - SURE)),
    ):
        terms, number = _binomial(size)
        weights = np.multiply.outer(weights, terms)
        gains = np.add.outer(gains, gain * number)
        counts = np.add.outer(counts, number)
    norms = (SURE**2 * BITS - (SURE**2 - 1) * doubtful) * (SURE**2 * BITS - (SURE**2 - 1) * counts)
    squared = np.where(gains > 0, LOOK_MAX**2 * gains**2 // norms, 0)
    return float(weights[squared >= look_min**2].sum())


@lru_cache(maxsize=BITS + 1)
def _binomial(size: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the terms that count, and their numbers."""
    terms = np.array([comb(size, n) * DOUBTFUL**n * (1 - DOUBTFUL) ** (size - n) for n in range(size + 1)])
    numbers = np.flatnonzero(terms > NEGLIGIBLE)
    return terms[numbers], numbers
