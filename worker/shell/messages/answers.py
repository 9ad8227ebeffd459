"""The answers to judged rows as messages of the topic `verdicts`, a batch at a time: columns in, bytes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import FoundBy, MatchKind, Outcome
from worker.errors import DocumentError
from worker.log.answers import formers, matches
from worker.log.judge import REASONS, JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.log.rules import Definition
from worker.shell.messages.verdict import DUPLICATE_OF, FORMER_VERSION, REASON, SIMILARITY, Templates, inside, insides

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
    _, record, first, stop, judged, log_offset, timestamp_ms = rows
    templates = Templates(
        definition.scheme, definition.parameters, log_offset, judged.horizon_ms, topic, partition, timestamp_ms
    )
    duplicates, versions = _duplicates(rows, held, definition), _versions(rows, held, definition)
    kinds, keys, urls, _, *numbers, notes = rows.columns()
    ids, urls = insides(keys), insides(urls)
    if ids is not keys:
        keys = [key.decode("utf-8", "surrogatepass").encode("utf-8", "replace") for key in keys]
    answers: list[VerdictBytes | DocumentError] = []
    columns = zip(kinds, keys, ids, urls, _times(record.fetched_at_ms[first:stop]), *numbers, notes, strict=True)
    for place, (kind, key, doc_id, url, time, fingerprint, features, offset, remark, documents, note) in enumerate(
        columns
    ):
        if kind in _JUDGED:
            match = duplicates.get(place, b"")
            outcome = _DUPLICATE if match else _NEW
            value = templates.judged % (
                doc_id, url, time, _VALUES[outcome], _REASONS[remark], match, versions.get(place, b""),
                fingerprint, features, documents, offset,
            )  # fmt: skip
            answers.append(VerdictBytes(key, value, outcome))
        elif kind == RowKind.SKIPPED:
            why = REASON % inside(note.decode("utf-8", "surrogatepass"))
            value = templates.skipped % (doc_id, url, time, _VALUES[_SKIPPED], why, documents, offset)
            answers.append(VerdictBytes(key, value, _SKIPPED))
        elif kind == RowKind.DELETED:
            value = templates.deleted % (doc_id, _REASONS[remark], documents, offset)
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
    ids, urls = (texts.between(0, len(texts)) for texts in held.texts.take(places))
    return zip(insides(ids), insides(urls), _times(held.times.take(places)), urls, strict=True)


def _times(times_ms: NDArray[np.int64]) -> list[bytes]:
    """Return times as `format_timestamp` writes them. Cost: 0.2 µs each."""
    days, rest = np.divmod(times_ms, 86_400_000)
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    years = months.astype("M8[Y]").astype(np.int64) + 1970
    seconds, milliseconds = np.divmod(rest, 1_000)
    fields = (  # each with its last digit's place and the number of its digits
        (years, 3, 4), (months.astype(np.int64) % 12 + 1, 6, 2), ((dates - months).astype(np.int64) + 1, 9, 2),
        (seconds // 3_600, 12, 2), (seconds // 60 % 60, 15, 2), (seconds % 60, 18, 2), (milliseconds, 22, 3),
    )  # fmt: skip
    texts = np.tile(np.frombuffer(b"0000-00-00T00:00:00.000Z", np.uint8), (len(times_ms), 1))
    for numbers, place, digits in fields:
        for digit in range(digits):
            texts[:, place - digit] += (numbers // 10**digit % 10).astype(np.uint8)
    times: list[bytes] = texts.view("S24").ravel().tolist()
    return times
