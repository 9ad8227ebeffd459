"""`neardup fingerprint`: the fingerprints of documents, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import app
from worker.cli.lines import STDIN
from worker.cli.lines import output as opened_output
from worker.cli.options import with_settings
from worker.settings import BatchSettings, EngineSettings, Settings

if TYPE_CHECKING:
    from worker.log.record import Row


class Format(StrEnum):
    """How a fingerprint is written."""

    JSONL = "jsonl"
    DECIMAL = "decimal"
    HEX = "hex"


@app.command()
@with_settings(EngineSettings, BatchSettings)
def fingerprint(
    settings: Settings,
    files: Annotated[list[str], typer.Argument(help="WARC, ARC, WET or JSON Lines; gzip or zstd; - for stdin.")],
    output: Annotated[Path | None, typer.Option(help="Where to write; stdout if left out.")] = None,
    written: Annotated[
        Format, typer.Option("--format", help="JSON Lines; or one number a line, as find-all reads them, or hex.")
    ] = Format.JSONL,
    fetched_at: Annotated[
        str | None, typer.Option(help="Fetch time of JSON Lines that bring none, like 2026-01-31T12:00:00Z.")
    ] = None,
) -> None:
    """
    Fingerprint the documents of files, in their order, one line each.

    A document without a fingerprint (nothing in it, or not to be read) is named on stderr and counted.
    """
    from worker.cli.progress import report_damage, summary, tracked  # noqa: PLC0415
    from worker.log.record import RowKind  # noqa: PLC0415
    from worker.shell.crawl_files import CrawlFiles  # noqa: PLC0415
    from worker.shell.files import prepared_rows, preparing  # noqa: PLC0415

    crawl = CrawlFiles(files, report_damage, fetched_at_default=fetched_at)
    without: Counter[str] = Counter()

    def kept(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if row.kind in (RowKind.FULL, RowKind.SHORT):
                yield row
            else:
                without[RowKind(row.kind).name.lower()] += 1
                typer.echo(f"no fingerprint: document {row.offset} {row.doc_id}: {row.note}", err=True)

    with preparing(settings) as preparer, opened_output(output or STDIN) as stream:
        messages = ((record.key, record.value) for record in tracked(crawl, crawl, "fingerprinting"))
        for row in kept(prepared_rows(preparer, messages, settings.batch_documents_max)):
            stream.write(_line(row, written))
    counts = "".join(f", {count:,} {name}" for name, count in sorted(without.items()))
    typer.echo(f"{summary(crawl)}{counts}", err=True)


def _line(row: Row, written: Format) -> bytes:
    import orjson  # noqa: PLC0415

    if written is Format.DECIMAL:
        return b"%d\n" % row.fingerprint
    if written is Format.HEX:
        return b"%016x\n" % row.fingerprint
    fields = {"doc_id": row.doc_id, "fingerprint": f"{row.fingerprint:016x}", "features": row.features}
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
