"""
What a page embeds, in plain Python: the kernel must equal it on every input.

The rules are those of worker/core/pages/embedded.py.
"""

from __future__ import annotations

import re

from tests.core.pages.reference import Reader, reference

NAMED = re.compile(rb'"articleBody"[ \t\n\f\r]*:[ \t\n\f\r]*"')
STRING = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)


def embedded_pages(reader: Reader) -> list[bytes]:
    """A page for each kind, under the title of the page that embeds it; empty where there is none."""
    title = reader.title.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
    contents = [
        text_of_data(reader.embedded["data"]),
        reader.embedded["noscript"],
        text_of_value(reader.embedded["frame"]),
    ]
    return [
        b"<title>" + title + b"</title><article>" + content + b"</article>" if content else b""
        for content in contents
    ]


def text_of_data(data: bytes) -> bytes:
    """The longest string of JSON that is named articleBody, as HTML."""
    strings = [b""]
    at = 0
    while named := NAMED.search(data, at):
        string = STRING.match(data, named.end())
        if string is None:  # it never ends, nor does what stands behind it
            break
        strings.append(string[1])
        at = string.end()
    body = max(strings, key=len)
    units = re.split(rb"(\\u[0-9a-fA-F]{4}|\\u|\\[^\x80-\xff]|\\)", body)
    out = b""
    high = 0
    for unit in units:
        code = int(unit[2:], 16) if re.fullmatch(rb"\\u[0-9a-fA-F]{4}", unit) else 0
        if high and 0xDC00 <= code < 0xE000:
            out += chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00).encode()
            high = 0
            continue
        if unit and high:
            out += "\ufffd".encode()
            high = 0
        if 0xD800 <= code < 0xDC00:
            high = code
        elif len(unit) == 6 and unit[:2] == rb"\u":
            is_half = 0xD800 <= code < 0xE000
            out += b"<p>" if code == 10 else ("\ufffd" if is_half else chr(code)).encode()
        elif unit in (rb"\n", rb"\r"):
            out += b"<p>"
        elif unit in (rb"\b", rb"\f", rb"\t"):
            out += b" "
        else:
            out += unit[1:] if unit[:1] == b"\\" else unit
    return out + ("\ufffd".encode() if high else b"")


def text_of_value(value: bytes) -> bytes:
    """The value of an attribute, its references decoded."""
    out = b""
    at = 0
    while at < len(value):
        if value[at : at + 1] == b"&":
            piece, at = reference(value, at)
            out += piece
        else:
            out += value[at : at + 1]
            at += 1
    return out
