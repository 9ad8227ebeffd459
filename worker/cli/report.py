"""`neardup report`: all verdicts on one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.answers import is_folder_of_verdicts, read_answers, texts_of_files
from worker.cli.options import CLUSTER, await_cluster, with_settings
from worker.cli.reading import Reading
from worker.cli.shared import QuietOption, notice, option
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.formats import HTML, INPUTS, check_format
from worker.shell.files.outputs import packed, written
from worker.shell.files.places import open_input

_DEFAULT = Path("report.html")
_OF_A_PAGE = b"<title>Near-duplicates: "  # in the head of each page
_HEAD_BYTES = 4_096


@with_settings("definition", *CLUSTER, "topic_verdicts", "topic_dead_letter", "document_bytes_max")
def report(
    settings: Settings,
    verdicts: Annotated[
        Path | None,
        typer.Argument(
            help="Output of `dedup`, `verdicts --json` or `archive` (a folder); - for stdin. "
            "Without it, the topics are read."
        ),
    ] = None,
    output: Annotated[
        Path | None, option("Where to write the page; - is stdout. [default: report.html]", "PATH")
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help=f"The judged documents, for texts and languages: {INPUTS}; "
            "a folder, or a name with *.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page. [default: the name of the file or topic]")
    ] = None,
    clusters: Annotated[
        int, typer.Option(help="How many of the largest clusters to show.", min=0, max=100)
    ] = 8,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write an HTML page that shows the verdicts of a file or of the topics.

    It shows documents over time, distances, clusters with their texts side by side, documents that
    stay new although they look like another, hosts, re-crawls, languages, and which documents were
    not judged and why. The page loads nothing from other addresses. The file is read once and takes
    some 35 bytes of memory per verdict.
    """
    from worker.report.page import page  # noqa: PLC0415
    from worker.report.tally import Tally  # noqa: PLC0415
    from worker.shell.files.places import check_outside, shown_name  # noqa: PLC0415

    if output is None:
        output = _DEFAULT
        _check_default()
    if verdicts is not None and is_folder_of_verdicts(verdicts):
        check_outside([str(verdicts)], [output])  # the next report would read the page
    judged = [] if verdicts is None else [verdicts]
    files = reading.files(documents or [], [output], [*settings.files, *judged])
    if verdicts is None:
        await_cluster(settings)
    check_format(output, HTML)
    with Tally() as tally, written(output) as file, packed(file, output) as stream:
        for answer, value in read_answers(verdicts, settings, quiet=quiet):
            tally.take(answer, value)
        largest = tally.clusters.largest(clusters)
        read = None
        if files:
            wanted = tally.wanted(largest)
            read = texts_of_files(
                files, wanted, settings, reading, quiet, len(tally), from_topics=verdicts is None
            )
        known = {settings.parameters.hash: settings.rules.settings}
        source = settings.topic_verdicts if verdicts is None else shown_name(verdicts.name)
        name = title or source
        stream.write(page(tally, name, largest, read, known))
    if not quiet:
        notice(f"{output}: {len(tally):,} answers")


def _check_default() -> None:
    """Raise StopError if a file is in the default place that is no page of ours."""
    if not _DEFAULT.is_file():
        return
    with open_input(str(_DEFAULT)) as stream:
        head = stream.read(_HEAD_BYTES)
    if head and _OF_A_PAGE not in head:
        raise StopError(
            f"{_DEFAULT} is there and is no page of `neardup report`: name an --output, which may "
            "be this file"
        )
