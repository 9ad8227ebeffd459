"""
Kernels for columns: hash and compare texts, copy chosen texts and rows together, prefetch the pages
of rows.

A column of texts is their bytes back to back, and where each ends (`log/texts.py`). No object is
made per text, since a record of the log has thousands of them.

doc_ids and URLs are chosen by strangers, and a hash table that strangers can fill with hashes that
collide becomes a list. So their hash is SipHash with a secret key, in the variant of one round per
word and three at the end: some 20 ns for a doc_id. Without a key, anybody could compute which texts
collide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import inner, kernel
from worker.core.kernels.machine import load64, move8, prefetch, rotated, will_need

# SipHash-1-3 for kernels: a hash with a secret key, so that an attacker cannot choose texts that
# collide.

U = np.uint64
I = np.int64  # noqa: E741  # the signed twin of U
TAIL = U(7)
AHEAD = 8  # slices between a prefetch and its use
# Bytes between two slices that are read with them. A page more in a request costs 2.5 µs, a request
# of its own 12 to 17.
GAP = 4 * 4_096


@inner
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a += b
    c += d
    b = rotated(b, U(13)) ^ a
    d = rotated(d, U(16)) ^ c
    a = rotated(a, U(32)) + d
    c += b
    d = rotated(d, U(21)) ^ a
    b = rotated(b, U(17)) ^ c
    return a, b, rotated(c, U(32)), d


@inner
def siphash(text: Any, position: Any, length: Any, low: Any, high: Any) -> Any:
    """
    Return SipHash-1-3 of `length` bytes of an array from byte `position` (uint64 both), under the
    key (low, high).

    Eight bytes behind them must belong to the array. Source: Aumasson and Bernstein, INDOCRYPT
    2012.
    """
    a = low ^ U(0x736F6D6570736575)
    b = high ^ U(0x646F72616E646F6D)
    c = low ^ U(0x6C7967656E657261)
    d = high ^ U(0x7465646279746573)
    whole = position + (length & ~TAIL)
    while position < whole:
        word = load64(text, position)
        a, b, c, d = _round(a, b, c, d ^ word)
        a ^= word
        position += U(8)
    # The last word: the bytes that are left, up to seven, and the length as its highest byte. The
    # eight bytes are read at once, and what does not belong to the text is masked.
    word = load64(text, position) & ((U(1) << ((length & TAIL) << U(3))) - U(1)) | length << U(56)
    a, b, c, d = _round(a, b, c, d ^ word)
    a = a ^ word
    c = c ^ U(0xFF)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@kernel
def hash_texts(data: Any, ends: Any, low: Any, high: Any, hashes: Any) -> Any:
    """
    Return SipHash-1-3 of each text under the key (low, high); SLACK bytes behind the last one
    belong to `data`.
    """
    begin = U(0)
    for i in range(len(ends)):
        end = U(ends[i])
        hashes[i] = siphash(data, begin, end - begin, low, high)
        begin = end


@kernel
def take_texts(data: Any, ends: Any, rows: Any, taken: Any) -> Any:
    """Copy the texts of these rows to `taken`, back to back."""
    to = 0
    for i in range(len(rows)):
        row = rows[i]
        begin = ends[row - 1] if row > 0 else 0
        for at in range(begin, ends[row]):
            taken[to] = data[at]
            to += 1


@kernel
def equal_texts(data: Any, ends: Any, others: Any, other_ends: Any, equal: Any) -> Any:
    """Write for each text whether it equals the one at its place in another column."""
    begin = other_begin = I(0)
    for i in range(len(ends)):
        size = ends[i] - begin
        equal[i] = size == other_ends[i] - other_begin
        at = I(0)
        while equal[i] and at < size:
            equal[i] = data[begin + at] == others[other_begin + at]
            at += 1
        begin = ends[i]
        other_begin = other_ends[i]


@kernel
def take_slices(addresses: Any, bits: Any, first: Any, begins: Any, ends: Any, taken: Any) -> Any:
    """
    Copy slices of bytes to `taken`, back to back. The bytes lie in chunks of 2^bits bytes, and the
    first chunk begins with byte `first`. A slice may continue in the next chunk.
    """
    size = I(1) << bits
    to = I(taken.ctypes.data)
    for i in range(len(begins)):
        if i + AHEAD < len(begins):
            later = begins[i + AHEAD] - first
            if later >> bits < len(addresses):  # an empty slice may stand at the very end
                prefetch(addresses[later >> bits], later & (size - 1))
        begin = begins[i] - first
        end = ends[i] - first
        while begin < end:
            at = begin & (size - 1)
            count = min(size - at, end - begin)
            move8(I(0), to, addresses[begin >> bits] + at, count)
            to += count
            begin += count


@kernel
def take_rows(
    addresses: Any, bits: Any, first: Any, step: Any, row_bytes: Any, rows: Any, taken: Any
) -> Any:
    """
    Copy rows of `row_bytes` to `taken`. They lie in chunks of 2^bits rows, and the first chunk
    begins with row `first`. Each row begins `step` bytes after the one before.
    """
    mask = (I(1) << bits) - 1
    to = I(taken.ctypes.data)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            later = rows[i + AHEAD] - first
            prefetch(addresses[later >> bits], step * (later & mask))
        own = rows[i] - first
        move8(I(0), to + row_bytes * i, addresses[own >> bits] + step * (own & mask), row_bytes)


@kernel
def ask_for_slices(
    addresses: Any, bits: Any, first: Any, row_bytes: Any, begins: Any, ends: Any
) -> Any:
    """
    Prefetch the pages of slices of rows in chunks of 2^bits, the first of which has row `first`.

    The begins ascend. Slices that lie close together in a chunk are prefetched at once.
    """
    size = I(1) << bits
    asked = asked_end = I(0)  # addresses of what is asked for next
    asked_chunk = I(-1)
    for i in range(len(begins)):
        begin = begins[i] - first
        end = ends[i] - first
        while begin < end:
            stop = min(end, (begin & ~(size - 1)) + size)
            chunk = begin >> bits
            address = addresses[chunk] + row_bytes * (begin & (size - 1))
            address_end = address + row_bytes * (stop - begin)
            if chunk == asked_chunk and address <= asked_end + GAP:
                asked_end = max(asked_end, address_end)
            else:
                if asked < asked_end:
                    will_need(asked, asked_end - asked)
                asked = address
                asked_end = address_end
                asked_chunk = chunk
            begin = stop
    if asked < asked_end:
        will_need(asked, asked_end - asked)


@kernel
def ask_for(address: Any, size: Any) -> Any:
    """Prefetch the memory pages of these bytes (madvise)."""
    will_need(address, size)
