"""What the accuracy benchmark counts."""

from __future__ import annotations

import numpy as np

from tests.benchmarks.accuracy.pairs import Sample, crawl_samples
from tests.benchmarks.accuracy.report import table
from tests.benchmarks.bench_accuracy import OURS, ours
from worker.cli.corpus import Corpus
from worker.core.evaluation import Pairs, groups, score
from worker.settings import Settings

PROSE = "the bridge over the river was built by two brothers who had learned their trade in the mountains of the north"
OTHER = "nobody knows why the older plans were never found but it is said that they were kept in a box below the floor"


def test_pairs_are_counted_for_each_of_ours() -> None:
    """Equal texts are found by every search, different ones by none; a text without a token matches nothing."""
    texts = [PROSE, PROSE.upper(), OTHER, ""]
    pairs = Pairs(np.array([0, 0, 3]), np.array([1, 2, 3]), np.array([True, False, False]), ["made"] * 3)
    found = ours(Sample("made", Corpus(list("abcd"), texts, [None] * 4), pairs))
    assert [one.tolist() for one in found.values()] == [[True, False, False]] * len(OURS)
    scores = {name: score(one, pairs.same, groups(pairs, 4)) for name, one in found.items()}
    assert "| neardup, defaults | 1.000 (1.000 to 1.000) | 0.00000 (to 0.00000) | 1.000 |" in table({"made": scores})


def test_copies_of_a_crawl_come_after_their_originals() -> None:
    """Each pair that is the same is of one group of the truth; the others are originals of two."""
    (sample,) = crawl_samples(200, 5, Settings())
    pairs = sample.pairs
    assert 20 < pairs.same.sum() < len(pairs.same)
    assert (pairs.first[pairs.same] < pairs.second[pairs.same]).all()
    assert set(pairs.kinds[pairs.same.sum() :]) == {"unrelated"}
