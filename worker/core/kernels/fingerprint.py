"""All steps fused: a batch of texts becomes columns of fingerprints in one pass, without Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import definition
from worker.core.compiled import fused, fused_allocating, inner, kernel
from worker.core.kernels import machine, unicode
from worker.core.kernels.machine import SLACK, load32, load64, rotated
from worker.core.kernels.shingles import finished, pair_products, shingle_hashes
from worker.core.kernels.sketch import NO_HASH, add_sketch, find_numbers, mask_first, pack_minima
from worker.core.sketch import BITS
from worker.core.tokens import HEXADECIMAL_MIN, IDENTIFIER_MIN

# How often each feature of a document occurs, without a branch and without clearing a table.
#
# Every hash writes its number into the slot of its leading bits; the last one to write stays.
# Reading the slots again finds the last occurrence of each hash (it reads its own number), the
# earlier occurrences (they read the number of an equal hash) and the few whose slot another hash
# has taken. Those few go through the same, mixed anew, until none is left: different hashes do not
# share a slot in many rounds, whoever chose the words.
#
#     hashes   a  b  a  c  d        slots of a, d = 1; of b = 2; of c = 3
#     slot     1  2  1  3  1   ──►  table[1] = 4 (d), table[2] = 1 (b), table[3] = 3 (c)
#     b, c, d found themselves; both a go to the second round

U = np.uint64
ONE = 0  # term frequencies: what n occurrences leave in the list
LOG = 1
TF = 2
TABLE_BITS_MAX = 21  # 8 MB: of longer texts a slot has several hashes


@fused
def table_bits(count: Any) -> Any:
    """The bits of a table for this many hashes: four to eight slots for each."""
    bits = U(6)
    while (U(1) << bits) < U(4) * count and bits < U(TABLE_BITS_MAX):
        bits += U(1)
    return bits


@fused
def settle(hashes: Any, count: Any, rule: Any, out: Any, scratch: Any) -> Any:
    """
    Write to `out` what the term frequency makes of `hashes[:count]`: each distinct hash once (ONE),
    once for each power of two that its occurrences reach (LOG), or every occurrence (TF).

    Args:
        out: uint64[count + 1].
        scratch: any content: uint32[1 << table_bits(count)], two uint32[count + 1], uint64[count +
            1].
    Returns:
        How many hashes were written, and how many distinct ones there were.
    """
    _, _, _, displaced = scratch
    shift = U(64) - table_bits(count)
    factor = U(definition.MULTIPLIER)
    kept, distinct, pending = _round(hashes, count, U(1), shift, rule, out, U(0), scratch)
    while pending != U(0):
        kept, more, pending = _round(displaced, pending, factor, shift, rule, out, kept, scratch)
        distinct += more
        factor *= U(definition.MULTIPLIER)
    return kept, distinct


@fused
def _round(
    source: Any, count: Any, factor: Any, shift: Any, rule: Any, out: Any, kept: Any, scratch: Any
) -> tuple[Any, Any, Any]:
    """
    Settle what finds a slot: how many are written now, how many distinct ones were, and how many
    are displaced.
    """
    table, again, losers, displaced = scratch
    for k in range(count):
        table[(source[k] * factor) >> shift] = k
        again[k] = 0
    left = U(0)
    for k in range(count):
        value = source[k]
        wins = U(table[(value * factor) >> shift] == k)
        out[kept] = value
        kept += wins
        losers[left] = k
        left += wins ^ U(1)
    pending = U(0)
    for j in range(left):
        value = source[losers[j]]
        winner = U(table[(value * factor) >> shift])
        same = U(source[winner] == value)
        more = U(again[winner]) + same  # occurrences beyond the first
        again[winner] = more
        counts = U(rule == TF) | (U(rule == LOG) & U((more & (more + U(1))) == U(0)))
        out[kept] = value
        kept += same & counts
        displaced[pending] = value
        pending += same ^ U(1)
    return kept, count - left, pending


# The sign of 64 sums at once: hashes are added as columns of bits, not as 64 counters.
#
# `planes[p]` holds bit p of all 64 counts. Adding a hash is an addition with carry: plane 0 takes
# the bit, what overflows moves up. Eight hashes go through a tree of carry-save adders first, so
# the upper planes are touched once in eight (Harley and Seal's population count, by position).
#
#     planes[2]  0 1 1 …        the count of bit 0 is 0·4 + 1·2 + 1·1 = 3
#     planes[1]  1 0 1 …
#     planes[0]  1 1 0 …

PLANES = 40  # counts to 2**40: more shingles than any text has


@fused
def add_hashes(hashes: Any, count: Any, weight: Any, planes: Any, tally: Any) -> None:
    """
    For each of `hashes[:count]`, add `weight` to `tally[bit]` if the hash has the bit, and subtract
    it otherwise.

    `planes`: uint64[PLANES], scratch; the first 64 of `tally` count.
    """
    for plane in range(PLANES):
        planes[plane] = U(0)
    ones = U(0)
    twos = U(0)
    fours = U(0)
    i = U(0)
    while i + U(8) <= count:
        ones, two_a = _added(ones, hashes[i], hashes[i + U(1)])
        ones, two_b = _added(ones, hashes[i + U(2)], hashes[i + U(3)])
        twos, four_a = _added(twos, two_a, two_b)
        ones, two_a = _added(ones, hashes[i + U(4)], hashes[i + U(5)])
        ones, two_b = _added(ones, hashes[i + U(6)], hashes[i + U(7)])
        twos, four_b = _added(twos, two_a, two_b)
        fours, carry = _added(fours, four_a, four_b)
        _carry(planes, np.int64(3), carry)
        i += U(8)
    planes[0], planes[1], planes[2] = ones, twos, fours
    while i < count:
        _carry(planes, np.int64(0), hashes[i])
        i += U(1)
    top = 0
    while count >> U(top):
        top += 1
    for bit in range(64):
        tally[bit] -= weight * np.int64(count)
    for plane in range(top):
        twice = weight << np.int64(plane + 1)
        for bit in range(64):
            tally[bit] += twice * np.int64((planes[plane] >> U(bit)) & U(1))


@fused
def _added(a: Any, b: Any, c: Any) -> Any:
    """Three columns of bits added: the sums, and what overflows."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


