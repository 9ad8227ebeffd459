"""
Puts streamed content in its place, as the script of the page does in a browser.

React, and Next.js with it, send a page as soon as its frame is ready. Where content is to come,
they write a slot, and later, near the end of the page, the part that belongs there, hidden:

    <!--$?--><template id="B:0"></template>Loading<!--/$-->  a slot, and what is shown meanwhile
    <template id="P:1"></template>                           a slot within a part
    <div hidden id="S:0">...</div>                           the part for either

A page with several roots gives the ids of each root a prefix of its own ("shop-B:0"), React's
`identifierPrefix`. A part takes the place of the first slot with its prefix and number that stands
before it, and of what the slot shows meanwhile. Slots in a part are filled too. Since each slot
stands before its part, no part can hold itself. A part without a slot stays as it is.

The scanner notes in passing whether a page has slots and parts. Only such a page is read again
here, written in its order into another buffer, and scanned anew. All steps are linear: each byte is
written once at most, and each row is visited twice at most.
`tests/core/pages/streamed_reference.py` says the same in plain Python.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, fused_allocating
from worker.core.kernels import machine
from worker.core.kernels.machine import SLACK, byte_at, copy_bytes
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, LETTER
from worker.core.pages.scan import read_name

PLACES_MAX = 1 << 16  # slots and parts of a page; further ones stay where they are

# A row for each slot and part: which it is, the hash of its prefix and number, where it begins; of
# a part its content, of a slot what is left out; where it ends. While the page is read: how many
# boundaries are open around a slot. Then the row of a slot's part, or of a part's slot, or -1.
KIND, NUMBER, BEGIN, INNER, INNER_END, END, DEPTH, OTHER = range(8)
COLUMNS = 8
SLOT, FALLBACK_SLOT, PART, NEITHER = range(4)
# While the page is read: rows; the part that is open, -1 for none (none begins in it), its name's
# hash and how many elements of that name are open; slots on the stack, whose boundary has not
# ended; how many boundaries are open.
COUNT, OPEN, NAME, LEVEL, WAITING, BOUNDARIES = range(6)

TEMPLATE_END = np.frombuffer(b"</template>", np.uint8)
BOUNDARY_END = np.frombuffer(b"<!--/$-->", np.uint8)
BOUNDARY = np.frombuffer(b"<!--$", np.uint8)


@fused_allocating
def place_streamed(page: Any, begin: Any, end: Any, tags: Any) -> Any:
    """
    Return the page `page[begin:end]`, from an address, in the order in which it is shown, with
    SLACK zeros behind it; and its size.

    Args:
        tags: how many "<" it has.
    """
    rows_max = min(tags, PLACES_MAX)
    places = np.empty((rows_max, COLUMNS), np.int64)
    stack = np.empty((rows_max + 1, 3), np.int64)
    count = _find_places(page, begin, end, places, stack)
    size = np.int64(1)
    while size < 2 * count + 2:
        size *= 2
    _pair(places, count, np.full((size, 2), -1, np.int64))
    out = np.zeros(end - begin + SLACK, np.uint8)
    at = _write(page, begin, end, places, count, stack, np.int64(out.ctypes.data))
    out[at : at + SLACK] = 0
    return out, at


@fused_allocating
def _find_places(page: Any, i: Any, end: Any, places: Any, stack: Any) -> Any:
    """Fill the rows of slots and parts, in the page's order. Returns how many."""
    state = np.zeros(6, np.int64)
    state[OPEN] = -1
    while True:
        start = machine.find_less_than(page, i, end)
        if start >= end:
            break
        byte = byte_at(page, start + 1)
        if ABOUT_BYTE[byte] & LETTER:
            i = _note_start(page, start, end, places, stack, state)
        elif byte == 47 and ABOUT_BYTE[byte_at(page, start + 2)] & LETTER:
            i, name = _end_tag(page, start + 2, end)
            if i > end:  # the page's end cuts it off
                break
            if state[OPEN] >= 0 and np.int64(name) == state[NAME]:
                state[LEVEL] -= 1
                if state[LEVEL] == 0:
                    places[state[OPEN], INNER_END] = start
                    places[state[OPEN], END] = i
                    state[OPEN] = -1
                    state[WAITING] = 0
        else:
            i = skip_declaration(page, start, end)
            _note_boundary(page, start, i, places, stack, state)
    if state[OPEN] >= 0:  # it never ends
        places[state[OPEN], KIND] = NEITHER
    return state[COUNT]


