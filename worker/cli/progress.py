"""
How far a command is, how fast, and how long it still takes: a bar on a terminal, else plain lines.

A notebook shows what a command writes, but does not obey it: a bar that redraws itself would be
repeated with each update. There, in a pipe and on a dumb terminal a line comes now and then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

from rich import filesize
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

BYTES = "bytes"
_RATE_AFTER_S = 1.0  # a rate of a shorter time means nothing
_LINE_AFTER_S = 10.0  # the first plain line; the time between two doubles up to the maximum
_LINE_AFTER_MAX_S = 60.0
_TOLD_ITEMS = 200  # between two updates
_KERNEL_OF_NOTEBOOK = "JPY_PARENT_PID"  # Jupyter sets it for what a kernel starts

Item = TypeVar("Item")


class Tell(Protocol):
    """A function that is called with how far a step has come."""

    def __call__(self, step: str, done: int, total: int | None, count: int | None = None) -> None:
        """
        Report how far a step has come.

        Args:
            step: the name of the step.
            done: the work that is done, in a unit whose total is known as early as possible.
            total: all of its work; None while that is unknown.
            count: the number that is shown, with its rate; by default `done`.
        """


class Pace:
    """
    How fast a step goes, and how long it will take.

    Args:
        unit: the unit of the count. Numbers of bytes are shortened.
        now_s: when it begins, by a clock that never goes back.
        done, count: what was there already, of an earlier run; it says nothing about the speed.

    >>> pace = Pace("documents", 0.0)
    >>> pace.text(10.0, 250, 1_000, 40)
    '40 documents, 4/s, 0:00:30 left'
    >>> Pace("bytes", 0.0, done=500, count=500).text(10.0, 750, 1_000, 750)
    '750 bytes, 25 bytes/s, 0:00:10 left'
    """

    def __init__(self, unit: str, now_s: float, done: int = 0, count: int = 0) -> None:
        self._unit = unit
        self._begun_s = now_s
        self._done_before = done
        self._count_before = count

    def left_s(self, now_s: float, done: int, total: int | None) -> float | None:
        """Return the seconds that are left at the pace so far, or None if that is unknown."""
        gained = done - self._done_before
        passed_s = now_s - self._begun_s
        if total is None or gained <= 0 or passed_s < _RATE_AFTER_S:
            return None
        return max(total - done, 0) * passed_s / gained

    def text(self, now_s: float, done: int, total: int | None, count: int) -> str:
        """Return the amount, the rate per second, and the time left."""
        parts = [self._amount(count)]
        passed_s = now_s - self._begun_s
        gained = count - self._count_before
        if passed_s >= _RATE_AFTER_S and gained > 0:
            rate = round(gained / passed_s)
            parts.append(f"{self._amount(rate) if self._unit == BYTES else f'{rate:,}'}/s")
        left_s = self.left_s(now_s, done, total)
        if left_s is not None and done != total:
            parts.append(f"{timedelta(seconds=round(left_s))} left")
        return ", ".join(parts)

    def _amount(self, number: int) -> str:
        return filesize.decimal(number) if self._unit == BYTES else f"{number:,} {self._unit}"


@contextmanager
def counted(
    unit: str,
    *,
    quiet: bool = False,
    transient: bool = True,
    console: Console | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Tell]:
    """
    Show how far steps are on stderr, while the block runs; yield the function to report progress
    with.

    Args:
        unit: the unit of the count.
        quiet: show nothing.
        transient: the bars go when the block ends.
    """
    console = Console(stderr=True) if console is None else console
    has_bar = console.is_terminal and not console.is_dumb_terminal
    if quiet:
        yield _tell_nobody
    elif has_bar and _KERNEL_OF_NOTEBOOK not in os.environ:
        yield from _with_bar(unit, console, clock_s, transient=transient)
    else:
        yield _Lines(unit, console, clock_s)


def _tell_nobody(step: str, done: int, total: int | None, count: int | None = None) -> None:
    """Show nothing."""


def _with_bar(
    unit: str, console: Console, clock_s: Callable[[], float], *, transient: bool
) -> Iterator[Tell]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
    )
    tasks: dict[str, tuple[TaskID, Pace]] = {}
    with Progress(*columns, console=console, transient=transient) as bars:

        def tell(step: str, done: int, total: int | None, count: int | None = None) -> None:
            now_s = clock_s()
            shown = done if count is None else count
            if step not in tasks:
                task = bars.add_task(escape(step), total=total, words="")
                tasks[step] = task, Pace(unit, now_s, done, shown)
            task, pace = tasks[step]
            words = escape(pace.text(now_s, done, total, shown))
            bars.update(task, completed=done, total=total, words=words)

        yield tell


class _Lines:
    """Writes a line about a step now and then."""

    def __init__(self, unit: str, console: Console, clock_s: Callable[[], float]) -> None:
        self._unit = unit
        self._console = console
        self._clock_s = clock_s
        self._paces: dict[str, Pace] = {}
        self._wait_s = _LINE_AFTER_S
        self._due_s = clock_s() + self._wait_s

    def __call__(self, step: str, done: int, total: int | None, count: int | None = None) -> None:
        now_s = self._clock_s()
        shown = done if count is None else count
        pace = self._paces.setdefault(step, Pace(self._unit, now_s, done, shown))
        if now_s < self._due_s:
            return
        self._wait_s = min(2 * self._wait_s, _LINE_AFTER_MAX_S)
        self._due_s = now_s + self._wait_s
        share = f"{done / total:.0%}, " if total else ""
        line = f"{step}: {share}{pace.text(now_s, done, total, shown)}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def passed(
    items: Iterable[Item],
    doing: str,
    unit: str,
    total: Callable[[int], int | None],
    *,
    done: Callable[[], int] | None = None,
    quiet: bool = False,
    transient: bool = True,
) -> Iterator[Item]:
    """
    Return the items, and show how many have passed.

    Args:
        total: when asked after so many items, how many there are; of `done`, if that is given.
        done: how far the reading of the items is, such as in bytes, where their number is unknown.
    """
    with counted(unit, quiet=quiet, transient=transient) as tell:
        count = 0
        tell(doing, 0, total(0), 0)  # the time counts from here
        for count, item in enumerate(items, start=1):
            yield item
            if count % _TOLD_ITEMS == 0:
                tell(doing, count if done is None else done(), total(count), count)
        tell(doing, count, count, count)
