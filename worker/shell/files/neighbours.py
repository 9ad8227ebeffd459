"""The originals nearest to a document, however far away: what `Deduplicator.nearest` returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.fields import format_timestamp
from worker.core.document import Original
from worker.core.pairs import nearest
from worker.core.sketch import sketch_of, sketch_similarity
from worker.log.originals import OriginalStore
from worker.log.record import Row, RowKind
from worker.shell.files.archives.rows import brought_url


class Neighbour(NamedTuple):
    """
    An original near a document: the bits in which they differ, and the similarity that a verdict
    would have.

    >>> Neighbour(Original("a", "https://example.org/", 0), 3, 0.94)
    Neighbour(doc_id='a', url='https://example.org/', distance=3, similarity=0.94)
    """

    original: Original  # as the log has it: with a URL and a time even if the document brought none
    distance: int
    similarity: float

    @property
    def doc_id(self) -> str:
        """The original's doc_id."""
        return self.original.doc_id

    @property
    def url(self) -> str | None:
        """The original's URL; None if it had none."""
        return brought_url(self.original.url)

    @property
    def fetched_at_ms(self) -> int | None:
        """The original's fetch time, Unix ms; None if it had none."""
        return self.original.fetched_at_ms or None

    def __repr__(self) -> str:
        shown_fields = {"doc_id": self.doc_id, "url": self.url}
        if self.fetched_at_ms is not None:
            shown_fields["fetched_at"] = format_timestamp(self.fetched_at_ms)
        brought = {name: value for name, value in shown_fields.items() if value is not None}
        text = "".join(f"{name}={value!r}, " for name, value in brought.items())
        return f"Neighbour({text}distance={self.distance}, similarity={self.similarity})"


def nearest_originals(held: OriginalStore, row: Row, count: int) -> list[Neighbour]:
    """
    Return the originals nearest to a row, by distance, at most `count`; never the row's own.

    Cost: a scan of all originals.
    """
    stop = len(held)
    is_asked = (held.live.slice(held.oldest, stop) == 1) & (
        held.kinds.slice(held.oldest, stop) == row.kind
    )
    if row.kind == RowKind.SHORT:
        is_asked &= held.digests.slice(held.oldest, stop) == np.uint64(row.digest)
    elif row.kind != RowKind.FULL:
        return []
    rows = held.oldest + np.flatnonzero(is_asked)
    values = held.fingerprints.slice(held.oldest, stop)[is_asked]
    near = nearest(values, rows.astype(np.uint32), row.fingerprint, count + 1)
    sketches = held.sketches.take(np.array([at for at, _ in near], np.int64)).tolist()
    neighbours = []
    for (at, bits), sketch in zip(near, sketches, strict=True):
        alike = (
            1.0
            if row.kind == RowKind.SHORT
            else sketch_similarity(row.sketch, sketch_of(sketch)) / 1_000
        )
        neighbours.append(Neighbour(held.get(at), bits, alike))
    return [neighbour for neighbour in neighbours if neighbour.original.doc_id != row.doc_id][
        :count
    ]
