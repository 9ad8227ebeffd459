"""
How every command reads documents: columns by their names, folders and patterns, the same doc_ids.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

from tests.cli.program import ARTICLE, OTHER, lines, misused, refused, run
from tests.core.test_evaluation import made_texts

NAMES = (
    "--id-column",
    "id",
    "--text-column",
    "body",
    "--url-column",
    "link",
    "--time-column",
    "date",
)


def corpus(copies: int = 12) -> pandas.DataFrame:
    """A frame as people have it: no column has the name of a field."""
    texts = made_texts(copies)
    return pandas.DataFrame(
        {
            "id": range(100, 100 + len(texts)),
            "body": texts,
            "date": [f"2026-01-{1 + number % 28:02}" for number in range(len(texts))],
            "link": [f"https://example.org/{number}" for number in range(len(texts))],
        }
    )


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], None]] = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}


def written(kind: str, frame: pandas.DataFrame, folder: Path, name: str = "in") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{kind}"
    WRITERS[kind](frame, path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_goes_round_the_loop_without_a_column_renamed(kind: str, tmp_path: Path) -> None:
    """
    dedup, explain, report, evaluate and tune read `id`, `body` and `date` under the same options:
    the pairs are those of the verdicts, and every text is found.
    """
    frame = corpus().drop(columns="link")
    source = written(kind, frame, tmp_path)
    names = (*NAMES[:4], *NAMES[6:])
    verdicts = tmp_path / "verdicts.jsonl"
    run("dedup", source, *names, "--output", verdicts)
    judged = [json.loads(line) for line in verdicts.read_text().splitlines()]
    assert [one["doc_id"] for one in judged] == [str(name) for name in frame["id"]]
    assert judged[0]["fetched_at"].startswith("2026-01-01")
    copies = [one for one in judged if one["verdict"] == "duplicate"]
    assert len(copies) == len(frame) // 2
    asked = ("explain", copies[0]["doc_id"], verdicts, "--documents", source, *names, "--json")
    assert json.loads(run(*asked).stdout)["comparison"] is not None
    page = tmp_path / "report.html"
    run("report", verdicts, "--documents", source, *names, "--output", page)
    shown = re.sub(r"<[^>]+>", "", page.read_text())
    assert any(text[:40] in shown for text in frame["body"])
    pairs = tmp_path / "pairs.tsv"
    labelled = [(one["duplicate_of"]["doc_id"], one["doc_id"], 1) for one in copies]
    labelled += [(one["doc_id"], other["doc_id"], 0) for one, other in itertools.pairwise(copies)]
    pairs.write_text("".join(f"{one}\t{other}\t{label}\n" for one, other, label in labelled))
    scores = json.loads(run("evaluate", source, pairs, *names, "--json").stdout)
    assert scores["scores"]["all"]["same"] == len(copies)
    tuned = run("tune", source, pairs, *names, "--json")
    assert "left out" not in re.sub(r"0 left out", "", tuned.stderr)
    assert json.loads(tuned.stdout.splitlines()[0])["recall"] == 1


READS: dict[str, tuple[str, ...]] = {
    "dedup": ("{files}",),
    "explain": ("100", "{verdicts}", "--documents", "{files}"),
    "report": ("{verdicts}", "--output", "{page}", "--documents", "{files}"),
    "evaluate": ("{files}", "{pairs}"),
    "tune": ("{files}", "{pairs}"),
    "fingerprint": ("{files}",),
    "find-all": ("--input", "{files}"),
    "find-clusters": ("--input", "{files}"),
    "nearest": ("{files}", "--to", "100"),
    "archive": ("--input", "{files}", "--output", "{folder}"),
    "ask": ("--worker", "http://127.0.0.1:1", "{files}"),
}


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[[str, object], list[str]]:
    """Return what gives the arguments of a command on some files."""
    verdicts = tmp_path / "verdicts.jsonl"
    source = written("jsonl", corpus(1), tmp_path / "judged")
    run("dedup", source, *NAMES, "--output", verdicts)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("100\t101\t1\n")
    given = {
        "verdicts": verdicts,
        "pairs": pairs,
        "page": tmp_path / "page",
        "folder": tmp_path / "out",
    }

    def of(command: str, files: object) -> list[str]:
        return [command, *(each.format(files=files, **given) for each in READS[command])]

    return of


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "--id-column") for command in READS),
        *(("dedup", option) for option in NAMES[2::2]),
    ],
)
def test_a_name_that_no_row_has_is_refused_before_anything_is_judged(
    command: str, option: str, arguments: Callable[[str, object], list[str]], tmp_path: Path
) -> None:
    """With the columns that are there, and the option that names one of them."""
    source = written("jsonl", corpus(1), tmp_path / "given")
    names = dict(zip(NAMES[::2], NAMES[1::2], strict=True)) | {option: "nothing"}
    given = [part for pair in names.items() for part in pair]
    said = refused(*arguments(command, source), *given)
    assert said == (
        f"{source} has no column 'nothing', there are id, body, date, link: {option} names one of them"
    )


def test_a_field_of_one_line_of_json_is_enough(tmp_path: Path) -> None:
    """In JSON a field may be missing where it has no value, in all lines of a file as well."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(lines({"id": "a", "body": ARTICLE}))
    second.write_text(
        lines({"id": "b", "body": ARTICLE}, {"id": "c", "body": ARTICLE, "link": None})
    )
    kept = tmp_path / "kept"  # each file is read again, alone
    options = ("--keep", "new", "--output", kept)
    assert "2 duplicate, 1 new" in run("dedup", second, first, *NAMES[:6], *options).stderr
    first.write_text(lines({"id": "a", "body": OTHER}))
    assert "1 duplicate, 2 new" in run("dedup", second, first, *NAMES[:6], *options).stderr
    assert kept.read_text() == second.read_text().splitlines(keepends=True)[0] + first.read_text()
    first.write_text(lines({"id": "a", "body": ARTICLE}))
    said = refused("dedup", first, second, *NAMES[:4], "--url-column", "href")
    assert said.startswith(
        "the 2 files have no column 'href', there are id, body, link: --url-column"
    )


