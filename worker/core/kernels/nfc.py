"""The rare kernel: texts that are not in NFC, composed. Linear, even for a page of nothing but combining marks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import allocating, inner, kernel
from worker.core.kernels.code_points import PARTS, RANK
from worker.core.kernels.pairs import NONE, pair
from worker.core.normalise import canonical_order, decompose
from worker.core.unicode_table import CODE_POINTS, unicode_table

U = np.uint64
C = np.uint32
GROWTH = 4  # code points that one decomposes to, at most
SORT_DIRECTLY_MAX = 32  # marks in a row: longer runs are counted into their classes


class Canonical(NamedTuple):
    """The full canonical decompositions."""

    places: NDArray[np.uint16]  # by code point: 0, or where `parts` has their number, and then the code points
    parts: NDArray[np.uint32]


@cache
def canonical_table() -> Canonical:
    """
    The decompositions for the kernel, once a process.

    Cost: about 10 ms, 2 MB.
    """
    table = unicode_table()
    places = np.zeros(CODE_POINTS, np.uint16)
    parts: list[int] = [0]
    for code in table.canonical:
        full = canonical_order(decompose([code], table), table)
        places[code] = len(parts)
        parts += [len(full), *full]
    return Canonical(places, np.array(parts, np.uint32))


@inner
def _rank(code: Any, points: Any) -> Any:
    """The rank of the combining class of a code point; 0 for a starter."""
    return (points.entries[points.stage1[code >> C(8)] + (code & C(255))] >> U(RANK)) & U(63)


@inner
def _decompose(text: Any, start: Any, end: Any, points: Any, canonical: Any, codes: Any, ranks: Any) -> Any:
    """Every code point fully decomposed, with the ranks; returns their number."""
    count = U(0)
    for i in range(start, end):
        code = text[i]
        entry = points.entries[points.stage1[code >> C(8)] + (code & C(255))]
        syllable = C(code - C(0xAC00))
        if syllable < C(11172):
            codes[count] = C(0x1100) + syllable // C(588)
            codes[count + U(1)] = C(0x1161) + syllable // C(28) % C(21)
            codes[count + U(2)] = C(0x11A7) + syllable % C(28)
            for k in range(3):
                ranks[count + U(k)] = 0
            count += U(2) + U(syllable % C(28) != C(0))
        elif (entry >> U(PARTS)) & U(1):
            place = U(canonical.places[code])
            for k in range(U(canonical.parts[place])):
                part = canonical.parts[place + U(1) + U(k)]
                codes[count] = part
                ranks[count] = _rank(part, points)
                count += U(1)
        else:
            codes[count] = code
            ranks[count] = (entry >> U(RANK)) & U(63)
            count += U(1)
    return count


@allocating
def _order(codes: Any, ranks: Any, begin: Any, end: Any) -> None:
    """One run of marks sorted by rank, equal ranks in their order."""
    if end - begin <= U(SORT_DIRECTLY_MAX):
        for k in range(begin + U(1), end):
            at = U(k)
            code, rank = codes[at], ranks[at]
            while at > begin and ranks[at - U(1)] > rank:
                codes[at], ranks[at] = codes[at - U(1)], ranks[at - U(1)]
                at -= U(1)
            codes[at], ranks[at] = code, rank
        return
    places = np.zeros(65, np.uint64)
    for k in range(begin, end):
        places[U(ranks[k]) + U(1)] += U(1)
    for rank in range(64):
        places[rank + 1] += places[rank]
    old_codes = np.empty(end - begin, np.uint32)
    old_ranks = np.empty(end - begin, np.uint8)
    for k in range(end - begin):
        old_codes[k], old_ranks[k] = codes[begin + U(k)], ranks[begin + U(k)]
    for k in range(end - begin):
        rank = old_ranks[k]
        at = begin + places[rank]
        places[rank] += U(1)
        codes[at], ranks[at] = old_codes[k], rank


@inner
def _compose(codes: Any, ranks: Any, count: Any, pairs: Any, out: Any, kept: Any) -> Any:
    """The ordered code points composed, to `out` from `kept` on; returns where the next text goes."""
    starter = kept
    started = False
    blocking = U(0)
    for k in range(count):
        code = codes[k]
        rank = U(ranks[k])
        if started and (starter + U(1) == kept or blocking < rank):
            joined = pair(out[starter], code, pairs)
            if joined != NONE:
                out[starter] = joined
                continue
        if rank == U(0):
            starter = kept
            started = True
        blocking = rank
        out[kept] = code
        kept += U(1)
    return kept


@kernel
def compose_batch(text: Any, spans: Any, points: Any, canonical: Any, offsets: Any) -> Any:
    """
    The texts `text[spans[d, 0] : spans[d, 1]]` in NFC, one behind the other.

    Args:
        text: uint32, code points.
        spans: uint64[n, 2 or more].
        offsets: uint64[n + 1], the result: where each composed text begins.
    Returns:
        uint32: the composed texts, and room behind them.
    """
    total, longest = U(0), U(0)
    for d in range(spans.shape[0]):
        length = spans[d, 1] - spans[d, 0]
        total += length
        longest = max(longest, length)
    out = np.empty(U(GROWTH) * total + U(1), np.uint32)
    codes = np.empty(U(GROWTH) * longest + U(GROWTH), np.uint32)
    ranks = np.empty(U(GROWTH) * longest + U(GROWTH), np.uint8)
    kept = U(0)
    for d in range(spans.shape[0]):
        offsets[d] = kept
        count = _decompose(text, spans[d, 0], spans[d, 1], points, canonical, codes, ranks)
        begin = U(0)
        while begin < count:
            behind = begin
            while behind < count and ranks[behind] != 0:
                behind += U(1)
            if behind > begin + U(1):
                _order(codes, ranks, begin, behind)
            begin = behind + U(1)
        kept = _compose(codes, ranks, count, points.pairs, out, kept)
    offsets[spans.shape[0]] = kept
    return out
