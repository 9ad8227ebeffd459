"""The hashes of shingles: of anchored and unanchored ones apart, and the mix that ends each."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core import definition
from worker.core.compiled import fused

U = np.uint64
MULTIPLIER = U(definition.MULTIPLIER)
SQUARE = U(definition.MULTIPLIER**2 % 2**64)
_MIX_1 = U(0xFF51AFD7ED558CCD)
_MIX_2 = U(0xC4CEB9FE1A85EC53)


@fused
def finished(value: Any) -> Any:
    """`shingles.finish`: the finishing mix of MurmurHash3."""
    value = (value ^ (value >> U(33))) * _MIX_1
    value = (value ^ (value >> U(33))) * _MIX_2
    return value ^ (value >> U(33))


@fused
def pair_products(hashes: Any, count: Any, pairs: Any) -> None:
    """
    Write what every two tokens in a row are to the shingles that begin with them, of any width, and
    of the sketch.
    """
    for i in range(max(count, U(1)) - U(1)):
        pairs[i] = hashes[i] * MULTIPLIER + hashes[U(i) + U(1)]


@fused
def shingle_hashes(
    hashes: Any,
    pairs: Any,
    anchors: Any,
    count: Any,
    width: Any,
    scratch: Any,
    out: Any,
    sizes: Any,
) -> None:
    """
    Append the hash of every shingle of one width to the anchored or the unanchored ones, whose
    `sizes` are updated.

    Args:
        pairs: the products of the hashes, as `pair_products` writes them.
        scratch: uint64[count] for the running products, uint8[count] for the anchors of a shingle.
        out: two arrays of uint64, anchored and unanchored; both have room for every shingle.
    """
    if count < width:
        return
    total = count - width + U(1)
    product, anchored = scratch
    if width == U(1):
        for i in range(total):
            product[i] = MULTIPLIER + hashes[i]
            anchored[i] = anchors[i]
    else:
        for i in range(total):
            product[i] = pairs[i] + width * SQUARE
            anchored[i] = anchors[i] | anchors[U(i) + U(1)]
    for k in range(U(2), width):
        for i in range(total):
            product[i] = product[i] * MULTIPLIER + hashes[U(i) + U(k)]
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
