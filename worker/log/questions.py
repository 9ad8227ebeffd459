"""
The rows of a question in their turn: each is judged as if it came next and alone.

A question is judged by the code that judges the rows of the log (`turns.py`), so its answer is the
verdict by definition. Three things differ:

    rows of a record                          rows of a question
    one may tell of those after it            each stands for itself: what its turn has changed is
                                              forgotten before the next one
    originals leave, new ones are indexed     the index hides those that would leave for a row while
                                              that row is searched for
    `enter` changes the store                 nothing is entered

So few rows need a turn of their own: those that would replace an original, deletions and short
texts. All others are searched in one call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.log.originals import repeated
from worker.log.turns import NONE, Turns


class AskedTurns(Turns):
    """
    Judges each row as if it came next and alone. After `take_all` the columns are complete; `enter`
    must not follow.

    Cost: .1 ms and a query for all rows together; some 10 µs for a row with its own turn, and a
    query for one that would replace an original, which is searched for alone.
    """

    def take_all(self) -> None:
        """Judge all rows."""
        for place in self._special.tolist():
            self._begin = place  # nothing before it waits
            self._take(place)
            if self._leaving and self._is_searched[place]:
                with self._held.hidden(np.sort(self._leaving)):
                    self._search(np.array([place]))
                self._is_searched[place] = False
            self._forget()
        self._search(np.flatnonzero(self._is_searched))
        has_latest = ~(self.is_deletion | self.is_again) & (self.formers == NONE)
        self.formers = np.where(has_latest, self._by_url, self.formers)

    def _repeated(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return no place: rows tell nothing of each other."""
        return repeated(hashes[:0])

    def _search(self, places: NDArray[np.int64]) -> None:
        """Search for the rows at some places."""
        if not len(places):
            return
        rows = self._rows[places]
        matches = self._held.index.query(
            self._fingerprints[places],
            self._record.doubts[rows],
            self._record.sketches[rows],
            self._record.marks[rows],
        )
        self._put(places, matches)

    def _forget(self) -> None:
        """Forget what the turn of a row has changed, for the next one."""
        self._leaving.clear()
        self._left.clear()
        self._short.clear()
        self._titled.clear()
        self._by_text.clear()
        self._thin_places.clear()


class AskedOtherTurns(AskedTurns):
    """
    Judges each row as another document than every original, even than one with its doc_id or URL:
    no original leaves for it, and it may be a duplicate of that one.

    `replaces` must be False, or the original of its URL would leave.
    """

    def _originals_named(self) -> NDArray[np.int64]:
        """Return NONE for each row: nothing has its doc_id."""
        return np.full(len(self._rows), NONE, np.int64)
