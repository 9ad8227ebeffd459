"""
The title of a page: which of its blocks repeats it, and its words as a set of 31 bits, by which two
pages of one host are told apart.

A title is the text of the first `<title>` that has text, wherever it stands, as a browser's tab
shows it: character references are decoded ("&amp;" is "&"). The `<title>` of a drawing (`<svg>`) or
of a `<template>` does not count. At most TITLE_MAX bytes of the source are read.

A word is a run of letters, ASCII ones in lower case; each character from U+3000 on (Chinese,
Japanese, Korean) is a word. Digits, punctuation and white space divide words. Each word sets one
bit. Titles of one page in two versions share most of their bits: "Timer (2.7.0 API)" and "Timer
(3.9.0-SNAPSHOT API)", "Print: The ferry | Post", "(3) The ferry - Courier". Two pages of one site
share the site's name at most, unless that is long. A hash of the whole title would lose 30 of 355
labelled copies of one host, and one of its letters 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.skeleton import B_END, B_START, TITLE_SIZE

WORD_BITS = 31
DIVIDING = range(0x2000, 0x3000)  # dashes, quotes, arrows …: in UTF-8 those that begin with LEAD
LEAD = 0xE2


def title_words(title: str) -> int:
    """
    Return the words of a title as a set of bits, 0 of one without words.

    >>> title_words("The ferry is late | Post") == title_words("(3)  the ferry is late – Post")
    True
    >>> bin(title_words("Late post")), title_words("2024")
    ('0b1000000000001000000000000000', 0)
    """
    bits = 0
    word = ""
    for character in [*title, " "]:
        is_word = ord(character) > DIVIDING[-1]
        is_letter = not character.isascii() and ord(character) not in DIVIDING
        if not is_word and (is_letter or (character.isascii() and character.isalpha())):
            word += character.lower() if character.isascii() else character
            continue
        for ended in (word, character if is_word else ""):
            bits |= bool(ended) << names.name_hash(ended) % WORD_BITS
        word = ""
    return bits


@fused
def words_of_title(title: Any, size: Any) -> Any:
    """Return `title_words` of a title as the scanner writes it: `size` bytes of UTF-8."""
    bits = np.uint64(0)
    key = names.SEED
    is_alone = is_skipped = False  # the character whose bytes are read: a word, or none
    for k in range(size + 1):
        byte = byte_at(title, k) if k < size else 0
        begins = byte & 0xC0 != 0x80
        if begins and (is_alone or byte > LEAD or not _is_letter(byte)) and key != names.SEED:
            bits |= np.uint64(1) << (names.finished(key) % np.uint64(WORD_BITS))
            key = names.SEED
        if begins:
            is_alone = byte > LEAD
            is_skipped = not (is_alone or _is_letter(byte))
        if not is_skipped:
            key = names.add_byte(key, byte | 32 if 65 <= byte <= 90 else byte)
    return bits


@fused
def _is_letter(byte: Any) -> Any:
    """Return whether a character that begins so is a part of a word."""
    return 97 <= byte | 32 <= 122 if byte < 0x80 else byte != LEAD


@fused
def repeats_title(room: Any, b: Any) -> Any:
    """Return whether the page's title begins or ends with the text of a block."""
    return is_at_edge(room, room.blocks[b, B_START], room.blocks[b, B_END])


@fused
def is_at_edge(room: Any, begin: Any, end: Any) -> Any:
    """
    Return whether the page's title begins or ends with the text `out[begin:end]`, in whole words
    and in either case.
    """
    size = end - begin
    behind = room.state[TITLE_SIZE] - size
    if behind < 0:
        return False
    if _spells_title(room, begin, size, np.int64(0)):
        return behind == 0 or not _is_alnum(byte_at(room.title, size))
    return _spells_title(room, begin, size, behind) and not _is_alnum(
        byte_at(room.title, behind - 1)
    )


@fused
def _spells_title(room: Any, begin: Any, size: Any, at: Any) -> Any:
    for k in range(size):
        if _lower(byte_at(room.out, begin + k)) != _lower(byte_at(room.title, at + k)):
            return False
    return True


@fused
def _lower(byte: Any) -> Any:
    return byte | 32 if 65 <= byte <= 90 else byte


@fused
def _is_alnum(byte: Any) -> Any:
    return 48 <= byte <= 57 or 97 <= (byte | 32) <= 122
