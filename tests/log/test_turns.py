"""Rows of one record have their turn: whatever leaves in it, no row is judged as if it had not."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.log.drawn import DRAWN, PAGES, drawn_row
from tests.log.histories import applied, judged_in_records
from tests.log.test_replica import SOURCE, agree, definition, told
from worker.core.index import SearchIndex
from worker.core.search import SearchRules
from worker.log.record import Row, RowKind
from worker.log.rules import Retention

# One pattern of each block, the block itself: two rows meet in a prefix only by an equal block.
HIDING = SearchRules(patterns=1, look_min=0, prefix_max=2)


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    st.lists(DRAWN, min_size=8, max_size=40),
    st.integers(1, 10),
    st.sampled_from([1, 13, 40]),
    st.sampled_from(["compare", "replace"]),
    st.sampled_from(
        [Retention(), Retention(documents_max=7), Retention(documents_max=3, expire_from="last")]
    ),
    st.sets(st.integers(0, 40)),
)
def test_originals_are_listed_at_birth_in_any_history(
    drawn: list[tuple[int, int, int, RowKind, int, int]],
    prefix_max: int,
    rows_of: int,
    recrawls: Literal["compare", "replace"],
    retention: Retention,
    restarts: set[int],
) -> None:
    """
    With crowded prefixes, deletions, re-crawls, redeliveries, eviction, renewal, pages of one host,
    and at any moment a snapshot, or rows numbered anew.
    """
    search = SearchRules(patterns=1, look_min=0, prefix_max=prefix_max)
    of = replace(definition(retention, search), recrawls=recrawls)
    rows: list[Row] = []
    for offset, (doc_id, blocks, page, kind, mark, back) in enumerate(drawn):
        url = f"https://a.example/{doc_id % 5}"
        row = drawn_row(offset, f"d{doc_id}", blocks, page, kind, url, mark)
        rows.append(rows[-back]._replace(offset=offset) if 0 < back <= offset else row)
    oracle, replica = judged_in_records(of, rows, rows_of, restarts)
    agree(oracle, replica, SOURCE, 0)


def _judged(*records: list[Row]) -> list[str]:
    """The outcome of each row."""
    replica = applied(definition(Retention(), HIDING), *records)
    return [answer[0] for answer in told(replica, range(sum(map(len, records))))]


def _crowd() -> list[Row]:
    """
    Rows of one first block: `a` and `b` are listed there, so `c` is not, and its copy `d` does not
    find it. `c` and `d` differ in a bit of each other block. The last row deletes `a`.
    """
    block = 0x1234
    numbers = [block, block | 0x0F0F_00FF_F0F0 << 16, block | 0xFFFF_FF00_FFFF << 16]
    numbers.append(numbers[2] ^ (1 << 16 | 1 << 32 | 1 << 48))
    rows = [
        Row(at, RowKind.FULL, name, "", 0, number, at, 9, sketch=PAGES[min(at, 2)])
        for at, (name, number) in enumerate(zip("abcd", numbers, strict=True))
    ]
    return [*rows, Row(4, RowKind.DELETED, "a", "", 0)]


@settings(max_examples=EXAMPLES)
@given(st.lists(st.integers(0, 80), max_size=40), st.integers(0, 80), st.integers(0, 9))
def test_a_prefix_is_crowded_if_more_originals_may_have_it_than_are_listed(
    drawn: list[int], asked: int, more: int
) -> None:
    """Blocks of 16 bits have a bucket for each prefix, so counting equal blocks is the definition."""
    index = SearchIndex(SearchRules(prefix_max=8))
    held = [drawn_row(0, "", blocks, 0).fingerprint for blocks in drawn]
    rows = np.arange(len(held), dtype=np.uint32)
    index.insert(np.array(held, np.uint64), np.zeros(len(held), np.uint64), rows)
    fingerprint = drawn_row(0, "", asked, 0).fingerprint
    alike = [
        sum((one ^ fingerprint) >> 16 * block & 0xFFFF == 0 for one in held) for block in range(4)
    ]
    listed = min(max(alike), 8)
    assert index.is_crowded(fingerprint, more) == (listed + more > 8)
    assert not SearchIndex(SearchRules("exact", 3)).is_crowded(fingerprint, 1 << 20)


@pytest.mark.parametrize("mode", ["directed", "exact"])
@pytest.mark.parametrize("equal", [0, 1, 15, 16, 40])
def test_an_original_may_hide_behind_as_many_as_a_search_reads(
    mode: Literal["directed", "exact"], equal: int
) -> None:
    """Near ones do not hide it: they are behind it, whatever their rows."""
    index = SearchIndex(SearchRules(mode, 3, similarity_min=0.5))
    held = np.array([7] * equal + [6, 3] * 20, np.uint64)
    index.insert(held, np.zeros(len(held), np.uint64), np.arange(len(held), dtype=np.uint32))
    for more in (0, 1, 15, 16):
        assert index.may_hide(7, more) == (equal + more >= 16)


@pytest.mark.parametrize("block", range(4))
def test_an_original_may_hide_among_those_that_one_table_alone_lists(block: int) -> None:
    """Also when the crowd has left that kept them out of the other tables."""
    index = SearchIndex(SearchRules(prefix_max=20, similarity_min=0.5))
    crowd = np.arange(20, dtype=np.uint64) << np.uint64(16 * block)
    fingerprint = 0xFFFF << 16 * block
    for fingerprints in (crowd, np.full(16, fingerprint, np.uint64)):
        rows = np.arange(len(index), len(index) + len(fingerprints), dtype=np.uint32)
        index.insert(fingerprints, np.zeros(len(rows), np.uint64), rows)
    assert index.may_hide(fingerprint, 0)
    for row, left in enumerate(crowd.tolist()):
        index.delete(left, row)
    assert index.may_hide(fingerprint, 0)


def test_what_is_listed_does_not_leave_before_a_birth_that_could_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The deleted one is near no row, and its leaving would still let a row before the deletion be
    listed. Without asking whether a prefix is crowded that is what happens.
    """
    rows = _crowd()
    for waiting in rows[2:4]:  # or it would be searched first because it is near
        assert (waiting.fingerprint ^ rows[0].fingerprint).bit_count() > 16
    wanted = ["new", "new", "new", "new", "deleted"]
    assert _judged(rows[:1], rows[1:2], rows[2:3], rows[3:4], rows[4:]) == wanted
    assert _judged(rows[:2], rows[2:]) == wanted
    monkeypatch.setattr(SearchIndex, "is_crowded", lambda *_: False)
    assert _judged(rows[:2], rows[2:]) == ["new", "new", "new", "duplicate", "deleted"]


@pytest.mark.parametrize("together", [False, True])
def test_an_original_that_leaves_frees_its_place_and_reveals_nobody(together: bool) -> None:
    """`c` is not found though there is room by now; it is found if it was born when there was."""
    a, b, c, d, gone = _crowd()

    def outcomes(*order: Row) -> list[str]:
        rows = [row._replace(offset=at) for at, row in enumerate(order)]
        return _judged(rows) if together else _judged(*([row] for row in rows))

    assert outcomes(a, b, c, gone, d) == ["new", "new", "new", "deleted", "new"]
    assert outcomes(a, b, gone, c, d) == ["new", "new", "deleted", "new", "duplicate"]
