"""`neardup archive`: how far it says that it is, what it reads, and what it writes of a cluster."""

from __future__ import annotations

import random
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import neardup
import orjson
import pytest

from tests.cli.program import ARTICLE, OTHER, lines, page
from tests.faults.crawl import random_words
from tests.shell.test_archive import (
    archive,
    crawl,
    dedup,
    here,  # noqa: F401  # a fixture
    run,
    summary,
    told,
    verdicts,
    write_inputs,
)
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import StopError
from worker.shell.archive import run as run_module
from worker.shell.archive import steps, tasks
from worker.shell.archive.run import Run


@pytest.mark.usefixtures("here")
def test_a_step_is_shown_to_be_within_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A task that runs tells how much of its file is done; one that has ended counts as a whole, and
    leaves nothing behind.
    """
    monkeypatch.setattr(run_module, "REPORT_S", 0.0)
    monkeypatch.setattr(tasks, "JOB_DOCUMENTS_MAX", 2)
    crawl(tmp_path)
    output = tmp_path / "out"
    reached: dict[str, list[int]] = {"rows": [], "judge": [], "verdicts": []}
    write_text = Path.write_text

    def noted(path: Path, text: str) -> int:
        written_bytes = write_text(path, text)
        begun = Run.load(output)
        step = path.name.partition("-")[0]
        sizes = [1 << 30] * len(begun.inputs)
        reached[step].append(begun.reached(step, sizes) - (len(begun.done(step)) << 30))
        return written_bytes

    monkeypatch.setattr(Path, "write_text", noted)
    archive(output, "--quiet")
    for step, amounts in reached.items():
        # All rows of this small corpus are one batch of the judge.
        assert len(set(amounts)) > (0 if step == "judge" else 3), (step, amounts)
        assert all(0 < amount < 1 << 30 for amount in amounts)
    assert not [*output.rglob("*.part")]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["a.wacz", "a.zip"])
def test_the_kept_documents_of_a_zip_are_an_archive(tmp_path: Path, name: str) -> None:
    """
    A WACZ is read as the WARC in it, and its documents are copied as WARC, which its name says.
    """
    plain = tmp_path / "plain.warc.gz"
    write_sample_crawl(plain, 40, seed=2)
    with zipfile.ZipFile(write_inputs(tmp_path) / name, "w") as zipped:
        zipped.write(plain, "archive/data.warc.gz")
    archive(tmp_path / "out", "--keep", "new", "--quiet")
    run("dedup", plain, "--keep", "new", "--output", tmp_path / "kept.warc.gz", "--threads", "1")
    [kept] = (tmp_path / "out" / "kept").iterdir()
    assert kept.name == "000000-a.warc.gz"
    assert kept.read_bytes() == (tmp_path / "kept.warc.gz").read_bytes()


@pytest.mark.usefixtures("here")
def test_each_kept_document_has_the_size_of_its_cluster(tmp_path: Path) -> None:
    """
    Across files, itself included, one line for each kept document in its order, also where that is
    not the original. Which one each rule prefers is tested in `test_choice.py`.
    """
    texts = [(1, ARTICLE), (2, OTHER), (3, ARTICLE), (4, "alone here and nowhere else")]
    more = [(5, f"{ARTICLE} Nobody else was there."), (6, OTHER), (7, ARTICLE), (8, "")]
    first, second = (
        [
            page(n, doc_id=str(n), text=text) | {"url": f"https://example.org/{'x' * (9 - n)}"}
            for n, text in given
        ]
        for given in (texts, more)
    )
    write_inputs(tmp_path, a=first, b=second)
    output = tmp_path / "out"
    archive(output, "--keep", "new", "--prefer", "longest", "--quiet")

    def written_in(folder: str) -> list[list[dict[str, Any]]]:
        paths = sorted((output / folder).iterdir())
        return [[orjson.loads(line) for line in path.read_bytes().splitlines()] for path in paths]

    kept, copies = written_in("kept"), written_in("copies")
    sizes = [[(line["doc_id"], line["copies"]) for line in file] for file in copies]
    assert sizes == [[("2", 2), ("4", 1)], [("5", 4)]]
    assert [[line["doc_id"] for line in file] for file in kept] == [
        [line["doc_id"] for line in file] for file in copies
    ]


@pytest.mark.usefixtures("here")
def test_numbers_that_no_document_can_have_are_refused(tmp_path: Path) -> None:
    """Before anything is copied; `dedup` refuses them in the same words."""
    write_inputs(tmp_path, a=[page(1, text=ARTICLE)])
    options = ("--keep", "new", "--prefer", "highest:quality")
    said = archive(tmp_path / "first", *options, code=1)
    assert "no document has a finite number in 'quality', of 1: name a field" in said
    assert not [*(tmp_path / "first").glob("kept/*")]


def write_pages(folder: Path, seed: int, families: int) -> None:
    """
    Write files of rows with texts of few families, equal ids, times, numbers; and two that have no
    text, one of which cannot be judged.
    """
    draw = random.Random(seed)
    pool = [" ".join(random_words(random.Random(number), 40)) for number in range(families)]
    folder.mkdir()
    for name in "abc":
        rows = list[dict[str, Any] | str]()
        for number in range(25):
            text = draw.choice(pool)
            more = f" {draw.choice(text.split())}" if draw.random() < 0.4 else ""
            url = f"https://example.org/{'ä' * draw.randrange(6)}{draw.randrange(60)}"
            day = f"2026-10-{draw.randrange(10, 30)}T00:00:00Z"
            row = {"url": url, "fetched_at": day, "text": text + more}
            if draw.random() < 0.3:
                row["doc_id"] = str(number % 7)
            rows.append(row | {"quality": draw.choice([None, draw.randrange(9)])})
        rows += [
            {"url": "https://example.org/none"},
            "[",
            {"url": "https://example.org/", "text": ""},
        ]
        (folder / f"{name}.jsonl").write_text(lines(*rows))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "rule",
    ["first", "newest --per-cluster 2", "highest:quality"],
)
def test_references_are_matched_and_never_written(tmp_path: Path, rule: str) -> None:
    """
    Verdicts, kept and removed documents, and the summary are those of `dedup` with the same
    references, whichever documents of a cluster are preferred and with one state.
    """
    write_pages(tmp_path / "in", 1, 12)
    write_pages(tmp_path / "known", 2, 6)
    known = (
        "--reference",
        tmp_path / "known" / "a.jsonl",
        "--reference",
        tmp_path / "known" / "b*",
    )
    given = (tmp_path / "in", *known, "--threads", "1")
    run("dedup", *given, "--state", tmp_path / "s1", "--output", tmp_path / "verdicts.jsonl")
    chosen = ("--keep", "new", "--prefer", *rule.split())
    kept, others = tmp_path / "kept.jsonl", tmp_path / "others.jsonl"
    expected = summary(
        run("dedup", *given, *chosen, "--json", "--duplicates", others, "--output", kept)
    )
    output = tmp_path / "out"
    more = (*known, "--format", "jsonl", "--duplicates", "--state", tmp_path / "s2", "--json")
    said = summary(archive(output, *chosen, *more))
    for one in (said, expected):
        del one["seconds"]
    assert said == expected
    assert said["references"] == 52 and said["references_unmatched"] == 2
    assert told(verdicts(output)) == told((tmp_path / "verdicts.jsonl").read_bytes().splitlines())
    for name, path in (("kept", kept), ("duplicates", others)):
        copied = sorted((output / name).iterdir())
        assert [one.name for one in copied] == [
            f"00000{number}-{letter}.jsonl" for number, letter in enumerate("abc", start=2)
        ]
        assert b"".join(one.read_bytes() for one in copied) == path.read_bytes()
    assert 6 <= said["kept"] < 45
    assert (said["kept_before"] or 0) > 0 or rule == "first"
    states = [neardup.Deduplicator.load(tmp_path / name) for name in ("s1", "s2")]
    assert len(states[0]) == len(states[1])


@pytest.mark.usefixtures("here")
def test_a_reference_is_no_input_and_can_be_judged(tmp_path: Path) -> None:
    """Another set of references is another run; each refusal comes before anything is judged."""
    write_pages(tmp_path / "in", 1, 12)
    write_pages(tmp_path / "known", 2, 6)
    output = tmp_path / "out"
    said = archive(output, "--reference", tmp_path / "in" / "a.jsonl", code=1)
    assert "is an input and a reference" in said
    said = archive(tmp_path / "known" / "out", "--reference", tmp_path / "known", code=1)
    assert "which is read" in said
    archive(output, "--reference", tmp_path / "known")
    assert "another run: the references differ (" in archive(output, code=1)


@pytest.mark.usefixtures("here")
def test_a_run_of_which_nothing_can_be_judged_leaves_its_damage(tmp_path: Path) -> None:
    """The error names the list. References are read before the inputs, which may take hours."""
    write_pages(tmp_path / "in", 1, 12)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("[\n]\n")
    output = tmp_path / "out"
    places = output / "damage.jsonl"
    said = archive(output, "--reference", wrong, code=1)
    assert "no reference could be judged: 0 documents, 2 damaged records" in said
    assert f"Each place is in {places}" in said
    assert {path.name for path in output.iterdir()} == {".lock", "damage.jsonl"}
    assert len(places.read_bytes().splitlines()) == 2, "those of the reference, and of no input"
    archive(output)
    listed = places.read_text()
    assert "a.jsonl" in listed and "wrong.jsonl" not in listed


@pytest.mark.usefixtures("here")
def test_a_run_whose_folders_cannot_be_removed_stays_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run in its folder would take what is left for its own."""
    write_pages(tmp_path / "in", 1, 12)
    output = tmp_path / "out"
    archive(output)
    found = Run.load(output)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        found.remove()
    assert (output / "run.json").exists() and (output / "done").exists()
    found.remove()
    assert not (output / "run.json").exists() and not (output / "done").exists()


