"""
Reads the parts of a page: text with its white space and references, stretches without markup,
attributes of tags.

White space is every byte up to 0x20 and the no-break space: it becomes one space, none at the start
of a block.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

import html.entities
import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    BYTE_LANES,
    byte_at,
    lanes_before,
    load64,
    put_code_point,
    set_byte,
)
from worker.core.pages import names
from worker.core.pages.names import SEED, add_byte, finished, look_up

# Of each byte:
ENDS_NAME = 1
SPACE = 2
LETTER = 4
EQUALS = 8
ALNUM = 16


ABOUT_BYTE = np.zeros(256, np.uint8)
for _bit, _bytes in (
    (ENDS_NAME, b" \t\n\f\r/>"),
    (SPACE, b" \t\n\f\r"),
    (LETTER, string.ascii_letters.encode()),
    (EQUALS, b"="),
    (ALNUM, (string.ascii_letters + string.digits).encode()),
):
    ABOUT_BYTE[list(_bytes)] |= _bit

SECOND = 24  # bit position of a reference's second code point; 0xFFFFFF covers the first


def _code_points(entries: Mapping[str, str]) -> dict[str, int]:
    return {
        name: sum(ord(c) << SECOND * k for k, c in enumerate(text))
        for name, text in entries.items()
    }


_html5 = html.entities.html5
REFERENCES = names.lookup_table(
    _code_points({k[:-1]: v for k, v in _html5.items() if k.endswith(";")})
)
references_at = machine.viewer(REFERENCES.shape, unsigned=True)
# Those of old need no semicolon, and their longest prefix counts.
OLD_REFERENCES = names.lookup_table(
    _code_points({k: v for k, v in _html5.items() if not k.endswith(";")})
)
# bytes
NAME_MAX = 34
OLD_NAME_MIN = 2
OLD_NAME_MAX = 6
# What numbers 0x80 to 0x9F mean: Windows-1252.
WINDOWS = np.array(
    [ord(bytes([n]).decode("cp1252", "replace")) for n in range(0x80, 0xA0)], np.int64
)
WINDOWS[WINDOWS == 0xFFFD] = np.flatnonzero(WINDOWS == 0xFFFD) + 0x80


@fused
def put_space(out: Any, start: Any, at: Any) -> Any:
    """Write one space, unless the block that began at `start` is empty or ends in one."""
    if at > start and byte_at(out, at - 1) != 32:
        set_byte(out, at, 32)
        at += 1
    return at


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
def reference(page: Any, i: Any, end: Any, references: Any) -> Any:
    """
    Return the character reference at '&': (one code point or two, where it ends), or (0, i) when it
    is none.
    """
    if byte_at(page, i + 1) == 35 and i + 1 < end:
        return _number(page, i, end)
    j = i + 1
    stop = min(end, j + NAME_MAX)
    key = SEED
    found = np.int64(0)
    found_end = i
    while j < stop:
        byte = byte_at(page, j)
        if not ABOUT_BYTE[byte] & ALNUM:
            break
        key = add_byte(key, byte)
        j += 1
        if OLD_NAME_MIN <= j - i - 1 <= OLD_NAME_MAX:
            old = look_up(OLD_REFERENCES, finished(key))
            if old != 0:
                found = old
                found_end = j
    if j < end and byte_at(page, j) == 59:
        value = look_up(references_at(references), finished(key))
        if value != 0:
            return value, j + 1
    return found, found_end


@apart
def copy_text(  # noqa: PLR0912
    page: Any, i: Any, end: Any, out: Any, start: Any, at: Any, references: Any
) -> Any:
    """
    Copy text up to the next '<', to `at` of the block begun at `start`: (where that is, where the
    text ends).
    """
    while i < end:
        byte = byte_at(page, i)
        if byte <= 32:
            at = put_space(out, start, at)
            i += 1
            while i < end and byte_at(page, i) <= 32:
                i += 1
            continue
        stop = min(lanes_before(machine.copy_plain(page, i, out, at)), end - i)
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
            value, after = reference(page, i, end, references)
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


# ---- stretches without markup: raw text, scripts, comments, CDATA
# Each function says where one ends.

SCRIPT_HASH = np.uint64(names.name_hash("script"))
SCRIPT_SIZE = np.int64(6)
PLAIN = 0
ESCAPED = 1
DOUBLE_ESCAPED = 2


@fused
def _hash_of(page: Any, i: Any, end: Any) -> Any:
    """The hash of a name, in lower case."""
    key = SEED
    while i < end:
        byte = byte_at(page, i)
        if 65 <= byte <= 90:
            byte |= 32
        key = add_byte(key, byte)
        i += 1
    return finished(key)


@fused
def is_named(page: Any, i: Any, end: Any, name: Any, size: Any) -> Any:
    """
    Return whether an element's name with this hash and size begins at `i` and ends as a name must.
    """
    if i + size >= end or not ABOUT_BYTE[byte_at(page, i + size)] & ENDS_NAME:
        return False
    return _hash_of(page, i, i + size) == name


@fused
def skip_raw(page: Any, i: Any, end: Any, name: Any, size: Any) -> Any:
    """Skip from inside an element without markup to the '<' of its end tag."""
    while True:
        i = machine.find_less_than(page, i, end)
        if i >= end or (byte_at(page, i + 1) == 47 and is_named(page, i + 2, end, name, size)):
            return i
        i += 1


@fused
def skip_script(page: Any, i: Any, end: Any) -> Any:
    """
    Skip a script to its end tag. One within a comment ('<!--', '<script') does not end it, '-->'
    ends the comment.
    """
    state = PLAIN
    while True:
        i = (
            machine.find_less_than(page, i, end)
            if state == PLAIN
            else machine.find_tag_edge(page, i, end)
        )
        if i >= end:
            return end
        if byte_at(page, i) == 62:
            if byte_at(page, i - 1) == 45 and byte_at(page, i - 2) == 45:
                state = PLAIN
            i += 1
        elif byte_at(page, i + 1) == 47 and is_named(page, i + 2, end, SCRIPT_HASH, SCRIPT_SIZE):
            if state != DOUBLE_ESCAPED:
                return i
            state = ESCAPED
            i += 2 + SCRIPT_SIZE
        elif state == PLAIN and byte_at(page, i + 1) == 33 and _dashes(page, i + 2, end):
            state = ESCAPED
            i += 2  # the dashes may be those of '-->'
        elif state == ESCAPED and is_named(page, i + 1, end, SCRIPT_HASH, SCRIPT_SIZE):
            state = DOUBLE_ESCAPED
            i += 1 + SCRIPT_SIZE
        else:
            i += 1


@fused
def _dashes(page: Any, i: Any, end: Any) -> Any:
    return i + 1 < end and byte_at(page, i) == 45 and byte_at(page, i + 1) == 45


@fused
def skip_comment(page: Any, i: Any, end: Any) -> Any:
    """Skip from behind '<!--' to behind the comment: '-->', '--!>', or '>' and '->' at once."""
    begin = i
    while True:
        i = machine.find_greater_than(page, i, end)
        if i >= end:
            return end
        if i == begin or (i == begin + 1 and byte_at(page, begin) == 45):
            return i + 1
        if i - begin >= 2 and _dashes(page, i - 2, end):
            return i + 1
        if i - begin >= 3 and byte_at(page, i - 1) == 33 and _dashes(page, i - 3, end):
            return i + 1
        i += 1


@fused
def skip_cdata(page: Any, i: Any, end: Any) -> Any:
    """Skip from behind '<![CDATA[' to behind ']]>'."""
    begin = i
    while True:
        i = machine.find_greater_than(page, i, end)
        if i >= end:
            return end
        if i - begin >= 2 and byte_at(page, i - 1) == 93 and byte_at(page, i - 2) == 93:
            return i + 1
        i += 1


# ---- attributes that say what a container is: class, id, style, hidden, role, itemprop, href

U = np.uint64
# These flags share a word with those of class names.
HAS_HREF = 1 << 30
SELF_CLOSING = 1 << 31
CASE = 32  # the bit that letters of both cases differ in
EACH_BYTE = U(0x0101010101010101)
HIGH_BITS = EACH_BYTE << U(7)
# Bytes that are read of a value.
CLASS_MAX = 512
STYLE_MAX = 256
VALUE_MAX = 24
SLOT_DIGITS_MAX = 8
ID_WORDS_MAX = 3  # an id of more words is made of a heading's
WORD_MAX = 15  # letters

DISPLAY, NONE, VISIBILITY, HIDDEN, ARIA, SHADOW_ROOT, LD_JSON, SRCDOC, ID_NAME = (
    np.frombuffer(word, np.uint8)
    for word in (
        b"display",
        b"none",
        b"visibility",
        b"hidden",
        b"aria",
        b"shadow",
        b"ld+json",
        b"srcdoc",
        b"id",
    )
)
ARTICLE_BODY = np.frombuffer(b'"articleBody"', np.uint8)
# The last eight bytes of a name as `_end_of_name` reads them: with its length all that is needed to
# know these.
CLASS, ID, STYLE, HIDDEN_NAME, ROLE, HREF, ITEMPROP, ARIA_HIDDEN, ARIA_MODAL, SHADOW_MODE = (
    np.uint64(int.from_bytes(name[-8:], "little"))
    for name in (
        b"class",
        b"id",
        b"style",
        b"hidden",
        b"role",
        b"href",
        b"itemprop",
        b"aria-hidden",
        b"aria-modal",
        b"shadowrootmode",
    )
)


@fused
def _end_of_name(page: Any, begin: Any, size: Any) -> Any:
    """
    The last eight bytes of a name in lower case, or all that it has, as a little-endian number.
    """
    if size >= 8:
        name = load64(page, begin + size - 8)
    else:
        name = load64(page, begin) & ((U(1) << U(8 * size)) - U(1))
    # All bytes at once: a sum's highest bit says whether a byte of 7 bits has reached the number.
    low = name & ~HIGH_BITS
    from_a = low + EACH_BYTE * U(0x80 - ord("A"))
    behind_z = low + EACH_BYTE * U(0x7F - ord("Z"))
    capitals = (from_a ^ behind_z) & ~name & HIGH_BITS
    return name | (capitals >> U(2))


@fused
def skip_space(page: Any, i: Any, end: Any) -> Any:
    while i < end and ABOUT_BYTE[byte_at(page, i)] & SPACE:
        i += 1
    return i


@fused
def _behind_name(page: Any, j: Any, end: Any) -> Any:
    """Return where an attribute's name ends that begins here. Its first byte may be '='."""
    j += 1
    while j < end and not ABOUT_BYTE[byte_at(page, j)] & (ENDS_NAME | EQUALS):
        j += 1
    return j


