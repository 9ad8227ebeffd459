"""
The originals: what a verdict says of the document that was first (doc_id, URL, fetch time), by row.

    times    t0 t1 t2 …          one number a row
    texts    begins 0 3 7 …      two a row, doc_id and URL, where each starts; it stops where the next one starts
             bytes abcdefg…      all texts back to back: what a verdict says of an original lies on one page

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
from worker.log.columns import Column, Memory
from worker.log.texts import Texts


class _TextColumn:
    """Texts by number, appended and read."""

    __slots__ = ("begins", "data")

    def __init__(self, memory: Memory) -> None:
        self.begins: Column[np.int64] = Column(np.int64, columns.ROWS_BITS + 1, memory)
        self.data: Column[np.uint8] = Column(np.uint8, columns.BYTES_BITS, memory)

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

    Args:
        memory: where they lie.

    >>> originals = Originals()
    >>> originals.append(np.array([5]), Texts.of([b"a"]), Texts.of([b"https://example.org/"]))
    0
    >>> originals.get(0)
    Original(doc_id='a', url='https://example.org/', fetched_at_ms=5)
    """

    def __init__(self, memory: Memory = columns.anonymous) -> None:
        self._times: Column[np.int64] = Column(np.int64, memory=memory)
        self._texts = _TextColumn(memory)

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
        both = Texts.joined([doc_ids, urls])
        self._texts.append(both.take(np.arange(len(both)).reshape(2, -1).T.ravel()))
        return first

    @property
    def first(self) -> int:
        """The first row that is kept."""
        return self._times.first

    @property
    def firsts(self) -> tuple[int, int]:
        """The first row that is kept, and the first byte of the texts that is."""
        return self.first, self._texts.data.first

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._times.nbytes + self._texts.begins.nbytes + self._texts.data.nbytes

    def get(self, row: int) -> Original:
        """Return the original of this row. Raises IndexError where there is none, or none any more."""
        if not self.first <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} originals, of which the first {self.first} are forgotten")
        doc_id, url = (text.decode("utf-8", "surrogatepass") for text in (self.doc_id(row), self.url(row)))
        return Original(doc_id, url, self._times[row])

    def doc_id(self, row: int) -> bytes:
        """Return the doc_id of this row, as UTF-8."""
        return self._texts.get(2 * row)

    def url(self, row: int) -> bytes:
        """Return the URL of this row, as UTF-8."""
        return self._texts.get(2 * row + 1)

    def between(self, first: int, stop: int) -> tuple[NDArray[np.int64], Texts, Texts]:
        """Return the fetch times, doc_ids and URLs of rows [first, stop)."""
        both, evens = self._texts.between(2 * first, 2 * stop), np.arange(0, 2 * (stop - first), 2)
        return self._times.slice(first, stop), both.take(evens), both.take(evens + 1)

    def times(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fetch times of these rows."""
        return self._times.take(rows)

    def texts(self, rows: NDArray[np.int64]) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of these rows, as columns of their own. Cost: some 0.5 µs a row."""
        return self._texts.gather(2 * rows), self._texts.gather(2 * rows + 1)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Ask the system for these rows, see `Column.will_need`: first where their texts are, then the texts."""
        self._times.will_need(rows)
        self._texts.begins.will_need(2 * rows)
        begins = self._texts.begins.take(2 * rows)
        self._texts.data.will_need(begins[begins < len(self._texts.data)])  # the last may be empty

    def forget(self, row: int) -> None:
        """Free the memory of rows below `row`, in whole chunks."""
        self._times.forget(row)
        self._texts.forget(2 * row)

    def pieces(self) -> dict[str, Sequence[NDArray[np.generic]]]:
        """Return what is kept as named columns, each in pieces that later rows do not change. Copies nothing."""
        return {
            "times": self._times.pieces(),
            "text_begins": self._texts.begins.pieces(),
            "text_bytes": self._texts.data.pieces(),
        }

    def like(self, arrays: Mapping[str, NDArray[Any]], firsts: Sequence[int] = (0, 0)) -> Originals:
        """
        Return others in the same memory, whose columns are `arrays` by the names of `pieces`, and begin at `firsts`.

        They refer to the arrays, and write nowhere there.
        """
        originals = Originals()
        first, first_byte = firsts
        originals._times = self._times.like(arrays["times"], first)
        originals._texts.begins = self._texts.begins.like(arrays["text_begins"], 2 * first)
        originals._texts.data = self._texts.data.like(arrays["text_bytes"], first_byte)
        return originals
