"""
The Unicode table as kernels read it: a 64-bit entry per code point, in pages of 256, with equal
pages stored once.

    stage1[code >> 8] + (code & 255) ──► entries[…]

    bits  0–31  the folded character, or the letters of a ligature, in UTF-8, first byte lowest
    bits 32–35  JOINED: the kinds of character that it joins when they stand before it; all four
                when it begins no token
    bits 36–39  KIND: what it is itself, one bit of four: letter, character, its mark, separator;
                none when invisible
    bits 40–42  LENGTH: its bytes in UTF-8; 0 for what is not written
    bit  48     CHANGES: NFC never leaves this code point as it is
    bit  49     JOINS: may compose with what stands before it
    bits 50–55  RANK of its canonical combining class; 0 for a starter, ANY_RANK for an invisible
                mark that composes with nothing
    bit  57     FIRST: may compose with what stands behind it
    bits 58–63  LAST: the rank of the last part of its decomposition; of a mark its own

What is longer than four bytes has its place in `long` instead of its bytes; LONG_BYTES are kept for
each.

Most texts that are not ASCII consist of letters below U+2100 and of separators. For these, `plain`
has what the scan needs in 32 bits per code point, so that it stays in the first level of the cache:

    bits  0–23  what is written in UTF-8
    bit  24     PLAIN_LETTER: part of a word; else it separates
    bit  25     PLAIN_CHANGES: the text may not be in NFC
    bit  26     PLAIN_OTHER: neither letter nor separator, or longer: the entry above has to be read
    bit  27     PLAIN_MOVES: is written with another number of bytes than it has in UTF-8
    bits 30–31  its bytes; 0 for a separator
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import unicodedata2
from numpy.typing import NDArray

from worker.core import tokens
from worker.core.compiled import inner
from worker.core.kernels.machine import CODES_END
from worker.core.tokens import CODE_POINTS, UnicodeTable, nfc, token_kinds, unicode_table

JOINED = 32
KIND = 36
LENGTH = 40
CHANGES = 48
JOINS = 49
RANK = 50
FIRST = 57
LAST = 58
# The rank of marks that no token shows and that join with no letter, as the vowel signs of Arabic.
# Few texts with those are in NFC, since people write the sign of a long consonant before its vowel;
# such a text is not composed for that. With the highest rank, these marks are always in order, and
# any other mark that follows them is not.
ANY_RANK = 63
PLAIN_END = CODES_END
PLAIN_LETTER = 24
PLAIN_CHANGES = 25
PLAIN_OTHER = 26
PLAIN_MOVES = 27
PLAIN_LENGTH = 30
# The four bits of JOINED and KIND.
LETTER = 1
CHARACTER = 2
_MARK = 4
SEPARATOR = 8
CHARACTERS = CHARACTER | _MARK  # a character that is a token by itself, not part of a word
_ALL = 15
_PARTS = {  # of each kind of code point: (JOINED, KIND)
    tokens.SEPARATOR: (_ALL, SEPARATOR),
    tokens.WORD: (LETTER, LETTER),
    tokens.CHARACTER: (0, CHARACTER),
    tokens.CHARACTER_MARK: (CHARACTER | _MARK, _MARK),
    tokens.IGNORED: (_ALL, 0),
}
LONG_BYTES = 6  # three letters of Arabic; a character and a mark of three bytes each
# Characters that are a token each, of three bytes, and that neither folding nor NFC changes: kana,
# Han, Hangul. Both ends are included.
CHARACTER_RANGES = (
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
)
PAIR_SLOTS = 4_096  # slots of the table of composing pairs: a power of two, four per pair
PAIR_MULTIPLIER = 0x9E3779B97F4A7C15


class CodePoints(NamedTuple):
    """The table for scanning, and the pairs that compose; read-only."""

    stage1: NDArray[np.uint32]  # [0x1100]: 256 · the number of the page
    entries: NDArray[np.uint64]
    plain: NDArray[np.uint32]  # [PLAIN_END]
    long: NDArray[np.uint8]  # forms of more than four bytes
    words: bool  # letters join to words; otherwise each is a token
    # [PAIR_SLOTS, 2]: first << 32 | second, 0 for an empty slot; what they compose to.
    pairs: NDArray[np.uint64]


@cache
def code_points(unit: Literal["word", "character"]) -> CodePoints:
    """
    Return the table for kernels, built from the package's once a process and unit: 30 ms, 3 MB.
    """
    table = unicode_table()
    kind = token_kinds(unit)
    entries = np.zeros(CODE_POINTS, np.uint64)
    written = (kind != tokens.SEPARATOR) & (kind != tokens.IGNORED)
    entries[written] = _utf8(table.folded[written].astype(np.uint64))
    long = bytearray(LONG_BYTES)
    for code, letters in table.expanded.items():
        entries[code] = _written_as(letters, long)
    parts = np.zeros(max(_PARTS) + 1, np.uint64)
    for number, (joined, own) in _PARTS.items():
        parts[number] = joined << JOINED | own << KIND
    entries |= parts[kind]
    _add_normalisation(entries, table, long)
    stage1, kept = _pages(entries)
    return CodePoints(
        stage1,
        kept,
        _plain(entries),
        np.frombuffer(bytes(long), np.uint8),
        unit == "word",
        _pairs(table),
    )


def _plain(entries: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the entries below PLAIN_END in 32 bits."""
    chosen = entries[:PLAIN_END].astype(object)
    plain = np.empty(PLAIN_END, np.uint32)
    for code, entry in enumerate(chosen.tolist()):
        kind = entry >> KIND & _ALL
        length = entry >> LENGTH & 7
        is_other = kind not in (LETTER, SEPARATOR) or length > 3
        written = entry & 0xFFFFFF if length else 0
        plain[code] = (
            written
            | length % 4 << PLAIN_LENGTH
            | (kind == LETTER) << PLAIN_LETTER
            | bool(entry >> CHANGES & 0xFF) << PLAIN_CHANGES
            | is_other << PLAIN_OTHER
            | (length not in (0, _utf8_length(code))) << PLAIN_MOVES
        )
    return plain


