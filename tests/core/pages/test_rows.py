"""Tables of rows are arrays to a kernel, but for negative positions."""

import os
import sys
from typing import Any

import numpy as np

from tests.conftest import output_of
from worker.core.compiled import kernel
from worker.core.kernels.rows import as_rows

COLUMNS = 3
_table_of = as_rows(COLUMNS)


@kernel
def fill(rows: Any) -> Any:
    """Write a table in each way, and return what is read from it."""
    table = _table_of(rows)
    table[1, :] = 7
    table[2:, 1:3] = 5
    read = np.int64(0)
    for k in range(table.shape[0]):
        table[k, 0] = k
        table[k, 2] += table[k, 0] * 10
        table[k, 1] = table[k, 1] == 5
        read += table[k, 2]
    return read


@kernel
def read_at(rows: Any, row: Any, column: Any) -> Any:
    return _table_of(rows)[row, column]


def test_a_table_reads_and_writes_what_an_array_does() -> None:
    """Numbers, booleans and slices stand in the array that the table was made of."""
    rows = np.zeros((4, COLUMNS), np.int64)
    assert fill(rows) == 0 + 17 + 25 + 35
    assert rows.tolist() == [[0, 0, 0], [1, 0, 17], [2, 1, 25], [3, 1, 35]]


def test_a_table_keeps_its_array_no_longer_than_it_is_used() -> None:
    """No reference to an array is left when the kernel returns."""
    rows = np.zeros((4, COLUMNS), np.int64)
    before = sys.getrefcount(rows)
    for _ in range(10):
        fill(rows)
    assert sys.getrefcount(rows) == before


def test_checks_of_bounds_refuse_a_negative_position() -> None:
    """With NUMBA_BOUNDSCHECK, a position is refused on either side of the table, and none else."""
    script = """
import numpy as np
from tests.core.pages.test_rows import COLUMNS, read_at
rows = np.zeros((4, COLUMNS), np.int64)
for place in ((0, 0), (3, 2), (-1, 0), (4, 0), (0, -1), (0, 3)):
    try:
        print(read_at(rows, *place))
    except IndexError:
        print("refused")
"""
    checks = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": "",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    told = output_of(sys.executable, "-c", script, env=os.environ | checks)
    assert told.split() == ["0", "0", *["refused"] * 4]