@fused
def _carry(planes: Any, plane: Any, carry: Any) -> None:
    """Add one column of bits at a plane, and what overflows above it."""
    while carry != U(0):
        overflow = planes[plane] & carry
        planes[plane] ^= carry
        carry = overflow
        plane += 1


@fused
def signs(tally: Any) -> Any:
    """Bit i is 1 where `tally[i]` is above 0."""
    value = U(0)
    for bit in range(64):
        value |= U(tally[bit] > 0) << U(bit)
    return value


@fused
def doubt_rule(tally: Any, bits: Any) -> Any:
    """
    How far the first `bits` sums are shifted, and the square below which one is doubtful:
    `definition.doubts`.
    """
    every = U(0)  # as long as the largest
    for bit in range(bits):
        every |= U(abs(tally[bit]))
    shift = U(0)
    while every >> (shift + U(definition.DOUBT_BITS)):
        shift += U(1)
    total = U(0)
    for bit in range(bits):
        size = U(abs(tally[bit])) >> shift
        total += size * size
    # left * square < right * total, for whole squares: square < ceil(right * total / left)
    left = U(definition.DOUBT_LEFT) * U(bits)
    return shift, (U(definition.DOUBT_RIGHT) * total + left - U(1)) // left


@fused
def doubts(tally: Any, shift: Any, limit: Any) -> Any:
    """Bit i is 1 where `tally[i]` is doubtful by this rule."""
    value = U(0)
    for bit in range(64):
        size = U(abs(tally[bit])) >> shift
        value |= U(size * size < limit) << U(bit)
    return value


# Which tokens are function words, inside kernels, and the language for which they vote:
# `language.elect`.

# Of a vote: bits 0 to 59 languages, 60 and 61 its points, 63 whether the word is in the union.
POINTS_BIT = 60
UNION = 63
ELECT = 64  # instead of a bit: the one that the text elects
assert definition.LANGUAGES_MAX <= POINTS_BIT


