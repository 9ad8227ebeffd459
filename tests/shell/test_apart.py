"""Documents of several inputs that have one doc_id."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from neardup import CrawlFiles, Deduplicator

from tests.cli import program
from tests.cli.program import ARTICLE, OTHER, lines, run
from tests.shell.local_engine import local_engine
from tests.shell.test_archive import verdicts
from worker.core.document import Verdict
from worker.log import replica as log_replica
from worker.log import snapshot
from worker.settings import Settings
from worker.shell.archive import steps
from worker.shell.files.apart import NamesApart, told
from worker.shell.files.crawl import with_answers
from worker.shell.files.engine import LOG, FileEngine, file_engine
from worker.shell.files.repeats import Repeats


class Held(NamedTuple):
    """An original of the definition: its text, and the input that it is from."""

    text: str
    source: int


def defined(inputs: list[list[tuple[str, str]]]) -> list[tuple[str, str | None]]:
    """
    Return what becomes of documents: the first part of each one's name, and its original's text.

    The definition: a doc_id of another input's original stands for another document if the text is
    another; within an input, it stands for a new version, which replaces the former one.
    """
    originals: dict[tuple[str, str], Held] = {}  # by doc_id, and by text where it is named apart
    found: list[tuple[str, str | None]] = []
    for source, documents in enumerate(inputs):
        for doc_id, text in documents:
            name = (doc_id, "")
            former = originals.get(name)
            if former is not None and former.text != text and former.source != source:
                name = (doc_id, text)
                former = originals.get(name)
            shown = doc_id if name[1] == "" else f"{doc_id}-"
            if former is not None and former.text == text:
                found.append((shown, "again"))
                continue
            originals.pop(name, None)
            copies = [held.text for held in originals.values() if held.text == text]
            found.append((shown, copies[0] if copies else None))
            if not copies:
                originals[name] = Held(text, source)
    return found


TEXTS = {
    "x": "one short text",
    "y": "another of these",
    "z": "and a third",
    "u": "the fourth of them",
    "v": "a fifth one",
    "w": "number six",
}
DOCUMENTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=6)


def shown(verdict: dict[str, Any]) -> tuple[str, str | None]:
    """A verdict as the definition says it."""
    doc_id = verdict["doc_id"]
    name = doc_id if len(doc_id) == 1 else doc_id[:2]
    if verdict.get("reason") == "redelivered":
        return name, "again"
    match = verdict.get("duplicate_of")
    return name, None if match is None else match["doc_id"]


@example(
    inputs=[[("a", "x"), ("a", "x"), ("b", "y"), ("b", "x")], [("b", "x")], [("a", "x")]], batch=4
)
@given(inputs=st.lists(DOCUMENTS, min_size=1, max_size=4), batch=st.integers(1, 9))
def test_a_doc_id_belongs_to_the_first_input_that_uses_it(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[tuple[str, str]]], batch: int
) -> None:
    """
    However batches are cut; `dedup` in one run or in runs through a state, and the library say the
    same.
    """
    inputs = [documents for documents in inputs if documents] or [[("a", "x")]]
    folder = tmp_path_factory.mktemp("apart")
    files = []
    for number, documents in enumerate(inputs):
        files.append(folder / f"{number}.jsonl")
        rows = ({"doc_id": doc_id, "text": TEXTS[text]} for doc_id, text in documents)
        files[-1].write_text(lines({"input": number, "text": f"filler {number}"}, *rows))
    wanted = [(name, original and original != "again") for name, original in defined(inputs)]
    options = ("--batch-documents-max", batch, "--threads", "1", "--quiet")

    def judged(*names: Path, state: str = "") -> list[dict[str, Any]]:
        given = ("--state", folder / state) if state else ()
        said = run("dedup", *names, *options, *given).stdout
        return [verdict for verdict in map(json.loads, said.splitlines()) if _is_ours(verdict)]

    whole = judged(*files)
    assert [(name, original and original != "again") for name, original in map(shown, whole)] == (
        wanted
    )
    again = [original == "again" for _, original in defined(inputs)]
    assert [verdict.get("reason") == "redelivered" for verdict in whole] == again
    days = [verdict for file in files for verdict in judged(file, state="state")]
    assert list(map(shown, days)) == list(map(shown, whole))
    library = Deduplicator(threads=1)
    records = CrawlFiles(list(map(str, files)))
    verdicts = [one for one in library.add_many(records) if one.doc_id[0] in "abc"]
    assert [verdict.doc_id for verdict in verdicts] == [verdict["doc_id"] for verdict in whole]
    assert [verdict.outcome.value for verdict in verdicts] == [v["verdict"] for v in whole]


@example(
    inputs=[
        [("a", "x"), ("b", "y"), ("c", "z"), ("c", "u"), ("c", "v")],
        [("d", "w"), ("d", "z"), ("d", "u"), ("d", "w")],  # the third one has rows numbered anew
    ],
    batch=1,
    renews=False,
)
@example(
    inputs=[
        [("a", "x"), ("b", "y"), ("c", "z"), ("d", "u")],
        [("e", "x"), ("a", "v"), ("f", "x"), ("g", "w"), ("a", "w"), ("h", "z"), ("c", "x")],
    ],
    batch=1,
    renews=True,
)
@given(
    inputs=st.lists(DOCUMENTS, min_size=1, max_size=4),
    batch=st.integers(1, 9),
    renews=st.booleans(),
)
def test_rows_that_get_other_numbers_change_no_name(
    tmp_path_factory: pytest.TempPathFactory,
    inputs: list[list[tuple[str, str]]],
    batch: int,
    renews: bool,
) -> None:
    """
    Neither where originals are compacted, nor where a run goes on from a snapshot at any batch, nor
    where a copy moves an original to the end of the queue: it is none of the copy's input then.
    """
    folder = tmp_path_factory.mktemp("renumbered")
    files = [folder / f"{number}.jsonl" for number in range(len(inputs))]
    for file, documents in zip(files, inputs, strict=True):
        rows = ({"doc_id": doc_id, "text": TEXTS[text]} for doc_id, text in documents)
        file.write_text(lines(*rows))
    wanted = [name for name, _ in defined(inputs)]
    settings = Settings(
        threads=1,
        batch_documents_max=batch,
        documents_max=32 if renews else 0,
        expire_from="last" if renews else "first",
    )
    for is_restored in (False, True):
        crawl = CrawlFiles(list(map(str, files)))
        names = []
        with pytest.MonkeyPatch.context() as patch, file_engine(settings) as engine:
            patch.setattr(log_replica, "LEFT_MIN", 1)
            patch.setattr(snapshot, "_LEFT_MIN", 1)
            engine.begin(crawl)
            for _, answered in with_answers(crawl, engine.answers):
                assert isinstance(answered.answer, Verdict)
                names.append(answered.answer.doc_id)
                if is_restored:
                    _restore(engine)
        assert [name if len(name) == 1 else name[:2] for name in names] == wanted
        assert engine.names.count == sum(len(name) > 1 for name in names)


def _restore(engine: FileEngine) -> None:
    """Put what a snapshot holds in the place of an engine's replica, as a task that goes on does."""
    state = json.loads(json.dumps(engine.names.state(engine.replica.judge.held)))
    data = b"".join(map(bytes, snapshot.capture(engine.replica, LOG).parts()))
    engine.replica = snapshot.restore(data, engine.replica.definition, LOG)
    engine.names = NamesApart()
    engine.names.resume(state, engine.replica.judge.held)


