"""
`dedup --state`, end to end: a second run, whatever has happened since the first. What a state knows
of its runs is tested in `tests/shell/test_runs.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import ARTICLE, OTHER, lines, refused, run
from worker.shell.checkpoint import snapshots


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two days of documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "monday.jsonl").write_text(
        lines({"doc_id": "a", "text": ARTICLE}, {"doc_id": "b", "text": ARTICLE.upper()}, "damage")
    )
    (tmp_path / "tuesday.jsonl").write_text(
        lines({"doc_id": "c", "text": ARTICLE}, {"doc_id": "d", "text": OTHER})
    )
    return tmp_path


def dedup(day: str = "monday.jsonl", *options: str, output: str = "kept.jsonl") -> str:
    """Keep the documents of a day; return what is said."""
    options = options or ("--keep", "new")
    return run("dedup", day, "--state", "state", *options, "--output", output).stderr


def known() -> list[tuple[str, bytes]]:
    """The state's files."""
    return [(path.name, path.read_bytes()) for path in snapshots(Path("state"))]


def kept(name: str = "kept.jsonl") -> list[str]:
    """The doc_ids of the documents in an output."""
    return [json.loads(line)["doc_id"] for line in Path(name).read_text().splitlines()]


@pytest.mark.usefixtures("folder")
def test_a_run_again_does_nothing_or_what_is_left() -> None:
    """
    The same one leaves everything as it is; if its output is gone, it is written from the snapshot
    before; another one replaces nothing. The next day goes on from there.
    """
    dedup()
    before, written = known(), Path("kept.jsonl").stat().st_mtime_ns
    said = dedup()
    assert "this run has ended before (20" in said and "nothing is done" in said
    assert Path("kept.jsonl").stat().st_mtime_ns == written and known() == before
    assert dedup("monday.jsonl", "--keep", "new", "--quiet") == ""
    Path("kept.jsonl").unlink()
    assert "its outputs are written again, and the state stays as it is" in dedup()
    assert kept() == ["a"] and known() == before
    options = ("--state", "state", "--id-column", "doc_id", "--output", "kept.jsonl")
    assert "keep was 'new' and is None" in refused("dedup", "monday.jsonl", *options)
    assert kept() == ["a"] and known() == before
    assert "earlier" not in dedup("tuesday.jsonl", output="tuesday-kept.jsonl")
    assert kept("tuesday-kept.jsonl") == ["d"] and known() != before


@pytest.mark.usefixtures("folder")
def test_the_same_run_again_has_the_summary_of_the_first() -> None:
    """A program that reads it cannot tell the two apart."""
    command = ("dedup", "monday.jsonl", "--state", "state", "--output", "out.jsonl", "--json")
    first, second = (json.loads(run(*command).stdout) for _ in range(2))
    assert first == second and first["outcomes"] == {"new": 1, "duplicate": 1}


@pytest.mark.usefixtures("folder")
def test_documents_that_come_again_are_called_so_and_not_new() -> None:
    """None of them is new, as the run says; the verdict is, and scripts see both numbers."""
    command = ("dedup", "monday.jsonl", "--state", "state", "--output")
    run(*command, "first.jsonl")
    said = run(*command, "second.jsonl").stderr
    assert "none of them is new" in said and "; 1 duplicate, 1 redelivered; " in said
    told = json.loads(run(*command, "third.jsonl", "--json").stdout)
    assert told["outcomes"] == {"new": 1, "duplicate": 1} and told["redelivered"] == 1


def test_what_comes_through_a_pipe_is_recognised_when_it_has_been_read(folder: Path) -> None:
    """Outputs and state stay. What cannot be made again is tested in `tests/shell/test_runs.py`."""
    command = ("dedup", "-", "--state", "state", "--output", "out.jsonl")
    content = (folder / "monday.jsonl").read_text()
    run(*command, stdin=content)
    before = known(), Path("out.jsonl").read_bytes()
    assert "nothing is done" in run(*command, stdin=content).stderr
    assert (known(), Path("out.jsonl").read_bytes()) == before
    assert "ended before" not in run(*command, stdin=(folder / "tuesday.jsonl").read_text()).stderr
