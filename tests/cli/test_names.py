"""Documents without a name of their own: never one that another has, in whatever file, run or feed it stands."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tests.cli.program import lines, run
from tests.cli.test_dedup import judged
from tests.faults.crawl import random_words
from worker.core.document import Verdict
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.deduplicator import Deduplicator
from worker.shell.files.engine import file_engine

POOL = [" ".join(random_words(random.Random(seed), 60)) for seed in range(9)]
SHAPES: dict[str, tuple[str, ...]] = {  # of rows, and how they are read
    "text": ("--text-column", "content"),
    "url": ("--text-column", "content"),
    "url, no options": (),
    "url, time of the reading": ("--text-column", "content", "--fetched-at", "2026-01-02T03:04:05Z"),
    "some ids": ("--text-column", "content", "--id-column", "id"),
}


def days(shape: str) -> list[list[dict[str, Any]]]:
    """Three days of rows, of few texts: equal ones stand on different lines, on the same line, and on one day."""
    draw = random.Random(shape)
    text = "content" if SHAPES[shape] else "text"
    rows: list[list[dict[str, Any]]] = [[{text: draw.choice(POOL)} for _ in range(8)] for _ in range(3)]
    rows[2][0] = rows[1][0] = rows[0][0]
    for number, row in enumerate(row for day in rows for row in day):
        if "url" in shape:
            row["url"] = f"https://example.org/{number if 'time' in shape else draw.randrange(4)}"
        if shape == "some ids":
            row["id"] = str(number) if draw.random() < 0.5 else None
    return rows


def answers(*arguments: object, stdin: str = "") -> list[dict[str, Any]]:
    """Run `dedup`; give its verdicts without what depends on the clock or on how documents share a record."""
    told = run("dedup", "--threads", "1", "--quiet", *arguments, stdin=stdin).stdout.splitlines()
    return [judged(json.loads(line)) for line in told]


@pytest.mark.parametrize("shape", SHAPES)
def test_days_through_one_state_say_what_one_run_over_all_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """By equal and by different names, by stdin and as Parquet: verdicts, names and originals are the same."""
    options = SHAPES[shape]
    given = days(shape)
    (tmp_path / "all.jsonl").write_text("".join(lines(*day) for day in given))
    whole = answers(tmp_path / "all.jsonl", *options)
    assert {"new", "duplicate"} <= {answer["verdict"] for answer in whole}
    found: dict[str, list[dict[str, Any]]] = {how: [] for how in ("equal", "different", "stdin", "parquet")}
    for number, day in enumerate(given):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("latest.jsonl").write_text(lines(*day))
        Path(f"{number}.jsonl").write_text(lines(*day))
        names = sorted({name for row in day for name in row})
        columns = {name: [row.get(name) for row in day] for name in names}
        parquet.write_table(pyarrow.table(columns), "latest.parquet")
        for how, name in (("equal", "latest.jsonl"), ("different", f"{number}.jsonl"), ("parquet", "latest.parquet")):
            found[how] += answers(name, *options, "--state", tmp_path / how)
        found["stdin"] += answers("-", *options, "--state", tmp_path / "stdin", stdin=lines(*day))
    for how, told in found.items():
        assert told == whole, how


def test_a_file_that_is_read_again_has_duplicates_only(tmp_path: Path) -> None:
    """No original leaves, and none is new twice."""
    source = tmp_path / "in.jsonl"
    source.write_text(lines(*({"content": text} for text in POOL)))
    options = (source, *SHAPES["text"], "--state", tmp_path / "state")
    first, again = answers(*options), answers(*options)
    assert [answer["verdict"] for answer in first] == ["new"] * len(POOL)
    assert [answer["duplicate_of"]["doc_id"] for answer in again] == [answer["doc_id"] for answer in first]


def test_days_through_a_saved_library_say_what_one_reading_of_all_says(tmp_path: Path) -> None:
    """Files of equal names, and a snapshot between them."""
    given = [[{"text": row["content"]} for row in day] for day in days("text")]
    source, state = tmp_path / "latest.parquet", tmp_path / "state"

    def judged(found: Deduplicator, rows: list[dict[str, str]]) -> list[tuple[str, str, str | None]]:
        parquet.write_table(pyarrow.Table.from_pylist(rows), source)
        verdicts = list(found.add_many(CrawlFiles([str(source)])))
        found.save(state)
        return [(v.doc_id, v.outcome, v.duplicate_of and v.duplicate_of.original.doc_id) for v in verdicts]

    told = [judged(Deduplicator.load(state) if number else Deduplicator(), day) for number, day in enumerate(given)]
    assert [*chain(*told)] == judged(Deduplicator(), [*chain(*given)])


def test_a_made_name_is_nobodys_id(tmp_path: Path) -> None:
    """Rows with ids that are numbers, and one without: none replaces another."""
    source = tmp_path / "in.jsonl"
    rows: list[dict[str, Any]] = [{"content": text, "id": number} for number, text in enumerate(POOL)]
    source.write_text(lines(*rows[:4], {"content": POOL[5]}, *rows[4:]))
    told = answers(source, "--text-column", "content", "--id-column", "id")
    assert [answer["verdict"] for answer in told] == ["new"] * 6 + ["duplicate"] + ["new"] * 3


def test_what_is_fed_day_by_day_is_judged_as_what_is_fed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live group keeps its originals: no two feeds have a key in common, and that of a document is its doc_id."""
    fed: list[Record] = []

    def feed_documents(_: Settings, records: Iterable[Record], __: float) -> SimpleNamespace:
        fed.extend(records)
        return SimpleNamespace(delivered=len(fed), failures=0, failed=())

    monkeypatch.setattr("worker.shell.files.crawl.feed_documents", feed_documents)
    monkeypatch.setattr("worker.shell.kafka.admin.Admin", lambda *_: SimpleNamespace(cluster_id=str))
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
            found = [one.answer for one in engine.answers((record.key, record.value) for record in fed)]
        verdicts = [one for one in found if isinstance(one, Verdict)]
        assert [verdict.doc_id.encode() for verdict in verdicts] == [record.key for record in fed]
        place = {verdict.doc_id: at for at, verdict in enumerate(verdicts)}
        return [
            (one.outcome, one.reason, one.duplicate_of and place[one.duplicate_of.original.doc_id]) for one in verdicts
        ]

    assert told(*rows) == told([row for day in rows for row in day])
