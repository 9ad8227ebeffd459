"""
`neardup fingerprint`, `find-all`, `find-clusters` and `nearest`: compare documents or fingerprints
in files, without keeping an index.

All read one of two things: decimal numbers, one per line; or documents with doc_ids, whose
fingerprints are made here unless the lines are those of `neardup fingerprint`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
import orjson
import typer
from numpy.typing import NDArray

from worker.cli import shared
from worker.cli.options import DOCUMENTS, with_settings
from worker.cli.progress import counted
from worker.cli.reading import Reading
from worker.cli.shared import STDIN, FilesArgument, QuietOption
from worker.core.pairs import all_pairs, clusters
from worker.core.pairs import nearest as rank_nearest
from worker.core.permutation import permuted
from worker.errors import StopError
from worker.log.record import Row, RowKind
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.files.archives.inflate import is_packed
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import prepared_rows
from worker.shell.files.formats import INPUTS, format_of_start
from worker.shell.files.places import check_places, files_of

Format = Literal["jsonl", "decimal", "hex"]
Ids = dict[int, list[str]]  # fingerprint -> doc_ids

NUMBERS = 2**64
PART_BYTES = 1 << 24  # read at once: 16 MB of text are some 800,000 numbers
_FINGERPRINT = re.compile(rb'"fingerprint"\s*:')
_BODY = re.compile(rb'"(?:text|html|body_base64)"\s*:')
_LOOK_BYTES = 4_096

OutputOption = Annotated[
    Path, typer.Option("--output", help="JSON, one value per line; - is stdout.")
]


@with_settings("definition", *DOCUMENTS)
def fingerprint(
    settings: Settings,
    files: FilesArgument,
    output: Annotated[Path, typer.Option(help="Where to write; - is stdout.")] = STDIN,
    written: Annotated[
        Format,
        typer.Option(
            "--format",
            help=(
                "jsonl: JSON Lines. decimal: one number per line, as find-all reads them. hex: the "
                "same in hex."
            ),
        ),
    ] = "jsonl",
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write the fingerprint of each document in files, one per line.

    A document without a fingerprint (empty or unreadable) is named on stderr and counted. If no
    document has one, the exit code is 1 and no output is written.
    """
    inputs = reading.files(files, [output], settings.files)
    crawl = reading.open(inputs)
    without: Counter[str] = Counter()
    with shared.opened_lines(output) as stream:
        for record, row in _rows(crawl, settings, quiet):
            if row.kind in (RowKind.FULL, RowKind.SHORT):
                stream.write(_line(row, written))
            else:
                without[RowKind(row.kind).name.lower()] += 1
                typer.echo(
                    shared.printable(f"no fingerprint: {record.place}: {row.doc_id}: {row.note}"),
                    err=True,
                )
        counts = "".join(f", {count:,} {name}" for name, count in sorted(without.items()))
        if crawl.tally.documents == without.total():
            raise StopError(f"nothing could be fingerprinted: {crawl.tally.told()}{counts}")
    if not quiet:
        typer.echo(f"{crawl.tally.told()}{counts}", err=True)


def _rows(crawl: CrawlFiles, settings: Settings, quiet: bool) -> Iterator[tuple[Record, Row]]:
    """Return each document with its row."""
    return with_answers(
        shared.tracked(crawl, "fingerprinting", quiet=quiet),
        partial(prepared_rows, settings=settings),
    )


