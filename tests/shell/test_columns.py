"""
Every type that a column can have, by what the column is read for, in every kind of frame and file:
read, refused before the first row, or counted.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from neardup import Deduplicator, DocumentError
from pyarrow import parquet

from tests.cli.program import ARTICLE, OTHER
from worker.errors import StopError
from worker.shell.files import frames
from worker.shell.files.archives import Record
from worker.shell.files.archives import columns as rules
from worker.shell.files.archives.column_names import ColumnNames
from worker.shell.files.archives.columns import LEGAL, UTC_SAID, field_value, type_of
from worker.shell.files.crawl import CrawlFiles
from worker.shell.messages import decode_document

Columns = dict[str, list[Any]]

DAY = datetime(2026, 10, 28, 7, 30)  # noqa: DTZ001  # as most frames have it
DAY_MS = int(DAY.replace(tzinfo=UTC).timestamp() * 1_000)
MIDNIGHT_MS = int(datetime(2026, 10, 28, tzinfo=UTC).timestamp() * 1_000)
TEXTS = [ARTICLE, OTHER, ARTICLE.upper()]
STAY = [True, True, False]

# Of each type three values that differ, and what the first one is as an id and as a time in ms.
VALUES: dict[str, tuple[list[Any], str | None, int | None]] = {
    rules.TEXT: (["2026-10-28 07:30", "2026-10-29", "2026-10-30T00:00Z"], "2026-10-28 07:30", DAY_MS),
    rules.BYTES: ([b"2026-10-28", b"2026-10-29", b"2026-10-30"], "2026-10-28", MIDNIGHT_MS),
    rules.WHOLE: ([DAY_MS // 1_000, DAY_MS, DAY_MS * 1_000], str(DAY_MS // 1_000), DAY_MS),
    rules.FLOAT: ([DAY_MS / 1_000, float(DAY_MS), 2.0**31], str(DAY_MS // 1_000), DAY_MS),
    rules.DECIMAL: (
        [Decimal(DAY_MS), Decimal(DAY_MS + 1), Decimal(DAY_MS + 2)], str(DAY_MS), DAY_MS,
    ),
    rules.DATE: ([DAY.date(), date(2026, 10, 29), date(2026, 10, 30)], "2026-10-28", MIDNIGHT_MS),
    rules.DATE_TIME: (
        [DAY, DAY + timedelta(1), DAY + timedelta(2)], "2026-10-28T07:30:00", DAY_MS,
    ),
    rules.UUIDS: ([UUID(int=1), UUID(int=2), UUID(int=3)], str(UUID(int=1)), None),
    rules.BOOLEAN: ([True, False, True], None, None),
    rules.LIST: ([["a"], ["b"], ["c"]], None, None),
    rules.STRUCT: ([{"a": 1}, {"a": 2}, {"a": 3}], None, None),
    rules.DURATION: ([timedelta(1), timedelta(2), timedelta(3)], None, None),
    rules.CLOCK: ([time(1), time(2), time(3)], None, None),
}  # fmt: skip


def without_uuids(make: Callable[[Columns], Any]) -> Callable[..., Any]:
    """A maker of frames that have no such type."""

    def made(columns: Columns) -> Any:
        if any(isinstance(value, UUID) for values in columns.values() for value in values):
            pytest.skip("it has no such type")
        return make(columns)

    return made


def hugging_face(columns: Columns) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


FRAMES: dict[str, Callable[[Columns], Any]] = {
    "pandas": pandas.DataFrame,
    "pandas of Arrow": without_uuids(
        lambda columns: pyarrow.table(columns).to_pandas(types_mapper=pandas.ArrowDtype)
    ),
    "polars": lambda columns: polars.DataFrame(columns, strict=False),
    "polars lazy": lambda columns: polars.LazyFrame(columns, strict=False),
    "Arrow": without_uuids(pyarrow.table),
    "Arrow in batches": without_uuids(lambda columns: pyarrow.table(columns).to_reader()),
    "datasets": without_uuids(hugging_face),
}


def verdicts_of(frame: Any, **named: Any) -> Columns:
    """The verdicts on a frame as columns, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Deduplicator(threads=1).verdicts_frame(frame, **named)
        table = found.read_all() if hasattr(found, "read_all") else found
        columns = {
            name: list(
                table[name].to_pylist() if hasattr(table[name], "to_pylist") else table[name]
            )
            for name in ("doc_id", "verdict", "reason", "stays")
        }
    said = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return {**columns, "said": said}


