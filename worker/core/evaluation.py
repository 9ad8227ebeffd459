"""
How well a search finds labelled pairs, and which settings find the copies of one's own documents.

Pairs come from people or from `sample_pairs`. A pair is found when its second document is a
duplicate of the first with nothing else held; `leaders` says what a stream of all documents would
report. Recall, false positives, precision and F1 each have a confidence interval.

To find the best settings, fingerprints are varied one thing at a time from the settings given; each
is measured once, and every search is a cut through what was measured. The best has the most recall
of those that keep false positives within bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from math import isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.definition import MULTIPLIER, Kind, Parameters, token_hash
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.index import SearchIndex
from worker.core.marks import HOST_AND_TITLE, NO_MARK, are_apart, page_mark
from worker.core.search import (
    DISTANCE_MAX,
    NO_MATCH,
    PATTERNS_MAX,
    SearchRules,
    block_of,
    looks,
    patterns,
)
from worker.core.sketch import SIMILARITY_MAX, sketch_similarities
from worker.core.tokens import tokens_quickly

QUANTILE = 1.959964  # of the normal distribution, for 95 %
NO_RANK = 1 << 30
SHINGLE_WIDTH = 3  # of the exact Jaccard similarity that decides where no label does
# Exact Jaccard similarity; between them lies what people argue about.
SAME_FROM = 0.8
OTHER_BELOW = 0.5
ALIKE_FROM = 0.2  # a pair of it, below OTHER_BELOW, is one that a search could take for copies
# Kinds of sampled pairs.
COPIES = "copies"
LOOKALIKES = "alike, and not the same"
UNLIKE = "unlike"
# Of recall. On 50,000 sample pages (2,593 pairs) a setting that gained .0004 lost 1 copy in 260.
GAIN_MIN = 0.005
TENTHS = 10  # bands of similarity; the same number of pairs is sampled from each
PARTS = 32  # parts of a sketch, sixteen bits each
NEIGHBOURS = 4  # neighbours that a text is paired with in each order: 128 pairs, most twice
MARGINS_TRIED = 0, 0.06, 0.12, 0.18  # as similarity_margin
# For articles without templates, for most documents, and for forms that must not be merged.
USUAL_SIMILARITIES = 0.5, 0.54, 0.7
SIMILARITIES_TRIED = 0, 0.4, 0.45, 0.5, 0.54, 0.58, 0.65, 0.7, 0.75, 0.8, 0.85  # as similarity_min


class Pairs(NamedTuple):
    """Labelled pairs of documents, n rows."""

    first: NDArray[np.int64]  # the document that came first, by its number
    second: NDArray[np.int64]
    same: NDArray[np.bool_]  # whether they are near-duplicates
    kinds: Sequence[str]  # what sort of pair, for a line of its own in the result

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Mark the pairs of one kind."""
        return np.array([one == kind for one in self.kinds], np.bool_)


class Pages(NamedTuple):
    """
    Where documents were fetched, and their titles, by which two pages of one host are kept apart.
    """

    urls: Sequence[str] = ()  # as the rules for URLs name the pages; none: no document has a mark
    titles: Sequence[int] = ()  # as `pages.title_words` gives them; 0 is none

    def marks(self, batch: FingerprintBatch) -> NDArray[np.uint64]:
        """Return the mark of each document, whose fingerprints these are."""
        if not self.urls:
            return np.full(len(batch.kinds), NO_MARK, np.uint64)
        rows = zip(self.urls, self.titles, batch.features.tolist(), strict=True)
        return np.array([page_mark(*row) for row in rows], np.uint64)


NO_PAGES = Pages()


class Measures(NamedTuple):
    """The measures of n pairs by which searches decide; any rules can be applied to them."""

    distances: NDArray[np.uint8]  # NO_MATCH where one of the two cannot be compared by distance
    looks: NDArray[np.uint16]
    similarities: NDArray[np.uint16]
    # The first pattern, by its place, whose prefix finds the pair; NO_RANK: none, or too far.
    ranks: NDArray[np.int64]
    equal: NDArray[np.bool_]  # both are too short to compare but as equals, and are equal
    apart: NDArray[np.bool_]  # they are two pages of one host (`marks.are_apart`)


