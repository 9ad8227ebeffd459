"""The topic of new documents held against the log: a message for each verdict `new` or `deleted`, no other. No I/O."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from worker.core.verdict import Outcome, Verdict
from worker.log.record import Source

__all__ = ["NewDocuments"]

_KEPT = frozenset({Outcome.NEW, Outcome.DELETED})


class NewDocuments:
    """
    Takes what stands in the topic, then what the log says must stand there; a message is its key, and null or not.

    What was decided before the topic's first message is not missed: `topic_new` was set later, or retention took it.

    Args:
        since_ms: what was published before this time may have been deleted by retention.
        is_compacted: nothing is missed, since a later message under its key, or a deletion, may have replaced it.

    Cost: 8 bytes a message there, 32 bytes one that must be there.
    """

    def __init__(self, since_ms: int = 0, *, is_compacted: bool = False) -> None:
        self._first_ms: float = math.inf
        self._since_ms = since_ms
        self._is_compacted = is_compacted
        self._found = array("Q")
        self._sources: dict[Source, int] = {}
        self._wanted = {"digest": array("Q"), "source": array("q"), "offset": array("q"), "time_ms": array("q")}

    def __len__(self) -> int:
        """Return how many messages stand in the topic."""
        return len(self._found)

    def take(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Take a committed message of the topic."""
        self._found.append(_digest(key, is_null=value is None))
        self._first_ms = min(self._first_ms, timestamp_ms)

    def expect(self, source: Source, offset: int, verdict: Verdict, key: bytes) -> None:
        """Take the log's verdict on a source offset, with the key of its message."""
        if verdict.outcome in _KEPT:
            digest = _digest(key, is_null=verdict.outcome is Outcome.DELETED)
            number = self._sources.setdefault(source, len(self._sources))
            row = digest, number, offset, verdict.decided_at_ms
            for column, field in zip(self._wanted.values(), row, strict=True):
                column.append(field)

    def missing(self, stops: Mapping[Source, int]) -> Iterator[tuple[Source, int, str]]:
        """Yield source and offset of what must be there, committed below these stops, and is not; with what it is."""
        if self._is_compacted:
            return
        wanted = {name: np.frombuffer(column, column.typecode) for name, column in self._wanted.items()}
        stop = np.array([stops.get(source, 0) for source in self._sources], np.int64)
        must = (wanted["time_ms"] >= max(self._first_ms, self._since_ms)) & (
            wanted["offset"] < stop[wanted["source"]] if len(stop) else False
        )
        rows = np.flatnonzero(must)
        rows = rows[np.argsort(wanted["digest"][rows], kind="stable")]
        digests, sources = wanted["digest"][rows], list(self._sources)
        for digest, count in _surplus(digests, _array(self._found)):
            last = int(np.searchsorted(digests, np.uint64(digest), "right"))
            for row in rows[last - count : last].tolist():
                yield sources[wanted["source"][row]], int(wanted["offset"][row]), "not in the topic of new documents"

    def invented(self) -> Iterator[str]:
        """Say of each message that stands in the topic without a verdict what it is."""
        for digest, count in _surplus(_array(self._found), _array(self._wanted["digest"])):
            yield from [f"in the topic of new documents without such a verdict: a key with XXH3 {digest:016x}"] * count


def _array(column: array[int]) -> NDArray[np.uint64]:
    return np.frombuffer(column, np.uint64)


def _surplus(these: NDArray[np.uint64], others: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """Yield the values of which there are more among these than among the others, and how many more."""
    values, places = np.unique(np.concatenate([these, others]), return_inverse=True)
    count = len(values)
    more = np.bincount(places[: len(these)], minlength=count) - np.bincount(places[len(these) :], minlength=count)
    for at in np.flatnonzero(more > 0).tolist():
        yield int(values[at]), int(more[at])


def _digest(key: bytes | None, *, is_null: bool) -> int:
    return xxhash.xxh3_64_intdigest(key or b"", seed=is_null)
