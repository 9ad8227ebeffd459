"""
Looks at many bodies of bytes at once, and notes which signs of their charset they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.charset import META_BYTES
from worker.core.compiled import fused, kernel
from worker.core.kernels.machine import BYTE_LANES, byte_at, find_escape, trailing_zeros, where_ch
from worker.core.pages.plain import is_ascii, valid_utf8

# The signs, as bits.
IS_UTF8 = 1  # well-formed; ASCII is, too
IS_ASCII = 2
HAS_ESCAPE = 4  # only for ASCII: ESC, with which each shift of ISO 2022 begins
SAYS_CHARSET = 8  # the word, in either case, among the bytes where a meta element may name one
CHARSET = np.frombuffer(b"charset", np.uint8)
BEGIN = 0
END = 1


@fused
def _says_charset(page: Any, i: Any, end: Any) -> Any:
    """Return whether the word is in it: `b"charset" in page[i:end].lower()`."""
    end -= CHARSET.size - 1
    while i < end:
        found = where_ch(page, i)
        while found:
            at = i + np.int64(trailing_zeros(found))
            k = np.int64(2)
            while k < CHARSET.size and byte_at(page, at + k) | 0x20 == CHARSET[k]:
                k += 1
            if k == CHARSET.size and at < end:
                return True
            found &= found - np.uint64(1)
        i += BYTE_LANES
    return False


@kernel
def look_at_bodies(data: Any, spans: Any, rows: Any, seen: Any) -> Any:
    """
    Fill `seen` with the signs of the bodies in these rows of `spans`.

    In plain Python, for a body `raw`:

        IS_UTF8       raw.decode() raises no error
        IS_ASCII      raw.isascii()
        HAS_ESCAPE    raw.isascii() and b"\\x1b" in raw
        SAYS_CHARSET  b"charset" in raw[:META_BYTES].lower()
    """
    page = np.int64(data.ctypes.data)
    for n in range(rows.size):
        begin = spans[rows[n], BEGIN]
        end = spans[rows[n], END]
        bits = np.int64(0)
        if is_ascii(page, begin, end):
            bits = np.int64(IS_UTF8 | IS_ASCII)
            if find_escape(page, begin, end) < end:
                bits |= HAS_ESCAPE
        elif valid_utf8(page, begin, end):
            bits = np.int64(IS_UTF8)
        if _says_charset(page, begin, min(end, begin + META_BYTES)):
            bits |= SAYS_CHARSET
        seen[n] = bits
