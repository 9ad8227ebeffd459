"""`neardup dedup`: the whole pipeline over files, without Kafka."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from worker.cli import app
from worker.cli.lines import STDIN
from worker.cli.lines import output as opened_output
from worker.cli.options import with_settings
from worker.settings import BatchSettings, EngineSettings, Settings


@app.command()
@with_settings(EngineSettings, BatchSettings)
def dedup(
    settings: Settings,
    files: Annotated[list[str], typer.Argument(help="WARC, ARC, WET or JSON Lines; gzip or zstd; - for stdin.")],
    fetched_at: Annotated[
        str | None, typer.Option(help="Fetch time of JSON Lines that bring none, like 2026-01-31T12:00:00Z.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Verdicts as JSON Lines; stdout if left out.")] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on where the last run with this directory ended; kept at a clean end."),
    ] = None,
) -> None:
    """
    Judge the documents of files in their order: one verdict a line, the same as a group of workers would give.

    What cannot be judged gets a line with its error in place of a verdict.
    """
    from worker.cli.progress import report_damage, summary, tracked  # noqa: PLC0415
    from worker.shell.crawl_files import CrawlFiles  # noqa: PLC0415
    from worker.shell.files import file_engine, line_of  # noqa: PLC0415

    crawl = CrawlFiles(files, report_damage, fetched_at_default=fetched_at)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    with (
        file_engine(settings, state) as engine,
        opened_output(output or STDIN) as stream,
    ):
        records = tracked(crawl, crawl, "judging")
        for answered in engine.judge((record.key, record.value) for record in records):
            outcome, line = line_of(answered)
            outcomes[outcome] += 1
            stream.write(line + b"\n")
    seconds = max(time.monotonic() - started, 1e-9)
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
    typer.echo(f"{summary(crawl)}; {counts or 'nothing to judge'}; {seconds:.1f} s", err=True)
