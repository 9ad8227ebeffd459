"""`dedup --state`: what a second run does, whatever has happened to files and options since the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import ARTICLE, OTHER, lines, refused, run
from worker.shell.checkpoint import snapshots
from worker.shell.files import state as states
from worker.shell.files.state import runs_of

LONGER = f"{ARTICLE} {OTHER}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two days of documents, the first of which has been judged."""
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


def test_the_same_run_again_leaves_everything_as_it_is(folder: Path) -> None:
    """Found by its contents: by another path, under another name, from another folder."""
    dedup()
    before = known()
    written = Path("kept.jsonl").stat()
    (folder / "link.jsonl").symlink_to("monday.jsonl")
    (folder / "copy.jsonl").write_bytes((folder / "monday.jsonl").read_bytes())
    for day in ("monday.jsonl", str(folder / "monday.jsonl"), "link.jsonl", "copy.jsonl"):
        said = dedup(day)
        assert "this run has ended before (20" in said and "nothing is done" in said
        assert kept() == ["a"] and known() == before
        assert Path("kept.jsonl").stat().st_mtime_ns == written.st_mtime_ns
    assert dedup("monday.jsonl", "--keep", "new", "--quiet") == ""


def test_the_same_run_again_has_the_summary_of_the_first(folder: Path) -> None:
    """A program that reads it cannot tell the two apart."""
    command = ("dedup", "monday.jsonl", "--state", "state", "--output", "out.jsonl", "--json")
    first, second = (json.loads(run(*command).stdout) for _ in range(2))
    assert first == second and first["outcomes"] == {"new": 1, "duplicate": 1}


