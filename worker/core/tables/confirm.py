"""
Which candidate the sketches confirm, and which of several is the best: the same for both searches.

A match is one number, its rank. The smallest rank is the best match, so that similarity decides
before the second look, the look before the distance, and the distance before the row:

    (1000 - similarity) << 50 | (1000 - look) << 40 | distance << 32 | row

While tables are searched, similarities are not known yet, and `keep` sorts the candidates by the
rest. `confirm` then reads the sketches of the first RANKS_MAX and sets the similarity. Exact search
has no look: 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core import marks, search, sketch
from worker.core.compiled import inner
from worker.core.kernels.machine import popcount, prefetch, read64, will_need, write64
from worker.core.tables.memory import INSERT_ALL, TableMemory, signed

RANKS_MAX = signed(search.CONFIRMED_MAX)
SURE_SIMILARITY = signed(search.SURE_SIMILARITY)
assert search.RIVAL == 3, "`confirm` keeps the four greatest similarities by name"
SKETCH_BYTES = signed(8 * sketch.WORDS)
MARK_LAST = SKETCH_BYTES + 7  # the last byte of the mark behind a sketch
APART_SIMILARITY = signed(marks.APART_SIMILARITY)
LONG = np.uint64(marks.LONG)
HASH_MASK = np.uint64(marks.HASH_MASK)
URL_SHIFT = np.uint64(marks.URL_SHIFT)
TITLE_SHIFT = np.uint64(marks.TITLE_SHIFT)
NO_MARK = np.uint64(marks.NO_MARK)
LOOK_MAX = signed(search.LOOK_MAX)
WORDS = signed(sketch.WORDS)
ALL_BINS = np.uint64((1 << 64) - 1)
BINS_OF_LAST = np.uint64((1 << sketch.BINS % 64) - 1)
LEVEL_SHIFT = np.uint64(sketch.BINS % 64)
LEVEL_MAX = signed(sketch.LEVEL_MAX)
RATE_ONE = signed(sketch.RATE_ONE)
COUNTS = np.array(sketch.COUNTS, np.int64)
SIMILARITY_MAX = signed(sketch.SIMILARITY_MAX)
ONE_WORD_BINS = signed(sketch.ONE_WORD_BINS)
ONE_WORD_EITHER = signed(sketch.ONE_WORD_EITHER)
ONE_WORD_MIN = signed(sketch.ONE_WORD_MIN)
ONE_WORD_SIMILARITY = signed(sketch.SIMILARITY_MIN)
ROW_MASK = signed((1 << 32) - 1)
DISTANCE_SHIFT = signed(32)
DISTANCE_MASK = signed(0xFF)
LOOK_SHIFT = signed(40)
SIMILARITY_SHIFT = signed(50)
NO_LOOK = LOOK_MAX << LOOK_SHIFT
# Of what has neither: but for distance and row.
NO_RANK = SIMILARITY_MAX << SIMILARITY_SHIFT | NO_LOOK
# What is no match has ApartBy above its similarity if one was near enough, and that one's row: any
# such rank is worse than UNCONFIRMED, and tells why.
APART_BY_SHIFT = signed(60)
SIMILARITY_MASK = signed((1 << int(APART_BY_SHIFT - SIMILARITY_SHIFT)) - 1)
OTHER_PAGE = signed(search.ApartBy.OTHER_PAGE)
LIKE_OTHERS = signed(search.ApartBy.LIKE_OTHERS)
NO_NEARNESS = NO_LOOK | signed(search.NO_MATCH) << DISTANCE_SHIFT
# No match, worse than any.
UNCONFIRMED = NO_RANK | NO_NEARNESS | ROW_MASK


@inner
def bits(value: np.uint64) -> int:
    return signed(popcount(value))


@inner
def kept_max(memory: TableMemory) -> int:
    """Return how many candidates of a query are kept."""
    return RANKS_MAX if memory.similarity_min else signed(1)


@inner
def keep(memory: TableMemory, rank: int) -> None:
    """Keep a candidate if it is among the best, each once and in order."""
    best = memory.ranks
    count = memory.rank_count
    most = kept_max(memory)
    if count == most and rank >= signed(read64(best, count - 1)):
        return
    place = count
    while place > 0 and signed(read64(best, place - 1)) > rank:
        place -= 1
    if place > 0 and signed(read64(best, place - 1)) == rank:  # another table has found it, too
        return
    last = min(count, most - 1)
    for at in range(last, place, -1):
        write64(best, at, read64(best, at - 1))
    write64(best, place, np.uint64(rank))
    memory.rank_count = last + 1


@inner
def sketch_of(memory: TableMemory, row: int) -> int:
    """Return the address of an original's sketch."""
    if row >= memory.fresh_first:
        return signed(
            memory.fresh
            + SKETCH_BYTES * signed(read64(memory.fresh_places, row - memory.fresh_first))
        )
    own = row - memory.sketch_first
    chunk = signed(read64(memory.sketches, own >> memory.sketch_bits))
    return signed(chunk + memory.sketch_step * (own & ((signed(1) << memory.sketch_bits) - 1)))


@inner
def mark_of(memory: TableMemory, row: int) -> np.uint64:
    """Return an original's mark."""
    if row >= memory.fresh_first:
        if memory.fresh_marks == 0:
            return NO_MARK
        place = signed(read64(memory.fresh_places, row - memory.fresh_first))
        return read64(memory.fresh_marks, place)
    if memory.are_marked:
        return read64(sketch_of(memory, row), WORDS)
    return NO_MARK


