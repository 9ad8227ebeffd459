"""
Frames of pandas, polars, Arrow or Hugging Face: their rows as documents, and the verdicts as a
frame of the same kind. None of these libraries is imported unless a frame of it is given.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import MAXYEAR, MINYEAR
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from schemas.document import BODIES
from worker.core.document import Verdict
from worker.errors import DocumentError, StopError
from worker.shell.files.archives import Record
from worker.shell.files.archives.column_names import NO_NAMES, ColumnNames
from worker.shell.files.archives.columns import (
    BYTES,
    DATE,
    DATE_TIME,
    FLOAT,
    NARROW_SAID,
    STRUCT,
    check_columns,
    is_narrow,
    plain,
    shown,
    type_of,
    type_of_arrow,
    type_of_pandas,
    type_of_polars,
)
from worker.shell.files.archives.parquet import parquet_module
from worker.shell.files.archives.rows import brought_url, line_of_csv
from worker.shell.files.choice import ChoiceNotes
from worker.shell.files.engine import Answer, line_of
from worker.shell.files.formats import CSV, JSON_LINES, PARQUET, check_format, format_of
from worker.shell.files.outputs import packed, written
from worker.shell.files.terminal import escape_controls
from worker.shell.messages import FIELDS, URL, VerdictField

NOT_JUDGED = "not-judged"
# The fields that are shown: those of the document itself, and of the documents that it names.
_OWN = [field for field in FIELDS if field.shown and not field.part]
_OF_OTHERS = [field for field in FIELDS if field.shown and field.part]
COLUMNS: dict[str, type] = {
    **{field.shown: field.kind.type for field in _OWN},
    "stays": bool,
    **{field.shown: field.kind.type for field in _OF_OTHERS},
}
# Of a frame that has been judged as a whole.
CHOSEN = COLUMNS | {"cluster": str, "cluster_size": int}
_LIBRARIES = ("pandas", "polars", "pyarrow", "datasets")
ID = "id"  # the column that names the rows of most corpora, taken where nothing else does
_ROWS = 10_000  # rows of a batch of Arrow
_STREAM_ROWS = 1_000  # rows of an IterableDataset that are judged at once
_FORKED = (
    "verdicts of an IterableDataset are read in a forked process, such as a loader's: it finds "
    "no copies of rows that other processes read, and what it judges is not known in the process "
    "that made it. Read them in one process, as with num_workers=0"
)
_SKIPPED = (
    "rows {:,} to {:,} of this IterableDataset were not judged here, as it goes on behind them: "
    "copies of them are found only if this Deduplicator was loaded with what it had then judged"
)


def rows_of(
    frame: Any, columns: ColumnNames = NO_NAMES, score_column: str | None = None
) -> Iterator[Any] | None:
    """
    Yield a dict per row, with the columns that have a field's name; batch by batch if the frame is
    lazy. None if it is not a frame.

    Args:
        frame: any value at all.
        columns: the columns that hold doc_id, text, URL and time.
        score_column: another column to read.
    Raises:
        TypeError: a column is missing, is there twice, or has a type that can never be what it is
            read for; or the frame is several, or something that a frame can be made of.
    """
    _refuse_unread(frame)
    frame = _with_levels(frame, columns, score_column)
    names = _names_of(frame)
    if names is None:
        return _texts_of(frame)
    read = _columns_read(names, columns, score_column)
    types = _types_of(frame, read)
    check_columns(
        (field, name, *types[name]) for field, name in columns.read_from(read) if name in types
    )
    if columns.id is None and ID in types and is_narrow(*types[ID]):
        warnings.warn(f"the column {ID!r} names no document: {NARROW_SAID}", stacklevel=2)
        read.remove(ID)
    if _library_of(frame) == "datasets":
        rows: Iterable[Any] = frame.with_format(None).select_columns(read)
        return iter(rows)
    parts: Iterable[Any] = [frame]
    if hasattr(frame, "collect_batches"):
        parts = frame.select(read).collect_batches()
    elif hasattr(frame, "read_next_batch"):
        parts = _batches_of(frame)
    return _rows_of_parts(parts, read)


def _batches_of(reader: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a reader; warn if there is none, since it can be read once only."""
    is_read = False
    for batch in reader:
        is_read = True
        yield batch
    if not is_read:
        name = type(reader).__name__
        warnings.warn(f"this {name} has no rows: was it read before?", stacklevel=2)


