"""
What a page says of itself in states, markup and a description, in plain Python: the kernel must equal it on
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
ESCAPED = {b"q": b'"', b"a": b"&", b"s": b"'", b"l": b"<", b"g": b">"}
LETTER = re.compile("[a-zA-Z0-9\x80-\x9f\xa1-\U0010ffff]")


def state_of(tag: Start, script: bytes) -> bytes:
    """
    A script that is data: an object or an array, or half of it stands in strings, or code of less
    than 80 bytes; or a block of data that is text.
    """
    kind = dict(reversed(tag.attributes)).get("type", b"").lower()
    is_code = not kind or b"script" in kind or b"module" in kind
    script = script.lstrip(b" \t\n\f\r")
    inside = sum(len(string) for string, _ in strings_of(script, STRING))
    is_short = is_code and len(script) < 80
    is_data = script.startswith((b"{", b"[")) or is_short or inside * 2 >= len(script)
    if not is_data or not script:
        return b"" if is_code or script.startswith(b"<") else state_of_text(script)
    if script[1:4] == b"&q;":
        script = re.sub(rb"&([qaslg]);", lambda found: ESCAPED[found[1]], script)
    return b'"":' + script + b"\0"


def state_of_text(text: bytes) -> bytes:
    """A text as strings, divided at two line breaks."""
    return b'"":`' + re.sub(rb"[\\`\0]", b" ", text).replace(b"\n\n", b"``") + b"`\0"


def is_markup(text: bytes) -> bool:
    """Whether a text begins with a tag and has no places to fill in."""
    begins = re.match(rb"[ \t\n\f\r]*<[a-zA-Z]", text)
    return begins is not None and not re.search(rb"\{\{|<%", text)


def states_in(tag: Start) -> bytes:
    """The attributes of a tag that are data; of custom elements and items, all prose is."""
    states = b""
    takes_all = tag.name not in n.TAGS and "-" in tag.name
    if tag.name == "meta":
        takes_all = bool(dict(reversed(tag.attributes)).get("itemprop"))
    for name, value in tag.attributes:
        if len(value) < 80:
            continue
        text = text_of_value(value)
        if value.startswith((b"{", b"[")):
            states += b'"' + name.encode("latin-1") + b'": ' + text + b" \0"
        elif (takes_all or name.lower().startswith("data-")) and is_prose(value):
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


def told(page: bytes) -> tuple[bytes, bytes, bytes]:
    """The states, the longest description and markup, outside templates or whole ones."""
    states = b""
    descriptions, markup = [b""], [b""]
    templates = begin = at = 0
    tokenizer = Tokenizer(page)
    while (token := tokenizer.token()) is not None:
        start, at = at, tokenizer.at
        is_template = isinstance(token, (Start, End)) and token.name == "template"
        if is_template and isinstance(token, End) and templates:
            templates -= 1
            markup += [page[begin:start]] if not templates else []
        elif page.startswith(b"<!--", start) and not templates:
            markup.append(page[start + 4 : at])
        if not isinstance(token, Start):
            continue
        begin = at if is_template and not templates else begin
        templates += is_template
        if token.name == "plaintext":
            break
        states += states_in(token) if not templates else b""
        content = tokenizer.raw(token.name) if n.TAGS.get(token.name, 0) & n.RAW else b""
        at = tokenizer.at
        if templates:
            continue
        if token.name == "script":
            markup.append(content)
            states += state_of(token, content)
        elif token.name == "textarea":
            states += state_of_text(content)
        elif token.name == "meta":
            descriptions.append(description_of(token))
    markup = [b"", *filter(is_markup, markup)]
    return states, max(descriptions, key=len), max(markup, key=len)


def description_of(meta: Start) -> bytes:
    """The content of a <meta> that is named a description."""
    values = dict(reversed(meta.attributes))  # the first of each name counts
    name = values.get("name") or values.get("property", b"")
    return values.get("content", b"") if name.lower().endswith(b"description") else b""