@fused
def find_votes(hashes: Any, count: Any, anchors: Any, found: Any) -> None:
    """
    Write to `found[t]` the vote of the token's hash, 0 if it is not a function word.

    It has no branch, because none could be predicted.

    A word is in the row of `anchors` of the bits above one of the two shifts.
    """
    mask = anchors.shape[0]
    first = anchors.shape[1]
    second = anchors.shape[2]
    for t in range(count):
        value = hashes[t]
        one = (value >> first) & mask
        two = (value >> second) & mask
        here = anchors.rows[one, 1] & machine.mask_of(anchors.rows[one, 0] == value)
        found[t] = here | (anchors.rows[two, 1] & machine.mask_of(anchors.rows[two, 0] == value))


@fused
def _points(
    votes: Any, voters: Any, without: Any, needed: Any, lists: Any, planes: Any, tally: Any
) -> Any:
    """
    Write to `tally` twice the points of each language, by the votes that have no bit of `without`
    and all of `needed`.

    Scratch: `lists` uint64[2 * (voters + 1)], votes of 1 and of 2 points; `planes`. Returns the
    points of all votes.
    """
    room = voters + U(1)
    ones = U(0)
    twos = U(0)
    for t in range(voters):
        vote = votes[t]
        counts = U((vote & without) == U(0)) & U((vote & needed) == needed)
        points = (vote >> U(POINTS_BIT)) & U(3)
        lists[ones] = vote
        lists[room + twos] = vote
        ones += points & counts
        twos += (points >> U(1)) & counts
    total = ones + U(2) * twos
    for bit in range(64):
        tally[bit] = total  # so that it ends as twice the points
    add_hashes(lists, ones, np.int64(1), planes, tally)
    add_hashes(lists[room:], twos, np.int64(2), planes, tally)
    return total


@fused
def elected(votes: Any, count: Any, lists: Any, planes: Any, tally: Any) -> Any:
    """
    The bit of the language with the most points, the lowest of equals; UNION below POINTS_MIN.

    Scratch: `lists` uint64[2 * (min(count, TOKENS_MAX) + 1)]; `planes`. `tally`, int64[64], is
    twice the points.
    """
    voters = min(count, U(definition.TOKENS_MAX))
    if _points(votes, voters, U(0), U(0), lists, planes, tally) < U(definition.POINTS_MIN):
        return U(UNION)
    best = 0
    for bit in range(1, POINTS_BIT):
        if tally[bit] > tally[best]:
            best = bit
    return U(best) if tally[best] >= 2 * definition.POINTS_MIN else U(UNION)


@fused
def join_others(
    hashes: Any, votes: Any, count: Any, first: Any, lists: Any, planes: Any, tally: Any, out: Any
) -> None:
    """
    Set `out[t]` for the function words of other languages that anchor this text too:
    `definition.elected_words`.

    Args:
        first: the bit of the elected language, and `tally` twice the points, as `elected` leaves
            it.
        lists, planes: scratch, as of `elected`.
    """
    voters = min(count, U(definition.TOKENS_MAX))
    own = U(1) << first
    union = U(1) << U(UNION)
    of_first = U(tally[first]) >> U(1)
    total = U(0)  # of votes that the first does not share: no other language has more points
    for t in range(voters):
        vote = votes[t]
        counts = U((vote & own) == U(0)) & (vote >> U(UNION))
        total += (vote >> U(POINTS_BIT) & U(3)) * counts
    if total < U(definition.POINTS_MIN) or _share(total, of_first) < U(definition.SHARE_MIN):
        return
    _points(votes, voters, own, union, lists, planes, tally)
    joining = U(0)  # languages of which a word may join
    for bit in range(POINTS_BIT):
        points = U(tally[bit]) >> U(1)
        reached = _share(points, of_first) * U(points >= U(definition.POINTS_MIN))
        tally[bit] = np.int64(reached)
        joining |= U(reached >= U(definition.SHARE_MIN)) << U(bit)
    if joining == U(0):
        return
    for t in range(count):
        vote = votes[t]
        languages = vote & joining
        if languages == U(0) or (vote & own) != U(0) or (vote & union) == U(0):
            continue
        reached = U(0)
        while languages != U(0):
            reached = max(reached, U(tally[machine.trailing_zeros(languages)]))
            languages &= languages - U(1)
        out[t] = U(definition.SHARE_MIN) + (hashes[t] >> U(56)) <= reached


