"""A judge whose earlier originals are in other indexes says what one judge says that has them all."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from tests.log.drawn import DRAWN, drawn_row
from tests.log.test_replica import MARKS, SOURCE, agree, definition, packed
from tests.log.test_snapshot import LOG, to_bytes
from tests.oracle import Oracle
from worker.core import planner
from worker.core.index import SearchIndex
from worker.core.search import SearchRules
from worker.core.tables.parallel import Candidates
from worker.log.originals import OriginalStore
from worker.log.outside import Outside, Slice
from worker.log.record import Row, RowKind, Rows, decode
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.snapshot import restore


def outside_of(held: OriginalStore, rows: list[Row], slices: int) -> Outside:
    """
    Take all originals of a store out that cannot leave for some rows, and ask `slices` indexes for
    what these find.
    """
    leg = Rows.of(rows)
    inside = held.may_leave([leg.doc_ids])
    outside = Outside(len(held), inside, lambda _: ())
    taken = [held.slice_rows(part) for part in held.rows_outside(outside)]
    cut = np.array_split(np.concatenate(taken), slices) if taken else []
    found = [Slice(held.search, part).find(leg) for part in cut]

    def find(offsets: NDArray[np.int64]) -> list[Candidates]:
        places = offsets - leg.offsets[0]
        return [Candidates(one.begins[places], one.ends[places], one.ranks) for one in found]

    return outside._replace(find=find)


def judged_in_legs(
    of: Definition,
    rows: list[Row],
    rows_of: int,
    legs: set[int],
    slices: int,
    change: Callable[[Outside], Outside] = lambda outside: outside,
) -> tuple[Oracle, Replica]:
    """
    Return the oracle and a replica that have judged some rows.

    Args:
        of: the definition of the log.
        rows: in order.
        rows_of: how many a record has.
        legs: the records with which a leg begins.
        slices: how many indexes have the originals outside.
        change: what is done wrong.
    """
    oracle = Oracle(of.search, of.retention)
    replica = Replica(of)
    for number, first in enumerate(range(0, len(rows), rows_of)):
        if number in legs:
            outside = change(outside_of(replica.judge.held, rows[first:], slices))
            replica = restore(to_bytes(replica), of, LOG, outside=outside)
        data = packed(of, rows[first : first + rows_of])
        oracle.apply(data)
        replica.apply(decode(data), number, 0)
        replica.check()
    return oracle, replica


def history(drawn: list[tuple[int, int, int, RowKind, int, int]]) -> list[Row]:
    """Return rows with re-crawls, redeliveries and deletions under few doc_ids of the many."""
    rows: list[Row] = []
    for offset, (doc_id, blocks, page, kind, mark, back) in enumerate(drawn):
        # One in three has a doc_id that comes again. If all had, none would go outside.
        name = f"d{doc_id}" if doc_id < 4 else f"n{offset}"
        row = drawn_row(offset, name, blocks, page, kind, f"https://a.example/{doc_id % 5}", mark)
        rows.append(rows[-back]._replace(offset=offset) if 0 < back <= offset else row)
    return rows


@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(
    st.lists(DRAWN, min_size=8, max_size=60),
    st.integers(1, 7),
    st.sampled_from([(1, 0), (16, 300), (64, 600)]),
    st.sampled_from([0.0, 0.54]),
    st.sampled_from([1, 3, 13]),
    st.sets(st.integers(1, 40), max_size=5),
    st.integers(1, 3),
    st.booleans(),
)
def test_legs_change_no_verdict(
    drawn: list[tuple[int, int, int, RowKind, int, int]],
    prefix_max: int,
    looked_up: tuple[int, int],
    similarity: float,
    rows_of: int,
    legs: set[int],
    slices: int,
    is_sorted: bool,
) -> None:
    """
    With crowded prefixes, families, deletions, new versions, redeliveries, short texts and thin
    pages of one host, however the history is cut into legs and what is outside into slices, and
    whether probes are sorted or not.
    """
    patterns, look_min = looked_up
    search = SearchRules(
        patterns=patterns, look_min=look_min, prefix_max=prefix_max, similarity_min=similarity
    )
    of = definition(Retention(), search)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "ENTRIES_MIN", 0 if is_sorted else 1 << 32)
        patch.setattr(planner, "PROBED_MIN", 0.0)
        agree(*judged_in_legs(of, history(drawn), rows_of, legs, slices), SOURCE, 0)


@pytest.mark.parametrize("mode", ["directed", "exact"])
def test_a_judge_is_freed_as_soon_as_nobody_has_it(mode: Literal["directed", "exact"]) -> None:
    """
    With its index, its columns and all its tables: the next leg's judge needs the memory, and Python
    looks for cycles at a time of its own.
    """
    similarity = 0.54 if mode == "directed" else 0.0
    of = definition(Retention(), SearchRules(mode=mode, similarity_min=similarity))
    legs = {3} if mode == "directed" else set()
    rows = history(_drawn(1))
    judged_in_legs(of, rows, 10, legs, 2)  # numba compiles in frames that it keeps for a while
    gc.collect()
    gc.disable()
    try:
        _, replica = judged_in_legs(of, rows, 10, legs, 2)
        held = replica.judge.held
        parts = (replica, held, held.index, held.names, held.urls, held.short, held.thin)
        left = [weakref.ref(part) for part in parts]
        del replica, held, parts
        assert [part() for part in left] == [None] * len(left)
    finally:
        gc.enable()


def _drawn(seed: int) -> list[tuple[int, int, int, RowKind, int, int]]:
    """Return a history like those of `DRAWN`."""
    draw = random.Random(seed)
    kinds = [RowKind.FULL] * 8 + [RowKind.SHORT, RowKind.DELETED]
    return [
        (
            draw.randrange(12),
            draw.randrange(81),
            draw.randrange(3),
            draw.choice(kinds),
            draw.choice(MARKS),
            draw.choice([0, 0, 0, 0, 1, 2, 5]),
        )
        for _ in range(60)
    ]


def _best(found: Candidates) -> Candidates:
    return found._replace(ends=np.minimum(found.begins + 1, found.ends))


def _find(
    change: Callable[[Sequence[Candidates]], Sequence[Candidates]],
) -> Callable[[Outside], Outside]:
    """Return what changes what is found outside."""

    def changed(outside: Outside) -> Outside:
        return outside._replace(find=lambda offsets: change(outside.find(offsets)))

    return changed


WRONG: dict[str, Callable[[Outside], Outside]] = {
    "nothing is found outside": _find(lambda _: ()),
    "only the first slice is asked": _find(lambda found: found[:1]),
    "only the best of each slice counts": _find(lambda found: [_best(one) for one in found]),
    "what may leave is outside": lambda one: one._replace(inside=one.inside[:0]),
    "what is listed outside does not count": lambda outside: outside,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_each_mistake_changes_a_verdict(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above sees it; or, where an original would be missed that leaves, an error."""
    search = SearchRules(look_min=0, prefix_max=3, similarity_min=0.54)
    of = definition(Retention(), search)
    if wrong == "what is listed outside does not count":
        monkeypatch.setattr(SearchIndex, "count_outside", lambda *_: None)

    def is_seen(seed: int) -> bool:
        rows = history(_drawn(seed))
        try:
            agree(*judged_in_legs(of, rows, 10, {2, 4}, 2, WRONG[wrong]), SOURCE, 0)
        except (AssertionError, RuntimeError):
            return True
        return False

    assert any(is_seen(seed) for seed in range(40))
