"""Rows in columns, line by line: as wide as the terminal, and uncut in a pipe."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

_GAP = "  "
_SHARE_MIN = 12  # of a column that shares what the others leave, in a terminal
_SHARE_PIPE = 40  # into a pipe, where longer texts stand out of their column


class Column(NamedTuple):
    """
    One column.

    `width` in characters; None: shares what the others leave. `rank`: where not all fit, the highest is left out first,
    0 never.
    """

    name: str
    width: int | None = None
    is_right: bool = False
    rank: int = 0


class Columns:
    """
    Lays out rows of cells; what is too long for the terminal is cut, and control characters are not passed on.

    >>> columns = Columns(Column("bits", 4, is_right=True), Column("url"), width=24)
    >>> columns.head(), columns.line(["3", "https://example.org/a/b"])
    ('bits  url', '   3  https://example.o…')

    Args:
        width: of the terminal; found when None.
    """

    def __init__(self, *columns: Column, width: int | None = None) -> None:
        room = terminal_width() if width is None else width
        shown = dict(enumerate(columns))

        def needed() -> int:
            return sum((column.width or _SHARE_MIN) + len(_GAP) for column in shown.values()) - len(_GAP)

        while room is not None and needed() > room and any(column.rank for column in shown.values()):
            del shown[max(shown, key=lambda number: shown[number].rank)]
        shares = sum(column.width is None for column in shown.values())
        share = _SHARE_PIPE if room is None else _SHARE_MIN + max(room - needed(), 0) // max(shares, 1)
        self._is_cut = room is not None
        self._shown = [(number, column, column.width or share) for number, column in shown.items()]
        self._names = [column.name for column in columns]

    def head(self) -> str:
        """Return the line of names."""
        return self.line(self._names)

    def line(self, cells: Sequence[str]) -> str:
        """Return one row: a cell for each column, those left out included."""
        return _GAP.join(self._cell(cells[number], column, width) for number, column, width in self._shown).rstrip()

    def _cell(self, text: str, column: Column, width: int) -> str:
        text = printable(text)
        if self._is_cut and cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        padding = " " * (width - cell_len(text))
        return padding + text if column.is_right else text + padding


def printable(text: str) -> str:
    """
    Return a text that does nothing to a terminal.

    >>> printable("a\\x1b[31mb")
    'a�[31mb'
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else "�" for char in text)


def terminal_width() -> int | None:
    """Return the columns of the terminal, or of $COLUMNS; None for a pipe."""
    return shutil.get_terminal_size((0, 0)).columns or None
