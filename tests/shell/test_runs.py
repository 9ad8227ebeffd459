"""
What a run over files finds of earlier ones in a state: is it one of them, may it go on, what is told.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.program import ARTICLE, OTHER, lines
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.checkpoint import digest_at, snapshots
from worker.shell.files import state as states
from worker.shell.files.digests import DigestedInput, output_digest
from worker.shell.files.engine import file_engine
from worker.shell.files.identity import FileMark, RunIdentity, differences, files_named
from worker.shell.files.options import FileOptions
from worker.shell.files.state import FinishedRun, opened_state, runs_of

STATE = Path("state")
OPTIONS = FileOptions(keep="new")._asdict()
MONDAY = RunIdentity("dedup", OPTIONS, ["kept.jsonl"], [], files_named(["monday.jsonl"]))
TUESDAY = MONDAY._replace(outputs=["tuesday-kept.jsonl"], inputs=files_named(["tuesday.jsonl"]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two days of documents."""
    monkeypatch.chdir(tmp_path)
    Path("monday.jsonl").write_text(lines({"doc_id": "a", "text": ARTICLE}))
    Path("tuesday.jsonl").write_text(lines({"doc_id": "b", "text": OTHER}))
    return tmp_path


class Ended(NamedTuple):
    """What became of a run: the same one before, if nothing was left to do; what was told."""

    done: FinishedRun | None
    told: list[str]


def ended(run: RunIdentity) -> Ended:
    """Do a run as `dedup` does it: look for it, judge a document, write the outputs, keep the state."""
    told: list[str] = []
    with opened_state(STATE) as state:
        done = state.find(run, told.append)
        if done is None:
            with file_engine(Settings(), state) as engine:
                engine.begin()
                list(engine.answers([(None, json.dumps({"text": f"{ARTICLE} {run}"}).encode())]))
                for output in run.outputs:
                    if output[0] not in "-/":
                        Path(output).write_text(f"of {[file.name for file in run.inputs]}")
                inputs, references = (
                    [output_digest(file.name) for file in files]
                    for files in (run.inputs, run.references)
                )
                state.finished = FinishedRun.of(run, inputs, references, state.base, {}, 0)
    return Ended(done, told)


def known() -> list[tuple[str, bytes]]:
    """The state's files."""
    return [(path.name, path.read_bytes()) for path in snapshots(STATE)]


def remade(run: RunIdentity) -> bool:
    """Return whether a run was repeated, and left the state as it was."""
    before = known()
    done, told = ended(run)
    is_told = ["its outputs are written again, and the state stays as it is" in one for one in told]
    assert not is_told or known() == before
    return done is None and is_told == [True]


@pytest.mark.parametrize("name", ["monday.jsonl", "{}/monday.jsonl", "link.jsonl", "copy.jsonl"])
def test_a_run_is_the_same_by_the_contents_of_its_files(folder: Path, name: str) -> None:
    """By another path, through a link, under another name; nothing is left to do, or told."""
    ended(MONDAY)
    before = known()
    Path("link.jsonl").symlink_to("monday.jsonl")
    Path("copy.jsonl").write_bytes(Path("monday.jsonl").read_bytes())
    again = ended(MONDAY._replace(inputs=files_named([name.format(folder)])))
    assert again.done is not None and again.told == [] and known() == before
    assert "this run has ended before (1970" in again.done.told()


def test_an_option_that_the_version_of_a_run_had_not_has_its_default() -> None:
    """So the same command finds its run again after an update."""
    ended(MONDAY._replace(options={"keep": "new"}))
    assert ended(MONDAY).done is not None


def _append(path: Path) -> None:
    with path.open("a") as stream:
        stream.write("mine")


CHANGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_text(""),
    "changed": _append,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("days", [1, 2])
def test_outputs_that_are_not_as_they_were_are_written_again(
    change: Callable[[Path], object], days: int
) -> None:
    """From the snapshot before the run, which may be none; the next run goes on as if nothing was."""
    for run in (MONDAY, TUESDAY)[:days]:
        ended(run)
    change(Path(run.outputs[0]))
    assert remade(run)
    assert ended(run).done is not None


