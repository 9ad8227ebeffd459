"""
Topic `verdicts`: the one answer to each document; the key is the doc_id. A field without a value is
left out.

A fingerprint is hex text, because JSON numbers lose bits above 2**53; 0000000000000000 is a
fingerprint, not "none".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.fields import OFFSET_MAX, WIRE, DocId, Offset, Partition, Timestamp, Topic, Url

_HEX = r"^[0-9a-f]{16}$"
Similarity = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Hex64 = Annotated[str, Field(pattern=_HEX, min_length=16, max_length=16)]


class DuplicateOfMessage(BaseModel):
    """The original that a duplicate belongs to, and how close the two are."""

    model_config = ConfigDict(**WIRE, title="duplicate_of")

    doc_id: DocId = Field(description="doc_id of the original.", examples=["crawl-7/000007"])
    url: Url = Field(
        description="URL of the original.", examples=["https://example.org/news/1.html"]
    )
    fetched_at: Timestamp = Field(
        description="Time of the original's capture, UTC.", examples=["2024-05-01T12:00:00.500Z"]
    )
    kind: Literal["exact", "near"] = Field(
        description="exact: the same tokens in the same order; near: by the search's rules.",
        examples=["near"],
    )
    distance: int = Field(
        ge=0, le=64, description="Hamming distance of the two fingerprints, in bits.", examples=[2]
    )
    similarity: Similarity = Field(
        description="Estimate of the Jaccard index of both texts' shingles of four tokens (three "
        "where a token is a character), 0 to 1; its standard error is about .04 at .61. Short "
        "texts in which one word is another have .61 at least.",
        examples=[0.921],
    )
    same_url: bool = Field(
        description="True: the same URL captured again. False: a copy elsewhere.", examples=[False]
    )
    found_by: Literal["text", "directed", "exact"] = Field(
        description="text: short texts, by their digest; directed: by fingerprint and doubts, "
        "with a second "
        "look; exact: everything within max_distance. The similarity confirms what is found.",
        examples=["directed"],
    )


class FormerVersionMessage(BaseModel):
    """The original that had this URL or doc_id before, and how much has changed since."""

    model_config = ConfigDict(**WIRE, title="former_version")

    doc_id: DocId = Field(description="doc_id of the former version.", examples=["crawl-6/000123"])
    url: Url = Field(description="Its URL.", examples=["https://example.org/news/1.html"])
    fetched_at: Timestamp = Field(
        description="Time of its capture, UTC.", examples=["2024-04-01T12:00:00.500Z"]
    )
    changed: Literal["not", "little", "much"] = Field(
        description="not: the same tokens in the same order; little: one would be taken for the "
        "other; much: else.",
        examples=["little"],
    )
    similarity: Similarity | None = Field(
        None,
        description="As of a duplicate. Left out: a short text that is not equal.",
        examples=[0.914],
    )


class FingerprintMessage(BaseModel):
    """The fingerprint and how it was made."""

    model_config = ConfigDict(**WIRE, title="fingerprint")

    value: Hex64 = Field(
        description="The 64 bits as 16 lower-case hex digits.", examples=["9f3a61c20b7d44e8"]
    )
    scheme: str = Field(
        min_length=1,
        max_length=128,
        description="Name of the way it is made.",
        examples=["neardup-1"],
    )
    parameters: Hex64 = Field(
        description="Hash of the parameters, 16 lower-case hex digits.",
        examples=["5d1c0f9a3b7e2468"],
    )
    features: int = Field(
        ge=0,
        le=2**32 - 1,
        description="Features that were folded into it, a count.",
        examples=[412],
    )


class IndexMessage(BaseModel):
    """What the index knew when it decided."""

    model_config = ConfigDict(**WIRE, title="index")

    documents: int = Field(
        ge=0, le=OFFSET_MAX, description="Originals in the index, a count.", examples=[1042]
    )
    log_offset: Offset = Field(
        description="Offset of the log's record that holds this document.", examples=[88]
    )
    horizon: Timestamp | None = Field(
        None,
        description="Originals last seen before this time have left the index, UTC. Left out: "
        "none has.",
        examples=["2024-04-01T00:00:00.000Z"],
    )


class SourceMessage(BaseModel):
    """The message that this answers."""

    model_config = ConfigDict(**WIRE, title="source")

    topic: Topic = Field(
        description="Its topic; in a run over files the file.", examples=["documents"]
    )
    partition: Partition = Field(description="Its partition, from 0.", examples=[3])
    offset: Offset = Field(
        description="Its offset; in a run over files the record's number.", examples=[7]
    )


class VerdictMessage(BaseModel):
    """
    The answer to one document: a pure function of the log before the document's first appearance.
    """

    model_config = ConfigDict(**WIRE, title="verdict")

    doc_id: DocId = Field(
        description="The document's doc_id, given or derived.", examples=["crawl-7/000123"]
    )
    url: Url | None = Field(
        None,
        description="The document's URL. Left out: a deletion.",
        examples=["https://example.org/print/news/1.html"],
    )
    fetched_at: Timestamp | None = Field(
        None,
        description="Time of the document's capture, UTC. Left out: a deletion.",
        examples=["2024-05-02T09:30:00.000Z"],
    )
    verdict: Literal["new", "duplicate", "skipped", "deleted"] = Field(
        description="new: an original from now on; duplicate: of duplicate_of; skipped: nothing "
        "in it to compare; "
        "deleted: the answer to a deletion.",
        examples=["duplicate"],
    )
    reason: str | None = Field(
        None,
        max_length=1_000,
        description="Why it was skipped, or what a deletion found, in kebab case.",
        examples=["empty"],
    )
    duplicate_of: DuplicateOfMessage | None = Field(
        None, description="The original. With the verdict duplicate, and only then."
    )
    former_version: FormerVersionMessage | None = Field(
        None,
        description="The page's version before this one. Left out: none is known, or its delivery "
        "was repeated.",
    )
    fingerprint: FingerprintMessage | None = Field(
        None, description="With new and duplicate; left out when there is none."
    )
    index: IndexMessage = Field(description="What the index knew when it decided.")
    source: SourceMessage = Field(description="The message that this answers.")
    decided_at: Timestamp = Field(
        description="Time stamp of the log's record, UTC: every worker says the same.",
        examples=["2024-05-02T09:30:01.250Z"],
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> VerdictMessage:
        if (self.duplicate_of is not None) != (self.verdict == "duplicate"):
            raise ValueError(
                f"duplicate_of belongs to the verdict duplicate, and only to it, got {self.verdict}"
            )
        if self.former_version is not None and self.verdict not in ("new", "duplicate"):
            raise ValueError(
                f"former_version belongs to the verdicts new and duplicate, got {self.verdict}"
            )
        if self.fingerprint is None and self.verdict in ("new", "duplicate"):
            raise ValueError(f"the verdict {self.verdict} needs a fingerprint")
        return self
