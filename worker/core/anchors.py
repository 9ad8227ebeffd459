"""Function words as a table for the kernels: a word lies in one of two slots, so a look-up never branches."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from worker.core import stopwords as lists
from worker.core.definition import Parameters, folded_words, token_hash, votes
from worker.core.kernels.fingerprint import ELECT, POINTS_BIT, UNION, Anchors

MOVES_MAX = 500  # words moved for one to find its place, before other bits are tried


def anchor_table(parameters: Parameters) -> Anchors:
    """
    Return the function words of these parameters, and which lists each is in.

    Cost: about 0.1 s for all languages, once a process.
    """
    return _table(parameters.stopwords, parameters.token_unit)


def list_number(parameters: Parameters, language: str | None) -> int:
    """Whose words anchor a text: the bit of a language, UNION, or ELECT for the kernel to find out."""
    code = lists.language_code(language) if parameters.anchors == "named" and parameters.stopwords is None else None
    if code is not None:
        return lists.languages().index(code)
    by_union = parameters.anchors == "union" or parameters.stopwords is not None or parameters.token_unit == "character"
    return UNION if by_union else ELECT


@lru_cache(maxsize=16)
def _table(own: frozenset[str] | None, unit: Literal["word", "character"]) -> Anchors:
    words: dict[str, int] = {}
    if own is None and unit == "word":
        words = {word: bits | points << POINTS_BIT for word, (bits, points) in votes().items()}
    elif own is None:
        for number, code in enumerate(lists.languages()):
            for word in folded_words(lists.stopwords(code), unit):
                words[word] = words.get(word, 0) | 1 << number
    for word in folded_words(lists.stopwords(None) if own is None else own, unit):
        words[word] = words.get(word, 0) | 1 << UNION
    vote_of = {token_hash(word): vote for word, vote in words.items()}
    bits = max(4, len(vote_of).bit_length() + 1)
    while True:
        for shift in range(64 - bits, bits - 1, -1):
            slots = _place(sorted(vote_of), bits, (shift, shift - bits))
            if slots is not None:
                return Anchors(_rows(slots, vote_of), np.array([(1 << bits) - 1, shift, shift - bits], np.uint64))
        bits += 1


def _rows(slots: list[int], vote_of: dict[int, int]) -> NDArray[np.uint64]:
    """Each slot with its vote. An empty one repeats a word, so that no token equals what is not one."""
    filler = next(iter(vote_of), 0)
    return np.array([(slot or filler, vote_of.get(slot or filler, 0)) for slot in slots], np.uint64)


def _place(words: list[int], bits: int, shifts: tuple[int, int]) -> list[int] | None:
    """Each word in one of its two slots (a cuckoo table), or None when some find no place."""
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