@pytest.mark.parametrize("output", ["-", "/dev/null", "memory://out.jsonl"])
def test_outputs_that_cannot_be_looked_at_are_written_again(output: str) -> None:
    """A shell has emptied the file before the command begins; nobody reads a URL back."""
    run = MONDAY._replace(outputs=[output])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_text", lambda *_: None)
        ended(run)
        assert remade(run)


def test_what_cannot_be_made_again_is_refused() -> None:
    """Other runs have gone on from there, or its snapshot is gone; an intact earlier run is left alone."""
    ended(MONDAY)
    ended(TUESDAY)
    before = known()
    assert ended(MONDAY).done is not None
    Path("kept.jsonl").unlink()
    with pytest.raises(
        StopError, match=r"other runs have gone on from there.* name another --state"
    ):
        ended(MONDAY)
    assert known() == before
    snapshots(STATE)[1].unlink()
    Path(TUESDAY.outputs[0]).unlink()
    with pytest.raises(StopError, match="the snapshot before it is gone"):
        ended(TUESDAY)


def _grown(run: RunIdentity) -> RunIdentity:
    _append(Path(run.inputs[0].name))
    return run


OTHERS: dict[str, tuple[Callable[[RunIdentity], RunIdentity], str]] = {
    "option": (
        lambda run: run._replace(options=OPTIONS | {"keep": None}),
        "keep was 'new' and is None",
    ),
    "output": (
        lambda run: run._replace(outputs=[*run.outputs, "damage.jsonl"]),
        "the outputs differ (1 then, 2 now: {}/damage.jsonl)",
    ),
    "grown input": (_grown, "the inputs differ (1 then, 1 now: {}/monday.jsonl has changed)"),
    "more inputs": (
        lambda run: run._replace(inputs=[*run.inputs, *TUESDAY.inputs]),
        "the inputs differ (1 then, 2 now: {}/tuesday.jsonl)",
    ),
    "reference": (
        lambda run: run._replace(references=TUESDAY.inputs),
        "the references differ (0 then, 1 now: {}/tuesday.jsonl)",
    ),
    "command": (lambda run: run._replace(command="archive"), "that was `neardup dedup`"),
}


@pytest.mark.parametrize(("change", "reason"), OTHERS.values(), ids=OTHERS)
def test_another_run_over_the_same_documents_replaces_no_output(
    folder: Path, change: Callable[[RunIdentity], RunIdentity], reason: str
) -> None:
    """It would be one of copies only. With another output it goes on, and is told what is known."""
    ended(MONDAY)
    before = known()
    other = change(MONDAY)
    with pytest.raises(StopError) as refused:
        ended(other)
    assert reason.format(folder) in str(refused.value)
    assert "name another --output, or another --state" in str(refused.value)
    assert known() == before
    done, told = ended(other._replace(outputs=["other.jsonl"]))
    assert done is None and known() != before
    assert [
        "earlier runs with this --state have read or written monday.jsonl" in one for one in told
    ] == [True]


def test_documents_that_are_all_known_replace_no_output_of_any_run() -> None:
    """Not even of a run that never read them; an output that is an input is known, too."""
    monday = MONDAY._replace(outputs=["monday-kept.jsonl"])
    tuesday = TUESDAY._replace(outputs=["tuesday-kept.jsonl"])
    ended(monday)
    ended(tuesday)
    before = known()
    for name in ("monday.jsonl", "monday-kept.jsonl"):
        again = tuesday._replace(inputs=files_named([name]))
        with pytest.raises(StopError, match=f"has the documents of {name}"):
            ended(again)
        assert known() == before
    Path("wednesday.jsonl").write_text(lines({"doc_id": "c", "text": "Something else."}))
    more = tuesday._replace(inputs=files_named(["monday.jsonl", "wednesday.jsonl"]))
    assert len(ended(more).told) == 1


def test_an_output_that_was_moved_is_not_replaced_by_one_of_copies(folder: Path) -> None:
    """The folder of a project has another name now, and the same command runs there again."""
    ended(MONDAY)
    Path("kept.jsonl").rename("moved.jsonl")
    with pytest.raises(StopError, match=r"/moved\.jsonl has what an earlier run .* outputs differ"):
        ended(MONDAY._replace(outputs=["moved.jsonl"]))
    assert "monday" in Path("moved.jsonl").read_text()


