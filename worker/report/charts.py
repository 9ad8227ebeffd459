"""
Charts as values: how high each bar stands, and what its axis says. The template draws them.

Bars begin at zero. Widths and places are shares of the plot's width, so that a chart fits any screen and its words keep
their size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.timestamp import format_timestamp
from worker.report.tally import NO_TIME, Class

HEIGHT = 190  # pixels of the plot
BINS_MAX = 48
LABELS_MAX = 5  # along the axis of time
OUTSIDE = 0.005  # of the times at either end may lie far outside


class Group(NamedTuple):
    """Classes that are drawn as one, with the name of their pattern."""

    name: str
    pattern: str
    classes: tuple[Class, ...]


GROUPS = (
    Group("new", "new", (Class.NEW, Class.VERSION)),
    Group("copies", "copy", (Class.EXACT, Class.NEAR)),
    Group("re-crawls", "recrawl", (Class.RECRAWL,)),
    Group("others", "other", (Class.SKIPPED, Class.DELETED, Class.DEAD)),
)


class Piece(NamedTuple):
    """A part of a bar, from `top` down, in pixels."""

    pattern: str
    top: float
    height: float


class Bar(NamedTuple):
    """A bar: where it stands in percent of the width, its parts, and its counts in the order of the chart's names."""

    label: str
    x: float
    width: float
    pieces: list[Piece]
    counts: list[int]

    @property
    def total(self) -> int:
        """All counts together."""
        return sum(self.counts)

    @property
    def middle(self) -> float:
        """The middle of the bar, in percent."""
        return self.x + self.width / 2


class Chart(NamedTuple):
    """Bars over an axis; `levels` are the lines of the scale, as (pixels from above, count)."""

    names: list[str]
    bars: list[Bar]
    levels: list[tuple[float, int]]
    every: int  # how many bars there are to a label of the axis


def ticks(most: int) -> list[int]:
    """
    Return two to five round numbers from 0 to the first that is not less than `most`.

    >>> ticks(7), ticks(120), ticks(1)
    ([0, 2, 4, 6, 8], [0, 50, 100, 150], [0, 1])
    """
    step = 1
    for step in (factor * 10**power for power in range(19) for factor in (1, 2, 5)):
        if step * 4 >= most:
            break
    return list(range(0, step * max(math.ceil(most / step), 1) + 1, step))


def stacked(names: Sequence[str], patterns: Sequence[str], labels: Sequence[str], counts: NDArray[np.int64]) -> Chart:
    """
    Stack counts into bars.

    Args:
        counts: a row a bar, a column a name.

    >>> chart = stacked(["a", "b"], ["new", "copy"], ["0", "1"], np.array([[1, 3], [2, 0]]))
    >>> [piece.height for piece in chart.bars[0].pieces], chart.levels[-1]
    ([47.5, 142.5], (0.0, 4))
    """
    scale = ticks(int(counts.sum(axis=1).max(initial=0)))
    slot = 100 / max(len(labels), 1)
    gap = slot * (0.28 if len(labels) <= 24 else 0.12)
    bars = []
    for number, (label, row) in enumerate(zip(labels, counts.tolist(), strict=True)):
        top, pieces = float(HEIGHT), []
        for pattern, count in zip(patterns, row, strict=True):
            height = HEIGHT * count / scale[-1]
            top -= height
            if count:
                pieces.append(Piece(pattern, round(top, 2), round(height, 2)))
        bars.append(Bar(label, round(number * slot + gap / 2, 3), round(slot - gap, 3), pieces, row))
    levels = [(round(HEIGHT * (1 - level / scale[-1]), 2), level) for level in scale]
    return Chart(list(names), bars, levels, math.ceil(len(labels) / LABELS_MAX))


_SECOND = 1_000
_STEPS_MS = tuple(
    _SECOND * seconds
    for seconds in (
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800,
        604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
    )
)  # fmt: skip


def bins(first_ms: int, last_ms: int) -> tuple[int, int]:
    """
    Return where the first of at most BINS_MAX bins begins and how wide each is: a round time, both in milliseconds.

    >>> bins(1_500, 61_000)
    (0, 2000)
    """
    for step in _STEPS_MS:
        start = first_ms // step * step
        if (last_ms - start) // step < BINS_MAX:
            return start, step
    step = _STEPS_MS[-1] * math.ceil((last_ms - first_ms) / _STEPS_MS[-1] / (BINS_MAX - 1))
    return first_ms // step * step, step


def times(classes: NDArray[np.uint8], times_ms: NDArray[np.int64]) -> tuple[Chart, int, int, int] | None:
    """
    Draw documents over the time of their capture; None when no document has one.

    Returns:
        The chart; how wide a bar is, in ms; how many documents lie outside, so far that they would press the rest
        together; how many have no time.
    """
    known = times_ms != NO_TIME
    if not known.any():
        return None
    inside = times_ms[known]
    low, high = (int(value) for value in np.quantile(inside, (OUTSIDE, 1 - OUTSIDE)))
    slack = max(high - low, 1_000) // 10
    first, last = max(int(inside.min()), low - slack), min(int(inside.max()), high + slack)
    start, step = bins(first, last)
    number = (last - start) // step + 1
    shown = known & (times_ms >= first) & (times_ms <= last)
    places = (times_ms[shown] - start) // step
    counts = np.zeros((number, len(GROUPS)), np.int64)
    for column, group in enumerate(GROUPS):
        counts[:, column] = np.bincount(places[np.isin(classes[shown], group.classes)], minlength=number)
    labels = _labels(start, first, step, number)
    chart = stacked([one.name for one in GROUPS], [one.pattern for one in GROUPS], labels, counts)
    return chart, step, int(known.sum() - shown.sum()), int((~known).sum())


def _labels(start: int, first: int, step: int, number: int) -> list[str]:
    texts = [format_timestamp(max(start + step * place, first)) for place in range(number)]
    if step >= 86_400 * _SECOND:
        return [text[:10] for text in texts]
    end = 16 if step >= 60 * _SECOND else 19
    is_one_day = texts[0][:10] == texts[-1][:10]
    return [text[11:end] if is_one_day else f"{text[5:10]} {text[11:end]}" for text in texts]


def shares(counts: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """
    Return name, count and percent of the largest, for bars beside each other; the largest first.

    >>> shares({"a": 1, "b": 4})
    [('b', 4, 100.0), ('a', 1, 25.0)]
    """
    most = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(name, count, round(100 * count / most, 2)) for name, count in ordered]