class Score(NamedTuple):
    """A share, and its 95 % interval."""

    value: float
    low: float
    high: float


class Scores(NamedTuple):
    """Recall and false positives of a set of pairs. A share of nothing is nan."""

    same: int
    other: int
    recall: Score  # found pairs among those that are the same
    false_positives: Score  # found pairs among those that are not
    precision: Score  # pairs that are the same among those found
    f1: Score


def measure(
    batch: FingerprintBatch, pairs: Pairs, rules: SearchRules, pages: Pages = NO_PAGES
) -> Measures:
    """
    Measure each pair, its second document as the query.

    Args:
        batch: fingerprints of 64 bits; the pairs' numbers are its rows.
        pairs: which documents to compare.
        rules: their blocks are what `ranks` are of; nothing else of them counts.
        pages: where the documents were fetched, and their titles.

    Cost: 0.1 µs per pair; of directed rules 100 µs per pair within DISTANCE_MAX bits.
    """
    first = pairs.first
    second = pairs.second
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
    marks = pages.marks(batch)
    apart = _apart(marks[first], marks[second], np.where(equal, SIMILARITY_MAX, alike))
    looked = looks(differ, batch.doubts[first], batch.doubts[second])
    return Measures(distances, looked, alike, ranks, equal, apart)


def _apart(
    first: NDArray[np.uint64], second: NDArray[np.uint64], similarities: NDArray[np.uint16]
) -> NDArray[np.bool_]:
    """Mark the pairs that are two pages of one host, by the marks of both documents."""
    apart: NDArray[np.bool_] = (first != NO_MARK) & (second != NO_MARK)
    for row in np.flatnonzero(apart).tolist():
        apart[row] = are_apart(int(first[row]), int(second[row]), int(similarities[row]))
    return apart


def _rank(differ: int, doubts: int, rules: SearchRules) -> int:
    """Return the place of the first pattern that one of the blocks differs by."""
    ranks = [NO_RANK]
    for runs in rules.runs:
        found = patterns(block_of(doubts, runs), sum(width for _, width in runs), PATTERNS_MAX)
        own = block_of(differ, runs)
        ranks += [found.index(own)] if own in found else []
    return min(ranks)


def finds(measured: Measures, rules: SearchRules) -> NDArray[np.bool_]:
    """
    Mark the pairs whose second document would be found to be a duplicate of the first.

    Cost: some ns per pair.
    """
    failed: NDArray[np.bool_] = np.logical_or.reduce(list(_failed(measured, rules).values()))
    return ~failed


def reasons(measured: Measures, rules: SearchRules) -> list[str]:
    """Say of each pair why it is not found; empty where it is. Cost: some 0.1 µs per pair."""
    failed = _failed(measured, rules)
    return list(np.select(list(failed.values()), list(failed), "").tolist())


def _failed(measured: Measures, rules: SearchRules) -> dict[str, NDArray[np.bool_]]:
    """Return the pairs that each condition fails on, by the order of the conditions."""
    distances, looks, similarities, ranks, equal, apart = measured
    failed = {
        "too short to be compared but as equals": distances == NO_MATCH,
        "too many bits differ": distances > rules.max_distance,
        "the second look is too low": looks < rules.look_min,
        "no prefix that is looked up is theirs": (ranks >= rules.patterns)
        & (rules.mode == "directed"),
        "too few shingles are the same": similarities < rules.similarity_thousandths,
    }
    return {
        **{why: fails & ~equal for why, fails in failed.items()},
        "they are two pages of one host, with other URLs and titles": apart
        & (rules.similarity_thousandths > 0),
    }


