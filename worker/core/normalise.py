"""
The definition, step 1: text to Unicode's canonical composed form (NFC), from our own table.

Equal characters have equal code points after it: "é" typed as one code point or as e and an accent. It is written out
here because Python's `unicodedata` changes with Python, and takes minutes for a page of a million combining marks.
"""

from __future__ import annotations

from worker.core.unicode_table import UnicodeTable, unicode_table

# Hangul syllables are composed by arithmetic (Unicode, chapter 3.12).
_S, _L, _V, _T = 0xAC00, 0x1100, 0x1161, 0x11A7
_L_COUNT, _V_COUNT, _T_COUNT = 19, 21, 28
_S_COUNT = _L_COUNT * _V_COUNT * _T_COUNT


def nfc(text: str) -> str:
    """
    Return the text in normalisation form C of the table's Unicode version.

    Code points that the table does not know stand as they are.

    Cost: O(n log n) for a run of n combining marks, else O(n).  Source: Unicode Standard Annex 15.

    >>> nfc("e\u0301") == "\u00e9"
    True
    """
    table = unicode_table()
    return "".join(map(chr, compose(canonical_order(decompose(map(ord, text), table), table), table)))


def decompose(codes: map[int] | list[int], table: UnicodeTable) -> list[int]:
    """Replace every code point by its full canonical decomposition."""
    out: list[int] = []
    for code in codes:
        if 0 <= code - _S < _S_COUNT:
            index = code - _S
            out += (_L + index // (_V_COUNT * _T_COUNT), _V + index // _T_COUNT % _V_COUNT)
            if index % _T_COUNT:
                out.append(_T + index % _T_COUNT)
        elif code in table.canonical:
            out += decompose(list(table.canonical[code]), table)
        else:
            out.append(code)
    return out


def canonical_order(codes: list[int], table: UnicodeTable) -> list[int]:
    """Each run of combining marks sorted by combining class; equal classes keep their order."""
    out: list[int] = []
    run: list[int] = []
    for code in codes:
        if table.combining[code]:
            run.append(code)
            continue
        out += sorted(run, key=lambda mark: int(table.combining[mark]))
        run.clear()
        out.append(code)
    return out + sorted(run, key=lambda mark: int(table.combining[mark]))


def compose(codes: list[int], table: UnicodeTable) -> list[int]:
    """Join every starter with the marks that it composes with, unless another mark of equal class stands between."""
    out: list[int] = []
    starter = -1  # place in `out` of the last starter
    blocking = 0  # combining class of what stands between the starter and the next code point
    for code in codes:
        combining = int(table.combining[code])
        adjacent = starter == len(out) - 1
        if starter >= 0 and (adjacent or blocking < combining):
            pair = _pair(out[starter], code, table)
            if pair is not None:
                out[starter] = pair
                continue
        if combining == 0:
            starter = len(out)
        blocking = combining
        out.append(code)
    return out


def _pair(first: int, second: int, table: UnicodeTable) -> int | None:
    """Return the one code point that two compose to, or None."""
    if 0 <= first - _L < _L_COUNT and 0 <= second - _V < _V_COUNT:
        return _S + ((first - _L) * _V_COUNT + second - _V) * _T_COUNT
    if 0 <= first - _S < _S_COUNT and (first - _S) % _T_COUNT == 0 and 0 < second - _T < _T_COUNT:
        return first + second - _T
    return table.composed.get((first, second))
