"""
`neardup explain`, `compare` and `report`: why a document got its verdict, from files and from the
topics.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import defined, lines, refused, run
from tests.conftest import REPOSITORY
from tests.faults import cluster
from tests.report.made import copy, dead, former, verdict
from worker.cli import answers as answer_lines
from worker.cli.shared import TableColumn, TableColumns
from worker.core.document import ApartReason, Changed, KeptApart, Outcome, Verdict
from worker.core.fingerprint import Fingerprinter
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import StopError
from worker.report.answers import explain
from worker.settings import Settings
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.topics import create_topics
from worker.shell.messages import DeadLetter, encode_verdict

TEXT = (
    "The old bridge over the river was built by two brothers in the spring of that year, and "
    "nobody in the town has forgotten how they carried the stones of it from the hills when the "
    "water had risen above the road to the mill."
)
EDITED = TEXT.replace("two brothers", "three sisters")
OTHER = (
    "The ferry of the harbour is late again because the wind has turned, and the master of it says "
    "so to all of us."
)
TEXTS = {"a": TEXT, "b": EDITED, "c": OTHER}
A = "The old bridge over the river was built by two brothers in the spring of that year."
B = A.replace("two brothers", "three sisters")


def distance(one: str, other: str) -> int:
    return (Fingerprinter().one(one) ^ Fingerprinter().one(other)).bit_count()


DOCUMENTS = [  # an original, its edited copy, and something else
    {
        "doc_id": name,
        "url": f"https://{name}.example/",
        "fetched_at": "2026-01-02T03:04:05Z",
        "text": text,
    }
    for name, text in TEXTS.items()
]


@pytest.fixture
def judged(tmp_path: Path) -> list[str]:
    """The verdicts' file and, as an option, the documents'."""
    crawl, verdicts = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    crawl.write_text(lines(*DOCUMENTS))
    run("dedup", crawl, "--output", verdicts)
    return [str(verdicts), "--documents", str(crawl)]


def test_a_duplicate_is_explained_with_its_original(judged: list[str]) -> None:
    """
    Why, the original and the page of both; without the documents what the verdicts know.
    """
    said = run("explain", "b", *judged).output
    bits = distance(TEXT, EDITED)
    assert f"{bits} of 64 bits differ (at most 16). Similarity 0." in said
    assert sum(line.count("x") for line in said.splitlines() if line.startswith("differ")) == bits
    assert "original a, captured 2026-01-02T03:04:05.000Z" in " ".join(said.split())
    without = run("explain", "https://b.example/", judged[0]).output
    assert "differ " in without and "--documents shows doubts" in without


def test_a_new_document_is_explained_with_its_nearest(judged: list[str], tmp_path: Path) -> None:
    """
    And the first of all has none before it; where its verdict is not at hand the nearest is not
    known.
    """
    found = json.loads(run("explain", "c", *judged, "--json").stdout)
    assert found["other"]["doc_id"] == "a" and found["originals"] == 1
    assert found["why"].startswith("No original before it fits the rules (directed, distance 16")
    assert found["comparison"]["distance"] == distance(OTHER, TEXT)
    assert "No original was before it." in run("explain", "a", *judged).output
    alone = tmp_path / "alone.jsonl"
    alone.write_text(
        next(line for line in Path(judged[0]).read_text().splitlines() if '"doc_id":"c"' in line)
    )
    assert "near enough; the nearest has no verdict." in " ".join(
        run("explain", "c", str(alone)).output.split()
    )


def test_explain_and_compare_show_one_page(judged: list[str], tmp_path: Path) -> None:
    """From the documents' first lines on: drawing, search, measures, shingles and diff, or JSON."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    pair = [str(tmp_path / "a"), str(tmp_path / "b")]
    compared = run("compare", *pair, "--shingles", "3").output
    _, _, page = compared.partition("\n\n")
    assert page.count("doubts ") >= 2
    assert re.search(
        r"The search gets from B to A through [1-4] of 4 blocks \(block 1 has the lowest bits\): block ",
        " ".join(page.split()),
    )
    assert page in run("explain", "b", *judged, "--shingles", "3").output
    explained = json.loads(run("explain", "b", *judged, "--json").stdout)
    assert explained["comparison"] == json.loads(run("compare", *pair, "--json").stdout)


