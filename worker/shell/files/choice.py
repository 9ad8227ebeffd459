"""
Chooses which documents of a run are kept: one of each cluster, and every document that is in none.

A cluster is an original and its duplicates: all documents whose verdicts name it. An original of an
earlier run or of a reference has been kept there, so all documents of its cluster are removed. They
are counted if a choice was asked for, because it could not be made among all copies.

    judged rows ──► ChoiceNotes    of each document whether it stays by its verdict alone;
                                   its row of the table of clusters, if a choice depends on it
    table       ──► best_of        which documents of each cluster are kept, and of how many

Several documents of a cluster can be kept, or none: then only documents without a copy stay.

`dedup` has one table. The tasks of an archive each write the rows of their input, sorted by their
keys, and one task per range of keys chooses (`shell/archive/outputs.py`). Both come to the same,
because no row of the table depends on another one.

Rejected, and why
- The best document of each cluster so far, in a dict by the original's doc_id: 100 to 250 bytes per
  cluster in one process, and some 15 µs per document, since each verdict was decoded for it.
- 64 bits of hash as the key: of 10^9 clusters, two would share a key with a chance of 3 %, and a
  document would be lost.
"""

from __future__ import annotations

import math
import secrets
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.document import Original
from worker.errors import StopError
from worker.log.judge import JudgedRows, ReasonCode
from worker.log.originals import OriginalStore
from worker.log.record import COMPARED_KINDS, RowKind, Rows
from worker.log.texts import Texts

_NEWEST = "newest"
RULES = ("first", "longest", _NEWEST, "shortest-url")
HIGHEST = "highest"
KEY_BITS = 128
# A row of the table of clusters, of a document that is an original or a duplicate.
MEMBER = np.dtype(
    [
        ("key", "<u8", 2),  # hashes of the original's doc_id, under two secret keys
        ("place", "<i8"),  # the document's
        ("measure", "<f8"),  # largest for the document that is preferred
        ("begins", "?"),  # whether the document is the original itself
    ]
)


