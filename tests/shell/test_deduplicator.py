"""The engine for programs: the verdicts of `neardup dedup` and of any replica of the log, whatever a caller has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from neardup import (
    BodyKind,
    CrawlFiles,
    Deduplicator,
    Deletion,
    Document,
    DocumentError,
    DocumentMessage,
    Outcome,
    Parameters,
    Retention,
    SearchRules,
    StopError,
    Verdict,
    encode_verdict,
    load_stopwords,
)

from tests.cli.test_dedup import ARTICLE, dedup, lines, page
from worker.devkit.sample_crawl import write_sample_crawl
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.files.engine import LOG, TOPIC, file_engine
from worker.shell.storage.checkpoint import Checkpoint
from worker.shell.storage.memory_log import MemoryLog

OTHER = "Nobody in the harbour has seen the ferry since the morning, and the office of the port says that it is late."


def short(verdict: Verdict) -> tuple[str, str | None]:
    """Outcome, and the original's doc_id."""
    return verdict.outcome.value, verdict.duplicate_of and verdict.duplicate_of.original.doc_id


def told(verdict: Verdict) -> dict[str, Any]:
    """The message of a verdict, without the time at which it was decided."""
    fields: dict[str, Any] = json.loads(encode_verdict(verdict)[1])
    del fields["decided_at"]
    return fields


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample crawl of pages, copies and damage."""
    path = tmp_path_factory.mktemp("crawl") / "sample.warc.gz"
    write_sample_crawl(path, 400, seed=5)
    return path


def test_verdicts_are_those_of_the_files_engine(crawl: Path) -> None:
    """Whole verdicts, log offsets included; one document at a time gives the same but for the place in the log."""
    records = list(CrawlFiles([str(crawl)]))
    with file_engine(Settings(threads=1)) as engine:
        wanted = [
            told(a.answer) for a in engine.judge((r.key, r.value) for r in records) if isinstance(a.answer, Verdict)
        ]
    assert {verdict["verdict"] for verdict in wanted} >= {"new", "duplicate"}
    assert [told(verdict) for verdict in Deduplicator(threads=2).add_many(records)] == wanted
    alone = Deduplicator(threads=1)
    for record, verdict in zip(records, wanted, strict=True):
        found = told(alone.add(record))
        del found["index"]["log_offset"]
        assert found == verdict | {"index": {"documents": verdict["index"]["documents"]}}


def test_a_replica_of_the_log_gives_the_same_verdicts(crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker would do with this log: read its records, answer for every offset."""
    log: list[tuple[bytes, int, int]] = []
    append = MemoryLog.append

    def kept(self: MemoryLog, record: bytes) -> int:
        offset = append(self, record)
        log.append((record, offset, self.entries[-1].timestamp_ms))
        return offset

    monkeypatch.setattr(MemoryLog, "append", kept)
    found = Deduplicator(threads=1)
    verdicts = list(found.add_many(CrawlFiles([str(crawl)])))
    replica = Replica(found.definition)
    for record in log:
        replica.read(*record)
    [source] = replica.coverage
    assert replica.answers(source, range(len(verdicts)), TOPIC) == verdicts


def test_the_definition_is_that_of_the_settings() -> None:
    """Defaults and values alike: one log takes the records of both."""
    assert Deduplicator().definition.hash == Settings().definition.hash
    words = load_stopwords("the\nand")
    own = Deduplicator(
        Parameters(shingle_widths=(1, 2), stopwords=words),
        search=SearchRules("exact", 3),
        retention=Retention(60_000, "last", 100),
        recrawls="replace",
        text_characters_max=5_000,
    )
    rules: dict[str, Any] = {
        "shingle_widths": (1, 2),
        "search_mode": "exact",
        "max_distance": 3,
        "expire_after_s": 60,
        "expire_from": "last",
        "documents_max": 100,
        "recrawls": "replace",
        "text_characters_max": 5_000,
    }
    differs = {name: own.definition.rules[name] for name in ("parameters", "stopwords_file")}
    assert own.definition.rules == Settings(**rules).definition.rules | differs


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library has no settings but its arguments."""
    monkeypatch.setenv("NEARDUP_MAX_DISTANCE", "3")
    monkeypatch.setenv("NEARDUP_THREADS", "many")
    assert Deduplicator().definition.search == SearchRules()


@pytest.mark.parametrize(
    "column",
    [
        [ARTICLE, OTHER, ARTICLE],
        iter([ARTICLE, OTHER, ARTICLE]),
        (text for text in (ARTICLE, OTHER, ARTICLE)),
        pandas.Series([ARTICLE, OTHER, ARTICLE], index=[7, 7, 1]),
        polars.Series([ARTICLE, OTHER, ARTICLE]),
        pyarrow.array([ARTICLE, OTHER, ARTICLE]),
        pyarrow.chunked_array([[ARTICLE], [OTHER, ARTICLE]]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_any_iterable_of_texts_is_taken(column: Any) -> None:
    """Lists, generators, columns of frames: a document's name is its number."""
    found = Deduplicator(threads=1)
    assert [short(verdict) for verdict in found.add_many(column)] == [("new", None), ("new", None), ("duplicate", "0")]
    assert found.clusters() == [["0", "2"]]
    assert found.add(ARTICLE).doc_id == "3"


