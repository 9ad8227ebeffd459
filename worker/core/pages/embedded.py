"""
Reads what a page says in data, in noscript, in a script of markup, in a frame or in the state of
its application, where what it shows is a notice alone.

Some pages show a sentence while they load, a notice, or the question whether one agrees, and each
page of the site shows the same. Their own text is there all the same, for machines or for browsers
without scripts:

    <script type="application/ld+json">{"articleBody": "..."}</script>
    <noscript><p>...</p></noscript>
    <iframe srcdoc="&lt;p&gt;..."></iframe>
    <script type="text/template"><article>...</article></script>, or a template, or a comment
    <script>window.__STATE__ = {"post": {"body": "..."}}</script>

The scanner notes the longest JSON-LD, noscript and frame in passing, `told.py` the rest. If little
of the page is its main text, the kinds are read in this order, each as an article of its own under
the page's title. The first that has much more main text takes the place of the page's text. It
never joins it: two pages with one sentence in front would be alike by that.

Much more, so that nothing changes on a page that shows its text: data and frames repeat the text of
many pages, or its beginning. JSON-LD says that it is the article (`data.py`). The next three may be
what a site says on all its pages, about scripts or in a widget. So they need an h1, an article or a
main part of their own. Without one they replace a notice alone, and are longer than what is kept:
an article may be named like a dialog. Markup that is not shown needs both: most is a site's
templates. A page that was read in vain is read again as it stands.

A state says of none of its strings that it is the article (`told.py`), so it is looked for only
where nothing shown looks like a page's own text: no heading of the page, no article. If a notice is
all that is left, the description of the page joins it.

Not done: a state or a template in place of a slogan under the site's own h1. The h1 of a short page
does not always repeat its title either, and the longest text of its state may be the site's.

All is linear: the first four stretches do not overlap, states may repeat the data, each is scanned
once, and what stands in them is not looked for again. `tests/core/pages/embedded_reference.py` says
the same in plain Python.
"""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, apart_allocating, fused, fused_allocating
from worker.core.kernels.machine import (
    SLACK,
    byte_at,
    copy_bytes,
    count_less_than,
    load64,
)
from worker.core.pages import names
from worker.core.pages.characters import put_value
from worker.core.pages.data import GROWTH, article_text, put_bytes, put_text
from worker.core.pages.heading import HEADLINE_MIN, level_of
from worker.core.pages.keep import KEPT, counts
from worker.core.pages.scan import scan
from worker.core.pages.select import select
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_NODE,
    B_START,
    BLOCKS,
    DATA_BEGIN,
    DATA_END,
    FRAME_BEGIN,
    FRAME_END,
    N_ABOVE,
    N_TAG,
    NODES,
    NOSCRIPT_BEGIN,
    NOSCRIPT_END,
    OUT_AT,
    REFERENCES_AT,
    TITLE_SIZE,
    measured,
    with_rows,
)
from worker.core.pages.titles import repeats_title
from worker.core.pages.told import (
    is_letter,
    letters_of_state,
    put_description,
    state_text,
    told_of,
)

SHOWN_MAX = 400  # letters of main text: a page that shows more needs no other
NOTICE_MAX = 150  # ... and one that shows as many is hardly a page
KEPT_MAX = 2_000  # the same with that of dialogs: a whole article may be named like one
EMBEDDED_MIN = 150  # letters of main text that the other has, at least ...
NOSCRIPT_MIN = 300  # ... a notice about scripts, the same on all pages of a site, has fewer ...
STATE_MIN = 400  # ... and the text of a consent box, which may stand in a state
EMBEDDED_MORE = 2  # ... and so many times as much as the page shows, ...
OTHER_MORE = 4  # ... or as a page that is more than a notice, where it may not be the article
LETTERS_MAX = 3  # letters that a byte can count as: a character of Chinese has three bytes
OWN = 2  # the first container that is embedded: before it are the page and the article around it
KINDS = 5
DATA, NOSCRIPT, FRAME, MARKUP, STATE = range(KINDS)
SAMPLE = 64  # bytes of letters that the page shows, which are looked for in a state
WORD = 8  # bytes that are compared at once
CHARACTER_BYTES = 3  # of a character of Chinese, and of other scripts without spaces
DESCRIPTION_MIN = 80  # bytes: a shorter one is no sentence; letters that are added in any case

