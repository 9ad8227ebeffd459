"""
How well a search finds labelled pairs: recall, false positives, precision and F1, each with its confidence interval.

Pairs come from people or from `exact_jaccard`. A pair is found when its second document is a duplicate of the first
with nothing else held; `leaders` says what a stream of all documents would report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.definition import MULTIPLIER, Kind, token_hash
from worker.core.fingerprint import FingerprintBatch
from worker.core.index import SearchIndex
from worker.core.search import DISTANCE_MAX, NO_MATCH, PATTERNS_MAX, SearchRules, block_of, looks, patterns
from worker.core.sketch import sketch_similarities
from worker.core.tokens import tokens_quickly

DRAWS = 1_000  # samples of the groups behind a confidence interval
NO_RANK = 1 << 30
SHINGLE_WIDTH = 3  # of the exact Jaccard similarity that decides where no label does


class Pairs(NamedTuple):
    """Labelled pairs of documents, n rows."""

    first: NDArray[np.int64]  # the document that came first, by its number
    second: NDArray[np.int64]
    same: NDArray[np.bool_]  # whether they are near-duplicates
    kinds: Sequence[str]  # what sort of pair, for a line of its own in the result

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Mark the pairs of one kind."""
        return np.array([one == kind for one in self.kinds], np.bool_)


class Measures(NamedTuple):
    """All that searches go by, of n pairs: any rules can be applied to it."""

    distances: NDArray[np.uint8]  # NO_MATCH where one of the two cannot be compared by distance
    looks: NDArray[np.uint16]
    similarities: NDArray[np.uint16]
    ranks: NDArray[np.int64]  # the first pattern, by its place, whose prefix finds the pair; NO_RANK: none, or too far
    equal: NDArray[np.bool_]  # both are too short to compare but as equals, and are equal


class Score(NamedTuple):
    """A share, and the 95 % interval in which other samples of the same groups put it."""

    value: float
    low: float
    high: float


class Scores(NamedTuple):
    """How well pairs are found. A share of nothing is nan."""

    same: int
    other: int
    recall: Score  # of the pairs that are the same, those found
    false_positives: Score  # of the pairs that are not, those found
    precision: Score  # of the pairs found, those that are the same
    f1: Score


def measure(batch: FingerprintBatch, pairs: Pairs, rules: SearchRules) -> Measures:
    """
    Measure each pair, its second document as the query: 0.1 µs; 100 µs within DISTANCE_MAX bits of a directed search.

    Args:
        batch: fingerprints of 64 bits; the pairs' numbers are its rows.
        rules: their blocks are what `ranks` are of; nothing else of them counts.
    """
    first, second = pairs.first, pairs.second
    full = (batch.kinds[first] == Kind.FULL) & (batch.kinds[second] == Kind.FULL)
    equal = (batch.kinds[first] == Kind.SHORT) & (batch.kinds[second] == Kind.SHORT)
    equal &= batch.digests[first] == batch.digests[second]
    differ = batch.fingerprints[first] ^ batch.fingerprints[second]
    distances = np.where(full, np.bitwise_count(differ), NO_MATCH).astype(np.uint8)
    ranks = np.full(len(first), NO_RANK)
    if rules.mode == "directed":
        for row in np.flatnonzero(distances <= DISTANCE_MAX).tolist():
            ranks[row] = _rank(int(differ[row]), int(batch.doubts[second[row]]), rules)
    alike = sketch_similarities(batch.sketches[first], batch.sketches[second])
    return Measures(distances, looks(differ, batch.doubts[first], batch.doubts[second]), alike, ranks, equal)


def _rank(differ: int, doubts: int, rules: SearchRules) -> int:
    """Return the place of the first pattern that one of the blocks differs by."""
    ranks = [NO_RANK]
    for runs in rules.runs:
        found = patterns(block_of(doubts, runs), sum(width for _, width in runs), PATTERNS_MAX)
        own = block_of(differ, runs)
        ranks += [found.index(own)] if own in found else []
    return min(ranks)


def finds(measured: Measures, rules: SearchRules) -> NDArray[np.bool_]:
    """Mark the pairs whose second document would be found to be a duplicate of the first. Cost: some ns per pair."""
    failed: NDArray[np.bool_] = np.logical_or.reduce(list(_failed(measured, rules).values()))
    return measured.equal | ~failed


def reasons(measured: Measures, rules: SearchRules) -> list[str]:
    """Say of each pair why it is not found; empty where it is. Cost: some 0.1 µs per pair."""
    failed = _failed(measured, rules)
    told = np.select(list(failed.values()), list(failed), "")
    told[measured.equal] = ""
    return list(told.tolist())


