"""
Cuts the rows of a run into those that the log gets together, as one record.

    a large input     records of as many rows as a batch may have, counted from its first row
    small inputs      whole ones together, while they have no more rows than that

A record costs some 2 ms, however few rows it has: the judge, the codec and the encoder of verdicts
each call numpy a hundred times. A folder of files with one document each would pay that per file.

A record ends before an input that uses a doc_id of another input in it. Whether such a row is
delivered again or another document (`apart.py`) depends on what has become of the earlier one, and
that is known only when its record has been judged.

The records depend on the rows and their places alone: not on the batches in which they arrive, nor
on who reads them. A reading that goes on behind a record cuts the same ones from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from worker.log.record import COMPARED_KINDS, RowKind, Rows
from worker.shell.files.apart import name_apart
from worker.shell.files.inputs import Inputs, RowPlace


def records_of(inputs: Inputs, parts: Iterable[Rows], rows_max: int) -> Iterator[Rows]:
    """
    Join and cut rows, so that each part has the rows of one record of the log.

    Args:
        inputs: what the rows are of. It may learn of an input when its first row is there.
        parts: rows in order.
    """
    group = _WholeInputs()
    held: list[Rows] = []  # of the input that is being read, behind its last record
    count = 0  # rows that are held
    first = RowPlace(0, -1, 0)  # the place of the first of them
    for place, rows in _pieces(inputs, parts, rows_max):
        if held and place.input != first.input:
            yield from group.join(held, is_whole=first.row == 0)
            held = []
        if not held:
            first = place
            count = 0
        held.append(rows)
        count += len(rows)
        if group.count and group.count + count > rows_max:
            yield group.take()
        if count == rows_max:
            yield Rows.joined(held)
            held = []
    if held:
        yield from group.join(held, is_whole=first.row == 0)
    if group.count:
        yield group.take()


def _pieces(
    inputs: Inputs, parts: Iterable[Rows], rows_max: int
) -> Iterator[tuple[RowPlace, Rows]]:
    """Cut rows between inputs, and within an input after each `rows_max` rows."""
    for rows in parts:
        begin = 0
        while begin < len(rows):
            place = inputs.place(int(rows.offsets[begin]))
            left = rows_max - place.row % rows_max
            size = inputs.size(place.input)
            if size is not None:
                left = min(left, size - place.row)
            stop = min(begin + left, len(rows))
            yield place, rows.between(begin, stop)
            begin = stop


class _WholeInputs:
    """
    Whole inputs that share a record.

    Attributes:
        count: how many rows they have.
    """

    def __init__(self) -> None:
        self.count = 0
        self._inputs: list[Rows] = []
        self._names: set[bytes] = set()

    def join(self, rows: Sequence[Rows], *, is_whole: bool) -> Iterator[Rows]:
        """
        Add an input of which these are all rows, and which is small enough.

        Yields the record of the inputs before it if it cannot share theirs; and its own rows if
        they are only its last ones, which share no record.
        """
        joined = Rows.joined(rows)
        if not is_whole:
            yield joined
            return
        names = _names_in(joined)
        if self.count and not self._names.isdisjoint(names):
            yield self.take()
        self._inputs.append(joined)
        self._names |= names
        self.count += len(joined)

    def take(self) -> Rows:
        """Return the record of these inputs, and begin with none."""
        record = Rows.joined(self._inputs)
        self.count = 0
        self._inputs = []
        self._names = set()
        return record


def _names_in(rows: Rows) -> set[bytes]:
    """Return the doc_ids that rows may have: their own, and those by which they are named apart."""
    names = set[bytes]()
    for kind, doc_id, digest in zip(
        rows.kinds.tolist(), rows.doc_ids.tolist(), rows.digests.tolist(), strict=True
    ):
        if kind in COMPARED_KINDS:
            names.add(name_apart(doc_id, digest))
        if kind in COMPARED_KINDS or kind == RowKind.DELETED:
            names.add(doc_id)
    return names
