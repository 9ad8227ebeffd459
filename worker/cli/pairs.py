"""`neardup find-all` and `find-clusters`: pairs of fingerprints within a distance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from worker.cli import shared
from worker.cli.fingerprints import (
    FINGERPRINTS_HELP,
    Ids,
    OutputOption,
    read_fingerprints,
    write_arrays,
)
from worker.cli.options import DOCUMENTS, with_settings
from worker.cli.progress import counted
from worker.cli.reading import Reading
from worker.cli.shared import STDIN, QuietOption
from worker.core.pairs import all_pairs, clusters
from worker.core.permutation import permuted
from worker.settings import Settings
from worker.shell.files.places import checked_files


def _pairs(fingerprints: NDArray[np.uint64], ids: Ids, *search: Any) -> Iterator[list[Any]]:
    """Yield the pairs of fingerprints within a distance; with `ids`, all pairs of their doc_ids."""
    for group in ids.values():
        yield from map(list, itertools.combinations(group, 2))
    for pairs in all_pairs(fingerprints, *search):
        if ids:
            yield from ([a, b] for x, y in pairs.tolist() for a in ids[x] for b in ids[y])
        else:
            yield from pairs.tolist()


def _clusters(fingerprints: NDArray[np.uint64], ids: Ids, *search: Any) -> Iterator[list[Any]]:
    """Yield the clusters of fingerprints, or of doc_ids where there are `ids`."""
    alone = dict(ids)
    for cluster in clusters(fingerprints, *search):
        members = cluster.tolist()
        yield [doc_id for member in members for doc_id in alone.pop(member)] if ids else members
    yield from (group for group in alone.values() if len(group) > 1)


def _copies(fingerprints: NDArray[np.uint64], ids: Ids, *search: Any) -> Iterator[dict[str, Any]]:
    """Yield the first document of each cluster (of numbers the smallest) and the cluster's size."""
    ranks: dict[Any, int] = {}
    for doc_id in itertools.chain.from_iterable(ids.values()):
        ranks[doc_id] = len(ranks)
    name = "doc_id" if ids else "fingerprint"
    for cluster in _clusters(fingerprints, ids, *search):
        first = min(cluster, key=ranks.__getitem__) if ids else min(cluster)
        yield {name: first, "copies": len(cluster)}


SourceOption = Annotated[Path, typer.Option("--input", help=FINGERPRINTS_HELP)]
BlocksOption = Annotated[
    int | None,
    typer.Option(
        help=(
            "Number of blocks of the permutations; must exceed the distance. "
            "[default: distance + 2]"
        ),
        min=1,
    ),
]
DistanceOption = Annotated[
    int,
    typer.Option(
        help="Largest number of bits in which two fingerprints may differ.", min=0, max=15
    ),
]


@with_settings("definition", *DOCUMENTS)
def find_all(
    settings: Settings,
    source: SourceOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write every pair of fingerprints within a distance.

    Each pair is a JSON array. Equal fingerprints count once; with doc_ids, each document counts.
    """
    _find(_pairs, source, distance, blocks, target, settings, reading, quiet)


@with_settings("definition", *DOCUMENTS)
def find_clusters(
    settings: Settings,
    source: SourceOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    copies: Annotated[
        bool, typer.Option("--copies", help="Write the first member of each cluster, and its size.")
    ] = False,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write the clusters of fingerprints that are linked by pairs within a distance.

    Each cluster is a JSON array of at least two members.
    """
    find = _copies if copies else _clusters
    _find(find, source, distance, blocks, target, settings, reading, quiet)


def _find(
    find: Callable[..., Iterable[Any]],
    source: Path,
    distance: int,
    blocks: int | None,
    target: Path,
    settings: Settings,
    reading: Reading,
    quiet: bool,
) -> None:
    """Write what `find` yields of the fingerprints: `_pairs`, `_clusters` or `_copies`."""
    try:
        permuted(distance, distance + 2 if blocks is None else blocks)
    except ValueError as error:
        raise typer.BadParameter(f"--blocks {blocks} --distance {distance}: {error}") from None
    checked_files([str(source)], [target], settings.files)
    fingerprints, ids = read_fingerprints(source, settings, reading, quiet)
    with (
        shared.opened_lines(target) as stream,
        counted("tables", quiet=quiet) as tell,
    ):
        found = find(fingerprints, ids, distance, blocks, partial(tell, "finding"))
        count = write_arrays(stream, found)
    if not count and not quiet:
        different = len(np.unique(fingerprints))
        typer.echo(
            f"no two of {different:,} different fingerprints are within {distance} bits", err=True
        )
