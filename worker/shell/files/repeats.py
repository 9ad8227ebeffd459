"""Counts the documents that have the doc_id of an earlier one: next versions, or itself again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.log.judge import JudgedRows, ReasonCode
from worker.log.originals import OriginalStore
from worker.log.record import COMPARED_KINDS, RowKind
from worker.shell.files.inputs import Inputs, RowPlace

_KEY = 0  # who writes equal hashes of doc_ids changes a count alone
_AGAIN_MIN = 10  # rows that come again: more are no chance
# The hashes of a document's doc_id and of its text, its input, and whether it replaced an original
# with its doc_id and another text, or is an original that came again.
NAMED = np.dtype(
    [("doc_id", "<u8"), ("text", "<u8"), ("input", "<i4"), ("replaces", "?"), ("is_again", "?")]
)


class Repeats(NamedTuple):
    """
    Documents that have the doc_id of another one.

    Attributes:
        replaced: how many have the doc_id of an earlier one and another text, and took its place.
        documents, ids: how many documents there are, and how many doc_ids.
        redelivered: how many are originals that came again, with the same text.
        of_earlier: how many of the replaced ones came before these documents, in an earlier call
            or run.
        shared: how many have the doc_id, but not the text, of a duplicate in an earlier input. Ids
            are kept apart only from those of originals (`apart.py`), so both have this doc_id.
        redelivered_of_earlier: how many of the redelivered ones came before these documents, too.
    """

    replaced: int = 0
    documents: int = 0
    ids: int = 0
    redelivered: int = 0
    of_earlier: int = 0
    shared: int = 0
    redelivered_of_earlier: int = 0

    def told(self, option: str, earlier: str) -> str:
        """
        Return sentences about repeated ids for the user; "" if there are none.

        Args:
            option: what names the column of ids.
            earlier: what gave documents before these: a call, or a run.
        """
        replaced = self._replaced_told(option, earlier)
        return ". ".join(filter(None, (replaced, self._shared_told(option))))

    def _replaced_told(self, option: str, earlier: str) -> str:
        if not self.replaced:
            return ""
        who = "document has" if self.replaced == 1 else "documents have"
        each = "it" if self.replaced == 1 else "each"
        counts = f"{self.documents:,} documents, {self.ids:,} ids"
        if self.of_earlier:
            counts += f"; {self.of_earlier:,} took the place of one of an earlier {earlier}"
        return (
            f"{self.replaced:,} {who} the doc_id of an earlier one, and another text: {each} took "
            f"its place ({counts}). Where ids are not unique, name another {option}"
        )

    def _shared_told(self, option: str) -> str:
        if not self.shared:
            return ""
        who = "document has" if self.shared == 1 else "documents have"
        return (
            f"{self.shared:,} {who} the doc_id of a duplicate with another text in an earlier "
            f"input: two documents have this doc_id, each with its own verdict. "
            f"Where ids are not unique in all files, name another {option}"
        )


class RepeatedIds:
    """
    Counts, of some documents, those with the doc_id of an earlier one and another text.

    Args:
        inputs: what the documents are of; None: all are of one input.

    Attributes:
        redelivered: how many are originals that came again, with the same text.

    Cost: 22 bytes per document.
    """

    def __init__(self, inputs: Inputs | None = None) -> None:
        self.redelivered = 0
        self._inputs = inputs
        self._named = bytearray()  # a NAMED for each document

    def take(self, rows: JudgedRows, held: OriginalStore) -> None:
        """Note judged rows, with the originals that they name."""
        part = rows.answered
        named = np.zeros(len(part), NAMED)
        named["doc_id"] = part.doc_ids.hashes(_KEY)
        named["text"] = np.where(np.isin(part.kinds, COMPARED_KINDS), part.fingerprints, 0)
        named["replaces"] = _are_replacing(rows, held)
        named["is_again"] = rows.judged.remarks == ReasonCode.REDELIVERED
        if self._inputs is not None and len(part):
            named["input"] = _inputs_of(part.offsets, self._inputs)
        self._named += named[part.kinds != RowKind.DEAD].tobytes()
        self.redelivered += int(named["is_again"].sum())

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self._named) // NAMED.itemsize

    def named(self) -> NDArray[np.void]:
        """Return a row of NAMED for each document, by the hashes of doc_ids, then in order."""
        return sorted_names(np.frombuffer(self._named, NAMED))

    def repeats(self) -> Repeats:
        """Return the counts so far."""
        return repeats_of(self.named())


def sorted_names(named: NDArray[np.void]) -> NDArray[np.void]:
    """Return rows by the hashes of doc_ids, and those of each in their order."""
    return named[np.argsort(named["doc_id"], kind="stable")]


def repeats_of(named: NDArray[np.void]) -> Repeats:
    """Return the counts of documents, all of some doc_ids, which `sorted_names` has sorted."""
    is_first = np.ones(len(named), bool)
    is_first[1:] = named["doc_id"][1:] != named["doc_id"][:-1]
    is_changed = np.zeros(len(named), bool)
    is_changed[1:] = ~is_first[1:] & (named["text"][1:] != named["text"][:-1])
    is_shared = np.zeros(len(named), bool)
    is_shared[1:] = is_changed[1:] & (named["input"][1:] != named["input"][:-1])
    of_earlier = int((is_first & named["replaces"]).sum())
    shared = int(is_shared.sum())
    return Repeats(
        replaced=int(is_changed.sum()) - shared + of_earlier,
        documents=len(named),
        ids=int(is_first.sum()),
        redelivered=int(named["is_again"].sum()),
        of_earlier=of_earlier,
        shared=shared,
        redelivered_of_earlier=int((is_first & named["is_again"]).sum()),
    )


def _inputs_of(offsets: NDArray[np.int64], inputs: Inputs) -> NDArray[np.int64]:
    """Return for each document of the stream, by its offset, the number of its input."""
    first, last = (inputs.place(int(offset)).input for offset in offsets[[0, -1]])
    begins = inputs.begins[first - inputs.number + 1 : last - inputs.number + 1]
    return first + np.searchsorted(begins, offsets - inputs.offset, "right")


def _are_replacing(rows: JudgedRows, held: OriginalStore) -> NDArray[np.bool_]:
    """
    Return for each row whether an original left for it that has its doc_id and another text.

    The former version may have the row's URL alone: that is no repeated id.
    """
    part = rows.answered
    is_compared = np.isin(part.kinds, COMPARED_KINDS)
    found = np.flatnonzero(is_compared & (rows.judged.formers >= 0))
    formers = rows.judged.formers[found]
    doc_ids, _urls = held.texts.take(formers)
    is_other = held.fingerprints.take(formers) != part.fingerprints[found]
    are_replacing = np.zeros(len(part), bool)
    are_replacing[found] = is_other & doc_ids.equal_to(part.doc_ids.take(found))
    return are_replacing


class FrameRepeats:
    """
    Counts what repeats itself in a frame: ids, and rows that an earlier call has judged.

    A row is known again by its doc_id. One without a name is named by its call, place and content
    (`inputs.py`), so it is a copy of itself. In both cases a frame that is judged again has no row
    that stays, and half of them if the call before was broken off there.

    Args:
        is_stream: whether these are the rows of a stream, which come part by part, each an input of
            its own. It has no end at which all could be told: so nothing is told of repeated ids,
            and of rows of an earlier call again only when there are ten times as many.

    Cost: that of `RepeatedIds`, and a µs for each duplicate.
    """

    def __init__(self, *, is_stream: bool = False) -> None:
        self._is_stream = is_stream
        self._ids = RepeatedIds()
        self._copies = 0  # of what an earlier call has judged in the same place
        self._begin: tuple[int, int] | None = None  # of a stream: run and number of its first input
        self._counted = 0  # of a stream: rows that might be an earlier call's, when last counted

    def begin(self, inputs: Inputs) -> None:
        """Note the next inputs of a stream. Documents of the first ones are of no earlier call."""
        self._begin = self._begin or (inputs.run, inputs.number)

    def take(self, rows: JudgedRows, held: OriginalStore) -> None:
        """Note judged rows, with the originals that they name."""
        self._ids.take(rows, held)
        part = rows.answered
        found = np.flatnonzero(rows.judged.originals >= 0)
        originals, _urls = held.texts.take(rows.judged.originals[found])
        names = zip(part.doc_ids.take(found).tolist(), originals.tolist(), strict=True)
        self._copies += sum(
            _is_same_row(own, original) and self._is_earlier(original) for own, original in names
        )

    def _is_earlier(self, doc_id: bytes) -> bool:
        """Return whether an original that is named by its place is of an earlier call."""
        place = RowPlace.in_doc_id(doc_id)
        return place is not None and (self._begin is None or place[:2] < self._begin)

    def told(self) -> str:
        """Return sentences for the user; "" if there is nothing to tell."""
        if self._is_stream and not self._is_due():
            return ""
        repeats = self._ids.repeats()
        of_ids = "" if self._is_stream else repeats.told("id_column", "call")
        return ". ".join(filter(None, (of_ids, self._again_told(repeats))))

    def _is_due(self) -> bool:
        """
        Return whether to count a stream's rows, which after each part would take longer and longer.
        """
        possible = self._copies + self._ids.redelivered
        if possible < max(_again_min(self._ids.documents), 10 * self._counted):
            return False
        self._counted = possible
        return True

    def _again_told(self, repeats: Repeats) -> str:
        again = self._copies + repeats.redelivered_of_earlier
        if again < _again_min(repeats.documents):
            return ""
        return (
            f"{again:,} of {repeats.documents:,} rows are those of an earlier call, by their ids "
            "or by place and content, so they do not stay. If that call is repeated, or was broken "
            "off, make another Deduplicator"
        )


def _again_min(documents: int) -> int:
    """Return how many rows must come again to be told: fewer may do so by chance."""
    return min(_AGAIN_MIN, max(documents // 2, 2))


def _is_same_row(own: bytes, original: bytes) -> bool:
    """
    Return whether a doc_id, and that of its original, name the same row of two inputs.

    >>> _is_same_row(b"0.1.17-adf0fca55fa9dc87", b"0.0.17-adf0fca55fa9dc87")
    True
    >>> _is_same_row(b"0.0.18-adf0fca55fa9dc87", b"0.0.17-adf0fca55fa9dc87")
    False
    """
    row = own.rpartition(b".")[2]
    is_equal = row == original.rpartition(b".")[2]
    return is_equal and None not in (RowPlace.in_doc_id(own), RowPlace.in_doc_id(original))
