"""
A verdict as a message of the topic `verdicts`, and back.

`schemas.verdict` defines the format; here it is a template, because every document gets one. A test holds the bytes to
the model's own.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic import ValidationError

from schemas.timestamp import format_timestamp, parse_timestamp
from schemas.verdict import VerdictMessage
from worker.core.verdict import Changed, DuplicateOf, FormerVersion, FoundBy, MatchKind, Original, Outcome, Verdict
from worker.errors import DocumentError


class Templates:
    """
    The verdicts of one record and partition as templates; what differs from row to row is filled in.

    Texts are filled in as they stand between JSON's quotes: see `inside`.
    """

    def __init__(
        self,
        scheme: str,
        parameters: str,
        log_offset: int,
        horizon_ms: int | None,
        topic: str,
        partition: int,
        decided_at_ms: int,
    ) -> None:
        named = b'"scheme":"%b","parameters":"%b"' % (inside(scheme), inside(parameters))
        horizon = b"" if horizon_ms is None else b',"horizon":"%b"' % format_timestamp(horizon_ms).encode()
        source = b'"source":{"topic":"%b","partition":%d,"offset":' % (inside(topic), partition)
        end = b'},"decided_at":"%b"}' % format_timestamp(decided_at_ms).encode()
        tail = b'"index":{"documents":%%d,"log_offset":%d%b},%b%%d%b' % (log_offset, horizon, _literal(source), end)
        head = b'{"doc_id":"%b","url":"%b","fetched_at":"%b","verdict":"%b"%b'
        # doc_id, url, time, outcome, reason, duplicate_of, former_version, fingerprint, features, documents, offset
        self.judged = head + b'%b%b,"fingerprint":{"value":"%016x",' + _literal(named) + b',"features":%d},' + tail
        self.skipped = head + b"," + tail  # doc_id, url, time, outcome, reason, documents, offset
        self.deleted = b'{"doc_id":"%b","verdict":"deleted"%b,' + tail  # doc_id, reason, documents, offset


REASON = b',"reason":"%b"'
DUPLICATE_OF = (  # doc_id, url, time, kind, distance, similarity, same_url, found_by
    b',"duplicate_of":{"doc_id":"%b","url":"%b","fetched_at":"%b","kind":"%b","distance":%d,"similarity":%b,'
    b'"same_url":%b,"found_by":"%b"}'
)
FORMER_VERSION = b',"former_version":{"doc_id":"%b","url":"%b","fetched_at":"%b","changed":"%b"%b}'
SIMILARITY = b',"similarity":%b'
_SPECIAL = re.compile(rb'[\x00-\x1f"\\\xed]')  # to be escaped, or the first byte of a surrogate


def inside(text: str) -> bytes:
    """Return a text as it stands between JSON's quotes; lone surrogates, which JSON cannot carry, become "?"."""
    try:
        return orjson.dumps(text)[1:-1]
    except TypeError:
        return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def insides(texts: list[bytes]) -> list[bytes]:
    """Return texts of the log as they stand between JSON's quotes. Cost: one search, where nothing is to be escaped."""
    if _SPECIAL.search(b"".join(texts)) is None:
        return texts
    return [inside(text.decode("utf-8", "surrogatepass")) if _SPECIAL.search(text) else text for text in texts]


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


def encode_verdict(verdict: Verdict) -> tuple[bytes, bytes]:
    """
    Return key and value of a verdict's message: the key is the doc_id, a field without a value is left out.

    Text with lone surrogates, which JSON cannot carry, is written with "?" in their place.

    Cost: O(size), 10 us; equal bytes for equal verdicts. `encode_answers` is for many.

    >>> deleted = Verdict("a", None, None, Outcome.DELETED, "removed", None, None, 0, "", "", 1, 7, None, "d", 0, 5, 0)
    >>> encode_verdict(deleted)[0], decode_verdict(encode_verdict(deleted)[1]) == deleted
    (b'a', True)
    """
    (
        doc_id, url, fetched_at_ms, outcome, reason, match, fingerprint, features, scheme, parameters,
        documents, log_offset, horizon_ms, topic, partition, offset, decided_at_ms, former,
    ) = verdict  # fmt: skip
    templates = Templates(scheme, parameters, log_offset, horizon_ms, topic, partition, decided_at_ms)
    key, why = doc_id.encode("utf-8", "replace"), b"" if reason is None else REASON % inside(reason)
    if url is None or fetched_at_ms is None:
        return key, templates.deleted % (inside(doc_id), why, documents, offset)
    head = inside(doc_id), inside(url), format_timestamp(fetched_at_ms).encode(), outcome.encode(), why
    if fingerprint is None:
        return key, templates.skipped % (*head, documents, offset)
    links = _duplicate_json(match), _former_json(former)
    return key, templates.judged % (*head, *links, fingerprint, features, documents, offset)