def test_names_of_columns_are_refused_for_what_has_none(tmp_path: Path) -> None:
    """An archive's documents have no columns, and numbers are no documents."""
    source = tmp_path / "crawl.warc.gz"
    run("sample-crawl", "--documents", "20", source)
    said = refused("dedup", source, "--id-column", "id")
    assert said.startswith(f"{source} has no columns: leave --id-column id out")
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1\n2\n")
    said = misused("nearest", numbers, "--to", "1", "--id-column", "id")
    assert "numbers have none" in said and "Documents must come in a file" not in said


def test_what_comes_through_a_pipe_is_refused_when_it_has_been_read() -> None:
    """It cannot be looked into before."""
    said = refused("dedup", "-", "--id-column", "key", stdin=lines({"id": "a", "text": ARTICLE}))
    assert "has no column 'key', there are id, text: --id-column names one of them" in said


@pytest.mark.parametrize(
    "command", ["dedup", "explain", "report", "evaluate", "tune", "find-clusters"]
)
def test_folders_and_patterns_are_read_as_dedup_reads_them(
    command: str, arguments: Callable[[str, object], list[str]], tmp_path: Path
) -> None:
    """All files of a folder, and those that a name with * stands for, in the order of their names."""
    folder = tmp_path / "given"
    frame = corpus(2)
    written("csv", frame[:2], folder, "a")
    written("jsonl", frame[2:], folder, "b")
    told = [run(*arguments(command, files), *NAMES).stderr for files in (folder, folder / "*")]
    assert told[0].partition("; ")[0] == told[1].partition("; ")[0]
    if command in ("dedup", "evaluate", "tune", "find-clusters"):
        assert "4 documents, 0 damaged records" in told[0]
    assert "nothing.*" in refused(*arguments(command, folder / "nothing.*"), *NAMES)


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_labels_are_looked_at_before_documents_are_read(command: str, tmp_path: Path) -> None:
    """Documents may take hours: here they could not be read at all."""
    source, pairs = tmp_path / "a.jsonl", tmp_path / "pairs.tsv"
    source.write_text("no document\n")
    assert refused(command, source, pairs).startswith(f"cannot read {pairs}: No such file")
    pairs.write_text("a,b,1\n")
    assert "line 1: must be doc_id, doc_id, label" in refused(command, source, pairs)


def test_a_document_without_a_name_or_a_time_has_one_doc_id_in_all_commands(tmp_path: Path) -> None:
    """Pairs by the doc_ids of verdicts are found by `evaluate`, whatever the rows bring."""
    dice = random.Random(1)
    texts = made_texts(3)
    rows = [
        {"text": text, **dice.choice([{}, {"url": f"https://example.org/{number}"}])}
        for number, text in enumerate(texts)
    ]
    source = tmp_path / "in.jsonl"
    source.write_text(lines(*rows))
    for time in ((), ("--fetched-at", "2026-01-02T03:04:05Z")):
        verdicts = map(json.loads, run("dedup", source, *time).stdout.splitlines())
        doc_ids = [one["doc_id"] for one in verdicts]
        pairs = tmp_path / "pairs.tsv"
        pairs.write_text(
            "".join(
                f"{one}\t{other}\t1\n"
                for one, other in zip(doc_ids[::2], doc_ids[1::2], strict=True)
            )
        )
        scores = json.loads(run("evaluate", source, pairs, *time, "--json").stdout)
        assert scores["scores"]["all"]["same"] == 3


def test_documents_in_a_pipe_by_name_are_said_to_need_a_file_and_wrong_numbers_are_not(
    tmp_path: Path,
) -> None:
    """Nobody looks at a pipe before it is read, so documents in it are taken for numbers."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = misused("nearest", pipe, "--to", "1", "--id-column", "id")
    assert "numbers have none. Documents must come in a file" in said
    for numbers in ("1\nl2\n", "0x1f\n"):
        said = refused("nearest", "--to", "1", stdin=numbers)
        assert "must be a decimal" in said and "Documents" not in said
