"""The fault points beyond what the rows of the fault table use."""

from __future__ import annotations

import time

import pytest

from worker.shell.runtime.fault_hooks import Point, from_setting


@pytest.mark.parametrize(("action", "expected"), [("sleep", [0.03]), ("slow", [0.03, 0.03])])
def test_a_slow_point_is_slow_from_its_hit_on(
    monkeypatch: pytest.MonkeyPatch, action: str, expected: list[float]
) -> None:
    """A sleep comes once; slowness stays. Other points are as fast as ever."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    reach = from_setting(f"snapshot:{action}-30-ms:2")
    for _ in range(3):
        reach(Point.READ)
        reach(Point.SNAPSHOT)
    assert slept == expected


@pytest.mark.parametrize("setting", ["nowhere:kill:1", "after-append:explode:1", "after-append:kill", "a:b:c:d"])
def test_a_fault_that_does_not_exist_is_refused(setting: str) -> None:
    """A test that injects nothing would pass for the wrong reason."""
    with pytest.raises(ValueError, match="point:action:hit"):
        from_setting(setting)
