"""
Machine instructions that numba has no name for, as functions for kernels. They read and write
memory at any address, or work on many numbers at once.

numba compiles Python, and Python has no word for "which of these 32 bytes are '<'" or "ask for this
cache line". The decorator `instruction` makes such a function from a builder. The compiler runs the
builder, which takes values of LLVM and writes LLVM's code for them.

    @instruction(types.uint64, PLACE)                   in a kernel:  found = where(page, i)
    def where(builder, place):                          in the machine code: no call is left, but a
        block = vector(builder, place, 8, BYTE_LANES)   load, a comparison and the extraction of
        return bits_of(builder, any_of(…, b"<"))        a bit per lane

Most loops over bytes have the same pattern. They look at BYTE_LANES bytes and get a word with a bit
for each byte that is wanted, the lowest bit for the first byte. `trailing_zeros` is the place of
the first of them, and `bits & (bits - 1)` goes on to the next. A vector may be longer than the
machine's own: LLVM divides it.

What always holds:

- Nothing is checked: the caller must have checked every index. A block of 64 bytes may begin at a
  buffer's last byte, so every buffer that is read or written ends in SLACK bytes that belong to it.
  What was read beyond the end is masked by the caller.
- A place is an array and a byte in it, or the address that the array begins at and a byte: a call
  passes an array in seven words, and an address in one.
- Bytes are little-endian. No alignment is assumed, except where an address counts elements.
- All numbers are integers, so results are the same bits on every machine.

Tried and rejected:

- A branch on random data. A processor cannot predict whether a token is a function word: 5 KB of
  English took 12.7 µs with a branch and 10.4 without. LLVM itself turns a selection into a branch,
  hence `mask_of`.
- One instruction set per module (texts, pages, index), each with its own slack: 570 lines instead
  of 450, and no faster (within 3 %). `nearness` has the comparisons of the index, by the builders
  and with the slack of this file, which had become too long.
- Builders as lambdas, with arguments by a naming convention: shorter, but a reader could not see
  what an instruction returns.
"""

from __future__ import annotations

import functools
import inspect
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np import arrayobj

from worker.core.compiled import fused

# Bytes after the content of a buffer, zeros behind a page: a block that begins at its last byte,
# twice.
SLACK = 128
BYTE_LANES = 32  # bytes of a page compared at once
STRING_LANES = 64  # bytes of JSON copied, or digits decoded, at once
CODES_END = 0x2100  # behind the punctuation of all scripts

PLACE = object()
ANY = object()
SAME = object()
BYTE = ir.IntType(8)
NUMBER = ir.IntType(32)
WORD = ir.IntType(64)
_intrinsic: Any = extending.intrinsic
library: Any = cgutils