def _with_levels(frame: Any, columns: ColumnNames, score_column: str | None) -> Any:
    """
    Return a frame of pandas with the levels of its index as columns that have the name of one that
    is read. Other columns are not copied; a name that two levels have is there twice.
    """
    if _library_of(frame) != "pandas" or not hasattr(frame, "columns"):
        return frame
    names = list(getattr(getattr(frame, "index", None), "names", ()))
    wanted = _wanted(names, columns, score_column)
    numbers = [
        number
        for number, name in enumerate(names)
        if name is not None and name in wanted and name not in frame.columns
    ]
    if not numbers:
        return frame
    found = frame.copy(deep=False)
    for place, number in enumerate(numbers):
        values = frame.index.get_level_values(number)
        found.insert(place, names[number], values, allow_duplicates=True)
    return found


def _types_of(frame: Any, names: list[Any]) -> dict[Any, tuple[Any, str | None]]:
    """Return the types of columns: their library's, and those in the words of `columns`."""
    match _library_of(frame):
        case "polars":
            schema = frame.collect_schema()
            return {name: (schema[name], type_of_polars(schema[name])) for name in names}
        case "pandas":
            return {name: (frame[name].dtype, _type_of_series(frame[name])) for name in names}
        case "pyarrow":
            schema = frame.schema
        case "datasets" if getattr(frame, "features", None):
            schema = frame.features.arrow_schema
        case _:
            return {}
    arrow = {name: schema.field(name).type for name in names}
    return {name: (kind, type_of_arrow(kind)) for name, kind in arrow.items()}


def _type_of_series(column: Any) -> str | None:
    """
    Return the type of a column of pandas in the words of `columns`; None if only its values tell,
    or if it has none: pandas makes floats of nothing but missing values.
    """
    found = type_of_pandas(column.dtype)
    return None if found == FLOAT and column.isna().all() else found


def _texts_of(column: Any) -> Iterator[Any] | None:
    """
    Yield the values of a column, texts in UTF-8 as text. None if it is no column.

    Raises TypeError: its type is that of no document.
    """
    match _library_of(column):
        case "polars" if hasattr(column, "dtype"):
            kind, found = column.dtype, type_of_polars(column.dtype)
        case "pandas" if hasattr(column, "dtype"):
            kind, found = column.dtype, _type_of_series(column)
        case "pyarrow" if hasattr(column, "type") and hasattr(column, "__iter__"):
            kind, found = column.type, type_of_arrow(column.type)
        case _:
            return None
    if found != STRUCT:  # whose values are rows
        check_columns([("text", getattr(column, "name", None) or "text", kind, found)])
    values = _each_of(column)
    # A column of objects of pandas may hold bytes, too.
    return map(_text_of, values) if found in (BYTES, None) else iter(values)


def _text_of(value: Any) -> Any:
    """Return bytes in UTF-8 as text, and anything else as it is."""
    value = plain(value)
    try:
        return bytes(value).decode() if type_of(value) == BYTES else value
    except UnicodeDecodeError:
        return value


def _rows_of_parts(parts: Iterable[Any], names: list[Any]) -> Iterator[dict[Any, Any]]:
    """Yield a dict per row of frames, which have these columns."""
    for part in parts:
        columns = [_values_of(part[name]) for name in names]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _values_of(column: Any) -> Iterable[Any]:
    """
    Return the values of a column, where polars and pandas have times beyond Python's as numpy's,
    or as text in UTC if they have a zone, which numpy's have not.

    Making Python's value of such a time raises an error, in polars one that ends the program, in
    the middle of the frame. As numpy's or as text, it costs its row alone.
    """
    times = _times_of(column)
    if times is None:
        return _each_of(column)
    years = times.astype("datetime64[Y]").astype(np.int64) + 1970
    # A year at either end has times that a zone moves beyond it.
    is_beyond = ~np.isnat(times) & ((years <= MINYEAR) | (years >= MAXYEAR))
    if not is_beyond.any():
        return _each_of(column)
    are_python = (~is_beyond).tolist()
    is_polars = _library_of(column) == "polars"
    within = iter(_each_of(column.filter(are_python) if is_polars else column[are_python]))
    has_zone = _has_zone(column)
    return (
        next(within) if is_python else _far_time(time, has_zone=has_zone)
        for time, is_python in zip(times, are_python, strict=True)
    )