def _remove(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_text("")


def _append(path: Path) -> None:
    path.write_text(path.read_text() + lines({"doc_id": "mine"}))


@pytest.mark.parametrize("change", [_remove, _empty, _append])
def test_an_output_that_is_gone_or_changed_is_written_again(
    folder: Path, change: Callable[[Path], None]
) -> None:
    """From the snapshot before the run; the state stays as it is, and the next day goes on from it."""
    dedup("monday.jsonl")
    first = known()
    for day, ids in (("monday.jsonl", ["a"]), ("tuesday.jsonl", ["d"])):
        dedup(day, output=f"kept-{day}") if day != "monday.jsonl" else None
        output = "kept.jsonl" if day == "monday.jsonl" else f"kept-{day}"
        before = known()
        change(folder / output)
        said = dedup(day, output=output)
        assert "its outputs are written again, and the state stays as it is" in said
        assert kept(output) == ids and known() == before
    assert first != known()


def test_what_went_to_stdout_is_written_again(folder: Path) -> None:
    """A shell has emptied the file before the command begins; nobody knows what a pipe's reader did."""
    command = ("dedup", "monday.jsonl", "--state", "state", "--keep", "new")
    first = run(*command)
    before = known()
    again = run(*command)
    assert again.stdout == first.stdout != "" and known() == before
    assert "its outputs are written again" in again.stderr
    run("dedup", "monday.jsonl", "--state", "other", "--output", "/dev/null")
    assert (
        "written again"
        in run("dedup", "monday.jsonl", "--state", "other", "--output", "/dev/null").stderr
    )


def test_an_earlier_run_is_left_alone_or_refused(folder: Path) -> None:
    """Its state has gone on, so what it wrote cannot be made again; nothing is replaced."""
    dedup("monday.jsonl", output="monday-kept.jsonl")
    dedup("tuesday.jsonl", output="tuesday-kept.jsonl")
    before = known()
    assert "nothing is done" in dedup("monday.jsonl", output="monday-kept.jsonl")
    Path("monday-kept.jsonl").unlink()
    command = ("dedup", "monday.jsonl", "--state", "state", "--keep", "new")
    said = refused(*command, "--output", "monday-kept.jsonl")
    assert "cannot be written again: other runs have gone on" in said
    assert "name another --state" in said
    assert known() == before and not Path("monday-kept.jsonl").exists()
    snapshots(Path("state"))[1].unlink()
    Path("tuesday-kept.jsonl").unlink()
    said = refused(
        "dedup", "tuesday.jsonl", "--state", "state", "--keep", "new", "--output",
        "tuesday-kept.jsonl",
    )  # fmt: skip
    assert "the snapshot before it is gone" in said


def _grow(folder: Path) -> tuple[str, ...]:
    with (folder / "monday.jsonl").open("a") as stream:
        stream.write(lines({"doc_id": "e", "text": LONGER}))
    return ("--keep", "new")


CHANGED: dict[str, tuple[Callable[[Path], tuple[str, ...]], str]] = {
    "an option": (
        lambda _: ("--id-column", "doc_id"),
        "keep was 'new' and is None",
    ),
    "an output more": (lambda _: ("--keep", "new", "--duplicates", "d.jsonl"), "duplicates was"),
    "damage written": (
        lambda _: ("--keep", "new", "--damage", "damage.jsonl"),
        "the outputs are others",
    ),
    "an input that grew": (_grow, "an input or a reference has changed since"),
    "a reference": (
        lambda _: ("--keep", "new", "--reference", "tuesday.jsonl"),
        "an input or a reference has changed since",
    ),
}


@pytest.mark.parametrize(("change", "reason"), CHANGED.values(), ids=CHANGED)
def test_another_run_over_the_same_documents_replaces_no_output(
    folder: Path, change: Callable[[Path], tuple[str, ...]], reason: str
) -> None:
    """It would be one of copies only. With another output, the run goes on and says what it knows."""
    dedup()
    before = known()
    options = change(folder)
    said = refused("dedup", "monday.jsonl", "--state", "state", *options, "--output", "kept.jsonl")
    assert reason in said and "name another --output, or another --state" in said
    assert kept() == ["a"] and known() == before
    said = dedup("monday.jsonl", *options, output="other.jsonl")
    assert "earlier runs with this --state have read monday.jsonl" in said
    assert kept() == ["a"] and known() != before


def test_a_day_that_replaces_the_one_before_is_judged(folder: Path) -> None:
    """One name for every day's export and its output: the contents are others."""
    (folder / "day.jsonl").write_bytes((folder / "monday.jsonl").read_bytes())
    dedup("day.jsonl")
    (folder / "day.jsonl").write_bytes((folder / "tuesday.jsonl").read_bytes())
    assert "earlier" not in dedup("day.jsonl") and kept() == ["d"]
    (folder / "day.jsonl").write_text("")  # files without content are all alike
    refused("dedup", "day.jsonl", "--state", "state", "--output", "out.jsonl")


def test_a_known_input_among_others_is_named(folder: Path) -> None:
    """As an input or as a reference before; what is a reference now is left out of that."""
    dedup("monday.jsonl", "--reference", "tuesday.jsonl")
    said = run(
        "dedup", "tuesday.jsonl", "--reference", "monday.jsonl", "--state", "state",
        "--output", "out.jsonl",
    ).stderr  # fmt: skip
    assert "have read tuesday.jsonl: the documents in it are known" in said


def test_what_comes_through_a_pipe_is_recognised_when_it_has_been_read(folder: Path) -> None:
    """Outputs and state stay; they cannot be written again, as a pipe can be read only once."""
    command = ("dedup", "-", "--state", "state", "--output", "out.jsonl")
    content = (folder / "monday.jsonl").read_text()
    run(*command, stdin=content)
    before = known(), Path("out.jsonl").read_bytes()
    assert "nothing is done" in run(*command, stdin=content).stderr
    assert (known(), Path("out.jsonl").read_bytes()) == before
    other = refused(
        *command[:-1], "out.jsonl", "--fetched-at", "2026-01-01T00:00:00Z", stdin=content
    )
    assert "fetched_at was None" in other and "name another --output" in other
    assert (known(), Path("out.jsonl").read_bytes()) == before
    Path("out.jsonl").unlink()
    assert "came through a pipe, which has been read" in refused(*command, stdin=content)
    assert known() == before[0] and not Path("out.jsonl").exists()
    assert "ended before" not in run(*command, stdin=(folder / "tuesday.jsonl").read_text()).stderr


def test_outputs_elsewhere_are_written_again(folder: Path) -> None:
    """Nobody reads them back to compare."""
    fsspec = pytest.importorskip("fsspec")
    command = ("dedup", "monday.jsonl", "--state", "state", "--output", "memory://out.jsonl")
    run(*command)
    memory = fsspec.filesystem("memory")
    first = memory.cat("/out.jsonl")
    assert "written again" in run(*command).stderr
    assert len(memory.cat("/out.jsonl")) == len(first) and first.count(b'"new"') == 1


def test_runs_are_remembered_up_to_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, the last one never."""
    monkeypatch.setattr(states, "RUN_FILES_MAX", 2)
    for day in range(4):
        Path(f"{day}.jsonl").write_text(lines({"doc_id": f"{day}", "text": f"{ARTICLE} {day}"}))
        dedup(f"{day}.jsonl", output=f"{day}-kept.jsonl")
    names = [run.inputs[0].name for run in runs_of(snapshots(Path("state"))[0])]
    assert names == [str(folder / f"{day}.jsonl") for day in (2, 3)]
    monkeypatch.setattr(states, "RUN_FILES_MAX", 0)
    dedup("monday.jsonl")
    assert len(runs_of(snapshots(Path("state"))[0])) == 1


def test_a_state_that_cannot_be_written_to_is_refused(folder: Path) -> None:
    """By name and with the reason, before anything is read."""
    (folder / "state" / ".lock").mkdir(parents=True)
    (folder / "file").write_text("")
    for place, reason in (("state", "Is a directory"), ("/proc/self", ""), ("file", "")):
        said = refused("dedup", "monday.jsonl", "--state", place, "--output", "out.jsonl")
        assert place in said and reason in said and "name another" in said
    assert not Path("out.jsonl").exists()