def groups(pairs: Pairs, documents: int) -> NDArray[np.int64]:
    """
    Return the group of each pair; pairs that are the same join their documents to one group.

    Pairs of one group are not independent: a page in ten versions makes 45 pairs, and one answer.
    """
    parent = list(range(documents))

    def root(document: int) -> int:
        while parent[document] != document:
            parent[document] = parent[parent[document]]
            document = parent[document]
        return document

    firsts = pairs.first[pairs.same].tolist()
    seconds = pairs.second[pairs.same].tolist()
    for first, second in zip(firsts, seconds, strict=True):
        parent[root(second)] = root(first)
    return np.array([root(first) for first in pairs.first.tolist()], np.int64)


def score(found: NDArray[np.bool_], same: NDArray[np.bool_], of_group: NDArray[np.int64]) -> Scores:
    """
    Return recall, share of false positives, precision and F1 of pairs.

    The intervals are Wilson's (1927). The pairs of a group are not independent, so the groups are
    the observations: as many as groups of equal size would be (Kish, 1965). Of few groups, or where
    a few have most of the pairs, the intervals are wide. Those of F1 combine the ends of the
    intervals of precision and recall.

    Args:
        found: whether the search finds each pair.
        same: whether it is labelled as the same.
        of_group: the group of each pair, as `groups` returns it.
    """
    recall = _share(found[same], of_group[same])
    false_positives = _share(found[~same], of_group[~same])
    precision = _share(same[found], of_group[found])
    # If nothing is found, nothing is known of the precision.
    possible = precision if found.any() else Score(0, 0, 1)
    f1 = Score(*(_f1(*ends) for ends in zip(possible, recall, strict=True)))
    return Scores(int(same.sum()), int((~same).sum()), recall, false_positives, precision, f1)


def _share(hits: NDArray[np.bool_], of_group: NDArray[np.int64]) -> Score:
    """Return the share of hits and its interval; nan for a share of nothing."""
    if not len(hits):
        return Score(nan, nan, nan)
    value = float(hits.mean())
    _, sizes = np.unique(of_group, return_counts=True)
    observations = float(sizes.sum()) ** 2 / float(np.square(sizes, dtype=np.float64).sum())
    return Score(value, *wilson(value, observations))


def wilson(share: float, observations: float) -> tuple[float, float]:
    """
    Return the 95 % interval of a share that was seen in independent observations.

    Unlike the spread of samples that are drawn from what was seen, it says something where nothing
    or everything was a hit.

    Args:
        share: 0 to 1.
        observations: at least 1.

    Cost: O(1).  Source: Wilson, JASA 1927.

    >>> [round(end, 3) for end in wilson(0, 20)], [round(end, 3) for end in wilson(0.5, 100)]
    ([0.0, 0.161], [0.404, 0.596])
    """
    square = QUANTILE**2 / observations
    centre = (share + square / 2) / (1 + square)
    half = QUANTILE * sqrt(share * (1 - share) / observations + square / (4 * observations))
    half /= 1 + square
    return max(0.0, centre - half), min(1.0, centre + half)


def _f1(precision: float, recall: float) -> float:
    """Return their harmonic mean; nan where there are no pairs that are the same."""
    if isnan(recall):
        return nan
    if not precision + recall:  # nothing was found, or nothing of it is the same
        return 0.0
    return 2 * precision * recall / (precision + recall)


