"""Progress on a terminal: how far, rate and time left; nothing of it in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from worker.cli.columns import printable

if TYPE_CHECKING:
    from worker.shell.files.archives import Damage, Record
    from worker.shell.files.crawl import CrawlFiles

DAMAGED_TOLD_MAX = 3
Item = TypeVar("Item")
Tell = Callable[[str, int, int | None], None]


def tracked(files: CrawlFiles, doing: str, *, quiet: bool = False) -> Iterator[Record]:
    """Return the files' documents, and show how far they have been read; the first damaged records, by name."""

    def tell(damaged: Damage) -> None:
        if not quiet and files.tally.damaged <= DAMAGED_TOLD_MAX:
            typer.echo(printable(f"damaged: {damaged.place}: {damaged.reason}"), err=True)

    files.on_damage = tell
    with _bar("{task.fields[documents]:,} documents", quiet=quiet) as progress:
        task = progress.add_task(doing, total=files.bytes_total, documents=0, rate=0.0)
        started = time.monotonic()
        for count, record in enumerate(files, start=1):
            yield record
            if count % 200 == 0:
                rate = count / max(time.monotonic() - started, 1e-9)
                progress.update(task, completed=files.bytes_read, documents=count, rate=rate)
        progress.update(task, completed=files.bytes_read, documents=files.tally.documents)
    if not quiet and files.tally.damaged > DAMAGED_TOLD_MAX:
        typer.echo(f"damaged: {files.tally.damaged - DAMAGED_TOLD_MAX:,} more", err=True)


@contextmanager
def counted(unit: str, *, quiet: bool = False) -> Iterator[Tell]:
    """Return what is told of each step: its name, how many of its things are done, and of how many if that is known."""
    tasks: dict[str, tuple[TaskID, float]] = {}
    with _bar(f"{{task.completed:,.0f}} {unit}", quiet=quiet, transient=True) as progress:

        def tell(step: str, done: int, total: int | None) -> None:
            now_s = time.monotonic()
            if step not in tasks:
                tasks[step] = progress.add_task(step, total=total, rate=0.0), now_s
            task, started_s = tasks[step]
            progress.update(task, completed=done, total=total, rate=done / max(now_s - started_s, 1e-9))

        yield tell


def passed(
    items: Iterable[Item], doing: str, unit: str, total: Callable[[int], int | None], *, quiet: bool = False
) -> Iterator[Item]:
    """Return the items, and show how many have passed; `total` says of how many, when asked after so many."""
    with counted(unit, quiet=quiet) as tell:
        for count, item in enumerate(items, start=1):
            yield item
            if count % 200 == 0:
                tell(doing, count, total(count))


def _bar(done: str, *, quiet: bool, transient: bool = False) -> Progress:
    """Return a bar with how much is done, the field `rate` and the time left; nothing of it in a pipe."""
    console = Console(stderr=True)
    words = TextColumn(f"{done}, {{task.fields[rate]:,.0f}}/s")
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), words, TimeRemainingColumn()
    is_hidden = quiet or not console.is_terminal
    return Progress(*columns, console=console, disable=is_hidden, refresh_per_second=5, transient=transient)


def tally_of(files: CrawlFiles) -> dict[str, Any]:
    """Return what was in the files, as for JSON."""
    return {name: getattr(files.tally, name) for name in ("documents", "damaged", "left_out")}


def summary(files: CrawlFiles) -> str:
    """Say in one line what was in the files."""
    tally = files.tally
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.left_out.items()))
    documents, damaged = (
        f"{count:,} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((tally.documents, "document"), (tally.damaged, "damaged record"))
    )
    return f"{documents}, {damaged}, {sum(tally.left_out.values())} left out" + (f" ({left_out})" if left_out else "")
