"""
`neardup archive`: each verdict is that of `neardup dedup` over the same files in order, whatever
happens.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import neardup
import orjson
import pyarrow
import pytest
from pyarrow import parquet
from rich.console import Console
from typer.testing import CliRunner

from tests.benchmarks.archive.documents import write_documents
from tests.cli.program import ARTICLE, OTHER, defined, lines, page
from tests.faults.crawl import random_words
from tests.shell.local_engine import LocalEngine, local_engine
from worker.cli import app, progress
from worker.devkit.sample.crawl import write_sample_crawl
from worker.log.snapshot import unpack
from worker.shell.archive import outputs, steps, tasks
from worker.shell.archive.run import Run
from worker.shell.checkpoint import locked, map_file, snapshots
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.keeping import format_kept
from worker.shell.files.options import FileOptions

MANY = int(os.environ.get("ARCHIVE_DOCUMENTS", "20000"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark: what is tested is what the tasks make; and all of it in small pieces."""

    monkeypatch.setattr(steps, "engine", local_engine)
    monkeypatch.setattr(tasks, "GROUP_ROWS", 32)
    monkeypatch.setattr(tasks, "ANSWERS", 50)
    monkeypatch.setattr(tasks, "SNAPSHOT_ROWS_MIN", 70)
    monkeypatch.setattr(outputs, "MEMBERS", 60)


def run(*arguments: object, code: int = 0) -> str:
    """Run a command; return what it said."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output if code == 0 else f"{result.output}{result.exception}"


def archive(output: Path, *arguments: object, code: int = 0) -> str:
    """Run the command over all files beside the output's folder."""
    return run(*command(output, *arguments), code=code)


def command(output: Path, *arguments: object) -> list[str]:
    return [
        *map(str, ["archive", "--input", output.parent / "in", "--output", output, *arguments]),
        "--threads",
        "1",
    ]


def summary(said: str) -> dict[str, Any]:
    """Return the line of JSON at the end of what a command said."""
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def dedup(folder: Path, *arguments: object) -> list[bytes]:
    """Return the verdicts of `dedup` over the same files."""
    inputs = sorted((folder / "in").resolve().iterdir())
    run("dedup", *inputs, "--output", folder / "expected.jsonl", "--threads", "1", *arguments)
    return (folder / "expected.jsonl").read_bytes().splitlines()


def told(lines_: list[bytes]) -> list[dict[str, Any]]:
    """Return verdicts without the time at which they were decided."""
    return [
        {name: value for name, value in orjson.loads(line).items() if name != "decided_at"}
        for line in lines_
    ]


def verdicts(output: Path) -> list[bytes]:
    """Return the lines of all files of verdicts."""
    return [
        line
        for path in sorted((output / "verdicts").iterdir())
        for line in path.read_bytes().splitlines()
    ]


def files(output: Path) -> dict[str, bytes]:
    """Return what users read: verdicts, documents, damage, each whole."""
    names = ("verdicts", "kept", "duplicates")
    found = [path for name in names for path in (output / name).glob("*")]
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in (*found, output / "damage.jsonl")
    }


def crawl(folder: Path, seed: int = 1) -> Path:
    """
    Write a corpus: archives, lines and rows with and without names, re-crawls, redeliveries,
    damage, nothing.
    """
    draw = random.Random(seed)
    pool = [" ".join(random_words(draw, 60)) for _ in range(12)]
    source = write_inputs(folder)
    write_sample_crawl(source / "a.warc.gz", 120, seed=seed)
    (source / "a.truth.jsonl").unlink()

    def edited(text: str) -> str:
        return text.replace(text.split()[3], "otherwise", 1) if draw.random() < 0.3 else text

    named = [page(draw.randrange(30), text=edited(draw.choice(pool))) for _ in range(60)]
    named += [page(n, text="One word") for n in range(100, 104)]
    named += [page(9, text=""), page(8), named[5], named[5]]
    draw.shuffle(named)
    (source / "b.jsonl").write_text(lines(*named, "[]", "{"))
    unnamed = [
        {"content": edited(draw.choice(pool)), "text": edited(draw.choice(pool))} for _ in range(90)
    ]
    for row in unnamed[::7]:
        row["url"] = f"https://example.org/{draw.randrange(5)}"
    (source / "c.jsonl").write_text(lines(*unnamed))
    columns: dict[str, list[str | None]] = {"text": [edited(draw.choice(pool)) for _ in range(70)]}
    columns["doc_id"] = [str(draw.randrange(9)) if draw.random() < 0.2 else None for _ in range(70)]
    parquet.write_table(pyarrow.table(columns), source / "d.parquet")
    (source / "e.csv").write_text(
        "id,text\n" + "".join(f'{n},"{draw.choice(pool)}"\n' for n in range(20))
    )
    (source / "f.jsonl").write_bytes(b"")
    (source / "g.warc.gz").write_bytes((source / "a.warc.gz").read_bytes()[:30_000])  # half written
    return source


