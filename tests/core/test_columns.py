"""Columns that grow and shrink in place, in small pages and in huge ones."""

from __future__ import annotations

import numpy as np
import pytest

from worker.core.tables.store import HUGE_FROM, MappedColumn


@pytest.mark.parametrize("unit", [1_000, HUGE_FROM // 4], ids=["small pages", "huge pages"])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_what_is_cut_does_not_come_back(dtype: type[np.generic], unit: int) -> None:
    """What stays keeps its value through any change of length; what is new is 0, also where something was cut."""
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


def test_a_column_that_somebody_looks_at_is_copied() -> None:
    """A view keeps the old pages alive; the column goes on with new ones."""
    column = MappedColumn(np.uint32, 10)
    column.array[:] = 7
    view = column.array[2:4]
    column.resize(5_000)
    column.array[:] = 9
    assert view.tolist() == [7, 7]
    assert len(column) == 5_000
