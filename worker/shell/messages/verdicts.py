"""
A verdict as a message of the topic `verdicts`: a batch of judged rows in, bytes out; and back.

`schemas.verdict` defines the format. `encode_answers` fills a template from columns, because every
document gets a verdict; tests check its bytes against the model's. Code that needs an object
decodes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
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
from worker.log.judge import REASONS, JudgedRows, Judgements
from worker.log.originals import OriginalStore
from worker.log.record import RowKind, Rows
from worker.log.rules import Definition
from worker.log.texts import Texts
from worker.shell.messages.json_columns import (
    Chosen,
    decimals,
    equal,
    filled,
    hexadecimals,
    inside,
    insides,
    spread,
    timestamps,
)

_REASON = b',"reason":"%b"'
# FIELD stands where a column is filled in. doc_id, url, time, kind, distance, similarity, same_url,
# found_by:
_DUPLICATE_OF = (
    b',"duplicate_of":{"doc_id":"\0","url":"\0","fetched_at":"\0","kind":"\0",'
    b'"distance":\0,"similarity":\0,'
    b'"same_url":\0,"found_by":"\0"}'
)
# doc_id, url, time, changed, similarity or nothing:
_FORMER_VERSION = b',"former_version":{"doc_id":"\0","url":"\0","fetched_at":"\0","changed":"\0"\0}'
_THOUSANDTHS = [b"%r" % (thousandths / 1_000) for thousandths in range(1_001)]
_SIMILARITIES = Texts.of(_THOUSANDTHS)
_NO_SIMILARITY = len(_THOUSANDTHS)
_OF_A_FORMER = Texts.of([*(b',"similarity":%b' % number for number in _THOUSANDTHS), b""])
_KINDS = Texts.of([MatchKind.NEAR.encode(), MatchKind.EXACT.encode()])
_REASONS = Texts.of(
    [b"" if reason is None else _REASON % reason.encode() for _, reason in sorted(REASONS.items())]
)
_JSON_BOOLEANS = Texts.of([b"false", b"true"])
_CHANGES = (Changed.NOT, Changed.LITTLE, Changed.MUCH)
_CHANGE_WORDS = Texts.of([change.encode() for change in _CHANGES])
# Bound once: an attribute of an enum costs as much as a tuple.
_NEW, _DUPLICATE, _SKIPPED, _DELETED = Outcome
_OF_ORIGINAL = (_NEW, _DUPLICATE)  # by whether there is one
_OUTCOME_WORDS = Texts.of([outcome.encode() for outcome in _OF_ORIGINAL])
_NONE: Mapping[str, Any] = {}


class VerdictBytes(NamedTuple):
    """A verdict as a message."""

    key: bytes
    value: bytes
    outcome: Outcome


# `VerdictBytes._make` in three quarters of the time: there is one for every document.
_verdict_bytes = partial(tuple.__new__, VerdictBytes)


class _Templates(NamedTuple):
    """
    The verdicts of one record and partition; at each FIELD a column is filled in:

    judged: doc_id, url, time, outcome, reason, duplicate_of, former_version, fingerprint, features,
    documents, offset
    skipped: doc_id, url, time, reason, documents, offset
    deleted: doc_id, reason, documents, offset
    """

    judged: bytes
    skipped: bytes
    deleted: bytes

    @classmethod
    def of(cls, rows: JudgedRows, definition: Definition, topic: str, partition: int) -> _Templates:
        """Return the templates of these rows' record."""
        horizon_ms = rows.judged.horizon_ms
        horizon = ""
        if horizon_ms is not None:
            horizon = f',"horizon":"{format_timestamp(horizon_ms)}"'
        tail = (
            f'"index":{{"documents":\0,"log_offset":{rows.log_offset}{horizon}}},'
            f'"source":{{"topic":"{_name(topic)}","partition":{partition},"offset":\0}},'
            f'"decided_at":"{format_timestamp(rows.timestamp_ms)}"}}'
        )
        made = (
            f'"fingerprint":{{"value":"\0","scheme":"{_name(definition.scheme)}",'
            f'"parameters":"{_name(definition.parameters)}","features":\0}},'
        )
        head = '{"doc_id":"\0","url":"\0","fetched_at":"\0","verdict":"'
        return cls(
            judged=f'{head}\0"\0\0\0,{made}{tail}'.encode(),
            skipped=f'{head}skipped"\0,{tail}'.encode(),
            deleted=f'{{"doc_id":"\0","verdict":"deleted"\0,{tail}'.encode(),
        )