def test_the_table_of_the_docstring_is_the_table() -> None:
    """What `columns.py` draws at its top is what it does."""
    drawn = re.findall(r"^    (\S.*)$", rules.__doc__ or "", re.MULTILINE)[1:]
    for line in drawn[:-1]:
        cells = re.split(r" {2,}", line)
        for name in cells[0].split(", "):
            found = {role: name in LEGAL[role] for role in ("doc_id", "fetched_at", "url", "text")}
            never = [cell == "never" for cell in (*cells[1:], cells[-1])]
            assert [not legal for legal in found.values()] == never, line
    named = {name for line in drawn[:-1] for name in re.split(r" {2,}", line)[0].split(", ")}
    assert named == LEGAL["doc_id"]


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("role", ["doc_id", "fetched_at", "url", "text"])
def test_a_type_is_read_or_refused_before_the_first_row(library: str, kind: str, role: str) -> None:
    """
    One row of a cluster stays, for each type that may be read; any other type is a TypeError that
    names the field and what may be. The same in all frames.
    """
    values, _, _ = VALUES[kind]
    columns: Columns = {"text": TEXTS, "doc_id": ["a", "b", "c"], role: values}
    frame = FRAMES[library](columns)
    if kind in LEGAL[role]:
        found = verdicts_of(frame)
        assert "not-judged" not in found["verdict"], found["reason"]
        if role != "text":
            assert found["stays"] == STAY
        if role == "fetched_at":
            assert any(said.startswith("'fetched_at' has times ") for said in found["said"])
        return
    with pytest.raises(TypeError, match=role) as caught:
        verdicts_of(frame)
    assert f"{kind} is never" in str(caught.value) or "other is never" in str(caught.value)


@pytest.mark.parametrize(("values", "doc_id", "time_ms"), VALUES.values(), ids=VALUES)
def test_a_value_is_the_same_id_and_time_everywhere(
    values: list[Any], doc_id: str | None, time_ms: int | None, tmp_path: Path
) -> None:
    """In a dict, a row of Parquet, a line of JSON and a row of CSV, where they have its type."""
    value = values[0]
    readers = {"dict": of_dict, "Parquet": of_parquet, "JSON": of_json, "CSV": of_csv}
    for name, read in readers.items():
        if name == "JSON" and not isinstance(value, str | int | float):
            continue
        # All values of CSV are texts.
        if doc_id is not None and (name != "CSV" or isinstance(value, str | int | Decimal)):
            assert read({"doc_id": value, "text": ARTICLE}, tmp_path)[0] == doc_id, name
        if time_ms is not None and not (name == "CSV" and isinstance(value, bytes)):
            found = read({"doc_id": "a", "text": ARTICLE, "fetched_at": value}, tmp_path)
            assert found == ("a", time_ms), name


def of_dict(row: dict[str, Any], _: Path) -> tuple[str, int | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = Deduplicator(threads=1).add(row)
    return verdict.doc_id, verdict.fetched_at_ms


def of_file(path: Path) -> tuple[str, int | None]:
    [record] = CrawlFiles([str(path)])
    assert isinstance(record.content, bytes)
    document: Any = decode_document(record.key, record.content)
    assert record.key == document.doc_id.encode()
    return document.doc_id, document.fetched_at_ms


def of_parquet(row: dict[str, Any], folder: Path) -> tuple[str, int | None]:
    path = folder / "a.parquet"
    columns: dict[str, Any] = {name: [value] for name, value in row.items()}
    for name, value in row.items():
        if isinstance(value, UUID):
            storage = pyarrow.array([value.bytes], pyarrow.binary(16))
            columns[name] = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), storage)
    parquet.write_table(pyarrow.table(columns), path)
    return of_file(path)


def of_json(row: dict[str, Any], folder: Path) -> tuple[str, int | None]:
    path = folder / "a.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return of_file(path)


def of_csv(row: dict[str, Any], folder: Path) -> tuple[str, int | None]:
    path = folder / "a.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([list(row), list(row.values())])
    return of_file(path)


