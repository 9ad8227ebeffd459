"""
From the bytes of a page to its skeleton: blocks of text, and the containers that they stand in.

The scanner reads the page once, from its first byte to its last, and splits it into tags, comments
and text as the WHATWG tokenizer does. It builds no tree. It keeps a stack of the elements that are
open, and writes three arrays:

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
from worker.core.pages import characters, names
from worker.core.pages.characters import (
    ABOUT_BYTE,
    ENDS_NAME,
    HAS_HREF,
    LETTER,
    SELF_CLOSING,
    put_space,
)

# ---- blocks
# LENGTH counts letters as the selection weighs them, BYTES the text, LINK those of them inside
# links.
B_START, B_END, B_NODE, B_LENGTH, B_LINK, B_STOPS, B_KEEP, B_BYTES = range(8)
BLOCK_COLUMNS = 8
# ---- nodes
# TAG is the number of an element in names.py; OWN are the flags of its words, ABOVE those that it
# and all around it hand down; its blocks are FIRST to END - 1. The rest is the selection's own
# (select.py).
N_PARENT, N_TAG, N_OWN, N_ABOVE, N_FIRST, N_END = range(6)
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
# <br>, elements beyond STACK_MAX, bytes of the title, whether <body> was read; and where the arrays
# are.
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
) = range(12)
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
) = range(12, 21)
STATE_SIZE = 21


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
    """A Skeleton for a page of so many bytes and so many '<'."""
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


# Of a room, the address of a state: its arrays.
state_of = viewer((STATE_SIZE,))
nearest_of = viewer((256,), held_at=NEAREST_AT)
stack_of = viewer((STACK_MAX, STACK_COLUMNS), held_at=STACK_AT)
_blocks_of = viewer((BLOCKS_MAX, BLOCK_COLUMNS), held_at=BLOCKS_AT, rows_at=BLOCK_ROWS)
_nodes_of = viewer((NODES_MAX, NODE_COLUMNS), held_at=NODES_AT, rows_at=NODE_ROWS)


@fused
def begin_page(skeleton: Any) -> Any:
    """An empty page: row 0 of the nodes, level 0 of the stack. Returns the address of its state."""
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
    """Close what is open; returns where the text ends."""
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
    """Whether SVG or MathML is read here."""
    return stack_of(room)[state_of(room)[DEPTH] - 1, S_FOREIGN] > 0


@fused
def end_link(room: Any, at: Any) -> None:
    """The link ends here, if there is one."""
    state = state_of(room)
    if state[ANCHOR] >= 0:
        state[LINK] += at - state[ANCHOR]
        state[ANCHOR] = -1


@fused
def _long_stop(out: Any, k: Any) -> Any:
    """
    How many marks that divide sentences a character beyond ASCII is; those of scripts without
    spaces count two.
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
def _measured(out: Any, k: Any, end: Any) -> Any:
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


@apart
def close_block(room: Any, at: Any) -> Any:
    """End the block of text here; one without text is none. Returns where the next begins."""
    state = state_of(room)
    out = state[OUT_AT]
    start = state[START]
    if at > start and byte_at(out, at - 1) == 32:
        at -= 1
    linked = state[ANCHOR] >= 0
    if linked:
        state[LINK] += max(at - state[ANCHOR], 0)
    if at > start:
        length, stops = _measured(out, start, at)
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
    nodes[row, N_OWN] = words
    nodes[row, N_ABOVE] = above | names.INSIDE[tag] | (words & names.NEGATIVE)
    nodes[row, N_FIRST] = state[BLOCKS]
    nodes[row, N_END] = -1
    state[NODE] = row
    state[NODES] += 1


