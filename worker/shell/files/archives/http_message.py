"""
The bytes of an HTTP response -> status, headers, and the body without chunks and content encodings.

Servers and crawlers get these headers wrong: a body that does not begin like its encoding is taken as it is.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import zstandard
from fastwarc.stream_io import BrotliReader

HEADERS_BYTES_MAX = 256 << 10
_PART_BYTES = 4 << 10  # inflated at once: 4 MiB of deflate, 128 MiB of zstd at the most
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})")
_CODINGS_MAX = 5  # of a content, as in urllib3: each costs a pass over the whole body
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\n]*)?\r?\n")


class BodyTooLargeError(ValueError):
    """The decoded body is over its limit; it was not decoded to its end."""


class Response(NamedTuple):
    """One response: `status` is None when there was no status line; header names are lower-case, the last one wins."""

    status: int | None
    headers: dict[str, str]
    body: bytes


def parse_response(block: bytes) -> Response:
    """
    Split a response into status, headers and body, with CR LF or LF alone.

    >>> parse_response(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\n\\r\\n<p>")
    Response(status=200, headers={'content-type': 'text/html'}, body=b'<p>')
    """
    status = _STATUS.match(block)
    if status is None:
        return Response(None, {}, block)
    end = _HEADERS_END.search(block, 0, HEADERS_BYTES_MAX)
    head, body = (block, b"") if end is None else (block[: end.start()], block[end.end() :])
    headers: dict[str, str] = {}
    for line in head.split(b"\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.strip().lower().decode("latin-1")] = value.strip().decode("utf-8", "replace")
    return Response(int(status.group(1)), headers, body)


def decoded_body(response: Response, bytes_max: int) -> bytes:
    """
    Return the body without its transfer and content encodings.

    Raises:
        BodyTooLargeError: over `bytes_max` when decoded.
        ValueError: it begins like its encoding, and is damaged or breaks off.

    Cost: O(bytes), and not much more than `bytes_max` decoded ones.
    """
    body = response.body
    if "chunked" in response.headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    encodings = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    if len(encodings) > _CODINGS_MAX:
        raise ValueError(f"Content-Encoding names {len(encodings):,} codings, at most {_CODINGS_MAX} are undone")
    for encoding in reversed(encodings):
        body = _decoded(body, encoding, bytes_max)
    if len(body) > bytes_max:
        raise BodyTooLargeError(f"the body has {len(body):,} bytes, the limit is {bytes_max:,}")
    return body


def date_ms(value: str | None) -> int | None:
    """
    Read an HTTP date as Unix milliseconds; None for what is none.

    >>> date_ms("Wed, 28 Jan 2009 17:05:56 GMT")
    1233162356000
    """
    if not value:
        return None
    try:
        return max(0, int(parsedate_to_datetime(value).timestamp())) * 1_000
    except (ValueError, OverflowError, TypeError):
        return None


def _unchunked(body: bytes) -> bytes:
    """Join chunks. A body that does not begin with a chunk's size was never chunked; a missing end is forgiven."""
    if _CHUNK_SIZE.match(body) is None:
        return body
    parts, position = [], 0
    while (size := _CHUNK_SIZE.match(body, position)) is not None:
        start = size.end()
        length = int(size.group(1), 16)
        if length == 0:
            break
        parts.append(body[start : start + length])
        position = start + length
        position += 2 if body.startswith(b"\r\n", position) else int(body.startswith(b"\n", position))
    return b"".join(parts)


def _decoded(body: bytes, encoding: str, bytes_max: int) -> bytes:
    if encoding in ("gzip", "x-gzip") and body.startswith(_GZIP):
        return _inflated(body, lambda: zlib.decompressobj(31), bytes_max, _GZIP)
    if encoding == "deflate" and body:
        return _deflated(body, bytes_max)
    if encoding == "br" and body:
        return _brotli(body, bytes_max)
    if encoding == "zstd" and body.startswith(_ZSTD):
        return _inflated(body, zstandard.ZstdDecompressor().decompressobj, bytes_max, _ZSTD)
    return body  # identity, or a name that nobody knows


def _deflated(body: bytes, bytes_max: int) -> bytes:
    """ "deflate" means zlib, and many servers send it raw; what begins with markup never was either."""
    is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    try:
        return _inflated(body, lambda: zlib.decompressobj(15 if is_zlib else -15), bytes_max)
    except BodyTooLargeError:
        raise
    except ValueError:
        if not is_zlib and _is_markup(body):
            return body
        raise


def _brotli(body: bytes, bytes_max: int) -> bytes:
    """Brotli has no magic number either; a body that begins with markup never was."""
    try:
        return bytes(BrotliReader(io.BytesIO(body)).read(bytes_max + 1))
    except (OSError, EOFError) as error:
        if _is_markup(body):
            return body
        raise ValueError(f"content-encoding br: {error}") from error


def _inflated(body: bytes, begin: Callable[[], Any], bytes_max: int, magic: bytes | None = None) -> bytes:
    """Join a body's members, each inflated by a new object; what follows and is none is left, as browsers do."""
    data, position = bytearray(), 0
    while True:
        member = begin()
        while not member.eof:
            part = body[position : position + _PART_BYTES]
            if not part:
                raise ValueError(f"content-encoding: the body breaks off after {len(data):,} decoded bytes")
            try:
                data += member.decompress(part)
            except (zlib.error, zstandard.ZstdError) as error:
                raise ValueError(f"content-encoding: {error}") from error
            if len(data) > bytes_max:
                raise BodyTooLargeError(f"the body has more than {bytes_max:,} bytes when decoded")
            position += len(part)
        position -= len(member.unused_data)
        if magic is None or not body.startswith(magic, position):
            return bytes(data)


def _is_markup(body: bytes) -> bool:
    return body.lstrip().startswith(b"<")
