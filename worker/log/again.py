"""
Texts that were duplicates before: which live original each is a duplicate of again.

`duplicates.py` remembers the texts, and this holds the documents that have them now against the
originals of then, as `core.search.again` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.search import agains
from worker.log.originals import OriginalStore
from worker.log.record import Rows

COMPARED = ("fingerprints", "doubts", "sketches", "marks")  # all that a search sees of a document


class Again(NamedTuple):
    """Of some rows the original that each is a duplicate of again: columns of one length."""

    originals: NDArray[np.int64]  # the row, -1 for none
    distances: NDArray[np.uint8]
    similarities: NDArray[np.uint16]  # in thousandths


def find_again(held: OriginalStore, record: Rows, rows: NDArray[np.int64]) -> Again:
    """
    Return the live originals of which the texts of some rows were duplicates before.

    Args:
        held: the originals.
        record: the record.
        rows: of the record, all of kind FULL.

    Cost: 50 ns per row; some 0.3 ms and 0.5 µs per row if some texts are known.
    """
    originals = held.after_moves(held.duplicates.find(record.digests[rows]))
    found = Again(originals, np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.uint16))
    known = np.flatnonzero(originals >= 0)
    if len(known):
        is_match, found.distances[known], found.similarities[known] = agains(
            held.search,
            [getattr(record, name)[rows[known]] for name in COMPARED],
            [getattr(held, name).take(originals[known]) for name in COMPARED],
        )
        others = known[~is_match]
        found.originals[others] = -1
        found.distances[others] = 0
        found.similarities[others] = 0
    return found
