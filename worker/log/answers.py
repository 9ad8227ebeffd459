"""From judged rows to verdicts: a slice of a record's columns in, one answer a row out, in the rows' order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from worker.core.search import SearchRules, looks
from worker.core.sketch import sketch_similarities
from worker.core.verdict import Changed, FormerVersion, FoundBy, Outcome, Verdict, duplicate_of
from worker.errors import DocumentError
from worker.log.judge import REASONS, JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.log.rules import Definition

Answer = Verdict | DocumentError


class Match(NamedTuple):
    """How a duplicate equals its original."""

    place: int  # among the rows
    original: int  # its row
    distance: int
    thousandths: int  # the similarity
    is_exact: bool
    found_by: FoundBy


class Former(NamedTuple):
    """How a row differs from the version before it."""

    place: int  # among the rows
    original: int  # the former version's row
    changed: Changed
    thousandths: int | None  # the similarity; None: not known


def write_answers(
    rows: JudgedRows, held: OriginalStore, definition: Definition, partition: int, topic: str
) -> Iterator[Answer]:
    """
    Write the answer to each row, as objects.

    Args:
        held: all documents that were new, by row.
        partition, topic: of the source; the log does not carry the topic's name.

    Cost: 10 µs a row; `messages.encode_answers` writes messages at once.
    """
    _, record, first, _, judged, log_offset, timestamp_ms = rows
    duplicates = {
        place: duplicate_of(
            held.get(row), record.urls[first + place].decode("utf-8", "surrogatepass"), distance, thousandths,
            exact=is_exact, found_by=found_by,
        )
        for place, row, distance, thousandths, is_exact, found_by in matches(rows, held, definition.search)
    }  # fmt: skip
    versions = {
        place: FormerVersion(held.get(row), changed, None if parts is None else parts / 1_000)
        for place, row, changed, parts in formers(rows, held, definition.search)
    }
    for row, (kind, id_bytes, url_bytes, fetched_at_ms, value, features, offset, remark, documents, note) in enumerate(
        zip(*rows.columns(), strict=True)
    ):
        if kind == RowKind.DEAD:
            yield DocumentError.parse(note.decode("utf-8", "surrogatepass"))
            continue
        match = duplicates.get(row)
        url: str | None = url_bytes.decode("utf-8", "surrogatepass")
        time_ms: int | None = fetched_at_ms
        fingerprint: int | None = value
        reason = REASONS[remark]
        outcome = Outcome.NEW if match is None else Outcome.DUPLICATE
        if kind == RowKind.SKIPPED:
            outcome, reason, fingerprint = Outcome.SKIPPED, note.decode("utf-8", "surrogatepass"), None
        elif kind == RowKind.DELETED:
            outcome, url, time_ms, fingerprint = Outcome.DELETED, None, None, None
        doc_id = id_bytes.decode("utf-8", "surrogatepass")
        yield Verdict(
            doc_id, url, time_ms, outcome, reason, match, fingerprint, features, definition.scheme,
            definition.parameters, documents, log_offset, judged.horizon_ms, topic, partition, offset, timestamp_ms,
            versions.get(row),
        )  # fmt: skip


def matches(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> Iterator[Match]:
    """Yield what each duplicate is a duplicate of."""
    _, record, first, stop, judged, _, _ = rows
    kinds, found = record.kinds[first:stop], judged.originals
    places = np.flatnonzero(((kinds == RowKind.FULL) | (kinds == RowKind.SHORT)) & (found >= 0))
    distances = judged.distances[places]
    is_exact = distances == 0
    is_exact[is_exact] = held.digests.take(found[places][is_exact]) == record.digests[first:stop][places][is_exact]
    found_by = FoundBy(search.mode)
    columns = zip(
        places.tolist(),
        found[places].tolist(),
        distances.tolist(),
        judged.similarities[places].tolist(),
        is_exact.tolist(),
        [FoundBy.TEXT if kind == RowKind.SHORT else found_by for kind in kinds[places].tolist()],
        strict=True,
    )
    return itertools.starmap(Match, columns)


def formers(rows: JudgedRows, held: OriginalStore, search: SearchRules) -> Iterator[Former]:
    """Yield the former version of each row that has one."""
    _, record, first, _, judged, _, _ = rows
    places = np.flatnonzero(judged.formers >= 0)
    if not len(places):
        return iter(())
    former, mine = judged.formers[places], first + places
    differ = record.fingerprints[mine] ^ held.fingerprints.take(former)
    distances = np.bitwise_count(differ)
    alike = sketch_similarities(record.sketches[mine], held.sketches.take(former))
    kinds = held.kinds.take(former)
    is_same = (held.digests.take(former) == record.digests[mine]) & (kinds == record.kinds[mine])
    is_full = (kinds == RowKind.FULL) & (record.kinds[mine] == RowKind.FULL)
    is_near = is_full & (distances <= search.max_distance) & (alike >= search.similarity_min)
    if search.mode == "directed":
        is_near &= looks(differ, record.doubts[mine], held.doubts.take(former)) >= search.look_min
    changed = np.where(is_same, Changed.NOT, np.where(is_near, Changed.LITTLE, Changed.MUCH))
    columns = zip(places.tolist(), former.tolist(), changed.tolist(), alike.tolist(), is_full, is_same, strict=True)
    return (
        Former(place, row, Changed(how), 1_000 if same else thousandths if full else None)
        for place, row, how, thousandths, full, same in columns
    )