@inner
def are_apart(mark: np.uint64, other: np.uint64, similarity: int) -> bool:
    """`marks.are_apart` of a document that has a mark."""
    differ = mark ^ other
    if other == NO_MARK or differ & HASH_MASK != 0:
        return False
    if (differ >> URL_SHIFT) & HASH_MASK == 0:
        return False
    both_words = bits((mark & other) >> TITLE_SHIFT)
    if 2 * both_words > bits((mark | other) >> TITLE_SHIFT):
        return False
    return similarity < APART_SIMILARITY or bool(mark & other & LONG == 0)


@inner
def rate_of(last: np.uint64) -> int:
    """`sketch.rate` of the level in a sketch's last word."""
    level = signed(last >> LEVEL_SHIFT) & LEVEL_MAX
    return signed((RATE_ONE + level % RATE_ONE) << level // RATE_ONE)


@inner
def sketch_similarity(one: int, other: int) -> int:
    """`sketch.sketch_similarity` of the sketches at two addresses."""
    filled = signed(0)
    other_filled = signed(0)
    either = signed(0)
    for word in range(WORDS):
        mask = BINS_OF_LAST if word == WORDS - 1 else ALL_BINS
        mine = read64(one, word) & mask
        others = read64(other, word) & mask
        filled += bits(mine)
        other_filled += bits(others)
        either += bits(mine | others)
    if either == 0:
        return signed(SIMILARITY_MAX)
    own_rate = rate_of(read64(one, WORDS - 1))
    other_rate = rate_of(read64(other, WORDS - 1))
    count = COUNTS[filled] * own_rate
    other_count = COUNTS[other_filled] * other_rate
    both = max(signed(0), COUNTS[filled] + COUNTS[other_filled] - COUNTS[either])
    shared = min(both * max(own_rate, other_rate), count, other_count)
    estimate = signed(SIMILARITY_MAX * shared // (count + other_count - shared))
    lacking = either - min(filled, other_filled)
    by_one_word = either >= ONE_WORD_EITHER and lacking <= ONE_WORD_BINS
    if by_one_word and estimate >= ONE_WORD_MIN:
        return max(estimate, signed(ONE_WORD_SIMILARITY))
    return estimate


@inner
def confirm(memory: TableMemory, turn: int) -> int:
    """
    Return the rank of the best candidate that the sketches confirm, by similarity first:
    `search.best`. If there is none, return UNCONFIRMED, or a greater rank that tells which one is
    the most similar, and why it is none: `search.kept_apart`.

    `turn` is the query's place.
    """
    ranks = memory.ranks
    count = memory.rank_count
    if memory.asking:
        for number in range(count):
            row = signed(read64(ranks, number)) & ROW_MASK
            # The other fields of the row are prefetched, too: the caller reads them next.
            will_need(sketch_of(memory, row), memory.sketch_step)
        return UNCONFIRMED
    memory.sketches_read += count
    for number in range(count):
        address = sketch_of(memory, signed(read64(ranks, number)) & ROW_MASK)
        prefetch(address, signed(0))
        prefetch(address, MARK_LAST)  # both may lie on two lines, never on three
    own = memory.fresh + SKETCH_BYTES * turn
    mark = read64(memory.fresh_marks, turn) if memory.fresh_marks else NO_MARK
    best = UNCONFIRMED
    nearest = UNCONFIRMED  # with those that are kept apart
    # The four greatest similarities so far.
    first = second = third = fourth = signed(0)
    for number in range(count):
        rank = signed(read64(ranks, number))
        row = rank & ROW_MASK
        similarity = sketch_similarity(own, sketch_of(memory, row))
        fourth = max(fourth, min(third, similarity))
        third = max(third, min(second, similarity))
        second = max(second, min(first, similarity))
        first = max(first, similarity)
        if similarity < memory.similarity_min:
            continue
        ranked = (SIMILARITY_MAX - similarity) << SIMILARITY_SHIFT | rank
        nearest = min(nearest, ranked)
        if mark != NO_MARK and are_apart(mark, mark_of(memory, row), similarity):
            continue
        best = min(best, ranked)
    # Those that are kept apart are rivals, too.
    most = SIMILARITY_MAX - (best >> SIMILARITY_SHIFT)
    has_rival = count >= signed(4) and most < SURE_SIMILARITY
    is_match = not (has_rival and max(most - fourth, signed(0)) < memory.margin)
    if nearest == UNCONFIRMED or (is_match and best < UNCONFIRMED):
        return signed(best)
    by = OTHER_PAGE if nearest < best else LIKE_OTHERS
    similarity_bits = nearest >> SIMILARITY_SHIFT << SIMILARITY_SHIFT
    return signed(by << APART_BY_SHIFT | similarity_bits | NO_NEARNESS | nearest & ROW_MASK)


@inner
def note_fresh(memory: TableMemory, row: int, turn: int) -> None:
    """Remember that the query of this turn has been indexed: its sketch is that of the row."""
    if memory.fresh:
        write64(memory.fresh_places, row - memory.fresh_first, np.uint64(turn))


def count_equal(ranks: NDArray[np.uint64]) -> int:
    """Return how many of these candidates have exactly the fingerprint that was searched for."""
    distances = ranks.view(np.int64) >> DISTANCE_SHIFT & DISTANCE_MASK
    return int(np.count_nonzero(distances == 0))


def renumbered(ranks: NDArray[np.uint64], rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """
    Return these ranks with `rows[i]` in place of row i. Their order stays; it is the best first as
    long as `rows` ascends.
    """
    signed_ranks = ranks.view(np.int64)
    changed: NDArray[np.int64] = signed_ranks & ~ROW_MASK | rows[signed_ranks & ROW_MASK]
    return changed.view(np.uint64)


def births(ranks: NDArray[np.int64], mode: int) -> int:
    """Return how many of these rows of a call got a row of their own, listed somewhere or not."""
    return len(ranks) if mode == INSERT_ALL else int(np.count_nonzero(ranks >= UNCONFIRMED))
