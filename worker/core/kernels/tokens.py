"""From code points or bytes to tokens, some of them masked, and to the hash of each token."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from worker.core.compiled import fused, inner
from worker.core.kernels import machine, unicode
from worker.core.kernels.machine import load32, load64, rotated
from worker.core.tokens import HEXADECIMAL_MIN, IDENTIFIER_MIN

# Text becomes folded tokens without a branch that depends on it.
#
# UTF-8 is folded in place, 64 bytes at a time: in a word with one bit per byte, a token begins or
# ends wherever the bit changes. ASCII is folded at once, letters and separators below U+2100 one by
# one, as long as each keeps its number of bytes. With anything else in it, the text becomes code
# points, and all of these are written as UTF-8, one token after another: 16 of ASCII, 16 letters
# and separators below U+2100, or up to 16 characters of Chinese, Japanese or Korean at once, and
# the rest one code point at a time.
#
# µs for a plain text of 5 KB in German, Russian and Chinese: 1.0, 3.4 and 3.1; by way of code
# points 3.0, 3.7 and 3.0 (and 7.2 for Russian, before these were made by the block).
#
# Tried and left out, on x86-64-v3: edges by a table of eight bits take 2 to 3 % off English texts,
# and add 1 % to those of eight languages.
# A table of 256 KB of words that were seen before, with hash and vote, takes 4 to 13 % off English
# texts, nothing off the corpus of 30 languages, and adds up to 8 % to eight languages: one word in
# four is not in it, and it competes for the cache with other processes.
# One function for characters of two and of three bytes takes 4.8 µs for the Russian text, not 3.4.
#
#     text   "Don't ПАНИКА"
#     out    "don t паника"      edges 0 3 4 5 6 18: token t is out[edges[2t] : edges[2t + 1]]

U = np.uint64
C = np.uint32
BIT = U(1)
BLOCK = U(16)  # code points that are tried together
FAR = U(0xFFFFFFFFFFFFFFFF)  # no entry has these bits, and no text so many tokens
# Of an entry of `plain`: what `scan_bytes` does not write.
STRANGE = U(1 << unicode.PLAIN_CHANGES | 1 << unicode.PLAIN_OTHER | 1 << unicode.PLAIN_MOVES)
# Of 64 bytes so many may begin characters of three bytes, such as dashes. With more the text is one
# of another script.
LONGER_MAX = U(8)


@fused
def _add_edges(changes: Any, position: Any, edges: Any, at: Any) -> Any:
    """Write `position + i` for every bit i that is set. Returns where the next edge goes."""
    count = U(machine.popcount(changes))
    written = U(0)
    # Eight at a time. An edge that is written beyond the last one is overwritten or never read.
    while written < count:
        for k in range(8):
            edges[at + written + U(k)] = position + machine.trailing_zeros(changes)
            changes &= changes - BIT
        written += U(8)
    return at + count


@fused
def _fold_two(text: Any, block: Any, begins: Any, points: Any, out: Any, to: Any) -> Any:
    """
    Fold the characters of two bytes that begin at these bits of a block. Returns which bytes of the
    block they make parts of words, and the bits of all entries together.
    """
    words = U(0)
    about = U(0)
    while begins != U(0):
        lane = machine.trailing_zeros(begins)
        begins &= begins - BIT
        data = U(load32(text, block + lane))
        entry = U(points.plain[((data & U(31)) << U(6)) | ((data >> U(8)) & U(63))])
        about |= entry
        machine.store16(out, to + lane, entry)
        words |= (U(3) * ((entry >> U(unicode.PLAIN_LETTER)) & BIT)) << lane
    return words, about


@fused
def _fold_three(text: Any, block: Any, begins: Any, points: Any, out: Any, to: Any) -> Any:
    """
    Fold the characters of three bytes that begin at these bits of a block, as `_fold_two` does, and
    return the same. The entry of one that is not in `plain` is STRANGE.
    """
    words = U(0)
    about = U(0)
    while begins != U(0):
        lane = machine.trailing_zeros(begins)
        begins &= begins - BIT
        data = U(load32(text, block + lane))
        code = ((data & U(31)) << U(12)) | (((data >> U(8)) & U(63)) << U(6))
        code |= (data >> U(16)) & U(63)
        if code >= U(unicode.PLAIN_END):  # also what begins a character of four bytes
            return words, STRANGE
        entry = U(points.plain[code])
        about |= entry
        machine.store16(out, to + lane, entry)
        out[to + lane + U(2)] = entry >> U(16)
        words |= (U(7) * ((entry >> U(unicode.PLAIN_LETTER)) & BIT)) << lane
    return words, about


@fused
def scan_bytes(text: Any, start: Any, end: Any, points: Any, out: Any, edges: Any) -> Any:
    """
    Find the tokens of `text[start:end]`, UTF-8; return their number, or FAR if the text has to be
    read by `scan_code_points`.

    Args:
        out: uint8[end - start + SLACK], the folded text.
        edges: uint32[end - start + SLACK], begin and end of each token in `out`.
    """
    at = U(0)
    inside = U(0)
    block = start
    while block < end:
        to = block - start
        words, begins, longer = machine.fold_bytes(text, block, out, to)
        size = min(end - block, U(64))
        whole = ALL >> (U(64) - size)
        begins &= whole
        if begins != U(0):
            longer &= whole
            if machine.popcount(longer) > LONGER_MAX:
                return FAR
            # A character that does not end in this block begins the next one.
            left_over = max(begins >> U(63), (longer >> U(61)) & U(2))
            size -= left_over
            whole >>= left_over
            more, about = _fold_two(text, block, begins & ~longer & whole, points, out, to)
            words |= more
            if longer != U(0):
                more, strange = _fold_three(text, block, longer & whole, points, out, to)
                words |= more
                about |= strange
            if about & STRANGE != U(0):
                return FAR
        words &= whole
        changes = (words ^ ((words << BIT) | inside)) & whole
        at = _add_edges(changes, to, edges, at)
        inside = words >> (size - BIT)
        block += size
    edges[at] = end - start
    return (at + inside) >> BIT


@machine.instruction(
    machine.words(4),
    *(machine.PLACE, machine.PLACE, machine.PLACE, types.uint64, machine.PLACE, types.uint64),
)
def _write_plain(
    builder: Any, text: Any, plain: Any, out: Any, position: Any, edges: Any, inside: Any
) -> Any:
    """
    `_write_plain(text, i, plain, 0, out, 0, position, edges, at, inside)`: write BLOCK code points
    below PLAIN_END to byte `position` of `out`; i and at are bytes.

    Returns where the next byte goes, how many edges were written, whether the last code point is a
    letter, and the bits of all entries together.

    There is no branch: each code point is written, and an edge stays wherever a word begins or
    ends. The loop is written out, since the compiler spilled four addresses of it to the stack,
    and read each of them again for every code point.
    """
    word, number = ir.IntType(64), ir.IntType(32)
    edge = word(0)  # in bytes
    before = builder.shl(builder.trunc(inside, number), number(unicode.PLAIN_LETTER))
    about = number(0)
    for k in range(int(BLOCK)):
        code = builder.zext(machine.load(builder, builder.gep(text, [word(4 * k)]), 32), word)
        place = builder.gep(plain, [builder.shl(code, word(2))])
        entry = machine.load(builder, place, 32)
        about = builder.or_(about, entry)
        machine.store(builder, builder.trunc(position, number), builder.gep(edges, [edge]))
        changes = builder.lshr(builder.xor(entry, before), number(unicode.PLAIN_LETTER - 2))
        edge = builder.add(edge, builder.zext(builder.and_(changes, number(4)), word))
        # The fourth byte belongs to the next code point, which writes over it.
        machine.store(builder, entry, builder.gep(out, [position]))
        length = builder.lshr(entry, number(unicode.PLAIN_LENGTH))
        position = builder.add(position, builder.zext(length, word))
        before = entry
    machine.store(builder, builder.trunc(position, number), builder.gep(edges, [edge]))
    inside = builder.and_(builder.lshr(before, number(unicode.PLAIN_LETTER)), number(1))
    added = builder.lshr(edge, word(2))
    inside, about = builder.zext(inside, word), builder.zext(about, word)
    return machine.together(builder, position, added, inside, about)


@fused
def _scan_words(text: Any, i: Any, points: Any, out: Any, edges: Any, place: Any) -> Any:
    """
    Write the code points `text[i:i + BLOCK]`, if all of them are letters or separators below
    PLAIN_END. If any is another one, the caller writes over what was written.

    Args:
        place: where the next edge goes in `edges`, where the next byte goes in `out`, and whether
            that is within a word (1, else 0).
    Returns:
        The same three behind the text, and the bits of all entries together: PLAIN_OTHER if they do
        not count, FAR if one is PLAIN_END or more.
    """
    at, position, inside = place
    words = machine.fold_code_points(text, U(4) * i, out, position)
    if words < U(1 << 16):
        changes = (words ^ ((words << BIT) | inside)) & U(0xFFFF)
        at = _add_edges(changes, position, edges, at)
        edges[at] = position + BLOCK
        return at, position + BLOCK, words >> U(15), U(0)
    if words >> U(32) != U(0):
        return at, position, inside, FAR
    # Mostly, a script without spaces shows itself at either end.
    if _is_other(text[i], text[i + BLOCK - BIT], points):
        return at, position, inside, U(1 << unicode.PLAIN_OTHER)
    position, added, inside, about = _write_plain(
        text, U(4) * i, points.plain, U(0), out, U(0), position, edges, U(4) * at, inside
    )
    return at + added, position, inside, about


def _three_bytes(builder: Any, codes: Any) -> Any:
    """Return code points from U+0800 to U+FFFF in UTF-8; the fourth byte of each is 0."""
    written = builder.or_(
        builder.lshr(codes, machine.same(codes, 12)), machine.same(codes, 0x8080E0)
    )
    for left, mask in ((2, 0x3F00), (16, 0x3F0000)):
        part = builder.shl(codes, machine.same(codes, left))
        written = builder.or_(written, builder.and_(part, machine.same(codes, mask)))
    return written


@machine.instruction(
    machine.words(2),
    *(machine.PLACE, machine.PLACE, types.uint64, machine.PLACE, machine.PLACE),
)
def _write_characters(
    builder: Any, text: Any, out: Any, position: Any, edges: Any, kinds: Any
) -> Any:
    """
    `_write_characters(text, i, out, 0, position, edges, at, kinds, count)`: of BLOCK code points,
    write those before the first one that is outside CHARACTER_RANGES; i and at are bytes.

    Returns how many there are, and how many of the code points that follow them are outside.

    All BLOCK code points are written as if they were inside. The caller writes over the rest, whose
    kinds are 0.
    """
    word, number, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
    size = int(BLOCK)
    codes = machine.vector(builder, text, 32, size)
    inside = machine.bits_of(builder, machine.in_ranges(builder, codes, *unicode.CHARACTER_RANGES))
    end = word(1 << size)
    is_defined = ir.IntType(1)(1)
    count = builder.cttz(builder.or_(builder.not_(inside), end), is_defined)
    outside = builder.cttz(builder.lshr(builder.or_(inside, end), count), is_defined)

    data = builder.bitcast(_three_bytes(builder, codes), ir.VectorType(byte, 4 * size))
    here = machine.everywhere(builder, builder.trunc(position, number), ir.VectorType(number, 8))
    for four in range(0, size, 4):  # twelve bytes, and four that are written over
        order = [4 * (four + lane) + part for lane in range(4) for part in range(3)] + [0] * 4
        chosen = ir.Constant(ir.VectorType(number, len(order)), order)
        place = builder.gep(out, [builder.add(position, word(3 * four))])
        machine.store(builder, builder.shuffle_vector(data, data, chosen), place)
        steps = ir.Constant(here.type, [3 * four + step for step in (0, 3, 3, 6, 6, 9, 9, 12)])
        machine.store(builder, builder.add(here, steps), builder.gep(edges, [word(8 * four)]))
    lanes = ir.Constant(ir.VectorType(byte, size), list(range(size)))
    counts = machine.everywhere(builder, builder.trunc(count, byte), lanes.type)
    is_one = builder.icmp_unsigned("<", lanes, counts)
    kind = builder.select(is_one, machine.same(lanes, unicode.CHARACTER), machine.same(lanes, 0))
    machine.store(builder, kind, kinds)
    return machine.together(builder, count, outside)


@fused
def _is_other(first: Any, last: Any, points: Any) -> Any:
    """Return whether one of two code points below PLAIN_END is PLAIN_OTHER."""
    return ((points.plain[first] | points.plain[last]) >> C(unicode.PLAIN_OTHER)) & C(1) != C(0)


@fused
def _copy(data: Any, begin: Any, out: Any, position: Any, count: Any) -> None:
    for byte in range(count):
        out[position + U(byte)] = data[begin + U(byte)]


@fused
def scan_code_points(
    text: Any, start: Any, end: Any, points: Any, out: Any, edges: Any, kinds: Any
) -> Any:
    """
    Write the tokens of the code points `text[start:end]`.

    Args:
        out: uint8[LONG_BYTES · (end - start) + SLACK], the tokens.
        edges: uint32[2 · (end - start) + SLACK], begin and end of each token in `out`.
        kinds: uint8[end - start + SLACK], the kind of each token's code points (`unicode.KIND`), or
            0 for ASCII.
    Returns:
        The number of tokens, whether NFC might change anything, and whether any token is a
        character of a script without spaces.
    """
    # `_scan_words` writes no kinds, so they must be 0 beforehand.
    for t in range(end - start):
        kinds[t] = 0
    position = U(0)
    count = U(0)
    before = U(unicode.SEPARATOR)
    seen = U(0)
    i = start
    while i < end:
        stop = min(i + BLOCK, end)
        if points.words and stop - i == BLOCK:
            inside = U(before == U(unicode.LETTER))
            at, end_position, inside, about = _scan_words(
                text, i, points, out, edges, (U(2) * count - inside, position, inside)
            )
            if (about >> U(unicode.PLAIN_OTHER)) & BIT == U(0):
                seen |= ((about >> U(unicode.PLAIN_CHANGES)) & BIT) << U(unicode.CHANGES)
                count = (at + inside) >> BIT
                before = U(unicode.LETTER) if inside else U(unicode.SEPARATOR)
                position = end_position
                i = stop
                continue
            if about == FAR:
                found, others = _write_characters(
                    text, U(4) * i, out, U(0), position, edges, U(8) * count, kinds, count
                )
                if found != U(0):
                    seen |= U(unicode.CHARACTER) << U(unicode.KIND)
                    before = U(unicode.CHARACTER)
                    count += found
                    position += U(3) * found
                    i += found
                stop = i + others
        for k in range(i, stop):
            code = text[k]
            entry = points.entries[points.stage1[code >> C(8)] + (code & C(255))]
            seen |= entry
            parts = entry >> U(unicode.JOINED)
            edges[U(2) * count] = position
            count += U((before & parts & U(15)) == U(0))
            machine.store32(out, position, C(entry & U(0xFFFFFFFF)))
            length = (parts >> U(unicode.LENGTH - unicode.JOINED)) & U(7)
            if length > U(4):
                _copy(points.long, entry & U(0xFFFFFFFF), out, position, length)
            position += length
            written = U(length != U(0))
            edges[U(2) * count - written] = position
            kind = (parts >> U(unicode.KIND - unicode.JOINED)) & U(15)
            # All code points of a token have one kind, folded or not, so the last one may write it.
            # A separator writes to the place where the next token will write its own kind.
            kinds[count - written] = kind
            before = kind if kind != U(0) else before
        i = stop
    changes = ((seen >> U(unicode.CHANGES)) & U(0xFF)) != U(0)
    return count, changes, ((seen >> U(unicode.KIND)) & U(unicode.CHARACTERS)) != U(0)


@fused
def settled(text: Any, start: Any, end: Any, points: Any) -> Any:
    """
    Return whether the code points `text[start:end]` have the tokens of their NFC.

    True is certain. False may be wrong if several marks follow each other. The text is then
    composed although that changes nothing.
    """
    before = U(0)
    first = U(0)
    wrong = U(0)
    meeting = U(0)
    for i in range(start, end):
        entry = points.entries[points.stage1[text[i] >> C(8)] + (text[i] & C(255))]
        rank = (entry >> U(unicode.RANK)) & U(63)
        joins = (entry >> U(unicode.JOINS)) & BIT
        wrong |= entry >> U(unicode.CHANGES)
        wrong |= U(rank != U(0)) & (U(before > rank) | (joins & U(before != U(0))))
        meeting |= first & joins
        first = entry >> U(unicode.FIRST)
        before = entry >> U(unicode.LAST)
    if wrong & BIT:
        return False
    if meeting & BIT:
        for i in range(start + BIT, end):
            if unicode.pair(text[U(i) - BIT], text[i], points.pairs) != unicode.NONE:
                return False
    return True


@fused
def mask_tokens(text: Any, edges: Any, count: Any, rules: Any, hashes: Any) -> None:
    """`tokens.masked` for every token: the hash of a volatile token becomes the hash of MASK."""
    for t in range(count):
        begin = U(edges[U(t) * U(2)])
        end = U(edges[U(t) * U(2) + U(1)])
        characters = U(0)
        digits = U(0)
        hexadecimal = U(0)
        for k in range(begin, end):
            byte = text[U(k)]
            digit = U(byte - 48 < 10) & U(byte >= 48)
            characters += U((byte & 0xC0) != 0x80)
            digits += digit
            hexadecimal += digit | (U(byte >= 97) & U(byte < 103))
        volatile = rules.mask_numbers and U(2) * digits >= characters
        if rules.mask_identifiers and digits >= U(1):
            volatile |= hexadecimal == end - begin and characters >= U(HEXADECIMAL_MIN)
            volatile |= digits >= U(2) and characters >= U(IDENTIFIER_MIN)
        if volatile:
            hashes[t] = rules.mask_hash


# XXH64 with seed 0, for any bytes and for all tokens of a text.

P1 = U(0x9E3779B185EBCA87)
P2 = U(0xC2B2AE3D27D4EB4F)
P3 = U(0x165667B19E3779F9)
P4 = U(0x85EBCA77C2B2AE63)
P5 = U(0x27D4EB2F165667C5)
ALL = U(0xFFFFFFFFFFFFFFFF)


@inner
def _eight(value: Any, word: Any) -> Any:
    return rotated(value ^ (rotated(word * P2, U(31)) * P1), U(27)) * P1 + P4


@inner
def _four(value: Any, word: Any) -> Any:
    return rotated(value ^ (word * P1), U(23)) * P2 + P3


@inner
def _one(value: Any, byte: Any) -> Any:
    return rotated(value ^ (byte * P5), U(11)) * P1


@inner
def _avalanche(value: Any) -> Any:
    value = (value ^ (value >> U(33))) * P2
    value = (value ^ (value >> U(29))) * P3
    return value ^ (value >> U(32))


@inner
def xxh64(text: Any, position: Any, length: Any) -> Any:
    """Return XXH64 of `length` bytes of an array, from byte `position` on (both are uint64)."""
    end = position + length
    value = P5
    if length >= U(32):
        a = P1 + P2
        b = P2
        c = U(0)
        d = U(0) - P1
        while position + U(32) <= end:
            a = rotated(a + load64(text, position) * P2, U(31)) * P1
            b = rotated(b + load64(text, position + U(8)) * P2, U(31)) * P1
            c = rotated(c + load64(text, position + U(16)) * P2, U(31)) * P1
            d = rotated(d + load64(text, position + U(24)) * P2, U(31)) * P1
            position += U(32)
        value = rotated(a, U(1)) + rotated(b, U(7)) + rotated(c, U(12)) + rotated(d, U(18))
        for lane in (a, b, c, d):
            value = (value ^ (rotated(lane * P2, U(31)) * P1)) * P1 + P4
    value += length
    while position + U(8) <= end:
        value = _eight(value, load64(text, position))
        position += U(8)
    if position + U(4) <= end:
        value = _four(value, U(load32(text, position)))
        position += U(4)
    while position < end:
        value = _one(value, load64(text, position) & U(0xFF))
        position += U(1)
    return _avalanche(value)


# Tokens hashed at once. 16 were tried on x86-64-v3: hashing English takes 5 % less (3.6 ns a token
# instead of 3.8), Chinese 10 % more (2.6 instead of 2.4).
TOKEN_LANES = 8
_WORDS = ir.VectorType(ir.IntType(64), TOKEN_LANES)


def _each(number: int) -> Any:
    return ir.Constant(_WORDS, [number] * TOKEN_LANES)


def _at_least(builder: Any, number: Any, least: int) -> Any:
    return builder.icmp_unsigned(">=", number, _each(least))


def _any(builder: Any, lanes: Any) -> Any:
    none = ir.IntType(64)(0)
    return builder.icmp_unsigned("!=", machine.bits_of(builder, lanes), none)


def _mixed(builder: Any, value: Any, bits: int, factor: Any) -> Any:
    """Each lane rotated to the left and multiplied."""
    high = builder.shl(value, _each(bits))
    turned = builder.or_(high, builder.lshr(value, _each(64 - bits)))
    return builder.mul(turned, _each(int(factor)))


def _hash_lanes(builder: Any, words: list[Any], length: Any) -> Any:
    """
    XXH64 of TOKEN_LANES tokens, each shorter than the `words`: what stands at its byte 0, 8, 16 and
    so on, also beyond its end.
    """
    start = builder.add(length, _each(int(P5)))
    before = builder.block
    # Characters that are tokens by themselves mostly have three bytes, so this can be predicted.
    with builder.if_then(_any(builder, _at_least(builder, length, 4))):
        value, rest = _hash_words(builder, words, length, start)
        within = builder.block
    both = [builder.phi(_WORDS), builder.phi(_WORDS)]
    for phi, longer, short in zip(both, (value, rest), (start, words[0]), strict=True):
        phi.add_incoming(longer, within)
        phi.add_incoming(short, before)
    value, rest = both

    bytes_left = builder.and_(length, _each(3))
    for number in range(3):
        byte = builder.and_(builder.lshr(rest, _each(8 * number)), _each(0xFF))
        one = builder.xor(value, builder.mul(byte, _each(int(P5))))
        one = _mixed(builder, one, 11, P1)
        value = builder.select(_at_least(builder, bytes_left, number + 1), one, value)

    for bits, factor in ((33, P2), (29, P3)):
        value = builder.xor(value, builder.lshr(value, _each(bits)))
        value = builder.mul(value, _each(int(factor)))
    return builder.xor(value, builder.lshr(value, _each(32)))


def _hash_words(builder: Any, words: list[Any], length: Any, value: Any) -> tuple[Any, Any]:
    """Take in every eight bytes, then four; returns also what stands at the bytes behind these."""
    rest = words[0]
    for number, word in enumerate(words[:-1], 1):
        eight = _mixed(builder, builder.mul(word, _each(int(P2))), 31, P1)
        eight = _mixed(builder, builder.xor(value, eight), 27, P1)
        eight = builder.add(eight, _each(int(P4)))
        has_eight = _at_least(builder, length, 8 * number)
        value = builder.select(has_eight, eight, value)
        rest = builder.select(has_eight, words[number], rest)
    four = builder.mul(builder.and_(rest, _each(0xFFFFFFFF)), _each(int(P1)))
    four = builder.add(_mixed(builder, builder.xor(value, four), 23, P2), _each(int(P3)))
    has_four = builder.icmp_unsigned("!=", builder.and_(length, _each(4)), _each(0))
    value = builder.select(has_four, four, value)
    return value, builder.select(has_four, builder.lshr(rest, _each(32)), rest)


def _gathered(builder: Any, places: list[Any]) -> Any:
    """Eight bytes from each of these pointers, as a vector."""
    lanes = ir.Constant(_WORDS, ir.Undefined)
    for number, place in enumerate(places):
        lanes = builder.insert_element(
            lanes, machine.load(builder, place, 64), ir.IntType(32)(number)
        )
    return lanes


def _words_of(builder: Any, text: Any, begins: list[Any], count: int) -> list[Any]:
    """The first `count` words of the tokens that begin there."""
    places = [builder.gep(text, [begin]) for begin in begins]
    return [
        _gathered(builder, [builder.gep(place, [ir.IntType(64)(8 * word)]) for place in places])
        for word in range(count)
    ]


def _edges_of(builder: Any, edges: list[Any]) -> tuple[list[Any], Any]:
    """Where the tokens begin whose edges stand at these pointers, and their lengths."""
    pairs = _gathered(builder, edges)
    length = builder.sub(builder.lshr(pairs, _each(32)), builder.and_(pairs, _each(0xFFFFFFFF)))
    return [builder.zext(machine.load(builder, edge, 32), ir.IntType(64)) for edge in edges], length


@machine.instruction(types.uint64, machine.PLACE, machine.PLACE, machine.PLACE, machine.PLACE)
def _hash_short(builder: Any, text: Any, edges: Any, first: Any, hashes: Any) -> Any:
    """
    `_hash_short(text, 0, edges, i, first, i, hashes, i)`: write XXH64 of TOKEN_LANES tokens below
    16 bytes, and the first eight bytes of each; i is a byte.

    Returns a uint64: bit t is 1 when token t is longer, so that its hash is wrong.

    Written for vectors: processors without a multiplication of 64-bit lanes pay for three, so the
    compiler would rather take one token after the other, with a branch for each length. It cannot
    be predicted: German words took 10 ns each instead of 5. Bytes, lengths and results stay in
    registers: with a loop for each of them, a load waited for an earlier store to another array
    wherever the two addresses were equal but for a multiple of 4,096, and Japanese took three times
    as long as Chinese.
    """
    places = [builder.gep(edges, [ir.IntType(64)(8 * t)]) for t in range(TOKEN_LANES)]
    begins, length = _edges_of(builder, places)
    words = _words_of(builder, text, begins, 2)
    machine.store(builder, words[0], first)
    machine.store(builder, _hash_lanes(builder, words, length), hashes)
    return machine.bits_of(builder, _at_least(builder, length, 16))


@machine.instruction(types.uint64, machine.PLACE, machine.PLACE, machine.PLACE, machine.PLACE)
def _hash_longer(builder: Any, text: Any, edges: Any, which: Any, hashes: Any) -> Any:
    """
    `_hash_longer(text, 0, edges, 0, which, i, hashes, 0)`: the same for the TOKEN_LANES tokens with
    these numbers, of which each has less than 32 bytes.
    """
    numbers = [
        builder.zext(
            machine.load(builder, builder.gep(which, [ir.IntType(64)(4 * t)]), 32), ir.IntType(64)
        )
        for t in range(TOKEN_LANES)
    ]
    offsets = [builder.shl(number, ir.IntType(64)(3)) for number in numbers]
    begins, length = _edges_of(builder, [builder.gep(edges, [offset]) for offset in offsets])
    values = _hash_lanes(builder, _words_of(builder, text, begins, 4), length)
    for lane, offset in enumerate(offsets):
        value = builder.extract_element(values, ir.IntType(32)(lane))
        machine.store(builder, value, builder.gep(hashes, [offset]))
    return machine.bits_of(builder, _at_least(builder, length, 32))


@fused
def token_hashes(text: Any, edges: Any, count: Any, hashes: Any, first: Any, longer: Any) -> None:
    """
    Return XXH64 of each token, `text[edges[2t] : edges[2t + 1]]`.

    TOKEN_LANES tokens are hashed at once, without a branch: those below 16 bytes, then those below
    32. The few that are longer go one after the other.

    Args:
        edges: two for each of `count + TOKEN_LANES` tokens; those behind `count` are overwritten.
        hashes: uint64[count + TOKEN_LANES], the result; what lies behind it is overwritten.
        first: uint64[count + TOKEN_LANES]: the first eight bytes of each token.
        longer: uint32[count + TOKEN_LANES], scratch: the tokens of 16 bytes or more.
    """
    for edge in range(U(2) * count, U(2) * (count + U(TOKEN_LANES))):
        edges[edge] = 0  # empty tokens, so that nothing is read outside the text
    long_count = U(0)
    for t in range(U(0), count, U(TOKEN_LANES)):
        at = U(8) * U(t)
        found = _hash_short(text, U(0), edges, at, first, at, hashes, at)
        while found != U(0):
            longer[long_count] = U(t) + machine.trailing_zeros(found)
            long_count += U(1)
            found &= found - U(1)
    for k in range(long_count, long_count + U(TOKEN_LANES)):
        longer[k] = count
    for k in range(U(0), long_count, U(TOKEN_LANES)):
        found = _hash_longer(text, U(0), edges, U(0), longer, U(4) * U(k), hashes, U(0))
        while found != U(0):
            token = U(longer[U(k) + machine.trailing_zeros(found)])
            begin = U(edges[token * U(2)])
            hashes[token] = xxh64(text, begin, U(edges[token * U(2) + U(1)]) - begin)
            found &= found - U(1)
