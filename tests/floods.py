"""What somebody would send who wants workers to be slow."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_SIZE = 1 << 64
_PLAIN = np.frombuffer(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/=&", np.uint8
)
_READABLE = np.isin(np.arange(256), list(range(0x21, 0x7F)))


def doc_ids_of_one_xxh64(count: int) -> list[str]:
    """
    Return different doc_ids, at most some 10,000, whose XXH64 with seed 0 is one number.

    XXH64 reads stripes of 32 bytes in four lanes: in two of them the second stripe undoes what the
    first one did.
    """
    chance = np.random.default_rng(0)
    lanes = [_undone(chance, np.uint64(seed % _SIZE)) for seed in (int(_P1) + int(_P2), int(_P2))]
    tail = b"x" * 16
    pairs = itertools.islice(itertools.product(*lanes), count)
    return [(one[:8] + two[:8] + tail + one[8:] + two[8:] + tail).decode() for one, two in pairs]


def _undone(chance: np.random.Generator, lane: np.uint64) -> list[bytes]:
    """
    Return words for the first stripe, each with that for the second after which the lane is always
    the same.
    """
    first = np.frombuffer(_PLAIN[chance.integers(0, len(_PLAIN), (400_000, 8))].tobytes(), "<u8")
    after = _rotated(lane + first * _P2, 31) * _P1
    wanted = _rotated(np.array([0x1234567890ABCDEF], np.uint64), 33)
    second = (wanted - after) * np.uint64(pow(int(_P2), -1, _SIZE))
    good = _READABLE[second.view(np.uint8).reshape(-1, 8)].all(axis=1)
    return [
        one.tobytes() + two.tobytes() for one, two in zip(first[good], second[good], strict=True)
    ]


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)
