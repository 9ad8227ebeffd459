"""
Keeps documents apart that have one doc_id but come from different inputs.

In a stream, a doc_id that comes again with another text is a new version, and replaces the former
one. Within one file it is the same here. But the ids of two files often have nothing to do with
each other: both number their rows, say. If a row of the second file replaced the row of the first
with its number, that text would be forgotten, and a copy of it would be kept next to it.

So a doc_id belongs to the first input that uses it. References and inputs of earlier runs are
inputs, too. A document of another input with that doc_id is

    delivered again     if its content is the same
    another document    otherwise: it is called ID-DIGEST, by its content, and nothing is replaced

Whether a doc_id is another input's is read from the store: originals have ascending rows, so those
of earlier inputs lie below the row at which this input began. The store keeps that row, its
`boundary`, because it may give rows other numbers. Rows of several inputs are therefore judged one
after the other where that matters: `pieces` divides a batch before its last input, which may go on
in the next batch, and before each input that has a doc_id of another one in the batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.document import DOC_ID_BYTES_MAX
from worker.log.originals import OriginalStore
from worker.log.record import RowKind, Rows
from worker.log.texts import Texts

_COMPARED = (RowKind.FULL, RowKind.SHORT)


class NamesApart:
    """
    Names the rows of several inputs.

    Attributes:
        offsets: of the last piece, those that were named apart.
        count: how many have been named apart since `begin`.
        positions: of these, how many doc_ids are the number of a row in its input.
    """

    def __init__(self) -> None:
        self.offsets: NDArray[np.int64] = np.empty(0, np.int64)
        self.count = 0
        self.positions = 0
        self._firsts: Sequence[int] = ()
        self._input = 0

    def begin(self, firsts: Sequence[int]) -> None:
        """
        Begin with inputs whose documents have names of their own.

        Args:
            firsts: the number of each input's first document. They may be added while it is read.
        """
        self._firsts = firsts
        self._input = 0

    def pieces(self, rows: Rows) -> Iterator[Rows]:
        """Divide the next rows, so that `rows` can tell whose doc_ids are in the store."""
        if not self._firsts or not len(rows):
            yield rows
            return
        inputs = self._inputs(rows)
        borders = (np.flatnonzero(np.diff(inputs)) + 1).tolist()
        if not borders:
            yield rows
            return
        doc_ids = rows.doc_ids.tolist()
        names: set[bytes] = set()  # of the piece so far
        begin = 0
        for first, stop in pairwise([0, *borders, len(rows)]):
            is_shared = not names.isdisjoint(doc_ids[first:stop])
            if first and (is_shared or stop == len(rows)):
                yield rows.between(begin, first)
                begin = first
                names = set()
            names.update(doc_ids[first:stop])
        yield rows.between(begin, len(rows))

    def _inputs(self, rows: Rows) -> NDArray[np.intp]:
        """Return the number of each row's input, from 1 on."""
        low, high = (bisect_right(self._firsts, int(rows.offsets[at])) for at in (0, -1))
        # Of a hundred thousand files, a batch has a few.
        begun = np.array(self._firsts[low:high], np.int64)
        return low + np.searchsorted(begun, rows.offsets, "right")

    def rows(self, rows: Rows, held: OriginalStore) -> Rows:
        """
        Return the rows of the next piece, with other doc_ids where those are another input's.

        Cost: a look-up of each doc_id, and some µs for each that is known, however many inputs.
        """
        self.offsets = np.empty(0, np.int64)
        if not self._firsts or not len(rows):
            return rows
        inputs = self._inputs(rows)
        is_going_on = inputs == self._input
        boundaries = np.where(is_going_on, held.boundary, len(held))
        if inputs[-1] != self._input:
            self._input = int(inputs[-1])
            held.boundary = len(held)  # of the first original that this input can make
        formers = held.find_many(held.hashes(rows.doc_ids), rows.doc_ids)
        others = np.flatnonzero((formers >= 0) & (formers < boundaries))
        apart = others[~held.is_content(formers[others], rows, others)]
        apart = apart[np.isin(rows.kinds[apart], _COMPARED)]
        return self._renamed(rows, apart, inputs) if len(apart) else rows

    def _renamed(self, rows: Rows, places: NDArray[np.int64], inputs: NDArray[np.intp]) -> Rows:
        self.offsets = rows.offsets[places]
        self.count += len(places)
        firsts = [self._firsts[number - 1] for number in inputs[places].tolist()]
        numbers = self.offsets - np.array(firsts, np.int64)
        for doc_id, number in zip(
            rows.doc_ids.take(places).tolist(), numbers.tolist(), strict=True
        ):
            self.positions += doc_id in (b"%d" % number, b"%d" % (number + 1))
        return named_apart(rows, places)

    def state(self, held: OriginalStore) -> dict[str, Any]:
        """
        Return what a run needs to go on in the middle of an input, as JSON.

        Rows may get other numbers when a snapshot is restored, so the originals of earlier inputs
        are counted.
        """
        return {
            "input": self._input,
            "originals_before": len(held.live_between(held.first, max(held.boundary, held.first))),
            "count": self.count,
            "positions": self.positions,
        }

    def resume(self, state: Mapping[str, Any], held: OriginalStore) -> None:
        """Go on where `state` was taken."""
        self._input = state["input"]
        own = held.live_between(held.first, len(held))[state["originals_before"] :]
        held.boundary = int(own[0]) if len(own) else len(held)
        self.count = state["count"]
        self.positions = state["positions"]


def named_apart(rows: Rows, places: NDArray[np.int64]) -> Rows:
    """Return rows, those at these places named by their doc_id and their content."""
    doc_ids = rows.doc_ids.tolist()
    for place in places.tolist():
        doc_ids[place] = _name(doc_ids[place], int(rows.digests[place]))
    return replace(rows, doc_ids=Texts.of(doc_ids))


def _name(doc_id: bytes, digest: int) -> bytes:
    """
    Return the doc_id of a document by its own and its content.

    >>> _name(b"17", 0xBAF99AA906C6CC0)
    b'17-0baf99aa906c6cc0'
    """
    suffix = b"-%016x" % digest
    whole = doc_id[: DOC_ID_BYTES_MAX - len(suffix)]
    return whole.decode("utf-8", "ignore").encode() + suffix


def told(count: int, positions: int) -> str:
    """Return what a user has to know of documents that were named apart; "" if there are none."""
    if not count:
        return ""
    who = "document has" if count == 1 else "documents have"
    said = (
        f"{count:,} {who} a doc_id that an earlier input, reference or run has for another text: "
        f"each is called ID-DIGEST, and both are known"
    )
    if positions == count:
        said += (
            ". These ids only number the rows of each file, from 0 or 1: they are no names, so "
            "leave --id-column out, or name a column whose ids are of one kind in all files"
        )
    return said
