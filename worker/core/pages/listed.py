"""
Keeps a list that a short text introduces: page 2 of a category differs from page 3 by its list
alone.

A short article may have a list behind it, too, of pages that are related to it, and copies of the
article have other ones. But that list has a heading, a line or a name of its own, or is short, or
the markup of the article says that it is one. So between text and list nothing may stand but a
count ("48 products"), and the list must have many entries that are alike.

    introduction    the text that is kept, outside lists and tables, if it is short
    entries         linked headings of one level, or else links; behind the introduction, or between
                    the page's heading and the introduction
    list            the boxes that hold the entries, side by side
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.keep import KEPT, LISTS_UP
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
    common_container,
)

# An introduction has at most so many blocks, and fewer letters than this.
INTRODUCTION_BLOCKS = 2
INTRODUCTION_LENGTH = 1_000
LISTED_ARTICLES = 5  # entries of a list that is the page, if they stand in articles ...
LISTED_MIN = 10  # ... or in anything else: lists of related pages have fewer
SHORT_LENGTH = 40  # letters that a price stays below, and a line that counts the list

# What a block is to a list.
OTHER, ENTRY, NO_PART = range(3)

_MARGIN = (
    names.HIDDEN | names.SURE | names.COMMENT | names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER
)


class _List(NamedTuple):
    """The blocks of a list; none, if `end` is 0."""

    begin: int
    end: int


_NO_LIST = _List(0, 0)


@fused
def keep_listed(room: Any) -> None:
    """Keep a list, too, if the text that is kept only introduces it."""
    blocks = room.blocks
    nodes = room.nodes
    first, end = _introduction(room)
    if end == 0 or room.state[REGION] == 0:
        return
    listed = _list_within(room, end, nodes[room.state[REGION], N_END])
    heading = room.state[HEADING]
    if listed.end == 0 and 0 <= heading < first:
        listed = _list_within(room, heading + 1, first)
    if listed.end == 0 or _is_body(nodes, blocks[end - 1, B_NODE], listed.begin):
        return
    if not _is_introduction_of(room, listed):
        return
    for b in range(listed.begin, listed.end):
        if _may_be_listed(nodes, blocks[b, B_NODE]):
            blocks[b, B_KEEP] = KEPT


@fused
def _introduction(room: Any) -> Any:
    """
    Return the first block of the introduction and the one behind its last; 0 and 0 if there is
    none, or if it ends in an article. Short blocks behind the first are prices, or dates.
    """
    blocks = room.blocks
    nodes = room.nodes
    first = np.int64(0)
    end = np.int64(0)
    for b in range(room.state[BLOCKS]):
        above = nodes[blocks[b, B_NODE], N_ABOVE]
        is_text = blocks[b, B_KEEP] == KEPT and not above & (names.IN_LIST | names.IN_TABLE)
        if is_text and (end == 0 or blocks[b, B_LENGTH] >= SHORT_LENGTH):
            first = np.int64(b) if end == 0 else first
            end = np.int64(b + 1)
    if end == 0 or nodes[blocks[end - 1, B_NODE], N_ABOVE] & names.IN_ARTICLE:
        return np.int64(0), np.int64(0)
    return first, end


@fused
def _is_introduction_of(room: Any, listed: Any) -> Any:
    """Return whether what is kept outside a list is short, and no more than twice as long."""
    blocks = room.blocks
    texts = 0
    letters = np.int64(0)
    for b in range(room.state[BLOCKS]):
        if blocks[b, B_KEEP] and not listed.begin <= b < listed.end:
            texts += blocks[b, B_KEEP] == KEPT
            letters += blocks[b, B_LENGTH]
    is_short = texts <= INTRODUCTION_BLOCKS and letters < INTRODUCTION_LENGTH
    return is_short and letters <= 2 * _letters_listed(room, listed)


@fused
def _may_be_listed(nodes: Any, node: Any) -> Any:
    """
    Return whether a container may be a part of a list: it stands in no margin, and in no box with a
    margin's class name. An article that is called a teaser is an entry all the same.
    """
    above = nodes[node, N_ABOVE]
    if above & names.NEGATIVE and above & names.IN_ARTICLE:
        for _ in range(LISTS_UP):
            if nodes[node, N_TAG] == names.ARTICLE:
                above = nodes[nodes[node, N_PARENT], N_ABOVE]
                break
            if nodes[node, N_OWN] & names.NEGATIVE:
                break
            node = nodes[node, N_PARENT]
    return not above & (_MARGIN | names.NEGATIVE)


@fused
def _list_within(room: Any, begin: Any, end: Any) -> Any:
    """Return the list that begins with these blocks, perhaps behind margins and a count."""
    listed = _list_of_entries(room, begin, end, True)
    return listed if listed.end > 0 else _list_of_entries(room, begin, end, False)


@fused
def _list_of_entries(room: Any, begin: Any, end: Any, headings: Any) -> Any:
    """Return the list whose entries are the linked headings of these blocks, or their links."""
    blocks = room.blocks
    nodes = room.nodes
    count = 0
    first = begin
    last = begin
    b = begin
    while b < end:
        part = OTHER
        if _may_be_listed(nodes, blocks[b, B_NODE]):
            like = first if count > 0 else b
            part = _part_of_headings(room, b, like) if headings else _part_of_links(room, b)
        if part == NO_PART:
            break
        if part == ENTRY:
            first = b if count == 0 else first
            last = b
            count += 1
        b += 1
    if count < LISTED_ARTICLES:
        return _NO_LIST
    first_node = blocks[first, B_NODE]
    last_node = blocks[last, B_NODE]
    around = common_container(nodes, first_node, last_node)
    within = nodes[first_node, N_ABOVE] & nodes[last_node, N_ABOVE] & ~nodes[around, N_ABOVE]
    are_articles = within & names.IN_ARTICLE != 0
    start = nodes[_branch(nodes, around, first_node), N_FIRST]
    if count < (LISTED_ARTICLES if are_articles else LISTED_MIN) or start < begin:
        return _NO_LIST
    if not _is_count(room, begin, start):
        return _NO_LIST
    return _List(start, min(b, nodes[_branch(nodes, around, last_node), N_END]))


@fused
def _part_of_headings(room: Any, b: Any, like: Any) -> Any:
    """
    Return what a block is to a list of linked headings that are of one level, that of the block
    `like`. It ends at a heading of another kind.
    """
    blocks = room.blocks
    nodes = room.nodes
    node = blocks[b, B_NODE]
    if not nodes[node, N_ABOVE] & names.IN_HEADING:
        return OTHER
    is_like = nodes[node, N_TAG] == nodes[blocks[like, B_NODE], N_TAG]
    return ENTRY if is_like and _is_link(blocks, b) else NO_PART


@fused
def _part_of_links(room: Any, b: Any) -> Any:
    """
    Return what a block is to a list of links. It ends at a heading, and at a longer text outside
    lists and tables.
    """
    above = room.nodes[room.blocks[b, B_NODE], N_ABOVE]
    if above & names.IN_HEADING:
        return NO_PART
    if _is_link(room.blocks, b):
        return ENTRY
    is_short = room.blocks[b, B_LENGTH] < SHORT_LENGTH
    return OTHER if is_short or above & (names.IN_LIST | names.IN_TABLE) else NO_PART


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
def _is_count(room: Any, begin: Any, end: Any) -> Any:
    """
    Return whether these blocks, without margins, are at most a line that counts a list: it is short
    and has a digit. The line above a list of related pages ("Latest") has none.
    """
    letters = np.int64(0)
    for b in range(begin, end):
        node = room.blocks[b, B_NODE]
        if not _may_be_listed(room.nodes, node):
            continue
        letters += room.blocks[b, B_LENGTH]
        is_heading = room.nodes[node, N_ABOVE] & names.IN_HEADING
        if is_heading or letters >= SHORT_LENGTH or not _has_digit(room, b):
            return False
    return True


@fused
def _has_digit(room: Any, b: Any) -> Any:
    """Return whether a block has a digit of ASCII."""
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
