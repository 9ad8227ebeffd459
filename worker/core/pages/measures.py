"""
Measures each block of a page, and what each container holds. The selection reads these figures.

    grade    each block is prose, a heading, a linked title, an item, a notice or plain
    sums     of each container and all below it: letters of text, of links, of prose; titles,
             headings, boxes

Grades stand in B_KEEP until blocks are chosen, sums in the columns of a node that the scanner
leaves free. Sums are two sweeps: over the blocks into their containers, and over the containers
from the last to the first into their parents. So their cost does not depend on how containers are
nested. Added as one vector, the eight sums of a container took as long (within 0.3 %).
"""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    B_STOPS,
    BLOCKS,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_MARK,
    N_PARENT,
    N_TAG,
    NODE_COLUMNS,
    NODES,
    REGION,
    REGION_END,
    TEXT_BEGIN,
)
from worker.core.pages.titles import is_at_edge

# ---- grade

# grades; they stand in B_KEEP until blocks are chosen.
PLAIN, PROSE, HEADING, TITLE, ITEM, NOTICE = range(6)

PROSE_MIN = 25  # letters: what is shorter is never prose by itself
PROSE_LONG = 80  # a block this long is prose even without a mark that divides sentences
# Percent of its bytes from where a <p> is no prose: encyclopedias link every other word.
LINKS_OF_PARAGRAPH = 50
LINKS_OF_BLOCK = 25  # and any other block: a teaser is a linked title and a sentence
HEADING_MAX = 120  # letters: a longer heading is text
TITLE_MIN = 15  # letters: a shorter link is a word of a menu
NUMBER_MAX = 3  # digits of a list's number
PREFIX_MAX = 12  # bytes before a colon: "Re: ", "Fwd: ", "Antwort: "
LINKS_OF_ITEM = 60  # percent: an item of a list or table has words of its own


@fused
def _is_prose(blocks: Any, b: Any, tag: Any) -> Any:
    """Long, or with a mark that divides sentences; and mostly outside links."""
    length = blocks[b, B_LENGTH]
    links = LINKS_OF_PARAGRAPH if tag == names.P else LINKS_OF_BLOCK
    sentence = length >= PROSE_LONG or (length >= PROSE_MIN and blocks[b, B_STOPS] > 0)
    return sentence and blocks[b, B_LINK] * 100 < links * blocks[b, B_BYTES]


@fused
def _is_item(blocks: Any, b: Any, tag: Any, above: Any) -> Any:
    """A cell, an item, a term, a line of code: text by where it stands."""
    if tag == names.DD or tag == names.DT or tag == names.PRE:
        return True
    listed = (above & (names.IN_LIST | names.IN_TABLE | names.IN_QUOTE)) != 0
    return listed and blocks[b, B_LINK] * 100 <= LINKS_OF_ITEM * blocks[b, B_BYTES]


@fused
def _is_numbered(out: Any, at: Any) -> Any:
    """Return whether it begins with a number of a list: "7. ", "7) ", "7: "."""
    digits = 0
    while digits < NUMBER_MAX and 48 <= byte_at(out, at + digits) <= 57:
        digits += 1
    mark = byte_at(out, at + digits)
    marked = mark == 46 or mark == 41 or mark == 58
    return digits > 0 and marked and byte_at(out, at + digits + 1) == 32


@fused
def _names_this_page(room: Any, begin: Any, end: Any) -> Any:
    """
    Return whether a linked heading names this page, and does not lead to another one: it repeats
    the title, perhaps behind a short prefix ("Re: ").
    """
    for k in range(begin, min(begin + PREFIX_MAX, end - TITLE_MIN)):
        if byte_at(room.out, k) == 58 and byte_at(room.out, k + 1) == 32:
            begin = k + 2
            break
    return is_at_edge(room, begin, end)