@apart
def push(room: Any, element: Any, words: Any, at: Any) -> Any:
    """
    Open an element.

    It is a container if it is a block, or if its words say that it is not text. It is dropped if it
    is hidden within a line.
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


# ---- what tags do to the stack
# Which elements an end tag or the start of another element closes, as WHATWG has it.

WORDS = HAS_HREF - 1  # of the flags: what the words of attributes say
HELD = names.SPECIAL | names.DROPPED | names.CLASSED | names.INTEGRATION  # what the stack holds
CDATA = np.frombuffer(b"[CDATA[", np.uint8)
ENDS_BY_ITSELF = names.set_of("p li dd dt option optgroup")


@fused
def _divide(room: Any, element: Any, at: Any) -> Any:
    """End the block of text where this element divides blocks, unless text is dropped here."""
    divides = (
        element & names.BLOCK != 0 or element & (names.SPECIAL | names.DROPPED) == names.SPECIAL
    )
    return close_block(room, at) if divides and not is_dropped(room) else at


@apart
def start_tag(room: Any, element: Any, flags: Any, at: Any) -> Any:  # noqa: PLR0911
    """A start tag; returns where the text ends."""
    tag = element & names.TAG
    if is_foreign(room):
        if not element & names.BREAKOUT:
            return (
                push(room, element, flags & WORDS, at)
                if element & HELD and not flags & SELF_CLOSING
                else at
            )
        at = pop_to(room, stack_of(room)[state_of(room)[DEPTH] - 1, S_FOREIGN], at)
    if tag == names.BR:
        return _line_break(room, at)
    if tag == names.A:
        if is_dropped(room):
            return at
        end_link(room, at)
        if flags & HAS_HREF:
            state_of(room)[ANCHOR] = at
            state_of(room)[ANCHOR_DEPTH] = state_of(room)[DEPTH]
        return at
    if tag == names.INPUT or tag == names.SELECT:
        within = stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]
        at = close_select(room, at)
        if within != stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]:
            return at
    at = _divide(room, element, at)
    level = _closed_by(room, element)
    if 0 < level < state_of(room)[DEPTH]:
        at = pop_to(room, level, at)
    if tag == names.BODY:
        state_of(room)[HAS_BODY] = 1
    if element & names.VOID or not element & HELD or not _may_open(room, element):
        return at
    return push(room, element, flags & WORDS, at)


@apart
def end_tag(room: Any, element: Any, at: Any) -> Any:  # noqa: PLR0911
    """An end tag; returns where the text ends."""
    tag = element & names.TAG
    state = state_of(room)
    stack = stack_of(room)
    if (tag == names.P or tag == names.BR) and is_foreign(room):
        at = pop_to(room, stack[state[DEPTH] - 1, S_FOREIGN], at)
    if tag == names.BR:
        return _line_break(room, at)
    if tag == names.A:
        foreign = stack[state[DEPTH] - 1, S_FOREIGN]
        if (
            state[ANCHOR] >= 0 and foreign >= state[ANCHOR_DEPTH]
        ):  # the link's end is that of a drawing in it
            at = pop_to(room, foreign, at)
        end_link(room, at)
        return at
    if element & names.VOID or not element & HELD:
        return at
    if state[BEYOND] > 0 and element & names.SPECIAL:
        state[BEYOND] -= 1
        return at
    level = _ended_by(room, element)
    at = _divide(room, element, at)
    if level == 0:
        return at
    if tag == names.FORM:
        top = state[DEPTH] - 1
        while top > level and ENDS_BY_ITSELF[stack[top, S_ELEMENT] & names.TAG]:
            top -= 1
        if top > level:  # what it holds stays open, and in its container
            at = pop_to(room, top + 1, at)
            stack[level, S_ELEMENT] = 0
            nearest_of(room)[names.FORM] = stack[level, S_SAME]
            return at
    return pop_to(room, level, at)


@fused
def close_select(room: Any, at: Any) -> Any:
    """End an open select, which holds no fields."""
    level = stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]
    if stack_of(room)[level, S_ELEMENT] & names.TAG == names.SELECT:
        return pop_to(room, level, at)
    return at


@fused
def _line_break(room: Any, at: Any) -> Any:
    """A space; the second in a row ends the block."""
    if is_dropped(room):
        return at
    state = state_of(room)
    if at > state[START] and state[BREAK] == at:
        at = close_block(room, at)
        state[BREAK] = -1
    else:
        at = put_space(state[OUT_AT], state[START], at)
        state[BREAK] = at
    return at


@fused
def _is_heading(tag: Any) -> Any:
    return names.H1 <= tag <= names.H6


@fused
def _closed_by(room: Any, element: Any) -> Any:
    """The level from which on the start of an element closes others; 0 for none."""
    tag = element & names.TAG
    if element & names.CELLS:
        return _closed_by_cell(room, tag)
    level = _closed_by_table(room) if tag == names.TABLE else _closed_by_item(room, tag)
    if level == 0 and element & names.CLOSES_P:
        return _closed_by_block(room, tag)
    return level


@fused
def _closed_by_cell(room: Any, tag: Any) -> Any:
    """A part of a table closes all inside the part that holds it."""
    nearest = nearest_of(room)
    keep = stack_of(room)[state_of(room)[DEPTH] - 1, S_TABLE]
    if keep == 0:
        return keep
    if tag == names.TD or tag == names.TH or tag == names.TR:
        keep = max(keep, nearest[names.TBODY], nearest[names.THEAD], nearest[names.TFOOT])
    if tag == names.TD or tag == names.TH:
        keep = max(keep, nearest[names.TR])
    return keep + 1


@fused
def _closed_by_table(room: Any) -> Any:
    """A table closes the one that it stands in directly, outside its cells."""
    nearest = nearest_of(room)
    stack = stack_of(room)
    table = stack[state_of(room)[DEPTH] - 1, S_TABLE]
    inside = max(nearest[names.TD], nearest[names.TH], nearest[names.CAPTION])
    is_table = stack[table, S_ELEMENT] & names.TAG == names.TABLE
    return table if is_table and inside < table else np.int64(0)


@fused
def _closed_by_item(room: Any, tag: Any) -> Any:
    """An item closes the open item of its list; so do terms, options and buttons."""
    nearest = nearest_of(room)
    stack = stack_of(room)
    top = state_of(room)[DEPTH] - 1
    if tag == names.OPTGROUP or tag == names.BUTTON:
        return nearest[tag] if nearest[tag] > stack[top, S_SCOPE] else np.int64(0)
    item = stack[top, S_ITEM]
    inner = stack[item, S_ELEMENT] & names.TAG
    if tag == names.LI or tag == names.OPTION:
        closes = inner == tag
    elif tag == names.DD or tag == names.DT:
        closes = inner == names.DD or inner == names.DT
    else:
        closes = False
    return item if closes else np.int64(0)


@fused
def _closed_by_block(room: Any, tag: Any) -> Any:
    """A block closes an open paragraph; a heading also the heading that it stands in directly."""
    nearest = nearest_of(room)
    stack = stack_of(room)
    top = state_of(room)[DEPTH] - 1
    level = nearest[names.P] if nearest[names.P] > stack[top, S_BUTTON] else np.int64(0)
    if _is_heading(tag):
        last = level - 1 if level > 0 else top
        if _is_heading(stack[last, S_ELEMENT] & names.TAG):
            return last
    return level


@fused
def _may_open(room: Any, element: Any) -> Any:
    """
    Whether the element may stand here: no second body, no cell outside a table, no form in a form.
    """
    tag = element & names.TAG
    if tag == names.HTML or tag == names.HEAD or tag == names.BODY or tag == names.FRAMESET:
        return False
    top = state_of(room)[DEPTH] - 1
    if element & names.CELLS:
        return stack_of(room)[top, S_TABLE] > 0
    if tag == names.FORM:
        inner = stack_of(room)[top, S_ELEMENT]
        return (
            nearest_of(room)[names.FORM] == 0
            and inner & names.TAG != names.TABLE
            and (not inner & names.CELLS or inner & names.SCOPE != 0)
        )
    return True


@fused
def _ended_by(room: Any, element: Any) -> Any:
    """The level of the element that an end tag ends; 0 for none."""
    tag = element & names.TAG
    nearest = nearest_of(room)
    stack = stack_of(room)
    top = state_of(room)[DEPTH] - 1
    level = nearest[tag]
    if _is_heading(tag):
        for heading in range(names.H1, names.H6 + 1):
            level = max(level, nearest[heading])
    if element & names.CELLS or tag == names.TABLE:
        barrier = stack[top, S_TABLE] - (tag == names.TABLE)
    elif tag == names.P:
        barrier = stack[top, S_BUTTON]
    elif tag == names.TEMPLATE:
        barrier = np.int64(0)
    elif element & names.SPECIAL:
        barrier = stack[top, S_SCOPE] - ((element & names.SCOPE) != 0)
        if tag == names.LI:
            barrier = max(barrier, nearest[names.UL], nearest[names.OL])
    else:
        barrier = stack[top, S_SPECIAL] - 1
    return level if level > barrier else np.int64(0)


# ---- the pass over the bytes of a page


@apart
def scan(page: Any, i: Any, end: Any, skeleton: Any) -> Any:
    """
    Read UTF-8, `page[i:end]` of an address, SLACK zeros behind it, into a Skeleton; returns the
    bytes of text in `out`.

    Cost: linear in the page, whatever is in it.
    """
    room = begin_page(skeleton)
    state = state_of(room)
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
    return min(machine.find_greater_than(page, i + 2, end) + 1, end)


@fused
def _name(page: Any, i: Any, end: Any) -> Any:
    """An element's name: (where it ends, its hash)."""
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
def _end(page: Any, i: Any, end: Any, room: Any, at: Any) -> Any:
    """An end tag from its name on: (where it ends, where the text ends)."""
    i, key = _name(page, i, end)
    i, _ = characters.read_attributes(page, i, end, np.int64(0))
    if i >= end:
        return end, at
    element = names.look_up(names.TAG_TABLE, key)
    return i + 1, end_tag(room, element, at) if element else at


@fused
def _start(page: Any, begin: Any, end: Any, room: Any, at: Any) -> Any:
    """
    A start tag from its name on, and an element without markup whole: (where it ends, where the
    text ends).
    """
    i, key = _name(page, begin, end)
    size = i - begin
    element = names.look_up(names.TAG_TABLE, key)
    tag = element & names.TAG
    i, flags = characters.read_attributes(
        page, i, end, names.CLASSED if tag == names.A else element & names.CLASSED
    )
    if i >= end:
        return end, at
    i += 1
    if element == 0:
        return i, at
    if not is_foreign(room):
        if element & names.RAW:
            return _raw(page, i, end, room, (element, key, size, flags), at)
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
def _raw(page: Any, i: Any, end: Any, room: Any, about: Any, at: Any) -> Any:
    """
    An element without markup, from behind its start tag: (behind its end tag, where the text ends).
    """
    element, key, size, flags = about
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