def _failed(measured: Measures, rules: SearchRules) -> dict[str, NDArray[np.bool_]]:
    """Mark the pairs that each condition fails on, in the order in which it is told."""
    distances, seen, similarities, ranks, _ = measured
    return {
        "too short to be compared but as equals": distances == NO_MATCH,
        "too many bits differ": distances > rules.max_distance,
        "the second look is too low": seen < rules.look_min,
        "no prefix that is looked up is theirs": (ranks >= rules.patterns) & (rules.mode == "directed"),
        "too few shingles are the same": similarities < rules.similarity_min,
    }


def groups(pairs: Pairs, documents: int) -> NDArray[np.int64]:
    """
    Return the group of each pair, that of its first document. Pairs that are the same join documents to groups.

    Pairs of one group are not independent: a page in ten versions makes 45 pairs, and one answer.
    """
    parent = list(range(documents))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    for one, other in zip(pairs.first[pairs.same].tolist(), pairs.second[pairs.same].tolist(), strict=True):
        parent[root(other)] = root(one)
    return np.array([root(one) for one in pairs.first.tolist()], np.int64)


def score(found: NDArray[np.bool_], same: NDArray[np.bool_], of_group: NDArray[np.int64], seed: int = 0) -> Scores:
    """
    Recall, share of false positives, precision and F1 of pairs.

    The intervals are those of `DRAWS` samples of the groups, with replacement (bootstrap by group): of few groups they
    are wide, however many pairs there are.
    """
    _, group = np.unique(of_group, return_inverse=True)
    cells = np.zeros((int(group.max(initial=-1)) + 1, 4))  # a group: same and found, same, other and found, other
    for column, chosen in enumerate((same & found, same, ~same & found, ~same)):
        np.add.at(cells[:, column], group[chosen], 1)
    generator = np.random.default_rng(seed)
    draws = [
        cells[generator.integers(0, len(cells), len(cells))].sum(axis=0) if len(cells) else np.zeros(4)
        for _ in range(DRAWS)
    ]
    measured, sampled = _measures(cells.sum(axis=0)[np.newaxis])[0], _measures(np.array(draws))
    scores = []
    for value, column in zip(measured, sampled.T, strict=True):
        there = column[~np.isnan(column)]
        low, high = np.percentile(there, (2.5, 97.5)) if len(there) else (np.nan, np.nan)
        scores.append(Score(float(value), float(low), float(high)))
    return Scores(int(same.sum()), int((~same).sum()), *scores)


def _measures(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Recall, false positives, precision and F1 of each row of four counts."""
    hits, same, wrong, other = cells.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([hits / same, wrong / other, hits / (hits + wrong), 2 * hits / (same + hits + wrong)], axis=1)


def shingle_set(text: str) -> NDArray[np.uint64]:
    """
    Return the hashes of the distinct shingles of three tokens, in order; of a shorter text, of all its tokens as one.

    They are hashed like `shingle_hash`, without its finishing mix: they are only ever compared.
    """
    words = np.array([token_hash(token) for token in tokens_quickly(text)], np.uint64)
    width = min(SHINGLE_WIDTH, len(words))
    shingles = np.zeros(len(words) - width + 1 if width else 0, np.uint64)
    for at in range(width):
        shingles = shingles * np.uint64(MULTIPLIER) + words[at : at + len(shingles)]
    return np.unique(shingles)


def exact_jaccard(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> float:
    """Return the share of shingles that both texts have; of two empty texts 0."""
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / max(1, len(one) + len(other) - common)


def leaders(batch: FingerprintBatch, rules: SearchRules) -> NDArray[np.int64]:
    """Return the row of each document's original, as a log of all in this order would have it; -1: it is new."""
    of = np.full(len(batch.kinds), -1, np.int64)
    full = np.flatnonzero(batch.kinds == Kind.FULL)
    index = SearchIndex(rules, len(full))
    found = index.match_or_insert(batch.fingerprints[full], batch.doubts[full], batch.sketches[full], first_row=0).rows
    originals = full[found < 0]
    of[full[found >= 0]] = originals[found[found >= 0]]
    seen: dict[int, int] = {}
    for row in np.flatnonzero(batch.kinds == Kind.SHORT).tolist():
        first = seen.setdefault(int(batch.digests[row]), row)
        of[row] = first if first != row else -1
    return of