def family(copies: int) -> list[str]:
    """Texts of one template: every fourteen words are those of all, and one is their own."""
    dice = random.Random(6)
    shared = [[f"w{dice.randrange(9_999)}" for _ in range(14)] for _ in range(30)]
    return [
        " ".join(
            " ".join(["the", *part[:3], "of", *part[3:], "and", f"x{own.randrange(99_999)}"])
            for part in shared
        )
        for own in (random.Random(f"6 {copy}") for copy in range(copies))
    ]


def test_a_document_is_explained_with_all_that_it_must_stand_out_from(tmp_path: Path) -> None:
    """How far the most similar of several originals stands out, or that it need not."""
    texts = family(7)
    documents = [
        {"doc_id": f"d{number}", "url": f"https://a.example/{number}", "text": text}
        for number, text in enumerate(texts)
    ]
    verdicts = [
        verdict(
            number,
            doc_id=f"d{number}",
            fingerprint=Fingerprinter().one(text),
            log_offset=number,
            parameters=Fingerprinter().parameters.hash,
        )
        for number, text in enumerate(texts)
    ]
    crawl = tmp_path / "in.jsonl"
    crawl.write_text(lines(*documents))

    def explained(count: int, *options: str) -> str:
        file = tmp_path / f"{count}.jsonl"
        file.write_bytes(b"\n".join(encode_verdict(one)[1] for one in verdicts[-count:]))
        return run("explain", "d6", file, "--documents", crawl, *options, COLUMNS="200").output

    near = json.loads(explained(7, "--json"))["near_similarities"]
    assert len(near) > 3 and near == sorted(near, reverse=True) and near[0] < 0.8
    said = " ".join(explained(7).split())
    assert (
        f"The most similar of {len(near)} near originals has {near[0]:.3f}, the fourth "
        f"{near[3]:.3f}: it stands out by {near[0] - near[3]:.3f}, 0.120 required." in said
    )
    assert "has to stand out from nothing: fewer than four originals" in explained(2)
    again = copy(6, 0, similarity=near[0], doc_id="d6", original_id="d0", log_offset=6,
                 fingerprint=verdicts[6].fingerprint, parameters=verdicts[6].parameters)  # fmt: skip
    verdicts[6] = again
    assert "required. Fewer were near when this text was judged first" in " ".join(
        explained(7).split()
    )


def test_pages_of_one_host_are_explained(tmp_path: Path) -> None:
    """
    Two pages with one text stay apart by their URLs and titles, and this is what is said of them.
    """
    documents = [
        {
            "doc_id": name,
            "url": f"https://shop.example/{name}",
            "html": f"<title>{title}</title><main><p>{TEXT}</p></main>",
        }
        for name, title in (("a", "Bridges of stone"), ("b", "The ferry, and when it goes"))
    ]
    crawl, verdicts = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    crawl.write_text(lines(*documents))
    run("dedup", crawl, "--output", verdicts)
    said = " ".join(run("explain", "b", verdicts, "--documents", crawl).output.split())
    assert "verdict new" in said
    assert (
        "The most similar original before it, a, has similarity 1.000, 0.540 required, and is kept "
        "apart: two pages of one host at other URLs" in said
    )
    assert (
        "no duplicate, similarity 1.000: two pages of one host at other URLs and with other titles "
        "are copies from 0.900 on, with 100 shingles each" in said
    )


