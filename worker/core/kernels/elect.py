"""Which tokens are function words, inside kernels, and the language for which they vote: `language.elect`."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import mask_of
from worker.core.kernels.tally import add_hashes
from worker.core.language import LANGUAGES_MAX, POINTS_MIN, TOKENS_MAX

U = np.uint64
POINTS_BIT = 60  # of a vote: bits 0 to 59 languages, 60 and 61 its points, 63 whether the word is in the union
UNION = 63
ELECT = 64  # instead of a bit: the one that the text elects
assert LANGUAGES_MAX <= POINTS_BIT


@fused
def find_votes(hashes: Any, count: Any, anchors: Any, found: Any) -> None:
    """
    `found[t]` is the vote of the token's hash, 0 if it is no function word; without a branch, since none is foreseen.

    Args:
        anchors: rows of hash and vote, and mask and shifts: a word is in the row of the bits above one of the two.
    """
    mask, first, second = anchors.shape[0], anchors.shape[1], anchors.shape[2]
    for t in range(count):
        value = hashes[t]
        one = (value >> first) & mask
        two = (value >> second) & mask
        here = anchors.rows[one, 1] & mask_of(anchors.rows[one, 0] == value)
        found[t] = here | (anchors.rows[two, 1] & mask_of(anchors.rows[two, 0] == value))


@fused
def elected(votes: Any, count: Any, lists: Any, planes: Any, tally: Any) -> Any:
    """
    The bit of the language with the most points, the lowest of equals; UNION below POINTS_MIN.

    Args:
        lists: uint64[2 * (min(count, TOKENS_MAX) + 1)], scratch: the votes of 1 and of 2 points.
        planes: uint64[PLANES], scratch.
        tally: int64[64], scratch.
    """
    voters = min(count, U(TOKENS_MAX))
    room = voters + U(1)
    ones, twos = U(0), U(0)
    for t in range(voters):
        vote = votes[t]
        points = (vote >> U(POINTS_BIT)) & U(3)
        lists[ones] = vote
        lists[room + twos] = vote
        ones += points & U(1)
        twos += points >> U(1)
    total = ones + U(2) * twos
    if total < U(POINTS_MIN):
        return U(UNION)
    for bit in range(64):
        tally[bit] = total  # so that it ends as twice the points
    add_hashes(lists, ones, np.int64(1), planes, tally)
    add_hashes(lists[room:], twos, np.int64(2), planes, tally)
    best = 0
    for bit in range(1, POINTS_BIT):
        if tally[bit] > tally[best]:
            best = bit
    return U(best) if tally[best] >= 2 * POINTS_MIN else U(UNION)
