"""From judged rows to verdicts: a slice of a record's columns in, one answer a row out, in the rows' order."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.verdict import DuplicateOf, Outcome, Verdict, duplicate_of
from worker.log.columns import Column
from worker.log.definition import Definition
from worker.log.originals import Originals
from worker.log.record import Record, RowKind

__all__ = ["JUDGED_COLUMNS", "Answer", "Judged", "JudgedRows", "Rejection", "Remark", "write_answers"]


class Rejection(NamedTuple):
    """The log's word on a message that cannot be judged: the class and the text of the error."""

    code: str
    text: str


Answer = Verdict | Rejection


class Remark(IntEnum):
    """What the outcome alone does not tell."""

    NONE = 0
    REDELIVERED = 1  # an original again, with the same content
    REMOVED = 2  # a deletion that took an original out of the index
    NOT_AN_ORIGINAL = 3  # a deletion of a document that the index does not hold


_REASONS = {
    Remark.NONE: None,
    Remark.REDELIVERED: "redelivered",
    Remark.REMOVED: "removed",
    Remark.NOT_AN_ORIGINAL: "not-an-original",
}


class Judged(NamedTuple):
    """What the judge found for each row of a record; entries of rows that were not fresh mean nothing."""

    originals: NDArray[np.int64]  # the original's row, or -1
    distances: NDArray[np.uint8]
    remarks: NDArray[np.uint8]  # a Remark
    documents: NDArray[np.int64]  # originals in the index when the row was judged
    horizon_ms: int | None  # originals seen before it had left by then; None: none had


JUDGED_COLUMNS = Judged._fields[:4]


class JudgedRows(NamedTuple):
    """Rows [first, stop) of a record with what the judge found; enough to write their verdicts at any later time."""

    record: Record
    first: int
    stop: int
    judged: Judged
    log_offset: int
    timestamp_ms: int

    def offsets(self) -> list[int]:
        """Give the source offset of each row."""
        offsets: list[int] = self.record.offsets[self.first : self.stop].tolist()
        return offsets


def write_answers(
    rows: JudgedRows,
    originals: Originals,
    digests: Column[np.uint64],
    definition: Definition,
    partition: int,
    topic: str,
) -> Iterator[Answer]:
    """
    Write the answer to each row.

    Args:
        originals, digests: of all documents that were new, by row.
        partition, topic: of the source; the log does not carry the topic's name.

    Cost: 2 µs a row; columns become lists once, because a number taken out of an array costs 0.1 µs.
    """
    record, first, stop, judged, log_offset, timestamp_ms = rows
    matches = _matches(rows, originals, digests)
    scheme, parameters, horizon_ms = definition.scheme, definition.parameters, judged.horizon_ms
    columns = zip(
        record.kinds[first:stop].tolist(),
        record.doc_ids.between(first, stop),
        record.urls.between(first, stop),
        record.fetched_at_ms[first:stop].tolist(),
        record.fingerprints[first:stop].tolist(),
        record.features[first:stop].tolist(),
        record.offsets[first:stop].tolist(),
        judged.remarks[first:stop].tolist(),
        judged.documents[first:stop].tolist(),
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
            documents, log_offset, horizon_ms, topic, partition, offset, timestamp_ms,
        )  # fmt: skip


def _matches(rows: JudgedRows, originals: Originals, digests: Column[np.uint64]) -> dict[int, DuplicateOf]:
    """Give what each duplicate is a duplicate of, by its place among the rows."""
    record, first, stop, judged, _, _ = rows
    kinds = record.kinds[first:stop]
    found = judged.originals[first:stop]
    places = np.flatnonzero(((kinds == RowKind.FULL) | (kinds == RowKind.SHORT)) & (found >= 0))
    if not len(places):
        return {}
    found, distances = found[places], judged.distances[first:stop][places]
    exact = (distances == 0) & (digests.take(found) == record.digests[first:stop][places])
    columns = zip(places.tolist(), found.tolist(), distances.tolist(), exact.tolist(), strict=True)
    return {
        place: duplicate_of(
            originals.get(row), record.urls[first + place].decode("utf-8", "surrogatepass"), distance, exact=is_exact
        )
        for place, row, distance, is_exact in columns
    }
