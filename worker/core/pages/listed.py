"""
Keeps a list that a short text introduces: page 2 of a category differs from page 3 by its list
alone.

A short article may have a list below it, too, of pages that are related to it, and copies of the
article have other ones. But that list has a heading, a line or a name of its own, or is short, or
the markup of the article says that it is one. So between text and list nothing may stand but a line
with a number ("48 products"), and the list must have many entries that are alike. Where links to
other pages follow, the list goes on there: then it may be short, and stand below other lines.

A blog may keep one post at the head of all its pages, longer than the other entries. Its heading is
a link, as theirs are, and not to the page: so it introduces the list, however long it is.

Not done: eight cards below a text are no list if no links to other pages follow. As many stand
below short articles, without a heading, and copies of these have other ones (test_lists.py).

    introduction    the text that is kept, outside lists and tables, if it is short
    entries         headings of one level with a link; or links below headings of their own, in
                    <main>; or else links; below the introduction, between the page's heading and
                    the introduction, or between its parts
    list            the boxes that hold the entries, side by side
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.keep import KEPT, KEPT_HEADING, KEPT_LISTED
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    BLOCKS,
    HEADING,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    REGION,
    REGION_END,
    common_container,
)
from worker.core.pages.titles import repeats_title

# An introduction has at most so many blocks, and fewer letters than this.
INTRODUCTION_BLOCKS = 2
INTRODUCTION_BLOCKS_PAGED = 6  # ... if links to other pages follow, or a text is below the list
INTRODUCTION_LENGTH = 1_000
LISTED_ARTICLES = 5  # entries of a list that is the page, if they are articles or teasers ...
LISTED_MIN = 10  # ... or in anything else: lists of related pages have fewer
LISTED_PAGED = 3  # ... or before links to the list's other pages, as its last page may have
NUMBER_WITHIN = 8  # blocks of these links in which a number is looked for: time is linear
PAGER_BEHIND = 2  # blocks that may stand between a list and these links
# A line with fewer letters is no introduction if a longer text is there. It may stand between the
# links of a list, as prices do, or above them and count them.
LINE_LENGTH = 40
TEASER_UP = 6  # the teaser that is an entry is looked for in so many containers: time is linear

LINK_LETTERS = 24  # a block of links alone counts as an entry for each: line breaks end no block
GROUPS_MIN = 3  # headings with links below each: one is that of related pages

# What a block is to a list, and what its entries are.
OTHER, ENTRY, END_OF_LIST, HEAD = range(4)
BY_HEADING, BY_GROUP, BY_LINK = range(3)

_MARGIN = (
    names.HIDDEN | names.SURE | names.COMMENT | names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER
)


class _List(NamedTuple):
    """The blocks of a list; none, if `end` is 0."""

    begin: int
    end: int
    is_paged: bool  # links to its other pages follow


_NO_LIST = _List(0, 0, False)


@fused
def keep_listed(room: Any) -> None:
    """Keep a list, too, if the text that is kept only introduces it."""
    blocks = room.blocks
    nodes = room.nodes
    first, end = _introduction(room)
    if end == 0:
        return
    last = blocks[end - 1, B_NODE]
    entry = _entry_around(room, end - 1)
    if entry > 0:
        end = nodes[entry, N_END]
    elif nodes[last, N_ABOVE] & names.IN_ARTICLE:
        return
    listed = _list_within(room, end, nodes[room.state[REGION], N_END])
    heading = room.state[HEADING]
    if listed.end == 0 and 0 <= heading < first:
        listed = _list_above(room, heading + 1, first)
    if listed.end == 0:
        begin, stop = _widest_gap(room, first, end)
        listed = _list_above(room, begin, stop)
    if (
        room.state[REGION] == 0
        and not listed.is_paged
        and not _are_beside(room, first, listed.begin)
    ):
        return
    if listed.end == 0 or (entry == 0 and _is_body(nodes, last, listed.begin)):
        return
    is_above = listed.begin < end
    if not _is_introduction_of(room, listed, entry > 0, is_above):
        return
    for b in range(listed.begin, listed.end):
        if _may_be_listed(nodes, blocks[b, B_NODE]):
            blocks[b, B_KEEP] = KEPT_LISTED


@fused
def _list_above(room: Any, begin: Any, end: Any) -> Any:
    """Return the list that stands in these blocks, before a text that introduces it."""
    listed = _list_within(room, begin, end)
    if listed.end > 0 and _may_stand_between(room, listed.end, end, listed.is_paged, True):
        return listed
    return _NO_LIST


@fused
def _widest_gap(room: Any, first: Any, end: Any) -> Any:
    """
    Return the blocks of an introduction that are not kept, where most of them follow each other.
    """
    begin = first
    stop = first
    last = first
    for b in range(first + 1, end):
        if room.blocks[b, B_KEEP] == KEPT:
            if b - last > stop - begin:
                begin = last + 1
                stop = np.int64(b)
            last = np.int64(b)
    return begin, stop


@fused
def _are_beside(room: Any, b: Any, other: Any) -> Any:
    """Return whether one box, not the page, is around both blocks."""
    nodes = room.nodes
    return common_container(nodes, room.blocks[b, B_NODE], room.blocks[other, B_NODE]) > 0


@fused
def _introduction(room: Any) -> Any:
    """
    Return the first block of the introduction and the one behind its last; 0 and 0 if there is
    none. Lines beside a longer text are none of it.
    """
    blocks = room.blocks
    nodes = room.nodes
    first = np.int64(0)
    end = np.int64(0)
    is_line = True
    for b in range(room.state[BLOCKS]):
        above = nodes[blocks[b, B_NODE], N_ABOVE]
        if blocks[b, B_KEEP] != KEPT or above & (names.IN_LIST | names.IN_TABLE):
            continue
        is_longer = blocks[b, B_LENGTH] >= LINE_LENGTH
        if end == 0 or (is_longer and is_line):
            first = np.int64(b)
        if end == 0 or is_longer:
            end = np.int64(b + 1)
        is_line = is_line and not is_longer
    return first, end


@fused
def _entry_around(room: Any, b: Any) -> Any:
    """
    Return the article around a block, if it is an entry of a list itself: its first heading is a
    link, and none that repeats the page's title. 0 if there is none.
    """
    nodes = room.nodes
    article = room.blocks[b, B_NODE]
    while article > 0 and nodes[article, N_TAG] != names.ARTICLE:
        article = nodes[article, N_PARENT]
    for k in range(nodes[article, N_FIRST], b if article > 0 else 0):
        if nodes[room.blocks[k, B_NODE], N_ABOVE] & names.IN_HEADING:
            is_entry = _is_link(room.blocks, k) and not repeats_title(room, k)
            return article if is_entry else np.int64(0)
    return np.int64(0)


@fused
def _is_introduction_of(room: Any, listed: Any, is_entry: Any, is_above: Any) -> Any:
    """
    Return whether what is kept outside a list is short, or an entry, and at most twice as long as
    that.
    """
    blocks = room.blocks
    texts = 0
    letters = np.int64(0)
    for b in range(room.state[BLOCKS]):
        if blocks[b, B_KEEP] and not listed.begin <= b < listed.end:
            texts += blocks[b, B_KEEP] == KEPT
            letters += blocks[b, B_LENGTH]
    most = INTRODUCTION_BLOCKS_PAGED if listed.is_paged or is_above else INTRODUCTION_BLOCKS
    is_short = is_entry or (texts <= most and letters < INTRODUCTION_LENGTH)
    return is_short and letters <= 2 * _letters_listed(room, listed)


@fused
def _may_be_listed(nodes: Any, node: Any) -> Any:
    """
    Return whether a container may be a part of a list: it stands in no margin, and in no box with a
    margin's class name, nor directly in a form. A box that is called a teaser is an entry all the
    same.
    """
    above = nodes[node, N_ABOVE]
    around = max(nodes[node, N_PARENT], 0)
    if nodes[node, N_TAG] == names.FORM or nodes[around, N_TAG] == names.FORM:
        return False
    if above & names.NEGATIVE and not above & _MARGIN:
        for _ in range(TEASER_UP):
            if nodes[node, N_OWN] & names.TEASER:
                above = nodes[nodes[node, N_PARENT], N_ABOVE]
            if nodes[node, N_TAG] == names.ARTICLE or nodes[node, N_OWN] & names.NEGATIVE:
                break
            node = nodes[node, N_PARENT]
    return not above & (_MARGIN | names.NEGATIVE)


@fused
def _list_within(room: Any, begin: Any, end: Any) -> Any:
    """Return the list that begins with these blocks, perhaps behind margins and a line."""
    for kind in range(BY_HEADING, BY_LINK + 1):
        is_main = room.nodes[room.state[REGION], N_ABOVE] & names.IN_MAIN
        if kind != BY_GROUP or is_main:
            listed = _list_of_entries(room, begin, end, kind)
            if listed.end > 0:
                return listed
    return _NO_LIST


@fused
def _list_of_entries(room: Any, begin: Any, end: Any, kind: Any) -> Any:
    """
    Return the list whose entries are the linked headings of these blocks, or the links below their
    headings, or their links.
    """
    blocks = room.blocks
    nodes = room.nodes
    count = np.int64(0)
    heads = 0
    first = begin
    last = begin
    b = begin
    while b < end:
        role = OTHER
        if _may_be_listed(nodes, blocks[b, B_NODE]):
            like = first if count > 0 else b
            if kind == BY_HEADING:
                role = _role_by_heading(room, b, like)
            else:
                role = _role_by_link(room, b, end if kind == BY_GROUP else b)
        if role == END_OF_LIST and count > 0:  # what stands before the first is looked at below
            break
        if role == HEAD:
            first = b if heads == 0 else first
            heads += 1
        elif role == ENTRY and (heads > 0 or kind != BY_GROUP):
            first = b if count + heads == 0 else first
            last = b
            count += 1 if kind == BY_HEADING else max(blocks[b, B_LENGTH] // LINK_LETTERS, 1)
        b += 1
    if count < LISTED_PAGED or (kind == BY_GROUP and heads < GROUPS_MIN):
        return _NO_LIST
    first_node = blocks[first, B_NODE]
    last_node = blocks[last, B_NODE]
    around = common_container(nodes, first_node, last_node)
    within = nodes[first_node, N_ABOVE] & nodes[last_node, N_ABOVE] & ~nodes[around, N_ABOVE]
    first_box = _branch(nodes, around, first_node)
    last_box = _branch(nodes, around, last_node)
    if kind == BY_LINK and first_node != last_node:  # a card may have several links
        count = min(count, _boxes(nodes, around, first_box, last_box))
    start = nodes[first_box, N_FIRST]
    stop = min(b, nodes[last_box, N_END])
    is_paged = _is_paged(room, last_box, stop)
    is_teaser = (
        within & (names.IN_ARTICLE | names.NEGATIVE) != 0
    )  # what is NEGATIVE and may be listed is a teaser
    least = LISTED_ARTICLES if is_teaser else LISTED_MIN
    if count < (LISTED_PAGED if is_paged else least):
        return _NO_LIST
    if start < begin or not _may_stand_between(room, begin, start, is_paged, False):
        return _NO_LIST
    return _List(start, stop, is_paged)


@fused
def _is_paged(room: Any, last_box: Any, end: Any) -> Any:
    """
    Return whether a box of links to other pages follows a list, or ends it. It has a digit, the
    number of a page: links to the posts before and after this one have none.
    """
    nodes = room.nodes
    searched = np.int64(0)  # blocks up to here have no digit, as far as they stand in such boxes
    k = last_box + 1
    while k < room.state[REGION_END] and nodes[k, N_FIRST] <= end + PAGER_BEHIND:
        if nodes[k, N_OWN] & names.PAGER:
            first = nodes[k, N_FIRST]
            stop = min(nodes[k, N_END], first + NUMBER_WITHIN)
            for b in range(max(first, searched), stop):
                if _has_digit(room, b):
                    return True
            searched = max(searched, stop)
        k += 1
    return False


@fused
def _role_by_heading(room: Any, b: Any, like: Any) -> Any:
    """
    Return what a block is to a list of linked headings of one level, that of the block `like`. It
    ends at a heading of another level, or without a link in it or between it and the next one.
    """
    blocks = room.blocks
    nodes = room.nodes
    node = blocks[b, B_NODE]
    if not nodes[node, N_ABOVE] & names.IN_HEADING:
        return OTHER
    is_like = nodes[node, N_TAG] == nodes[blocks[like, B_NODE], N_TAG]
    return ENTRY if is_like and (_is_link(blocks, b) or _leads_on(room, b)) else END_OF_LIST


@fused
def _leads_on(room: Any, heading: Any) -> Any:
    """Return whether a link follows a heading in its box: the button of a card."""
    blocks = room.blocks
    nodes = room.nodes
    box = nodes[blocks[heading, B_NODE], N_PARENT]
    for b in range(heading + 1, nodes[box, N_END]):
        if nodes[blocks[b, B_NODE], N_ABOVE] & names.IN_HEADING:
            return False
        if _is_link(blocks, b):
            return True
    return False


@fused
def _role_by_link(room: Any, b: Any, end: Any) -> Any:
    """
    Return what a block is to a list of links. It ends at a text outside lists and tables that is
    longer than a line, and at a heading, but for one that a link follows before block `end`.
    """
    above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
    if above & names.IN_HEADING:
        is_head = b + 1 < end and _is_link(room.blocks, b + 1) and not _is_link(room.blocks, b)
        return HEAD if is_head else END_OF_LIST
    if _is_link(room.blocks, b):
        return ENTRY
    is_line = room.blocks[b, B_LENGTH] < LINE_LENGTH
    return OTHER if is_line or above & (names.IN_LIST | names.IN_TABLE) else END_OF_LIST


@fused
def _is_link(blocks: Any, b: Any) -> Any:
    """Return whether more than half of a block is a link."""
    return blocks[b, B_LINK] * 2 > blocks[b, B_BYTES]


@fused
def _branch(nodes: Any, around: Any, node: Any) -> Any:
    """Return the child of a container that is or holds this one."""
    while node > around and nodes[node, N_PARENT] != around:
        node = nodes[node, N_PARENT]
    return node


@fused
def _boxes(nodes: Any, around: Any, first: Any, last: Any) -> Any:
    """Return how many children of a container have text, from one to another."""
    boxes = np.int64(0)
    for k in range(first, last + 1):
        boxes += nodes[k, N_PARENT] == around and nodes[k, N_FIRST] < nodes[k, N_END]
    return boxes


@fused
def _may_stand_between(room: Any, begin: Any, end: Any, is_paged: Any, is_below: Any) -> Any:
    """
    Return whether these blocks may stand between an introduction and its list: margins, and one
    line with an ASCII digit, which counts the list. The line above related pages ("Latest") has
    none. Other digits are not looked for: such a line reads as one of words. A heading that is kept
    belongs to an introduction below the list.

    Above a list that goes on on other pages, any lines may stand: filters, an order, a heading.
    """
    lines = 0
    for b in range(begin, end):
        above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
        is_heading = is_below and room.blocks[b, B_KEEP] == KEPT_HEADING
        if not is_heading and _may_be_listed(room.nodes, room.blocks[b, B_NODE]):
            lines += 1
            is_count = lines == 1 and not above & names.IN_HEADING and _has_digit(room, b)
            if room.blocks[b, B_LENGTH] >= LINE_LENGTH or not (is_paged or is_count):
                return False
    return True


@fused
def _has_digit(room: Any, b: Any) -> Any:
    """Return whether a block has an ASCII digit."""
    for at in range(room.blocks[b, B_START], room.blocks[b, B_END]):
        if 48 <= byte_at(room.out, at) <= 57:
            return True
    return False


@fused
def _letters_listed(room: Any, listed: Any) -> Any:
    """Return the letters of a list, without margins."""
    letters = np.int64(0)
    for b in range(listed.begin, listed.end):
        if _may_be_listed(room.nodes, room.blocks[b, B_NODE]):
            letters += room.blocks[b, B_LENGTH]
    return letters


@fused
def _is_body(nodes: Any, node: Any, b: Any) -> Any:
    """
    Return whether a container, or one around it that does not hold this block, has a class name
    that says that it is the body.
    """
    while not nodes[node, N_FIRST] <= b < nodes[node, N_END]:
        own = nodes[node, N_OWN]
        if own & names.BODY_WORD or (own & names.PART_A and own & names.PART_B):
            return True
        node = nodes[node, N_PARENT]
    return False
