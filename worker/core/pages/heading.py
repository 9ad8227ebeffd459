"""
Finds the heading of a page, and cuts the boxes that stand before it.

The heading is the block that repeats the page's title, or else its only h1. What a site shows on
every page stands before it, or in a box behind: a consent box, an age gate, the rules of a board.
These are often longer than a short article, so lengths do not tell them from it. But no page begins
before its heading. A lead may stand there, as a paragraph beside the heading; a box is no lead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.pages import names
from worker.core.pages.measures import N_CUT, N_PROSE, PROSE
from worker.core.pages.skeleton import (
    B_BYTES,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    BLOCKS,
    HEADING,
    MARK,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_MARK,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
    REGION,
    TEXT_BEGIN,
    TITLE_BLOCK,
    TITLE_SIZE,
)
from worker.core.pages.titles import repeats_title

HEADLINE_MIN = 8  # letters of a heading that repeats the title ...
LINE_MIN = 15  # ... and of any other block that does
# Boxes before a heading are no part of the page, if as much follows it, in percent of all prose ...
REST_OF_HEADING = 10
REST_OF_LINE = 20  # ... and behind a line that repeats the title: it may stand at the page's end
PEERS_MAX = 1  # headings of its level may stand before it: that of a box
NO_LEVEL = 6
LEVEL_UP = 8  # containers around a block in which its heading is looked for
DIALOG_SHARE = 2  # ... and a dialog is the page if not more than so many times its prose is outside
REST_MIN = 60  # letters of prose that follow it, at least

_DIALOG = names.NEGATIVE | names.SURE | names.ALIKE
_HANDED = names.NEGATIVE | names.SURE
MENU = names.IN_NAV | names.SURE  # a heading in one of these is none of the page
# In one of these it may be another one, so the page need not begin there.
_MARGIN = names.NEGATIVE | names.COMMENT | names.IN_ASIDE | names.IN_FOOTER


@fused
def find_headline(room: Any) -> Any:
    """
    Return the longest heading that repeats the title, or else the longest other block: the number
    of the block, -1 for none. Links, menus and dialogs do not count.

    A title names the site, too, and a heading may name it alone. So the longest one counts.
    """
    blocks = room.blocks
    headline = np.int64(-1)
    longest = np.int64(0)
    marked = False
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        length = blocks[b, B_LENGTH]
        above = room.nodes[node, N_ABOVE]
        heading = (above & names.IN_HEADING) != 0
        if length < (HEADLINE_MIN if heading else LINE_MIN) or above & MENU:
            continue
        if heading < marked or (heading == marked and length <= longest):
            continue
        if room.nodes[node, N_CUT] or blocks[b, B_LINK] * 2 >= blocks[b, B_BYTES]:
            continue
        if repeats_title(room, b):
            headline = np.int64(b)
            longest = length
            marked = heading
    return headline


@fused
def open_titled_dialog(room: Any) -> None:
    """
    Let a dialog be none if it is the page: its heading is half of the title or more, no heading
    outside dialogs repeats the title, and dialogs hold a third of the prose. Applications show a
    picture or an article so, above the list that leads to it.
    """
    nodes = room.nodes
    titled = np.int64(0)
    inside = np.int64(0)
    outside = np.int64(0)
    for b in range(room.state[BLOCKS]):
        node = room.blocks[b, B_NODE]
        above = nodes[node, N_ABOVE]
        if above & names.HIDDEN:
            continue
        is_prose = room.blocks[b, B_KEEP] == PROSE
        if not above & names.SURE:
            outside += room.blocks[b, B_LENGTH] if is_prose else 0
            continue
        inside += room.blocks[b, B_LENGTH] if is_prose else 0
        is_long = room.blocks[b, B_LENGTH] >= HEADLINE_MIN
        is_half = is_long and room.blocks[b, B_BYTES] * 2 >= room.state[TITLE_SIZE]
        if is_half and above & names.IN_HEADING and repeats_title(room, b):
            titled = node
    while titled > 0 and not nodes[titled, N_OWN] & names.ALIKE:
        titled = nodes[titled, N_PARENT]
    if titled <= 0 or inside * DIALOG_SHARE < outside or find_headline(room) >= 0:
        return
    nodes[titled, N_OWN] &= ~_DIALOG
    for k in range(1, room.state[NODES]):
        handed = nodes[k, N_OWN] | nodes[nodes[k, N_PARENT], N_ABOVE]
        nodes[k, N_ABOVE] = (nodes[k, N_ABOVE] & ~_DIALOG) | (handed & _HANDED)


@fused
def heading_of(nodes: Any, h1: Any) -> Any:
    """Return the first block of an h1, -1 for none."""
    return nodes[h1, N_FIRST] if h1 > 0 else np.int64(-1)


@fused
def level_of(nodes: Any, node: Any) -> Any:
    """Return the level of a heading, from 0 for an h1; NO_LEVEL of what is none."""
    for _ in range(LEVEL_UP):
        if names.H1 <= nodes[node, N_TAG] <= names.H6:
            return nodes[node, N_TAG] - names.H1
        if node == 0:
            break
        node = nodes[node, N_PARENT]
    return np.int64(NO_LEVEL)


@fused
def _is_title(room: Any, b: Any) -> Any:
    """Return whether a block is a heading that is shown, no link, and in no menu and no dialog."""
    above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
    shown = not room.nodes[room.blocks[b, B_NODE], N_CUT]
    is_link = room.blocks[b, B_LINK] * 2 >= room.blocks[b, B_BYTES]
    return shown and above & names.IN_HEADING and not above & MENU and not is_link


@fused
def _follows_article(room: Any, around: Any, heading: Any) -> Any:
    """
    Return whether an article with prose ends before the heading of a container: streamed comments
    may have the heading that repeats the title.
    """
    nodes = room.nodes
    k = room.state[MARK]
    while k > around:
        is_before = nodes[around, N_FIRST] <= nodes[k, N_FIRST] and nodes[k, N_END] <= heading
        if is_before and nodes[k, N_TAG] == names.ARTICLE and nodes[k, N_PROSE] > 0:
            return True
        k = nodes[k, N_MARK]
    return False


@fused
def foreign_before(room: Any, around: Any, heading: Any) -> Any:
    """
    Return the letters of prose in boxes before the heading of a container; 0 if they may be a part
    of the page.

    They may be if a paragraph before the heading stands beside it, if an article ends before it, if
    too little follows it, if it stands in a margin, or if it is not the first of its level: a part
    of a manual may have the name that the title begins with.
    """
    blocks = room.blocks
    nodes = room.nodes
    above = nodes[blocks[heading, B_NODE], N_ABOVE]
    level = level_of(nodes, blocks[heading, B_NODE])
    peers = 0
    if above & _MARGIN or _follows_article(room, around, heading):
        return np.int64(0)
    before = np.int64(0)
    behind = np.int64(0)
    for b in range(nodes[around, N_FIRST], nodes[around, N_END]):
        node = blocks[b, B_NODE]
        if b < heading and _is_title(room, b):
            peers += level_of(nodes, node) <= level
            if level_of(nodes, node) < level or peers > PEERS_MAX:
                return np.int64(0)
        if blocks[b, B_KEEP] != PROSE or nodes[node, N_CUT]:
            continue
        if b >= heading:
            behind += blocks[b, B_LENGTH]
            continue
        if nodes[node, N_TAG] == names.P:
            node = nodes[node, N_PARENT]
        if nodes[node, N_END] > heading:
            return np.int64(0)
        before += blocks[b, B_LENGTH]
    share = REST_OF_HEADING if above & names.IN_HEADING else REST_OF_LINE
    if behind < REST_MIN or behind * 100 < share * (before + behind):
        return np.int64(0)
    return before


@fused
def _has_title(room: Any) -> Any:
    """Return whether a heading in the region repeats the title, too: then that is the page's."""
    region = room.state[REGION]
    for b in range(room.nodes[region, N_FIRST], room.nodes[region, N_END]):
        long = room.blocks[b, B_LENGTH] >= HEADLINE_MIN
        if long and _is_title(room, b) and repeats_title(room, b):
            return True
    return False


@fused
def begin_at_heading(room: Any) -> Any:
    """
    Let the region begin at the page's heading, if foreign boxes stand before it. Returns whether
    any do.

    HEADING is -1 afterwards if the region has no heading, and TEXT_BEGIN is its first block. If the
    heading stands elsewhere, and repeats the title, TITLE_BLOCK is it.
    """
    nodes = room.nodes
    state = room.state
    region = state[REGION]
    heading = state[HEADING]
    state[TEXT_BEGIN] = 0
    state[TITLE_BLOCK] = -1
    if not nodes[region, N_FIRST] <= heading < nodes[region, N_END]:
        state[HEADING] = -1
        if heading >= 0 and _is_title(room, heading) and repeats_title(room, heading):
            state[TITLE_BLOCK] = -1 if _has_title(room) else heading
        return False
    if foreign_before(room, region, heading) == 0:
        return False
    state[TEXT_BEGIN] = heading
    k = room.blocks[heading, B_NODE]
    while k >= region:  # the page's parent is -1
        nodes[k, N_FIRST] = max(nodes[k, N_FIRST], heading)
        k = nodes[k, N_PARENT]
    return True
