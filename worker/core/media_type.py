"""
A Content-Type header -> the type that browsers take from it.

Servers send two types in one header, a stray comma, no semicolon, quotes. Browsers split at commas,
skip what is no type, and take the last one that is (Fetch, "extract a MIME type"; MIME Sniffing,
"parse a MIME type"). If nothing is left, the header says nothing, and the body is sniffed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_SPACE = " \t\r\n"
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_PARTS = re.compile(r"""(?:"(?:[^"\\]|\\.?)*(?:"|\Z)|[^",])+""", re.DOTALL)
_PARAMETER = re.compile(
    r""";[ \t\r\n]*(?P<name>[^;=]*)
    (?: = (?: "(?P<quoted>(?:[^"\\]|\\.?)*)(?:"|\Z)[^;]* | (?P<bare>[^;]*) ) )?""",
    re.DOTALL | re.VERBOSE,
)
_LOOSE_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s;"',]+)""", re.IGNORECASE)
TYPES_MAX = 16  # of one header: servers send one or two
CHARACTERS_MAX = 4_096  # of one header


class MediaType(NamedTuple):
    """
    What a header says.

    `essence` is "type/subtype" in lower case, or "" if the header says nothing. `charset` is the
    name as it was sent, or None.
    """

    essence: str
    charset: str | None


@lru_cache(maxsize=1_024)
def media_type_of(content_type: str | None) -> MediaType:
    """
    Return the type and the charset that a Content-Type header declares.

    The charset of a header that browsers cannot read ("text/html charset=latin1") counts too: that
    is more than nothing when a page does not name its own.

    Args:
        content_type: the header's value. The values of a repeated header are joined by ", ".

    Cost: O(header), at most CHARACTERS_MAX of it; next to nothing for a header that was met before.

    >>> media_type_of("Text/HTML; Charset=utf-8")
    MediaType(essence='text/html', charset='utf-8')
    >>> media_type_of("text/html, text/html; charset=utf-8").essence
    'text/html'
    >>> media_type_of("html"), media_type_of("text/plain, text/html,").essence
    (MediaType(essence='', charset=None), 'text/html')
    """
    header = (content_type or "")[:CHARACTERS_MAX]
    essence = ""
    charset: str | None = None
    for part in _PARTS.findall(header)[:TYPES_MAX]:
        parsed = _parsed(part)
        if parsed is None or parsed.essence == "*/*":
            continue
        if parsed.essence != essence or parsed.charset is not None:
            charset = parsed.charset
        essence = parsed.essence
    if charset is None:
        loose = _LOOSE_CHARSET.search(header)
        charset = loose[1] if loose else None
    return MediaType(essence, charset)


def _parsed(value: str) -> MediaType | None:
    """Return one type with its charset; None if it is no type."""
    essence, semicolon, rest = value.partition(";")
    main, slash, subtype = essence.strip(_SPACE).partition("/")
    if not slash or not _TOKEN.fullmatch(main) or not _TOKEN.fullmatch(subtype):
        return None
    for parameter in _PARAMETER.finditer(semicolon + rest):
        if parameter["name"].strip(_SPACE).lower() == "charset":
            quoted = parameter["quoted"]
            charset = (parameter["bare"] or "").strip(_SPACE) if quoted is None else quoted
            return MediaType(f"{main}/{subtype}".lower(), charset or None)
    return MediaType(f"{main}/{subtype}".lower(), None)
