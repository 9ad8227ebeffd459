"""
Short lists of function words by language. They anchor many shingles of prose, and hardly one of a
menu or an advertisement.

One text file a language (`en.txt`): a comment with the language's name, then one word a line,
sorted, lower-case NFC.
The words are tokens: an apostrophe ends one ("l'eau" is "l", "eau"), and in the languages that have
one token per character they are characters. Before comparing them with tokens, fold them as a text
is folded.

`advertising.tsv` holds what menus and advertisements are made of, function words among it ("in
stock", "this item", "no thanks, I ..."): no word of it is in its language's list, and none at all
in the union.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.resources import files

import xxhash

from worker.core.tokens import tokens
from worker.errors import check_type

# A wider list than the widest in use; beyond it somebody has passed a dictionary or a corpus.
WORDS_MAX = 10_000
# Characters of one word. The longest in our lists has 14; a line of prose is not a word.
CHARACTERS_MAX = 64
# Single Latin letters that are words of one language, but labels, sizes and initials in every other
# one: "S M L".
_LETTERS = frozenset("bcdfghijklmnpqrstx")
# ISO 639-2 and 639-3 codes, the terminological and the bibliographic ones, of the languages that
# have a list.
_THREE_LETTERS = """
ara ar  arb ar  aze az  azj az  ben bn  bul bg  bur my  cat ca  ces cs  chi zh  cmn zh  cze cs
dan da  deu de  dut nl  ekk et  ell el  eng en  est et  fas fa  fin fi  fra fr  fre fr  geo ka
ger de  gre el  heb he  hin hi  hrv hr  hun hu  hye hy  arm hy  ind id  ita it  jpn ja  kat ka
khm km  kor ko  lao lo  lav lv  lit lt  lvs lv  may ms  msa ms  mya my  nld nl  nno no  nob no
nor no  per fa  pes fa  pol pl  por pt  prs fa  ron ro  rum ro  rus ru  slk sk  slo sk  slv sl
spa es  srp sr  swa sw  swe sv  swh sw  tam ta  tel te  tha th  tur tr  ukr uk  urd ur  vie vi
yue zh  zho zh  zsm ms
"""
# Replaced codes, country codes that stand for a language, and languages so near to another that
# they share its list.
_SHARED = (
    "iw he  in id  mo ro  nb no  nn no  bs hr  bos hr  sh hr  cnr sr  "
    "hk zh  cn zh  jp ja  kr ko  ua uk"
)
_CODES = f"{_THREE_LETTERS} {_SHARED}".split()
_MAPPED = dict(zip(_CODES[::2], _CODES[1::2], strict=True))


@cache
def languages() -> tuple[str, ...]:
    """Return the ISO 639-1 codes of the languages that have a list, sorted."""
    return tuple(
        sorted(
            entry.name[:-4] for entry in files(__name__).iterdir() if entry.name.endswith(".txt")
        )
    )


def language_code(language: str | None) -> str | None:
    """
    Return the code of the list for a language tag; None if there is no list for it.

    Case, region and script do not matter; three-letter and replaced codes, and languages that share
    a list, are mapped.

    >>> language_code("pt-BR"), language_code("zh_Hans"), language_code("deu"), language_code("tlh")
    ('pt', 'zh', 'de', None)
    """
    if language is None:
        return None
    first = language.strip().lower().replace("_", "-").partition("-")[0]
    code = _MAPPED.get(first, first)
    return code if code in languages() else None


def stopwords(language: str | None) -> frozenset[str]:
    """
    Return the function words of a language; when it is None or has no list, the union.

    The union is every list together, without the words that are advertising in any language and
    without single Latin
    letters: of the shingles of English advertisements it anchors 19 %, the English list 18 %, the
    plain union 42 %.

    >>> "the" in stopwords("en"), "buy" in stopwords("en"), "und" in stopwords("de-AT")
    (True, False, True)
    """
    code = language_code(language)
    return _union() if code is None else _list(code)


def load_stopwords(text: str) -> frozenset[str]:
    """
    Return a user's own list from a file: one word per line, comments from `#` on, empty lines
    skipped.

    A byte order mark at the beginning is passed over. Words are folded to lower-case NFC. A word
    must be one token: letters, digits and combining marks.

    Args:
        text: the content of the file, at most `WORDS_MAX` words of at most `CHARACTERS_MAX`
            characters.
    Raises:
        ValueError: a bound is passed, a line is not one token, or there is no word at all; the line
            is named.
        TypeError: it is no text.

    Cost: O(len(text)).

    >>> sorted(load_stopwords("# articles\\nThe\\na  # indefinite\\n"))
    ['a', 'the']
    """
    check_type("text", text, str)
    words: set[str] = set()
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        word = unicodedata.normalize("NFC", line.partition("#")[0].strip()).lower()
        if not word:
            continue
        if len(word) > CHARACTERS_MAX:
            raise ValueError(
                f"a stopword has at most {CHARACTERS_MAX} characters, line {number} has "
                f"{len(word)}: one word per line is expected, got {word[:20]!r}…"
            )
        for character in word:
            if not character.isalnum() and unicodedata.category(character)[0] != "M":
                raise ValueError(
                    f"a stopword is one token (letters, digits, combining marks), line {number} is "
                    f"{word!r}: the tokeniser cuts at {character!r}, so it would never match"
                )
        if len(tokens(word)) != 1:
            raise ValueError(
                f"a stopword is one token, line {number} is {word!r}: "
                "in this script each character is one, and each of them would anchor by itself. "
                "Give the characters that are function words, a line each"
            )
        words.add(word)
        if len(words) > WORDS_MAX:
            raise ValueError(
                f"a stopword list has at most {WORDS_MAX:,} words, line {number} brings another: "
                "a long list anchors advertisements as well as prose"
            )
    if not words:
        raise ValueError(
            "the stopword list has no words, so it would anchor nothing: "
            "set the anchored weight instead"
        )
    return frozenset(words)


def digest(words: frozenset[str]) -> str:
    """Return 16 hex digits that identify a list. Its order in the file does not matter."""
    return xxhash.xxh3_64_hexdigest("\n".join(sorted(words)).encode("utf-8", "surrogatepass"))


@cache
def advertising(language: str | None = None) -> frozenset[str]:
    """
    Return the words of menus and advertisements in a language, or in all languages. They anchor
    nothing.

    >>> "cookies" in advertising("en"), "bridge" in advertising("en")
    (True, False)
    """
    rows = (files(__name__) / "advertising.tsv").read_text(encoding="utf-8").splitlines()[1:]
    columns = (row.split("\t") for row in rows)
    return frozenset(
        word for code, words in columns if language in (None, code) for word in words.split()
    )


@cache
def version() -> str:
    """
    Return 16 hex digits over all built-in lists. A changed word changes them, and with them the
    parameters' hash.
    """
    lists = "\n".join(f"{code} {digest(_list(code))}" for code in languages())
    return xxhash.xxh3_64_hexdigest(f"{lists}\nunion {digest(_union())}".encode())


@cache
def _list(code: str) -> frozenset[str]:
    lines = (files(__name__) / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


@cache
def _union() -> frozenset[str]:
    words = frozenset().union(*(_list(code) for code in languages())) - advertising()
    return frozenset(word for word in words if word not in _LETTERS)