def _original_json(original: Original) -> tuple[bytes, bytes, bytes]:
    return inside(original.doc_id), inside(original.url), format_timestamp(original.fetched_at_ms).encode()


def _duplicate_json(match: DuplicateOf | None) -> bytes:
    if match is None:
        return b""
    original, kind, distance, similarity, same_url, found_by = match
    return DUPLICATE_OF % (
        *_original_json(original), kind.encode(), distance, orjson.dumps(similarity), orjson.dumps(same_url),
        found_by.encode(),
    )  # fmt: skip


def _former_json(former: FormerVersion | None) -> bytes:
    if former is None:
        return b""
    similarity = b"" if former.similarity is None else SIMILARITY % orjson.dumps(former.similarity)
    return FORMER_VERSION % (*_original_json(former.original), former.changed.encode(), similarity)


def decode_verdict(value: bytes) -> Verdict:
    """
    Read a message of the topic `verdicts`.

    Scheme, parameters and features stand with the fingerprint; without one they come back as "", "" and 0.

    Raises:
        DocumentError: code "invalid-verdict": the bytes are not a verdict.

    Cost: O(size), 10 us.

    >>> decode_verdict(b"{}")
    Traceback (most recent call last):
    worker.errors.DocumentError: invalid-verdict: not a verdict: doc_id: Field required
    """
    try:
        VerdictMessage.__pydantic_validator__.validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the value"
        raise DocumentError("invalid-verdict", f"not a verdict: {where}: {first['msg']}") from None
    fields = orjson.loads(value)
    fingerprint = fields.get("fingerprint") or {}
    index, source = fields["index"], fields["source"]
    return Verdict(
        doc_id=fields["doc_id"],
        url=fields.get("url"),
        fetched_at_ms=_optional_ms(fields.get("fetched_at")),
        outcome=Outcome(fields["verdict"]),
        reason=fields.get("reason"),
        duplicate_of=_duplicate_of(fields.get("duplicate_of")),
        fingerprint=int(fingerprint["value"], 16) if fingerprint else None,
        features=fingerprint.get("features", 0),
        scheme=fingerprint.get("scheme", ""),
        parameters=fingerprint.get("parameters", ""),
        index_documents=index["documents"],
        log_offset=index["log_offset"],
        horizon_ms=_optional_ms(index.get("horizon")),
        source_topic=source["topic"],
        source_partition=source["partition"],
        source_offset=source["offset"],
        decided_at_ms=parse_timestamp(fields["decided_at"]),
        former_version=_former_version(fields.get("former_version")),
    )


def _duplicate_of(fields: dict[str, Any] | None) -> DuplicateOf | None:
    if fields is None:
        return None
    return DuplicateOf(
        original=Original(fields["doc_id"], fields["url"], parse_timestamp(fields["fetched_at"])),
        kind=MatchKind(fields["kind"]),
        distance=fields["distance"],
        similarity=fields["similarity"],
        same_url=fields["same_url"],
        found_by=FoundBy(fields["found_by"]),
    )


def _former_version(fields: dict[str, Any] | None) -> FormerVersion | None:
    if fields is None:
        return None
    original = Original(fields["doc_id"], fields["url"], parse_timestamp(fields["fetched_at"]))
    return FormerVersion(original, Changed(fields["changed"]), fields.get("similarity"))


def _optional_ms(text: str | None) -> int | None:
    return None if text is None else parse_timestamp(text)
