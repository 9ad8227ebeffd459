"""The sketch's kernels: the least hash of each bin, and two bits of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.sketch import BINS, WORDS

U = np.uint64
EMPTY = U((1 << 64) - 1)  # no hash that is shifted by its bin's byte


@fused
def clear_minima(minima: Any) -> None:
    """Begin a text."""
    for number in range(BINS):
        minima[number] = EMPTY


@fused
def add_minima(hashes: Any, count: Any, minima: Any) -> None:
    """Let each of `hashes[:count]` be the least of its bin, where it is; a minimum does not mind repetitions."""
    for i in range(count):
        number = hashes[i] >> U(56)
        minima[number] = min(minima[number], hashes[i] << U(8))


@fused
def pack_minima(minima: Any, sketch: Any) -> None:
    """Write the two planes of a sketch, eight words: `sketch.sketch`."""
    for word in range(WORDS // 2):
        low, high = U(0), U(0)
        for bit in range(64):
            least = minima[64 * word + bit]
            value = (U(1) + (least >> U(28) & U(0xFFFF)) % U(3)) * U(least != EMPTY)
            low |= (value & U(1)) << U(bit)
            high |= (value >> U(1)) << U(bit)
        sketch[word], sketch[word + WORDS // 2] = low, high
