"""`neardup top`: what a group of workers does, live."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from worker.cli import app
from worker.cli.columns import terminal_width
from worker.cli.options import with_cluster
from worker.cli.top_view import frame
from worker.settings import Settings

WIDTH_PIPE = 160  # of a frame that goes into a pipe


@app.command()
@with_cluster("group", "topic_documents", "topic_fingerprints", "topic_verdicts")
def top(
    settings: Settings,
    worker: Annotated[
        list[str] | None, typer.Option(help="host:port of a worker's metrics, for its rates and times; one an option.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds from a frame to the next.", min=0.1, max=60)] = 2,
    once: Annotated[bool, typer.Option("--once", help="One frame as text, with the rates of one interval.")] = False,
) -> None:
    """
    Show a running group live: members, lag, rates, duplicates.

    Kafka knows members, partitions, lag and rates; stage times, originals and log offsets come from the workers whose
    addresses are given. Ctrl-C ends it.
    """
    from worker.shell.admin.group import GroupWatch  # noqa: PLC0415

    width = terminal_width()
    console = Console(highlight=False, width=WIDTH_PIPE if width is None else width)
    with GroupWatch(settings, worker or []) as watch:
        before = watch.sample()
        time.sleep(interval)
        now = watch.sample()
        if once:
            console.print(frame(before, now, settings.group, settings.bootstrap))
            return
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(frame(before, now, settings.group, settings.bootstrap), refresh=True)
                time.sleep(interval)
                before, now = now, watch.sample()
