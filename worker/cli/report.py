"""`neardup report`: what a crawl's verdicts amount to, as one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import app
from worker.cli.answers import read_answers
from worker.cli.cluster import await_cluster
from worker.cli.columns import printable
from worker.cli.lines import QuietOption, opened_output
from worker.cli.options import CLUSTER, with_settings
from worker.cli.progress import tracked
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.outputs import check_format

if TYPE_CHECKING:
    from worker.report.clusters import Cluster
    from worker.report.texts import Read


@app.command()
@with_settings(*CLUSTER, "topic_verdicts", "topic_dead_letter", "document_bytes_max", "text_characters_max")
def report(
    settings: Settings,
    verdicts: Annotated[
        Path | None,
        typer.Argument(help="Lines of `neardup dedup` or `neardup verdicts --format jsonl`; - for stdin; else topics."),
    ] = None,
    output: Annotated[Path, typer.Option(help="The page; - is stdout.")] = Path("report.html"),
    documents: Annotated[
        list[str] | None, typer.Option(help="What was judged (WARC, ARC, WET, JSON Lines), for texts and languages.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page; the name of the file, or of the topic.")] = None,
    clusters: Annotated[int, typer.Option(help="Largest clusters that are shown.", min=0, max=100)] = 8,
    quiet: QuietOption = False,
) -> None:
    """
    Draw the verdicts of a file, or of the topics, on one page of HTML.

    Documents over time, distances, clusters with their texts side by side, hosts, re-crawls, languages, what was not
    judged and why. The page loads nothing. The file is read once: some 35 bytes of memory a verdict.
    """
    from worker.report.page import page  # noqa: PLC0415
    from worker.report.tally import Tally  # noqa: PLC0415

    if verdicts is None:
        await_cluster(settings)
    inputs = [] if verdicts is None else [str(verdicts)]
    with Tally() as tally, opened_output(output, [*inputs, *(documents or [])]) as stream:
        check_format(output, "HTML")
        for value, answer in read_answers(verdicts, settings, quiet=quiet):
            tally.take(answer, value)
        if not len(tally):
            raise StopError(f"{verdicts or settings.topic_verdicts} has no verdict yet: nothing to report")
        largest = tally.clusters.largest(clusters)
        read = _read(documents, largest, len(tally), settings, quiet) if documents else None
        known = {settings.parameters.hash: settings.definition.settings}
        name = title or (settings.topic_verdicts if verdicts is None else verdicts.name)
        stream.write(page(tally, name, largest, read, known))
    if not quiet:
        typer.echo(printable(f"{output}: {len(tally):,} answers"), err=True)


def _read(documents: list[str], largest: list[Cluster], count: int, settings: Settings, quiet: bool) -> Read:
    from worker.report.texts import read_texts  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415

    wanted = {doc_id for one in largest for doc_id in (one.original.doc_id, one.farthest.doc_id)}
    crawl = CrawlFiles(documents)
    return read_texts(tracked(crawl, "reading texts", quiet=quiet), wanted, settings, count)
