"""
Which source offsets the log already holds: one set of intervals a source partition.

A maximum offset would not do: a failed batch followed by a good one leaves a gap below the maximum, and the
documents in the gap would be taken for answered. Intervals are half-open, `first` inclusive and `stop` the next
offset to read, disjoint and never adjacent:

    offsets   0 1 2 3 4 5 6 7 8 9
    covered   x x x . . x x x x .     {0: 3, 5: 9}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sortedcontainers import SortedDict


class Span(NamedTuple):
    """Offsets from `first` up to, but without, `stop`."""

    first: int
    stop: int


class Coverage:
    """
    A set of offsets of one partition, kept as merged intervals.

    Cost: O(log n) a call over n intervals; a partition read in order has one.

    >>> coverage = Coverage()
    >>> coverage.add(0, 3)
    [Span(first=0, stop=3)]
    >>> coverage.add(2, 5)
    [Span(first=3, stop=5)]
    >>> coverage.missing(4, 7)
    [Span(first=5, stop=7)]
    """

    __slots__ = ("_stops",)

    def __init__(self) -> None:
        self._stops: SortedDict = SortedDict()  # first -> stop

    def __iter__(self) -> Iterator[Span]:
        return (Span(first, stop) for first, stop in self._stops.items())

    def __len__(self) -> int:
        """Return the number of intervals, which is 1 for a partition without gaps."""
        return len(self._stops)

    def missing(self, first: int, stop: int) -> list[Span]:
        """
        Return the parts of [first, stop) that are not covered, in order.

        Raises:
            ValueError: stop lies before first: the caller has mixed them up.
        """
        if stop < first:
            raise ValueError(f"stop must not lie before first, got first={first}, stop={stop}")
        gaps: list[Span] = []
        at = first
        position = max(self._stops.bisect_right(first) - 1, 0)
        for start in self._stops.islice(position):
            end = self._stops[start]
            if start >= stop:
                break
            if end <= at:
                continue
            if start > at:
                gaps.append(Span(at, start))
            at = end
        if at < stop:
            gaps.append(Span(at, stop))
        return gaps

    def add(self, first: int, stop: int) -> list[Span]:
        """Cover [first, stop) and return the parts that were not covered before."""
        gaps = self.missing(first, stop)
        if not gaps:
            return gaps
        low = first
        position = self._stops.bisect_right(first) - 1
        if position >= 0:
            start, end = self._stops.peekitem(position)
            if end >= first:  # touches or overlaps from the left
                low, stop = start, max(stop, end)
        position = self._stops.bisect_left(low)
        while position < len(self._stops) and self._stops.peekitem(position)[0] <= stop:
            _, end = self._stops.popitem(position)
            stop = max(stop, end)
        self._stops[low] = stop
        return gaps

    def check(self) -> None:
        """Assert that the intervals are non-empty, ordered, disjoint and not adjacent."""
        before = -1
        for first, stop in self._stops.items():
            assert before < first < stop, (before, first, stop)
            before = stop