@fused
def _share(points: Any, first: Any) -> Any:
    return U(definition.SHARE_UNITS) * points // (first + points)


# The first kernel: code points to folded tokens, without a branch that the text decides.
#
# ASCII is folded in place, 16 or 64 characters at a time; where its tokens begin and end are the
# changes in a word of bits. Everything else goes one code point at a time and is written as UTF-8,
# one token behind the other.
#
#     text   "Don't ПАНИКА"
#     out    "don t паника"      edges 0 3 4 5 6 18: token t is out[edges[2t] : edges[2t + 1]]

C = np.uint32
BIT = U(1)
BLOCK = U(16)  # code points that are tried as ASCII together


@fused
def _add_edges(changes: Any, position: Any, edges: Any, at: Any) -> Any:
    """Write `position + i` for every bit i that is set; returns where the next edge goes."""
    count = U(machine.popcount(changes))
    written = U(0)
    while (
        written < count
    ):  # four at a time: what is written beyond the last is overwritten, or never read
        for k in range(4):
            edges[at + written + U(k)] = position + machine.trailing_zeros(changes)
            changes &= changes - BIT
        written += U(4)
    return at + count


@fused
def scan_ascii(text: Any, start: Any, end: Any, out: Any, edges: Any) -> Any:
    """
    The tokens of `text[start:end]`, bytes below 128; returns their number.

    Args:
        out: uint8[end - start + SLACK], the folded text.
        edges: uint32[end - start + SLACK], begin and end of each token in `out`.
    """
    at = U(0)
    inside = U(0)
    block = start
    while block < end:
        words = machine.fold_bytes(text, block, out, block - start)
        if end - block < U(64):
            words &= (BIT << (end - block)) - BIT
        at = _add_edges(words ^ ((words << BIT) | inside), block - start, edges, at)
        inside = words >> U(63)
        block += U(64)
    edges[at] = end - start
    return (at + inside) >> BIT


@fused
def scan_code_points(
    text: Any, start: Any, end: Any, points: Any, out: Any, edges: Any, kinds: Any
) -> Any:
    """
    The tokens of the code points `text[start:end]`: their number, whether there is anything that
    NFC might change, and whether any of them is a character of a script without spaces.

    Args:
        out: uint8[LONG_BYTES · (end - start) + SLACK], the tokens.
        edges: uint32[2 · (end - start) + SLACK], begin and end of each token in `out`.
        kinds: uint8[end - start + SLACK], of each token: what its code points are (`unicode.KIND`),
            or 0 for ASCII.
    """
    # Sixteen ASCII characters at a time leave their tokens' zeros alone.
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
            words = machine.fold_code_points(text, U(4) * i, out, position)
            if words < U(1 << 16):
                inside = U(before == U(unicode.LETTER))
                at = _add_edges(
                    (words ^ ((words << BIT) | inside)) & U(0xFFFF),
                    position,
                    edges,
                    U(2) * count - inside,
                )
                inside = words >> U(15)
                count = (at + inside) >> BIT
                before = U(unicode.LETTER) if inside else U(unicode.SEPARATOR)
                position += BLOCK
                edges[U(2) * count - inside] = position
                i = stop
                continue
        for k in range(i, stop):
            code = text[k]
            entry = points.entries[points.stage1[code >> C(8)] + (code & C(255))]
            seen |= entry
            about = entry >> U(unicode.JOINED)
            edges[U(2) * count] = position
            count += U((before & about & U(15)) == U(0))
            machine.store32(out, position, C(entry & U(0xFFFFFFFF)))
            length = (about >> U(unicode.LENGTH - unicode.JOINED)) & U(7)
            if length > U(4):
                for byte in range(length):
                    out[position + U(byte)] = points.long[(entry & U(0xFFFFFFFF)) + U(byte)]
            position += length
            written = U(length != U(0))
            edges[U(2) * count - written] = position
            kind = (about >> U(unicode.KIND - unicode.JOINED)) & U(15)
            # Of a token's last code point, which is of the same kind as its first and as their
            # folded forms. What is not written stands where the next token's kind will.
            kinds[count - written] = kind
            before = kind if kind != U(0) else before
        i = stop
    changes = ((seen >> U(unicode.CHANGES)) & U(0xFF)) != U(0)
    return count, changes, ((seen >> U(unicode.KIND)) & U(unicode.CHARACTERS)) != U(0)