def test_files_can_be_read_again(tmp_path: Path) -> None:
    """By one object and by two, documents get the same places, and inputs are kept apart alike."""
    files = [tmp_path / name for name in ("old.jsonl", "new.jsonl")]
    files[0].write_text(lines({"doc_id": "a", "text": "one short text"}, {"text": "without an id"}))
    files[1].write_text(
        lines({"doc_id": "a", "text": "another of these"}, {"text": "nor has this"})
    )
    found = []
    records = CrawlFiles(list(map(str, files)))
    for second in (records, CrawlFiles(list(map(str, files)))):
        library = Deduplicator(threads=1)
        first = records if second is records else CrawlFiles(list(map(str, files)))
        judged = [*library.add_many(first), *library.add_many(second)]
        found.append([(verdict.doc_id, verdict.outcome) for verdict in judged])
    assert found[0] == found[1] and found[0][5][0].startswith("0.2.1-")


def test_files_that_are_read_twice_at_once_are_refused(tmp_path: Path) -> None:
    """Both readings would name documents by the run of the one that was begun last."""
    file = tmp_path / "in.jsonl"
    file.write_text(lines(*({"text": f"text {number}"} for number in range(9))))
    records = CrawlFiles([file])
    former, latter = (Deduplicator(threads=1) for _ in range(2))
    latter.add("of an earlier call")
    with pytest.raises(RuntimeError, match="read a second time before the first reading"):
        list(zip(former.add_many(records), latter.add_many(records), strict=True))
    reading = iter(records)
    next(reading)
    assert len([*records]) == 9  # a reading that was given up hinders nobody
    with pytest.raises(RuntimeError, match="read a second time"):
        next(reading)


