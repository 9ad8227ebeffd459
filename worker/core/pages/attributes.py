"""The attributes of a tag, as far as they say what a container is: class, id, style, hidden, role, itemprop, href."""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import byte_at, find_apostrophe, find_quote
from worker.core.pages.characters import ENDS_NAME, EQUALS, LETTER, SPACE, about_byte
from worker.core.pages.hashing import SEED, add_byte, finished, look_up
from worker.core.pages.names import (
    ARTICLE_BODY,
    BODY_WORD,
    HIDDEN,
    POSITIVE,
    ROLE_TABLE,
    STATE_WORD,
    TRUE,
    WORD_TABLE,
)

U = np.uint64
HAS_HREF, SELF_CLOSING = 1 << 30, 1 << 31  # beside the flags of words
CLASS_MAX, STYLE_MAX, VALUE_MAX = 512, 256, 24  # bytes that are read of a value
ID_WORDS_MAX = 3  # an id of more words is made of a heading's
WORD_MAX = 15  # letters


def _letters(word: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(word, np.uint8)


DISPLAY, NONE, VISIBILITY, HIDDEN_WORD = map(_letters, (b"display", b"none", b"visibility", b"hidden"))
ARIA = _letters(b"aria")


def _packed(name: str) -> np.uint64:
    """The last eight bytes of a name as a number: with its length all that is needed to know these."""
    return np.uint64(int.from_bytes(name.encode()[-8:], "big"))


CLASS, ID, STYLE, HIDDEN_NAME, ROLE, HREF = map(_packed, ("class", "id", "style", "hidden", "role", "href"))
ITEMPROP, ARIA_HIDDEN = map(_packed, ("itemprop", "aria-hidden"))


@apart
def read_attributes(page: Any, j: Any, end: Any, reads: Any) -> Any:
    """
    From behind a tag's name to its '>'; returns (where that is, flags). Without a '>' that is `end`: no tag.

    Args:
        reads: not 0 when the values matter.
    """
    flags = np.int64(0)
    slash = False
    while j < end:
        byte = byte_at(page, j)
        if byte == 62:
            break
        slash = byte == 47
        if about_byte(byte) & ENDS_NAME:
            j += 1
            continue
        name, begin = U(0), j
        while True:  # its first byte may be '='
            if 65 <= byte <= 90:
                byte |= 32
            name = (name << U(8)) | U(byte)
            j += 1
            byte = byte_at(page, j)
            if j >= end or about_byte(byte) & (ENDS_NAME | EQUALS):
                break
        size = j - begin
        j, value, value_end = _value(page, j, end)
        if reads:
            flags |= _meaning(page, begin, name, size, value, value_end)
    return min(j, end), flags | (SELF_CLOSING if slash else 0)


@fused
def _value(page: Any, j: Any, end: Any) -> Any:
    """What follows an attribute's name: (where it ends, begin of the value, its end)."""
    after = j
    while after < end and about_byte(byte_at(page, after)) & SPACE:
        after += 1
    if after >= end or byte_at(page, after) != 61:
        return after, after, after
    j = after + 1
    while j < end and about_byte(byte_at(page, j)) & SPACE:
        j += 1
    byte = byte_at(page, j)
    if byte == 34 or byte == 39:
        begin = min(j + 1, end)
        stop = find_quote(page, begin, end) if byte == 34 else find_apostrophe(page, begin, end)
        return min(stop + 1, end), begin, stop
    begin = j
    while j < end and not about_byte(byte_at(page, j)) & SPACE and byte_at(page, j) != 62:
        j += 1
    return j, begin, j


@fused
def _meaning(page: Any, begin: Any, name: Any, size: Any, value: Any, end: Any) -> Any:  # noqa: PLR0911
    """What an attribute says, as flags."""
    if (size == 5 and name == CLASS) or (size == 2 and name == ID):
        return _words_of(page, value, min(end, value + CLASS_MAX), ID_WORDS_MAX if size == 2 else CLASS_MAX)
    if size == 4 and name == HREF:  # a place in this page is no other page; "#" alone is a script's
        return 0 if byte_at(page, value) == 35 and end - value > 1 else HAS_HREF
    if size == 5 and name == STYLE:
        return HIDDEN if _style_hides(page, value, min(end, value + STYLE_MAX)) else 0
    if size == 6 and name == HIDDEN_NAME:
        return HIDDEN
    if size == 4 and name == ROLE:
        return look_up(ROLE_TABLE, _value_hash(page, value, end))
    if size == 8 and name == ITEMPROP:
        return BODY_WORD | POSITIVE if _value_hash(page, value, end) == ARTICLE_BODY else 0
    if size == 11 and name == ARIA_HIDDEN and _spells(page, begin, end, ARIA):
        return HIDDEN if _value_hash(page, value, end) == TRUE else 0
    return 0


@fused
def _words_of(page: Any, i: Any, end: Any, words_max: Any) -> Any:
    """
    What the words of a class or id say.

    A name that begins with a word of state ("has-sidebar") says nothing, nor does one of more words than `words_max`.
    """
    flags, of_name = np.int64(0), np.int64(0)
    key, size, words = SEED, 0, 0
    silent, lower_before = False, False
    while i <= end:
        byte = byte_at(page, i) if i < end else np.int64(32)
        about = about_byte(byte)
        upper = 65 <= byte <= 90
        if size > 0 and (not about & LETTER or (upper and lower_before)):
            if 1 < size <= WORD_MAX:
                found = look_up(WORD_TABLE, finished(key))
                if words == 0 and found & STATE_WORD:
                    silent = True
                of_name |= found
            words += 1
            key, size = SEED, 0
        if about & LETTER:
            key = add_byte(key, byte | 32)
            size += 1
        elif about & SPACE:
            flags |= 0 if silent or words > words_max else of_name
            of_name, words, silent = np.int64(0), 0, False
        lower_before = bool(97 <= byte <= 122)
        i += 1
    return flags


@fused
def _value_hash(page: Any, i: Any, end: Any) -> Any:
    """The hash of a whole value in lower case; of a longer one than VALUE_MAX bytes that of its beginning."""
    end = min(end, i + VALUE_MAX)
    key = SEED
    while i < end:
        byte = byte_at(page, i)
        if 65 <= byte <= 90:
            byte |= 32
        key = add_byte(key, byte)
        i += 1
    return finished(key)


@fused
def _spells(page: Any, i: Any, end: Any, word: Any) -> Any:
    """Whether these letters stand at i, in either case."""
    if i + len(word) > end:
        return False
    for k in range(len(word)):  # noqa: SIM110  # numba knows no all()
        if byte_at(page, i + k) | 32 != word[k]:
            return False
    return True


@fused
def _style_hides(page: Any, i: Any, end: Any) -> Any:
    """Whether a style says display: none or visibility: hidden."""
    begin = i
    while i < end:
        if byte_at(page, i) == 58:
            after = i + 1
            while after < end and byte_at(page, after) == 32:
                after += 1
            if _spells(page, after, end, NONE) and i - begin >= 7 and _spells(page, i - 7, i, DISPLAY):
                return True
            if _spells(page, after, end, HIDDEN_WORD) and i - begin >= 10 and _spells(page, i - 10, i, VISIBILITY):
                return True
        i += 1
    return False
