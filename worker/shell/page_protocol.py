"""
The messages between a worker and its page processes, as bytes. No pickle: a child that a page has taken over can
send wrong numbers, but cannot make the worker run anything.

    frame     length u32 (of what follows the kind) | kind u8 | payload              little-endian
    worker -> child   HELLO   JSON: parameters, limits            once
                      BATCH   count u32, then each document:
                              kind u8, lengths u32 x 5 (ABSENT: none), body, content type, charset, language, title
    child  -> worker  READY   empty: kernels are warm
                      ALIVE   empty: a sign of life between pages
                      RESULTS count u32, then each result:
                              0 u8 | fingerprint u64, features u32, digest u64, kind u8, method u8
                              1 u8 | length u16, reason
                              2 u8 | length u16, code | length u16, text
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import BinaryIO

from worker.core.document import BodyKind, Document
from worker.core.extract import METHODS, Skipped
from worker.core.pages import Fingerprinted, PageResult
from worker.errors import DocumentError

__all__ = [
    "FRAME_HEADER",
    "Frame",
    "decode_documents",
    "decode_results",
    "encode_document",
    "encode_results",
    "frame",
    "join_documents",
    "read_frame",
]

ABSENT = 0xFFFF_FFFF
FRAME_HEADER = struct.Struct("<IB")
_COUNT = struct.Struct("<I")
_DOCUMENT = struct.Struct("<B5I")
_FINGERPRINTED = struct.Struct("<BQIQBB")
_TEXT = struct.Struct("<H")
_TEXT_BYTES_MAX = 8_000


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


def encode_document(document: Document) -> bytes:
    """Give what a page process needs of a document as bytes; lone surrogates travel as they are."""
    body = document.body if isinstance(document.body, bytes) else _encode(document.body)
    fields = [
        None if text is None else _encode(text)
        for text in (document.content_type, document.charset, document.language, document.title)
    ]
    lengths = (ABSENT if field is None else len(field) for field in fields)
    head = _DOCUMENT.pack(document.kind, len(body), *lengths)
    return b"".join([head, body, *(field for field in fields if field)])


def join_documents(encoded: Sequence[bytes]) -> bytes:
    """Give the BATCH frame of encoded documents."""
    return frame(Frame.BATCH, b"".join([_COUNT.pack(len(encoded)), *encoded]))


def decode_documents(payload: bytes) -> list[Document]:
    """Give the documents of a BATCH frame; they carry no doc_id, url or time."""
    documents, position = [], _COUNT.size
    for _ in range(_COUNT.unpack_from(payload)[0]):
        kind, *lengths = _DOCUMENT.unpack_from(payload, position)
        position += _DOCUMENT.size
        fields: list[bytes | None] = []
        for length in lengths:
            if length == ABSENT:
                fields.append(None)
            else:
                fields.append(payload[position : position + length])
                position += length
        body = fields[0] or b""
        content_type, charset, language, title = (None if field is None else _decode(field) for field in fields[1:])
        kind = BodyKind(kind)
        documents.append(
            Document(
                "",
                "",
                0,
                kind,
                body if kind is BodyKind.BYTES else _decode(body),
                content_type=content_type,
                charset=charset,
                language=language,
                title=title,
            )
        )
    return documents


def encode_results(results: Iterable[PageResult]) -> bytes:
    """Give the RESULTS frame of a batch."""
    parts = []
    for result in results:
        if isinstance(result, Fingerprinted):
            method = METHODS.index(result.method)
            parts.append(_FINGERPRINTED.pack(0, *result[:4], method))
        elif isinstance(result, Skipped):
            parts.append(b"\x01" + _encode_text(result.reason))
        else:
            parts.append(b"\x02" + _encode_text(result.code) + _encode_text(result.text))
    return frame(Frame.RESULTS, _COUNT.pack(len(parts)) + b"".join(parts))


def decode_results(payload: bytes) -> list[PageResult]:
    """
    Give the results of a RESULTS frame.

    Raises:
        ValueError: the payload is not one: a struct too short, a count that disagrees, an unknown tag or method.
    """
    results: list[PageResult] = []
    try:
        (count,), position = _COUNT.unpack_from(payload), _COUNT.size
        for _ in range(count):
            tag = payload[position]
            if tag == 0:
                _, fingerprint, features, digest, kind, method = _FINGERPRINTED.unpack_from(payload, position)
                results.append(Fingerprinted(fingerprint, features, digest, kind, METHODS[method]))
                position += _FINGERPRINTED.size
                continue
            text, position = _decode_text(payload, position + 1)
            if tag == 1:
                results.append(Skipped(text))
            elif tag == 2:
                code = text
                text, position = _decode_text(payload, position)
                results.append(DocumentError(code, text))
            else:
                raise ValueError(f"result tag {tag} is none of 0, 1, 2")
    except (struct.error, IndexError) as error:
        raise ValueError(f"a RESULTS frame of {len(payload)} bytes is cut short: {error}") from error
    if position != len(payload):
        raise ValueError(f"a RESULTS frame has {len(payload)} bytes, its {count} results end at {position}")
    return results


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")[:_TEXT_BYTES_MAX]
    return _TEXT.pack(len(data)) + data


def _decode_text(payload: bytes, position: int) -> tuple[str, int]:
    start = position + _TEXT.size
    end = start + _TEXT.unpack_from(payload, position)[0]
    return payload[start:end].decode("utf-8", "replace"), end
