"""
Reads what a page says in data, in noscript or in a frame, where what it shows is a notice alone.

Some pages show a sentence while they load, a notice, or the question whether one agrees, and each
page of the site shows the same. Their own text is there all the same, for machines or for browsers
without scripts:

    <script type="application/ld+json">{"articleBody": "..."}</script>
    <noscript><p>...</p></noscript>
    <iframe srcdoc="&lt;p&gt;..."></iframe>

The scanner notes the longest of each kind in passing. If little of the page is its main text, the
kinds are read in this order, each as an article of its own under the page's title. The first that
has much more main text takes the place of the page's text. It never joins it: two pages with one
sentence in front would be alike by that.

Much more, so that nothing changes on a page that shows its text: data and frames repeat the text of
many pages, or its beginning. A page that was read in vain is read again as it stands.

All is linear: the three stretches do not overlap, each is scanned once, and what stands in them is
not looked for again. `tests/core/pages/embedded_reference.py` says the same in plain Python.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, apart_allocating, fused, fused_allocating
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    SLACK,
    byte_at,
    copy_bytes,
    count_less_than,
    put_code_point,
    set_byte,
)
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, SECOND, SPACE
from worker.core.pages.scan import scan
from worker.core.pages.select import select
from worker.core.pages.skeleton import (
    B_KEEP,
    B_LENGTH,
    B_NODE,
    BLOCKS,
    DATA_BEGIN,
    DATA_END,
    FRAME_BEGIN,
    FRAME_END,
    N_ABOVE,
    NOSCRIPT_BEGIN,
    NOSCRIPT_END,
    REFERENCES_AT,
    TITLE_MAX,
    TITLE_SIZE,
    with_rows,
)

SHOWN_MAX = 150  # letters of main text: a page that shows more needs no other
KEPT_MAX = 2_000  # the same with that of dialogs: a whole article may be named like one
EMBEDDED_MIN = 150  # letters of main text that the other has, at least ...
NOSCRIPT_MIN = 300  # ... a notice about scripts, the same on all pages of a site, has fewer ...
EMBEDDED_MORE = 2  # ... and so many times as much as the page shows
LETTERS_MAX = 3  # letters that a byte can count as: a character of Chinese has three bytes
KINDS = 3
DATA, NOSCRIPT, FRAME = range(KINDS)

ARTICLE_BODY = np.frombuffer(b'"articleBody"', np.uint8)
_TITLE = np.frombuffer(b"<title>", np.uint8)
_TITLE_END = np.frombuffer(b"</title><article>", np.uint8)
_ARTICLE_END = np.frombuffer(b"</article>", np.uint8)
_PARAGRAPH = np.frombuffer(b"<p>", np.uint8)
_AMPERSAND = np.frombuffer(b"&amp;", np.uint8)
_LESS = np.frombuffer(b"&lt;", np.uint8)
_AROUND = 64 + 5 * TITLE_MAX  # bytes around the content: tags, and a title of references


@fused
def longest_embedded(room: Any) -> Any:
    """Return the bytes of the longest stretch that a page embeds."""
    state = room.state
    return max(
        state[DATA_END] - state[DATA_BEGIN],
        state[NOSCRIPT_END] - state[NOSCRIPT_BEGIN],
        state[FRAME_END] - state[FRAME_BEGIN],
    )


@apart_allocating
def read_embedded(data: Any, begin: Any, end: Any, room: Any, is_xml: Any, has_all: Any) -> Any:
    """
    Read the page `data[begin:end]`, which is scanned and selected, from what it embeds, if it shows
    little.

    Args:
        has_all: what `select` has returned for the page as it stands.
    Returns:
        What `select` returns; the bytes of text in `out`, 0 if that is the page's as it stands; and
        the room, with more rows if the other has more tags than the page.
    """
    shown = _shown(room)
    if shown > SHOWN_MAX or _kept(room) > KEPT_MAX:
        return has_all, np.int64(0), room
    spans = room.state[DATA_BEGIN : FRAME_END + 1].copy()
    was_scanned = False
    for kind in range(KINDS):
        first = spans[2 * kind]
        last = spans[2 * kind + 1]
        own = np.int64(NOSCRIPT_MIN if kind == NOSCRIPT else EMBEDDED_MIN)
        least = max(own, EMBEDDED_MORE * shown)
        if last - first < least // LETTERS_MAX:
            continue
        other, size = page_of(data, first, last, kind, room)
        if size == 0:
            continue
        was_scanned = True
        room = with_rows(room, count_less_than(other, np.int64(0), size))
        text_size, other_has_all = scan_and_select(other, np.int64(0), size, room, False)
        if not other_has_all and _kept(room) >= least:
            return False, text_size, room
    if was_scanned:
        scan_and_select(data, begin, end, room, is_xml)
    return has_all, np.int64(0), room


@apart
def scan_and_select(data: Any, begin: Any, end: Any, room: Any, is_xml: Any) -> Any:
    """
    Scan and select `data[begin:end]`. Returns how many bytes of text `out` has, and whether all of
    it was taken.

    The scanner has the address of the array alone. Its caller holds the array while this runs.
    """
    size = scan(np.int64(data.ctypes.data), begin, end, room, is_xml)
    return size, select(room)


@fused
def _kept(room: Any) -> Any:
    """Return the letters that are kept."""
    kept = np.int64(0)
    for b in range(room.state[BLOCKS]):
        kept += room.blocks[b, B_LENGTH] if room.blocks[b, B_KEEP] else 0
    return kept


@fused
def _shown(room: Any) -> Any:
    """Return the letters that are kept, but for those of dialogs: some pages show nothing else."""
    shown = np.int64(0)
    for b in range(room.state[BLOCKS]):
        above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
        # Within the main part, a name like that of a dialog is one of the page's own.
        is_dialog = above & names.SURE and not above & (names.IN_MAIN | names.IN_ARTICLE)
        if room.blocks[b, B_KEEP] and not is_dialog:
            shown += room.blocks[b, B_LENGTH]
    return shown


@fused_allocating
def page_of(data: Any, begin: Any, end: Any, kind: Any, room: Any) -> Any:
    """
    Return a page of what `data[begin:end]` embeds, under the title of the room, with SLACK zeros
    behind it; and its size, 0 if there is nothing.
    """
    page = np.int64(data.ctypes.data)
    if kind == DATA:
        begin, end = _find_body(page, begin, end)
        if begin == end:
            return np.zeros(SLACK, np.uint8), np.int64(0)
    # A line break in data has two bytes, and becomes a paragraph's tag of three; no reference
    # becomes more than half as long again.
    out = np.zeros((end - begin) + (end - begin) // 2 + _AROUND + 2 * SLACK, np.uint8)
    to = np.int64(out.ctypes.data)
    at = _put(to, np.int64(0), _TITLE)
    for k in range(room.state[TITLE_SIZE]):
        byte = np.int64(room.title[k])
        if byte == 38:
            at = _put(to, at, _AMPERSAND)
        elif byte == 60:
            at = _put(to, at, _LESS)
        else:
            set_byte(to, at, byte)
            at += 1
    at = _put(to, at, _TITLE_END)
    if kind == DATA:
        at = _put_data(page, begin, end, to, at)
    elif kind == FRAME:
        at = _put_value(page, begin, end, to, at, room.state[REFERENCES_AT])
    else:
        copy_bytes(page, begin, to, at, end - begin)
        at += end - begin
    at = _put(to, at, _ARTICLE_END)
    out[at : at + SLACK] = 0
    return out, at


@fused
def _put(out: Any, at: Any, word: Any) -> Any:
    for k in range(len(word)):
        set_byte(out, at + k, np.int64(word[k]))
    return at + len(word)


@fused
def _find_body(page: Any, i: Any, end: Any) -> Any:
    """Find the longest string that is named articleBody: (begin, end), or nothing."""
    found = np.int64(0)
    found_end = np.int64(0)
    while True:
        i = machine.find_quote(page, i, end)
        if i >= end:
            return found, found_end
        if not characters.spells(page, i, end, ARTICLE_BODY, 0):
            i += 1
            continue
        i = _skip_space(page, i + len(ARTICLE_BODY), end)
        if i >= end or byte_at(page, i) != 58:
            continue
        i = _skip_space(page, i + 1, end)
        if i >= end or byte_at(page, i) != 34:
            continue
        i += 1
        begin = i
        while i < end and byte_at(page, i) != 34:
            i += 2 if byte_at(page, i) == 92 else 1
        if i < end and i - begin > found_end - found:
            found = begin
            found_end = i
        i += 1


@fused
def _skip_space(page: Any, i: Any, end: Any) -> Any:
    while i < end and ABOUT_BYTE[byte_at(page, i)] & SPACE:
        i += 1
    return i


@fused
def _put_data(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """Write a string of JSON as HTML; a line break begins a paragraph. Returns where it ends."""
    while i < end:
        byte = byte_at(page, i)
        if byte != 92:
            set_byte(out, at, byte)
            at += 1
            i += 1
            continue
        escape = byte_at(page, i + 1)
        i += 2
        if escape == 117:  # u
            code, i = _code_unit(page, i, end)
            if 0xD800 <= code < 0xDC00 and byte_at(page, i) == 92 and byte_at(page, i + 1) == 117:
                low, after = _code_unit(page, i + 2, end)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    i = after
            if 0xD800 <= code < 0xE000:
                code = np.int64(0xFFFD)
            at = _put(out, at, _PARAGRAPH) if code == 10 else put_code_point(out, at, code)
        elif escape == 110 or escape == 114:  # n, r
            at = _put(out, at, _PARAGRAPH)
        elif escape == 98 or escape == 102 or escape == 116:  # b, f, t
            set_byte(out, at, np.int64(32))
            at += 1
        elif escape < 0x80:
            set_byte(out, at, escape)
            at += 1
        else:  # no escape: the character stands for itself
            i -= 1
    return at


@fused
def _code_unit(page: Any, i: Any, end: Any) -> Any:
    """
    Return the number in four hexadecimal digits, and where they end.

    Others stand for the u itself: U+FFFD would be longer than its escape, and the text longer than
    the room's.
    """
    code = np.int64(0)
    for k in range(4):
        byte = byte_at(page, i + k) if i + k < end else np.int64(0)
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= (byte | 32) <= 102:
            digit = (byte | 32) - 87
        else:
            return np.int64(117), i
        code = code * 16 + digit
    return code, i + 4


@fused
def _put_value(page: Any, i: Any, end: Any, out: Any, at: Any, references: Any) -> Any:
    """Write the value of an attribute, its references decoded. Returns where it ends."""
    while i < end:
        byte = byte_at(page, i)
        if byte == 38:
            value, after = characters.reference(page, i, end, references)
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
