"""
Topic `verdicts`: one message per document, keyed by its doc_id.

A field without a value is left out. A fingerprint is hexadecimal text, because many JSON readers
lose the bits of a number above 2**53. 0000000000000000 is a fingerprint like any other.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.fields import OFFSET_MAX, WIRE, DocId, Offset, Partition, Timestamp, Topic, Url

_HEX = r"^[0-9a-f]{16}$"
Similarity = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Hex64 = Annotated[str, Field(pattern=_HEX, min_length=16, max_length=16)]


class DuplicateOfMessage(BaseModel):
    """The original that the document duplicates, and how close the two are."""

    model_config = ConfigDict(**WIRE, title="duplicate_of")

    doc_id: DocId = Field(description="doc_id of the original.", examples=["crawl-7/000007"])
    url: Url = Field(
        description="URL of the original.", examples=["https://example.org/news/1.html"]
    )
    fetched_at: Timestamp = Field(
        description="When the original was captured, UTC.", examples=["2024-05-01T12:00:00.500Z"]
    )
    kind: Literal["exact", "near"] = Field(
        description="exact: both texts have the same tokens in the same order. near: their "
        "fingerprints and sketches are close enough.",
        examples=["near"],
    )
    distance: int = Field(
        ge=0, le=64, description="Hamming distance of the two fingerprints, in bits.", examples=[2]
    )
    similarity: Similarity = Field(
        description="Estimated Jaccard index of the two texts' phrases, 0 to 1. A phrase has "
        "four tokens, or three if it begins with a token that is a single character; numbers count "
        "more. The standard error is .02 to .035 at .6. If one word of a short text was replaced, "
        "it is at least .54.",
        examples=[0.921],
    )
    same_url: bool = Field(
        description="true: the same URL was captured again. false: the copy is elsewhere.",
        examples=[False],
    )
    found_by: Literal["text", "directed", "exact"] = Field(
        description="How the original was found. text: by the digest of a short text. directed: "
        "by looking up the fingerprint with its most doubtful bits flipped. exact: by a search "
        "for all fingerprints within max_distance. The similarity then confirms a near duplicate.",
        examples=["directed"],
    )
    copies: int | None = Field(
        None,
        ge=1,
        le=2**32 - 1,
        description="How many documents have been judged duplicates of this original so far, this "
        "one included. One that is delivered or crawled again counts again. The count ends with "
        "the original. Messages of older versions lack it.",
        examples=[17],
    )
    better_copy: bool | None = Field(
        None,
        description="true: this document is a better copy than the original, by the setting "
        "preferred_copies: its host is preferred, or it was fetched earlier. The original stays "
        "the same. Left out without that setting.",
        examples=[True],
    )


class KeptApartMessage(BaseModel):
    """Why a document stays new although an original is similar enough."""

    model_config = ConfigDict(**WIRE, title="kept_apart")

    doc_id: DocId = Field(
        description="The most similar original; of a short text, the first one with this text.",
        examples=["crawl-7/000123"],
    )
    reason: Literal["other-page", "like-others"] = Field(
        description="other-page: the most similar original is another page of the same host, at "
        "another URL and with another title. Such pages are copies only if nearly all of their "
        "text is the same, and that is more than a few sentences. like-others: the document does "
        "not stand out, because other originals are about as similar.",
        examples=["other-page"],
    )
    similarity: Similarity = Field(
        description="As in duplicate_of, to that original.", examples=[0.711]
    )


class FormerVersionMessage(BaseModel):
    """The last original with the same URL or doc_id, and how much has changed since."""

    model_config = ConfigDict(**WIRE, title="former_version")

    doc_id: DocId = Field(description="doc_id of the former version.", examples=["crawl-6/000123"])
    url: Url = Field(description="Its URL.", examples=["https://example.org/news/1.html"])
    fetched_at: Timestamp = Field(
        description="When it was captured, UTC.", examples=["2024-04-01T12:00:00.500Z"]
    )
    changed: Literal["not", "little", "much"] = Field(
        description="not: the same tokens in the same order. little: close enough to count as a "
        "duplicate. much: anything else.",
        examples=["little"],
    )
    similarity: Similarity | None = Field(
        None,
        description="As in duplicate_of. Left out if a short text has changed, because short "
        "texts have no sketch.",
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
        description="Name of the fingerprint scheme.",
        examples=["simhash64-6-unicode-18.0.0"],
    )
    parameters: Hex64 = Field(
        description="Hash of the scheme's parameters, as 16 lower-case hex digits.",
        examples=["5d1c0f9a3b7e2468"],
    )
    features: int = Field(
        ge=0,
        le=2**32 - 1,
        description="Number of features that were folded into it.",
        examples=[412],
    )


class IndexMessage(BaseModel):
    """What the index held when the verdict was decided."""

    model_config = ConfigDict(**WIRE, title="index")

    documents: int = Field(
        ge=0, le=OFFSET_MAX, description="Number of originals in the index.", examples=[1042]
    )
    log_offset: Offset = Field(
        description="Offset of the log's record that holds this document.", examples=[88]
    )
    horizon: Timestamp | None = Field(
        None,
        description="Originals last seen before this time have left the index, UTC. Left out "
        "while none has.",
        examples=["2024-04-01T00:00:00.000Z"],
    )


class SourceMessage(BaseModel):
    """The message that this verdict answers."""

    model_config = ConfigDict(**WIRE, title="source")

    topic: Topic = Field(
        description="Its topic; in a run over files, the file's name.", examples=["documents"]
    )
    partition: Partition = Field(description="Its partition, from 0.", examples=[3])
    offset: Offset = Field(
        description="Its offset; in a run over files, the record's number.", examples=[7]
    )


class VerdictMessage(BaseModel):
    """The answer to one document. Only the log up to its first appearance decides it."""

    model_config = ConfigDict(**WIRE, title="verdict")

    doc_id: DocId = Field(
        description="The document's doc_id, given or derived.", examples=["crawl-7/000123"]
    )
    url: Url | None = Field(
        None,
        description="The document's URL. Left out for a deletion.",
        examples=["https://example.org/print/news/1.html"],
    )
    fetched_at: Timestamp | None = Field(
        None,
        description="When the document was captured, UTC. Left out for a deletion.",
        examples=["2024-05-02T09:30:00.000Z"],
    )
    verdict: Literal["new", "duplicate", "skipped", "deleted"] = Field(
        description="new: the document duplicates nothing and is an original from now on. "
        "duplicate: it duplicates the original in duplicate_of. skipped: it has nothing to "
        "compare. deleted: the answer to a deletion.",
        examples=["duplicate"],
    )
    reason: str | None = Field(
        None,
        max_length=1_000,
        description="Why it was skipped, or what the deletion found, in kebab-case.",
        examples=["empty"],
    )
    duplicate_of: DuplicateOfMessage | None = Field(
        None, description="The original. Only with the verdict duplicate."
    )
    kept_apart: KeptApartMessage | None = Field(
        None,
        description="Why it is new although an original is similar enough. Left out if none is, or "
        "if this same document was delivered before.",
    )
    former_version: FormerVersionMessage | None = Field(
        None,
        description="The version of the page before this one. Left out if none is known, or if "
        "this same document was delivered before.",
    )
    fingerprint: FingerprintMessage | None = Field(
        None, description="Only with the verdicts new and duplicate."
    )
    index: IndexMessage = Field(description="What the index held when the verdict was decided.")
    source: SourceMessage = Field(description="The message that this verdict answers.")
    decided_at: Timestamp = Field(
        description="Time stamp of the log's record, UTC; the same on every worker.",
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
        if self.kept_apart is not None and self.verdict != "new":
            raise ValueError(f"kept_apart belongs to the verdict new, got {self.verdict}")
        if self.fingerprint is None and self.verdict in ("new", "duplicate"):
            raise ValueError(f"the verdict {self.verdict} needs a fingerprint")
        return self
