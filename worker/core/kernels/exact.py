"""
The kernels of the exact table: find, insert and take out keys, and cut a segment in two.

    bucket, 64 bytes = one cache line      key key key key key | row row row row row count       8 and 4 bytes each
    segment, 512 buckets                   places 2,560, of which at most LIMIT are taken
    of the mixed key                       the top `depth` bits choose the segment, the low 9 its bucket

A key that finds its bucket full stands in the next one that is not, the first after the last. A look-up ends at the
key or at a bucket with a free place. Kernels are given
the memory three times (as uint64, as uint32, its address) and the way to a segment (directory, depth, seed).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import inner, kernel
from worker.core.tables.machine import prefetch

__all__ = [
    "BUCKETS",
    "LIMIT",
    "PLACES",
    "SEGMENT_WORDS",
    "find",
    "gather",
    "insert",
    "remove",
    "segment_of",
    "set_rows",
    "split",
]

U = np.uint64
I = np.int64  # noqa: E741  # the signed twin of U
BUCKETS = 512
PLACES = 5  # keys in a bucket
WORDS = 8  # 64-bit words in a bucket
SEGMENT_WORDS = BUCKETS * WORDS
LIMIT = BUCKETS * PLACES * 17 // 20  # beyond it buckets overflow in chains
AHEAD = 12  # keys between a prefetch and its use
BUCKET_MASK = U(BUCKETS - 1)


@inner
def _mixed(key: Any, seed: Any) -> Any:
    """A bijection of 64-bit keys that nobody can aim at without the seed."""
    value = key ^ seed
    value = (value ^ (value >> U(33))) * U(0xFF51AFD7ED558CCD)
    value = (value ^ (value >> U(33)) ^ seed) * U(0xC4CEB9FE1A85EC53)
    return value ^ (value >> U(33))


@inner
def _segment(directory: Any, depth: Any, hashed: Any) -> Any:
    return I(directory[I((hashed >> U(1)) >> U(63 - depth))])


@inner
def _first_word(segment: Any, hashed: Any) -> Any:
    return segment * SEGMENT_WORDS + I(hashed & BUCKET_MASK) * WORDS


@inner
def _next(at: Any) -> Any:
    """The bucket after this one; in its segment, the first follows the last."""
    following = at + WORDS
    return following if following % SEGMENT_WORDS else following - SEGMENT_WORDS


@inner
def _count(halves: Any, at: Any) -> Any:
    return I(halves[at * 2 + 15])


@inner
def _ask(address: Any, directory: Any, depth: Any, seed: Any, key: Any) -> Any:
    hashed = _mixed(key, seed)
    prefetch(address, _first_word(_segment(directory, depth, hashed), hashed) * 8)


@inner
def _locate(words: Any, halves: Any, start: Any, key: Any) -> Any:
    """The bucket and place of a key; place -1: it is not there, and that bucket has room for it."""
    at = start
    while True:
        count = _count(halves, at)
        for place in range(count):
            if words[at + place] == key:
                return at, I(place)
        if count < PLACES:
            return at, I(-1)
        at = _next(at)


@inner
def _put(words: Any, halves: Any, at: Any, key: Any, row: Any) -> Any:
    """Write into the next place of a bucket that has room."""
    count = _count(halves, at)
    words[at + count] = key
    halves[at * 2 + 10 + count] = row
    halves[at * 2 + 15] = np.uint32(count + 1)


@inner
def _put_new(words: Any, halves: Any, start: Any, key: Any, row: Any) -> Any:
    """Write a key that is not there."""
    at = start
    while _count(halves, at) == PLACES:
        at = _next(at)
    _put(words, halves, at, key, row)


@kernel
def find(memory: Any, way: Any, keys: Any, found: Any) -> Any:
    """Write the row of each key into `found`, -1 where there is none."""
    words, halves, address = memory
    directory, depth, seed = way
    for i in range(len(keys)):
        if i + AHEAD < len(keys):
            _ask(address, directory, depth, seed, keys[i + AHEAD])
        hashed = _mixed(keys[i], seed)
        at, place = _locate(words, halves, _first_word(_segment(directory, depth, hashed), hashed), keys[i])
        found[i] = I(halves[at * 2 + 10 + place]) if place >= 0 else I(-1)


@kernel
def segment_of(way: Any, key: Any) -> Any:
    """The segment that a key belongs to."""
    directory, depth, seed = way
    return _segment(directory, depth, _mixed(key, seed))


@kernel
def insert(memory: Any, way: Any, counts: Any, keys: Any, rows: Any, begin: Any, met: Any) -> Any:
    """
    Insert from `begin` on; gives where it stopped: at the end, or before a key whose segment is to be split first.

    A key that is there already is left as it is, and `met` says so.
    """
    words, halves, address = memory
    directory, depth, seed = way
    for i in range(begin, len(keys)):
        if i + AHEAD < len(keys):
            _ask(address, directory, depth, seed, keys[i + AHEAD])
        hashed = _mixed(keys[i], seed)
        segment = _segment(directory, depth, hashed)
        at, place = _locate(words, halves, _first_word(segment, hashed), keys[i])
        if place >= 0:
            met[i] = True
        elif counts[segment] >= LIMIT:
            return I(i)
        else:
            _put(words, halves, at, keys[i], rows[i])
            counts[segment] += 1
    return I(len(keys))


@kernel
def set_rows(memory: Any, way: Any, keys: Any, rows: Any) -> Any:
    """Set the row of keys that are there."""
    words, halves, _ = memory
    directory, depth, seed = way
    for i in range(len(keys)):
        hashed = _mixed(keys[i], seed)
        at, place = _locate(words, halves, _first_word(_segment(directory, depth, hashed), hashed), keys[i])
        if place >= 0:
            halves[at * 2 + 10 + place] = rows[i]


@inner
def _close_gap(words: Any, halves: Any, hole: Any, place: Any, seed: Any) -> Any:
    """Empty a place, and bring back keys that stand further on because this bucket was full."""
    while True:
        count = _count(halves, hole)
        words[hole + place] = words[hole + count - 1]
        halves[hole * 2 + 10 + place] = halves[hole * 2 + 10 + count - 1]
        halves[hole * 2 + 15] = np.uint32(count - 1)
        if count < PLACES:
            return
        base = hole - hole % SEGMENT_WORDS
        at = hole
        moved = I(-1)
        while moved < 0:
            at = _next(at)
            distance = (at - hole + SEGMENT_WORDS) % SEGMENT_WORDS
            if distance == 0:
                return
            there = _count(halves, at)
            for other in range(there):
                home = base + I(_mixed(words[at + other], seed) & BUCKET_MASK) * WORDS
                if (at - home + SEGMENT_WORDS) % SEGMENT_WORDS >= distance:  # its way here led past the hole
                    moved = I(other)
                    break
            if moved < 0 and there < PLACES:
                return
        _put(words, halves, hole, words[at + moved], halves[at * 2 + 10 + moved])
        hole, place = at, moved


@kernel
def remove(memory: Any, way: Any, counts: Any, keys: Any, rows: Any, done: Any, segments: Any) -> Any:
    """Take keys out that stand there with this very row; `done` tells which, `segments` where each was."""
    words, halves, _ = memory
    directory, depth, seed = way
    for i in range(len(keys)):
        hashed = _mixed(keys[i], seed)
        segment = _segment(directory, depth, hashed)
        segments[i] = segment
        at, place = _locate(words, halves, _first_word(segment, hashed), keys[i])
        done[i] = place >= 0 and halves[at * 2 + 10 + place] == rows[i]
        if done[i]:
            _close_gap(words, halves, at, place, seed)
            counts[segment] -= 1


@kernel
def split(memory: Any, old: Any, counts: Any, low: Any, high: Any, bit: Any, seed: Any) -> Any:
    """Deal the keys of a segment's copy to two empty segments, by one bit of the mixed key. `low` may be `high`."""
    words, halves, _ = memory
    old_words, old_halves = old
    for at in range(0, SEGMENT_WORDS, WORDS):
        for place in range(_count(old_halves, at)):
            key = old_words[at + place]
            hashed = _mixed(key, seed)
            target = high if (hashed >> U(bit)) & U(1) else low
            _put_new(words, halves, _first_word(target, hashed), key, old_halves[at * 2 + 10 + place])
            counts[target] += 1


@kernel
def gather(memory: Any, segments: Any, keys: Any, rows: Any) -> Any:
    """Write all keys and rows of so many segments."""
    words, halves, _ = memory
    to = 0
    for at in range(0, segments * SEGMENT_WORDS, WORDS):
        for place in range(_count(halves, at)):
            keys[to] = words[at + place]
            rows[to] = halves[at * 2 + 10 + place]
            to += 1
