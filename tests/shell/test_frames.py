"""
Rows of programs: which of their fields are read, what is said of it, and Hugging Face's data sets.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import neardup
import pandas
import polars
import pyarrow
import pytest
from neardup import Deduplicator, DocumentError, Neighbour, Original, Verdict
from pyarrow import dataset

from tests.cli.program import ARTICLE, OTHER
from tests.conftest import REPOSITORY
from tests.faults.cut import in_a_fork
from worker.shell.files.frames import CHOSEN, Unjudged

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COLUMNS: dict[str, list[Any]] = {
    "key": [11, 12, 13],
    "body": [ARTICLE, OTHER, ARTICLE.upper()],
    "link": ["https://a.example/1", None, "https://b.example/1"],
    "seen": [TIME, TIME, None],
    "text": ["a summary", "a summary", "a summary"],
}
NAMED: dict[str, Any] = {
    "id_column": "key",
    "text_column": "body",
    "url_column": "link",
    "time_column": "seen",
}


def test_the_guide_lists_the_columns_of_a_frame() -> None:
    """In their order: a field of the verdict that is shown in frames is named there."""
    guide = (REPOSITORY / "worker" / "public" / "README.md").read_text()
    listed = guide.partition("Its columns are ")[2].partition(". ")[0]
    names = re.sub(r"\([^)]*\)", "", listed)
    assert re.findall(r"`(\w+)`", names) == list(CHOSEN)


def rows_of(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    "make", [pandas.DataFrame, polars.DataFrame, polars.LazyFrame, pyarrow.table, rows_of]
)
def test_columns_are_read_by_the_names_that_are_given(make: Any) -> None:
    """doc_id, text, URL and time come from the named columns, and no other body is read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is named is no surprise
        first, second, third = Deduplicator(threads=1).add_many(make(COLUMNS), **NAMED)
    assert [verdict.doc_id for verdict in (first, second, third)] == ["11", "12", "13"]
    assert (first.url, first.fetched_at_ms) == ("https://a.example/1", TIME.timestamp() * 1_000)
    assert (second.outcome.value, second.duplicate_of) == ("new", None)
    assert third.duplicate_of is not None and third.duplicate_of.original.doc_id == "11"


