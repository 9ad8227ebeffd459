"""Fingerprints with the doc_ids of their documents: made of documents, or read from lines of `neardup fingerprint`."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import typer

from worker.cli.columns import printable
from worker.cli.lines import NO_TIME, NUMBERS, STDIN, opened, read_fingerprints
from worker.cli.progress import summary, tracked
from worker.errors import StopError
from worker.log.rows import RowKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from worker.settings import Settings

_FINGERPRINT = re.compile(rb'"fingerprint"\s*:')
_BODY = re.compile(rb'"(?:text|html|body_base64)"\s*:')
_STARTS = (b"{", b"WARC/", b"filedesc:", b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # of all formats
_LOOK_BYTES = 4_096


def read(
    source: Path, documents: Path | None, settings: Settings, *, quiet: bool = False
) -> tuple[NDArray[np.uint64], dict[int, list[str]] | None]:
    """
    Return different fingerprints, each with its doc_ids; those of `source` when no documents are named.

    A doc_id that comes again replaces its former self; a deleted one is gone. What has no fingerprint is left out, and
    counted on stderr.

    Args:
        source: decimal fingerprints, one a line; - is stdin.
        documents: WARC, ARC, WET or JSON Lines of documents; or JSON Lines with doc_id and fingerprint. - is stdin.
    Raises:
        StopError: a file cannot be read, a line of fingerprints is none, or no document has a fingerprint.

    Cost: that of fingerprinting; some 200 bytes a document.
    """
    if documents is None:
        return read_fingerprints(source), None
    held = _of_lines(documents) if _has_fingerprints(documents) else _of_documents(documents, settings, quiet)
    if not held:
        raise StopError(f"no document of {documents} has a fingerprint")
    ids: dict[int, list[str]] = {}
    for doc_id, fingerprint in held.items():
        ids.setdefault(fingerprint, []).append(doc_id)
    return np.fromiter(ids, np.uint64, len(ids)), ids


def holds_documents(path: Path) -> bool:
    """Return whether a file begins as documents do, or lines with doc_ids, and not as decimal numbers."""
    return _start(path).lstrip().startswith(_STARTS)


def _has_fingerprints(path: Path) -> bool:
    line = _start(path).lstrip().partition(b"\n")[0]
    return not line.startswith(_STARTS) or bool(_FINGERPRINT.search(line) and not _BODY.search(line))


def _start(path: Path) -> bytes:
    """Return the first bytes; nothing is read away from stdin."""
    if path == STDIN:
        peek = getattr(sys.stdin.buffer, "peek", None)
        return b"" if peek is None else bytes(peek(_LOOK_BYTES))
    with opened(path) as stream:
        return stream.read(_LOOK_BYTES)


def _of_lines(path: Path) -> dict[str, int]:
    held: dict[str, int] = {}
    with opened(path) as stream:
        for line_number, line in enumerate(stream, start=1):
            doc_id, fingerprint = _document(line, f"{path}, line {line_number}")
            _hold(held, doc_id, fingerprint)
    return held


def _of_documents(path: Path, settings: Settings, quiet: bool) -> dict[str, int]:
    from worker.shell.files.crawl import CrawlFiles, with_answers  # noqa: PLC0415
    from worker.shell.files.engine import prepared_rows  # noqa: PLC0415

    crawl = CrawlFiles([str(path)], fetched_at_default=NO_TIME)
    held: dict[str, int] = {}
    without = 0
    rows = partial(prepared_rows, settings=settings)
    for record, row in with_answers(tracked(crawl, "fingerprinting", quiet=quiet), rows):
        if row.kind in (RowKind.FULL, RowKind.SHORT):
            _hold(held, row.doc_id, row.fingerprint)
        elif row.kind == RowKind.DELETED:
            held.pop(row.doc_id, None)
        else:
            without += 1
            if row.kind == RowKind.DEAD:
                typer.echo(printable(f"no fingerprint: {record.place}: {row.note}"), err=True)
    if not quiet:
        typer.echo(f"{summary(crawl)}, {without} without a fingerprint", err=True)
    return held


def _hold(held: dict[str, int], doc_id: str, fingerprint: int) -> None:
    held.pop(doc_id, None)
    held[doc_id] = fingerprint


def _document(line: bytes, where: str) -> tuple[str, int]:
    try:
        fields = orjson.loads(line)
        doc_id, fingerprint = str(fields["doc_id"]), int(fields["fingerprint"], 16)
    except (ValueError, KeyError, TypeError) as error:
        raise StopError(
            f"{where}: must be an object with doc_id and fingerprint (16 hex digits), as `neardup fingerprint` writes "
            f"them, got {line[:100]!r}"
        ) from error
    if not 0 <= fingerprint < NUMBERS:
        raise StopError(f"{where}: a fingerprint has 16 hex digits, got {line[:100]!r}")
    return doc_id, fingerprint