def shingle_set(text: str) -> NDArray[np.uint64]:
    """
    Return the hashes of the distinct shingles of three tokens, ascending.

    A shorter text is one shingle. They are hashed like `shingle_hash`, but without its finishing
    mix, because they are only ever compared.
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


def leaders(
    batch: FingerprintBatch, rules: SearchRules, pages: Pages = NO_PAGES
) -> NDArray[np.int64]:
    """
    Return the row of each document's original, or -1 if it is new, for a log with the documents in
    this order.

    Nothing leaves the log: neither by retention, nor as the earlier version of a document. Each
    document is searched for, also one that a log would know without a search, as the copy of a
    duplicate or as a page below a hundred words that comes again.
    """
    of = np.full(len(batch.kinds), -1, np.int64)
    marks = (pages if rules.similarity_thousandths else NO_PAGES).marks(batch)
    full = np.flatnonzero(batch.kinds == Kind.FULL)
    index = SearchIndex(rules, len(full))
    matches = index.match_or_insert(
        batch.fingerprints[full],
        batch.doubts[full],
        batch.sketches[full],
        first_row=0,
        marks=marks[full],
    ).rows
    originals = full[matches < 0]
    of[full[matches >= 0]] = originals[matches[matches >= 0]]
    first_of: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(batch.kinds == Kind.SHORT).tolist():
        digest = int(batch.digests[row])
        first = first_of.setdefault((digest, NO_MARK), row)
        if are_apart(int(marks[first]), int(marks[row]), SIMILARITY_MAX):
            # Its copies have its host and title, so it is listed by these, not by its text alone.
            first = first_of.setdefault((digest, int(marks[row] & HOST_AND_TITLE)), row)
        of[row] = first if first != row else -1
    return of


def in_one_cluster(originals: NDArray[np.int64], pairs: Pairs) -> NDArray[np.bool_]:
    """
    Mark the pairs that a stream makes one: one is a duplicate of the other, or both are of a third.

    Args:
        originals: of each document the row of its original, as `leaders` returns it.
    """
    leader = np.where(originals < 0, np.arange(len(originals)), originals)
    marked: NDArray[np.bool_] = leader[pairs.first] == leader[pairs.second]
    return marked


class ThresholdTrial(NamedTuple):
    """The result of a threshold: for each pair alone, and for all documents as a stream."""

    rules: SearchRules
    alone: Scores
    stream: Scores


def threshold_trials(
    batch: FingerprintBatch, pairs: Pairs, rules: SearchRules, pages: Pages = NO_PAGES
) -> list[ThresholdTrial]:
    """
    Compare the usual thresholds, and the given one, with all else as it is given.

    Too few pairs to choose settings by still show where these differ.

    Args:
        batch: fingerprints of all documents, in the order of their stream.
        pairs: which of them are the same.
        rules: the search; it compares sketches.
        pages: where the documents were fetched, and their titles.

    Cost: a search for each document and threshold.
    """
    of_group = groups(pairs, len(batch.kinds))
    measured = measure(batch, pairs, rules, pages)
    compared = []
    for threshold in sorted({*USUAL_SIMILARITIES, rules.similarity_min}):
        chosen = replace(rules, similarity_min=threshold)
        merged = in_one_cluster(leaders(batch, chosen, pages), pairs)
        alone = score(finds(measured, chosen), pairs.same, of_group)
        compared.append(ThresholdTrial(chosen, alone, score(merged, pairs.same, of_group)))
    return compared


class Trial(NamedTuple):
    """One way of finding copies, and what it found."""

    name: str  # the differences from the given settings; empty if none
    parameters: Parameters
    rules: SearchRules
    recall: float
    false_positives: float

    @property
    def cost(self) -> int:
        """Prefixes that a query looks up: of equal results the cheapest is preferred."""
        return self.rules.blocks * self.rules.patterns if self.rules.mode == "directed" else 0

    def changes(self, given: SearchRules) -> int:
        """Return in how many things the fingerprint and the search differ from those given."""
        of_fingerprint = self.name.count(",") + 1 if self.name else 0
        rules = [field.name for field in fields(given)]
        changed = [name for name in rules if getattr(self.rules, name) != getattr(given, name)]
        return of_fingerprint + len(changed)


class StreamTrial(NamedTuple):
    """A search's clusters of all documents as a stream, as the pairs that they join."""

    trial: Trial
    scores: Scores  # those of the trial, with their intervals


