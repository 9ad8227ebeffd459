"""CSV -> documents messages: the first line names the columns, and each other row is a document."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

import orjson

from worker.errors import StopError
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.record import Damaged, Found, Record
from worker.shell.files.rows import FIELDS, ColumnNames, check_columns, read_row


def read_csv(
    file: str,
    pieces: Iterator[Piece],
    field_max: int,
    fetched_at_default: str | None,
    columns: ColumnNames | None,
    number_of: Callable[[], int],
) -> Iterator[Found]:
    """
    Return a record for each row, and damage for one of another length; an empty field is missing.

    Args:
        field_max: characters of a field, and bytes of a line.

    Raises:
        StopError: a column that is asked for is not there or stands twice, or none could be a body; or the first line
            is no CSV.
    """
    csv.field_size_limit(max(field_max, csv.field_size_limit()))
    damaged: list[Damaged] = []
    rows = csv.reader(_lines(file, pieces, field_max, damaged))
    try:
        names = next(rows, [])
    except csv.Error as error:
        raise StopError(f"{file} is not CSV: {error}") from None
    check_columns(file, names, columns)
    if twice := next((name for name in (*FIELDS, *(columns or ())) if names.count(str(name)) > 1), None):
        raise StopError(f"{file} has two columns {twice!r}: rename one")
    head = line_of_csv(names)
    number = 0
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            row = []
            damaged.append(Damaged(file, 0, f"not CSV: {error}", rows.line_num))
        yield from damaged
        damaged.clear()
        if row is None:
            return
        if len(row) != len(names):
            if row:  # else a blank line
                yield Damaged(file, 0, f"{len(row)} fields, and the first line has {len(names)}", rows.line_num)
            continue
        given = {name: value or None for name, value in zip(names, row, strict=True)}
        fields = read_row(given, columns, fetched_at_default, number_of())
        key, value = fields["doc_id"].encode() if "doc_id" in fields else None, orjson.dumps(fields)
        yield Record(file, number, key, value, rows.line_num, line_of_csv(row), head)
        number += 1


def line_of_csv(values: Sequence[object]) -> bytes:
    """
    Return a row as it is written, without its line's end.

    >>> line_of_csv(["a", "b, c", None, 0.5, "d\\n"])
    b'a,"b, c",,0.5,"d\\n"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(values)  # which has both characters quoted
    return text.getvalue()[:-2].encode()


def _lines(file: str, pieces: Iterator[Piece], bytes_max: int, damaged: list[Damaged]) -> Iterator[str]:
    """Yield the lines of a file as text; what is wrong with it goes to `damaged`."""
    held, is_first, is_overlong = bytearray(), True, False
    for piece in pieces:
        for number, part in enumerate(piece.data.split(b"\n")):
            if number:
                yield "\n" if is_overlong else held.decode("utf-8-sig" if is_first else "utf-8", "replace") + "\n"
                held.clear()
                is_first = is_overlong = False
            held += part
        if len(held) > bytes_max:
            if not is_overlong:
                damaged.append(Damaged(file, piece.offset, f"a line of more than {bytes_max:,} bytes"))
            is_overlong = True
            held.clear()
        if piece.problem is not None:
            damaged.append(Damaged(file, piece.offset, piece.problem))
            held.clear()
    if held and not is_overlong:
        yield held.decode("utf-8-sig" if is_first else "utf-8", "replace")
