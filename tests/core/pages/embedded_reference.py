"""
What a page embeds, in plain Python: the kernel must equal it on every input.

The rules are those of worker/core/pages/embedded.py and data.py.
"""

from __future__ import annotations

import re

from tests.core.pages.reference import Reader, reference
from worker.core.pages import names

NAMED = re.compile(rb'"articleBody"[ \t\n\f\r]*:[ \t\n\f\r]*"')
STRING = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)
COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
TAG = re.compile(rb"</?([a-zA-Z][^\t\n\f\r /<>]*)[^<>]*>")


def embedded_pages(reader: Reader) -> list[bytes]:
    """A page for each kind; empty where there is none."""
    contents = [
        text_of_data(reader.embedded["data"]),
        reader.embedded["noscript"],
        text_of_value(reader.embedded["frame"]),
    ]
    return [b"<article>" + content + b"</article>" if content else b"" for content in contents]


def text_of_data(data: bytes) -> bytes:
    """The strings of JSON that are named articleBody, as HTML."""
    text = b""
    at = 0
    while named := NAMED.search(data, at):
        string = STRING.match(data, named.end())
        if string is None:  # it never ends, nor does what stands behind it
            break
        text += b"\n" + decoded(string[1])
        at = string.end()
    return text_as_html(text)


def decoded(string: bytes) -> bytes:
    """The text that a string of JSON stands for."""
    units = re.split(rb"(\\u[0-9a-fA-F]{4}|\\u|\\[^\x80-\xff]|\\)", string)
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
            out += ("\ufffd" if 0xD800 <= code < 0xE000 else chr(code)).encode()
        elif unit in (rb"\n", rb"\r"):
            out += b"\n"
        elif unit in (rb"\b", rb"\f", rb"\t"):
            out += b" "
        else:
            out += unit[1:] if unit[:1] == b"\\" else unit
    return out + ("\ufffd".encode() if high else b"")


def text_as_html(text: bytes) -> bytes:
    """Tags and comments go, as far as they end; any other "<" is a character."""
    out = b""
    at = 0
    while at < len(text):
        if text[at : at + 1] == b"\n":
            out += b"<p>"
        elif text[at : at + 1] != b"<":
            out += text[at : at + 1]
        elif markup := COMMENT.match(text, at) or TAG.match(text, at):
            if markup[0][:4] != b"<!--":
                element = names.TAGS.get(markup[1].lower().decode("utf-8", "replace"), 0)
                divides = element & names.BLOCK or element & names.TAG == names.BR
                out += b"<p>" if divides else b""
            at = markup.end()
            continue
        else:
            out += b"&lt;"
        at += 1
    return out


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
