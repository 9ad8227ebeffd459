"""
A table of int64 as a type of its own for numba: its number of columns is known to the compiler, and
no row or column has a negative number.

numba counts a negative position from the end of an array, as Python does. So it looks at every
position that might be negative before it reads there, and multiplies a row's number by a number of
columns that it loads with the array. The scanner and the selection of pages read little but rows of
blocks and containers, and numbers of rows that they have read from others. Without the two, a page
takes some 4 % less time.

    nodes[k, N_TAG]     in numba     k + (rows if k < 0 else 0), times columns, plus N_TAG
                        here         k times 21, plus N_TAG

To numba it is an array of two dimensions: its shape, its slices, and the checks of bounds that
NUMBA_BOUNDSCHECK compiles in. These refuse a negative position, which they let pass in arrays.

Positions as np.uint64 would be taken as they are, too. But a sum of one with an int64 is a float,
and every sweep and climb would have to say it: the gain is spread over all of them (measures.py,
cut.py and root.py alone: less than 1 % of a page's time each).
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils, imputils

WORD = ir.IntType(64)
_intrinsic: Any = extending.intrinsic
_library: Any = cgutils
_lower: Any = extending.lower_builtin
_borrowed: Any = imputils.impl_ret_borrowed


class Rows(types.Array):
    """The type of a table with this many columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        super().__init__(types.int64, 2, "C", name=f"rows({columns})")

    @property
    def key(self) -> Any:
        """Return what makes two types of this class the same."""
        return self.columns


# In memory it is an array, so that all else that numba does with arrays fits.
extending.register_model(Rows)(extending.models.ArrayModel)
_POSITION: Any = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


def as_rows(columns: int) -> Any:
    """Make a function for kernels: it returns an array with so many columns as a table."""
    kind = Rows(columns)

    def view(_context: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            # Both keep the memory alive.
            return _borrowed(context, builder, kind, arguments[0])

        return kind(array), generate

    return _intrinsic(view)


def _cell(context: Any, builder: Any, kind: Rows, table: Any, position: Any) -> Any:
    """Return a pointer to the number in a row and a column."""
    array = context.make_array(kind)(context, builder, table)
    row, column = _library.unpack_tuple(builder, position, 2)
    if context.enable_boundscheck:
        for axis, size in enumerate(_library.unpack_tuple(builder, array.shape, 2)):
            _library.do_boundscheck(context, builder, (row, column)[axis], size, axis)
    return builder.gep(array.data, [builder.add(builder.mul(row, WORD(kind.columns)), column)])


def _read(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """`table[row, column]`"""
    return builder.load(_cell(context, builder, signature.args[0], *arguments))


def _write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """`table[row, column] = value`"""
    kind, _, value_kind = signature.args
    table, position, value = arguments
    number = context.cast(builder, value, value_kind, kind.dtype)
    builder.store(number, _cell(context, builder, kind, table, position))
    return context.get_dummy_value()


# For this type alone: numba's own arrays stay as they are.
_lower(operator.getitem, Rows, _POSITION)(_read)
_lower(operator.setitem, Rows, _POSITION, types.Any)(_write)
