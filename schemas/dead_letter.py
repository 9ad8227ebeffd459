"""
Topic `documents.dead-letter`: messages that could not be judged.

A dead letter has the key and the value of the message as they came, and the reason in its headers.
A message that is too large is not copied: the value is then a pointer to it, with size and digest.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from schemas.fields import OFFSET_MAX, WIRE, Offset, Partition, Topic

Digits = Annotated[str, Field(pattern=r"^[0-9]{1,19}$", max_length=19)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", min_length=64, max_length=64)]


class DeadLetterHeaders(BaseModel):
    """The headers of a dead letter; each value is UTF-8 text."""

    model_config = ConfigDict(**WIRE, title="dead letter headers")

    source_topic: str = Field(
        alias="neardup.source.topic",
        min_length=1,
        description="Topic of the message.",
        examples=["documents"],
    )
    source_partition: Digits = Field(
        alias="neardup.source.partition",
        description="Its partition, in decimal digits.",
        examples=["3"],
    )
    source_offset: Digits = Field(
        alias="neardup.source.offset", description="Its offset, in decimal digits.", examples=["7"]
    )
    error_code: str = Field(
        alias="neardup.error.code",
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$",
        max_length=64,
        description="Class of the error, for programs: kebab-case, at most 64 characters.",
        examples=["two-bodies"],
    )
    error_text: str = Field(
        alias="neardup.error.text",
        max_length=1_000,
        description="The error, for people: the field, its value, the bound and the remedy. At "
        "most 1,000 characters.",
        examples=["needs exactly one of text, html, body_base64, got text and html: leave one out"],
    )
    value_kind: str = Field(
        alias="neardup.value",
        pattern=r"^(original|pointer)$",
        description="original: the value is the message's own. pointer: the message was too large "
        "to copy, or could not be read.",
        examples=["original"],
    )


class DeadLetterPointer(BaseModel):
    """The place, size and digest of a message that is too large to copy, or that cannot be read."""

    model_config = ConfigDict(**WIRE, title="dead letter pointer")

    topic: Topic = Field(description="Topic of the message.", examples=["documents"])
    partition: Partition = Field(description="Its partition.", examples=[3])
    offset: Offset = Field(description="Its offset.", examples=[7])
    value_bytes: int | None = Field(
        None,
        ge=0,
        le=OFFSET_MAX,
        description="Size of its value in bytes. Left out if it could not be read.",
        examples=[10485760],
    )
    value_sha256: Sha256 | None = Field(
        None,
        description="SHA-256 of its value, in hex. Left out if it could not be read.",
        examples=["0" * 64],
    )
    key_bytes: int | None = Field(
        None,
        ge=0,
        description="Size of its key in bytes. Left out if the dead letter has the key itself.",
        examples=[2000000],
    )
    key_sha256: Sha256 | None = Field(
        None,
        description="SHA-256 of its key, in hex. Left out if the dead letter has the key itself.",
        examples=["0" * 64],
    )