def test_an_output_without_documents_is_that_of_no_earlier_run() -> None:
    """`[]`, or the names of columns: any run that kept none writes the same. It may be replaced."""
    ended(MONDAY)
    [earlier] = runs_of(snapshots(STATE)[0])
    elsewhere = [earlier.outputs[0]._replace(name="/elsewhere/kept.json")]
    states._check_outputs(MONDAY, elsewhere, "a", earlier._replace(summary={"kept": 0}))
    with pytest.raises(StopError, match="has what an earlier run"):
        states._check_outputs(MONDAY, elsewhere, "a", earlier._replace(summary={"kept": 1}))


def test_the_outputs_of_an_earlier_run_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of our inputs it has read."""
    both = MONDAY._replace(inputs=files_named(["monday.jsonl", "tuesday.jsonl"]))
    ended(both)
    compared: list[str] = []
    monkeypatch.setattr(states, "_check_outputs", lambda *given: compared.append(given[2]))
    assert len(ended(both._replace(outputs=["other.jsonl"])).told) == 1
    assert compared == ["monday.jsonl"]


def test_a_file_that_has_grown_is_known_up_to_where_it_was_read() -> None:
    """What was appended is not called known."""
    ended(MONDAY)
    size = Path("monday.jsonl").stat().st_size
    with Path("monday.jsonl").open("a") as stream:
        stream.write(lines({"doc_id": "c", "text": "Something else."}))
    [told] = ended(MONDAY._replace(outputs=["other.jsonl"])).told
    assert f"read or written monday.jsonl up to byte {size:,}: the documents up to there" in told
    assert "those behind it are judged" in told and "none of them is new" not in told


def test_a_day_that_replaces_the_one_before_is_another_run() -> None:
    """One name for every day's export and its output: the contents are others."""
    ended(MONDAY)
    Path("monday.jsonl").write_bytes(Path("tuesday.jsonl").read_bytes())
    assert ended(MONDAY) == (None, [])
    for name in ("empty.jsonl", "other.jsonl"):  # files without content are all alike
        Path(name).write_text("")
        assert (
            ended(TUESDAY._replace(inputs=files_named([name]), outputs=[f"of-{name}"])).told == []
        )


def test_an_input_that_was_a_reference_is_known() -> None:
    """But what is a reference now is not told of."""
    ended(MONDAY._replace(references=TUESDAY.inputs))
    [told] = ended(TUESDAY._replace(references=MONDAY.inputs)).told
    assert "have read or written tuesday.jsonl: the documents in it are known" in told


