"""
The index: which indexed fingerprint is the best match of another, by the rules of `search.py`.

    PermutedIndex   all within a Hamming distance: fingerprints alone, for the library
    SearchIndex     what a log's rules ask for, exact or directed: fingerprints, doubts, sketches

Rows are the caller's numbers for what is indexed, given in insertion order and never reused.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from worker.core.arguments import whole_number
from worker.core.permutation import Layout
from worker.core.planner import bucket_bits, check_distance, choose
from worker.core.search import APART_SHIFT, CONFIRMED_MAX, LOOK_MAX, SearchRules
from worker.core.sketch import SIMILARITY_MAX, SKETCH, WORDS
from worker.core.tables import confirm
from worker.core.tables.columns import column_of, rows_of
from worker.core.tables.directed import DirectedTables
from worker.core.tables.exact import ExactTables
from worker.core.tables.memory import INSERT_ALL, INSERT_NEW, QUERY, ROWS_MAX
from worker.core.tables.parallel import SHARE_MIN, Candidates, ParallelTables
from worker.core.tables.store import Tables
from worker.errors import check_type

Column = NDArray[np.uint64]
COLUMNS = ("fingerprints", "doubts")  # that an index may keep
DELETIONS_MAX = 4_096  # between two looks at whether memory can be given back
LOOK_MASK = (1 << int(confirm.SIMILARITY_SHIFT - confirm.LOOK_SHIFT)) - 1


class Judgement(NamedTuple):
    """The best match of each fingerprint. Row -1, distance 255, look and similarity 0: no match."""

    rows: NDArray[np.int64]
    distances: NDArray[np.uint8]
    looks: NDArray[np.uint16]  # second look in thousandths; 0 where the search is exact
    similarities: NDArray[np.uint16]  # of the sketches, in thousandths; 0 where there are none
    new: int  # how many had no match
    listed: NDArray[np.uint16]  # blocks that list a row that was indexed, bit by bit; else 0
    # Why the most similar original is no match, and its row: `search.kept_apart`. 0 and -1: none is
    # near enough.
    kept_apart: NDArray[np.uint16]
    apart_from: NDArray[np.int64]


class SketchColumn(Protocol):
    """Sketches by row, as kernels read them: in chunks of `1 << bits` rows."""

    @property
    def bits(self) -> int: ...

    @property
    def first(self) -> int:
        """The first row of the first chunk."""

    @property
    def step(self) -> int:
        """Bytes from one row's sketch to the next row's."""

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Of each chunk its first sketch's first byte."""

    def __len__(self) -> int:
        """One more than the last row."""