def _name(text: str) -> str:
    return inside(text).decode()


class _Columns(NamedTuple):
    """The chosen rows of a record, with the judge's results."""

    rows: Rows
    doc_ids: Texts  # as JSON has them
    urls: Texts
    judged: Judgements

    @classmethod
    def at(cls, rows: JudgedRows, places: NDArray[np.int64]) -> _Columns:
        """Return the rows at these places, which ascend. Copies nothing if these are all."""
        judged = rows.judged
        chosen_rows = rows.record.between(rows.first, rows.stop)
        if len(places) < len(chosen_rows):
            chosen_rows = chosen_rows.take(places)
            judged = judged.take(places)
        return cls(chosen_rows, insides(chosen_rows.doc_ids), insides(chosen_rows.urls), judged)

    def keys(self) -> list[bytes]:
        """Return the key of each message: its doc_id."""
        keys = self.rows.doc_ids.tolist()
        if self.doc_ids is self.rows.doc_ids:
            return keys
        return [key.decode("utf-8", "surrogatepass").encode("utf-8", "replace") for key in keys]

    def messages(self, values: Texts, outcomes: Iterable[Outcome]) -> list[VerdictBytes]:
        """Return these values as messages."""
        return list(map(_verdict_bytes, zip(self.keys(), values.tolist(), outcomes, strict=False)))


def encode_answers(
    rows: JudgedRows, held: OriginalStore, definition: Definition, partition: int, topic: str
) -> list[VerdictBytes | DocumentError]:
    """
    Return the message of each row's verdict, or why there is none.

    Args:
        held: all documents that were new, by row.
        partition, topic: the source. The log does not have the topic's name.

    Cost: 1.2 µs per row.
    """
    templates = _Templates.of(rows, definition, topic, partition)
    kinds = rows.record.kinds[rows.first : rows.stop]
    groups: tuple[tuple[NDArray[np.bool_], _Writer], ...] = (
        (
            (kinds == RowKind.FULL) | (kinds == RowKind.SHORT),
            partial(_judged, held=held, search=definition.search, template=templates.judged),
        ),
        (kinds == RowKind.SKIPPED, partial(_skipped, template=templates.skipped)),
        (kinds == RowKind.DELETED, partial(_deleted, template=templates.deleted)),
        (kinds == RowKind.DEAD, _dead),
    )
    answers: dict[int, VerdictBytes | DocumentError] = {}
    for is_chosen, write in groups:
        places = np.flatnonzero(is_chosen)
        if len(places) == len(kinds):  # nearly always: every row is judged
            return list(write(_Columns.at(rows, places)))
        if len(places):
            answers.update(zip(places.tolist(), write(_Columns.at(rows, places)), strict=True))
    return [answers[place] for place in range(len(kinds))]


_Answers = Sequence[VerdictBytes | DocumentError]
_Writer = Callable[[_Columns], _Answers]


def _judged(
    columns: _Columns, held: OriginalStore, search: SearchRules, template: bytes
) -> _Answers:
    rows = columns.rows
    judged = columns.judged
    is_duplicate = judged.originals >= 0
    values = filled(
        template,
        [
            columns.doc_ids,
            columns.urls,
            timestamps(rows.fetched_at_ms),
            Chosen(_OUTCOME_WORDS, is_duplicate),
            Chosen(_REASONS, judged.remarks),
            _duplicates(columns, held, search),
            _versions(columns, held, search),
            hexadecimals(rows.fingerprints),
            decimals(rows.features),
            decimals(judged.documents),
            decimals(rows.offsets),
        ],
    )
    return columns.messages(values, [_OF_ORIGINAL[found] for found in is_duplicate.tolist()])


