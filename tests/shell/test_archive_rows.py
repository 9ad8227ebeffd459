"""
Rows that `neardup archive` judges in parts: each answer is that of one replica that judges all of
them in order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.archive.rows import begin_rows, check_first
from tests.shell.test_archive import here  # noqa: F401  # a fixture
from worker.settings import Settings, definition
from worker.shell.archive import tasks


@pytest.mark.usefixtures("here")
def test_rows_in_parts_are_judged_as_rows_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With families, crowded prefixes, re-crawls, redeliveries, deletions; files, groups and batches
    cut each other.
    """
    monkeypatch.setattr(definition, "PREFIX_MAX", 20)
    _check_rows(tmp_path, 3_000, 4)


@pytest.mark.slow
def test_two_hundred_thousand_rows_are_judged_as_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the sizes of use."""
    monkeypatch.setattr(definition, "PREFIX_MAX", 20)
    _check_rows(tmp_path, 200_000, 7)


def _check_rows(folder: Path, count: int, inputs: int) -> None:
    settings = Settings(batch_documents_max=977, threads=1)
    run = begin_rows(folder, count, inputs, settings, short_texts=count // 100 + 1)
    tasks.judge_rows(run, 0)
    check_first(run, count)
