"""
Thin pages by what they are: their text, and their URL or their title.

Many pages of one host can show one short text, a consent box or a loader's sentence, each under a
title of its own. The search keeps them apart (`core.marks`), so each is an original. But it
compares 16 candidates, and all of them are equally near. When such a page is crawled again, its own
original is most probably not among them. So it is looked up here before the search:

    text + URL                  ──► its own original
    text + host + title         ──► its own original, crawled at another URL

Of each key there is at most one live original, since another page with that key would have been its
copy. "Text" is all that a search sees of it, and its digest.

Whose pages
- Thin ones have a mark, and fewer than FEATURES_MIN features. Longer pages with one text are copies
  of the first one, whatever their titles.
- Short texts have keys of their own (`originals.py`).

A title counts from TITLE_WORDS_MIN words on. A mark has its words as 31 bits, and with three words
each, one page in seven of a family of 2,000 would have the bits of another page's title.

Two tables, which are made of the columns: 20 bytes per original that is thin, and nothing in a
snapshot.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.hash_table import HashTable
from worker.core.marks import HOST_AND_TITLE, are_thin, titled_digests, titles_tell
from worker.log.columns import ChunkedColumn, Field, TextPairs
from worker.log.record import Rows
from worker.log.url_rules import UrlRules

NONE = -1
OF_URL = 0
OF_TITLE = 1
BOTH = (OF_URL, OF_TITLE)  # that of the URL counts first
_NUMBERS = ("fingerprints", "doubts", "digests")
TEXT_COLUMNS = (*_NUMBERS, "sketches")  # all that is known of a text


class ThinTables:
    """
    Rows of live thin originals, by their text and URL, and by their text, host and title.

    Args:
        rows: the column of `originals.ROW`.
        url_hashes: the hashes of the URLs by row.
        texts: the doc_ids and URLs by row.
        live: the originals to begin with.
        url_rules: which URLs name one page.
    """

    def __init__(
        self,
        rows: ChunkedColumn[Any],
        url_hashes: ChunkedColumn[np.uint64],
        texts: TextPairs,
        live: NDArray[np.int64],
        url_rules: UrlRules,
    ) -> None:
        self._rows = rows
        self._pages_of = url_rules.pages_of
        self._digests: Field[np.uint64] = Field(rows, "digests")
        self._marks: Field[np.uint64] = Field(rows, "marks")
        self._texts = texts
        # No methods of this object, whose tables they are: a cycle would be freed late.
        self._keys_of = (
            partial(_url_keys, self._digests, url_hashes),
            partial(_title_keys, self._digests, self._marks),
        )
        self._tables = tuple(
            HashTable(keys_of, len(listed))
            for keys_of, listed in zip(self._keys_of, self._listed(live), strict=True)
        )
        self.insert(live)

    def __len__(self) -> int:
        """Return the number of originals."""
        return len(self._tables[OF_URL])

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(table.nbytes for table in self._tables)

    def insert(self, rows: NDArray[np.int64]) -> None:
        """Enter those of some new originals that are thin. Cost: some 0.3 µs for each of them."""
        for by, listed in zip(BOTH, self._listed(rows), strict=True):
            self._tables[by].insert(self._keys_of[by](listed), listed.astype(np.uint32))

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Take out those of some originals that are thin. Cost: some 0.5 µs for each of them."""
        for by, listed in zip(BOTH, self._listed(rows), strict=True):
            self._tables[by].delete_many(self._keys_of[by](listed), listed.astype(np.uint32))

    def find(
        self, record: Rows, rows: NDArray[np.int64], url_hashes: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """
        Return the originals with the texts of some rows: OF_URL those of the same URL, OF_TITLE
        those of the same host and title.

        Args:
            record: the record.
            rows: of the record; all are thin.
            url_hashes: the hashes of their URLs.
        Returns:
            int64[2, n]: rows of originals, or NONE.

        Cost: two look-ups per row, and what the columns have of a row that is found.
        """
        keys = _keys(record, rows, url_hashes)
        found = self._found(record, rows, keys)
        for by in BOTH:
            places = np.flatnonzero(found[by] != NONE)
            is_same = self._are_same(by, found[by, places], record, rows[places])
            # The table has a few bits of each key only, so another page's row may have been found.
            for at in places[~is_same].tolist():
                others = np.array(self._tables[by].find_all(int(keys[by][at])), np.int64)
                is_same = self._are_same(by, others, record, np.full(len(others), rows[at]))
                found[by, at] = others[is_same][0] if is_same.any() else NONE
        return found

    def candidates(
        self, record: Rows, rows: NDArray[np.int64], url_hashes: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Return what the tables find for some rows, before `find` has compared the texts."""
        found = self._found(record, rows, _keys(record, rows, url_hashes))
        candidates: NDArray[np.int64] = found[found != NONE]
        return candidates

    def _found(
        self, record: Rows, rows: NDArray[np.int64], keys: list[NDArray[np.uint64]]
    ) -> NDArray[np.int64]:
        """Return what the tables have under the keys of some rows."""
        found = np.stack([self._tables[by].find(keys[by]) for by in BOTH])
        found[OF_TITLE, ~titles_tell(record.marks[rows])] = NONE
        return found

    def check(self, live: NDArray[np.int64]) -> None:
        """Assert that the tables have the thin ones of these rows, and no page twice."""
        for by, listed in zip(BOTH, self._listed(live), strict=True):
            assert np.array_equal(self._tables[by].rows, listed)
            columns = self._rows.take(listed)
            texts = [columns[name].tolist() for name in TEXT_COLUMNS]
            if by == OF_URL:
                pages = self._pages_of(self._texts.texts(2 * listed + 1)).tolist()
            else:
                pages = (columns["marks"] & HOST_AND_TITLE).tolist()
            assert len(set(map(str, zip(*texts, pages, strict=True)))) == len(listed)

    def _listed(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return those of some rows that each of the tables has."""
        thin = rows[are_thin(self._marks.take(rows))]
        return [thin, thin[titles_tell(self._marks.take(thin))]]

    def _are_same(
        self,
        by: int,
        originals: NDArray[np.int64],
        record: Rows,
        rows: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Return for each original whether it has a row's text, and its URL or its title."""
        columns = self._rows.take(originals)
        is_same: NDArray[np.bool_] = (columns["sketches"] == record.sketches[rows]).all(axis=1)
        for name in _NUMBERS:
            is_same &= columns[name] == getattr(record, name)[rows]
        if by == OF_URL:
            known = self._pages_of(self._texts.texts(2 * originals + 1))
            return is_same & known.equal_to(self._pages_of(record.urls.take(rows)))
        is_same &= (columns["marks"] ^ record.marks[rows]) & HOST_AND_TITLE == 0
        return is_same


def _url_keys(
    digests: Field[np.uint64], url_hashes: ChunkedColumn[np.uint64], rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    return digests.take(rows) ^ url_hashes.take(rows)


def _title_keys(
    digests: Field[np.uint64], marks: Field[np.uint64], rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    return titled_digests(digests.take(rows), marks.take(rows))


def _keys(
    record: Rows, rows: NDArray[np.int64], url_hashes: NDArray[np.uint64]
) -> list[NDArray[np.uint64]]:
    """Return the keys of a record's rows in the two tables."""
    digests = record.digests[rows]
    return [digests ^ url_hashes, titled_digests(digests, record.marks[rows])]