@fused
def _note_start(page: Any, start: Any, end: Any, places: Any, stack: Any, state: Any) -> Any:
    """Note a start tag, if it begins a slot or a part. Returns where it ends."""
    i, name, element, inner = _start_tag(page, start + 1, end)
    if state[OPEN] >= 0 and np.int64(name) == state[NAME]:
        state[LEVEL] += 1
    row = state[COUNT]
    if i >= end or row >= places.shape[0]:
        return i
    kind, number = _place_of(page, inner, end, element)
    if kind == PART:
        if state[OPEN] >= 0:
            return i
        state[OPEN] = row
        state[NAME] = np.int64(name)
        state[LEVEL] = 1
        state[WAITING] = 0
    elif kind == NEITHER or not characters.spells(page, i, end, TEMPLATE_END, 0):
        return i
    elif kind == FALLBACK_SLOT:
        stack[state[WAITING], 0] = row
        state[WAITING] += 1
    places[row, KIND] = kind
    places[row, NUMBER] = number
    places[row, BEGIN] = start
    places[row, INNER] = i
    places[row, INNER_END] = i
    places[row, END] = i if kind == PART else i + len(TEMPLATE_END)
    places[row, DEPTH] = state[BOUNDARIES]
    places[row, OTHER] = -1
    state[COUNT] += 1
    return i


@fused
def _note_boundary(page: Any, start: Any, end: Any, places: Any, stack: Any, state: Any) -> None:
    """Note a comment: one that begins a boundary, or one that ends it and what a slot shows."""
    if _opens_boundary(page, start, end):
        state[BOUNDARIES] += 1
    elif end - start == len(BOUNDARY_END) and characters.spells(page, start, end, BOUNDARY_END, 0):
        state[BOUNDARIES] -= 1
        while state[WAITING] > 0:
            row = stack[state[WAITING] - 1, 0]
            if places[row, DEPTH] <= state[BOUNDARIES]:
                break
            places[row, END] = end
            state[WAITING] -= 1


@fused
def _opens_boundary(page: Any, start: Any, end: Any) -> Any:
    """Return whether a comment is <!--$-->, or that with one of "?!~" behind the sign."""
    if not characters.spells(page, start, end, BOUNDARY, 0):
        return False
    mark = byte_at(page, start + 5)
    marked = mark == 63 or mark == 33 or mark == 126
    return end - start == 8 + marked


@fused
def skip_declaration(page: Any, i: Any, end: Any) -> Any:
    """From '<' that begins no tag to behind the comment, or to behind the '<'."""
    byte = byte_at(page, i + 1)
    if byte == 33 and byte_at(page, i + 2) == 45 and byte_at(page, i + 3) == 45:
        return characters.skip_comment(page, i + 4, end)
    if (byte == 47 and i + 2 < end) or (byte == 33 or byte == 63):
        return min(machine.find_greater_than(page, i + 2, end) + 1, end)
    return i + 1