def stream_trials(
    batch: FingerprintBatch, pairs: Pairs, base: Trial, pages: Pages = NO_PAGES
) -> list[StreamTrial]:
    """
    Judge all documents as a stream, with thresholds around the one given and with all margins.

    A pair alone does not show whether a copy stands out from other originals, so the margin can be
    tried only here.

    Args:
        batch: fingerprints of all documents, in the order of their stream.
        pairs: which of them are the same.
        base: what was found with each pair alone; all but threshold and margin stays as it is.
        pages: where the documents were fetched, and their titles.
    Returns:
        One for each threshold and margin, the given ones among them, in this order; none for rules
        that compare no sketches.

    Cost: a search for each document in each trial, 12 to 20 trials.
    """
    rules = base.rules
    if rules.mode == "exact" or not rules.similarity_min:
        return []
    thresholds = sorted({*SIMILARITIES_TRIED, rules.similarity_min} - {0})
    at = thresholds.index(rules.similarity_min)
    margins = sorted({*MARGINS_TRIED, rules.similarity_margin})
    of_group = groups(pairs, len(batch.kinds))
    tried = []
    for threshold, margin in product(thresholds[max(0, at - 1) : at + 2], margins):
        chosen = replace(rules, similarity_min=threshold, similarity_margin=margin)
        merged = in_one_cluster(leaders(batch, chosen, pages), pairs)
        scores = score(merged, pairs.same, of_group)
        false_positives = scores.false_positives.value if scores.other else 0.0
        tried.append(
            StreamTrial(Trial(*base[:2], chosen, scores.recall.value, false_positives), scores)
        )
    return tried


def variants(base: Parameters) -> Iterator[tuple[str, Parameters]]:
    """Yield the parameters given, then each with one thing changed."""
    yield "", base
    for weight in (1, 2, 6):
        yield f"anchored_weight {weight}", replace(base, anchored_weight=weight)
    yield "unanchored_weight 0", replace(base, unanchored_weight=0)
    for frequency in ("one", "log"):
        yield f"term_frequency {frequency}", replace(base, term_frequency=frequency)
    for width in (1, 2, 3):
        if width <= base.tokens_min:  # a text of so few tokens would have no wider shingle
            yield f"shingle_widths {width}", replace(base, shingle_widths=(width,))
    yield "mask_numbers", replace(base, mask_numbers=True)
    yield "mask_identifiers", replace(base, mask_identifiers=True)
    yield "mask_numbers, mask_identifiers", replace(base, mask_numbers=True, mask_identifiers=True)


def searches(base: SearchRules) -> Iterator[SearchRules]:
    """
    Yield the rules given, then exact searches, then directed ones of every distance, look,
    similarity and cost; each once.
    """
    tried = {base}
    yield base
    for rules in _grid(base):
        if rules not in tried:
            tried.add(rules)
            yield rules


def _grid(base: SearchRules) -> Iterator[SearchRules]:
    for distance in (3, 6, 7):
        yield SearchRules("exact", distance)
    directed = base if base.mode == "directed" else SearchRules()
    for prefixes, distance in product((16, 32, 64), (10, 12, 14, 16)):
        for look, similarity in product(range(600, 851, 50), SIMILARITIES_TRIED):
            chosen = replace(directed, max_distance=distance, patterns=prefixes, look_min=look)
            yield replace(chosen, similarity_min=similarity)


def trials(
    texts: Sequence[str],
    languages: Sequence[str | None],
    pairs: Pairs,
    base: tuple[Parameters, SearchRules],
    pages: Pages = NO_PAGES,
) -> Iterator[Trial]:
    """Try every variant of the fingerprint with every search; `base`: the settings given."""
    rules = list(searches(base[1]))
    # An exact search ranks no pair by its doubts.
    ranked = base[1] if base[1].mode == "directed" else SearchRules()
    tried: set[str] = set()
    for name, parameters in variants(base[0]):
        if parameters.hash in tried:
            continue
        tried.add(parameters.hash)
        measured = measure(Fingerprinter(parameters).batch(texts, languages), pairs, ranked, pages)
        for search in rules:
            yield trial_of(name, parameters, search, measured, pairs)


