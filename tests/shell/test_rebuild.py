"""Rebuilding a log, as far as it shows without a cluster: who ends the worker."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.admin import rebuild
from worker.shell.admin.rebuild import _Watch
from worker.shell.kafka.reader import GroupOffsets
from worker.shell.ports import CommittedOffset


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_worker_ends_when_all_is_answered_or_nobody_watches_it_any_more(
    is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress that cannot be written would leave it running, with nobody who ever ends it."""
    monkeypatch.setattr(rebuild, "LOOK_S", 0.001)
    offsets = iter(range(4))
    group = SimpleNamespace(get=lambda: {0: CommittedOffset(next(offsets), "")})
    shown: list[int] = []

    def show(answered: int, total: int) -> None:
        if answered == 2 and not is_shown:
            raise BrokenPipeError("nobody reads it")
        shown.append(answered)
        assert total == 3

    watch = _Watch(Settings(), {0: 3}, cast(GroupOffsets, group), threading.Event(), show)
    watch.run()
    assert watch.stop.is_set()
    assert (shown, watch.done) == (([0, 1, 2, 3], True) if is_shown else ([0, 1], False))
    assert (watch.failure is None) == is_shown
    assert is_shown or "nobody reads it" in str(watch.failure)


def _no_answer() -> dict[int, CommittedOffset]:
    raise RetryError("the coordinator is away")


@pytest.mark.parametrize(
    ("get", "reason"),
    [
        (
            lambda: {0: CommittedOffset(1, ""), 1: CommittedOffset(None, "")},
            "6 offsets of .* 0, 1 ",
        ),
        (_no_answer, "the coordinator is away: see the worker's log"),
    ],
)
def test_a_rebuild_that_stands_still_says_why(
    get: Callable[[], dict[int, CommittedOffset]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left, or that nobody says what is."""
    monkeypatch.setattr(rebuild, "LOOK_S", 0.001)
    monkeypatch.setattr(rebuild, "STALL_S", 0.01)
    monkeypatch.setattr(_Watch, "_step_over", lambda *_: None)
    group = cast(GroupOffsets, SimpleNamespace(get=get))
    watch = _Watch(Settings(), {0: 3, 1: 4}, group, threading.Event(), lambda *_: None)
    watch.run()
    assert not watch.done and watch.stop.is_set()
    assert re.search(reason, str(watch.failure))
