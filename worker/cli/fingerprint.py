"""`neardup fingerprint`: the fingerprints of documents, one line each."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from worker.cli import app
from worker.cli.columns import printable
from worker.cli.lines import STDIN, FetchedAtOption, FilesArgument, QuietOption, opened_lines
from worker.cli.options import DOCUMENTS, FINGERPRINTS, with_settings
from worker.cli.progress import summary, tracked
from worker.errors import StopError
from worker.log.rows import RowKind
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.log.rows import Row


Format = Literal["jsonl", "decimal", "hex"]


@app.command()
@with_settings(*FINGERPRINTS, *DOCUMENTS)
def fingerprint(
    settings: Settings,
    files: FilesArgument,
    output: Annotated[Path, typer.Option(help="Where to write; - is stdout.")] = STDIN,
    written: Annotated[
        Format, typer.Option("--format", help="JSON Lines; or one number a line, as find-all reads them, or hex.")
    ] = "jsonl",
    fetched_at: FetchedAtOption = None,
    quiet: QuietOption = False,
) -> None:
    """
    Fingerprint the documents of files, in their order, one line each.

    A document without a fingerprint (nothing in it, or not to be read) is named on stderr and counted. When no document
    has one, the exit code is 1, and no output is made.
    """
    from worker.shell.files.crawl import CrawlFiles, with_answers  # noqa: PLC0415
    from worker.shell.files.engine import prepared_rows  # noqa: PLC0415

    crawl = CrawlFiles(files, fetched_at_default=fetched_at)
    without: Counter[str] = Counter()
    with opened_lines(output, files) as stream:
        rows = partial(prepared_rows, settings=settings)
        for record, row in with_answers(tracked(crawl, "fingerprinting", quiet=quiet), rows):
            if row.kind in (RowKind.FULL, RowKind.SHORT):
                stream.write(_line(row, written))
            else:
                without[RowKind(row.kind).name.lower()] += 1
                typer.echo(printable(f"no fingerprint: {record.place}: {row.doc_id}: {row.note}"), err=True)
        counts = "".join(f", {count:,} {name}" for name, count in sorted(without.items()))
        if crawl.tally.documents == without.total():
            raise StopError(f"nothing could be fingerprinted: {summary(crawl)}{counts}")
    if not quiet:
        typer.echo(f"{summary(crawl)}{counts}", err=True)


def _line(row: Row, written: Format) -> bytes:
    if written == "decimal":
        return b"%d\n" % row.fingerprint
    if written == "hex":
        return b"%016x\n" % row.fingerprint
    fields = {"doc_id": row.doc_id, "fingerprint": f"{row.fingerprint:016x}", "features": row.features}
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