def trial_of(
    name: str, parameters: Parameters, rules: SearchRules, measured: Measures, pairs: Pairs
) -> Trial:
    """Return what these rules find of pairs that were measured under these parameters."""
    is_found = finds(measured, rules)
    others = is_found[~pairs.same]
    return Trial(
        name,
        parameters,
        rules,
        float(is_found[pairs.same].mean()),
        float(others.mean()) if len(others) else 0.0,
    )


def given_trial(tried: Iterable[Trial], given: SearchRules) -> Trial:
    """Return the trial of the settings as they were given."""
    return next(trial for trial in tried if not trial.changes(given))


def frontier(tried: Sequence[Trial], false_positives_max: float, given: SearchRules) -> list[Trial]:
    """
    Return the trials that no other beats: the recommended one, then those with fewer false
    positives.

    Recommended is the trial with the fewest changes of those whose recall is within `GAIN_MIN` of
    the highest, so the settings as given where they are among them; of equally many changes the one
    with the most recall, the fewest false positives and the cheapest search. A change that gains
    nearly nothing on these pairs may lose copies elsewhere, or merge what is none.

    Args:
        tried: all trials.
        false_positives_max: share of the pairs that are not the same that may be found.
        given: the search as given.
    Returns:
        The best first; empty when none is within the share.
    """
    within = [trial for trial in tried if trial.false_positives <= false_positives_max]
    if not within:
        return []
    enough = max(trial.recall for trial in within) - GAIN_MIN

    def rank(trial: Trial) -> tuple[float, float, int, int]:
        return -trial.recall, trial.false_positives, trial.changes(given), trial.cost

    def effort(trial: Trial) -> tuple[int, float, float, int]:
        return trial.changes(given), -trial.recall, trial.false_positives, trial.cost

    recommended = min((trial for trial in within if trial.recall >= enough), key=effort)
    best = [recommended]
    for trial in sorted(within, key=rank):
        is_no_gain = trial.recall <= recommended.recall
        if is_no_gain and trial.false_positives < best[-1].false_positives:
            best.append(trial)
    return best


def choices(tried: Sequence[Trial], best: Trial) -> dict[str, list[Trial]]:
    """
    Return, by rule, the trials that differ from the best in that rule alone: they show what it
    decides.
    """
    comparable = [
        trial for trial in tried if trial.name == best.name and trial.rules.mode == best.rules.mode
    ]
    choices_of = {}
    for name in ("max_distance", "look_min", "patterns", "similarity_min"):
        value = getattr(best.rules, name)
        alike = [
            trial for trial in comparable if replace(trial.rules, **{name: value}) == best.rules
        ]
        if len(alike) > 1:
            alike.sort(key=lambda trial: float(getattr(trial.rules, name)))
            choices_of[name] = alike
    return choices_of


def sample_pairs(
    texts: Sequence[str],
    batch: FingerprintBatch,
    pairs_max: int,
    pages: Pages = NO_PAGES,
) -> Pairs:
    """
    Return pairs judged by their exact Jaccard index: the same from .8, not the same below .5.

    Candidates are the neighbours in the order of the documents' sketches, so no search that is
    being tuned decides which pairs it is measured on. Of each tenth of the estimated similarity,
    equally many are drawn: most pairs of a corpus have nothing in common, so a uniform sample would
    hardly contain the pairs that decide. Pairs by chance are added. Pairs between the bounds are
    left out, and so are two pages of one host that no settings would call copies.

    Args:
        texts: the texts of the documents.
        batch: their fingerprints, in the same order.
        pairs_max: how many pairs to draw at most.
        pages: where the documents were fetched, and their titles.
    Returns:
        The pairs, each once, of the kinds `COPIES`, `LOOKALIKES` and `UNLIKE`.

    Cost: some 30 µs per document, and 50 µs to 1 ms per pair, by the length of its texts.
    """
    generator = np.random.default_rng(0)  # equal documents give equal pairs
    full = np.flatnonzero(batch.kinds == Kind.FULL)
    tenth_max = max(1, pairs_max // TENTHS)
    near = _near(batch.sketches[full], tenth_max, generator)
    by_chance = generator.integers(0, max(1, len(full)), (tenth_max if len(full) > 1 else 0, 2))
    drawn = np.concatenate([near, np.sort(by_chance, axis=1)])
    drawn = np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)
    first, second = full[drawn].T
    shingles = {row: shingle_set(texts[row]) for row in np.unique([first, second]).tolist()}
    likeness = np.array(
        [
            exact_jaccard(shingles[one], shingles[other])
            for one, other in zip(first.tolist(), second.tolist(), strict=True)
        ]
    )
    kept = (likeness >= SAME_FROM) | (likeness < OTHER_BELOW)
    kinds = np.select([likeness >= SAME_FROM, likeness >= ALIKE_FROM], [COPIES, LOOKALIKES], UNLIKE)
    marks = pages.marks(batch)
    thousandths = (likeness * 1_000).astype(np.uint16)
    kept &= ~((likeness >= SAME_FROM) & _apart(marks[first], marks[second], thousandths))
    return Pairs(first[kept], second[kept], likeness[kept] >= SAME_FROM, kinds[kept].tolist())


