"""
Looks at bodies of bytes, many at once, for what says how they are to be decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.charset import META_BYTES
from worker.core.compiled import fused, kernel
from worker.core.kernels.machine import BYTE_LANES, byte_at, find_escape, trailing_zeros, where_ch
from worker.core.pages.batch import is_ascii, valid_utf8

# What is seen of a body, as bits.
IS_UTF8 = 1  # well-formed, of which ASCII is a part
IS_ASCII = 2
HAS_ESCAPE = 4  # ESC, with which ISO 2022 begins; looked for in ASCII only, which that is
SAYS_CHARSET = 8  # in the bytes where a meta element may name it, in letters of either case
CHARSET = np.frombuffer(b"charset", np.uint8)
BEGIN = 0
END = 1


@fused
def _says_charset(page: Any, i: Any, end: Any) -> Any:
    """Whether `page[i:end]` has the word in it: `b"charset" in page[i:end].lower()`."""
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
    Fill `seen` with what is seen of the bodies in these rows of `spans`.

    In plain Python, of a body `raw`:

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
