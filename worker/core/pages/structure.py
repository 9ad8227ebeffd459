"""What tags do to the stack: which elements an end tag or the start of another element closes, as WHATWG has it."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.pages.attributes import HAS_HREF, SELF_CLOSING
from worker.core.pages.characters import put_space
from worker.core.pages.names import (
    BLOCK,
    BODY,
    BR,
    BREAKOUT,
    BUTTON,
    CAPTION,
    CELLS,
    CLASSED,
    CLOSES_P,
    DD,
    DROPPED,
    DT,
    FORM,
    FRAMESET,
    H1,
    H6,
    HEAD,
    HTML,
    INPUT,
    INTEGRATION,
    LI,
    OL,
    OPTGROUP,
    OPTION,
    SCOPE,
    SELECT,
    SPECIAL,
    TABLE,
    TAG,
    TBODY,
    TD,
    TEMPLATE,
    TFOOT,
    TH,
    THEAD,
    TR,
    UL,
    VOID,
    A,
    P,
)
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
    begin_link,
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

WORDS = HAS_HREF - 1  # of the flags: what the words of attributes say
HELD = SPECIAL | DROPPED | CLASSED | INTEGRATION  # what the stack holds


@apart
def start_tag(room: Any, element: Any, flags: Any, at: Any) -> Any:  # noqa: PLR0911
    """A start tag; returns where the text ends."""
    tag = element & TAG
    if is_foreign(room):
        if not element & BREAKOUT:
            return push(room, element, flags & WORDS, at) if element & HELD and not flags & SELF_CLOSING else at
        at = pop_to(room, stack_of(room)[state_of(room)[DEPTH] - 1, S_FOREIGN], at)
    if tag == BR:
        return _line_break(room, at)
    if tag == A:
        if is_dropped(room):
            return at
        end_link(room, at)
        if flags & HAS_HREF:
            begin_link(room, at)
        return at
    if tag == INPUT or tag == SELECT:
        within = stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]
        at = close_select(room, at)
        if within != stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]:
            return at
    if element & BLOCK or element & (SPECIAL | DROPPED) == SPECIAL:
        at = _divide(room, at)
    level = _closed_by(room, element)
    if 0 < level < state_of(room)[DEPTH]:
        at = pop_to(room, level, at)
    if tag == BODY:
        state_of(room)[HAS_BODY] = 1
    if element & VOID or not element & HELD or not _may_open(room, element):
        return at
    return push(room, element, flags & WORDS, at)


@apart
def end_tag(room: Any, element: Any, at: Any) -> Any:  # noqa: PLR0911
    """An end tag; returns where the text ends."""
    tag = element & TAG
    state, stack = state_of(room), stack_of(room)
    if (tag == P or tag == BR) and is_foreign(room):
        at = pop_to(room, stack[state[DEPTH] - 1, S_FOREIGN], at)
    if tag == BR:
        return _line_break(room, at)
    if tag == A:
        foreign = stack[state[DEPTH] - 1, S_FOREIGN]
        if state[ANCHOR] >= 0 and foreign >= state[ANCHOR_DEPTH]:  # the link's end is that of a drawing in it
            at = pop_to(room, foreign, at)
        end_link(room, at)
        return at
    if element & VOID or not element & HELD:
        return at
    if state[BEYOND] > 0 and element & SPECIAL:
        state[BEYOND] -= 1
        return at
    level = _ended_by(room, element)
    if element & BLOCK or element & (SPECIAL | DROPPED) == SPECIAL:
        at = _divide(room, at)
    if level == 0:
        return at
    if tag == FORM:
        top = state[DEPTH] - 1
        while top > level and _ends_by_itself(stack[top, S_ELEMENT] & TAG):
            top -= 1
        if top > level:  # what it holds stays open, and in its container
            at = pop_to(room, top + 1, at)
            stack[level, S_ELEMENT] = 0
            nearest_of(room)[FORM] = stack[level, S_SAME]
            return at
    return pop_to(room, level, at)


@fused
def close_select(room: Any, at: Any) -> Any:
    """End an open select, which holds no fields."""
    level = stack_of(room)[state_of(room)[DEPTH] - 1, S_SCOPE]
    if stack_of(room)[level, S_ELEMENT] & TAG == SELECT:
        return pop_to(room, level, at)
    return at


@fused
def _divide(room: Any, at: Any) -> Any:
    """End the block of text, unless text is dropped here."""
    return at if is_dropped(room) else close_block(room, at)


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
def _ends_by_itself(tag: Any) -> Any:
    return tag == P or tag == LI or tag == DD or tag == DT or tag == OPTION or tag == OPTGROUP


@fused
def _is_heading(tag: Any) -> Any:
    return H1 <= tag <= H6


@fused
def _section(nearest: Any) -> Any:
    return max(nearest[TBODY], nearest[THEAD], nearest[TFOOT])


@fused
def _closed_by(room: Any, element: Any) -> Any:  # noqa: PLR0911, PLR0912
    """The level from which on the start of an element closes others; 0 for none."""
    tag = element & TAG
    nearest, stack = nearest_of(room), stack_of(room)
    top = state_of(room)[DEPTH] - 1
    if element & CELLS:
        keep = stack[top, S_TABLE]
        if keep == 0:
            return keep
        if tag == TD or tag == TH or tag == TR:
            keep = max(keep, _section(nearest))
        if tag == TD or tag == TH:
            keep = max(keep, nearest[TR])
        return keep + 1
    if tag == TABLE:
        table = stack[top, S_TABLE]
        inside = max(nearest[TD], nearest[TH], nearest[CAPTION])
        if stack[table, S_ELEMENT] & TAG == TABLE and inside < table:
            return table
    item = stack[top, S_ITEM]
    inner = stack[item, S_ELEMENT] & TAG
    if tag == LI or tag == OPTION:
        if inner == tag:
            return item
    elif tag == DD or tag == DT:
        if inner == DD or inner == DT:
            return item
    elif tag == OPTGROUP:
        if nearest[OPTGROUP] > stack[top, S_SCOPE]:
            return nearest[OPTGROUP]
    elif tag == BUTTON and nearest[BUTTON] > stack[top, S_SCOPE]:
        return nearest[BUTTON]
    level = np.int64(0)
    if element & CLOSES_P:
        level = nearest[P] if nearest[P] > stack[top, S_BUTTON] else np.int64(0)
        if _is_heading(tag):
            last = level - 1 if level > 0 else top
            if _is_heading(stack[last, S_ELEMENT] & TAG):
                return last
    return level


@fused
def _may_open(room: Any, element: Any) -> Any:
    """Whether the element may stand here: no second body, no cell outside a table, no form in a form."""
    tag = element & TAG
    if tag == HTML or tag == HEAD or tag == BODY or tag == FRAMESET:
        return False
    top = state_of(room)[DEPTH] - 1
    if element & CELLS:
        return stack_of(room)[top, S_TABLE] > 0
    if tag == FORM:
        inner = stack_of(room)[top, S_ELEMENT]
        return nearest_of(room)[FORM] == 0 and inner & TAG != TABLE and (not inner & CELLS or inner & SCOPE != 0)
    return True


@fused
def _ended_by(room: Any, element: Any) -> Any:
    """The level of the element that an end tag ends; 0 for none."""
    tag = element & TAG
    nearest, stack = nearest_of(room), stack_of(room)
    top = state_of(room)[DEPTH] - 1
    level = nearest[tag]
    if _is_heading(tag):
        for heading in range(H1, H6 + 1):
            level = max(level, nearest[heading])
    if element & CELLS or tag == TABLE:
        barrier = stack[top, S_TABLE] - (tag == TABLE)
    elif tag == P:
        barrier = stack[top, S_BUTTON]
    elif tag == TEMPLATE:
        barrier = np.int64(0)
    elif element & SPECIAL:
        barrier = stack[top, S_SCOPE] - ((element & SCOPE) != 0)
        if tag == LI:
            barrier = max(barrier, nearest[UL], nearest[OL])
    else:
        barrier = stack[top, S_SPECIAL] - 1
    return level if level > barrier else np.int64(0)
