"""
Plain texts as the fingerprint kernel reads them: in UTF-8, where they are.

The kernel here gives the text that `extract_batch` gives of a plain text. So texts need not wait
until the code for pages has been compiled, which takes as long as all the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, fused_allocating, kernel
from worker.core.kernels.fingerprint import END, START
from worker.core.kernels.machine import (
    BYTE_LANES,
    SLACK,
    byte_at,
    copy_bytes,
    high_bits,
    lanes_before,
    where_continuing,
    where_first,
    where_first_of_four,
    where_first_of_three,
    where_misled,
)

# The columns of a body's span.
BEGIN = 0
STOP = 1
KIND = 2


@fused
def is_ascii(source: Any, begin: Any, end: Any) -> Any:
    """Return whether `source[begin:end]` is ASCII."""
    while begin < end:
        found = high_bits(source, begin)
        if found and begin + lanes_before(found) < end:
            return False
        begin += BYTE_LANES
    return True


@fused
def put_narrow(source: Any, begin: Any, end: Any, narrow: Any, at: Any, limit: Any) -> Any:
    """Append ASCII, to `limit` at most; returns where it ends."""
    size = max(min(end - begin, limit - at), np.int64(0))
    copy_bytes(source, begin, narrow, at, size)
    return at + size


@fused_allocating
def with_room(array: Any, used: Any, more: Any) -> Any:
    """
    Return the array, or a larger one with the same beginning: it has room for this many more, and
    for what is read behind.
    """
    if used + more + SLACK <= array.size:
        return array
    larger = np.empty(2 * (used + more) + SLACK, array.dtype)
    for k in range(used):
        larger[k] = array[k]
    return larger


_ALL_LANES = np.uint64((1 << BYTE_LANES) - 1)


@fused
def valid_utf8(page: Any, i: Any, end: Any) -> Any:
    """
    Return whether `page[i:end]` is well-formed UTF-8.

    Continuation bytes must stand exactly where the bytes before them require them. A byte C2..F4
    requires one continuation after it, E0..F4 a second one, F0..F4 a third. In the bits of a block
    each of these is a shift, and the bits that are shifted out are required in the next block.
    Behind E0, ED, F0 and F4 some continuations are refused (`where_misled`): the character
    would be a longer form than needed, half of a surrogate pair, or beyond U+10FFFF.
    """
    wanted = np.uint64(0)  # continuations that the blocks before ask for
    while i < end:
        beyond = high_bits(page, i)
        if not beyond | wanted:
            i += BYTE_LANES
            continue
        inside = (np.uint64(1) << np.uint64(min(end - i, BYTE_LANES))) - np.uint64(1)
        beyond &= inside
        first = where_first(page, i) & inside
        wanted |= first << np.uint64(1)
        wanted |= (where_first_of_three(page, i) & inside) << np.uint64(2)
        wanted |= (where_first_of_four(page, i) & inside) << np.uint64(3)
        continuing = where_continuing(page, i) & inside
        if continuing != wanted & _ALL_LANES or first | continuing != beyond:
            return False
        if where_misled(page, i) & inside:
            return False
        wanted >>= np.uint64(BYTE_LANES)
        i += BYTE_LANES
    return wanted == 0


@kernel
def find_invalid(data: Any, spans: Any) -> Any:
    """Find the bodies that are not well-formed UTF-8."""
    found = np.zeros(spans.shape[0], np.uint8)
    for number in range(spans.shape[0]):
        found[number] = not valid_utf8(data, spans[number, BEGIN], spans[number, STOP])
    return found


@fused
def _end_of(data: Any, begin: Any, end: Any, characters_max: Any) -> Any:
    """Return where the last of so many characters ends, `end` if there are fewer."""
    while begin < end:
        if byte_at(data, begin) & 0xC0 != 0x80:
            if characters_max == 0:
                return begin
            characters_max -= 1
        begin += 1
    return end


@kernel
def plain_batch(data: Any, spans: Any, characters_max: Any, found: Any) -> Any:
    """Write to `found` where plain texts begin and end: they can be read where they are."""
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, STOP]
        if end - begin > characters_max:  # a character has one byte or more
            end = _end_of(data, begin, end, characters_max)
        found[number, START] = begin
        found[number, END] = end
