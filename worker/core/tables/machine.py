"""
The machine instructions that numba has no name for, each as a function for use inside kernels.

The kernels of the index work on addresses: one block of words says where each column lies, so that a call takes one
argument where the columns themselves would be a hundred words of description. Nothing is checked here: whoever calls
one has checked every index. Addresses and positions are int64, positions count elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

__all__ = [
    "LANES",
    "lanes_within",
    "move32",
    "prefetch",
    "read32",
    "read64",
    "write32",
    "write64",
]

Unsigned = TypeVar("Unsigned", np.uint32, np.uint64)
_intrinsic: Any = extending.intrinsic
_library: Any = cgutils

LANES = 16  # 32-bit numbers compared at once: one vector of 512 bits, two of 256, four of 128


def _place(builder: Any, element: Any, address: Any, position: Any) -> Any:
    return builder.gep(builder.inttoptr(address, element.as_pointer()), [position])


def _reader(element: Any) -> Any:
    """A function that reads one element of a column."""

    def read(_context: Any, _address: Any, _position: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.load(_place(builder, context.get_value_type(element), *arguments))

        return element(types.int64, types.int64), generate

    return _intrinsic(read)


def _writer(element: Any) -> Any:
    """A function that writes one element of a column."""

    def write(_context: Any, _address: Any, _position: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            builder.store(arguments[2], _place(builder, context.get_value_type(element), *arguments[:2]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, element), generate

    return _intrinsic(write)


read32: Callable[[int, int], np.uint32] = _reader(types.uint32)  # read32(address, position)
read64: Callable[[int, int], np.uint64] = _reader(types.uint64)  # read64(address, position)
write32: Callable[[int, int, np.uint32], None] = _writer(types.uint32)  # write32(address, position, value)
write64: Callable[[int, int, np.uint64], None] = _writer(types.uint64)  # write64(address, position, value)


def _prefetch(_context: Any, _address: Any, _byte: Any) -> Any:
    """`prefetch(address, byte)`: ask for the cache line of that byte of a column. A hint: any address is safe."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        pointer = _place(builder, ir.IntType(8), *arguments)
        shape = ir.FunctionType(ir.VoidType(), (pointer.type, word, word, word))
        function = _library.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(function, (pointer, word(0), word(3), word(1)))  # read, keep in every level, data
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


prefetch: Callable[[int, int], None] = _intrinsic(_prefetch)


def _move32(_context: Any, _address: Any, _target: Any, _source: Any, _count: Any) -> Any:
    """`move32(address, target, source, count)`: elements `source…` of a column of uint32 to `target…`; may overlap."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        places = [_place(builder, word, arguments[0], position) for position in arguments[1:3]]
        _library.raw_memmove(builder, *places, arguments[3], 4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


move32: Callable[[int, int, int, int], None] = _intrinsic(_move32)


def _lanes_within(_context: Any, _address: Any, _position: Any, _value: Any, _limit: Any) -> Any:
    """
    `lanes_within(address, position, value, limit)`: which of 16 numbers are near, as the bits of a uint32.

    Bit i is set when element `position + i` and `value` differ in at most `limit` bits; all are uint32. It reads 16
    elements whatever the column's length.
    """

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lane, vector = ir.IntType(32), ir.VectorType(ir.IntType(32), LANES)
        place = _place(builder, lane, arguments[0], arguments[1])
        held = builder.load(builder.bitcast(place, vector.as_pointer()))
        held.align = 4
        every = []
        for scalar in arguments[2:4]:
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, lane(0))
            zeros = ir.Constant(vector, [0] * LANES)
            every.append(builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros))
        shape = ir.FunctionType(vector, (vector,))
        count = _library.get_or_insert_function(builder.module, shape, f"llvm.ctpop.v{LANES}i32")
        within = builder.icmp_unsigned("<=", builder.call(count, (builder.xor(held, every[0]),)), every[1])
        return builder.zext(builder.bitcast(within, ir.IntType(LANES)), lane)

    return types.uint32(types.int64, types.int64, types.uint32, types.uint32), generate


lanes_within: Callable[[int, int, np.uint32, np.uint32], np.uint32] = _intrinsic(_lanes_within)
