"""XXH64 with seed 0 inside kernels: of any bytes, and of the tokens of a text several at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused, inner
from worker.core.kernels.machine import load32, load64, rotated

U = np.uint64
P1 = U(0x9E3779B185EBCA87)
P2 = U(0xC2B2AE3D27D4EB4F)
P3 = U(0x165667B19E3779F9)
P4 = U(0x85EBCA77C2B2AE63)
P5 = U(0x27D4EB2F165667C5)
ALL = U(0xFFFFFFFFFFFFFFFF)


@inner
def _eight(value: Any, word: Any) -> Any:
    return rotated(value ^ (rotated(word * P2, U(31)) * P1), U(27)) * P1 + P4


@inner
def _four(value: Any, word: Any) -> Any:
    return rotated(value ^ (word * P1), U(23)) * P2 + P3


@inner
def _one(value: Any, byte: Any) -> Any:
    return rotated(value ^ (byte * P5), U(11)) * P1


@inner
def _avalanche(value: Any) -> Any:
    value = (value ^ (value >> U(33))) * P2
    value = (value ^ (value >> U(29))) * P3
    return value ^ (value >> U(32))


@inner
def xxh64(text: Any, position: Any, length: Any) -> Any:
    """XXH64 of `length` bytes of an array from byte `position` (uint64 both)."""
    end = position + length
    value = P5
    if length >= U(32):
        a, b, c, d = P1 + P2, P2, U(0), U(0) - P1
        while position + U(32) <= end:
            a = rotated(a + load64(text, position) * P2, U(31)) * P1
            b = rotated(b + load64(text, position + U(8)) * P2, U(31)) * P1
            c = rotated(c + load64(text, position + U(16)) * P2, U(31)) * P1
            d = rotated(d + load64(text, position + U(24)) * P2, U(31)) * P1
            position += U(32)
        value = rotated(a, U(1)) + rotated(b, U(7)) + rotated(c, U(12)) + rotated(d, U(18))
        for lane in (a, b, c, d):
            value = (value ^ (rotated(lane * P2, U(31)) * P1)) * P1 + P4
    value += length
    while position + U(8) <= end:
        value = _eight(value, load64(text, position))
        position += U(8)
    if position + U(4) <= end:
        value = _four(value, U(load32(text, position)))
        position += U(4)
    while position < end:
        value = _one(value, load64(text, position) & U(0xFF))
        position += U(1)
    return _avalanche(value)


@fused
def token_hashes(text: Any, edges: Any, count: Any, hashes: Any, first: Any, rest: Any, longer: Any) -> None:
    """
    XXH64 of each token, `text[edges[2t] : edges[2t + 1]]`.

    Tokens below 16 bytes are hashed without a branch, so the second loop is vectorised; the longer ones after it.

    Args:
        hashes: uint64[count], the result.
        first, rest: uint64[count], scratch: the first eight bytes, and what remains after the whole eights.
        longer: uint32[count + 1], scratch: the tokens of 16 bytes or more.
    """
    long_count = U(0)
    for t in range(count):
        begin = U(edges[U(t) * U(2)])
        length = U(edges[U(t) * U(2) + U(1)]) - begin
        whole = U(length >= U(8))
        first[t] = load64(text, begin)
        rest[t] = load64(text, begin + (whole << U(3))) & ~(ALL << ((length & U(7)) << U(3)))
        hashes[t] = length
        longer[long_count] = t
        long_count += U(length >= U(16))
    for t in range(count):
        length = hashes[t]
        tail = rest[t]
        value = P5 + length
        value = _eight(value, first[t]) if length >= U(8) else value
        four = (length & U(4)) != U(0)
        value = _four(value, tail & U(0xFFFFFFFF)) if four else value
        tail = tail >> U(32) if four else tail
        value = _one(value, tail & U(0xFF)) if (length & U(3)) > U(0) else value
        value = _one(value, (tail >> U(8)) & U(0xFF)) if (length & U(3)) > U(1) else value
        value = _one(value, (tail >> U(16)) & U(0xFF)) if (length & U(3)) > U(2) else value
        hashes[t] = _avalanche(value)
    for k in range(long_count):
        token = U(longer[k])
        begin = U(edges[token * U(2)])
        hashes[token] = xxh64(text, begin, U(edges[token * U(2) + U(1)]) - begin)
