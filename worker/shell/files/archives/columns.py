"""
Says which types a field or a column may have, by what it is read for. One table for rows of JSON
Lines, CSV and Parquet, for the dicts of a program and for its frames.

    type            id              time                  URL, text
    text            as it is        ISO 8601, Unix time   as it is
    bytes           UTF-8, or hex   UTF-8                 UTF-8
    whole number    its digits      Unix time             never
    float, decimal  its digits      Unix time             never
    date            ISO 8601        its midnight          never
    date-time       ISO 8601        as it is              never
    UUID            its digits      never                 never
    any other       never           never                 never

- A number names a document if it is whole: a column of whole numbers with a gap becomes floats in
  pandas, and decimals come from databases.
- Floats of 32 or 16 bits hold whole numbers only up to 2**24 or 2**11: of two larger ids they have
  made one. So a column of them names no document, whatever its values.
- A time without a zone is UTC, as in every tool that writes such times. That is said once.
- A number as a time counts the seconds, milliseconds, microseconds or nanoseconds since 1970.
  Between 1973 and 2100 the four ranges lie apart, so the size of the number tells the unit. Others
  are refused: 20240501 is a date that somebody wrote without hyphens.

A type that can never be read is refused for the whole column, before the first row. A value that
cannot be read costs its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX
from schemas.fields import format_timestamp, whole_number
from worker.core.document import DOC_ID_BYTES_MAX
from worker.errors import DocumentError, safe_repr

TEXT = "text"
BYTES = "bytes"
WHOLE = "whole number"
FLOAT = "float"
DECIMAL = "decimal"
DATE = "date"
DATE_TIME = "date-time"
UUIDS = "UUID"
BOOLEAN = "boolean"
LIST = "list"
STRUCT = "struct"
DURATION = "duration"
CLOCK = "time of day"
OTHER = "other"

_TEXTS = frozenset({TEXT, BYTES})
_NUMBERS = frozenset({WHOLE, FLOAT, DECIMAL})
LEGAL: dict[str, frozenset[str]] = {
    "doc_id": _TEXTS | _NUMBERS | {DATE, DATE_TIME, UUIDS},
    "fetched_at": _TEXTS | _NUMBERS | {DATE, DATE_TIME},
    "url": _TEXTS,
} | dict.fromkeys((*OPTIONAL_CHARACTERS_MAX, *BODIES), _TEXTS)
FIELDS = ("doc_id", "url", "fetched_at", *OPTIONAL_CHARACTERS_MAX, *BODIES)
NAMES_ROWS = _NUMBERS | {TEXT, UUIDS}  # types of a column `id` that nobody has named

_CALLED = {
    "doc_id": "an id",
    "fetched_at": "a time",
    "url": "a URL",
    "html": "HTML",
    "body_base64": "a body",
}
_REMEDIES = {
    LIST: "join its parts into one text",
    STRUCT: "take the part that is meant",
    BOOLEAN: "name another column",
    OTHER: "convert it to text",
}
NARROW_SAID = (
    "ids above 2**24 (2**11 in 16 bits) may have become one in it. Write the ids as whole numbers "
    "or text where they come from: to convert this column does not bring them back"
)
UTC_SAID = "without a zone, read as UTC"
_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 10**6, "nanoseconds": 10**9}
_UNIX_MIN_S = 100_000_000  # 1973-03-03
_UNIX_MAX_S = 4_102_444_800  # 2100-01-01
_SHOWN_CHARACTERS_MAX = 60
_NARROW = re.compile(r"\b(?:halffloat|float|float16|float32)\b", re.IGNORECASE)  # Arrow's first
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_AS_NUMBER = re.compile(r"[0-9]{9,19}(?:[.][0-9]{1,9})?")
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})")
_DATED = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,9})?)?)"
    r"(| ?(?:Z|UTC|[+-][0-9]{2}:?(?:[0-9]{2})?))"
)


# ---- types


def type_of(value: Any) -> str:
    """
    Return the table's name for the type of a value.

    >>> [type_of(value) for value in ("a", 7, 7.5, True, [1], b"", None)]
    ['text', 'whole number', 'float', 'boolean', 'list', 'bytes', 'other']
    """
    for kinds, name in _TYPES:
        if isinstance(value, kinds):
            return name
    return OTHER


_TYPES: tuple[tuple[Any, str], ...] = (
    (str, TEXT),
    ((bool, np.bool_), BOOLEAN),
    ((timedelta, np.timedelta64), DURATION),  # before numbers: numpy's is one
    (Integral, WHOLE),
    (Decimal, DECIMAL),
    (Real, FLOAT),
    ((bytes, bytearray, memoryview), BYTES),
    ((datetime, np.datetime64), DATE_TIME),
    (date, DATE),
    (time, CLOCK),
    (UUID, UUIDS),
    (dict, STRUCT),
    ((list, tuple, set, np.ndarray), LIST),
)


def type_of_arrow(kind: Any) -> str | None:
    """Return the type of a column of Arrow in the words of the table; None if it has no values."""
    import pyarrow  # noqa: PLC0415

    types = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        is_uuid = kind.extension_name == "arrow.uuid"
        return UUIDS if is_uuid else type_of_arrow(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return type_of_arrow(kind.value_type)
    for is_one, name in (
        (types.is_null, None),
        (types.is_boolean, BOOLEAN),
        (types.is_integer, WHOLE),
        (types.is_floating, FLOAT),
        (types.is_decimal, DECIMAL),
        (types.is_date, DATE),
        (types.is_timestamp, DATE_TIME),
        (types.is_duration, DURATION),
        (types.is_time, CLOCK),
        (types.is_struct, STRUCT),
        (types.is_nested, LIST),
    ):
        if is_one(kind):
            return name
    named = str(kind)
    if "string" in named:
        return TEXT
    return BYTES if "binary" in named else OTHER


def type_of_polars(kind: Any) -> str | None:
    """
    Return the type of a column of polars in the words of the table; None if only its values tell.
    """
    if kind.is_nested():
        return STRUCT if str(kind).startswith("Struct") else LIST
    if kind.is_integer():
        return WHOLE
    if kind.is_float():
        return FLOAT
    if kind.is_decimal():
        return DECIMAL
    name = type(kind).__name__ if not isinstance(kind, type) else kind.__name__
    return {
        "String": TEXT, "Categorical": TEXT, "Enum": TEXT, "Binary": BYTES, "Boolean": BOOLEAN,
        "Date": DATE, "Datetime": DATE_TIME, "Duration": DURATION, "Time": CLOCK,
    }.get(name)  # fmt: skip


def type_of_pandas(kind: Any) -> str | None:
    """
    Return the type of a column of pandas in the words of the table; None if only its values tell.
    """
    if hasattr(kind, "pyarrow_dtype"):
        return type_of_arrow(kind.pyarrow_dtype)
    if hasattr(kind, "categories"):
        return type_of_pandas(kind.categories.dtype)
    if hasattr(kind, "subtype") and type(kind).__name__ == "SparseDtype":
        return type_of_pandas(kind.subtype)
    name = type(kind).__name__
    if name in {"PeriodDtype", "IntervalDtype"}:
        return OTHER
    if name == "StringDtype":
        return TEXT
    by_letter = {"b": BOOLEAN, "i": WHOLE, "u": WHOLE, "f": FLOAT, "c": OTHER, "M": DATE_TIME}
    return {**by_letter, "m": DURATION, "S": BYTES, "U": TEXT}.get(kind.kind)


def check_columns(types: Iterable[tuple[str, Any, Any, str | None]]) -> None:
    """
    Refuse columns whose type can never give the field that they are read for.

    Args:
        types: of each column the field that it is read for, its name, its library's type, and that
            in the words of the table (None: only the values say it).
    Raises:
        TypeError: one has such a type.
    """
    for field, name, kind, found in types:
        if found is not None and found not in LEGAL[field]:
            raise TypeError(f"the column {name!r} has the type {kind}: {_never(field, found)}")
        if field == "doc_id" and is_narrow(kind, found):
            raise TypeError(f"the column {name!r} has the type {kind}: {NARROW_SAID}")


def is_narrow(kind: Any, found: str | None) -> bool:
    """
    Return whether a type of Arrow, numpy, pandas or polars has floats of less than 64 bits.

    Args:
        kind: the library's type.
        found: that in the words of the table.

    >>> is_narrow(np.dtype("float32"), FLOAT), is_narrow(np.dtype("float64"), FLOAT)
    (True, False)
    """
    return found == FLOAT and _NARROW.search(str(kind)) is not None


def _never(field: str, found: str) -> str:
    """Return why a type is refused, and what is taken instead."""
    legal = [name for name in dict.fromkeys(name for _, name in _TYPES) if name in LEGAL[field]]
    what = _CALLED.get(field, f"a {field.replace('_', ' ')}")
    remedy = _REMEDIES.get(found, "convert it to one of them, or name another column")
    return f"{found} is never {what}, only {', '.join(legal[:-1])} and {legal[-1]} are: {remedy}"


# ---- values


def plain(value: Any) -> Any:
    """
    Return a value of Arrow as Python's own, and any other value as it is.

    A time with nanoseconds, which Python's have not, is one of pandas, or text without pandas.
    """
    if not hasattr(value, "as_py"):
        return value
    try:
        return value.as_py()
    except ValueError:
        if not str(getattr(value, "type", "")).startswith("timestamp[ns"):
            raise
        return str(value.cast("string")).replace(" ", "T")


def field_value(field: str, value: Any, note: Callable[[str], None] = lambda _: None) -> str:
    """
    Return a value as the message of its document has it.

    Args:
        field: what it is read for.
        value: Python's or numpy's own value; not a missing one.
        note: is called with what had to be assumed, such as `UTC_SAID`.
    Raises:
        TypeError: no value of this type can be the field.
        DocumentError: this value cannot be the field.

    >>> field_value("doc_id", 7.0), field_value("fetched_at", date(2024, 5, 1))
    ('7', '2024-05-01T00:00:00Z')
    """
    # What nearly every text is. A time that only looks like one is the decoder's error.
    if type(value) is str and (field != "fetched_at" or (value[10:11], value[-1:]) == ("T", "Z")):
        return value
    found = type_of(value)
    if found not in LEGAL[field]:
        raise TypeError(f"{field} is {shown(value)}: {_never(field, found)}")
    if found == TEXT:  # of a subclass, which may show itself as another text, as an Enum does
        value = str.__str__(value)
    if found == BYTES:
        value = _decoded(field, bytes(value))
    if field == "doc_id":
        return _name(value, found)
    return _time(value, found, note) if field == "fetched_at" else str(value)


def _decoded(field: str, value: bytes) -> str:
    """Return the text of bytes. An id that is no text to be read has hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        if field == "doc_id":
            return value.hex()
        raise DocumentError(
            "invalid-field",
            f"{field} is {shown(value)}, not UTF-8 ({error.reason} at byte {error.start}): decode "
            f"it, or give its bytes as base64 in body_base64",
        ) from None
    return value.hex() if field == "doc_id" and _CONTROL.search(text) else text


