"""
Bytes of a page for kernels: one at a time at any place, or 32 compared at once. Nothing is checked: see SLACK.

Functions take an array, or the address that it begins at: a call passes an array in seven words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.np import arrayobj

from worker.core.compiled import fused
from worker.core.kernels.machine import intrinsic, pointer, popcount, store, trailing_zeros, vector

SLACK = 64  # bytes of zero behind each page, and room behind what is written: a block that begins at the last byte
LANES = 32
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


@intrinsic
def byte_at(_context: Any, array: Any, position: Any) -> Any:
    """`byte_at(array, position)`: a byte as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(pointer(context, builder, signature.args[0], *arguments)), _WORD)

    return types.int64(array, position), generate


@intrinsic
def set_byte(_context: Any, array: Any, position: Any, _value: Any) -> Any:
    """`set_byte(array, position, value)`: write the low byte of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(builder.trunc(arguments[2], _BYTE), place)
        return context.get_dummy_value()

    return types.void(array, position, types.int64), generate


def viewer(
    shape: tuple[int, ...], *, held_at: int | None = None, rows_at: int | None = None, unsigned: bool = False
) -> Any:
    """
    A function of an address that gives an array of 64-bit numbers, which belongs to somebody else.

    Args:
        shape: of the array.
        held_at: the word behind the address in which the array's own address is; None when the array begins there.
        rows_at: the word in which the number of its rows is, for checks of bounds.
    """
    kind = types.Array(types.uint64 if unsigned else types.int64, len(shape), "C")

    def view(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            def word(slot: int) -> Any:
                return builder.load(builder.gep(builder.inttoptr(arguments[0], _WORD.as_pointer()), [_WORD(slot)]))

            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(arguments[0] if held_at is None else word(held_at), _WORD.as_pointer())
            sizes = [_WORD(size) for size in shape]
            if rows_at is not None:
                sizes[0] = word(rows_at)
            steps = [_WORD(8 * size) for size in shape[1:]] + [_WORD(8)]
            arrayobj.populate_array(array, data, sizes, steps, _WORD(8), None)  # type: ignore[no-untyped-call]
            return array._getvalue()

        return kind(address), generate

    return intrinsic(view)


def _all(block: Any, byte: int) -> Any:
    return ir.Constant(block.type, [byte] * LANES)


def _bits(builder: Any, condition: Any) -> Any:
    return builder.zext(builder.bitcast(condition, ir.IntType(LANES)), _WORD)


def _any_of(builder: Any, block: Any, wanted: bytes) -> Any:
    found = builder.icmp_unsigned("==", block, _all(block, wanted[0]))
    for byte in wanted[1:]:
        found = builder.or_(found, builder.icmp_unsigned("==", block, _all(block, byte)))
    return found


def _where(wanted: bytes) -> Callable[..., Any]:
    """A function of (array, position): bit i of its uint64 is set when byte `position + i` is one of those wanted."""

    def where(_context: Any, array: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            block = vector(builder, pointer(context, builder, signature.args[0], *arguments), 8, LANES)
            return _bits(builder, _any_of(builder, block, wanted))

        return types.uint64(array, position), generate

    return intrinsic(where)


_where_less_than = _where(b"<")


@intrinsic
def high_bits(_context: Any, array: Any, position: Any) -> Any:
    """`high_bits(array, position)`: bit i is set when byte `position + i` is beyond ASCII; 32 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = vector(builder, pointer(context, builder, signature.args[0], *arguments), 8, LANES)
        return _bits(builder, builder.icmp_signed("<", block, _all(block, 0)))

    return types.uint64(array, position), generate


@intrinsic
def copy_plain(_context: Any, array: Any, position: Any, out: Any, at: Any) -> Any:
    """
    `copy_plain(array, position, out, at)`: copy 32 bytes, and say where plain text ends among them.

    Returns a uint64: bit i is set for '<', '&', a control, 0xC2 (a no-break space may begin), a space before a space.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = vector(builder, pointer(context, builder, signature.args[0], *arguments[:2]), 8, LANES)
        store(builder, block, pointer(context, builder, signature.args[2], *arguments[2:]))
        control = builder.icmp_unsigned("<", block, _all(block, 32))
        ends = _bits(builder, builder.or_(control, _any_of(builder, block, b"<&\xc2")))
        space = _bits(builder, _any_of(builder, block, b" "))
        return builder.or_(ends, builder.and_(space, builder.lshr(space, _WORD(1))))

    return types.uint64(array, position, out, at), generate


@fused
def lanes_before(found: Any) -> Any:
    """How many of 32 bytes come before the first that a bit is set for."""
    return min(np.int64(trailing_zeros(found)), LANES)


def _where_between(first: int, last: int, more: tuple[int, int] | None = None) -> Callable[..., Any]:
    """As _where, of bytes in one range or in either of two."""

    def where(_context: Any, array: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            block = vector(builder, pointer(context, builder, signature.args[0], *arguments), 8, LANES)

            def within(low: int, high: int) -> Any:
                return builder.icmp_unsigned("<", builder.sub(block, _all(block, low)), _all(block, high - low + 1))

            found = within(first, last)
            return _bits(builder, builder.or_(found, within(*more)) if more else found)

        return types.uint64(array, position), generate

    return intrinsic(where)


# Of 32 bytes: those that begin a character that is seen; a character that weighs three letters; marks that divide
# sentences; and the beginnings of such marks beyond ASCII.
where_letters = _where_between(0x21, 0x7F, (0xC0, 0xF7))
where_heavy = _where_between(0xE3, 0xED)
where_stops = _where(b",.!?;")
where_long_stops = _where(b"\xd8\xdb\xe0\xe3\xef")


def _finder(wanted: bytes) -> Any:
    where = _where(wanted)

    @fused
    def find(array: Any, position: Any, end: Any) -> Any:
        while position < end:
            found = where(array, position)
            if found:
                return min(position + np.int64(trailing_zeros(found)), end)
            position += LANES
        return end

    return find


# find(array, position, end): where the next such byte stands, `end` when there is none
find_less_than = _finder(b"<")
find_greater_than = _finder(b">")
find_tag_edge = _finder(b"<>")
find_quote = _finder(b'"')
find_apostrophe = _finder(b"'")


@fused
def count_less_than(array: Any, position: Any, end: Any) -> Any:
    """How many '<' stand before `end`; some behind it may be counted too."""
    count = np.int64(0)
    while position < end:
        count += np.int64(popcount(_where_less_than(array, position)))
        position += LANES
    return count