@fused
def settled(text: Any, start: Any, end: Any, points: Any) -> Any:
    """
    Whether the code points `text[start:end]` are in NFC.

    It may say no of a text that is, when marks stand in a row: then composing changes nothing. A
    yes is sure.
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


# The middle kernels: masked tokens, and the hashes of tokens.


@fused
def mask_tokens(text: Any, edges: Any, count: Any, rules: Any, hashes: Any) -> None:
    """`tokens.masked` for every token: the hash of a volatile one becomes that of MASK."""
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


# XXH64 with seed 0 inside kernels: of any bytes, and of the tokens of a text several at a time.

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
    """XXH64 of `length` bytes of an array from byte `position` (uint64 both)."""
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


@fused
def token_hashes(
    text: Any, edges: Any, count: Any, hashes: Any, first: Any, rest: Any, longer: Any
) -> None:
    """
    XXH64 of each token, `text[edges[2t] : edges[2t + 1]]`.

    Tokens below 16 bytes are hashed without a branch, so the second loop is vectorised; the longer
    ones after it.

    Args:
        hashes: uint64[count], the result.
        first, rest: uint64[count], scratch: the first eight bytes, and what remains after the whole
            eights.
        longer: uint32[count + 1], scratch: the tokens of 16 bytes or more.
    """
    long_count = U(0)
    for t in range(count):
        begin = U(edges[U(t) * U(2)])
        length = U(edges[U(t) * U(2) + U(1)]) - begin
        whole = U(length >= U(8))
        first[t] = load64(text, begin)
        rest[t] = load64(text, begin + (whole << U(3))) & ~(ALL << ((length & U(7)) << U(3)))
        hashes[t] = length
        longer[long_count] = t
        long_count += U(length >= U(16))
    for t in range(count):
        length = hashes[t]
        tail = rest[t]
        value = P5 + length
        value = _eight(value, first[t]) if length >= U(8) else value
        four = (length & U(4)) != U(0)
        value = _four(value, tail & U(0xFFFFFFFF)) if four else value
        tail = tail >> U(32) if four else tail
        value = _one(value, tail & U(0xFF)) if (length & U(3)) > U(0) else value
        value = _one(value, (tail >> U(8)) & U(0xFF)) if (length & U(3)) > U(1) else value
        value = _one(value, (tail >> U(16)) & U(0xFF)) if (length & U(3)) > U(2) else value
        hashes[t] = _avalanche(value)
    for k in range(long_count):
        token = U(longer[k])
        begin = U(edges[token * U(2)])
        hashes[token] = xxh64(text, begin, U(edges[token * U(2) + U(1)]) - begin)


EMPTY = 0
SHORT = 1
FULL = 2
NOT_COMPOSED = 255  # a kind for between: the text is to be composed and come again
START = 0
END = 1
IS_WIDE = 2
LIST = 3
FEATURES = 0
DIGEST = 1
KIND = 2


class PackedTexts(NamedTuple):
    """A batch of texts: those in ASCII as bytes, the others as code points."""

    narrow: NDArray[np.uint8]  # SLACK bytes behind the last text
    wide: NDArray[np.uint32]
    # [n, 4]: START and END in `narrow` or `wide`, IS_WIDE, LIST: a bit of votes, or ELECT.
    spans: NDArray[np.uint64]


class Rules(NamedTuple):
    """The parameters, as numbers."""

    bits: int  # of a fingerprint: 32, 64 or 128
    halves: int  # of 64 bits: 1 or 2
    low_mask: np.uint64  # of the first half: 32 ones for 32 bits
    widths: NDArray[np.uint64]
    anchored_weight: int
    unanchored_weight: int
    # The weight of each field, whose texts stand side by side; none: a text is a document.
    fields: NDArray[np.int64]
    term_frequency: int  # ONE, LOG, TF
    tokens_min: np.uint64
    shingles_min: np.uint64
    mask_numbers: bool
    mask_identifiers: bool
    mask_hash: np.uint64
    by_letter: bool  # the unit is a character


class Anchors(NamedTuple):
    """The function words, and in which lists each of them is."""

    rows: NDArray[np.uint64]  # [slots, 2]: hash and vote
    # Slots - 1, and two shifts: a word lies in the slot of its bits above one of the two.
    shape: NDArray[np.uint64]


class Columns(NamedTuple):
    """What a batch gives, a row for each document."""

    fingerprints: NDArray[np.uint64]  # [n, halves]
    doubts: NDArray[np.uint64]  # [n, halves]
    # [n, 3]: FEATURES, DIGEST, KIND (EMPTY … FULL, or NOT_COMPOSED and nothing else)
    about: NDArray[np.uint64]
    sketches: NDArray[np.uint64]  # [n, 8]


@fused
def _add_features(
    hashes: Any,
    count: Any,
    rules: Any,
    anchors: Any,
    which: Any,
    times: Any,
    scratch: Any,
    tally: Any,
) -> Any:
    """
    Add a text's token hashes to tally, so many times; returns how many distinct features count.
    """
    product, anchor, anchored, with_anchor, without, counting, planes, points, sizes, pairs = (
        scratch
    )
    find_votes(hashes, count, anchors, without)
    elects = which == U(ELECT)
    if elects:
        which = elected(without, count, with_anchor, planes, points)
    for t in range(count):
        anchor[t] = (without[t] >> which) & U(1)
    if elects and which != U(UNION):
        join_others(hashes, without, count, which, with_anchor, planes, points, anchor)
    sizes[0], sizes[1] = U(0), U(0)
    pair_products(hashes, count, pairs)
    out = with_anchor, without
    for width in rules.widths:
        shingle_hashes(hashes, pairs, anchor, count, width, (product, anchored), out, sizes)
    distinct = U(0)
    for side in range(2):
        features = with_anchor if side == 0 else without
        weight = rules.anchored_weight
        if side == 1 and (rules.unanchored_weight != 0 or sizes[0] >= rules.shingles_min):
            weight = rules.unanchored_weight
        if weight == 0:
            continue
        kept, found = settle(features, sizes[side], rules.term_frequency, product, counting)
        distinct += found
        for half in range(rules.halves):
            if half == 1:
                for i in range(kept):
                    product[i] = finished(product[i] + U(definition.SECOND_HALF))
            add_hashes(product, kept, times * weight, planes, tally[64 * half :])
    return distinct


@fused_allocating
def _scratch(tokens: Any, widths: Any) -> Any:
    """The arrays that a text of so many tokens needs, as `_add_features` takes them."""
    room = max(tokens * widths, U(2) * min(tokens, U(definition.TOKENS_MAX))) + U(3)
    counting = (
        np.empty(U(1) << table_bits(room), np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint64),
    )
    return (
        np.empty(room, np.uint64),
        np.empty(tokens + U(1), np.uint8),
        np.empty(tokens + U(1), np.uint8),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        counting,
        np.empty(PLANES, np.uint64),
        np.empty(64, np.int64),
        np.empty(2, np.uint64),
        np.empty(tokens + U(1), np.uint64),
    )


@fused
def _short(tokens: Any, digest: Any, rules: Any, columns: Any, d: Any) -> None:
    """The row of a document with few tokens or none: its digest is the only feature."""
    empty = tokens == U(0)
    columns.about[d, KIND] = EMPTY if empty else SHORT
    columns.about[d, FEATURES] = U(not empty)
    columns.fingerprints[d, 0] = U(0) if empty else digest & rules.low_mask
    if rules.halves == 2:
        columns.fingerprints[d, 1] = U(0) if empty else finished(digest + U(definition.SECOND_HALF))
    columns.doubts[d, :] = U(0)
    columns.sketches[d, :] = U(0)


@fused
def _full(features: Any, tally: Any, minima: Any, rules: Any, columns: Any, d: Any) -> None:
    """The row of any other."""
    columns.about[d, KIND] = FULL
    columns.about[d, FEATURES] = features
    pack_minima(minima, columns.sketches[d])
    shift, limit = doubt_rule(tally, rules.bits)
    for half in range(rules.halves):
        columns.fingerprints[d, half] = signs(tally[64 * half :]) & rules.low_mask
        columns.doubts[d, half] = doubts(tally[64 * half :], shift, limit) & rules.low_mask


@fused_allocating
def _token_room(spans: Any) -> Any:
    """The arrays that take the tokens of any of these texts."""
    narrow_max = U(0)
    wide_max = U(0)
    for d in range(spans.shape[0]):
        length = spans[d, END] - spans[d, START]
        narrow_max = max(narrow_max, U(0) if spans[d, IS_WIDE] else length)
        wide_max = max(wide_max, length if spans[d, IS_WIDE] else U(0))
    return (
        np.empty(max(narrow_max, U(unicode.LONG_BYTES) * wide_max) + U(SLACK), np.uint8),
        np.empty(max(narrow_max, U(2) * wide_max) + U(SLACK), np.uint32),
        np.empty(wide_max + U(SLACK), np.uint8),
    )


@fused
def _scan(
    texts: Any, row: Any, composed: Any, points: Any, out: Any, edges: Any, kinds: Any
) -> Any:
    """
    The number of a text's tokens, whether it is to be composed first, and whether it has characters
    for tokens.
    """
    start = texts.spans[row, START]
    end = texts.spans[row, END]
    if not texts.spans[row, IS_WIDE]:
        return scan_ascii(texts.narrow, start, end, out, edges), False, False
    count, changes, characters = scan_code_points(texts.wide, start, end, points, out, edges, kinds)
    doubtful = changes and not composed and not settled(texts.wide, start, end, points)
    return count, doubtful, characters


@kernel
def fingerprint_batch(
    texts: Any, composed: Any, points: Any, rules: Any, anchors: Any, columns: Any
) -> Any:
    """
    Write the fingerprints of all documents into the columns.

    Returns how many are NOT_COMPOSED; of texts that are `composed` already, none.
    """
    out, edges, kinds = _token_room(texts.spans)
    room = U(0)
    hashes = np.empty(room + U(1), np.uint64)
    numbers = np.empty(room + U(1), np.uint32)
    scratch = _scratch(room, U(rules.widths.size))
    tally = np.empty(64 * rules.halves, np.int64)
    minima = np.empty(BITS, np.uint32)
    fields = max(rules.fields.size, 1)
    digests = np.empty(fields, np.uint64)
    again = 0
    for d in range(columns.about.shape[0]):
        tokens = U(0)
        features = U(0)
        doubtful = False
        for field in range(fields):
            row = d * fields + field
            count, doubtful, characters = _scan(texts, row, composed, points, out, edges, kinds)
            if doubtful:
                break
            if count > room:
                room = count + (count >> U(2))
                hashes = np.empty(room, np.uint64)
                numbers = np.empty(room + U(1), np.uint32)
                scratch = _scratch(room, U(rules.widths.size))
            token_hashes(out, edges, count, hashes, scratch[0], scratch[3], scratch[5][1])
            digests[field] = xxh64(hashes, U(0), count << U(3))
            tokens += count
            if rules.fields.size == 0 and count < rules.tokens_min:
                continue
            if rules.mask_numbers or rules.mask_identifiers:
                mask_tokens(out, edges, count, rules, hashes)
                mask_first(hashes, rules.mask_hash, count, scratch[0])
            number_count = find_numbers(scratch[0], count, numbers)
            if field == 0:
                tally[:] = 0
                minima[:] = NO_HASH
            times = rules.fields[field] if rules.fields.size else np.int64(1)
            which = texts.spans[row, LIST]
            features += _add_features(hashes, count, rules, anchors, which, times, scratch, tally)
            add_sketch(
                hashes,
                scratch[9],
                (kinds, numbers[:number_count]),
                characters,
                count,
                rules.by_letter,
                (scratch[0], scratch[1]),
                minima,
            )
        if doubtful:
            columns.about[d, KIND] = NOT_COMPOSED
            again += 1
            continue
        digest = xxh64(digests, U(0), U(8 * fields)) if rules.fields.size else digests[0]
        columns.about[d, DIGEST] = digest
        if tokens < rules.tokens_min or features == U(0):
            _short(tokens, digest, rules, columns, d)
        else:
            _full(features, tally, minima, rules, columns, d)
    return again
