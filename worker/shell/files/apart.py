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

A document without a URL has one that is made of its doc_id (`archives/rows.py`). It is made again
of the new doc_id. Otherwise two documents would have one URL, and the second would be taken for a
re-crawl of the first.

Whether a doc_id is another input's is read from the store, which is told where an input begins, and
knows from then on which originals are earlier ones. A record has rows of one input, or several
whole inputs without a doc_id in common (`records.py`), so all originals in the store are earlier
ones then.

The store does not know the doc_ids of duplicates. So a doc_id whose first document is a duplicate
is not kept apart: a document of another input gets it, too. `RepeatedIds` counts these documents.

A doc_id of the form that this run derives (`inputs.py`) belongs to the document in the place that
it names, which may have no other name. A document elsewhere that brings it is another one, even
with the same content, because two documents must not become one. What a program gives to a
`Deduplicator` itself may name documents of its earlier calls, to replace or delete them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.core.document import DOC_ID_BYTES_MAX
from worker.log.originals import OriginalStore
from worker.log.record import COMPARED_KINDS, RowKind, Rows
from worker.log.texts import Texts
from worker.shell.files.archives.rows import MADE_URL
from worker.shell.files.inputs import Inputs, RowPlace

_MADE_URL = MADE_URL.encode()
_SURROGATES = ("utf-8", "surrogatepass")
_Document = TypeVar("_Document")


class NamesApart:
    """
    Names the rows of several inputs.

    Attributes:
        offsets: of the last rows, those that were named apart.
        count: how many have been named apart.
        positions: of these, how many doc_ids are the number of a row in its input.
    """

    def __init__(self) -> None:
        self.offsets: NDArray[np.int64] = np.empty(0, np.int64)
        self.count = 0
        self.positions = 0
        self._input = -1

    def rows(
        self, rows: Rows, inputs: Inputs, held: OriginalStore, ends: Sequence[int] = ()
    ) -> Rows:
        """
        Return the rows of the next record, with other doc_ids where those are another's.

        Args:
            rows: those of the record, or of several that are judged together.
            inputs: what they are of.
            held: the originals before the first of them.
            ends: of several records, the row behind the last one of each. All are of one input and
                re-crawls do not replace.
        Returns:
            All rows of one record; of several those of the first ones, at least one, whose names do
            not depend on what becomes of earlier records.

        Cost: a look-up of each doc_id, and some µs for each that is known, however many inputs.
        """
        if inputs.place(int(rows.offsets[0])).input != self._input:
            held.divide()
        self._input = inputs.place(int(rows.offsets[-1])).input
        is_apart = _is_misplaced(rows, inputs)
        if inputs.are_files:
            formers = held.find_many(held.hashes(rows.doc_ids), rows.doc_ids)
            others = np.flatnonzero((formers >= 0) & held.are_earlier(formers))
            others = others[~held.is_content(formers[others], rows, others)]
            is_apart[others[np.isin(rows.kinds[others], COMPARED_KINDS)]] = True
            if len(ends) > 1:
                leavers = self._leavers(rows, formers, is_apart, held)
                stop = _stop_before(formers, leavers, np.array(ends))
                rows = rows.between(0, stop)
                is_apart = is_apart[:stop]
        apart = np.flatnonzero(is_apart)
        self.offsets = rows.offsets[apart]
        if not len(apart):
            return rows
        self.count += len(apart)
        for at, doc_id in zip(apart.tolist(), rows.doc_ids.take(apart).tolist(), strict=True):
            row = inputs.place(int(rows.offsets[at])).row
            self.positions += doc_id in (b"%d" % row, b"%d" % (row + 1))
        return named_apart(rows, apart)

    @staticmethod
    def _leavers(
        rows: Rows, formers: NDArray[np.int64], is_apart: NDArray[np.bool_], held: OriginalStore
    ) -> NDArray[np.int64]:
        """
        Return for each row the earlier original that may leave for it, or -1.

        It is the one of the doc_id that the row is going to have. A row that is not named apart
        removes it only as a deletion; otherwise it has its content, or is not compared with it.

        Args:
            formers: the original of each doc_id that rows have so far, or -1.
            is_apart: the rows that are going to be named apart.
        """
        is_deletion = rows.kinds == RowKind.DELETED
        leavers = np.where(is_deletion & ~is_apart, formers, -1)
        apart = np.flatnonzero(is_apart)
        names = named_apart(rows.take(apart), np.arange(len(apart))).doc_ids
        leavers[apart] = held.find_many(held.hashes(names), names)
        leavers[leavers >= 0] = np.where(
            held.are_earlier(leavers[leavers >= 0]), leavers[leavers >= 0], -1
        )
        return leavers

    def state(self, held: OriginalStore) -> dict[str, Any]:
        """
        Return the state from which a run can resume in the middle of an input, as JSON.

        Rows may get other numbers when a snapshot is restored, so the originals of earlier inputs
        are given by their places among all: how many stand in front, and those behind that were
        renewed.
        """
        is_earlier = held.are_earlier(held.live_between(held.first, len(held)))
        in_front = len(is_earlier) if is_earlier.all() else int(np.argmin(is_earlier))
        return {
            "input": self._input,
            "originals_before": in_front,
            "renewed": (in_front + np.flatnonzero(is_earlier[in_front:])).tolist(),
            "count": self.count,
            "positions": self.positions,
        }

    def resume(self, state: Mapping[str, Any], held: OriginalStore) -> None:
        """Go on where `state` was taken."""
        self._input = state["input"]
        live = held.live_between(held.first, len(held))
        own = live[state["originals_before"] :]
        moved = live[np.array(state["renewed"], np.int64)].tolist()
        held.divide(int(own[0]) if len(own) else len(held), moved)
        self.count = state["count"]
        self.positions = state["positions"]


