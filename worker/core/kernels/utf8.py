"""From UTF-8 to code points."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import (
    BYTE_LANES,
    byte_at,
    highest_bit,
    lanes_before,
    popcount,
    trailing_zeros,
    where_first_of_four,
    widen_bytes,
    widen_characters,
)

U = np.uint64
# Of BYTE_LANES bytes so many beyond ASCII make a block of another script. Letters with accents are
# fewer. µs for 5 KB of German, Russian and Chinese: 1.0, 1.5 and 1.2; with one character after the
# other 1.0, 5.0 and 1.8 (a processor cannot predict where a word of Russian ends).
_DENSE = 5


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
