"""Reads times as users write them: an age or a retention such as 90m, or a date and time."""

from __future__ import annotations

import re
import time

from schemas.fields import TimestampError, parse_timestamp
from worker.errors import StopError

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def duration_s(text: str) -> float | None:
    """
    Read a time such as 30d, 12h, 90m, 3600s or 6w, as seconds; None if it is none.

    >>> duration_s("30d"), duration_s("1.5h"), duration_s("soon")
    (2592000.0, 5400.0, None)
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhdw])", text.strip())
    return float(found[1]) * _UNITS_S[found[2]] if found else None


def time_ms(text: str, now_ms: int | None = None) -> int:
    """
    Return a date and time, or an age such as 15m, as Unix milliseconds.

    Raises:
        StopError: it is neither.

    >>> time_ms("2h", 7_200_500), time_ms("1970-01-01T00:00:01Z")
    (500, 1000)
    """
    age_s = duration_s(text)
    if age_s is not None:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(now_ms - round(age_s * 1_000), 0)
    try:
        return max(parse_timestamp(text), 0)
    except TimestampError as error:
        raise StopError(
            f"a time is like 2026-01-31T12:00:00Z, or 90s, 15m, 2h, 7d ago, got {text!r}"
        ) from error
