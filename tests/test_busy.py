"""The limits that tests work with: strict on a free machine, longer on a busy one, and never without an end."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.busy import FREE_PER_CORE, STRETCH_MAX, TRIES, stretched, takes_less

Busy = Callable[[float], None]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Busy:
    """Let so many programs want each core."""

    def with_load(per_core: float) -> None:
        load = per_core * (os.cpu_count() or 1)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))

    return with_load


def test_a_limit_is_stretched_by_what_wants_the_cores(busy: Busy) -> None:
    """Not below the load that the tests make themselves, and not beyond the most."""
    for per_core, expected in ((0.0, 10), (FREE_PER_CORE, 10), (2 * FREE_PER_CORE, 20), (1_000.0, 10 * STRETCH_MAX)):
        busy(per_core)
        assert stretched(10) == pytest.approx(expected)


def test_a_fault_that_costs_too_much_each_time_is_told_with_all_figures(busy: Busy) -> None:
    """Time-outs are as long on every machine; only the work is stretched."""
    busy(2 * FREE_PER_CORE)
    played: list[float] = []

    def scenario() -> float:
        played.append(19.0)
        return played[-1]

    takes_less(10, 5, scenario)
    assert len(played) == 1
    with pytest.raises(AssertionError, match=r"19\.0 s of 18\.0 s, 19\.0 s of 18\.0 s"):
        takes_less(10, 4, scenario)
    assert len(played) == 1 + TRIES


def test_one_try_within_the_limit_is_enough(busy: Busy) -> None:
    """The others were somebody else's doing."""
    busy(0.0)
    took_s = iter([30.0, 12.0])
    takes_less(10, 4, lambda: next(took_s))


def test_what_a_scenario_finds_wrong_is_never_tried_again(busy: Busy) -> None:
    """A wrong history is no matter of time."""
    busy(0.0)
    played: list[int] = []

    def scenario() -> float:
        played.append(1)
        raise AssertionError("two answers")

    with pytest.raises(AssertionError, match="two answers"):
        takes_less(10, 4, scenario)
    assert len(played) == 1
