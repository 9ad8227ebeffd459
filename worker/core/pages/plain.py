"""
Plain texts as the fingerprint kernel reads them: bytes where all is ASCII, else code points.

The kernel here does what `extract_batch` does with a plain text, and nothing else. So texts need
not wait until the code for pages has been compiled, which takes as long as all the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, fused_allocating, kernel
from worker.core.kernels.fingerprint import END, IS_WIDE, START
from worker.core.kernels.machine import (
    BYTE_LANES,
    SLACK,
    byte_at,
    copy_bytes,
    high_bits,
    highest_bit,
    lanes_before,
    popcount,
    trailing_zeros,
    where_continuing,
    where_first,
    where_first_of_four,
    where_first_of_three,
    where_misled,
    widen_bytes,
    widen_characters,
)

U = np.uint64
# Of BYTE_LANES bytes so many beyond ASCII make a block of another script. Letters with accents are
# fewer. µs for 5 KB of German, Russian and Chinese: 1.0, 1.5 and 1.2; with one character after the
# other 1.0, 5.0 and 1.8 (a processor cannot predict where a word of Russian ends).
_DENSE = 5
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


@fused
def _put_block(source: Any, k: Any, wide: Any, at: Any) -> Any:
    """
    Write the characters that begin in a block of bytes, all but the last one, which may not end
    there. Returns where that begins, and where the code points end.

    Each has at most three bytes, and one begins with the block.
    """
    begins = widen_characters(source, k, wide, 4 * at)
    count = np.int64(popcount(begins)) - 1
    last = np.int64(highest_bit(begins))
    # Each moves down to its place, or stays. Eight at a time: what is written beyond the last one
    # is written over.
    for behind in range(0, count, 8):
        for j in range(behind, behind + 8):
            wide[U(at + j)] = wide[U(at) + trailing_zeros(begins)]
            begins &= begins - U(1)
    return k + last, at + count


@fused
def put_wide(source: Any, begin: Any, end: Any, wide: Any, at: Any, limit: Any) -> Any:
    """Append well-formed UTF-8 as code points, to `limit` at most; returns where they end."""
    k = begin
    while k < end and at < limit:
        # Runs of ASCII 32 bytes at a time: what stands behind a run is written over, or is the room
        # behind the text. A character beyond ASCII is mostly followed by another one.
        beyond = widen_bytes(source, k, wide, 4 * at)
        is_whole = min(end - k, limit - at) >= BYTE_LANES
        if popcount(beyond) >= _DENSE and is_whole and not where_first_of_four(source, k):
            k, at = _put_block(source, k, wide, at)
            continue
        size = min(lanes_before(beyond), end - k, limit - at)
        k += size
        at += size
        while k < end and at < limit and byte_at(source, k) > 0x7F:
            byte = byte_at(source, k)
            if byte < 0xE0:
                code = (byte & 31) << 6 | (byte_at(source, k + 1) & 63)
                k += 2
            elif byte < 0xF0:
                code = (
                    (byte & 15) << 12
                    | (byte_at(source, k + 1) & 63) << 6
                    | (byte_at(source, k + 2) & 63)
                )
                k += 3
            else:
                high = (byte & 7) << 18 | (byte_at(source, k + 1) & 63) << 12
                code = high | (byte_at(source, k + 2) & 63) << 6 | (byte_at(source, k + 3) & 63)
                k += 4
            wide[at] = code
            at += 1
    return at


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


@kernel
def plain_batch(data: Any, spans: Any, characters_max: Any, found: Any) -> Any:
    """Write plain texts; returns bytes and code points, and fills `found`, as `extract_batch`."""
    narrow_size = np.int64(0)
    wide_size = np.int64(0)
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, STOP]
        is_wide = not is_ascii(data, begin, end)
        found[number, IS_WIDE] = is_wide
        size = min(end - begin, characters_max)  # a code point has one byte or more
        wide_size += size if is_wide else np.int64(0)
        narrow_size += np.int64(0) if is_wide else size
    narrow = np.empty(narrow_size + SLACK, np.uint8)
    wide = np.empty(wide_size + SLACK, np.uint32)
    narrow_at = np.int64(0)
    wide_at = np.int64(0)
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, STOP]
        row = found[number]
        if row[IS_WIDE]:
            row[START] = wide_at
            wide_at = put_wide(data, begin, end, wide, wide_at, wide_at + characters_max)
            row[END] = wide_at
        else:
            row[START] = narrow_at
            narrow_at = put_narrow(data, begin, end, narrow, narrow_at, narrow_at + characters_max)
            row[END] = narrow_at
    return narrow, wide