class Preference(NamedTuple):
    """
    Which documents of a cluster are kept. Among equals it is the first one.

    Attributes:
        rule: "first"; "longest": the one with the most distinct shingles in its main text;
            "newest": the one fetched last; "shortest-url"; "highest": the one with the highest
            number in a field.
        field: the field or column of "highest"; None for the other rules.
        kept: how many of them; 0: none, if there is more than one.
    """

    rule: str = "first"
    field: str | None = None
    kept: int = 1

    @classmethod
    def parse(cls, text: str) -> Preference:
        """
        Parse the value of `--prefer`.

        Raises:
            ValueError: the value names no rule, or no field for "highest".

        >>> Preference.parse("highest:quality: overall")
        Preference(rule='highest', field='quality: overall', kept=1)
        """
        rule, _, field = text.partition(":")
        if rule == HIGHEST and field:
            return cls(rule, field)
        if text in RULES:
            return cls(text)
        raise ValueError(
            f"--prefer {text!r} is not one of {', '.join(RULES)} and {HIGHEST}:FIELD (the field or "
            f"column with the number)"
        )

    @property
    def has_score(self) -> bool:
        """Whether the rule needs a number or a time, which a document may lack."""
        return self.rule in {_NEWEST, HIGHEST}

    def check_scores(self, scored: int, unscored: int) -> None:
        """
        Check that documents had a number or a time to choose by.

        Args:
            scored, unscored: how many judged documents had one, and how many had none.
        Raises:
            StopError: documents are to be preferred by one that none of them has.
        """
        if not self.has_score or scored or not unscored:
            return
        if self.field is None:
            raise StopError(
                f"--prefer {_NEWEST}: no document has a time in 'fetched_at', of {unscored:,}: "
                f"rename the field or column that has it, or prefer another"
            )
        raise StopError(
            f"--prefer {HIGHEST}:{self.field}: no document has a finite number in "
            f"{self.field!r}, of {unscored:,}: name a field or column of numbers"
        )

    def measures(self, rows: Rows, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a number for each row that is largest for the one that is preferred."""
        if self.rule == HIGHEST:
            return np.where(np.isnan(scores), -math.inf, scores)
        if self.rule == _NEWEST:
            return rows.fetched_at_ms.astype(np.float64)
        if self.rule == "longest":
            return rows.features.astype(np.float64)
        if self.rule == "shortest-url":
            return -_lengths(rows.urls).astype(np.float64)
        return np.zeros(len(rows))


FIRST = Preference()


class Choice(NamedTuple):
    """
    The documents to copy, and the originals that the revisit records of the others name.

    Attributes:
        kept: of each document whether it is kept.
        originals: the original of each duplicate that leaves a revisit record, by the duplicate's
            place.
    """

    kept: NDArray[np.bool_]
    originals: dict[int, Original]


class ChoiceNotes:
    """
    Notes on the judged rows of a run, or of one of its inputs, from which the choice is made.

    Args:
        prefer: which document of a cluster is kept.
        has_table: whether the table of clusters is needed even if the first ones are preferred: it
            tells their sizes.
        revisits: whether to note the original of each duplicate.
        key: of KEY_BITS, for the tables of several processes; by default a new one. It is secret,
            so that nobody can choose doc_ids that share a row.
        first: the place of the first document.

    Attributes:
        scored, unscored: how many judged documents have a number or time to choose by, or none.
        originals: as in `Choice`.
        kept_before: once a choice is made, how many documents had no part in it, because an earlier
            run or a reference has the original of their cluster; None: the first ones are kept.

    Cost: a byte per document; with the table, 41 bytes for each original and duplicate, and .3 µs.
    """

    def __init__(
        self,
        prefer: Preference = FIRST,
        *,
        has_table: bool = False,
        revisits: bool = False,
        key: int | None = None,
        first: int = 0,
    ) -> None:
        self.scored = 0
        self.unscored = 0
        self.originals: dict[int, Original] = {}
        self.kept_before: int | None = None
        self._prefer = prefer
        self._has_table = has_table or prefer != FIRST
        self._notes_originals = revisits
        self._key = secrets.randbits(KEY_BITS) if key is None else key
        self._first = first
        self._next = first
        self._stays: list[NDArray[np.bool_]] = []
        self._expected = array("d")  # scores of documents that are not judged yet
        self._members: list[NDArray[np.void]] = []

    def expect(self, score: float | None) -> None:
        """Note what a document has been read with; `take_expected` gets its judged row later."""
        self._expected.append(math.nan if score is None else score)

    def take_expected(self, rows: JudgedRows, held: OriginalStore) -> None:
        """Note the next rows, with the scores that were expected."""
        count = rows.stop - rows.first
        self.take(rows, held, np.array(self._expected[:count]))
        del self._expected[:count]

    def take(
        self, rows: JudgedRows, held: OriginalStore, scores: NDArray[np.float64] | None = None
    ) -> None:
        """
        Note the next rows.

        Args:
            held: the store of the originals that the rows' judgements name.
            scores: for "highest", each document's number; NaN for a document without one.
        """
        part = rows.answered
        originals = rows.judged.originals
        is_compared = np.isin(part.kinds, COMPARED_KINDS)
        is_duplicate = is_compared & (originals >= 0)
        stays = is_compared & (originals < 0) & (rows.judged.remarks == ReasonCode.NONE)
        if scores is None:
            scores = np.full(len(part), np.nan)
        # The time 0 is that of a document without one.
        has_score = part.fetched_at_ms != 0 if self._prefer.rule == _NEWEST else ~np.isnan(scores)
        is_judged = part.kinds != RowKind.DEAD
        self.scored += int((is_judged & has_score).sum())
        self.unscored += int((is_judged & ~has_score).sum())
        if self._notes_originals:
            for at in np.flatnonzero(is_duplicate).tolist():
                self.originals[self._next - self._first + at] = held.get(int(originals[at]))
        if self._has_table:
            measures = self._prefer.measures(part, scores)
            for chosen, is_original in ((stays, True), (is_duplicate, False)):
                places = np.flatnonzero(chosen)
                names = part.doc_ids.take(places)
                if not is_original:
                    names, _urls = held.texts.take(originals[places])
                self._members.append(
                    self._rows(names, places, measures[places], begins=is_original)
                )
        self._stays.append(stays)
        self._next += len(part)

    def _rows(
        self,
        names: Texts,
        places: NDArray[np.int64],
        measures: NDArray[np.float64],
        *,
        begins: bool,
    ) -> NDArray[np.void]:
        members = np.empty(len(places), MEMBER)
        members["key"][:, 0] = names.hashes(self._key)
        members["key"][:, 1] = names.hashes(self._key ^ ((1 << KEY_BITS) - 1))
        members["place"] = places + self._next
        members["measure"] = measures
        members["begins"] = begins
        return members

    @property
    def stays(self) -> NDArray[np.bool_]:
        """A mask of the documents whose verdict alone lets them stay."""
        return np.concatenate(self._stays) if self._stays else np.empty(0, np.bool_)

    def members(self) -> NDArray[np.void]:
        """Return the rows of the table, by their keys, and those of one key by their places."""
        return sorted_members([np.empty(0, MEMBER), *self._members])

    def sizes(self) -> NDArray[np.int64]:
        """
        Return the size of each document's cluster, in noted documents; 0 without a cluster.

        If a doc_id has begun several, the last one has its name, and the documents of the others
        are in none. (`DuplicateClusters` also ends a cluster whose original comes again as a
        duplicate of another one. Here no name stands for two, so it stays.)
        """
        members = self.members()
        edges = _edges(members)
        counts = np.diff(edges, append=len(members))
        key = members["key"][edges]
        is_last = np.ones(len(edges), np.bool_)
        is_last[:-1] = (key[1:] != key[:-1]).any(axis=1)
        sizes = np.zeros(self._next - self._first, np.int64)
        sizes[members["place"] - self._first] = np.repeat(counts * is_last, counts)
        return sizes

    @property
    def unscored_said(self) -> int | None:
        """How many judged documents have nothing to choose by; None if the rule suits all."""
        return self.unscored if self._prefer.has_score else None

    def check(self) -> None:
        """Raise StopError if documents are to be preferred by a number that none of them has."""
        self._prefer.check_scores(self.scored, self.unscored)

    def choice(self) -> Choice:
        """Return the choice among all documents that have been noted."""
        kept = self.stays
        if self._prefer != FIRST:
            members = self.members()
            best, _sizes = best_of(members, self._prefer.kept)
            self.kept_before = copies_of_others(members)
            kept = np.zeros(len(kept), np.bool_)
            kept[members["place"][best] - self._first] = True
        return Choice(kept, self.originals)


def sorted_members(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Return rows of the table by their keys, and those of one key by their places."""
    members = np.concatenate(parts)
    key = members["key"]
    return members[np.lexsort((members["place"], key[:, 1], key[:, 0]))]


def best_of(
    members: NDArray[np.void], count: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return which members of each cluster are kept, and the size of each one's cluster.

    A doc_id that comes again with another text begins another cluster, which has the later
    duplicates.

    Args:
        members: whole clusters, as `sorted_members` returns them.
        count: how many of each are kept; 0: none of a cluster of several.
    Returns:
        Positions among the members, ascending, and sizes. A cluster whose original is not among
        them has none: an earlier run has kept it.

    Cost: a sort of the members, and some 80 bytes each for as long as it runs.

    >>> members = np.zeros(4, MEMBER)
    >>> members["key"][:, 0] = [7, 7, 7, 9]        # the last is a copy of an earlier run's document
    >>> members["measure"] = [1, 5, 5, 8]
    >>> members["begins"] = [True, False, False, False]
    >>> best_of(members)
    (array([1]), array([3]))
    >>> best_of(members, 2)
    (array([1, 2]), array([3, 3]))
    >>> best_of(members, 0)
    (array([], dtype=int64), array([], dtype=int64))
    """
    edges = _edges(members)
    sizes = np.diff(edges, append=len(members))
    counts = np.where(sizes == 1, 1, count) * members["begins"][edges]
    # Clusters in their order, the best members of each first, and among equals those that came
    # first: the sort is stable.
    clusters = np.repeat(np.arange(len(edges)), sizes)
    order = np.lexsort((-members["measure"], clusters))
    ranks = np.arange(len(members)) - np.repeat(edges, sizes)
    chosen = np.sort(order[ranks < np.repeat(counts, sizes)])
    return chosen, sizes[clusters[chosen]]


def copies_of_others(members: NDArray[np.void]) -> int:
    """Return how many members are of clusters whose originals are not among them."""
    edges = _edges(members)
    sizes = np.diff(edges, append=len(members))
    return int(sizes[~members["begins"][edges]].sum())


def _edges(members: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the position of the first member of each cluster."""
    key = members["key"]
    is_first = members["begins"].copy()
    is_first[:1] = True
    is_first[1:] |= (key[1:] != key[:-1]).any(axis=1)
    return np.flatnonzero(is_first)


def _lengths(texts: Texts) -> NDArray[np.int64]:
    """Return how many characters each text has: bytes that continue none, in UTF-8."""
    if not len(texts):
        return np.empty(0, np.int64)
    counted = np.cumsum((texts.data[: texts.ends[-1]] & 0xC0) != 0x80, dtype=np.int64)
    return np.diff(np.concatenate([[0], counted])[texts.ends], prepend=0)