@pytest.mark.parametrize("name", NAMED)
def test_a_named_column_that_is_missing_is_told(name: str) -> None:
    """A frame's missing column is refused before a row is judged; that of dicts, after the last."""
    named = NAMED | {name: "missing"}
    deduplicator = Deduplicator(threads=1)
    with pytest.raises(TypeError, match="a frame needs the column 'missing' that is named, got"):
        deduplicator.add_many(pandas.DataFrame(COLUMNS), **named)
    assert len(deduplicator) == 0
    documents = deduplicator.add_many(rows_of(COLUMNS), errors="return", **named)
    told = f"no column 'missing', there are key, .*: {name} names one of them"
    with pytest.raises(TypeError, match=told):
        list(documents)
    if name == "text_column":
        error = next(deduplicator.add_many(rows_of(COLUMNS), errors="return", **named))
        assert isinstance(error, DocumentError) and "no field 'missing'" in str(error)


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table, rows_of])
def test_an_id_is_taken_and_said_so_once(make: Any) -> None:
    """A row that has no other name is named by its `id`; the warning names both fields."""
    rows = make({"id": [7, 8, 9], "text": [ARTICLE, OTHER, ARTICLE], "score": [1, 2, 3]})
    deduplicator = Deduplicator(threads=1)
    with pytest.warns(
        UserWarning, match="the field 'id' is taken for the doc_id, and 'text'"
    ) as said:
        verdicts = list(deduplicator.add_many(rows))
        assert deduplicator.nearest({"id": 7, "text": ARTICLE}, 1)[0].doc_id == "8"  # not itself
    assert [verdict.doc_id for verdict in verdicts] == ["7", "8", "9"]
    # Another test's garbage may be collected here, and warn of a file that it left open.
    assert [each.category for each in said].count(UserWarning) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"doc_id": "a", "id": "b"},
        {"url": "https://a.example/", "fetched_at": "2026-01-02T03:04:05Z", "id": "b"},
        {"id": None},
        {"id": ""},
        {"id": True},
        {"id": b"raw"},
        {"id": {"of": "several parts"}},
        {"id": float("nan")},
    ],
    ids=str,
)
def test_an_id_that_is_not_needed_or_is_no_name_is_left_alone(row: dict[str, Any]) -> None:
    """Documents with a name keep it; what is neither text nor a whole number names nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict = Deduplicator(threads=1).add({"text": ARTICLE, **row})
    assert verdict.doc_id not in {"b", "", "True", "nan"}
    assert verdict.outcome.value == "new"


def test_neighbours_show_what_the_documents_brought() -> None:
    """No URL and no time that was made up; those that were brought are shown."""
    deduplicator = Deduplicator(threads=1)
    deduplicator.add({"doc_id": "bare", "text": ARTICLE})
    deduplicator.add(
        {"doc_id": "full", "text": OTHER, "url": "https://a.example/", "fetched_at": TIME}
    )
    bare, full = deduplicator.nearest(ARTICLE)
    assert (bare.doc_id, bare.url, bare.fetched_at_ms) == ("bare", None, None)
    assert repr(bare) == "Neighbour(doc_id='bare', distance=0, similarity=1.0)"
    assert (full.url, full.fetched_at_ms) == ("https://a.example/", TIME.timestamp() * 1_000)
    assert "url='https://a.example/', fetched_at='2026-01-02T03:04:05.000Z'" in repr(full)
    assert full == Neighbour(Original("full", "https://a.example/", 1_767_323_045_000), *full[1:])


# ---- Hugging Face


def test_its_library_is_not_imported_unless_a_data_set_is_given() -> None:
    """Frames of others do not load `datasets`, nor does the import of neardup."""
    code = (
        "import sys, polars, neardup\n"
        "found = neardup.Deduplicator(threads=1)\n"
        "found.verdicts_frame(polars.DataFrame({'text': ['The ferry is late.']}))\n"
        "assert 'datasets' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def datasets() -> Any:
    """The library, where it is installed: the extra `datasets`."""
    return pytest.importorskip("datasets")


def test_a_data_set_gives_a_data_set(datasets: Any) -> None:
    """One row each, with the columns of every other frame; a column gives the same."""
    given = datasets.Dataset.from_dict({**COLUMNS, "tokens": [[1], [2], [3]]})
    verdicts = Deduplicator(threads=1).verdicts_frame(given.with_format("numpy"), **NAMED)
    assert isinstance(verdicts, datasets.Dataset)
    like = Deduplicator(threads=1).verdicts_frame(polars.DataFrame(COLUMNS), **NAMED)
    assert list(verdicts) == like.to_dicts()
    texts = Deduplicator(threads=1).verdicts_frame(given["body"])
    assert list(texts["verdict"]) == ["new", "new", "duplicate"]


def stream(datasets: Any, rows: int, read: list[int]) -> Any:
    """An IterableDataset that does not know its columns, and notes what is read."""

    def generate() -> Iterator[dict[str, Any]]:
        for number in range(rows):
            read.append(number)
            yield {"id": f"n{number}", "text": None if number == 1 else ARTICLE}

    return datasets.IterableDataset.from_generator(generate)


def test_a_stream_of_a_data_set_is_judged_as_it_is_read_and_once(datasets: Any) -> None:
    """
    Nothing is read before the first verdict is, and then no more than some batches. A second
    reading, which would find each row to be its own duplicate, is refused.
    """
    read: list[int] = []
    deduplicator = Deduplicator(threads=1)
    with pytest.warns(UserWarning, match="'id' is taken"):
        verdicts = deduplicator.verdicts_frame(stream(datasets, 5_000, read))
        assert isinstance(verdicts, datasets.IterableDataset) and not read
        rows = iter(verdicts)
        first, missing, third = (next(rows) for _ in range(3))
    assert len(read) <= 2_000
    assert (first["doc_id"], first["verdict"], first["original_url"]) == ("n0", "new", None)
    assert (missing["verdict"], missing["stays"]) == ("not-judged", False)
    assert (third["verdict"], third["duplicate_of"]) == ("duplicate", "n0")
    assert sum(1 for _ in rows) == 4_997 and len(deduplicator) == 1
    with pytest.raises(RuntimeError, match="these verdicts have been read already"):
        next(iter(verdicts))


def test_a_stream_of_a_data_set_is_an_iterable_of_documents(datasets: Any) -> None:
    """`add_many` takes it like any other."""
    found = Deduplicator(threads=1).add_many(
        stream(datasets, 3, []), id_column="id", errors="return"
    )
    assert [one.doc_id if isinstance(one, Verdict) else None for one in found] == ["n0", None, "n2"]


class DuckDBPyRelation:
    """What DuckDB has for a query: columns that cannot be iterated."""

    columns = ("doc_id", "text")


class SparkFrame:
    """What Spark has for a frame that other machines hold."""

    columns = ("doc_id", "text")

    def toPandas(self) -> None:  # noqa: N802  # as Spark calls it
        """Would fetch it."""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (DuckDBPyRelation(), r"give its \.pl\(\) or \.df\(\)"),
        (SparkFrame(), r"give its \.toPandas\(\)"),
        (dataset.dataset(pyarrow.table({"text": [ARTICLE]})), r"\.scanner\(\)\.to_reader\(\)"),
        (dataset.dataset(pyarrow.table({"text": [ARTICLE]})).scanner(), r"give its \.to_table\(\)"),
    ],
    ids=["duckdb", "spark", "dataset", "scanner"],
)
def test_what_a_frame_can_be_made_of_is_refused_with_what_to_call(given: Any, said: str) -> None:
    """A query of DuckDB, a frame of Spark, and files or a scan of Arrow."""
    library = Deduplicator(threads=1)
    with pytest.raises(TypeError, match=said):
        library.verdicts_frame(given)
    with pytest.raises(TypeError, match=said):
        library.add_many(given)


# A frame as GeoPandas and programs make their own.
OwnFrame: Any = type("OwnFrame", (pandas.DataFrame,), {"__module__": __name__})


def test_a_subclass_of_a_frame_is_a_frame() -> None:
    """Its rows are judged, and its columns are looked at before the first one."""
    library = Deduplicator(threads=1)
    verdicts = library.verdicts_frame(OwnFrame({"text": [ARTICLE, ARTICLE]}))
    assert isinstance(verdicts, pandas.DataFrame) and verdicts["stays"].to_list() == [True, False]
    with pytest.raises(TypeError, match="the column 'text' has the type bool"):
        library.add_many(OwnFrame({"text": [True]}))


def test_several_splits_are_no_frame(datasets: Any) -> None:
    """The error names them, and how to give one."""
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_dict(COLUMNS)})
    with pytest.raises(
        TypeError, match=r"has the splits train: give one of them, as dataset\['train'\]"
    ):
        Deduplicator(threads=1).verdicts_frame(splits)


@pytest.mark.parametrize("prefer", ["first", "longest"])
def test_a_reader_that_has_been_read_is_said_to_have_no_rows(prefer: str) -> None:
    """Its verdicts would be none, without a word."""
    reader = pyarrow.table({"text": [ARTICLE]}).to_reader()
    reader.read_all()
    with pytest.warns(UserWarning, match="this RecordBatchReader has no rows: was it read before"):
        verdicts = Deduplicator(threads=1).verdicts_frame(reader, prefer=prefer).read_all()
    assert verdicts.num_rows == 0


def test_rows_of_a_stream_that_cannot_be_judged_are_told_again_when_they_are_many() -> None:
    """It has no end at which all of them could be told."""
    unjudged = Unjudged()
    unjudged.take(Deduplicator(threads=1).add(ARTICLE))
    told: list[str] = []
    for _ in range(25):
        unjudged.take(TypeError("no text"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            unjudged.tell()
        told += [str(one.message).partition(" rows")[0] for one in caught]
    assert told == ["1 of 2", "10 of 11"]


@pytest.mark.parametrize("named", [{}, {"id_column": "id"}], ids=["unnamed", "named"])
def test_rows_that_a_stream_repeats_are_not_said_to_be_of_an_earlier_call(
    datasets: Any, named: dict[str, str]
) -> None:
    """
    Such as a row that comes again in the same place of each thousand, which are judged together.
    Those that an earlier call has judged are told once, not with each thousand.
    """
    rows = [
        {"id": f"n{number % 1_000}", "text": f"page {number % 1_000}"} for number in range(3_000)
    ]
    library = Deduplicator(threads=1)

    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(
                library.verdicts_frame(
                    datasets.IterableDataset.from_generator(lambda: rows), **named
                )
            )
        return [str(one.message) for one in caught if "earlier call" in str(one.message)]

    assert told() == []
    [again] = told()
    assert "1,000 of 1,000 rows are those of an earlier call" in again


def test_a_stream_that_is_resumed_is_said_to_miss_what_was_judged_before(datasets: Any) -> None:
    """By whole batches: those that had been judged are not read again."""
    verdicts = Deduplicator(threads=1).verdicts_frame(stream(datasets, 1_500, []), id_column="id")
    read = iter(verdicts)
    for _ in range(1_200):
        next(read)
    state = verdicts.state_dict()
    other = Deduplicator(threads=1).verdicts_frame(stream(datasets, 1_500, []), id_column="id")
    other.load_state_dict(state)
    with pytest.warns(UserWarning, match="rows 0 to 1,000 of this IterableDataset were not judged"):
        assert len(list(other)) == 300


def test_a_stream_that_is_read_in_a_forked_process_is_said_to_miss_copies(datasets: Any) -> None:
    """A loader with several processes gives each a part of the rows. A match keeps none of them."""
    found = Deduplicator(threads=1)

    def told(verdicts: Any) -> str:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(verdicts)
        return " ".join(str(one.message) for one in caught)

    given = stream(datasets, 1, [])
    named = {"id_column": "id"}
    verdicts = found.verdicts_frame(given, **named)
    assert "finds no copies of rows that other processes read" in in_a_fork(lambda: told(verdicts))
    assert told(verdicts) == ""
    matched = neardup.match(given, found, **named)
    assert in_a_fork(lambda: told(matched) or "silent") == "silent"
