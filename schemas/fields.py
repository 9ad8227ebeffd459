"""The kinds of field that several messages share, each with its bound."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from schemas.timestamp import TIMESTAMP_PATTERN, format_timestamp, parse_timestamp

DOC_ID_BYTES_MAX = 1_024
URL_BYTES_MAX = 8_192
TOPIC_CHARACTERS_MAX = 4_096  # Kafka's own limit is 249; a run over files writes the file's path here
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1

WIRE = ConfigDict(extra="ignore", strict=True, frozen=True, populate_by_name=True)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _bytes_max(bound: int) -> AfterValidator:
    def check(text: str) -> str:
        try:
            size = len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            raise ValueError("must be Unicode text without lone surrogates") from None
        if size > bound:
            raise ValueError(f"must have at most {bound:,} bytes in UTF-8, got {size:,}")
        return text

    return AfterValidator(check)


def _read_timestamp(value: Any) -> Any:
    if isinstance(value, str):
        return _EPOCH + timedelta(milliseconds=parse_timestamp(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise ValueError("must be an ISO 8601 date-time with an offset, as a string")


def to_ms(time: datetime) -> int:
    """Return a field's time as Unix milliseconds."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _write_timestamp(value: datetime) -> str:
    return format_timestamp(to_ms(value))


DocId = Annotated[str, Field(min_length=1, max_length=DOC_ID_BYTES_MAX), _bytes_max(DOC_ID_BYTES_MAX)]
Url = Annotated[str, Field(min_length=1, max_length=URL_BYTES_MAX), _bytes_max(URL_BYTES_MAX)]
Timestamp = Annotated[
    datetime,
    BeforeValidator(_read_timestamp),
    PlainSerializer(_write_timestamp, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": TIMESTAMP_PATTERN}),
]
Topic = Annotated[str, Field(min_length=1, max_length=TOPIC_CHARACTERS_MAX)]
Partition = Annotated[int, Field(ge=0, le=PARTITION_MAX)]
Offset = Annotated[int, Field(ge=0, le=OFFSET_MAX)]
