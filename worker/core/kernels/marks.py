"""The marks of many pages (`core/marks.py`), from the columns of their rows."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function each

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused, kernel
from worker.core.marks import (
    FEATURES_MIN,
    HASH_MASK,
    LONG,
    NO_MARK,
    TITLE_SHIFT,
    URL_SHIFT,
)
from worker.core.pages.names import SEED, add_byte, finished

U = np.uint64
COLON = 0x3A
SLASH = 0x2F
BACKSLASH = 0x5C
QUESTION_MARK = 0x3F
NUMBER_SIGN = 0x23
AT = 0x40
PLUS = 0x2B
HYPHEN = 0x2D
POINT = 0x2E


@fused
def _is_of_scheme(byte: Any) -> Any:
    is_letter = 0x61 <= byte | 0x20 <= 0x7A
    return is_letter or 0x30 <= byte <= 0x39 or byte == PLUS or byte == HYPHEN or byte == POINT


@fused
def _host_begin(urls: Any, begin: Any, end: Any) -> Any:
    """Where the text behind "://" begins; `end` if the URL does not begin with a scheme."""
    at = begin
    while at < end and _is_of_scheme(urls[at]):
        at += 1
    if at == begin or at + 3 > end:
        return end
    if urls[at] == COLON and urls[at + 1] == SLASH and urls[at + 2] == SLASH:
        return at + 3
    return end


@fused
def _folded(key: Any) -> Any:
    return max(finished(key) & U(HASH_MASK), U(1))


@fused
def _mark_of(urls: Any, begin: Any, end: Any, title: Any, features: Any) -> Any:
    at = _host_begin(urls, begin, end)
    host = U(SEED)
    place = U(SEED)
    host_bytes = 0
    is_in_host = True
    while at < end and urls[at] != NUMBER_SIGN:
        byte = urls[at]
        place = add_byte(place, byte)
        if byte == SLASH or byte == QUESTION_MARK or byte == BACKSLASH:
            is_in_host = False
        if is_in_host:
            host = add_byte(host, byte | 0x20 if 0x41 <= byte <= 0x5A else byte)
            host_bytes += 1
            if byte == AT:  # a user's name stood before it
                host = U(SEED)
                host_bytes = 0
        at += 1
    if host_bytes == 0:
        return U(NO_MARK)
    return (
        _folded(host)
        | _folded(place) << U(URL_SHIFT)
        | U(title) << U(TITLE_SHIFT)
        | (U(LONG) if features >= FEATURES_MIN else U(0))
    )


@kernel
def mark_rows(urls: Any, ends: Any, titles: Any, features: Any, marks: Any) -> Any:
    """Write the mark of each row; the URLs lie back to back, and `ends` within them."""
    begin = np.int64(0)
    for i in range(len(ends)):
        if titles[i] != 0:
            marks[i] = _mark_of(urls, begin, ends[i], titles[i], features[i])
        else:
            marks[i] = U(NO_MARK)
        begin = ends[i]


def page_marks(
    urls: NDArray[np.uint8],
    ends: NDArray[np.int64],
    titles: NDArray[np.uint32],
    features: NDArray[np.uint32],
) -> NDArray[np.uint64]:
    """
    Return `marks.page_mark` of each row.

    Args:
        urls, ends: the URLs as UTF-8, back to back, and where each ends, as `Texts` has them.
        titles: the words of their titles; 0 where there is none.
        features: of their fingerprints.
    Raises:
        ValueError: the columns are of different lengths.

    Cost: a nanosecond or two per byte of the URLs of pages with a title.
    """
    if not len(ends) == len(titles) == len(features):
        raise ValueError(
            "each row has a URL, a title and features, "
            f"got {len(ends)}, {len(titles)} and {len(features)}"
        )
    marks = np.empty(len(ends), np.uint64)
    data = urls.view()
    # The kernel is compiled for read-only data only, because some texts are read-only.
    data.flags.writeable = False
    mark_rows(data, ends, titles, features, marks)
    return marks
