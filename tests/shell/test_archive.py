"""
`neardup archive`: each verdict is that of `neardup dedup` over the same files in order, whatever
happens.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import neardup
import numpy as np
import orjson
import psutil
import pyarrow
import pytest
from pyarrow import parquet
from rich.console import Console
from typer.testing import CliRunner

from tests.benchmarks.archive.documents import write_documents
from tests.cli.program import ARTICLE, OTHER, lines, page
from tests.conftest import EVENTUALLY_S
from tests.faults.crawl import random_words
from tests.shell.local_engine import LocalEngine, local_engine
from worker.cli import app, progress
from worker.core.sketch import WORDS
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import DocumentError
from worker.log.record import RowKind, Rows
from worker.log.replica import Replica
from worker.log.texts import Texts
from worker.settings import Settings
from worker.shell.archive import steps, tasks
from worker.shell.archive.run import Options, Run, begin, find_inputs
from worker.shell.archive.server import own_server
from worker.shell.checkpoint import Checkpoint
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import FileEngine
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.prepare import Preparer

MANY = int(os.environ.get("ARCHIVE_DOCUMENTS", "20000"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark: what is tested is what the tasks make; and all of it in small pieces."""

    monkeypatch.setattr(steps, "engine", local_engine)
    monkeypatch.setattr(tasks, "GROUP_ROWS", 32)
    monkeypatch.setattr(tasks, "ANSWERS", 50)
    monkeypatch.setattr(tasks, "SNAPSHOT_ROWS_MIN", 70)


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
    source = folder / "in"
    source.mkdir(parents=True)
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
    Field by field, names that are made of numbers and errors with their places included; the same
    summary.
    """
    crawl(tmp_path)
    small = (
        "--batch-documents-max",
        "37",
        "--batch-bytes-max",
        "65536",
        "--document-bytes-max",
        "65536",
    )
    expected = dedup(tmp_path, *small)
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
@pytest.mark.parametrize("prefer", ["first", "longest", "newest"])
def test_documents_that_stay_are_those_of_dedup(tmp_path: Path, prefer: str) -> None:
    """A file for each input, byte for byte; the others, and revisit records, too."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(3):
        write_sample_crawl(source / f"{number}.warc.gz", 80, seed=number % 2)
        (source / f"{number}.truth.jsonl").unlink()
    expected, others = tmp_path / "kept.warc.gz", tmp_path / "others.warc.gz"
    inputs = sorted(source.iterdir())
    run(
        "dedup",
        *inputs,
        "--output",
        expected,
        "--keep",
        "new",
        "--prefer",
        prefer,
        "--duplicates",
        others,
    )
    output = tmp_path / "out"
    said = summary(archive(output, "--keep", "new", "--duplicates", "--prefer", prefer, "--json"))

    def whole(folder: str) -> bytes:
        return b"".join(
            gzip.decompress(path.read_bytes()) for path in sorted((output / folder).iterdir())
        )

    assert whole("kept") == gzip.decompress(expected.read_bytes())
    told_of = run("report", output / "verdicts", "--output", tmp_path / "report.html")
    assert f" {said['documents']} answers" in told_of
    assert whole("duplicates") == gzip.decompress(others.read_bytes())
    wanted = told(dedup(tmp_path))
    assert said["kept"] == sum(
        found["verdict"] == "new" and "reason" not in found for found in wanted
    )
    if prefer == "first":
        run("dedup", *inputs, "--output", expected, "--keep", "revisits")
        output = tmp_path / "again"
        archive(output, "--keep", "revisits")
        assert whole("kept") == gzip.decompress(expected.read_bytes())


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
    assert "has gone on since the run began" not in archive(
        tmp_path / "3" / "out", "--state", state, "--format", "jsonl"
    )


class Killed(BaseException):
    """What nothing catches, as nothing catches SIGKILL."""


