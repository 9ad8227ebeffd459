"""
Write the Unicode table of the fingerprint's definition: run once a Unicode version, never by
neardup itself.

    pip install unicodedata2==18.0.0
    python tests/core/generate_unicode_table.py > worker/core/unicode-18.0.0.tsv

Categories, names, combining classes and decompositions are those of unicodedata2. It knows no lower
case, so that comes from the running Python (3.11 or newer), and for younger letters from their
names (CAPITAL beside SMALL).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Mapping

import unicodedata2 as ucd

# Scripts that are written without spaces between words: each character is a token. Kana and Hangul
# count as such.
SINGLE_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ",
    "HIRAGANA ",
    "KATAKANA",
    "HENTAIGANA ",
    "HANGUL ",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "COMBINING KATAKANA",
)

# Default_Ignorable_Code_Point of Unicode (assigned ones), the Arabic tatweel, and the signs for
# Arabic vowels and recitation: they change no word, and one edition of a text has them where
# another has not. The marks that make another letter (madda and hamza, 0653 to 0655) are kept.
IGNORED = [
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x0610, 0x061A), (0x061C, 0x061C), (0x0640, 0x0640),
    (0x064B, 0x0652), (0x0656, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC), (0x06DF, 0x06E4),
    (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064),
    (0x2066, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001), (0xE0020, 0xE007F),
    (0xE0100, 0xE01EF),
]  # fmt: skip
IGNORED_SET = {code for first, last in IGNORED for code in range(first, last + 1)}

# Letters that keyboards and publishers write in one of several ways: alef with and without its
# marks, the Arabic and the Persian yeh and kaf.
SAME_LETTER = {
    0x0622: 0x0627, 0x0623: 0x0627, 0x0625: 0x0627, 0x0671: 0x0627, 0x0672: 0x0627,
    0x0673: 0x0627, 0x0649: 0x064A, 0x06CC: 0x064A, 0x06A9: 0x0643,
    0x06AA: 0x0643, 0x03C2: 0x03C3,  # and the final form of the Greek sigma
}  # fmt: skip

EXPANDED_BYTES_MAX = 6  # in UTF-8: three letters of Arabic; `kernels.unicode.LONG_BYTES`


def lower(code: int) -> int:
    """The simple lower case of one code point; the younger letters' by their names."""
    text = chr(code).lower()
    if text != chr(code) or unicodedata.category(chr(code)) != "Cn":
        return ord(text[0])
    name = ucd.name(chr(code), "")
    if " CAPITAL " in name:
        try:
            return ord(str(ucd.lookup(name.replace(" CAPITAL ", " SMALL "))))
        except KeyError:
            return code
    return code


def fold(code: int) -> int:
    """
    Decimal digit -> ASCII; else the compatibility form and lower case where each is one code point.
    """
    if ucd.category(chr(code)) == "Nd":
        return 0x30 + int(ucd.decimal(chr(code)))
    folded = lower(code)
    compatible = ucd.normalize("NFKC", chr(folded))
    if len(compatible) == 1:
        folded = lower(ord(compatible))
    return SAME_LETTER.get(folded, folded)


def expansion(code: int) -> str:
    """
    The letters of a ligature ("ﬁ", "ﻻ", "ǆ", "Ⅳ"), folded; "" for what is none.

    A compatibility form with a separator in it ("½", "ﷺ") stays one character, as does a longer
    one.
    """
    parts = [ord(part) for part in ucd.normalize("NFKC", chr(lower(code)))]
    letters = [fold(part) for part in parts if part not in IGNORED_SET]
    text = "".join(chr(letter) for letter in letters)
    is_ligature = len(letters) > 1 and ucd.category(chr(code))[0] in "LN"
    if not is_ligature or len(text.encode()) > EXPANDED_BYTES_MAX:
        return ""
    return text if all(kind(letter, letter) == "w" for letter in letters) else ""


