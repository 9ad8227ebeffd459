"""
Decides which elements a tag opens, and which it closes.

These are WHATWG's rules for trees, as far as they change text or containers; README.md lists them.
The start of an element may close others (`_closed_by`): a row closes the row before it, an item the
item before it, a block the paragraph that it cannot stand in. An end tag closes the nearest element
of its name, and all inside it, unless a barrier lies between the two (`_ended_by`): no </p> inside
a cell ends the paragraph around the table. Neither looks for its level on the stack: skeleton.py
keeps, for each level, the nearest level of every kind that these rules ask for.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.pages import names
from worker.core.pages.characters import HAS_HREF, SELF_CLOSING, put_space
from worker.core.pages.skeleton import (
    ANCHOR,
    ANCHOR_DEPTH,
    BEYOND,
    BREAK,
    DEPTH,
    HAS_BODY,
    OUT_AT,
    S_BUTTON,
    S_ELEMENT,
    S_FOREIGN,
    S_ITEM,
    S_SAME,
    S_SCOPE,
    S_SPECIAL,
    S_TABLE,
    START,
    close_block,
    end_link,
    is_dropped,
    is_foreign,
    nearest_of,
    pop_to,
    push,
    stack_of,
    state_of,
)

WORDS = HAS_HREF - 1  # the flags that words of attributes set
HELD = names.SPECIAL | names.DROPPED | names.CLASSED | names.INTEGRATION  # flags on the stack
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
    """Read a start tag; return where the text ends."""
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
    """Read an end tag; return where the text ends."""
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
        if top > level:  # its content stays open, and in its container
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
    Return whether the element may stand here: no second body, no cell outside a table, no form in a
    form.
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
