"""From judged rows to verdicts: a slice of a record's columns in, one answer a row out, in the rows' order."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.evaluation import looks
from worker.core.search import SearchRules
from worker.core.verdict import (
    Changed,
    DuplicateOf,
    FormerVersion,
    FoundBy,
    Outcome,
    Verdict,
    duplicate_of,
    similarity_at,
)
from worker.log.definition import Definition
from worker.log.original_store import OriginalStore
from worker.log.record import Record, RowKind

__all__ = ["JUDGED_COLUMNS", "Answer", "Judged", "JudgedRows", "ReasonCode", "Rejection", "write_answers"]


class Rejection(NamedTuple):
    """The log's word on a message that cannot be judged: the class and the text of the error."""

    code: str
    text: str


Answer = Verdict | Rejection


class ReasonCode(IntEnum):
    """What the outcome alone does not tell."""

    NONE = 0
    REDELIVERED = 1  # an original again, with the same content
    REMOVED = 2  # a deletion that took an original out of the index
    NOT_AN_ORIGINAL = 3  # a deletion of a document that the index does not hold


_REASONS = {
    ReasonCode.NONE: None,
    ReasonCode.REDELIVERED: "redelivered",
    ReasonCode.REMOVED: "removed",
    ReasonCode.NOT_AN_ORIGINAL: "not-an-original",
}


class Judged(NamedTuple):
    """What the judge found for each row of a record; entries of rows that were not fresh mean nothing."""

    originals: NDArray[np.int64]  # the original's row, or -1
    formers: NDArray[np.int64]  # the row of the former version, or -1
    distances: NDArray[np.uint8]
    looks: NDArray[np.uint16]  # thousandths; 0 where the search took no second look
    remarks: NDArray[np.uint8]  # a ReasonCode
    documents: NDArray[np.int64]  # originals in the index when the row was judged
    horizon_ms: int | None  # originals seen before it had left by then; None: none had

    def between(self, first: int, stop: int) -> Judged:
        """Return what was found for the rows [first, stop)."""
        rows = slice(first, stop)
        return Judged(
            self.originals[rows],
            self.formers[rows],
            self.distances[rows],
            self.looks[rows],
            self.remarks[rows],
            self.documents[rows],
            self.horizon_ms,
        )


JUDGED_COLUMNS = Judged._fields[:-1]


class JudgedRows(NamedTuple):
    """Rows [first, stop) of a record with what was found for them: enough to write their verdicts at any time."""

    record: Record
    first: int
    stop: int
    judged: Judged
    log_offset: int
    timestamp_ms: int

    def offsets(self) -> list[int]:
        """Return the source offset of each row."""
        offsets: list[int] = self.record.offsets[self.first : self.stop].tolist()
        return offsets


