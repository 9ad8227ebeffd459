"""Times as `schemas.timestamp` reads them, from bytes."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import byte_at

DASH, POINT, COLON, PLUS, LETTER_T, LETTER_Z = 0x2D, 0x2E, 0x3A, 0x2B, 0x54, 0x5A
DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
TIME_MS_MAX = 253_402_300_799_999  # the end of the year 9999
FRACTION_MAX = 9
SHORTEST = 17  # 2024-05-01T12:00Z
NONE = -(1 << 40)


@fused
def _number(page: Any, i: Any, digits: Any) -> Any:
    """The number of so many digits; negative when they are not."""
    value = np.int64(0)
    for k in range(i, i + digits):
        digit = byte_at(page, k) - 0x30
        value = value * 10 + digit if 0 <= digit <= 9 else np.int64(NONE)
    return value


@apart
def read_time(page: Any, i: Any, end: Any) -> Any:
    """An ISO 8601 date-time with an offset as Unix milliseconds; -1 for all that `parse_timestamp` refuses."""
    if end - i < SHORTEST:
        return np.int64(-1)
    year, month, day = _number(page, i, 4), _number(page, i + 5, 2), _number(page, i + 8, 2)
    hour, minute, second, millisecond = _number(page, i + 11, 2), _number(page, i + 14, 2), np.int64(0), np.int64(0)
    good = byte_at(page, i + 4) == DASH and byte_at(page, i + 7) == DASH
    good = good and byte_at(page, i + 10) == LETTER_T and byte_at(page, i + 13) == COLON
    i += 16
    if byte_at(page, i) == COLON:
        second = _number(page, i + 1, 2)
        i += 3
        if byte_at(page, i) == POINT:
            i += 1
            first = i
            while i < end and 0x30 <= byte_at(page, i) <= 0x39:
                if i < first + 3:
                    millisecond = millisecond * 10 + byte_at(page, i) - 0x30
                i += 1
            good = good and first < i <= first + FRACTION_MAX
            for _ in range(i, first + 3):
                millisecond *= 10
    offset = np.int64(0)
    sign = byte_at(page, i)
    if sign == PLUS or sign == DASH:
        hours, minutes = _number(page, i + 1, 2), _number(page, i + 4, 2)
        good = good and byte_at(page, i + 3) == COLON and 0 <= hours < 24 and 0 <= minutes < 60 and i + 6 == end
        offset = (hours * 60 + minutes) * (1 if sign == PLUS else -1)
    else:
        good = good and sign == LETTER_Z and i + 1 == end
    good = good and year > 0 and 1 <= month <= 12 and 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    if not good:
        return np.int64(-1)
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if not 1 <= day <= DAYS[month - 1] + (month == 2 and leap):
        return np.int64(-1)
    before = year - 1  # years that are over
    days = before * 365 + before // 4 - before // 100 + before // 400 + day - 1 - 719_162
    for k in range(month - 1):
        days += DAYS[k]
    days += month > 2 and leap
    time_ms = (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000 + millisecond
    return time_ms if 0 <= time_ms <= TIME_MS_MAX else np.int64(-1)
