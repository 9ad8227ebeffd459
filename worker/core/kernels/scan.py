"""
The first kernel: code points to folded tokens, without a branch that the text decides.

ASCII is folded in place, 16 or 64 characters at a time; where its tokens begin and end are the changes in a word of
bits. Everything else goes one code point at a time and is written as UTF-8, one token behind the other.

    text   "Don't ПАНИКА"
    out    "don t паника"      edges 0 3 4 5 6 18: token t is out[edges[2t] : edges[2t + 1]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.code_points import CHANGES, FIRST, JOINED, JOINS, KIND, LAST, LENGTH, LETTER, RANK, SEPARATOR
from worker.core.kernels.machine import fold_bytes, fold_code_points, popcount, store32, trailing_zeros
from worker.core.kernels.pairs import NONE, pair

U = np.uint64
C = np.uint32
ONE = U(1)
BLOCK = U(16)  # code points that are tried as ASCII together


@fused
def _add_edges(changes: Any, position: Any, edges: Any, at: Any) -> Any:
    """Write `position + i` for every bit i that is set; returns where the next edge goes."""
    count = U(popcount(changes))
    written = U(0)
    while written < count:  # four at a time: what is written beyond the last is overwritten, or never read
        for k in range(4):
            edges[at + written + U(k)] = position + trailing_zeros(changes)
            changes &= changes - ONE
        written += U(4)
    return at + count


@fused
def scan_ascii(text: Any, start: Any, end: Any, out: Any, edges: Any) -> Any:
    """
    The tokens of `text[start:end]`, bytes below 128.

    Args:
        out: uint8[end - start + SLACK], the folded text.
        edges: uint32[end - start + SLACK], begin and end of each token in `out`.
    Returns:
        The number of tokens.
    """
    at = U(0)
    inside = U(0)
    block = start
    while block < end:
        words = fold_bytes(text, block, out, block - start)
        if end - block < U(64):
            words &= (ONE << (end - block)) - ONE
        at = _add_edges(words ^ ((words << ONE) | inside), block - start, edges, at)
        inside = words >> U(63)
        block += U(64)
    edges[at] = end - start
    return (at + inside) >> ONE


@fused
def scan_code_points(text: Any, start: Any, end: Any, points: Any, out: Any, edges: Any) -> Any:
    """
    The tokens of the code points `text[start:end]`.

    Args:
        out: uint8[LONG_BYTES · (end - start) + SLACK], the tokens.
        edges: uint32[2 · (end - start) + SLACK], begin and end of each token in `out`.
    Returns:
        The number of tokens; whether the text holds anything that NFC might change.
    """
    position = U(0)
    count = U(0)
    before = U(SEPARATOR)
    seen = U(0)
    i = start
    while i < end:
        stop = min(i + BLOCK, end)
        if points.words and stop - i == BLOCK:
            words = fold_code_points(text, U(4) * i, out, position)
            if words < U(1 << 16):
                inside = U(before == U(LETTER))
                at = _add_edges((words ^ ((words << ONE) | inside)) & U(0xFFFF), position, edges, U(2) * count - inside)
                inside = words >> U(15)
                count = (at + inside) >> ONE
                before = U(LETTER) if inside else U(SEPARATOR)
                position += BLOCK
                edges[U(2) * count - inside] = position
                i = stop
                continue
        for k in range(i, stop):
            code = text[k]
            entry = points.entries[points.stage1[code >> C(8)] + (code & C(255))]
            seen |= entry
            about = entry >> U(JOINED)
            edges[U(2) * count] = position
            count += U((before & about & U(15)) == U(0))
            store32(out, position, C(entry & U(0xFFFFFFFF)))
            length = (about >> U(LENGTH - JOINED)) & U(7)
            if length > U(4):
                for byte in range(length):
                    out[position + U(byte)] = points.long[(entry & U(0xFFFFFFFF)) + U(byte)]
            position += length
            edges[U(2) * count - U(length != U(0))] = position
            kind = (about >> U(KIND - JOINED)) & U(15)
            before = kind if kind != U(0) else before
        i = stop
    return count, ((seen >> U(CHANGES)) & U(0xFF)) != U(0)


@fused
def settled(text: Any, start: Any, end: Any, points: Any) -> Any:
    """
    Whether the code points `text[start:end]` are in NFC.

    It may say no of a text that is, when marks stand in a row: then composing changes nothing. A yes is sure.
    """
    before = U(0)
    first = U(0)
    wrong = U(0)
    meeting = U(0)
    for i in range(start, end):
        entry = points.entries[points.stage1[text[i] >> C(8)] + (text[i] & C(255))]
        rank = (entry >> U(RANK)) & U(63)
        joins = (entry >> U(JOINS)) & ONE
        wrong |= entry >> U(CHANGES)
        wrong |= U(rank != U(0)) & (U(before > rank) | (joins & U(before != U(0))))
        meeting |= first & joins
        first = entry >> U(FIRST)
        before = entry >> U(LAST)
    if wrong & ONE:
        return False
    if meeting & ONE:
        for i in range(start + ONE, end):
            if pair(text[U(i) - ONE], text[i], points.pairs) != NONE:
                return False
    return True