def _each_of(column: Any) -> Iterable[Any]:
    """
    Return the values of a column. Where pandas has them in Arrow, they are Arrow's, which become
    Python's one by one: pandas would end in the middle of the frame at one that cannot.
    """
    values: Iterable[Any] = column
    if _is_pandas_of_arrow(column):
        values = getattr(column, "array", column).__arrow_array__()
    return values


def _has_zone(column: Any) -> bool:
    """Return whether the times of a column of polars or pandas have a zone."""
    if hasattr(column.dtype, "pyarrow_dtype"):
        return getattr(column.dtype.pyarrow_dtype, "tz", None) is not None
    return any(getattr(column.dtype, name, None) is not None for name in ("time_zone", "tz"))


def _far_time(time: np.datetime64, *, has_zone: bool) -> np.datetime64 | str:
    return f"{np.datetime_as_string(time, unit='ms')}Z" if has_zone else time


def _times_of(column: Any) -> NDArray[np.datetime64] | None:
    """
    Return the times of a column as numpy has them, in UTC. None if it has none, or pandas has them
    as its own and without a zone: the years of these have no end.
    """
    times: NDArray[Any] | None = None
    if _library_of(column) == "polars" and type_of_polars(column.dtype) in (DATE, DATE_TIME):
        times = column.to_numpy()
    elif _is_pandas_of_arrow(column) and type_of_pandas(column.dtype) in (DATE, DATE_TIME):
        times = column.array.__arrow_array__().to_numpy()
    elif _library_of(column) == "pandas" and getattr(column.dtype, "tz", None) is not None:
        times = column.dt.tz_convert(None).to_numpy()
    return None if times is None or times.dtype.kind != "M" else times


def _is_pandas_of_arrow(column: Any) -> bool:
    """Return whether a column is one of pandas with an array of Arrow in it."""
    kind = column.dtype if _library_of(column) == "pandas" else None
    return hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", None) == "pyarrow"


def _names_of(frame: Any) -> list[Any] | None:
    """Return the names of a frame's columns. None if it is no frame, or does not know them."""
    if hasattr(frame, "collect_schema"):  # polars, lazy or not
        return list(frame.collect_schema().names())
    if hasattr(frame, "read_next_batch"):  # a RecordBatchReader
        return list(frame.schema.names)
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if isinstance(names, Mapping):  # a DatasetDict has a frame for each of its splits
        raise TypeError(
            f"{type(frame).__name__} has the splits {', '.join(names)}: "
            f"give one of them, as dataset[{next(iter(names), 'train')!r}]"
        )
    return None if names is None else list(names)


def _refuse_unread(value: Any) -> None:
    """
    Raise TypeError for a query or a set of files that has rows only when it is asked for them.

    A relation of DuckDB has columns, but none that can be iterated. A Dataset of Arrow and its
    Scanner are no frames at all. A frame of Spark or Dask is somewhere else.
    """
    made_by = ""
    if type(value).__name__ == "DuckDBPyRelation":
        made_by = ".pl() or .df(), or its .fetch_record_batch() to judge it batch by batch"
    elif _library_of(value) == "pyarrow" and hasattr(value, "to_table"):  # Dataset, Scanner
        reader = ".to_reader()" if hasattr(value, "to_reader") else ".scanner().to_reader()"
        made_by = f".to_table(), or its {reader} to judge it batch by batch"
    elif hasattr(type(value), "columns"):  # of Spark, of Dask: on other machines, or not yet made
        found = [name for name in ("toPandas", "compute") if hasattr(type(value), name)]
        made_by = "".join(f".{name}()" for name in found)
    if made_by:
        raise TypeError(f"{type(value).__name__} is not a frame yet: give its {made_by}")