def snapshots_in(folder: Path) -> dict[str, bytes]:
    """Return the snapshots of a state by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("snapshot-*")}


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
@pytest.mark.parametrize("step", ["make_rows", "judge_rows", "write_verdicts"])
def test_a_run_goes_on_from_no_state_that_another_run_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """
    Wherever it was interrupted, and although the other run's snapshot has the name of its own;
    nothing is lost.
    """
    first, ours, theirs = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    judged_again(state, first, tmp_path / "first")
    arguments = ("archive", "--input", ours, "--state", state, "--threads", "1", "--output")

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(steps, step, killed)
        run(*arguments, output)
    before = snapshots_in(state)
    assert judged_again(state, theirs, tmp_path / "theirs") == {"new": 10}
    after = snapshots_in(state)
    if step == "write_verdicts":
        assert max(after) == max(path.name for path in (output / "judge").glob("snapshot-*"))
    said = run(*arguments, output, code=1)
    assert f"{state} has gone on since the run in {output} began" in said
    assert "another --output" in said
    assert snapshots_in(state) == after != before
    run(*arguments, tmp_path / "another")
    for source in (first, ours, theirs):
        assert judged_again(state, source, tmp_path / "again") == {"redelivered": 10}


@pytest.mark.usefixtures("here")
def test_a_run_interrupted_at_its_end_knows_that_the_state_has_its_originals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Also when another run has gone on from them: it ends well, and the state has the originals of
    both.
    """
    _, ours, theirs = days(tmp_path)
    state, output = tmp_path / "state", tmp_path / "out"
    arguments = ("archive", "--input", ours, "--state", state, "--threads", "1", "--output")
    keep = steps._keep_state

    def killed(*given: Any) -> None:
        keep(*given)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(steps, "_keep_state", killed)
        run(*arguments, output)
    assert judged_again(state, theirs, tmp_path / "theirs") == {"new": 10}
    after = snapshots_in(state)
    run(*arguments, output)
    assert snapshots_in(state) == after
    for source in (ours, theirs):
        assert judged_again(state, source, tmp_path / "again") == {"redelivered": 10}


