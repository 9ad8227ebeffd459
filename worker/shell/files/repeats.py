"""Counts the documents that have the doc_id of an earlier one: next versions, or itself again."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from worker.log.judge import JudgedRows, ReasonCode
from worker.log.record import RowKind

_KEY = 0  # who writes equal hashes of doc_ids changes a count alone


class Repeats(NamedTuple):
    """
    Documents that have taken the place of another one.

    Attributes:
        replaced: how many have the doc_id of an earlier one and another text.
        documents, ids: how many documents there are, and how many doc_ids.
        redelivered: how many are originals that came again, with the same text.
    """

    replaced: int = 0
    documents: int = 0
    ids: int = 0
    redelivered: int = 0

    def told(self, option: str) -> str:
        """
        Return a sentence about repeated ids for the user; "" if there are none.

        Args:
            option: what names the column of ids.
        """
        if not self.replaced:
            return ""
        who = "document has" if self.replaced == 1 else "documents have"
        each = "it" if self.replaced == 1 else "each"
        return (
            f"{self.replaced:,} {who} the doc_id of an earlier one, and another text: {each} took "
            f"its place ({self.documents:,} documents, {self.ids:,} ids). Where ids are not "
            f"unique, name another {option}"
        )


class RepeatedIds:
    """
    Counts, of some documents, those with the doc_id of an earlier one and another text.

    Attributes:
        redelivered: how many are originals that came again, with the same text.

    Cost: 16 bytes per document.
    """

    def __init__(self) -> None:
        self.redelivered = 0
        self._named = array("Q")  # of each document the hashes of its doc_id and of its text

    def take(self, rows: JudgedRows) -> None:
        """Note judged rows."""
        part = rows.record.between(rows.first, rows.stop)
        is_compared = np.isin(part.kinds, (RowKind.FULL, RowKind.SHORT))
        named = np.stack(
            (part.doc_ids.hashes(_KEY), np.where(is_compared, part.fingerprints, 0)), axis=1
        )
        self._named.frombytes(named[part.kinds != RowKind.DEAD].tobytes())
        self.redelivered += int((rows.judged.remarks == ReasonCode.REDELIVERED).sum())

    def repeats(self) -> Repeats:
        """Return the counts so far."""
        ids, texts = np.frombuffer(self._named, np.uint64).reshape(-1, 2).T
        different = len(np.unique(ids))
        replaced = len(np.unique(ids * np.uint64(3) ^ texts)) - different
        return Repeats(replaced, len(ids), different, self.redelivered)