class FileDocuments(Generic[_Document]):
    """
    The documents of several files, by the doc_ids that a run over these files gives them.

    It is for commands that keep documents, and no originals. In the first file that uses a
    doc_id, its last version counts. In later files each content is a document of its own, as above.

    Args:
        digest_of: returns the digest of a document's content. It is called only for documents of
            two files that have one doc_id.

    Attributes:
        by_id: the documents, in the order of their last versions.
        count, positions: as in `NamesApart`.

    Cost: a look-up for each document.
    """

    def __init__(self, digest_of: Callable[[_Document], int]) -> None:
        self._digest_of = digest_of
        self._file_of: dict[str, str] = {}
        self._file: str | None = None
        self._row = -1
        self.by_id: dict[str, _Document] = {}
        self.count = 0
        self.positions = 0

    def next_row(self, file: str) -> None:
        """Count a row, which `put` or `remove` may follow."""
        self._row = self._row + 1 if file == self._file else 0
        self._file = file

    def put(self, doc_id: str, document: _Document) -> None:
        """Enter the document of the row."""
        assert self._file is not None
        if self._file_of.get(doc_id, self._file) != self._file:
            digest = self._digest_of(document)
            if digest == self._digest_of(self.by_id[doc_id]):
                return  # delivered again
            self.count += 1
            self.positions += doc_id in (str(self._row), str(self._row + 1))
            doc_id = name_apart(doc_id.encode(*_SURROGATES), digest).decode(*_SURROGATES)
            if doc_id in self.by_id:
                return
        self.remove(doc_id)
        self.by_id[doc_id] = document
        self._file_of[doc_id] = self._file

    def remove(self, doc_id: str) -> None:
        """Remove a document, if it is there: its row is a deletion, or has no text any more."""
        self.by_id.pop(doc_id, None)
        self._file_of.pop(doc_id, None)


def _stop_before(
    formers: NDArray[np.int64], leavers: NDArray[np.int64], ends: NDArray[np.int64]
) -> int:
    """
    Return the end of the last record before the first one that has a row with a doc_id whose
    original may leave in an earlier record.

    Args:
        formers: the original of each row's doc_id, or -1.
        leavers: the original that may leave for each row, or -1.
        ends: the row behind the last one of each record.

    >>> _stop_before(np.array([-1, 7, 7, 7]), np.array([-1, 7, -1, -1]), np.array([1, 3, 4]))
    3
    """
    leaving, first = np.unique(leavers, return_index=True)
    is_any = leaving >= 0
    if not is_any.any():
        return int(ends[-1])
    leaving = leaving[is_any]
    left_in = np.searchsorted(ends, first[is_any], "right")  # the number of the record
    places = np.searchsorted(leaving, formers).clip(max=len(leaving) - 1)
    records = np.searchsorted(ends, np.arange(len(formers)), "right")
    is_late = (leaving[places] == formers) & (records > left_in[places])
    if not is_late.any():
        return int(ends[-1])
    return int(ends[records[is_late.argmax()] - 1])


