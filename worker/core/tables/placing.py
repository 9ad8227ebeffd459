"""
Entering: the kernels that put a slot into every table, take it out, or give its entries another number.
"""

from __future__ import annotations

import numpy as np

from worker.core.kernels.machine import write32
from worker.core.tables.search import deep_bucket, fold, push_children, root_bucket, word
from worker.core.tables.store import MOVED_MAX, REFS, append, count_of, head_of, mark_split, place_of, remove
from worker.core.tables.words import BASE, CHILDREN, DEEP, HOT, PENDING, TABLES, Words, inner, signed

UNLIMITED = signed(1 << 62)


@inner
def place(words: Words, fingerprint: np.uint64, slot: int) -> None:
    """Enter a slot into every table. The caller has made sure of the room."""
    own = fold(fingerprint)
    ref = np.uint32(slot)
    for table in range(words[TABLES]):
        bucket = root_bucket(words, table, fingerprint)
        divisible = word(words, CHILDREN, table) != 0
        if divisible and count_of(head_of(words, BASE, bucket)) >= words[HOT]:
            split = True
        else:
            split = not append(words, BASE, bucket, own, ref, MOVED_MAX if divisible else UNLIMITED)
        if split:
            mark_split(words, BASE, bucket)
            place_deep(words, table, fingerprint, ref)


@inner
def place_deep(words: Words, table: int, fingerprint: np.uint64, ref: np.uint32) -> None:
    """Enter a slot into the sub-tables of a split bucket."""
    waiting = push_children(words, table, signed(0))
    while waiting:
        waiting -= 1
        node = words[PENDING + waiting]
        bucket = deep_bucket(words, node, fingerprint)
        if word(words, CHILDREN, node) != 0 and count_of(head_of(words, DEEP, bucket)) >= words[HOT]:
            mark_split(words, DEEP, bucket)
            waiting = push_children(words, node, waiting)
        else:
            append(words, DEEP, bucket, fold(fingerprint), ref, UNLIMITED)


@inner
def change(words: Words, fingerprint: np.uint64, old: np.uint32, new: int) -> None:
    """In every table: point the entry of slot `old` to `new`, or take it out when `new` is -1."""
    for table in range(words[TABLES]):
        waiting = signed(0)
        if not change_entry(words, BASE, root_bucket(words, table, fingerprint), old, new):
            waiting = push_children(words, table, signed(0))
        while waiting:
            waiting -= 1
            node = words[PENDING + waiting]
            if not change_entry(words, DEEP, deep_bucket(words, node, fingerprint), old, new):
                waiting = push_children(words, node, waiting)


@inner
def change_entry(words: Words, at: int, bucket: int, old: np.uint32, new: int) -> bool:
    """The same in one bucket. False: the entry is not there."""
    position = place_of(words, at, bucket, old)
    if position < 0:
        return False
    if new < 0:
        remove(words, at, bucket, position)
    else:
        write32(words[at + REFS], position, np.uint32(new))
    return True