def _near(
    sketches: NDArray[np.uint64], tenth_max: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """
    Return pairs of rows that may be alike, the lesser row first: of each tenth of the estimated
    similarity but the lowest at most `tenth_max`, each pair equally likely.

    A sketch is cut into 32 parts of sixteen bits. The rows are put in order 32 times, each time
    beginning with another part, and each row is paired with those behind it. Two texts with a
    Jaccard index of .8 share a part with probability .2 or more, so they hardly miss each other 32
    times, also where thousands of texts share that part, because the next parts decide the order.
    """
    count = len(sketches)
    parts = _parts(sketches)
    # An odd factor takes each pair to a lot of its own and back, so that a pair that comes again
    # draws the same lot.
    factor = generator.integers(0, 1 << 63, dtype=np.uint64) << np.uint64(1) | np.uint64(1)
    inverse = np.uint64(pow(int(factor), -1, 1 << 64))
    lots = [np.empty(0, np.uint64) for _ in range(TENTHS)]
    for part in range(PARTS):
        order = np.argsort(_keys(parts, part), kind="stable")
        for step in range(1, min(NEIGHBOURS, count - 1) + 1):
            pairs = np.sort(np.stack([order[:-step], order[step:]], axis=1), axis=1)
            alike = sketch_similarities(sketches[pairs[:, 0]], sketches[pairs[:, 1]])
            tenths = np.minimum(alike.astype(np.int64) * TENTHS // SIMILARITY_MAX, TENTHS - 1)
            numbers = pairs[:, 0].astype(np.uint64) << np.uint64(32) | pairs[:, 1].astype(np.uint64)
            drawn = _mixed(numbers) * factor
            for tenth in range(1, TENTHS):
                lots[tenth] = np.unique(np.concatenate([lots[tenth], drawn[tenths == tenth]]))
                lots[tenth] = lots[tenth][:tenth_max]
    numbers = _mixed(np.concatenate(lots) * inverse)
    low = np.uint64((1 << 32) - 1)
    return np.stack([numbers >> np.uint64(32), numbers & low], axis=1).astype(np.int64)


def _parts(sketches: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the parts of each sketch, [n, PARTS]: sixteen bins in a number."""
    parts = np.ascontiguousarray(sketches).view(np.uint16).reshape(len(sketches), PARTS)
    return parts.astype(np.uint64)


def _keys(parts: NDArray[np.uint64], first: int) -> NDArray[np.uint64]:
    """Return numbers that put sketches in the order of four of their parts, from `first` on."""
    keys = np.zeros(len(parts), np.uint64)
    for place in range(4):
        keys = keys << np.uint64(16) | parts[:, (first + place) % PARTS]
    return keys


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fold the upper half of each number into the lower one; done twice, the number is back."""
    return numbers ^ numbers >> np.uint64(32)
