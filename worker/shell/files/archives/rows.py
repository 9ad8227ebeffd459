"""
Turns rows into messages of documents: rows of JSON Lines, CSV and Parquet, and the dicts and frames
of a program.

A row has the fields of `schemas.document`, under these names or under those that the user gives. If
a row has no doc_id, URL or time, they are derived.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from schemas.document import BODIES
from schemas.fields import TimestampError, parse_timestamp, whole_number
from worker.core.document import DOC_ID_BYTES_MAX, derive_doc_id
from worker.errors import DocumentError, StopError
from worker.shell.files.archives import Damage, Entry, Head, Omission, Record, Unreadable
from worker.shell.files.archives.budget import COLUMNS_MAX, Budget, check_values
from worker.shell.files.archives.column_names import (
    NO_NAMES,
    OPTION,
    ColumnNames,
    SeenColumns,
    first_names,
)
from worker.shell.files.archives.columns import (
    BYTES,
    FIELDS,
    check_columns,
    field_value,
    plain,
    type_of,
    type_of_arrow,
)
from worker.shell.files.archives.csv_rows import DELIMITERS, CsvRow, CsvRows, has_more_fields
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.lines import (
    ENCODING_REMEDY,
    Encoding,
    Line,
    Lines,
    is_decoded,
    with_start,
    without_mark,
)
from worker.shell.files.archives.parquet import batches_of
from worker.shell.files.inputs import RowPlace
from worker.shell.files.places import STDIO, open_input
from worker.shell.ports import UNREADABLE

TAB_SUFFIXES = (".tsv", ".tab")
PARQUET = b"PAR1"
# The time of a document without one. It changes no verdict.
NO_TIME = "1970-01-01T00:00:00Z"
MADE_URL = "urn:neardup:"  # the beginning of the URL of a document without one; the doc_id follows
_LEVELS_MAX = 500
_BY_FIRST_LINE = " (its first line names the columns, between commas, semicolons or tabs)"
_JSON_SPARE_BYTES = 1 << 20  # bytes of a line of JSON besides the body
JSON_BLANK = " \t\r\v\f"  # characters of a blank line: those that bytes.strip removes


class InputFile(NamedTuple):
    """
    A file that is being read, and how: with the options of `CrawlFiles`. Each reader of
    `formats.py` takes one; its methods read what has rows.

    If columns are named, missing fields of a row are derived. The score's column does not count as
    named, because a score changes neither a document nor its verdict.

    Attributes:
        name: as the user gave it; "-" is stdin.
        pieces: the file's decompressed bytes, from its beginning.
        body_max: the largest body, in bytes; a longer one is left out.
        budget: of the input, for all that is made of its bytes.
        place_of: returns the place of the next document.
        seen: the columns of all files that are read.
        on_rows: is called with the number of rows done and, if known, their total.
        on_assumed: is called as `columns.field_value` does it.
    """

    name: str
    pieces: Iterator[Piece]
    body_max: int
    budget: Budget
    place_of: Callable[[], RowPlace]
    seen: SeenColumns
    columns: ColumnNames = NO_NAMES
    fetched_at_default: str | None = None
    encoding: str | None = None
    score_column: str | None = None
    whole: bool = False
    on_rows: Callable[[int, int], None] = lambda *_: None
    on_assumed: Callable[[str], None] = lambda _: None

    @property
    def default_ms(self) -> int | None:
        """The fetch time of a document without one, in Unix milliseconds."""
        return None if self.fetched_at_default is None else parse_timestamp(self.fetched_at_default)

    @property
    def _json_bytes_max(self) -> int:
        """The bytes of a line or an element: base64 makes a body longer by a third."""
        return self.body_max * 4 // 3 + _JSON_SPARE_BYTES

    def json_lines(self) -> Iterator[Entry]:
        """
        Return a record for each line. If a field of an object is wrong, the worker's dead letter
        says so.
        """
        lines = Lines(self.name, self.pieces, self._json_bytes_max, self.encoding, blank=JSON_BLANK)
        head = Head((), lines.encoding.name, lines.encoding.mark)
        for line in lines.read():
            if isinstance(line, Line):
                data = line.data.removeprefix(head.data) if line.number == 1 else line.data
                if lines.width > 1 or not data.isspace():
                    yield from self._of_line(line._replace(data=data), lines.encoding, head)
            else:
                yield line

    def json_array(self) -> Iterator[Entry]:
        """
        Return a record for each element of the arrays in a file, as for a line of JSON Lines.
        """
        # Only here, because the kernel takes half a second to load, and few files are arrays.
        from worker.shell.files.archives.json_array import ArrayElements  # noqa: PLC0415

        start, whole = with_start(self.pieces)
        encoding = Encoding.of(start, self.encoding)
        if not encoding.is_utf_8:
            remedy = "convert it to UTF-8, or leave --encoding out if it is"
            reason = f"a JSON array in {encoding.name}: {remedy}"
            yield Damage(self.name, 0, reason, ends_file=True)
            return
        head = Head((), encoding.name, b"")
        elements = without_mark(whole, encoding)
        for element in ArrayElements(self.name, elements, self._json_bytes_max):
            if isinstance(element, Damage):
                yield element
                continue
            for entry in self._of_line(element, encoding, head):
                if isinstance(entry, Record):
                    yield entry._replace(raw=element.data)
                else:
                    yield entry

    def _of_line(self, line: Line, encoding: Encoding, head: Head) -> Iterator[Entry]:
        """
        Yield the document of a line, or what is wrong with the line. Damage never stops the reading
        of other lines.
        """
        try:
            raw, data = _trimmed(line.data, encoding)
            if not data:
                return
            check_values(data)
            fields = _parsed(data)
            if fields and isinstance(fields, dict):
                made = self._made(fields)
                value = data
                if made is not None:
                    value = _json_of(_shallow(made))
                key = _key_of(made or fields)
                score = (
                    None if self.score_column is None else score_of(fields.get(self.score_column))
                )
                yield Record(self.name, line.position, key, value, line.number, raw, head, score)
                return
            reason = f"a JSON {type(fields).__name__}, not an object"
            if fields == {}:
                reason = "an object without a field"
        except RecursionError:
            reason = "nested too deep"
        except UnicodeDecodeError as error:
            reason = f"not {encoding.name} ({error.reason}): {ENCODING_REMEDY}"
        except Exception as error:
            reason = str(error) or type(error).__name__
        yield Damage(self.name, line.position, reason, line.number)

    def _made(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Return a line's fields with the missing ones added. None if none are missing."""
        self.seen.take(fields)
        has_time = (self.fetched_at_default or fields.get("fetched_at")) is not None
        is_named = fields.get("url") is not None and has_time
        if self.columns != NO_NAMES or (
            not is_named and any(fields.get(body) is not None for body in BODIES)
        ):
            return self._fields_of(fields, keeps_wrong=True)
        fetched_at = fields.get("fetched_at")
        if fetched_at is None:
            default = self.fetched_at_default
            return None if default is None else {**fields, "fetched_at": default}
        try:
            time = field_value("fetched_at", fetched_at, self.on_assumed)
        except (TypeError, DocumentError):  # the worker's dead letter says so
            return None
        return None if time == fetched_at else {**fields, "fetched_at": time}

    def csv(self) -> Iterator[Entry]:
        """
        Yield a record for each row but the first, which names the columns. An empty field counts as
        missing.
        """
        csv.field_size_limit(max(2 * self.body_max, csv.field_size_limit()))  # a line and a row
        lines = Lines(self.name, self.pieces, self.body_max, self.encoding)
        rows = CsvRows(self.name, lines, self.body_max, self._delimiter)
        head: Head | None = None
        number = 0
        for row in self._narrow_enough(rows):
            if isinstance(row, Damage):
                yield row
                if head is None:
                    reason = "its first line, which names the columns, is damaged: no row is read"
                    yield Damage(self.name, 0, reason, ends_file=True)
                    return
                continue
            try:
                [values] = csv.reader([row.text], delimiter=rows.delimiter)
            except csv.Error as error:
                if head is None:
                    reason = _why_not_csv("its first line", row.text, error)
                    raise StopError(f"{self.name} is not CSV: {reason}") from None
                reason = _why_not_csv("the row", row.text, error)
                yield Damage(self.name, 0, f"not CSV: {reason}", row.number)
                continue
            if not values:  # a blank line
                continue
            if head is None:
                head = self._head(values, row, lines.encoding)._replace(delimiter=rows.delimiter)
            elif tuple(values) == head.columns:  # of a file that was appended
                yield Omission(self.name, number, "names-of-columns")
            elif len(values) == len(head.columns):
                found = self._of_row(values, row, head, number)
                number += isinstance(found, Record)
                yield found
            else:
                reason = f"{len(values)} fields, and the first line has {len(head.columns)}"
                yield Damage(self.name, 0, reason, row.number)
        if head is None:
            self._check_columns([], _BY_FIRST_LINE)

    def _narrow_enough(self, rows: CsvRows) -> Iterator[CsvRow | Damage]:
        """Yield rows, with damage in place of those that have more fields than any table."""
        for row in rows:
            if isinstance(row, CsvRow) and has_more_fields(row.text, rows.delimiter, COLUMNS_MAX):
                reason = f"more than {COLUMNS_MAX:,} fields, the most that a row may have"
                yield Damage(self.name, 0, reason, row.number)
            else:
                yield row

    def _delimiter(self, line: str) -> str:
        """
        Find the delimiter of a table in the line that names its columns.

        It is the delimiter that yields a column which is read as the body, because a name may
        contain any delimiter. If none does, it is the most frequent one.
        """
        is_tsv = Path(self.name).name.lower().endswith(TAB_SUFFIXES)
        delimiters = sorted(DELIMITERS, key=lambda delimiter: is_tsv and delimiter != "\t")
        text = self.columns.text
        bodies = {*BODIES} if text is None else {text}
        for delimiter in delimiters:
            if has_more_fields(line, delimiter, COLUMNS_MAX):  # reported when the line is read
                return delimiter
            try:
                [names] = csv.reader([line], delimiter=delimiter)
            except csv.Error:  # which is reported when the line is read
                return delimiter
            if bodies & {*names}:
                return delimiter
        return max(delimiters, key=line.count)

    def _head(self, names: list[Any], row: CsvRow, encoding: Encoding) -> Head:
        """
        Return the names of the columns.

        Raises:
            StopError: a wanted column is missing, or occurs twice.
        """
        self._check_columns(names, _BY_FIRST_LINE)
        for name in (*FIELDS, *self.columns):
            if name is not None and names.count(name) > 1:
                raise StopError(f"{self.name} has two columns {name!r}: rename one")
        data = encoding.mark + row.data.removeprefix(encoding.mark)
        return Head(tuple(names), encoding.name, _ended(data, encoding))

    def _of_row(self, values: list[str], row: CsvRow, head: Head, number: int) -> Entry:
        """Return the document of a row, or what is wrong with a field that is read."""
        named = zip(head.columns, values, strict=True)
        row_fields = {name: value or None for name, value in named}
        score = None if self.score_column is None else score_of(row_fields[self.score_column])
        fields = self._fields_of(row_fields, keeps_wrong=True)
        try:
            message = orjson.dumps(fields)
        except orjson.JSONEncodeError:
            wrong = next(name for name, value in fields.items() if not is_decoded(value))
            reason = f"{wrong} is not {head.encoding}: {ENCODING_REMEDY}"
            return Damage(self.name, 0, reason, row.number)
        raw = row.data if row.text.endswith("\n") else row.data + head.line_end
        return Record(self.name, number, _key_of(fields), message, row.number, raw, head, score)

    def parquet(self) -> Iterator[Entry]:
        """
        Yield a record for each row.

        A row that cannot be read gets one, too: the worker's dead letter then says why.
        """
        if self.name == STDIO:
            raise StopError(
                "Parquet cannot be read from stdin: its index is at its end. Name the file"
            )
        # Opened again, because the pieces can only be read forward.
        with open_input(self.name) as stream:
            yield from self._of_parquet(stream)

    def _of_parquet(self, stream: BinaryIO) -> Iterator[Entry]:
        damage: list[str] = []
        number = 0
        for batch in batches_of(stream, damage.append, self.on_rows):
            self._check_columns(batch.schema.names)
            self._check_types(batch.schema)
            rows = _rows_of(batch, {*FIELDS, *self.columns})
            for row, score in zip(rows, self._scores_of(batch), strict=True):
                key, content = (None, row) if isinstance(row, Unreadable) else self._message_of(row)
                yield Record(self.name, number, key, content, number + 1, score=score)
                number += 1
        for reason in damage:
            yield Damage(self.name, 0, reason, ends_file=True)

    def _scores_of(self, batch: Any) -> list[float | None]:
        """
        Return the score of each row.

        Scores are read apart from the documents, so a row with an unreadable score still gets its
        verdict.
        """
        if self.score_column is None:
            return [None] * batch.num_rows
        return [readable_score(scalar) for scalar in batch.column(self.score_column)]

    def _message_of(self, row: Mapping[str, Any]) -> tuple[bytes | None, bytes | Unreadable]:
        """
        Return key and value of a Parquet row's message, or why there is none.

        Raises:
            StopError: a column has a wrong type, so no row can be read.
        """
        try:
            fields = self._fields_of(self._texts_of(row))
            return _key_of(fields), orjson.dumps(fields, default=str)
        except TypeError as error:
            raise StopError(str(error)) from error
        except DocumentError as error:
            return None, Unreadable(error.code, error.text)
        except Exception as error:
            return None, Unreadable(UNREADABLE, str(error))

    def _texts_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return a row with texts instead of bytes, because some writers store texts as bytes. Raises
        DocumentError if they do not have the encoding.
        """
        encoding = Encoding.of(b"", self.encoding)
        id_column = "doc_id" if self.columns.id is None else self.columns.id
        texts: dict[str, Any] = dict(row)
        for name, value in row.items():
            # Bytes of an id may be no text.
            if type_of(value) == BYTES and (name != id_column or self.encoding is not None):
                try:
                    texts[name] = value.decode(encoding.name)
                except UnicodeDecodeError:
                    reason = f"{name} is not {encoding.name}: {ENCODING_REMEDY}"
                    raise DocumentError("invalid-field", reason) from None
        return texts

    def _check_columns(self, names: Sequence[str], hint: str = "") -> None:
        """
        Check the columns of a table.

        Args:
            hint: says in errors where the names stand.
        Raises:
            StopError: a named column is missing, no column could be a body, or two have the score's
                name.
        """
        self.seen.take(names)
        told = SeenColumns(self.columns, OPTION)
        told.take(names)
        if not told.is_complete:
            raise StopError(f"{told.told(f'{self.name} has')}{hint}")
        there = f"there are {first_names(names)}"
        if self.score_column is not None and self.score_column not in names:
            raise StopError(f"{self.name} has no column {self.score_column!r}, {there}{hint}")
        if self.score_column is not None and names.count(self.score_column) > 1:
            raise StopError(f"{self.name} has two columns {self.score_column!r}: rename one")
        if self.columns.text is None and not {*names} & {*BODIES}:
            raise StopError(
                f"{self.name} has no column {', '.join(BODIES[:-1])} or {BODIES[-1]}, {there}: "
                f"--text-column names one{hint}"
            )

    def _check_types(self, schema: Any) -> None:
        """Raise StopError if a column of a Parquet file can never be what it is read for."""
        read = self.columns.read_from(schema.names)
        kinds = {field.name: field.type for field in schema}
        try:
            check_columns(
                (field, name, kinds[name], type_of_arrow(kinds[name])) for field, name in read
            )
        except TypeError as error:
            raise StopError(f"{self.name}: {error}") from None

    def _fields_of(self, row: Mapping[str, Any], *, keeps_wrong: bool = False) -> dict[str, Any]:
        """
        Return the fields of a row, by the names of its columns.

        A value that cannot be its field is an error, or kept, for the worker's dead letter to name.
        """
        named = self.columns.renamed(row)
        if self.fetched_at_default is not None and is_missing(named.get("fetched_at")):
            named = {**named, "fetched_at": self.fetched_at_default}
        return fields_of(named, self.place_of(), self.on_assumed, keeps_wrong=keeps_wrong)


# ---- lines


def _trimmed(data: bytes, encoding: Encoding) -> tuple[bytes, bytes]:
    """
    Return a line as it is in its file, with its end, and its text in UTF-8 without surrounding
    blanks.
    """
    if encoding.is_utf_8:
        data = data.removeprefix(codecs.BOM_UTF8)  # of a file that others were appended to
        stop = data.find(b"\n") + 1
        return _ended(data[:stop] or data, encoding), data.strip()
    decoded = encoding.decode(data)
    if decoded.startswith("\ufeff"):
        decoded = decoded[1:]
        data = data[len("\ufeff".encode(encoding.name)) :]
    blank_characters = len(decoded.partition("\n")[2])  # of the blank lines after the line
    blank_bytes = blank_characters * len("\n".encode(encoding.name))
    raw = data[: len(data) - blank_bytes]
    return _ended(raw, encoding), decoded.strip(f"{JSON_BLANK}\n").encode("utf-8", "replace")


def _ended(data: bytes, encoding: Encoding) -> bytes:
    """Return a line with a line's end."""
    end = "\n".encode(encoding.name)
    return data if data.endswith(end) else data + end


