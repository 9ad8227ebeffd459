"""
Which settings find the copies of one's own documents best: fingerprints and searches, tried on pairs.

Fingerprints are varied one thing at a time from the settings given; each is measured once, and every search is a cut
through what was measured. The best has the most recall of those that keep false positives within bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.definition import Kind, Parameters
from worker.core.evaluation import Pairs, exact_jaccard, finds, measure, shingle_set
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.search import SearchRules

SAME_FROM, OTHER_BELOW = 0.8, 0.5  # exact Jaccard similarity; between them lies what people argue about
NEAR_BITS = 22  # of two texts with a Jaccard similarity of .8 some 9 ± 3 bits differ: hardly any pair is passed over
BLOCK = 512  # rows compared with all others at once


class Trial(NamedTuple):
    """One way of finding copies, and what it found."""

    name: str  # what differs from the settings given; empty: nothing
    parameters: Parameters
    rules: SearchRules
    recall: float
    false_positives: float

    @property
    def cost(self) -> int:
        """Prefixes that a query looks up: of equal results the cheapest is preferred."""
        return self.rules.blocks * self.rules.patterns if self.rules.mode == "directed" else 0


def variants(base: Parameters) -> Iterator[tuple[str, Parameters]]:
    """Yield the parameters given, then each with one thing changed."""
    yield "", base
    for weight in (1, 2, 6):
        yield f"anchored_weight {weight}", replace(base, anchored_weight=weight)
    yield "unanchored_weight 0", replace(base, unanchored_weight=0)
    for frequency in ("one", "log"):
        yield f"term_frequency {frequency}", replace(base, term_frequency=frequency)
    for widths in ((1,), (2,), (3,)):
        yield f"shingle_widths {widths[0]}", replace(base, shingle_widths=widths)
    yield "mask_numbers", replace(base, mask_numbers=True)
    yield "mask_identifiers", replace(base, mask_identifiers=True)
    yield "mask_numbers, mask_identifiers", replace(base, mask_numbers=True, mask_identifiers=True)


def searches(base: SearchRules) -> Iterator[SearchRules]:
    """Exact searches, then directed ones in the blocks given: bits, second looks, similarities and costs together."""
    for distance in (3, 6, 7):
        yield SearchRules("exact", distance)
    directed = base if base.mode == "directed" else SearchRules()
    for patterns, distance in product((16, 32, 64), (10, 12, 14, 15)):
        for look, similarity in product(range(600, 851, 50), (0, *range(500, 951, 50))):
            values = {"patterns": patterns, "look_min": look, "similarity_min": similarity}
            yield replace(directed, max_distance=distance, **values)


def trials(
    texts: Sequence[str],
    languages: Sequence[str | None],
    pairs: Pairs,
    base: tuple[Parameters, SearchRules],
) -> Iterator[Trial]:
    """Try every variant of the fingerprint with every search; `base`: the settings given."""
    rules = list(searches(base[1]))
    ranked = base[1] if base[1].mode == "directed" else SearchRules()  # an exact search ranks no pair by its doubts
    tried: set[str] = set()
    for name, parameters in variants(base[0]):
        if parameters.hash in tried:
            continue
        tried.add(parameters.hash)
        measured = measure(Fingerprinter(parameters).batch(texts, languages), pairs, ranked)
        for one in rules:
            found = finds(measured, one)
            yield Trial(
                name,
                parameters,
                one,
                float(found[pairs.same].mean()),
                float(found[~pairs.same].mean()) if (~pairs.same).any() else 0.0,
            )


def frontier(tried: Sequence[Trial], false_positives_max: float) -> list[Trial]:
    """
    Return the trials within the bound that no other beats: from the most recall down to the fewest false positives.

    Within it are at most `false_positives_max` of the pairs that are not the same. Of equal trials the cheapest search
    stands for all, then the one with the fewest changes. Empty when none is within.
    """
    within = [one for one in tried if one.false_positives <= false_positives_max]
    best: list[Trial] = []
    for one in sorted(within, key=lambda one: (-one.recall, one.false_positives, one.cost, len(one.name))):
        if not best or one.false_positives < best[-1].false_positives:
            best.append(one)
    return best


def choices(tried: Sequence[Trial], best: Trial) -> dict[str, list[Trial]]:
    """Return what each rule of the best search does to both kinds of error: the trials that differ in it alone."""
    mine = [one for one in tried if one.name == best.name and one.rules.mode == best.rules.mode]
    found = {}
    for name in ("max_distance", "look_min", "patterns", "similarity_min"):
        value = getattr(best.rules, name)
        alike = [one for one in mine if replace(one.rules, **{name: value}) == best.rules]
        if len(alike) > 1:
            found[name] = sorted(alike, key=lambda one: int(getattr(one.rules, name)))
    return found


def sample_pairs(texts: Sequence[str], batch: FingerprintBatch, pairs_max: int, seed: int = 0) -> Pairs:
    """
    Pairs judged by the exact Jaccard similarity of their shingles: the same from .8, not the same below .5.

    Half of them are drawn from all pairs that lie near each other, the others by chance; what lies between the bounds
    is left out.  Cost: 0.3 ns for every two documents, some 50 µs per pair.
    """
    generator = np.random.default_rng(seed)
    full = np.flatnonzero(batch.kinds == Kind.FULL)
    near = _near(batch.fingerprints[full], pairs_max // 2, generator)
    drawn = generator.integers(0, max(1, len(full)), (pairs_max // 2 if len(full) > 1 else 0, 2))
    chosen = np.unique(np.sort(np.concatenate([near, drawn]), axis=1), axis=0)
    chosen = full[chosen[chosen[:, 0] != chosen[:, 1]]]
    shingles = {row: shingle_set(texts[row]) for row in np.unique(chosen).tolist()}
    likeness = np.array([exact_jaccard(shingles[one], shingles[other]) for one, other in chosen.tolist()])
    kept = (likeness >= SAME_FROM) | (likeness < OTHER_BELOW)
    first, second = chosen[kept].T
    return Pairs(first, second, likeness[kept] >= SAME_FROM, ["sampled"] * len(first))


def _near(fingerprints: NDArray[np.uint64], pairs_max: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Pairs within NEAR_BITS, by comparing every two; of more than `pairs_max` a sample, each pair equally likely."""
    pairs, lots = np.empty((0, 2), np.int64), np.empty(0)
    for begin in range(0, len(fingerprints), BLOCK):
        rows = fingerprints[begin : begin + BLOCK]
        one, other = np.nonzero(np.bitwise_count(rows[:, np.newaxis] ^ fingerprints[begin:]) <= NEAR_BITS)
        is_first = one < other
        pairs = np.concatenate([pairs, np.stack([one[is_first], other[is_first]], axis=1) + begin])
        lots = np.concatenate([lots, generator.random(len(pairs) - len(lots))])
        if len(lots) > pairs_max:
            kept = np.argpartition(lots, pairs_max)[:pairs_max]
            pairs, lots = pairs[kept], lots[kept]
    return pairs
