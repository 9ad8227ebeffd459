"""
The skeleton of a page: blocks of text, and the containers that they stand in.

The scanner (scan.py) reads the page once and builds no tree. It keeps a stack of the elements that
are open, and writes three arrays. This file holds the stack and the arrays, and what is done to
them: open an element, close elements, end a block. tags.py decides when.

    out      the text, UTF-8: each block, and a '\\n' behind it
    blocks   [n, 8]: a row for each block, in the page's order
    nodes    [n, 21]: a row for each container, parents before their children; row 0 is the page

An example, with the blocks that it becomes and the containers that hold them:

    <div><h2>Ferry</h2>It is late.<br>Again.</div>     node 1 div, node 2 h2 (parent 1)
                                                       block 0 "Ferry" in node 2
                                                       block 1 "It is late. Again." in node 1

The columns named here are the interface between scanner, selection and output.

What always holds:

- Parents stand before their children in `nodes`, and the blocks of a container are a range of rows,
  so the selection needs no stack: sums over all that a container holds are one sweep from the last
  row to the first.
- Blocks do not overlap and are in the order of the page; none is empty.
- Each level of the stack knows the nearest level at or below it of every kind that a rule asks for.
  So no rule walks the stack, an end tag without its element costs what one with it does, and time
  is linear in any page.
- Memory is bounded before the page is read: STACK_MAX levels (beyond them elements are counted, not
  held), and rows of blocks and nodes for each "<" up to BLOCKS_MAX and NODES_MAX (beyond them the
  last row takes all).

Why no tree: resiliparse builds one and needs 7 to 10 times as long for the same pages, and most of
what a tree corrects changes no text. Of the WHATWG rules for trees, those are kept that move text
between containers; README.md lists them. `tests/core/pages/reference.py` says the same in plain
Python, and the kernel must equal it on every input.

The open elements are held as columns of one array, and the functions pass the address of `state`
alone. They call each other some five times per tag, and numba hands over each array as seven
arguments.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import apart, fused, fused_allocating
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    BYTE_LANES,
    SLACK,
    byte_at,
    lanes_before,
    popcount,
    set_byte,
    viewer,
)
from worker.core.pages import names

# ---- blocks
# LENGTH counts letters as the selection weighs them, BYTES the text, LINK those of them inside
# links.
B_START, B_END, B_NODE, B_LENGTH, B_LINK, B_STOPS, B_KEEP, B_BYTES = range(8)
BLOCK_COLUMNS = 8
# ---- nodes
# TAG is the number of an element in names.py; OWN are the flags of its words, ABOVE those that it
# and all around it hand down; its blocks are FIRST to END - 1. The rest is the selection's own
# (select.py), but for MARK: the landmark before it, of a landmark, until the region is found.
N_PARENT, N_TAG, N_OWN, N_ABOVE, N_FIRST, N_END = range(6)
N_MARK = 20
NODE_COLUMNS = 21

U = np.uint64
ALL_LANES = U((1 << BYTE_LANES) - 1)

STACK_MAX = 512  # levels, as browsers have it
SPANS_MAX = 384  # no span is held beyond this level: containers come first
NODES_MAX = 1 << 17
BLOCKS_MAX = 1 << 18
TITLE_MAX = 1_024  # bytes

# ---- the stack's columns
# The element, its node, and the nearest level at or below of: the same element, a barrier for end
# tags (SCOPE), for inline ones (SPECIAL), for list items, for paragraphs, for table parts, an
# integration point; the outermost level of SVG or MathML that holds this one directly, and of text
# that is dropped. 0 is "none".
S_ELEMENT, S_NODE, S_SAME, S_SCOPE, S_SPECIAL, S_ITEM, S_BUTTON, S_TABLE, S_FOREIGN, S_DROPPED = (
    range(10)
)
STACK_COLUMNS = 10
# ---- the state
# Levels in use, node of the innermost level, rows in use, begin of the block in `out`, bytes of
# links in it, begin of the open link or -1 and the level it stands at, end of the text at the last
# <br>, elements beyond STACK_MAX, bytes of the title, whether <body> was read, the last landmark
# (main, article, h1; 0 for none), the first node of the region and the first behind it, whether the
# page is XML, whether there are slots and parts of streamed content, the block of the heading (-1
# for none), the same if the heading repeats the title and stands outside the region, the first
# block behind the boxes before it (0 where there are none); begin and end of the longest JSON-LD,
# noscript and srcdoc of the page; and where the arrays are.
(
    DEPTH,
    NODE,
    NODES,
    BLOCKS,
    START,
    LINK,
    ANCHOR,
    ANCHOR_DEPTH,
    BREAK,
    BEYOND,
    TITLE_SIZE,
    HAS_BODY,
    MARK,
    REGION,
    REGION_END,
    IS_XML,
    STREAMED,
    HEADING,
    TITLE_BLOCK,
    TEXT_BEGIN,
    DATA_BEGIN,
    DATA_END,
    NOSCRIPT_BEGIN,
    NOSCRIPT_END,
    FRAME_BEGIN,
    FRAME_END,
) = range(26)
(
    OUT_AT,
    BLOCKS_AT,
    BLOCK_ROWS,
    NODES_AT,
    NODE_ROWS,
    TITLE_AT,
    STACK_AT,
    NEAREST_AT,
    REFERENCES_AT,
) = range(26, 35)
STATE_SIZE = 35


class Skeleton(NamedTuple):
    """
    The arrays of one page; those of the next take the same room.

    The scanner's functions call each other some five times a tag: they pass the address of `state`
    alone, as `room`.
    """

    out: NDArray[np.uint8]
    blocks: NDArray[np.int64]
    nodes: NDArray[np.int64]
    title: NDArray[np.uint8]
    stack: NDArray[np.int64]
    nearest: NDArray[np.int64]  # [256]: the innermost level of each element, 0 for none
    state: NDArray[np.int64]
    references: NDArray[np.uint64]  # characters.REFERENCES


@fused_allocating
def room_for(size: Any, tags: Any, references: Any) -> Any:
    """Make a Skeleton with room for a page with this many bytes and this many '<'."""
    return Skeleton(
        np.empty(size + size // 4 + SLACK, np.uint8),
        np.empty((min(tags, BLOCKS_MAX) + 2, BLOCK_COLUMNS), np.int64),
        np.empty((min(tags, NODES_MAX) + 2, NODE_COLUMNS), np.int64),
        np.empty(TITLE_MAX + TITLE_MAX // 4 + SLACK, np.uint8),
        np.empty((STACK_MAX, STACK_COLUMNS), np.int64),
        np.empty(256, np.int64),
        np.empty(STATE_SIZE, np.int64),
        references,
    )


@fused_allocating
def with_rows(room: Any, tags: Any) -> Any:
    """Return the room with rows for this many '<', too; its other arrays are the same."""
    if min(tags, BLOCKS_MAX) + 2 <= room.blocks.shape[0]:
        return room
    wanted = room_for(np.int64(0), tags, room.references)
    return Skeleton(
        room.out,
        wanted.blocks,
        wanted.nodes,
        room.title,
        room.stack,
        room.nearest,
        room.state,
        room.references,
    )


# Of a room, the address of a state: its arrays.
state_of = viewer((STATE_SIZE,))
nearest_of = viewer((256,), held_at=NEAREST_AT)
stack_of = viewer((STACK_MAX, STACK_COLUMNS), held_at=STACK_AT)
_blocks_of = viewer((BLOCKS_MAX, BLOCK_COLUMNS), held_at=BLOCKS_AT, rows_at=BLOCK_ROWS)
_nodes_of = viewer((NODES_MAX, NODE_COLUMNS), held_at=NODES_AT, rows_at=NODE_ROWS)


@fused
def begin_page(skeleton: Any) -> Any:
    """
    Begin an empty page: row 0 of the nodes, level 0 of the stack. Return the address of its state.
    """
    state = skeleton.state
    nodes = skeleton.nodes
    stack = skeleton.stack
    state[:] = 0
    skeleton.nearest[:] = 0
    stack[0, :] = 0
    nodes[0, :] = 0
    stack[0, S_ELEMENT] = names.SPECIAL | names.SCOPE
    nodes[0, N_PARENT] = -1
    nodes[0, N_END] = -1
    state[DEPTH] = 1
    state[NODES] = 1
    state[ANCHOR] = -1
    state[BREAK] = -1
    state[OUT_AT] = np.int64(skeleton.out.ctypes.data)
    state[BLOCKS_AT] = np.int64(skeleton.blocks.ctypes.data)
    state[BLOCK_ROWS] = skeleton.blocks.shape[0]
    state[NODES_AT] = np.int64(nodes.ctypes.data)
    state[NODE_ROWS] = nodes.shape[0]
    state[TITLE_AT] = np.int64(skeleton.title.ctypes.data)
    state[STACK_AT] = np.int64(stack.ctypes.data)
    state[NEAREST_AT] = np.int64(skeleton.nearest.ctypes.data)
    state[REFERENCES_AT] = np.int64(skeleton.references.ctypes.data)
    return np.int64(state.ctypes.data)


@fused
def end_page(room: Any, at: Any) -> Any:
    """Close all open elements. Returns where the text ends."""
    at = close_block(room, at)
    state = state_of(room)
    nodes = _nodes_of(room)
    for k in range(state[NODES]):
        if nodes[k, N_END] < 0:
            nodes[k, N_END] = state[BLOCKS]
    return at


@fused
def is_dropped(room: Any) -> Any:
    """Return whether text at this place does not belong to the page's text."""
    return stack_of(room)[state_of(room)[DEPTH] - 1, S_DROPPED] > 0


