"""`neardup feed`: crawler output into the topic of documents."""

from __future__ import annotations

import json
import secrets
import time
from typing import Annotated

import typer

from worker.cli import app
from worker.cli.columns import printable
from worker.cli.lines import FetchedAtOption, FilesArgument, QuietOption
from worker.cli.options import with_cluster
from worker.cli.progress import summary, tally_of, tracked
from worker.settings import Settings


@app.command()
@with_cluster("topic_documents")
def feed(
    settings: Settings,
    files: FilesArgument,
    fetched_at: FetchedAtOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON, on stdout.")] = False,
    quiet: QuietOption = False,
    rate: Annotated[float, typer.Option(help="At most so many documents a second; 0 is no limit.", min=0)] = 0,
) -> None:
    """
    Send crawler output to the topic of documents.

    A damaged record is named and counted, and the rest goes on. Exit code 1 if a document could not be delivered, or if
    there was none.
    """
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415
    from worker.shell.files.feed import BODY_BYTES_MAX, feed_documents  # noqa: PLC0415

    crawl = CrawlFiles(
        files,
        body_max=BODY_BYTES_MAX,
        fetched_at_default=fetched_at,
        number_from=secrets.randbits(62),  # no other run has fed the numbers from there on
    )
    started = time.monotonic()
    outcome = feed_documents(settings, tracked(crawl, "feeding", quiet=quiet), rate)
    seconds = max(time.monotonic() - started, 1e-9)
    if as_json:
        told = tally_of(crawl) | {"delivered": outcome.delivered, "failed": outcome.failures}
        typer.echo(json.dumps(told | {"seconds": round(seconds, 3)}))
    elif not quiet:
        typer.echo(f"{summary(crawl)}; {outcome.delivered:,} delivered in {seconds:.1f} s", err=True)
    for reason in outcome.failed:
        typer.echo(printable(f"not delivered: {reason}"), err=True)
    if outcome.failures or not outcome.delivered:
        raise typer.Exit(1)
