"""`neardup dedup`: one line for every document, in the order of the file, whatever is in it."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tests.cli.program import ARTICLE, OTHER, defined, lines, page, refused, run
from tests.conftest import EVENTUALLY_S, eventually
from tests.faults.crawl import Message, random_words
from tests.oracle import Oracle, said
from worker.core.document import Document, Verdict, derive_doc_id
from worker.core.extract import Content, Skipped, content_of
from worker.log.judge import JudgedRows
from worker.log.record import FORMAT_VERSION, Section, Source, encode
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.files.engine import file_engine

FETCHED_MS = 1_767_323_045_000


def dedup(tmp_path: Path, text: str, *options: object) -> tuple[list[dict[str, Any]], str]:
    """Run the command; give its lines and what it said."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(text)
    told = run("dedup", source, "--output", target, "--threads", "1", *options).output
    return [json.loads(line) for line in target.read_text().splitlines()], told


def varied(count: int) -> list[dict[str, str]]:
    """Documents of which many are copies, and every third is short."""
    return [
        page(n, text=ARTICLE.replace("hall 3", f"hall {n % 5}") if n % 3 else f"Note {n % 4}")
        for n in range(count)
    ]


def judged(answer: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the clock, nor on how documents share a record."""
    index = {"documents": answer["index"]["documents"]}
    return {name: value for name, value in answer.items() if name != "decided_at"} | {
        "index": index
    }


def test_every_document_gets_one_line_in_order(tmp_path: Path) -> None:
    """
    New, exact, near, skipped, and what cannot be judged: each is answered, none takes a neighbour
    with it.
    """
    near = ARTICLE.replace("hall 0", "room 0")
    answers, said_of_run = dedup(
        tmp_path,
        lines(
            page(1, text=ARTICLE),
            page(2, text=ARTICLE.upper()),
            page(3, text=near),
            page(4, text=""),
            page(5),
            page(6, html=f"<html><body><article><p>{ARTICLE}</p></article></body></html>"),
            page(7, body_base64="%%%"),
            page(8, text="One"),
            page(9, text="one!"),
        ),
    )
    assert [answer["source"]["offset"] for answer in answers] == list(range(9))
    assert [answer["verdict"] for answer in answers] == [
        "new", "duplicate", "duplicate", "skipped", "dead-letter", "duplicate", "dead-letter",
        "new", "duplicate",
    ]  # fmt: skip
    assert [answers[i]["duplicate_of"]["kind"] for i in (1, 2, 5, 8)] == [
        "exact",
        "near",
        "exact",
        "exact",
    ]
    assert answers[2]["duplicate_of"]["url"] == "https://example.org/1"
    assert [answers[i]["error"]["code"] for i in (4, 6)] == ["no-body", "invalid-base64"]
    assert "9 documents" in said_of_run


def test_a_text_in_another_field_is_told_the_option_that_names_it(tmp_path: Path) -> None:
    """Where no document has a body under its own name, or under the one that has been named."""
    source = tmp_path / "in.jsonl"
    source.write_text(lines({"content": ARTICLE, "body": None}))
    said = refused("dedup", source)
    assert "'content', 'body': rename" in said and "--text-column names another field" in said
    assert "--text-column names another field" in refused("dedup", source, "--text-column", "body")


def test_what_cannot_be_read_is_named_by_file_line_and_doc_id(tmp_path: Path) -> None:
    """
    No JSON is counted, and the lines after it are judged; of a document the name, where it can be
    read.
    """
    first = lines(page(1, text=ARTICLE))
    given = first + "{broken\n" + lines(page(2), page(3, text=ARTICLE, fetched_at="yesterday"))
    answers, told = dedup(tmp_path, given)
    assert "in.jsonl, line 2: not JSON" in told and "1 damaged" in told
    file, before = str(tmp_path / "in.jsonl"), len(first + "{broken\n")
    assert [answer.get("input") for answer in answers] == [
        None,
        {"file": file, "line": 3, "offset": before},
        {"file": file, "line": 4, "offset": before + len(lines(page(2)))},
    ]
    assert [answer["doc_id"] for answer in answers[1:]] == [
        derive_doc_id("https://example.org/2", FETCHED_MS),
        None,
    ]


def _judge(
    messages: list[Message], batch_documents_max: int, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Judge with the oracle beside it, which reads every record as a log would have it."""
    settings = Settings(threads=1, batch_documents_max=batch_documents_max)
    oracle, apply_together = Oracle.of(settings.rules), Replica.apply_together
    oracle.apply(settings.rules.declaration("files", FORMAT_VERSION))

    def both(replica: Replica, section: Section, records: int, timestamp_ms: int) -> JudgedRows:
        for record in encode(replica.definition.author("files"), [section], 1 << 20):
            oracle.apply(record)
        return apply_together(replica, section, records, timestamp_ms)

    with monkeypatch.context() as patch, file_engine(settings) as engine:
        patch.setattr(Replica, "apply_together", both)
        given = [said(answered.answer) for answered in engine.answers(iter(messages))]
    source = next(iter(engine.replica.coverage))
    assert isinstance(source, Source)
    assert given == [oracle.answers[source, offset] for offset in range(len(messages))]
    return given


COMES_AGAIN = [  # doc_id, text (None deletes), answer
    ("a", ARTICLE, "new"),
    ("a", ARTICLE, "new: redelivered"),
    ("b", ARTICLE, "duplicate of a"),
    ("b", ARTICLE, "duplicate of a"),
    ("a", None, "deleted: removed"),  # the original of b
    ("b", ARTICLE, "new"),
    ("a", ARTICLE, "duplicate of b"),
    ("b", OTHER, "new"),  # with other content
    ("c", ARTICLE, "new"),
    ("c", None, "deleted: removed"),
    ("c", None, "deleted: not-an-original"),
    ("c", OTHER, "duplicate of b"),
    ("b", OTHER, "new: redelivered"),
]


def test_what_comes_again_is_answered_alike_in_batches_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Messages of the topic: re-deliveries, new versions, deletions, and the document after them; then
    many copies.
    """
    messages: list[Message] = [
        (
            doc_id.encode(),
            json.dumps(page(ord(doc_id), doc_id=doc_id, text=text)).encode() if text else None,
        )
        for doc_id, text, _ in COMES_AGAIN
    ]
    messages += [(None, json.dumps(document).encode()) for document in varied(60)]
    first, *others = (_judge(messages, size, monkeypatch) for size in (1, 2, 7, len(messages)))
    assert all(answers == first for answers in others)
    told = [
        f"duplicate of {of}" if of else f"{is_}: {why}" if why else is_
        for is_, of, _, why, *_ in first
    ]
    assert told[: len(COMES_AGAIN)] == [answer for *_, answer in COMES_AGAIN]
    assert {answer[0] for answer in first[len(COMES_AGAIN) :]} == {"new", "duplicate"}


def test_a_run_ended_midway_leaves_state_and_output_as_they_were_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    """
    By Ctrl-C between two batches: the same run on the same state goes on where the one before has
    ended. Of `kill -9` row 31 shows it (`tests/faults/test_rows_files.py`).
    """
    documents = varied(40)
    state, target = tmp_path / "state", tmp_path / "cut.jsonl"
    target.write_text("the former\n")
    dedup(tmp_path, lines(*documents[:10]), "--state", state)
    before = {path.name: path.read_bytes() for path in state.glob("snapshot-*")}
    command = [
        sys.executable, "-m", "worker", "dedup", "-", "--output", str(target), "--threads", "1",
        "--state", str(state), "--batch-documents-max", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(lines(*documents[10:]).encode() * 10)  # and more would come
        process.stdin.flush()
        eventually(lambda: any(path.stat().st_size for path in tmp_path.glob("cut.jsonl.*.part")))
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 130 and told.endswith(b"neardup: interrupted\n")
    assert target.read_text() == "the former\n" and not any(tmp_path.glob("*.part"))
    assert {path.name: path.read_bytes() for path in state.glob("snapshot-*")} == before
    second, _ = dedup(tmp_path, lines(*documents[10:]), "--state", state)
    whole, _ = dedup(tmp_path, lines(*documents))
    assert [judged(answer) for answer in second] == [judged(answer) for answer in whole[10:]]


def test_a_state_that_cannot_be_gone_on_from_is_refused(tmp_path: Path) -> None:
    """
    Of other settings, of another retention, damaged: in one line, and neither it nor the output is
    touched.
    """
    state = tmp_path / "state"
    first, _ = dedup(tmp_path, lines(page(1, text=ARTICLE)), "--state", state)
    command = ("dedup", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl", "--state", state)
    assert "max_distance is 16 there, 5 here" in refused(*command, *defined(max_distance=5))
    assert "expire_after_s is 0.0 there, 60.0 here" in refused(
        *command, *defined(expire_after_s=60)
    )
    (snapshot,) = state.glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    text = refused(*command)  # there is no log behind a state: what it has lost is not passed over
    assert str(snapshot) in text and "Move this file" in text and "Error(" not in text
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == first


def test_all_damaged_places_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    """
    Also where nothing could be judged, which is when they are needed most; and no other output is
    overwritten by them.
    """
    source = tmp_path / "in.jsonl"
    places = tmp_path / "damage.jsonl.gz"
    command = ("dedup", source, "--output", tmp_path / "out.jsonl", "--damage", places)
    source.write_text(lines(page(1, text=ARTICLE), *["{broken"] * 50))
    run(*command, "--quiet")
    told = [json.loads(line) for line in gzip.decompress(places.read_bytes()).splitlines()]
    assert [place["line"] for place in told] == list(range(2, 52))
    assert {place["file"] for place in told} == {str(source)}
    assert "not JSON" in told[0]["reason"]
    source.write_text("{broken\n")
    (tmp_path / "out.jsonl").unlink()
    assert "nothing could be judged" in refused(*command)
    assert len(gzip.decompress(places.read_bytes()).splitlines()) == 1
    assert not (tmp_path / "out.jsonl").exists()
    for taken in (source, tmp_path / "out.jsonl"):
        assert "name another" in refused(*command[:-1], taken)


@pytest.mark.parametrize("command", ["dedup", "fingerprint", "find-clusters"])
@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
        b'{"doc_id": "a", "url": "https://example.org/"}\n{"doc_id": "b", "text": 7}\n',
        b"{broken\n",
        b"",
    ],
    ids=["png", "dead letters", "damage", "empty"],
)
def test_nothing_judged_is_a_failure(tmp_path: Path, content: bytes, command: str) -> None:
    """
    No exit code 0 for what holds no document; a former output stays, and what was found is counted.
    """
    source, target = tmp_path / "input", tmp_path / "out"
    source.write_bytes(content)
    target.write_text("the former")
    text = refused(command, *["--input"] * (command == "find-clusters"), source, "--output", target)
    assert target.read_text() == "the former"
    if command == "dedup" and not content:
        assert text == "nothing could be judged: there is nothing in what was read"
    elif command != "find-clusters":  # which takes what is no archive for numbers
        assert re.match(r"nothing could be \w+: \d documents?, \d damaged records?", text)
        assert "nothing in what was read" not in text


POOL = [" ".join(random_words(random.Random(seed), 60)) for seed in range(9)]
SHAPES: dict[str, tuple[str, ...]] = {  # of rows, and how they are read
    "text": ("--text-column", "content"),
    "url": ("--text-column", "content"),
    "url, time of the reading": (
        "--text-column",
        "content",
        "--fetched-at",
        "2026-01-02T03:04:05Z",
    ),
    "some ids": ("--text-column", "content", "--id-column", "id"),
}


def days(shape: str) -> list[list[dict[str, Any]]]:
    """
    Three days of rows, of few texts: equal ones stand on different lines, on the same line, and on
    one day.
    """
    draw = random.Random(shape)
    rows: list[list[dict[str, Any]]] = [
        [{"content": draw.choice(POOL)} for _ in range(8)] for _ in range(3)
    ]
    rows[2][0] = rows[1][0] = rows[0][0]
    for number, row in enumerate(row for day in rows for row in day):
        if "url" in shape:
            row["url"] = f"https://example.org/{number if 'time' in shape else draw.randrange(4)}"
        if (
            shape == "some ids"
        ):  # which are numbers; and what else is there beside the named text is no body
            row |= {"id": number if draw.random() < 0.5 else None, "html": 1}
    return rows


def numbered(said: str) -> str:
    """
    Return a text with derived names by the number of the document in all runs of one input each:
    the documents before the run, and those before it in its input.
    """
    return re.sub(
        r"([0-9]+)\.0\.([0-9]+)(-[0-9a-f]{16})",
        lambda name: f"{int(name[1]) + int(name[2])}{name[3]}",
        said,
    )


def answers(*arguments: object, stdin: str = "") -> list[dict[str, Any]]:
    """
    Run `dedup`; give its verdicts without what depends on the clock or on how documents share a
    run or a record.
    """
    told = run("dedup", "--threads", "1", "--quiet", *arguments, stdin=stdin).stdout.splitlines()
    return [judged(json.loads(numbered(line))) for line in told]


@pytest.mark.parametrize("shape", SHAPES)
def test_days_through_one_state_say_what_one_run_over_all_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """
    By equal and by different names, by stdin and as Parquet: verdicts, names and originals are the
    same.
    """
    options = SHAPES[shape]
    given = days(shape)
    (tmp_path / "all.jsonl").write_text("".join(lines(*day) for day in given))
    whole = answers(tmp_path / "all.jsonl", *options)
    assert {"new", "duplicate"} == {answer["verdict"] for answer in whole}
    found: dict[str, list[dict[str, Any]]] = {
        how: [] for how in ("equal", "different", "stdin", "parquet")
    }
    for number, day in enumerate(given):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("latest.jsonl").write_text(lines(*day))
        Path(f"{number}.jsonl").write_text(lines(*day))
        names = sorted({name for row in day for name in row})
        columns = {name: [row.get(name) for row in day] for name in names}
        parquet.write_table(pyarrow.table(columns), "latest.parquet")
        for how, name in (
            ("equal", "latest.jsonl"),
            ("different", f"{number}.jsonl"),
            ("parquet", "latest.parquet"),
        ):
            found[how] += answers(name, *options, "--state", tmp_path / how)
        found["stdin"] += answers("-", *options, "--state", tmp_path / "stdin", stdin=lines(*day))
    for how, told in found.items():
        assert told == whole, how


def test_what_is_fed_day_by_day_is_judged_as_what_is_fed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A live group keeps its originals: no two feeds have a key in common, and that of a document is
    its doc_id.
    """
    fed: list[Record] = []

    def feed_documents(_: Settings, records: Iterable[Record], __: float) -> SimpleNamespace:
        fed.extend(records)
        return SimpleNamespace(delivered=len(fed), failures=0, failed=())

    monkeypatch.setattr("worker.shell.kafka.feeding.feed_documents", feed_documents)
    monkeypatch.setattr(
        "worker.shell.kafka.admin.Admin", lambda *_: SimpleNamespace(cluster_id=str)
    )
    monkeypatch.chdir(tmp_path)
    given = days("url")
    rows = [[{"text": row["content"], "url": row["url"]} for row in day] for day in given]

    def told(*parts: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        fed.clear()
        for part in parts:
            parquet.write_table(pyarrow.Table.from_pylist(part), "latest.parquet")
            run("feed", "latest.parquet", "--bootstrap", "nowhere:1")
        assert len({record.key for record in fed}) == len(fed)
        with file_engine(Settings(threads=1)) as engine:
            found = [
                one.answer for one in engine.answers((record.key, record.value) for record in fed)
            ]
        verdicts = [one for one in found if isinstance(one, Verdict)]
        assert [verdict.doc_id.encode() for verdict in verdicts] == [record.key for record in fed]
        place = {verdict.doc_id: at for at, verdict in enumerate(verdicts)}
        return [
            (one.outcome, one.reason, one.duplicate_of and place[one.duplicate_of.original.doc_id])
            for one in verdicts
        ]

    assert told(*rows) == told([row for day in rows for row in day])


COMMANDS = {  # what is told of "a", "b" and "c"
    "dedup {docs}": ['"new"', "fingerprint-failed", '"duplicate"'],
    "fingerprint {docs}": ['"a"', "no fingerprint: {docs}, line 2", '"c"'],
    "find-clusters --input {docs}": ['["a","c"]', "no fingerprint: {docs}, line 2"],
    "nearest {docs} --to a": ['["c",', "no fingerprint: {docs}, line 2"],
    "evaluate {docs} {pairs}": ["no text: {docs}, line 2", "2 documents, 1 duplicates"],
    "report {verdicts} --documents {docs} --output {page}": ["3 answers"],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """
    Three documents, and a defect that the second one meets.

    They name no charset and are not valid UTF-8, so each is read on its own.
    """

    def failing(document: Document) -> Content | Skipped:
        if document.doc_id == "b":
            raise IndexError("nobody has foreseen this")
        return content_of(document)

    monkeypatch.setattr("worker.core.extract.content_of", failing)
    monkeypatch.setattr("worker.shell.pipeline.prepare.content_of", failing)
    found = {name: tmp_path / name for name in ("docs", "pairs", "verdicts", "page")}
    body = base64.b64encode(f"<p>{ARTICLE} £</p>".encode("latin-1")).decode()
    found["docs"].write_text(
        lines(*(page(at, doc_id=name, body_base64=body) for at, name in enumerate("abc")))
    )
    found["pairs"].write_text("a\tc\t1\n")
    run("dedup", found["docs"], "--output", found["verdicts"], "--threads", "1")
    answers = [json.loads(line) for line in found["verdicts"].read_text().splitlines()]
    # In the file's order.
    assert [answer["verdict"] for answer in answers] == ["new", "dead-letter", "duplicate"]
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_the_neighbours_of_a_document_that_fails_are_answered(
    files: dict[str, Path], command: str
) -> None:
    """It is named, and costs itself."""
    said = " ".join(run(*command.format(**files).split()).output.split())
    for text in COMMANDS[command]:
        assert text.replace("{docs}", str(files["docs"])) in said
