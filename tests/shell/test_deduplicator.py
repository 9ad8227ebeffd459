"""
The engine for programs: the verdicts of `neardup dedup` and of any replica of the log, whatever a
caller has.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import neardup
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from neardup import Deduplicator, DocumentError, StopError, Verdict

from tests.cli.program import ARTICLE, OTHER, lines, page, run
from tests.faults.crawl import random_words
from tests.faults.cut import in_a_fork, told
from tests.log.test_snapshot_schema import opened, sealed
from worker.core.document import Outcome
from worker.devkit.sample.crawl import write_sample_crawl
from worker.settings import Settings
from worker.shell.checkpoint import Checkpoint
from worker.shell.files import deduplicator
from worker.shell.files.engine import LOG, file_engine


def short(verdict: Verdict | Exception) -> tuple[str, str | None]:
    """Outcome, and the original's doc_id."""
    assert isinstance(verdict, Verdict), verdict
    return verdict.outcome.value, verdict.duplicate_of and number(
        verdict.duplicate_of.original.doc_id
    )


def number(doc_id: str) -> str:
    """The input and the row in a name that was made, input 0 left out; or the doc_id as given."""
    return re.sub(r"^0\.(?:0\.)?([0-9.]+)-[0-9a-f]{16}$", r"\1", doc_id)


def numbers(found: Deduplicator) -> list[list[str]]:
    """Clusters, by row."""
    return [[number(doc_id) for doc_id in cluster] for cluster in found.clusters()]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample crawl of pages, copies and damage."""
    path = tmp_path_factory.mktemp("crawl") / "sample.warc.gz"
    write_sample_crawl(path, 400, seed=5)
    return path


def test_verdicts_are_those_of_the_files_engine(crawl: Path) -> None:
    """
    Whole verdicts, log offsets included; one document at a time gives the same but for the place in
    the log.
    """
    records = list(neardup.CrawlFiles([str(crawl)]))
    with file_engine(Settings(threads=1)) as engine:
        wanted = [
            told(a.answer)
            for a in engine.answers((r.key, r.value) for r in records)
            if isinstance(a.answer, Verdict)
        ]
    assert {verdict["verdict"] for verdict in wanted} >= {"new", "duplicate"}
    assert [told(verdict) for verdict in Deduplicator(threads=2).add_many(records)] == wanted
    alone = Deduplicator(threads=1)
    for record, verdict in zip(records, wanted, strict=True):
        found = told(alone.add(record))
        del found["index"]["log_offset"]
        assert found == verdict | {"index": {"documents": verdict["index"]["documents"]}}


def test_the_definition_is_that_of_the_settings() -> None:
    """Defaults and values alike: one log takes the records of both."""
    assert Deduplicator().definition.hash == Settings().rules.hash
    words = neardup.load_stopwords("the\nand")
    own = Deduplicator(
        neardup.Parameters(shingle_widths=(1, 2), stopwords=words),
        search=neardup.SearchRules("exact", 3), retention=neardup.Retention(60_000, "last", 100),
        recrawls="replace", text_characters_max=5_000, preferred_copies=["example.org", "earliest"],
    )  # fmt: skip
    rules: dict[str, Any] = {
        "shingle_widths": (1, 2), "search_mode": "exact", "max_distance": 3, "expire_after_s": 60,
        "expire_from": "last", "documents_max": 100, "recrawls": "replace",
        "text_characters_max": 5_000, "preferred_copies": ("example.org", "earliest"),
    }  # fmt: skip
    differs = {name: own.definition.rules[name] for name in ("parameters", "stopwords_file")}
    assert own.definition.rules == Settings(**rules).rules.rules | differs


def test_whole_numbers_may_be_numpys() -> None:
    """They are Python's afterwards, in the definition, too. True is no number."""
    numbers: Any = {"threads": np.int64(1), "text_characters_max": np.int32(5_000)}
    plain = Deduplicator(threads=1, text_characters_max=5_000)
    assert Deduplicator(**numbers).definition.hash == plain.definition.hash
    for name in numbers:
        wrong: Any = {name: True}
        with pytest.raises(ValueError, match=f"{name} must be a whole number, 1 .*, got True"):
            Deduplicator(**wrong)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("errors", ["raise", "skip", "return"])
