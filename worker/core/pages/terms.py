"""
Marks what a shop or a newspaper says on all its pages: how it delivers and is paid, and what a
subscription offers.

A product may have two sentences, and its shop ten on delivery in the next tab; an article behind a
paywall has a lead, and below it the offer. Two such pages would be copies by what is not their own.
Nothing in the markup tells the tab of delivery from that of the description, but its heading does,
or its class: the words are few (`term` in `names.tsv`), as those of agreements are.

A word alone proves little. So a box is marked only if it begins with such a heading, or is named
so, and stands behind the page's heading; on a page that has a text of its own, is short without the
box, and whose heading has no such word. The page's own text stands before an offer. A shop's may
also stand behind its terms, if it is prose; there is a price before the box, and what stands beside
a heading needs no box. And terms are short: an article's body may begin with such a heading as
well. Then the box is a dialog to all later steps.
An article on payments, a manual with a chapter on delivery, and a page of the terms themselves stay
as they are.

Offers are known by their headings alone. The class "paywall" often names the article behind it:
when we believed that class, four of 740 reviewed pages lost their text. An offer is the only part
of its page: a manual with a heading for each section has others beside the one on subscriptions.
And it has a few sentences: an article about subscriptions has more paragraphs. A button to
subscribe at the end of a box is not enough either: the box may be the article's.

Pages that list the terms of a country were alike by their first sentence until a price was asked
for.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.heading import HEADLINE_MIN, MENU, NO_LEVEL, level_of
from worker.core.pages.measures import PROSE
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    BLOCKS,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
)
from worker.core.pages.titles import repeats_title

TERM_HEAD_MAX = 48  # letters of a heading of terms
OWN_MIN = 40  # letters of the page's own text behind its heading, without links
TERM_BESIDE = 2_000  # letters of other prose beside which terms make no two pages alike
ALL_PROSE = 8_000  # ... and with terms: a page with more is not looked at
TERM_MAX = 2_000  # letters of all boxes of a page together: what is longer is the page's own text
OFFER_PARAGRAPHS = 3  # blocks of prose that an offer has at most
BOXES_MAX = 16  # headings with a word of terms that are looked at, each at the cost of a sweep

PRICE_WITHIN = 16  # blocks behind the page's heading in which a price is looked for
PRICE_BYTES = 40  # a line with a price is shorter
AMOUNT_MAX = 9  # bytes of a number with two decimals

_ALIKE = names.ALIKE | names.NEGATIVE | names.SURE
_NO_TERMS = names.set_of(
    "article main body html h1 h2 h3 h4 h5 h6 table tbody thead tfoot tr td th dt span"
)
_HEADS = names.set_of("button summary dt")
_RUN = names.set_of("p ul ol dl dd")
_BOXES = names.set_of("div section dd")
_ELSEWHERE = names.HIDDEN | names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER | names.SURE


@fused
def mark_terms(room: Any) -> None:
    """
    Mark boxes of terms and offers as dialogs. Blocks are graded, and buttons are read.

    Cost: a few sweeps over blocks and containers of a page with little prose, and BOXES_MAX sweeps
    over boxes.
    """
    prose = np.int64(0)
    for b in range(room.state[BLOCKS]):
        if room.blocks[b, B_KEEP] == PROSE:
            prose += room.blocks[b, B_LENGTH]
            if prose > ALL_PROSE:
                return
    _mark(room)


@apart
def _mark(room: Any) -> None:
    blocks = room.blocks
    nodes = room.nodes
    begin = _name_boxes(room)
    if begin < 0:
        return
    is_shop = _has_price(room, begin)
    wanted = names.OFFER | names.TERMS if is_shop else names.OFFER
    if not _find_boxes(room, begin, wanted):
        return
    own_letters = np.int64(0)
    beside = np.int64(0)
    inside = np.int64(0)
    is_behind = False
    for b in range(room.state[BLOCKS]):
        above = nodes[blocks[b, B_NODE], N_ABOVE]
        if above & names.TERMS:
            is_behind = True
            inside += blocks[b, B_LENGTH]
        if above & (_ELSEWHERE | names.TERMS | names.IN_HEADING):
            continue
        is_prose = blocks[b, B_KEEP] == PROSE
        beside += blocks[b, B_LENGTH] if is_prose else 0
        # Behind the terms there may be a slogan, too.
        is_own = b > begin and (not is_behind or (is_shop and is_prose))
        if is_own and blocks[b, B_LINK] * 2 < blocks[b, B_BYTES]:
            own_letters += blocks[b, B_LENGTH]
    if own_letters < OWN_MIN or beside > TERM_BESIDE or inside > TERM_MAX:
        return
    for k in range(1, room.state[NODES]):
        if nodes[k, N_ABOVE] & names.TERMS:
            nodes[k, N_ABOVE] |= _ALIKE
            if not nodes[nodes[k, N_PARENT], N_ABOVE] & names.TERMS:
                nodes[k, N_OWN] |= _ALIKE


@fused
def _name_boxes(room: Any) -> Any:
    """
    Name boxes and runs of terms, and boxes of offers, by their headings. Returns the block of the
    page's heading: the first h1, or heading that repeats the title; -1 if there is none, or if it
    has a word of terms itself.
    """
    blocks = room.blocks
    nodes = room.nodes
    begin = np.int64(-1)
    tries = 0
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        above = nodes[node, N_ABOVE]
        length = blocks[b, B_LENGTH]
        is_heading = above & names.IN_HEADING != 0
        if not is_heading and not _HEADS[nodes[node, N_TAG]]:
            continue
        if begin < 0:
            if is_heading and not above & MENU and _is_page_heading(room, b):
                if _has_term(room, b):
                    return np.int64(-1)
                begin = np.int64(b)
        elif tries < BOXES_MAX and length <= TERM_HEAD_MAX:
            term = _has_term(room, b)
            box = _box_of(room, b) if term else np.int64(0)
            tries += term != 0
            if box > 0 and (term == names.TERMS or _is_offer(room, b, box, begin)):
                nodes[box, N_OWN] |= term
            elif box == 0 and term == names.TERMS:
                _name_run(room, b)
    return begin


@fused
def _is_page_heading(room: Any, b: Any) -> Any:
    blocks = room.blocks
    if blocks[b, B_LINK] * 2 >= blocks[b, B_BYTES]:
        return False
    if level_of(room.nodes, blocks[b, B_NODE]) == 0:
        return True
    return blocks[b, B_LENGTH] >= HEADLINE_MIN and repeats_title(room, b)


@fused
def _has_term(room: Any, b: Any) -> Any:
    """Return TERMS or OFFER if a word of a block is one of these, 0 if none is."""
    return _look_up_words(room, b, names.TERM_TABLE)


@fused
def _look_up_words(room: Any, b: Any, table: Any) -> Any:
    """Return the value of the first word of a block that a table has, 0 if it has none."""
    key = names.SEED
    for k in range(room.blocks[b, B_START], room.blocks[b, B_END] + 1):
        byte = byte_at(room.out, k) if k < room.blocks[b, B_END] else np.int64(32)
        if byte >= 0x80 or 97 <= byte | 32 <= 122:
            key = names.add_byte(key, byte | 32 if byte < 0x80 else byte)
        elif key != names.SEED:
            found = names.look_up(table, names.finished(key))
            if found:
                return found
            key = names.SEED
    return np.int64(0)


@fused
def _box_of(room: Any, b: Any) -> Any:
    """
    Return the smallest box that holds a heading and the block behind it, and begins with the
    heading; 0 if there is none, or if it has another heading of that level or a higher one.
    """
    blocks = room.blocks
    nodes = room.nodes
    if b + 1 >= room.state[BLOCKS] or nodes[blocks[b + 1, B_NODE], N_TAG] == names.BUTTON:
        return np.int64(0)
    box = blocks[b, B_NODE]
    while box > 0 and nodes[box, N_END] <= b + 1:
        box = nodes[box, N_PARENT]
    if box <= 0 or nodes[box, N_FIRST] != b:
        return np.int64(0)
    level = level_of(nodes, blocks[b, B_NODE])
    tag = nodes[blocks[b, B_NODE], N_TAG]
    for other in range(b + 1, nodes[box, N_END]):
        node = blocks[other, B_NODE]
        is_like = level == NO_LEVEL and nodes[node, N_TAG] == tag
        if is_like or level_of(nodes, node) <= level < NO_LEVEL:
            return np.int64(0)
    return box


@fused
def _name_run(room: Any, b: Any) -> None:
    """
    Name what stands behind a heading and beside it as terms: a box without a heading, and
    paragraphs and lists up to anything else. A heading that ends a box with more in it heads
    nothing behind that box, nor does the last button of a row: it may be one of several tabs.
    """
    nodes = room.nodes
    head = np.int64(-1)
    around = room.blocks[b, B_NODE]
    last = room.blocks[b - 1, B_NODE]  # b is behind the page's heading
    if nodes[around, N_TAG] == names.BUTTON and nodes[last, N_TAG] == names.BUTTON:
        return
    while around > 0 and nodes[around, N_END] <= b + 1:
        if nodes[around, N_FIRST] != b:
            return
        head = around
        around = nodes[around, N_PARENT]
    if head < 0 or b + 1 >= room.state[BLOCKS]:
        return
    for k in range(head + 1, room.state[NODES]):
        if nodes[k, N_PARENT] < around:
            return
        if nodes[k, N_PARENT] != around or nodes[k, N_FIRST] == nodes[k, N_END]:
            continue
        is_box = nodes[k, N_FIRST] == b + 1 and _BOXES[nodes[k, N_TAG]] and not _has_head(room, k)
        if not is_box and not _RUN[nodes[k, N_TAG]]:
            return
        nodes[k, N_OWN] |= names.TERMS


@fused
def _has_head(room: Any, k: Any) -> Any:
    """Return whether a container holds a heading, a button, a summary or a dt."""
    nodes = room.nodes
    for b in range(nodes[k, N_FIRST], nodes[k, N_END]):
        node = room.blocks[b, B_NODE]
        if nodes[node, N_ABOVE] & names.IN_HEADING or _HEADS[nodes[node, N_TAG]]:
            return True
    return False


@fused
def _is_offer(room: Any, b: Any, box: Any, begin: Any) -> Any:
    """
    Return whether a box with a word of offers may be one: its heading is the only one of its level
    behind the page's heading, but for links and margins, no class says that it is text, and it has
    a few blocks of prose. An article has more.
    """
    blocks = room.blocks
    nodes = room.nodes
    level = level_of(nodes, blocks[b, B_NODE])
    paragraphs = 0
    for other in range(b, nodes[box, N_END]):
        paragraphs += blocks[other, B_KEEP] == PROSE
    if level == NO_LEVEL or paragraphs > OFFER_PARAGRAPHS or nodes[box, N_OWN] & names.POSITIVE:
        return False
    for other in range(begin + 1, room.state[BLOCKS]):
        node = blocks[other, B_NODE]
        if nodes[box, N_FIRST] <= other < nodes[box, N_END] or nodes[node, N_ABOVE] & _ELSEWHERE:
            continue
        is_link = blocks[other, B_LINK] * 2 >= blocks[other, B_BYTES]
        if not is_link and level_of(nodes, node) == level:
            return False
    return True


@fused
def _has_price(room: Any, heading: Any) -> Any:
    """
    Return whether a price stands closely behind the page's heading, and before all boxes: in a
    short line with a digit and a currency, or with nothing but an amount with two decimals. A date
    or a version is none.
    """
    blocks = room.blocks
    stop = min(room.state[BLOCKS], heading + 1 + PRICE_WITHIN)
    for k in range(1, room.state[NODES]):
        if _is_named(room, k, heading, names.OFFER | names.TERMS):
            stop = min(stop, room.nodes[k, N_FIRST])
    for b in range(heading + 1, stop):
        if blocks[b, B_BYTES] >= PRICE_BYTES or blocks[b, B_KEEP] == PROSE:
            continue
        if _is_amount(room.out, blocks[b, B_START], blocks[b, B_END]):
            return True
        digit, sign = _digit_and_sign(room.out, blocks[b, B_START], blocks[b, B_END])
        if digit and (sign or _look_up_words(room, b, names.CURRENCY_TABLE)):
            return True
    return False


@fused
def _is_amount(out: Any, begin: Any, end: Any) -> Any:
    """Return whether a text is a number with two decimals: "12.50", and not "12.05.2024"."""
    if not 4 <= end - begin <= AMOUNT_MAX:
        return False
    for k in range(begin, end):
        byte = byte_at(out, k)
        if k == end - 3:
            if byte != 44 and byte != 46:
                return False
        elif not 48 <= byte <= 57:
            return False
    return True


@fused
def _digit_and_sign(out: Any, begin: Any, end: Any) -> Any:
    """Return whether a text has a digit, and a sign of a currency: $, one of ¢ to ¥, or ₠ to ₿."""
    digit = False
    sign = False
    for k in range(begin, end):
        byte = byte_at(out, k)
        after = byte_at(out, k + 1)
        digit |= 48 <= byte <= 57
        sign |= byte == 36 or (byte == 0xC2 and 0xA2 <= after <= 0xA5)
        sign |= byte == 0xE2 and after == 0x82 and byte_at(out, k + 2) >= 0xA0
    return digit, sign


@fused
def _is_named(room: Any, k: Any, begin: Any, wanted: Any) -> Any:
    """Return whether a container is a box with a flag of `wanted`, behind the page's heading."""
    nodes = room.nodes
    own = nodes[k, N_OWN]
    is_box = not own & (names.BODY_WORD | names.IN_MAIN) and not _NO_TERMS[nodes[k, N_TAG]]
    is_behind = begin < nodes[k, N_FIRST] < nodes[k, N_END]
    return own & wanted != 0 and is_box and is_behind


@fused
def _find_boxes(room: Any, begin: Any, wanted: Any) -> Any:
    """
    Hand TERMS down from boxes that are named so, with one of the flags `wanted`, and stand behind
    the page's heading. Returns whether there are any.
    """
    nodes = room.nodes
    some = False
    for k in range(1, room.state[NODES]):
        inherited = nodes[nodes[k, N_PARENT], N_ABOVE] & names.TERMS
        if inherited or _is_named(room, k, begin, wanted):
            nodes[k, N_ABOVE] |= names.TERMS
            some = True
    return some
