"""Stretches of a page that hold no markup: raw text, scripts, comments, CDATA; each function says where one ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at, find_greater_than, find_less_than, find_tag_edge
from worker.core.pages.characters import ENDS_NAME, about_byte
from worker.core.pages.hashing import SEED, add_byte, finished, name_hash

SCRIPT_HASH, SCRIPT_SIZE = np.uint64(name_hash("script")), np.int64(6)
PLAIN, ESCAPED, DOUBLE_ESCAPED = 0, 1, 2


@fused
def is_named(page: Any, i: Any, end: Any, name: Any, size: Any) -> Any:
    """Whether an element's name of that hash and size stands at `i`, and something that ends it behind it."""
    if i + size >= end or not about_byte(byte_at(page, i + size)) & ENDS_NAME:
        return False
    key = SEED
    for k in range(i, i + size):
        byte = byte_at(page, k)
        if 65 <= byte <= 90:
            byte |= 32
        key = add_byte(key, byte)
    return finished(key) == name


@fused
def skip_raw(page: Any, i: Any, end: Any, name: Any, size: Any) -> Any:
    """From inside an element without markup to the '<' of its end tag."""
    while True:
        i = find_less_than(page, i, end)
        if i >= end or (byte_at(page, i + 1) == 47 and is_named(page, i + 2, end, name, size)):
            return i
        i += 1


@fused
def skip_script(page: Any, i: Any, end: Any) -> Any:
    """The same for a script: one within a comment ('<!--', '<script') does not end it, '-->' ends the comment."""
    state = PLAIN
    while True:
        i = find_less_than(page, i, end) if state == PLAIN else find_tag_edge(page, i, end)
        if i >= end:
            return end
        if byte_at(page, i) == 62:
            if byte_at(page, i - 1) == 45 and byte_at(page, i - 2) == 45:
                state = PLAIN
            i += 1
        elif byte_at(page, i + 1) == 47 and is_named(page, i + 2, end, SCRIPT_HASH, SCRIPT_SIZE):
            if state != DOUBLE_ESCAPED:
                return i
            state = ESCAPED
            i += 2 + SCRIPT_SIZE
        elif state == PLAIN and byte_at(page, i + 1) == 33 and _dashes(page, i + 2, end):
            state = ESCAPED
            i += 2  # the dashes may be those of '-->'
        elif state == ESCAPED and is_named(page, i + 1, end, SCRIPT_HASH, SCRIPT_SIZE):
            state = DOUBLE_ESCAPED
            i += 1 + SCRIPT_SIZE
        else:
            i += 1


@fused
def _dashes(page: Any, i: Any, end: Any) -> Any:
    return i + 1 < end and byte_at(page, i) == 45 and byte_at(page, i + 1) == 45


@fused
def skip_comment(page: Any, i: Any, end: Any) -> Any:
    """From behind '<!--' to behind the comment: '-->', '--!>', or '>' and '->' at once."""
    begin = i
    while True:
        i = find_greater_than(page, i, end)
        if i >= end:
            return end
        if i == begin or (i == begin + 1 and byte_at(page, begin) == 45):
            return i + 1
        if i - begin >= 2 and _dashes(page, i - 2, end):
            return i + 1
        if i - begin >= 3 and byte_at(page, i - 1) == 33 and _dashes(page, i - 3, end):
            return i + 1
        i += 1


@fused
def skip_cdata(page: Any, i: Any, end: Any) -> Any:
    """From behind '<![CDATA[' to behind ']]>'."""
    begin = i
    while True:
        i = find_greater_than(page, i, end)
        if i >= end:
            return end
        if i - begin >= 2 and byte_at(page, i - 1) == 93 and byte_at(page, i - 2) == 93:
            return i + 1
        i += 1
