"""How an index grows, shrinks and gives memory back, and the columns in which it does so."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.benchmarks.common import flipped
from tests.core.test_index import few_buckets  # noqa: F401  # few_buckets is a fixture
from worker.core.index import PermutedIndex, SearchIndex
from worker.core.search import SearchRules
from worker.core.sketch import SKETCH
from worker.core.tables.columns import HUGE_FROM, MappedColumn
from worker.core.tables.memory import DirectedMemory, ExactMemory, NamedNumbers
from worker.core.tables.parallel import ParallelTables
from worker.core.tables.store import Buckets
from worker.log.columns import ChunkedColumn


def test_growth_from_nothing_loses_nothing() -> None:
    """
    100,000 fingerprints through every size of the tables: each is found again, with one bit
    changed.
    """
    dice = np.random.default_rng(1)
    fingerprints = dice.integers(0, 2**64, 100_000, dtype=np.uint64)
    index = PermutedIndex(3)
    row = 0
    for start in range(0, len(fingerprints), 777):
        row += index.judge(fingerprints[start : start + 777], row).new
    assert row == len(index) == len(fingerprints)
    found = index.query(
        fingerprints ^ (np.uint64(1) << dice.integers(0, 64, len(fingerprints), dtype=np.uint64))
    )
    assert (found.rows == np.arange(len(fingerprints))).all()
    assert (found.distances == 1).all()
    index.check()


def test_room_for_growth_is_there_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When a store of more than a huge page grows, its columns neither move nor have a huge page that
    was never written: up to four of them in one call would be its longest pause.
    """
    grow = Buckets.grow
    grown = []

    def checked(store: Buckets) -> None:
        columns = (store.filters, store.refs)
        before = [(column.address, column.back(len(column))) for column in columns]
        size = len(store.refs)
        grow(store)
        after = [(column.address, False) for column in columns]
        grown.append((size, before == after))

    monkeypatch.setattr(Buckets, "grow", checked)
    index = PermutedIndex(3)
    fingerprints = np.random.default_rng(1).integers(0, 2**64, 400_000, dtype=np.uint64)
    for start in range(0, len(fingerprints), 250):
        index.judge(fingerprints[start : start + 250], start)
    large = [is_prepared for size, is_prepared in grown if 4 * size >= HUGE_FROM]
    assert len(large) > 1
    assert all(large)
    index.check()


def test_deletions_give_memory_back_and_leave_what_a_new_index_holds() -> None:
    """
    Of 200,000 every thirtieth stays. The store is cut while changes go on; the answers are those of
    a new index.
    """
    numbers = np.random.default_rng(6).integers(0, 2**64, 200_000, dtype=np.uint64)
    rows = np.arange(len(numbers), dtype=np.uint32)
    index = PermutedIndex(3)
    index.insert(numbers, rows)
    before = index.nbytes
    gone = rows % 30 != 0
    assert index.delete_many(numbers[gone], rows[gone]).all()
    for _ in range(4):
        index.insert(numbers[gone][:10_000], rows[gone][:10_000])
        index.delete_many(numbers[gone][:10_000], rows[gone][:10_000])
    assert index.nbytes < before / 3
    index.check()
    rebuilt = PermutedIndex(3)
    rebuilt.insert(numbers[~gone], rows[~gone])
    asked = flipped(numbers, 4, np.random.default_rng(7))
    found, expected = index.query(asked), rebuilt.query(asked)
    assert (found.rows == expected.rows).all()
    assert (found.distances == expected.distances).all()
    for name, column in index.arrays().items():
        assert (column == rebuilt.arrays()[name]).all()


