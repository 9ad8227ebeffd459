"""
Topic `documents`: one captured page per message.

The key is the caller's own. A message with a null value deletes the document whose doc_id is the
key. Field names follow WARC and CDX. Unknown fields are ignored, and a null field counts as absent.
"""

from __future__ import annotations

import binascii
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.fields import WIRE, GivenDocId, Timestamp, Url

BODIES = ("text", "html", "body_base64")

# What the worker reads of these fits; the bound keeps a hostile header from travelling on.
OPTIONAL_CHARACTERS_MAX = {
    "content_type": 1_024,
    "charset": 128,
    "language": 128,
    "payload_digest": 512,
    "collection": 512,
}


def _optional(name: str, description: str, *examples: str) -> Any:
    bound = OPTIONAL_CHARACTERS_MAX[name]
    text = f"{description} At most {bound:,} characters."
    return Field(default=None, max_length=bound, description=text, examples=list(examples))


# JSON Schema for "exactly one body": of the three branches, each true when its field is a string,
# one holds.
_ONE_BODY: Any = {
    "oneOf": [{"required": [body], "properties": {body: {"type": "string"}}} for body in BODIES]
}


class DocumentMessage(BaseModel):
    """One captured page, with exactly one body: `text`, `html` or `body_base64`."""

    model_config = ConfigDict(**WIRE, title="document", json_schema_extra=_ONE_BODY)

    doc_id: GivenDocId | None = Field(
        None,
        description="Name of this capture, 1 to 1,024 bytes in UTF-8. A whole number stands for "
        "its decimal digits. If it is left out, "
        "32 hex digits derived from url and fetched_at take its place.",
        examples=["urn:uuid:6e2f1c0e-7d1b-4a53-9a55-2f5b4f0d9f10", "crawl-7/000123"],
    )
    url: Url = Field(
        description="URL that was captured, 1 to 8,192 bytes in UTF-8. Its syntax is not checked.",
        examples=["https://example.org/news/1.html"],
    )
    fetched_at: Timestamp | None = Field(
        None,
        description="Time of the capture: an ISO 8601 date-time with an offset, in the years 1970 "
        "to 9999. Anything finer than a millisecond is cut off. A message without it has the time "
        "stamp that Kafka gave it.",
        examples=["2024-05-01T12:00:00.500Z", "2024-05-01T14:00:00+02:00"],
    )
    content_type: str | None = _optional(
        "content_type",
        "The response's media type, parameters included.",
        "text/html; charset=utf-8",
    )
    text: str | None = Field(
        default=None,
        description="The body as plain text. All of it is fingerprinted, up to the "
        "worker's text_characters_max. May be empty. Bounded by the message's size.",
        examples=["The river rose by two metres in a single night."],
    )
    html: str | None = Field(
        default=None,
        description="The body as a decoded HTML page, whose main content is fingerprinted. "
        "Bounded by the message's size.",
        examples=["<html><body><p>The river rose by two metres.</p></body></html>"],
    )
    body_base64: str | None = Field(
        default=None,
        description="The body as the response's bytes in base64 (RFC 4648 section 4, with padding, "
        "without line breaks). content_type and charset say how to read them; what these leave "
        "open is detected. Bounded by the message's size.",
        examples=["PHA+0JTQvtCx0YDRi9C5INC00LXQvdGMPC9wPg=="],
        json_schema_extra={"contentEncoding": "base64"},
    )
    charset: str | None = _optional(
        "charset", "Character set of body_base64. It wins over content_type.", "windows-1251"
    )
    title: str | None = Field(
        default=None,
        description="The page's title. Bounded by the message's size.",
        examples=["Flood in the valley"],
    )
    language: str | None = _optional(
        "language", "Language of the body as a BCP 47 tag; detected if left out.", "en"
    )
    payload_digest: str | None = _optional(
        "payload_digest",
        "Digest of the payload, as in WARC.",
        "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    )
    collection: str | None = _optional(
        "collection", "The crawl that this belongs to.", "2024-05-news"
    )
    attrs: dict[str, Any] | None = Field(
        default=None,
        description="Any data of the crawler. The worker does not read it. "
        "Bounded by the message's size.",
        examples=[{"depth": 3}],
    )

    @field_validator("body_base64")
    @classmethod
    def _is_base64(cls, body: str | None) -> str | None:
        if body is not None:
            binascii.a2b_base64(body, strict_mode=True)  # a binascii.Error is a ValueError
        return body

    @model_validator(mode="after")
    def _exactly_one_body(self) -> DocumentMessage:
        bodies = [name for name in BODIES if getattr(self, name) is not None]
        if len(bodies) != 1:
            raise ValueError(
                f"needs exactly one of {', '.join(BODIES)}, got {' and '.join(bodies) or 'none'}"
            )
        return self