@pytest.mark.parametrize("role", ["doc_id", "fetched_at", "url", "text"])
@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != rules.UUIDS])
def test_a_column_of_parquet_is_refused_in_the_words_of_frames(
    tmp_path: Path, kind: str, role: str
) -> None:
    """A type that can never be read ends the run before a row of the file is read."""
    path = tmp_path / "a.parquet"
    columns: Columns = {"text": TEXTS, "doc_id": ["a", "b", "c"]}
    parquet.write_table(pyarrow.table(columns | {role: VALUES[kind][0]}), path)
    if kind in LEGAL[role]:
        assert [isinstance(record, Record) for record in CrawlFiles([str(path)])] == [True] * 3
        return
    with pytest.raises(StopError, match=f"the column '{role}' has the type .*: {kind} is never"):
        list(CrawlFiles([str(path)]))


SAME = {
    "large_string": pyarrow.array(["1", "2", "3"], pyarrow.large_string()),
    "string_view": pyarrow.array(["1", "2", "3"], pyarrow.string_view()),
    "dictionary": pyarrow.array(["1", "2", "3"]).dictionary_encode(),
    "binary": pyarrow.array([b"1", b"2", b"3"], pyarrow.binary()),
    "int8": pyarrow.array([1, 2, 3], pyarrow.int8()),
    "uint64": pyarrow.array([1, 2, 3], pyarrow.uint64()),
    "double": pyarrow.array([1.0, 2.0, 3.0]),
    "decimal": pyarrow.array([Decimal("1.00"), Decimal(2), Decimal(3)]),
    "categorical": pandas.Series(["1", "2", "3"], dtype="category"),
    "nullable Int64": pandas.Series([1, 2, 3], dtype="Int64"),
    "Float64": pandas.Series([1, 2, 3], dtype="Float64"),
    "object": pandas.Series([1, 2.0, Decimal(3)], dtype=object),
    "string of pandas": pandas.Series(["1", "2", "3"], dtype="string"),
    "Categorical of polars": polars.Series(["1", "2", "3"], dtype=polars.Categorical),
    "Enum of polars": polars.Series(["1", "2", "3"], dtype=polars.Enum(["1", "2", "3"])),
    "Int128 of polars": polars.Series([1, 2, 3], dtype=polars.Int128),
    "numpy": pandas.Series(np.array([1, 2, 3], np.uint16)),
}


@pytest.mark.parametrize("ids", SAME.values(), ids=SAME)
def test_one_id_has_one_name_in_whatever_type_it_stands(ids: Any) -> None:
    """1, 1.0, "1" and b"1" are the doc_id "1"."""
    makes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "pyarrow": pyarrow.table,
        "pandas": pandas.DataFrame,
        "polars": polars.DataFrame,
    }
    make = makes[type(ids).__module__.partition(".")[0]]
    found = verdicts_of(make({"key": ids, "text": TEXTS}), id_column="key")
    assert (found["doc_id"], found["stays"], found["said"]) == (["1", "2", "3"], STAY, [])


@pytest.mark.parametrize(
    "gap", [None, float("nan"), np.float64("nan"), pandas.NA, pandas.NaT, Decimal("nan")], ids=repr
)
def test_a_missing_id_is_made(gap: Any) -> None:
    """However a frame says that a value is missing; a gap makes floats of whole numbers."""
    frame = pandas.DataFrame({"key": pandas.Series([7, gap, 9], dtype=object), "text": TEXTS})
    found = verdicts_of(frame, id_column="key")
    assert (found["doc_id"][0], found["doc_id"][2], found["stays"]) == ("7", "9", STAY)
    assert found["doc_id"][1].startswith("0.0.1-")
    assert verdicts_of(pandas.DataFrame({"key": [7, None, 9], "text": TEXTS}), id_column="key") == (
        found
    )


@pytest.mark.parametrize("field", ["doc_id", "url", "fetched_at", "html"])
@pytest.mark.parametrize("gap", [None, float("nan")], ids=repr)
def test_a_column_of_nothing_but_gaps_is_as_if_it_were_not_there(field: str, gap: Any) -> None:
    """pandas makes floats of it; one number in it is refused where none can be."""
    frame = pandas.DataFrame({"text": TEXTS})
    gaps = frame.assign(**{field: pandas.Series([gap] * len(TEXTS), dtype=float)})
    assert verdicts_of(gaps) == verdicts_of(frame)
    if field in {"url", "html"}:
        gaps.loc[1, field] = 7.0
        with pytest.raises(TypeError, match=f"the column '{field}' has the type float64"):
            verdicts_of(gaps)


