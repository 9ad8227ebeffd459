"""Columns in chunks read as one array does, whatever was forgotten, shared or changed before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from worker.log.columns import PLACE, ChunkedColumn, Field, Memory, TextPairs, bytes_column
from worker.log.duplicates import DuplicateTexts
from worker.log.texts import Texts

KINDS: dict[str, Any] = {
    "bytes": np.uint8,
    "numbers": np.int64,
    "sketches": np.dtype((np.uint64, 8)),
}


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(
        st.tuples(st.sampled_from(["append", "put", "forget", "share"]), st.integers(0, 900)),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(0, 10_000), max_size=60),
)
def test_rows_are_those_of_one_array(
    kind: str, changes: list[tuple[str, int]], asked: list[int]
) -> None:
    """
    Few rows are read by a loop, many by a kernel, and some hundred are written chunk by chunk; a
    snapshot's pieces never change.
    """
    column: ChunkedColumn[Any] = ChunkedColumn(KINDS[kind], 3)
    plain = np.empty(0, KINDS[kind])
    pieces: list[tuple[Any, Any]] = []
    for number, (change, size) in enumerate([("append", 40), *changes]):
        if change == "append":
            added = np.full(len(np.empty(size)), number, np.uint8).astype(column.dtype.base)
            values = np.broadcast_to(
                added.reshape(-1, *[1] * (plain.ndim - 1)), (size, *plain.shape[1:])
            )
            column.append(np.ascontiguousarray(values))
            plain = np.concatenate([plain, values])
        elif change == "put":
            count = len(plain) - column.first
            rows = column.first + np.arange(size) * 7 % count  # in any order, also repeated
            values = np.arange(size).astype(column.dtype.base)
            values = values.reshape(-1, *[1] * (plain.ndim - 1))
            column.put(rows, values)
            plain[rows] = values
        elif change == "forget":
            column.forget(min(size, len(plain) - 1))
        else:
            pieces.append((np.concatenate(column.pieces()), plain[column.first :].copy()))
        kept = len(plain) - column.first
        rows = column.first + np.array(asked, np.int64) % kept
        assert column.take(rows).tolist() == plain[rows].tolist()
        assert len(column.addresses) == -(-kept // column.size)
    for shared, as_they_were in pieces:
        assert shared.tolist() == as_they_were.tolist()


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), min_size=1, max_size=40),
    st.lists(st.integers(0, 10_000), max_size=40),
    st.integers(0, 39),
)
def test_texts_are_those_that_were_added(
    pairs: list[tuple[bytes, bytes]], asked: list[int], forgotten: int
) -> None:
    """Texts that lie in several chunks, empty ones, the last one; some rows are forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.log.columns.ROWS_BITS", 1)
        patch.setattr("worker.log.columns.BYTES_BITS", 3)
        places: ChunkedColumn[Any] = ChunkedColumn(PLACE)
        texts = TextPairs(places, bytes_column(Memory()))
        added = Texts.of([one for one, _ in pairs]), Texts.of([other for _, other in pairs])
        places.append(texts.append(*added))
    places.forget(min(forgotten, len(pairs) - 1))
    texts.forget()
    first = places.first
    rows = first + np.array(asked, np.int64) % (len(pairs) - first)
    doc_ids, urls = texts.take(rows)
    wanted = [pairs[row] for row in rows.tolist()]
    assert list(zip(doc_ids.tolist(), urls.tolist(), strict=True)) == wanted
    assert doc_ids.tolist() == [texts.text(2 * row) for row in rows.tolist()]
    others = [pairs[(row + 1) % len(pairs)][0] for row in rows.tolist()]
    equal = [one == other for (one, _), other in zip(wanted, others, strict=True)]
    assert doc_ids.equal_to(Texts.of(others)).tolist() == equal
    between = texts.between(first, len(pairs))
    assert list(zip(*(part.tolist() for part in between), strict=True)) == pairs[first:]
    texts.will_need(rows)


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.lists(st.integers(0, 10_000), max_size=60),
    st.integers(0, 100),
)
def test_a_field_is_the_column_that_it_would_be(
    sizes: list[int], asked: list[int], forgotten: int
) -> None:
    """Appended with its row or filled later, in chunks of eight rows of which some are forgotten."""
    kind = np.dtype([("sketch", "<u8", 8), ("kind", "u1"), ("time", "<i8")])
    column: ChunkedColumn[Any] = ChunkedColumn(kind, 3)
    plain = np.zeros(0, kind)
    for number, size in enumerate([1, *sizes]):
        added = np.zeros(size, kind)
        added["sketch"] = np.arange(8 * size).reshape(-1, 8) * (number + 1)
        column.append(added)
        for name in ("kind", "time"):
            added[name] = np.arange(size) + number
            Field(column, name).fill(len(plain), added[name])
        plain = np.concatenate([plain, added])
    column.forget(min(forgotten, len(plain) - 1))
    first = column.first
    rows = first + np.array(asked, np.int64) % (len(plain) - first)
    column.will_need(rows)
    assert column.take(rows).tobytes() == plain[rows].tobytes()
    for name in ("sketch", "kind", "time"):
        field: Field[Any] = Field(column, name)
        assert (field.first, len(field)) == (first, len(plain))
        assert field.take(rows).tolist() == plain[name][rows].tolist()
        assert field.slice(first, len(plain)).tolist() == plain[name][first:].tolist()
        for refused in (-1, first - 1, len(plain)):
            with pytest.raises(IndexError):
                field.take(np.array([refused]))
    times: Field[np.int64] = Field(column, "time")
    assert [times[row] for row in rows.tolist()] == plain["time"][rows].tolist()


