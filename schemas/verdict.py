"""
Topic `verdicts`: the one answer to each document; the key is the doc_id. A field without a value is left out.

A fingerprint is hex text, because JSON numbers lose bits above 2**53; 0000000000000000 is a fingerprint, not "none".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.fields import OFFSET_MAX, WIRE, DocId, Offset, Partition, Timestamp, Topic, Url

_HEX = r"^[0-9a-f]{16}$"
Hex64 = Annotated[str, Field(pattern=_HEX, min_length=16, max_length=16)]


class DuplicateOfMessage(BaseModel):
    """The original that a duplicate belongs to, and how close the two are."""

    model_config = ConfigDict(**WIRE, title="duplicate_of")

    doc_id: Annotated[DocId, Field(description="doc_id of the original.", examples=["crawl-7/000007"])]
    url: Annotated[Url, Field(description="URL of the original.", examples=["https://example.org/news/1.html"])]
    fetched_at: Annotated[
        Timestamp, Field(description="Time of the original's capture, UTC.", examples=["2024-05-01T12:00:00.500Z"])
    ]
    kind: Annotated[
        Literal["exact", "near"],
        Field(
            description="exact: the same tokens in the same order; near: by the search's rules.",
            examples=["near"],
        ),
    ]
    distance: Annotated[
        int, Field(ge=0, le=64, description="Hamming distance of the two fingerprints, in bits.", examples=[2])
    ]
    similarity: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            allow_inf_nan=False,
            description="Estimate of the Jaccard index of both texts' shingles (two tokens), 0 to 1; its standard "
            "error is about .035 at .75.",
            examples=[0.921],
        ),
    ]
    same_url: Annotated[
        bool, Field(description="True: the same URL captured again. False: a copy elsewhere.", examples=[False])
    ]
    found_by: Annotated[
        Literal["text", "directed", "exact"],
        Field(
            description="text: short texts, by their digest; directed: by fingerprint and doubts, with a second "
            "look; exact: everything within max_distance. The similarity confirms what is found.",
            examples=["directed"],
        ),
    ]


class FormerVersionMessage(BaseModel):
    """The original that had this document's URL, or its doc_id, before it, and how much has changed since."""

    model_config = ConfigDict(**WIRE, title="former_version")

    doc_id: Annotated[DocId, Field(description="doc_id of the former version.", examples=["crawl-6/000123"])]
    url: Annotated[Url, Field(description="Its URL.", examples=["https://example.org/news/1.html"])]
    fetched_at: Annotated[
        Timestamp, Field(description="Time of its capture, UTC.", examples=["2024-04-01T12:00:00.500Z"])
    ]
    changed: Annotated[
        Literal["not", "little", "much"],
        Field(
            description="not: the same tokens in the same order; little: one would be taken for the other; much: else.",
            examples=["little"],
        ),
    ]
    similarity: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            allow_inf_nan=False,
            examples=[0.914],
            description="As of a duplicate. Left out: a short text that is not equal.",
        ),
    ] = None


class FingerprintMessage(BaseModel):
    """The fingerprint and how it was made."""

    model_config = ConfigDict(**WIRE, title="fingerprint")

    value: Annotated[
        Hex64, Field(description="The 64 bits as 16 lower-case hex digits.", examples=["9f3a61c20b7d44e8"])
    ]
    scheme: Annotated[
        str, Field(min_length=1, max_length=128, description="Name of the way it is made.", examples=["neardup-1"])
    ]
    parameters: Annotated[
        Hex64, Field(description="Hash of the parameters, 16 lower-case hex digits.", examples=["5d1c0f9a3b7e2468"])
    ]
    features: Annotated[
        int, Field(ge=0, le=2**32 - 1, description="Features that were folded into it, a count.", examples=[412])
    ]


class IndexMessage(BaseModel):
    """What the index knew when it decided."""

    model_config = ConfigDict(**WIRE, title="index")

    documents: Annotated[
        int, Field(ge=0, le=OFFSET_MAX, description="Originals in the index, a count.", examples=[1042])
    ]
    log_offset: Annotated[
        Offset, Field(description="Offset of the log's record that holds this document.", examples=[88])
    ]
    horizon: Annotated[
        Timestamp | None,
        Field(
            description="Originals last seen before this time have left the index, UTC. Left out: none has.",
            examples=["2024-04-01T00:00:00.000Z"],
        ),
    ] = None


class SourceMessage(BaseModel):
    """The message that this answers."""

    model_config = ConfigDict(**WIRE, title="source")

    topic: Annotated[Topic, Field(description="Its topic; in a run over files the file.", examples=["documents"])]
    partition: Annotated[Partition, Field(description="Its partition, from 0.", examples=[3])]
    offset: Annotated[Offset, Field(description="Its offset; in a run over files the record's number.", examples=[7])]


class VerdictMessage(BaseModel):
    """The answer to one document: a pure function of the log before the document's first appearance."""

    model_config = ConfigDict(**WIRE, title="verdict")

    doc_id: Annotated[DocId, Field(description="The document's doc_id, given or derived.", examples=["crawl-7/000123"])]
    url: Annotated[
        Url | None,
        Field(
            description="The document's URL. Left out: a deletion.", examples=["https://example.org/print/news/1.html"]
        ),
    ] = None
    fetched_at: Annotated[
        Timestamp | None,
        Field(
            description="Time of the document's capture, UTC. Left out: a deletion.",
            examples=["2024-05-02T09:30:00.000Z"],
        ),
    ] = None
    verdict: Annotated[
        Literal["new", "duplicate", "skipped", "deleted"],
        Field(
            description="new: an original from now on; duplicate: of duplicate_of; skipped: nothing in it to compare; "
            "deleted: the answer to a deletion.",
            examples=["duplicate"],
        ),
    ]
    reason: Annotated[
        str | None,
        Field(
            max_length=1_000,
            description="Why it was skipped, or what a deletion found, in kebab case.",
            examples=["empty"],
        ),
    ] = None
    duplicate_of: Annotated[
        DuplicateOfMessage | None, Field(description="The original. With the verdict duplicate, and only then.")
    ] = None
    former_version: Annotated[
        FormerVersionMessage | None,
        Field(description="The page's version before this one. Left out: none is known, or its delivery was repeated."),
    ] = None
    fingerprint: Annotated[
        FingerprintMessage | None, Field(description="With new and duplicate; left out when there is none.")
    ] = None
    index: Annotated[IndexMessage, Field(description="What the index knew when it decided.")]
    source: Annotated[SourceMessage, Field(description="The message that this answers.")]
    decided_at: Annotated[
        Timestamp,
        Field(
            description="Time stamp of the log's record, UTC: every worker says the same.",
            examples=["2024-05-02T09:30:01.250Z"],
        ),
    ]

    @model_validator(mode="after")
    def _fields_agree(self) -> VerdictMessage:
        if (self.duplicate_of is not None) != (self.verdict == "duplicate"):
            raise ValueError(f"duplicate_of belongs to the verdict duplicate, and only to it, got {self.verdict}")
        if self.former_version is not None and self.verdict not in ("new", "duplicate"):
            raise ValueError(f"former_version belongs to the verdicts new and duplicate, got {self.verdict}")
        if self.fingerprint is None and self.verdict in ("new", "duplicate"):
            raise ValueError(f"the verdict {self.verdict} needs a fingerprint")
        return self
