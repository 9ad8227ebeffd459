"""`neardup find-all` and `find-clusters`: near-duplicates among fingerprints that are there already."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import app
from worker.cli.documents import read
from worker.cli.lines import STDIN, QuietOption, opened_lines, write_arrays
from worker.cli.options import DOCUMENTS, FINGERPRINTS, with_settings
from worker.cli.progress import counted
from worker.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Ids = dict[int, list[str]]
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


def _pairs(fingerprints: NDArray[np.uint64], ids: Ids | None, *search: Any) -> Iterator[list[Any]]:
    """
    Write every pair of fingerprints within a distance.

    A pair is a JSON array. Equal fingerprints count once, doc_ids each.
    """
    from worker.core.pairs import all_pairs  # noqa: PLC0415

    for group in (ids or {}).values():
        yield from map(list, itertools.combinations(group, 2))
    for pairs in all_pairs(fingerprints, *search):
        if ids is None:
            yield from pairs.tolist()
        else:
            yield from ([a, b] for x, y in pairs.tolist() for a in ids[x] for b in ids[y])


def _clusters(fingerprints: NDArray[np.uint64], ids: Ids | None, *search: Any) -> Iterator[list[Any]]:
    """
    Write every cluster, joined by pairs within a distance.

    A cluster is a JSON array. Nothing stands alone.
    """
    from worker.core.pairs import clusters  # noqa: PLC0415

    alone = dict(ids or {})
    for cluster in clusters(fingerprints, *search):
        members = cluster.tolist()
        yield members if ids is None else [doc_id for member in members for doc_id in alone.pop(member)]
    yield from (group for group in alone.values() if len(group) > 1)


def _add_command(name: str, find: Callable[..., Iterable[list[Any]]]) -> None:
    @app.command(name, help=find.__doc__)
    @with_settings(*FINGERPRINTS, *DOCUMENTS)
    def run(
        settings: Settings,
        source: InputOption = STDIN,
        target: OutputOption = STDIN,
        blocks: BlocksOption = None,
        distance: DistanceOption = 3,
        documents: DocumentsOption = None,
        quiet: QuietOption = False,
    ) -> None:
        from worker.core.permutation import permuted  # noqa: PLC0415

        try:
            permuted(distance, distance + 2 if blocks is None else blocks)
        except ValueError as error:
            raise typer.BadParameter(f"--blocks {blocks} --distance {distance}: {error}") from None
        if documents is not None and source != STDIN:
            raise typer.BadParameter("--input and --documents: name one of them")
        fingerprints, ids = read(source, documents, settings, quiet=quiet)
        with opened_lines(target, [documents or source]) as stream, counted("tables", quiet=quiet) as tell:
            write_arrays(stream, find(fingerprints, ids, distance, blocks, partial(tell, "finding")))


_add_command("find-all", _pairs)
_add_command("find-clusters", _clusters)