def _columns_read(
    names: list[Any], columns: ColumnNames, score_column: str | None = None
) -> list[Any]:
    """Return those of a frame's columns that a document can be made of."""
    there = ", ".join(map(str, names))
    for column in (*columns, score_column):
        if column is not None and column not in names:
            raise TypeError(f"a frame needs the column {column!r} that is named, got {there}")
    wanted = _wanted(names, columns, score_column)
    read = [name for name in names if name in wanted]
    if columns.text is None and not {*read} & {*BODIES}:
        raise TypeError(
            f"a frame needs a column {', '.join(BODIES[:-1])} or {BODIES[-1]}, got {there}: "
            f"name one with text_column=, or give the column alone"
        )
    if len({*read}) < len(read):
        raise TypeError(
            f"a frame has one column of a name, got {', '.join(map(str, read))}: rename one"
        )
    return read


def _wanted(names: list[Any], columns: ColumnNames, score_column: str | None) -> set[Any]:
    """Return the names of the columns that are read if they are there."""
    of_fields = {name for _, name in columns.read_from(names)}
    return of_fields | {ID, *columns.named.values(), score_column}


def _library_of(value: Any) -> str:
    """
    Return the library that a value's class or one of its bases is of; "" if it is none of frames.

    The library need not be imported for that. GeoPandas and programs have subclasses of frames.
    """
    modules = (kind.__module__.partition(".")[0] for kind in type(value).__mro__)
    return next((module for module in modules if module in _LIBRARIES), "")


