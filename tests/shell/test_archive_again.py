"""A run of `neardup archive` again: what is there is left alone, what is gone is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shell.test_archive import crawl, files, here, run, snapshots_in

__all__ = ["here"]  # a fixture


def _append(output: Path) -> None:
    with next((output / "kept").iterdir()).open("ab") as stream:
        stream.write(b"mine\n")


def _remove_most(output: Path) -> None:
    for name in ("rows", "kept", "choice"):
        shutil.rmtree(output / name)


LOSSES: dict[str, Callable[[Path], object]] = {
    "kept documents": lambda output: next((output / "kept").iterdir()).unlink(),
    "other documents": lambda output: next((output / "duplicates").iterdir()).unlink(),
    "verdicts cut": lambda output: next((output / "verdicts").iterdir()).write_bytes(b""),
    "a line more": _append,
    "all verdicts": lambda output: shutil.rmtree(output / "verdicts"),
    "damage": lambda output: (output / "damage.jsonl").unlink(),
    "rows and kept documents": _remove_most,
}


@pytest.fixture
def arguments(tmp_path: Path, here: None) -> list[object]:
    """A run that has ended well in `out`, with a state."""
    crawl(tmp_path)
    given: list[object] = ["archive", "--input", tmp_path / "in", "--output", tmp_path / "out"]
    given += ["--state", tmp_path / "state", "--threads", "1", "--keep", "new", "--duplicates"]
    run(*given)
    return given


def test_what_is_gone_is_made_again(tmp_path: Path, arguments: list[object]) -> None:
    """Each output has its bytes again, the summary is the same, and the state stays."""
    output, state = tmp_path / "out", tmp_path / "state"
    before, known = files(output), snapshots_in(state)
    summary = (output / "summary.json").read_bytes()
    for name, lose in LOSSES.items():
        lose(output)
        assert "has lost files: they are written again" in run(*arguments), name
        assert files(output) == before, name
        assert snapshots_in(state) == known, name
        assert (output / "summary.json").read_bytes() == summary, name
        assert "written again" not in run(*arguments), name


def test_nothing_is_done_for_files_that_nobody_reads(
    tmp_path: Path, arguments: list[object]
) -> None:
    """What led to the outputs may be removed to save room."""
    for name in ("rows", "judge", "choice"):
        shutil.rmtree(tmp_path / "out" / name)
    assert "written again" not in run(*arguments)
    assert not (tmp_path / "out" / "rows").exists()


def test_a_state_that_is_gone_gets_the_run_again(tmp_path: Path, arguments: list[object]) -> None:
    """Later runs go on from it; if the judge's snapshots are gone, too, that is said."""
    state = tmp_path / "state"
    before = snapshots_in(state)
    shutil.rmtree(state)
    run(*arguments)
    assert snapshots_in(state) == {max(before): before[max(before)]}
    shutil.rmtree(state)
    for path in (tmp_path / "out" / "judge").glob("snapshot-*"):
        path.unlink()
    assert "judge has lost its snapshots, and the state" in run(*arguments, code=1)


def test_answers_that_are_gone_are_told(tmp_path: Path, arguments: list[object]) -> None:
    """Verdicts without them would be fewer."""
    shutil.rmtree(tmp_path / "out" / "verdicts")
    max((tmp_path / "out" / "judge").glob("answers-*")).unlink()
    assert "judge has lost the answers to document" in run(*arguments, code=1)