@fused
def _grade(room: Any, b: Any) -> Any:
    blocks = room.blocks
    node = room.blocks[b, B_NODE]
    tag = room.nodes[node, N_TAG]
    above = room.nodes[node, N_ABOVE]
    length = blocks[b, B_LENGTH]
    start = blocks[b, B_START]
    if (
        byte_at(room.out, start) == 0xC2 and byte_at(room.out, start + 1) == 0xA9
    ):  # ©, the same in every language
        return NOTICE
    titled = blocks[b, B_LINK] * 10 >= blocks[b, B_BYTES] * 8 and length >= TITLE_MIN
    if above & names.IN_HEADING and length < HEADING_MAX:
        is_other = (
            titled
            and not _is_numbered(room.out, start)
            and not _names_this_page(room, start, blocks[b, B_END])
        )
        return TITLE if is_other else HEADING
    if _is_prose(blocks, b, tag):
        return PROSE
    if titled and not above & names.IN_TABLE and tag != names.DT:
        return TITLE
    return ITEM if _is_item(blocks, b, tag, above) else PLAIN


@fused
def grade_blocks(room: Any) -> Any:
    """Write each block's grade into B_KEEP. Returns the letters of prose that is hidden."""
    hidden = 0
    for b in range(room.state[BLOCKS]):
        grade = _grade(room, b)
        room.blocks[b, B_KEEP] = grade
        if grade == PROSE and room.nodes[room.blocks[b, B_NODE], N_ABOVE] & names.HIDDEN:
            hidden += room.blocks[b, B_LENGTH]
    return hidden


# ---- sums

# Sums over a container and all below: letters outside headings, of links, of prose, of prose and
# items, of blocks that are nothing but a link; how many linked titles (headings twice, less those
# without a link), headings, and h1 that are no links.
N_LENGTH, N_LINK, N_PROSE, N_TEXT, N_PURE, N_TITLES, N_HEADS, N_H1 = range(6, 14)
# Of its children: how many are boxes of prose, and their prose; the prose of what is unrelated
# below.
N_BOXES, N_BOXED, N_UNRELATED = range(14, 17)
# The prose before it in the page; points; whether it is cut out; whether it stands on the way from
# root to core; its children that are paragraphs of prose.
N_BEFORE, N_SCORE, N_CUT, N_WAY = range(17, 21)
N_PARAGRAPHS = N_SCORE  # when the points have been counted
assert N_WAY == N_MARK == NODE_COLUMNS - 1
# While boxes are cut: whether a margin is around, or a shape that has been counted; the prose of
# the page, or of the slide or widget around that is a part of it.
N_COUNTED = N_WAY
N_WHOLE = N_SCORE

TEASERS_MIN = 3  # linked titles ...
TEASER_PROSE = 150  # ... and less prose than this to each: a list of teasers
BOXES_MIN = 4  # boxes side by side ...
BOX_PROSE = 600  # ... of less prose than this each ...
BOXED = 70  # ... and this percentage of the prose in them, without a heading: comments


@fused
def sum_up(room: Any) -> None:
    """Count the blocks of the region that are not cut out into their containers and all above."""
    blocks = room.blocks
    nodes = room.nodes
    region = room.state[REGION]
    nodes[region : room.state[REGION_END], N_LENGTH : N_H1 + 1] = 0
    for b in range(nodes[region, N_FIRST], nodes[region, N_END]):
        node = blocks[b, B_NODE]
        if not nodes[node, N_CUT]:
            _count_block(room, b, node)
    k = room.state[REGION_END] - 1
    while k > region:
        for column in range(N_LENGTH, N_H1 + 1):
            nodes[nodes[k, N_PARENT], column] += nodes[k, column]
        k -= 1