class Disk(Memory):
    """Memory that says of each look at it that a page was read meanwhile, while it `is_cold`."""

    def __init__(self) -> None:
        self.is_cold = True
        self._read = 0

    def pages_read(self) -> int:
        self._read += self.is_cold
        return self._read


def test_many_rows_are_prefetched_if_they_are_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A segment of a hash table that is split reads the keys of two thousand rows, whoever has the
    table. Few rows, or rows that are in memory, are not asked for; nor are most of a column.
    """
    prefetched: list[int] = []
    will_need = ChunkedColumn.will_need

    def noted(column: ChunkedColumn[Any], rows: NDArray[np.int64]) -> None:
        prefetched.append(len(rows))
        will_need(column, rows)

    monkeypatch.setattr(ChunkedColumn, "will_need", noted)
    disk = Disk()
    column: ChunkedColumn[Any] = ChunkedColumn(np.dtype([("number", np.int64)]), 8, disk)
    numbers = np.arange(100_000)
    column.append(numbers.astype(column.dtype))
    rows = np.random.default_rng(1).permutation(numbers)
    for count, is_cold in ((2_000, True), (2_000, False), (100, True), (100_000, True)):
        disk.is_cold = is_cold
        assert Field(column, "number").take(rows[:count]).tolist() == rows[:count].tolist()
    assert prefetched == [2_000]
    texts = DuplicateTexts(disk)
    for part in np.split(numbers.astype(np.uint64), 100):
        texts.remember(part, np.zeros(len(part), np.int64))
    assert len(prefetched) > 10


def test_slices_that_are_not_there_are_refused() -> None:
    """A kernel would read them elsewhere."""
    column: ChunkedColumn[np.uint8] = ChunkedColumn(np.uint8, 3)
    column.append(np.arange(20, dtype=np.uint8))
    column.forget(9)
    for begin, end in ((0, 10), (10, 21), (12, 11), (-1, 12)):
        with pytest.raises(IndexError, match="slices must lie in \\[8, 20\\)"):
            column.cut(np.array([begin]), np.array([end]))
        if begin < end:
            with pytest.raises(IndexError, match="slices must lie in \\[8, 20\\)"):
                column.will_need_slices(np.array([9, begin]), np.array([10, end]))
    column.will_need_slices(np.array([0, 9, 21]), np.array([0, 18, 20]))  # two are empty
    assert column.cut(np.array([20, 9]), np.array([20, 18])).tolist() == [b"", bytes(range(9, 18))]
