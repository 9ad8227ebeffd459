"""`neardup nearest`: what in a file is most similar to a given document or fingerprint."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from worker.cli import shared
from worker.cli.fingerprints import (
    FINGERPRINTS_HELP,
    NUMBERS,
    Ids,
    OutputOption,
    read_fingerprints,
    write_arrays,
)
from worker.cli.options import DOCUMENTS, with_settings
from worker.cli.reading import Reading
from worker.cli.shared import STDIN, QuietOption
from worker.core.pairs import nearest as rank_nearest
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.places import checked_files


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
            help=FINGERPRINTS_HELP,
        ),
    ] = STDIN,
    count: Annotated[int, typer.Option(help="Write at most this many documents.", min=1)] = 10,
    target: OutputOption = STDIN,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Write the documents that are most similar to a given one, the most similar first.

    A line is [doc_id or fingerprint, bits that differ]. Documents at the same distance are in the
    order of the file. A document that is given by its doc_id is left out.
    """
    checked_files([str(source)], [target], settings.files)
    fingerprints, ids = read_fingerprints(source, settings, reading, quiet)
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
        write_arrays(stream, itertools.islice(named, count))


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
    are_numbers = any(name.isdigit() for group in ids.values() for name in group)
    if are_numbers and to.isdigit():  # it may have been meant for one of them
        shared.notice(f"no document has the doc_id {to!r}: it is taken for a fingerprint")
    return number
