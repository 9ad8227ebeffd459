"""
The names that matter in a page's markup (elements, words of classes, roles), each with its meaning
as bits; and, in many languages, the words on buttons by which one agrees to something, and those in
headings of terms and offers, and currencies.

Names are looked up by the FNV-1a hash that the scanner makes of their bytes in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from importlib.resources import files
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused
from worker.core.kernels import two_slots

# ---- tables by 64-bit hashes, which the scanner makes of a name byte by byte

U = np.uint64
PRIME = U(0x100000001B3)  # FNV-1a
SEED = U(0xCBF29CE484222325)


def name_hash(name: str) -> int:
    """
    Return the hash of a name's bytes: FNV-1a, its high bits folded into the low ones that choose
    the slots.
    """
    value = int(SEED)
    for byte in name.encode():
        value = (value ^ byte) * int(PRIME) & (1 << 64) - 1
    return value ^ (value >> 29)


def lookup_table(entries: Mapping[str, int]) -> NDArray[np.uint64]:
    """
    Return the table of these names (`two_slots.py`).

    Raises ValueError: two names have one hash.
    """
    names: dict[int, str] = {}
    for name in entries:
        other = names.setdefault(name_hash(name), name)
        if other != name:
            raise ValueError(
                f"names must have different hashes, got {other!r} and {name!r} with "
                f"{name_hash(name):#018x}: one would hide the other"
            )
    return two_slots.table_of({key: entries[name] for key, name in names.items()})


@fused
def add_byte(value: Any, byte: Any) -> Any:
    """Return the hash of a name and one more byte; SEED is that of none."""
    return (value ^ U(byte)) * PRIME


@fused
def finished(value: Any) -> Any:
    """Return the hash to look up."""
    return value ^ (value >> U(29))


@fused
def look_up(table: Any, key: Any) -> Any:
    """Return the value of a hash, 0 for one that is not there."""
    return np.int64(two_slots.look_up(table, key))


# ---- elements: a number of 1 to 255 below these bits
VOID = 1 << 8  # has no content
BLOCK = 1 << 9  # ends a block of text before and after it
RAW = 1 << 10  # holds no markup
DROPPED = 1 << 11  # its text is no text of the page
CLASSED = 1 << 12  # its attributes are read
SPECIAL = 1 << 13  # an end tag of another element does not reach beyond it (WHATWG "special")
SCOPE = 1 << 14  # nor do end tags of blocks (WHATWG "in scope")
BREAKOUT = 1 << 15  # ends SVG and MathML
CLOSES_P = 1 << 16  # ends an open paragraph
INTEGRATION = 1 << 17  # inside SVG and MathML: holds HTML again
CELLS = 1 << 18  # a part of a table: only table parts close and open it
MARKER = 1 << 19  # a link that begins inside ends with it
TAG = 255

_NAMES = (
    "a p li ul ol dl dt dd tr td th table tbody thead tfoot caption br script title plaintext "
    "svg math body html head article main nav aside footer header form fieldset figure "
    "figcaption h1 h2 h3 h4 h5 h6 span div section pre blockquote button option optgroup menu "
    "address search dialog select input textarea template xmp frameset noframes label "
    "custom-element noscript iframe summary meta"
)
# fmt: off
(A, P, LI, UL, OL, DL, DT, DD, TR, TD, TH, TABLE, TBODY, THEAD, TFOOT, CAPTION, BR, SCRIPT, TITLE,
 PLAINTEXT, SVG, MATH, BODY, HTML, HEAD, ARTICLE, MAIN, NAV, ASIDE, FOOTER, HEADER, FORM, FIELDSET,
 FIGURE, FIGCAPTION, H1, H2, H3, H4, H5, H6, SPAN, DIV, SECTION, PRE, BLOCKQUOTE, BUTTON, OPTION,
 OPTGROUP, MENU, ADDRESS, SEARCH, DIALOG, SELECT, INPUT, TEXTAREA, TEMPLATE, XMP, FRAMESET,
 NOFRAMES, LABEL, CUSTOM, NOSCRIPT, IFRAME, SUMMARY, META) = range(1, len(_NAMES.split()) + 1)
# fmt: on
_numbers = {name: number for number, name in enumerate(_NAMES.split(), start=1)}


def set_of(elements: str) -> NDArray[np.bool_]:
    """Return a table of 256: whether an element is one of them."""
    members = np.zeros(256, np.bool_)
    members[[_numbers[name] for name in elements.split()]] = True
    return members


# ---- words of class and id, whole ones after splitting at what is no letter and in camelCase
HIDDEN, NEGATIVE, WEAK, POSITIVE, PART_A, PART_B, BODY_WORD, COMMENT, STATE_WORD = (
    1 << bit for bit in range(9)
)
SURE = 1 << 9  # never holds a page
SHAPE = 1 << 10  # names the shape of a box, not what it is for
TEASER = 1 << 11  # leads to another page: an entry of a list, or an invitation beside an article
PAGER = 1 << 21  # leads to the other pages of a list
# What a box may say that is alike on all pages of a site: how a shop delivers and is paid, or the
# offer of a subscription. And that it does say so (terms.py).
TERMS = 1 << 25
OFFER = 1 << 26
ALIKE = 1 << 27
# Of words, and of no container: a word that means something as a whole name only ("hidden", not
# "overflow-hidden"), or on a short button ("Got it"); and one behind a screen's size that takes
# that back ("hidden md:block").
ALONE = 1 << 22
SHOWN = 1 << 23
POST = 1 << 24  # of words, too: a post of a board, though it is called a reply
STREAMED = 1 << 28  # its id is that of a slot or a part of streamed content
SHADOW = 1 << 29  # of a template: a shadow root, shown in its place
QUESTION = 1 << 30  # a button that is the heading of the text behind it (buttons.py)


# ---- flags that a container hands down to all inside it, together with those of its class names
IN_NAV, IN_ASIDE, IN_FOOTER, IN_ARTICLE, IN_MAIN, IN_TABLE, IN_LIST, IN_HEADING, IN_QUOTE = (
    1 << bit for bit in range(12, 21)
)


def _flagged(of: str) -> dict[str, int]:
    """
    The elements, words or roles of `names.tsv`, each with the flags of all its rows, which are
    constants here.
    """
    found: dict[str, int] = {}
    for row in (files("worker.core.pages") / "names.tsv").read_text(encoding="utf-8").splitlines():
        kind, flags, names = row.split("\t")
        for name in names.split() if kind == of else ():
            found[name] = reduce(
                or_, (globals()[flag] for flag in flags.split()), found.get(name, 0)
            )
    return found


WORDS = _flagged("word")
ROLES = _flagged("role")
AGREEMENTS = _flagged("agreement")
TERM_WORDS = _flagged("term")
CURRENCIES = _flagged("currency")
TAGS = {
    name: flags | _numbers.setdefault(name, len(_numbers) + 1)
    for name, flags in _flagged("element").items()
}
# Any element whose name has a hyphen. It is a container where it begins no line of text.
CUSTOM_ELEMENT = TAGS["custom-element"]
HOLDS_CUSTOM = set_of(
    "div section article main aside nav header footer form dialog template custom-element"
)
HOLDS_CUSTOM[0] = True  # the page
TAG_TABLE = lookup_table(TAGS)
WORD_TABLE = lookup_table(WORDS)
ROLE_TABLE = lookup_table(ROLES)
AGREEMENT_TABLE = lookup_table(AGREEMENTS)
TERM_TABLE = lookup_table(TERM_WORDS)
CURRENCY_TABLE = lookup_table(CURRENCIES)
ARTICLE_BODY_NAME = np.uint64(name_hash("articlebody"))
TRUE = np.uint64(name_hash("true"))
OPEN = np.uint64(name_hash("open"))
CLOSED = np.uint64(name_hash("closed"))
UNTIL_FOUND = np.uint64(name_hash("until-found"))

# ---- what a container hands down, and what its element says
INSIDE = np.zeros(256, np.int64)  # of each element
INSIDE[[NAV, ASIDE, FOOTER, ARTICLE, MAIN]] = IN_NAV, IN_ASIDE, IN_FOOTER, IN_ARTICLE, IN_MAIN
INSIDE[[TABLE, LI, BLOCKQUOTE]] = IN_TABLE, IN_LIST, IN_QUOTE
INSIDE[H1 : H6 + 1] = IN_HEADING
HANDED_DOWN = HIDDEN | NEGATIVE | SURE | COMMENT | IN_MAIN  # of the flags of words and roles
IMPLIED = np.zeros(256, np.int64)  # of each element: the words that it stands for
IMPLIED[DIALOG] = NEGATIVE | SURE | ALIKE
LANDMARKS = set_of("main article h1")