@fused
def is_foreign(room: Any) -> Any:
    """Return whether SVG or MathML is read here."""
    return stack_of(room)[state_of(room)[DEPTH] - 1, S_FOREIGN] > 0


@fused
def end_link(room: Any, at: Any) -> None:
    """End the open link, if there is one."""
    state = state_of(room)
    if state[ANCHOR] >= 0:
        state[LINK] += at - state[ANCHOR]
        state[ANCHOR] = -1


@fused
def _long_stop(out: Any, k: Any) -> Any:
    """
    Return how many marks that divide sentences a character beyond ASCII is; those of scripts
    without spaces count two.
    """
    first = byte_at(out, k)
    second = byte_at(out, k + 1)
    third = byte_at(out, k + 2)
    if first == 0xE3:  # ideographic comma, full stop
        return 2 if second == 0x80 and (third == 0x81 or third == 0x82) else 0
    if first == 0xEF:  # full-width comma, exclamation mark, question mark
        return 2 if second == 0xBC and (third == 0x8C or third == 0x81 or third == 0x9F) else 0
    if first == 0xE0:  # danda
        return 2 if second == 0xA5 and third == 0xA4 else 0
    if first == 0xD8:  # Arabic comma, question mark
        return 1 if (second == 0x8C or second == 0x9F) else 0
    return 1 if second == 0x94 else 0  # 0xDB: Urdu full stop


