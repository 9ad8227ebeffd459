"""What the accuracy benchmark counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.accuracy_samples import Sample, crawl_samples, merged, templates
from tests.benchmarks.bench_accuracy import OURS, ours, tables
from worker.cli.tune import Corpus
from worker.core.evaluation import Pairs, groups, score
from worker.devkit.sample.crawl import LANGUAGES, TEMPLATES
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
    assert "| neardup, defaults | 1.000 (1.000 to 1.000) | 0.00000 (to 0.00000) | 1.000 |" in tables({"made": scores})


def test_copies_of_a_crawl_come_after_their_originals() -> None:
    """Each pair that is the same is of one group of the truth; the others are originals of two."""
    (sample,) = crawl_samples(200, 5, Settings())
    pairs = sample.pairs
    assert 20 < pairs.same.sum() < len(pairs.same)
    assert (pairs.first[pairs.same] < pairs.second[pairs.same]).all()
    assert set(pairs.kinds[pairs.same.sum() :]) == {"unrelated"}


@given(st.integers(1, 9), st.lists(st.booleans(), min_size=36, max_size=36))
def test_a_stream_calls_duplicate_what_is_like_an_original(count: int, found: list[bool]) -> None:
    """A page is one exactly when an earlier page that is none was found to be like it."""
    rows = [(one, other) for other in range(count) for one in range(other)]
    first, second = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    alike = dict(zip(rows, found, strict=False))
    pairs = Pairs(first, second, np.zeros(len(rows), np.bool_), [""] * len(rows))
    duplicate = merged(pairs, np.array([alike[row] for row in rows], np.bool_), count)
    for page in range(count):
        assert duplicate[page] == any(alike[one, page] and not duplicate[one] for one in range(page))


def test_pages_of_templates_are_streams_side_by_side() -> None:
    """Every two pages of a stream are a pair, in the order that `merged` wants, and none of two streams are."""
    stream = templates(pages=3)
    firsts, seconds = stream.pairs.first, stream.pairs.second
    assert len(stream.corpus.texts) == 3 * len(TEMPLATES) * len(LANGUAGES) == len(firsts)
    assert (firsts // 3 == seconds // 3).all()
    assert (firsts < seconds).all() and (np.diff(seconds) >= 0).all()
    assert not any("<" in text or "{" in text for text in stream.corpus.texts)
