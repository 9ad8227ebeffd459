"""
Kernels that write columns of JSON: numbers and times as text, and rows joined from columns.

The docstring of each says it in plain Python; `shell/messages/json_columns.py` checks the
arguments.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import inner, kernel
from worker.core.kernels.machine import (
    BYTE_LANES,
    byte_at,
    copy_bytes,
    read64,
    set_byte,
    where_special,
)

DECIMAL_BYTES_MAX = 19  # of an int64
HEXADECIMAL_BYTES = 16
TIME_BYTES = 24
# Of a column in `join_rows`: the address of its texts; that of their ends, 0 if there is one text
# for all rows; how many texts there are, for one its size; the address of the number that the text
# of each row has among them, 0 if it is the row's own.
DATA = 0
ENDS = 1
SIZE = 2
NUMBERS = 3
COLUMN_WORDS = 4

_U = np.uint64
_DAY_MS = 86_400_000
_ZERO = 0x30
_HYPHEN = 0x2D
_COLON = 0x3A
_POINT = 0x2E
_LETTER_T = 0x54
_LETTER_Z = 0x5A
_HEX_LETTERS_FROM = 0x61 - 10  # "a" stands for ten


@inner
def _put_digits(out: Any, at: Any, value: Any, digits: Any) -> Any:
    """Write a number with this many digits. Returns where it ends."""
    for place in range(at + digits - 1, at - 1, -1):
        set_byte(out, place, _ZERO + value % 10)
        value //= 10
    return at + digits


@kernel
def write_decimals(values: Any, out: Any, ends: Any) -> Any:
    """Write the decimals of int64 values, none below 0, back to back, and each one's end."""
    at = np.int64(0)
    for i in range(len(values)):
        digits = 1
        rest = values[i] // 10
        while rest > 0:
            digits += 1
            rest //= 10
        at = _put_digits(out, at, values[i], digits)
        ends[i] = at


@kernel
def write_hexadecimals(values: Any, out: Any) -> Any:
    """Write `b"%016x" % value` of each uint64, back to back."""
    at = np.int64(0)
    for i in range(len(values)):
        value = values[i]
        for place in range(at + HEXADECIMAL_BYTES - 1, at - 1, -1):
            digit = np.int64(value & _U(15))
            set_byte(out, place, digit + (_ZERO if digit < 10 else _HEX_LETTERS_FROM))
            value >>= _U(4)
        at += HEXADECIMAL_BYTES


@inner
def _date_of(days: Any) -> Any:
    """
    The year, month and day that is this many days after 1970-01-01.

    A year begins in March here, so that the leap day is its last, and a cycle has 400 years.
    Source: Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
    """
    days += 719_468
    cycle = days // 146_097
    day = days - cycle * 146_097
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    return year + cycle * 400 + (1 if month <= 2 else 0), month, day + 1


@kernel
def write_times(times_ms: Any, out: Any) -> Any:
    """
    Write `schemas.fields.format_timestamp` of each, back to back: Unix milliseconds in the years 1
    to 9999.
    """
    at = np.int64(0)
    for i in range(len(times_ms)):
        days = times_ms[i] // _DAY_MS
        rest = times_ms[i] - days * _DAY_MS
        year, month, day = _date_of(days)
        at = _put_digits(out, at, year, 4)
        set_byte(out, at, _HYPHEN)
        at = _put_digits(out, at + 1, month, 2)
        set_byte(out, at, _HYPHEN)
        at = _put_digits(out, at + 1, day, 2)
        set_byte(out, at, _LETTER_T)
        at = _put_digits(out, at + 1, rest // 3_600_000, 2)
        set_byte(out, at, _COLON)
        at = _put_digits(out, at + 1, rest // 60_000 % 60, 2)
        set_byte(out, at, _COLON)
        at = _put_digits(out, at + 1, rest // 1_000 % 60, 2)
        set_byte(out, at, _POINT)
        at = _put_digits(out, at + 1, rest % 1_000, 3)
        set_byte(out, at, _LETTER_Z)
        at += 1


@kernel
def has_special(data: Any, stop: Any) -> Any:
    """
    Return whether there is a byte before `stop` that JSON escapes, or that may be the first of a
    surrogate (0xED).
    """
    at = np.int64(0)
    while at + BYTE_LANES <= stop:
        if where_special(data, at):
            return True
        at += BYTE_LANES
    for place in range(at, stop):
        byte = data[place]
        if byte < 0x20 or byte == 0x22 or byte == 0x5C or byte == 0xED:
            return True
    return False


@inner
def _number_of(columns: Any, column: Any, row: Any) -> Any:
    """Return which of a column's texts a row has."""
    numbers = columns[column, NUMBERS]
    return np.int64(read64(numbers, row)) if numbers != 0 else np.int64(row)


@inner
def _span_of(columns: Any, column: Any, row: Any) -> Any:
    """The begin and end of a row's text."""
    ends = columns[column, ENDS]
    if ends == 0:
        return np.int64(0), columns[column, SIZE]
    number = _number_of(columns, column, row)
    begin = np.int64(read64(ends, number - 1)) if number > 0 else np.int64(0)
    return begin, np.int64(read64(ends, number))


@kernel
def measure_rows(columns: Any, ends: Any) -> Any:
    """
    Fill in where each row of `join_rows` will end. Returns whether each column has a text for each
    row; if not, nothing else may read them.
    """
    at = np.int64(0)
    for row in range(len(ends)):
        for column in range(len(columns)):
            if columns[column, ENDS] != 0:
                number = _number_of(columns, column, row)
                if not 0 <= number < columns[column, SIZE]:
                    return False
            begin, end = _span_of(columns, column, row)
            at += end - begin
        ends[row] = at
    return True


@kernel
def join_rows(columns: Any, rows: Any, out: Any) -> Any:
    """
    Write for each row the texts of its columns, back to back: `b"".join(texts)`.

    Args:
        columns: int64[n, COLUMN_WORDS], of each DATA, ENDS, SIZE, NUMBERS.
        rows: how many.
        out: as long as `measure_rows` has said.
    """
    at = np.int64(0)
    for row in range(rows):
        for column in range(len(columns)):
            begin, end = _span_of(columns, column, row)
            copy_bytes(columns[column, DATA], begin, out, at, end - begin)
            at += end - begin


@kernel
def compare_texts(columns: Any, equal: Any) -> Any:
    """Fill in of each row whether the texts of its two columns are equal."""
    for row in range(len(equal)):
        begin, end = _span_of(columns, 0, row)
        other, other_end = _span_of(columns, 1, row)
        same = end - begin == other_end - other
        place = np.int64(0)
        while same and begin + place < end:
            left = byte_at(columns[0, DATA], begin + place)
            same = left == byte_at(columns[1, DATA], other + place)
            place += 1
        equal[row] = same