def _parsed(line: bytes) -> Any:
    """
    Parse a line. The standard library reads lines for which orjson is too strict (lone surrogates).
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            # NaN is null, as for a worker, and so is what no number of 64 bits is: 1e400.
            return _shallow(
                json.loads(line.decode(), parse_float=_finite, parse_constant=lambda _: None)
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            reason = str(error).partition("; use sys.")[0]  # of a number with too many digits
            hint = " (a CR is inside: end lines with LF or CR LF)" if b"\r" in line else ""
            raise ValueError(f"not JSON: {reason}{hint}") from None


def _finite(digits: str) -> float | None:
    """Return a number of JSON; None if it is too large for one of 64 bits."""
    number = float(digits)
    return number if math.isfinite(number) else None


def _json_of(fields: Mapping[str, Any]) -> bytes:
    """Return fields as JSON, lone surrogates as escapes: the decoder has a rule for these."""
    try:
        return json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(fields).encode()


def _shallow(value: Any) -> Any:
    """
    Return a value unchanged. Raises RecursionError if `json` does so on some version of Python.
    """
    level = [value]
    for _ in range(_LEVELS_MAX):
        if not level:
            return value
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [
            inner
            for each in containers
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    raise RecursionError


def _key_of(fields: dict[str, Any]) -> bytes | None:
    """Return the doc_id that the worker will use, if the row has all that is needed for it."""
    doc_id = fields.get("doc_id")
    url = fields.get("url")
    fetched_at = fields.get("fetched_at")
    if isinstance(doc_id, int | float) and not isinstance(doc_id, bool):
        number = whole_number(doc_id)
        return None if number is None else b"%d" % number
    if isinstance(doc_id, str) and doc_id:
        return doc_id.encode("utf-8", "replace")
    if isinstance(url, str) and isinstance(fetched_at, str):
        try:
            return derive_doc_id(url, parse_timestamp(fetched_at)).encode()
        except TimestampError:
            return None
    return None


def _why_not_csv(name: str, text: str, error: csv.Error) -> str:
    """
    Say why a row cannot be read. For a CR, Python's own message names an argument of `open`, which
    helps nobody who runs a command.
    """
    if "\r" in text.rstrip("\r\n"):
        return f"{name} has a CR inside: end lines with LF or CR LF"
    return str(error)


def line_of_csv(values: Sequence[object]) -> bytes:
    """
    Return a row as it is written, without its line's end.

    >>> line_of_csv(["a", "b, c", None, 0.5, "d\\n"])
    b'a,"b, c",,0.5,"d\\n"'
    """
    text = io.StringIO()
    # With this line end, the writer quotes values that contain either of its characters.
    csv.writer(text, lineterminator="\r\n").writerow(values)
    return text.getvalue()[:-2].encode()


# ---- Parquet


def readable_score(value: Any) -> float | None:
    """Return `score_of` a value, and None for a value of Arrow that Python cannot represent."""
    try:
        return score_of(plain(value))
    except Exception:  # text that is not UTF-8, a time out of range
        return None


def _of_one_row(batch: Any, names: Sequence[str], error: Exception) -> dict[str, Any] | Unreadable:
    """
    Return a row that is alone in its batch, value by value; or why it cannot be read: the column,
    its value, and Python's reason.

    Args:
        error: what has ended the reading of all values at once.
    """
    if len({*names}) < len(names):  # a name is not that of one column
        return Unreadable(UNREADABLE, str(error))
    row: dict[str, Any] = {}
    for name in names:
        [scalar] = batch.column(name)
        try:
            row[name] = plain(scalar)
        except Exception as reason:
            value = ""
            with suppress(Exception):  # not every value has a text
                value = f" is {scalar.cast('string').as_py()}"
            return Unreadable(UNREADABLE, f"{name}{value}: {reason}")
    return row


def _rows_of(batch: Any, wanted: set[Any]) -> list[dict[str, Any] | Unreadable]:
    """
    Return the wanted columns of each row, or why it cannot be read (not UTF-8, two columns of one
    name).
    """
    names = [name for name in batch.schema.names if name in wanted]
    try:
        return list(batch.select(names).to_pylist())
    except Exception as error:
        if batch.num_rows == 1:
            return [_of_one_row(batch, names, error)]
    single = [_rows_of(batch.slice(index, 1), wanted) for index in range(batch.num_rows)]
    return list(itertools.chain.from_iterable(single))


# ---- a row's fields


def fields_of(
    row: Mapping[str, Any],
    place: RowPlace,
    on_assumed: Callable[[str], None] = lambda _: None,
    *,
    keeps_wrong: bool = False,
) -> dict[str, Any]:
    """
    Return the fields of a row's message.

    Columns with other names are ignored, and missing fields are derived.

    Args:
        place: the place of the document, which names it if it has no name.
        on_assumed: is called as `columns.field_value` does.
        keeps_wrong: whether a value of JSON that no message can have stays as it is, so that the
            worker's dead letter says what is wrong.

    Raises:
        TypeError, DocumentError: as `columns.field_value`.

    >>> fields_of({"text": "The river rose.", "doc_id": "a", "score": 7}, RowPlace(0, 0, 0))
    {'doc_id': 'a', 'text': 'The river rose.', 'url': 'urn:neardup:a', 'fetched_at': '1970...'}
    >>> fields_of({"text": "The river rose."}, RowPlace(0, 0, 7))["doc_id"]
    '0.0.7-adf0fca55fa9dc87'
    """
    given: dict[str, Any] = {}
    for field in FIELDS:
        value = plain(row.get(field))
        if is_missing(value):
            continue
        try:
            given[field] = field_value(field, value, on_assumed)
        except (TypeError, DocumentError):
            if not keeps_wrong:
                raise
            given[field] = value
    return filled(given, place)


def filled(fields: dict[str, Any], place: RowPlace) -> dict[str, Any]:
    """
    Return the fields with a doc_id, a URL and a time.

    A row without a doc_id, and without a URL and a time, is named by its place and its body. So
    each is a document of its own, and a duplicate if an equal one came before.
    """
    if "doc_id" not in fields and not ("url" in fields and "fetched_at" in fields):
        body = next((fields[field] for field in BODIES if field in fields), "")
        fields["doc_id"] = place.doc_id(str(body))
    if "url" not in fields:
        # The decoder refuses a doc_id that is too long, by the doc_id's name and not by the URL's.
        fields["url"] = f"{MADE_URL}{fields['doc_id']}"[: len(MADE_URL) + DOC_ID_BYTES_MAX]
    fields.setdefault("fetched_at", NO_TIME)
    return fields


def brought_url(url: str | None) -> str | None:
    """
    Return a URL as people are shown it; None for one that `filled` has made.

    >>> brought_url("https://example.org/"), brought_url("urn:neardup:a")
    ('https://example.org/', None)
    """
    return None if url is None or url.startswith(MADE_URL) else url


def is_missing(value: Any) -> bool:
    """Return whether a field has no value: None, and what frames have for it (nan, NaT, NA)."""
    value = plain(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    differs = value != value  # noqa: PLR0124
    return isinstance(differs, bool | np.bool_) and bool(differs)


def score_of(value: Any) -> float | None:
    """
    Return the number in a field, also where it stands as text, as in CSV.

    Returns:
        None if the field has no finite number. A boolean is not a number.

    >>> score_of(7), score_of(" 0.25 "), score_of("high"), score_of(True), score_of(float("nan"))
    (7.0, 0.25, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | Real | Decimal):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def remedy(value: Any) -> str:
    """Return what to do about a value that is no document."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "decode it, or give a Document of BodyKind.BYTES"
    if is_missing(value):
        return (
            "leave out what is missing (of a pandas column: .dropna(), "
            "of a polars one: .drop_nulls())"
        )
    return "give a str, a dict with the fields of DocumentMessage, or a Document"