@pytest.mark.parametrize("size", [1_025, 100_000])
def test_an_id_that_is_too_long_is_named_where_no_url_is_given(size: int) -> None:
    """And not the URL that is made of it; the longest one that is taken has a whole URL."""
    with Deduplicator(threads=1) as known:
        with pytest.raises(DocumentError, match=f"doc_id has {size:,} bytes .* at most 1,024"):
            known.add({"doc_id": "x" * size, "text": TEXTS[0]})
        assert known.add({"doc_id": "x" * 1_024, "text": TEXTS[0]}).url == (
            f"urn:neardup:{'x' * 1_024}"
        )


def test_bytes_that_are_no_text_are_an_id_in_hexadecimal_digits() -> None:
    """Those of a UUID or an ObjectId; bytes that can be read are text."""
    assert field_value("doc_id", b"\x01" * 12) == "01" * 12
    assert field_value("doc_id", b"\xff\x00") == "ff00"
    assert field_value("doc_id", "für".encode()) == "für"


class Kind(str, Enum):  # noqa: UP042  # StrEnum shows its value
    """A text that `str` shows as "Kind.NEWS"."""

    NEWS = "The river rose."


def test_a_text_is_its_value_whatever_its_class_shows() -> None:
    """As a document, and as a field of one."""
    for text in (Kind.NEWS, np.str_(Kind.NEWS.value)):
        assert field_value("text", text) == field_value("doc_id", text) == Kind.NEWS.value
    verdicts = Deduplicator(threads=1).add_many([Kind.NEWS, Kind.NEWS.value, {"text": Kind.NEWS}])
    assert [verdict.stays for verdict in verdicts] == [True, False, False]


@pytest.mark.parametrize(
    "value", [7.5, float("inf"), 1e300, 2.0**53, -(2.0**53), Decimal("7.5"), Decimal("1e5000")]
)
def test_a_number_that_is_not_whole_is_no_id(value: Any) -> None:
    """It is refused with the remedy, and costs its row alone."""
    with pytest.raises(DocumentError, match="a number is an id if it is whole"):
        field_value("doc_id", value)


NARROW = [2.0**24 - 1, 2.0**24, 7.0]
NARROW_FRAMES: dict[str, Any] = {
    "pandas": pandas.Series(NARROW, dtype="float32"),
    "pandas, 16 bits": pandas.Series([1, 2, 3], dtype="float16"),
    "pandas, nullable": pandas.Series(NARROW, dtype="Float32"),
    "pandas of Arrow": pandas.Series(NARROW, dtype=pandas.ArrowDtype(pyarrow.float32())),
    "polars": polars.Series(NARROW, dtype=polars.Float32),
    "Arrow": pyarrow.array(NARROW, pyarrow.float32()),
    "Arrow, 16 bits": pyarrow.array(np.array([1, 2, 3], np.float16)),
    "Arrow, dictionary": pyarrow.array(NARROW, pyarrow.float32()).dictionary_encode(),
}


@pytest.mark.parametrize("ids", NARROW_FRAMES.values(), ids=NARROW_FRAMES)
def test_narrow_floats_are_no_ids(ids: Any, tmp_path: Path) -> None:
    """
    Two ids above 2**24 may be one float of 32 bits before we see it. A column that is named is
    refused; one that is only called `id` is passed over with a warning. Parquet has the same words.
    """
    makes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "pyarrow": pyarrow.table,
        "pandas": pandas.DataFrame,
        "polars": polars.DataFrame,
    }
    make = makes[type(ids).__module__.partition(".")[0]]
    with pytest.raises(TypeError, match=r"the column 'key' has the type .*: ids above 2\*\*24"):
        verdicts_of(make({"key": ids, "text": TEXTS}), id_column="key")
    found = verdicts_of(make({"id": ids, "text": TEXTS}))
    assert any("the column 'id' names no document: ids above" in one for one in found["said"])
    assert found["doc_id"][0].startswith("0.0.0-") and found["stays"] == STAY
    if make is pyarrow.table:
        path = tmp_path / "a.parquet"
        parquet.write_table(make({"doc_id": ids, "text": TEXTS}), path)
        with pytest.raises(StopError, match=r"the column 'doc_id' has the type .*: ids above"):
            list(CrawlFiles([str(path)]))


@pytest.mark.parametrize("value", [np.float32(2**24), np.float16(2**11), np.float64(2**53)])
def test_a_narrow_float_of_a_row_is_an_id_while_it_stands_for_one_number(value: Any) -> None:
    """From its bound on it is refused, as a Python float is; the number below is an id."""
    with pytest.raises(DocumentError, match="a number is an id if it is whole"):
        field_value("doc_id", value)
    below = np.nextafter(value, type(value)(0))
    assert field_value("doc_id", below) == str(int(value) - 1)