@pytest.mark.usefixtures("here")
def test_people_are_told_what_dedup_tells_them(tmp_path: Path) -> None:
    """
    The summary, documents that took the place of others, those that have the doc_id of a duplicate
    in another input, and those that are named apart.
    """
    (tmp_path / "in").mkdir()
    ids = {"a": "xxy", "b": "xyzz"}
    for name, own in ids.items():
        rows = [{"doc_id": one, "text": f"The {n} of {name}."} for n, one in enumerate(own)]
        rows += [{"doc_id": "q", "text": rows[2]["text"]}, {"doc_id": name, "text": f"Is {name}."}]
        (tmp_path / "in" / f"{name}.jsonl").write_text(lines(*rows, "[", {"text": ""}))
    options = ("--keep", "new", "--output")
    kept = tmp_path / "kept.jsonl"
    expected = run("dedup", tmp_path / "in", *options, kept, "--threads", "1").splitlines()[-3:]
    assert [one.partition(" have")[0] for one in expected[:2]] == ["2 documents", "2 documents"]
    assert "(13 documents, 10 ids)" in expected[0] and "of a duplicate" in expected[0]
    found = archive(tmp_path / "out", *options[:2]).splitlines()[-3:]
    assert found[:2] == expected[:2]
    without_seconds, seconds = expected[2].rsplit("; ", 1)
    assert re.fullmatch("[0-9.]+ s", seconds)
    wanted = f"{tmp_path / 'out'}: {without_seconds.replace(f' in {kept}', '')}"
    assert found[2].rsplit("; ", 1)[0] == wanted


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--duplicates",), 2),
        (("--encoding", "latin-0"), 1),
    ],
)
def test_options_are_refused_as_dedup_refuses_them(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    """In the same words, before anything is read or written."""
    write_inputs(tmp_path, a=[page(1, text=ARTICLE)])
    files = (tmp_path / "x",) if options == ("--duplicates",) else ()  # `dedup` names a file
    expected = run("dedup", tmp_path / "in", *options, *files, code=code)
    found = archive(tmp_path / "out", *options, code=code)
    usage = re.compile("^Usage: .*\n.*\n")
    assert usage.sub("", found) == usage.sub("", expected) != ""
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.usefixtures("here")
def test_a_column_that_only_one_input_has_is_read_there(tmp_path: Path) -> None:
    """Tasks read the inputs one by one, and the command has looked at all of them."""
    write_inputs(tmp_path, a=[{"key": "x", "text": ARTICLE}], b=[{"text": OTHER}])
    named = ("--id-column", "key")
    archive(tmp_path / "out", *named, "--keep", "new", "--format", "jsonl")
    assert told(verdicts(tmp_path / "out")) == told(dedup(tmp_path, *named))
    assert [path.read_bytes().count(b"\n") for path in (tmp_path / "out/kept").iterdir()] == [1, 1]


@pytest.mark.usefixtures("here")
def test_a_run_whose_engine_does_not_answer_leaves_its_folder_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is done. One that was begun goes on when the engine is back."""
    write_pages(tmp_path / "in", 1, 12)
    output, state = tmp_path / "out", tmp_path / "state"

    @contextmanager
    def silent(*_: object) -> Iterator[None]:
        raise StopError("Spark does not answer")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(steps, "engine", silent)
        assert "does not answer" in archive(output, "--keep", "new", "--state", state, code=1)
    assert [path.name for path in output.iterdir()] == [".lock"]
    archive(output, "--state", state)
    shutil.rmtree(output / "verdicts")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "engine", silent)
        assert "does not answer" in archive(output, "--state", state, code=1)
    archive(output, "--state", state)
    assert verdicts(output)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("step", ["rows", "verdicts"])
def test_a_task_whose_files_cannot_be_seen_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """
    Its documents would be left out: a folder of several machines may show the files of others late.
    The same command goes on.
    """
    write_pages(tmp_path / "in", 1, 12)
    output = tmp_path / "out"
    done = Run.done

    def late(found: Run, name: str) -> set[int]:
        return done(found, name) - ({1} if name == step else set())

    with monkeypatch.context() as patch:
        patch.setattr(Run, "done", late)
        said = archive(output, "--format", "jsonl", code=1)
    assert (
        f"tasks of the step {step} have ended, and the files of 1 (the first: 1) are not in" in said
    )
    archive(output, "--format", "jsonl")
    assert len(verdicts(output)) == 3 * 27


@pytest.mark.usefixtures("here")
def test_what_a_task_of_another_run_leaves_in_a_folder_is_not_taken(tmp_path: Path) -> None:
    """
    A command is ended, its folder removed, and another run begun there, while a task on somebody
    else's Spark goes on.
    """
    write_pages(tmp_path / "in", 1, 12)
    output = tmp_path / "out"
    archive(output)
    found = Run.load(output)
    other = Run(output, {**found.said, "started_at_ms": found.started_at_ms + 1})
    assert found.done("rows") == {0, 1, 2} and other.done("rows") == set()
