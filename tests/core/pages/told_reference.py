"""
What a page says of itself in states and a description, in plain Python: the kernel must equal it on
every input.

The rules are those of worker/core/pages/told.py.
"""

from __future__ import annotations

import re

from tests.core.pages.embedded_reference import TAG, decoded, text_of_value
from tests.core.pages.reference import End, Start, Tokenizer, reference
from worker.core.pages import names as n

# An apostrophe's string ends in its line. No string holds a zero.
STRING = re.compile(
    rb"([\"`])(?P<any>(?:(?!\1)[^\\\0]|\\[^\0])*)\1|'(?P<line>(?:[^'\\\0\n]|\\[^\0])*)'"
)
INNER_STRING = re.compile(rb'"(?P<any>(?:[^"\\\0]|\\[^\0])*)"(?P<line>)')
UNCLOSED = re.compile(rb"(?:[^\\\0]|\\[^\0])*\\?")
UNCLOSED_LINE = re.compile(rb"(?:[^\\\0\n]|\\[^\0])*\\?")
BEGINS_DATA = re.compile(rb'\{|\[["\\\[{]')
LETTER = re.compile("[a-zA-Z0-9\x80-\x9f\xa1-\U0010ffff]")


def state_of(script: bytes) -> bytes:
    """A script that is data: an object or an array, or half of it stands in strings."""
    script = script.lstrip(b" \t\n\f\r")
    inside = sum(len(string) for string, _ in strings_of(script, STRING))
    is_data = script.startswith((b"{", b"[")) or (script and inside * 2 >= len(script))
    return b'"":' + script + b"\0" if is_data else b""


def states_in(tag: Start) -> bytes:
    """The attributes of a tag that are data."""
    states = b""
    for name, value in tag.attributes:
        if len(value) < 80:
            continue
        text = text_of_value(value)
        if value.startswith((b"{", b"[")):
            states += b'"' + name.encode("latin-1") + b'": ' + text + b" \0"
        elif name.lower().startswith("data-") and is_prose(value):
            states += b'"' + name.encode("latin-1") + b'":`' + text + b"`\0"
    return states


def text_of_states(states: bytes) -> bytes:
    """The prose behind the key with most of it, in states and in the data in their strings."""
    inner = b""
    for string, _ in strings_of(states, STRING):
        if BEGINS_DATA.match(string):
            inner += b'\0"":' + decoded(string)
        elif b"{" in string or b"}" in string:
            inner += decoded(string)
    longest: list[bytes] = []
    found: dict[bytes | None, list[bytes]] = {}
    for strings in (strings_of(states, STRING), strings_of(inner, INNER_STRING)):
        key: bytes | None = None
        for string, is_key in strings:
            if is_key:
                key = string
            elif is_prose(string):
                found.setdefault(key, []).append(string)
                longest = max(longest, found[key], key=size_of)
    return b"".join(b"\n" + decoded(string) for string in longest)


def letters_of(state: bytes) -> bytes:
    """
    The letters and digits of a state, as a page would show its strings: what a string of JSON in
    it stands for, without tags and no-break spaces, and with the first character of references.
    """
    text = decoded(decoded(state))
    letters = b""
    at = 0
    while at < len(text):
        if markup := TAG.match(text, at):
            at = markup.end()
        elif text[at : at + 1] == b"&" and (found := reference(text, at))[1] > at + 1:
            first = found[0].decode()[:1]
            letters += first.encode() if LETTER.fullmatch(first) else b""
            at = found[1]
        elif text[at : at + 2] == b"\xc2\xa0":
            at += 2
        else:
            letters += text[at : at + 1] if LETTER.fullmatch(chr(text[at])) else b""
            at += 1
    return letters


def size_of(strings: list[bytes]) -> int:
    return sum(map(len, strings))


def strings_of(data: bytes, pattern: re.Pattern[bytes]) -> list[tuple[bytes, bool]]:
    """What stands between marks, up to a zero; and whether it is a key."""
    found = []
    at = 0
    while at < len(data):
        if string := pattern.match(data, at):
            is_key = re.compile(rb"[ \t\n\f\r]*:").match(data, string.end()) is not None
            found.append((string["any"] or string["line"] or b"", is_key))
            at = string.end()
        elif data[at : at + 1] in ((b'"', b"'", b"`") if pattern is STRING else (b'"',)):
            unclosed = UNCLOSED_LINE if data[at : at + 1] == b"'" else UNCLOSED
            rest = unclosed.match(data, at + 1)
            assert rest
            at = rest.end()
        else:
            at += 1
    return found


def is_prose(string: bytes) -> bool:
    """
    Whether a string is long, has a space for 16 bytes, or half of its bytes in characters of three
    bytes or in escapes; and is no data.
    """
    wide = 3 * sum(byte >= 0xE0 for byte in string) + 6 * string.count(rb"\u")
    many = string.count(b" ") * 16 >= len(string) or wide * 2 >= len(string)
    return (
        len(string) >= 80
        and many
        and not re.search(rb"[{}]", string)
        and not BEGINS_DATA.match(string)
    )


def told(page: bytes) -> tuple[bytes, bytes]:
    """The states, and the longest description, outside templates."""
    states = description = b""
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
        if not templates and token.name != "meta":
            states += states_in(token)
        content = tokenizer.raw(token.name) if n.TAGS.get(token.name, 0) & n.RAW else b""
        if token.name == "script" and not templates:
            states += state_of(content)
        if token.name == "meta" and not templates:
            value = description_of(token)
            description = value if len(value) > len(description) else description
    return states, description


def description_of(meta: Start) -> bytes:
    """The content of a <meta> that is named a description."""
    values = dict(reversed(meta.attributes))  # the first of each name counts
    name = values.get("name") or values.get("property", b"")
    return values.get("content", b"") if name.lower().endswith(b"description") else b""
