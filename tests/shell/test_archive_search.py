"""
An archive is judged by the search for its number of documents, and no run outgrows its search
unsaid.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import defined
from tests.shell.local_engine import local_engine
from tests.shell.test_archive import days, run, told, verdicts
from worker.core import planner
from worker.core.planner import SIZES, line_of
from worker.log.rules import LogDefinition
from worker.log.snapshot import unpack
from worker.shell.archive import steps
from worker.shell.checkpoint import map_file, newest


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark; and the named sizes serve 10, 25 and 50 originals instead of millions."""
    monkeypatch.setattr(steps, "engine", local_engine)
    sizes = [size._replace(documents_max=size.documents_max // 2_000_000) for size in SIZES]
    monkeypatch.setattr(planner, "SIZES", tuple(sizes))


@pytest.mark.usefixtures("small_sizes")
def test_an_archive_is_judged_by_the_search_for_its_number_of_documents(tmp_path: Path) -> None:
    """
    It says which, `dedup` with the same settings gives the same verdicts, and the run that goes on
    from its state keeps them, whatever its own number. A search that is given stays.
    """
    first, second, third = days(tmp_path)
    large = defined(search_size="large")
    state = tmp_path / "state"
    both = ("archive", "--input", first, "--input", second, "--input", third, "--format", "jsonl")
    text = run(*both, "--state", state, "--output", tmp_path / "out")
    assert f"the search for so many documents: {line_of(SIZES[1].rules)}" in text
    header, _ = unpack(map_file(newest(state) or state))
    assert LogDefinition(*header["definition"]).rules["search_blocks"] == SIZES[1].rules.blocks
    run("dedup", first, second, third, "--output", tmp_path / "expected.jsonl", *large)
    expected = (tmp_path / "expected.jsonl").read_bytes().splitlines()
    assert told(verdicts(tmp_path / "out")) == told(expected)
    again = ("archive", "--input", first, "--threads", "1", "--state", state, "--output")
    assert "the search for so many" not in run(*again, tmp_path / "again")
    run(*again, tmp_path / "again")  # the same run, although its state has gone on
    given = (*both, *defined(search_size="small"), "--output", tmp_path / "given")
    text = run(*given)
    assert "the search for so many" not in text
    assert "if half of the documents are copies, 15 originals are held" in text
    other = run(*given[:-1], tmp_path / "other", "--state", state, code=1)
    assert "search_size is 'large' there, 'small' here" in other


@pytest.mark.usefixtures("small_sizes")
def test_dedup_says_that_it_outgrows_its_search_while_it_goes_on(tmp_path: Path) -> None:
    """
    At seven of the ten originals that the search serves, with other settings; verdicts follow.
    """
    first, second, third = days(tmp_path)
    arguments = (
        "dedup",
        first,
        second,
        third,
        "--output",
        tmp_path / "verdicts.jsonl",
        "--batch-documents-max",
        "1",
    )
    text = run(*arguments)
    assert "7 originals are held, and the search serves 10" in text
    assert f"judge from the beginning with {line_of(SIZES[1].rules)} in the" in text
    assert len((tmp_path / "verdicts.jsonl").read_bytes().splitlines()) == 30
    assert "are held" not in run(*arguments, "--quiet")
