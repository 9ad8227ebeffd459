"""The kernels of text columns: hashes of all, and the chosen ones copied together."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import kernel
from worker.core.kernels.siphash import siphash

__all__ = ["hash_texts", "take_texts"]

U = np.uint64


@kernel
def hash_texts(data: Any, ends: Any, low: Any, high: Any, hashes: Any) -> Any:
    """SipHash-1-3 of each text under the key (low, high); 8 bytes behind the last one must belong to `data`."""
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