def test_a_warning_that_is_an_error_costs_no_document(errors: Any) -> None:
    """It ends the call, before a document that would have no verdict."""
    found = Deduplicator(threads=1)
    documents = [{"id": "a", "text": ARTICLE}, {"id": "b", "text": OTHER}]
    with pytest.raises(UserWarning, match="'id' is taken for the doc_id"):
        list(found.add_many(documents, errors=errors))
    assert len(found) == 0
    assert len(list(found.add_many(documents, errors=errors))) == len(documents)


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library has no settings but its arguments."""
    monkeypatch.setenv("NEARDUP_MAX_DISTANCE", "3")
    monkeypatch.setenv("NEARDUP_THREADS", "many")
    assert Deduplicator().definition.search == neardup.SearchRules()


@pytest.mark.parametrize(
    "make", [pandas.DataFrame, polars.DataFrame, polars.LazyFrame, pyarrow.table]
)
def test_a_frame_without_a_text_is_refused(make: Any) -> None:
    """With the columns that it has; which of them are read is tested in `test_frames.py`."""
    with pytest.raises(
        TypeError,
        match=r"a frame needs a column text, html or body_base64, got number: name one with",
    ):
        Deduplicator(threads=1).add_many(make({"number": [1]}))


@pytest.mark.parametrize(
    "frame",
    [pandas.DataFrame, lambda rows, _, columns: pyarrow.table([*zip(*rows, strict=True)], columns)],
)
def test_a_frame_with_two_columns_of_a_name_is_refused(frame: Any) -> None:
    """
    In pandas one of them is a frame, whose columns' names would be judged for texts. So is what is
    no frame.
    """
    with pytest.raises(
        TypeError, match=r"wanted a frame or a column .*, got list \['x'\]: use `add_many`"
    ):
        Deduplicator(threads=1).verdicts_frame(["x"])
    with pytest.raises(
        TypeError, match="a frame has one column of a name, got text, text: rename one"
    ):
        Deduplicator(threads=1).add_many(frame([[ARTICLE, OTHER]] * 2, None, ["text", "text"]))


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": lambda columns: pandas.DataFrame(columns, index=[7, 7, 1, 0]),
    "pandas column": lambda columns: pandas.Series(columns["text"], index=[7, 7, 1, 0]),
    "pandas index": lambda columns: pandas.Index(columns["text"]),
    "polars": polars.DataFrame,
    "polars, lazy": polars.LazyFrame,
    "polars column": lambda columns: polars.Series(columns["text"]),
    "Arrow column": lambda columns: pyarrow.array(columns["text"]),
    "Arrow column in chunks": lambda columns: pyarrow.chunked_array(
        [columns["text"][:1], columns["text"][1:]]
    ),
    "Arrow": pyarrow.table,
    "Arrow in batches": lambda columns: pyarrow.RecordBatchReader.from_batches(
        pyarrow.table(columns).schema, pyarrow.table(columns).to_batches(2)
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_verdicts_come_as_a_frame_of_the_kind_that_was_given(kind: str) -> None:
    """
    A row each, in their order and with their index; what is missing is not judged, and costs itself
    alone.
    """
    given = FRAMES[kind]({"text": [ARTICLE, None, OTHER, ARTICLE.upper()]})
    found = Deduplicator(threads=1)
    verdicts = found.verdicts_frame(given)
    frames = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "Arrow": pyarrow.Table}
    assert type(verdicts) is (
        type(given) if kind == "Arrow in batches" else frames[kind.replace(",", " ").split()[0]]
    )
    if kind.startswith("pandas"):
        assert list(verdicts.index) == ([0, 1, 2, 3] if kind == "pandas index" else [7, 7, 1, 0])
        assert verdicts.distance.isna().tolist() == [True, True, True, False]
    columns = (polars.from_pandas if kind.startswith("pandas") else polars.DataFrame)(
        verdicts
    ).to_dict(as_series=False)
    reason = columns.pop("reason")
    if kind != "Arrow in batches":  # never known as a whole
        assert columns.pop("cluster_size") == [2, None, 1, 2]
        assert [name and number(name) for name in columns.pop("cluster")] == ["0", None, "2", "0"]
    for name in ("doc_id", "duplicate_of"):
        columns[name] = [value and number(value) for value in columns[name]]
    assert columns == {
        "doc_id": ["0", None, "2", "3"], "verdict": ["new", "not-judged", "new", "duplicate"],
        "stays": [True, False, True, False], "duplicate_of": [None] * 3 + ["0"],
        "original_url": [None] * 4, "kind": [None] * 3 + ["exact"], "distance": [None] * 3 + [0],
        "similarity": [None] * 3 + [1.0], "copies": [None] * 3 + [1],
        "better_copy": [None] * 4, "kept_apart": [None] * 4,
    }  # fmt: skip
    assert reason[1].startswith(
        "document 1 is" if "column" in kind or "index" in kind else "no-body"
    )
    assert (len(found), numbers(found)) == (2, [["0", "3"]])
    assert repr(found).startswith("<Deduplicator: 2 originals, 1 duplicates, SearchRules(")


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_frame_tells_which_copies_are_better(kind: Any) -> None:
    """Of duplicates, where there are preferred_copies."""
    urls = ["https://mirror.example/1", "https://www.example.org/1", "https://mirror.example/2"]
    frame = kind({"text": [ARTICLE] * 3, "url": urls})
    verdicts = Deduplicator(threads=1, preferred_copies=["example.org"]).verdicts_frame(frame)
    found = verdicts["better_copy"]
    assert (found.to_pylist() if kind is pyarrow.table else list(found))[1:] == [True, False]


class Stubborn(Mapping[str, Any]):
    """A mapping whose own methods fail."""

    def __getitem__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("text",))

    def __len__(self) -> int:
        return 1


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


TEXT_KIND = neardup.BodyKind.TEXT
UNREADABLE: dict[str, tuple[Any, str]] = {
    "a text nested too deep": (
        {"text": nested(30_000)},
        "document 1: text is list that cannot be shown: list is never",
    ),
    "another field nested too deep": (
        {"text": OTHER, "language": nested(30_000)},
        "document 1: language is list that cannot be shown: list is never",
    ),
    "a list nested too deep": (nested(30_000), "document 1 is list that cannot be shown"),
    "a mapping whose methods fail": (Stubborn(), "unreadable: document 1 .*ZeroDivisionError"),
    "a time beyond the year 9999": (
        neardup.Document("c", "u", 10**18, TEXT_KIND, OTHER),
        "date-out-of-range: fetched_at_ms of document 1 is int 1000000000000000000",
    ),
    "a time that is a text": (
        neardup.Document("c", "u", "now", TEXT_KIND, OTHER),  # type: ignore[arg-type]
        "fetched_at_ms of document 1 is str 'now'",
    ),
    "a body that is no text": (
        neardup.Document("c", "u", 0, TEXT_KIND, b"bytes"),
        "body of document 1 is bytes b'bytes'",
    ),
    "a kind by its name": (
        neardup.Document("c", "u", 0, "text", OTHER),  # type: ignore[arg-type]
        "kind of document 1 is str 'text': give a neardup.BodyKind",
    ),
    "nothing": (None, "document 1 is None: leave out what is missing .*dropna"),
    "bytes": (
        b"caf\xe9",
        r"document 1 is bytes b'caf\\xe9': decode it, or give a Document of BodyKind",
    ),
    "a gap": (float("nan"), "document 1 is float nan: leave out"),
    "a gap of pandas": (pandas.NA, "document 1 is NAType <NA>: leave out"),
    "a text of bytes": (
        {"text": b"\xe9"},
        r"document 1: text is bytes b'\\xe9', not UTF-8 .*: decode it",
    ),
    "no body": ({"url": "a"}, "no-body: document 1: needs exactly one of text, html"),
    "a number": (7, "document 1 is int 7: give a str, a dict"),
    "a time that is a duration": (
        {"text": OTHER, "fetched_at": timedelta(1)},
        "document 1: fetched_at is timedelta .*: duration is never a time, ",
    ),
    "a deletion of a number": (
        neardup.Deletion(5),  # type: ignore[arg-type]
        "doc_id of document 1 is int 5: give a str",
    ),
}


@pytest.mark.parametrize(("document", "text"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_document_that_cannot_be_read_costs_itself_alone(document: Any, text: str) -> None:
    """
    It is a TypeError or a DocumentError, whatever its own methods raise; the others are judged.
    """
    found = list(Deduplicator(threads=1).add_many([ARTICLE, document, ARTICLE], errors="return"))
    assert (short(found[0]), short(found[2])) == (("new", None), ("duplicate", "0"))
    assert isinstance(found[1], TypeError | DocumentError) and re.search(text, str(found[1]))
    verdicts = Deduplicator(threads=1).add_many([ARTICLE, document])
    assert short(next(verdicts)) == ("new", None)
    with pytest.raises(type(found[1]), match=text):
        next(verdicts)


@pytest.mark.parametrize(
    "given", [{"doc_id": "caf\udce9", "text": ARTICLE}, neardup.Deletion("caf\udce9")]
)
def test_a_doc_id_that_no_message_can_carry_is_refused(given: Any) -> None:
    """As `os.fsdecode` names files that are not UTF-8: two of them would become one."""
    with pytest.raises(DocumentError, match="UTF-8"):
        Deduplicator(threads=1).add(given)


def test_a_lazy_frame_is_never_whole_in_memory() -> None:
    """Batches are read as their verdicts are taken, one after the other."""
    batches = pyarrow.table(
        {"text": [f"{ARTICLE} {number}" for number in range(20_000)]}
    ).to_batches(1_000)
    read = []

    def reading() -> Iterator[Any]:
        for batch in batches:
            read.append(batch)
            yield batch

    reader = pyarrow.RecordBatchReader.from_batches(batches[0].schema, reading())
    verdicts = Deduplicator(threads=1).add_many(reader)
    assert re.fullmatch("<Verdict '0\\.0\\.0-.{16}': new>", repr(next(verdicts)))
    assert re.match(
        r"<Verdict '0\.0\.1-.{16}': duplicate \(of '0\.0\.0-.{16}', near, ",
        repr(next(verdicts)),
    ) and len(read) < len(batches)


def test_every_kind_of_document_is_taken() -> None:
    """Dicts, values, messages: each with the name that the worker would give it."""
    found = Deduplicator(threads=1)
    html = f"<html><body><article><p>{ARTICLE}</p></article></body></html>"
    given = [
        page(1, text=ARTICLE),
        {"url": "https://example.org/2", "html": html},
        {"doc_id": "b", "text": ARTICLE},
        neardup.Document(
            "c",
            "https://example.org/3",
            5,
            neardup.BodyKind.BYTES,
            html.encode("utf-16"),
            "text/html",
        ),
        neardup.Document(
            "d", "https://example.org/4", 5, neardup.BodyKind.TEXT, OTHER, language="en"
        ),
        neardup.DocumentMessage(
            url="https://example.org/5", fetched_at="2026-01-02T03:04:05Z", text=OTHER
        ),
        pyarrow.scalar({"doc_id": "e", "text": "lone \ufffd surrogate"}),
        {"doc_id": "f", "text": "lone \ud800 surrogate"},
        neardup.Deletion("d"),
    ]
    verdicts = list(found.add_many(given))
    first, fifth = verdicts[0].doc_id, verdicts[5].doc_id
    assert [number(verdict.doc_id) for verdict in verdicts] == [
        first,
        "1",
        "b",
        "c",
        "d",
        fifth,
        "e",
        "f",
        "d",
    ]
    assert (len(first), len(fifth)) == (32, 32)
    assert [short(verdict) for verdict in verdicts[:6]] == [
        ("new", None), *[("duplicate", first)] * 3, ("new", None), ("duplicate", "d"),
    ]  # fmt: skip
    assert verdicts[-1].outcome is neardup.Outcome.DELETED
    assert numbers(found) == [[first, "1", "b", "c"], ["d", fifth], ["e", "f"]]
    assert len(found) == 2


def test_the_error_of_an_iterator_comes_behind_its_verdicts() -> None:
    """Documents that are left out are counted, and one document is no iterable of them."""
    found = Deduplicator(threads=1)

    def documents() -> Iterator[Any]:
        yield from [ARTICLE, None, ARTICLE]
        raise OSError("the disk is gone")

    verdicts = found.add_many(documents(), errors="return")
    assert short(next(verdicts)) == ("new", None)
    assert isinstance(next(verdicts), TypeError)
    assert short(next(verdicts)) == ("duplicate", "0")
    with pytest.raises(OSError, match="the disk is gone"):
        next(verdicts)
    assert list(verdicts) == []
    with pytest.warns(UserWarning, match=r"2 of 3 rows could not be judged.*the first: document"):
        skipped = list(found.add_many([None, OTHER, 7], errors="skip"))
    assert [short(verdict) for verdict in skipped] == [("new", None)]
    for wrong in (None, "one text", b"bytes", {"text": "x"}):
        with pytest.raises(
            TypeError, match=r"an iterable of documents, got .*: give a list of it, or"
        ):
            found.add_many(wrong)


@pytest.mark.parametrize("wrong", [None, b"bytes", {"url": "https://example.org/"}], ids=type)
def test_an_error_ends_the_reading_and_nothing_behind_it_is_judged(wrong: Any) -> None:
    """
    Whoever mends the rest and gives it again finds it as new as it is; no call is poisoned by the
    one before.
    """
    found = Deduplicator(threads=1)
    verdicts = found.add_many([ARTICLE, ARTICLE, wrong, OTHER, ARTICLE])
    with pytest.raises((TypeError, DocumentError), match="document 2"):
        list(verdicts)
    assert list(verdicts) == [] and numbers(found) == [["0", "1"]]
    assert [short(verdict) for verdict in found.add_many([OTHER, ARTICLE])] == [
        ("new", None),
        ("duplicate", "0"),
    ]


def test_a_closed_one_judges_no_more_and_can_be_asked(tmp_path: Path) -> None:
    """Its threads have ended, also where verdicts were left."""
    before = set(threading.enumerate())
    with Deduplicator(threads=1) as found:
        next(found.add_many([ARTICLE, OTHER]))
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="is closed: make another one"):
        found.add(OTHER)
    found.save(tmp_path / "kept.ndsnap")
    assert (len(found), found.nearest(ARTICLE, 1)[0].distance) == (2, 0)
    assert found.ask(ARTICLE).outcome is Outcome.DUPLICATE
    with pytest.raises(ValueError, match="errors must be one of raise, skip, return, got 'ignore'"):
        found.add_many([], errors="ignore")  # type: ignore[call-overload]


def test_verdicts_may_be_left_and_then_not_mixed() -> None:
    """
    What was read ahead has its places in the log: another call ends the reading, and says so to who
    goes on.
    """
    found = Deduplicator(threads=1)
    endless = (f"{ARTICLE} {number}" for number in iter(int, 1))
    verdicts = found.add_many(endless)
    assert [short(verdict)[0] for verdict in islice(verdicts, 3)] == [
        "new",
        "duplicate",
        "duplicate",
    ]
    assert found.add(OTHER).outcome is neardup.Outcome.NEW
    with pytest.raises(RuntimeError, match="another call has ended this `add_many`"):
        next(verdicts)
    assert list(verdicts) == []
    assert found.add(ARTICLE).duplicate_of


def test_the_nearest_are_ranked_and_nothing_is_remembered() -> None:
    """By distance; what a verdict would say of the similarity; a document is not near itself."""
    found = Deduplicator(threads=1)
    changed = ARTICLE.replace("hall 0", "room 0")
    list(
        found.add_many(
            [{"doc_id": "a", "text": ARTICLE}, {"doc_id": "b", "text": OTHER}, "Short.", ""]
        )
    )
    near = found.nearest(changed)
    assert [neighbour.original.doc_id for neighbour in near] == ["a", "b"]
    assert near[0].distance < near[1].distance
    match = found.add({"doc_id": "c", "text": changed}).duplicate_of
    assert match is not None
    assert (match.distance, match.similarity) == near[0][1:]
    assert [
        neighbour.original.doc_id
        for neighbour in found.nearest({"doc_id": "a", "text": ARTICLE}, 1)
    ] == ["b"]
    [(original, _, alike)] = found.nearest("short!")
    assert (number(original.doc_id), alike) == ("2", 1.0)
    assert found.nearest("") == []
    with pytest.raises(DocumentError, match="invalid-base64"):
        found.nearest({"body_base64": "%"})
    assert len(found) == 3


def test_what_cannot_be_asked_is_said_as_add_says_it() -> None:
    """The same error, and nothing is kept of it: the next document has the same number."""
    found = Deduplicator()
    for wrong in (b"bytes", None, {"text": "a", "html": "b"}, {"title": "no body"}, ["a"]):
        with pytest.raises((TypeError, DocumentError)) as of_ask:
            found.ask(wrong)  # type: ignore[arg-type]
        with pytest.raises(type(of_ask.value), match=re.escape(str(of_ask.value))):
            Deduplicator().add(wrong)  # type: ignore[arg-type]
    assert number(found.ask(ARTICLE).doc_id) == number(found.add(ARTICLE).doc_id) == "0"


def test_a_child_of_a_process_in_the_middle_of_a_call_is_told_so() -> None:
    """The child has the lock but not the thread that would release it; the parent goes on."""
    library = Deduplicator(threads=1)
    library.add(ARTICLE)
    is_in, may_end = threading.Event(), threading.Event()

    def texts() -> Iterator[str]:
        yield OTHER
        is_in.set()
        may_end.wait(60)

    user = threading.Thread(target=lambda: list(library.add_many(texts())))
    user.start()
    assert is_in.wait(60)
    said = in_a_fork(lambda: library.add(OTHER))
    with pytest.raises(RuntimeError, match="another thread is using this Deduplicator"):
        library.add(OTHER)
    may_end.set()
    user.join()
    assert "forked while another thread" in said and "Deduplicator.load" in said
    assert in_a_fork(lambda: library.add(OTHER).outcome.value) == "duplicate"


def test_a_saved_one_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    """Clusters, rules and lists of words are all in the file; what it judges is another run."""
    words = neardup.load_stopwords("the\nand\nof")
    whole, first = (
        Deduplicator(
            neardup.Parameters(stopwords=words),
            search=neardup.SearchRules("exact", 4),
            retention=neardup.Retention(documents_max=9),
        )
        for _ in range(2)
    )
    texts = [ARTICLE, OTHER, ARTICLE.lower(), "Short.", "short", OTHER.upper(), ARTICLE.upper()]
    for found in (whole, first):
        list(found.add_many(texts[:4]))
    first.save(tmp_path / "here.ndsnap")
    with pytest.raises(
        StopError, match=r"function words of its own: give the same list, as `stopwords`"
    ):
        Deduplicator.load(tmp_path / "here.ndsnap")
    with pytest.raises(StopError, match=r"Give the list of function words that it was saved with"):
        Deduplicator.load(tmp_path / "here.ndsnap", stopwords=neardup.load_stopwords("the"))
    second = Deduplicator.load(tmp_path / "here.ndsnap", stopwords=words)
    assert second.definition == whole.definition
    assert [short(verdict) for verdict in second.add_many(texts[4:])] == [
        short(verdict) for verdict in whole.add_many(texts[4:])
    ]
    assert numbers(whole) == [["0", "2", "1.2"], ["3", "1.0"], ["1", "1.1"]]
    later = [[re.sub("^4.0.", "0.1.", name) for name in cluster] for cluster in second.clusters()]
    assert later == whole.clusters()


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_doc_id_with_another_text_leaves_its_cluster(tmp_path: Path, one_by_one: bool) -> None:
    """
    Its former copies are none of the new text. One with a small change stays, since it is the same
    page. The cluster of a deleted one ends when its doc_id comes again, also after a load.
    """
    named = [("a", ARTICLE), ("b", ARTICLE.upper()), ("a", f"{ARTICLE} Printed today.")]
    found = Deduplicator(threads=1)

    def add(*documents: dict[str, str] | neardup.Deletion) -> None:
        if one_by_one:
            for document in documents:
                found.add(document)
        else:
            list(found.add_many(documents))

    add(*({"doc_id": doc_id, "text": text} for doc_id, text in named))
    assert found.clusters() == [["a", "b"]]
    add(*({"doc_id": doc_id, "text": OTHER} for doc_id in "ac"))
    assert found.clusters() == [["a", "c"]]
    found.save(tmp_path / "found.ndsnap")
    assert Deduplicator.load(tmp_path / "found.ndsnap").clusters() == [["a", "c"]]
    add({"doc_id": "s", "text": "Short."}, {"doc_id": "t", "text": "short"})
    add(neardup.Deletion("a"), {"doc_id": "s", "text": "Other."})
    assert found.clusters() == [["a", "c"]]
    found.save(tmp_path / "found.ndsnap")
    loaded = Deduplicator.load(tmp_path / "found.ndsnap", threads=1)
    again = [{"doc_id": doc_id, "text": ARTICLE} for doc_id in "adad"]
    add(*again)
    list(loaded.add_many(again))
    assert found.clusters() == loaded.clusters() == [["a", "d"]]
    found.save(tmp_path / "found.ndsnap")
    assert Deduplicator.load(tmp_path / "found.ndsnap").clusters() == [["a", "d"]]
    assert ", 1 duplicates," in repr(found)


def test_the_state_of_a_run_over_files_can_be_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A folder of snapshots: the newest is taken, and another run begins behind it. Nothing is saved
    into that folder, where its runs would be forgotten: that is said before a snapshot is made.
    """
    (tmp_path / "in.jsonl").write_text(lines(page(1, text=ARTICLE), page(2, text=OTHER)))
    run("dedup", tmp_path / "in.jsonl", "--output", tmp_path / "out", "--state", tmp_path / "state")
    found = Deduplicator.load(tmp_path / "state", threads=1)
    assert len(found) == 2
    verdict = found.add(ARTICLE)
    assert verdict.duplicate_of
    assert verdict.doc_id.startswith("2.0.0-")
    assert verdict.duplicate_of.original.url == "https://example.org/1"
    (tmp_path / "link.ndsnap").symlink_to(max((tmp_path / "state").glob("*.ndsnap")))
    for name in ("state/more.ndsnap", f"state/snapshot-{9:020}.ndsnap", "link.ndsnap"):
        with monkeypatch.context() as patched:
            patched.setattr(deduplicator, "capture", None)
            with pytest.raises(StopError, match=r"state is the state of .* name a file in another"):
                found.save(tmp_path / name)
    found.save(tmp_path / "more.ndsnap")
    folder = tmp_path / "other"
    folder.mkdir()
    (tmp_path / "more.ndsnap").rename(folder / f"snapshot-{9:020}.ndsnap")
    assert (
        Checkpoint(folder, Settings().rules, LOG, "files", 1e9).restore(has_log=False).documents
        == 2
    )