class Unjudged:
    """
    Counts the rows of a frame that could not be judged. They are not among those that stay, so a
    loss would not be seen.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.count = 0
        self._first: Exception | None = None
        self._warned_rows = 0  # how many the last warning was of

    def of(self, judged: Iterable[Verdict | Exception]) -> Iterator[Verdict | Exception]:
        """Yield answers, and count them."""
        for answer in judged:
            self.take(answer)
            yield answer

    def take(self, answer: Verdict | Exception) -> None:
        """Count an answer."""
        self.rows += 1
        if isinstance(answer, Exception):
            self.count += 1
            self._first = self._first or answer

    def tell(self) -> None:
        """
        Warn of these rows, as `warn` does.

        Raises:
            TypeError, DocumentError: none could be judged.
        """
        if not self._warned_rows:
            self.check()
        self.warn(". The column `reason` has the error of each")

    def check(self, rows: str = "rows") -> None:
        """Raise TypeError or DocumentError if there are such rows, and none of them was judged."""
        if self._first is None or self.count < self.rows:
            return
        none = f"none of {self.rows:,} {rows} could be judged; the first"
        if isinstance(self._first, DocumentError):
            raise DocumentError(self._first.code, f"{none}: {self._first.text}")
        raise TypeError(f"{none}: {self._first}")

    def warn(self, remedy: str = "", rows: str = "rows", consequence: str = "do not stay") -> None:
        """
        Warn of these rows, and again once there are ten times as many: a stream has no end at which
        all could be told.

        Args:
            remedy: the end of the warning.
            rows: what they are.
            consequence: what follows for these rows.
        """
        if self._first is None or self.count < 10 * self._warned_rows:
            return
        self._warned_rows = self.count
        warnings.warn(
            f"{self.count:,} of {self.rows:,} {rows} could not be judged, and so {consequence}; "
            f"the first: {self._first}{remedy}",
            stacklevel=2,
        )


def is_table(frame: Any) -> bool:
    """Return whether it has rows with columns, of whatever library."""
    return _names_of(frame) is not None


def is_read_once(frame: Any) -> bool:
    """Return whether it can be read once only, so that its verdicts are made as they are read."""
    return is_stream(frame) or hasattr(frame, "read_next_batch")


def is_stream(frame: Any) -> bool:
    """Return whether it is an `IterableDataset`, which is read when its verdicts are."""
    return _library_of(frame) == "datasets" and type(frame).__name__ == "IterableDataset"


def _verdicts_of_stream(
    frame: Any,
    judge: Callable[[list[dict[str, Any]]], Iterable[Verdict | Exception]],
    columns: ColumnNames,
    *,
    are_kept: bool,
) -> Any:
    """
    Return an `IterableDataset` of `COLUMNS`, whose rows are judged as they are read, once.

    Args:
        frame: an `IterableDataset`.
        judge: returns the answer to each of some rows.
        columns: the columns that hold doc_id, text, URL and time.
        are_kept: whether rows are compared with each other. Then a warning says so if they are read
            in a forked process, as those of a loader are: it knows nothing of the others' rows.
    """
    import datasets  # noqa: PLC0415

    judged_rows = 0
    unjudged = Unjudged()
    process = os.getpid()
    if frame.column_names is not None:
        rows_of(frame, columns)  # checks them

    def columns_of(rows: dict[str, list[Any]], numbers: list[int]) -> dict[str, list[Any]]:
        nonlocal judged_rows
        if are_kept and not judged_rows and os.getpid() != process:
            warnings.warn(_FORKED, stacklevel=2)
        if numbers[0] < judged_rows:
            raise RuntimeError(
                "these verdicts have been read already: a second reading would judge each row "
                "again, as a duplicate of itself. Keep them, as in Dataset.from_list(list(…))"
            )
        if are_kept and numbers[0] > judged_rows:
            warnings.warn(_SKIPPED.format(judged_rows, numbers[0]), stacklevel=2)
        judged_rows = numbers[-1] + 1
        documents = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        table = list(zip(*map(values_of, unjudged.of(judge(documents))), strict=True))
        unjudged.tell()
        return dict(zip(COLUMNS, map(list, table), strict=True))

    kinds = {str: "string", bool: "bool", int: "int64", float: "float64"}
    features = {name: datasets.Value(kinds[kind]) for name, kind in COLUMNS.items()}
    verdicts = frame.with_format(None).map(
        columns_of,
        batched=True,
        with_indices=True,
        batch_size=_STREAM_ROWS,
        features=datasets.Features(features),
    )
    return verdicts.select_columns([*COLUMNS])


def judged_frame(
    frame: Any,
    judge: Callable[[Any], Iterator[Verdict | Exception]],
    columns: ColumnNames,
    *,
    are_kept: bool = True,
) -> Any:
    """
    Return the answers to a frame's rows as a frame of its kind; read once where that is.

    `are_kept`: as of `_verdicts_of_stream`.
    """
    if is_stream(frame):
        return _verdicts_of_stream(frame, judge, columns, are_kept=are_kept)
    return frame_like(frame, map(values_of, _told(judge(frame))))


def values_of(judged: Verdict | Exception) -> tuple[Any, ...]:
    """Return the values of `COLUMNS` for a verdict, or for the error in its place."""
    if isinstance(judged, Verdict):
        own = [_shown(field, judged) for field in _OWN]
        return *own, judged.stays, *(_shown(field, judged) for field in _OF_OTHERS)
    error = judged.code if isinstance(judged, DocumentError) else str(judged)
    said = {"verdict": NOT_JUDGED, "reason": error, "stays": False}
    return tuple(said.get(name) for name in COLUMNS)


def _shown(field: VerdictField, verdict: Verdict) -> Any:
    """Return a field's value as CSV, Parquet and frames have it."""
    value = field.value_in(verdict)
    if value is None:
        return None
    return brought_url(value) if field.kind is URL else field.kind.to_json(value)


def frame_like(
    given: Any, rows: Iterator[tuple[Any, ...]], columns: Mapping[str, type] = COLUMNS
) -> Any:
    """
    Return rows with these columns as a frame of the kind of `given`, with its index.

    Raises:
        TypeError, DocumentError: none of its rows could be judged, or it is no frame.
    """
    match _library_of(given):
        case "pandas":
            import pandas  # noqa: PLC0415

            kinds = {str: "string", bool: "boolean", int: "Int64", float: "Float64"}
            types = {name: kinds[kind] for name, kind in columns.items()}
            types["stays"] = "bool"  # every row has it, and it selects rows in any library
            return pandas.DataFrame(
                list(rows), getattr(given, "index", None), list(columns)
            ).astype(types)
        case "polars":
            import polars  # noqa: PLC0415

            return polars.DataFrame(list(rows), columns, orient="row")
        case "pyarrow":
            return _arrow(given, rows, columns)
        case "datasets":
            import datasets  # noqa: PLC0415

            return datasets.Dataset(_arrow(given, rows, columns))
    _refuse_unread(given)
    raise TypeError(
        f"wanted a frame or a column of pandas, polars, Arrow or datasets, got {shown(given)}: "
        "use `add_many` or `ask_many`"
    )


