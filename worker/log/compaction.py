"""
A snapshot without the originals that are gone: what is left is numbered anew, in the same order, so no verdict changes.

    rows      live dead dead live dead(named by a kept verdict) dead live
    become     0              1              2                        3

Only at a start: there is a pause anyway, and nobody holds a row's number yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from worker.log.snapshot_bytes import Columns
from worker.log.texts import Texts

__all__ = ["compacted"]

_DEAD_MIN = 1 << 16  # fewer are not worth a copy of the others
_BY_ROW = ("times", "fingerprints", "digests", "kinds", "live", "seen")


def compacted(header: Mapping[str, Any], arrays: Columns) -> tuple[Mapping[str, Any], Columns]:
    """
    Leave out the originals that are gone, if they are more than those that are not.

    Rows that a kept verdict names stay. Cost: O(1), or a copy of what stays, some 0.3 µs a row.
    """
    live = arrays["originals.live"] == 1
    dead = len(live) - int(live.sum())
    if dead < max(_DEAD_MIN, len(live) - dead):
        return header, arrays
    first = header["firsts"][0]
    named = arrays["judged.originals"]
    stays = live.copy()
    stays[named[named >= 0] - first] = True
    rows = np.flatnonzero(stays)
    changed = dict(arrays)
    for name in _BY_ROW:
        column = arrays[f"originals.{name}"]
        changed[f"originals.{name}"] = column[rows] if len(column) else column
    for name, begin in zip(("doc_id", "url"), header["firsts"][1:], strict=True):
        begins, data = arrays[f"originals.{name}_begins"] - begin, arrays[f"originals.{name}_bytes"]
        kept = Texts(data, np.append(begins[1:], len(data))).take(rows)
        changed[f"originals.{name}_begins"] = np.append(0, kept.ends[:-1])[: len(rows)]
        changed[f"originals.{name}_bytes"] = kept.data
    numbers = np.cumsum(stays) - 1
    changed["judged.originals"] = np.where(named >= 0, numbers[np.maximum(named - first, 0)], named)
    return {**header, "firsts": (0, 0, 0), "oldest": int(np.argmax(live[rows])) if live.any() else len(rows)}, changed
