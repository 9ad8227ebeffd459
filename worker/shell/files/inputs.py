"""
Says which document of a run is which, before it is read: its run, its input and its row.

    run      how many documents the earlier runs with the same state have read; 0 for the first one,
             and over a worker's state the offset in its log, for each run
    input    its place among the run's inputs, from 0: references first, then files in their order
    row      its place among the documents of its input, from 0

Nothing here depends on what other inputs hold. So the tasks of an archive name their documents
without knowing how many the files before have.

A document that brings neither a doc_id nor a URL at a time is called RUN.INPUT.ROW-DIGEST. The
place makes two equal documents two. The digest is that of the body: when a file has changed and is
judged from the beginning, a name from the earlier verdicts never stands for another text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import xxhash

# A number without leading zeros: each place has one name.
_DERIVED = re.compile(rb"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)-[0-9a-f]{16}")


class RowPlace(NamedTuple):
    """The place of a document among all that runs with one state have read."""

    run: int
    input: int
    row: int

    def doc_id(self, body: str) -> str:
        """
        Return the doc_id of a document without a name.

        >>> RowPlace(0, 3, 17).doc_id("The river rose.")
        '0.3.17-adf0fca55fa9dc87'
        """
        digest = xxhash.xxh3_64_hexdigest(body.encode("utf-8", "replace"))
        return f"{self.run}.{self.input}.{self.row}-{digest}"

    @classmethod
    def in_doc_id(cls, doc_id: bytes) -> RowPlace | None:
        """
        Return the place that a doc_id names; None if it names none.

        >>> RowPlace.in_doc_id(b"0.3.17-adf0fca55fa9dc87"), RowPlace.in_doc_id(b"0.3.17")
        (RowPlace(run=0, input=3, row=17), None)
        """
        match = _DERIVED.fullmatch(doc_id)
        return None if match is None else cls(*map(int, match.groups()))


@dataclass(frozen=True)
class Inputs:
    """
    Inputs that are read one after the other.

    Attributes:
        run: the run that they belong to.
        number: the place of the first of them among the run's inputs.
        offset: the number of their first document in the stream of the engine.
        begins: how many of their documents come before each input. Entries may be added while the
            inputs are read, each before the first row of its input.
        are_files: whether equal doc_ids of two of them are a coincidence (`apart.py`).
        are_asked: whether each document is judged as if it came next and alone: as the first one of
            its input.
    """

    run: int
    number: int
    offset: int
    begins: Sequence[int] = (0,)
    are_files: bool = False
    are_asked: bool = False

    def place(self, offset: int) -> RowPlace:
        """Return the place of the document that has this number in the stream."""
        at = offset - self.offset
        index = max(bisect_right(self.begins, at) - 1, 0)
        row = 0 if self.are_asked else at - self.begins[index]
        return RowPlace(self.run, self.number + index, row)

    def size(self, number: int) -> int | None:
        """Return how many documents an input of the run has; None: it has not ended yet."""
        following = number - self.number + 1
        if following >= len(self.begins):
            return None
        return self.begins[following] - self.begins[following - 1]
