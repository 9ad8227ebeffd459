"""A row of any table (a dict, of JSON Lines or of a frame) -> the fields of a document's message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from numbers import Integral
from typing import Any, NamedTuple

import xxhash

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX
from worker.errors import StopError

FIELDS = ("doc_id", "url", "fetched_at", *OPTIONAL_CHARACTERS_MAX, *BODIES)
_NO_TIME = "1970-01-01T00:00:00Z"  # of a document that brings none: its fetch time changes no verdict
_SHOWN_CHARACTERS_MAX = 60


class ColumnNames(NamedTuple):
    """The columns that hold the doc_id and the text; None: those of these names."""

    id: str | None = None
    text: str | None = None

    def renamed(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return a row with the fields' own names. A text column is the only body.

        Raises:
            ValueError: it has no text column.

        >>> ColumnNames(text="content").renamed({"content": "The river rose.", "html": "<p>"})
        {'text': 'The river rose.'}
        """
        found = dict(row)
        if self.id is not None:
            found["doc_id"] = found.pop(self.id, None)
        if self.text is not None:
            if self.text not in found:
                raise ValueError(f"no field {self.text!r}, there are {', '.join(found) or 'none'}")
            text = found.pop(self.text)
            found = {name: value for name, value in found.items() if name not in BODIES} | {"text": text}
        return found


def check_columns(file: str, names: Sequence[str], columns: ColumnNames | None) -> None:
    """Raise StopError for a table without a column that is asked for, or without any that could be a body."""
    there = f"there are {', '.join(names) or 'none'}"
    for name in columns or ():
        if name is not None and name not in names:
            raise StopError(f"{file} has no column {name!r}, {there}")
    if (columns is None or columns.text is None) and not {*names} & {*BODIES}:
        raise StopError(
            f"{file} has no column {', '.join(BODIES[:-1])} or {BODIES[-1]}, {there}: --text-column names one"
        )


def read_row(
    row: Mapping[str, Any], columns: ColumnNames | None, fetched_at_default: str | None, number: int
) -> dict[str, Any]:
    """
    Return the fields of a file's row, as its columns are named.

    >>> read_row({"text": "The river rose."}, None, None, 7)["doc_id"]
    '7-adf0fca55fa9dc87'
    """
    named = (columns or ColumnNames()).renamed(row)
    if fetched_at_default is not None and is_missing(named.get("fetched_at")):
        named = {**named, "fetched_at": fetched_at_default}
    return fields_of(named, number)


def fields_of(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """
    Return the fields of a row's message; columns of other names are left alone, and what is missing is made.

    Args:
        number: of the document, as `filled` wants it.

    Raises:
        TypeError: a field is bytes, or a time without its zone.

    >>> fields_of({"text": "The river rose.", "doc_id": "a", "score": 7}, 0)
    {'doc_id': 'a', 'text': 'The river rose.', 'url': 'urn:neardup:a', 'fetched_at': '1970-01-01T00:00:00Z'}
    """
    given = {field: _value(field, row[field], number) for field in FIELDS if not is_missing(row.get(field))}
    return filled(given, number)


def filled(fields: dict[str, Any], number: int) -> dict[str, Any]:
    """
    Return fields with a doc_id, a URL and a time. One without a doc_id, or a URL at a time, is named NUMBER-DIGEST.

    Never by its place: the next file has another document there; nor by its number, which others have for doc_ids. So
    `number` goes on from run to run, and each that is read is a document of its own, a duplicate where its equal was.
    """
    if "doc_id" not in fields and not ("url" in fields and "fetched_at" in fields):
        body = next((fields[field] for field in BODIES if field in fields), "")
        fields["doc_id"] = f"{number}-{xxhash.xxh3_64_hexdigest(str(body).encode('utf-8', 'replace'))}"
    if "url" not in fields:
        fields["url"] = f"urn:neardup:{fields['doc_id']}"
    fields.setdefault("fetched_at", _NO_TIME)
    return fields


def _value(field: str, value: Any, number: int) -> Any:
    """Return a field as JSON has it."""
    value = plain(value)
    if isinstance(value, bytes):
        raise TypeError(f"{field} of document {number} is {shown(value)}: {remedy(value)}")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TypeError(
                f"{field} of document {number} is {value}, without a time zone: give it one, of UTC datetime.replace("
                f'tzinfo=UTC), of a column in pandas .dt.tz_localize("UTC"), in polars .dt.replace_time_zone("UTC")'
            )
        return value.isoformat()
    return str(value) if field == "doc_id" and isinstance(value, Integral) else value


def plain(value: Any) -> Any:
    """Return a value of Arrow as Python's own."""
    return value.as_py() if hasattr(value, "as_py") else value


def is_missing(value: Any) -> bool:
    """Return whether a field has no value: None, and what frames have for it (nan, NaT, NA)."""
    value = plain(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True  # noqa: PLR0124


def shown(value: Any) -> str:
    """Show a value in an error, the beginning of a long one."""
    text = repr(value)
    start = text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
    return start if value is None else f"{type(value).__name__} {start}"


def remedy(value: Any) -> str:
    """Return what to do about a value that is no document."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "decode it, or give a Document of BodyKind.BYTES"
    if is_missing(value):
        return "leave out what is missing (of a pandas column: .dropna(), of a polars one: .drop_nulls())"
    return "give a str, a dict with the fields of DocumentMessage, or a Document"
