"""The entries of a directed index, and the doubts beside them, as they lie in memory."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from tests.core.test_index import LIVE, RULES, columns, crawl
from worker.core.definition import MULTIPLIER
from worker.core.index import SearchIndex
from worker.core.kernels import nearness
from worker.core.kernels.machine import SLACK
from worker.core.kernels.nearness import (
    PLANE_LANES,
    planes_within,
    put_planes,
    wide_lanes_behind,
    wide_lanes_within,
)
from worker.core.search import SearchRules, block_of
from worker.core.sketch import WORDS
from worker.core.tables.doubts import CHUNK_ROWS


@pytest.mark.parametrize(
    "rules", [rules for rules in RULES if rules.mode == "directed"], ids=lambda rules: rules.text
)
def test_an_entry_says_all_of_a_fingerprint(rules: SearchRules) -> None:
    """
    As `entries` draws it: bucket and filter of any table give the fingerprint back, and the entries
    of a bucket ascend by row, in whatever order the rows came.
    """
    fingerprints, doubts, _ = columns(crawl(random.Random(2), 500, LIVE[2]))
    rows = np.random.default_rng(2).permutation(500).astype(np.uint32)
    index = SearchIndex(rules)
    listed = index.insert(fingerprints, doubts, rows).tolist()
    bits = index.tables.memory.bits
    buckets, filters, refs = index.tables.stores[0].contents()
    order = np.argsort(rows)
    for table in range(rules.blocks):
        mine = buckets >> bits == table
        tops = (buckets[mine] & ((1 << bits) - 1)).astype(np.uint64) << np.uint64(64 - bits)
        arranged = tops | filters[mine]
        width = sum(width for _, width in rules.runs[table])
        blocks = [block_of(value, rules.runs[table]) for value in fingerprints.tolist()]
        sorted_refs = np.argsort(refs[mine])
        assert (arranged[sorted_refs] >> np.uint64(64 - width)).tolist() == [
            blocks[at] for at in order.tolist() if listed[at] >> table & 1
        ]
    held_columns = index.arrays()
    order = order[np.array(listed)[order] > 0]
    assert (held_columns["rows"] == rows[order]).all()
    assert (held_columns["fingerprints"] == fingerprints[order]).all()
    assert (held_columns["doubts"] == doubts[order]).all()
    assert (held_columns["listed"] == np.array(listed)[order]).all()
    index.check()


def test_doubts_lie_by_row_and_leave_in_chunks() -> None:
    """
    Rows far from each other take a chunk each; one whose rows have gone is given back, and may come
    again.
    """
    rules = SearchRules(similarity_min=0, look_min=0)
    rows = np.array([3, CHUNK_ROWS - 1, CHUNK_ROWS, 2**32 - 1], np.uint32)
    fingerprints, doubts, _ = columns(crawl(random.Random(4), 4))
    index = SearchIndex(rules)
    index.insert(fingerprints, doubts, rows)
    heads = index.tables.stores[0].nbytes
    assert (index.arrays()["doubts"] == doubts).all()
    assert index.nbytes - heads == 3 * 8 * CHUNK_ROWS
    assert index.delete_many(fingerprints[2:], rows[2:]).all()
    index.check()
    assert index.nbytes - heads == 8 * CHUNK_ROWS
    index.insert(fingerprints[2:], doubts[2:], rows[2:])
    assert (index.arrays()["doubts"] == doubts).all()
    index.check()


def test_one_call_may_index_rows_of_more_than_two_chunks() -> None:
    """Each chunk between the first and the last row of a call is there, and takes its doubts."""
    rules = SearchRules(patterns=1, max_distance=0, look_min=0, similarity_min=0)
    count = CHUNK_ROWS + 2
    doubts = np.arange(count, dtype=np.uint64)
    fingerprints = doubts * np.uint64(MULTIPLIER)
    sketches = np.zeros((count, WORDS), np.uint64)
    index = SearchIndex(rules, count)
    found = index.query_then_insert(fingerprints, doubts, sketches, CHUNK_ROWS - 1)
    assert found.new == count
    rows = index.arrays()["rows"]
    assert (rows == np.arange(CHUNK_ROWS - 1, 2 * CHUNK_ROWS + 1)).all()
    assert (index.arrays()["doubts"] == doubts).all()


Near = Callable[[int, int, np.uint64, np.uint64], int]


@pytest.fixture(params=[False, True], ids=["halves", "512 bits"])
def compiled(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Any], Near]:
    """What compiles an instruction that compares eight numbers, with vectors of either length."""
    monkeypatch.setattr(nearness, "has_512_bits", lambda: request.param)

    def kernel_of(instruction: Any) -> Near:
        @njit
        def near(filters: Any, position: Any, value: Any, limit: Any) -> Any:
            return instruction(filters, position, value, limit)

        kernel: Near = near
        return kernel

    return kernel_of


def number_at(data: bytes, place: int) -> int:
    """A number of 48 bits."""
    return int.from_bytes(data[place : place + 6], "little")


@pytest.mark.parametrize("instruction", [wide_lanes_within, wide_lanes_behind])
def test_numbers_of_48_bits_are_compared_alike_with_vectors_of_every_length(
    compiled: Callable[[Any], Near], instruction: Any
) -> None:
    """Eight at a time, before or behind other bytes, within each limit: as counted one by one."""
    near = compiled(instruction)
    dice = np.random.default_rng(48)
    data = dice.integers(0, 256, 6 * 40 + 2 * SLACK, dtype=np.uint8)
    begin = data.ctypes.data + SLACK
    held = [number_at(data.tobytes(), SLACK + 6 * n) for n in range(40)]
    for position in range(3, 32):
        value = held[position + position % 8] ^ int(dice.integers(0, 2**48)) & 0x0103_0041_0005
        for limit in (0, 3, 8, 20, 24, 48):
            due = sum(
                1 << lane
                for lane in range(8)
                if (held[position + lane] ^ value).bit_count() <= limit
            )
            found = near(begin, position, np.uint64(value), np.uint64(limit))
            assert found == due, (position, limit)


def test_numbers_of_48_bits_are_compared_alike_in_planes() -> None:
    """32 at a time, within each limit: as counted one by one."""
    dice = np.random.default_rng(32)
    data = dice.integers(0, 256, 6 * PLANE_LANES, dtype=np.uint8)
    planes = np.zeros(6 * PLANE_LANES, np.uint8)
    held = [number_at(data.tobytes(), 6 * n) for n in range(PLANE_LANES)]
    _put(data.ctypes.data, planes.ctypes.data)
    assert planes.tolist() == data.reshape(-1, 6).T.ravel().tolist()
    for lane in range(PLANE_LANES):
        value = held[lane] ^ int(dice.integers(0, 2**48)) & 0x0103_0041_0005
        for limit in (0, 3, 8, 20, 24, 48):
            due = sum(1 << n for n, one in enumerate(held) if (one ^ value).bit_count() <= limit)
            assert _within(planes.ctypes.data, np.uint64(value), np.uint64(limit)) == due


@njit
def _put(numbers: Any, planes: Any) -> None:
    put_planes(numbers, planes)


@njit
def _within(planes: Any, value: Any, limit: Any) -> Any:
    return planes_within(planes, value, limit)


def test_nothing_is_read_behind_the_numbers_that_end_a_bucket(
    compiled: Callable[[Any], Near],
) -> None:
    """They end where a page begins that nobody may read: one byte of it would end this process."""
    near = compiled(wide_lanes_behind)
    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * size)
    pages[:size] = data = np.random.default_rng(7).bytes(size)
    begin = np.frombuffer(pages, np.uint8).ctypes.data
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + size), ctypes.c_size_t(size), 0) == 0
    last = number_at(data, size - 6)
    assert near(begin + size - 48, 0, np.uint64(last), np.uint64(0)) == 1 << 7