def test_verdicts_may_be_taken_while_another_reads_the_files_again(tmp_path: Path) -> None:
    """A call has read all files when its first verdict is there; their places stay its own."""
    files = [tmp_path / name for name in ("1.jsonl", "2.jsonl")]
    for number, file in enumerate(files):
        file.write_text(lines({"text": f"text {number}"}, {"text": f"another text {number}"}))
    records = CrawlFiles(iter(files))
    alone = [verdict.doc_id for verdict in Deduplicator(threads=1).add_many(records)]
    assert [doc_id[:4] for doc_id in alone] == ["0.0.", "0.0.", "0.1.", "0.1."]
    verdicts = Deduplicator(threads=1).add_many(records)
    first = next(verdicts)
    other = Deduplicator(threads=1)
    other.add("of an earlier call")
    assert [verdict.doc_id[:4] for verdict in other.add_many(records)] == [
        "0.1.", "0.1.", "0.2.", "0.2."
    ]  # fmt: skip
    assert [first.doc_id, *(verdict.doc_id for verdict in verdicts)] == alone


def _is_ours(verdict: dict[str, Any]) -> bool:
    return bool(verdict["doc_id"][0] in "abc")


def numbered(path: Path, first: int, texts: list[str]) -> Path:
    """A table that numbers its rows."""
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "text"])
        table.writerows(enumerate(texts, start=first))
    return path


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("how", ["reference", "state", "inputs"])
def test_copies_are_found_where_two_files_number_their_rows(
    tmp_path: Path, how: str, first: int
) -> None:
    """An input takes no reference and no document of another day out; it is said what ids they are."""
    texts = [" ".join(f"w{n}x{place} the of and" for place in range(30)) for n in range(20)]
    old = numbered(tmp_path / "old.csv", first, texts)
    new = numbered(tmp_path / "new.csv", first, texts[::-1])
    kept = tmp_path / "kept.csv"
    options: list[object] = ["--id-column", "id", "--keep", "new", "--output", kept]
    if how == "state":
        options += ["--state", tmp_path / "state"]
        run("dedup", old, *options)
    inputs: dict[str, list[object]] = {
        "reference": [new, "--reference", old], "state": [new], "inputs": [old, new]
    }  # fmt: skip
    said = run("dedup", *inputs[how], *options).stderr
    assert len(kept.read_text().splitlines()) - 1 == (20 if how == "inputs" else 0)
    assert "20 documents have a doc_id that an earlier input, reference or run has" in said
    assert "only number the rows of each file" in said and "leave --id-column out" in said
    assert "each took its place" not in said


def test_ids_that_number_no_rows_are_not_said_to(tmp_path: Path) -> None:
    """The advice is for what it fits; the summary of scripts counts them, too."""
    for name, text in (("old", "one short text"), ("new", "another of these")):
        (tmp_path / f"{name}.jsonl").write_text(lines({"doc_id": "bridge", "text": text}))
    command = ("dedup", tmp_path / "old.jsonl", tmp_path / "new.jsonl", "--output", tmp_path / "o")
    said = run(*command).stderr
    assert "1 document has a doc_id" in said and "only number" not in said
    assert "so rename the field doc_id, or name an --id-column" in told(1, 1, None)
    assert json.loads(run(*command, "--json").stdout)["named_apart"] == 1


