"""The answers to judged rows as messages of the topic `verdicts`, a batch at a time: columns in, bytes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import FoundBy, MatchKind, Outcome
from worker.errors import DocumentError
from worker.log.answers import REASONS, JudgedRows, formers, matches
from worker.log.definition import Definition
from worker.log.original_store import OriginalStore
from worker.log.record import RowKind
from worker.shell.messages.verdict import DUPLICATE_OF, FORMER_VERSION, REASON, SIMILARITY, Layout, insides

__all__ = ["VerdictBytes", "encode_answers"]

_SIMILARITIES = tuple(b"%r" % (thousandths / 1_000) for thousandths in range(1_001))
_KINDS = MatchKind.NEAR.encode(), MatchKind.EXACT.encode()
_FOUND_BY = {found_by: found_by.encode() for found_by in FoundBy}
_REASONS: dict[int, bytes] = {
    code: b"" if reason is None else REASON % reason.encode() for code, reason in REASONS.items()
}
_JSON_BOOLEANS = b"false", b"true"
_NEW, _DUPLICATE, _SKIPPED, _DELETED = Outcome  # bound once: an attribute of an enum costs as much as a tuple
_VALUES = {outcome: outcome.encode() for outcome in Outcome}
_JUDGED = frozenset({int(RowKind.FULL), int(RowKind.SHORT)})


class VerdictBytes(NamedTuple):
    """A verdict as a message."""

    key: bytes
    value: bytes
    outcome: Outcome


def encode_answers(
    rows: JudgedRows, held: OriginalStore, definition: Definition, partition: int, topic: str
) -> list[VerdictBytes | DocumentError]:
    """
    Return the message of each row's verdict, as `encode_verdict` writes it, or why there is none.

    Args:
        held: all documents that were new, by row.
        partition, topic: of the source; the log does not carry the topic's name.

    Cost: 2 µs a row.
    """
    record, first, stop, judged, log_offset, timestamp_ms = rows
    layout = Layout(
        definition.scheme, definition.parameters, log_offset, judged.horizon_ms, topic, partition, timestamp_ms
    )
    duplicates, versions = _duplicates(rows, held, definition), _versions(rows, held, definition)
    ids, urls, notes = (insides(texts.between(first, stop)) for texts in (record.doc_ids, record.urls, record.notes))
    times = _times(record.fetched_at_ms[first:stop])
    answers: list[VerdictBytes | DocumentError] = []
    for place, (kind, key, _, _, fingerprint, features, offset, remark, documents, note) in enumerate(rows.columns()):
        doc_id = ids[place]
        if doc_id is not key:
            key = key.decode("utf-8", "surrogatepass").encode("utf-8", "replace")  # noqa: PLW2901
        if kind in _JUDGED:
            match = duplicates.get(place, b"")
            outcome = _DUPLICATE if match else _NEW
            value = layout.judged % (
                doc_id, urls[place], times[place], _VALUES[outcome], _REASONS[remark], match, versions.get(place, b""),
                fingerprint, features, documents, offset,
            )  # fmt: skip
            answers.append(VerdictBytes(key, value, outcome))
        elif kind == RowKind.SKIPPED:
            why = REASON % notes[place]
            value = layout.skipped % (doc_id, urls[place], times[place], _VALUES[_SKIPPED], why, documents, offset)
            answers.append(VerdictBytes(key, value, _SKIPPED))
        elif kind == RowKind.DELETED:
            value = layout.deleted % (doc_id, _REASONS[remark], documents, offset)
            answers.append(VerdictBytes(key, value, _DELETED))
        else:
            answers.append(DocumentError.parse(note.decode("utf-8", "surrogatepass")))
    return answers


def _duplicates(rows: JudgedRows, held: OriginalStore, definition: Definition) -> dict[int, bytes]:
    """Return `duplicate_of` of each duplicate, by its place."""
    found = list(matches(rows, held, definition.search))
    if not found:
        return {}
    originals = _originals(held, [match.original for match in found])
    same = rows.record.urls.take(rows.first + np.array([match.place for match in found]))
    return {
        place: DUPLICATE_OF % (
            doc_id, url, time, _KINDS[is_exact], distance, _SIMILARITIES[thousandths], _JSON_BOOLEANS[raw == mine],
            _FOUND_BY[found_by],
        )
        for (place, _, distance, thousandths, is_exact, found_by), (doc_id, url, time, raw), mine in zip(
            found, originals, same.between(0, len(same)), strict=True
        )
    }  # fmt: skip


def _versions(rows: JudgedRows, held: OriginalStore, definition: Definition) -> dict[int, bytes]:
    """Return `former_version` of each row that has one, by its place."""
    found = list(formers(rows, held, definition.search))
    if not found:
        return {}
    originals = _originals(held, [former.original for former in found])
    return {
        place: FORMER_VERSION % (
            doc_id, url, time, changed.encode(), b"" if parts is None else SIMILARITY % _SIMILARITIES[parts]
        )
        for (place, _, changed, parts), (doc_id, url, time, _) in zip(found, originals, strict=True)
    }  # fmt: skip


def _originals(held: OriginalStore, rows: list[int]) -> Iterable[tuple[bytes, bytes, bytes, bytes]]:
    """Return doc_id, URL and time of these originals as JSON has them, and the URL as it is."""
    places = np.array(rows, np.int64)
    ids, urls = (texts.between(0, len(texts)) for texts in held.originals.texts(places))
    return zip(insides(ids), insides(urls), _times(held.originals.times(places)), urls, strict=True)


def _times(times_ms: NDArray[np.int64]) -> list[bytes]:
    """Return times as `format_timestamp` writes them."""
    times: list[bytes] = np.char.add(np.datetime_as_string(times_ms.astype("M8[ms]")), "Z").astype("S24").tolist()
    return times
