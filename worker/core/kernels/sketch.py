"""
The sketch, as `worker.core.sketch` defines it: the least lower half of a hash in each bin, and the
bins whose least counts at the text's level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from worker.core import definition
from worker.core.compiled import fused
from worker.core.kernels import machine, unicode
from worker.core.kernels.shingles import MULTIPLIER, SQUARE, finished
from worker.core.sketch import (
    BIN_SHIFT,
    BINS,
    BINS_BACK,
    BINS_MAX,
    BITS,
    COUNTS,
    LEVEL_MAX,
    RATE_ONE,
    WORDS,
    rate,
)

U = np.uint64
C = np.uint32
BIN = U(BIN_SHIFT)
NO_HASH = C(0xFFFFFFFF)  # the hash in a bin without a shingle
_LETTER_BITS = U(0xC0)  # a byte that begins a token has none of them if it is a digit
# What the width brings to a shingle's product: width times the multiplier to the width.
_THREE_CHARACTERS = U(3 * definition.MULTIPLIER**3 % 2**64)
_FOUR_WORDS = U(4 * definition.MULTIPLIER**4 % 2**64)
assert (definition.SKETCH_CHARACTERS, definition.SKETCH_WORDS) == (3, 4)
assert definition.NUMBER_TIMES == 2
assert slice(1, 3) == definition.NUMBER_PLACES


def _guessed_level(filled: int) -> int:
    """Return the probable level of a text that fills this many bins at level 0."""
    level = 0
    while COUNTS[filled] * RATE_ONE > COUNTS[BINS_MAX] * rate(level):
        level += 1
    return level


_GUESSES = np.array([_guessed_level(filled) for filled in range(BINS + 1)], np.uint8)


@fused
def _product(hashes: Any, position: Any, width: Any) -> Any:
    """A shingle's hash before its finishing mix."""
    value = U(width)
    for k in range(width):
        value = value * MULTIPLIER + hashes[position + U(k)]
    return value


@fused
def find_numbers(first: Any, count: Any, numbers: Any) -> Any:
    """
    Write to `numbers`, uint32[count + 1], which tokens count as numbers; returns how many.

    `first`: uint64[count], the first byte of each token or more, as `token_hashes` leaves it.
    """
    found = U(0)
    whole = count & ~U(7)
    for begin in range(U(0), whole, U(8)):
        lacking = U(0)
        for t in range(8):
            lacking |= (first[U(begin) + U(t)] & _LETTER_BITS) - U(1)
        if lacking >> U(63):
            for t in range(8):
                numbers[found] = U(begin) + U(t)
                found += U((first[U(begin) + U(t)] & _LETTER_BITS) == U(0))
    for t in range(whole, count):
        numbers[found] = t
        found += U((first[t] & _LETTER_BITS) == U(0))
    return found


@fused
def mask_first(hashes: Any, mask_hash: Any, count: Any, first: Any) -> None:
    """Let masked tokens, which count as `0`, begin with a digit."""
    for t in range(count):
        first[t] = U(0) if hashes[t] == mask_hash else first[t]


@fused
def add_words(pairs: Any, count: Any, numbers: Any, product: Any, minima: Any) -> None:
    """
    Add the shingles of a text of words to minima.

    Args:
        pairs: the products of the hashes, as `pair_products` writes them.
        numbers: the tokens that are numbers.
        product: uint64[count], scratch.
    """
    total = count - U(definition.SKETCH_WORDS) + U(1)
    for i in range(total):
        product[i] = finished(_of_words(pairs, U(i)))
    add_minima(product, total, minima)
    for number in numbers:
        for back in range(1, 3):  # it is the second or the third token of these
            begin = U(number) - U(back)
            if U(number) >= U(back) and begin < total:
                _add_minimum(product[begin] * MULTIPLIER, minima)


@fused
def _of_words(pairs: Any, position: Any) -> Any:
    """`_product` of four tokens."""
    return _FOUR_WORDS + pairs[position] * SQUARE + pairs[position + U(2)]


@fused
def add_letters(hashes: Any, count: Any, minima: Any) -> None:
    """Add the shingles of a text to minima whose unit is a character."""
    for i in range(count - U(definition.SKETCH_LETTERS) + U(1)):
        _add_minimum(finished(_product(hashes, U(i), U(definition.SKETCH_LETTERS))), minima)


@fused
def add_mixed(
    hashes: Any,
    pairs: Any,
    kinds: Any,
    count: Any,
    numbers: Any,
    scratch: Any,
    minima: Any,
) -> Any:
    """
    Add the shingles of words and characters to minima: `definition.sketch_hashes`. Returns whether
    there was any.

    Args:
        kinds: of the tokens, as `scan_code_points` writes them; overwritten by whether each is a
            character.
        pairs: the products of the hashes, as `pair_products` writes them; overwritten by the mixed
            shingles.
        numbers: the tokens that are numbers.
        scratch: uint64[count] and uint8[count].
    """
    product, mixed = scratch
    narrow = kinds
    for t in range(count):
        narrow[t] = (kinds[t] & unicode.CHARACTERS) != 0
    # Behind the last shingle of four tokens one of three may begin.
    fours = max(count, U(3)) - U(3)
    total = fours
    for i in range(total):
        product[i] = finished(_of_either(hashes, pairs, narrow, U(i)))
    # A loop of its own: over bytes, the compiler takes more of them at once.
    for i in range(total):
        both = narrow[U(i) + U(1)] & narrow[U(i) + U(2)]
        any_one = narrow[U(i) + U(1)] | narrow[U(i) + U(2)] | narrow[U(i) + U(3)]
        mixed[i] = (narrow[i] & (both ^ 1)) | ((narrow[i] ^ 1) & any_one)
    if count >= U(3) and narrow[total]:
        product[total] = finished(_of_either(hashes, pairs, narrow, total))
        mixed[total] = (narrow[total + U(1)] & narrow[total + U(2)]) ^ 1
        total += U(1)
    add_minima(product, total, minima)
    for number in numbers:
        for back in range(1, 3):
            begin = U(number) - U(back)
            of_words = (
                U(number) >= U(back) and begin < fours and not (narrow[begin] or mixed[begin])
            )
            if of_words:
                _add_minimum(product[begin] * MULTIPLIER, minima)
    again = _take_mixed(product, mixed, total, pairs)
    for _ in range(1, definition.MIXED_TIMES):
        for k in range(again):
            pairs[k] *= MULTIPLIER
        add_minima(pairs, again, minima)
    return total != U(0)