def _skipped(columns: _Columns, template: bytes) -> _Answers:
    rows = columns.rows
    notes = [_REASON % note for note in insides(rows.notes).tolist()]
    values = filled(
        template,
        [
            columns.doc_ids,
            columns.urls,
            timestamps(rows.fetched_at_ms),
            Texts.of(notes),
            decimals(columns.judged.documents),
            decimals(rows.offsets),
        ],
    )
    return columns.messages(values, repeat(_SKIPPED))


def _deleted(columns: _Columns, template: bytes) -> _Answers:
    reasons = Chosen(_REASONS, columns.judged.remarks)
    documents = decimals(columns.judged.documents)
    offsets = decimals(columns.rows.offsets)
    values = filled(template, [columns.doc_ids, reasons, documents, offsets])
    return columns.messages(values, repeat(_DELETED))


def _dead(columns: _Columns) -> _Answers:
    notes = columns.rows.notes.tolist()
    return [DocumentError.parse(note.decode("utf-8", "surrogatepass")) for note in notes]


def _duplicates(columns: _Columns, held: OriginalStore, search: SearchRules) -> Texts:
    """Return `duplicate_of` of each row, empty where there is none."""
    judged = columns.judged
    places = np.flatnonzero(judged.originals >= 0)
    if not len(places):
        return spread(Texts.of([]), places, len(judged.originals))
    rows = columns.rows
    originals = judged.originals[places]
    is_exact = judged.distances[places] == 0
    is_exact[is_exact] = held.digests.take(originals[is_exact]) == rows.digests[places[is_exact]]
    doc_ids, urls = held.texts.take(originals)
    found_by = Texts.of([FoundBy(search.mode).encode(), FoundBy.TEXT.encode()])
    texts = filled(
        _DUPLICATE_OF,
        [
            insides(doc_ids),
            insides(urls),
            timestamps(held.times.take(originals)),
            Chosen(_KINDS, is_exact),
            decimals(judged.distances[places]),
            Chosen(_SIMILARITIES, judged.similarities[places]),
            Chosen(_JSON_BOOLEANS, equal(urls, Chosen(rows.urls, places))),
            Chosen(found_by, rows.kinds[places] == RowKind.SHORT),
        ],
    )
    return spread(texts, places, len(rows))


def _versions(columns: _Columns, held: OriginalStore, search: SearchRules) -> Texts:
    """Return `former_version` of each row, empty where there is none."""
    rows = columns.rows
    places = np.flatnonzero(columns.judged.formers >= 0)
    if not len(places):
        return spread(Texts.of([]), places, len(rows))
    former = columns.judged.formers[places]
    row_kinds = rows.kinds[places]
    differ = rows.fingerprints[places] ^ held.fingerprints.take(former)
    kinds = held.kinds.take(former)
    alike = sketch_similarities(rows.sketches[places], held.sketches.take(former))
    is_same = (held.digests.take(former) == rows.digests[places]) & (kinds == row_kinds)
    is_full = (kinds == RowKind.FULL) & (row_kinds == RowKind.FULL)
    is_near = (
        is_full
        & (np.bitwise_count(differ) <= search.max_distance)
        & (alike >= search.similarity_thousandths)
    )
    if search.mode == "directed":
        is_near &= looks(differ, rows.doubts[places], held.doubts.take(former)) >= search.look_min
    alike[is_same] = 1_000
    alike[~(is_full | is_same)] = _NO_SIMILARITY  # short texts have no similarity, only equality
    changes = np.where(
        is_same,
        _CHANGES.index(Changed.NOT),
        np.where(is_near, _CHANGES.index(Changed.LITTLE), _CHANGES.index(Changed.MUCH)),
    )
    doc_ids, urls = held.texts.take(former)
    texts = filled(
        _FORMER_VERSION,
        [
            insides(doc_ids),
            insides(urls),
            timestamps(held.times.take(former)),
            Chosen(_CHANGE_WORDS, changes),
            Chosen(_OF_A_FORMER, alike),
        ],
    )
    return spread(texts, places, len(rows))


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
