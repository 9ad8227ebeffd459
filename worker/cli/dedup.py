"""`neardup dedup`: the whole pipeline over files, without Kafka."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from worker.cli import app
from worker.cli.lines import STDIN, FetchedAtOption, FilesArgument, opened_output
from worker.cli.options import DOCUMENTS, ENGINE, with_settings
from worker.errors import StopError
from worker.settings import Settings


@app.command()
@with_settings(*ENGINE, *DOCUMENTS, "record_bytes_max")
def dedup(
    settings: Settings,
    files: FilesArgument,
    fetched_at: FetchedAtOption = None,
    output: Annotated[Path, typer.Option(help="Verdicts as JSON Lines; - is stdout.")] = STDIN,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on where the last run with this directory ended; kept at a clean end."),
    ] = None,
) -> None:
    """
    Judge the documents of files, as a group of workers would: a verdict a line.

    What cannot be judged gets a line with its error and its place in the file. When nothing could be judged, the exit
    code is 1, and no output is made.
    """
    from worker.cli.progress import report_damage, summary, tracked  # noqa: PLC0415
    from worker.core.verdict import Verdict  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles, with_answers  # noqa: PLC0415
    from worker.shell.files.engine import file_engine, line_of  # noqa: PLC0415

    crawl = CrawlFiles(files, report_damage, fetched_at_default=fetched_at)
    outcomes: Counter[str] = Counter()
    dead = ""  # the first that could not be judged
    started = time.monotonic()
    with file_engine(settings, state) as engine, opened_output(output, files) as stream:
        for record, answered in with_answers(tracked(crawl, "judging"), engine.judge):
            outcome, line = line_of(record, answered)
            if not isinstance(answered.answer, Verdict):
                dead = dead or f"; {record.place}: {answered.answer.code}: {answered.answer.text}"
            outcomes[outcome] += 1
            stream.write(line + b"\n")
        if outcomes.total() == outcomes["dead-letter"]:
            raise StopError(f"nothing could be judged: {summary(crawl)}{dead}")
    seconds = max(time.monotonic() - started, 1e-9)
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
    typer.echo(f"{summary(crawl)}; {counts}; {seconds:.1f} s", err=True)
