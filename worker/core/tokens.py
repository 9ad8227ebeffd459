"""
The definition, step 2: normalised text to tokens.

A token is a run of letters, digits and combining marks; in scripts without spaces (Han, kana, Hangul, Thai, Lao, Khmer,
Burmese) it is one character with the marks of these scripts that follow it. Everything else separates. Each character
is folded: lower case, compatibility form where that is one code point, ASCII digit.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from worker.core.unicode_table import (
    CHARACTER,
    CHARACTER_MARK,
    IGNORED,
    SEPARATOR,
    WORD,
    nfc,
    token_kinds,
    unicode_table,
)

MASK = "0"  # what a masked token counts as
HEXADECIMAL_MIN = 4  # characters: "2b4d" is masked; "b4" and "a1" name things
IDENTIFIER_MIN = 16  # characters of a mixed token: longer than the words of most languages


def tokens(text: str, unit: Literal["word", "character"] = "word") -> list[str]:
    """
    Return the tokens of a text, folded, in order.

    Args:
        text: any string; lone surrogates and code points younger than the table separate.
        unit: "character" makes every letter and digit a token, in every script.

    Cost: O(len(text)), about 1 µs a character: this is the definition, the kernel is the fast one.

    >>> tokens("Don’t PANIC: 東京へ")
    ['don', 't', 'panic', '東', '京', 'へ']
    >>> tokens("abc", unit="character")
    ['a', 'b', 'c']
    """
    kinds, folded = _columns(unit)
    out: list[str] = []
    before = SEPARATOR  # what the last character was, invisible ones apart
    for character in nfc(text):
        code = ord(character)
        kind = int(kinds[code])
        if kind == IGNORED:
            continue
        joins = before == WORD if kind == WORD else kind == CHARACTER_MARK and before in (CHARACTER, CHARACTER_MARK)
        if joins:
            out[-1] += chr(folded[code])
        elif kind != SEPARATOR:
            out.append(chr(folded[code]))
        before = kind
    return out


def tokens_quickly(text: str) -> list[str]:
    """
    Return the tokens of a text as `tokens` does, but for characters younger than the interpreter's Unicode in NFC.

    Cost: some 30 ns a character: for measurements, never for fingerprints.

    >>> tokens_quickly("Don’t PANIC: 東京へ") == tokens("Don’t PANIC: 東京へ")
    True
    """
    kinds, folded = _columns("word")
    points = np.frombuffer(unicodedata.normalize("NFC", text).encode("utf-32-le", "surrogatepass"), np.uint32)
    points = points[kinds[points] != IGNORED]
    kind = kinds[points]
    before = np.concatenate([[SEPARATOR], kind])[:-1]
    joins = (kind == WORD) & (before == WORD)
    joins |= (kind == CHARACTER_MARK) & ((before == CHARACTER) | (before == CHARACTER_MARK))
    written = np.where(kind == SEPARATOR, ord(" "), folded[points])
    spaced = np.insert(written, np.flatnonzero(~joins), ord(" ")).astype("<u4")
    return [token for token in spaced.tobytes().decode("utf-32-le").split(" ") if token]


@cache
def _columns(unit: Literal["word", "character"]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    return token_kinds(unit), unicode_table().folded


def masked(token: str, numbers: bool, identifiers: bool) -> str:
    """
    Return the token, or MASK when it is volatile: changed by the clock or the visitor instead of by an author.

    Args:
        numbers: mask a token of which half the characters or more are digits: numbers, and parts of dates and times.
        identifiers: mask a token of 4 or more hexadecimal digits, at least one of them decimal; and one of 16 or more
            characters with at least two decimal digits among them.

    Cost: O(len(token)).

    >>> [masked(token, True, True) for token in ("2024", "1st", "deadbeef", "deadbee1", "covid19")]
    ['0', '1st', 'deadbeef', '0', 'covid19']
    """
    digits = sum("0" <= character <= "9" for character in token)
    if numbers and 2 * digits >= len(token):
        return MASK
    if identifiers and digits >= 1:
        hexadecimal = all(character in "0123456789abcdef" for character in token)
        if (hexadecimal and len(token) >= HEXADECIMAL_MIN) or (digits >= 2 and len(token) >= IDENTIFIER_MIN):
            return MASK
    return token
