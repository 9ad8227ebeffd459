"""
The definition, step 2: normalised text to tokens.

A token is a run of letters, digits and combining marks; in scripts without spaces (Han, kana,
Hangul, Thai, Lao, Khmer, Burmese) it is one character with the marks of these scripts that follow
it. Everything else separates. Each character is folded: lower case, compatibility form where that
is one code point, ASCII digit.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import unicodedata2
import xxhash
from numpy.typing import NDArray

from worker.errors import StopError

# The one Unicode that fingerprints depend on: NFC, what each code point is to a token, and how it
# is folded.
#
# The table is package data with a version and a digest, and unicodedata2 composes as that version
# does, so another Python's Unicode data cannot change a fingerprint.
# `tests/core/generate_unicode_table.py` writes it. A code point younger than the table is a
# separator.

UNICODE_VERSION = "18.0.0"
# XXH64 of the file: fingerprints are only comparable under one table.
TABLE_DIGEST = "9b7db8159846a039"
CODE_POINTS = 0x110000

# What a code point is to a token.
SEPARATOR = 0  # ends a token
WORD = 1  # a letter or digit of a script with spaces: tokens are runs of these
CHARACTER = 2  # a token of its own: Han, kana, Hangul, Thai, Lao, Khmer, Burmese
WORD_MARK = 3  # combining mark of a script with spaces: part of a word
CHARACTER_MARK = 4  # combining mark of a script without: joins the character it follows
# Invisible (soft hyphen, zero-width joiner, variation selector): as if it were not there.
IGNORED = 5
_KINDS = {"w": WORD, "c": CHARACTER, "m": WORD_MARK, "n": CHARACTER_MARK, "i": IGNORED}


@dataclass(frozen=True, eq=False)
class UnicodeTable:
    """The columns of the table, indexed by code point, and the canonical pairs."""

    kind: NDArray[np.uint8]  # SEPARATOR … IGNORED
    # Lower case, compatibility form where that is one code point, ASCII digit, one form of a letter
    # that has several.
    folded: NDArray[np.uint32]
    expanded: dict[int, str]  # the folded letters of a ligature, instead of `folded`
    combining: NDArray[np.uint8]  # canonical combining class
    # One step of canonical decomposition: one or two code points.
    canonical: dict[int, tuple[int, ...]]
    composed: dict[tuple[int, int], int]  # the pairs that NFC composes


@cache
def unicode_table() -> UnicodeTable:
    """
    Read the table, once a process: 15 ms, 7 MB.

    Raises:
        StopError: the file, or unicodedata2, is not of this version: every fingerprint could
            differ.
    """
    name = f"unicode-{UNICODE_VERSION}.tsv"
    data = (files("worker.core") / name).read_bytes()
    found = xxhash.xxh64_hexdigest(data)
    if found != TABLE_DIGEST:
        raise StopError(
            f"{name} has digest {found}, expected {TABLE_DIGEST}: it was altered, and fingerprints "
            "would no longer equal those in the log. Install neardup again."
        )
    if unicodedata2.unidata_version != UNICODE_VERSION:
        raise StopError(
            "unicodedata2 is of Unicode "
            f"{unicodedata2.unidata_version}, expected {UNICODE_VERSION}: "
            "fingerprints would no longer equal those in the log. Install neardup again."
        )
    kind = np.zeros(CODE_POINTS, np.uint8)
    folded = np.arange(CODE_POINTS, dtype=np.uint32)
    expanded: dict[int, str] = {}
    combining = np.zeros(CODE_POINTS, np.uint8)
    canonical: dict[int, tuple[int, ...]] = {}
    composed: dict[tuple[int, int], int] = {}
    for line in data.decode("ascii").splitlines():
        row, _, rest = line.partition("\t")
        cells = rest.split("\t")
        if row == "kind":
            kind[int(cells[0], 16) : int(cells[1], 16) + 1] = _KINDS[cells[2]]
        elif row == "fold":
            codes = np.arange(int(cells[0], 16), int(cells[1], 16) + 1, int(cells[2]))
            folded[codes] = codes + int(cells[3])
        elif row == "expand":
            expanded[int(cells[0], 16)] = "".join(chr(int(c, 16)) for c in cells[1].split(" "))
        elif row == "combining":
            combining[int(cells[0], 16) : int(cells[1], 16) + 1] = int(cells[2])
        elif row == "canonical":
            code = int(cells[0], 16)
            parts = tuple(int(cell, 16) for cell in cells[1:3] if cell != "-")
            canonical[code] = parts
            if cells[3] == "1":
                composed[parts[0], parts[1]] = code
    for column in (kind, folded, combining):
        column.flags.writeable = False
    return UnicodeTable(kind, folded, expanded, combining, canonical, composed)


def nfc(text: str) -> str:
    r"""
    Return the text in normalisation form C.

    Lone surrogates and code points younger than the table stay as they are.

    >>> len("e\u0301"), len(nfc("e\u0301"))
    (2, 1)
    """
    composed: str = unicodedata2.normalize("NFC", text)
    return composed


def token_kinds(unit: Literal["word", "character"]) -> NDArray[np.uint8]:
    """
    Return what each code point is to a token of this unit: SEPARATOR … CHARACTER_MARK or IGNORED.

    In words the marks of scripts with spaces are letters like others; as characters those letters
    stand alone.
    """
    kind = unicode_table().kind.copy()
    if unit == "character":
        kind[kind == WORD] = CHARACTER
        kind[kind == WORD_MARK] = CHARACTER_MARK
    else:
        kind[kind == WORD_MARK] = WORD
    return kind


def is_character(token: str) -> bool:
    """
    Return whether a token is a character of a script without spaces, or a mark of one.

    >>> is_character("橋"), is_character("bridge"), is_character("7")
    (True, False, False)
    """
    return int(unicode_table().kind[ord(token[0])]) in (CHARACTER, CHARACTER_MARK)


MASK = "0"  # the token that replaces a masked one
HEXADECIMAL_MIN = 4  # characters: "2b4d" is masked; "b4" and "a1" name things
IDENTIFIER_MIN = 16  # characters of a mixed token: longer than the words of most languages


def tokens(text: str, unit: Literal["word", "character"] = "word") -> list[str]:
    """
    Return the tokens of a text, folded, in order.

    With the unit "character", each letter or digit is a token, with the marks that follow it.

    Cost: about 1 µs per character: this is the definition, the kernel is the fast one.

    >>> tokens("Don’t PANIC: 東京へ"), tokens("abc", unit="character")
    (['don', 't', 'panic', '東', '京', 'へ'], ['a', 'b', 'c'])
    >>> tokens("ﬁnal") == tokens("final"), tokens("كِتَابٌ") == tokens("کتاب")
    (True, True)
    """
    kinds, folded = _columns(unit)
    expanded = unicode_table().expanded
    # Joined once at the end: a token that grows by a letter at a time is copied for each of them.
    # No character of a token is white space, so that the split finds the tokens again.
    characters: list[str] = []
    before = SEPARATOR  # kind of the last visible character
    for character in nfc(text):
        code = ord(character)
        kind = int(kinds[code])
        if kind == IGNORED:
            continue
        joins = (
            before == WORD
            if kind == WORD
            else kind == CHARACTER_MARK and before in (CHARACTER, CHARACTER_MARK)
        )
        if not joins:
            characters.append(" ")
        if kind != SEPARATOR:
            characters.append(expanded.get(code) or chr(folded[code]))
        before = kind
    return "".join(characters).split()


def tokens_quickly(text: str) -> list[str]:
    """
    Return `tokens` thirty times as fast: for measurements, not for fingerprints.

    It composes by the interpreter's Unicode, so characters younger than that may differ.

    Cost: some 30 ns per character.
    """
    kinds, folded = _columns("word")
    text = unicodedata.normalize("NFC", text).translate(unicode_table().expanded)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
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
    Return the token, or MASK if it is volatile, that is, if it may change with the time or the
    visitor.

    Args:
        token: as `tokens` returns it.
        numbers: mask a token if at least half of it is digits.
        identifiers: mask hexadecimal tokens and long mixed ones that contain digits.

    >>> [masked(token, True, True) for token in ("2024", "1st", "deadbeef", "deadbee1", "covid19")]
    ['0', '1st', 'deadbeef', '0', 'covid19']
    """
    digits = sum("0" <= character <= "9" for character in token)
    if numbers and 2 * digits >= len(token):
        return MASK
    if identifiers and digits >= 1:
        hexadecimal = all(character in "0123456789abcdef" for character in token)
        if (hexadecimal and len(token) >= HEXADECIMAL_MIN) or (
            digits >= 2 and len(token) >= IDENTIFIER_MIN
        ):
            return MASK
    return token
