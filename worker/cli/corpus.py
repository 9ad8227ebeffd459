"""A set of documents with their texts in memory, and labelled pairs of them: what `evaluate` and `tune` read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import typer

from worker.cli.columns import printable
from worker.cli.lines import NO_TIME
from worker.cli.progress import summary, tracked
from worker.core.document import Deletion
from worker.errors import StopError

if TYPE_CHECKING:
    from worker.core.evaluation import Pairs
    from worker.settings import Settings

_LABELS = {"1": True, "0": False}
_NOT_SCORED = "-1"


class Corpus(NamedTuple):
    """Documents in the order of their file, a row each."""

    doc_ids: list[str]
    texts: list[str]
    languages: list[str | None]  # as the messages name them


def read_corpus(path: Path, settings: Settings, *, quiet: bool = False) -> Corpus:
    """
    Read the documents of a file and extract their texts, as a worker would.

    A doc_id that comes again replaces its former self. What has no text is left out, and counted on stderr.

    Raises:
        StopError: the file cannot be read, or no document in it has a text.
    Cost: that of extraction; all texts stay in memory.
    """
    from worker.core.extract import Skipped, extract  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415
    from worker.shell.messages import decode_document  # noqa: PLC0415

    crawl = CrawlFiles([str(path)], fetched_at_default=NO_TIME)
    held: dict[str, tuple[str, str | None]] = {}
    without = 0
    for record in tracked(crawl, "reading", quiet=quiet):
        try:
            document = decode_document(record.key, record.value, value_bytes_max=settings.document_bytes_max)
            found = None if isinstance(document, Deletion) else extract(document, settings.text_characters_max)
        except Exception as error:  # whatever it is, it costs this document
            typer.echo(printable(f"no text: {record.place}: {error}"), err=True)
            without += 1
            continue
        held.pop(document.doc_id, None)
        if isinstance(document, Deletion) or found is None:
            continue
        if isinstance(found, Skipped):
            without += 1
            continue
        held[document.doc_id] = found.text, document.language
    if not quiet:
        typer.echo(f"{summary(crawl)}, {without} without a text", err=True)
    if not held:
        raise StopError(f"no document of {path} has a text")
    texts, languages = zip(*held.values(), strict=True)
    return Corpus(list(held), list(texts), list(languages))


def read_pairs(path: Path, corpus: Corpus) -> Pairs:
    """
    Read labelled pairs: lines of doc_id, doc_id, label (1 the same, 0 not, -1 not scored), and last the kind, by tabs.

    Pairs of documents that the corpus lacks are left out, and counted on stderr.

    Raises:
        StopError: a line is not of this form, or no pair is left.
    """
    from worker.core.evaluation import Pairs  # noqa: PLC0415

    number = {doc_id: row for row, doc_id in enumerate(corpus.doc_ids)}
    rows: list[tuple[int, int, bool, str]] = []
    unknown = 0
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StopError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    for line_number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) < 3 or cells[2] not in (*_LABELS, _NOT_SCORED):
            raise StopError(
                f"{path}, line {line_number}: must be doc_id, doc_id, label (1, 0 or -1) and, if you like, a kind, "
                f"separated by tabs, got {line[:100]!r}"
            )
        if cells[2] == _NOT_SCORED:
            continue
        if cells[0] not in number or cells[1] not in number:
            unknown += 1
            continue
        rows.append((number[cells[0]], number[cells[1]], _LABELS[cells[2]], cells[-1] if len(cells) > 3 else "pairs"))
    if unknown:
        typer.echo(f"{unknown:,} pairs left out: the documents have no such doc_id, or no text under it", err=True)
    if not rows:
        raise StopError(f"no pair of {path} can be scored with these documents")
    first, second, same, kinds = zip(*rows, strict=True)
    return Pairs(np.array(first, np.int64), np.array(second, np.int64), np.array(same, np.bool_), kinds)