@pytest.mark.usefixtures("here")
def test_every_verdict_is_that_of_dedup(tmp_path: Path) -> None:
    """
    Field by field, names that are made of places and errors with their places included; the same
    summary. How many bytes `dedup` has in hand does not matter.
    """
    crawl(tmp_path)
    small = ("--batch-documents-max", "37", "--document-bytes-max", "65536")
    expected = dedup(tmp_path, *small, "--batch-bytes-max", "65536")
    output = tmp_path / "out"
    said = summary(archive(output, "--format", "jsonl", *small, "--json"))
    assert told(verdicts(output)) == told(expected)
    wanted = [answer["verdict"] for answer in told(expected)]
    assert {"new", "duplicate", "skipped", "dead-letter"} == set(wanted)
    assert said["outcomes"] == {name: wanted.count(name) for name in said["outcomes"]}
    assert said["documents"] == len(expected)
    damage = [json.loads(line) for line in (output / "damage.jsonl").read_text().splitlines()]
    assert said["damaged"] == len(damage) > 3
    assert {Path(one["file"]).name for one in damage} >= {"b.jsonl", "g.warc.gz"}
    assert len(tasks.answer_files(Run.load(output))) > 3


@pytest.mark.usefixtures("here")
def test_documents_that_stay_are_those_of_dedup(tmp_path: Path) -> None:
    """
    A file for each input, byte for byte; the others, and revisit records, too. Which of a cluster
    is preferred is compared in `test_archive_steps.py`.
    """
    source = write_inputs(tmp_path)
    for number in range(3):
        write_sample_crawl(source / f"{number}.warc.gz", 80, seed=number % 2)
        (source / f"{number}.truth.jsonl").unlink()
    expected, others = tmp_path / "kept.warc.gz", tmp_path / "others.warc.gz"
    output = tmp_path / "out"

    def whole(folder: str) -> bytes:
        return b"".join(
            gzip.decompress(path.read_bytes()) for path in sorted((output / folder).iterdir())
        )

    inputs = sorted(source.iterdir())
    run("dedup", *inputs, "--output", expected, "--keep", "new", "--duplicates", others)
    said = summary(archive(output, "--keep", "new", "--duplicates", "--json"))
    assert whole("kept") == gzip.decompress(expected.read_bytes())
    assert whole("duplicates") == gzip.decompress(others.read_bytes())
    told_of = run("report", output / "verdicts", "--output", tmp_path / "report.html")
    assert f" {said['documents']} answers" in told_of
    run("dedup", *inputs, "--output", expected, "--keep", "revisits")
    output = tmp_path / "again"
    archive(output, "--keep", "revisits")
    assert whole("kept") == gzip.decompress(expected.read_bytes())


@pytest.mark.usefixtures("here")
def test_an_input_of_the_longest_name_has_kept_documents(tmp_path: Path) -> None:
    """Its number and the mark of an unfinished file are added; the name is cut between characters."""
    name = f"{'é' * 120}.jsonl.gz"
    (write_inputs(tmp_path) / name).write_bytes(
        gzip.compress(b'{"doc_id": "a", "text": "one short text"}\n')
    )
    archive(tmp_path / "out", "--keep", "new")
    (kept,) = (tmp_path / "out" / "kept").iterdir()
    assert kept.name.startswith("000000-é") and kept.name.endswith("é.jsonl.gz")
    assert b"one short text" in gzip.decompress(kept.read_bytes())


