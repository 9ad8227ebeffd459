"""
The rows of a call that are searched together, and where the candidates of each are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.tables import confirm
from worker.core.tables.memory import DirectedMemory, signed

KEPT_BYTES = signed(8 * int(confirm.RANKS_MAX))


class Part(NamedTuple):
    """The rows of a call that are searched together, and what is known of them."""

    first: int  # the call's row that the part begins with
    fingerprints: NDArray[np.uint64]  # by row of the call
    doubts: NDArray[np.uint64]  # by row of the call
    ranks: NDArray[np.int64]  # by row of the call: the best match
    listed: NDArray[np.uint16]  # by row of the call: the tables in which a new one is listed
    kept: NDArray[np.uint64]  # by row of the part: its best candidates, as ranks
    counts: NDArray[np.int64]  # by row of the part: how many they are
    news: NDArray[np.uint64]  # those that became originals: their fingerprints
    places: NDArray[np.int64]  # … their rows of the call


@inner
def take_kept(memory: DirectedMemory, part: Part, i: int) -> None:
    """Let `confirm.keep` and `confirm.confirm` go on with the candidates that a row has so far."""
    memory.ranks = signed(part.kept.ctypes.data + KEPT_BYTES * (i - part.first))
    memory.rank_count = part.counts[i - part.first]
