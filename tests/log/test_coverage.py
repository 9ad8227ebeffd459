"""The interval set of covered offsets, held against a plain set of integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.log.coverage import Coverage

ranges = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(ranges, max_size=40), ranges)
def test_coverage_equals_a_set_of_integers(added: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    """Whatever is added in whatever order, coverage holds exactly those offsets and reports what was new."""
    coverage, oracle = Coverage(), set[int]()
    for first, stop in added:
        new = {offset for span in coverage.add(first, stop) for offset in range(*span)}
        assert new == set(range(first, stop)) - oracle
        oracle |= set(range(first, stop))
        coverage.check()
    assert {offset for span in coverage for offset in range(*span)} == oracle
    gaps = {offset for span in coverage.missing(*asked) for offset in range(*span)}
    assert gaps == set(range(*asked)) - oracle


def test_mixed_up_bounds_are_refused() -> None:
    """A stop before its first names both."""
    with pytest.raises(ValueError, match="first=5, stop=4"):
        Coverage().missing(5, 4)