@pytest.mark.parametrize("unit", [1_000, HUGE_FROM // 4], ids=["small pages", "huge pages"])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_what_is_cut_does_not_come_back(dtype: type[np.generic], unit: int) -> None:
    """
    What stays keeps its value through any change of length; what is new is 0, also where something
    was cut.
    """
    dice = np.random.default_rng(1)
    column = MappedColumn(dtype, unit)
    expected = np.zeros(unit, dtype)
    for _ in range(12):
        filled = dice.integers(1, 2**32, len(column)).astype(dtype)
        column.array[:] = filled
        length = int(unit * dice.random() * 3)
        column.resize(length)
        expected = np.zeros(length, dtype)
        expected[: min(length, len(filled))] = filled[:length]
        assert (column.array == expected).all()
        assert column.address == column.array.ctypes.data


def test_a_column_has_its_huge_pages_made_one_at_a_time() -> None:
    """What is held stays, and only what was asked for is shown."""
    page = HUGE_FROM // 4
    column = MappedColumn(np.uint32, page)
    column.array[:] = 7
    column.reserve(3 * page)
    assert len(column) == page
    assert [column.back(page, 2 * page) for _ in range(2)] == [True, False]
    assert [column.back() for _ in range(2)] == [True, False]
    address = column.address
    column.resize(3 * page)
    assert column.address == address
    assert (column.array[:page] == 7).all()
    assert not column.array[page:].any()


def test_a_column_that_somebody_looks_at_is_copied() -> None:
    """A view keeps the old pages alive; the column goes on with new ones."""
    column = MappedColumn(np.uint32, 10)
    column.array[:] = 7
    view = column.array[2:4]
    column.resize(5_000)
    column.array[:] = 9
    assert view.tolist() == [7, 7]
    assert len(column) == 5_000


def number_fields(record: NamedNumbers, block: np.void, read: list[tuple[int, int]]) -> None:
    """Number a record's fields by Python, from the last number on; add what is read of each."""
    for name in record.layout.names or ():
        field = getattr(record, name)
        if isinstance(field, NamedNumbers):
            number_fields(field, block[name], read)
        else:
            setattr(record, name, len(read) + 1)
            read.append((getattr(record, name), int(block[name])))


@pytest.mark.parametrize("kind", [ExactMemory, DirectedMemory])
def test_kernels_and_python_find_the_same_number_under_a_name(
    kind: type[ExactMemory | DirectedMemory],
) -> None:
    """Of every field, of the stores within a block too; a copy shares none, a wrong name is none."""
    memory = kind()
    before = memory.copy()
    read: list[tuple[int, int]] = []
    number_fields(memory, memory.block[0], read)
    assert read == [(number, number) for number in range(1, len(read) + 1)]
    assert sorted(memory.words) == [number for number, _ in read]
    assert not any(before.words)
    with pytest.raises(KeyError):
        memory.point_to({"nowhere": np.zeros(1)})


def test_searches_give_back_what_they_sort_in_when_an_index_has_caught_up() -> None:
    """
    A question between two large calls leaves it where it is. The first few documents that are
    indexed by themselves give it back.
    """
    dice = np.random.default_rng(3)
    sketches: ChunkedColumn[np.uint64] = ChunkedColumn(SKETCH)
    index = SearchIndex(SearchRules(), 0, sketches)
    tables = index.tables
    assert isinstance(tables, ParallelTables)

    def call(count: int, first_row: int | None, *, is_sorted: bool) -> int:
        tables.is_sorted = is_sorted
        fingerprints, doubts = dice.integers(0, 2**64, (2, count), dtype=np.uint64)
        fresh = dice.integers(0, 2**64, (count, 8), dtype=np.uint64)
        if first_row is None:
            index.query(fingerprints, doubts, fresh)
        else:
            sketches.append(fresh)
            index.match_or_insert(fingerprints, doubts, fresh, first_row)
        return tracemalloc.get_traced_memory()[0]

    call(2_000, 0, is_sorted=False)
    tracemalloc.start()
    try:
        before = call(10, 2_000, is_sorted=False)
        far_behind = call(2_000, 2_010, is_sorted=True)
        asked = call(1, None, is_sorted=False)
        caught_up = call(10, 4_010, is_sorted=False)
    finally:
        tracemalloc.stop()
    assert far_behind - before > 10e6
    assert asked - before > 10e6
    assert caught_up - before < 5e6