class _RowIndex:
    """The common part of both indexes: their tables, and how these are searched and changed."""

    def __init__(self, tables: Tables, sketches: SketchColumn | None = None) -> None:
        self.tables = tables
        self.sketches = sketches

    def __len__(self) -> int:
        return len(self.tables)

    def __reduce_ex__(self, _: object, /) -> NoReturn:
        # What `copy`, `deepcopy` and `pickle` call. `copy` alone would give a second name of the
        # same tables, so that what one inserts, the other finds.
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be copied or pickled: make another one of its arrays() with "
            f"{name}.from_arrays"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.tables.nbytes

    @property
    def filters_read(self) -> int:
        """Entries that all searches so far have read: what they cost, on any machine."""
        return self.tables.memory.filters_read

    @property
    def sketches_read(self) -> int:
        """Sketches of candidates that all searches so far have read."""
        return self.tables.memory.sketches_read

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """
        Give the fingerprints inserted last, with nothing deleted since, these row numbers.

        Args:
            rows: one for each of the last `len(rows)` fingerprints, ascending, and none below the
                number that it replaces.
        Raises:
            ValueError: the rows do not ascend beyond those of the others: the earliest match would
                be another one.

        Cost: O(rows).
        """
        check_type("rows", rows, np.ndarray)
        latest = self.tables.latest
        mine = latest[max(0, len(latest) - len(rows)) :]
        ascends = len(rows) == len(mine) and (rows[1:] > rows[:-1]).all()
        if not (ascends and (rows >= mine).all()):
            raise ValueError(
                f"rows must ascend from {mine[:1]} on, at most {len(latest)} of them, "
                f"got {rows[:3]} …"
            )
        self.tables.renumber(rows)
        memory = self.tables.memory
        memory.last_row = max(memory.last_row, *rows[-1:].tolist(), -1)

    def delete(self, fingerprint: int, row: int) -> bool:
        """
        Take one row out. False: it was not indexed under this fingerprint.

        Raises:
            ValueError: a fingerprint of more than 64 bits, or a row of more than 32.
            TypeError: one of them is not a whole number.
        """
        if not 0 <= operator.index(row) < 2**32:
            raise ValueError(f"a row is 0 to 2**32 - 1, got {row}")
        fingerprints = np.array([_checked(fingerprint)], np.uint64)
        return bool(self.delete_many(fingerprints, np.array([row], np.uint32))[0])

    def delete_many(self, fingerprints: Column, rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """
        Take rows out; return for each whether it was indexed under its fingerprint.

        The index gives memory back as it becomes empty.

        Args:
            fingerprints: uint64[n]: what each row was indexed under.
            rows: n rows; one that is not there is no error.
        Raises:
            TypeError, ValueError: the columns are of another type or length.

        Cost: O(tables) per row.
        """
        fingerprints, rows = column_of(fingerprints), rows_of(rows, len(fingerprints))
        done = np.zeros(len(rows), np.bool_)
        for begin in range(0, len(rows), DELETIONS_MAX):
            part = slice(begin, begin + DELETIONS_MAX)
            self.tables.maintain()
            self.tables.delete(fingerprints[part], rows[part], done[part])
        self.tables.maintain()
        return done

    def arrays(self) -> dict[str, NDArray[Any]]:
        """
        Return the content as columns in row order: all that `from_arrays` needs.

        Cost: the rows are sorted, and each column is copied.
        """
        names = [*COLUMNS[: self.tables.brought], "rows", "listed"]
        return dict(zip(names, self.tables.contents(), strict=False))

    def check(self) -> None:
        """
        Assert the invariants: each fingerprint stands where each table looks for it, and nothing
        else does.

        Cost: every entry is read and sorted: for tests.
        """
        self.tables.check()

    def _held(self, *columns: Column) -> list[Column]:
        """The columns that the tables keep: fingerprints, of a directed search doubts too."""
        held = [column_of(column) for column in columns]
        if len({len(column) for column in held}) > 1:
            raise ValueError(
                f"each fingerprint has doubts, got {' and '.join(str(len(one)) for one in held)}"
            )
        return held[: self.tables.brought]

    def _insert(
        self,
        columns: Sequence[Column],
        rows: NDArray[np.uint32],
        allowed: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint16]:
        held = self._held(*columns)
        rows = rows_of(rows, len(held[0]))
        if allowed is not None and len(allowed) != len(rows):
            raise ValueError(
                f"listed has an entry for each row, got {len(allowed)} and {len(rows)} rows"
            )
        listed = self._begin_call(len(rows), allowed)
        self.tables.insert(held, rows)
        return listed

    def _begin_call(
        self, count: int, allowed: NDArray[np.uint16] | None = None
    ) -> NDArray[np.uint16]:
        """Return the column for the blocks that list each row; an exact search has no blocks."""
        if isinstance(self.tables, DirectedTables):
            return self.tables.begin_call(count, allowed)
        return np.zeros(count, np.uint16)

    def _match(
        self,
        columns: Sequence[Column],
        sketches: Column | None,
        first_row: int,
        mode: int,
        marks: Column | None = None,
    ) -> Judgement:
        held = self._held(*columns)
        count = len(held[0])
        if mode != QUERY and not 0 <= first_row <= ROWS_MAX - count:
            raise ValueError(
                f"rows must be 0 to {ROWS_MAX - 1}, got first_row={first_row} and {count} more"
            )
        alive = self._point_to(sketches, marks, count, first_row)
        ranks = np.empty(count, np.int64)
        listed = self._begin_call(count)
        next_row = first_row
        done = 0
        while done < count:
            if mode != QUERY:
                self.tables.maintain()
            begin = done
            done = self.tables.match(held, begin, next_row, ranks, mode)
            next_row += confirm.births(ranks[begin:done], mode)
        del alive
        rows = ranks & confirm.ROW_MASK
        is_new = ranks >= confirm.UNCONFIRMED
        is_apart = ranks > confirm.UNCONFIRMED
        apart_from = np.where(is_apart, rows, -1)
        rows[is_new] = -1
        looks = LOOK_MAX - (ranks >> confirm.LOOK_SHIFT & LOOK_MASK)
        similarities = SIMILARITY_MAX - (
            ranks >> confirm.SIMILARITY_SHIFT & confirm.SIMILARITY_MASK
        )
        kept_apart = (ranks >> confirm.APART_BY_SHIFT) << APART_SHIFT | similarities
        kept_apart[~is_apart] = 0
        similarities[is_new] = 0
        new = int(np.count_nonzero(is_new))
        if mode == QUERY:
            listed[:] = 0
        elif mode == INSERT_NEW:
            listed[~is_new] = 0
        if mode != QUERY:
            indexed = held[0] if mode == INSERT_ALL else held[0][is_new]
            self.tables.note_latest(indexed, first_row)
        distances = (ranks >> confirm.DISTANCE_SHIFT).astype(np.uint8)
        return Judgement(
            rows,
            distances,
            looks.astype(np.uint16),
            similarities.astype(np.uint16),
            new,
            listed,
            kept_apart.astype(np.uint16),
            apart_from,
        )

    def _point_to(
        self, sketches: Column | None, marks: Column | None, count: int, first_row: int
    ) -> tuple[NDArray[Any], ...]:
        """
        Tell the kernels where sketches and marks lie; what is returned must live as long as they
        run.
        """
        memory = self.tables.memory
        held = self.sketches
        memory.fresh = memory.fresh_marks = 0
        if sketches is None:
            return ()
        if sketches.shape != (count, WORDS) or sketches.dtype != np.uint64:
            raise ValueError(
                f"each fingerprint has a sketch, uint64[{count}, {WORDS}], "
                f"got {sketches.dtype} of shape {sketches.shape}"
            )
        known = 0 if held is None else len(held)
        if len(self) and memory.last_row >= known:
            raise ValueError(
                f"each indexed row has a sketch, got row {memory.last_row} and {known} sketches"
            )
        if len(self) and first_row <= memory.last_row:
            raise ValueError(
                f"first_row must be greater than each indexed row, got first_row={first_row} and "
                f"row {memory.last_row}: rows are never reused"
            )
        fresh = np.ascontiguousarray(sketches)
        fresh_marks = None
        if marks is not None and memory.similarity_min:
            if marks.shape != (count,) or marks.dtype != np.uint64:
                raise ValueError(
                    f"each fingerprint has a mark, uint64[{count}], "
                    f"got {marks.dtype} of shape {marks.shape}"
                )
            if marks.any():
                fresh_marks = np.ascontiguousarray(marks)
                memory.fresh_marks = fresh_marks.ctypes.data
        places = np.empty(count, np.int64)
        addresses = np.empty(0, np.int64)
        if held is not None:
            addresses = held.addresses
            memory.sketch_bits, memory.sketch_first = held.bits, held.first
            memory.sketch_step = held.step
        memory.sketches, memory.fresh_first = addresses.ctypes.data, first_row
        memory.fresh, memory.fresh_places = fresh.ctypes.data, places.ctypes.data
        return (
            (addresses, fresh, places)
            if fresh_marks is None
            else (addresses, fresh, places, fresh_marks)
        )


def _given(arrays: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[NDArray[Any]]:
    """
    Return the columns of these names, and the rows; ValueError or TypeError: they are not there.
    """
    check_type("arrays", arrays, Mapping)
    wanted = [*names, "rows"]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ValueError(
            f"arrays must have {', '.join(wanted)}, as arrays() gives them: "
            f"there is no {', '.join(missing)}"
        )
    columns = [arrays[name] for name in wanted]
    for name, column in zip(wanted, columns, strict=True):
        check_type(name, column, np.ndarray)
        if column.ndim != 1:
            raise ValueError(f"{name} must be one column, got shape {column.shape}")
    return columns


def _checked(fingerprint: int) -> int:
    """Return one fingerprint as a number. Raises TypeError, ValueError: it is none of 64 bits."""
    number = operator.index(fingerprint)
    if not 0 <= number < 2**64:
        raise ValueError(f"a fingerprint is 0 to 2**64 - 1, got {number}")
    return number


class PermutedIndex(_RowIndex):
    """
    Fingerprints by row, searched by Hamming distance.

    Args:
        max_distance: a match differs in at most this many of the 64 bits, 0 to 16.
        layout: blocks and tables; chosen for `documents_expected` when not given.
        documents_expected: what the index is sized for; it grows beyond.
    Raises:
        ValueError: a distance out of bounds, or a layout made for a smaller distance: it would miss
            matches.
        TypeError: an argument of another type.

    Cost, 4 tables, k = 3: 0.2 µs per fingerprint at 1 M, 0.6 µs at 10 M; 48 to 57 bytes each.

    >>> index = PermutedIndex(max_distance=3)
    >>> index.judge(np.array([0b0000, 0b0111, 0b1111], dtype=np.uint64), first_row=0).rows.tolist()
    [-1, 0, -1]
    >>> index.renumber(np.array([2], np.uint32))
    >>> index.query(np.array([0b1111], np.uint64)).rows.tolist()
    [2]
    """

    tables: ExactTables

    def __init__(
        self, max_distance: int = 3, layout: Layout | None = None, documents_expected: int = 0
    ) -> None:
        if layout is not None:
            check_type("layout", layout, Layout)
        max_distance = whole_number("max_distance", max_distance)
        documents_expected = whole_number("documents_expected", documents_expected)
        check_distance(max_distance)
        choice = choose(max_distance, documents_expected, layout)
        if choice.search.max_distance != max_distance:
            raise ValueError(
                f"layout is for distance {choice.search.max_distance}, got "
                f"max_distance={max_distance}: it would miss matches or compare too many"
            )
        self.max_distance = max_distance
        self.layout = choice.search
        super().__init__(ExactTables(choice.search, choice.bits))

    def judge(self, fingerprints: Column, first_row: int) -> Judgement:
        """
        Cluster fingerprints by leaders, in order: return the best match of each, or give it a new
        row.

        A fingerprint without a match is indexed at once as row `first_row` + (new ones before it in
        this call), so that later ones of the same call find it.

        Args:
            fingerprints: uint64[n], in the order in which they arrived.
            first_row: row of the first new one; greater than every row that is indexed.
        Returns:
            A row of each, -1 where it is new; see `Judgement`.
        Raises:
            ValueError: rows would pass 2**32 - 1.
            TypeError: the fingerprints are no column of uint64.

        >>> PermutedIndex(0).judge(np.array([5, 6, 5], dtype=np.uint64), first_row=10)[:2]
        (array([-1, -1, 10]), array([255, 255,   0], dtype=uint8))
        """
        first_row = operator.index(first_row)
        return self._match([fingerprints], None, first_row, INSERT_NEW)

    def query(self, fingerprints: Column) -> Judgement:
        """
        Return the best match of each fingerprint among the indexed ones. Changes nothing.

        Raises:
            TypeError, ValueError: the fingerprints are no column of uint64.

        Cost: that of `judge`, less the insertions.
        """
        return self._match([fingerprints], None, 0, QUERY)

    def query_then_insert(self, fingerprints: Column, first_row: int) -> Judgement:
        """
        Find as `judge` does, but index every fingerprint, the matched ones too.

        They get the rows `first_row`, `first_row` + 1, … in their order. Arguments and errors are
        those of `judge`.

        Cost: that of `judge`, and an insertion for each match.
        """
        first_row = operator.index(first_row)
        return self._match([fingerprints], None, first_row, INSERT_ALL)

    def query_all(self, fingerprint: int) -> list[tuple[int, int]]:
        """
        Return every match as (row, distance), by distance, then row.

        Cost: that of a query, and the sorting of the matches.
        """
        fingerprint = _checked(fingerprint)
        slots = self.tables.all_matches(np.uint64(fingerprint))
        distances = np.bitwise_count(self.tables.fingerprints[slots] ^ np.uint64(fingerprint))
        rows = self.tables.rows[slots]
        order = np.lexsort((rows, distances))
        return list(zip(rows[order].tolist(), distances[order].tolist(), strict=True))

    def insert(self, fingerprints: Column, rows: NDArray[np.uint32]) -> None:
        """
        Index `fingerprints[i]` as `rows[i]`, whether it has matches or not.

        Raises:
            TypeError, ValueError: the columns are of another type or length, or a row is beyond
                32 bits.

        Cost: O(tables) each; thousands into an empty index take less than half the time of the
        same into one that grows.
        """
        self._insert([fingerprints], rows)

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[Any]], max_distance: int = 3, layout: Layout | None = None
    ) -> PermutedIndex:
        """
        Return the index whose content is `arrays`, as `arrays()` gave it.

        Raises:
            ValueError: a column is missing, or they are of different lengths.
            TypeError: a column is no array.

        Cost: 0.2 µs each.
        """
        fingerprints, rows = _given(arrays, COLUMNS[:1])
        index = cls(max_distance, layout, len(rows))
        index.insert(fingerprints, rows)
        return index

    def warm_up(self) -> None:
        """
        Compile, or load from the cache, what `judge` runs. Some seconds the first time, else a
        fraction of one.
        """
        idle = PermutedIndex(self.max_distance)
        idle.judge(np.zeros(1, np.uint64), 0)
        idle.tables.stores[0].finish_sweep()


