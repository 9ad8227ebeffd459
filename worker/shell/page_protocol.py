"""
The messages between a worker and its page processes, as bytes. No pickle: a child that a page has taken over can
send wrong numbers, but cannot make the worker run anything.

    frame     length u32 (of what follows the kind) | kind u8 | payload              little-endian
    worker -> child   HELLO   JSON: parameters, limits            once
                      BATCH   count u32, then each message of the topic `documents`: length u32, value
    child  -> worker  READY   empty: kernels are warm
                      ALIVE   empty: a sign of life between pages
                      RESULTS count u32, then each page:
                              doc_id length u16 | url length u16 | fetched_at i64 | doc_id | url
                              0 u8 | fingerprint u64, features u32, digest u64, kind u8, method u8
                              1 u8 | length u16, reason
                              2 u8 | length u16, code | length u16, text

The worker hands on what the topic gave it, unread: JSON and base64 of a page cost the child, not the ordered part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import BinaryIO, NamedTuple

from schemas.timestamp import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from worker.core.document import DOC_ID_BYTES_MAX, URL_BYTES_MAX
from worker.core.extract import METHODS, Skipped
from worker.core.pages import Fingerprinted, PageResult
from worker.errors import DocumentError

__all__ = [
    "FRAME_HEADER",
    "Frame",
    "PageRead",
    "batch_frame",
    "decode_messages",
    "decode_results",
    "encode_results",
    "frame",
    "read_frame",
]

FRAME_HEADER = struct.Struct("<IB")
_COUNT = struct.Struct("<I")
_IDENTITY = struct.Struct("<HHq")
_FINGERPRINTED = struct.Struct("<BQIQBB")
_TEXT = struct.Struct("<H")
_TEXT_BYTES_MAX = 8_000


class PageRead(NamedTuple):
    """What came of one message: whose page it is, and the result. Identity is empty when the message is unreadable."""

    doc_id: str
    url: str
    fetched_at_ms: int
    result: PageResult


class Frame(IntEnum):
    """What a frame is."""

    HELLO = 1
    BATCH = 2
    READY = 3
    ALIVE = 4
    RESULTS = 5


def frame(kind: Frame, payload: bytes = b"") -> bytes:
    """
    Give one frame as bytes.

    >>> frame(Frame.READY).hex()
    '0000000003'
    """
    return FRAME_HEADER.pack(len(payload), kind) + payload


def read_frame(stream: BinaryIO) -> tuple[Frame, bytes] | None:
    """Read one frame from a blocking stream; None at its end."""
    header = stream.read(FRAME_HEADER.size)
    if len(header) < FRAME_HEADER.size:
        return None
    length, kind = FRAME_HEADER.unpack(header)
    payload = stream.read(length)
    return (Frame(kind), payload) if len(payload) == length else None


def batch_frame(messages: Sequence[bytes]) -> list[bytes]:
    """
    Give the BATCH frame of some messages, in pieces to be written one behind the other; no message is copied.

    >>> b"".join(batch_frame([b"{}", b"[1]"])).hex(" ", 1)
    '11 00 00 00 02 02 00 00 00 02 00 00 00 7b 7d 03 00 00 00 5b 31 5d'
    """
    size = _COUNT.size * (1 + len(messages)) + sum(map(len, messages))
    pieces = [FRAME_HEADER.pack(size, Frame.BATCH) + _COUNT.pack(len(messages))]
    for message in messages:
        pieces += (_COUNT.pack(len(message)), message)
    return pieces


def decode_messages(payload: bytes) -> Iterator[bytes]:
    """Give the messages of a BATCH frame, each when it is asked for."""
    position = _COUNT.size
    for _ in range(_COUNT.unpack_from(payload)[0]):
        begin = position + _COUNT.size
        position = begin + _COUNT.unpack_from(payload, position)[0]
        yield payload[begin:position]


def encode_results(pages: Iterable[PageRead]) -> bytes:
    """Give the RESULTS frame of a batch."""
    parts: list[bytes] = []
    count = 0
    for doc_id, url, fetched_at_ms, result in pages:
        count += 1
        id_bytes, url_bytes = doc_id.encode("utf-8", "surrogatepass"), url.encode("utf-8", "surrogatepass")
        parts += (_IDENTITY.pack(len(id_bytes), len(url_bytes), fetched_at_ms), id_bytes, url_bytes)
        if isinstance(result, Fingerprinted):
            method = METHODS.index(result.method)
            parts.append(_FINGERPRINTED.pack(0, *result[:4], method))
        elif isinstance(result, Skipped):
            parts.append(b"\x01" + _encode_text(result.reason))
        else:
            parts.append(b"\x02" + _encode_text(result.code) + _encode_text(result.text))
    return frame(Frame.RESULTS, _COUNT.pack(count) + b"".join(parts))


def decode_results(payload: bytes) -> list[PageRead]:
    """
    Give the pages of a RESULTS frame.

    Raises:
        ValueError: the payload is not one: cut short or too long, a count that disagrees, an unknown tag or method, an
            identity that no message can have.
    """
    pages: list[PageRead] = []
    try:
        (count,), position = _COUNT.unpack_from(payload), _COUNT.size
        for _ in range(count):
            doc_id, url, fetched_at_ms, position = _decode_identity(payload, position)
            result, position = _decode_result(payload, position)
            pages.append(PageRead(doc_id, url, fetched_at_ms, result))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a RESULTS frame of {len(payload)} bytes is cut short: {error}") from error
    if position != len(payload):
        raise ValueError(f"a RESULTS frame has {len(payload)} bytes, its {count} results end at {position}")
    return pages


def _decode_identity(payload: bytes, position: int) -> tuple[str, str, int, int]:
    id_length, url_length, fetched_at_ms = _IDENTITY.unpack_from(payload, position)
    if id_length > DOC_ID_BYTES_MAX or url_length > URL_BYTES_MAX:
        raise ValueError(f"a doc_id of {id_length} bytes, a URL of {url_length}")
    if not TIMESTAMP_MS_MIN <= fetched_at_ms <= TIMESTAMP_MS_MAX:
        raise ValueError(f"a fetch time of {fetched_at_ms} ms")
    begin = position + _IDENTITY.size
    middle, end = begin + id_length, begin + id_length + url_length
    return (
        payload[begin:middle].decode("utf-8", "surrogatepass"),
        payload[middle:end].decode("utf-8", "surrogatepass"),
        fetched_at_ms,
        end,
    )


def _decode_result(payload: bytes, position: int) -> tuple[PageResult, int]:
    tag = payload[position]
    if tag == 0:
        _, fingerprint, features, digest, kind, method = _FINGERPRINTED.unpack_from(payload, position)
        page = Fingerprinted(fingerprint, features, digest, kind, METHODS[method])
        return page, position + _FINGERPRINTED.size
    text, position = _decode_text(payload, position + 1)
    if tag == 1:
        return Skipped(text), position
    if tag == 2:
        code = text
        text, position = _decode_text(payload, position)
        return DocumentError(code, text), position
    raise ValueError(f"result tag {tag} is none of 0, 1, 2")


def _encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")[:_TEXT_BYTES_MAX]
    return _TEXT.pack(len(data)) + data


def _decode_text(payload: bytes, position: int) -> tuple[str, int]:
    start = position + _TEXT.size
    end = start + _TEXT.unpack_from(payload, position)[0]
    return payload[start:end].decode("utf-8", "replace"), end