@apart
def read_attributes(page: Any, j: Any, end: Any, reads: Any) -> Any:
    """
    Read from behind a tag's name to its '>': (where that is, flags, if `reads`). Without a '>' that
    is `end`: no tag.
    """
    flags = np.int64(0)
    slash = False
    while j < end:
        byte = byte_at(page, j)
        if byte == 62:
            break
        slash = byte == 47
        if ABOUT_BYTE[byte] & ENDS_NAME:
            j += 1
            continue
        begin = j
        j = _behind_name(page, j, end)
        size = j - begin
        j, value, value_end = _value(page, j, end)
        if reads:
            name = _end_of_name(page, begin, size)
            flags |= _meaning(page, begin, name, size, value, value_end)
    return min(j, end), flags | (SELF_CLOSING if slash else 0)


@fused
def next_attribute(page: Any, j: Any, end: Any) -> Any:
    """
    Read a tag's next attribute: where its name begins and ends, where its value does, and where the
    attribute ends. Without one, all are `end`.
    """
    while j < end and byte_at(page, j) != 62 and ABOUT_BYTE[byte_at(page, j)] & ENDS_NAME:
        j += 1
    if j >= end or byte_at(page, j) == 62:
        return end, end, end, end, end
    begin = j
    j = _behind_name(page, j, end)
    after, value, value_end = _value(page, j, end)
    return begin, j, value, value_end, after


