"""The exact table against a list of pairs."""

from __future__ import annotations

import random

import numpy as np

from worker.core.exact import ExactTable


def test_find_gives_the_smallest_row_of_each_key() -> None:
    """Keys with several rows, keys with none, inserted and deleted in any order."""
    generator = random.Random(1)
    table, pairs = ExactTable(), set[tuple[int, int]]()
    for row in range(2_000):
        key = generator.choice([0, 2**64 - 1, generator.getrandbits(10), generator.getrandbits(64)])
        table.insert(np.array([key], np.uint64), np.array([row], np.uint32))
        pairs.add((key, row))
        if generator.random() < 0.3:
            gone = generator.choice(sorted(pairs))
            pairs.discard(gone)
            assert table.delete(*gone)
            assert not table.delete(*gone)
    keys = [*sorted({key for key, _ in pairs}), 2**63, 12345678901]
    expected = [min((row for held, row in pairs if held == key), default=-1) for key in keys]
    assert table.find(np.array(keys, np.uint64)).tolist() == expected
    for key in keys[:50]:
        assert table.find_all(key) == sorted(row for held, row in pairs if held == key)
    assert len(table) == len(pairs)
    restored = ExactTable.from_arrays(table.arrays())
    assert restored.find(np.array(keys, np.uint64)).tolist() == expected
