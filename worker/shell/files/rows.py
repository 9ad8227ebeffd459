"""A row of any table (a dict, of JSON Lines or of a frame) -> the fields of a document's message."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from numbers import Integral
from typing import Any, NamedTuple

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX

__all__ = ["FIELDS", "ColumnNames", "fields_of", "filled", "is_missing", "plain", "remedy", "shown"]

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

        >>> ColumnNames(text="content").renamed({"content": "The river rose.", "html": "<p>"})
        {'text': 'The river rose.'}
        """
        found = dict(row)
        if self.id is not None:
            found["doc_id"] = found.pop(self.id, None)
        if self.text is not None:
            text = found.pop(self.text, None)
            found = {name: value for name, value in found.items() if name not in BODIES} | {"text": text}
        return found


def fields_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """
    Return the fields of a row's message; columns of other names are left alone, and what is missing is made.

    Args:
        name: of the document, where the row has none.

    Raises:
        TypeError: a field is bytes.

    >>> fields_of({"text": "The river rose.", "score": 7}, "a")
    {'text': 'The river rose.', 'doc_id': 'a', 'url': 'urn:neardup:a', 'fetched_at': '1970-01-01T00:00:00Z'}
    """
    return filled({field: _value(field, row[field], name) for field in FIELDS if not is_missing(row.get(field))}, name)


def filled(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return fields with a doc_id, a URL and a time."""
    if "doc_id" not in fields and not ("url" in fields and "fetched_at" in fields):
        fields["doc_id"] = name
    if "url" not in fields:
        fields["url"] = f"urn:neardup:{fields['doc_id']}"
    fields.setdefault("fetched_at", _NO_TIME)
    return fields


def _value(field: str, value: Any, name: str) -> Any:
    """Return a field as JSON has it."""
    value = plain(value)
    if isinstance(value, bytes):
        raise TypeError(f"{field} of document {name} is {shown(value)}: {remedy(value)}")
    if isinstance(value, datetime):
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
