"""
Reads the text of an article from JSON-LD, and writes it as HTML.

    {"@type": "NewsArticle", "headline": "...", "articleBody": "The ferry was late. Nobody ..."}

All strings that are named `articleBody` are read, in their order: a live blog has one per
update, and a list of posts would otherwise be read as one of them.

Such a string is text, not markup, though some sites leave tags in it. So a tag is dropped, but for
the paragraph that it begins; so is a comment that ends. Any other "<" is a character, and hides
nothing behind it. Character references are left for the scanner.

`tests/core/pages/embedded_reference.py` says the same in plain Python.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused, fused_allocating
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    SLACK,
    byte_at,
    put_code_point,
    set_byte,
)
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, ARTICLE_BODY, LETTER

_PARAGRAPH = np.frombuffer(b"<p>", np.uint8)
_LESS = np.frombuffer(b"&lt;", np.uint8)
_COMMENT = np.frombuffer(b"!--", np.uint8)
GROWTH = 4  # bytes that one of a text becomes, at most: "&lt;"


@fused
def put_bytes(out: Any, at: Any, word: Any) -> Any:
    """Write an array of bytes; return where it ends."""
    for k in range(len(word)):
        set_byte(out, at + k, np.int64(word[k]))
    return at + len(word)


@fused_allocating
def article_text(page: Any, begin: Any, end: Any) -> Any:
    """
    Return the text of the articles in a script of JSON-LD, `page[begin:end]`, a line break before
    each, with SLACK zeros behind it; and its size, 0 if there is none.
    """
    text = np.zeros(end - begin + SLACK, np.uint8)
    to = np.int64(text.ctypes.data)
    at = np.int64(0)
    i = characters.find_quoted(page, begin, end, ARTICLE_BODY)
    while i < end:
        i = characters.skip_space(page, i + len(ARTICLE_BODY), end)
        if i < end and byte_at(page, i) == 58:
            i = characters.skip_space(page, i + 1, end)
            if i < end and byte_at(page, i) == 34:
                stop = end_of_string(page, i + 1, end)
                if stop < end:
                    set_byte(to, at, np.int64(10))
                    at = put_string(page, i + 1, stop, to, at + 1)
                i = stop + 1
        i = characters.find_quoted(page, i, end, ARTICLE_BODY)
    text[at : at + SLACK] = 0
    return text, at


@fused
def end_of_string(page: Any, i: Any, end: Any) -> Any:
    while i < end and byte_at(page, i) != 34:
        i += 2 if byte_at(page, i) == 92 else 1
    return i


@fused
def put_string(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """Write a string of JSON as the text that it stands for. Returns where it ends."""
    while i < end:
        byte = byte_at(page, i)
        if byte != 92:
            set_byte(out, at, byte)
            at += 1
            i += 1
            continue
        escape = byte_at(page, i + 1)
        i += 2
        if escape == 117:  # u
            code, i = _code_unit(page, i, end)
            if 0xD800 <= code < 0xDC00 and byte_at(page, i) == 92 and byte_at(page, i + 1) == 117:
                low, after = _code_unit(page, i + 2, end)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    i = after
            if 0xD800 <= code < 0xE000:
                code = np.int64(0xFFFD)
            at = put_code_point(out, at, code)
        elif escape == 110 or escape == 114:  # n, r
            set_byte(out, at, np.int64(10))
            at += 1
        elif escape == 98 or escape == 102 or escape == 116:  # b, f, t
            set_byte(out, at, np.int64(32))
            at += 1
        elif escape < 0x80:
            set_byte(out, at, escape)
            at += 1
        else:  # no escape: the character stands for itself
            i -= 1
    return at


@fused
def _code_unit(page: Any, i: Any, end: Any) -> Any:
    """
    Return the number in four hexadecimal digits, and where they end.

    Others stand for the u itself: U+FFFD would be longer than its escape, and the text longer than
    the room's.
    """
    code = np.int64(0)
    for k in range(4):
        byte = byte_at(page, i + k) if i + k < end else np.int64(0)
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= (byte | 32) <= 102:
            digit = (byte | 32) - 87
        else:
            return np.int64(117), i
        code = code * 16 + digit
    return code, i + 4


@apart
def put_text(array: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Write a text as HTML; a line break begins a paragraph. Returns where it ends.

    The array of the text is its caller's, who holds it while this runs.
    """
    text = np.int64(array.ctypes.data)
    i = np.int64(0)
    may_end = True  # whether a comment may still end behind i: looked for in vain once
    while i < end:
        byte = byte_at(text, i)
        if byte == 10:
            at = put_bytes(out, at, _PARAGRAPH)
            i += 1
        elif byte != 60:
            set_byte(out, at, byte)
            at += 1
            i += 1
        elif may_end and characters.spells(text, i + 1, end, _COMMENT, 0):
            after = _behind_comment(text, i + 4, end)
            may_end = after > 0
            i = max(i, after)
        else:
            after, divides = behind_tag(text, i, end)
            if divides:
                at = put_bytes(out, at, _PARAGRAPH)
            elif after == i:
                at = put_bytes(out, at, _LESS)
                after += 1
            i = after
    return at


@fused
def _behind_comment(text: Any, i: Any, end: Any) -> Any:
    """Return where a comment ends, 0 if it never does."""
    begin = i
    while True:
        i = machine.find_greater_than(text, i, end)
        if i >= end:
            return np.int64(0)
        if i - begin >= 2 and byte_at(text, i - 1) == 45 and byte_at(text, i - 2) == 45:
            return i + 1
        i += 1


@fused
def behind_tag(text: Any, begin: Any, end: Any) -> Any:
    """
    Return where a tag ends that begins here, and whether it divides blocks; where it begins if it
    is none. A tag has a name, and no "<" before its ">".
    """
    i = begin + 2 if byte_at(text, begin + 1) == 47 else begin + 1
    if not ABOUT_BYTE[byte_at(text, i)] & LETTER:
        return begin, False
    stop = machine.find_tag_edge(text, i, end)
    if stop >= end or byte_at(text, stop) == 60:
        return begin, False
    key = names.SEED
    while i < stop and not ABOUT_BYTE[byte_at(text, i)] & characters.ENDS_NAME:
        byte = byte_at(text, i)
        key = names.add_byte(key, byte | 32 if 65 <= byte <= 90 else byte)
        i += 1
    element = names.look_up(names.TAG_TABLE, names.finished(key))
    return stop + 1, element & names.BLOCK != 0 or element & names.TAG == names.BR