def test_the_snapshot_that_was_written_last_is_taken_of_a_folder(tmp_path: Path) -> None:
    """Their names say nothing, unless all are a worker's; where the times say nothing, it asks."""
    found = Deduplicator(threads=1)
    for number, name in enumerate(("tuesday", "wednesday", "friday"), start=1):
        found.add(f"text {number} of the week")
        found.save(tmp_path / f"{name}.ndsnap")
        os.utime(tmp_path / f"{name}.ndsnap", (number, number))
    assert len(Deduplicator.load(tmp_path, threads=1)) == 3
    os.utime(tmp_path / "tuesday.ndsnap", (3, 3))
    with pytest.raises(StopError, match=r"friday\.ndsnap and tuesday\.ndsnap were written at the"):
        Deduplicator.load(tmp_path)
    for number, name in enumerate(("tuesday", "wednesday", "friday")):
        (tmp_path / f"{name}.ndsnap").rename(tmp_path / f"snapshot-{9 - number:020}.ndsnap")
    assert len(Deduplicator.load(tmp_path, threads=1)) == 1


def test_errors_name_documents_by_their_number_in_the_call() -> None:
    """Whatever was judged before."""
    found = Deduplicator(threads=1)
    list(found.add_many(["one text", "another text"]))
    for call in (found.add_many, found.ask_many):
        for wrong in (None, {"text": b"\xe9"}, {"text": "x", "fetched_at": "never"}):
            with pytest.raises((TypeError, DocumentError), match=r"document 1[: ]"):
                list(call(["a text", wrong]))
    for single in (found.add, found.ask):
        with pytest.raises(TypeError, match="document 0 is None"):
            single(None)  # type: ignore[arg-type]
        with pytest.raises(DocumentError, match="document 0: "):
            single({"text": "x", "fetched_at": "never"})