def test_dedup_interrupted_goes_on_from_what_another_run_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The other run ends at the offset at which it would have ended itself: the state has the
    originals of both.
    """
    first, ours, theirs = days(tmp_path)
    state = tmp_path / "state"
    judged_again(state, first, tmp_path / "first")
    before = snapshots_in(state)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoint, "save", killed)
        judged_again(state, ours, tmp_path / "ours")
    assert snapshots_in(state) == before
    assert judged_again(state, theirs, tmp_path / "theirs") == {"new": 10}
    assert judged_again(state, ours, tmp_path / "ours") == {"new": 10}
    for source in (first, ours, theirs):
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


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "disk"]
)
def test_a_run_that_ends_anywhere_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """
    Again and again, before a file has its name: what comes in the end is the same, byte for byte.
    """
    crawl(tmp_path)
    (tmp_path / "in" / "d.parquet").unlink()
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_000_000_000_000_000)
    options = ("--format", "jsonl", "--keep", "new", "--batch-documents-max", "40")
    whole, output = tmp_path / "whole", tmp_path / "out"
    (tmp_path / "known.jsonl").write_text(lines(page(3, text=ARTICLE), page(4, text=OTHER)))
    for state in ("state", "whole_state"):
        given = ("--state", tmp_path / state, "--output", tmp_path / "known.verdicts")
        run("dedup", tmp_path / "known.jsonl", *given)
    archive(whole, *options, "--state", tmp_path / "whole_state")
    rename, draw, left = Path.replace, random.Random(7), [0]

    def replace(path: Path, target: Path) -> Path:
        left[0] -= 1
        if not left[0]:
            raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(Path, "rename", replace)
    ends = 0
    while True:
        left[0] = draw.randrange(1, 9) if ends else 2  # between run.json and the copy of the base
        try:
            result = CliRunner().invoke(
                app, command(output, *options, "--state", tmp_path / "state")
            )
        except Killed:
            ends += 1
            continue
        if result.exit_code == 0:
            break
        assert "No space left on device" in str(result.exception) or "free some space" in str(
            result.exception
        )
        ends += 1
    assert ends > 6
    assert files(output) == files(whole)
    assert snapshots_in(tmp_path / "state") == snapshots_in(tmp_path / "whole_state")
    assert not [*output.rglob("*.part")]


@pytest.mark.usefixtures("here")
def test_what_is_no_run_of_these_files_is_refused(tmp_path: Path) -> None:
    """
    Other inputs, settings, options or state; a folder of something else; what is missing. It stays
    as it was.
    """
    source = crawl(tmp_path)
    output = tmp_path / "out"
    archive(output, "--format", "jsonl")
    before = files(output)
    for options, reason in (
        (("--format", "csv"), "format is 'jsonl' there, 'csv' here"),
        (("--max-distance", "9", "--format", "jsonl"), "max_distance is 16 there, 9 here"),
        (("--text-characters-max", "5000", "--format", "jsonl"), "text_characters_max is"),
        (("--state", tmp_path / "state", "--format", "jsonl"), "state is None there"),
        (("--recrawls", "replace"), "recrawls = replace: which versions leave depends on verdicts"),
        (("--expire-after-s", "60"), "expire_after_s = 60: files have no clock"),
        (("--documents-max", "60"), "documents_max = 60: who leaves depends on verdicts"),
    ):
        assert reason in archive(output, *options, code=1)
    with (source / "b.jsonl").open("a") as more:
        more.write("{}")
    assert re.search("inputs differ .*b.jsonl", archive(output, "--format", "jsonl", code=1))
    assert files(output) == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    assert "is not empty, and no run" in archive(tmp_path / "other", code=1)
    for wrong, reason in (
        (tmp_path / "none.jsonl", "no such file"),
        (tmp_path / "none*.jsonl", "no such file"),
        (output / "verdicts", "lies in"),
    ):
        text = run("archive", "--input", wrong, "--output", output, code=1)
        assert reason in text, text
    assert "--duplicates requires --keep" in archive(tmp_path / "new", "--duplicates", code=2)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.jsonl").write_text("{}\n")
    said = run("archive", "--input", tmp_path / "bad", "--output", tmp_path / "none", code=1)
    assert "nothing could be judged" in said and "x.jsonl" in said


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
        "--max-distance",
        "9",
    )
    assert "max_distance is 9 there, 15 here" in archive(output, "--state", state, code=1)
    [snapshot] = state.glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    assert "cannot go on from" in archive(output, "--state", state, code=1)
    assert not (output / "run.json").exists()


def test_executors_must_run_this_version_and_see_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is asked first."""
    given = Run(
        tmp_path, {"inputs": [], "options": Options()._asdict(), "first": 0, "started_at_ms": 0}
    )
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
    given = Run(
        tmp_path, {"inputs": [], "options": Options()._asdict(), "first": 0, "started_at_ms": 0}
    )
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
    crawl(tmp_path)
    archive(tmp_path / "out")
    for step, unit in (("rows", "kB"), ("judge", "documents"), ("verdicts", "documents")):
        assert re.search(rf"{step} .*100%.* [0-9,.]+ {unit}", screen.getvalue())
    shown = len(screen.getvalue())
    assert archive(tmp_path / "out", "--quiet") == ""
    assert len(screen.getvalue()) == shown