@pytest.mark.usefixtures("here")
def test_runs_and_dedup_go_on_from_one_another(tmp_path: Path) -> None:
    """
    Day by day through one state, by either: verdicts, names and numbers are those of `dedup` alone.
    """
    state, expected_state = tmp_path / "state", tmp_path / "expected_state"
    for day in range(4):
        folder = tmp_path / str(day)
        crawl(folder, seed=day // 2 + 1)
        expected = dedup(folder, "--state", expected_state)
        if day == 2:
            run(
                "dedup",
                *sorted((folder / "in").resolve().iterdir()),
                "--state",
                state,
                "--output",
                folder / "v",
            )
            found = (folder / "v").read_bytes().splitlines()
        else:
            archive(folder / "out", "--state", state, "--format", "jsonl")
            found = verdicts(folder / "out")
        assert told(found) == told(expected)
    known = neardup.Deduplicator.load(state)
    assert len(known) == len(neardup.Deduplicator.load(expected_state)) > 100
    assert not known.add({"doc_id": "new", "text": ARTICLE + OTHER}).duplicate_of
    assert "has changed since the run" not in archive(
        tmp_path / "3" / "out", "--state", state, "--format", "jsonl"
    )


class Killed(BaseException):
    """What nothing catches, as nothing catches SIGKILL."""


def kill_behind(
    module: object, step: str, arguments: Sequence[object], *, is_before: bool = False
) -> None:
    """Run a command that is killed after a step, or before it."""
    do = getattr(module, step)

    def killed(*given: Any, **named: Any) -> None:
        if not is_before:
            do(*given, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, step, killed)
        run(*arguments)


def snapshots_in(folder: Path) -> dict[str, bytes]:
    """Return the snapshots of a state by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("snapshot-*")}


def known_in(folder: Path) -> dict[str, Any]:
    """Return what the snapshots of a state hold, without the names of the runs that wrote them."""
    contents = {}
    for path in snapshots(folder):
        header, arrays = unpack(map_file(path))
        del header["runs"]
        contents[path.name] = header, {name: column.tobytes() for name, column in arrays.items()}
    return contents


def write_inputs(folder: Path, **files: Sequence[dict[str, Any] | str]) -> Path:
    """Write lines to files of the folder `in`, which are called `NAME.jsonl`; return the folder."""
    source = folder / "in"
    source.mkdir(parents=True)
    for name, documents in files.items():
        (source / f"{name}.jsonl").write_text(lines(*documents))
    return source


def days(folder: Path) -> list[Path]:
    """Write three files of ten documents that have nothing in common."""
    draw = random.Random(28)
    made = []
    for day in range(3):
        documents = [
            page(day * 10 + number, text=" ".join(random_words(draw, 60))) for number in range(10)
        ]
        made.append(folder / f"day{day}.jsonl")
        made[-1].write_text(lines(*documents))
    return made


def judged_again(state: Path, source: Path, target: Path) -> Counter[str]:
    """Count what `dedup` says of documents on a state."""
    run("dedup", source, "--state", state, "--output", target, "--threads", "1")
    answers = told(target.read_bytes().splitlines())
    return Counter(answer.get("reason") or answer["verdict"] for answer in answers)


@pytest.mark.usefixtures("here")
def test_a_run_goes_on_from_no_state_that_another_run_has_changed(tmp_path: Path) -> None:
    """Although the other run's snapshot has the name of its own; nothing is lost."""
    first, ours, theirs = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    judged_again(state, first, tmp_path / "first")
    arguments = ("archive", "--input", ours, "--state", state, "--threads", "1", "--output")
    kill_behind(steps, "write_verdicts", (*arguments, output), is_before=True)
    before = snapshots_in(state)
    assert judged_again(state, theirs, tmp_path / "theirs") == {"new": 10}
    after = snapshots_in(state)
    assert max(after) == max(path.name for path in (output / "judge").glob("snapshot-*"))
    said = run(*arguments, output, code=1)
    assert f"{state} has changed since the run in {output} began" in said
    assert snapshots_in(state) == after != before
    run(*arguments, tmp_path / "another")
    for source in (first, ours, theirs):
        assert judged_again(state, source, tmp_path / "again") == {"redelivered": 10}


@pytest.mark.usefixtures("here")
def test_a_run_is_known_to_its_state_in_any_folder_and_to_dedup(tmp_path: Path) -> None:
    """
    The same command, after its folder is gone, gives the same results, and the state stays; with
    another folder, and to `dedup`, it is said that the documents are known.
    """
    first, ours, _ = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    judged_again(state, first, tmp_path / "first")
    arguments = ("archive", "--input", ours, "--state", state, "--threads", "1", "--keep", "new")
    assert "; 10 kept" in run(*arguments, "--output", output)
    before = snapshots_in(state)
    kept = {path.name: path.read_bytes() for path in (output / "kept").iterdir()}
    shutil.rmtree(output)
    again = run(*arguments, "--output", output)
    assert "its outputs are written again, and the state stays as it is" in again
    assert {path.name: path.read_bytes() for path in (output / "kept").iterdir()} == kept
    assert snapshots_in(state) == before
    known = f"earlier runs with this --state have read or written {ours}"
    other = run("dedup", ours, "--state", state, "--output", tmp_path / "other")
    assert known in other and "; 10 redelivered; " in other
    said = run(*arguments, "--output", tmp_path / "another")
    assert known in said and "; 10 redelivered; " in said


@pytest.mark.usefixtures("here")
def test_a_run_interrupted_at_its_end_knows_that_the_state_has_its_originals(
    tmp_path: Path,
) -> None:
    """
    Also when another run has gone on from them: it ends well, and the state has the originals of
    both.
    """
    _, ours, theirs = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    arguments = ("archive", "--input", ours, "--state", state, "--threads", "1", "--output")
    kill_behind(Run, "keep_state", (*arguments, output))
    assert judged_again(state, theirs, tmp_path / "theirs") == {"new": 10}
    after = snapshots_in(state)
    run(*arguments, output)
    assert snapshots_in(state) == after
    for source in (ours, theirs):
        assert judged_again(state, source, tmp_path / "again") == {"redelivered": 10}


def reasons(known: neardup.Deduplicator, source: Path) -> set[str | None]:
    """Return the reasons of the verdicts on a file, all of which are new or redelivered."""
    verdicts_ = list(known.add_many(CrawlFiles([str(source)])))
    assert {verdict.outcome for verdict in verdicts_} == {"new"}
    return {verdict.reason for verdict in verdicts_}


def test_a_loaded_state_stays_what_it_was_whatever_runs_make_of_the_folder(tmp_path: Path) -> None:
    """
    A library that has loaded a state goes on from that, and saves it to a file of its own; the
    folder has the rest.
    """
    first, ours, theirs = days(tmp_path)
    state = tmp_path / "state"
    judged_again(state, first, tmp_path / "first")
    with neardup.Deduplicator.load(state) as loaded:
        for source in (theirs, theirs, theirs):  # so that the snapshot which was loaded is gone
            judged_again(state, source, tmp_path / "theirs")
        assert reasons(loaded, ours) == {None}
        loaded.save(tmp_path / "own.ndsnap")
    for path, known, unknown in ((state, theirs, ours), (tmp_path / "own.ndsnap", ours, theirs)):
        with neardup.Deduplicator.load(path) as again:
            assert len(again) == 20
            assert reasons(again, first) == reasons(again, known) == {"redelivered"}
            assert reasons(again, unknown) == {None}


def inputs_and_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Make what two runs need to be compared byte for byte: inputs, one time for both, and two equal
    states, `state` and `whole_state`.
    """
    crawl(tmp_path)
    (tmp_path / "in" / "d.parquet").unlink()
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_000_000_000_000_000)
    (tmp_path / "known.jsonl").write_text(lines(page(3, text=ARTICLE), page(4, text=OTHER)))
    for state in ("state", "whole_state"):
        given = ("--state", tmp_path / state, "--output", tmp_path / "known.verdicts")
        run("dedup", tmp_path / "known.jsonl", *given)


@pytest.mark.usefixtures("here")
def test_two_runs_at_once_have_neither_folder_nor_state_in_common(tmp_path: Path) -> None:
    """The second is refused before it reads or writes anything, and runs when the first has ended."""
    first, _, _ = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    given = ("archive", "--input", first, "--threads", "1", "--state", state, "--output", output)
    for folder in (output, state):
        with locked(folder):
            said = run(*given, code=1)
        assert f"{folder} is in use by another process: wait for its end" in said
        assert [path.name for path in folder.iterdir()] == [".lock"]
    run(*given)
    assert len(neardup.Deduplicator.load(state)) == 10


@pytest.mark.usefixtures("here")
def test_what_is_no_run_of_these_files_is_refused(tmp_path: Path) -> None:
    """
    Other options or inputs (`test_runs.py` has all facts), rules that need an order; a folder of
    something else; what is missing. It stays as it was.
    """
    source = write_inputs(tmp_path, b=[page(1, text=ARTICLE), page(2, text=OTHER)])
    output = tmp_path / "out"
    archive(output, "--format", "jsonl")
    before = files(output)
    for options, reason in (
        (("--format", "csv"), "another run: format was 'jsonl' and is 'csv'. Name another"),
        (
            defined(recrawls="replace"),
            "recrawls = replace: which versions leave depends on verdicts",
        ),
        (defined(expire_after_s=60), "expire_after_s = 60: files have no clock"),
        (defined(documents_max=60), "documents_max = 60: who leaves depends on verdicts"),
    ):
        assert reason in archive(output, *options, code=1)
    with (source / "b.jsonl").open("a") as more:
        more.write("{}")
    assert re.search(
        "inputs differ .*b.jsonl has changed", archive(output, "--format", "jsonl", code=1)
    )
    assert files(output) == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    assert "is not empty, and no run" in archive(tmp_path / "other", code=1)
    said = archive(tmp_path / "same", "--state", tmp_path / "same", code=1)
    assert "same lies in" in said and "which --state names" in said
    said = archive(tmp_path / "new", "--state", tmp_path / "new" / "known", code=1)
    assert "known lies in" in said and "which --output names" in said
    (tmp_path / "file").write_text("as it was")
    for place in (tmp_path / "file", tmp_path / "file" / "inner"):
        said = run("archive", "--input", source, "--output", place, code=1)
        assert f"{place} cannot be a folder, because {tmp_path / 'file'} is a file" in said
    assert (tmp_path / "file").read_text() == "as it was" and not (tmp_path / "new").exists()
    long = tmp_path / ("x" * 300)
    said = run("archive", "--input", source, "--output", long, code=1)
    assert f"{long} cannot be made (File name too long): name another --output" in said
    for wrong, reason in ((tmp_path / "none*", "no such file"), (output / "verdicts", "lies in")):
        assert reason in run("archive", "--input", wrong, "--output", output, code=1)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.jsonl").write_text("{}\n")
    said = run("archive", "--input", tmp_path / "bad", "--output", tmp_path / "none", code=1)
    assert "nothing could be judged" in said and "x.jsonl" in said
    run("archive", "--input", source, "--output", tmp_path / "none")  # nothing is left of it


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs what the extra has."""
    monkeypatch.delitem(sys.modules, steps.__name__)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.jsonl").write_text(lines(page(1, text=ARTICLE)))
    said = run("archive", "--input", tmp_path / "a.jsonl", "--output", tmp_path / "out", code=1)
    assert "archive needs pyarrow: pip install 'pyarrow>=" in said


@pytest.mark.usefixtures("here")
def test_an_input_that_changes_meanwhile_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its rows would be of two files, or its documents of another than its verdicts; the others stay.
    """
    source, output = crawl(tmp_path), tmp_path / "out"
    make = tasks.make_rows

    def changing(given: Run, number: int) -> dict[str, Any]:
        if number == 1:
            with (source / "b.jsonl").open("a") as more:
                more.write("{}")
        return make(given, number)

    monkeypatch.setattr(steps, "make_rows", changing)
    assert "b.jsonl has changed since the run began" in archive(output, code=1)
    assert 3 <= len(Run.load(output).done("rows")) < 7


@pytest.mark.usefixtures("here")
def test_an_input_that_changes_while_it_is_copied_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many other documents in its place would stand under its verdicts."""
    source, output = crawl(tmp_path), tmp_path / "out"

    def changing(files: Sequence[str], *more: Any) -> Any:
        if files == [str(source / "b.jsonl")]:
            os.utime(files[0], ns=(1, 1))
        return format_kept(files, *more)

    monkeypatch.setattr(outputs, "format_kept", changing)
    said = archive(output, "--keep", "new", code=1)
    assert "b.jsonl has changed since it was judged" in said
    assert not [*(output / "kept").glob("*b.jsonl*")]


@pytest.mark.usefixtures("here")
def test_a_state_that_cannot_be_gone_on_from_is_refused(tmp_path: Path) -> None:
    """Of other rules, of a group, damaged: before anything is read."""
    crawl(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    run(
        "dedup",
        tmp_path / "in" / "a.warc.gz",
        "--state",
        state,
        "--output",
        tmp_path / "v",
        *defined(max_distance=9),
    )
    assert "max_distance is 9 there, 16 here" in archive(output, "--state", state, code=1)
    [snapshot] = state.glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    assert "cannot go on from" in archive(output, "--state", state, code=1)
    assert not (output / "run.json").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            '{"version":"0.1.0","inputs":[],"options":{"gone":1}}',
            "has format 0, and this version's",
        ),
        ('{"format":99}', "has format 99, and this version's"),
        ("[1]", "is none of `neardup archive`"),
        ("", "is none of `neardup archive`"),
    ],
    ids=["before formats", "of a later version", "of another program", "empty"],
)
def test_a_folder_of_another_version_is_refused(tmp_path: Path, said: str, reason: str) -> None:
    """Whatever its files have or lack: each names the remedy, and the folder stays as it was."""
    crawl(tmp_path)
    output = tmp_path / "out"
    output.mkdir()
    (output / "run.json").write_text(said)
    told = archive(output, code=1)
    assert reason in told and "name another --output" in told
    assert (output / "run.json").read_text() == said
    assert {path.name for path in output.iterdir()} <= {"run.json", ".lock"}