@fused
def find_attribute(page: Any, j: Any, end: Any, wanted: Any) -> Any:
    """
    Find the value of a tag's first attribute of this name, from behind the tag's name: (begin,
    end), or nothing.
    """
    while j < end:
        begin, name_end, value, value_end, j = next_attribute(page, j, end)
        if name_end - begin == len(wanted) and spells(page, begin, end, wanted, CASE):
            return value, value_end
    return end, end


@fused
def put_value(page: Any, i: Any, end: Any, out: Any, at: Any, references: Any) -> Any:
    """Write the value of an attribute, its references decoded. Returns where it ends."""
    while i < end:
        byte = byte_at(page, i)
        if byte == 38:
            value, after = reference(page, i, end, references)
            if after > i:
                i = after
                at = put_code_point(out, at, value & 0xFFFFFF)
                if value >> SECOND:
                    at = put_code_point(out, at, value >> SECOND)
                continue
        set_byte(out, at, byte)
        at += 1
        i += 1
    return at


@fused
def find_slot_letter(page: Any, begin: Any, end: Any) -> Any:
    """
    Find the letter that makes an id, `page[begin:end]`, that of a slot or a part of streamed
    content: B, P or S before a colon and one to eight hexadecimal digits, behind any prefix.

    Returns where it stands, `end` for none.
    """
    j = end
    while j > begin and end - j <= SLOT_DIGITS_MAX:
        byte = byte_at(page, j - 1)
        if not (48 <= byte <= 57 or 97 <= byte <= 102):
            break
        j -= 1
    if j == end or end - j > SLOT_DIGITS_MAX or j - begin < 2 or byte_at(page, j - 1) != 58:
        return end
    letter = byte_at(page, j - 2)
    return j - 2 if letter == 66 or letter == 80 or letter == 83 else end