_ARTICLE = np.frombuffer(b"<article>", np.uint8)
_ARTICLE_END = np.frombuffer(b"</article>", np.uint8)
_AROUND = len(_ARTICLE) + len(_ARTICLE_END)


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
def read_embedded(
    data: Any, begin: Any, end: Any, room: Any, is_xml: Any, has_all: Any, size: Any
) -> Any:
    """
    Read the page `data[begin:end]`, which is scanned and selected, from what it embeds, if it shows
    little.

    Args:
        has_all, size: what `select` and `scan` have returned for the page as it stands.
    Returns:
        What `select` returns; the bytes of text in `out`; and the room, with more rows if the other
        has more tags than the page.
    """
    shown = _letters(room, names.SURE)
    kept = _letters(room, 0)
    if shown > SHOWN_MAX or kept > KEPT_MAX:
        return has_all, size, room
    spans = np.zeros(2 * KINDS + 2, np.int64)
    spans[: 2 * MARKUP] = room.state[DATA_BEGIN : FRAME_END + 1]
    states = np.zeros(0, np.uint8)
    title = room.title[: room.state[TITLE_SIZE]].copy()
    is_told = _shows_notice(room, shown)
    if is_told or shown <= NOTICE_MAX:
        page = np.int64(data.ctypes.data)
        references = room.state[REFERENCES_AT]
        markup = spans[2 * MARKUP : 2 * STATE]
        states, states_end = told_of(page, begin, end, markup, spans[2 * KINDS :], references)
        if is_told:
            _drop_shown(room, states, states_end)
            spans[2 * STATE + 1] = states_end
    was_scanned = False
    for kind in range(KINDS):
        first = spans[2 * kind]
        last = spans[2 * kind + 1]
        least = _letters_wanted(kind, shown)
        if last - first < least // LETTERS_MAX:
            continue
        source = states if kind == STATE else data
        other, stop = page_of(source, first, last, kind, room.state[REFERENCES_AT])
        if stop == 0:
            continue
        was_scanned = True
        room = with_rows(room, count_less_than(other, np.int64(0), stop))
        text_size, other_has_all = scan_and_select(other, np.int64(0), stop, room, False, title)
        letters = _letters(room, 0)
        is_article = kind == DATA or kind == STATE or _has_landmark(room)
        replaces_notice = (is_told or shown <= NOTICE_MAX) and letters >= kept
        is_text = is_article or replaces_notice
        if kind == MARKUP:
            is_text = is_article and replaces_notice
        if not other_has_all and is_text and letters >= least:
            return False, text_size, room
    if was_scanned:
        scan_and_select(data, begin, end, room, is_xml, title)
    if is_told and 0 < shown <= NOTICE_MAX:
        size = _add_description(data, spans[2 * KINDS], spans[2 * KINDS + 1], room, size, shown)
    return has_all, size, room


@fused
def shows_little(room: Any) -> Any:
    """Return whether a page shows so little that it may be a notice."""
    letters = np.int64(0)
    for b in range(room.state[BLOCKS]):
        if counts(room.blocks, b):
            letters += room.blocks[b, B_LENGTH]
            if letters > KEPT_MAX:
                return False
    return True


@fused
def _shows_notice(room: Any, shown: Any) -> Any:
    """
    Return whether what a page shows looks like no page: no block repeats the title, stands in an
    article or is an h1; and none stands in a main part, beyond the length of a notice.
    """
    for b in range(room.state[BLOCKS]):
        if room.blocks[b, B_KEEP] == 0:
            continue
        node = room.blocks[b, B_NODE]
        if room.blocks[b, B_LENGTH] >= HEADLINE_MIN and repeats_title(room, b):
            return False
        above = room.nodes[node, N_ABOVE]
        if above & names.IN_ARTICLE or level_of(room.nodes, node) == 0:
            return False
        if above & names.IN_MAIN and shown > NOTICE_MAX:
            return False
    return True


@apart_allocating
def _drop_shown(room: Any, states: Any, states_end: Any) -> None:
    """
    Overwrite each state with zeros that holds what the page shows, by the first letters of its
    longest block: the page is made of it already, and the rest is what the site says elsewhere.

    Letters and digits alone are compared: between them the state has escapes and markup.
    """
    start = np.int64(0)
    stop = np.int64(0)
    for b in range(room.state[BLOCKS]):
        if counts(room.blocks, b) and room.blocks[b, B_BYTES] > stop - start:
            start = room.blocks[b, B_START]
            stop = room.blocks[b, B_END]
    sample = np.zeros(SAMPLE + SLACK, np.uint8)
    size = np.int64(0)
    while start < stop and size < SAMPLE:
        if is_letter(room.out, start):
            sample[size] = byte_at(room.out, start)
            size += 1
        start += 1
    if size < WORD:
        return
    begin = np.int64(0)
    for end in range(states_end):  # each state has a zero behind it
        if states[end]:
            continue
        if end - begin >= size:  # a page may have millions of zeros, and a call takes three arrays
            letters, letters_end = letters_of_state(states, begin, end, room.state[REFERENCES_AT])
            if _holds(letters, letters_end, sample, size):
                states[begin:end] = 0
        begin = np.int64(end + 1)


@fused
def _holds(letters: Any, end: Any, sample: Any, size: Any) -> Any:
    """Return whether a sample, of WORD bytes or more, stands in letters."""
    last = size - WORD
    for i in range(end - size + 1):
        k = np.int64(0)
        while k < last and load64(letters, i + k) == load64(sample, k):
            k += WORD
        if k >= last and load64(letters, i + last) == load64(sample, last):
            return True
    return False


