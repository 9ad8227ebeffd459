"""
A verdict as a message of the topic `verdicts`, and back.

`schemas.verdict` defines the format; here it is written by hand, because every document gets one. A test holds the
bytes to the model's own.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from schemas.timestamp import format_timestamp, parse_timestamp
from schemas.verdict import VerdictMessage
from worker.core.verdict import Changed, DuplicateOf, FormerVersion, FoundBy, MatchKind, Original, Outcome, Verdict
from worker.errors import DocumentError

__all__ = ["decode_verdict", "encode_verdict"]


def encode_verdict(verdict: Verdict) -> tuple[bytes, bytes]:
    """
    Return key and value of a verdict's message: the key is the doc_id, a field without a value is left out.

    Text with lone surrogates, which JSON cannot carry, is written with "?" in their place.

    Cost: O(size), 2 us; equal bytes for equal verdicts.

    >>> deleted = Verdict("a", None, None, Outcome.DELETED, "removed", None, None, 0, "", "", 1, 7, None, "d", 0, 5, 0)
    >>> encode_verdict(deleted)[0], decode_verdict(encode_verdict(deleted)[1]) == deleted
    (b'a', True)
    """
    message = _fields(verdict)
    try:
        return verdict.doc_id.encode(), orjson.dumps(message)
    except (TypeError, UnicodeEncodeError):
        return verdict.doc_id.encode("utf-8", "replace"), orjson.dumps(_without_surrogates(message))


def _fields(verdict: Verdict) -> dict[str, Any]:
    """Lay a verdict out as on the wire, in the order of the model's fields."""
    (
        doc_id, url, fetched_at_ms, outcome, reason, original_of, fingerprint, features, scheme, parameters,
        index_documents, log_offset, horizon_ms, topic, partition, offset, decided_at_ms, former,
    ) = verdict  # fmt: skip
    message: dict[str, Any] = {"doc_id": doc_id}
    if url is not None:
        message["url"] = url
    if fetched_at_ms is not None:
        message["fetched_at"] = format_timestamp(fetched_at_ms)
    message["verdict"] = outcome
    if reason is not None:
        message["reason"] = reason
    if original_of is not None:
        original, kind, distance, similarity, same_url, found_by = original_of
        message["duplicate_of"] = {
            "doc_id": original.doc_id,
            "url": original.url,
            "fetched_at": format_timestamp(original.fetched_at_ms),
            "kind": kind,
            "distance": distance,
            "similarity": similarity,
            "same_url": same_url,
            "found_by": found_by,
        }
    if former is not None:
        message["former_version"] = {
            "doc_id": former.original.doc_id,
            "url": former.original.url,
            "fetched_at": format_timestamp(former.original.fetched_at_ms),
            "changed": former.changed,
        }
        if former.similarity is not None:
            message["former_version"]["similarity"] = former.similarity
    if fingerprint is not None:
        message["fingerprint"] = {
            "value": f"{fingerprint:016x}",
            "scheme": scheme,
            "parameters": parameters,
            "features": features,
        }
    index: dict[str, Any] = {"documents": index_documents, "log_offset": log_offset}
    if horizon_ms is not None:
        index["horizon"] = format_timestamp(horizon_ms)
    message["index"] = index
    message["source"] = {"topic": topic, "partition": partition, "offset": offset}
    message["decided_at"] = format_timestamp(decided_at_ms)
    return message


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


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {name: _without_surrogates(field) for name, field in value.items()}
        case _:
            return value
