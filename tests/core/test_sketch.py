"""The sketch: what it estimates, how well, and that columns and numbers say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.sketch import (
    BITS,
    similarity,
    sketch,
    sketch_of,
    sketch_similarities,
    sketch_similarity,
    words_of,
)

SETS = st.sets(st.integers(0, 2**64 - 1), max_size=400)


@pytest.mark.parametrize("shingles", [12, 60, 300, 2_000, 20_000])
@pytest.mark.parametrize("true", [0.0, 0.5, 0.75, 0.9, 1.0])
def test_the_estimate_has_no_bias_and_the_error_that_is_told(shingles: int, true: float) -> None:
    """The mean of 200 pairs of random sets lies within three standard errors of the Jaccard index, or above at 0."""
    dice = np.random.default_rng(shingles)
    shared = round(2 * shingles * true / (1 + true))
    found = []
    for _ in range(200 if shingles < 10_000 else 30):
        drawn = dice.integers(0, 2**64, 2 * shingles - shared, np.uint64).tolist()
        one, other = drawn[:shingles], drawn[:shared] + drawn[shingles:]
        found.append(similarity(sketch(one), sketch(other)))
    index = shared / (2 * shingles - shared)
    spread = float(np.std(found))
    assert abs(np.mean(found) - index) <= 3 * spread / len(found) ** 0.5 + (0.001 if true else 0.03)
    if true == 0.75 and shingles >= 300:
        assert 0.02 < spread < 0.045
    if true == 1.0:
        assert set(found) == {1.0}


@given(SETS, SETS)
def test_it_is_of_sets_and_says_the_same_both_ways(one: set[int], other: set[int]) -> None:
    """Order and repetitions do not matter, and which of two sketches is the first."""
    first, second = sketch(one), sketch(other)
    assert sketch([*sorted(one), *one]) == first < 1 << BITS
    assert sketch_similarity(first, second) == sketch_similarity(second, first) <= sketch_similarity(first, first)
    columns = (np.array([words_of(made)], np.uint64) for made in (first, second))
    assert sketch_similarities(*columns).tolist() == [sketch_similarity(first, second)]
    assert sketch_of(words_of(first)) == first


@given(st.lists(st.integers(0, 2**BITS - 1), min_size=2, max_size=2))
def test_any_two_sketches_can_be_compared(pair: list[int]) -> None:
    """A log's author may write any 64 bytes: the estimate stays within its bounds, in numbers as in columns."""
    found = sketch_similarity(*pair)
    assert 0 <= found <= 1_000
    assert sketch_similarities(*(np.array([words_of(one)], np.uint64) for one in pair)).tolist() == [found]