@fused
def _add_description(data: Any, begin: Any, end: Any, room: Any, size: Any, shown: Any) -> Any:
    """
    Add a description as the last block, or as many of its words as have the letters that the page
    shows, or DESCRIPTION_MIN: with more, what a site says on all its pages would be most of a text.
    Returns how many bytes of text `out` has.
    """
    b = room.state[BLOCKS]
    if end - begin < DESCRIPTION_MIN or b >= room.blocks.shape[0]:
        return size
    page = np.int64(data.ctypes.data)
    stop = put_description(page, begin, end, room.state[OUT_AT], size, room.state[REFERENCES_AT])
    most = max(shown, np.int64(DESCRIPTION_MIN))
    if measured(room.out, size, stop)[0] > most:
        stop = _words_within(room.out, size, stop, most)
    room.blocks[b, :] = 0
    room.blocks[b, B_START] = size
    room.blocks[b, B_END] = stop
    room.blocks[b, B_BYTES] = stop - size
    room.blocks[b, B_LENGTH] = measured(room.out, size, stop)[0]
    room.blocks[b, B_KEEP] = KEPT
    room.state[BLOCKS] = b + 1
    return stop


@fused
def _words_within(out: Any, begin: Any, end: Any, most: Any) -> Any:
    """
    Return where the words end that have at most so many letters: at a space, or, in scripts without
    spaces, at a character.
    """
    stop = begin
    i = begin
    length = np.int64(0)
    while i < end:
        after = i + 1
        while after < end and byte_at(out, after) & 0xC0 == 0x80:
            after += 1
        length += measured(out, i, after)[0]
        if length > most:
            break
        is_heavy = after - i == CHARACTER_BYTES
        if byte_at(out, i) == 32:
            stop = i
        elif is_heavy:
            stop = after
        i = after
    return stop


@fused
def _letters_wanted(kind: Any, shown: Any) -> Any:
    """Return the letters of main text with which a kind takes the place of what the page shows."""
    if kind == DATA:
        return max(np.int64(EMBEDDED_MIN), EMBEDDED_MORE * shown)
    least = np.int64(EMBEDDED_MIN)
    if kind == NOSCRIPT or kind == MARKUP:
        least = np.int64(NOSCRIPT_MIN)
    elif kind == STATE:
        least = np.int64(STATE_MIN)
    more = EMBEDDED_MORE if shown <= NOTICE_MAX else OTHER_MORE
    return max(least, more * shown)


@fused
def _has_landmark(room: Any) -> Any:
    """Return whether a page of what is embedded has a heading, an article or a main part in it."""
    for k in range(OWN, room.state[NODES]):  # noqa: SIM110  # numba knows no any()
        if names.LANDMARKS[room.nodes[k, N_TAG]]:
            return True
    return False


@apart
def scan_and_select(data: Any, begin: Any, end: Any, room: Any, is_xml: Any, title: Any) -> Any:
    """
    Scan and select `data[begin:end]`. Returns how many bytes of text `out` has, and whether all of
    it was taken.

    The scanner has the address of the array alone. Its caller holds the array while this runs.

    Args:
        title: the page's title, whatever the data say; empty if they are to say it.
    """
    size = scan(np.int64(data.ctypes.data), begin, end, room, is_xml)
    for k in range(title.size):
        room.title[k] = title[k]
    if title.size:
        room.state[TITLE_SIZE] = title.size
    return size, select(room)


@fused
def _letters(room: Any, without: Any) -> Any:
    """
    Return the letters of text, but for those within names of these flags, as of dialogs: some pages
    show nothing else.
    """
    letters = np.int64(0)
    for b in range(room.state[BLOCKS]):
        above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
        # Within the main part, a name like that of a dialog is one of the page's own.
        is_out = above & without and not above & (names.IN_MAIN | names.IN_ARTICLE)
        if counts(room.blocks, b) and not is_out:
            letters += room.blocks[b, B_LENGTH]
    return letters


@fused_allocating
def page_of(data: Any, begin: Any, end: Any, kind: Any, references: Any) -> Any:
    """
    Return a page of what `data[begin:end]` embeds, with SLACK zeros behind it; and its size, 0 if
    there is nothing.
    """
    page = np.int64(data.ctypes.data)
    if kind == DATA or kind == STATE:
        if kind == DATA:
            text, size = article_text(page, begin, end)
        else:
            text, size = state_text(data, end)
        if size == 0:
            return np.zeros(SLACK, np.uint8), np.int64(0)
        out = np.zeros(GROWTH * size + _AROUND + SLACK, np.uint8)
        to = np.int64(out.ctypes.data)
        at = put_bytes(to, np.int64(0), _ARTICLE)
        at = put_text(text, size, to, at)
    else:
        # No reference becomes more than half as long again.
        out = np.zeros((end - begin) * 3 // 2 + _AROUND + 2 * SLACK, np.uint8)
        to = np.int64(out.ctypes.data)
        at = put_bytes(to, np.int64(0), _ARTICLE)
        if kind == FRAME:
            at = put_value(page, begin, end, to, at, references)
        else:
            copy_bytes(page, begin, to, at, end - begin)
            at += end - begin
    at = put_bytes(to, at, _ARTICLE_END)
    out[at : at + SLACK] = 0
    return out, at
