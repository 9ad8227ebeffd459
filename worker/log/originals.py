"""
The originals: what a verdict says of the document that was first (doc_id, URL, fetch time), by row.

    times        t0 t1 t2 …            one number a row
    doc_ids      begins 0 3 7 …        where each text starts; it stops where the next one starts
                 bytes abcdefg…        all texts back to back
    urls         the same again

Columns in chunks: no Python object a row, growing copies nothing, and a snapshot is the chunks themselves. A row costs
24 bytes and its texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import Original
from worker.log import columns
from worker.log.columns import Column
from worker.log.texts import Texts

__all__ = ["Originals"]


class _TextColumn:
    """Texts by row, appended and read."""

    __slots__ = ("begins", "data")

    def __init__(self) -> None:
        self.begins: Column[np.int64] = Column(np.int64)
        self.data: Column[np.uint8] = Column(np.uint8, columns.BYTES_BITS)

    def __len__(self) -> int:
        return len(self.begins)

    def append(self, texts: Texts) -> None:
        if len(texts):
            self.begins.append(len(self.data) + np.concatenate([[0], texts.ends[:-1]]))
            self.data.append(texts.data[: texts.ends[-1]])

    def get(self, row: int) -> bytes:
        stop = self.begins[row + 1] if row + 1 < len(self.begins) else len(self.data)
        return self.data.slice(self.begins[row], stop).tobytes()

    def between(self, first: int, stop: int) -> Texts:
        if first == stop:
            return Texts.of([])
        begins = self.begins.slice(first, stop)
        end = self.begins[stop] if stop < len(self.begins) else len(self.data)
        return Texts(self.data.slice(int(begins[0]), end), np.append(begins[1:], end) - begins[0])

    def gather(self, rows: NDArray[np.int64]) -> Texts:
        begins = self.begins.take(rows)
        ends = np.full(len(rows), len(self.data))
        ends[rows + 1 < len(self)] = self.begins.take(rows[rows + 1 < len(self)] + 1)
        return Texts.of(self.data.cut(begins, ends))

    def forget(self, row: int) -> None:
        self.begins.forget(row)
        if len(self.begins):
            self.data.forget(self.begins[self.begins.first])


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
        """Add originals; returns the row of the first of them."""
        first = len(self)
        if not len(fetched_at_ms) == len(doc_ids) == len(urls):
            raise ValueError(
                f"columns of one length, got {len(fetched_at_ms)} times, {len(doc_ids)} doc_ids and {len(urls)} urls"
            )
        self._times.append(fetched_at_ms)
        self._doc_ids.append(doc_ids)
        self._urls.append(urls)
        return first

    @property
    def first(self) -> int:
        """The first row that is kept."""
        return self._times.first

    @property
    def firsts(self) -> tuple[int, int, int]:
        """The first row that is kept, and the first byte of the doc_ids and of the URLs that is."""
        return self.first, self._doc_ids.data.first, self._urls.data.first

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._times.nbytes + sum(texts.begins.nbytes + texts.data.nbytes for texts in self._texts())

    def _texts(self) -> tuple[_TextColumn, _TextColumn]:
        return self._doc_ids, self._urls

    def get(self, row: int) -> Original:
        """Return the original of this row. Raises IndexError where there is none, or none any more."""
        if not self.first <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} originals, of which the first {self.first} are forgotten")
        doc_id, url = (texts.get(row).decode("utf-8", "surrogatepass") for texts in self._texts())
        return Original(doc_id, url, self._times[row])

    def doc_id(self, row: int) -> bytes:
        """Return the doc_id of this row, as UTF-8."""
        return self._doc_ids.get(row)

    def url(self, row: int) -> bytes:
        """Return the URL of this row, as UTF-8."""
        return self._urls.get(row)

    def between(self, first: int, stop: int) -> tuple[NDArray[np.int64], Texts, Texts]:
        """Return the fetch times, doc_ids and URLs of rows [first, stop)."""
        return self._times.slice(first, stop), self._doc_ids.between(first, stop), self._urls.between(first, stop)

    def times(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fetch times of these rows."""
        return self._times.take(rows)

    def texts(self, rows: NDArray[np.int64]) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of these rows, as columns of their own. Cost: some 0.5 µs a row."""
        return self._doc_ids.gather(rows), self._urls.gather(rows)

    def forget(self, row: int) -> None:
        """Free the memory of rows below `row`, in whole chunks."""
        self._times.forget(row)
        for texts in self._texts():
            texts.forget(row)

    def pieces(self) -> dict[str, Sequence[NDArray[np.generic]]]:
        """Return what is kept as named columns, each in pieces that later rows do not change. Copies nothing."""
        return {
            "times": self._times.pieces(),
            "doc_id_begins": self._doc_ids.begins.pieces(),
            "doc_id_bytes": self._doc_ids.data.pieces(),
            "url_begins": self._urls.begins.pieces(),
            "url_bytes": self._urls.data.pieces(),
        }

    def adopt(self, arrays: Mapping[str, NDArray[Any]], firsts: Sequence[int]) -> list[NDArray[Any]]:
        """Refer to arrays of the same content, by the names of `pieces`; returns the chunks replaced."""
        first, *first_bytes = firsts
        old: list[NDArray[Any]] = [*self._times.adopt(arrays["times"], first)]
        for texts, name, byte in zip(self._texts(), ("doc_id", "url"), first_bytes, strict=True):
            old += texts.begins.adopt(arrays[f"{name}_begins"], first)
            old += texts.data.adopt(arrays[f"{name}_bytes"], byte)
        return old

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], firsts: Sequence[int] = (0, 0, 0)) -> Originals:
        """
        Return the originals whose columns are `arrays` by the names of `pieces`, and begin at `firsts`.

        It refers to the arrays, and writes nowhere.
        """
        originals = cls()
        first, *first_bytes = firsts
        originals._times = Column.from_array(np.int64, arrays["times"].astype(np.int64, copy=False), first)
        for texts, name, byte in zip(originals._texts(), ("doc_id", "url"), first_bytes, strict=True):
            begins = arrays[f"{name}_begins"].astype(np.int64, copy=False)
            texts.begins = Column.from_array(np.int64, begins, first)
            texts.data = Column.from_array(
                np.uint8, arrays[f"{name}_bytes"].astype(np.uint8, copy=False), byte, columns.BYTES_BITS
            )
        return originals