@fused
def measured(out: Any, k: Any, end: Any) -> Any:
    """
    The letters of `out[k:end]`, and the marks that divide sentences.

    What a script without spaces says with a character (Han, kana, Hangul) is worth three letters.
    """
    length = np.int64(0)
    stops = np.int64(0)
    while k < end:
        here = ALL_LANES >> U(max(k + BYTE_LANES - end, 0))
        length += np.int64(popcount(machine.where_letters(out, k) & here))
        length += 2 * np.int64(popcount(machine.where_heavy(out, k) & here))
        stops += np.int64(popcount(machine.where_stops(out, k) & here))
        long = machine.where_long_stops(out, k) & here
        while long:
            stops += _long_stop(out, k + lanes_before(long))
            long &= long - U(1)
        k += BYTE_LANES
    return length, stops


@fused
def close_block(room: Any, at: Any) -> Any:
    """End the block of text here; one without text is none. Returns where the next begins."""
    state = state_of(room)
    if at > state[START]:
        return _close_text(room, at)
    # Between most tags there is no text. Those cost no call.
    state[LINK] = 0
    if state[ANCHOR] >= 0:
        state[ANCHOR] = at
    return at


@apart
def _close_text(room: Any, at: Any) -> Any:
    state = state_of(room)
    out = state[OUT_AT]
    start = state[START]
    if byte_at(out, at - 1) == 32:
        at -= 1
    linked = state[ANCHOR] >= 0
    if linked:
        state[LINK] += max(at - state[ANCHOR], 0)
    if at > start:
        length, stops = measured(out, start, at)
        _add_block(room, at, length, stops)
        set_byte(out, at, 10)
        at += 1
    state[START] = at
    state[LINK] = 0
    if linked:
        state[ANCHOR] = at
    return at


@fused
def _add_block(room: Any, at: Any, length: Any, stops: Any) -> None:
    blocks = _blocks_of(room)
    state = state_of(room)
    start = state[START]
    row = state[BLOCKS]
    if row < state[BLOCK_ROWS]:
        blocks[row, :] = 0
        blocks[row, B_START] = start
        blocks[row, B_NODE] = state[NODE]
        state[BLOCKS] += 1
    else:
        row -= 1
    blocks[row, B_END] = at
    blocks[row, B_LENGTH] += length
    blocks[row, B_LINK] += min(state[LINK], at - start)
    blocks[row, B_STOPS] += stops
    blocks[row, B_BYTES] += at - start


