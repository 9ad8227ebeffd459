"""`neardup find-all` and `find-clusters`: near-duplicates among fingerprints that are there already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from worker.cli import app
from worker.errors import StopError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STDIN = Path("-")

InputOption = Annotated[Path, typer.Option("--input", help="Decimal fingerprints, one a line; - is stdin.")]
OutputOption = Annotated[Path, typer.Option("--output", help="JSON arrays, one a line; - is stdout.")]
BlocksOption = Annotated[
    int | None, typer.Option(help="Blocks of the permutations, more than the distance. [default: distance + 2]", min=1)
]
DistanceOption = Annotated[int, typer.Option(help="Bits that may differ.", min=0, max=15)]
DocumentsOption = Annotated[
    Path | None,
    typer.Option("--documents", help="In place of --input: lines of `neardup fingerprint`; the output has doc_ids."),
]


@app.command()
def find_all(
    source: InputOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
) -> None:
    """Write every pair of fingerprints within a distance, as a JSON array; equal ones count once, doc_ids each."""
    from worker.core.pairs import all_pairs  # noqa: PLC0415

    fingerprints, ids = _read(source, documents)
    _check(blocks, distance)
    with _output(target) as stream, _progress() as on_table:
        if ids is not None:
            _write(stream, (pair for group in ids.values() for pair in _pairs_within(group)))
        for pairs in all_pairs(fingerprints, distance, blocks, on_table):
            if ids is None:
                _write(stream, pairs.tolist())
            else:
                _write(stream, ([a, b] for x, y in pairs.tolist() for a in ids[x] for b in ids[y]))


@app.command()
def find_clusters(
    source: InputOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
) -> None:
    """Write every cluster, joined by pairs within a distance, as a JSON array; nothing stands alone."""
    from worker.core.pairs import clusters  # noqa: PLC0415

    fingerprints, ids = _read(source, documents)
    _check(blocks, distance)
    with _output(target) as stream, _progress() as on_table:
        found = [cluster.tolist() for cluster in clusters(fingerprints, distance, blocks, on_table)]
        if ids is not None:
            joined = {number for cluster in found for number in cluster}
            found = [[doc_id for number in cluster for doc_id in ids[number]] for cluster in found]
            found += [group for number, group in ids.items() if len(group) > 1 and number not in joined]
        _write(stream, found)


def _check(blocks: int | None, distance: int) -> None:
    if blocks is not None and blocks <= distance:
        raise typer.BadParameter(
            f"must exceed --distance, got --blocks {blocks} --distance {distance}: no block would be left to match on"
        )


def _read(source: Path, documents: Path | None) -> tuple[NDArray[np.uint64], dict[int, list[str]] | None]:
    """Give the fingerprints, and the doc_ids of each when they come with documents."""
    import numpy as np  # noqa: PLC0415

    if documents is None:
        with _input(source) as stream:
            return _decimal(stream.read(), str(source)), None
    ids: dict[int, list[str]] = {}
    with _input(documents) as stream:
        for line_number, line in enumerate(stream, start=1):
            doc_id, fingerprint = _document(line, f"{documents}, line {line_number}")
            ids.setdefault(fingerprint, []).append(doc_id)
    return np.fromiter(ids, np.uint64, len(ids)), ids


def _decimal(text: bytes, name: str) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415

    lines = text.split()
    try:
        return np.array(lines, dtype="S20").astype(np.uint64) if _are_short(lines) else _one_by_one(lines)
    except (ValueError, OverflowError):
        bad = next(i for i, line in enumerate(lines) if not line.isdigit() or int(line) >= 2**64)
        raise StopError(
            f"{name}: number {bad + 1} must be a decimal from 0 to 2^64 - 1, got {lines[bad][:100]!r}"
        ) from None


def _are_short(lines: list[bytes]) -> bool:
    return all(len(line) < 20 for line in lines)  # 19 digits cannot overflow


def _one_by_one(lines: list[bytes]) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415

    return np.array([int(line) for line in lines], np.uint64)


def _document(line: bytes, where: str) -> tuple[str, int]:
    import orjson  # noqa: PLC0415

    try:
        fields = orjson.loads(line)
        return str(fields["doc_id"]), int(fields["fingerprint"], 16)
    except (ValueError, KeyError, TypeError) as error:
        raise StopError(
            f"{where}: must be an object with doc_id and fingerprint (16 hex digits), as `neardup fingerprint` writes "
            f"them, got {line[:100]!r}"
        ) from error


def _pairs_within(group: list[str]) -> Iterator[list[str]]:
    return ([a, b] for i, a in enumerate(group) for b in group[i + 1 :])


def _write(stream: BinaryIO, arrays: Iterable[Any]) -> None:
    import orjson  # noqa: PLC0415

    for array in arrays:
        stream.write(orjson.dumps(array, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def _input(path: Path) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise StopError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def _output(path: Path) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with path.open("wb") as stream:
        yield stream


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show the tables done on a terminal; nothing in a pipe."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("tables", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
