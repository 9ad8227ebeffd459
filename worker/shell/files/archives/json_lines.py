"""JSON Lines -> documents messages: each line is one already. Lines that are no JSON objects are damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from schemas.document import BODIES
from schemas.timestamp import TimestampError, parse_timestamp
from worker.core.document import derive_doc_id
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.record import Damaged, Found, Record
from worker.shell.files.rows import ColumnNames, read_row


def read_json_lines(
    file: str,
    pieces: Iterator[Piece],
    line_bytes_max: int,
    fetched_at_default: str | None,
    columns: ColumnNames | None,
    number_of: Callable[[], int],
) -> Iterator[Found]:
    """
    Return a record for each line, byte for byte as it stands, and damage for what is no JSON object.

    A body without a URL or a time gets one, as a row of Parquet does. What is wrong inside an object otherwise (two
    bodies, a date of no calendar) is left to the worker's dead letters, which say it better.

    Args:
        line_bytes_max: a longer line is damage; it is not held in memory.
        fetched_at_default: the fetch time of lines that have none, ISO 8601.
        columns: the names under which lines have doc_id and text; then nothing else is needed.
        number_of: asked for the number of each document that may need one for a name.
    """
    found = partial(_found, file, fetched_at_default=fetched_at_default, columns=columns, number_of=number_of)
    position, number, held, is_overlong = 0, 1, bytearray(), False
    for piece in pieces:
        *ended, rest = piece.data.split(b"\n")
        for part in ended:
            held += part
            if not is_overlong and (line := held.strip()):
                yield found(position, number, bytes(line))
            position += len(held) + 1
            number += 1
            held.clear()
            is_overlong = False
        held += rest
        if len(held) > line_bytes_max:
            if not is_overlong:
                yield Damaged(file, position, f"a line of more than {line_bytes_max:,} bytes", number)
            is_overlong = True
            position += len(held)
            held.clear()
        if piece.problem is not None:
            yield Damaged(file, piece.offset, piece.problem)
            held.clear()
    if not is_overlong and (line := held.strip()):
        yield found(position, number, bytes(line))


def _found(
    file: str,
    position: int,
    number: int,
    line: bytes,
    *,
    fetched_at_default: str | None,
    columns: ColumnNames | None,
    number_of: Callable[[], int],
) -> Found:
    """Return the document of a line, or what is wrong with it: whatever that is, the other lines are read."""
    try:
        fields = _parsed(line)
        if not isinstance(fields, dict):
            return Damaged(file, position, f"a JSON {type(fields).__name__}, not an object", number)
        is_named = fields.get("url") is not None and (fetched_at_default or fields.get("fetched_at")) is not None
        if columns is not None or (not is_named and any(fields.get(body) is not None for body in BODIES)):
            fields = read_row(fields, columns, fetched_at_default, number_of())
        elif fetched_at_default is not None and fields.get("fetched_at") is None:
            fields["fetched_at"] = fetched_at_default
        else:
            return Record(file, position, _key(fields), line, number, line)
        value = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        return Record(file, position, _key(fields), value, number, line)
    except RecursionError:
        return Damaged(file, position, "nested too deep", number)
    except Exception as error:
        return Damaged(file, position, str(error) or type(error).__name__, number)


def _parsed(line: bytes) -> Any:
    """Parse a line; what orjson is too strict for (lone surrogates) the standard library reads."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return json.loads(line)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None


def _key(fields: dict[str, Any]) -> bytes | None:
    """Return the doc_id that the worker will use, as far as the line has what it takes."""
    doc_id, url, fetched_at = fields.get("doc_id"), fields.get("url"), fields.get("fetched_at")
    if isinstance(doc_id, str) and doc_id:
        return doc_id.encode("utf-8", "replace")
    if isinstance(url, str) and isinstance(fetched_at, str):
        try:
            return derive_doc_id(url, parse_timestamp(fetched_at)).encode()
        except TimestampError:
            return None
    return None
