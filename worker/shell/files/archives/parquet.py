"""Parquet -> documents messages: a row is a document; and rows of it into another file. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import orjson

from worker.errors import StopError
from worker.shell.files.archives.record import Record
from worker.shell.files.rows import FIELDS, ColumnNames, fields_of

__all__ = ["MAGIC", "batches_of", "parquet_module", "read_parquet"]

MAGIC = b"PAR1"
_ROWS = 1_000  # held at once


def parquet_module() -> Any:
    """Return pyarrow's module for Parquet, or say how to install it."""
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise StopError("Parquet needs pyarrow: pip install 'neardup[parquet]'") from None
    return parquet


def batches_of(file: str, stream: BinaryIO, on_rows: Callable[[int, int], None] = lambda *_: None) -> Iterator[Any]:
    """
    Yield the rows of a file in batches of Arrow.

    Args:
        on_rows: told how many rows have been given, and of how many.

    Raises:
        StopError: pyarrow is not there, or the file is damaged: nothing of such a file can be read.
    """
    parquet = parquet_module()
    done = 0
    try:
        opened = parquet.ParquetFile(stream)
        for batch in opened.iter_batches(_ROWS):
            yield batch
            done += batch.num_rows
            on_rows(done, opened.metadata.num_rows)
    except (ValueError, OSError) as error:  # Arrow's own errors are among them
        raise StopError(f"{file}: {error}") from error


def read_parquet(
    file: str,
    stream: BinaryIO,
    fetched_at_default: str | None,
    columns: ColumnNames | None,
    on_rows: Callable[[int, int], None],
) -> Iterator[Record]:
    """Return a record for each row: `line` is its number, from 1; the columns are the fields of `DocumentMessage`."""
    number = 0
    wanted = {*FIELDS, *(columns or ())}
    for batch in batches_of(file, stream, on_rows):
        for row in batch.select([name for name in batch.schema.names if name in wanted]).to_pylist():
            number += 1
            if fetched_at_default is not None and row.get("fetched_at") is None:
                row["fetched_at"] = fetched_at_default
            for name, value in row.items():
                if isinstance(value, bytes):  # as some writers store text
                    row[name] = value.decode("utf-8", "replace")
            fields = fields_of((columns or ColumnNames()).renamed(row), f"{file}:{number}")
            doc_id = fields.get("doc_id")
            key = doc_id.encode("utf-8", "replace") if isinstance(doc_id, str) else None
            yield Record(file, number - 1, key, orjson.dumps(fields, default=str), number)