@fused
def _start_tag(page: Any, begin: Any, end: Any) -> Any:
    """
    A start tag from its name on, and an element without markup whole: (where it ends, the hash of
    its name, its element, where its attributes begin).
    """
    inner, name = read_name(page, begin, end)
    element = names.look_up(names.TAG_TABLE, name)
    i, _ = characters.read_attributes(page, inner, end, np.int64(0))
    i = min(i + 1, end)
    tag = element & names.TAG
    if tag == names.PLAINTEXT:
        return end, name, element, inner
    if i < end and element & names.RAW:
        stop = (
            characters.skip_script(page, i, end)
            if tag == names.SCRIPT
            else characters.skip_raw(page, i, end, name, inner - begin)
        )
        i = end if stop >= end else min(_end_tag(page, stop + 2, end)[0], end)
    return i, name, element, inner


@fused
def _end_tag(page: Any, begin: Any, end: Any) -> Any:
    """An end tag from its name on: (where it ends, its hash). Cut off, it ends behind `end`."""
    i, name = read_name(page, begin, end)
    i, _ = characters.read_attributes(page, i, end, np.int64(0))
    return i + 1, name


@fused
def _place_of(page: Any, inner: Any, end: Any, element: Any) -> Any:
    """
    Return what a start tag begins by its id ("B:0", "P:0", "S:0"), and the hash of prefix and
    number: (kind, hash).
    """
    is_template = element & names.TAG == names.TEMPLATE
    if element & (names.VOID | names.RAW):
        return NEITHER, np.int64(0)
    i, stop = characters.find_attribute(page, inner, end, characters.ID_NAME)
    at = characters.find_slot_letter(page, i, stop)
    if at >= stop:
        return NEITHER, np.int64(0)
    key = names.SEED
    for k in range(i, stop):  # "0" and "00" are two numbers, and those of two prefixes are, too
        if k != at:
            key = names.add_byte(key, byte_at(page, k))
    number = np.int64(names.finished(key))
    letter = byte_at(page, at)
    if is_template:
        if letter == 66:
            return FALLBACK_SLOT, number
        return (SLOT if letter == 80 else NEITHER), number
    return (PART if letter == 83 else NEITHER), number


@fused
def _pair(places: Any, count: Any, table: Any) -> None:
    """Give each first slot of a number the first part of that number behind it."""
    mask = table.shape[0] - 1
    for row in range(count):
        number = places[row, NUMBER]
        key = (np.uint64(number) + np.uint64(1)) * names.PRIME
        at = np.int64(names.finished(key) & np.uint64(mask))
        while table[at, 1] >= 0 and table[at, 0] != number:
            at = (at + 1) & mask
        kind = places[row, KIND]
        if kind == PART:
            slot = table[at, 1]
            if slot >= 0 and places[slot, OTHER] < 0:
                places[slot, OTHER] = row
                places[row, OTHER] = slot
        elif kind != NEITHER and table[at, 1] < 0:
            table[at, 0] = number
            table[at, 1] = row


@fused
def _write(page: Any, i: Any, end: Any, places: Any, count: Any, stack: Any, out: Any) -> Any:
    """Copy the page in the order of its slots. Returns where it ends."""
    at = np.int64(0)
    row = 0
    level = 0
    stop = end
    while True:
        while row < count and (places[row, BEGIN] < i or places[row, OTHER] < 0):
            row += 1
        if row >= count or places[row, BEGIN] >= stop:
            at = _copy(page, i, stop, out, at)
            if level == 0:
                return at
            level -= 1
            row = stack[level, 0]
            i = stack[level, 1]
            stop = stack[level, 2]
            continue
        at = _copy(page, i, places[row, BEGIN], out, at)
        if places[row, KIND] == PART:  # it is written where its slot is
            i = places[row, END]
            continue
        stack[level, 0] = row + 1
        stack[level, 1] = places[row, END]
        stack[level, 2] = stop
        level += 1
        row = places[row, OTHER]
        i = places[row, INNER]
        stop = places[row, INNER_END]
        row += 1


@fused
def _copy(page: Any, begin: Any, end: Any, out: Any, at: Any) -> Any:
    size = max(end - begin, np.int64(0))
    copy_bytes(page, begin, out, at, size)
    return at + size
