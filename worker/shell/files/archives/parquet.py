"""Parquet -> documents messages: a row is a document; and rows of it into another file. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import orjson

from worker.errors import StopError
from worker.shell.files.archives.record import Damaged, Found, Record
from worker.shell.files.rows import FIELDS, ColumnNames, check_columns, read_row

MAGIC = b"PAR1"
_ROWS = 1_000  # held at once


def parquet_module() -> Any:
    """Return pyarrow's module for Parquet, or say how to install it."""
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise StopError("Parquet needs pyarrow: pip install 'neardup[parquet]'") from None
    return parquet


def batches_of(
    stream: BinaryIO, on_damage: Callable[[str], None], on_rows: Callable[[int, int], None] = lambda *_: None
) -> Iterator[Any]:
    """
    Yield the rows of a file in batches of Arrow, up to where it is damaged.

    Args:
        on_damage: told what is wrong; of a file whose index is damaged nothing can be read.
        on_rows: told how many rows have been given, and of how many.

    Raises:
        StopError: pyarrow is not there.
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
        on_damage(str(error))


def read_parquet(
    file: str,
    stream: BinaryIO,
    fetched_at_default: str | None,
    columns: ColumnNames | None,
    number_of: Callable[[], int],
    on_rows: Callable[[int, int], None],
) -> Iterator[Found]:
    """
    Return a record for each row: `line` is its number, from 1; the columns are the fields of `DocumentMessage`.

    A row that cannot be read is a record, too, of which the worker's dead letter says why: one for each row.
    """
    damage: list[str] = []
    wanted = {*FIELDS, *(columns or ())}
    number = 0
    for batch in batches_of(stream, damage.append, on_rows):
        check_columns(file, batch.schema.names, columns)
        for row in _rows(batch, wanted):
            number += 1
            try:
                key, message = _message(row, columns, fetched_at_default, number_of())
            except TypeError as error:  # the column's type is wrong, so that of all rows
                raise StopError(str(error)) from error
            except Exception as error:
                key, message = None, json.dumps(f"a row that cannot be read: {error}").encode()
            yield Record(file, number - 1, key, message, number)
    for reason in damage:
        yield Damaged(file, 0, reason)


def _message(
    row: Any, columns: ColumnNames | None, fetched_at_default: str | None, number: int
) -> tuple[bytes | None, bytes]:
    if isinstance(row, Exception):
        raise row
    for name, value in row.items():
        if isinstance(value, bytes):  # as some writers store text
            row[name] = value.decode("utf-8", "replace")
    fields = read_row(row, columns, fetched_at_default, number)
    doc_id = fields.get("doc_id")
    return doc_id.encode("utf-8", "replace") if isinstance(doc_id, str) else None, orjson.dumps(fields, default=str)


def _rows(batch: Any, wanted: set[str | None]) -> list[Any]:
    """Return the wanted columns of each row; an error for one that cannot be read (no UTF-8, two columns of a name)."""
    try:
        return list(batch.select([name for name in batch.schema.names if name in wanted]).to_pylist())
    except Exception as error:
        if batch.num_rows == 1:
            return [error]
    return [row for at in range(batch.num_rows) for row in _rows(batch.slice(at, 1), wanted)]