@fused
def _add_node(room: Any, tag: Any, words: Any) -> None:
    nodes = _nodes_of(room)
    state = state_of(room)
    row = state[NODES]
    parent = state[NODE]
    if row >= state[NODE_ROWS]:
        return
    above = nodes[parent, N_ABOVE]
    if tag == names.TABLE:
        above &= ~names.IN_LIST  # a list of tables is no list
    nodes[row, :] = 0
    nodes[row, N_PARENT] = parent
    nodes[row, N_TAG] = tag
    words |= names.IMPLIED[tag]
    nodes[row, N_OWN] = words
    nodes[row, N_ABOVE] = above | names.INSIDE[tag] | (words & names.HANDED_DOWN)
    nodes[row, N_FIRST] = state[BLOCKS]
    nodes[row, N_END] = -1
    if names.LANDMARKS[tag] or words & names.IN_MAIN:
        nodes[row, N_MARK] = state[MARK]
        state[MARK] = row
    state[NODE] = row
    state[NODES] += 1


@apart
def push(room: Any, element: Any, words: Any, at: Any) -> Any:
    """
    Open an element.

    It is a container if it is a block, if it is a custom element that begins no line of text, or if
    its words say that it is not text. It is dropped if it is hidden within a line.
    """
    stack = stack_of(room)
    nearest = nearest_of(room)
    state = state_of(room)
    level = state[DEPTH]
    below = level - 1
    tag = element & names.TAG
    special = (element & names.SPECIAL) != 0
    if level >= (STACK_MAX if special else SPANS_MAX):
        state[BEYOND] += special
        return at
    foreign = stack[below, S_FOREIGN]
    dropped = stack[below, S_DROPPED]
    contains = foreign == 0 and (element & (names.BLOCK | names.SPECIAL)) != 0
    if tag == names.CUSTOM and foreign == 0 and at == state[START]:
        contains = names.HOLDS_CUSTOM[_nodes_of(room)[state[NODE], N_TAG]]
    if foreign > 0 and element & names.INTEGRATION:
        element |= names.SPECIAL | names.SCOPE
        foreign = np.int64(0)
    elif foreign > 0:  # it has the name of an HTML element, no more
        element &= ~(names.SPECIAL | names.SCOPE | names.MARKER)
    elif foreign == 0 and (tag == names.SVG or tag == names.MATH):
        foreign = level
    if dropped == 0:
        if element & names.DROPPED or (words & names.HIDDEN and not contains):
            dropped = level
        elif contains:
            _add_node(room, tag, words)
        elif words & names.NEGATIVE and _nodes_of(room)[state[NODE], N_TAG] != names.PRE:
            at = close_block(room, at)
            _add_node(room, tag, words)
    stack[level, S_ELEMENT] = element
    stack[level, S_NODE] = state[NODE]
    stack[level, S_SAME] = nearest[tag]
    stack[level, S_SCOPE] = level if element & names.SCOPE else stack[below, S_SCOPE]
    special = (element & names.SPECIAL) != 0
    stack[level, S_SPECIAL] = level if special else stack[below, S_SPECIAL]
    item = special and (tag != names.P and tag != names.DIV and tag != names.ADDRESS)
    stack[level, S_ITEM] = level if item else stack[below, S_ITEM]
    stack[level, S_BUTTON] = (
        level if element & names.SCOPE or tag == names.BUTTON else stack[below, S_BUTTON]
    )
    stack[level, S_TABLE] = (
        level if (tag == names.TABLE or tag == names.TEMPLATE) else stack[below, S_TABLE]
    )
    stack[level, S_FOREIGN] = foreign
    stack[level, S_DROPPED] = dropped
    nearest[tag] = level
    state[DEPTH] += 1
    return at


@apart
def pop_to(room: Any, level: Any, at: Any) -> Any:
    """Close the elements from this level on; returns where the text ends."""
    stack = stack_of(room)
    nearest = nearest_of(room)
    state = state_of(room)
    nodes = _nodes_of(room)
    while level > 1 and stack[level - 1, S_ELEMENT] == 0:  # a form that ended before what it held
        level -= 1
    k = state[DEPTH] - 1
    while k >= level:
        element = stack[k, S_ELEMENT]
        node = stack[k, S_NODE]
        if node != stack[k - 1, S_NODE]:
            at = close_block(room, at)
            nodes[node, N_END] = state[BLOCKS]
            state[NODE] = stack[k - 1, S_NODE]
        if element & names.MARKER and state[ANCHOR] >= 0 and state[ANCHOR_DEPTH] > k:
            end_link(room, at)
        if element != 0:
            nearest[element & names.TAG] = stack[k, S_SAME]
        k -= 1
    state[DEPTH] = level
    state[ANCHOR_DEPTH] = min(state[ANCHOR_DEPTH], level)
    state[BEYOND] = 0
    return at


@fused
def common_container(nodes: Any, node: Any, other: Any) -> Any:
    """Return the smallest container around two containers, which may be one of them."""
    while node != other:  # parents stand before their children
        if node > other:
            node = nodes[node, N_PARENT]
        else:
            other = nodes[other, N_PARENT]
    return node
