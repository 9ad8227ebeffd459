"""Progress over crawl files on a terminal: bytes, documents, rate and time left; nothing of it in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from worker.shell.files.archives import Damaged, Record
    from worker.shell.files.crawl import CrawlFiles

__all__ = ["report_damage", "summary", "tracked"]


def report_damage(damaged: Damaged) -> None:
    """Name a damaged record on stderr."""
    typer.echo(f"damaged: {damaged.place}: {damaged.reason}", err=True)


def tracked(files: CrawlFiles, doing: str, *, quiet: bool = False) -> Iterator[Record]:
    """Return the files' documents, and show how far they have been read."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[documents]:,} documents, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=quiet or not console.is_terminal, refresh_per_second=5
    ) as progress:
        task = progress.add_task(doing, total=files.bytes_total, documents=0, rate=0.0)
        started = time.monotonic()
        for count, record in enumerate(files, start=1):
            yield record
            if count % 200 == 0:
                rate = count / max(time.monotonic() - started, 1e-9)
                progress.update(task, completed=files.bytes_read, documents=count, rate=rate)
        progress.update(task, completed=files.bytes_read, documents=files.tally.documents)


def summary(files: CrawlFiles) -> str:
    """Say in one line what was in the files."""
    tally = files.tally
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.left_out.items()))
    return (
        f"{tally.documents:,} documents, {tally.damaged} damaged records, {sum(tally.left_out.values())} left out"
        + (f" ({left_out})" if left_out else "")
    )