class SearchIndex(_RowIndex):
    """
    Fingerprints, of a directed search with their doubts, by row, searched as `rules` say.

    Args:
        rules: decide which original is found. No other argument changes a result.
        documents_expected: what the index is sized for; it grows beyond.
        sketches: the sketch of each indexed row. The caller adds a row's sketch before the next
            call.
        are_marked: whether each of these sketches is followed by the mark of its row
            (`core/marks.py`). Without, no indexed row has a mark.

    Cost: `make bench-index` measures it, and `core.planner` predicts it.

    >>> index = SearchIndex(SearchRules())
    >>> fingerprints = np.array([0b0000, 0b0111], np.uint64)
    >>> doubts = np.array([0b1111, 0b1111], np.uint64)
    >>> sketches = np.ones((2, 8), np.uint64)
    >>> index.match_or_insert(fingerprints, doubts, sketches, first_row=0).rows.tolist()
    [-1, 0]
    """

    def __init__(
        self,
        rules: SearchRules,
        documents_expected: int = 0,
        sketches: SketchColumn | None = None,
        *,
        are_marked: bool = False,
    ) -> None:
        self.rules = rules
        tables: Tables
        if rules.mode == "directed":
            tables = ParallelTables(rules, bucket_bits(rules, documents_expected))
        else:
            choice = choose(rules.max_distance, documents_expected)
            tables = ExactTables(choice.search, choice.bits, rules.similarity_thousandths)
        super().__init__(tables, sketches)
        self.tables.memory.are_marked = are_marked
        self._asks = False

    @property
    def threads(self) -> int:
        """
        How many threads a call may search with; 1 at first. An exact search always uses one.
        """
        return self.tables.threads if isinstance(self.tables, ParallelTables) else 1

    @threads.setter
    def threads(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"threads must be at least 1, got {count}")
        if isinstance(self.tables, ParallelTables):
            self.tables.threads = count

    @property
    def asks(self) -> bool:
        """
        Whether a call prefetches all sketches that it will read, before it reads the first.

        False at first. It pays where many of them are on a disk and not in memory; an exact search
        looks for them twice. What is found is the same.
        """
        return self._asks

    @asks.setter
    def asks(self, asks: bool) -> None:
        self._asks = asks
        if isinstance(self.tables, ParallelTables):
            self.tables.asks = asks

    def _match(
        self,
        columns: Sequence[Column],
        sketches: Column | None,
        first_row: int,
        mode: int,
        marks: Column | None = None,
    ) -> Judgement:
        if self.asks and isinstance(self.tables, ExactTables):
            self.tables.memory.asking = 1
            try:
                super()._match(columns, sketches, ROWS_MAX, QUERY)
            finally:
                self.tables.memory.asking = 0
        return super()._match(columns, sketches, first_row, mode, marks)

    def match_or_insert(
        self,
        fingerprints: Column,
        doubts: Column,
        sketches: Column,
        first_row: int,
        marks: Column | None = None,
        outside: Sequence[Candidates] = (),
    ) -> Judgement:
        """
        Cluster fingerprints by leaders, in order, as `PermutedIndex.judge` does.

        Args:
            fingerprints: uint64[n].
            doubts: uint64[n]; exact rules ignore them.
            sketches: uint64[n, 8]. The caller adds those of new documents to the index's
                `sketches` before the next call.
            first_row: row of the first new one; greater than every row that is indexed.
            marks: uint64[n]: which page of which host each is. Left out, none has a mark. The
                caller adds those of new documents behind their sketches.
            outside: what other indexes of these rules have found for the fingerprints
                (`candidates`), of rows that have their sketches here. Directed rules only.
        Returns:
            A row of each, -1 where it is new; see `Judgement`.
        Raises:
            ValueError: the columns differ in length, an indexed row has no sketch, the rows are not
                new, or they would pass 2**32 - 1.

        Cost: what the rules foresee; `core.planner` estimates it.
        """
        if not outside:
            return self._match([fingerprints, doubts], sketches, first_row, INSERT_NEW, marks)
        tables = self._directed()
        tables.outside = outside
        try:
            return self._match([fingerprints, doubts], sketches, first_row, INSERT_NEW, marks)
        finally:
            tables.outside = ()

    def candidates(
        self, fingerprints: Column, doubts: Column, sketches: Column, marks: Column
    ) -> Candidates:
        """
        Return the best candidates of each fingerprint, for another index that decides
        (`match_or_insert`). Changes nothing. Directed rules only.

        Cost: that of `query`.
        """
        held = self._held(fingerprints, doubts)
        alive = self._point_to(sketches, marks, len(held[0]), ROWS_MAX)
        found = self._directed().candidates(held)
        del alive
        return found

    def count_outside(self, fingerprints: Column, listed: NDArray[np.uint16]) -> None:
        """
        Count originals that another index holds: they take places of `prefix_max` in this one, too.

        Args:
            listed: the blocks in which each was listed at birth. None of them leaves any more.
        """
        self._directed().count_outside(column_of(fingerprints), listed)

    def _directed(self) -> ParallelTables:
        if not isinstance(self.tables, ParallelTables):
            raise TypeError("an exact index takes no part in the search of another one")
        return self.tables

    def query(
        self,
        fingerprints: Column,
        doubts: Column,
        sketches: Column,
        marks: Column | None = None,
    ) -> Judgement:
        """Return the best match of each fingerprint among the indexed ones. Changes nothing."""
        return self._match([fingerprints, doubts], sketches, ROWS_MAX, QUERY, marks)

    def query_then_insert(
        self,
        fingerprints: Column,
        doubts: Column,
        sketches: Column,
        first_row: int,
        marks: Column | None = None,
    ) -> Judgement:
        """Find as `match_or_insert` does, but index all, as rows `first_row`, `first_row` + 1, …"""
        return self._match([fingerprints, doubts], sketches, first_row, INSERT_ALL, marks)

    def is_crowded(self, fingerprint: int, more: int) -> bool:
        """
        Return whether a fingerprint may have a prefix with more originals than are listed.

        If `prefix_max` originals of a prefix are listed, those born later are not. Removing one
        frees its place for the next birth, which may change the result of a later search.

        Args:
            more: how many originals may have been added since, with any fingerprints.
        """
        if not isinstance(self.tables, ParallelTables):
            return False
        return self.tables.is_crowded(fingerprint, more)

    def may_hide(self, fingerprint: int, more: int) -> bool:
        """
        Return whether an original may be hidden from a search for its own fingerprint.

        A search reads the sketches of CONFIRMED_MAX candidates. Of those with one fingerprint these
        are the oldest, which may all be other pages.

        Args:
            more: how many originals with this fingerprint may have been added since, or are in
                other indexes.

        Cost: some 20 µs, and 2 ns for each entry of a bucket.
        """
        if not self.rules.similarity_min:
            return False
        return self.tables.equal_bound(fingerprint) + more >= CONFIRMED_MAX

    def insert(
        self,
        fingerprints: Column,
        doubts: Column,
        rows: NDArray[np.uint32],
        listed: NDArray[np.uint16] | None = None,
    ) -> NDArray[np.uint16]:
        """
        Index `fingerprints[i]` as `rows[i]`, whether it has matches or not.

        Args:
            listed: by row, the blocks in which it was listed at birth, for rows that come back. If
                left out, the rows are born now, in the order given.
        Returns:
            The blocks in which each is listed now, bit by bit; 0 in an exact search.
        Raises:
            TypeError, ValueError: the columns are of another type or length.
        """
        return self._insert([fingerprints, doubts], rows, listed)

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[Any]],
        rules: SearchRules,
        documents_expected: int = 0,
        sketches: SketchColumn | None = None,
        *,
        are_marked: bool = False,
    ) -> Self:
        """
        Return the index of these rules whose content is `arrays`, as `arrays()` gave it.

        Raises:
            ValueError: a column is missing, they are of different lengths, or `listed` has rows
                where there is no room for them.
            TypeError: a column is no array.
        """
        is_directed = rules.mode == "directed"
        names = (*COLUMNS, "listed") if is_directed else COLUMNS[:1]
        *columns, rows = _given(arrays, names)
        listed = columns.pop() if is_directed else None
        index = cls(rules, max(documents_expected, len(rows)), sketches, are_marked=are_marked)
        has_room = index._insert(columns, rows, listed)
        if listed is not None and not np.array_equal(has_room, listed):
            at = int(np.flatnonzero(has_room != listed)[0])
            raise ValueError(
                f"row {rows[at]} cannot be listed in the blocks {listed[at]:#b}, only in "
                f"{has_room[at]:#b}: there are {rules.blocks}, and {rules.prefix_max} rows of one "
                "value may be listed in each"
            )
        return index

    def warm_up(self) -> None:
        """
        Compile, or load from the cache, what a search runs. Some seconds the first time, else a
        fraction of one.
        """
        for threads in sorted({1, self.threads}):
            idle = SearchIndex(self.rules)  # a new one each time: nobody keeps sketches for it
            idle.threads = threads
            nothing = np.zeros(SHARE_MIN * threads, np.uint64)
            idle.match_or_insert(nothing, nothing, np.zeros(len(nothing), SKETCH), 0)
            idle.tables.stores[0].finish_sweep()
        if self.rules.mode == "directed":
            # As a judge in legs does, with what another index has found.
            idle = SearchIndex(self.rules)
            one = np.zeros(1, np.uint64)
            found = idle.candidates(one, one, np.zeros(1, SKETCH), one)
            idle.match_or_insert(one, one, np.zeros(1, SKETCH), 0, outside=(found,))
            # Many rows among many originals are searched by a kernel of their own.
            idle = SearchIndex(self.rules)
            idle._directed().is_sorted = True
            idle.match_or_insert(one, one, np.zeros(1, SKETCH), 0)
