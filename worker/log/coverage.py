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
from itertools import chain
from typing import NamedTuple

from sortedcontainers import SortedList


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

    __slots__ = ("_firsts", "_stops")

    def __init__(self) -> None:
        self._firsts, self._stops = SortedList(), SortedList()  # where the intervals begin, and where they end

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self._firsts, self._stops)

    def missing(self, first: int, stop: int) -> list[Span]:
        """Return the parts of [first, stop) that are not covered, in order. ValueError: stop lies before first."""
        if stop < first:
            raise ValueError(f"stop must not lie before first, got first={first}, stop={stop}")
        low, high = self._stops.bisect_right(first), self._firsts.bisect_left(stop)
        covered = chain.from_iterable(zip(self._firsts[low:high], self._stops[low:high], strict=True))
        edges = [first, *covered, stop]
        return [Span(*gap) for gap in zip(edges[::2], edges[1::2], strict=True) if gap[0] < gap[1]]

    def add(self, first: int, stop: int) -> list[Span]:
        """Cover [first, stop) and return the parts that were not covered before."""
        gaps = self.missing(first, stop)
        if gaps:
            low, high = self._stops.bisect_left(first), self._firsts.bisect_right(stop)  # those that touch it, too
            if low < high:
                first, stop = min(first, self._firsts[low]), max(stop, self._stops[high - 1])
            del self._firsts[low:high], self._stops[low:high]
            self._firsts.add(first)
            self._stops.add(stop)
        return gaps

    def check(self) -> None:
        """Assert that the intervals are non-empty, ordered, disjoint and not adjacent."""
        before = -1
        for first, stop in self:
            assert before < first < stop, (before, first, stop)
            before = stop
