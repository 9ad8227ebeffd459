"""What the verdicts of judged rows say of originals and former versions, as columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from worker.core.search import SearchRules, looks
from worker.core.sketch import sketch_similarities
from worker.core.verdict import Changed, FoundBy
from worker.log.judge import JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import RowKind


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
