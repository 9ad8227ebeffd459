"""
The one pass over the bytes of a page, from its first to its last.

`scan` takes tags, comments and text apart as the WHATWG tokenizer does. characters.py copies text
and skips what holds no markup, tags.py decides what a tag opens and closes, and skeleton.py writes
what is found.

Tried and rejected:
- Names of elements read 32 bytes at a time and looked up as numbers of eight bytes: most are
  shorter than what that costs, and a page took 2.6 % longer. Names of attributes: as long (within
  0.5 %).
- A type of table in which no position is negative, so that numba does not look whether one counts
  from the end: a page took 4 % less time. A wrong -1 would read and write in front of the table,
  which a hostile page must never bring about; an array stays within itself.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels import machine
from worker.core.kernels.machine import byte_at, set_byte
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, ENDS_NAME, LETTER, SELF_CLOSING
from worker.core.pages.skeleton import (
    BLOCKS,
    DATA_BEGIN,
    DATA_END,
    DEPTH,
    FRAME_BEGIN,
    FRAME_END,
    HAS_BODY,
    IS_XML,
    NOSCRIPT_BEGIN,
    NOSCRIPT_END,
    OUT_AT,
    REFERENCES_AT,
    START,
    STREAMED,
    TITLE_AT,
    TITLE_MAX,
    TITLE_SIZE,
    begin_page,
    end_page,
    is_dropped,
    is_foreign,
    state_of,
)
from worker.core.pages.tags import close_select, end_tag, start_tag

# What STREAMED of the state says of a page:
HAS_SLOT = 1
HAS_PART = 2

CDATA = np.frombuffer(b"[CDATA[", np.uint8)


@apart
def scan(page: Any, i: Any, end: Any, skeleton: Any, is_xml: Any) -> Any:
    """
    Read UTF-8, `page[i:end]` from an address, with SLACK zeros behind it, into a Skeleton. Returns
    how many bytes of text `out` has.

    In XML a tag closes itself where it says so, also one whose content HTML would read to an end
    tag (`<title/>`, `<script src="a.js"/>`), and CDATA is read as what it holds.

    Cost: linear in the page's length, for any content.
    """
    room = begin_page(skeleton)
    state = state_of(room)
    state[IS_XML] = is_xml
    at = np.int64(0)
    while i < end:
        if byte_at(page, i) != 60:
            if is_dropped(room):
                i = machine.find_less_than(page, i, end)
            else:
                i, at = characters.copy_text(
                    page, i, end, state[OUT_AT], state[START], at, state[REFERENCES_AT]
                )
            continue
        byte = byte_at(page, i + 1)
        if ABOUT_BYTE[byte] & LETTER:
            i, at = _start(page, i + 1, end, room, at)
        elif byte == 47 and ABOUT_BYTE[byte_at(page, i + 2)] & LETTER:
            i, at = _end(page, i + 2, end, room, at)
        elif (byte == 47 and i + 2 < end) or (byte == 33 or byte == 63):
            i = _skip_declaration(page, i, end, room)
        else:
            if not is_dropped(room):
                set_byte(state[OUT_AT], at, 60)
                at += 1
            i += 1
    return end_page(room, at)


@fused
def _skip_declaration(page: Any, i: Any, end: Any, room: Any) -> Any:
    """From '<!', '<?' or '</' to behind it: a comment, CDATA, or what ends at the next '>'."""
    if byte_at(page, i + 1) == 33:
        if byte_at(page, i + 2) == 45 and byte_at(page, i + 3) == 45:
            return characters.skip_comment(page, i + 4, end)
        if is_foreign(room) and characters.spells(page, i + 2, end, CDATA, 0):
            return characters.skip_cdata(page, i + 9, end)
        if state_of(room)[IS_XML] and characters.spells(page, i + 2, end, CDATA, 0):
            return i + 9
    return min(machine.find_greater_than(page, i + 2, end) + 1, end)


@fused
def read_name(page: Any, i: Any, end: Any) -> Any:
    """Read an element's name: (where it ends, its hash)."""
    key = names.SEED
    while i < end:
        byte = byte_at(page, i)
        if ABOUT_BYTE[byte] & ENDS_NAME:
            break
        if 65 <= byte <= 90:
            byte |= 32
        key = names.add_byte(key, byte)
        i += 1
    return i, names.finished(key)


@fused
def _end(page: Any, begin: Any, end: Any, room: Any, at: Any) -> Any:
    """An end tag from its name on: (where it ends, where the text ends)."""
    i, key = read_name(page, begin, end)
    end_of_name = i
    if byte_at(page, i) != 62:  # few end tags have attributes, and the call is expensive
        i, _ = characters.read_attributes(page, i, end, np.int64(0))
        if i >= end:
            return end, at
    element = names.look_up(names.TAG_TABLE, key)
    if element == 0 and characters.has_hyphen(page, begin, end_of_name):
        element = np.int64(names.CUSTOM_ELEMENT)
    return i + 1, end_tag(room, element, at) if element else at


