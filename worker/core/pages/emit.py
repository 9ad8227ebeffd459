"""What was kept of a page -> the text that the fingerprint kernel reads: bytes where all is ASCII, else code points."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, fused_allocating
from worker.core.kernels.machine import BYTE_LANES, SLACK, byte_at, high_bits, lanes_before
from worker.core.pages.names import IN_HEADING
from worker.core.pages.skeleton import B_END, B_KEEP, B_NODE, B_START, BLOCKS, N_ABOVE, TITLE_SIZE

TEXT, TITLE, HEADINGS, BODY = 0, 1, 2, 3  # what a field holds; TEXT is HEADINGS and BODY in the order of the page
U = np.uint64


@fused
def is_ascii(source: Any, begin: Any, end: Any) -> Any:
    """Whether `source[begin:end]` is."""
    while begin < end:
        found = high_bits(source, begin)
        if found and begin + lanes_before(found) < end:
            return False
        begin += BYTE_LANES
    return True


@fused
def put_narrow(source: Any, begin: Any, end: Any, narrow: Any, at: Any, limit: Any) -> Any:
    """Append ASCII, to `limit` at most; returns where it ends."""
    stop = min(end, begin + limit - at)
    for k in range(begin, stop):
        narrow[at + k - begin] = source[k]
    return at + stop - begin


@fused
def put_wide(source: Any, begin: Any, end: Any, wide: Any, at: Any, limit: Any) -> Any:
    """Append well-formed UTF-8 as code points, to `limit` at most; returns where they end."""
    k = begin
    while k < end and at < limit:
        byte = byte_at(source, k)
        if byte < 0x80:
            code = byte
            k += 1
        elif byte < 0xE0:
            code = (byte & 31) << 6 | (byte_at(source, k + 1) & 63)
            k += 2
        elif byte < 0xF0:
            code = (byte & 15) << 12 | (byte_at(source, k + 1) & 63) << 6 | (byte_at(source, k + 2) & 63)
            k += 3
        else:
            high = (byte & 7) << 18 | (byte_at(source, k + 1) & 63) << 12
            code = high | (byte_at(source, k + 2) & 63) << 6 | (byte_at(source, k + 3) & 63)
            k += 4
        wide[at] = code
        at += 1
    return at


@fused
def valid_utf8(page: Any, i: Any, end: Any) -> Any:
    """Whether `page[i:end]` is well-formed UTF-8."""
    while i < end:
        if not high_bits(page, i):
            i += BYTE_LANES
            continue
        stop = min(i + BYTE_LANES, end)
        while i < stop:
            byte = byte_at(page, i)
            if byte < 0x80:
                i += 1
                continue
            second = byte_at(page, i + 1)
            if byte < 0xE0:
                size = 2
                good = byte >= 0xC2
            elif byte < 0xF0:
                size = 3
                good = (byte_at(page, i + 2) & 0xC0) == 0x80
                good &= (byte != 0xE0 or second >= 0xA0) and (byte != 0xED or second < 0xA0)
            else:
                size = 4
                good = byte < 0xF5 and (byte_at(page, i + 2) & 0xC0) == 0x80 and (byte_at(page, i + 3) & 0xC0) == 0x80
                good &= (byte != 0xF0 or second >= 0x90) and (byte != 0xF4 or second < 0x90)
            if not good or (second & 0xC0) != 0x80:
                return False
            i += size
    return True


@fused
def _is_of(room: Any, block: Any, field: Any) -> Any:
    """Whether a block is kept, and in this field."""
    if not room.blocks[block, B_KEEP]:
        return False
    heading = (room.nodes[room.blocks[block, B_NODE], N_ABOVE] & IN_HEADING) != 0
    return field == TEXT or (field == HEADINGS) == heading


@fused
def is_ascii_field(room: Any, field: Any) -> Any:
    """Whether all of a field is."""
    if field == TITLE:
        return is_ascii(room.title, np.int64(0), room.state[TITLE_SIZE])
    for block in range(room.state[BLOCKS]):
        if _is_of(room, block, field) and not is_ascii(
            room.out, room.blocks[block, B_START], room.blocks[block, B_END]
        ):
            return False
    return True


@fused
def put_field(room: Any, field: Any, put: Any, texts: Any, at: Any, limit: Any) -> Any:
    """
    Append a field's text, a line break between its blocks; returns where it ends.

    Args:
        put: put_narrow or put_wide, and `texts` what it writes to.
    """
    if field == TITLE:
        return put(room.title, np.int64(0), room.state[TITLE_SIZE], texts, at, limit)
    begin = at
    for block in range(room.state[BLOCKS]):
        if at >= limit:
            break
        if _is_of(room, block, field):
            if at > begin:
                texts[at] = 10
                at += 1
            at = put(room.out, room.blocks[block, B_START], room.blocks[block, B_END], texts, at, limit)
    return at


@fused_allocating
def with_room(array: Any, used: Any, more: Any) -> Any:
    """The array, or a larger one with the same beginning, with room for so many more and what is read behind."""
    if used + more + SLACK <= array.size:
        return array
    larger = np.empty(2 * (used + more) + SLACK, array.dtype)
    for k in range(used):
        larger[k] = array[k]
    return larger
