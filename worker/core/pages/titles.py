"""
The hash of a page's title, by which two pages of one host are told apart.

A title is the text of the first `<title>` that has text, wherever it stands, as a browser's tab
shows it: character references are decoded ("&amp;" is "&"), each run of white space is one space,
and there is none at the ends. The `<title>` of a drawing (`<svg>`) or of a `<template>` does not
count. At most TITLE_MAX bytes of the source are read. The hash takes ASCII letters in lower case,
since sites write one title in both cases.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names

HASH_MASK = (1 << 16) - 1
NO_TITLE = 0
_WHITE = re.compile("[\0-\x20\xa0]+")  # what the scanner takes for white space
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def title_hash(title: str) -> int:
    """
    Return the hash of a title: 1 to 65,535, and 0 of one without text.

    Two different titles share a hash once in 65,536 pairs: only a different hash proves anything.

    >>> title_hash(" The  Ferry ") == title_hash("the ferry") > 0
    True
    >>> title_hash(" ")
    0
    """
    shown = _WHITE.sub(" ", title).strip(" ")
    if not shown:
        return NO_TITLE
    return max(names.name_hash(shown.translate(_LOWER)) & HASH_MASK, 1)


@fused
def hash_title(title: Any, size: Any) -> Any:
    """Return `title_hash` of a title as the scanner writes it: `size` bytes of UTF-8."""
    if size == 0:
        return np.int64(NO_TITLE)
    key = names.SEED
    for k in range(size):
        byte = byte_at(title, k)
        key = names.add_byte(key, byte | 32 if 65 <= byte <= 90 else byte)
    return max(np.int64(names.finished(key) & np.uint64(HASH_MASK)), np.int64(1))
