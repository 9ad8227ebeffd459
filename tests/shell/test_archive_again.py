"""A run of `neardup archive` again: what is there is left alone, what is gone is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import OTHER
from tests.shell.test_archive import crawl, files, here, run, snapshots_in, write_inputs
from worker.shell.files.state import RunState

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
        assert "are gone: they are written again" in run(*arguments), name
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


def later_run(folder: Path, arguments: list[object]) -> list[object]:
    """The same command over a document that comes later, with a folder of its own."""
    source = write_inputs(folder / "more", a=[{"doc_id": "later", "text": f"{OTHER} And later."}])
    return [*arguments[:2], source, arguments[3], folder / "more" / "out", *arguments[5:]]


def test_a_later_run_of_a_state_that_is_gone_gets_it_whole(
    tmp_path: Path, arguments: list[object]
) -> None:
    """The last snapshot has the documents of the runs before; an earlier run changes nothing then."""
    later = later_run(tmp_path, arguments)
    run(*later)
    state = tmp_path / "state"
    before = snapshots_in(state)
    shutil.rmtree(state)
    run(*later)
    after = snapshots_in(state)
    assert after == {max(before): before[max(before)]}
    run(*arguments)
    assert snapshots_in(state) == after


def test_a_state_that_has_begun_anew_is_not_said_to_have_the_run(
    tmp_path: Path, arguments: list[object]
) -> None:
    """Another run has begun it since it was removed; a run that it may have forgotten is done."""
    state = tmp_path / "state"
    shutil.rmtree(state)
    run(*later_run(tmp_path, arguments))
    begun = snapshots_in(state)
    assert f"{state} has changed since the run in {tmp_path / 'out'} began" in run(
        *arguments, code=1
    )
    assert snapshots_in(state) == begun
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunState, "has_forgotten", True)
        run(*arguments)
    assert snapshots_in(state) == begun


def test_a_state_has_forgotten_runs_if_its_first_one_went_on(
    tmp_path: Path, arguments: list[object]
) -> None:
    """Of those that it remembers."""
    state = RunState(tmp_path / "state")
    assert not state.has_forgotten
    state.runs = [state.runs[0]._replace(base="of a snapshot")]
    assert state.has_forgotten


def test_a_report_is_of_all_verdicts_or_none(tmp_path: Path, arguments: list[object]) -> None:
    """The run's folder stands for its verdicts; its summary stays where they cannot be made again."""
    output = tmp_path / "out"
    drawn = ("--output", tmp_path / "report.html")
    said = run("report", output, *drawn)
    assert said == run("report", output / "verdicts", *drawn) and "answers" in said
    shutil.rmtree(output / "judge")
    max((output / "verdicts").iterdir()).unlink()
    assert "has lost verdicts: run it again" in run("report", output, code=1)
    assert "judge has lost the answers" in run(*arguments, code=1)
    assert (output / "summary.json").exists()


def test_answers_that_are_gone_are_told(tmp_path: Path, arguments: list[object]) -> None:
    """Verdicts without them would be fewer."""
    shutil.rmtree(tmp_path / "out" / "verdicts")
    max((tmp_path / "out" / "judge").glob("answers-*")).unlink()
    assert "judge has lost the answers to document" in run(*arguments, code=1)