def made_rows(count: int, seed: int = 3) -> Rows:
    """
    Rows as a crawl brings them; a twentieth is one family, a tenth has one prefix, more than a
    search looks at.
    """
    rng = np.random.default_rng(seed)
    signs, doubts = (rng.integers(0, 2**64, count, dtype=np.uint64) for _ in range(2))
    doubts &= rng.integers(0, 2**64, count, dtype=np.uint64)
    sketches = rng.integers(0, 2**64, (count, WORDS), dtype=np.uint64)
    hot = rng.random(count) < 0.1
    signs[hot] = signs[hot] & ~np.uint64(0xFFFF) | np.uint64(0x1234)
    parents = np.where(
        rng.random(count) < 0.4,
        (rng.random(count) * np.arange(count)).astype(np.int64),
        np.arange(count),
    )
    parents[rng.random(count) < 0.05] = 5
    parents = parents[parents]  # of the first of a family
    flips = np.uint64(1) << rng.integers(0, 64, count, dtype=np.uint64)
    signs, doubts, sketches = (
        signs[parents] ^ flips * (rng.random(count) < 0.5),
        doubts[parents],
        sketches[parents],
    )
    sketches[:, 0] ^= rng.integers(0, 2, count, dtype=np.uint64) * np.uint64(0x11)
    kinds = np.full(count, RowKind.FULL, np.uint8)
    for kind, share in (
        (RowKind.SHORT, 0.05),
        (RowKind.SKIPPED, 0.02),
        (RowKind.DEAD, 0.01),
        (RowKind.DELETED, 0.02),
    ):
        kinds[rng.random(count) < share] = kind
    short = kinds == RowKind.SHORT
    digests = rng.integers(0, 2**63, count, dtype=np.uint64)
    digests[short] %= np.uint64(count // 100 + 1)
    ids = np.where(
        rng.random(count) < 0.1,
        (rng.random(count) * np.arange(count)).astype(np.int64),
        np.arange(count),
    )
    again = np.flatnonzero(rng.random(count) < 0.05)
    of = np.maximum(again - 1 - rng.integers(0, 90, len(again)), 0)
    for column in (signs, doubts, sketches, kinds, digests, ids):
        column[again] = column[of]
    for column in (signs, doubts, digests):
        column[(kinds != RowKind.FULL) & (kinds != RowKind.SHORT)] = 0
    urls = ids // 3
    notes = [b"unreadable: why" if kind == RowKind.DEAD else b"" for kind in kinds.tolist()]
    return Rows(
        np.arange(count), kinds, Texts.of([b"doc-%d" % one for one in ids.tolist()]),
        Texts.of([b"https://example.org/%d" % one for one in urls.tolist()]), np.arange(count),
        signs, digests, (signs & np.uint64(63)).astype(np.uint32), Texts.of(notes), doubts,
        sketches,
    )  # fmt: skip


def judged_in_order(found: Rows, run_: Run) -> Iterator[VerdictBytes | DocumentError]:
    """Yield the answers of one replica."""
    settings = run_.settings
    with Preparer(settings) as preparer:
        engine = FileEngine(
            Replica(settings.definition), preparer, settings, lambda: run_.started_at_ms
        )
        for batch in tasks.cut_rows(
            [(found, np.ones(len(found), np.int64))], settings.batch_documents_max, 1 << 20
        ):
            yield from engine.judge_rows(batch, encode_answers)


def begin_rows(folder: Path, found: Rows, inputs: int, settings: Settings) -> Run:
    """Begin a run whose inputs have these rows, and write them as its tasks would."""
    (folder / "in").mkdir(parents=True)
    for number in range(inputs):
        (folder / "in" / f"{number}.jsonl").write_text("")
    run_ = begin(folder / "out", find_inputs([str(folder / "in")]), Options(), settings, None)
    edges = np.linspace(0, len(found), inputs + 1).astype(int).tolist()
    for number, (first, stop) in enumerate(pairwise(edges)):
        part = found.between(first, stop)
        sources = [tasks._Source(1, at, at, None, 0, None) for at in range(stop - first)]
        with parquet.ParquetWriter(
            run_.path("rows", f"{number:06}.parquet"), tasks.SCHEMA
        ) as writer:
            for at in range(0, stop - first, tasks.GROUP_ROWS):
                piece = part.between(at, min(at + tasks.GROUP_ROWS, stop - first))
                writer.write_batch(tasks._batch(piece, sources[at : at + len(piece)]))
    (run_.folder / "rows.json").write_bytes(orjson.dumps(np.diff(edges).tolist()))
    return run_


def check_answers(run_: Run, found: Rows) -> None:
    """Hold the run's answers against those of one replica that judges the rows in order."""
    expected = judged_in_order(found, run_)
    seen: Counter[str] = Counter()
    for number in range(len(run_.inputs)):
        for _, answered in tasks.answers_of(run_, number):
            assert answered.written == next(expected)
            answer = answered.answer
            seen[
                answer.code
                if isinstance(answer, DocumentError)
                else answer.reason or answer.outcome
            ] += 1
    assert next(expected, None) is None
    assert {"new", "duplicate", "redelivered", "removed", "not-an-original", "unreadable"} <= set(
        seen
    )


def test_rows_in_parts_are_judged_as_rows_in_order(tmp_path: Path, here: None) -> None:
    """
    With families, a hot prefix, re-crawls, redeliveries, deletions; files, groups and batches cut
    each other.
    """
    check_rows(tmp_path, 3_000, 4)


@pytest.mark.slow
def test_two_hundred_thousand_rows_are_judged_as_in_order(tmp_path: Path) -> None:
    """Families of ten thousand and more, and a prefix of twenty thousand, at the sizes of use."""
    check_rows(tmp_path, 200_000, 7)


def check_rows(folder: Path, count: int, inputs: int) -> None:
    found = made_rows(count)
    run_ = begin_rows(folder, found, inputs, Settings(batch_documents_max=977, threads=1))
    tasks.judge_rows(run_, 0)
    check_answers(run_, found)


@pytest.mark.usefixtures("here")
def test_a_document_at_the_size_limit_is_judged_as_dedup_judges_it(tmp_path: Path) -> None:
    """
    One without a name gets its number in the corpus, which counts in its size, and in what its
    error says.
    """
    source = tmp_path / "in"
    source.mkdir()
    words = " ".join(random_words(random.Random(5), 200))
    first = [{"text": f"{number} {words[:60]}"} for number in range(12)]
    (source / "a.jsonl").write_text(lines(*first))
    limit = ("--document-bytes-max", "1024")
    for name, fields in (
        ("made", {}),
        ("given", {"url": "http://a.example/"}),
        ("wrong", {"url": 7}),
    ):
        path = source / f"{name}.jsonl"
        path.write_text(lines({**fields, "text": "."}))
        [smallest] = CrawlFiles([str(path)])
        path.unlink()
        room = 1024 - len(smallest.value) + 1  # of a text, at number 0
        for length in range(room - 6, room + 2):
            text = words[:length]
            (source / f"{name}{length}.jsonl").write_text(lines({**fields, "text": text}))
    expected = told(dedup(tmp_path, *limit))
    archive(tmp_path / "out", "--format", "jsonl", *limit)
    assert told(verdicts(tmp_path / "out")) == expected
    sizes = {
        int(size.replace(",", ""))
        for answer in expected
        for size in re.findall("value has ([0-9,]+) bytes", answer.get("error", {}).get("text", ""))
    }
    assert {1025, 1026} <= sizes, "too long only by what their numbers add"


@pytest.mark.usefixtures("here")
def test_a_pipe_among_the_inputs_is_refused(tmp_path: Path) -> None:
    """
    By its name, in a folder and by a pattern: nothing waits for a writer, and nothing is left out
    silently.
    """
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jsonl").write_text(lines(page(1, text=ARTICLE)))
    os.mkfifo(source / "pipe.jsonl")
    for name in (source, source / "pipe.jsonl", source / "*"):
        said = run("archive", "--input", name, "--output", tmp_path / "out", code=1)
        assert f"{source / 'pipe.jsonl'} is a pipe, a socket or a device" in said
        assert "name files, or remove it from the folder" in said
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.usefixtures("here")
def test_a_name_that_is_not_utf_8_is_one_like_any_other(tmp_path: Path) -> None:
    """
    Its verdicts and kept documents are those of another name; messages, damage and dead letters
    show it escaped.
    """
    odd = "caf\udce9.jsonl"  # as Python has a name with the byte E9
    documents = lines(page(1, text=ARTICLE), page(2, text=OTHER), page(3, fetched_at="no"), "{")
    found = {}
    for folder, name in (("odd", odd), ("plain", "plain.jsonl")):
        source = tmp_path / folder / "in"
        source.mkdir(parents=True)
        (source / name).write_text(documents)
        output = tmp_path / folder / "out"
        said = archive(output, "--format", "jsonl", "--keep", "new", "--json")
        assert summary(said)["kept"] == 2
        # Of the same run, which is done.
        assert archive(output, "--format", "jsonl", "--keep", "new")
        shown = str(source.resolve() / name).replace("\udce9", "\\udce9")
        answers = told(verdicts(output))
        assert [answer.pop("input")["file"] for answer in answers if "input" in answer] == [shown]
        [damage] = map(json.loads, (output / "damage.jsonl").read_text().splitlines())
        assert damage["file"] == shown
        found[folder] = (answers, (output / "kept" / f"000000-{name}").read_bytes())
        (source / name).write_text('{"url": "https://example.org/"}\n{}\n')
        changed = archive(output, "--format", "jsonl", "--keep", "new", code=1)
        assert f"the inputs differ (1 there, 1 here: {shown})" in changed
        dead = run("archive", "--input", source, "--output", tmp_path / folder / "dead", code=1)
        assert f"nothing could be judged: 1 documents: {shown}, line 1: missing-field" in dead
        assert f"; 1 damaged: {shown}, line 2: an object without a field" in dead
        assert f"cannot read {shown}x: no such file" in run(
            "archive", "--input", f"{source.resolve() / name}x", "--output", output, code=1
        )
    assert found["odd"] == found["plain"]


# ---- the end of the command, by signals and with its engine


def engine_of(process: subprocess.Popen[bytes]) -> int:
    """
    Return the engine's process of a command, once it has one that runs the engine.

    A process that has been forked and runs nothing yet is not returned: a test that stops it would
    stop the command as well, which waits until the engine's program has been started.
    """
    while True:
        assert process.poll() is None, process.communicate()
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children():
                if "server import serve" in " ".join(child.cmdline()):
                    return int(child.pid)
        time.sleep(0.002)


@contextmanager
def commanded(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """
    Run the command in a process of its own, whose stderr can be read, and leave none of it behind.
    """
    command_ = [sys.executable, "-m", "worker", *map(str, arguments)]
    with subprocess.Popen(command_, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[bytes], output: Path, pattern: str) -> None:
    """Wait until a run has such a file, while the command runs."""
    while not [*output.glob(pattern)]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def is_running(number: int) -> bool:
    """Return whether there is a process of a number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def whole_files(output: Path) -> dict[str, bytes]:
    """Return all files of a run that have their names."""
    found = [path for path in output.rglob("*") if path.is_file() and path.suffix != ".part"]
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in found
        if not path.name.startswith(".")
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_though_its_engine_never_would(
    tmp_path: Path, number: signal.Signals
) -> None:
    """
    Before the engine is up, while tasks run, while verdicts are written; whole files stay, and it
    goes on.
    """
    crawl(tmp_path)
    expected, output = dedup(tmp_path), tmp_path / "out"
    arguments = command(output, "--format", "jsonl", "--state", tmp_path / "state")
    for moment in ("run.json", "rows/*.part", "verdicts/*"):
        with commanded(*arguments) as process:
            wait_for(process, output, moment)
            engine = engine_of(process)
            os.kill(engine, signal.SIGSTOP)  # its tasks do not end, and it answers nobody
            files_before = whole_files(output)
            process.send_signal(number)
            _, said = process.communicate(timeout=EVENTUALLY_S)
        reason = "interrupted" if number == signal.SIGINT else "terminated"
        assert (process.returncode, said.splitlines()[-1]) == (
            128 + number,
            f"neardup: {reason}".encode(),
        )
        assert not is_running(engine)
        assert whole_files(output) == files_before
        assert not [*output.rglob("*.part")]
    with commanded(*arguments) as process:
        process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 0
    assert told(verdicts(output)) == told(expected)


@pytest.mark.slow
def test_a_signal_ends_the_command_though_somebody_elses_spark_answers_no_more(
    tmp_path: Path,
) -> None:
    """
    While it is asked for the first time, and while tasks run: it is told to end them, and not
    waited for.
    """
    crawl(tmp_path)
    with own_server(1) as server:
        arguments = command(tmp_path / "out", "--spark", server.url())
        spark = server._process.pid
        for moment in ("run.json", "rows/*.part"):
            with commanded(*arguments) as process:
                wait_for(process, tmp_path / "out", moment)
                os.kill(spark, signal.SIGSTOP)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=EVENTUALLY_S)
                os.kill(spark, signal.SIGCONT)
            assert process.returncode == 130


_DEAF = """
import signal, sys, time
from worker import signals
signals.END_S = float(sys.argv[1])
signals.handle()
with signals.ended_in_time():
    print("ready", flush=True)
    while True:
        try:
            time.sleep(1)
        except KeyboardInterrupt:
            print("swallowed", flush=True)
"""


@pytest.mark.parametrize(("end_s", "signals"), [(0.5, 1), (1e6, 2)], ids=["time", "second"])
def test_a_signal_ends_a_process_that_does_not_hear_it(end_s: float, signals: int) -> None:
    """When its time is over, and at the second one at once."""
    with subprocess.Popen(
        [sys.executable, "-c", _DEAF, str(end_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            if signals > 1:
                process.stdout.readline()
        _, said = process.communicate(timeout=EVENTUALLY_S)
    assert (process.returncode, said) == (130, b"neardup: interrupted\n")


_FAILING = """
from worker.shell.archive import steps
from worker.errors import StopError

def work(batches):
    [number] = [number for batch in batches for number in batch.column(0).to_pylist()]
    if number == 0:
        raise RuntimeError("this one fails")
    while True:  # a thread that comes back to Python is what a process cannot end with
        pass
    yield

try:
    with steps.engine(None, 2) as engine:
        engine._map(2, work, "number long", lambda: None)
except StopError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_task_that_fails_ends_the_run_though_another_runs_on() -> None:
    """
    The error is said and the process ends in order, without waiting for a thread that nobody can
    end.
    """
    command_ = [sys.executable, "-c", _FAILING]
    done = subprocess.run(command_, capture_output=True, timeout=EVENTUALLY_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.match(rb"Spark: .*this one fails\. Run this again to go on\n", done.stdout)


@pytest.mark.slow
def test_an_engine_that_is_killed_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    """As the kernel kills what takes too much memory; the next run goes on."""
    crawl(tmp_path)
    output = tmp_path / "out"
    with commanded(*command(output)) as process:
        wait_for(process, output, "rows/*")
        engine = engine_of(process)
        os.kill(engine, signal.SIGKILL)
        _, said = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 1
    assert (
        b"neardup: the engine was killed by SIGKILL; where memory is short" in said.splitlines()[-1]
    )
    archive(output, "--quiet")


@pytest.mark.slow
def test_the_command_on_its_own_engine_survives_kill_9(tmp_path: Path) -> None:
    """
    Killed at any moment, and run again: the verdicts are those of `dedup`; the snapshot is gone on
    from.
    """
    crawl(tmp_path)
    expected, output = dedup(tmp_path), tmp_path / "out"
    arguments = command(output, "--format", "jsonl", "--state", tmp_path / "state")
    draw = random.Random()
    for step in ("run.json", "rows/*", "judge/answers*", "done/verdicts*"):
        with subprocess.Popen(
            [sys.executable, "-m", "worker", *arguments], stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and not [*output.glob(step)]:
                time.sleep(0.02)
            time.sleep(draw.random() * 0.2)
            process.send_signal(signal.SIGKILL)
    done = subprocess.run(
        [sys.executable, "-m", "worker", *arguments, "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["documents"] == len(expected)
    assert told(verdicts(output)) == told(expected)
    assert neardup.Deduplicator.load(tmp_path / "state").add(OTHER).outcome == "new"


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