def test_the_largest_float_that_stands_for_one_whole_number_is_an_id() -> None:
    """2**53 stands for 2**53 + 1, too."""
    assert field_value("doc_id", 2.0**53 - 1) == "9007199254740991"
    assert float(2**53 + 1) == 2.0**53


@pytest.mark.parametrize("value", [0, 20260501, 20260501073000, -1, 10**30, 5.5, float("inf")])
def test_a_number_that_tells_no_unit_is_no_time(value: Any) -> None:
    """A date without hyphens is a number, too: it is refused, and not taken for 1970 or 2612."""
    with pytest.raises(DocumentError, match="between 1973 and 2100"):
        field_value("fetched_at", value)


@pytest.mark.parametrize("unit", [1, 1_000, 10**6, 10**9])
def test_the_size_of_a_number_tells_its_unit(unit: int) -> None:
    """Seconds to nanoseconds, as a whole number, a float, a decimal and a text."""
    number = DAY_MS * unit // 1_000
    noted: list[str] = []
    for value in (number, float(number), Decimal(number), str(number)):
        assert field_value("fetched_at", value, noted.append) == "2026-10-28T07:30:00.000Z"
    assert len(set(noted)) == 1 and "read as Unix" in noted[0]


def test_a_summary_says_what_was_assumed_of_times(tmp_path: Path) -> None:
    """Of files as of frames: how many had no zone, and how many were numbers."""
    path = tmp_path / "a.jsonl"
    times = ["2026-10-28", "2026-10-28T07:30:00", DAY_MS, "2026-10-28T07:30:00Z"]
    rows = [{"url": "u", "text": ARTICLE, "fetched_at": time} for time in times]
    path.write_text("\n".join(map(json.dumps, rows)))
    crawl = CrawlFiles([str(path)])
    assert len(list(crawl)) == 4
    assert crawl.tally.assumed == {UTC_SAID: 2, "given as a number, read as Unix milliseconds": 1}


# ---- what is lost is told


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize(
    "columns",
    [
        {"doc_id": [1.5, 2.5, 3.5], "text": TEXTS},
        {"text": ["", "", ""], "doc_id": ["a", "b", "c"], "fetched_at": ["no"] * 3},
    ],
)
def test_a_frame_of_which_no_row_can_be_judged_is_an_error(library: str, columns: Columns) -> None:
    """Instead of a frame in which nothing stays."""
    with pytest.raises(
        DocumentError, match="none of 3 rows could be judged; the first: document 0"
    ):
        verdicts_of(FRAMES[library](columns))


def test_an_object_column_of_lists_is_an_error() -> None:
    """The type of such a column says nothing, its values do."""
    with pytest.raises(TypeError, match=r"none of 2 rows could be judged.*list is never"):
        verdicts_of(pandas.DataFrame({"text": [["a"], ["b"]]}))


def test_a_column_alone_is_checked_as_a_column_of_texts() -> None:
    """Bytes are decoded; numbers are refused before the first one."""
    texts = [text.encode() for text in TEXTS]
    assert verdicts_of(pyarrow.array(texts))["stays"] == STAY
    assert verdicts_of(pandas.Series(texts))["stays"] == STAY
    for column in (pandas.Series([1, 2]), polars.Series([1, 2]), pyarrow.array([1, 2])):
        with pytest.raises(TypeError, match=r"the column 'text' has the type .* is never"):
            verdicts_of(column)


def test_names_of_columns_need_not_be_texts() -> None:
    """As of `read_csv(header=None)`; one that is missing is told, 0 as well."""
    frame = pandas.DataFrame({0: ["a", "b", "c"], 1: TEXTS})
    found = verdicts_of(frame, id_column=0, text_column=1)
    assert (found["doc_id"], found["stays"]) == (["a", "b", "c"], STAY)
    assert verdicts_of(pandas.DataFrame({0: TEXTS}), text_column=0)["stays"] == STAY
    with pytest.raises(TypeError, match="needs the column 0 that is named, got text"):
        verdicts_of(pandas.DataFrame({"text": TEXTS}), id_column=0)


def pandas_of_arrow(values: list[int | None], kind: Any) -> pandas.Series:
    times = pyarrow.array(values, pyarrow.int64()).cast(kind)
    return pandas.Series(times, dtype=pandas.ArrowDtype(kind))