@fused
def _value(page: Any, j: Any, end: Any) -> Any:
    """
    Find the value after an attribute's name. Returns where the attribute ends, and begin and end of
    the value.
    """
    after = skip_space(page, j, end)
    if after >= end or byte_at(page, after) != 61:
        return after, after, after
    j = skip_space(page, after + 1, end)
    byte = byte_at(page, j)
    if byte == 34 or byte == 39:
        begin = min(j + 1, end)
        stop = (
            machine.find_quote(page, begin, end)
            if byte == 34
            else machine.find_apostrophe(page, begin, end)
        )
        return min(stop + 1, end), begin, stop
    begin = j
    while j < end and not ABOUT_BYTE[byte_at(page, j)] & SPACE and byte_at(page, j) != 62:
        j += 1
    return j, begin, j


@fused
def _meaning(  # noqa: PLR0911
    page: Any, begin: Any, name: Any, size: Any, value: Any, end: Any
) -> Any:
    """The flags that an attribute sets."""
    short = min(end, value + VALUE_MAX)
    if (size == 5 and name == CLASS) or (size == 2 and name == ID):
        flags = words_of(
            page, value, min(end, value + CLASS_MAX), ID_WORDS_MAX if size == 2 else CLASS_MAX
        )
        streamed = size == 2 and find_slot_letter(page, value, end) < end
        return flags | names.STREAMED if streamed else flags
    if size == 4 and name == HREF:  # a place in this page is no other page; "#" alone is a script's
        return 0 if byte_at(page, value) == 35 and end - value > 1 else HAS_HREF
    if size == 5 and name == STYLE:
        return names.HIDDEN if _style_hides(page, value, min(end, value + STYLE_MAX)) else 0
    if size == 6 and name == HIDDEN_NAME:  # "until-found": as <details>, shown to who looks for it
        return names.HIDDEN if _hash_of(page, value, short) != names.UNTIL_FOUND else 0
    if size == 4 and name == ROLE:
        return look_up(names.ROLE_TABLE, _hash_of(page, value, short))
    if size == 8 and name == ITEMPROP:
        return (
            names.BODY_WORD | names.POSITIVE
            if _hash_of(page, value, short) == names.ARTICLE_BODY_NAME
            else 0
        )
    if size == 14 and name == SHADOW_MODE and spells(page, begin, end, SHADOW_ROOT, CASE):
        mode = _hash_of(page, value, short)
        return names.SHADOW if mode == names.OPEN or mode == names.CLOSED else 0
    if size == 11 and name == ARIA_HIDDEN and spells(page, begin, end, ARIA, CASE):
        return names.HIDDEN if _hash_of(page, value, short) == names.TRUE else 0
    if size == 10 and name == ARIA_MODAL and spells(page, begin, end, ARIA, CASE):
        is_modal = _hash_of(page, value, short) == names.TRUE
        return names.NEGATIVE | names.SURE | names.ALIKE if is_modal else 0
    return 0


@fused
def _read_word(page: Any, i: Any, end: Any) -> Any:
    """
    Read a word from its first letter on: (where it ends, the hash so far). It ends before what is
    no letter, and where a small letter is followed by a capital one.
    """
    key = add_byte(SEED, byte_at(page, i) | CASE)
    before = byte_at(page, i)
    i += 1
    while i < end:
        byte = byte_at(page, i)
        if not ABOUT_BYTE[byte] & LETTER or byte & CASE < before & CASE:
            break
        key = add_byte(key, byte | CASE)
        before = byte
        i += 1
    return i, key


