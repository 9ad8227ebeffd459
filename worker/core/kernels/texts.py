"""The kernels of columns: hashes of all texts, the chosen ones copied together, the pages of rows asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import kernel
from worker.core.kernels.machine import will_need
from worker.core.kernels.siphash import siphash

U = np.uint64


@kernel
def hash_texts(data: Any, ends: Any, low: Any, high: Any, hashes: Any) -> Any:
    """SipHash-1-3 of each text under the key (low, high); SLACK bytes behind the last one belong to `data`."""
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
def ask_for_rows(addresses: Any, bits: Any, first: Any, row_bytes: Any, rows: Any) -> Any:
    """Ask for the pages of rows in chunks of 2^bits, of which the first has row `first`."""
    for i in range(len(rows)):
        own = rows[i] - first
        will_need(addresses[own >> bits] + row_bytes * (own & ((1 << bits) - 1)), row_bytes)


@kernel
def ask_for(address: Any, size: Any) -> Any:
    """Ask for the pages of so many bytes."""
    will_need(address, size)
