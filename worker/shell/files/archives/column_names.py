"""
The names of columns: those that the user gives for fields of a document, and those that rows have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.document import BODIES
from worker.shell.files.archives.columns import FIELDS

OPTION = "--{}-column".format  # of commands
NAMES_MAX = 10  # names of columns that an error lists
_BODY_NAMES = tuple(f'"{name}"'.encode() for name in BODIES)
NAME_CHARACTERS_MAX = 40  # of each: without a head, the first row would be quoted


class ColumnNames(NamedTuple):
    """
    The columns with doc_id, text, URL and fetch time; None for the columns with the names of these
    fields.
    """

    id: Hashable | None = None
    text: Hashable | None = None
    url: Hashable | None = None
    time: Hashable | None = None

    @property
    def options(self) -> dict[str, Hashable]:
        """The columns that are named, by the part of an option's name that stands for them."""
        return {part: column for part, column in self._asdict().items() if column is not None}

    @property
    def named(self) -> dict[str, Hashable]:
        """The columns that are named, by field."""
        columns = {"doc_id": self.id, "text": self.text, "url": self.url, "fetched_at": self.time}
        return {field: column for field, column in columns.items() if column is not None}

    def read_from(self, names: Sequence[Any]) -> list[tuple[str, Any]]:
        """Return which of these columns are read, each with its field."""
        named = self.named
        found: list[tuple[str, Any]] = []
        for field in FIELDS:
            if self.text is not None and field in BODIES and field != "text":
                continue
            column = named.get(field, field)
            is_other = field not in named and column in named.values()
            if column in names and not is_other:
                found.append((field, column))
        return found

    def renamed(self, row: Mapping[Any, Any]) -> Mapping[str, Any]:
        """
        Return a row with the fields' own names; a text column is the only body.

        Raises:
            ValueError: the row has no field of the text column's name.
        """
        if self.text is not None and self.text not in row:
            raise ValueError(f"no field {self.text!r}, there are {first_names(row)}")
        named = self.named
        fields = {name: value for name, value in row.items() if name not in named.values()}
        if self.text is not None:
            fields = {name: value for name, value in fields.items() if name not in BODIES}
        return fields | {field: row.get(column) for field, column in named.items()}


NO_NAMES = ColumnNames()


def names_a_body(message: bytes) -> bool:
    """
    Return whether the name of a body stands anywhere in the JSON of a message.

    >>> names_a_body(b'{"html": ""}'), names_a_body(b'{"content": "a text"}')
    (True, False)
    """
    return any(name in message for name in _BODY_NAMES)


class SeenColumns:
    """
    Notes which of the named columns rows have, since a name that no row has is a mistake.

    Args:
        columns: the names that are given.
        option: returns the name of a column's option: "--id-column" for "id".

    >>> seen = SeenColumns(ColumnNames(id="key"), "--{}-column".format)
    >>> seen.take({"name": "a", "text": "The river rose."})
    >>> seen.told("a.jsonl has")
    "a.jsonl has no column 'key', there are name, text: --id-column names one of them"
    >>> seen.take({"key": None}); seen.told("a.jsonl has")
    """

    def __init__(self, columns: ColumnNames, option: Callable[[str], str]) -> None:
        self._missing = columns.options
        self._option = option
        self._there: dict[Any, None] = {}  # the first names of all rows, in their order

    @property
    def has_rows(self) -> bool:
        """Whether a row has been noted while a name was missing."""
        return bool(self._there)

    @property
    def is_complete(self) -> bool:
        """Whether each of the names was found among the columns."""
        return not self._missing

    def take(self, names: Iterable[Any]) -> None:
        """Note the columns of a row or a table."""
        if not self._missing:
            return
        names = list(names)
        self._missing = {part: name for part, name in self._missing.items() if name not in names}
        if len(self._there) <= NAMES_MAX:  # one more than is listed
            self._there |= dict.fromkeys(names[: NAMES_MAX + 1])

    def told(self, where: str) -> str | None:
        """
        Return what is wrong with the first name that no row has had; None if nothing is.

        `where` says which rows, with its verb.
        """
        for part, name in self._missing.items():
            if not self._there:
                return (
                    f"{where} no columns: leave {self._option(part)} {name} out, which names one "
                    f"of a table or of JSON"
                )
            there = first_names(self._there)
            option = self._option(part)
            return f"{where} no column {name!r}, there are {there}: {option} names one of them"
        return None


def first_names(names: Iterable[Any]) -> str:
    """
    Return the first of some columns' names, each by its first characters, for an error.

    >>> first_names([*"abcdefghijk"]), first_names(["x" * 99]) == "x" * 40 + "…", first_names([])
    ('a, b, c, d, e, f, g, h, i, j, …', True, 'none')
    """
    first = [str(name) for name in itertools.islice(names, NAMES_MAX + 1)]
    shown = [
        name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"
        for name in first[:NAMES_MAX]
    ]
    return ", ".join(shown + ["…"] * (len(first) > NAMES_MAX)) or "none"
