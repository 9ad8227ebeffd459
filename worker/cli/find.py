"""`neardup find-all` and `find-clusters`: near-duplicates among fingerprints that are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from worker.cli import app
from worker.cli.documents import read
from worker.cli.lines import STDIN, output, write_arrays
from worker.cli.options import with_settings
from worker.settings import BatchSettings, EngineSettings, Settings

InputOption = Annotated[Path, typer.Option("--input", help="Decimal fingerprints, one a line; - is stdin.")]
OutputOption = Annotated[Path, typer.Option("--output", help="JSON arrays, one a line; - is stdout.")]
BlocksOption = Annotated[
    int | None, typer.Option(help="Blocks of the permutations, more than the distance. [default: distance + 2]", min=1)
]
DistanceOption = Annotated[int, typer.Option(help="Bits that may differ.", min=0, max=15)]
DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        "--documents",
        help="In place of --input: documents (WARC, ARC, WET, JSON Lines), or lines of `neardup fingerprint`; "
        "- is stdin. The output has doc_ids.",
    ),
]


@app.command()
@with_settings(EngineSettings, BatchSettings)
def find_all(
    settings: Settings,
    source: InputOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
) -> None:
    """Write every pair of fingerprints within a distance, as a JSON array; equal ones count once, doc_ids each."""
    from worker.core.pairs import all_pairs  # noqa: PLC0415

    _check(blocks, distance)
    fingerprints, ids = read(source, documents, settings)
    with output(target) as stream, _progress() as on_table:
        if ids is not None:
            write_arrays(stream, (pair for group in ids.values() for pair in _pairs_within(group)))
        for pairs in all_pairs(fingerprints, distance, blocks, on_table):
            if ids is None:
                write_arrays(stream, pairs.tolist())
            else:
                write_arrays(stream, ([a, b] for x, y in pairs.tolist() for a in ids[x] for b in ids[y]))


@app.command()
@with_settings(EngineSettings, BatchSettings)
def find_clusters(
    settings: Settings,
    source: InputOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
) -> None:
    """Write every cluster, joined by pairs within a distance, as a JSON array; nothing stands alone."""
    from worker.core.pairs import clusters  # noqa: PLC0415

    _check(blocks, distance)
    fingerprints, ids = read(source, documents, settings)
    with output(target) as stream, _progress() as on_table:
        found = [cluster.tolist() for cluster in clusters(fingerprints, distance, blocks, on_table)]
        if ids is not None:
            joined = {number for cluster in found for number in cluster}
            found = [[doc_id for number in cluster for doc_id in ids[number]] for cluster in found]
            found += [group for number, group in ids.items() if len(group) > 1 and number not in joined]
        write_arrays(stream, found)


def _check(blocks: int | None, distance: int) -> None:
    if blocks is not None and blocks <= distance:
        raise typer.BadParameter(
            f"must exceed --distance, got --blocks {blocks} --distance {distance}: no block would be left to match on"
        )


def _pairs_within(group: list[str]) -> Iterator[list[str]]:
    return ([a, b] for i, a in enumerate(group) for b in group[i + 1 :])


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show the tables done on a terminal; nothing in a pipe."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("tables", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