def _line(row: Row, written: Format) -> bytes:
    if written == "decimal":
        return b"%d\n" % row.fingerprint
    if written == "hex":
        return b"%016x\n" % row.fingerprint
    fields = {
        "doc_id": row.doc_id,
        "fingerprint": f"{row.fingerprint:016x}",
        "features": row.features,
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _read(
    source: Path, documents: Path | None, settings: Settings, reading: Reading, quiet: bool
) -> tuple[NDArray[np.uint64], Ids]:
    """
    Return the distinct fingerprints with their doc_ids.

    Without documents they are those of `source`, which have no doc_ids.

    A doc_id that comes again replaces its former self; a deleted one is gone.
    """
    if documents is None:
        if reading.options().columns is not None:
            raise typer.BadParameter("a column of documents is named, and numbers have none")
        with shared.opened(source) as stream:
            return _numbers(stream, str(source)), {}
    fingerprint_of: dict[str, int] = {}
    read: Iterable[tuple[str, int | None]]
    if _content(documents) == "documents":
        read = _of_documents(reading.open(reading.files([str(documents)])), settings, quiet)
    else:
        read = _of_lines(documents)
    for doc_id, value in read:
        fingerprint_of.pop(doc_id, None)
        if value is not None:
            fingerprint_of[doc_id] = value
    if not fingerprint_of:
        raise StopError(f"no document of {documents} has a fingerprint")
    ids: Ids = {}
    for doc_id, number in fingerprint_of.items():
        ids.setdefault(number, []).append(doc_id)
    return np.fromiter(ids, np.uint64, len(ids)), ids


def _content(path: Path) -> Literal["numbers", "fingerprints", "documents"]:
    """
    Return the kind of a file's content: decimals, lines of `neardup fingerprint`, or documents.

    Nothing of stdin is lost by looking.
    """
    if path != STDIN and files_of([str(path)]) != [str(path)]:  # a folder, or a name with *
        return "documents"
    if path == STDIN:
        peek = getattr(sys.stdin.buffer, "peek", None)
        start = b"" if peek is None else bytes(peek(_LOOK_BYTES))
    else:
        with shared.opened(path) as stream:
            start = stream.read(_LOOK_BYTES)
    line = start.lstrip().partition(b"\n")[0]
    is_document = format_of_start(str(path), start) is not None or is_packed(start)
    if line.strip().isdigit() or not is_document:
        return "numbers"
    return "fingerprints" if _FINGERPRINT.search(line) and not _BODY.search(line) else "documents"


def _numbers(stream: BinaryIO, name: str) -> NDArray[np.uint64]:
    """
    Return the numbers of a file, read part by part.

    As Python objects, ten million numbers would take more memory than finding their pairs.
    """
    parts = [np.empty(0, np.uint64)]
    while text := stream.read(PART_BYTES):
        lines = (text + stream.readline()).split()
        if not all(map(bytes.isdigit, lines)) or any(int(line) >= NUMBERS for line in lines):
            bad = next(
                i for i, line in enumerate(lines) if not line.isdigit() or int(line) >= NUMBERS
            )
            place = sum(map(len, parts)) + bad + 1
            raise StopError(
                f"{name}: number {place} must be a decimal from 0 to 2^64 - 1, got "
                f"{lines[bad][:100]!r}"
            )
        parts.append(np.array(list(map(int, lines)), np.uint64))
    return np.concatenate(parts)


def _of_lines(path: Path) -> Iterator[tuple[str, int]]:
    """Yield doc_id and fingerprint of each line of `neardup fingerprint`."""
    with shared.opened(path) as stream:
        for line_number, line in enumerate(stream, start=1):
            try:
                fields = orjson.loads(line)
                doc_id = str(fields["doc_id"])
                number = int(fields["fingerprint"], 16)
                number.to_bytes(8, "big")  # else too large, or negative
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                raise StopError(
                    f"{path}, line {line_number}: must be an object with doc_id and fingerprint "
                    f"(16 hex digits), as `neardup fingerprint` writes them, got {line[:100]!r}"
                ) from error
            yield doc_id, number


def _of_documents(
    crawl: CrawlFiles, settings: Settings, quiet: bool
) -> Iterator[tuple[str, int | None]]:
    """Yield doc_id and fingerprint of each document that has one, None for one that is deleted."""
    without = 0
    for record, row in _rows(crawl, settings, quiet):
        if row.kind in (RowKind.FULL, RowKind.SHORT, RowKind.DELETED):
            yield row.doc_id, None if row.kind == RowKind.DELETED else row.fingerprint
            continue
        without += 1
        if row.kind == RowKind.DEAD:
            typer.echo(shared.printable(f"no fingerprint: {record.place}: {row.note}"), err=True)
    if not quiet:
        typer.echo(f"{crawl.tally.told()}, {without} without a fingerprint", err=True)


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


SourceOption = Annotated[
    Path, typer.Option("--input", help="Fingerprints as decimal numbers, one per line; - is stdin.")
]
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
DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        help=f"Read instead of --input: documents ({INPUTS}), or lines of `neardup fingerprint`; "
        "- is stdin. The output has doc_ids.",
    ),
]


