"""
Tables of some hundred or thousand words by their hash, which are made once and only read then.

A word lies in one of two slots (cuckoo hashing), and a look-up reads both. So it has no loop and no
branch: whether a token is a function word, or the word of a class means something, is nothing that
a processor could predict.

    hash      … | second slot | first slot |      each as many bits as number the slots
    row         hash, value                       an empty one: 0, 0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused
from worker.core.kernels.machine import mask_of, popcount

U = np.uint64
MOVES_MAX = 500  # words moved for one to find its place, before there are more slots
_BITS_MIN = 4


def table_of(values: Mapping[int, int]) -> NDArray[np.uint64]:
    """
    Return the rows of the table of these values by hash. A value of 0 means that there is none.

    Raises:
        ValueError: a hash is 0, which stands for an empty slot.

    Cost: some 2 µs each.
    """
    if 0 in values:
        raise ValueError("no hash may be 0, which stands for an empty slot")
    bits = max(_BITS_MIN, len(values).bit_length() + 1)
    slots = None
    while slots is None:
        slots = _place(sorted(values), bits)
        bits += 1
    return np.array([(key, values.get(key, 0)) for key in slots], np.uint64)


def _place(keys: list[int], bits: int) -> list[int] | None:
    """Return what each slot holds, 0 for nothing, or None if some hashes find no place."""
    mask = (1 << bits) - 1
    slots = [0] * (mask + 1)
    for key in keys:
        moved = key
        shift = 0
        for _ in range(MOVES_MAX):
            slot = moved >> shift & mask
            slots[slot], moved = moved, slots[slot]
            if moved == 0:
                break
            shift = bits if moved & mask == slot else 0
        else:
            return None
    return slots


@fused
def look_up(rows: Any, key: Any) -> Any:
    """Return the value of a hash, 0 for one that is not there."""
    mask = U(rows.shape[0] - 1)
    one = key & mask
    two = (key >> popcount(mask)) & mask
    here = rows[one, 1] & mask_of(rows[one, 0] == key)
    return here | (rows[two, 1] & mask_of(rows[two, 0] == key))