def test_runs_are_remembered_up_to_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, the last one never."""

    def ended_on(day: int) -> list[str]:
        Path(f"{day}.jsonl").write_text(f"{day}")
        run = MONDAY._replace(inputs=files_named([f"{day}.jsonl"]), outputs=[f"{day}-kept.jsonl"])
        ended(run)
        return [run.inputs[0].name for run in runs_of(snapshots(STATE)[0])]

    monkeypatch.setattr(states, "RUN_FILES_MAX", 2)
    assert [ended_on(day) for day in range(4)][-1] == [f"{folder}/{day}.jsonl" for day in (2, 3)]
    monkeypatch.setattr(states, "RUN_FILES_MAX", 0)
    assert ended_on(4) == [f"{folder}/4.jsonl"]


def test_one_process_at_a_time_has_a_state() -> None:
    """A second one is refused, and so is a folder that cannot be one."""
    with opened_state(STATE), pytest.raises(StopError, match="in use by another process"):
        ended(MONDAY)
    Path("file").write_text("")
    (Path("locked") / ".lock").mkdir(parents=True)
    for place, reason in (("locked", "Is a directory"), ("/proc/self", ""), ("file", "")):
        refusal = pytest.raises(StopError, match=f"{place}.*{reason}.* name another")
        with refusal, opened_state(Path(place)):
            pass


def test_a_state_knows_whether_a_run_in_a_folder_may_end_in_it() -> None:
    """
    It may if the state is as the run found it, and has if its result is there already; if another
    run has gone on, the run is refused.
    """
    ended(MONDAY)
    folder = Path("archive")
    (folder / "judge").mkdir(parents=True)
    with opened_state(STATE) as state:
        base = state.base
        assert base is not None
        state.give_base(base, folder)
    [copied] = snapshots(folder / "judge")
    assert digest_at(copied) == base
    result = ended(TUESDAY) and snapshots(STATE)[0]  # as if the run in the folder had led to it
    with opened_state(STATE) as state:
        assert state.has_taken(result, base, folder)
        with pytest.raises(StopError, match=r"has changed since the run in archive began: it ends"):
            state.has_taken(None, base, folder)
        with pytest.raises(StopError, match="has changed since"):
            state.give_base("another", folder)
    with opened_state(Path("empty")) as state:
        assert not state.has_taken(result, None, folder)
        assert not state.has_taken(result, base, folder)  # it is gone, and gets it again
        with pytest.raises(StopError, match="it is empty"):
            state.give_base(base, folder)
        state.take(result)
        assert state.has_taken(result, None, folder)


FACTS: dict[str, Any] = {
    "command": "dedup", "options": {"keep": None}, "outputs": ["b"], "references": [FileMark("r")],
    "inputs": [FileMark("a", ("a", 2))], "state": "s", "rules": {"max_distance": 3},
    "settings": {"text_characters_max": 5}, "version": "1",
}  # fmt: skip
BEGUN = RunIdentity(
    "archive", {"keep": "new"}, ["a"], [], [FileMark("a", ("a", 1))], None, {"max_distance": 16},
    {"max_distance": 16, "text_characters_max": 9}, "2",
)  # fmt: skip


@pytest.mark.parametrize("fact", RunIdentity._fields)
def test_each_fact_makes_another_run(fact: str) -> None:
    """Both values are told, once, or the files; a fact that is added to the identity has a case here."""
    assert differences(BEGUN, BEGUN) == []
    told = differences(BEGUN, BEGUN._replace(**{fact: FACTS[fact]}))
    assert told and all(" was " in one or " differ (" in one for one in told)


def test_files_in_another_order_are_another_run() -> None:
    """Their documents would be judged in another order."""
    first, second = FileMark("a", (1,)), FileMark("b", (2,))
    run = BEGUN._replace(inputs=[first, second])
    assert differences(run, run._replace(inputs=[second, first])) == [
        "the inputs differ (2 then, 2 now: in another order)"
    ]


def test_a_pipe_is_looked_for_when_it_has_been_read() -> None:
    """Its content is known only then; a run that is over by a pipe cannot be made again."""
    os.mkfifo("pipe")
    run = MONDAY._replace(inputs=files_named(["pipe"]), outputs=["out.jsonl"])
    content = output_digest("monday.jsonl")._replace(name=os.path.realpath("pipe"))
    Path("out.jsonl").write_text("documents")
    with opened_state(STATE) as state, file_engine(Settings(), state) as engine:
        list(engine.answers([(None, b'{"text": "The river rose."}')]))
        state.finished = FinishedRun.of(run, [content], [], state.base, {}, 0)
    with opened_state(STATE) as state:
        assert state.find(run, print) is None
        assert state.find(run, print, [content]) is not None
        Path("out.jsonl").unlink()
        with pytest.raises(StopError, match="came through a pipe, which has been read"):
            state.find(run, print, [content])


def test_what_is_written_to_an_input_after_its_end_was_read_is_not_known() -> None:
    """Nobody has judged it: a run that knew it would leave it out, as one that has ended."""

    class Growing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            if not data:
                self.write(b"later\n")
                self.seek(-6, io.SEEK_CUR)
            return data

    source = DigestedInput(Growing(b"first\n"), "monday.jsonl")
    assert source.read(100) == b"first\n" and source.read(100) == b""
    assert source.finish().size == 6
    left = DigestedInput(io.BytesIO(b"first\nand what a reader has left\n"), "monday.jsonl")
    left.read(6)
    assert left.finish().size == 33


def test_runs_of_another_version_are_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run would find its own documents, and replace its outputs by empty ones."""
    ended(MONDAY)

    def newer(run: FinishedRun) -> dict[str, Any]:
        return {"tool": 2, **dict(zip(run._fields, run, strict=True))}

    with monkeypatch.context() as patch:
        patch.setattr(FinishedRun, "_asdict", newer)
        ended(TUESDAY)
    before = known()
    with pytest.raises(StopError, match=r"snapshot-.* cannot be read .*tool.*name another folder"):
        ended(MONDAY)
    assert known() == before
