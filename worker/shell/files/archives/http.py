"""
Parses an HTTP response of an archive: its status, the headers that matter, and its body without
encodings.

Servers and crawlers send wrong HTTP. If a body does not begin like its encoding says, it is not
decoded. Chunks whose sizes are wrong are followed by the rest as it stands. A head may lack the
empty line behind it, have blanks in that line or lines that are no headers, or follow interim
responses ("100 Continue") and a proxy's ("200 Connection established").

The server chooses every byte, so each record has a budget. The budget is many times what pages on
the web need, and keeps the cost of a record in proportion to its bytes. A record beyond it is
damaged, and the records around it are read.

    what                          at most
    bytes of the headers          HEADERS_BYTES_MAX
    lines of the headers          HEADERS_MAX
    responses before it           INTERIMS_MAX
    codings of the content        CODINGS_MAX
    chunks                        CHUNKS_FREE, and one more for CHUNK_BYTES of the body
    members, of all codings       MEMBERS_FREE, and one more for MEMBER_BYTES of the body
    bytes out, of all codings     as many as a body may have; a body beyond that is too large
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import zstandard
from fastwarc.stream_io import BrotliReader

from worker.core.charset import has_controls, is_utf_8

HEADERS_BYTES_MAX = 256 << 10  # as in Chrome
HEADERS_MAX = 1_000  # servers send 10 to 50; Python's own client takes 100
INTERIMS_MAX = 8  # before the response: servers send one
CODINGS_MAX = 5  # as in urllib3: each costs a pass over the whole body
# A chunk costs 0.5 us, even a short one. Servers send some KiB per chunk, or a line of the page.
CHUNKS_FREE = 256
CHUNK_BYTES = 16
# A member costs 3 us, even an empty one. Servers send one member; files that were appended to have
# some.
MEMBERS_FREE = 64
MEMBER_BYTES = 1_024

# Bytes that are inflated at once: they become at most 4 MiB with deflate, and 16 MiB with zstd.
_DEFLATE_PART_BYTES = 4 << 10
_ZSTD_PART_BYTES = 512
_BROTLI_FRAME_BYTES = 4  # of a stream, besides what it packs
_BROTLI_PER_BYTE = 100  # that become of a byte of what may be brotli; text makes 3 to 30
LENGTH = re.compile(r"[0-9]{1,18}")  # of a body or a record
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MARKED = ("gzip", "x-gzip", "zstd")  # encodings that show themselves
# As in Chrome, a few bytes may stand before it.
_STATUS = re.compile(
    rb"[\s\xef\xbb\xbf]{0,4}HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?!\d)[^\n]*(?:\n|\Z)", re.IGNORECASE
)
# The lines of a head: each a header, the continuation of one, or something else without meaning.
# None begins as bodies do: with markup, a bracket, a quote, a byte order mark, compressed bytes.
_HEADER_LINES = re.compile(
    rb"""(?: [ \t]+[^\s][^\n]*(?:\n|\Z) | [^\s<{\["\x00-\x1f\x80-\xff][^\n]*(?:\n|\Z) )*+""",
    re.VERBOSE,
)
_NAMED_LINES = re.compile(
    rb"""(?: [ \t]+[^\s][^\n]*(?:\n|\Z) | [-!\#$%&'*+.^_`|~0-9A-Za-z]+[ \t]*:[^\n]*(?:\n|\Z) )*+""",
    re.VERBOSE,
)
# Lines that begin as bodies do, each with headers behind it, up to the empty line. They stand in
# the head all the same.
_ODD_LINES = re.compile(
    rb"""(?: [^\s][^\n]*\n (?:[-!\#$%&'*+.^_`|~0-9A-Za-z]+[ \t]*:[^\n]*\n)++ )++(?=[ \t\r]*\n)""",
    re.VERBOSE,
)
_INTERIM_END = re.compile(rb"^HTTP/\d(?:\.\d)?[ \t]+\d{3}(?!\d)", re.IGNORECASE | re.MULTILINE)
_BLANK_LINE = re.compile(rb"[ \t\r]*\n")
_HEADER = re.compile(
    rb"""^[ \t\r\f\v]*(content-type|content-length|content-encoding|transfer-encoding|date)
    [ \t\r\f\v]*:([^\n]*(?:\n[ \t]+[^\s][^\n]*)*)""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_LISTS = ("content-type", "content-encoding", "transfer-encoding")  # repeated, they are one list
_CHUNK_SIZE = re.compile(rb"[ \t]*0{0,32}([0-9a-fA-F]{1,8})[ \t]*(?:;[^\n]*)?\r?\n")
_NEXT_CHUNK_SIZE = re.compile(rb"(?:\r?\n)?" + _CHUNK_SIZE.pattern)


class BodyTooLargeError(Exception):
    """The body has too many bytes, with or without its encodings."""


@dataclass(frozen=True)
class Response:
    """
    One response.

    `status` is None if there was no status line. `headers` are those that say how to read the body,
    with lower-case names. If a name occurs twice, lists are joined by ", "; of others the last one
    counts.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes

    @cached_property
    def chunks(self) -> tuple[list[slice], int]:
        """
        Where the chunks of the body are, and where the last one ends: 0 if it was never chunked.

        Raises:
            ValueError: there are too many.
        """
        return _chunks(self.body)


def parse_response(block: bytes) -> Response:
    """
    Split a response into status, headers and body.

    Lines end with CR LF or LF alone. Interim responses in front (1xx) are skipped, and those of a
    proxy, which say nothing of a body, unless nothing follows them.

    Raises:
        ValueError: the headers are beyond the budget.

    Cost: O(bytes).
    """
    response = _parsed(block)
    for _ in range(INTERIMS_MAX):
        is_interim = response.status is not None and 100 <= response.status <= 199
        if not (is_interim or not response.headers) or not _STATUS.match(response.body):
            break
        response = _parsed(response.body)
    return response


def _parsed(block: bytes) -> Response:
    """Split what begins with a status line; anything else is a body."""
    status = _STATUS.match(block)
    if status is None:
        return Response(None, {}, block)
    end, begin = _head_and_body(block, status.end())
    if end > HEADERS_BYTES_MAX:
        raise ValueError(
            f"the HTTP headers do not end within {HEADERS_BYTES_MAX:,} bytes, "
            "the most that are read"
        )
    interim_end = _INTERIM_END.search(block, status.end(), end) if status[1] < b"200" else None
    if interim_end is not None:  # the empty line behind it is missing
        end = begin = interim_end.start()
    head = block[status.end() : end]
    lines = head.count(b"\n")
    if lines > HEADERS_MAX:
        raise ValueError(f"{lines:,} lines of HTTP headers, at most {HEADERS_MAX:,} are read")
    headers: dict[str, str] = {}
    for header in _HEADER.finditer(head):
        name = header[1].lower().decode("ascii")
        value = b" ".join(header[2].split()).decode("utf-8", "replace")
        is_more = name in _LISTS and name in headers
        headers[name] = f"{headers[name]}, {value}" if is_more else value
    return Response(int(status[1]), headers, block[begin:])


def _head_and_body(block: bytes, start: int) -> tuple[int, int]:
    """
    Return where the header lines from `start` on end, and where the body begins.

    An empty line stands between the two, though there may be blanks in it. Where a line cannot
    belong to a head, the body begins without one, unless more headers and an empty line follow. If
    there is neither, the body begins at the first line without a header's name.
    """
    limit = HEADERS_BYTES_MAX + 1
    lines = _HEADER_LINES.match(block, start, limit)
    assert lines is not None, "it may be empty"
    end = lines.end()
    odd = _ODD_LINES.match(block, end, limit)
    if odd is not None:
        end = odd.end()
    blank = _BLANK_LINE.match(block, end)
    if blank is not None:
        return end, blank.end()
    if end == len(block):
        named = _NAMED_LINES.match(block, start)
        assert named is not None, "it may be empty"
        end = named.end()
    return end, end


def decoded_body(response: Response, bytes_max: int) -> bytes:
    """
    Return the body without its transfer and content encodings.

    Args:
        bytes_max: the largest size of the body, and of the output of all its codings together.
    Raises:
        ValueError: the body is damaged, or beyond the budget.
        BodyTooLargeError: the body has more than `bytes_max`.

    Cost: O(bytes of the response + bytes_max) time; memory for two of its stages.
    """
    body = response.body
    transfer = _codings(response, "transfer-encoding")
    if "chunked" in transfer:
        body = _unchunked(response)
    encodings = _codings(response, "content-encoding")
    encodings += [name for name in transfer if name != "chunked"]
    if len(encodings) > CODINGS_MAX:
        raise ValueError(
            f"the HTTP headers name {len(encodings):,} codings, at most {CODINGS_MAX} are undone"
        )
    budget = _Budget(
        bytes_left=bytes_max,
        members_left=MEMBERS_FREE + len(body) // MEMBER_BYTES,
    )
    for encoding in reversed(encodings):
        body = _decoded(body, encoding, budget)
    if len(body) > bytes_max:
        raise BodyTooLargeError
    return body


def behind_body(response: Response) -> bytes:
    r"""
    Return what stands behind the end of a body, by its headers: its length, or its last chunk. b""
    if these do not say where that is.

    >>> behind_body(Response(200, {"content-length": "2"}, b"ab\r\nWARC/1.0"))
    b'\r\nWARC/1.0'
    """
    if "chunked" in _codings(response, "transfer-encoding"):
        try:
            _, end = response.chunks
        except ValueError:  # which is damage only if the body is read
            return b""
        return response.body[end:] if end else b""
    length = response.headers.get("content-length", "")
    return response.body[int(length) :] if LENGTH.fullmatch(length) else b""


def _codings(response: Response, header: str) -> list[str]:
    """Return the codings that a header names, in the order in which they were applied."""
    names = response.headers.get(header, "").split(",")
    return [name.partition(";")[0].strip(" \t\"'").lower() for name in names if name.strip()]


@dataclass
class _Budget:
    """The bytes that the codings of one body may still produce."""

    bytes_left: int
    members_left: int

    def take_member(self) -> None:
        if not self.members_left:
            raise ValueError(
                "content-encoding: the body consists of too many members: at most "
                f"{MEMBERS_FREE} and one for each {MEMBER_BYTES:,} bytes are read"
            )
        self.members_left -= 1

    def take_bytes(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise BodyTooLargeError


def _unchunked(response: Response) -> bytes:
    """
    Return a chunked body as one.

    A body that does not begin with a chunk's size was never chunked. A missing end is forgiven.
    Where a chunk is not followed by the size of the next one, sizes are wrong, and the rest belongs
    to the body as it stands.
    """
    body = response.body
    chunks, end = response.chunks
    if not end:
        return body
    parts = [body[chunk] for chunk in chunks]
    parts.append(body[end:].removeprefix(b"\r\n"))
    return b"".join(parts)


def _chunks(body: bytes) -> tuple[list[slice], int]:
    """Return `Response.chunks` of a body that is chunked."""
    size = _CHUNK_SIZE.match(body)
    chunks_max = CHUNKS_FREE + len(body) // CHUNK_BYTES
    chunks: list[slice] = []
    end = 0
    while size is not None:
        start = size.end()
        end = start + int(size[1], 16)
        if end == start:
            end = _behind_trailers(body, start)
            break
        if len(chunks) == chunks_max:
            raise ValueError(
                f"more than {chunks_max:,} chunks in {len(body):,} bytes: at most {CHUNKS_FREE} "
                f"and one for each {CHUNK_BYTES} bytes are read"
            )
        chunks.append(slice(start, end))
        size = _NEXT_CHUNK_SIZE.match(body, end)
    return chunks, end


def _behind_trailers(body: bytes, start: int) -> int:
    """Return where the header lines behind the last chunk, and the empty line, end."""
    trailers = _NAMED_LINES.match(body, start)
    assert trailers is not None, "it may be empty"
    blank = _BLANK_LINE.match(body, trailers.end())
    return blank.end() if blank else trailers.end()


def _decoded(body: bytes, encoding: str, budget: _Budget) -> bytes:
    """
    Undo one content encoding.

    A body that does not begin like the encoding, or is markup, was never encoded. Some servers name
    one encoding and send another: gzip and zstd are known by how they begin, under the names gzip,
    x-gzip, deflate, br and zstd. "deflate" may be raw.
    """
    is_marked = body.startswith((_GZIP, _ZSTD))
    if is_marked and encoding in (*_MARKED, "deflate"):
        return _inflated_as_marked(body, budget)
    if encoding in _MARKED:
        return _perhaps_unbrotlied(body, budget)
    if encoding not in ("deflate", "br") or not body:
        return body  # identity, or an unknown name
    try:
        is_deflate = encoding == "deflate"
        return _undeflated(body, budget) if is_deflate else _unbrotlied(body, budget)
    except (OSError, EOFError, ValueError) as error:
        if body.lstrip(b" \t\r\n").startswith(b"<"):
            return body
        if is_marked:  # brotli may begin like gzip, so it is tried before
            return _inflated_as_marked(body, budget)
        if encoding == "br":
            raise ValueError(f"content-encoding br: {error}") from error
        raise


def _unbrotlied(body: bytes, budget: _Budget) -> bytes:
    """
    Return what brotli has packed.

    Brotli has no mark, and its reader stops where the first stream ends: of "; and more", that is
    the first byte. So a body that becomes much shorter is none.
    """
    data = bytes(BrotliReader(io.BytesIO(body)).read(budget.bytes_left + 1))
    if len(body) > 2 * len(data) + _BROTLI_FRAME_BYTES:
        raise ValueError(f"{len(body):,} bytes become {len(data):,}: it is not brotli")
    budget.take_bytes(len(data))
    return data


def _perhaps_unbrotlied(body: bytes, budget: _Budget) -> bytes:
    """
    Return a body that was called gzip or zstd and is neither. It is brotli, or was never encoded: a
    text in UTF-8, markup, or what does not become a text.
    """
    if is_utf_8(body) or body.lstrip(b" \t\r\n").startswith(b"<"):
        return body
    bytes_max = min(budget.bytes_left, _BROTLI_PER_BYTE * len(body))
    try:
        data = _unbrotlied(body, _Budget(bytes_max, members_left=0))
    except (OSError, EOFError, ValueError, BodyTooLargeError):
        return body
    if not data or has_controls(data):
        return body
    budget.take_bytes(len(data))
    return data


def _undeflated(body: bytes, budget: _Budget) -> bytes:
    """Return what deflate has packed, in zlib's frame or raw."""
    is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    inflate = zlib.decompressobj if is_zlib else _raw_deflate
    return _inflated(body, inflate, _DEFLATE_PART_BYTES, budget)


def _inflated_as_marked(body: bytes, budget: _Budget) -> bytes:
    """Return a body that begins like gzip or zstd, inflated."""
    if body.startswith(_GZIP):
        return _inflated(body, _gunzip, _DEFLATE_PART_BYTES, budget, _GZIP)
    unzstd = zstandard.ZstdDecompressor().decompressobj
    return _inflated(body, unzstd, _ZSTD_PART_BYTES, budget, _ZSTD)


def _gunzip() -> Any:
    return zlib.decompressobj(31)


def _raw_deflate() -> Any:
    return zlib.decompressobj(-15)


def _inflated(
    body: bytes,
    begin: Callable[[], Any],
    part_bytes: int,
    budget: _Budget,
    magic: bytes | None = None,
) -> bytes:
    """
    Return the members of a body, inflated and joined. Each is inflated by a new object.

    Bytes after the last member are dropped, as browsers do.
    """
    data = bytearray()
    position = 0
    while True:
        budget.take_member()
        member = begin()
        while not member.eof:
            part = body[position : position + part_bytes]
            if not part:
                raise ValueError(
                    f"content-encoding: the body breaks off after {len(data):,} decoded bytes"
                )
            try:
                inflated = member.decompress(part)
            except (zlib.error, zstandard.ZstdError) as error:
                raise ValueError(f"content-encoding: {error}") from error
            budget.take_bytes(len(inflated))
            data += inflated
            position += len(part)
        position -= len(member.unused_data)
        if magic is None or not body.startswith(magic, position):
            return bytes(data)