@with_settings("definition", *DOCUMENTS)
def find_all(
    settings: Settings,
    source: SourceOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write every pair of fingerprints within a distance.

    Each pair is a JSON array. Equal fingerprints count once; with doc_ids, each document counts.
    """
    search = _Search(source, documents, distance, blocks)
    _find(_pairs, search, target, settings, reading, quiet)


@with_settings("definition", *DOCUMENTS)
def find_clusters(
    settings: Settings,
    source: SourceOption = STDIN,
    target: OutputOption = STDIN,
    blocks: BlocksOption = None,
    distance: DistanceOption = 3,
    documents: DocumentsOption = None,
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
    search = _Search(source, documents, distance, blocks)
    _find(_copies if copies else _clusters, search, target, settings, reading, quiet)


class _Search(NamedTuple):
    """The fingerprints to search, and the largest distance between two of them."""

    source: Path  # numbers
    documents: Path | None  # in their place
    distance: int
    blocks: int | None


def _find(
    find: Callable[..., Iterable[Any]],
    search: _Search,
    target: Path,
    settings: Settings,
    reading: Reading,
    quiet: bool,
) -> None:
    """Write what `find` yields of the fingerprints: `_pairs`, `_clusters` or `_copies`."""
    source, documents, distance, blocks = search
    try:
        permuted(distance, distance + 2 if blocks is None else blocks)
    except ValueError as error:
        raise typer.BadParameter(f"--blocks {blocks} --distance {distance}: {error}") from None
    if documents is not None and source != STDIN:
        raise typer.BadParameter("--input and --documents: name one of them")
    check_places([documents or source, *settings.files], [target])
    fingerprints, ids = _read(source, documents, settings, reading, quiet)
    with (
        shared.opened_lines(target) as stream,
        counted("tables", quiet=quiet) as tell,
    ):
        _write_arrays(stream, find(fingerprints, ids, distance, blocks, partial(tell, "finding")))


def _write_arrays(stream: BinaryIO, arrays: Iterable[Any]) -> None:
    for array in arrays:
        stream.write(orjson.dumps(array, option=orjson.OPT_APPEND_NEWLINE))


@with_settings("definition", *DOCUMENTS)
def nearest(
    settings: Settings,
    to: Annotated[
        str,
        typer.Option(help="The document: its doc_id, or a fingerprint (decimal, or 0x and hex)."),
    ],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"Decimal fingerprints, one per line; or documents ({INPUTS}); or lines of "
            "`neardup fingerprint`. - is stdin.",
        ),
    ] = STDIN,
    count: Annotated[int, typer.Option(help="Write at most this many documents.", min=1)] = 10,
    target: OutputOption = STDIN,
    documents: Annotated[
        Path | None, typer.Option(help="Read this instead of FILE, if it has doc_ids.")
    ] = None,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write the documents that are most similar to a given one, the most similar first.

    A line is [doc_id or fingerprint, bits that differ]. Documents at the same distance are in the
    order of the file. A document that is given by its doc_id is left out.
    """
    if documents is None and _content(source) != "numbers":
        documents = source
    elif documents is not None and source != STDIN:
        raise typer.BadParameter("FILE and --documents: name one of them")
    check_places([documents or source, *settings.files], [target])
    fingerprints, ids = _read(source, documents, settings, reading, quiet)
    wanted = _wanted(to, ids)
    rows = np.arange(len(fingerprints), dtype=np.uint32)
    ranked = (
        (int(fingerprints[row]), bits)
        for row, bits in rank_nearest(fingerprints, rows, wanted, count + bool(ids))
    )
    named = (
        (name, bits) for number, bits in ranked for name in ids.get(number, [number]) if name != to
    )
    with shared.opened_lines(target) as stream:
        _write_arrays(stream, itertools.islice(named, count))


def _wanted(to: str, ids: Ids) -> int:
    """Return the fingerprint that is meant by a doc_id, or by a number."""
    for number, group in ids.items():
        if to in group:
            return number
    try:
        number = int(to, 0)
    except ValueError:
        number = -1
    if not 0 <= number < NUMBERS:
        kind = (
            "a doc_id of the file or a fingerprint" if ids else "a fingerprint from 0 to 2^64 - 1"
        )
        raise StopError(f"--to must be {kind}, got {to!r}")
    return number
