"""
The clusters of what a Deduplicator has judged: originals, and the documents that are copies of
them.

If a doc_id comes again with a text that is not near its former one, it is no original of its former
copies any more: they are in no cluster. Copies of the new text would otherwise share one with them.
A deleted original stays in its cluster, which gets no more copies and ends when that doc_id comes
again. So does the cluster of an original that retention has let go: its text is not known any more.
A doc_id thus names one cluster at most, and pairs of doc_ids tell all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.core.sketch import sketch_similarities
from worker.log.judge import JudgedRows, ReasonCode
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.shell.messages import strings


class DuplicateClusters:
    """
    Knows of each duplicate which original it is a copy of.

    Args:
        search: says which texts are near.
        pairs: duplicates with their originals, as `pairs` returns them.

    Cost: of memory, a doc_id as `str` and its entries in a dict and a set for each duplicate, and
    the same with a set for each cluster.
    """

    def __init__(self, search: SearchRules, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._search = search
        self._of: dict[str, str] = {}  # the originals of duplicates, in order
        self._copies: dict[str, set[str]] = {}  # the duplicates of each original, if any
        for duplicate, original in pairs:
            self._put(duplicate, original)

    def __len__(self) -> int:
        """Return how many duplicates are in clusters."""
        return len(self._of)

    def _put(self, duplicate: str, original: str) -> None:
        self._of[duplicate] = original
        self._copies.setdefault(original, set()).add(duplicate)

    def _leave(self, doc_id: str) -> None:
        """Take a document out of the cluster that it is a duplicate in, if any."""
        original = self._of.pop(doc_id, None)
        if original is not None:
            self._copies[original].remove(doc_id)
            if not self._copies[original]:
                del self._copies[original]

    def _end(self, original: str) -> None:
        """End the cluster of an original, if it has one."""
        for duplicate in self._copies.pop(original, ()):
            del self._of[duplicate]

    def take(self, rows: JudgedRows, held: OriginalStore) -> None:
        """Note judged rows, with the originals that they name."""
        part = rows.record.between(rows.first, rows.stop)
        duplicates = np.flatnonzero(rows.judged.originals >= 0)
        originals, _urls = held.texts.take(rows.judged.originals[duplicates])
        original_at = dict(zip(duplicates.tolist(), strings(originals), strict=True))
        is_other = _are_other_texts(rows, held, self._search)
        doc_ids = strings(part.doc_ids)
        for place in np.flatnonzero(part.kinds != RowKind.DEAD).tolist():
            doc_id = doc_ids[place]
            self._leave(doc_id)
            if is_other[place]:
                self._end(doc_id)
            if place in original_at:
                self._put(doc_id, original_at[place])

    def pairs(self) -> list[tuple[str, str]]:
        """Return each duplicate with its original, in the order in which they were judged."""
        return list(self._of.items())

    def lists(self) -> list[list[str]]:
        """Return the doc_ids of each cluster, its original first."""
        found: dict[str, list[str]] = {}
        for duplicate, original in self._of.items():
            found.setdefault(original, [original]).append(duplicate)
        return list(found.values())


def _are_other_texts(
    rows: JudgedRows, held: OriginalStore, search: SearchRules
) -> NDArray[np.bool_]:
    """Return for each row whether it has a text, and no original with its doc_id has one near."""
    part = rows.record.between(rows.first, rows.stop)
    found = np.flatnonzero(rows.judged.formers >= 0)
    formers = rows.judged.formers[found]
    doc_ids, _urls = held.texts.take(formers)
    is_own = doc_ids.equal_to(part.doc_ids.take(found))
    is_near = held.digests.take(formers) == part.digests[found]
    is_full = (part.kinds[found] == RowKind.FULL) & (held.kinds.take(formers) == RowKind.FULL)
    alike = sketch_similarities(part.sketches[found], held.sketches.take(formers))
    is_near |= is_full & (alike >= search.similarity_thousandths)
    is_other = np.isin(part.kinds, [RowKind.SHORT, RowKind.FULL])
    is_other &= rows.judged.remarks != ReasonCode.REDELIVERED
    is_other[found] &= ~(is_own & is_near)
    return is_other
