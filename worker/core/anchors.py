"""Function words as tables for the kernels: a word lies in one of two slots, so a look-up never branches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from worker.core import stopwords as lists
from worker.core.definition import anchor_words
from worker.core.kernels.batch import Anchors
from worker.core.parameters import Parameters
from worker.core.shingles import token_hash

__all__ = ["anchor_tables", "list_number"]

MOVES_MAX = 200  # words moved for one to find its place, before other bits are tried


def anchor_tables(parameters: Parameters) -> Anchors:
    """
    The tables of these parameters: list 0 for texts without a language, then one for each language if they are used.

    Cost: about 50 ms for the union of all lists, once a process; 100 ms with the single ones.
    """
    words = [anchor_words(parameters, None)]
    if _by_language(parameters):
        words += [anchor_words(parameters, language) for language in lists.languages()]
    return _tables(tuple(words))


@lru_cache(maxsize=16)
def _tables(words: tuple[frozenset[str], ...]) -> Anchors:
    tables = [_table({token_hash(word) for word in one}) for one in words]
    first = 0
    rows = []
    for slots, shifts in tables:
        rows.append((first, len(slots) - 1, *shifts))
        first += len(slots)
    return Anchors(np.concatenate([slots for slots, _ in tables]), np.array(rows, np.uint64))


def list_number(parameters: Parameters, language: str | None) -> int:
    """Which of the tables a text of this language uses."""
    code = lists.language_code(language) if _by_language(parameters) else None
    return 0 if code is None else 1 + lists.languages().index(code)


def _by_language(parameters: Parameters) -> bool:
    return parameters.anchors == "named" and parameters.stopwords is None


def _table(hashes: Iterable[int]) -> tuple[NDArray[np.uint64], tuple[int, int]]:
    """A cuckoo table of the hashes, at most half full, and the two shifts under which each is found."""
    words = sorted(hashes)
    bits = max(4, (2 * len(words)).bit_length())
    while True:
        for shift in range(64 - bits, bits - 1, -1):
            slots = _place(words, bits, (shift, shift - bits))
            if slots is not None:
                filler = words[0]  # an empty slot repeats a word, so that no token can equal what is not one
                return np.array([slot or filler for slot in slots], np.uint64), (shift, shift - bits)
        bits += 1


def _place(words: list[int], bits: int, shifts: tuple[int, int]) -> list[int] | None:
    mask = (1 << bits) - 1
    slots = [0] * (mask + 1)
    for word in words:
        moved, side = word, 0
        for _ in range(MOVES_MAX):
            slot = moved >> shifts[side] & mask
            slots[slot], moved = moved, slots[slot]
            if moved == 0:
                break
            side = 1 if moved >> shifts[0] & mask == slot else 0
        else:
            return None
    return slots
