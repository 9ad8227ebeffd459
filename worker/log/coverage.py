"""Which offsets of a source partition the log already has."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from worker.log.record import Span


class Coverage:
    """
    The offsets of one source partition that the log already has, as disjoint intervals that are
    never adjacent.

        offsets   0 1 2 3 4 5 6 7 8 9
        covered   x x x . . x x x x .     [0, 3), [5, 9)

    Cost: O(log n) per call over n intervals; a partition that is read in order has one.

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
        # Where the intervals begin, and where they end.
        self._firsts = SortedList()
        self._stops = SortedList()

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self._firsts, self._stops)

    def missing(self, first: int, stop: int) -> list[Span]:
        """
        Return the parts of [first, stop) that are not covered, in order.

        Raises ValueError: stop lies before first.
        """
        if stop < first:
            raise ValueError(f"stop must not lie before first, got first={first}, stop={stop}")
        # The intervals that overlap the range: those that stop behind its first offset and begin
        # before its end. The gaps lie before, between and behind them.
        low = self._stops.bisect_right(first)
        high = self._firsts.bisect_left(stop)
        covered = zip(self._firsts[low:high], self._stops[low:high], strict=True)
        gaps = []
        begin = first
        for covered_first, covered_stop in covered:
            if begin < covered_first:
                gaps.append(Span(begin, covered_first))
            begin = covered_stop
        if begin < stop:
            gaps.append(Span(begin, stop))
        return gaps

    def add(self, first: int, stop: int) -> list[Span]:
        """
        Cover [first, stop) and return the parts that were not covered before, in order.

        Raises ValueError: stop lies before first.
        """
        gaps = self.missing(first, stop)
        if gaps:
            # All intervals that overlap the range or touch it become one with it.
            low = self._stops.bisect_left(first)
            high = self._firsts.bisect_right(stop)
            if low < high:
                first = min(first, self._firsts[low])
                stop = max(stop, self._stops[high - 1])
            del self._firsts[low:high]
            del self._stops[low:high]
            self._firsts.add(first)
            self._stops.add(stop)
        return gaps

    def check(self) -> None:
        """Assert that the intervals are non-empty, ordered, disjoint and not adjacent."""
        before = -1
        for first, stop in self:
            assert before < first < stop, (before, first, stop)
            before = stop
