"""
The rows of one record in their turn: each is judged as if it came alone, in few calls of the index.

`Replica.read_together` and `apply_together` judge several records in one call, and they are "the
record" here. They do so only where nothing has to be done between them (`may_apply_together`), so
the answers are those of one after the other.

A call of a kernel per row would cost a hundred times the search. So rows wait, and many are
searched in one call, until one comes whose turn changes what those before it may find, or depends
on what they become:

    row        0   1   2   3   4   5   6   7   8
    doc_id     a   b   c   d   b   e   f   g   h
    kind       .   .   .   .   .   .   del .   .
               └── searched ───┘   └ searched ─┘
                               │           └ deletes an original that neither 4 nor 5 could find
                               └ another version of b: what became of row 1 must be known first

The tables of doc_ids, URLs and digests are asked once, for all rows of the record, before the first
one is judged. What the record itself changes is kept in dictionaries until its end. Few rows need a
turn of their own in Python: deletions, short texts, and rows whose doc_id is in the tables already
or comes twice in the record; where re-crawls replace, also rows whose URL does. All others are only
searched.

An original that leaves in the record is taken out of the index before the waiting rows, if none of
those before its successor could tell. There are two ways to tell:

- A row within `max_distance` could find it.
- Of one prefix at most `prefix_max` originals are listed, so a waiting row that becomes one may
  not be. When one leaves, its place is free for the next birth.

In both cases the rows before the successor are searched first, while the original is still there.

A text may be that of a duplicate that came before. Then it is a duplicate of the same original, if
that one is there at its turn, and is not searched. Where it came before makes three cases:

- In an earlier record. All such rows are known at the beginning. Those whose original may leave in
  this record have a turn of their own.
- In an earlier row that has been searched. What it was found to be is noted by digest.
- In an earlier row that waits. This row *follows* it: it takes its answer once that is known. Until
  then nothing leaves that the earlier row could find. If the earlier row becomes an original, this
  one is its duplicate, as a search would find. For that the original must be sure to be listed, so
  none follows another in a crowded prefix.

A document that is delivered again while its last row waits follows that row, too, in a crowded
prefix as well: if the earlier row becomes an original, this one is that original again.

A thin page of its host may be crawled again, and then it is a copy of its own original (`thin.py`).
That is known before its text is looked for in other ways. The original can be one of an earlier
record, or an earlier row of this one with the same text; such a row is searched before.

Originals are named by their row. The row of an original of this record is not known until what came
before it has been searched, so these are named by their place among the rows that are judged: place
p has the name `_OWN - p`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.index import Judgement
from worker.core.marks import HOST_AND_TITLE, are_apart, are_thin, titles_tell
from worker.core.search import APART_EQUAL, LOOK_MAX, agains
from worker.core.sketch import SIMILARITY_MAX
from worker.log.again import COMPARED, Again, find_again
from worker.log.originals import CONTENT, OriginalStore, repeated
from worker.log.record import RowKind, Rows
from worker.log.short import BY_DIGEST, BY_TITLE
from worker.log.texts import Texts
from worker.log.thin import BOTH, TEXT_COLUMNS

NONE = -1  # the name of no original
_OWN = -2  # the name of an original that the record's first row has become
# Rows that wait are compared with an original that leaves. So many at most: the comparison would
# cost more than it saves.
_WAITING_MAX = 4_096


# Columns of `Turns` by place that are columns of the judgements, too.
TURN_COLUMNS = ("originals", "formers", "distances", "similarities", "kept_apart", "apart_from")


class _Content(NamedTuple):
    """The content that makes a row the same original again, if both have it."""

    kind: int
    fingerprint: int
    digest: int


class Turns:
    """
    Judges rows of a record, and enters what they bring into the store.

    After `take_all` and `enter` the columns have an entry for each row that was given.

    Args:
        record: the record.
        rows: the rows to judge, in ascending order; none is SKIPPED or DEAD.
        urls: of their pages (`url_rules.py`): "a row's URL" means this one here.
        hashes: the hashes of their doc_ids and of these URLs.
        held: the originals before the record.
        replaces: whether an original leaves when a row with its URL has other content.

    Cost: a search and some 4 µs per row, and 6 µs more for a row with its own turn. Each time that
    waiting rows must be searched, a call of the index costs some 50 µs.
    """

    def __init__(
        self,
        record: Rows,
        rows: NDArray[np.int64],
        urls: Texts,
        hashes: Sequence[NDArray[np.uint64]],
        held: OriginalStore,
        *,
        replaces: bool,
    ) -> None:
        count = len(rows)
        self._record = record
        self._rows = rows
        self._held = held
        self._replaces = replaces
        self._name_hashes, self._url_hashes = hashes
        self._kinds = record.kinds[rows]
        self._fingerprints = record.fingerprints[rows]
        self._digests = record.digests[rows]
        self._doc_ids = record.doc_ids.take(rows)
        self._urls = urls
        # Columns by place, which is a row's number among those that are judged.
        self.originals = np.full(count, NONE, np.int64)
        self.formers = np.full(count, NONE, np.int64)
        self.distances = np.zeros(count, np.uint8)
        self.similarities = np.zeros(count, np.uint16)
        self.kept_apart = np.zeros(count, np.uint16)  # as `search.Apart` tells it
        self.apart_from = np.full(count, NONE, np.int64)
        self._listed = np.zeros(count, np.uint16)  # the blocks that list it, if it is an original
        self.changes = np.zeros(count, np.int64)  # how each row changes the number of originals
        self.is_deletion = self._kinds == RowKind.DELETED
        self.is_again = np.zeros(count, np.bool_)  # an original, with the same content
        self.seen_again: list[int] = []  # the originals that have come so
        # What the tables say before the first row.
        self._by_doc_id = self._originals_named()
        self._by_url = held.latest_of(self._urls, self._url_hashes)
        self._is_full = self._kinds == RowKind.FULL
        self._marks = held.marks_of(record, rows)
        self._by_digest, self._by_title = self._short_originals()
        # The texts that come more than once in the record, by place.
        repeated_names = self._repeated(self._name_hashes)
        names = self._doc_ids.take(repeated_names).tolist()
        self._names = dict(zip(repeated_names.tolist(), names, strict=True))
        self._url_places = self._repeated(self._url_hashes)
        repeated_urls = self._urls.take(self._url_places).tolist()
        self._repeated_urls = dict(zip(self._url_places.tolist(), repeated_urls, strict=True))
        self._special = self._special_places(repeated_names)
        self._known = self._known_contents()
        self._outside = self._known_outside()
        self._begin_texts()
        # What the record has changed of it so far.
        self._named: dict[bytes, int] = {}  # by doc_id: what its last row may have become
        self._at_url: dict[bytes, tuple[int, int]] = {}  # by URL: the same, and the one before
        self._short: dict[int, int] = {}  # by digest
        self._titled: dict[tuple[int, int], int] = {}  # by digest, and by host and title
        self._left: dict[int, int] = {}  # by original: the place at which it left
        # Rows from here on wait.
        self._begin = 0
        self._leaving: list[int] = []  # originals that leave before the waiting rows are searched
        # By place: whether it became an original, and that one's row, once it is known.
        self._is_new = np.zeros(count, np.bool_)
        self._numbers = np.full(count, NONE, np.int64)
        self._new_places = np.zeros(count, np.int64)  # by original: of the row that became it
        self._first = len(held)
        self._next = self._first  # row of the next original

    def take_all(self) -> None:
        """Judge all rows. `enter` must follow: until then `originals` may name rows by place."""
        for place in self._special.tolist():
            self._take(place)
        self._search_up_to(len(self._rows))

    # ---- before the first turn

    def _originals_named(self) -> NDArray[np.int64]:
        """Return the original of each row's doc_id, or NONE."""
        return self._held.find_many(self._name_hashes, self._doc_ids)

    def _repeated(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the places of the hashes that several rows have, which may tell of each other."""
        return repeated(hashes)

    def _special_places(self, repeated_names: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places that need a turn of their own."""
        is_special = (self._by_doc_id >= 0) | ~self._is_full
        is_special[repeated_names] = True
        if self._replaces:
            is_special |= self._by_url >= 0
            is_special[self._url_places] = True
        return np.flatnonzero(is_special)

    def _short_originals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the originals with each short text's digest, and those with its title."""
        by_digest = np.full(len(self._rows), NONE, np.int64)
        by_title = by_digest.copy()
        is_short = self._kinds == RowKind.SHORT
        if is_short.any():
            by_digest[is_short], by_title[is_short] = self._held.short.find(
                self._digests[is_short], self._marks[is_short]
            )
        return by_digest, by_title

    def _known_contents(self) -> dict[int, _Content]:
        """Return the content of each original of the tables that a row may replace."""
        names = [self._by_doc_id[self._special]]
        if self._replaces:
            names.append(self._by_url[self._special])
        known = np.unique(np.concatenate(names))
        known = known[np.searchsorted(known, 0) :]
        if not len(known):
            return {}
        held = self._held
        columns = [
            column.take(known).tolist() for column in (held.kinds, held.fingerprints, held.digests)
        ]
        return dict(zip(known.tolist(), map(_Content, *columns), strict=True))

    def _known_outside(self) -> set[int]:
        """Return which of the known originals other indexes have. None of these may leave."""
        outside = self._held.outside
        if outside is None:
            return set()
        known = np.array([*self._known], np.int64)
        return set(known[outside.has(known)].tolist())

    def _begin_texts(self) -> None:
        """
        Find the rows whose texts were duplicates before, and give turns to those that depend on
        others of the record: the original of the text may leave, or the text comes again.
        """
        count = len(self._rows)
        # By digest: the latest place that is searched or follows another one.
        self._by_text: dict[int, int] = {}
        self._noted: dict[int, int] = {}  # by digest: the latest place that was found a duplicate
        self._leaders: dict[int, int] = {}  # by place that waits: the place that it follows
        self._again_if_new: set[int] = set()  # of these, those that have the doc_id of their leader
        # By place: whether its text is to be remembered as a duplicate's.
        self._is_noted = np.zeros(count, np.bool_)
        self._is_searched = self._is_full.copy()
        full = np.flatnonzero(self._is_full)
        self._text_places = full[self._repeated(self._digests[full])]
        # By place: the original of which its text was a duplicate in an earlier record.
        again = find_again(self._held, self._record, self._rows[full])
        self.originals[full] = again.originals
        self.distances[full] = again.distances
        self.similarities[full] = again.similarities
        self._again = Again(self.originals.copy(), self.distances.copy(), self.similarities.copy())
        # By place: the originals of earlier records that a thin page is, by its URL and its title.
        self._thin = np.full((len(BOTH), count), NONE, np.int64)
        # By text, and by URL or title: the last place of this record that may have become one.
        self._thin_places: dict[tuple[bytes, bytes | int], int] = {}
        thin = full[are_thin(self._marks[full])]
        self._is_thin = np.zeros(count, np.bool_)
        if len(thin):
            self._is_thin[thin] = True
            self._thin[:, thin] = self._held.thin.find(
                self._record, self._rows[thin], self._url_hashes[thin]
            )
            for originals in self._thin[::-1]:  # that of the URL counts before that of the title
                self._are_pages(np.flatnonzero(originals >= 0), originals[originals >= 0])
        self._is_searched &= self.originals == NONE
        is_special = np.zeros(count, np.bool_)
        if not self._is_searched[full].all():  # seldom: `np.isin` takes long
            may_leave = np.array(list(self._known), np.int64)
            is_special |= np.isin(self._again.originals, may_leave)
            is_special |= np.isin(self._thin, may_leave).any(axis=0)
        is_special[self._special] = True
        is_special[self._text_places] = True
        self._special = np.flatnonzero(is_special)

    def _are_pages(self, places: NDArray[np.int64], originals: NDArray[np.int64]) -> None:
        """Note of which originals the pages at some places are exact copies."""
        self.originals[places] = originals
        self.distances[places] = 0
        self.similarities[places] = SIMILARITY_MAX

    # ---- one turn

    def _content(self, original: int) -> _Content:
        """Return an original's content."""
        if original > NONE:
            return self._known[original]
        return self._content_at(_OWN - original)

    def _content_at(self, place: int) -> _Content:
        """Return a row's content."""
        return _Content(
            int(self._kinds[place]), int(self._fingerprints[place]), int(self._digests[place])
        )

    def _take(self, place: int) -> None:
        """Take the turn of a row: see what leaves for it, and whether it need be searched."""
        if self._comes_again_waiting(place):
            return
        former = self._former_at(place)
        if self.is_deletion[place]:
            self._leave(former, place)
            return
        content = self._content_at(place)
        is_again = former != NONE and self._content(former) == content
        if is_again:
            self.seen_again.append(former)
            self.is_again[place] = True
            self._is_searched[place] = False
            self.originals[place] = NONE  # its text may be that of a duplicate, too
            self.distances[place] = self.similarities[place] = 0
            return
        other = self._other_at(place, former, content) if self._replaces else NONE
        self._leave(former, place)
        self._leave(other, place)
        self.formers[place] = former if former != NONE else other
        if place in self._names:
            self._named[self._names[place]] = _OWN - place
        if content.kind == RowKind.SHORT:
            self._judge_short(place, content.digest)
        else:
            self._judge_text(place, content.digest)

    def _comes_again_waiting(self, place: int) -> bool:
        """
        Let a row follow the last one of its doc_id, if that one waits and has the same content.

        Later rows with this text do not follow it: it may be an original again, and no copy.
        """
        if self._replaces or place not in self._names:
            return False
        earlier = _OWN - self._named.get(self._names[place], NONE)
        is_again = (
            earlier >= 0
            and self._is_waiting(earlier)
            and self._kinds[place] == RowKind.FULL
            and self._digests[place] == self._digests[earlier]
            and self._is_like(earlier, place)
        )
        if is_again:
            self._leaders[place] = earlier
            self._is_searched[place] = False
            self.originals[place] = NONE  # an earlier record may have known its text
            self._again_if_new.add(place)
        return is_again

    def _former_at(self, place: int) -> int:
        """Return the original of a row's doc_id at its turn."""
        former = int(self._by_doc_id[place])
        if place in self._names:
            former = self._named.get(self._names[place], former)
        return former if self._is_live(former, place) else NONE

    def _other_at(self, place: int, former: int, content: _Content) -> int:
        """
        Return the original that leaves because the row at a place has its URL.

        None leaves if it is the one of the row's doc_id, which leaves anyway, or has the same
        content.
        """
        other = int(self._by_url[place])
        url = self._repeated_urls.get(place)
        if url is not None:
            latest, before = self._at_url.get(url, (other, NONE))
            other = latest if self._has_become(latest, place) else before
        if not self._is_live(other, place):
            other = NONE
        if url is not None:
            self._at_url[url] = (_OWN - place, other)
        is_other = other not in (NONE, former) and self._content(other) != content
        return other if is_other else NONE

    def _has_become(self, original: int, place: int) -> bool:
        """
        Return whether it is an original at all: a row of this record may have become none.

        What is not known yet is searched first, up to the row at `place`.
        """
        if original >= NONE:
            return True
        own_place = _OWN - original
        if self._is_waiting(own_place):
            self._search_up_to(place)
        return bool(self._is_new[own_place])

    def _is_waiting(self, place: int) -> bool:
        """Return whether only a search will tell what the row at an earlier place becomes."""
        return place >= self._begin and bool(self._is_searched[place])

    def _is_live(self, original: int, place: int) -> bool:
        """Return whether there is such an original, and it is in the index, at a place."""
        if original == NONE or original in self._left:
            return False
        return self._has_become(original, place)

    def _leave(self, original: int, place: int) -> None:
        """Take out an original, if it is one, right before the row at a place."""
        if original == NONE:
            return
        content = self._content(original)
        if content.kind == RowKind.FULL:
            if original in self._outside:
                raise RuntimeError(f"original {original} leaves, but other indexes have it")
            if self._is_findable(content.fingerprint, place):
                self._search_up_to(place)
            self._leaving.append(original)
        self._left[original] = place
        self.changes[place] -= 1

    def _is_findable(self, fingerprint: int, place: int) -> bool:
        """Return whether a waiting row before a place could tell that an original has left."""
        waiting = place - self._begin
        if waiting == 0:
            return False
        if waiting > _WAITING_MAX:
            return True
        differ = self._fingerprints[self._begin : place] ^ np.uint64(fingerprint)
        is_near = np.bitwise_count(differ) <= self._held.search.max_distance
        is_near &= self._is_searched[self._begin : place]
        return bool(is_near.any()) or self._held.index.is_crowded(fingerprint, waiting)

    def _judge_short(self, place: int, digest: int) -> None:
        """
        Judge a short text: it is a copy of the first live original with its digest, unless the two
        are kept apart; then of the one that has its host and title besides.
        """
        mark = int(self._marks[place])
        title_key = (digest, mark & int(HOST_AND_TITLE))
        first = self._short.get(digest, int(self._by_digest[place]))
        titled = self._titled.get(title_key, int(self._by_title[place])) if mark else NONE
        has_first = first != NONE and first not in self._left
        if has_first and not are_apart(mark, self._mark_of(first), SIMILARITY_MAX):
            original = first
        elif titled != NONE and titled not in self._left:
            original = titled
        else:
            self._is_new[place] = True
            if has_first:
                self.kept_apart[place] = APART_EQUAL
                self.apart_from[place] = first
                self._titled[title_key] = _OWN - place
            else:
                self._short[digest] = _OWN - place
            self._listed[place] = BY_TITLE if has_first else BY_DIGEST
            return
        self.originals[place] = original
        self.similarities[place] = SIMILARITY_MAX

    def _mark_of(self, original: int) -> int:
        """Return an original's mark."""
        if original > NONE:
            return self._held.marks[original]
        return int(self._marks[_OWN - original])

    def _judge_text(self, place: int, digest: int) -> None:
        """Judge a text that may be a page's or a duplicate's, or leave it to the search."""
        self._is_searched[place] = False
        leader = self._by_text.get(digest, NONE)
        if leader >= self._begin:
            waiting = place - self._begin
            fingerprint = int(self._fingerprints[place])
            is_found = not self._held.index.is_crowded(fingerprint, waiting)
            if self._is_like(leader, place) and is_found and not self._may_hide(place):
                self._leaders[place] = leader
                self._by_text[digest] = place
                return
            self._search_up_to(place)
        if self._is_thin[place] and self._judge_thin(place):
            return
        if digest in self._noted:
            is_judged = self._judge_as(place, self._noted[digest])
        else:
            is_judged = self._judge_again(place)
        if not is_judged:
            self.originals[place] = NONE
            self._is_searched[place] = True
            self._by_text[digest] = place
            if self._is_thin[place]:
                self._thin_places.update(dict.fromkeys(self._pages_at(place), place))

    def _may_hide(self, place: int) -> bool:
        """Return whether a search for a row might not find an equal one that waits before it."""
        held = self._held
        fingerprint = self._fingerprints[place]
        more = int(np.count_nonzero(self._fingerprints[self._begin : place] == fingerprint))
        if held.outside is not None:
            row = self._rows[place : place + 1]
            more += sum(one.equal for one in held.outside.find(self._record.offsets[row]))
        return held.index.may_hide(int(fingerprint), more)

    def _judge_thin(self, place: int) -> bool:
        """Judge a thin page by its own original; return whether there is one."""
        originals = self._thin[:, place].tolist()
        for at, page in enumerate(self._pages_at(place)):
            original = originals[at]
            if original == NONE or original in self._left:
                own_place = self._thin_places.get(page, NONE)
                is_there = own_place != NONE and bool(self._is_new[own_place])
                if not is_there or _OWN - own_place in self._left:
                    continue
                original = int(self._numbers[own_place])
            self._are_pages(np.array([place]), np.array([original]))
            return True
        return False

    def _pages_at(self, place: int) -> list[tuple[bytes, bytes | int]]:
        """Return by what the original of a thin page is known: its text with its URL or title."""
        row = self._rows[place : place + 1]
        text = b"".join(getattr(self._record, name)[row].tobytes() for name in TEXT_COLUMNS)
        pages: list[tuple[bytes, bytes | int]] = [(text, self._urls[place])]
        if titles_tell(self._marks[place : place + 1])[0]:
            pages.append((text, int(self._marks[place]) & int(HOST_AND_TITLE)))
        return pages

    def _judge_again(self, place: int) -> bool:
        """Judge a text by the original of an earlier record; return whether it is one for it."""
        original = int(self._again.originals[place])
        if original == NONE or original in self._left:
            return False
        self.originals[place] = original
        self.distances[place] = self._again.distances[place]
        self.similarities[place] = self._again.similarities[place]
        return True

    def _judge_as(self, place: int, noted: int) -> bool:
        """Judge a text by the original of an earlier place; return whether it is one for it."""
        original = int(self.originals[noted])
        own_place = NONE
        if original >= self._first:
            own_place = int(self._new_places[original - self._first])
        if (_OWN - own_place if own_place != NONE else original) in self._left:
            return False
        if own_place != NONE:
            columns = self._compared(own_place)
        else:
            columns = [getattr(self._held, name).take(np.array([original])) for name in COMPARED]
        is_match, distances, similarities = agains(
            self._held.search, self._compared(place), columns
        )
        if is_match[0]:
            self.originals[place] = original
            self.distances[place] = distances[0]
            self.similarities[place] = similarities[0]
        return bool(is_match[0])

    def _compared(self, place: int) -> list[NDArray[np.uint64]]:
        """Return what a search sees of a row, as columns of one entry."""
        row = self._rows[place : place + 1]
        return [getattr(self._record, name)[row] for name in COMPARED]

    def _is_like(self, one: int, other: int) -> bool:
        """
        Return whether a search sees the same in two rows, and they are one page if they are thin.

        Equal digests do not prove it, nor do equal marks.
        """
        if self._is_thin[one] and self._urls[one] != self._urls[other]:
            return False
        return all(map(np.array_equal, self._compared(one), self._compared(other)))

    # ---- the search

    def _search_up_to(self, stop: int) -> None:
        """Search the waiting rows before a place, after what leaves for them has left."""
        begin = self._begin
        self._begin = stop
        held = self._held
        index = held.index
        if self._leaving:
            fingerprints = [self._content(original).fingerprint for original in self._leaving]
            rows = self._numbered(np.array(self._leaving))
            index.delete_many(np.array(fingerprints, np.uint64), rows.astype(np.uint32))
            self._leaving.clear()
        first = self._next
        record = self._record
        places = begin + np.flatnonzero(self._is_searched[begin:stop])
        has_short = bool(self._is_new[begin:stop].any())
        if len(places):
            rows = self._rows[places]
            matches = index.match_or_insert(
                self._fingerprints[places],
                record.doubts[rows],
                record.sketches[rows],
                first,
                record.marks[rows],
                () if held.outside is None else held.outside.find(record.offsets[rows]),
            )
            self._is_new[places] = matches.rows < 0
            self._listed[places] = matches.listed
            self._put(places, matches)
        # New originals, full and short, get rows in the order of the record: where a record is cut
        # must not change which row is which.
        new = begin + np.flatnonzero(self._is_new[begin:stop])
        self._numbers[new] = first + np.arange(len(new))
        at = first - self._first
        self._new_places[at : at + len(new)] = new
        self._next += len(new)
        if has_short and len(places) and matches.new:
            # The index has numbered its new rows as if there were no short ones among them.
            numbers = self._numbers[new[self._is_full[new]]]
            index.renumber(numbers.astype(np.uint32))
            for column in (self.originals, self.apart_from):
                own = places[column[places] >= first]
                column[own] = numbers[column[own] - first]
        # The next search reads them.
        rows = self._rows[new]
        self._held.begin_rows(record.sketches[rows], record.marks[rows])
        if len(places):
            self._note(places, matches)
        self._follow()

    def _put(self, places: NDArray[np.int64], matches: Judgement) -> None:
        """Put what the search has found for some places into their columns."""
        self.originals[places] = matches.rows
        self.distances[places] = matches.distances
        self.similarities[places] = matches.similarities
        self.kept_apart[places] = matches.kept_apart
        self.apart_from[places] = matches.apart_from

    def _note(self, places: NDArray[np.int64], matches: Judgement) -> None:
        """
        Note the rows that were found near an original.

        Those that equal one need no note: every later search finds it first.
        """
        is_found = matches.rows >= 0
        is_equal = is_found & (matches.distances == 0) & (matches.similarities == SIMILARITY_MAX)
        if self._held.search.mode == "directed":
            is_equal &= matches.looks == LOOK_MAX
        equal = places[is_equal]
        originals = self.originals[equal]
        is_own = originals >= self._first
        digests = np.empty(len(equal), np.uint64)
        digests[~is_own] = self._held.digests.take(originals[~is_own])
        digests[is_own] = self._digests[self._new_places[originals[is_own] - self._first]]
        is_equal[is_equal] = digests == self._digests[equal]
        noted = places[is_found & ~is_equal]
        self._is_noted[noted] = True
        again = noted[np.isin(noted, self._text_places)]
        self._noted.update(zip(self._digests[again].tolist(), again.tolist(), strict=True))

    def _follow(self) -> None:
        """Give the rows that follow others the answers of these."""
        for place, leader in self._leaders.items():
            if self._is_new[leader] and place in self._again_if_new:
                self.seen_again.append(_OWN - leader)
                self.is_again[place] = True
                self.distances[place] = self.similarities[place] = 0
            elif self._is_new[leader]:
                self.originals[place] = self._numbers[leader]
                self.distances[place] = 0
                self.similarities[place] = SIMILARITY_MAX
            else:
                for column in (self.originals, self.distances, self.similarities):
                    column[place] = column[leader]
        self._leaders.clear()

    def _numbered(self, originals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of originals; those of this record have one by now."""
        is_own = originals < NONE
        if is_own.any():
            originals = originals.copy()
            originals[is_own] = self._numbers[_OWN - originals[is_own]]
        return originals

    # ---- the end of the record

    def enter(self, clock_ms: int) -> None:
        """
        Enter the originals of the rows into the columns and tables, all at once.

        `clock_ms` is the log's time.
        """
        held = self._held
        self.originals = self._numbered(self.originals)
        self.apart_from = self._numbered(self.apart_from)
        self.seen_again = self._numbered(np.array(self.seen_again, np.int64)).tolist()
        left = self._numbered(np.array(list(self._left), np.int64))
        at_url = self._latest_at_turn(dict(zip(left.tolist(), self._left.values(), strict=True)))
        versions = self._numbered(self.formers)
        self.formers = np.where(versions == NONE, at_url, versions)
        new = np.flatnonzero(self._is_new)
        self.changes[new] += 1
        latest = held.newest(at_url[new])
        is_own = left >= self._first
        held.leave_tables(np.sort(left[~is_own]))
        if len(new):
            rows = self._rows[new]
            live = np.ones(len(new), np.uint8)
            live[left[is_own] - self._first] = 0
            held.add(
                times=self._record.fetched_at_ms[rows],
                texts=(self._doc_ids.take(new), self._record.urls.take(rows)),
                hashes=(self._name_hashes[new], self._url_hashes[new]),
                content={name: getattr(self._record, name)[rows] for name in CONTENT},
                clock_ms=clock_ms,
                latest=latest,
                live=live,
                listed=self._listed[new],
                copies=np.zeros(len(new), np.uint32),
            )
        held.duplicates.remember(self._digests[self._is_noted], self.originals[self._is_noted])

    def _latest_at_turn(self, left: dict[int, int]) -> NDArray[np.int64]:
        """
        Return the latest original of each row's URL at its turn.

        NONE for rows that are no version of anything: deletions, and originals that come again.

        Args:
            left: the place at which each original left that did.
        """
        is_version = ~(self.is_deletion | self.is_again)
        latest = np.where(is_version, self._by_url, NONE)
        if left:
            for place in np.flatnonzero(np.isin(latest, list(left))).tolist():
                if left[int(latest[place])] <= place:
                    latest[place] = NONE
        places = self._url_places[is_version[self._url_places]]
        at_url: dict[bytes, int] = {}
        for place, is_new, number in zip(
            places.tolist(),
            self._is_new[places].tolist(),
            self._numbers[places].tolist(),
            strict=True,
        ):
            url = self._repeated_urls[place]
            former = at_url.get(url)
            if former is not None:
                latest[place] = NONE if left.get(former, place + 1) <= place else former
            if is_new:
                at_url[url] = number
        return latest