@fused
def _start(page: Any, begin: Any, end: Any, room: Any, at: Any) -> Any:  # noqa: PLR0911
    """
    A start tag from its name on, and an element without markup whole: (where it ends, where the
    text ends).
    """
    i, key = read_name(page, begin, end)
    size = i - begin
    element = names.look_up(names.TAG_TABLE, key)
    words = np.int64(0)  # of the name of a custom element, as of a class
    if element == 0 and characters.has_hyphen(page, begin, i):
        element = np.int64(names.CUSTOM_ELEMENT)
        words = characters.words_of(page, begin, i, characters.CLASS_MAX)
    tag = element & names.TAG
    flags = np.int64(0)
    if byte_at(page, i) != 62:
        i, flags = characters.read_attributes(
            page, i, end, names.CLASSED if tag == names.A else element & names.CLASSED
        )
        if i >= end:
            return end, at
    i += 1
    if element == 0:
        return i, at
    flags |= words
    if flags & names.STREAMED:
        state_of(room)[STREAMED] |= HAS_SLOT if tag == names.TEMPLATE else HAS_PART
        flags &= ~names.STREAMED
    if flags & names.SHADOW and tag == names.TEMPLATE:
        element &= ~names.DROPPED
    if not is_foreign(room):
        if flags & SELF_CLOSING and state_of(room)[IS_XML] and not element & names.VOID:
            return i, _closed_tag(room, element, flags, at)
        if element & names.RAW:
            return _raw(page, i, end, room, (element, key, begin, size, flags), at)
        if tag == names.PLAINTEXT:
            at = start_tag(room, element, flags, at)
            return end, at if is_dropped(room) else characters.copy_verbatim(
                page, i, end, state_of(room)[OUT_AT], state_of(room)[START], at
            )
        if (
            tag == names.FRAMESET
            and state_of(room)[DEPTH] == 1
            and state_of(room)[BLOCKS] == 0
            and at == 0
        ):
            # Frames in place of a body: no text.
            return (i, at) if state_of(room)[HAS_BODY] else (end, at)
    return i, start_tag(room, element, flags, at)


@apart
def _closed_tag(room: Any, element: Any, flags: Any, at: Any) -> Any:
    """A tag of XML that closes itself; returns where the text ends."""
    tag = element & names.TAG
    if element & names.RAW or tag == names.PLAINTEXT or tag == names.FRAMESET:
        return at
    return end_tag(room, element, start_tag(room, element, flags, at))


@apart
def _raw(page: Any, i: Any, end: Any, room: Any, about: Any, at: Any) -> Any:
    """
    An element without markup, from behind its start tag: (behind its end tag, where the text ends).
    """
    element, key, begin, size, flags = about
    tag = element & names.TAG
    stop = (
        characters.skip_script(page, i, end)
        if tag == names.SCRIPT
        else characters.skip_raw(page, i, end, key, size)
    )
    if tag == names.TITLE and state_of(room)[TITLE_SIZE] == 0 and not is_dropped(room):
        cut = min(stop, i + TITLE_MAX)
        while cut < stop and byte_at(page, cut) & 0xC0 == 0x80:  # no part of a character
            cut -= 1
        _read_title(page, i, cut, room)
    elif tag == names.SCRIPT or tag == names.NOSCRIPT or tag == names.IFRAME:
        _note_embedded(page, begin + size, i, stop, tag, room)
    elif tag == names.TEXTAREA:
        at = close_select(room, at)
    elif tag == names.XMP:
        at = start_tag(room, element, flags, at)
        if not is_dropped(room):
            at = characters.copy_verbatim(
                page, i, stop, state_of(room)[OUT_AT], state_of(room)[START], at
            )
        at = end_tag(room, element, at)
    if stop >= end:
        return end, at
    i, _ = characters.read_attributes(page, stop + 2 + size, end, np.int64(0))
    return min(i + 1, end), at


@fused
def _note_embedded(page: Any, begin: Any, inner: Any, stop: Any, tag: Any, room: Any) -> None:
    """
    Note the longest JSON-LD with an `articleBody`, noscript, and srcdoc:
    `page[begin:inner]` are the attributes, `page[inner:stop]` is the content.
    """
    if is_dropped(room):
        return
    if tag == names.NOSCRIPT:
        _note(room, NOSCRIPT_BEGIN, NOSCRIPT_END, inner, stop)
    elif tag == names.IFRAME:
        # A srcdoc is shorter than its tag: most tags need not be read again.
        if inner - begin <= state_of(room)[FRAME_END] - state_of(room)[FRAME_BEGIN]:
            return
        value, value_end = characters.find_attribute(page, begin, inner, characters.SRCDOC)
        _note(room, FRAME_BEGIN, FRAME_END, value, value_end)
    elif (
        stop - inner > state_of(room)[DATA_END] - state_of(room)[DATA_BEGIN]
        and characters.has_word(page, begin, inner, characters.LD_JSON)
        and characters.find_quoted(page, inner, stop, characters.ARTICLE_BODY) < stop
    ):
        _note(room, DATA_BEGIN, DATA_END, inner, stop)


@fused
def is_markup(page: Any, i: Any, end: Any) -> Any:
    """
    Return whether a script, a template or a comment is markup that a script may show: it begins
    with a tag, and has no places to fill in, {{ or <%.
    """
    i = characters.skip_space(page, i, end)
    if i + 1 >= end or byte_at(page, i) != 60 or not ABOUT_BYTE[byte_at(page, i + 1)] & LETTER:
        return False
    for k in range(i, end - 1):
        byte = byte_at(page, k)
        after = byte_at(page, k + 1)
        if (byte == 123 and after == 123) or (byte == 60 and after == 37):
            return False
    return True


@fused
def _note(room: Any, begin_column: Any, end_column: Any, begin: Any, end: Any) -> None:
    """Note a stretch of the page, if it is longer than the one noted before."""
    state = state_of(room)
    if end - begin > state[end_column] - state[begin_column]:
        state[begin_column] = begin
        state[end_column] = end


@fused
def _read_title(page: Any, i: Any, end: Any, room: Any) -> None:
    state = state_of(room)
    at = np.int64(0)
    title = state[TITLE_AT]
    while i < end:
        i, at = characters.copy_text(page, i, end, title, np.int64(0), at, state[REFERENCES_AT])
        if i < end:
            set_byte(title, at, 60)
            at += 1
            i += 1
    if at > 0 and byte_at(title, at - 1) == 32:
        at -= 1
    state[TITLE_SIZE] = at