def empty_run(folder: Path) -> Run:
    said = {"inputs": [], "references": 0, "first": 0, "started_at_ms": 0, "task_memory": None}
    return Run(folder, said | {"options": FileOptions(format="jsonl.zst")._asdict()})


def test_executors_must_run_this_version_and_see_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is asked first."""
    given = empty_run(tmp_path)
    engine = LocalEngine()
    with pytest.raises(neardup.StopError, match="do not see"):
        engine.check(given)
    (tmp_path / "run.json").write_text("{}")
    engine.check(given)
    for there, reason in (("", "have no neardup"), ("9.9", "have neardup 9.9")):
        found = [{"version": there, "sees": True}]
        monkeypatch.setattr(engine, "_map", lambda *_, found=found: found)
        with pytest.raises(neardup.StopError, match=reason):
            engine.check(given)


def test_what_the_engine_says_ends_the_run_in_a_line(tmp_path: Path) -> None:
    """
    Of its own errors the first line and the last; what a task has raised as it is, once; each with
    what it takes.
    """
    given = empty_run(tmp_path)
    told_of = list[bool]()

    def collect() -> Any:
        time.sleep(steps.WAIT_S * 1.2)
        raise RuntimeError("Job aborted\n\n  Traceback\nWorker lost\n SQLSTATE: 38000")

    frame = SimpleNamespace(mapInArrow=lambda *_: SimpleNamespace(collect=collect))
    engine = steps.Engine(SimpleNamespace(range=lambda *_: frame), None)
    with pytest.raises(
        neardup.StopError, match=r"^Spark: Job aborted … Worker lost\. Run this again"
    ):
        engine.run("rows", tasks.make_rows, given, [0], lambda: told_of.append(True))
    assert len(told_of) >= 2
    engine = LocalEngine()
    engine._map = lambda *_: [{"error": "no room"}, {"error": ""}, {"error": "no room"}]  # type: ignore[method-assign]
    with pytest.raises(neardup.StopError, match=r"^no room \(and 1 more such\)$"):
        engine.run("rows", tasks.make_rows, given, [0, 1, 2], lambda: None)


@pytest.mark.usefixtures("here")
def test_each_step_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by bytes, the others by documents."""
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120)
    )
    monkeypatch.setenv("TERM", "xterm")
    write_inputs(tmp_path, a=[page(n, text=ARTICLE) for n in range(40)])
    archive(tmp_path / "out")
    for step, unit in (("rows", "kB"), ("judge", "documents"), ("verdicts", "documents")):
        assert re.search(rf"{step} .*100%.* [0-9,.]+ {unit}", screen.getvalue())
    shown = len(screen.getvalue())
    assert archive(tmp_path / "out", "--quiet") == ""
    assert len(screen.getvalue()) == shown