@fused
def _count_block(room: Any, b: Any, node: Any) -> None:
    blocks = room.blocks
    nodes = room.nodes
    grade = blocks[b, B_KEEP]
    length = blocks[b, B_LENGTH]
    link = blocks[b, B_LINK]
    size = blocks[b, B_BYTES]
    if grade != HEADING:
        nodes[node, N_LENGTH] += length
    nodes[node, N_LINK] += length * link // size
    if grade == PROSE:
        nodes[node, N_PROSE] += length
    if grade == PROSE or grade == ITEM:
        nodes[node, N_TEXT] += length
    if link * 10 >= size * 9:  # nothing but a link, perhaps with a comma
        nodes[node, N_PURE] += length
    heads = (nodes[node, N_ABOVE] & names.IN_HEADING) != 0
    nodes[node, N_TITLES] += (1 + heads) * (grade == TITLE) - (grade == HEADING)
    nodes[node, N_HEADS] += heads
    nodes[node, N_H1] += nodes[node, N_TAG] == names.H1 and link * 2 < size


@fused
def prose_before(room: Any) -> None:
    """
    Count the prose before each container into N_BEFORE, without what is marked as something else.
    Where a box around the container is named as a margin ("node--promoted"), such names mark
    nothing.

    Afterwards what is hidden is cut out, and what stands before the heading, and nothing else.
    """
    blocks = room.blocks
    nodes = room.nodes
    begin = room.state[TEXT_BEGIN]
    b = 0
    before = 0
    in_margins = 0  # of it, by their names alone
    for k in range(room.state[NODES]):
        while b < nodes[k, N_FIRST]:
            above = nodes[blocks[b, B_NODE], N_ABOVE]
            is_margin = above & (names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER)
            if b >= begin and blocks[b, B_KEEP] == PROSE and not is_margin:
                before += blocks[b, B_LENGTH]
                in_margins += blocks[b, B_LENGTH] if above & names.NEGATIVE else 0
            b += 1
        is_named = nodes[max(nodes[k, N_PARENT], 0), N_ABOVE] & names.NEGATIVE
        nodes[k, N_BEFORE] = before if is_named else before - in_margins
        is_before = begin > 0 and nodes[k, N_END] <= begin
        nodes[k, N_CUT] = is_before or (nodes[k, N_ABOVE] & names.HIDDEN) != 0


@fused
def is_teasers(titles: Any, prose: Any) -> Any:
    """
    Return whether a container holds teasers: linked titles with little text to each, which lead to
    other pages.
    """
    return titles >= TEASERS_MIN and prose < TEASER_PROSE * titles


@fused
def is_unrelated(nodes: Any, k: Any) -> Any:
    """
    Return whether a container holds teasers, or comments: small boxes of prose side by side, none
    with a heading.
    """
    if is_teasers(nodes[k, N_TITLES], nodes[k, N_PROSE]):
        return True
    boxed = nodes[k, N_BOXED] * 100 >= BOXED * nodes[k, N_PROSE]
    return nodes[k, N_BOXES] >= BOXES_MIN and boxed and nodes[k, N_HEADS] <= 1


@fused
def unrelated_prose(nodes: Any, k: Any) -> Any:
    """Return the prose of a container that is unrelated to the page's text."""
    return nodes[k, N_PROSE] if is_unrelated(nodes, k) else nodes[k, N_UNRELATED]


@fused
def find_unrelated(room: Any) -> None:
    """Count boxes, and the prose of what is unrelated, into the containers that hold them."""
    nodes = room.nodes
    region = room.state[REGION]
    nodes[region : room.state[REGION_END], N_BOXES : N_UNRELATED + 1] = 0
    k = room.state[REGION_END] - 1
    while k > region:
        parent = nodes[k, N_PARENT]
        tag = nodes[k, N_TAG]
        prose = nodes[k, N_PROSE]
        if (
            tag == names.DIV or tag == names.ARTICLE or tag == names.SECTION
        ) and 0 < prose < BOX_PROSE:
            nodes[parent, N_BOXES] += 1
            nodes[parent, N_BOXED] += prose
        nodes[parent, N_UNRELATED] += unrelated_prose(nodes, k)
        k -= 1
