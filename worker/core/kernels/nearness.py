"""
Which of several numbers are near another one: differ from it in few bits. For the index, whose
searches are made of this.

    lanes_within        16 numbers of 32 bits
    words_within        8 numbers of 64 bits
    wide_lanes_within   8 numbers of 48 bits, as they lie side by side
    wide_lanes_behind   the same, and nothing behind them is read
    planes_within       32 numbers of 48 bits, of which `put_planes` has made planes

Nothing is checked, as in `machine`: numbers are read where an address and a position say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from worker.core.kernels.machine import (
    BYTE,
    NUMBER,
    WORD,
    bits_of,
    element,
    everywhere,
    instruction,
    library,
    same,
    store,
    vector,
)

WIDE_LANES = 8  # numbers of 48 bits compared at once
WIDE_SPARE = 16  # bytes of a vector beyond those numbers
PLANE_LANES = 32  # numbers of 48 bits of which planes are made
# Numbers of an index compared at once: of 32 bits one vector of 512, two of 256, four of 128.
NUMBER_LANES = 16


def _near(builder: Any, held: Any, value: Any, limit: Any) -> Any:
    """Return which lanes differ from a number in at most `limit` bits, as the bits of a uint32."""
    lanes = held.type.count
    width = held.type.element.width
    shape = ir.FunctionType(held.type, (held.type,))
    count = library.get_or_insert_function(builder.module, shape, f"llvm.ctpop.v{lanes}i{width}")
    differing = builder.call(count, (builder.xor(held, everywhere(builder, value, held.type)),))
    # Unsigned, it takes two instructions more before AVX-512; no number here is that large.
    near = builder.icmp_signed("<=", differing, everywhere(builder, limit, held.type))
    return builder.zext(builder.bitcast(near, ir.IntType(lanes)), NUMBER)


@instruction(types.uint32, types.int64, types.int64, types.uint32, types.uint32)
def lanes_within(builder: Any, address: Any, position: Any, value: Any, limit: Any) -> Any:
    """
    `lanes_within(address, position, value, limit)`: which of 16 numbers are near, as the bits of a
    uint32.

    Bit i is set when element `position + i` and `value` differ in at most `limit` bits; all are
    uint32. It always reads 16 elements, even if the column is shorter.
    """
    return _near(
        builder,
        vector(builder, element(builder, 32, address, position), 32, NUMBER_LANES),
        value,
        limit,
    )


def has_512_bits() -> bool:
    """
    Return whether kernels are compiled for vectors of 512 bits.

    The features of numba's target decide. It has none if NUMBA_CPU_FEATURES is empty, whatever
    NUMBA_CPU_NAME says.
    """
    return "+avx512bw" in cpu_target.target_context.codegen().magic_tuple()[2]


def _wide_lanes(builder: Any, begin: Any, skipped: int, value: Any, limit: Any) -> Any:
    """
    Return which of 8 numbers of 48 bits are near: those at `begin`, or so many bytes behind it.

    A vector of 512 bits holds all of them. Shorter ones are filled by loads of 16 bytes, two
    numbers each. One longer load takes a quarter more time, because its bytes must cross the halves
    of a vector.
    """
    if has_512_bits():
        held = vector(builder, begin, 8, 8 * WIDE_LANES)
        firsts = [skipped + 6 * lane for lane in range(WIDE_LANES)]
        return builder.zext(_near(builder, _spread(builder, held, firsts), value, limit), WORD)
    # Two numbers are 12 of 16 bytes. If bytes before may be read, none behind them is.
    early = 4 if skipped else 0
    firsts = [early, early + 6, early + 16, early + 22]
    found = WORD(0)
    for first in range(0, WIDE_LANES, 4):
        low, high = (
            vector(builder, builder.gep(begin, [WORD(skipped + 6 * lane - early)]), 8, 16)
            for lane in (first, first + 2)
        )
        held = builder.shuffle_vector(low, high, _order(range(32)))
        near = _near(builder, _spread(builder, held, firsts), value, limit)
        found = builder.or_(found, builder.shl(builder.zext(near, WORD), WORD(first)))
    return found


def _spread(builder: Any, held: Any, firsts: Sequence[int]) -> Any:
    """Return the 48-bit numbers that begin at these bytes of a vector, as 64-bit numbers."""
    # Byte `count` is the first of the shuffle's second vector, which is zeros.
    count = held.type.count
    order = _order(first + byte if byte < 6 else count for first in firsts for byte in range(8))
    shuffled = builder.shuffle_vector(held, same(held, 0), order)
    return builder.bitcast(shuffled, ir.VectorType(WORD, len(firsts)))


def _order(numbers: Iterable[int]) -> Any:
    chosen = list(numbers)
    return ir.Constant(ir.VectorType(NUMBER, len(chosen)), chosen)


@instruction(types.uint64, types.int64, types.int64, types.uint64, types.uint64)
def wide_lanes_within(builder: Any, address: Any, position: Any, value: Any, limit: Any) -> Any:
    """
    `wide_lanes_within(address, position, value, limit)`: which of 8 numbers of 48 bits are near, as
    the bits of a uint64.

    The numbers lie side by side, six bytes each. At most 64 bytes are read from the first one on.
    """
    begin = element(builder, 8, address, builder.mul(position, WORD(6)))
    return _wide_lanes(builder, begin, 0, value, limit)


@instruction(types.uint64, types.int64, types.int64, types.uint64, types.uint64)
def wide_lanes_behind(builder: Any, address: Any, position: Any, value: Any, limit: Any) -> Any:
    """
    `wide_lanes_behind(address, position, value, limit)`: the same, but it reads up to 16 bytes
    before the first number, and none behind the last one.
    """
    begin = builder.sub(builder.mul(position, WORD(6)), WORD(WIDE_SPARE))
    return _wide_lanes(builder, element(builder, 8, address, begin), WIDE_SPARE, value, limit)


@instruction(types.uint64, types.int64, types.int64, types.uint64, types.uint64)
def words_within(builder: Any, address: Any, position: Any, value: Any, limit: Any) -> Any:
    """`words_within(address, position, value, limit)`: the same of 8 numbers of 64 bits."""
    held = vector(builder, element(builder, 64, address, position), 64, WIDE_LANES)
    return builder.zext(_near(builder, held, value, limit), WORD)


@instruction(types.void, types.int64, types.int64)
def put_planes(builder: Any, source: Any, out: Any) -> None:
    """
    `put_planes(source, out)`: write the planes of 32 numbers of 48 bits from one address to
    another: the lowest byte of each number, then the next byte of each, and so on.

    The numbers lie side by side, six bytes each; as many bytes are written as are read.
    """
    place = builder.inttoptr(source, BYTE.as_pointer())
    target = builder.inttoptr(out, BYTE.as_pointer())
    parts = [vector(builder, builder.gep(place, [WORD(16 * at)]), 16, 8) for at in range(12)]
    for third in range(3):
        eights = [
            _third(builder, parts[3 * number : 3 * number + 3], third)
            for number in range(PLANE_LANES // 8)
        ]
        halves = [
            builder.shuffle_vector(low, high, _order(range(16)))
            for low, high in (eights[:2], eights[2:])
        ]
        whole = builder.shuffle_vector(*halves, _order(range(PLANE_LANES)))
        for half in range(2):
            shifted = builder.lshr(whole, same(whole, 8 * half))
            plane = builder.trunc(shifted, ir.VectorType(BYTE, PLANE_LANES))
            at = PLANE_LANES * (2 * third + half)
            store(builder, plane, builder.gep(target, [WORD(at)]))


def _third(builder: Any, parts: Sequence[Any], third: int) -> Any:
    """Return the lowest, middle or highest 16 bits of eight numbers that lie in three vectors."""
    wanted = [3 * lane + third for lane in range(8)]  # of the 24 elements
    of_two = builder.shuffle_vector(*parts[:2], _order(min(at, 15) for at in wanted))
    order = _order(lane if at < 16 else at - 8 for lane, at in enumerate(wanted))
    return builder.shuffle_vector(of_two, parts[2], order)


@instruction(types.uint64, types.int64, types.uint64, types.uint64)
def planes_within(builder: Any, address: Any, value: Any, limit: Any) -> Any:
    """
    `planes_within(address, value, limit)`: which of 32 numbers of 48 bits are near, by their
    planes, as the bits of a uint64.

    Bit i is set when number i and `value` differ in at most `limit` bits.
    """
    place = builder.inttoptr(address, BYTE.as_pointer())
    lanes = ir.VectorType(BYTE, PLANE_LANES)
    shape = ir.FunctionType(lanes, (lanes,))
    name = f"llvm.ctpop.v{PLANE_LANES}i8"
    count = library.get_or_insert_function(builder.module, shape, name)
    differing = ir.Constant(lanes, [0] * PLANE_LANES)
    for plane in range(6):
        held = vector(builder, builder.gep(place, [WORD(PLANE_LANES * plane)]), 8, PLANE_LANES)
        wanted = builder.trunc(builder.lshr(value, WORD(8 * plane)), BYTE)
        unlike = builder.xor(held, everywhere(builder, wanted, lanes))
        differing = builder.add(differing, builder.call(count, (unlike,)))
    limits = everywhere(builder, builder.trunc(limit, BYTE), lanes)
    return bits_of(builder, builder.icmp_signed("<=", differing, limits))
