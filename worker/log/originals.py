"""The originals: what a verdict says of the document that was first (doc_id, URL, fetch time), by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import Original

__all__ = ["Originals"]


class Originals:
    """
    Rows in insertion order, appended and read, never changed.

    >>> originals = Originals()
    >>> originals.append([5], [b"a"], [b"https://example.org/"])
    0
    >>> originals.get(0)
    Original(doc_id='a', url='https://example.org/', fetched_at_ms=5)
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        self._texts: list[tuple[bytes, bytes]] = []

    def __len__(self) -> int:
        return len(self._times)

    def append(
        self, fetched_at_ms: NDArray[np.int64] | Sequence[int], doc_ids: Iterable[bytes], urls: Iterable[bytes]
    ) -> int:
        """Add originals, texts as UTF-8 bytes; gives the row of the first of them."""
        first = len(self._times)
        texts = list(zip(doc_ids, urls, strict=True))
        if len(texts) != len(fetched_at_ms):
            raise ValueError(f"columns of one length, got {len(fetched_at_ms)} times and {len(texts)} doc_ids")
        self._times.extend(int(time) for time in fetched_at_ms)
        self._texts.extend(texts)
        return first

    def get(self, row: int) -> Original:
        """The original of this row. Raises IndexError where there is none."""
        if not 0 <= row < len(self._times):
            raise IndexError(f"row {row} of {len(self._times)} originals")
        doc_id, url = self._texts[row]
        return Original(doc_id.decode("utf-8", "surrogatepass"), url.decode("utf-8", "surrogatepass"), self._times[row])
