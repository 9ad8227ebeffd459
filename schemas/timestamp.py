"""Times on the wire: ISO 8601 with an offset in, UTC with milliseconds out; Unix milliseconds inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

TIMESTAMP_MS_MIN = 0  # 1970-01-01: before the web; what lies below comes from a clock that was never set
TIMESTAMP_MS_MAX = 253_402_300_799_999  # the end of the year 9999: the last that ISO 8601 writes in four digits
TIMESTAMP_PATTERN = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}:[0-9]{2})$"
)

_matches = re.compile(TIMESTAMP_PATTERN.removesuffix("$") + r"\Z").match  # `$` would let a last newline pass
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_YEAR = re.compile(r"(?:[+-][0-9]+|0000|[0-9]{5,})-[0-9]{2}(?:-|\Z)")
_DATE_ONLY = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}\Z")
_NO_OFFSET = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+\Z")
_SECONDS_KEPT = 4_096  # times of a live crawl repeat their second; 0.5 MB
_DAYS_KEPT = 4_096  # eleven years of crawling, 0.4 MB
_MINUTES = tuple(f"{minute // 60:02d}:{minute % 60:02d}:" for minute in range(1_440))


class TimestampError(ValueError):
    """A text that is no time we take. `out_of_range`: a time it is, but outside the bounds."""

    def __init__(self, rule: str, *, out_of_range: bool = False) -> None:
        super().__init__(rule)
        self.out_of_range = out_of_range


def parse_timestamp(text: str) -> int:
    """
    Read an ISO 8601 date-time with an offset as Unix milliseconds; what is finer than a millisecond is cut off.

    A time without an offset is refused, not taken for UTC: it would be hours wrong without anybody seeing it.

    Raises:
        TimestampError: the rule that the text breaks, and the remedy.

    Cost: O(1), 0.9 us.

    >>> parse_timestamp("2024-05-01T14:00:00.5+02:00")
    1714564800500
    >>> parse_timestamp("2024-05-01")
    Traceback (most recent call last):
    schemas.timestamp.TimestampError: a date without a time of day: write it like 2024-05-01T12:00:00Z
    """
    if _matches(text):
        try:
            since = datetime.fromisoformat(text) - _EPOCH
        except ValueError as error:
            raise _refusal(text, str(error)) from None
        timestamp_ms = since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000
        if TIMESTAMP_MS_MIN <= timestamp_ms <= TIMESTAMP_MS_MAX:
            return timestamp_ms
        raise TimestampError(_RANGE, out_of_range=True)
    raise _refusal(text, "write it like 2024-05-01T12:00:00Z")


def format_timestamp(timestamp_ms: int) -> str:
    """
    Write Unix milliseconds as UTC with milliseconds, always 24 characters.

    Raises:
        OverflowError, ValueError: outside the years 1 to 9999.

    Cost: O(1), 0.3 us when its second was written lately, else 1 us.

    >>> format_timestamp(1714564800500)
    '2024-05-01T12:00:00.500Z'
    """
    second, millisecond = divmod(timestamp_ms, 1_000)
    return f"{_format_second(second)}{millisecond:03d}Z"


@lru_cache(maxsize=_SECONDS_KEPT)
def _format_second(second: int) -> str:
    day, second = divmod(second, 86_400)
    minute, second = divmod(second, 60)
    return f"{_format_day(day)}{_MINUTES[minute]}{second:02d}."


@lru_cache(maxsize=_DAYS_KEPT)
def _format_day(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()[:11]


_RANGE = f"it must lie between {format_timestamp(TIMESTAMP_MS_MIN)} and {format_timestamp(TIMESTAMP_MS_MAX)}"


def _refusal(text: str, remedy: str) -> TimestampError:
    """Say which rule a text breaks that did not parse. Only the start is looked at: a text may be megabytes long."""
    start = text[:64]
    if _FAR_YEAR.match(start):
        return TimestampError(_RANGE, out_of_range=True)
    if _DATE_ONLY.match(start):
        return TimestampError("a date without a time of day: write it like 2024-05-01T12:00:00Z")
    if _NO_OFFSET.match(start):
        return TimestampError("a time without an offset: add Z if it is UTC, else the offset, like +02:00")
    return TimestampError(f"not an ISO 8601 date-time with an offset: {remedy}")
