"""The middle kernels: masked tokens, and the hashes of shingles, anchored and unanchored apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.shingles import MULTIPLIER
from worker.core.tokens import HEXADECIMAL_MIN, IDENTIFIER_MIN

U = np.uint64
_MULTIPLIER = U(MULTIPLIER)
_MIX_1 = U(0xFF51AFD7ED558CCD)
_MIX_2 = U(0xC4CEB9FE1A85EC53)


@fused
def finished(value: Any) -> Any:
    """`shingles.finish`: the finishing mix of MurmurHash3."""
    value = (value ^ (value >> U(33))) * _MIX_1
    value = (value ^ (value >> U(33))) * _MIX_2
    return value ^ (value >> U(33))


@fused
def mask_tokens(text: Any, edges: Any, count: Any, rules: Any, hashes: Any) -> None:
    """`tokens.masked` for every token: the hash of a volatile one becomes that of MASK."""
    for t in range(count):
        begin = U(edges[U(t) * U(2)])
        end = U(edges[U(t) * U(2) + U(1)])
        characters = U(0)
        digits = U(0)
        hexadecimal = U(0)
        for k in range(begin, end):
            byte = text[U(k)]
            digit = U(byte - 48 < 10) & U(byte >= 48)
            characters += U((byte & 0xC0) != 0x80)
            digits += digit
            hexadecimal += digit | (U(byte >= 97) & U(byte < 103))
        volatile = rules.mask_numbers and U(2) * digits >= characters
        if rules.mask_identifiers and digits >= U(1):
            volatile |= hexadecimal == end - begin and characters >= U(HEXADECIMAL_MIN)
            volatile |= digits >= U(2) and characters >= U(IDENTIFIER_MIN)
        if volatile:
            hashes[t] = rules.mask_hash


@fused
def shingle_hashes(hashes: Any, anchors: Any, count: Any, width: Any, scratch: Any, out: Any, sizes: Any) -> None:
    """
    Append the hash of every shingle of one width to the anchored or the unanchored ones.

    Args:
        scratch: uint64[count] for the running products, uint8[count] for the anchors of a shingle.
        out: two arrays of uint64, anchored and unanchored; both have room for every shingle.
        sizes: uint64[2], how many each of them holds; updated.
    """
    if count < width:
        return
    total = count - width + U(1)
    product, anchored = scratch
    for i in range(total):
        product[i] = width * _MULTIPLIER + hashes[i]
        anchored[i] = anchors[i]
    for k in range(U(1), width):
        for i in range(total):
            product[i] = product[i] * _MULTIPLIER + hashes[U(i) + U(k)]
            anchored[i] |= anchors[U(i) + U(k)]
    for i in range(total):
        product[i] = finished(product[i])
    with_anchor, without = out
    first = sizes[0]
    second = sizes[1]
    for i in range(total):
        yes = U(anchored[i])
        with_anchor[first] = product[i]
        without[second] = product[i]
        first += yes
        second += yes ^ U(1)
    sizes[0] = first
    sizes[1] = second