def _is_misplaced(rows: Rows, inputs: Inputs) -> NDArray[np.bool_]:
    """
    Return of each row whether its doc_id belongs to the document in another place of this run.

    Among files it does so, too, if that place is in an earlier input.
    """
    is_misplaced = np.zeros(len(rows), bool)
    for at, _, named in _derived(rows, inputs.run):
        own = inputs.place(int(rows.offsets[at]))
        if named != own:
            is_misplaced[at] = inputs.are_files or named.input >= own.input
    return is_misplaced


def _derived(rows: Rows, run: int) -> Iterator[tuple[int, bytes, RowPlace]]:
    """
    Yield the rows whose doc_ids have the form that this run derives: their places among the rows,
    these doc_ids, and the places that they name. Deletions may name any document.
    """
    derived = rows.doc_ids.starting_with(b"%d." % run)
    for at, doc_id in zip(derived.tolist(), rows.doc_ids.take(derived).tolist(), strict=True):
        named = RowPlace.in_doc_id(doc_id)
        if named is not None and rows.kinds[at] != RowKind.DELETED:
            yield at, doc_id, named


def named_apart(rows: Rows, places: NDArray[np.int64]) -> Rows:
    """Return rows, those at these places named by their doc_id and their content."""
    formers = zip(places.tolist(), rows.doc_ids.take(places).tolist(), strict=True)
    return _renamed(
        rows, {place: name_apart(former, int(rows.digests[place])) for place, former in formers}
    )


def named_later(rows: Rows, inputs: Inputs, begun: int) -> Rows:
    """
    Return the rows of a question with the names that they get if it is asked only now.

    Other inputs may have begun since they were named. A document there may have the same place and
    content, and so the same name: the row would be taken for it.

    Args:
        rows: named as those of `inputs`.
        begun: how many inputs of the run have begun by now.
    """
    later = begun - inputs.number
    if not later:
        return rows
    names: dict[int, bytes] = {}
    for at, doc_id, place in _derived(rows, inputs.run):
        if place.input >= inputs.number:
            digest = doc_id.rpartition(b"-")[2]
            names[at] = b"%d.%d.%d-%b" % (place.run, place.input + later, place.row, digest)
    return _renamed(rows, names)


def _renamed(rows: Rows, names: Mapping[int, bytes]) -> Rows:
    """
    Return rows with other doc_ids at these places.

    A URL that was made of the former doc_id is made of the new one; others stay.
    """
    doc_ids = rows.doc_ids.tolist()
    urls = rows.urls.tolist()
    for place, name in names.items():
        if urls[place] == _MADE_URL + doc_ids[place]:
            urls[place] = _MADE_URL + name
        doc_ids[place] = name
    return replace(rows, doc_ids=Texts.of(doc_ids), urls=Texts.of(urls))


def name_apart(doc_id: bytes, digest: int) -> bytes:
    """
    Return the doc_id of a document that is named apart, by its own and its content.

    >>> name_apart(b"17", 0xBAF99AA906C6CC0)
    b'17-0baf99aa906c6cc0'
    """
    suffix = b"-%016x" % digest
    whole = doc_id[: DOC_ID_BYTES_MAX - len(suffix)]
    return whole.decode("utf-8", "ignore").encode() + suffix


def told(count: int, positions: int, id_column: str | None) -> str:
    """
    Return a sentence about documents that were named apart; "" if there are none.

    Args:
        count, positions: as in `NamesApart`.
        id_column: the column of ids that the user has named; None: they are those of `doc_id`.
    """
    if not count:
        return ""
    who = "document has" if count == 1 else "documents have"
    said = (
        f"{count:,} {who} a doc_id that an earlier input, reference or run has for another text, "
        f"or that this run derives for another row: each is called ID-DIGEST, and both are known"
    )
    if positions == count:
        unread = "rename the field doc_id" if id_column is None else "leave --id-column out"
        said += (
            ". These ids only number the rows of each file, from 0 or 1: they are no names, so "
            f"{unread}, or name an --id-column whose ids are of one kind in all files"
        )
    return said
