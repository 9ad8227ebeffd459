"""`neardup nearest`: the documents most similar to one, ranked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from worker.cli import app
from worker.cli.documents import holds_documents, read
from worker.cli.lines import NUMBERS, STDIN, QuietOption, opened_lines, write_arrays
from worker.cli.options import DOCUMENTS, FINGERPRINTS, with_settings
from worker.errors import StopError
from worker.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@app.command()
@with_settings(*FINGERPRINTS, *DOCUMENTS)
def nearest(
    settings: Settings,
    to: Annotated[str, typer.Option(help="The document: its doc_id, or a fingerprint (decimal, or 0x and hex).")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Decimal fingerprints, one a line; or documents (WARC, ARC, WET, JSON Lines); or lines of "
            "`neardup fingerprint`. - is stdin.",
        ),
    ] = STDIN,
    count: Annotated[int, typer.Option(help="How many, at most.", min=1)] = 10,
    target: Annotated[Path, typer.Option("--output", help="JSON arrays, one a line; - is stdout.")] = STDIN,
    documents: Annotated[
        Path | None, typer.Option("--documents", help="The same as FILE, when it has doc_ids.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """
    Write the documents most similar to one, the most similar first.

    A line is [doc_id or fingerprint, bits that differ]. Documents as far away as each other come in the order of the
    file. A doc_id does not name itself.
    """
    from worker.core.nearest import nearest as rank  # noqa: PLC0415

    if documents is None and holds_documents(source):
        documents = source
    elif documents is not None and source != STDIN:
        raise typer.BadParameter("FILE and --documents: name one of them")
    fingerprints, ids = read(source, documents, settings, quiet=quiet)
    own = _wanted(to, ids)
    rows = np.arange(len(fingerprints), dtype=np.uint32)
    ranked = rank(fingerprints, rows, own, count + 1 if ids is not None else count)

    def lines() -> Iterator[tuple[str | int, int]]:
        for row, distance in ranked:
            fingerprint = int(fingerprints[row])
            named: list[str | int] = [fingerprint] if ids is None else [*ids[fingerprint]]
            yield from ((name, distance) for name in named if name != to)

    with opened_lines(target, [documents or source]) as stream:
        write_arrays(stream, [line for line, _ in zip(lines(), range(count), strict=False)])


def _wanted(to: str, ids: dict[int, list[str]] | None) -> int:
    """Return the fingerprint that is meant by a doc_id, or by a number."""
    if ids is not None:
        for fingerprint, group in ids.items():
            if to in group:
                return fingerprint
    try:
        fingerprint = int(to, 0)
    except ValueError:
        fingerprint = -1
    if not 0 <= fingerprint < NUMBERS:
        kind = "a fingerprint from 0 to 2^64 - 1" if ids is None else "a doc_id of the file or a fingerprint"
        raise StopError(f"--to must be {kind}, got {to!r}")
    return fingerprint
