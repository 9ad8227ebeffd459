"""
The bytes of an HTTP response -> status, headers, and the body without chunks and content encodings.

Servers and crawlers get these headers wrong: a body that does not begin like its encoding is taken as it is.
"""

from __future__ import annotations

import io
import re
import zlib
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import zstandard
from fastwarc.stream_io import BrotliReader

__all__ = ["BodyTooLargeError", "Response", "date_ms", "decoded_body", "parse_response"]

HEADERS_BYTES_MAX = 256 << 10
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})")
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
    Give the body without its transfer and content encodings.

    Raises:
        BodyTooLargeError: over `bytes_max` when decoded.
        ValueError: it begins like its encoding and then breaks off.

    Cost: O(decoded bytes), and never more than `bytes_max` of them.
    """
    body = response.body
    if "chunked" in response.headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    encodings = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
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
    if encoding in ("gzip", "x-gzip") and body.startswith(b"\x1f\x8b"):
        return _inflated(body, 31, bytes_max)
    if encoding == "deflate" and body:
        return _deflated(body, bytes_max)
    if encoding == "br" and body:
        return _brotli(body, bytes_max)
    if encoding == "zstd" and body.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(body)
            return _at_most(reader.read(bytes_max + 1), bytes_max)
        except zstandard.ZstdError as error:
            raise ValueError(f"content-encoding zstd: {error}") from error
    return body  # identity, or a name that nobody knows


def _deflated(body: bytes, bytes_max: int) -> bytes:
    """ "deflate" means zlib, and many servers send it raw; raw deflate has no magic number to tell it by."""
    is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    try:
        return _inflated(body, 15 if is_zlib else -15, bytes_max)
    except BodyTooLargeError:
        raise
    except ValueError:
        if is_zlib:
            raise
        return body


def _brotli(body: bytes, bytes_max: int) -> bytes:
    """Brotli has no magic number either; a body that begins with markup never was."""
    try:
        return _at_most(BrotliReader(io.BytesIO(body)).read(bytes_max + 1), bytes_max)
    except (OSError, EOFError) as error:
        if body.lstrip().startswith(b"<"):
            return body
        raise ValueError(f"content-encoding br: {error}") from error


def _inflated(body: bytes, window_bits: int, bytes_max: int) -> bytes:
    try:
        return _at_most(zlib.decompressobj(window_bits).decompress(body, bytes_max + 1), bytes_max)
    except zlib.error as error:
        raise ValueError(f"content-encoding: {error}") from error


def _at_most(data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise BodyTooLargeError(f"the body has more than {bytes_max:,} bytes when decoded")
    return data
