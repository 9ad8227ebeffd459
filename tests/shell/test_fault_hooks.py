"""The fault points: off they do nothing, on they fail at the named batch, and a typo is an error."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from worker.shell.runtime.fault_hooks import Point, from_setting, never


def test_without_the_setting_a_point_does_nothing() -> None:
    """It is one empty function for all of them."""
    assert from_setting(None) is never
    for point in Point:
        never(point)


def test_the_named_hit_of_the_named_point_fails() -> None:
    """Other points and earlier hits go by."""
    script = (
        "from worker.shell.runtime.fault_hooks import Point, from_setting\n"
        "reach = from_setting('after-append:kill:2')\n"
        "reach(Point.BEFORE_APPEND); reach(Point.AFTER_APPEND); reach(Point.AFTER_COMMIT); print('alive', flush=True)\n"
        "reach(Point.AFTER_APPEND); print('still alive')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (-9, "alive\n")


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