def write_answers(
    rows: JudgedRows,
    held: OriginalStore,
    definition: Definition,
    partition: int,
    topic: str,
) -> Iterator[Answer]:
    """
    Write the answer to each row.

    Args:
        held: all documents that were new, by row.
        partition, topic: of the source; the log does not carry the topic's name.

    Cost: 2 µs a row; columns become lists once, because a number taken out of an array costs 0.1 µs.
    """
    record, first, stop, judged, log_offset, timestamp_ms = rows
    matches = _matches(rows, held, definition.search)
    formers = _formers(rows, held, definition.search)
    scheme, parameters, horizon_ms = definition.scheme, definition.parameters, judged.horizon_ms
    columns = zip(
        record.kinds[first:stop].tolist(),
        record.doc_ids.between(first, stop),
        record.urls.between(first, stop),
        record.fetched_at_ms[first:stop].tolist(),
        record.fingerprints[first:stop].tolist(),
        record.features[first:stop].tolist(),
        record.offsets[first:stop].tolist(),
        judged.remarks.tolist(),
        judged.documents.tolist(),
        record.notes.between(first, stop),
        strict=True,
    )
    for row, (kind, id_bytes, url_bytes, fetched_at_ms, value, features, offset, remark, documents, note) in enumerate(
        columns
    ):
        if kind == RowKind.DEAD:
            code, _, text = note.decode("utf-8", "surrogatepass").partition(": ")
            yield Rejection(code, text)
            continue
        match = matches.get(row)
        url: str | None = url_bytes.decode("utf-8", "surrogatepass")
        time_ms: int | None = fetched_at_ms
        fingerprint: int | None = value
        reason = _REASONS[remark]
        outcome = Outcome.NEW if match is None else Outcome.DUPLICATE
        if kind == RowKind.SKIPPED:
            outcome, reason, fingerprint = Outcome.SKIPPED, note.decode("utf-8", "surrogatepass"), None
        elif kind == RowKind.DELETED:
            outcome, url, time_ms, fingerprint = Outcome.DELETED, None, None, None
        doc_id = id_bytes.decode("utf-8", "surrogatepass")
        yield Verdict(
            doc_id, url, time_ms, outcome, reason, match, fingerprint, features, scheme, parameters,
            documents, log_offset, horizon_ms, topic, partition, offset, timestamp_ms, formers.get(row),
        )  # fmt: skip


def _matches(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> dict[int, DuplicateOf]:
    """Return what each duplicate is a duplicate of, by its place among the rows."""
    record, first, stop, judged, _, _ = rows
    kinds = record.kinds[first:stop]
    found = judged.originals
    places = np.flatnonzero(((kinds == RowKind.FULL) | (kinds == RowKind.SHORT)) & (found >= 0))
    if not len(places):
        return {}
    columns = zip(
        places.tolist(),
        found[places].tolist(),
        judged.distances[places].tolist(),
        judged.looks[places].tolist(),
        (held.digests.take(found[places]) == record.digests[first:stop][places]).tolist(),
        (kinds[places] == RowKind.SHORT).tolist(),
        strict=True,
    )
    matches = {}
    for place, row, distance, look, is_same, is_short in columns:
        url = record.urls[first + place].decode("utf-8", "surrogatepass")
        found_by = FoundBy.TEXT if is_short else FoundBy(search.mode)
        thousandths = look if found_by is FoundBy.DIRECTED else similarity_at(distance)
        is_exact = distance == 0 and is_same
        matches[place] = duplicate_of(
            held.originals.get(row), url, distance, thousandths, exact=is_exact, found_by=found_by
        )
    return matches


def _formers(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> dict[int, FormerVersion]:
    """Return the former version of each row that has one, by its place among the rows."""
    record, first, _, judged, _, _ = rows
    places = np.flatnonzero(judged.formers >= 0)
    if not len(places):
        return {}
    former, mine = judged.formers[places], first + places
    differ = record.fingerprints[mine] ^ held.fingerprints.take(former)
    distances = np.bitwise_count(differ)
    if search.mode == "directed":
        seen = looks(differ, record.doubts[mine], held.doubts.take(former))
    else:
        seen = np.array([similarity_at(distance) for distance in distances.tolist()], np.uint16)
    kinds = held.kinds.take(former)
    is_same = (held.digests.take(former) == record.digests[mine]) & (kinds == record.kinds[mine])
    is_full = (kinds == RowKind.FULL) & (record.kinds[mine] == RowKind.FULL)
    is_near = is_full & (distances <= search.max_distance) & (seen >= search.look_min)
    changed = np.where(is_same, Changed.NOT, np.where(is_near, Changed.LITTLE, Changed.MUCH))
    columns = zip(places.tolist(), former.tolist(), changed.tolist(), seen.tolist(), is_full, is_same, strict=True)
    return {
        place: FormerVersion(
            held.originals.get(row), Changed(how), 1.0 if same else thousandths / 1_000 if full else None
        )
        for place, row, how, thousandths, full, same in columns
    }
