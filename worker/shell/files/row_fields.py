"""Takes the fields of a document from the rows of a program: dicts, and rows of frames."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from schemas.document import BODIES
from worker.errors import DocumentError
from worker.shell.files.archives.column_names import ColumnNames, SeenColumns
from worker.shell.files.archives.columns import NAMES_ROWS, field_value, plain, type_of
from worker.shell.files.archives.rows import fields_of, is_missing
from worker.shell.files.frames import ID
from worker.shell.files.inputs import Inputs
from worker.shell.messages.documents import no_body


class RowFields:
    """
    Takes the fields of a document from a program's rows, and says so where it has to choose.

    Args:
        columns: the columns that hold doc_id, text, URL and time.
        inputs: the input whose rows they are.
        warned: warnings that have already been given; each is given once.
    """

    def __init__(self, columns: ColumnNames, inputs: Inputs, warned: set[str]) -> None:
        self.inputs = inputs
        self._columns = columns
        self._warned = warned
        self._seen = SeenColumns(columns, "{}_column".format)

    def of(self, row: Mapping[str, Any], number: int) -> dict[str, Any]:
        """
        Return the fields of a row's message.

        `number` is the row's number in the stream. Errors name its number in its input.

        A row that brings no name of its own (a doc_id, or a URL at a time) is named by its field
        `id`, if that is a text, a whole number or a UUID.
        """
        self._seen.take(row)
        named = self._columns.renamed(row)
        if self._takes_id(named):
            self._say_id(named)
            named = {**named, "doc_id": named[ID]}
        try:
            fields = fields_of(named, self.inputs.place(number), self._say_assumed)
            if fields.keys().isdisjoint(BODIES):
                raise no_body(named)
        except TypeError as error:
            raise TypeError(f"document {number - self.inputs.offset}: {error}") from None
        except DocumentError as error:
            raise self.of_document(error, number) from None
        return fields

    def of_document(self, error: DocumentError, number: int) -> DocumentError:
        """Return an error of the engine as the library raises it: it names its document."""
        own_number = number - self.inputs.offset
        return DocumentError(error.code, f"document {own_number}: {error.text}")

    def check_columns(self) -> None:
        """Raise TypeError if a column is named that no row has had."""
        told = self._seen.told("the documents have")
        if told is not None:
            raise TypeError(told)

    def _takes_id(self, row: Mapping[str, Any]) -> bool:
        if self._columns.id is not None or not is_missing(row.get("doc_id")):
            return False
        if not (is_missing(row.get("url")) or is_missing(row.get("fetched_at"))):
            return False
        value = plain(row.get(ID))
        if is_missing(value) or value == "" or type_of(value) not in NAMES_ROWS:
            return False
        try:
            field_value("doc_id", value)
        except DocumentError:  # a number that is not whole
            return False
        return True

    def _say_assumed(self, what: str) -> None:
        column = "fetched_at" if self._columns.time is None else self._columns.time
        self._say(f"{column!r} has times {what}")

    def _say(self, said: str) -> None:
        if said not in self._warned:
            self._warned.add(said)
            warnings.warn(said, stacklevel=2)

    def _say_id(self, row: Mapping[str, Any]) -> None:
        body = next((field for field in BODIES if not is_missing(row.get(field))), None)
        text = self._columns.text or body
        said = f"the field {ID!r} is taken for the doc_id"
        said += "" if text is None else f", and {text!r} for the text"
        self._say(f"{said}: id_column= and text_column= name others")
