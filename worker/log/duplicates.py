"""
The texts of duplicates: which original each of them was found to be a copy of.

A search compares a document with the originals that are there at the time. So the copy of a text
that was a duplicate yesterday can be new today, if other originals that have come since are as
similar to it, and the best one no longer stands out. A reader would see two equal texts, one of
them removed and one kept. So a text that has been found a duplicate is remembered, and its copies
are duplicates of the same original for as long as that one is there.

    digest of the text ──► number ──► entry: digest | row of the original

    number    0 … first    first …              length
    entries   forgotten    the latest of each digest counts

What is remembered
- Only texts that a search has found near an original. A copy of an original needs no memory: it is
  found before the search (`core.tables.equal`). In a crawl these are most of the copies.
- The text's digest, 64 bits. Two texts with one digest do no harm: the original that is found is
  still held against the document's own fingerprint and sketch (`core.search.again`). At 10^9 texts
  that are remembered, a new one has the digest of another one 5 times in 10^11.
- As many texts as there are originals, and TEXTS_MIN in any case; beyond, the oldest are forgotten.
  A hot page can have millions of different near copies. As retention does, this acts between
  records, in steps of `1 << STEP_BITS`.

An original that leaves takes its duplicates with it: its row is never used again, so entries that
name it find nothing. One that retention keeps for longer gets another row; `OriginalStore` follows
it there.

Rejected, and why
- A table with the digests of all originals, to answer their copies before the search: 10 bytes per
  original, and in a crawl of which a quarter are exact copies the judge would be at most 1.10 to
  1.15 times as fast at 10 M originals if these copies cost nothing at all, because they are not
  searched for already.
- Entering such texts into the index: each would take as much memory as an original, would take the
  place of one in a crowded prefix, and chains of duplicates could form.
- A number of texts per original: what is remembered of a record's rows would depend on how many of
  them turn out to be duplicates of one original, so equal rows of a record could not be searched
  in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.hash_table import HashTable
from worker.log.columns import ChunkedColumn, Field, Memory, anonymous

ENTRY = np.dtype([("digests", "<u8"), ("originals", "<u4")])
NO_ROW = (1 << 32) - 1  # stands for an original that has left
# Both are part of what the log means: other values, other verdicts.
TEXTS_MIN = 1 << 20  # remembered in any case: 26 MB
STEP_BITS = 16  # texts that are forgotten at a time, as a power of two
# Numbers have 32 bits in the table. A record adds at most a million, so this is early enough to
# begin anew.
TEXTS_STOP = 3 << 30


class DuplicateTexts:
    """
    Digests of texts that were found to be near an original, and the row of that original.

    Rows may be those of originals that have left; the caller knows (`OriginalStore`).

    Args:
        memory: where the entries lie. The table of 10 bytes per entry is in this process's memory.

    >>> texts = DuplicateTexts()
    >>> texts.remember(np.array([7, 8], np.uint64), np.array([0, 1]))
    >>> texts.remember(np.array([7], np.uint64), np.array([5]))
    >>> texts.find(np.array([7, 8, 9], np.uint64)).tolist()
    [5, 1, -1]
    """

    def __init__(self, memory: Memory = anonymous) -> None:
        self.memory = memory
        self.refer(ChunkedColumn(ENTRY, STEP_BITS, memory))

    def refer(self, entries: ChunkedColumn[Any]) -> None:
        """Have these entries, and make the table. Cost: some 0.2 µs per entry."""
        self.entries = entries
        self._digests: Field[np.uint64] = Field(entries, "digests")
        self._originals: Field[np.uint32] = Field(entries, "originals")
        digests = self._digests.slice(entries.first, len(entries))
        numbers = entries.first + _latest(digests)
        self._table = HashTable(self._digests.take, len(numbers))
        self._table.insert(digests[numbers - entries.first], numbers.astype(np.uint32))

    def __len__(self) -> int:
        """Return how many texts are remembered."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def find(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """
        Return the row of the original that each text was a duplicate of, -1 if it is not known.

        Cost: 50 ns per digest, and two cache misses for one that is found.
        """
        originals = self._numbers(digests)
        places = np.flatnonzero(originals >= 0)
        rows = self._originals.take(originals[places]).astype(np.int64)
        originals[places] = np.where(rows == NO_ROW, -1, rows)
        return originals

    def _numbers(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of each digest's entry, -1 where there is none."""
        numbers = self._table.find(digests)
        places = np.flatnonzero(numbers >= 0)
        # The table has a few bits of each digest only, so another one's entry may have been found.
        is_other = self._digests.take(numbers[places]) != digests[places]
        for at in places[is_other].tolist():
            own = int(digests[at])
            equal = (number for number in self._table.find_all(own) if self._digests[number] == own)
            numbers[at] = next(equal, -1)
        return numbers

    def remember(self, digests: NDArray[np.uint64], originals: NDArray[np.int64]) -> None:
        """
        Note of which originals texts are duplicates; the latest note of a text counts.

        Cost: some 0.2 µs per text.
        """
        if not len(digests):
            return
        numbers = self._numbers(digests)
        known = np.unique(numbers[numbers >= 0])
        self._table.delete_many(self._digests.take(known), known.astype(np.uint32))
        first = len(self.entries)
        entries = np.empty(len(digests), ENTRY)
        entries["digests"] = digests
        entries["originals"] = originals
        self.entries.append(entries)
        latest = _latest(digests)
        self._table.insert(digests[latest], (first + latest).astype(np.uint32))

    def will_need(self, digests: NDArray[np.uint64]) -> None:
        """Prefetch the entries of these texts."""
        numbers = self._table.find(digests)
        self.entries.will_need(numbers[numbers >= 0])

    def forget_beyond(self, count: int) -> None:
        """
        Forget the oldest texts, if there are more than `count`, or than TEXTS_MIN.

        Only whole steps are forgotten, so some more may stay. Cost: 50 ns per forgotten text.
        """
        entries = self.entries
        step = entries.size
        excess = len(entries) - entries.first - max(count, TEXTS_MIN)
        if excess >= step:
            stop = entries.first + excess // step * step
            digests = self._digests.slice(entries.first, stop)
            numbers = np.arange(entries.first, stop, dtype=np.uint32)
            self._table.delete_many(digests, numbers)  # those that no longer count are not there
            entries.forget(stop)
        if len(entries) >= TEXTS_STOP:
            self.refer(entries.like(entries.slice(entries.first, len(entries))))

    def may_forget(self, texts: int, count: int) -> bool:
        """
        Return whether `forget_beyond` might forget any, once up to `texts` more have been added.

        `count` is the smallest number that it might be called with until then.
        """
        entries = self.entries
        length = len(entries) + texts
        excess = length - entries.first - max(count, TEXTS_MIN)
        return excess >= entries.size or length >= TEXTS_STOP

    def rename(self, renamed: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        """
        Give the originals other rows.

        Args:
            renamed: returns the new rows of some rows, -1 for those of originals that have left.
        Cost: some 20 ns per entry, and what `renamed` costs.
        """
        old = self.entries
        entries: ChunkedColumn[Any] = old.like(np.empty(0, ENTRY), old.first)
        for begin in range(old.first, len(old), old.size):
            part = old.slice(begin, min(begin + old.size, len(old))).copy()
            rows = part["originals"].astype(np.int64)
            is_named = rows != NO_ROW
            rows[is_named] = renamed(rows[is_named])
            part["originals"] = np.where(is_named & (rows >= 0), rows, NO_ROW)
            entries.append(part)
        self.entries = entries
        self._digests.rows = self._originals.rows = entries

    def check(self) -> None:
        """Assert that the table has the latest entry of each digest, and nothing else."""
        entries = self.entries
        latest = _latest(self._digests.slice(entries.first, len(entries)))
        assert self._table.rows.tolist() == (entries.first + np.sort(latest)).tolist()


def _latest(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """
    Return the last place of each digest.

    >>> _latest(np.array([7, 5, 7], np.uint64)).tolist()
    [1, 2]
    """
    _, places = np.unique(digests[::-1], return_index=True)
    return np.sort(len(digests) - 1 - places)