TIMES = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
ROWS = {
    "doc_id": [11, 12, 13],
    "text": [ARTICLE, OTHER, ARTICLE],
    "fetched_at": TIMES,
    "language": ["en", None, None],
    "score": [0.5, 0.1, None],
}


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_frame_gives_a_document_a_row(make: Any) -> None:
    """Columns with the names of fields are read, with their types; others are left alone."""
    verdicts = list(Deduplicator(threads=1).add_many(make(ROWS)))
    assert [(verdict.doc_id, *short(verdict)) for verdict in verdicts] == [
        ("11", "new", None), ("12", "new", None), ("13", "duplicate", "11"),
    ]  # fmt: skip
    assert [verdict.fetched_at_ms for verdict in verdicts] == [int(at.timestamp() * 1_000) for at in TIMES]
    with pytest.raises(TypeError, match=r"a frame needs a column text, html or body_base64, got number: rename one"):
        Deduplicator(threads=1).add_many(make({"number": [1]}))


def test_every_kind_of_document_is_taken() -> None:
    """Dicts, values, messages: each with the name that the worker would give it."""
    found = Deduplicator(threads=1)
    html = f"<html><body><article><p>{ARTICLE}</p></article></body></html>"
    given = [
        page(1, text=ARTICLE),
        {"url": "https://example.org/2", "html": html},
        {"doc_id": "b", "text": ARTICLE},
        Document("c", "https://example.org/3", 5, BodyKind.BYTES, html.encode("utf-16"), "text/html"),
        Document("d", "https://example.org/4", 5, BodyKind.TEXT, OTHER, language="en"),
        DocumentMessage(url="https://example.org/5", fetched_at="2026-01-02T03:04:05Z", text=OTHER),
        pyarrow.scalar({"doc_id": "e", "text": "lone \ufffd surrogate"}),
        {"doc_id": "f", "text": "lone \ud800 surrogate"},
        Deletion("d"),
    ]
    verdicts = list(found.add_many(given))
    first, fifth = verdicts[0].doc_id, verdicts[5].doc_id
    assert [verdict.doc_id for verdict in verdicts] == [first, "1", "b", "c", "d", fifth, "e", "f", "d"]
    assert (len(first), len(fifth)) == (32, 32)
    assert [short(verdict) for verdict in verdicts[:6]] == [
        ("new", None), *[("duplicate", first)] * 3, ("new", None), ("duplicate", "d"),
    ]  # fmt: skip
    assert verdicts[-1].outcome is Outcome.DELETED
    assert found.clusters() == [[first, "1", "b", "c"], ["d", fifth], ["e", "f"]]
    assert len(found) == 2


def test_what_is_no_document_is_named_and_costs_itself_alone() -> None:
    """The error takes the place of the verdict, the others follow; the iterator's own error comes last."""
    found = Deduplicator(threads=1)

    def documents() -> Iterator[Any]:
        yield from [ARTICLE, None, b"caf\xe9", float("nan"), pandas.NA, {"text": b"x"}, {"url": "a"}, 7, ARTICLE]
        raise OSError("the disk is gone")

    verdicts = found.add_many(documents())
    assert next(verdicts).outcome is Outcome.NEW
    for error, text in (
        (TypeError, r"document 1 is None: leave out what is missing .*dropna"),
        (TypeError, r"document 2 is bytes b'caf\\xe9': decode it, or give a Document of BodyKind"),
        (TypeError, r"document 3 is float nan: leave out"),
        (TypeError, r"document 4 is NAType <NA>: leave out"),
        (TypeError, r"text of document 5 is bytes b'x': decode it"),
        (DocumentError, r"no-body: document 6: needs exactly one of text, html"),
        (TypeError, r"document 7 is int 7: give a str, a dict"),
    ):
        with pytest.raises(error, match=text):
            next(verdicts)
    assert short(next(verdicts)) == ("duplicate", "0")
    with pytest.raises(OSError, match="the disk is gone"):
        next(verdicts)
    assert list(verdicts) == []
    for wrong in (None, "one text", b"bytes", {"text": "x"}):
        with pytest.raises(TypeError, match=r"an iterable of documents, got .*: give a list of it, or"):
            found.add_many(wrong)