def rows_chosen(
    judged: Iterable[Verdict | Exception], notes: ChoiceNotes
) -> Iterator[tuple[Any, ...]]:
    """
    Yield the values of `CHOSEN` for answers, whose judged rows have been noted for the choice.

    Warns if rows are to be preferred by a number that none of them has. Now that they are known, an
    error would lose their verdicts: in a second call, each would be a copy of itself.
    """
    answers = list(_told(judged))
    try:
        notes.check()
    except StopError as error:
        warnings.warn(f"{error}. Here the first of each cluster stays", stacklevel=2)
    kept = notes.choice().kept.tolist()
    for answer, stays, size in zip(answers, kept, notes.sizes().tolist(), strict=True):
        values = dict(zip(COLUMNS, values_of(answer), strict=True)) | {"stays": stays}
        cluster = None
        if size:
            cluster = values["duplicate_of"] or values["doc_id"]
        yield *values.values(), cluster, size or None


def _told(judged: Iterable[Verdict | Exception]) -> Iterator[Verdict | Exception]:
    """Yield answers, then warn of those that are errors."""
    unjudged = Unjudged()
    yield from unjudged.of(judged)
    unjudged.tell()


@contextmanager
def verdict_writer(name: str | Path) -> Iterator[Callable[[Record, Answer], None]]:
    """
    Open an output of verdicts, in the format that its name stands for (`outputs.written`).

    CSV and Parquet have the columns `COLUMNS`. Any other name gets JSON Lines, as on the topic.

    Returns:
        What takes a document's place and the answer to it. Only what the format needs is made of
        the answer.
    Raises:
        StopError: the name stands for a format that has no verdicts, such as WARC.
    """
    kind = format_of(name)
    if kind is not PARQUET:
        check_format(name, CSV if kind is CSV else JSON_LINES)
    with written(name) as stream:
        if kind is PARQUET:
            with _table_writer(stream) as write:
                yield write
            return
        with packed(stream, name) as lines:
            if kind is CSV:
                lines.write(line_of_csv([*COLUMNS]) + b"\n")
                yield lambda _, told: lines.write(line_of_csv(values_of(told.answer)) + b"\n")
            else:
                yield lambda record, told: lines.write(
                    escape_controls(line_of(record, told)) + b"\n"
                )


@contextmanager
def _table_writer(stream: BinaryIO) -> Iterator[Callable[[Record, Answer], None]]:
    """Return the writer of verdicts as rows of Parquet."""
    held = list[tuple[Any, ...]]()
    with closing(parquet_module().ParquetWriter(stream, _schema())) as writer:

        def write(_: Record, answered: Answer) -> None:
            held.append(values_of(answered.answer))
            if len(held) == _ROWS:
                writer.write_batch(_batch(held))
                held.clear()

        yield write
        writer.write_batch(_batch(held))


def _schema(columns: Mapping[str, type] = COLUMNS) -> Any:
    import pyarrow  # noqa: PLC0415

    kinds = {
        str: pyarrow.string(),
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
    }
    return pyarrow.schema({name: kinds[kind] for name, kind in columns.items()})


def _batch(rows: Iterable[tuple[Any, ...]], columns: Mapping[str, type] = COLUMNS) -> Any:
    import pyarrow  # noqa: PLC0415

    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return pyarrow.RecordBatch.from_pylist(named, schema=_schema(columns))


def _arrow(given: Any, rows: Iterator[tuple[Any, ...]], columns: Mapping[str, type]) -> Any:
    """Return a table. What is read in batches is returned in batches."""
    import pyarrow  # noqa: PLC0415

    schema = _schema(columns)
    parts = iter(lambda: list(islice(rows, _ROWS)), [])
    batches = (_batch(part, columns) for part in parts)
    if hasattr(given, "read_next_batch"):
        return pyarrow.RecordBatchReader.from_batches(schema, batches)
    return pyarrow.Table.from_batches(batches, schema)
