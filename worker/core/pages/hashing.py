"""Open tables of names: 64-bit hashes that the scanner makes on its way through a name, one byte at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused

U = np.uint64
PRIME = U(0x100000001B3)  # FNV-1a
SEED = U(0xCBF29CE484222325)


def name_hash(name: str) -> int:
    """The hash of a name's bytes: FNV-1a, its high bits folded into the low ones that choose the slot."""
    value = int(SEED)
    for byte in name.encode():
        value = (value ^ byte) * int(PRIME) & (1 << 64) - 1
    return value ^ (value >> 29)


def lookup_table(entries: Mapping[str, int], bits: int) -> NDArray[np.uint64]:
    """Rows of 2**bits slots, a hash and its value; a free slot is 0. Two names of one hash would be an error here."""
    table = np.zeros((1 << bits, 2), np.uint64)
    for name, value in entries.items():
        key = name_hash(name)
        slot = key & ((1 << bits) - 1)
        while table[slot, 0]:
            if int(table[slot, 0]) == key:
                raise ValueError(f"{name!r} has the hash of another name, {key:#x}: one would hide the other")
            slot = (slot + 1) & ((1 << bits) - 1)
        table[slot] = key, value
    return table


@fused
def add_byte(value: Any, byte: Any) -> Any:
    """The hash of a name and one more byte; SEED is that of none."""
    return (value ^ U(byte)) * PRIME


@fused
def finished(value: Any) -> Any:
    """The hash to look up."""
    return value ^ (value >> U(29))


@fused
def look_up(table: Any, key: Any) -> Any:
    """The value of a hash, 0 for one that is not there."""
    mask = U(table.shape[0] - 1)
    slot = key & mask
    while True:
        held = table[slot, 0]
        if held == key:
            return np.int64(table[slot, 1])
        if held == U(0):
            return np.int64(0)
        slot = (slot + U(1)) & mask
