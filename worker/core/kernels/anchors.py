"""
Which tokens of a text are function words of its language, as `definition.elected_words` defines it.

Function words anchor shingles. They also tell the language: each votes for the languages that have
it in their lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import definition
from worker.core.compiled import fused
from worker.core.kernels import machine
from worker.core.kernels.tally import add_hashes
from worker.core.kernels.two_slots import look_up

U = np.uint64
C = np.uint32
# A word's vote: bits 0 to 59 are its languages, 60 and 61 its points, and 63 says whether the word
# is in the union of all lists.
POINTS_BIT = 60
UNION = 63
SIEVE_BITS = 16
ELECT = 64  # not a bit of a vote: asks the kernel to find the language that the text elects
assert definition.LANGUAGES_MAX <= POINTS_BIT


class Anchors(NamedTuple):
    """The function words, and the lists that each of them is in."""

    rows: NDArray[np.uint64]  # of `two_slots.py`: the vote of each word by its hash
    # A bit for each value of a hash's upper SIEVE_BITS: whether any word has it. These 8 KB stay in
    # the first level of the cache, so most other tokens need not be looked up in the rows.
    sieve: NDArray[np.uint32]  # [2**SIEVE_BITS / 32]


@fused
def find_votes(hashes: Any, count: Any, anchors: Any, found: Any, voters: Any) -> Any:
    """
    Write to `found[t]` the vote of the token's hash, 0 if it is not a function word.

    The loops have no branch, because the processor could not predict one.

    Args:
        voters: uint32[count + 1], receives the function words: their places among the tokens.
    Returns:
        How many function words there are.
    """
    likely = U(0)
    for t in range(count):
        high = hashes[t] >> U(64 - SIEVE_BITS)
        found[t] = U(0)
        voters[likely] = t
        likely += U(anchors.sieve[high >> U(5)] >> C(high & U(31))) & U(1)
    words = U(0)
    for k in range(likely):
        t = voters[k]
        vote = look_up(anchors.rows, hashes[t])
        found[t] = vote
        voters[words] = t
        words += U(vote != U(0))
    return words


@fused
def _voters(words: Any) -> Any:
    """Return how many of the function words stand among the first TOKENS_MAX tokens."""
    count = U(words.size)
    while count != U(0) and words[count - U(1)] >= U(definition.TOKENS_MAX):
        count -= U(1)
    return count


@fused
def _points(
    votes: Any, voters: Any, without: Any, needed: Any, lists: Any, planes: Any, tally: Any
) -> Any:
    """
    Write each language's points, doubled, to `tally`. A vote counts only if it has no bit of
    `without` and all bits of `needed`.

    Args:
        lists: scratch, uint64[2 * (voters + 1)]: the votes of 1 point, then those of 2 points.
        planes: scratch of `add_hashes`.
    Returns:
        The points of all votes that count.
    """
    room = U(voters.size) + U(1)
    ones = U(0)
    twos = U(0)
    for t in voters:
        vote = votes[t]
        counts = U((vote & without) == U(0)) & U((vote & needed) == needed)
        points = (vote >> U(POINTS_BIT)) & U(3)
        lists[ones] = vote
        lists[room + twos] = vote
        ones += points & counts
        twos += (points >> U(1)) & counts
    total = ones + U(2) * twos
    for bit in range(64):
        tally[bit] = total  # add_hashes adds points for and subtracts points against
    add_hashes(lists, ones, np.int64(1), planes, tally)
    add_hashes(lists[room:], twos, np.int64(2), planes, tally)
    return total


@fused
def elected(votes: Any, words: Any, lists: Any, planes: Any, tally: Any) -> Any:
    """
    Return the bit of the language with the most points; among equals, the lowest bit. UNION if no
    language has POINTS_MIN.

    Args:
        words: the function words, as `find_votes` writes them.
        lists: scratch, uint64[2 * (min(count, TOKENS_MAX) + 1)] for `count` tokens.
        planes: scratch of `add_hashes`.
        tally: int64[64], receives twice the points of each language.
    """
    voters = words[: _voters(words)]
    if _points(votes, voters, U(0), U(0), lists, planes, tally) < U(definition.POINTS_MIN):
        return U(UNION)
    best = np.int64(0)
    for bit in range(POINTS_BIT):  # the points above the bit: of equals, the lowest bit is the most
        best = max(best, tally[bit] << np.int64(6) | np.int64(63 - bit))
    return U(63 - (best & 63)) if best >> 6 >= 2 * definition.POINTS_MIN else U(UNION)


@fused
def join_others(
    hashes: Any,
    votes: Any,
    words: Any,
    first: Any,
    scratch: Any,
    tally: Any,
    out: Any,
) -> None:
    """
    Set `out[t]` for those function words of other languages that anchor this text too.

    Args:
        words: the function words, as `find_votes` writes them.
        first: the bit of the elected language.
        tally: twice the points of each language, as `elected` leaves it.
        scratch: lists and planes, as for `elected`.
    """
    lists, planes = scratch
    voters = words[: _voters(words)]
    own = U(1) << first
    union = U(1) << U(UNION)
    of_first = U(tally[first]) >> U(1)
    total = U(0)  # points of the votes without the first language: an upper bound for any other
    for t in voters:
        vote = votes[t]
        counts = U((vote & own) == U(0)) & (vote >> U(UNION))
        total += (vote >> U(POINTS_BIT) & U(3)) * counts
    if total < U(definition.POINTS_MIN) or _share(total, of_first) < U(definition.SHARE_MIN):
        return
    _points(votes, voters, own, union, lists, planes, tally)
    joining = U(0)  # the languages whose words may join
    for bit in range(POINTS_BIT):
        points = U(tally[bit]) >> U(1)
        reached = _share(points, of_first) * U(points >= U(definition.POINTS_MIN))
        tally[bit] = np.int64(reached)
        joining |= U(reached >= U(definition.SHARE_MIN)) << U(bit)
    if joining == U(0):
        return
    for t in words:
        vote = votes[t]
        languages = vote & joining
        if languages == U(0) or (vote & own) != U(0) or (vote & union) == U(0):
            continue
        reached = U(0)
        while languages != U(0):
            reached = max(reached, U(tally[machine.trailing_zeros(languages)]))
            languages &= languages - U(1)
        out[t] = U(definition.SHARE_MIN) + (hashes[t] >> U(56)) <= reached


@fused
def _share(points: Any, first: Any) -> Any:
    """A language's points as a share of its own and the first language's, in SHARE_UNITS."""
    return U(definition.SHARE_UNITS) * points // (first + points)
