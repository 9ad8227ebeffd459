"""`neardup sample-crawl`: a synthetic crawl, and the truth about its documents."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.progress import passed
from worker.cli.shared import QuietOption
from worker.devkit.sample.crawl import truth_path, write_sample_crawl
from worker.errors import StopError
from worker.shell.files.formats import WARC, check_format
from worker.shell.files.places import descriptor_of, is_pipe


def sample_crawl(
    out: Annotated[
        Path,
        typer.Argument(help="The archive to write, like crawl.warc.gz; the truth goes next to it."),
    ],
    documents: Annotated[
        int, typer.Option(help="How many documents.", min=1, max=100_000_000)
    ] = 10_000,
    seed: Annotated[
        int, typer.Option(help="Equal seeds give equal bytes, on every machine.", min=0)
    ] = 1,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Damage some of the documents, as crawls do.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Write a synthetic crawl in eight languages, and the truth about each document.

    It has sites with mirrors, syndicated copies, edits, re-crawls, articles in plain text whose
    advertisements rotate, and pages of one template with other facts. For each document,
    OUT.truth.jsonl says which article it contains and how it was made.
    """
    check_format(out, WARC)
    if is_pipe(str(out)) or descriptor_of(out) is not None:
        raise StopError(f"{out} is no file, and the truth is written next to it: name a file")
    passing = partial(
        passed, doing="writing", unit="documents", total=lambda _: documents, quiet=quiet
    )
    relations = write_sample_crawl(out, documents, seed, passing, damaged=damaged)
    if quiet:
        return
    counts = ", ".join(f"{count:,} {relation}" for relation, count in relations.most_common())
    readable = (
        "; of what is damaged, three in five are read all the same" if relations["damaged"] else ""
    )
    typer.echo(f"{out} and {truth_path(out)}: {counts}{readable}", err=True)