def _name(value: Any, found: str) -> str:
    """Return the doc_id that a value stands for."""
    if found in _NUMBERS:
        number = _whole(value)
        if number is None:
            raise DocumentError(
                "invalid-field",
                f"doc_id is {shown(value)}: a number is an id if it is whole, and as a float "
                f"below 2**53 (of 32 bits 2**24). Write it as text",
            )
        return str(number)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _whole(value: Any) -> int | None:
    """Return the whole number that a number is; None if it is none."""
    if isinstance(value, Decimal):
        is_short = value.is_finite() and value.adjusted() < DOC_ID_BYTES_MAX
        return int(value) if is_short and value == value.to_integral_value() else None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, np.floating) and abs(value) >= 2.0 ** (np.finfo(value).nmant + 1):
        return None  # it stands for several whole numbers
    return whole_number(float(value))


def _time(value: Any, found: str, note: Callable[[str], None]) -> str:
    """Return a time as ISO 8601 with its offset, where it can be read."""
    if found in _NUMBERS:
        return _unix_time(value, note)
    if isinstance(value, np.datetime64):
        note(UTC_SAID)
        return f"{np.datetime_as_string(value, unit='ms')}Z"
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is not None:
            # A message names its zone in whole minutes. Zones of the past had seconds, too.
            has_seconds = offset % timedelta(minutes=1) != timedelta(0)
            return (value.astimezone(UTC) if has_seconds else value).isoformat()
        note(UTC_SAID)
        return f"{value.isoformat()}Z"
    if isinstance(value, date):
        note(UTC_SAID)
        return f"{value.isoformat()}T00:00:00Z"
    return _written_time(str(value), note)