def timed_frame(texts: list[str], column: Any) -> Any:
    """A frame of the column's library."""
    make = polars.DataFrame if isinstance(column, polars.Series) else pandas.DataFrame
    return make({"text": texts, "fetched_at": column})


YEAR_10000 = 253_402_300_800  # in seconds
FAR_TIMES: dict[str, Any] = {
    "polars": polars.Series([0, YEAR_10000 * 1_000, None]).cast(polars.Datetime("ms")),
    "polars with a zone": polars.Series([0, YEAR_10000 * 1_000_000, None]).cast(
        polars.Datetime("us", "Asia/Kathmandu")
    ),
    "polars, beyond its own texts": polars.Series([0, 9 * 10**18, None]).cast(
        polars.Datetime("ms")
    ),
    "dates of polars": polars.Series([0, 2 * 10**9, None]).cast(polars.Date),
    "pandas of Arrow": pandas_of_arrow([0, YEAR_10000, None], pyarrow.timestamp("s")),
    "pandas of Arrow with a zone": pandas_of_arrow(
        [0, YEAR_10000 * 1_000, None], pyarrow.timestamp("ms", "Asia/Kathmandu")
    ),
}


@pytest.mark.parametrize("column", FAR_TIMES.values(), ids=FAR_TIMES)
def test_a_time_that_python_cannot_have_costs_its_row(column: Any) -> None:
    """It ended the frame after rows had been judged, so that a second try took these for copies."""
    found = verdicts_of(timed_frame(["first text", "second", "third"], column))
    assert found["verdict"] == ["new", "not-judged", "new"]
    assert found["reason"][1] == "date-out-of-range"


def test_a_time_that_a_zone_moves_beyond_the_last_year_is_read_in_utc() -> None:
    """It is one that databases write for "never", and pandas raised an error at it."""
    last = np.array(["2026-10-28", "9999-12-31T23:00", "NaT"], "datetime64[s]")
    times = pandas.Series(last).dt.tz_localize("UTC").dt.tz_convert("Pacific/Auckland")
    found = verdicts_of(timed_frame(["first text", "second", "third"], times))
    assert found["verdict"] == ["new", "new", "new"]


UNREADABLE_TEXTS = pyarrow.Array.from_buffers(
    pyarrow.string(),
    3,
    [
        None,
        pyarrow.py_buffer(np.array([0, 10, 11, 17], np.int32).tobytes()),
        pyarrow.py_buffer(b"first text\xffsecond"),
    ],
)
UNREADABLE_COLUMNS: dict[str, Any] = {
    "Arrow": UNREADABLE_TEXTS,
    "pandas of Arrow": pandas.Series(pandas.arrays.ArrowExtensionArray(UNREADABLE_TEXTS)),
    "texts of pandas": pandas.Series(
        pandas.arrays.ArrowStringArray(pyarrow.chunked_array([UNREADABLE_TEXTS]))
    ),
}


@pytest.mark.parametrize("column", UNREADABLE_COLUMNS.values(), ids=UNREADABLE_COLUMNS)
def test_a_text_that_python_cannot_have_costs_its_row(column: Any) -> None:
    """As a column alone, as the text of a frame, and as the number that it prefers by."""
    make = pyarrow.table if column is UNREADABLE_TEXTS else pandas.DataFrame
    for frame in (column, make({"text": column})):
        found = verdicts_of(frame)
        assert found["verdict"] == ["new", "not-judged", "new"]
        assert found["reason"][1] == "unreadable"
    frame = make({"text": ["a first text", "a second one", "A FIRST TEXT"], "number": column})
    found = verdicts_of(frame, prefer="highest:number")
    assert found["stays"] == [True, True, False]
    assert "no document has a finite number" in found["said"][0]


def test_an_index_with_a_name_is_read_as_a_column() -> None:
    """Its rows have these names, not those that are made for rows without any."""
    texts = pandas.DataFrame({"text": TEXTS})
    ids = ["a", "b", "c"]
    for index in (
        pandas.Index(ids, name="doc_id"),
        pandas.MultiIndex.from_arrays([ids, [1, 2, 3]], names=["doc_id", "part"]),
    ):
        found = Deduplicator(threads=1).verdicts_frame(texts.set_index(index))
        assert found["doc_id"].to_list() == ids
        assert found.index.equals(index)
    named = texts.set_index(pandas.Index(ids, name="key"))
    assert verdicts_of(named, id_column="key")["doc_id"] == ids
    both = pandas.DataFrame({"text": TEXTS, "doc_id": ids}, pandas.Index([1, 2, 3], name="doc_id"))
    assert verdicts_of(both)["doc_id"] == ids
    twice = pandas.MultiIndex.from_arrays([ids, ids], names=["doc_id", "doc_id"])
    with pytest.raises(TypeError, match="a frame has one column of a name, got doc_id, doc_id"):
        verdicts_of(texts.set_index(twice))


