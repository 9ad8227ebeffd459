"""
Kernels for columns of texts: hash all texts, copy chosen ones together, ask for the pages of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import inner, kernel
from worker.core.kernels.machine import copy_bytes, load64, read64, rotated, will_need

# SipHash-1-3 inside kernels: a hash with a secret key, so that nobody can choose texts that meet.

U = np.uint64
TAIL = U(7)


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
    SipHash-1-3 of `length` bytes of an array from byte `position` (uint64 both), under the key
    (low, high).

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
    SipHash-1-3 of each text under the key (low, high); SLACK bytes behind the last one belong to
    `data`.
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


# Of chunks, as `take_from_chunks` gets them: how many bits of a number say its place within a
# chunk, the first number that the first chunk has, and the one behind the last.
BITS = 0
FIRST = 1
STOP = 2


@inner
def _begin_of(begins: Any, of_begins: Any, end: Any, number: Any) -> Any:
    """Where a text of `take_from_chunks` begins; the one behind the last begins at `end`."""
    if number >= of_begins[STOP]:
        return np.int64(end)
    own = number - of_begins[FIRST]
    mask = (np.int64(1) << of_begins[BITS]) - 1
    return np.int64(read64(begins[own >> of_begins[BITS]], own & mask))


@kernel
def take_from_chunks(
    begins: Any, of_begins: Any, data: Any, of_data: Any, numbers: Any, ends: Any
) -> Any:
    """
    Return the texts of these numbers, back to back, and fill in where each ends.

    Args:
        begins: the addresses of the chunks of int64 that say where each text begins.
        data: the addresses of the chunks of bytes.
        of_begins, of_data: BITS, FIRST and STOP of these chunks.
        numbers: which have begins.
    """
    size = np.int64(0)
    for i in range(len(numbers)):
        begin = _begin_of(begins, of_begins, of_data[STOP], numbers[i])
        size += _begin_of(begins, of_begins, of_data[STOP], numbers[i] + 1) - begin
        ends[i] = size
    taken = np.empty(size, np.uint8)
    chunk_bytes = np.int64(1) << of_data[BITS]
    at = np.int64(0)
    for i in range(len(numbers)):
        own = _begin_of(begins, of_begins, of_data[STOP], numbers[i]) - of_data[FIRST]
        while at < ends[i]:
            place = own & (chunk_bytes - 1)
            part = min(ends[i] - at, chunk_bytes - place)  # a text may lie in two chunks
            copy_bytes(data[own >> of_data[BITS]], place, taken, at, part)
            own += part
            at += part
    return taken


@kernel
def ask_for_rows(addresses: Any, bits: Any, first: Any, row_bytes: Any, rows: Any) -> Any:
    """Ask for the pages of rows in chunks of 2^bits, of which the first has row `first`."""
    for i in range(len(rows)):
        own = rows[i] - first
        will_need(addresses[own >> bits] + row_bytes * (own & ((1 << bits) - 1)), row_bytes)


@kernel
def ask_for(address: Any, size: Any) -> Any:
    """Ask for the pages of so many bytes."""
    will_need(address, size)