def _written_time(text: str, note: Callable[[str], None]) -> str:
    """
    Return a text with a time as a message has it; one that cannot be read as it is.

    >>> _written_time("2024-05-01 12:00:00+02", print), _written_time("no time", print)
    ('2024-05-01T12:00:00+02:00', 'no time')
    """
    found = _DATED.fullmatch(text)
    if found is not None:
        day, clock, zone = found.groups()
        if not zone:
            note(UTC_SAID)
        zone = zone.strip()
        if zone in ("", "Z", "UTC"):
            return f"{day}T{clock}Z"
        digits = zone[1:].replace(":", "")
        return f"{day}T{clock}{zone[0]}{digits[:2]}:{digits[2:] or '00'}"
    found = _DAY.fullmatch(text)
    if found is not None:
        note(UTC_SAID)
        return f"{'-'.join(found.groups())}T00:00:00Z"
    return _unix_time(Decimal(text), note) if _AS_NUMBER.fullmatch(text) else text


def _unix_time(value: Any, note: Callable[[str], None]) -> str:
    """Return a Unix time as a message has it. The size of the number tells its unit."""
    number = value if isinstance(value, Decimal) else Decimal(repr(_plain_number(value)))
    for unit, per_second in _UNITS.items():
        if number.is_finite() and _UNIX_MIN_S <= number / per_second < _UNIX_MAX_S:
            note(f"given as a number, read as Unix {unit}")
            return format_timestamp(int(number * 1_000 / per_second))
    raise DocumentError(
        "invalid-date",
        f"fetched_at is {shown(value)}: as a number, it must be the seconds, milliseconds, "
        "microseconds or nanoseconds since 1970, of a time between 1973 and 2100. "
        "Write it like 2024-05-01T12:00:00Z",
    )


def _plain_number(value: Any) -> int | float:
    return int(value) if isinstance(value, Integral) else float(value)


def shown(value: Any) -> str:
    """Show a value in an error, the beginning of a long one."""
    text = safe_repr(value)
    start = text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
    return start if value is None else f"{type(value).__name__} {start}"
