"""
The clusters of what a Deduplicator has judged: originals, and the documents that are copies of
them.

If a doc_id comes again with a text that is not near its former one, it is no original of its former
copies any more: they are in no cluster. Copies of the new text would otherwise share one with them.
A deleted original stays in its cluster, which gets no more copies.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from worker.core.search import SearchRules
from worker.core.sketch import sketch_similarities
from worker.log.judge import JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.shell.messages import strings


class DuplicateClusters:
    """
    Knows of each duplicate which original it is a copy of.

    Args:
        search: says which texts are near.
        pairs: duplicates with their originals, as `pairs` returns them.

    Cost: of memory, a doc_id as `str` and its entry in a dict for each duplicate, and the same with
    a list for each cluster.
    """

    def __init__(self, search: SearchRules, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._search = search
        # Each cluster is a list with the doc_id of its original, empty when that has another text.
        self._now: dict[str, list[str]] = {}  # by this doc_id
        self._of: dict[str, list[str]] = {}  # by the doc_ids of duplicates, in order
        for duplicate, original in pairs:
            self._put(duplicate, original)

    def _put(self, duplicate: str, original: str) -> None:
        self._of[duplicate] = self._now.setdefault(original, [original])

    def take(self, rows: JudgedRows, held: OriginalStore) -> None:
        """Note judged rows, with the originals that they name."""
        part = rows.record.between(rows.first, rows.stop)
        duplicates = np.flatnonzero(rows.judged.originals >= 0)
        originals, _urls = held.texts.take(rows.judged.originals[duplicates])
        original_at = dict(zip(duplicates.tolist(), strings(originals), strict=True))
        is_changed = _are_changed(rows, held, self._search)
        doc_ids = strings(part.doc_ids)
        for place in np.flatnonzero(part.kinds != RowKind.DEAD).tolist():
            doc_id = doc_ids[place]
            self._of.pop(doc_id, None)
            if is_changed[place]:
                self._now.pop(doc_id, []).clear()
            elif part.kinds[place] == RowKind.DELETED:
                self._now.pop(doc_id, None)
            if place in original_at:
                self._put(doc_id, original_at[place])

    def pairs(self) -> list[tuple[str, str]]:
        """Return each duplicate with its original, in the order in which they were judged."""
        return [(duplicate, cluster[0]) for duplicate, cluster in self._of.items() if cluster]

    def lists(self) -> list[list[str]]:
        """Return the doc_ids of each cluster, its original first."""
        found: dict[int, list[str]] = {}
        for duplicate, cluster in self._of.items():
            if cluster:
                found.setdefault(id(cluster), [*cluster]).append(duplicate)
        return list(found.values())


def _are_changed(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> NDArray[np.bool_]:
    """Return for each row whether the original with its doc_id had a text that is not near."""
    part = rows.record.between(rows.first, rows.stop)
    found = np.flatnonzero(rows.judged.formers >= 0)
    formers = rows.judged.formers[found]
    doc_ids, _urls = held.texts.take(formers)
    is_own = doc_ids.equal_to(part.doc_ids.take(found))
    is_near = held.digests.take(formers) == part.digests[found]
    is_full = (part.kinds[found] == RowKind.FULL) & (held.kinds.take(formers) == RowKind.FULL)
    alike = sketch_similarities(part.sketches[found], held.sketches.take(formers))
    is_near |= is_full & (alike >= search.similarity_thousandths)
    is_changed = np.zeros(len(part), np.bool_)
    is_changed[found] = is_own & ~is_near
    return is_changed
