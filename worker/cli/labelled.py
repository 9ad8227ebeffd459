"""
Shared by `neardup evaluate` and `neardup tune`: documents whose texts stay in memory, labelled
pairs of them, tables and plots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from rich import box
from rich.table import Table

from worker import signals
from worker.cli.reading import Reading
from worker.cli.shared import notice, tracked
from worker.core.definition import Parameters
from worker.core.document import Deletion
from worker.core.evaluation import NO_PAGES, Pages, Pairs, Scores, sample_pairs
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.errors import StopError
from worker.report.answers import ReadText, text_of
from worker.settings import Settings
from worker.shell.files.apart import FileDocuments, told
from worker.shell.files.outputs import check_writable, written
from worker.shell.files.places import shown_input
from worker.shell.files.unpacked import opened_unpacked

PAIRS_MAX = 20_000  # sampled where no labels are given
ALL_KINDS = "all"  # under this name the scores of all kinds together are shown
_CONTRARY = {"1": "0", "0": "1"}
_LABELS = {"1": True, "0": False, "-1": None}  # None: not scored


class Corpus(NamedTuple):
    """Documents in the order of their file, a row each."""

    doc_ids: list[str]
    texts: list[str]
    languages: list[str | None]  # as the messages name them
    pages: Pages = NO_PAGES

    def batch(self, parameters: Parameters) -> FingerprintBatch:
        """Return the fingerprints of all documents, a row each."""
        return Fingerprinter(parameters).batch(self.texts, self.languages)


def read_labelled(
    documents: str,
    pairs: Path | None,
    plot: Path | None,
    settings: Settings,
    reading: Reading,
    *,
    quiet: bool,
) -> tuple[Corpus, Pairs]:
    """
    Read documents, and pairs of them that are labelled or, without labels, sampled.

    Whatever can be refused is refused before the documents are read, which may take hours.

    Args:
        documents: the name of a file, a folder, or a name with *.
        pairs: as for `read_labels`; None: pairs are sampled, and judged exactly.
        plot: the picture that is to be drawn of the pairs.
        settings: how texts are extracted, and their fingerprints.
        reading: how documents are read.
        quiet: as for `read_corpus`.
    Raises:
        StopError: as `Reading.files`, `check_plot`, `read_labels`, `read_corpus` and `pairs_of`.
    """
    others = settings.files if pairs is None else [*settings.files, pairs]
    files = reading.files([documents], [] if plot is None else [plot], others)
    check_plot(plot)
    if pairs is None:
        corpus = read_corpus(files, settings, reading, quiet=quiet)
        batch = corpus.batch(settings.parameters)
        return corpus, sample_pairs(corpus.texts, batch, PAIRS_MAX, pages=corpus.pages)
    labels = read_labels(pairs)
    corpus = read_corpus(files, settings, reading, quiet=quiet)
    return corpus, pairs_of(labels, pairs, corpus)


def read_corpus(
    files: list[str], settings: Settings, reading: Reading, *, quiet: bool = False
) -> Corpus:
    """
    Read the texts of files as a worker would.

    The last version of a doc_id counts. A doc_id of several files names another document in each,
    as in dedup, which is said on stderr.

    Args:
        files: as `Reading.files` returns them.
        settings: how texts are extracted, and the list of function words.
        reading: how documents are read.
        quiet: show no progress and no summary.
    Returns:
        The documents that have a text.
    Raises:
        StopError: a file cannot be read, or no document has a text.
    """
    crawl = reading.open(files)
    fingerprinter = Fingerprinter(settings.parameters)

    def digest_of(document: ReadText) -> int:
        return int(fingerprinter.batch([document.text], [document.language]).digests[0])

    documents: FileDocuments[ReadText] = FileDocuments(digest_of)
    without = 0
    for record in tracked(crawl, "reading", quiet=quiet):
        documents.next_row(record.file)
        try:
            document, text = text_of(record.key, record.value, settings)
        except Exception as error:  # any failure costs only this document
            interrupted = signals.cause_of(error)
            if interrupted is not None:
                raise interrupted from None
            notice(f"no text: {record.place}: {error}")
            without += 1
            continue
        if text is not None:
            documents.put(document.doc_id, text)
            continue
        documents.remove(document.doc_id)
        without += not isinstance(document, Deletion)
    if not quiet:
        typer.echo(f"{crawl.tally.told()}, {without} without a text", err=True)
    if documents.count:
        notice(told(documents.count, documents.positions, reading.id_column))
    if not documents.by_id:
        raise StopError(f"no document of {', '.join(map(shown_input, files))} has a text")
    read = documents.by_id.values()
    url_rules = settings.pages_of_urls
    return Corpus(
        list(documents.by_id),
        [one.text for one in read],
        [one.language for one in read],
        Pages([one.page(url_rules) for one in read], [one.title for one in read]),
    )


def read_labels(path: Path) -> list[list[str]]:
    """
    Read labelled pairs of documents, before the documents themselves, which may take hours.

    Args:
        path: lines of doc_id, doc_id, label (1 the same, 0 not, -1 not scored) and, last, the kind
            of pair, separated by tabs. The file may be compressed; "-" is stdin.
    Returns:
        The cells of each line that is not empty.
    Raises:
        StopError: the file cannot be read, a line is malformed, or two lines contradict each other.
    """
    with opened_unpacked(str(path)) as stream:
        stream.skip_mark()
        content = stream.read()
    try:
        # Not `splitlines`: a doc_id may have other ends of lines in it, such as U+2028.
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise StopError(f"cannot read {path}: {error}") from error
    labels: list[list[str]] = []
    line_of: dict[tuple[str, ...], int] = {}  # by the two doc_ids, in their order, and the label
    for line_number, line in enumerate(lines, start=1):
        cells = line.removesuffix("\r").split("\t")
        if cells == [""]:
            continue
        place = f"{path}, line {line_number}"
        _check_cells(cells, line, place)
        pair = sorted(cells[:2])
        other = line_of.get((*pair, _CONTRARY.get(cells[2], "")))
        if other is not None:
            raise StopError(
                f"{place}: says {cells[2]} of a pair of which line {other} says "
                f"{_CONTRARY[cells[2]]}: {lines[other - 1][:100]!r} and {line[:100]!r}. Remove "
                "one of them, or write -1 for a pair that nobody can tell"
            )
        line_of.setdefault((*pair, cells[2]), line_number)
        labels.append(cells)
    return labels


def _check_cells(cells: Sequence[str], line: str, place: str) -> None:
    """Raise StopError if a line is no labelled pair; the error begins with its place."""
    if len(cells) < 3 or cells[2] not in _LABELS:
        raise StopError(
            f"{place}: must be doc_id, doc_id, label (1, 0 or -1) and, if "
            f"you like, a kind, separated by tabs, got {line[:100]!r}"
        )
    if len(cells) > 3 and cells[-1] == ALL_KINDS:
        raise StopError(
            f"{place}: no kind can be called {ALL_KINDS!r}, under which the scores of all "
            "kinds together are shown: give it another name"
        )


def pairs_of(labels: Sequence[Sequence[str]], path: Path, corpus: Corpus) -> Pairs:
    """
    Find the documents of labelled pairs.

    Args:
        labels: as `read_labels` returns them.
        path: where they were read.
        corpus: the documents; pairs of others are left out, and counted on stderr.
    Returns:
        The pairs that are scored, with the rows of their documents.
    Raises:
        StopError: no pair can be scored.
    """
    number = {doc_id: row for row, doc_id in enumerate(corpus.doc_ids)}
    rows: list[tuple[int, int, bool | None, str]] = []
    unknown = 0
    for cells in labels:
        if _LABELS[cells[2]] is None:
            continue
        if cells[0] not in number or cells[1] not in number:
            unknown += 1
            continue
        rows.append(
            (
                number[cells[0]],
                number[cells[1]],
                _LABELS[cells[2]],
                cells[-1] if len(cells) > 3 else "pairs",
            )
        )
    if unknown:
        typer.echo(
            f"{unknown:,} {'pair' if unknown == 1 else 'pairs'} left out: the documents have no "
            "such doc_id, or no text under it",
            err=True,
        )
    if not rows:
        raise StopError(f"no pair of {path} can be scored with these documents")
    first, second, same, kinds = zip(*rows, strict=True)
    return Pairs(
        np.array(first, np.int64), np.array(second, np.int64), np.array(same, np.bool_), kinds
    )


def number_table(first: str, numbers: tuple[str, ...], title: str | None = None) -> Table:
    """
    Return an empty table of numbers.

    Args:
        first: the name of a first column of texts; empty: there is none.
        numbers: the names of the columns of numbers.
        title: what stands above the table.
    """
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    if first:
        shown.add_column(first, overflow="fold")
    for name in numbers:
        shown.add_column(name, justify="right", no_wrap=name != "false positives")
    return shown


def error_cells(one: Scores) -> tuple[str, str]:
    """
    Return both errors for a table: recall with its interval, false positives with its upper end.

    A cell is empty where no pair could show that error: none is the same, or all are.
    """
    wrong = one.false_positives
    recall = (
        f"{share(one.recall.value, 3)} ({share(one.recall.low, 2)}-{share(one.recall.high, 2)})"
    )
    false_positives = f"{share(wrong.value, 4)} (to {share(wrong.high, 4)})"
    return recall if one.same else "", false_positives if one.other else ""


def share(value: float, digits: int) -> str:
    """
    Return a share without its leading zero; nothing for a share of nothing.

    >>> share(0.5, 3)
    '.500'
    >>> share(1.0, 2)
    '1.00'
    """
    return "" if isnan(value) else f"{value:.{digits}f}".removeprefix("0")


def check_plot(path: Path | None) -> None:
    """
    Raise StopError if `drawn` could write no picture here. None: nothing is to be drawn.

    Commands that compute for hours call it first.
    """
    if path is None:
        return
    try:
        # Matplotlib's backend without a window works on every machine.
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise StopError("--plot needs matplotlib: pip install matplotlib") from error
    endings = Figure().canvas.get_supported_filetypes()
    ending = path.suffix.removeprefix(".")
    if ending and ending.lower() not in endings:
        known = ", ".join(f".{name}" for name in sorted(endings))
        raise StopError(f"cannot write {path}: matplotlib draws {known}, not .{ending}")
    check_writable(path)


@contextmanager
def drawn(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """
    Yield a figure of matplotlib to draw on; it is written at the end.

    Args:
        path: the picture to write, after `check_plot`. Its suffix decides the format, such as .png
            or .svg.
        size: width and height in inches.
    Raises:
        StopError: the file cannot be written.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size)
    yield figure
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with written(path) as stream:
        figure.savefig(stream, dpi=120, format=path.suffix.removeprefix(".") or None)