def _utf8_length(code: int) -> int:
    """Return how many bytes a code point below PLAIN_END has in UTF-8."""
    return 1 + (code > 0x7F) + (code > 0x7FF)


def _written_as(text: str, long: bytearray) -> int:
    """
    Return the part of an entry that says what is written: 1 to LONG_BYTES bytes in UTF-8. What is
    longer than four bytes is added to `long`.
    """
    data = text.encode()
    length = len(data) << LENGTH
    if len(data) <= 4:
        return int.from_bytes(data, "little") | length
    place = len(long)
    long += data.ljust(LONG_BYTES, b"\0")
    return place | length


def _utf8(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each code point as its UTF-8 bytes, and their number from bit LENGTH."""
    six = np.uint64(0x3F)
    tail = [np.uint64(0x80) | (codes >> np.uint64(6 * place)) & six for place in range(3)]
    eight = np.uint64(8)
    sixteen = np.uint64(16)
    more = np.uint64(24)
    forms = [
        codes,
        np.uint64(0xC0) | codes >> np.uint64(6) | tail[0] << eight,
        np.uint64(0xE0) | codes >> np.uint64(12) | tail[1] << eight | tail[0] << sixteen,
        np.uint64(0xF0)
        | codes >> np.uint64(18)
        | tail[2] << eight
        | tail[1] << sixteen
        | tail[0] << more,
    ]
    length = np.searchsorted(np.array([0x80, 0x800, 0x10000]), codes.astype(np.int64), side="right")
    chosen: NDArray[np.uint64] = np.choose(length, forms)
    return chosen | (length + 1).astype(np.uint64) << np.uint64(LENGTH)


def _add_normalisation(entries: NDArray[np.uint64], table: UnicodeTable, long: bytearray) -> None:
    """Set the bits from CHANGES on, and add to the `long` forms."""
    joining = (
        {second for _, second in table.composed}
        | set(range(0x1161, 0x1176))
        | set(range(0x11A8, 0x11C3))
    )
    entries[list(joining)] |= np.uint64(1 << JOINS)
    ranks = np.searchsorted(np.unique(table.combining), table.combining).astype(np.uint64)
    counts = np.uint64(1 << JOINS | _ALL << KIND)
    ranks[(ranks != 0) & (entries & counts == 0)] = ANY_RANK
    entries |= ranks << np.uint64(RANK) | ranks << np.uint64(LAST)
    firsts = (
        {first for first, _ in table.composed}
        | set(range(0x1100, 0x1113))
        | set(range(0xAC00, 0xD7A4, 28))
    )
    changed: dict[int, int] = {}
    for code in table.canonical:
        last = ord(unicodedata2.normalize("NFD", chr(code))[-1])
        entries[code] |= ranks[last] << np.uint64(LAST)
        after = [ord(part) for part in nfc(chr(code))]
        if after == [code]:
            continue
        text = "".join(chr(table.folded[part]) for part in after)
        if _stands_alone(after, entries, firsts) and len(text.encode()) <= LONG_BYTES:
            # Written in its composed form at once: the usual text of many languages of India is not
            # in NFC.
            entry = int(entries[after[0]]) & (_ALL << KIND | _ALL << JOINED)
            changed[code] = entry | int(ranks[last]) << LAST | _written_as(text, long)
        else:
            changed[code] = int(entries[code]) | 1 << CHANGES
    entries[list(changed)] = np.array(list(changed.values()), np.uint64)
    entries[list(firsts)] |= np.uint64(1 << FIRST)


def _stands_alone(after: list[int], entries: NDArray[np.uint64], firsts: set[int]) -> bool:
    """
    Return whether a code point may be replaced by these wherever it stands: one token character and
    marks of its token.
    """
    kinds = [int(entries[part]) >> KIND & _ALL for part in after]
    joins = [int(entries[part]) >> JOINED & _ALL for part in after]
    together = all(before & joined for before, joined in zip(kinds, joins[1:], strict=False))
    begins_clean = not int(entries[after[0]]) >> CHANGES & 0xFF
    return kinds[0] in (LETTER, CHARACTER) and together and begins_clean and after[-1] not in firsts


def _pages(entries: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Equal pages stored once."""
    seen: dict[bytes, int] = {}
    kept: list[NDArray[np.uint64]] = []
    stage1 = np.zeros(CODE_POINTS >> 8, np.uint32)
    for number, page in enumerate(entries.reshape(-1, 256)):
        stage1[number] = 256 * seen.setdefault(page.tobytes(), len(kept))
        if len(seen) > len(kept):
            kept.append(page)
    return stage1, np.concatenate(kept)


def _pairs(table: UnicodeTable) -> NDArray[np.uint64]:
    """The open table of composing pairs, probed one slot after the other."""
    pairs = np.zeros((PAIR_SLOTS, 2), np.uint64)
    for (first, second), composed in table.composed.items():
        key = first << 32 | second
        slot = (key * PAIR_MULTIPLIER >> 52) & (PAIR_SLOTS - 1)
        while pairs[slot, 0]:
            slot = (slot + 1) & (PAIR_SLOTS - 1)
        pairs[slot] = key, composed
    return pairs


# The code point that two others compose to, inside kernels.

U = np.uint64
C = np.uint32
NONE = C(0xFFFFFFFF)
_MULTIPLIER = U(PAIR_MULTIPLIER)
_SLOTS = U(PAIR_SLOTS - 1)


@inner
def pair(first: Any, second: Any, pairs: Any) -> Any:
    """
    Return the code point that two compose to, or NONE: Hangul by arithmetic, the others from the
    open table.
    """
    if C(first - C(0x1100)) < C(19) and C(second - C(0x1161)) < C(21):
        return C(C(0xAC00) + (C(first - C(0x1100)) * C(21) + C(second - C(0x1161))) * C(28))
    syllable = C(first - C(0xAC00))
    if syllable < C(11172) and syllable % C(28) == C(0) and C(second - C(0x11A8)) < C(27):
        return C(first + C(second - C(0x11A7)))
    key = (U(first) << U(32)) | U(second)
    slot = ((key * _MULTIPLIER) >> U(52)) & _SLOTS
    while pairs[slot, 0] != U(0):
        if pairs[slot, 0] == key:
            return C(pairs[slot, 1])
        slot = (slot + U(1)) & _SLOTS
    return NONE