def test_an_index_that_is_read_costs_no_copy_of_the_frame() -> None:
    """Columns that are not read may be most of it."""
    texts = pandas.DataFrame({"text": TEXTS, "other": [1.0, 2.0, 3.0]})
    frame = texts.set_index(pandas.Index(["a", "b", "c"], name="doc_id"))
    found = frames._with_levels(frame, ColumnNames(), None)
    assert found["doc_id"].to_list() == ["a", "b", "c"]
    assert np.shares_memory(found["other"].to_numpy(), frame["other"].to_numpy())
    assert list(frame.columns) == ["text", "other"]


WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = type(sys)("pandas")  # what Arrow takes for none: it is too old
sys.modules["pandas"].__version__ = "0.1"
import pyarrow
from worker.shell.files.archives.columns import field_value, plain
for zone in (None, "UTC", "Asia/Kolkata"):
    scalar = pyarrow.scalar(1714564800123456789, pyarrow.timestamp("ns", zone))
    print(field_value("fetched_at", plain(scalar)))
"""


def test_a_time_with_nanoseconds_is_read_without_pandas() -> None:
    """Arrow makes one of pandas of it, and where there is none an error."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_PANDAS],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert told == [
        "2024-05-01T12:00:00.123456789Z",
        "2024-05-01T12:00:00.123456789Z",
        "2024-05-01T17:30:00.123456789+05:30",
    ]


def test_a_zone_with_seconds_is_read_exactly() -> None:
    """A message cannot name it, but its moment is known."""
    zone = timezone(timedelta(hours=5, minutes=30, seconds=7))
    moment = datetime(2026, 10, 28, 5, 30, 7, tzinfo=zone)
    assert field_value("fetched_at", moment) == "2026-10-28T00:00:00+00:00"
    [answer] = Deduplicator(threads=1).add_many([{"text": ARTICLE, "fetched_at": moment}])
    assert answer.fetched_at_ms == MIDNIGHT_MS


LAST_DAYS: dict[str, tuple[Any, bool]] = {
    "polars": (polars.Series([YEAR_10000 * 1_000 - 1]).cast(polars.Datetime("ms")), False),
    "polars with a zone": (
        polars.Series([YEAR_10000 * 1_000 - 1]).cast(polars.Datetime("ms", "Asia/Kathmandu")),
        True,
    ),
    "pandas of Arrow": (pandas_of_arrow([YEAR_10000 - 1], pyarrow.timestamp("s")), False),
    "pandas of Arrow with a zone": (
        pandas_of_arrow([YEAR_10000 - 1], pyarrow.timestamp("s", "Asia/Kathmandu")),
        True,
    ),
}


@pytest.mark.parametrize(("column", "has_zone"), LAST_DAYS.values(), ids=LAST_DAYS)
def test_times_of_the_year_9999_are_said_to_have_no_zone_only_if_they_have_none(
    column: Any, has_zone: bool
) -> None:
    """
    They are read as numpy has them, whose times have no zone. In Kathmandu it is another year
    already in the last hour, which Python's times have not.
    """
    found = verdicts_of(timed_frame(["a text"], column))
    assert found["verdict"] == ["new"]
    assert any(UTC_SAID in said for said in found["said"]) is not has_zone


def test_few_different_ids_are_told() -> None:
    """
    Rows of one id replace each other: how many, and how many ids there are. An id that gets its
    first text back has been replaced twice.
    """
    frame = polars.DataFrame({"site": ["a", "b", "a", "b"], "text": [ARTICLE, OTHER] * 2})
    other = frame.with_columns(text=polars.Series([ARTICLE, OTHER, OTHER, ARTICLE]))
    assert verdicts_of(frame, id_column="site")["said"] == []
    [said] = verdicts_of(other, id_column="site")["said"]
    assert "2 documents have the doc_id of an earlier one" in said and "4 documents, 2 ids" in said
    [said] = verdicts_of(other[:3], id_column="site")["said"]
    assert "1 document has the doc_id of an earlier one, and another text: it took" in said
    back = polars.DataFrame({"site": ["a"] * 3, "text": [ARTICLE, OTHER, ARTICLE]})
    [said] = verdicts_of(back, id_column="site")["said"]
    assert "2 documents have the doc_id of an earlier one" in said and "3 documents, 1 ids" in said