def test_a_snapshot_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    """Absent, damaged, or of other page rules."""
    found = Deduplicator(threads=1)
    found.add(ARTICLE)
    path = tmp_path / "one.ndsnap"
    found.save(path)
    with pytest.raises(StopError, match=r"none\.ndsnap: No such file"):
        Deduplicator.load(tmp_path / "none.ndsnap")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StopError, match=r"one\.ndsnap: the snapshot is damaged"):
        Deduplicator.load(path)
    for name in ("x" * 5_000, "a\0b", "\ud800", ""):
        for call in (Deduplicator.load, found.save, lambda name: neardup.CrawlFiles([name])):
            with pytest.raises(StopError):
                call(name)
    with pytest.raises(ValueError, match=r"in 64 bits, got bits=32, fields=\(\): leave both out"):
        Deduplicator(neardup.Parameters(bits=32))


FORGED: dict[str, dict[str, Any]] = {
    "duplicates that are a number": {"duplicates": 5},
    "duplicates that are no texts": {"duplicates": [["a", 5]]},
    "duplicates of three": {"duplicates": [["a", "b", "c"]]},
    "no pages": {"pages": 5},
    "no time": {"expire_after_s": float("inf")},
    "another rule of re-crawls": {"recrawls": "never"},
    "another search": {"search_mode": [1]},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_a_snapshot_whose_header_was_forged_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Its checksum is right; the error names the file, and is ours."""
    found = Deduplicator(threads=1)
    found.add(ARTICLE)
    path = tmp_path / "forged.ndsnap"
    found.save(path)
    content = opened(path.read_bytes())
    rules = content.header["definition"][4]
    for name, value in changes.items():
        (rules if name in rules else content.header)[name] = value
    path.write_bytes(sealed(content))
    with pytest.raises(StopError, match=r"forged\.ndsnap: "):
        Deduplicator.load(path)


def test_a_second_thread_is_refused_and_harms_nothing() -> None:
    """
    Whatever several threads call at the same time is done or refused; what was added is known. They
    are not made to wait: what the first one reads may wait for them.
    """
    dice = random.Random(3)
    texts = [" ".join(random_words(dice, 30)) for _ in range(50)]
    deduplicator = Deduplicator(threads=2)
    added: list[str] = []
    refused: list[RuntimeError] = []
    failures: list[BaseException] = []

    def attempt(text: str) -> None:
        try:
            deduplicator.ask(text)
            deduplicator.add(text)
            added.append(text)
            deduplicator.nearest(text, 1)
        except RuntimeError as error:
            refused.append(error)

    def use(number: int) -> None:
        try:
            for text in texts[number::4]:
                attempt(text)
        except BaseException as error:
            failures.append(error)

    users = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not failures
    assert all("one at a time" in str(error) for error in refused)
    assert [deduplicator.ask(text).outcome for text in added] == [Outcome.DUPLICATE] * len(added)

    def feed() -> Iterator[str]:
        other = threading.Thread(target=attempt, args=(texts[0],))
        other.start()
        other.join()
        yield texts[0]

    before = len(refused)
    assert len(list(deduplicator.add_many(feed()))) == 1 and len(refused) == before + 1
