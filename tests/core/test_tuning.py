"""Tuning: what is tried, what of it is best, and pairs where nobody has labelled any."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np

from worker.core.definition import Parameters
from worker.core.evaluation import Pairs
from worker.core.fingerprint import Fingerprinter
from worker.core.search import SearchRules
from worker.core.tuning import Trial, frontier, sample_pairs, trials, variants

WORDS = [f"word{number}" for number in range(3_000)] + ["the", "of", "and", "that", "it"] * 300


def made_texts(count: int) -> list[str]:
    """Texts of 120 words that have nothing to do with each other, each followed by a copy with one word replaced."""
    dice = random.Random(7)
    texts = []
    for _ in range(count):
        words = dice.choices(WORDS, k=120)
        changed = list(words)
        changed[dice.randrange(120)] = "another"
        texts += [" ".join(words), " ".join(changed)]
    return texts


def _trial(recall: float, false_positives: float, rules: SearchRules, name: str = "") -> Trial:
    return Trial(name, Parameters(), rules, recall, false_positives)


def test_every_variant_differs_in_one_thing() -> None:
    """The settings given come first; each other variant is another fingerprint, or is left out as equal to it."""
    tried = list(variants(Parameters()))
    assert tried[0] == ("", Parameters())
    assert {name for name, one in tried[1:] if one == Parameters()} == {"term_frequency one", "shingle_widths 2"}


def test_sampled_pairs_are_judged_exactly() -> None:
    """Each text and its copy are the same; pairs by chance are not; nothing comes twice."""
    texts = made_texts(60)
    pairs = sample_pairs(texts, Fingerprinter().batch(texts), 2_000)
    found = set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(found) == len(pairs.first)
    same = {pair for pair, is_same in zip(sorted(found), pairs.same.tolist(), strict=True) if is_same}
    assert same == {(number, number + 1) for number in range(0, 120, 2)}
    assert (~pairs.same).sum() > 500


def test_pairs_of_one_page_many_times_are_sampled_without_holding_them_all() -> None:
    """4,000 equal texts make 8 M pairs, 128 MB: no more are held than those of one block of rows with the others."""
    texts = made_texts(1)[:1] * 4_000
    batch = Fingerprinter().batch(texts)
    sample_pairs(texts[:2], Fingerprinter().batch(texts[:2]), 10)
    tracemalloc.start()
    pairs = sample_pairs(texts, batch, 100)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 50 <= len(pairs.first) <= 100
    assert len(np.unique(pairs.first // 512)) >= 5  # of 8, the last of which has few
    assert most < 150e6


def test_the_best_is_within_the_bounds() -> None:
    """Most recall first, then fewer false positives; what exceeds a bound is out, of equal ones the cheapest is in."""
    directed = SearchRules()
    tried = [
        _trial(0.99, 0.01, directed),  # too many false positives
        _trial(0.97, 0.001, SearchRules(patterns=64)),
        _trial(0.97, 0.001, directed),
        _trial(0.97, 0.001, directed, "mask_numbers"),
        _trial(0.9, 0.0005, SearchRules("exact", 3)),
        _trial(0.8, 0.0005, SearchRules("exact", 2)),
    ]
    best = frontier(tried, 0.001)
    assert [(one.recall, one.rules, one.name) for one in best] == [
        (0.97, directed, ""),
        (0.9, SearchRules("exact", 3), ""),
    ]
    assert not frontier(tried[:1], 0.001)


def test_trials_are_those_of_the_searches_one_by_one() -> None:
    """All variants with all searches, directed ones for an exact one, too; a larger distance finds no fewer."""
    texts = made_texts(30)
    pairs = Pairs(np.arange(0, 60, 2), np.arange(1, 60, 2), np.arange(30) < 29, ["made"] * 30)
    tried = list(trials(texts, [None] * 60, pairs, (Parameters(), SearchRules("exact", 3))))
    exact = [one for one in tried if one.rules.mode == "exact" and not one.name]
    assert [one.rules.max_distance for one in exact] == [3, 6, 7]
    assert [one.recall for one in exact] == sorted(one.recall for one in exact)
    assert max(one.recall for one in tried if one.rules.mode == "directed") > 0.9
    assert len({one.name for one in tried}) == 11
