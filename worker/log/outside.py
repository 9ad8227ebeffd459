"""
Originals outside: those that other indexes search, so that many tasks find what one judge decides.

A judge's cost is nearly all search, and a search has no order: what a row finds among originals
that have been there since before depends on the two of them alone (`core.search`). So the rows of
an archive are judged in legs. At the beginning of a leg most originals go outside: tasks ask for
each row of the leg which of these are its best candidates. Then the judge takes the rows in their
order as ever, but its own index has only the originals of the leg. What was found outside joins
what it finds there, and the rules decide over both.

    originals before the leg ──► slices ──► tasks: 16 candidates of each row ──┐
              └── those that may leave in it ──┐                              ▼
    rows of the leg, in order ──► the judge's own index: these, and the leg's originals ──► verdicts

What of a verdict depends on the order of the rows

    candidates outside      no    each is there before the leg and stays till its end
    the best 16 of all      no    the best 16 of both sides are among the best 16 of each
    similarity, standing
    out, pages kept apart   no    they are decided for these 16, when both sides are known
    where an original is    yes   in the order of births: the judge knows by table and prefix how
    listed                        many are listed outside
    redelivered, new        yes   the judge, in tables of doc_ids, URLs, short texts, thin pages and
    versions, deletions,          texts of duplicates, which have all originals
    short texts, thin pages,
    texts of duplicates

Who may leave, is known before: an original leaves for a row with its doc_id, so those whose doc_ids
come in the leg stay inside. If all of them do, the judge does everything itself, as without legs.
So no row is ever asked for twice, and nothing is guessed. Where re-crawls replace, or retention
lets originals leave, nobody knows before who does: such a log has no originals outside.

Rejected, and why
- Guessing what a chunk of rows may become, and settling the guesses in order: its pass takes .4 µs
  per row, but rows whose answers lacked something are asked for again, up to eight times where
  templates have more than 16 candidates each. Here a row is searched twice, once in a small index.
- Leaving out afterwards what has left: of 16 candidates too few might stay, and the 17th is not
  known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.index import SearchIndex
from worker.core.search import SearchRules
from worker.core.tables.confirm import renumbered
from worker.core.tables.parallel import Candidates
from worker.log.columns import ChunkedColumn, Field
from worker.log.record import RowKind, Rows

# An original as a slice has it. The mark is right behind the sketch, as the index reads it.
SLICE_ROW = np.dtype(
    [
        ("sketches", "<u8", 8),
        ("marks", "<u8"),
        ("fingerprints", "<u8"),
        ("doubts", "<u8"),
        ("listed", "<u4"),
        ("rows", "<u4"),
    ]
)


class Outside(NamedTuple):
    """
    Which originals of a store are outside, and what was found among them.

    Attributes:
        stop: rows from here on are inside; so are all that are no live ones of kind FULL.
        inside: rows below it that are inside, too, because they may leave; ascending.
        find: returns what was found for the documents with these source offsets, by slice.
    """

    stop: int
    inside: NDArray[np.int64]
    find: Callable[[NDArray[np.int64]], Sequence[Candidates]]

    def has(self, full: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some live rows of kind FULL are outside. Cost: O(n log(inside))."""
        is_outside: NDArray[np.bool_] = full < self.stop
        if len(self.inside):
            places = np.searchsorted(self.inside, full).clip(max=len(self.inside) - 1)
            is_outside &= self.inside[places] != full
        return is_outside


class Slice:
    """
    An index of some originals that are outside.

    Args:
        search: the rules.
        originals: SLICE_ROW by original, by ascending row; it may be a mapped file.

    Cost: some 1.5 µs per original, and the memory of an index.
    """

    def __init__(self, search: SearchRules, originals: NDArray[Any]) -> None:
        self._rows = originals["rows"]
        column: ChunkedColumn[Any] = ChunkedColumn(SLICE_ROW)
        columns = {
            "fingerprints": np.ascontiguousarray(originals["fingerprints"]),
            "doubts": np.ascontiguousarray(originals["doubts"]),
            "listed": originals["listed"].astype(np.uint16),
            "rows": np.arange(len(originals), dtype=np.uint32),
        }
        sketches: Field[np.uint64] = Field(column.like(originals), "sketches")
        self._index = SearchIndex.from_arrays(columns, search, sketches=sketches, are_marked=True)

    def find(self, rows: Rows) -> Candidates:
        """Return the best candidates of some documents; those that are not FULL have none."""
        full = np.flatnonzero(rows.kinds == RowKind.FULL)
        found = self._index.candidates(
            rows.fingerprints[full], rows.doubts[full], rows.sketches[full], rows.marks[full]
        )
        counts = np.zeros(len(rows), np.int64)
        counts[full] = found.ends - found.begins
        ends = np.cumsum(counts)
        return Candidates(ends - counts, ends, renumbered(found.ranks, self._rows))
