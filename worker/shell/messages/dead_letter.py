"""
A message that could not be judged as a message of the topic `documents.dead-letter`, and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from schemas.dead_letter import DeadLetterHeaders, DeadLetterPointer
from worker.errors import DocumentError
from worker.shell.ports import InputMessage

# A larger message is replaced by a pointer. By default, brokers refuse messages over 1,048,588
# bytes, headers included.
DEAD_LETTER_BYTES_MAX = 900_000
_KEY_BYTES_MAX = 8_192  # of a message that is itself not copied
_PARTITION_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1  # of Kafka


class DeadLetter(NamedTuple):
    """
    A dead letter: where the message came from, what was wrong with it, and the message or a pointer
    to it.
    """

    source_topic: str
    source_partition: int
    source_offset: int
    code: str
    text: str
    key: bytes | None
    value: bytes | None
    # The value is a pointer (schemas.dead_letter), because the message was too large to copy.
    is_pointer: bool

    @property
    def doc_id(self) -> str | None:
        """The document's own doc_id, else the message's key, as far as they can be read."""
        try:
            own = orjson.loads(self.value or b"")["doc_id"]
        except (ValueError, LookupError, TypeError):
            own = None
        if isinstance(own, str):
            return own
        return None if self.key is None else self.key.decode("utf-8", "replace")

    def fields(self) -> dict[str, Any]:
        """Return the fields of the dead letter for JSON, without the message itself."""
        source = {
            "topic": self.source_topic,
            "partition": self.source_partition,
            "offset": self.source_offset,
        }
        fields = {"code": self.code, "text": self.text, "doc_id": self.doc_id, "source": source}
        return {**fields, "is_pointer": self.is_pointer}

    def line(self) -> bytes:
        """Return the dead letter as a JSON object, without the message itself."""
        return orjson.dumps(self.fields())


def encode_dead_letter(
    topic: str, message: InputMessage, error: DocumentError, bytes_max: int = DEAD_LETTER_BYTES_MAX
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """
    Return key, value and headers of a dead letter.

    Key and value are the message's own. The headers say where it came from, and what was wrong.

    A message of more than `bytes_max` bytes (key and value) is not copied: its value becomes a
    pointer with its size and SHA-256. A key of more than 8,192 bytes then becomes null, and the
    pointer has its size and SHA-256, too. If the message has a defect, the pointer has neither for
    the value.

    Cost: O(1); O(bytes) for a message that is too large, 2 ms a MB.

    >>> error = DocumentError("no-body", "needs exactly one of text, html, body_base64, got none")
    >>> message = InputMessage(3, 7, b"k", b"{}")
    >>> encode_dead_letter("documents", message, error)[2][:4]  # doctest: +NORMALIZE_WHITESPACE
    [('neardup.source.topic', b'documents'), ('neardup.source.partition', b'3'),
     ('neardup.source.offset', b'7'), ('neardup.error.code', b'no-body')]
    """
    partition, offset, key, value, defect, *_ = message
    is_pointer = bool(defect) or len(key or b"") + len(value or b"") > bytes_max
    told = DeadLetterHeaders.model_construct(
        source_topic=topic, source_partition=str(partition), source_offset=str(offset),
        error_code=error.code, error_text=error.text,
        value_kind="pointer" if is_pointer else "original",
    )  # fmt: skip
    headers = [
        (name, text.encode("utf-8", "replace"))
        for name, text in told.model_dump(by_alias=True).items()
    ]
    if not is_pointer:
        return key, value, headers
    pointer: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset}
    if not defect:
        body = value or b""
        pointer |= {"value_bytes": len(body), "value_sha256": hashlib.sha256(body).hexdigest()}
    if key is not None and len(key) > _KEY_BYTES_MAX:
        pointer |= {"key_bytes": len(key), "key_sha256": hashlib.sha256(key).hexdigest()}
        key = None
    return (
        key,
        DeadLetterPointer.model_construct(**pointer).model_dump_json(exclude_none=True).encode(),
        headers,
    )


def decode_dead_letter(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None
) -> DeadLetter:
    """
    Read a message of the topic `documents.dead-letter`.

    Raises:
        DocumentError: code "invalid-dead-letter": a header is missing or is not what it must be,
            or names a place that no topic has.

    Cost: O(headers).
    """
    found = {name: value or b"" for name, value in headers or ()}
    try:
        return DeadLetter(
            source_topic=found["neardup.source.topic"].decode(),
            source_partition=_number(found["neardup.source.partition"], _PARTITION_MAX),
            source_offset=_number(found["neardup.source.offset"], _OFFSET_MAX),
            code=found["neardup.error.code"].decode(),
            text=found["neardup.error.text"].decode(),
            key=key,
            value=value,
            is_pointer=found["neardup.value"] == b"pointer",
        )
    except KeyError as error:
        raise DocumentError(
            "invalid-dead-letter", f"not a dead letter: header {error} is missing"
        ) from None
    except ValueError as error:
        raise DocumentError("invalid-dead-letter", f"not a dead letter: {error}") from None


def _number(text: bytes, most: int) -> int:
    """Return a number of a header; ValueError: it is none, or no topic goes as far."""
    number = int(text)
    if not 0 <= number <= most:
        raise ValueError(f"must be a number from 0 to {most}, got {number}")
    return number