@pytest.mark.usefixtures("here")
def test_a_pipe_among_the_inputs_is_refused(tmp_path: Path) -> None:
    """
    By its name, in a folder and by a pattern: nothing waits for a writer, and nothing is left out
    silently.
    """
    source = write_inputs(tmp_path, a=[page(1, text=ARTICLE)])
    os.mkfifo(source / "pipe.jsonl")
    for name in (source, source / "pipe.jsonl", source / "*"):
        said = run("archive", "--input", name, "--output", tmp_path / "out", code=1)
        assert f"{source / 'pipe.jsonl'} is a pipe, a socket or a device" in said
        assert "name files, or remove it from the folder" in said
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.parametrize(
    ("inputs", "output", "reason"),
    [
        ("-", "out", "stdin can be read only once: name files"),
        ("a.jsonl", "-", "stdout is none: name a folder"),
    ],
)
def test_archive_has_neither_stdin_nor_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: str, output: str, reason: str
) -> None:
    """They were taken for a file and a folder with the name "-"."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text(lines(page(1, text=ARTICLE)))
    assert reason in run("archive", "--input", inputs, "--output", output, code=1)
    assert not (tmp_path / "-").exists()


@pytest.mark.usefixtures("here")
def test_a_name_that_is_not_utf_8_is_one_like_any_other(tmp_path: Path) -> None:
    """
    Kept documents go under it; the run goes on; damage, dead letters and errors of tasks show it
    escaped.
    """
    source, output = write_inputs(tmp_path), tmp_path / "out"
    odd = source / "caf\udce9.jsonl"  # as Python has a name with the byte E9
    shown = str(odd.resolve()).replace("\udce9", "\\udce9")
    documents = [page(1, text=ARTICLE), page(2, text=OTHER)]
    odd.write_text(lines(*documents, page(3, fetched_at="no"), "{"))
    options = ("--format", "jsonl", "--keep", "new")
    assert summary(archive(output, *options, "--json"))["kept"] == 2
    assert archive(output, *options)  # of the same run, which is done
    assert (output / "kept" / f"000000-{odd.name}").read_text() == lines(*documents)
    dead = [answer["input"]["file"] for answer in told(verdicts(output)) if "input" in answer]
    [damage] = map(json.loads, (output / "damage.jsonl").read_text().splitlines())
    assert [*dead, damage["file"]] == [shown, shown]
    odd.write_text('{"url": "https://example.org/"}\n{}\n')
    assert f"now: {shown} has changed)" in archive(output, *options, code=1)
    failed = archive(tmp_path / "dead", code=1)
    assert f"; {shown}, line 1: no-body" in failed and f"; {shown}, line 2: an object" in failed


@pytest.mark.usefixtures("here")
def test_a_link_is_read_and_kept_under_its_own_name(tmp_path: Path) -> None:
    """A table is known by its name, which its target need not have. The target may be anywhere."""
    source, output = write_inputs(tmp_path), tmp_path / "out"
    (tmp_path / "5f3a9c").write_text(f'doc_id,text\na,"{ARTICLE}"\nb,"{OTHER}"\n')
    (source / "articles.csv").symlink_to(tmp_path / "5f3a9c")
    assert summary(archive(output, "--keep", "new", "--json"))["kept"] == 2
    assert [path.name for path in (output / "kept").iterdir()] == ["000000-articles.csv"]


@pytest.mark.usefixtures("here")
def test_what_is_kept_stays_whatever_the_input_is_called(tmp_path: Path) -> None:
    """At the end of a run, and of the same run repeated, only unfinished files are removed."""
    source, output = write_inputs(tmp_path), tmp_path / "out"
    (source / "crawl.part").write_text(lines(page(1, text=ARTICLE)))
    for _ in range(2):
        archive(output, "--keep", "new")
        assert (output / "kept" / "000000-crawl.part").read_text() == lines(page(1, text=ARTICLE))


def check_against_dedup(output: Path) -> None:
    """Hold all verdicts of a run against those of `dedup` over the same files, field by field."""
    lines_, compared = iter(verdicts(output)), 0
    for line in dedup(output.parent):
        assert told([line]) == told([next(lines_)])
        compared += 1
    assert next(lines_, None) is None
    print(f"{compared:,} verdicts compared with those of dedup")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_documents_have_the_verdicts_of_dedup(tmp_path: Path) -> None:
    """
    Copies, edits, re-crawls, redeliveries, short ones, templates, a large family; ARCHIVE_DOCUMENTS
    of them.
    """
    write_documents(tmp_path / "in", MANY, 7)
    said = summary(archive(tmp_path / "out", "--format", "jsonl", "--json"))
    assert said["documents"] == MANY and said["outcomes"]["duplicate"] > MANY / 4
    check_against_dedup(tmp_path / "out")
