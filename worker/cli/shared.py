"""Helpers of several commands: tables, files in and out, and summaries of their contents."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NamedTuple, cast

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from worker.cli.progress import passed
from worker.shell.files.formats import INPUTS, JSON_LINES, check_format
from worker.shell.files.outputs import packed, written
from worker.shell.files.places import descriptor_of
from worker.shell.files.terminal import EscapedLines, escape_controls

if TYPE_CHECKING:
    from worker.shell.files.archives import Damage, Record
    from worker.shell.files.crawl import CrawlFiles
    from worker.shell.files.repeats import Repeats


STDIN = Path("-")
FilesArgument = Annotated[
    list[str],
    typer.Argument(
        help=f"{INPUTS}; folders, names with *, URLs; - is stdin.",
    ),
]
KeepOption = Annotated[
    Literal["new", "revisits"] | None,
    typer.Option(
        metavar="new|revisits", help="Write the kept documents, unchanged.", show_default=False
    ),
]
PreferOption = Annotated[
    str,
    typer.Option(
        help="Which to keep: first, longest, newest, shortest-url or highest:FIELD. "
        "[default: first]",
        metavar="WHICH",
        show_default=False,
    ),
]
PerClusterOption = Annotated[
    int,
    typer.Option(
        help="Documents kept of each cluster. [default: 1]",
        metavar="N",
        show_default=False,
    ),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Documents to match against, never written. Repeatable.",
        show_default=False,
    ),
]
StateOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of what earlier runs have seen.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print no progress and no summary.")]
SummaryOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")]
ObjectOption = Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")]
LinesOption = Annotated[bool, typer.Option("--json", help="Print JSON Lines instead of a table.")]
DAMAGED_TOLD_MAX = 3
_GAP = "  "
_SHARE_MIN = 12  # least width of a column that shares the remaining room of a terminal
URL_CONTEXT = 8  # characters of two URLs to show from where they begin to differ
_WIDTH_MIN = 20  # of a console: narrower ones show one word per line, or nothing
_WIDTH_UNKNOWN = 80
_SHARE_PIPE = 40  # into a pipe, where longer texts stand out of their column


class TableColumn(NamedTuple):
    """One column of a table on the terminal."""

    name: str
    width: int | None = None  # in characters; None: shares the room that the others leave
    is_right: bool = False
    rank: int = 0  # if not all columns fit, the highest rank is left out first, 0 never


class TableColumns:
    """
    Lays out rows of cells for a terminal.

    What is too long is cut, and control characters are not passed on.

    >>> columns = TableColumns(
    ...     TableColumn("bits", 4, is_right=True), TableColumn("url"), width=24
    ... )
    >>> columns.head(), columns.line(["3", "https://example.org/a/b"])
    ('bits  url', '   3  https://example.o…')
    """

    def __init__(self, *columns: TableColumn, width: int | None = None) -> None:
        room = terminal_width() if width is None else width
        shown = dict(enumerate(columns))

        def needed() -> int:
            return sum((column.width or _SHARE_MIN) + len(_GAP) for column in shown.values()) - len(
                _GAP
            )

        while (
            room is not None and needed() > room and any(column.rank for column in shown.values())
        ):
            del shown[max(shown, key=lambda number: shown[number].rank)]
        shares = sum(column.width is None for column in shown.values())
        share = (
            _SHARE_PIPE if room is None else _SHARE_MIN + max(room - needed(), 0) // max(shares, 1)
        )
        self._is_cut = room is not None
        self._shown = [(number, column, column.width or share) for number, column in shown.items()]
        self._names = [column.name for column in columns]

    def head(self) -> str:
        """Return the line of names."""
        return self.line(self._names)

    def line(self, cells: Sequence[str]) -> str:
        """Return one row: a cell for each column, those left out included."""
        return _GAP.join(
            self._cell(cells[number], column, width) for number, column, width in self._shown
        ).rstrip()

    def width_of(self, name: str) -> int | None:
        """Return the width of a column; None if the column is left out, or if nothing is cut."""
        widths = {column.name: width for _, column, width in self._shown}
        return widths.get(name) if self._is_cut else None

    def _cell(self, text: str, column: TableColumn, width: int) -> str:
        text = printable(text)
        if self._is_cut and cell_len(text) > width:
            # Without the space that stands for half of a wide character: `explain` takes the rest.
            text = set_cell_size(text, width - 1).rstrip() + "…"
        padding = " " * (width - cell_len(text))
        return padding + text if column.is_right else text + padding


def printable(text: str) -> str:
    """
    Return a text that does nothing to a terminal.

    >>> printable("a\\x1b[31mb")
    'a�[31mb'
    """
    if text.isprintable():
        return text
    text = text.encode("utf-8", "backslashreplace").decode()  # names of files that are not UTF-8
    return "".join(char if char.isprintable() else "�" for char in text)


def cut_to_difference(url: str, other: str, width: int) -> tuple[str, str]:
    """
    Cut two URLs to a width so that they show where they begin to differ.

    What both begin with is left out up to the last slash, if the difference would be cut off
    otherwise.

    >>> cut_to_difference("http://example.org/archive/a?p=1", "http://example.org/archive/b", 14)
    ('…/a?p=1', '…/b')
    """
    start = 0
    shorter = min(len(url), len(other))
    differs_at = next((at for at in range(shorter) if url[at] != other[at]), shorter)
    is_cut = max(cell_len(url), cell_len(other)) > width
    if url != other and is_cut and cell_len(url[:differs_at]) + URL_CONTEXT > width:
        start = max(url.rfind("/", 0, differs_at), differs_at - width // 2)
    return _cut(url, start, width), _cut(other, start, width)


def _cut(text: str, start: int, width: int) -> str:
    """Return a text from a place on, with a mark at each end that lacks something."""
    if start > 0:
        text = "…" + text[start:]
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return text


def terminal_width() -> int | None:
    """Return the columns of the terminal, or of $COLUMNS; None for a pipe."""
    return shutil.get_terminal_size((0, 0)).columns or None


def console_of_terminal(*, highlight: bool = False) -> Console:
    """
    Return what a command prints its tables and texts to; without colours into a pipe.

    A console of rich prints nothing at all where its width is 0, which some terminals and
    `COLUMNS=0` say if they do not know theirs.
    """
    console = Console(highlight=highlight)
    if console.width < _WIDTH_MIN:
        console.width = _WIDTH_MIN if console.width else _WIDTH_UNKNOWN
    return console


def option(text: str, metavar: str = "FILE") -> Any:
    """Return an option that is not a setting; its text describes its default."""
    return typer.Option(metavar=metavar, help=text, show_default=False)


@contextmanager
def opened_lines(path: str | Path) -> Iterator[BinaryIO]:
    """Write lines of JSON: as `written`, compressed as the name says, and escaped on a stream."""
    check_format(path, JSON_LINES)
    with written(path) as stream, packed(stream, path) as lines:
        is_stream = descriptor_of(path) is not None
        yield cast("BinaryIO", EscapedLines(lines)) if is_stream else lines


def notice(text: str) -> None:
    """Write a sentence about the inputs to stderr, with nothing in it that a terminal obeys."""
    typer.echo(printable(text), err=True)


def tell_of_ids(repeats: Repeats, named_apart: Sequence[int], id_column: str | None) -> None:
    """
    Say on stderr which doc_ids of a run over files came again, and which documents it named apart.

    Args:
        named_apart: count and positions, as in `NamesApart`.
        id_column: the column of ids that the user has named.
    """
    from worker.shell.files.apart import told  # noqa: PLC0415

    count, positions = named_apart
    for said in (repeats.told("--id-column", "run"), told(count, positions, id_column)):
        if said:
            notice(said)


def echo_json(line: bytes) -> None:
    """Write one line of JSON to stdout, with all control characters escaped."""
    typer.echo(escape_controls(line))


def tracked(files: CrawlFiles, doing: str, *, quiet: bool = False) -> Iterator[Record]:
    """
    Yield the files' documents, and show how far they have been read.

    The first damaged records are named, and each one that ends its file.

    `files.on_damage` is still called for every damaged record.
    """
    on_damage = files.on_damage
    told = 0

    def tell(damaged: Damage) -> None:
        nonlocal told
        on_damage(damaged)
        if not quiet and (told < DAMAGED_TOLD_MAX or damaged.ends_file):
            told += 1
            notice(f"damaged: {damaged.place}: {damaged.reason}")

    files.on_damage = tell
    yield from passed(
        files,
        doing,
        "documents",
        lambda _: files.bytes_total,
        done=lambda: files.bytes_read,
        quiet=quiet,
        transient=False,
    )
    if not quiet and files.tally.damaged > told:
        typer.echo(f"damaged: {files.tally.damaged - told:,} more", err=True)


def held_up_line(held_up: Mapping[int, int]) -> str:
    """Return a line about partitions of the documents that a transaction of a crawler holds up."""
    places = ", ".join(f"partition {number} at offset {at}" for number, at in held_up.items())
    return (
        f"an open transaction of a crawler holds up the documents of {places}: what was written "
        "after that cannot be read until the crawler ends it, or its transaction.timeout.ms is over"
    )


def foreign_offsets_line(offsets: Mapping[int, int]) -> str:
    """Return a line about offsets that no worker has committed."""
    places = ", ".join(f"{offset:,} of partition {number}" for number, offset in offsets.items())
    return (
        f"no worker has committed the group's offsets {places} with this log: workers refuse them, "
        "and what waits there is not known. See neardup offsets restore"
    )