@pytest.mark.parametrize("texts", [[ARTICLE, OTHER], ["one short text", "another of these"]])
def test_ids_that_two_frames_share_are_told(texts: list[str]) -> None:
    """
    A row with another text takes the place of the earlier call's, whose copies are not found any
    more. Neither the same rows again nor other versions of a URL are such rows.
    """
    library = Deduplicator(threads=1)

    def said(**columns: list[str]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            library.verdicts_frame(polars.DataFrame(columns))
        return [str(warning.message) for warning in caught]

    pages = ["https://a.example/1", "https://a.example/2"]
    assert said(doc_id=["0", "1"], text=texts, url=pages) == []
    [again] = said(doc_id=["0", "1"], text=texts, url=pages)
    assert "doc_id" not in again
    assert said(doc_id=["2", "3"], text=["a page that changed", "and one more"], url=pages) == []
    [told] = said(doc_id=["0", "1"], text=texts[::-1])
    assert "2 documents have the doc_id of an earlier one" in told
    assert "2 took the place of one of an earlier call" in told and "another id_column" in told


def test_a_dict_without_a_body_says_which_fields_it_has() -> None:
    """The field that holds the text may only have another name, or an envelope may be around it."""
    for row, said in (
        ({"content": ARTICLE, "doc_id": "a"}, "got none, but 'content': rename the field"),
        ({"data": [{"text": ARTICLE}]}, "this is an envelope, whose field 'data'"),
    ):
        with pytest.raises(DocumentError, match=said):
            Deduplicator(threads=1).add(row)


def test_every_type_of_the_table_has_values_of_it() -> None:
    """The cases above are all there are."""
    for kind, (values, *_) in VALUES.items():
        assert {type_of(value) for value in values} == {kind}
    assert {*VALUES} | {rules.OTHER} == {
        value for name, value in vars(rules).items() if name.isupper() and isinstance(value, str)
    } - {UTC_SAID, rules.NARROW_SAID}


def test_columns_are_read_for_the_field_that_names_them() -> None:
    """A column that is named for one field is not read for another."""
    names = ["url", "text", "html", "title", "fetched_at"]
    read = ColumnNames(id="url", text="title").read_from(names)
    assert dict(read) == {"doc_id": "url", "text": "title", "fetched_at": "fetched_at"}


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], None]] = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "json": lambda frame, path: frame.to_json(path, orient="records"),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_refuses_a_name_that_no_row_has(kind: str, tmp_path: Path) -> None:
    """As CSV does, where the first line names the columns."""
    source = tmp_path / f"in.{kind}"
    row = {"id": [1], "body": [ARTICLE], "date": ["2026-01-01"], "link": ["https://example.org/"]}
    WRITERS[kind](pandas.DataFrame(row), source)
    files = CrawlFiles([str(source)], columns=ColumnNames("id", "body", "link", "day"))
    told = " has no column 'day', there are id, body, date, link: --time-column names one of them"
    if kind in {"csv", "tsv"}:
        told += " (its first line names the columns, between commas, semicolons or tabs)"
    for read in (files.check_columns, lambda: list(files)):
        with pytest.raises(StopError, match=f"{re.escape(told)}$"):
            read()


def test_files_of_a_program_are_refused_when_they_have_been_read(tmp_path: Path) -> None:
    """
    As those of a command, by the library's names as well; an empty file has no rows, and so none
    without the column.
    """
    source = tmp_path / "in.jsonl"
    rows = [{"id": 100, "body": ARTICLE}, {"id": 101, "body": OTHER}]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = CrawlFiles([str(source)], columns=ColumnNames(id="key", text="body"))
    for _ in range(2):
        with pytest.raises(StopError, match="has no column 'key', there are id, body"):
            list(files)
    source_files = CrawlFiles([str(source)])
    verdicts = Deduplicator(threads=1).add_many(source_files, id_column="id", text_column="body")
    assert [verdict.doc_id for verdict in verdicts] == ["100", "101"]
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert not list(CrawlFiles([str(empty)], columns=ColumnNames(id="key")))