def test_what_is_not_there_is_said(
    judged: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No such document; stdin or a pipe, which cannot be read twice; texts that are not those of the verdicts.
    """
    assert "no verdict on 'z'" in refused("explain", "z", *judged)
    os.mkfifo(tmp_path / "pipe")
    for once in ("-", tmp_path / "pipe"):
        run("explain", "z", once, code=2)
    monkeypatch.setattr("worker.cli.options.WAIT_S", 0.25)
    away = ("--bootstrap", "127.0.0.1:1")
    said = " ".join(run("explain", judged[0], *away, code=1).output.split())
    assert f"{judged[0]} is a file, but is taken for a doc_id" in said
    assert "is taken for" not in run("explain", "z" * 300, *away, code=1).output  # no file's name
    changed = tmp_path / "changed.jsonl"
    changed.write_text(
        lines(*({**one, "text": one["text"] + " And that is all."} for one in DOCUMENTS))
    )
    assert "other fingerprints" in run("explain", "b", judged[0], "--documents", changed).output


def test_verdicts_are_read_as_they_were_compressed_or_not_at_all(
    judged: list[str], tmp_path: Path
) -> None:
    """
    Alone or in a folder; a file that was cut ends the command, and nothing is written. `explain`
    reads them by the same function. How files are compressed, and where they may be cut, is tested
    in `tests/shell/test_unpacked.py`.
    """
    folder, drawn = tmp_path / "verdicts", tmp_path / "page"
    folder.mkdir()
    first, second = folder / "0.jsonl.gz", folder / "1.jsonl.gz"
    run("dedup", judged[2], "--output", second)
    first.write_bytes(second.read_bytes())
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(codecs.BOM_UTF8 + Path(judged[0]).read_bytes())
    run("report", marked, "--output", drawn)
    for verdicts in (second, folder):
        run("report", verdicts, "--output", drawn)
    drawn.unlink()
    for data, said in ((second.read_bytes()[:-9], "ends within this member"), (b"", "it was cut")):
        first.write_bytes(data)
        for verdicts in (first, folder):
            assert said in refused("report", verdicts, "--output", drawn)
    assert not drawn.exists()


def test_where_there_is_no_verdict_at_all_that_is_said(tmp_path: Path) -> None:
    """Of a file and of a folder: a name that was written wrong is another error."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    for verdicts in (tmp_path / "empty.jsonl", tmp_path / "folder"):
        assert f"{verdicts} has no verdict yet" in refused("explain", "a", verdicts)


def test_a_topic_without_a_verdict_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs, or the file of verdicts was forgotten."""
    monkeypatch.setattr(answer_lines, "_answers_from", lambda *_, **__: iter(()))
    with pytest.raises(StopError, match=r"topic verdicts has no .*top --once.* name the file"):
        next(answer_lines.read_answers(None, Settings(), quiet=True))


def test_unfinished_outputs_in_a_folder_are_no_verdicts(judged: list[str], tmp_path: Path) -> None:
    """A command that was killed has left them, and has written the same again. It is said once."""
    folder = tmp_path / "verdicts"
    folder.mkdir()
    for name in ("v.jsonl", "v.jsonl.0123456789abcdef.part", "_SUCCESS"):
        (folder / name).write_bytes(Path(judged[0]).read_bytes())
    told = run("explain", "b", folder)
    assert told.stderr.count(f"{folder}: 2 files are not read") == 1
    assert "answers" not in told.stdout
    assert run("explain", "b", folder, "--quiet").stderr == ""


def test_a_folder_of_something_else_is_named_as_such(tmp_path: Path) -> None:
    """With what is wrong in it."""
    (tmp_path / "choice").mkdir()
    assert "has the folder choice in it" in refused("explain", "b", tmp_path)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_verdicts_in_a_table_are_refused_with_what_to_write(
    judged: list[str], tmp_path: Path, name: str
) -> None:
    """`dedup` writes them, for other programs; the command in the error is right."""
    run("dedup", judged[2], "--output", tmp_path / name)
    said = refused("explain", "b", tmp_path / name)
    assert f"{name} is {'Parquet' if 'parquet' in name else 'CSV'}, and verdicts are read" in said
    option = re.search(r"`dedup (--output) (\S+)`", said)
    assert option is not None
    run("dedup", judged[2], option[1], tmp_path / option[2])
    run("explain", "b", tmp_path / option[2])


def test_texts_that_the_documents_lack_are_said(judged: list[str], tmp_path: Path) -> None:
    """How many, one of them, and that their fields may have other names; with the names, nothing."""
    other = tmp_path / "other.jsonl"
    other.write_text(lines(*({"id": one["doc_id"], "body": one["text"]} for one in DOCUMENTS)))
    given = ("explain", "b", judged[0], "--documents", other)
    said = run(*given).stderr
    assert "has no text of 2 of the 2 documents to be shown, such as 'a'" in said
    assert "--id-column, --text-column" in said
    assert "no text of" not in run(*given, "--id-column", "id", "--text-column", "body").stderr
    assert run(*given, "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("16a36544a525", "16a36544a52545e9492899893fb39375"),
        ("16a36544a52…", "16a36544a52545e9492899893fb39375"),  # as a table cuts it
        ("crawl/17", "crawl/17"),  # the whole of one, though another one begins with it
    ],
)
def test_a_document_is_named_by_the_beginning_of_its_doc_id(name: str, expected: str) -> None:
    """A whole doc_id comes first."""
    answers = [verdict(1, doc_id=doc_id) for doc_id in DOC_IDS]
    assert explain(lambda: answers, name).last.doc_id == expected


@pytest.mark.parametrize(
    "doc_id",
    ["漢字" * 9, "a" + "漢字" * 9, "one\ttab, \x1b[31m and more", "tab\tbing.1", "crawling-17/a"],
)
def test_what_a_table_shows_of_a_doc_id_names_it(doc_id: str) -> None:
    """
    Wide characters take two columns, and one may be cut in half. Control characters are replaced. A
    doc_id that is as long as the beginning of another one would not have been cut.
    """
    table = TableColumns(TableColumn("doc_id", 12), width=40)
    answers = [verdict(1, doc_id=name) for name in (doc_id, "crawling-17")]
    assert explain(lambda: answers, table.line([doc_id])).last.doc_id == doc_id


def test_an_empty_name_names_nothing() -> None:
    """Though a dead letter may have no doc_id."""
    with pytest.raises(StopError, match="no verdict on ''"):
        explain(lambda: [dead("no-body", "needs a body", None)], "")


DOC_IDS = ["16a36544a52545e9492899893fb39375", "crawl/170", "crawl/17", "crawl/18"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("16a3654", "at least the first 8 characters"),
        ("crawl/1…", "no verdict on 'crawl/1…'"),  # too short
        ("crawl/170 ", "no verdict on 'crawl/170 '"),
        ("https://", "no verdict on 'https://'"),  # the beginning of a URL names nothing
    ],
)
def test_a_beginning_that_names_nothing_is_refused(name: str, said: str) -> None:
    answers = [verdict(1, doc_id=doc_id) for doc_id in DOC_IDS]
    with pytest.raises(StopError, match=re.escape(said)):
        explain(lambda: answers, name)


def test_a_beginning_that_several_doc_ids_have_is_refused() -> None:
    """The error names two of them."""
    answers = [verdict(1, doc_id=f"crawling-{number}") for number in (17, 18, 19, 17)]
    with pytest.raises(StopError, match=r"'crawling-17' and 'crawling-18': write more of it"):
        explain(lambda: [*answers, verdict(1, doc_id="crawling-170")], "crawling-1…")
    with pytest.raises(StopError, match="several doc_ids begin with 'crawling-1'"):
        explain(lambda: [verdict(1, doc_id=f"crawling-1{n}") for n in range(9)], "crawling-1…")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            verdict(1, outcome=Outcome.SKIPPED, reason="empty-text", fingerprint=None),
            "to compare: empty-text",
        ),
        (
            verdict(1, outcome=Outcome.DELETED, reason="removed", fingerprint=None, url=None),
            "A null value came",
        ),
        (verdict(1, reason="redelivered"), "the original that it was"),
        (dead("no-body", "needs a \x1b[31mbody", b"d1"), "could not be judged: needs a �[31mbody"),
        (copy(1, 0, 0, 1.0), "the same tokens in the same order"),
        (verdict(1, former_version=former(0, Changed.MUCH)), "changed: much"),
    ],
)
def test_every_answer_has_its_reason(
    tmp_path: Path, answer: Verdict | DeadLetter, said: str
) -> None:
    """In a sentence; control characters do not reach the terminal."""
    file = tmp_path / "v.jsonl"
    file.write_bytes(answer.line() if isinstance(answer, DeadLetter) else encode_verdict(answer)[1])
    shown = run("explain", "d1", file, COLUMNS="200").output
    assert said in shown and "\x1b" not in shown


def test_what_is_kept_apart_is_explained_by_the_original_that_its_verdict_names() -> None:
    """Not by the nearest; of two originals of that doc_id, the last one before the document."""
    apart = KeptApart("d2", ApartReason.OTHER_PAGE, 0.7)
    made = [
        verdict(1, fingerprint=0b111, log_offset=1),
        verdict(2, fingerprint=0, log_offset=2),
        verdict(2, fingerprint=0b1, log_offset=3),
        verdict(7, fingerprint=0b111, log_offset=6, kept_apart=apart),
        verdict(2, fingerprint=0b11, log_offset=8),
    ]
    found = explain(lambda: made, "d7")
    assert found.other == made[2]


@pytest.mark.parametrize(
    "answer",
    [
        verdict(7, fingerprint=0b111, kept_apart=KeptApart("d9", ApartReason.OTHER_PAGE, 0.7)),
        copy(7, of=9, fingerprint=0b111),
    ],
)
def test_an_original_without_a_verdict_is_not_replaced_by_the_nearest(
    tmp_path: Path, answer: Verdict
) -> None:
    """Neither for what is kept apart nor for a duplicate; and it is said."""
    made = [verdict(1, fingerprint=0b111), answer]
    assert explain(lambda: made, "d7").other is None
    file = tmp_path / "v.jsonl"
    file.write_bytes(b"".join(encode_verdict(one)[1] + b"\n" for one in made))
    shown = " ".join(run("explain", "d7", file, COLUMNS="200").output.split())
    assert "the original has no verdict here, so the two are not compared" in shown


def test_only_what_was_before_counts() -> None:
    """
    A later original, one of other parameters and a former version of the document are not its
    nearest.
    """
    made = [
        verdict(1, fingerprint=0b1111, log_offset=5),
        verdict(2, fingerprint=0, log_offset=9),
        verdict(3, fingerprint=0, log_offset=4, parameters="1" * 16),
        verdict(4, fingerprint=0, log_offset=3, doc_id="d7"),
        verdict(6, fingerprint=0b11111, log_offset=6, source_offset=6),
        verdict(5, fingerprint=0b11, log_offset=6, source_offset=8),
        verdict(7, fingerprint=0, log_offset=6, source_offset=7),
    ]
    found = explain(lambda: made, "d7")
    assert (len(found.answers), found.other, found.originals) == (2, made[0], 2)


def test_a_document_of_the_topics_is_explained(commands_settings: Settings) -> None:
    """Verdicts and texts come from Kafka; what retention has taken is not waited for."""
    settings, topic = commands_settings, commands_settings.topic_documents
    create_topics(Admin(settings, 30), settings.model_copy(update={"partitions": 1}))
    prints = {name: Fingerprinter().one(text) for name, text in TEXTS.items()}
    here: dict[str, Any] = {"source_topic": topic, "parameters": settings.parameters.hash}
    answers = (
        verdict(0, doc_id="a", fingerprint=prints["a"], **here),
        copy(1, 0, 3, doc_id="b", original_id="a", fingerprint=prints["b"], **here),
    )
    cluster.append(
        settings.bootstrap, topic, [json.dumps(document).encode() for document in DOCUMENTS]
    )
    cluster.append(
        settings.bootstrap,
        settings.topic_verdicts,
        [encode_verdict(answer)[1] for answer in answers],
    )
    shown = run("explain", "b").output
    assert "[-two brothers-] {+three sisters+}" in shown and "common subsequence" in shown
    assert "no verdict on 'zzzzzzzzz'" in refused("explain", "zzzzzzzzz")
    # As in a topic that was created again: the place has another document now.
    moved = copy(0, 0, 3, doc_id="c", original_id="a", fingerprint=prints["b"], **here)
    value = encode_verdict(moved)[1]
    cluster.append(settings.bootstrap, settings.topic_verdicts, [value])
    assert "common subsequence" not in run("explain", "c").output
    cluster.delete_records(settings.bootstrap, topic, {0: 1})
    said = " ".join(run("explain", "b").stderr.split())
    assert f"the message {topic}[0] at 0 is deleted by the topic's retention" in said
    assert "--documents reads its text from files" in said


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A text, and a page with nearly the same one."""
    (tmp_path / "a.txt").write_text(A)
    (tmp_path / "b.html").write_text(
        f"<!doctype html><nav><a href='/'>Home</a></nav><main><p>{B}</p></main>"
    )
    return [str(tmp_path / "a.txt"), str(tmp_path / "b.html")]


def test_compare_shows_bits_measures_shingles_and_the_diff(pair: list[str]) -> None:
    """Into a pipe without colours; as many marks as bits differ; of equal ones that they are."""
    shown = run("compare", *pair).output
    [differ] = (line for line in shown.splitlines() if line.startswith("differ "))
    assert differ.count("x") == distance(A, B)
    said = " ".join(shown.split())  # the terminal's lines are 80 columns
    assert f"{distance(A, B)} of 64 bits differ: no duplicate, similarity 0." in said
    assert "0.540 required" in said
    assert "B 17 of 18 words, from the page's <main>; left out: menus and margins 1" in said
    assert "B differs in 1 place (2 words): an edit?" in said
    for text in (
        "[-two brothers-] {+three sisters+}",
        "common subsequence / longer text  0.882",
        "two brothers (1)",
    ):
        assert text in shown
    assert "\x1b[" not in shown
    equal = run("compare", pair[0], pair[0]).output
    assert (
        "0 of 64 bits differ: a duplicate, similarity 1.000\nRules: directed, distance 16, "
        in equal
    )
    assert "token for token the same" in equal


DATA = Path(__file__).parent / "data"


def test_the_readmes_show_what_compare_says() -> None:
    """
    Each line of the sample is one of the output; the picture has its two sentences and verdicts.
    """
    shown = run("compare", DATA / "monday.txt", DATA / "tuesday.txt", "--shingles", "2",
                COLUMNS="100").output  # fmt: skip
    said = [line.strip() for line in shown.splitlines()]
    guide = (REPOSITORY / "worker" / "public" / "README.md").read_text()
    sample = guide.partition("$ cd tests/cli/data && neardup compare monday.txt tuesday.txt")[2]
    lines_shown = sample.partition("\n`template.txt`")[0].splitlines()[1:]
    assert len(lines_shown) > 15
    assert [line for line in lines_shown if line.strip() not in said] == []
    picture = (REPOSITORY / "README.md").read_text().partition("How a pair is found")[2]
    for name, verdict_shown in (("tuesday", "a duplicate"), ("template", "no duplicate")):
        found = json.loads(
            run("compare", DATA / "monday.txt", DATA / f"{name}.txt", "--json").stdout
        )
        line = rf"{re.escape(found['spread']['text'])} +similarity {found['similarity']:.3f}, "
        assert re.search(line + verdict_shown, picture)
        assert (
            f" {verdict_shown}, similarity {found['similarity']:.3f}"
            in run("compare", DATA / "monday.txt", DATA / f"{name}.txt", COLUMNS="100").output
        )


def test_compare_tells_scripts_everything(pair: list[str]) -> None:
    """
    Fingerprints as hex text, each shingle in one list, the steps from A to B; stdin is one of the
    two.
    """
    found = json.loads(run("compare", "-", pair[1], "--json", stdin=A).stdout)
    assert [int(one["fingerprint"], 16) for one in found["documents"]] == [
        *map(Fingerprinter().one, (A, B))
    ]
    assert len(found["differing_bits"]) == found["distance"]
    account = {"region": "main", "kept": 17, "left_out": {"menus and margins": 1}}
    assert [one["page"] for one in found["documents"]] == [None, account]
    assert found["subsequence"] == 15 / 17
    assert found["spread"] == {
        "kind": "scattered",
        "text": "differs in 1 place (2 words): an edit?",
        "shared": 15 / 17,
        "passages": [],
        "scattered": 1,
    }
    assert [step["kind"] for step in found["steps"]] == ["equal", "removed", "added", "equal"]
    assert {one["shingle"] for one in found["documents"][0]["only"]} == {
        "by two",
        "two brothers",
        "brothers in",
    }
    assert {"shingle": "of that", "weights": [3, 3]} in found["shared"]
    wider = json.loads(run("compare", *pair, "--json", *defined(shingle_widths=(3,))).stdout)
    assert all(len(one["shingle"].split()) == 3 for one in wider["shared"])


def test_what_is_not_compared_says_so(tmp_path: Path, pair: list[str]) -> None:
    """
    Of nothing a worker makes `skipped`, of a few words a duplicate only when they are the same.
    """
    texts = {
        "empty": "",
        "few": "four words and no more",
        "others": "four words or no more",
        "marks": "!?",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for first, second, said in (
        ("empty", "empty", "0 of 64 bits differ: a worker skips what has nothing to compare"),
        ("marks", "few", "bits differ: a worker skips what has nothing to compare"),
        ("few", "few", "0 of 64 bits differ: so few tokens match only their equals, as here"),
        ("few", "others", "bits differ: so few tokens match only their equals\n"),
    ):
        assert said in run("compare", tmp_path / first, tmp_path / second).output
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert "cannot read" in refused("compare", tmp_path / "none", pair[0])
    assert "no text to compare" in refused("compare", tmp_path / "image", pair[0])
    for head, kind in (("WARC/1.1\r\n", "WARC"), ("filedesc://a.arc", "ARC")):
        (tmp_path / "archive").write_text(f"{head}{texts['few']}")
        assert f"is an archive ({kind}); `compare`" in refused(
            "compare", pair[0], tmp_path / "archive"
        )
    assert "named twice" in refused("compare", "-", "/dev/stdin")


def test_a_crawl_becomes_a_page_whole_or_not_at_all(tmp_path: Path) -> None:
    """
    With texts side by side and languages where documents are given; the input is not written over.
    """
    crawl, verdicts, page, bad = (
        tmp_path / name for name in ("crawl.warc.gz", "out.jsonl", "report", "bad.jsonl")
    )
    write_sample_crawl(crawl, 200, 3)
    run("dedup", crawl, "--output", verdicts)
    run("report", verdicts, "--documents", crawl, "--output", page)
    text = page.read_text()
    assert "<del>" in text or "<ins>" in text or "Word for word" in text
    assert ">Languages<" in text and "anchors" in text and "equal words" in text
    without = run("report", verdicts, "--output", "-", "--title", "a <crawl>").stdout
    assert "<h1>a &lt;crawl&gt;</h1>" in without and "--documents" in without
    packed = tmp_path / "page.html.gz"
    run("report", verdicts, "--documents", crawl, "--output", packed, "--title", "report")
    assert gzip.decompress(packed.read_bytes()).decode().startswith("<!DOCTYPE html>")
    page.write_text("the former")
    bad.write_bytes(verdicts.read_bytes() + b"{}\n")
    assert "bad.jsonl, line" in refused("report", bad, "--output", page)
    assert "input and the output" in refused("report", bad, "--output", bad)
    assert page.read_text() == "the former"


def test_a_page_of_somebody_else_is_replaced_only_by_its_name(
    judged: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs write a report.html, too. One of ours is replaced."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "report.html"
    page.write_text("<title>coverage</title>")
    assert "report.html is there and is no page" in refused("report", judged[0])
    assert page.read_text() == "<title>coverage</title>"
    run("report", judged[0], "--output", page)
    assert "Near-duplicates" in page.read_text()
    run("report", judged[0])


def test_a_page_is_not_written_among_the_verdicts_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next report would read it. All files of such a folder are read."""
    folder = tmp_path / "verdicts"
    folder.mkdir()
    (tmp_path / "crawl.jsonl").write_text('{"doc_id": "a", "text": "one short text"}\n')
    run("dedup", tmp_path / "crawl.jsonl", "--output", folder / "1.jsonl")
    monkeypatch.chdir(folder)
    assert "name a place elsewhere" in refused("report", ".")
    run("report", ".", "--output", tmp_path / "report.html")
    assert [path.name for path in folder.iterdir()] == ["1.jsonl"]
