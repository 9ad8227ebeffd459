"""
The machine instructions that numba has no name for, each as a function for use inside kernels.

The kernels of the index work on addresses: one block of words says where each column lies, so that a call takes one
argument where the columns themselves would be a hundred words of description. Nothing is checked here: whoever calls
one has checked every index. Addresses and positions are int64, positions count elements.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

Unsigned = TypeVar("Unsigned", np.uint16, np.uint32, np.uint64)
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


read16: Callable[[int, int], np.uint16] = _reader(types.uint16)  # read16(address, position)
read32: Callable[[int, int], np.uint32] = _reader(types.uint32)  # read32(address, position)
read64: Callable[[int, int], np.uint64] = _reader(types.uint64)  # read64(address, position)
write16: Callable[[int, int, np.uint16], None] = _writer(types.uint16)  # write16(address, position, value)
write32: Callable[[int, int, np.uint32], None] = _writer(types.uint32)  # write32(address, position, value)
write64: Callable[[int, int, np.uint64], None] = _writer(types.uint64)  # write64(address, position, value)


def _prefetcher(locality: int) -> Any:
    """A function that asks for the cache line of one byte of a column. A hint: any address is safe."""

    def prefetch_(_context: Any, _address: Any, _byte: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word = ir.IntType(32)
            pointer = _place(builder, ir.IntType(8), *arguments)
            shape = ir.FunctionType(ir.VoidType(), (pointer.type, word, word, word))
            function = _library.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
            builder.call(function, (pointer, word(0), word(locality), word(1)))  # read, data
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return _intrinsic(prefetch_)


prefetch: Callable[[int, int], None] = _prefetcher(3)  # prefetch(address, byte), into every level
prefetch_many: Callable[[int, int], None] = _prefetcher(2)  # the same, but not into the first level: it holds few


@_intrinsic  # type: ignore[untyped-decorator]
def will_need(_context: Any, _address: Any, _size: Any) -> Any:
    """Ask the system for the pages of so many bytes, which must be mapped: a file's are read while others go on."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word, number = ir.IntType(64), ir.IntType(32)
        address, size = arguments
        page = builder.and_(address, word(-mmap.PAGESIZE))
        size = builder.sub(builder.add(address, size), page)
        shape = ir.FunctionType(number, (word, word, number))
        function = _library.get_or_insert_function(builder.module, shape, "madvise")
        builder.call(function, (page, size, number(mmap.MADV_WILLNEED)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _mover(bits: int) -> Any:
    """A function that moves elements `source…` of a column to `target…`, which may overlap."""

    def move(_context: Any, _address: Any, _target: Any, _source: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            places = [_place(builder, ir.IntType(bits), arguments[0], position) for position in arguments[1:3]]
            _library.raw_memmove(builder, *places, arguments[3], bits // 8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    return _intrinsic(move)


move16: Callable[[int, int, int, int], None] = _mover(16)  # move16(address, target, source, count)
move32: Callable[[int, int, int, int], None] = _mover(32)  # move32(address, target, source, count)


def _everywhere(builder: Any, scalar: Any, lanes: int) -> Any:
    """A number in each lane."""
    vector = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _differing(builder: Any, held: Any, value: Any) -> Any:
    """In how many bits each lane differs from a number."""
    shape = ir.FunctionType(held.type, (held.type,))
    name = f"llvm.ctpop.v{held.type.count}i{held.type.element.width}"
    count = _library.get_or_insert_function(builder.module, shape, name)
    return builder.call(count, (builder.xor(held, _everywhere(builder, value, held.type.count)),))


def _within(builder: Any, counts: Any, limit: Any) -> Any:
    """The lanes that are at most `limit`, as the bits of a uint32."""
    lanes = counts.type.count
    within = builder.icmp_unsigned("<=", counts, _everywhere(builder, limit, lanes))
    return builder.zext(builder.bitcast(within, ir.IntType(lanes)), ir.IntType(32))


def _lanes_within(_context: Any, _address: Any, _position: Any, _value: Any, _limit: Any) -> Any:
    """
    `lanes_within(address, position, value, limit)`: which of 16 numbers are near, as the bits of a uint32.

    Bit i is set when element `position + i` and `value` differ in at most `limit` bits; all are uint32. It reads 16
    elements whatever the column's length.
    """

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lane = ir.IntType(32)
        place = _place(builder, lane, *arguments[:2])
        held = builder.load(builder.bitcast(place, ir.VectorType(lane, LANES).as_pointer()))
        held.align = 4
        return _within(builder, _differing(builder, held, arguments[2]), arguments[3])

    return types.uint32(types.int64, types.int64, types.uint32, types.uint32), generate


lanes_within: Callable[[int, int, np.uint32, np.uint32], np.uint32] = _intrinsic(_lanes_within)


def _wide_lanes_within(_context: Any, _address: Any, _position: Any, _value: Any, _limit: Any) -> Any:
    """
    `wide_lanes_within(address, position, value, limit)`: the same of numbers of 48 bits, six bytes each, side by side.

    It reads 112 bytes from the first one on.
    """

    def half(builder: Any, place: Any, first: int, value: Any, limit: Any) -> Any:
        """The eight numbers from byte `first` on, widened to 64 bits and compared."""
        byte, vector = ir.IntType(8), ir.VectorType(ir.IntType(8), 64)
        held = builder.load(builder.bitcast(builder.gep(place, [ir.IntType(64)(first)]), vector.as_pointer()))
        held.align = 2
        spread = [6 * (n // 8) + n % 8 if n % 8 < 6 else 64 for n in range(64)]  # 64: a byte of the zeros
        order = ir.Constant(ir.VectorType(ir.IntType(32), 64), spread)
        zeros = ir.Constant(vector, [byte(0)] * 64)
        wide = builder.bitcast(builder.shuffle_vector(held, zeros, order), ir.VectorType(ir.IntType(64), LANES // 2))
        counts = _differing(builder, wide, value)
        return _within(builder, counts, builder.zext(limit, ir.IntType(64)))

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, position, value, limit = arguments
        place = _place(builder, ir.IntType(8), address, builder.mul(position, ir.IntType(64)(6)))
        low, high = half(builder, place, 0, value, limit), half(builder, place, 48, value, limit)
        return builder.or_(low, builder.shl(high, ir.IntType(32)(LANES // 2)))

    return types.uint32(types.int64, types.int64, types.uint64, types.uint32), generate


wide_lanes_within: Callable[[int, int, np.uint64, np.uint32], np.uint32] = _intrinsic(_wide_lanes_within)
