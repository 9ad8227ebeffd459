"""
A verdict as a message of the topic `verdicts`: a batch of judged rows in, bytes out; and back.

`schemas.verdict` defines the format. `encode_answers` fills a template from columns, because every
document gets a verdict; tests hold its bytes to the model's own. Who wants an object decodes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError

from schemas.fields import format_timestamp, parse_timestamp
from schemas.verdict import VerdictMessage
from worker.core.document import (
    Changed,
    DuplicateOf,
    FormerVersion,
    FoundBy,
    MatchKind,
    Original,
    Outcome,
    Verdict,
)
from worker.core.search import SearchRules, looks
from worker.core.sketch import sketch_similarities
from worker.errors import DocumentError, check_type
from worker.log.judge import REASONS, JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.log.rules import Definition

_REASON = b',"reason":"%b"'
_DUPLICATE_OF = (  # doc_id, url, time, kind, distance, similarity, same_url, found_by
    b',"duplicate_of":{"doc_id":"%b","url":"%b","fetched_at":"%b","kind":"%b",'
    b'"distance":%d,"similarity":%b,'
    b'"same_url":%b,"found_by":"%b"}'
)
_FORMER_VERSION = b',"former_version":{"doc_id":"%b","url":"%b","fetched_at":"%b","changed":"%b"%b}'
_SIMILARITY = b',"similarity":%b'
_SPECIAL = re.compile(rb'[\x00-\x1f"\\\xed]')  # to be escaped, or the first byte of a surrogate
_SIMILARITIES = tuple(b"%r" % (thousandths / 1_000) for thousandths in range(1_001))
_KINDS = MatchKind.NEAR.encode(), MatchKind.EXACT.encode()
_FOUND_BY = {found_by: found_by.encode() for found_by in FoundBy}
_REASONS = {
    code: b"" if reason is None else _REASON % reason.encode() for code, reason in REASONS.items()
}
_JSON_BOOLEANS = b"false", b"true"
# Bound once: an attribute of an enum costs as much as a tuple.
_NEW, _DUPLICATE, _SKIPPED, _DELETED = Outcome
_VALUES = {outcome: outcome.encode() for outcome in Outcome}
_MILLISECONDS = np.dtype("M8[ms]")
_NONE: Mapping[str, Any] = {}
_JUDGED = frozenset({int(RowKind.FULL), int(RowKind.SHORT)})


class VerdictBytes(NamedTuple):
    """A verdict as a message."""

    key: bytes
    value: bytes
    outcome: Outcome


def _templates(
    rows: JudgedRows, definition: Definition, topic: str, partition: int
) -> tuple[bytes, bytes, bytes]:
    """
    Return the verdicts of one record and partition on rows that are judged, skipped, deleted.

    What differs from row to row is filled in, texts as `_inside`:
    judged: doc_id, url, time, outcome, reason, duplicate_of, former_version, fingerprint, features,
    documents, offset
    skipped: doc_id, url, time, outcome, reason, documents, offset
    deleted: doc_id, reason, documents, offset
    """
    horizon_ms = rows.judged.horizon_ms
    horizon = (
        b"" if horizon_ms is None else b',"horizon":"%b"' % format_timestamp(horizon_ms).encode()
    )
    names = [
        _inside(text).replace(b"%", b"%%")
        for text in (definition.scheme, definition.parameters, topic)
    ]
    end = b'},"decided_at":"%b"}' % format_timestamp(rows.timestamp_ms).encode()
    tail = (
        b'"index":{"documents":%%d,"log_offset":%d%b},'
        b'"source":{"topic":"%b","partition":%d,"offset":%%d%b'
    ) % (
        rows.log_offset, horizon, names[2], partition, end,
    )  # fmt: skip
    head = b'{"doc_id":"%b","url":"%b","fetched_at":"%b","verdict":"%b"%b'
    made = b'"fingerprint":{"value":"%%016x","scheme":"%b","parameters":"%b","features":%%d},' % (
        names[0],
        names[1],
    )
    return (
        head + b"%b%b," + made + tail,
        head + b"," + tail,
        b'{"doc_id":"%b","verdict":"deleted"%b,' + tail,
    )


def _inside(text: str) -> bytes:
    """
    Return a text as it is written between JSON's quotes.

    Lone surrogates, which JSON cannot carry, become "?".
    """
    try:
        return orjson.dumps(text)[1:-1]
    except TypeError:
        return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def _insides(texts: list[bytes]) -> list[bytes]:
    """
    Return texts of the log as they are written between JSON's quotes.

    Cost: one search if nothing has to be escaped.
    """
    if _SPECIAL.search(b"".join(texts)) is None:
        return texts
    return [
        _inside(text.decode("utf-8", "surrogatepass")) if _SPECIAL.search(text) else text
        for text in texts
    ]


def _times(times_ms: NDArray[np.int64]) -> list[bytes]:
    times: list[bytes] = (
        np.datetime_as_string(times_ms.view(_MILLISECONDS), timezone="UTC")
        .astype(np.bytes_)
        .tolist()
    )
    return times


def encode_answers(
    rows: JudgedRows, held: OriginalStore, definition: Definition, partition: int, topic: str
) -> list[VerdictBytes | DocumentError]:
    """
    Return the message of each row's verdict, or why there is none.

    Args:
        held: all documents that were new, by row.
        partition, topic: of the source; the log does not carry the topic's name.

    Cost: 2 µs per row.
    """
    to_judged, to_skipped, to_deleted = _templates(rows, definition, topic, partition)
    duplicates, versions = (
        write(rows, held, definition.search) for write in (_duplicates, _versions)
    )
    _, record, first, stop, judged, _, _ = rows
    keys, urls, notes = (
        texts[first:stop].tolist() for texts in (record.doc_ids, record.urls, record.notes)
    )
    ids = _insides(keys)
    times = _times(record.fetched_at_ms[first:stop])
    if ids is not keys:
        keys = [key.decode("utf-8", "surrogatepass").encode("utf-8", "replace") for key in keys]
    answers: list[VerdictBytes | DocumentError] = []
    numbers = (  # as lists: taken out of an array one by one each costs 0.1 µs
        column[first:stop].tolist()
        for column in (record.kinds, record.fingerprints, record.features, record.offsets)
    )
    found = judged.remarks.tolist(), judged.documents.tolist()
    columns = zip(
        range(len(keys)), keys, ids, _insides(urls), times, notes, *numbers, *found, strict=True
    )
    for (
        place,
        key,
        doc_id,
        url,
        time,
        note,
        kind,
        fingerprint,
        features,
        offset,
        remark,
        documents,
    ) in columns:
        if kind in _JUDGED:
            match = duplicates.get(place, b"")
            outcome = _DUPLICATE if match else _NEW
            value = to_judged % (
                doc_id, url, time, _VALUES[outcome], _REASONS[remark], match,
                versions.get(place, b""), fingerprint, features, documents, offset,
            )  # fmt: skip
            answers.append(VerdictBytes(key, value, outcome))
        elif kind == RowKind.SKIPPED:
            why = _REASON % _inside(note.decode("utf-8", "surrogatepass"))
            value = to_skipped % (doc_id, url, time, _VALUES[_SKIPPED], why, documents, offset)
            answers.append(VerdictBytes(key, value, _SKIPPED))
        elif kind == RowKind.DELETED:
            value = to_deleted % (doc_id, _REASONS[remark], documents, offset)
            answers.append(VerdictBytes(key, value, _DELETED))
        else:
            answers.append(DocumentError.parse(note.decode("utf-8", "surrogatepass")))
    return answers


def _duplicates(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> dict[int, bytes]:
    """Return `duplicate_of` of each duplicate, by its place."""
    _, record, first, stop, judged, _, _ = rows
    is_text = record.kinds[first:stop] == RowKind.SHORT
    places = np.flatnonzero(
        (is_text | (record.kinds[first:stop] == RowKind.FULL)) & (judged.originals >= 0)
    )
    if not len(places):
        return {}
    mine = first + places
    originals = judged.originals[places]
    distances = judged.distances[places]
    is_exact = distances == 0
    is_exact[is_exact] = held.digests.take(originals[is_exact]) == record.digests[mine][is_exact]
    columns = zip(
        places.tolist(), _originals(held, originals), record.urls.take(mine).tolist(),
        distances.tolist(), judged.similarities[places].tolist(), is_exact.tolist(),
        is_text[places].tolist(), strict=True,
    )  # fmt: skip
    found_by = FoundBy(search.mode)
    return {
        place: _DUPLICATE_OF % (
            doc_id, url, time, _KINDS[exact], distance, _SIMILARITIES[thousandths],
            _JSON_BOOLEANS[raw == own], _FOUND_BY[FoundBy.TEXT if text else found_by],
        )
        for place, (doc_id, url, time, raw), own, distance, thousandths, exact, text in columns
    }  # fmt: skip


def _versions(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> dict[int, bytes]:
    """Return `former_version` of each row that has one, by its place."""
    places = np.flatnonzero(rows.judged.formers >= 0)
    if not len(places):
        return {}
    record = rows.record
    former = rows.judged.formers[places]
    mine = rows.first + places
    differ = record.fingerprints[mine] ^ held.fingerprints.take(former)
    kinds = held.kinds.take(former)
    alike = sketch_similarities(record.sketches[mine], held.sketches.take(former))
    is_same = (held.digests.take(former) == record.digests[mine]) & (kinds == record.kinds[mine])
    is_full = (kinds == RowKind.FULL) & (record.kinds[mine] == RowKind.FULL)
    is_near = (
        is_full
        & (np.bitwise_count(differ) <= search.max_distance)
        & (alike >= search.similarity_thousandths)
    )
    if search.mode == "directed":
        is_near &= looks(differ, record.doubts[mine], held.doubts.take(former)) >= search.look_min
    alike[is_same] = 1_000
    changed = np.where(
        is_same, Changed.NOT, np.where(is_near, Changed.LITTLE, Changed.MUCH)
    ).tolist()
    known = (is_full | is_same).tolist()  # of another short text nothing but equality is known
    columns = zip(
        places.tolist(), _originals(held, former), changed, alike.tolist(), known, strict=True
    )
    return {
        place: _FORMER_VERSION % (
            doc_id, url, time, how.encode(), _SIMILARITY % _SIMILARITIES[parts] if is_known else b""
        )
        for place, (doc_id, url, time, _), how, parts, is_known in columns
    }  # fmt: skip


def _originals(
    held: OriginalStore, rows: NDArray[np.int64]
) -> Iterable[tuple[bytes, bytes, bytes, bytes]]:
    """Return doc_id, URL and time of these originals as JSON has them, and the URL as it is."""
    ids, urls = (texts.tolist() for texts in held.texts.take(rows))
    return zip(_insides(ids), _insides(urls), _times(held.times.take(rows)), urls, strict=True)


def encode_verdict(verdict: Verdict) -> tuple[bytes, bytes]:
    """
    Return key and value of a verdict's message. The key is the doc_id; a field without a value is
    left out.

    Text with lone surrogates, which JSON cannot carry, is written with "?" in their place.

    Raises TypeError: it is no verdict.

    Cost: O(size), 10 us; equal bytes for equal verdicts. `encode_answers` is for many.

    >>> who = "a", None, None, Outcome.DELETED, "removed", None, None
    >>> deleted = Verdict(*who, 0, "", "", 1, 7, None, "d", 0, 5, 0)
    >>> encode_verdict(deleted)[0], decode_verdict(encode_verdict(deleted)[1]) == deleted
    (b'a', True)
    """
    check_type("verdict", verdict, Verdict)
    match = verdict.duplicate_of
    former = verdict.former_version
    value = verdict.fingerprint
    fields = _without_none(
        doc_id=verdict.doc_id,
        url=verdict.url,
        fetched_at=_time(verdict.fetched_at_ms),
        verdict=verdict.outcome,
        reason=verdict.reason,
        duplicate_of=match and _fields_of(**match._asdict()),
        former_version=former and _fields_of(**former._asdict()),
        fingerprint=None if value is None else {
            "value": f"{value:016x}", "scheme": verdict.scheme, "parameters": verdict.parameters,
            "features": verdict.features,
        },
        index=_without_none(
            documents=verdict.index_documents,
            log_offset=verdict.log_offset,
            horizon=_time(verdict.horizon_ms),
        ),
        source={
            "topic": verdict.source_topic,
            "partition": verdict.source_partition,
            "offset": verdict.source_offset,
        },
        decided_at=_time(verdict.decided_at_ms),
    )  # fmt: skip
    try:
        message = orjson.dumps(fields)
    except TypeError:  # lone surrogates
        message = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
    return verdict.doc_id.encode("utf-8", "replace"), message


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _fields_of(original: Original, **more: Any) -> dict[str, Any]:
    time = _time(original.fetched_at_ms)
    return _without_none(doc_id=original.doc_id, url=original.url, fetched_at=time, **more)


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_timestamp(time_ms)


def decode_verdict(value: bytes) -> Verdict:
    """
    Read a message of the topic `verdicts`.

    Scheme, parameters and features stand with the fingerprint; without one they come back as "", ""
    and 0.

    Raises:
        DocumentError: code "invalid-verdict": the bytes are not a verdict.

    Cost: O(size), 10 us.

    >>> decode_verdict(b"{}")
    Traceback (most recent call last):
    worker.errors.DocumentError: invalid-verdict: not a verdict: doc_id: Field required
    """
    try:
        message = VerdictMessage.model_validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the value"
        raise DocumentError("invalid-verdict", f"not a verdict: {where}: {first['msg']}") from None
    return _verdict(message.model_dump())


def read_verdict(value: bytes) -> Verdict:
    """Return what `encode_answers` wrote, unchecked: 4 us, a third of `decode_verdict`."""
    return _verdict(orjson.loads(value))


def _verdict(fields: Mapping[str, Any]) -> Verdict:
    """Return a verdict of its message's fields."""
    match = fields.get("duplicate_of")
    former = fields.get("former_version")
    made = fields.get("fingerprint") or _NONE
    index = fields["index"]
    source = fields["source"]
    value = made.get("value")
    return Verdict(
        doc_id=fields["doc_id"],
        url=fields.get("url"),
        fetched_at_ms=_ms(fields.get("fetched_at")),
        outcome=Outcome(fields["verdict"]),
        reason=fields.get("reason"),
        duplicate_of=None if match is None else DuplicateOf(
            _original(match), MatchKind(match["kind"]), match["distance"], match["similarity"],
            match["same_url"], FoundBy(match["found_by"]),
        ),
        fingerprint=None if value is None else int(value, 16),
        features=made.get("features", 0),
        scheme=made.get("scheme", ""),
        parameters=made.get("parameters", ""),
        index_documents=index["documents"],
        log_offset=index["log_offset"],
        horizon_ms=_ms(index.get("horizon")),
        source_topic=source["topic"],
        source_partition=source["partition"],
        source_offset=source["offset"],
        decided_at_ms=parse_timestamp(fields["decided_at"]),
        former_version=None if former is None else FormerVersion(
            _original(former), Changed(former["changed"]), former.get("similarity")
        ),
    )  # fmt: skip


def _original(fields: Mapping[str, Any]) -> Original:
    return Original(fields["doc_id"], fields["url"], parse_timestamp(fields["fetched_at"]))


def _ms(time: str | None) -> int | None:
    return None if time is None else parse_timestamp(time)
