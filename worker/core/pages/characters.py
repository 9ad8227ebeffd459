"""
Text of a page: runs of plain characters, white space, character references; and what its bytes are.

White space is every byte up to 0x20 and the no-break space: it becomes one space, none at the start of a block.
"""

from __future__ import annotations

import html.entities
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import BYTE_LANES, byte_at, copy_plain, lanes_before, set_byte, viewer
from worker.core.pages.hashing import SEED, add_byte, finished, look_up, lookup_table

# Of each byte:
ENDS_NAME, SPACE, LETTER, EQUALS, ALNUM = 1, 2, 4, 8, 16


def _about_bytes() -> NDArray[np.uint8]:
    about = np.zeros(256, np.uint8)
    for byte in range(256):
        about[byte] |= ENDS_NAME if byte in b" \t\n\f\r/>" else 0
        about[byte] |= SPACE if byte in b" \t\n\f\r" else 0
        about[byte] |= LETTER if byte < 128 and chr(byte).isalpha() else 0
        about[byte] |= EQUALS if byte in b"=" else 0
        about[byte] |= ALNUM if byte < 128 and chr(byte).isalnum() else 0
    return about


ABOUT_BYTE = _about_bytes()

SECOND = 24  # where the second code point of a reference stands; 0xFFFFFF covers the first


def _code_points(entries: Mapping[str, str]) -> dict[str, int]:
    return {name: sum(ord(c) << SECOND * k for k, c in enumerate(text)) for name, text in entries.items()}


_html5 = html.entities.html5
REFERENCES = lookup_table(_code_points({k[:-1]: v for k, v in _html5.items() if k.endswith(";")}), 13)
references_at = viewer(REFERENCES.shape, unsigned=True)
# Those of old need no semicolon, and their longest prefix counts.
OLD_REFERENCES = lookup_table(_code_points({k: v for k, v in _html5.items() if not k.endswith(";")}), 9)
NAME_MAX, OLD_NAME_MIN, OLD_NAME_MAX = 34, 2, 6  # bytes
# What numbers 0x80 to 0x9F mean: Windows-1252.
WINDOWS = np.array([ord(bytes([n]).decode("cp1252", "replace")) for n in range(0x80, 0xA0)], np.int64)
WINDOWS[WINDOWS == 0xFFFD] = np.flatnonzero(WINDOWS == 0xFFFD) + 0x80


@fused
def about_byte(byte: Any) -> Any:
    """What a byte is: ENDS_NAME, SPACE, LETTER, EQUALS, as bits."""
    return ABOUT_BYTE[byte]


@fused
def put_space(out: Any, start: Any, at: Any) -> Any:
    """One space, unless the block that began at `start` is empty or ends in one."""
    if at > start and byte_at(out, at - 1) != 32:
        set_byte(out, at, 32)
        at += 1
    return at


@fused
def put_code_point(out: Any, at: Any, code: Any) -> Any:
    """A code point in UTF-8."""
    if code < 0x80:
        set_byte(out, at, code)
        return at + 1
    if code < 0x800:
        set_byte(out, at, 0xC0 | (code >> 6))
    else:
        if code < 0x10000:
            set_byte(out, at, 0xE0 | (code >> 12))
        else:
            set_byte(out, at, 0xF0 | (code >> 18))
            at += 1
            set_byte(out, at, 0x80 | ((code >> 12) & 63))
        at += 1
        set_byte(out, at, 0x80 | ((code >> 6) & 63))
    set_byte(out, at + 1, 0x80 | (code & 63))
    return at + 2


@fused
def _number(page: Any, i: Any, end: Any) -> Any:
    """A reference by number at '&#': (code point, where it ends), or (0, i) when it is none."""
    j = i + 2
    base = np.int64(10)
    if byte_at(page, j) | 32 == 120:  # x
        base = np.int64(16)
        j += 1
    code: Any = np.int64(0)
    begin = j
    while j < end:
        byte = byte_at(page, j)
        if 48 <= byte <= 57:
            digit = byte - 48
        elif base == 16 and 97 <= (byte | 32) <= 102:
            digit = (byte | 32) - 87
        else:
            break
        code = min(code * base + digit, 0x110000)
        j += 1
    if j == begin:
        return np.int64(0), i
    if byte_at(page, j) == 59 and j < end:
        j += 1
    if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        code = np.int64(0xFFFD)
    elif 0x80 <= code < 0xA0:
        code = WINDOWS[code - 0x80]
    return code, j


@apart
def reference(page: Any, i: Any, end: Any, names: Any) -> Any:
    """The character reference at '&': (one code point or two, where it ends), or (0, i) when it is none."""
    if byte_at(page, i + 1) == 35 and i + 1 < end:
        return _number(page, i, end)
    j = i + 1
    stop = min(end, j + NAME_MAX)
    key = SEED
    found, found_end = np.int64(0), i
    while j < stop:
        byte = byte_at(page, j)
        if not ABOUT_BYTE[byte] & ALNUM:
            break
        key = add_byte(key, byte)
        j += 1
        if OLD_NAME_MIN <= j - i - 1 <= OLD_NAME_MAX:
            old = look_up(OLD_REFERENCES, finished(key))
            if old != 0:
                found, found_end = old, j
    if j < end and byte_at(page, j) == 59:
        value = look_up(references_at(names), finished(key))
        if value != 0:
            return value, j + 1
    return found, found_end


@apart
def copy_text(page: Any, i: Any, end: Any, out: Any, start: Any, at: Any, names: Any) -> Any:  # noqa: PLR0912
    """
    Copy text from `page[i]` to the next '<' or the end; returns (where that is, where the text ends).

    Args:
        start: where the block of text begins in `out`; `at`: where it ends so far.
        names: the address of REFERENCES.
    """
    while i < end:
        byte = byte_at(page, i)
        if byte <= 32:
            at = put_space(out, start, at)
            i += 1
            while i < end and byte_at(page, i) <= 32:
                i += 1
            continue
        stop = min(lanes_before(copy_plain(page, i, out, at)), end - i)
        i += stop
        at += stop
        if stop == BYTE_LANES or i >= end:
            continue
        byte = byte_at(page, i)
        if byte == 60:
            break
        if byte <= 32:
            continue
        if byte == 38:
            value, after = reference(page, i, end, names)
            if after == i:
                set_byte(out, at, 38)
                at += 1
                i += 1
                continue
            i = after
            first = value & 0xFFFFFF
            if first <= 32 or first == 0xA0:
                at = put_space(out, start, at)
            else:
                at = put_code_point(out, at, first)
                if value >> SECOND:
                    at = put_code_point(out, at, value >> SECOND)
        elif byte_at(page, i + 1) == 0xA0:
            at = put_space(out, start, at)
            i += 2
        else:
            set_byte(out, at, byte)
            at += 1
            i += 1
    return i, at


@fused
def copy_verbatim(page: Any, i: Any, end: Any, out: Any, start: Any, at: Any) -> Any:
    """Copy text that holds neither markup nor references; returns where it ends."""
    while i < end:
        byte = byte_at(page, i)
        if byte <= 32:
            at = put_space(out, start, at)
        elif byte == 0xC2 and byte_at(page, i + 1) == 0xA0:
            at = put_space(out, start, at)
            i += 1
        else:
            set_byte(out, at, byte)
            at += 1
        i += 1
    return at
