"""
A column of texts as UTF-8 bytes, back to back, and where each ends: no object per text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

_ALL = (1 << 64) - 1


class Texts:
    """
    Texts of one column, read only.

    Args:
        data: all texts, uint8. It is kept, not copied, as is `ends`.
        ends: where each text ends in it, and the next begins.
    Raises:
        ValueError: the ends do not ascend within the data: kernels would read elsewhere.

    >>> texts = Texts.of([b"a", b"", b"bcd"])
    >>> texts[2], texts[:2].tolist(), texts.hashes(0) == texts.hashes(1)
    (b'bcd', [b'a', b''], array([False, False, False]))
    """

    __slots__ = ("data", "ends")

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        if len(ends) and not (
            int(ends[0]) >= 0 and int(ends[-1]) <= len(data) and bool((ends[1:] >= ends[:-1]).all())
        ):
            raise ValueError(
                f"texts must end within their {len(data)} bytes and in order, "
                f"got {ends[:3]} … {ends[-1]}"
            )
        self.data = data
        self.ends = ends

    @classmethod
    def _of_checked(cls, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> Texts:
        """Return a column that was made of others: looking through its ends took 20 µs a column."""
        texts: Texts = cls.__new__(cls)
        texts.data = data
        texts.ends = ends
        return texts

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """Return the column of these texts. Cost: O(bytes)."""
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        return cls(np.frombuffer(b"".join(texts), np.uint8), ends)

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """Return the texts of all parts, in order. Cost: O(bytes)."""
        sizes = [int(part.ends[-1]) if len(part) else 0 for part in parts]
        starts = np.cumsum([0, *sizes[:-1]])
        return cls._of_checked(
            np.concatenate([part.data[:size] for part, size in zip(parts, sizes, strict=True)]),
            np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)]),
        )

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, row: int) -> bytes: ...

    @overload
    def __getitem__(self, row: slice) -> Texts: ...

    def __getitem__(self, row: int | slice) -> bytes | Texts:
        if isinstance(row, slice):
            first, stop, step = row.indices(len(self))
            if step != 1:
                raise ValueError(
                    f"the step of a slice of texts must be 1, got {step}: "
                    "`take` returns texts in any order"
                )
            ends = self.ends[first:stop]
            begin = self.ends[first - 1] if first and len(ends) else 0
            return self._of_checked(
                self.data[begin : ends[-1] if len(ends) else begin], ends - begin
            )
        row = range(len(self))[row]  # from the end if it is negative
        begin = self.ends[row - 1] if row else 0
        return self.data[begin : self.ends[row]].tobytes()

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The bytes of each text. `np.diff(ends, prepend=0)` takes 50 µs more."""
        sizes = self.ends.copy()
        sizes[1:] -= self.ends[:-1]
        return sizes

    def tolist(self) -> list[bytes]:
        """Return the texts as objects. Cost: some 0.1 µs per text."""
        if not len(self) or not self.ends[-1]:
            return [b""] * len(self)
        whole = self.data[: self.ends[-1]].tobytes()
        return [whole[begin:end] for begin, end in pairwise([0, *self.ends.tolist()])]

    def utf8_fault(self) -> str:
        """
        Return what is wrong with a text that is not UTF-8 by itself; "" if all of them are.

        A lone surrogate is taken, since JSON may have one. Cost: 0.1 ns per byte where all are
        ASCII, else that of decoding them.

        >>> Texts.of(["é".encode()[:1], "é".encode()[1:]]).utf8_fault()
        'begins in the middle of a character'
        """
        data = self.data[: self.ends[-1]] if len(self) else self.data[:0]
        if not len(data) or data.max() < 0x80:
            return ""
        try:
            data.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            return f"is not UTF-8: {error.reason}"
        begins = self.ends[:-1]
        if (data[begins[begins < len(data)]] & 0xC0 == 0x80).any():
            return "begins in the middle of a character"
        return ""

    def starting_with(self, prefix: bytes) -> NDArray[np.int64]:
        """
        Return the rows whose texts start with these bytes. Cost: some 10 ns per text.

        >>> Texts.of([b"ab", b"a", b"b", b"abc"]).starting_with(b"ab").tolist()
        [0, 3]
        """
        sizes = self.sizes
        rows = np.flatnonzero(sizes >= len(prefix))
        for place, byte in enumerate(prefix):
            begins = self.ends[rows] - sizes[rows]
            rows = rows[self.data[begins + place] == byte]
        return rows

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """
        Return the texts of these rows as a column of its own.

        Rows that follow one another are a view; others are copied.

        Raises IndexError: a row is not there. Cost: some 40 ns per text that is copied.
        """
        if not len(rows):
            return Texts(np.empty(0, np.uint8), np.empty(0, np.int64))
        low = int(rows.min())
        high = int(rows.max())
        if low < 0 or high >= len(self):
            raise IndexError(f"rows must lie in [0, {len(self)}), got {low} to {high}")
        if high - low + 1 == len(rows) and bool((rows[1:] - rows[:-1] == 1).all()):
            return self[low : high + 1]
        begins = np.where(rows > 0, self.ends[rows - 1], 0)
        ends = np.cumsum(self.ends[rows] - begins)
        # Here, since settings must load without numba.
        from worker.core.kernels.texts import take_texts  # noqa: PLC0415

        taken = np.empty(int(ends[-1]), np.uint8)
        data = self.data.view()
        # The kernel is compiled for read-only data only, because some texts are read-only.
        data.flags.writeable = False
        take_texts(data, self.ends, rows, taken)
        return self._of_checked(taken, ends)

    def hashes(self, key: int) -> NDArray[np.uint64]:
        """
        Return the SipHash-1-3 of each text under a key of 128 bits. Cost: 20 ns per text.

        With a secret key, an attacker cannot choose texts whose hashes collide.
        """
        # Here, since settings must load without numba.
        from worker.core.kernels.machine import SLACK  # noqa: PLC0415
        from worker.core.kernels.texts import hash_texts  # noqa: PLC0415

        hashes = np.empty(len(self), np.uint64)
        stop = int(self.ends[-1]) if len(self) else 0
        padded = np.empty(stop + SLACK, np.uint8)
        padded[:stop] = self.data[:stop]
        hash_texts(padded, self.ends, np.uint64(key & _ALL), np.uint64(key >> 64), hashes)
        return hashes

    def equal_to(self, others: Texts) -> NDArray[np.bool_]:
        """
        Return for each text whether it equals the one at its place in a column of the same length.

        >>> Texts.of([b"a", b"b", b""]).equal_to(Texts.of([b"a", b"c", b"d"])).tolist()
        [True, False, False]
        """
        # Here, since settings must load without numba.
        from worker.core.kernels.texts import equal_texts  # noqa: PLC0415

        equal = np.empty(len(self), np.bool_)
        # The kernel is compiled for read-only data only, because some texts are read-only.
        data = self.data.view()
        data.flags.writeable = False
        others_data = others.data.view()
        others_data.flags.writeable = False
        equal_texts(data, self.ends, others_data, others.ends, equal)
        return equal
