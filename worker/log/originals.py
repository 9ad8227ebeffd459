"""
The originals: what a verdict says of the document that was first (doc_id, URL, fetch time), by row.

    times        t0 t1 t2 …            one number a row
    doc_ids      ends 3 7 7 …          where each text stops; it starts where the one before it stops
                 bytes abcdefg…        all texts back to back
    urls         the same again

Columns in chunks: no Python object a row, growing copies nothing, and a snapshot is the chunks themselves. A row costs
24 bytes and its texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import Original
from worker.log.columns import Column
from worker.log.texts import Texts

__all__ = ["Originals"]


class _TextColumn:
    """Texts by row, appended and read."""

    __slots__ = ("data", "ends")

    def __init__(self) -> None:
        self.ends: Column[np.int64] = Column(np.int64)
        self.data: Column[np.uint8] = Column(np.uint8)

    def append(self, texts: Texts) -> None:
        self.ends.append(len(self.data) + texts.ends)
        self.data.append(texts.data[: texts.ends[-1]] if len(texts) else texts.data[:0])

    def get(self, row: int) -> str:
        first = self.ends[row - 1] if row else 0
        return self.data.slice(first, self.ends[row]).tobytes().decode("utf-8", "surrogatepass")


class Originals:
    """
    Rows in insertion order, appended and read, never changed.

    >>> originals = Originals()
    >>> originals.append(np.array([5]), Texts.of([b"a"]), Texts.of([b"https://example.org/"]))
    0
    >>> originals.get(0)
    Original(doc_id='a', url='https://example.org/', fetched_at_ms=5)
    """

    def __init__(self) -> None:
        self._times: Column[np.int64] = Column(np.int64)
        self._doc_ids, self._urls = _TextColumn(), _TextColumn()

    def __len__(self) -> int:
        return len(self._times)

    def append(self, fetched_at_ms: NDArray[np.int64], doc_ids: Texts, urls: Texts) -> int:
        """Add originals; gives the row of the first of them."""
        first = len(self)
        if not len(fetched_at_ms) == len(doc_ids) == len(urls):
            raise ValueError(
                f"columns of one length, got {len(fetched_at_ms)} times, {len(doc_ids)} doc_ids and {len(urls)} urls"
            )
        self._times.append(fetched_at_ms)
        self._doc_ids.append(doc_ids)
        self._urls.append(urls)
        return first

    def get(self, row: int) -> Original:
        """The original of this row. Raises IndexError where there is none."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} originals")
        return Original(self._doc_ids.get(row), self._urls.get(row), self._times[row])

    def pieces(self) -> dict[str, Sequence[NDArray[np.generic]]]:
        """Give the content as named columns, each in pieces that later rows do not change. Copies nothing."""
        return {
            "times": self._times.pieces(),
            "doc_id_ends": self._doc_ids.ends.pieces(),
            "doc_id_bytes": self._doc_ids.data.pieces(),
            "url_ends": self._urls.ends.pieces(),
            "url_bytes": self._urls.data.pieces(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Originals:
        """The originals whose columns are `arrays`, by the names of `pieces`; it refers to them, and writes nowhere."""
        originals = cls()
        originals._times = Column.from_array(np.int64, arrays["times"].astype(np.int64, copy=False))
        for texts, name in ((originals._doc_ids, "doc_id"), (originals._urls, "url")):
            texts.ends = Column.from_array(np.int64, arrays[f"{name}_ends"].astype(np.int64, copy=False))
            texts.data = Column.from_array(np.uint8, arrays[f"{name}_bytes"].astype(np.uint8, copy=False))
        return originals
