"""`neardup fingerprint`: the fingerprint of each document in files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from worker.cli import shared
from worker.cli.fingerprints import prepared
from worker.cli.options import DOCUMENTS, with_settings
from worker.cli.reading import Reading
from worker.cli.shared import STDIN, FilesArgument, QuietOption
from worker.errors import StopError
from worker.log.record import COMPARED_KINDS, Row, RowKind
from worker.settings import Settings

Format = Literal["jsonl", "decimal", "hex"]


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
                "jsonl: JSON Lines. decimal: one number per line, "
                "as find-all reads them. hex: the same in hex."
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
        for record, row in prepared(crawl, settings, quiet):
            if row.kind in COMPARED_KINDS:
                stream.write(_line(row, written))
            else:
                without[RowKind(row.kind).name.lower()] += 1
                told = ": ".join(filter(None, (str(record.place), row.doc_id, row.note)))
                shared.notice(f"no fingerprint: {told}")
        counts = "".join(f", {count:,} {name}" for name, count in sorted(without.items()))
        if crawl.tally.documents == without.total():
            raise StopError(f"nothing could be fingerprinted: {crawl.tally.told()}{counts}")
    if not quiet:
        typer.echo(f"{crawl.tally.told()}{counts}", err=True)


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
