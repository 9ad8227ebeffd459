"""
Rows that `neardup archive` judges in parts: each answer is that of one replica that judges all of
them in order.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.archive.rows import begin_rows, check_first
from tests.shell.test_archive import here  # noqa: F401  # a fixture
from worker.core import planner
from worker.core.index import SearchIndex
from worker.log import columns
from worker.log.originals import OriginalStore
from worker.log.outside import Outside, Slice
from worker.settings import Settings, definition
from worker.shell.archive import tasks
from worker.shell.archive.run import Run


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
@pytest.mark.nightly
def test_a_hundred_thousand_rows_are_judged_as_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the sizes of use."""
    monkeypatch.setattr(definition, "PREFIX_MAX", 20)
    _check_rows(tmp_path, 100_000, 7)


def _check_rows(folder: Path, count: int, inputs: int) -> None:
    settings = Settings(batch_documents_max=977, threads=1)
    run = begin_rows(folder, count, inputs, settings, short_texts=count // 100 + 1)
    tasks.judge_rows(run, 0)
    check_first(run, count)


@pytest.mark.usefixtures("here")
def test_what_a_task_holds_is_what_its_memory_is_planned_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By original: of the judge its tables and columns and its index, of a search the index."""
    run = begin_rows(tmp_path, 100_000, 2, Settings(threads=1))  # fewer leave buckets empty
    stores: list[OriginalStore] = []

    def plan(_run: Run, _number: int, held: OriginalStore, _begin: int) -> None:
        stores.append(held)

    monkeypatch.setattr(tasks, "plan", plan)
    tasks.judge_rows(run, 0)
    [held] = stores
    tables = held.names, held.urls, held.short, held.thin, held.duplicates
    in_memory = [
        column
        for column in held.columns().values()
        if column.memory is columns.anonymous  # the others are in files
    ]
    row_bytes = sum(column.dtype.itemsize for column in in_memory)
    held_bytes = sum(table.nbytes for table in tables) + len(held) * row_bytes
    assert 0.6 < held_bytes / (planner.JUDGE_HELD_BYTES * len(held)) < 1
    search = held.search
    planned = planner.estimate_directed(search, len(held.index)).memory_bytes
    assert 0.6 < held.index.nbytes / planned < 1.1

    given: list[dict[str, Any]] = []
    make = SearchIndex.from_arrays

    def from_arrays(content: dict[str, Any], *of: Any, **more: Any) -> SearchIndex:
        given.append(content)
        return make(content, *of, **more)

    monkeypatch.setattr(SearchIndex, "from_arrays", from_arrays)
    everything = Outside(len(held), held.live_between(0, 0), lambda _: [])
    [rows] = held.rows_outside(everything)
    originals = held.slice_rows(rows)
    Slice(search, originals)
    sliced_bytes = sum(column.nbytes for column in given[0].values())
    assert sliced_bytes == planner.SLICE_HELD_BYTES * len(originals)
    held.outside = everything
    tracemalloc.start()
    held.build()
    restored_bytes = tracemalloc.get_traced_memory()[1] + len(held) * row_bytes
    tracemalloc.stop()
    # Tables of so few are emptier than those of millions, by which it was measured.
    assert 0.6 < restored_bytes / (planner.JUDGE_RESTORED_BYTES * len(held)) < 1.4
    counted = held.index._directed()._outside.nbytes
    small = planner.judge_bytes(search, 1, 1)
    without = planner.TASK_BYTES + 2 * planner.JUDGE_HELD_BYTES
    without += planner.estimate_directed(search, 1).memory_bytes
    assert counted == small - without
