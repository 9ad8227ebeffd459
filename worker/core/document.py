"""
The values that go in and come out: one captured page, and one verdict for each.

The shell makes a document from a message or an archive's record, the replica the verdict. A capture
is a URL at a time, so without a `doc_id` of its own a document gets one derived from both.

These are named tuples and not frozen dataclasses: as immutable, and made in a fifth of the time
(0.35 us against 1.7 us for 17 fields), which counts at one for every document.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

import xxhash

from worker.core.arguments import whole_number
from worker.errors import safe_repr

BODY_BYTES_MAX = 32 << 20  # limit of an archive's record; settings limit a message
# A row of the log carries it; a longer one would let one document fill a record.
DOC_ID_BYTES_MAX = 1_024
URL_BYTES_MAX = 8_192  # browsers and CDX servers stop at about this length
TEXT_CHARACTERS_MAX = 2**20  # a longer one is judged by its beginning
TEXT_CHARACTERS_LIMIT = 64 * 2**20  # the most that a definition may have in its place


class BodyKind(IntEnum):
    """How the body is to be read."""

    TEXT = 0  # str, already the text to fingerprint
    HTML = 1  # str, a page whose main content is extracted
    BYTES = 2  # bytes: content type and charset say what they are, else they are sniffed


class Document(NamedTuple):
    """
    One capture of a page.

    `body` is `str` for TEXT and HTML, `bytes` for BYTES. Times are Unix milliseconds, UTC.
    """

    doc_id: str
    url: str
    fetched_at_ms: int
    kind: BodyKind
    body: str | bytes
    content_type: str | None = None
    charset: str | None = None
    language: str | None = None


class Deletion(NamedTuple):
    """A request to forget the document with this doc_id. From here on it is no original."""

    doc_id: str


def derive_doc_id(url: str, fetched_at_ms: int) -> str:
    """
    Return the doc_id of a capture that brings none: XXH3-128 over its URL and time, 32 hex digits.

    Raises:
        TypeError: the URL is no text, or the time is no whole number: with 0.0 in place of 0 it
            would be the doc_id of no document.

    Cost: O(len(url)).

    >>> derive_doc_id("https://example.org/", 0)
    'f59cda302a3c635d0d8d5dc16a9f726f'
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be a text, got {safe_repr(url)}")
    fetched_at_ms = whole_number("fetched_at_ms", fetched_at_ms)
    return xxhash.xxh3_128_hexdigest(f"{url}\n{fetched_at_ms}".encode("utf-8", "surrogatepass"))


class Outcome(StrEnum):
    """The answer to one document."""

    NEW = "new"  # the search finds nothing before it in the log: it is an original from now on
    DUPLICATE = "duplicate"  # of the original that `duplicate_of` names
    SKIPPED = "skipped"  # nothing in it to compare; `reason` says why
    DELETED = "deleted"  # the answer to a deletion


FORWARDED = frozenset({Outcome.NEW, Outcome.DELETED})  # `topic_new` gets a message for these


class MatchKind(StrEnum):
    """How a duplicate equals its original."""

    EXACT = "exact"  # the same tokens in the same order; the markup may differ
    NEAR = "near"  # alike by the rules of the search


class FoundBy(StrEnum):
    """The way to the original."""

    TEXT = "text"  # short texts: the digest of the normalised text
    # Fingerprint and doubts: the likeliest prefixes, then the second look; then the sketch.
    DIRECTED = "directed"
    EXACT = "exact"  # fingerprint: everything within max_distance


class Original(NamedTuple):
    """
    A document that was new when it arrived, as verdicts name it.

    The time is in Unix milliseconds, UTC.
    """

    doc_id: str
    url: str
    fetched_at_ms: int


class DuplicateOf(NamedTuple):
    """
    The original that a duplicate belongs to, and how close the two are.

    `distance` is in bits; `similarity` estimates the Jaccard index of their phrases, 0 to 1 in
    thousandths, by their sketches. `same_url` is true for a re-crawl, and false for a copy
    elsewhere. `copies` counts the duplicates of the original so far, this one included; None in
    messages of older versions. `better_copy`: whether this document is the better copy of the two;
    None if the definition prefers none.
    """

    original: Original
    kind: MatchKind
    distance: int
    similarity: float
    same_url: bool
    found_by: FoundBy
    copies: int | None = None
    better_copy: bool | None = None


class Changed(StrEnum):
    """How much a new version of a page differs from the previous one."""

    NOT = "not"  # the same tokens in the same order
    LITTLE = "little"  # the search would take one for the other
    MUCH = "much"


class FormerVersion(NamedTuple):
    """
    The original that had this document's URL, or its doc_id, before it.

    `similarity` is estimated as for a duplicate.
    """

    original: Original
    changed: Changed
    similarity: float | None  # None for a short text, which is only tested for equality


class ApartReason(StrEnum):
    """Why a document is no duplicate of an original that is similar enough."""

    OTHER_PAGE = "other-page"  # two pages of one host, at other URLs and with other titles
    LIKE_OTHERS = "like-others"  # other originals are about as similar


class KeptApart(NamedTuple):
    """
    Why a document stays new although an original is similar enough.

    `doc_id` names the most similar original. `similarity` is estimated as for a duplicate.
    """

    doc_id: str
    reason: ApartReason
    similarity: float


class Verdict(NamedTuple):
    """
    The answer to one document: a pure function of the log before the document's first appearance.

    A field without a value is None; a fingerprint of 0 is a value. Times are Unix milliseconds,
    UTC.
    """

    doc_id: str
    url: str | None  # None: a deletion, which names a doc_id only
    fetched_at_ms: int | None  # None: a deletion
    outcome: Outcome
    reason: str | None  # kebab case; why a document was skipped, or what a deletion found
    duplicate_of: DuplicateOf | None  # with DUPLICATE, and only then
    fingerprint: int | None  # 64 bits; None: skipped or deleted
    features: int  # features that the fingerprint was folded from
    scheme: str  # how fingerprints are made, by name …
    parameters: str  # … and the 16 hex digits of the parameters' hash
    index_documents: int  # originals in the index when this was decided
    log_offset: int  # the record of the log that holds this document
    # Originals last seen before this time have left the index; None: none has.
    horizon_ms: int | None
    source_topic: str
    source_partition: int
    source_offset: int
    decided_at_ms: int  # the log's time stamp of that record, so that every replica says the same
    former_version: FormerVersion | None = None  # of a page that has been seen before
    kept_apart: KeptApart | None = None  # with NEW: an original was near enough by similarity

    @property
    def stays(self) -> bool:
        """Whether to keep the document: it is new, and was not kept before and then redelivered."""
        return self.outcome is Outcome.NEW and self.reason is None

    def __repr__(self) -> str:
        """Return the main fields in one line; `_asdict` has all of them."""
        told = self.reason or ""
        match = self.duplicate_of
        if match is not None:
            told = (
                f"of {match.original.doc_id!r}, {match.kind}, "
                f"{match.distance} bits, similarity {match.similarity}"
            )
        return f"<Verdict {self.doc_id!r}: {self.outcome}{told and f' ({told})'}>"