@pytest.mark.parametrize("how", ["dedup", "replace", "state", "archive"])
def test_a_document_that_is_named_apart_is_no_recrawl_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """
    A URL that was made of a doc_id is made again of the other name; one that was brought stays.

    Otherwise the second "a" would have the URL of the first: a new version, which may replace it.
    """
    monkeypatch.setattr(steps, "engine", local_engine)
    files = [tmp_path / name for name in ("1.jsonl", "2.jsonl", "3.jsonl")]
    brought = {"doc_id": "b", "url": "https://example.org/"}
    files[0].write_text(lines({"doc_id": "a", "text": ARTICLE}, brought | {"text": "one text"}))
    files[1].write_text(lines({"doc_id": "a", "text": OTHER}, brought | {"text": "another of it"}))
    files[2].write_text(lines({"doc_id": "c", "text": ARTICLE}, {"doc_id": "d", "text": OTHER}))
    a, b, other_a, other_b, c, d = _judged(tmp_path, files, how)
    assert [verdict["verdict"] for verdict in (a, b, other_a, other_b)] == ["new"] * 4
    assert other_a["url"] == f"urn:neardup:{other_a['doc_id']}" != a["url"]
    assert other_b["url"] == b["url"] == "https://example.org/"
    assert other_a.get("former_version") is None
    assert c["duplicate_of"]["doc_id"] == "a" and not c["duplicate_of"]["same_url"]
    assert d["duplicate_of"]["doc_id"] == other_a["doc_id"]


def _judged(folder: Path, files: list[Path], how: str) -> list[dict[str, Any]]:
    """Judge files in this way; return the verdicts."""
    runs: list[tuple[object, ...]] = [tuple(files)]
    if how == "archive":
        inputs = [argument for file in files for argument in ("--input", file)]
        run("archive", *inputs, "--format", "jsonl", "--output", folder / "out", "--threads", "1")
        found = ["\n".join(line.decode() for line in verdicts(folder / "out"))]
    else:
        if how == "replace":
            runs = [(*files, *program.defined(recrawls="replace"))]
        elif how == "state":
            runs = [(file, "--state", folder / "state") for file in files]
        found = [run("dedup", *arguments).stdout for arguments in runs]
    return [json.loads(line) for part in found for line in part.splitlines()]


def test_an_id_that_was_a_duplicates_is_told_of_where_another_file_has_it(tmp_path: Path) -> None:
    """It is not kept apart, and takes no document's place: two documents have one doc_id."""
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    files[0].write_text(
        lines({"doc_id": "a", "text": "one short text"}, {"doc_id": "b", "text": "One short text!"})
    )
    files[1].write_text(lines({"doc_id": "b", "text": "another of these"}))
    said = run("dedup", *files, "--output", tmp_path / "out.jsonl").stderr
    assert "1 document has the doc_id of a duplicate with another text in an earlier input" in said
    assert "two documents have this doc_id, each with its own verdict" in said
    assert "took its place" not in said and "name another --id-column" in said


@pytest.mark.parametrize("earlier", ["call", "run"])
def test_a_replaced_document_is_said_to_be_of_an_earlier_call_or_run(earlier: str) -> None:
    """The library is called several times; a command is run several times with one state."""
    repeats = Repeats(replaced=1, documents=2, ids=2, of_earlier=1)
    said = repeats.told("--id-column", earlier)
    assert f"2 documents, 2 ids; 1 took the place of one of an earlier {earlier})" in said


def test_a_long_doc_id_is_cut_where_it_is_named_apart(tmp_path: Path) -> None:
    """A doc_id has at most 1,024 bytes, and is UTF-8."""
    doc_id = "ä" * 512
    for name, text in (("old", "one short text"), ("new", "another of these")):
        (tmp_path / f"{name}.jsonl").write_text(lines({"doc_id": doc_id, "text": text}))
    said = run("dedup", tmp_path / "old.jsonl", tmp_path / "new.jsonl").stdout.splitlines()
    first, second = (json.loads(line)["doc_id"] for line in said)
    assert first == doc_id
    assert second.startswith("ä" * 500) and 1_000 < len(second.encode()) <= 1_024
