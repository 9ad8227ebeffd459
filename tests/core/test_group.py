"""The plan of a group is made of what was measured, and follows what is asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.common import REPOSITORY
from tests.benchmarks.kept import DEPLOYED, kept_results
from worker.core import group
from worker.core.group import HEADROOM, plan_group
from worker.shell import checkpoint

DAY_S = 86_400.0


def test_a_group_is_planned_by_what_was_measured() -> None:
    """The constants match the kept results within a tenth, and the snapshots' rule exactly."""
    parts = kept_results("scale", DEPLOYED)["parts"]
    assert group.TEXT_OF_5_KB._asdict() == pytest.approx(parts, rel=0.1)
    replay = kept_results("replay", DEPLOYED)["figures"]
    told = {
        "log_bytes_a_row": group.LOG_ROW_BYTES,
        "files_bytes_an_original": group.FILE_BYTES,
        "replica_on_disk_bytes_an_original": replay["index_bytes_an_original"] + group.HELD_BYTES,
        "snapshot_mb": group.SNAPSHOT_BYTES * replay["documents"] / 2**20,
        "restore_cold_s": group.RESTORE_US * replay["documents"] / 1e6,
    }
    assert told == pytest.approx({name: replay[name] for name in told}, rel=0.1)
    assert checkpoint.ROWS_MIN == group.SNAPSHOT_ROWS
    assert checkpoint.INTERVALS_MAX * group.SNAPSHOT_S[0] == group.SNAPSHOT_S[1]
    assert checkpoint.KEPT + 1 == group.SNAPSHOTS


def test_the_readmes_limit_of_a_group_is_the_measured_one() -> None:
    """Of two-core workers, however many there are."""
    groups = kept_results("scale", DEPLOYED)["groups"]
    ends = {one["originals"]: one["documents_per_s"][-1] for one in groups if one["cores"] == 2}
    said = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    few, many = (f"{round(ends[count], -3):,.0f}" for count in (10**6, 10**7))
    assert f"reach at most {few} per second with 1 M originals, {many} with 10 M" in said


@given(st.integers(10**5, 10**9), st.floats(1, 60), st.floats(4e9, 1e12), st.integers(1, 64))
def test_a_planned_group_fits_and_keeps_up(
    per_month: int, days: float, memory: float, cores: int
) -> None:
    """
    Within the memory or refused; twice the average or a plan that names no number of workers; and
    with one worker fewer it would not keep up.
    """
    try:
        planned = plan_group(per_month, retention_s=days * DAY_S, memory_bytes=memory, cores=cores)
    except ValueError as error:
        assert "GB of memory of each worker at least" in str(error)
        return
    assert planned.search.memory_bytes < planned.memory_bytes <= memory
    wanted = HEADROOM * planned.average_per_s
    assert (planned.group_per_s >= wanted) is bool(planned.workers)
    if planned.workers > 1:
        search_us = planned.search.query_insert_ns / 1e3
        fewer = planned.workers - 1
        assert group.documents_per_s(group.TEXT_OF_5_KB, search_us, fewer, cores) < wanted


def test_more_than_a_worker_can_hold_is_refused() -> None:
    """Rows are 32 bits; the error says what to do."""
    with pytest.raises(ValueError, match="more than the 2,147,483,648 that a worker can hold"):
        plan_group(3 * 10**9, retention_s=None, memory_bytes=None, cores=8)
