"""JSON Lines -> documents messages: each line is one already. Lines that are no JSON objects are damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from schemas.timestamp import TimestampError, parse_timestamp
from worker.core.document import derive_doc_id
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.record import Damaged, Found, Record
from worker.shell.files.rows import ColumnNames, fields_of

__all__ = ["read_json_lines"]


def read_json_lines(
    file: str,
    pieces: Iterator[Piece],
    line_bytes_max: int,
    fetched_at_default: str | None,
    columns: ColumnNames | None = None,
) -> Iterator[Found]:
    """
    Return a record for each line, byte for byte as it stands, and damage for what is no JSON object.

    What is wrong inside an object (no url, two bodies) is left to the worker's dead letters, which say it better.

    Args:
        line_bytes_max: a longer line is damage; it is not held in memory.
        fetched_at_default: the fetch time of lines that have none, ISO 8601.
        columns: the names under which lines have doc_id and text; then nothing else is needed.
    """
    position, number, held, is_overlong = 0, 1, bytearray(), False
    for piece in pieces:
        *ended, rest = piece.data.split(b"\n")
        for part in ended:
            held += part
            if not is_overlong:
                yield from _line(file, position, number, bytes(held), fetched_at_default, columns)
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
    if held and not is_overlong:
        yield from _line(file, position, number, bytes(held), fetched_at_default, columns)


def _line(
    file: str, position: int, number: int, line: bytes, fetched_at_default: str | None, columns: ColumnNames | None
) -> Iterator[Found]:
    line = line.strip()
    if not line:
        return
    try:
        fields = _parsed(line)
    except ValueError as error:
        yield Damaged(file, position, f"not JSON: {error}", number)
        return
    if not isinstance(fields, dict):
        yield Damaged(file, position, f"a JSON {type(fields).__name__}, not an object", number)
        return
    raw = line
    if columns is not None:
        fields = fields_of(columns.renamed(fields), f"{file}:{number}")
        line = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    if fetched_at_default is not None and fields.get("fetched_at") is None:
        fields["fetched_at"] = fetched_at_default
        line = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    yield Record(file, position, _key(fields), line, number, raw)


def _parsed(line: bytes) -> Any:
    """Parse a line; what orjson is too strict for (lone surrogates) the standard library reads."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return json.loads(line)
        except RecursionError:
            raise ValueError("nested too deep") from None


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