def test_verdicts_may_be_left_and_then_not_mixed() -> None:
    """What was read ahead has its places in the log, so nothing else may come between."""
    found = Deduplicator(threads=1)
    endless = (f"{ARTICLE} {number}" for number in iter(int, 1))
    verdicts = found.add_many(endless)
    assert [short(verdict)[0] for verdict in islice(verdicts, 3)] == ["new", "duplicate", "duplicate"]
    with pytest.raises(RuntimeError, match="have not all been taken: take them, or close them"):
        found.add(OTHER)
    del verdicts
    assert found.add(OTHER).outcome is Outcome.NEW
    assert found.add(ARTICLE).duplicate_of


def test_the_nearest_are_ranked_and_nothing_is_remembered() -> None:
    """By distance; what a verdict would say of the similarity; a document is not near itself."""
    found = Deduplicator(threads=1)
    changed = ARTICLE.replace("hall 0", "room 0")
    list(found.add_many([{"doc_id": "a", "text": ARTICLE}, {"doc_id": "b", "text": OTHER}, "Short.", ""]))
    near = found.nearest(changed)
    assert [neighbour.original.doc_id for neighbour in near] == ["a", "b"]
    assert near[0].distance < near[1].distance
    match = found.add({"doc_id": "c", "text": changed}).duplicate_of
    assert match is not None
    assert (match.distance, match.similarity) == near[0][1:]
    assert [neighbour.original.doc_id for neighbour in found.nearest({"doc_id": "a", "text": ARTICLE}, 1)] == ["b"]
    assert [(neighbour.original.doc_id, neighbour.similarity) for neighbour in found.nearest("short!")] == [("2", 1.0)]
    assert found.nearest("") == []
    with pytest.raises(DocumentError, match="invalid-base64"):
        found.nearest({"body_base64": "%"})
    assert len(found) == 3


def test_a_saved_one_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    """Clusters, numbers, rules and lists of words are all in the file."""
    words = load_stopwords("the\nand\nof")
    whole, first = (
        Deduplicator(Parameters(stopwords=words), search=SearchRules("exact", 4), retention=Retention(documents_max=9))
        for _ in range(2)
    )
    texts = [ARTICLE, OTHER, ARTICLE.lower(), "Short.", "short", OTHER.upper(), ARTICLE.upper()]
    for found in (whole, first):
        list(found.add_many(texts[:4]))
    first.save(tmp_path / "here.ndsnap")
    with pytest.raises(StopError, match=r"function words of its own: give the same list, as `stopwords`"):
        Deduplicator.load(tmp_path / "here.ndsnap")
    second = Deduplicator.load(tmp_path / "here.ndsnap", stopwords=words)
    assert second.definition == whole.definition
    assert [short(verdict) for verdict in second.add_many(texts[4:])] == [
        short(verdict) for verdict in whole.add_many(texts[4:])
    ]
    assert second.clusters() == whole.clusters() == [["0", "2", "6"], ["3", "4"], ["1", "5"]]


def test_the_state_of_a_run_over_files_can_be_gone_on_from(tmp_path: Path) -> None:
    """A folder of snapshots: the newest is taken, and the numbers go on."""
    dedup(tmp_path, lines(page(1, text=ARTICLE), page(2, text=OTHER)), "--state", str(tmp_path / "state"))
    found = Deduplicator.load(tmp_path / "state", threads=1)
    assert len(found) == 2
    verdict = found.add(ARTICLE)
    assert verdict.duplicate_of
    assert (verdict.doc_id, verdict.duplicate_of.original.url) == ("2", "https://example.org/1")
    found.save(tmp_path / "more.ndsnap")
    folder = tmp_path / "other"
    folder.mkdir()
    (tmp_path / "more.ndsnap").rename(folder / f"snapshot-{9:020}.ndsnap")
    assert Checkpoint(folder, Settings().definition, LOG, "files", 1e9).restore(has_log=False).documents == 2


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
    with pytest.raises(ValueError, match=r"in 64 bits, got bits=32, fields=\(\): leave both out"):
        Deduplicator(Parameters(bits=32))
