"""
Bytes of a page -> text, by the first charset that is known of those claimed, or by detection.

The order is the web's own: byte order mark, message, content type, meta element, detection. UTF-16
without a mark shows itself by its zeros, and is taken for what it is whatever is claimed.

Only a charset that the *message* names must be known: the sender vouches for it. What pages and
servers claim about themselves is wrong often enough that an unknown name there means detection.
Invalid bytes become U+FFFD.

The meta element is looked for as WHATWG's prescan does it. Without any claim, what is valid UTF-8
is UTF-8.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from itertools import chain, islice

import numpy as np

from worker.core.media_type import media_type_of
from worker.errors import DocumentError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with the one of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Text codecs of Python that the WHATWG list lacks and crawls still meet.
_MORE_CODECS = {
    "hz-gb-2312": "hz",
    "x-mac-cyrillic": "mac-cyrillic",
    "utf-32": "utf-32-le",
    "cesu-8": "utf-8",
}
# What the web means by these names is the wider set that Windows gave them.
_WIDER_CODECS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
}
_WIDE_CODECS = {"utf-16-le": "<u2", "utf-16-be": ">u2", "utf-32-le": "<u4", "utf-32-be": ">u4"}
_REPLACEMENT = "\ufffd"


# The prescan passes tags, comments and attributes within one match, where a byte costs a few
# nanoseconds. Python takes a step for each meta element, and for the attributes of those that speak
# of a charset. Pages have few of them, so neardup reads only the first of a page that has
# thousands.
START_BYTES = 512  # in which a body shows whether it is text, and whether it is UTF-16
CONTROLS_SHARE_MAX = 0.05  # of the bytes or characters of a text; of compressed bytes, a tenth are
_CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\v\f\r\x1b")
_UTF_16_MARKUP = re.compile(rb"(?:[\t\n\r ]\0)*<\0[!?a-zA-Z]\0|(?:\0[\t\n\r ])*\0<\0[!?a-zA-Z]")
_CONTROLS_FREE = 8  # in a short text, one is a large share
_PAIRS_MIN = 4  # of bytes, for UTF-16: an ASCII text with one zero is none
META_BYTES = 16_384  # in which a meta element may name the charset
XML_START = b"<?xml"
_METAS_MAX = 256
_CLAIMS_MAX = 16  # meta elements that speak of a charset
_ATTRIBUTES_MAX = 16  # of one of these
_TO_META = re.compile(
    rb"""(?: [^<]+
    | <!(?=--).*?(?:-->|\Z)
    | (?!<meta[\t\n\f\r />]) (?: </?[a-z](?:[^>"']+|"[^"]*"|'[^']*')*+ | <[!/?][^>]* | < )
    )*+
    <meta(?=[\t\n\f\r />])
    (?P<attributes>(?: [\t\n\f\r /]* [^\t\n\f\r />][^\t\n\f\r />=]*
        (?: [\t\n\f\r ]*=[\t\n\f\r ]*(?:"[^"]*"|'[^']*'|[^\t\n\f\r >"'][^\t\n\f\r >]*) )?
    )*+)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:
        "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<bare>[^\t\n\f\r >"'][^\t\n\f\r >]*)))?""",
    re.VERBOSE,
)
_CONTENT = re.compile(
    rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:
        "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<bare>[^\t\n\f\r ;"'][^\t\n\f\r ;]*))""",
    re.IGNORECASE | re.VERBOSE,
)
_XML = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([^"'>]+)["']""")
# bytes that distinguish charsets; ISO 2022 begins with ESC
_FOREIGN = re.compile(rb"[\x80-\xff\x1b][^<\n]{0,4095}")
# Random bytes cost the detector 0.8 us each, text 0.1 us. It sees fewer bytes of a small page.
# Measured on 672 texts in 15 charsets, cut to 1, 2 and 4 KiB: with 640 bytes it names the right
# charset of 634, 659 and 662 of them, with 4,096 bytes of 634, 651 and 654. Longer pages need more
# bytes: of whole texts it names 656 with 640 bytes, and 666 with 4,096.
_SAMPLE_BYTES = 4_096
_SMALL_SAMPLE_BYTES = 640
_SMALL_PAGE_BYTES = 4_096
_CHARACTERS_PER_ERROR_MIN = 4


@lru_cache(maxsize=1_024)
def find_codec(label: str) -> str | None:
    """
    Return the Python codec for a charset's name as browsers read it (WHATWG); None: unknown.

    >>> find_codec("latin1"), find_codec("Shift_JIS"), find_codec("no such name")
    ('cp1252', 'cp932', None)
    """
    # A library load for bytes only.
    from resiliparse.parse.encoding import map_encoding_to_html5  # noqa: PLC0415

    name = label.strip().strip("\"'").lower()
    codec = map_encoding_to_html5(name, fallback_utf8=False) or _MORE_CODECS.get(name)
    return None if codec is None else _known_codec(codec)


def codec_of(
    body: bytes, charset: str | None, content_type: str | None, *, is_html: bool
) -> tuple[str, int]:
    """
    Return Python's name of the codec for a page's bytes, and the length of its byte order mark.

    What the bytes themselves show (`shown_codec`) wins over every claim.

    Args:
        charset: as the message names it.
        content_type: the Content-Type header; its charset counts when it is known.
        is_html: whether a meta element may name the charset.
    Raises:
        DocumentError: "unknown-charset", the message names a charset that no codec reads.

    Cost: some 5 µs where the message, the server or the page names it; else O(body), detection 3 ms
    at most.

    >>> codec_of("grüß dich".encode("latin1"), "latin1", None, is_html=False)
    ('cp1252', 0)
    """
    claimed = claimed_codec(charset, content_type)
    marked, mark_bytes = shown_codec(body[:START_BYTES])
    if marked:
        return marked, mark_bytes
    named = claimed or (named_codec(body[:META_BYTES]) if is_html else None)
    return named or _detected_codec(body), 0


def claimed_codec(charset: str | None, content_type: str | None) -> str | None:
    """
    Return the codec that the message names, or else the server; None if neither names a known one.

    Raises:
        DocumentError: "unknown-charset", the message names a charset that no codec reads.
    """
    if charset:
        codec = find_codec(charset)
        if codec is None:
            raise DocumentError(
                "unknown-charset", f"charset {charset!r} is unknown: name a WHATWG encoding or none"
            )
        return codec
    claimed = media_type_of(content_type).charset
    return find_codec(claimed) if claimed else None


def shown_codec(start: bytes) -> tuple[str, int]:
    r"""
    Return the codec that the first `START_BYTES` of a body show, and the length of its byte order
    mark; "" and 0 if they show none.

    >>> shown_codec(b"\xef\xbb\xbfabc"), shown_codec("<html> <p>".encode("utf-16-le"))
    (('utf-8', 3), ('utf-16-le', 0))
    """
    for mark, codec in _BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return codec, len(mark)
    return (_unmarked_utf_16(start[:START_BYTES]), 0) if b"\0" in start else ("", 0)


def _unmarked_utf_16(start: bytes) -> str:
    """
    Return the codec of UTF-16 without a byte order mark, or "".

    Either it begins like markup, or half of its characters are ASCII: then every other byte is
    zero, on one side, and the others are no controls.
    """
    if _UTF_16_MARKUP.match(start):
        return "utf-16-be" if start.startswith(b"\0") else "utf-16-le"
    pairs = len(start) // 2
    halves = start[: 2 * pairs : 2], start[1 : 2 * pairs : 2]
    for codec, text, zeros in (
        ("utf-16-le", halves[0], halves[1]),
        ("utf-16-be", halves[1], halves[0]),
    ):
        is_zero = pairs >= _PAIRS_MIN and 2 * zeros.count(0) >= pairs
        if is_zero and 16 * text.count(0) <= pairs and not has_many_controls(text):
            return codec
    return ""


def has_controls(data: bytes) -> bool:
    """Return whether any of these bytes is a control character that no text has."""
    return len(data.translate(None, _CONTROLS)) < len(data)


def has_many_controls(data: bytes) -> bool:
    """Return whether so many of these bytes are control characters that they are no text."""
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return controls > _CONTROLS_FREE + CONTROLS_SHARE_MAX * len(data)


@lru_cache(maxsize=1_024)
def keeps_ascii(codec: str) -> bool:
    """
    Return whether a text of bytes below 0x80 alone, in this codec, is that text in ASCII.

    >>> keeps_ascii("cp1252"), keeps_ascii("gb18030"), keeps_ascii("hz"), keeps_ascii("utf-16-le")
    (True, True, False, False)
    >>> keeps_ascii("iso2022_jp")
    False
    """
    # The tilde shifts HZ to another state, whatever comes next. ISO 2022 needs a whole sequence:
    # Python passes on an ESC that begins none.
    probe = bytes(range(0x80)) + b"\x1b$B0l\x1b(B"
    return decoded(probe, codec) == probe.decode("ascii")


def decoded(body: bytes, codec: str) -> str:
    """
    Return the text in bytes; bytes that the codec does not know become U+FFFD.

    Cost: O(body), for any bytes.
    """
    table = _table(codec)
    if table is not None:
        return codecs.charmap_decode(body, "strict", table)[0]
    if codec in _WIDE_CODECS:
        return _decoded_wide(body, codec)
    return body.decode(codec, "replace")


def _decoded_wide(body: bytes, codec: str) -> str:
    """
    Return what `body.decode(codec, "replace")` does.

    That calls Python's error handler for each bad unit: 0.06 s for a MiB of lone surrogates. Here
    they become U+FFFD beforehand, all at once.
    """
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        pass
    unit = np.dtype(_WIDE_CODECS[codec])
    whole_bytes = len(body) - len(body) % unit.itemsize
    units = np.frombuffer(body[:whole_bytes], unit).copy()
    is_surrogate = units >> 11 == 0xD800 >> 11
    if unit.itemsize == 2:
        is_first = units >> 10 == 0xD800 >> 10
        begins_pair = is_first[:-1] & (units[1:] >> 10 == 0xDC00 >> 10)
        is_surrogate[:-1] &= ~begins_pair
        is_surrogate[1:] &= ~begins_pair
    units[is_surrogate | (units > sys.maxunicode)] = ord(_REPLACEMENT)
    text = units.tobytes().decode(codec)
    is_cut = len(body) > whole_bytes
    # Half a unit behind the first half of a pair is one error together with it.
    is_cut_pair = is_cut and unit.itemsize == 2 and len(units) > 0 and bool(is_first[-1])
    return text + _REPLACEMENT if is_cut and not is_cut_pair else text


@lru_cache
def _table(codec: str) -> str | None:
    """Return the character of each byte in a codec of single bytes; None for any other codec."""
    table: str | None = getattr(
        import_module(f"encodings.{codec.replace('-', '_')}"), "decoding_table", None
    )
    return table and table.replace("\ufffe", "\ufffd")


def well_formed(text: str) -> str:
    """
    Return text without lone surrogates: pairs become their character, single ones U+FFFD.

    JSON can carry them ("\\ud800"), UTF-8 cannot, and neither can anything behind this point.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return _decoded_wide(text.encode("utf-16-le", "surrogatepass"), "utf-16-le")
    return text


def named_codec(head: bytes) -> str | None:
    """
    Return the codec that the page's own meta element or XML declaration names, or None.

    Args:
        head: the page's first `META_BYTES`.
    """
    if b"charset" not in head.lower() and not head.startswith(XML_START):
        return None
    declared = _XML.match(head)
    for label in chain([declared.group(1)] if declared else [], _meta_labels(head)):
        codec = find_codec(label.decode("latin-1"))
        if codec is not None:  # a page whose meta element could be read is not in UTF-16
            return "utf-8" if codec.startswith(("utf-16", "utf-32")) else codec
    return None


def _meta_labels(head: bytes) -> Iterator[bytes]:
    """Yield the charsets that meta elements name."""
    claims = (element for element in _meta_elements(head) if b"charset" in element.lower())
    for element in islice(claims, _CLAIMS_MAX):
        attributes: dict[bytes, bytes] = {}
        for attribute in islice(_ATTRIBUTE.finditer(element), _ATTRIBUTES_MAX):
            value = attribute["double"] or attribute["single"] or attribute["bare"] or b""
            attributes.setdefault(attribute["name"].lower(), value)
        if b"charset" in attributes:
            yield attributes[b"charset"]
        elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
            content = _CONTENT.search(attributes.get(b"content", b""))
            if content is not None:
                yield content["double"] or content["single"] or content["bare"] or b""


def _meta_elements(head: bytes) -> Iterator[bytes]:
    """Yield the attributes of each meta element, as they are written."""
    position = 0
    for _ in range(_METAS_MAX):
        element = _TO_META.match(head, position)
        if element is None:
            return
        yield element["attributes"]
        position = element.end()


def _detected_codec(body: bytes) -> str:
    """Return the codec that the bytes look like; valid UTF-8 is UTF-8, and looked at no further."""
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415

    is_iso_2022 = b"\x1b" in body and body.isascii()  # which is valid UTF-8 as well
    if not is_iso_2022 and is_utf_8(body):
        return "utf-8"
    # Most of a page is markup in ASCII, its beginning and end above all.
    # A run is cut where the sample ends, and nowhere else: half a character is none of its charset.
    is_small = len(body) <= _SMALL_PAGE_BYTES
    sample_bytes = _SMALL_SAMPLE_BYTES if is_small else _SAMPLE_BYTES
    runs = (run[0] for run in islice(_FOREIGN.finditer(body), sample_bytes))
    sample = b"\n".join(runs)[:sample_bytes]
    if _is_nearly_utf_8(sample):
        return "utf-8"
    # Else Korean is not known.
    label = detect_encoding(sample, from_html_meta=False, html5_compatible=False)
    return (_known_codec(label) if label else None) or "utf-8"


def is_utf_8(body: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_nearly_utf_8(sample: bytes) -> bool:
    """
    Return whether most bytes beyond ASCII belong to characters of UTF-8.

    A page in UTF-8 with a stray byte from another source stays in UTF-8. In a text of another
    charset such characters come about by chance, and far more rarely than bytes that fit nowhere.
    """
    text = sample.decode("utf-8", "replace")
    errors = text.count(_REPLACEMENT)
    characters = len(text) - len(text.encode("ascii", "ignore")) - errors
    return characters >= max(1, _CHARACTERS_PER_ERROR_MIN * errors)


def _known_codec(name: str) -> str | None:
    """
    Return Python's name of a codec, or of the wider one that the web uses in its place; None if
    there is no such codec.
    """
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return _WIDER_CODECS.get(found, found)