def instruction(returns: Any, *operands: Any) -> Callable[[Callable[..., Any]], Any]:
    """
    Decorate the builder of an instruction, `(builder, *values) -> value`. Returns the function that
    kernels call.

    Args:
        returns: numba's type of what it returns, `types.void`, or SAME: that of its first argument.
        operands: the type of each value; ANY; or PLACE, which stands for two arguments: the builder
            gets a pointer to that byte.

    numba calls an intrinsic twice. First it passes the types of the arguments to `define`, which
    returns the types that it wants. numba converts values of other types, which saves each caller a
    cast. Then it passes the values in LLVM to `generate`, which returns the result.
    """
    # A place is two arguments of any type: an array or an address, and a position.
    wanted = [
        one for operand in operands for one in ((ANY, ANY) if operand is PLACE else (operand,))
    ]
    names = [
        inspect.Parameter(f"a{n}", inspect.Parameter.POSITIONAL_ONLY)
        for n in range(len(wanted) + 1)
    ]

    def decorate(build: Callable[..., Any]) -> Any:
        @functools.wraps(build)
        def define(_context: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                rest = zip(signature.args, arguments, strict=True)
                values = []
                for operand in operands:
                    kind, value = next(rest)
                    if operand is PLACE:
                        value = _pointer(context, builder, kind, value, next(rest)[1])
                    values.append(value)
                result = build(builder, *values)
                return context.get_dummy_value() if returns is types.void else result

            kinds = [own if kind is ANY else kind for kind, own in zip(wanted, given, strict=True)]
            return (given[0] if returns is SAME else returns)(*kinds), generate

        # Numba counts arguments by it.
        define.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        return _intrinsic(define)

    return decorate


def _pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    """
    The address of a byte of an array with elements of any type, or of a byte after an address.
    """
    if isinstance(kind, types.Integer):
        return builder.inttoptr(builder.add(array, position), BYTE.as_pointer())
    data = builder.bitcast(
        context.make_array(kind)(context, builder, array).data, BYTE.as_pointer()
    )
    return builder.gep(data, [position])


def _load(builder: Any, place: Any, kind: Any) -> Any:
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    value.align = 1  # else LLVM would take an instruction that faults at odd addresses
    return value


def load(builder: Any, place: Any, bits: int) -> Any:
    """Return a number that begins at a pointer, at any alignment."""
    return _load(builder, place, ir.IntType(bits))


def vector(builder: Any, place: Any, bits: int, count: int) -> Any:
    """Return a vector of numbers that begins at a pointer, at any alignment."""
    return _load(builder, place, ir.VectorType(ir.IntType(bits), count))


def store(builder: Any, value: Any, place: Any) -> None:
    """Write a number or a vector to a pointer, at any alignment."""
    stored = builder.store(value, builder.bitcast(place, value.type.as_pointer()))
    stored.align = 1


def same(block: Any, number: int) -> Any:
    """Return a vector of this shape with one number in each lane."""
    return ir.Constant(block.type, [number] * block.type.count)


def everywhere(builder: Any, scalar: Any, shape: Any) -> Any:
    """Return a vector of this type with a number, known only when the code runs, in each lane."""
    undefined = ir.Constant(shape, ir.Undefined)
    first = builder.insert_element(undefined, scalar, NUMBER(0))
    zeros = ir.Constant(ir.VectorType(NUMBER, shape.count), [0] * shape.count)
    return builder.shuffle_vector(first, undefined, zeros)


def words(count: int) -> Any:
    """Return the type of several uint64 that an instruction returns `together`."""
    return types.UniTuple(types.uint64, count)  # type: ignore[no-untyped-call]


def together(builder: Any, *values: Any) -> Any:
    """Return several uint64 as one value."""
    result = ir.Constant(ir.ArrayType(WORD, len(values)), ir.Undefined)
    for place, value in enumerate(values):
        result = builder.insert_value(result, value, place)
    return result


def bits_of(builder: Any, condition: Any) -> Any:
    """Return the lanes of a condition as the bits of a uint64."""
    return builder.zext(builder.bitcast(condition, ir.IntType(condition.type.count)), WORD)


# ---- numbers


@instruction(SAME, ANY)
def popcount(builder: Any, value: Any) -> Any:
    """`popcount(value)`: count the bits that are set, in the value's own type."""
    return builder.ctpop(value)


@instruction(SAME, ANY)
def trailing_zeros(builder: Any, value: Any) -> Any:
    """`trailing_zeros(value)`: the position of the lowest set bit; the value's width for 0."""
    zero_is_undefined = ir.Constant(ir.IntType(1), 0)
    return builder.cttz(value, zero_is_undefined)


@instruction(SAME, ANY)
def highest_bit(builder: Any, value: Any) -> Any:
    """`highest_bit(value)`: the position of the highest set bit of a uint64 that is not 0."""
    zero_is_undefined = ir.Constant(ir.IntType(1), 1)
    return builder.xor(builder.ctlz(value, zero_is_undefined), WORD(63))


@instruction(types.uint64, types.boolean)
def mask_of(builder: Any, condition: Any) -> Any:
    """
    `mask_of(condition)`: a uint64 of 64 ones, or of none.

    The compiler never makes a branch of what depends on it, because it does not know that there are
    only two values.
    """
    # An empty piece of assembly: its result is its argument, but LLVM does not know that.
    hidden = ir.InlineAsm(ir.FunctionType(WORD, [WORD]), "", "=r,0")
    return builder.call(hidden, [builder.sext(condition, WORD)])


@instruction(types.uint64, types.uint64, types.uint64)
def rotated(builder: Any, whole: Any, left: Any) -> Any:
    """`rotated(value, bits)`: a uint64 rotated left by 0 to 63 bits."""
    right = builder.and_(builder.sub(WORD(64), left), WORD(63))  # a shift by 64 is undefined
    return builder.or_(builder.shl(whole, left), builder.lshr(whole, right))


# ---- a place: bytes at any alignment, little-endian


@instruction(types.uint64, PLACE)
def load64(builder: Any, place: Any) -> Any:
    """`load64(array, byte)`: eight bytes as a uint64."""
    return _load(builder, place, WORD)


@instruction(types.uint32, PLACE)
def load32(builder: Any, place: Any) -> Any:
    """`load32(array, byte)`: four bytes as a uint32."""
    return _load(builder, place, NUMBER)


@instruction(types.void, PLACE, types.uint32)
def store32(builder: Any, place: Any, value: Any) -> None:
    """`store32(array, byte, value)`: write a uint32 as four bytes."""
    store(builder, value, place)


@instruction(types.void, PLACE, types.uint64)
def store16(builder: Any, place: Any, value: Any) -> None:
    """`store16(array, byte, value)`: write the low 16 bits of a uint64 as two bytes."""
    store(builder, builder.trunc(value, ir.IntType(16)), place)


@instruction(types.int64, PLACE)
def byte_at(builder: Any, place: Any) -> Any:
    """`byte_at(array, byte)`: return one byte as an int64."""
    return builder.zext(builder.load(place), WORD)


@instruction(types.void, PLACE, types.int64)
def set_byte(builder: Any, place: Any, value: Any) -> None:
    """`set_byte(array, byte, value)`: write the low byte of an int64."""
    builder.store(builder.trunc(value, BYTE), place)


@instruction(types.void, PLACE, PLACE, types.int64)
def copy_bytes(builder: Any, source: Any, out: Any, count: Any) -> None:
    """
    `copy_bytes(array, byte, out, out_byte, count)`: copies `count` bytes, and writes none after
    them.
    """
    library.raw_memcpy(builder, out, source, count, 1)


# ---- texts: 64 bytes or 16 code points at once


@instruction(types.uint64, PLACE, PLACE)
def widen_bytes(builder: Any, source: Any, out: Any) -> Any:
    """
    `widen_bytes(text, byte, out, out_byte)`: 32 bytes as 32 numbers of 32 bits: code points, as far
    as they are ASCII.

    Returns a uint64: bit i is 1 when byte i is beyond ASCII.
    """
    block = vector(builder, source, 8, BYTE_LANES)
    store(builder, builder.zext(block, ir.VectorType(NUMBER, BYTE_LANES)), out)
    return bits_of(builder, builder.icmp_unsigned(">", block, same(block, 0x7F)))


@instruction(types.uint64, PLACE, PLACE)
def widen_characters(builder: Any, source: Any, out: Any) -> Any:
    """
    `widen_characters(text, byte, out, out_byte)`: 32 numbers of 32 bits, each the code point that
    would begin at one of 32 bytes of UTF-8, if that has at most three bytes.

    Returns a uint64: bit i is 1 when byte i does begin one.
    """
    lanes = ir.VectorType(ir.IntType(16), BYTE_LANES)  # enough for three bytes
    first, second, third = (
        builder.zext(vector(builder, builder.gep(source, [WORD(k)]), 8, BYTE_LANES), lanes)
        for k in range(3)
    )
    six = same(first, 6)
    low_bits = same(first, 0x3F)
    of_two = builder.shl(builder.and_(first, same(first, 0x1F)), six)
    of_two = builder.or_(of_two, builder.and_(second, low_bits))
    of_three = builder.or_(builder.shl(of_two, six), builder.and_(third, low_bits))
    codes = builder.select(below(builder, first, 0x80), first, of_two)
    codes = builder.select(below(builder, first, 0xE0), codes, of_three)
    store(builder, builder.zext(codes, ir.VectorType(NUMBER, BYTE_LANES)), out)
    block = vector(builder, source, 8, BYTE_LANES)
    continuing = builder.icmp_unsigned(
        "==", builder.and_(block, same(block, 0xC0)), same(block, 0x80)
    )
    return bits_of(builder, builder.not_(continuing))


def _fold(builder: Any, block: Any) -> tuple[Any, Any]:
    """
    A vector of ASCII bytes: folded (letters in lower case, a space for a separator), and which are
    word bytes.
    """
    lower = builder.or_(block, same(block, 0x20))
    letter = builder.icmp_unsigned("<", builder.sub(lower, same(block, ord("a"))), same(block, 26))
    digit = builder.icmp_unsigned("<", builder.sub(block, same(block, ord("0"))), same(block, 10))
    word = builder.or_(letter, digit)
    return builder.select(word, builder.select(letter, lower, block), same(block, 0x20)), word


@instruction(words(3), PLACE, PLACE)
def fold_bytes(builder: Any, source: Any, out: Any) -> Any:
    """
    `fold_bytes(text, byte, out, out_byte)`: 64 bytes, folded if they are ASCII.

    Returns three uint64. Bit i is 1 in the first when byte i is a letter or digit of ASCII, in the
    second when it begins a character of two bytes or more, in the third if of three or more.
    """
    block = vector(builder, source, 8, 64)
    folded, word = _fold(builder, block)
    store(builder, folded, out)
    longer = [builder.icmp_unsigned(">=", block, same(block, least)) for least in (0xC0, 0xE0)]
    return together(builder, *(bits_of(builder, lanes) for lanes in (word, *longer)))


@instruction(types.uint64, PLACE, PLACE)
def fold_code_points(builder: Any, source: Any, out: Any) -> Any:
    """
    `fold_code_points(text, byte, out, out_byte)`: 16 code points, folded into 16 bytes if they are
    ASCII.

    Returns a uint64: bit i is 1 when code point i is a letter or digit of ASCII, bit 16 + i when it
    is beyond ASCII, bit 32 + i when it is CODES_END or more.
    """
    # 16 code points of 32 bits fill the same 64 bytes. A code point beyond ASCII is cut to a byte
    # here. Its bit is set, so the caller looks at the code point itself.
    block = vector(builder, source, 32, 16)
    beyond = builder.icmp_unsigned(">", block, same(block, 127))
    folded, word = _fold(builder, builder.trunc(block, ir.VectorType(BYTE, 16)))
    store(builder, folded, out)
    far = builder.icmp_unsigned(">=", block, same(block, CODES_END))
    bits = [bits_of(builder, condition) for condition in (word, beyond, far)]
    bits = [builder.shl(each, WORD(16 * place)) for place, each in enumerate(bits)]
    return functools.reduce(builder.or_, bits)


# ---- pages: 32 bytes at once


def below(builder: Any, block: Any, number: int) -> Any:
    """Return the lanes that are less than a number."""
    return builder.icmp_unsigned("<", block, same(block, number))


def any_of(builder: Any, block: Any, wanted: bytes) -> Any:
    """Return the lanes that are one of these bytes."""
    hits = [builder.icmp_unsigned("==", block, same(block, byte)) for byte in wanted]
    return functools.reduce(builder.or_, hits)


def in_ranges(builder: Any, block: Any, *ranges: tuple[int, int]) -> Any:
    """Return the lanes that are in one of these ranges, both ends included."""
    # Subtracting the low end makes one unsigned comparison of two: what was below it wraps around.
    hits = [
        below(builder, builder.sub(block, same(block, low)), high - low + 1) for low, high in ranges
    ]
    return functools.reduce(builder.or_, hits)


def _where_bytes(wanted: bytes) -> Any:
    """Return a function of a place: bit i of its uint64 is set when byte i from there is wanted."""

    @instruction(types.uint64, PLACE)
    def where(builder: Any, place: Any) -> Any:
        block = vector(builder, place, 8, BYTE_LANES)
        return bits_of(builder, any_of(builder, block, wanted))

    return where


def _where_in_ranges(*ranges: tuple[int, int]) -> Any:
    """Return a function of a place: bit i of its uint64 is set when byte i is in a range."""

    @instruction(types.uint64, PLACE)
    def where(builder: Any, place: Any) -> Any:
        block = vector(builder, place, 8, BYTE_LANES)
        return bits_of(builder, in_ranges(builder, block, *ranges))

    return where


# Each of these is called as where_…(array, byte) and looks at BYTE_LANES bytes.
_where_less_than = _where_bytes(b"<")
where_stops = _where_bytes(b",.!?;")  # marks that divide sentences
where_long_stops = _where_bytes(b"\xd8\xdb\xe0\xe3\xef")  # first bytes of such marks beyond ASCII
high_bits = _where_in_ranges((0x80, 0xFF))  # bytes beyond ASCII
where_letters = _where_in_ranges((0x21, 0x7F), (0xC0, 0xF7))  # first bytes of visible characters
where_special = _where_in_ranges((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0xED, 0xED))  # in JSON
# Of a character beyond ASCII: its first byte, that of a longer one, and the bytes behind the first.
where_first = _where_in_ranges((0xC2, 0xF4))
where_first_of_three = _where_in_ranges((0xE0, 0xF4))
where_first_of_four = _where_in_ranges((0xF0, 0xF4))
where_continuing = _where_in_ranges((0x80, 0xBF))
where_heavy = _where_in_ranges((0xE3, 0xED))  # first bytes of characters that weigh three letters


@instruction(types.uint64, PLACE)
def where_ch(builder: Any, place: Any) -> Any:
    """`where_ch(array, byte)`: which of 32 bytes are a "c" before an "h", in either case."""
    block = vector(builder, place, 8, BYTE_LANES)
    behind = vector(builder, builder.gep(place, [WORD(1)]), 8, BYTE_LANES)
    return bits_of(
        builder, builder.and_(any_of(builder, block, b"cC"), any_of(builder, behind, b"hH"))
    )


@instruction(types.uint64, PLACE)
def where_misled(builder: Any, place: Any) -> Any:
    """
    `where_misled(array, byte)`: which of 32 first bytes of UTF-8 do not allow the byte behind them,
    though it is 80..BF.

    It would be a longer form than needed (E0, F0), half of a pair (ED), or beyond U+10FFFF (F4).
    """
    block = vector(builder, place, 8, BYTE_LANES)
    behind = vector(builder, builder.gep(place, [WORD(1)]), 8, BYTE_LANES)
    hits = [
        builder.and_(any_of(builder, block, first), in_ranges(builder, behind, refused))
        for first, refused in (
            (b"\xe0", (0x80, 0x9F)),
            (b"\xed", (0xA0, 0xBF)),
            (b"\xf0", (0x80, 0x8F)),
            (b"\xf4", (0x90, 0xBF)),
        )
    ]
    return bits_of(builder, functools.reduce(builder.or_, hits))


@instruction(types.uint64, PLACE, PLACE)
def copy_plain(builder: Any, source: Any, out: Any) -> Any:
    """
    `copy_plain(array, byte, out, out_byte)`: copy 32 bytes, and say where plain text ends among
    them.

    Returns a uint64: bit i is set for '<', '&', a control, 0xC2 (a no-break space may begin), a
    space before a space.
    """
    block = vector(builder, source, 8, BYTE_LANES)
    store(builder, block, out)
    ends = bits_of(
        builder, builder.or_(below(builder, block, 32), any_of(builder, block, b"<&\xc2"))
    )
    space = bits_of(builder, any_of(builder, block, b" "))
    return builder.or_(ends, builder.and_(space, builder.lshr(space, WORD(1))))


@instruction(types.uint64, PLACE, PLACE)
def copy_string(builder: Any, source: Any, out: Any) -> Any:
    """
    Copy 64 bytes of JSON and say which are special: bit i is set for a quote, a backslash and a
    control.
    """
    block = vector(builder, source, 8, STRING_LANES)
    store(builder, block, out)
    return bits_of(builder, builder.or_(below(builder, block, 32), any_of(builder, block, b'"\\')))


@instruction(types.void, PLACE, PLACE)
def copy_block(builder: Any, source: Any, out: Any) -> None:
    """`copy_block(array, byte, out, out_byte)`: copy 64 bytes."""
    store(builder, vector(builder, source, 8, STRING_LANES), out)


@instruction(types.uint64, PLACE, PLACE)
def decode_digits(builder: Any, source: Any, out: Any) -> Any:
    """
    `decode_digits(array, byte, out, out_byte)`: decode 64 digits of base64, and write their 48
    bytes, with 16 more that mean nothing. Nothing is written unless all 64 are digits, because the
    caller goes on with the bytes that were read, and `out` may be where they stand.

    Returns a uint64: bit i is set when byte i is no digit.
    """
    block = vector(builder, source, 8, STRING_LANES)
    value = same(block, 0)
    digit = builder.icmp_unsigned("!=", value, value)
    # A digit's value: the value of the first digit in its range, and the distance from that digit.
    for low, high, first in (b"AZ\0", b"az\x1a", b"09\x34", b"++\x3e", b"//\x3f"):
        within = in_ranges(builder, block, (low, high))
        value = builder.select(within, builder.add(block, same(block, (first - low) & 255)), value)
        digit = builder.or_(digit, within)
    # Four digits are a number of 32 bits, whose lowest byte is the first digit. Of its 24 bits of
    # values the first digit has the highest, so the three bytes are in reverse order.
    words = builder.bitcast(value, ir.VectorType(NUMBER, STRING_LANES // 4))

    def part(lowest: int, move: Any, bits: int) -> Any:
        return move(builder.and_(words, same(words, 63 << lowest)), same(words, bits))

    high = builder.or_(part(0, builder.shl, 18), part(8, builder.shl, 4))
    low = builder.or_(part(16, builder.lshr, 10), part(24, builder.lshr, 24))
    packed = builder.bitcast(builder.or_(high, low), block.type)
    order = [4 * (n // 3) + 2 - n % 3 for n in range(STRING_LANES // 4 * 3)]
    order += [0] * (STRING_LANES - len(order))
    indices = ir.Constant(ir.VectorType(NUMBER, STRING_LANES), order)
    found = bits_of(builder, builder.not_(digit))
    with builder.if_then(builder.icmp_unsigned("==", found, found.type(0)), likely=True):
        store(builder, builder.shuffle_vector(packed, packed, indices), out)
    return found


@fused
def lanes_before(found: Any) -> Any:
    """Return how many of 32 bytes come before the first that a bit is set for."""
    return min(np.int64(trailing_zeros(found)), BYTE_LANES)


def _finder(wanted: bytes) -> Any:
    where = _where_bytes(wanted)

    @fused
    def find(array: Any, position: Any, end: Any) -> Any:
        while position < end:
            found = where(array, position)
            if found:
                return min(position + np.int64(trailing_zeros(found)), end)
            position += BYTE_LANES
        return end

    return find


# find(array, byte, end): where the next such byte stands, `end` when there is none
find_less_than = _finder(b"<")
find_greater_than = _finder(b">")
find_tag_edge = _finder(b"<>")
find_quote = _finder(b'"')
find_apostrophe = _finder(b"'")
find_escape = _finder(b"\x1b")


@fused
def count_less_than(array: Any, position: Any, end: Any) -> Any:
    """Return how many '<' stand before `end`; some behind it may be counted too."""
    count = np.int64(0)
    while position < end:
        count += np.int64(popcount(_where_less_than(array, position)))
        position += BYTE_LANES
    return count


def viewer(
    shape: tuple[int, ...],
    *,
    held_at: int | None = None,
    rows_at: int | None = None,
    unsigned: bool = False,
) -> Any:
    """
    Make a function that returns the array of 64-bit numbers at an address. Other code owns the
    memory.

    Args:
        shape: the shape of the array.
        held_at: the number of the word, from the address on, that has the array's address. None if
            the array begins at the address.
        rows_at: the number of the word that has the number of rows, for checks of bounds.
        unsigned: the numbers are uint64; int64 otherwise.

    Each call makes a description of the array on the kernel's stack, and LLVM removes its unused
    parts. The description does not keep the memory alive; the caller does.
    """
    kind = types.Array(types.uint64 if unsigned else types.int64, len(shape), "C")

    def view(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            def word(slot: int) -> Any:
                return builder.load(
                    builder.gep(builder.inttoptr(arguments[0], WORD.as_pointer()), [WORD(slot)])
                )

            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(
                arguments[0] if held_at is None else word(held_at), WORD.as_pointer()
            )
            sizes = [WORD(size) for size in shape]
            if rows_at is not None:
                sizes[0] = word(rows_at)
            steps = [WORD(8 * size) for size in shape[1:]] + [WORD(8)]
            populate: Any = arrayobj.populate_array  # numba has no types
            populate(array, data, sizes, steps, WORD(8), None)
            return array._getvalue()

        return kind(address), generate

    return _intrinsic(view)


# ---- columns of the index, by address: a block of words says where each lies. As arrays they would
# be a hundred words of description in each call. Addresses and positions are int64, positions count
# elements.


def element(builder: Any, bits: int, address: Any, position: Any) -> Any:
    """Return a pointer to an element of a column."""
    return builder.gep(builder.inttoptr(address, ir.IntType(bits).as_pointer()), [position])


def _reader(kind: Any) -> Any:
    @instruction(kind, types.int64, types.int64)
    def read(builder: Any, address: Any, position: Any) -> Any:
        return builder.load(element(builder, kind.bitwidth, address, position))

    return read


def _writer(kind: Any) -> Any:
    @instruction(types.void, types.int64, types.int64, kind)
    def write(builder: Any, address: Any, position: Any, value: Any) -> None:
        builder.store(value, element(builder, kind.bitwidth, address, position))

    return write


def _mover(bits: int) -> Any:
    @instruction(types.void, types.int64, types.int64, types.int64, types.int64)
    def move(builder: Any, address: Any, target: Any, source: Any, count: Any) -> None:
        target_place = element(builder, bits, address, target)
        source_place = element(builder, bits, address, source)
        library.raw_memmove(builder, target_place, source_place, count, bits // 8)

    return move


def _prefetcher(locality: int) -> Any:
    @instruction(types.void, types.int64, types.int64)
    def prefetch_(builder: Any, address: Any, byte: Any) -> None:
        pointer = element(builder, 8, address, byte)
        shape = ir.FunctionType(ir.VoidType(), (pointer.type, NUMBER, NUMBER, NUMBER))
        function = library.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(function, (pointer, NUMBER(0), NUMBER(locality), NUMBER(1)))  # read, data

    return prefetch_


# read…(address, position) and write…(address, position, value): one element of a column.
read16: Callable[[int, int], np.uint16] = _reader(types.uint16)
read32: Callable[[int, int], np.uint32] = _reader(types.uint32)
read64: Callable[[int, int], np.uint64] = _reader(types.uint64)
write16: Callable[[int, int, np.uint16], None] = _writer(types.uint16)
write32: Callable[[int, int, np.uint32], None] = _writer(types.uint32)
write64: Callable[[int, int, np.uint64], None] = _writer(types.uint64)

# move…(address, target, source, count): elements within a column; the two ranges may overlap.
move8: Callable[[Any, Any, Any, Any], None] = _mover(8)
move16: Callable[[int, int, int, int], None] = _mover(16)
move32: Callable[[int, int, int, int], None] = _mover(32)

# prefetch…(address, byte): prefetch the cache line of one byte. A hint, so any address is safe.
prefetch: Callable[[Any, Any], None] = _prefetcher(3)  # into every level
# Not into the first level, which holds few lines.
prefetch_many: Callable[[Any, Any], None] = _prefetcher(2)


@instruction(types.void, types.int64, types.int64)
def will_need(builder: Any, address: Any, size: Any) -> None:
    """
    Prefetch the pages of a mapped range of bytes (madvise). A file's pages are then read while the
    caller goes on.
    """
    # madvise takes the address of a page; the range grows by what it begins earlier.
    page = builder.and_(address, WORD(-mmap.PAGESIZE))
    size = builder.sub(builder.add(address, size), page)
    shape = ir.FunctionType(NUMBER, (WORD, WORD, NUMBER))
    function = library.get_or_insert_function(builder.module, shape, "madvise")
    builder.call(function, (page, size, NUMBER(mmap.MADV_WILLNEED)))


@fused
def put_code_point(out: Any, at: Any, code: Any) -> Any:
    """Write a code point in UTF-8; return where it ends."""
    if code < 0x80:
        set_byte(out, at, code)
        return at + 1
    if code < 0x800:
        set_byte(out, at, 0xC0 | (code >> 6))
    else:
        if code < 0x10000:
            set_byte(out, at, 0xE0 | (code >> 12))
        else:
            set_byte(out, at, 0xF0 | (code >> 18))
            at += 1
            set_byte(out, at, 0x80 | ((code >> 12) & 63))
        at += 1
        set_byte(out, at, 0x80 | ((code >> 6) & 63))
    set_byte(out, at + 1, 0x80 | (code & 63))
    return at + 2