@fused
def words_of(page: Any, i: Any, end: Any, words_max: Any) -> Any:
    """
    The flags that the words of a class, an id or a custom element's name set.

    A name that begins with a word of state ("has-sidebar") says nothing, nor does one of more words
    than `words_max`. A word that counts as a whole name only ("hidden") does not count beside a
    name that shows the box on some screens ("md:block"), and a post of a board ("reply hentry",
    "bbp-reply") is no comment.
    """
    flags = np.int64(0)
    of_name = np.int64(0)
    alone = np.int64(0)
    shown = np.int64(0)
    words = 0
    silent = False
    while i < end:
        about = ABOUT_BYTE[byte_at(page, i)]
        if not about & LETTER:
            if about & SPACE:
                flags |= 0 if silent or words > words_max else of_name
                of_name = np.int64(0)
                words = 0
                silent = False
            i += 1
            continue
        begin = i
        i, key = _read_word(page, i, end)
        if 1 < i - begin <= WORD_MAX:
            found = look_up(names.WORD_TABLE, finished(key))
            if words == 0 and found & names.STATE_WORD:
                silent = True
            if not found & names.ALONE:
                of_name |= found
            elif words == 0 and (i >= end or ABOUT_BYTE[byte_at(page, i)] & SPACE):
                alone |= found
            if words > 0 and byte_at(page, begin - 1) == 58:
                shown |= found & names.SHOWN
        words += 1
    flags |= 0 if silent or words > words_max else of_name
    flags |= 0 if shown else alone
    if flags & names.POST and flags & names.COMMENT:
        flags &= ~(names.COMMENT | names.NEGATIVE)
    return flags & ~(names.ALONE | names.SHOWN | names.POST)


@fused
def has_hyphen(page: Any, begin: Any, end: Any) -> Any:
    """Return whether a name has a hyphen, as those of custom elements have."""
    for k in range(begin, end):  # noqa: SIM110  # numba knows no any()
        if byte_at(page, k) == 45:
            return True
    return False


@fused
def spells(page: Any, i: Any, end: Any, word: Any, fold: Any) -> Any:
    """Return whether these letters stand at i; in either case where `fold` is CASE, else 0."""
    if i + len(word) > end:
        return False
    for k in range(len(word)):  # noqa: SIM110  # numba knows no all()
        if byte_at(page, i + k) | fold != word[k]:
            return False
    return True


@fused
def has_word(page: Any, i: Any, end: Any, word: Any) -> Any:
    """Return whether these letters stand anywhere, in either case."""
    while i + len(word) <= end:
        if spells(page, i, end, word, CASE):
            return True
        i += 1
    return False


@fused
def find_quoted(page: Any, i: Any, end: Any, word: Any) -> Any:
    """Return where a word stands that begins with a quotation mark, `end` if nowhere."""
    i = machine.find_quote(page, i, end)
    while i < end and not spells(page, i, end, word, 0):
        i = machine.find_quote(page, i + 1, end)
    return min(i, end)


@fused
def _begins_property(page: Any, begin: Any, i: Any) -> Any:
    """
    Return whether a name that begins at i is whole: "backface-visibility" is another property.
    """
    return i == begin or not (
        ABOUT_BYTE[byte_at(page, i - 1)] & LETTER or byte_at(page, i - 1) == 45
    )


@fused
def _style_hides(page: Any, i: Any, end: Any) -> Any:
    """Return whether a style says display: none or visibility: hidden."""
    begin = i
    while i < end:
        if byte_at(page, i) == 58:
            after = i + 1
            while after < end and byte_at(page, after) == 32:
                after += 1
            if (
                spells(page, after, end, NONE, CASE)
                and i - begin >= 7
                and spells(page, i - 7, i, DISPLAY, CASE)
                and _begins_property(page, begin, i - 7)
            ):
                return True
            if (
                spells(page, after, end, HIDDEN, CASE)
                and i - begin >= 10
                and spells(page, i - 10, i, VISIBILITY, CASE)
                and _begins_property(page, begin, i - 10)
            ):
                return True
        i += 1
    return False
