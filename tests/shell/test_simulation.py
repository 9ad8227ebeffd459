"""Histories of a failing group, NEARDUP_HISTORIES of them: each source offset gets one answer, the log's."""

from __future__ import annotations

import os

import pytest

from tests.shell.simulation import History

HISTORIES = int(os.environ.get("NEARDUP_HISTORIES", "100"))
CHUNK = 50


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_every_offset_is_answered_once_and_as_the_log_says(first: int) -> None:
    """Crashes, stalls, rebalances, doubtful commits, second processes: nothing is lost, repeated or wrong."""
    for seed in range(first, first + CHUNK):
        history = History(seed)
        try:
            history.run()
            history.check()
        except Exception as error:
            raise AssertionError(f"history with seed {seed}: {error}") from error
