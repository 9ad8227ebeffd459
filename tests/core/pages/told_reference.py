"""
What a page says of itself in a state and a description, in plain Python: the kernel must equal it
on every input.

The rules are those of worker/core/pages/told.py.
"""

from __future__ import annotations

import re

from tests.core.pages.embedded_reference import STRING, decoded
from tests.core.pages.reference import End, Start, Tokenizer
from worker.core.pages import names as n

SPACE = rb"[ \t\n\f\r]*"
NAMED = rb"[a-zA-Z0-9._$ \t\n\f\r]*="
STATE = re.compile(SPACE + rb"[{\[]|" + NAMED + SPACE + rb"[{\[(J]")


def is_state(script: bytes) -> bool:
    """Whether a script is data: an object or an array, perhaps behind the name it is given to."""
    return STATE.match(script) is not None


def text_of_state(script: bytes) -> bytes:
    """The prose behind the key with most of it; or that of the data in its strings."""
    data = [decoded(s) for s, _ in strings_of(script) if s.startswith((b"{", b"["))]
    return prose_of(script) or prose_of(b"".join(data))


def prose_of(data: bytes) -> bytes:
    """The strings that are prose behind the key with most of it, each behind a line break."""
    key: bytes | None = None
    longest: list[bytes] = []
    found: dict[bytes | None, list[bytes]] = {}
    for string, is_key in strings_of(data):
        if is_key:
            key = string
        elif len(string) >= 80 and is_prose(string):
            found.setdefault(key, []).append(string)
            longest = max(longest, found[key], key=size_of)
    return b"".join(b"\n" + decoded(string) for string in longest)


def size_of(strings: list[bytes]) -> int:
    """The bytes of strings, each with a quotation mark."""
    return sum(len(string) + 1 for string in strings)


def strings_of(data: bytes) -> list[tuple[bytes, bool]]:
    """What stands between quotation marks, up to one that never ends; and whether it is a key."""
    found = []
    at = data.find(b'"')
    while at >= 0 and (string := STRING.match(data, at + 1)):
        is_key = re.compile(rb"[ \t\n\f\r]*:").match(data, string.end()) is not None
        found.append((string[1], is_key))
        at = data.find(b'"', string.end())
    return found


def is_prose(string: bytes) -> bool:
    """
    Whether a string has a space for 16 bytes, or half of its bytes in characters of three bytes or
    in escapes; and no brace.
    """
    wide = 3 * sum(byte >= 0xE0 for byte in string) + 6 * string.count(rb"\u")
    many = string.count(b" ") * 16 >= len(string) or wide * 2 >= len(string)
    return many and b"{" not in string


def told(page: bytes) -> tuple[bytes, bytes]:
    """The longest state, and the longest description, outside templates."""
    state = description = b""
    templates = 0
    tokenizer = Tokenizer(page)
    while (token := tokenizer.token()) is not None:
        if isinstance(token, End) and token.name == "template":
            templates = max(templates - 1, 0)
        if not isinstance(token, Start):
            continue
        templates += token.name == "template"
        if token.name == "plaintext":
            break
        content = tokenizer.raw(token.name) if n.TAGS.get(token.name, 0) & n.RAW else b""
        if templates:
            continue
        is_script = token.name == "script" and b"ld+json" not in token.raw.lower()
        if is_script and is_state(content) and len(content) > len(state):
            state = content
        if token.name == "meta":
            value = description_of(token)
            description = value if len(value) > len(description) else description
    return state, description


def description_of(meta: Start) -> bytes:
    """The content of a <meta> that is named a description."""
    values = dict(reversed(meta.attributes))  # the first of each name counts
    name = values.get("name") or values.get("property", b"")
    return values.get("content", b"") if name.lower().endswith(b"description") else b""
