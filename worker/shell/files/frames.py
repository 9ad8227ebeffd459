"""
Frames of pandas, polars or Arrow: their rows as documents, and the verdicts as a frame of the same
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, BinaryIO

from schemas.document import BODIES
from worker.core.document import Verdict
from worker.errors import DocumentError
from worker.shell.files.archives.rows import FIELDS, line_of_csv, parquet_module, shown
from worker.shell.files.engine import Answer
from worker.shell.files.formats import CSV, JSON_LINES, PARQUET, check_format, format_of
from worker.shell.files.places import escape_controls, packed

NOT_JUDGED = "not-judged"
COLUMNS: dict[str, type] = {
    "doc_id": str, "verdict": str, "reason": str, "stays": bool, "duplicate_of": str, "original_url": str, "kind": str,
    "distance": int, "similarity": float,
}  # fmt: skip
_ROWS = 10_000  # of a batch of Arrow


def rows_of(frame: Any) -> Iterator[Any] | None:
    """
    Return a dict a row of the columns with a field's name, batch by batch where it is lazy; None:
    it is no frame.
    """
    if hasattr(frame, "collect_schema"):  # polars, lazy or not
        names = frame.collect_schema().names()
    elif hasattr(frame, "read_next_batch"):  # a RecordBatchReader
        names = frame.schema.names
    else:
        names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None:
        return None
    known = [name for name in names if name in FIELDS]
    if not set(known) & set(BODIES):
        raise TypeError(
            f"a frame needs a column {', '.join(BODIES[:-1])} or {BODIES[-1]}, got "
            f"{', '.join(map(str, names))}: "
            f"rename one, or give the column alone"
        )
    if len(set(known)) < len(known):
        raise TypeError(f"a frame has one column of a name, got {', '.join(known)}: rename one")
    parts: Iterable[Any] = [frame]
    if hasattr(frame, "collect_batches"):
        parts = frame.select(known).collect_batches()
    elif hasattr(frame, "read_next_batch"):
        parts = frame
    return (
        dict(zip(known, row, strict=True))
        for part in parts
        for row in zip(*(part[name] for name in known), strict=True)
    )


def values_of(judged: Verdict | Exception) -> tuple[Any, ...]:
    """Return what `COLUMNS` names, of a verdict or of the error in its place."""
    if isinstance(judged, Verdict):
        match = judged.duplicate_of
        found: tuple[Any, ...] = (None,) * 5
        if match is not None:
            found = (
                match.original.doc_id,
                match.original.url,
                match.kind.value,
                match.distance,
                match.similarity,
            )
        return judged.doc_id, judged.outcome.value, judged.reason, judged.stays, *found
    return (
        None,
        NOT_JUDGED,
        judged.code if isinstance(judged, DocumentError) else str(judged),
        False,
        *(None,) * 5,
    )


def frame_like(given: Any, judged: Iterator[Verdict | Exception]) -> Any:
    """Return `COLUMNS` as a frame of the kind of `given`, with its index."""
    match type(given).__module__.partition(".")[0]:
        case "pandas":
            import pandas  # noqa: PLC0415

            kinds = {str: "string", bool: "bool", int: "Int64", float: "Float64"}
            types = {name: kinds[kind] for name, kind in COLUMNS.items()}
            rows = list(map(values_of, judged))
            return pandas.DataFrame(rows, getattr(given, "index", None), list(COLUMNS)).astype(
                types
            )
        case "polars":
            import polars  # noqa: PLC0415

            return polars.DataFrame(list(map(values_of, judged)), COLUMNS, orient="row")
        case "pyarrow":
            return _arrow(given, judged)
    raise TypeError(
        f"wanted a frame or a column of pandas, polars or Arrow, got {shown(given)}: use `add_many`"
    )


@contextmanager
def verdict_writer(stream: BinaryIO, name: str) -> Iterator[Callable[[bytes, Answer], None]]:
    """
    Return what writes verdicts in the format that the output's name stands for.

    CSV and Parquet have the columns `COLUMNS`. Any other name gets JSON Lines, as on the topic.

    Args:
        stream: where to; it stays open.
        name: of the output, "-" for stdout.
    Returns:
        What takes a verdict's line of JSON and the answer that it was made of.
    Raises:
        StopError: the name stands for a format that has no verdicts, such as WARC.
    """
    kind = format_of(name)
    held = list[Verdict | Exception]()
    if kind is PARQUET:
        with closing(parquet_module().ParquetWriter(stream, _schema())) as writer:

            def write(_: bytes, answered: Answer) -> None:
                held.append(answered.answer)
                if len(held) == _ROWS:
                    writer.write_batch(_batch(held))
                    held.clear()

            yield write
            writer.write_batch(_batch(held))
        return
    check_format(name, CSV if kind is CSV else JSON_LINES)
    with packed(stream, name) as lines:
        if kind is CSV:
            lines.write(line_of_csv([*COLUMNS]) + b"\n")
            yield lambda _, answered: lines.write(line_of_csv(values_of(answered.answer)) + b"\n")
        else:
            yield lambda line, _: lines.write(escape_controls(line) + b"\n")


def _schema() -> Any:
    import pyarrow  # noqa: PLC0415

    kinds = {
        str: pyarrow.string(),
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
    }
    return pyarrow.schema({name: kinds[kind] for name, kind in COLUMNS.items()})


def _batch(judged: Iterable[Verdict | Exception]) -> Any:
    import pyarrow  # noqa: PLC0415

    rows = [dict(zip(COLUMNS, values_of(one), strict=True)) for one in judged]
    return pyarrow.RecordBatch.from_pylist(rows, schema=_schema())


def _arrow(given: Any, judged: Iterator[Verdict | Exception]) -> Any:
    """Return a table; what was read in batches comes in batches."""
    import pyarrow  # noqa: PLC0415

    schema = _schema()
    batches = map(_batch, iter(lambda: list(islice(judged, _ROWS)), []))
    if hasattr(given, "read_next_batch"):
        return pyarrow.RecordBatchReader.from_batches(schema, batches)
    return pyarrow.Table.from_batches(batches, schema)
