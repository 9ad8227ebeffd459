"""Which rows of a record the judge takes at once: up to a doc_id or a URL that comes again, or to deletions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.log.rows import Record


def batches(
    rows: NDArray[np.int64], deletions: NDArray[np.bool_], keys: Sequence[NDArray[np.uint64]]
) -> Iterator[NDArray[np.int64]]:
    """
    Yield ascending rows in parts in which no key comes twice, and either all or none are deletions.

    >>> rows, keys = np.arange(6), [np.array([7, 8, 7, 7, 9, 6], np.uint64)]
    >>> [part.tolist() for part in batches(rows, np.array([0, 0, 0, 0, 1, 1], bool), keys)]
    [[0, 1], [2], [3], [4, 5]]
    """
    former: dict[int, int] = {}  # by place: that of the latest row before it with one of its keys
    for key in keys:
        latest: dict[int, int] = {}
        places = repeated(key)
        for at, value in zip(places.tolist(), key[places].tolist(), strict=True):
            if value in latest:
                former[at] = max(former.get(at, 0), latest[value])
            latest[value] = at
    turns = set((np.flatnonzero(deletions[1:] != deletions[:-1]) + 1).tolist())
    begin = 0
    for at in sorted(former.keys() | turns):
        if at in turns or former[at] >= begin:
            yield rows[begin:at]
            begin = at
    if begin < len(rows):
        yield rows[begin:]


def copies(record: Record, rows: NDArray[np.int64], hashes: Sequence[NDArray[np.uint64]]) -> NDArray[np.bool_]:
    """
    Mark the rows that are the same as the two right before them, fetch time aside: the second changed nothing.

    It is a redelivery, or a duplicate whose former version has left: the third finds what the second has found.

    Args:
        hashes: of these rows' doc_ids and URLs.
    """
    same = np.zeros(len(rows), np.bool_)
    numbers = (record.kinds, record.fingerprints, record.doubts, record.digests)
    columns: list[NDArray[np.generic]] = [*hashes, *(values[rows] for values in numbers)]
    same[1:] = np.all([values[1:] == values[:-1] for values in columns], axis=0)
    same[1:] &= same[:-1]
    for at in np.flatnonzero(same).tolist():
        one, *others = ((record.doc_ids[row], record.urls[row]) for row in rows[at - 2 : at + 1].tolist())
        same[at] = others == [one, one]
    return same


def claimed_once(formers: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """Return how many rows there are before the first that has an original of one before it, at least one."""
    claimed = np.stack([formers, others], axis=1).ravel()
    places = np.flatnonzero(claimed >= 0)
    _, firsts = np.unique(claimed[places], return_index=True)
    again = np.delete(places, firsts)
    return int(again[0]) // 2 if len(again) else len(formers)


def repeated(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places of the hashes that come more than once, ascending."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():  # nearly always
        return np.empty(0, np.int64)
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)
