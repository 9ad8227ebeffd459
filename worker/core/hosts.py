"""
The host of a URL: which server it names, however it is written.

    http://user@WWW.Example.ORG.:8080/a   www.example.org
    https://Bücher.example                xn--bcher-kva.example
    https://b%C3%BCcher.example/          xn--bcher-kva.example
    http://[::1]:9464/                    [::1]
    urn:isbn:1, example.org/a             none
    http://a%2Fb.example/, http://100%/   none: no name has a slash or a percent sign

This is what lists of hosts and counts by host go by. The mark that keeps two pages apart
(`marks.py`) takes another thing, the authority as it is written: the port belongs to it, because
two ports of one machine are two sites, and it is hashed for each row, in a kernel.

Letters beyond ASCII become Punycode by Python's own `nameprep` (RFC 3491). It knows the letters of
Unicode 3.2, in every version of Python; a name with a newer one stays as it is written, so that no
verdict depends on the version. It would write ß as ss and ς as σ, which are other hosts today, so
these letters pass it by.
"""

from __future__ import annotations

import re
from encodings.idna import nameprep
from stringprep import in_table_a1
from urllib.parse import unquote_to_bytes

HOST_BYTES_MAX = 1_024  # DNS knows none above 253 characters
_LABEL_CHARACTERS_MAX = 63  # of DNS; Punycode takes quadratic time
_HOST = re.compile(r"\s*[0-9A-Za-z+.-]+://(?:[^/?#\\]*@)?(\[[^\]/?#\\]*\]|[^/?#\\:]*)")
# The standard of browsers (WHATWG) forbids these in a name, also where an escape or a letter that
# looks like one stands for them; else two texts could name one host, and a name have two lines.
_FORBIDDEN = re.compile(r"[\x00-\x20#%/:<>?@[\\\]^|\x7f]")
_ADDRESS = re.compile(r"\[[0-9a-f:.]*\]")
_POINTS = re.compile(r"[.\u3002\uff0e\uff61]")
_KEPT = re.compile(r"([\u00df\u03c2])")


def host_of(url: str) -> str:
    """
    Return the host that a URL names, "" if it names none or one that is too long.

    Cost: 1 µs, 10 µs with letters beyond ASCII; linear in the URL's length.

    >>> host_of("http://user@WWW.Example.ORG.:8080/a"), host_of("urn:isbn:1")
    ('www.example.org', '')
    """
    match = _HOST.match(url)
    if match is None or len(match[1]) > HOST_BYTES_MAX:
        return ""
    return host_name(match[1])


def host_name(host: str) -> str:
    """
    Return a host in its one spelling, whose spelling is itself; "" for a text that names none.

    >>> host_name("Bücher.Example."), host_name("xn--bcher-kva.example"), host_name("a%2Fb")
    ('xn--bcher-kva.example', 'xn--bcher-kva.example', '')
    """
    if "%" in host:
        host = unquote_to_bytes(host.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    name = host.lower() if host.isascii() else ".".join(map(_label, _POINTS.split(host)))
    if _FORBIDDEN.search(name) and not _ADDRESS.fullmatch(name):
        return ""
    return name.rstrip(".")


def _label(label: str) -> str:
    """Return a host's label, the part between two points, in its one spelling."""
    if label.isascii():
        return label.lower()
    if len(label) > _LABEL_CHARACTERS_MAX or any(map(in_table_a1, label)):
        return label
    try:
        parts = [part if _KEPT.match(part) else nameprep(part) for part in _KEPT.split(label)]
        name = "".join(parts)
        return name if name.isascii() else f"xn--{name.encode('punycode').decode()}"
    except UnicodeError:  # a character that no host has
        return label
