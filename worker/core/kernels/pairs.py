"""The code point that two others compose to, inside kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import inner
from worker.core.kernels.code_points import PAIR_MULTIPLIER, PAIR_SLOTS

U = np.uint64
C = np.uint32
NONE = C(0xFFFFFFFF)
_MULTIPLIER = U(PAIR_MULTIPLIER)
_SLOTS = U(PAIR_SLOTS - 1)


@inner
def pair(first: Any, second: Any, pairs: Any) -> Any:
    """The code point that two compose to, or NONE: Hangul by arithmetic, the others from the open table."""
    if C(first - C(0x1100)) < C(19) and C(second - C(0x1161)) < C(21):
        return C(C(0xAC00) + (C(first - C(0x1100)) * C(21) + C(second - C(0x1161))) * C(28))
    syllable = C(first - C(0xAC00))
    if syllable < C(11172) and syllable % C(28) == C(0) and C(second - C(0x11A8)) < C(27):
        return C(first + C(second - C(0x11A7)))
    key = (U(first) << U(32)) | U(second)
    slot = ((key * _MULTIPLIER) >> U(52)) & _SLOTS
    while pairs[slot, 0] != U(0):
        if pairs[slot, 0] == key:
            return C(pairs[slot, 1])
        slot = (slot + U(1)) & _SLOTS
    return NONE