def is_vowel_sign(code: int) -> bool:
    """Whether an Arabic presentation form shows nothing but ignored marks, on their own."""
    parts = {ord(part) for part in ucd.normalize("NFKC", chr(code))}
    return 0xFB50 <= code <= 0xFEFC and parts <= IGNORED_SET | {0x20}


def kind(code: int, folded: int) -> str:
    """
    What the code point is to the tokens: s(eparator), w(ord) and its m(ark), c(haracter) and its n,
    i(gnored).
    """
    if code in IGNORED_SET or is_vowel_sign(code):
        return "i"
    category = ucd.category(chr(folded))
    single = ucd.name(chr(folded), "").startswith(SINGLE_NAMES)
    if category[0] == "M":
        return "n" if single else "m"
    if category[0] not in "LN":
        return "s"
    if 0x30 <= folded <= 0x39:
        return "w"
    return "c" if single else "w"


def code_points() -> Iterator[int]:
    """Every code point but the surrogates."""
    yield from range(0xD800)
    yield from range(0xE000, 0x110000)


def runs(
    values: Mapping[int, object], steps: tuple[int, ...] = (1,)
) -> Iterator[tuple[int, int, int, object]]:
    """Equal values at equal steps as (first, last, step, value)."""
    run: list[int] = []
    for code in sorted(values):
        if (
            run
            and values[code] == values[run[0]]
            and code - run[1] in steps
            and run[2] in (0, code - run[1])
        ):
            run = [run[0], code, code - run[1]]
            continue
        if run:
            yield run[0], run[1], run[2] or 1, values[run[0]]
        run = [code, code, 0]
    yield run[0], run[1], run[2] or 1, values[run[0]]


def main() -> None:
    """
    Print the table: kinds, foldings, expansions, combining classes, canonical decompositions.
    """
    write = sys.stdout.write
    write(
        f"# Unicode {ucd.unidata_version}: the table behind the fingerprint; "
        f"tests/core/generate_unicode_table.py\n"
    )
    folded = {code: fold(code) for code in code_points()}
    kinds = {code: kind(code, folded[code]) for code in folded}
    write(
        "# kind: first, last, w(ord), its m(ark), c(haracter token), its mark n, i(gnored); all "
        "else separates.\n"
    )
    for first, last, _, value in runs(
        {code: value for code, value in kinds.items() if value != "s"}
    ):
        write(f"kind\t{first:04X}\t{last:04X}\t{value}\n")
    write("# fold: first, last, step, folded form minus code point\n")
    deltas = {
        code: folded[code] - code
        for code in folded
        if kinds[code] not in "si" and folded[code] != code
    }
    for first, last, step, value in runs(deltas, (1, 2)):
        write(f"fold\t{first:04X}\t{last:04X}\t{step}\t{value}\n")
    write("# expand: code point, the folded letters of this ligature\n")
    for code in code_points():
        text = expansion(code)
        if text and kinds[code] == "w":
            write(f"expand\t{code:04X}\t{' '.join(f'{ord(letter):04X}' for letter in text)}\n")
    write("# combining: first, last, canonical combining class\n")
    classes = {code: ucd.combining(chr(code)) for code in folded}
    for first, last, _, value in runs({code: value for code, value in classes.items() if value}):
        write(f"combining\t{first:04X}\t{last:04X}\t{value}\n")
    write(
        "# canonical: code point, first, second (- for none), 1 composes or 0 only decomposes. "
        "Hangul is arithmetic.\n"
    )
    for code in code_points():
        mapping = ucd.decomposition(chr(code))
        if mapping and not mapping.startswith("<") and not 0xAC00 <= code <= 0xD7A3:
            parts = mapping.split()
            composes = int(len(parts) == 2 and ucd.normalize("NFC", chr(code)) == chr(code))
            write(
                f"canonical\t{code:04X}\t{parts[0]}\t{parts[1] if len(parts) == 2 else '-'}\t{composes}\n"
            )


if __name__ == "__main__":
    main()
