"""
What the machine can do and numba has no name for: numbers from bytes at any place, 64 characters at a time.

A kernel has no bounds checks: every buffer that is read or written this way ends in SLACK bytes that belong to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

SLACK = 128  # bytes after the content of a buffer: a block that begins at its last byte, twice


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator; the first argument of a function is numba's own, callers do not pass it."""
    made: Callable[..., Any] = numba_intrinsic(function)
    return made


_BYTE = ir.IntType(8)


def pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    """The address of a byte of an array, whatever its elements are; or of a byte behind an address."""
    if isinstance(kind, types.Integer):
        return builder.inttoptr(builder.add(array, position), _BYTE.as_pointer())
    data = builder.bitcast(context.make_array(kind)(context, builder, array).data, _BYTE.as_pointer())
    return builder.gep(data, [position])


def _load(bits: int, result: Any, array: Any, position: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = pointer(context, builder, signature.args[0], *arguments)
        value = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()))
        value.align = 1
        return value

    return result(array, position), generate


@intrinsic
def load64(_context: Any, array: Any, position: Any) -> Any:
    """`load64(array, byte)`: eight bytes as a little-endian uint64, at any alignment."""
    return _load(64, types.uint64, array, position)


@intrinsic
def load32(_context: Any, array: Any, position: Any) -> Any:
    """`load32(array, byte)`: four bytes as a little-endian uint32, at any alignment."""
    return _load(32, types.uint32, array, position)


@intrinsic
def store32(_context: Any, array: Any, position: Any, _value: Any) -> Any:
    """`store32(array, byte, uint32)`: four bytes, little-endian, at any alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store(builder, arguments[2], pointer(context, builder, signature.args[0], *arguments[:2]))
        return context.get_dummy_value()

    return types.void(array, position, types.uint32), generate


@intrinsic
def popcount(_context: Any, value: Any) -> Any:
    """`popcount(value)`: how many bits are set, in the value's own type."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return value(value), generate


@intrinsic
def trailing_zeros(_context: Any, value: Any) -> Any:
    """`trailing_zeros(value)`: the position of the lowest set bit; the value's width for 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return value(value), generate


@intrinsic
def mask_of(_context: Any, _condition: Any) -> Any:
    """
    `mask_of(condition)`: a uint64 of 64 ones, or of none.

    What follows from it is never compiled to a branch: the compiler is not told that it is one of two values.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        hidden = ir.InlineAsm(ir.FunctionType(whole, [whole]), "", "=r,0")
        return builder.call(hidden, [builder.sext(arguments[0], whole)])

    return types.uint64(types.boolean), generate


@intrinsic
def rotated(_context: Any, _value: Any, _bits: Any) -> Any:
    """`rotated(value, bits)`: a uint64 rotated left."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole, left = arguments
        return builder.or_(builder.shl(whole, left), builder.lshr(whole, builder.sub(left.type(64), left)))

    return types.uint64(types.uint64, types.uint64), generate


def _fold(builder: Any, block: Any) -> tuple[Any, Any]:
    """A vector of ASCII bytes: folded (letters in lower case, a space for a separator), and which are word bytes."""

    def all_of(byte: int) -> Any:
        return ir.Constant(block.type, [byte] * block.type.count)

    lower = builder.or_(block, all_of(0x20))
    letter = builder.icmp_unsigned("<", builder.sub(lower, all_of(ord("a"))), all_of(26))
    digit = builder.icmp_unsigned("<", builder.sub(block, all_of(ord("0"))), all_of(10))
    word = builder.or_(letter, digit)
    return builder.select(word, builder.select(letter, lower, block), all_of(0x20)), word


def vector(builder: Any, address: Any, bits: int, count: int) -> Any:
    value = builder.load(builder.bitcast(address, ir.VectorType(ir.IntType(bits), count).as_pointer()))
    value.align = 1
    return value


def store(builder: Any, value: Any, address: Any) -> None:
    stored = builder.store(value, builder.bitcast(address, value.type.as_pointer()))
    stored.align = 1


@intrinsic
def fold_bytes(_context: Any, text: Any, position: Any, out: Any, out_position: Any) -> Any:
    """
    `fold_bytes(text, position, out, out_position)`: 64 bytes of ASCII, folded.

    Returns a uint64: bit i is 1 when byte i is a letter or digit.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        folded, word = _fold(builder, vector(builder, source, 8, 64))
        store(builder, folded, pointer(context, builder, signature.args[2], arguments[2], arguments[3]))
        return builder.bitcast(word, ir.IntType(64))

    return types.uint64(text, position, out, out_position), generate


@intrinsic
def fold_code_points(_context: Any, text: Any, position: Any, out: Any, out_position: Any) -> Any:
    """
    `fold_code_points(text, position, out, out_position)`: 16 code points, folded into 16 bytes if they are ASCII.

    Returns a uint64: bit i is 1 when code point i is a letter or digit of ASCII, bit 16 + i when it is beyond ASCII.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.shl(arguments[1], arguments[1].type(2))
        source = pointer(context, builder, signature.args[0], arguments[0], start)
        block = vector(builder, source, 32, 16)
        beyond = builder.icmp_unsigned(">", block, ir.Constant(block.type, [127] * 16))
        folded, word = _fold(builder, builder.trunc(block, ir.VectorType(_BYTE, 16)))
        store(builder, folded, pointer(context, builder, signature.args[2], arguments[2], arguments[3]))
        half, whole = ir.IntType(16), ir.IntType(64)
        high = builder.zext(builder.bitcast(beyond, half), whole)
        return builder.or_(builder.zext(builder.bitcast(word, half), whole), builder.shl(high, whole(16)))

    return types.uint64(text, position, out, out_position), generate
