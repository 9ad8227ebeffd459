"""
JSON as bytes: where a string or another value ends, and strings without their escapes.

As RFC 8259, and stricter where a slower reader may look again: lone surrogates, numbers with an exponent or of many
digits, and nesting beyond 60 levels count as errors. Positions beyond the end may be read, as SLACK allows.
"""

# ruff: noqa: PLR0911, PLR0912, PLR1714, SIM109  # kernels return where they find out; "in (…)" compiles a function each
from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import (
    BYTE_LANES,
    PLACE,
    any_of,
    below,
    bits_of,
    byte_at,
    instruction,
    lanes_before,
    set_byte,
    store,
    vector,
)

QUOTE, COMMA, MINUS, POINT, COLON, BACKSLASH = 0x22, 0x2C, 0x2D, 0x2E, 0x3A, 0x5C
OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D
LETTER_U = 0x75
DEPTH_MAX = 60
DIGITS_MAX = 15
VALUE, FIRST_VALUE, NAME, FIRST_NAME, AFTER = 0, 1, 2, 3, 4  # what may come next
LITERALS = np.frombuffer(b"truefalsenull", np.uint8)
ESCAPES = np.zeros(256, np.uint8)  # what an escape stands for; 0: no escape
ESCAPES[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


@instruction(types.uint64, PLACE, PLACE)
def _copy_to_stop(builder: Any, source: Any, out: Any) -> Any:
    """Copy 32 bytes; bit i is set when byte `position + i` is a quote, a backslash or a control."""
    block = vector(builder, source, 8, BYTE_LANES)
    store(builder, block, out)
    stop = builder.or_(below(builder, block, 0x20), any_of(builder, block, bytes([QUOTE, BACKSLASH])))
    return bits_of(builder, stop)


@fused
def skip_blank(page: Any, i: Any, end: Any) -> Any:
    """The next position that is no white space, `end` at most."""
    while i < end and (byte_at(page, i) == 0x20 or 9 <= byte_at(page, i) <= 10 or byte_at(page, i) == 13):
        i += 1
    return i


@fused
def _hex(page: Any, i: Any) -> Any:
    """The number of four hexadecimal digits; negative when they are not."""
    value = np.int64(0)
    for k in range(i, i + 4):
        byte = byte_at(page, k)
        letter = byte | 0x20
        if 0x30 <= byte <= 0x39:
            value = value << 4 | (byte - 0x30)
        elif 0x61 <= letter <= 0x66:
            value = value << 4 | (letter - 0x57)
        else:
            return np.int64(-1)
    return value


@fused
def _put(out: Any, at: Any, code: Any) -> Any:
    """Write a code point as UTF-8; returns where it ends."""
    if code < 0x80:
        set_byte(out, at, code)
        return at + 1
    if code < 0x800:
        set_byte(out, at, 0xC0 | code >> 6)
        set_byte(out, at + 1, 0x80 | (code & 63))
        return at + 2
    if code < 0x10000:
        set_byte(out, at, 0xE0 | code >> 12)
        set_byte(out, at + 1, 0x80 | (code >> 6 & 63))
        set_byte(out, at + 2, 0x80 | (code & 63))
        return at + 3
    set_byte(out, at, 0xF0 | code >> 18)
    set_byte(out, at + 1, 0x80 | (code >> 12 & 63))
    set_byte(out, at + 2, 0x80 | (code >> 6 & 63))
    set_byte(out, at + 3, 0x80 | (code & 63))
    return at + 4


@apart
def read_string(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Write the string that begins at `i`, behind its quote, to `out`, without its escapes.

    Returns where its other quote stands (-1: nowhere), and where it ends in `out`.
    """
    while i < end:
        found = _copy_to_stop(page, i, out, at)
        if not found:
            i += BYTE_LANES
            at += BYTE_LANES
            continue
        size = lanes_before(found)
        i += size
        at += size
        if i >= end:
            break
        byte = byte_at(page, i)
        if byte == QUOTE:
            return i, at
        if byte != BACKSLASH:
            break
        if byte_at(page, i + 1) != LETTER_U:
            plain = np.int64(ESCAPES[byte_at(page, i + 1)])
            if plain == 0:
                break
            set_byte(out, at, plain)
            at += 1
            i += 2
            continue
        code = _hex(page, i + 2)
        if code < 0 or 0xDC00 <= code < 0xE000:
            break
        i += 6
        if 0xD800 <= code < 0xDC00:
            if byte_at(page, i) != BACKSLASH or byte_at(page, i + 1) != LETTER_U:
                break
            low = _hex(page, i + 2)
            if not 0xDC00 <= low < 0xE000:
                break
            code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
            i += 6
        at = _put(out, at, code)
    return np.int64(-1), at


@fused
def _literal_end(page: Any, i: Any, first: Any, stop: Any) -> Any:
    for k in range(first, stop):
        if byte_at(page, i + k - first) != LITERALS[k]:
            return np.int64(-1)
    return i + stop - first


@fused
def _digits_end(page: Any, i: Any) -> Any:
    while 0x30 <= byte_at(page, i) <= 0x39:
        i += 1
    return i


@fused
def _scalar_end(page: Any, i: Any) -> Any:
    """Where a number or a literal ends; -1 for what is none."""
    byte = byte_at(page, i)
    if byte == 0x74:
        return _literal_end(page, i, 0, 4)
    if byte == 0x66:
        return _literal_end(page, i, 4, 9)
    if byte == 0x6E:
        return _literal_end(page, i, 9, 13)
    i += byte == MINUS
    stop = _digits_end(page, i)
    if stop == i or stop - i > DIGITS_MAX or (byte_at(page, i) == 0x30 and stop > i + 1):
        return np.int64(-1)
    if byte_at(page, stop) == POINT:
        i = stop + 1
        stop = _digits_end(page, i)
        if stop == i or stop - i > DIGITS_MAX:
            return np.int64(-1)
    return stop


@apart
def value_end(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """Where the value that begins at `i` ends; -1: it is none, or ends behind `end`. Strings go to `out` at `at`."""
    objects, depth, wanted = np.int64(0), np.int64(0), VALUE  # bit k of objects: level k is an object, not an array
    while True:
        i = skip_blank(page, i, end)
        byte = byte_at(page, i)
        closes = (
            byte == CLOSE_ARRAY and (wanted == FIRST_VALUE or (wanted == AFTER and not objects >> depth & 1))
        ) or (byte == CLOSE_OBJECT and (wanted == FIRST_NAME or (wanted == AFTER and objects >> depth & 1)))
        if closes:
            i += 1
            depth -= 1
            wanted = AFTER
        elif wanted == AFTER:
            if byte != COMMA:
                return np.int64(-1)
            i += 1
            wanted = NAME if objects >> depth & 1 else VALUE
            continue
        elif wanted == NAME or wanted == FIRST_NAME:
            if byte != QUOTE:
                return np.int64(-1)
            i = read_string(page, i + 1, end, out, at)[0]
            if i < 0:
                return i
            i = skip_blank(page, i + 1, end)
            if byte_at(page, i) != COLON:
                return np.int64(-1)
            i += 1
            wanted = VALUE
            continue
        elif byte == OPEN_ARRAY or byte == OPEN_OBJECT:
            depth += 1
            if depth > DEPTH_MAX:
                return np.int64(-1)
            is_object = byte == OPEN_OBJECT
            objects = (objects & ~(1 << depth)) | np.int64(is_object) << depth
            i += 1
            wanted = FIRST_NAME if is_object else FIRST_VALUE
            continue
        elif byte == QUOTE:
            i = read_string(page, i + 1, end, out, at)[0]
            if i < 0:
                return i
            i += 1
            wanted = AFTER
        else:
            i = _scalar_end(page, i)
            if i < 0:
                return i
            wanted = AFTER
        if depth == 0:
            return i if i <= end else np.int64(-1)