@fused
def _take_mixed(product: Any, mixed: Any, total: Any, out: Any) -> Any:
    """Write to `out` those of `product[:total]` that are mixed; returns how many."""
    found = U(0)
    whole = total & ~U(7)
    for begin in range(U(0), whole, U(8)):
        if machine.load64(mixed, begin) != U(0):  # there are few, mostly between two scripts
            for i in range(U(begin), U(begin) + U(8)):
                out[found] = product[i]
                found += U(mixed[i])
    for i in range(whole, total):
        out[found] = product[i]
        found += U(mixed[i])
    return found


@fused
def _of_either(hashes: Any, pairs: Any, narrow: Any, position: Any) -> Any:
    """`_product` of three tokens if the first is a character, else of four."""
    of_three = narrow[position] != 0
    behind = position + U(2)
    first = pairs[position] * (MULTIPLIER if of_three else SQUARE)
    rest = hashes[behind] + _THREE_CHARACTERS if of_three else pairs[behind] + _FOUR_WORDS
    return first + rest


@fused
def add_sketch(
    hashes: Any,
    pairs: Any,
    marks: Any,
    has_characters: Any,
    count: Any,
    by_letter: Any,
    scratch: Any,
    minima: Any,
) -> None:
    """
    Add a text to minima; one with fewer tokens than a shingle has is one shingle.

    `marks`: the tokens' kinds, and which of them are numbers. Scratch: two arrays, as `add_mixed`
    takes them.
    """
    kinds, numbers = marks
    product, _ = scratch
    any_one = count >= U(definition.SKETCH_LETTERS if by_letter else definition.SKETCH_WORDS)
    if has_characters and not by_letter:
        any_one = add_mixed(hashes, pairs, kinds, count, numbers, scratch, minima)
    elif any_one and by_letter:
        add_letters(hashes, count, minima)
    elif any_one:
        add_words(pairs, count, numbers, product, minima)
    if not any_one and count != U(0):
        _add_minimum(finished(_product(hashes, U(0), count)), minima)


@fused
def _add_minimum(value: Any, minima: Any) -> None:
    number = value >> BIN
    minima[number] = min(minima[number], C(value))


@fused
def add_minima(hashes: Any, count: Any, minima: Any) -> None:
    """
    Lower the minimum of each hash's bin to the hash's lower half, for `hashes[:count]`. Repetitions
    change nothing.
    """
    for i in range(count):
        number = hashes[i] >> BIN
        minima[number] = min(minima[number], C(hashes[i]))


@fused
def _limit(level: Any) -> Any:
    """The least lower half of a hash that does not count at a level."""
    of_level = U(RATE_ONE + level % RATE_ONE) << U(level // RATE_ONE)
    return C(((U(RATE_ONE) << U(32)) - U(1)) // of_level)


@machine.instruction(types.uint64, machine.PLACE, types.uint32)
def _below(builder: Any, minima: Any, limit: Any) -> Any:
    """`_below(minima, i, limit)`: a bit for each of 64 minima from byte i on: is it less?"""
    held = machine.vector(builder, minima, 32, 64)
    limits = machine.everywhere(builder, limit, held.type)
    return machine.bits_of(builder, builder.icmp_unsigned("<", held, limits))


@fused
def _is_crowded(minima: Any, level: Any) -> Any:
    """Return whether more bins are filled at a level than may be."""
    limit = _limit(level)
    filled = U(0)
    for word in range(WORDS):
        filled += machine.popcount(_below(minima, U(256 * word), limit))
    return filled > U(BINS_MAX)


@fused
def _pack(minima: Any, level: Any, sketch: Any) -> Any:
    """Set the bits of the bins that count at a level; returns how many."""
    limit = _limit(level)
    filled = U(0)
    for word in range(WORDS):
        bits = _below(minima, U(256 * word), limit)
        sketch[word] = bits
        filled += machine.popcount(bits)
    return filled


@fused
def pack_minima(minima: Any, sketch: Any) -> None:
    """
    Write a sketch, eight words: `sketch.sketch`.

    `minima`: uint32[BITS]; those beyond the bins are lost.
    """
    for number in range(BINS, BITS):
        back = number - BINS_BACK
        minima[back] = min(minima[back], minima[number])
        minima[number] = NO_HASH
    filled = _pack(minima, np.int64(0), sketch)  # a constant would be compiled for itself
    if filled <= U(BINS_MAX):
        return
    level = np.int64(_GUESSES[filled])
    while level < LEVEL_MAX and _is_crowded(minima, level):
        level += 1
    while level > 1 and not _is_crowded(minima, level - 1):
        level -= 1
    _pack(minima, level, sketch)
    sketch[WORDS - 1] |= U(level) << U(BINS % 64)
