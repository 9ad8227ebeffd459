r"""
Finds where each row of a CSV ends. The standard library then splits the row into its fields.

A row ends with its line, unless a quoted field continues on the next line. In the standard library,
a quote that is never closed swallows the rest of the file, so the ends are found here:

    a,"two      a row of two lines: the quote is closed before a comma or the line's end
    lines",x
    b,"text     damage at this line: the next quote is followed by `q`, so it opens another field
    c,"quoted"  reading goes on here

A quote is also not closed if the file ends, if bytes are lost, if its row has more than
`bytes_max`, or if all lines up to the other quote are rows of TSV. The row up to the line with the
quote is damage, and the lines after that line are read again, as new rows.

Reading again costs no more than reading. Whether a line closes an open quote depends on that line
alone, so each line is examined once: the next search begins where the last one ended. Lines that
are rows of TSV are then read one by one, without a search: one with an open quote is damage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from worker.shell.files.archives import Damage
from worker.shell.files.archives.budget import has_more
from worker.shell.files.archives.lines import ENCODING_REMEDY, Line, Lines

# Matches closed fields from the beginning of a field on, up to the line's end or to a quote that is
# open there. In a field that does not begin with a quote, a quote is a character, as in the
# standard library.
_FIELD = r'(?:"[^"]*+(?:""[^"]*+)*+"[^,]*+|(?!")[^,]*+)'
_FIELDS = rf"{_FIELD}(?:,{_FIELD})*+"
DELIMITERS = {
    delimiter: re.compile(_FIELDS.replace(",", delimiter)) for delimiter in (",", ";", "\t")
}
_FIELD_MORE = {  # a field with another one behind it
    delimiter: re.compile((_FIELD + ",").replace(",", delimiter)) for delimiter in DELIMITERS
}
_CLOSE = re.compile(r'[^"]*+(?:""[^"]*+)*+"')  # within a quoted field: up to its end
_HOLE = "\0\0"  # a single one may be a character of a text
_BLOCK_BYTES_MAX = 64 << 10
_NOT_CLOSED = "a quote that opens in this line is not closed"
_READ_ROWS = 1_000  # are given up together


class CsvRow(NamedTuple):
    """
    A row with its line end, without the blank lines after it. `number` is the number of its first
    line.
    """

    number: int
    data: bytes
    text: str


class _Text(NamedTuple):
    """A line and its text."""

    line: Line
    text: str


class _Block:
    """Lines that close no quote, as one object, because a field may have millions of them."""

    def __init__(self, line: Line) -> None:
        self.position = line.position
        self.number = line.number
        self.data = bytearray(line.data)


def has_more_fields(row: str, delimiter: str, fields_max: int) -> bool:
    """
    Return whether a row has more fields than that, before it is split.

    Cost: O(characters) in C, and a step for each of `fields_max` fields.

    >>> has_more_fields('a,"b,c"', ",", 2), has_more_fields('a,"b,c",', ",", 2)
    (False, True)
    """
    if row.count(delimiter) < fields_max:
        return False
    return has_more(_FIELD_MORE[delimiter], row, fields_max - 1)


class CsvRows:
    """
    The rows of one file, in order, with the damage between them.

    Args:
        file: the name of the file, for damage.
        lines: the lines of the file.
        bytes_max: a row with more bytes has a quote that is not closed.
        delimiter_of: returns the delimiter, one of DELIMITERS, from the first line that is not
            blank.

    Attributes:
        delimiter: the one of the first line; a comma until that is read.

    Cost: O(bytes). Memory: three times a row's bytes.
    """

    def __init__(
        self,
        file: str,
        lines: Lines,
        bytes_max: int,
        delimiter_of: Callable[[str], str] = lambda _: ",",
    ) -> None:
        self.delimiter = ","
        self._delimiter_of: Callable[[str], str] | None = delimiter_of
        self._tabs = 0  # of a row of TSV
        self._alone_to = -1  # position of the last line that is known to be a row of its own
        self._file = file
        self._lines = lines
        self._bytes_max = bytes_max
        self._source = lines.read()
        self._held: list[_Text | _Block | Damage] = []  # lines that were read and are still needed
        self._next = 0  # index in `_held` where the next row begins
        self._searched = 0  # no line of `_held` before this index closes a quote of the row

    def __iter__(self) -> Iterator[CsvRow | Damage]:
        while (first := self._row_start()) is not None:
            if isinstance(first, Damage):
                yield first
                self._next += 1
                continue
            if self._delimiter_of is not None and not first.text.isspace():
                self.delimiter = self._delimiter_of(first.text)
                self._delimiter_of = None
                self._tabs = first.text.count("\t") if self.delimiter == "\t" else 0
            stop = self._next + 1
            opened = None
            if '"' in first.text:
                stop, opened = self._row_end(self._next)
            if opened is not None:
                yield opened
            elif self._is_of_rows(first, stop):
                last = self._held[stop - 1]
                assert isinstance(last, _Text)
                self._alone_to = last.line.position  # and the first one is read again
            else:
                yield self._row(first, stop)
                self._next = stop
            if self._next >= _READ_ROWS:
                del self._held[: self._next]
                self._searched = max(self._searched - self._next, 0)
                self._next = 0

    def _is_of_rows(self, first: _Text, stop: int) -> bool:
        """
        Return whether several lines that make a row of TSV are each a row by their tabs.

        Many programs write tabs, and quotes as characters of a text. A text that begins with one
        would take all rows up to the next text that ends with one.
        """
        if not self._tabs or stop == self._next + 1:
            return False
        lines = self._row(first, stop).text.rstrip("\r\n").split("\n")
        return all(line.count("\t") == self._tabs for line in lines)

    def _row_start(self) -> _Text | Damage | None:
        """
        Return the line with which the next row begins, or the damage in its place. None at the end
        of the file.
        """
        if self._next == len(self._held):
            line = next(self._source, None)
            if line is None:
                return None
            self._held.append(line if isinstance(line, Damage) else self._text(line))
        entry = self._held[self._next]
        return self._of_block(entry) if isinstance(entry, _Block) else entry

    def _of_block(self, block: _Block) -> _Text | Damage:
        """Take the first line out of a block."""
        line = Line(block.position, block.number, self._lines.first(block.data))
        size = len(line.data)
        text = self._text(line)
        self._held.insert(self._next, text)
        self._searched += 1
        block.number += self._lines.count(block.data[:size])
        block.position += size
        del block.data[:size]
        if not block.data:
            self._held.remove(block)
            self._searched -= 1
        return text

    def _row_end(self, first: int) -> tuple[int, Damage | None]:
        """
        Return where the row ends that begins with a line of `_held`, as the index after its last
        line.

        Returns damage instead if a quote in the row is not closed. The next row then begins after
        the line with that quote.
        """
        index = first
        column = 0
        while True:
            entry = self._held[index]
            assert isinstance(entry, _Text)
            fields = DELIMITERS[self.delimiter].match(entry.text, column)
            column = column if fields is None else fields.end()
            if column == len(entry.text):
                return index + 1, None
            is_alone = entry.line.position <= self._alone_to
            closing = None if is_alone else self._closing(index + 1, first)
            if closing is None:
                self._next = index + 1
                return self._next, Damage(self._file, 0, _NOT_CLOSED, entry.line.number)
            index, column = closing

    def _closing(self, start: int, first: int) -> tuple[int, int] | None:
        """
        Return the first line from `start` on that closes a quoted field, and where its next field
        begins. None if no line does.

        Args:
            first: the row's first line. The search ends `bytes_max` after it.
        """
        begin = self._held[first]
        assert isinstance(begin, _Text)
        position_max = begin.line.position + self._bytes_max
        index = max(start, self._searched)
        while isinstance(entry := self._entry(index), _Text) and entry.line.position < position_max:
            close = _CLOSE.match(entry.text)
            if close is not None:
                self._searched = index
                behind = entry.text[close.end() : close.end() + 1]
                if behind not in ("", self.delimiter, "\r", "\n"):
                    return None
                return index, close.end() + (behind == self.delimiter)
            index = self._merged(index)
        self._searched = index
        if isinstance(entry, _Text):  # it may have many lines, which were read as quoted
            line = entry.line
            lines = self._lines.split(line.data, line.position, line.number)
            self._held[index : index + 1] = [self._text(line) for line in lines]
        return None

    def _merged(self, index: int) -> int:
        """
        Put a line that closes no quote into the block before it, if there is one. Returns the next
        line's index.
        """
        entry = self._held[index]
        assert isinstance(entry, _Text)
        is_last = index == len(self._held) - 1
        block = self._held[index - 1]
        if is_last and isinstance(block, _Block) and len(block.data) < _BLOCK_BYTES_MAX:
            block.data += entry.line.data
            del self._held[index]
            return index
        if is_last:
            self._held[index] = _Block(entry.line)
        return index + 1

    def _entry(self, index: int) -> _Text | _Block | Damage | None:
        """
        Return the line or the damage at a place of `_held`, reading it first if needed. None at the
        end of the file.
        """
        if index == len(self._held):
            self._lines.is_quoted = True
            line = next(self._source, None)
            self._lines.is_quoted = False
            if line is None:
                return None
            self._held.append(line if isinstance(line, Damage) else self._text(line))
        return self._held[index]

    def _text(self, line: Line) -> _Text | Damage:
        """Return a line with its text, or damage."""
        encoding = self._lines.encoding
        try:
            text = encoding.decode(line.data)
        except UnicodeDecodeError as error:
            reason = f"not {encoding.name} ({error.reason}): {ENCODING_REMEDY}"
            return Damage(self._file, 0, reason, line.number)
        if _HOLE in text:  # ends of lines may have been in it, so that rows would become one
            reason = (
                "NUL characters, as a disk or a copy leaves them in place of what is missing: copy "
                "the file again"
            )
            return Damage(self._file, 0, reason, line.number)
        return _Text(line, text.removeprefix("\ufeff"))  # also of a file that was appended

    def _row(self, first: _Text, stop: int) -> CsvRow:
        """Return the row that consists of the lines up to `stop`."""
        data = first.line.data
        text = first.text
        if stop > self._next + 1:
            more = self._held[self._next + 1 : stop]
            rest = b"".join(
                entry.line.data if isinstance(entry, _Text) else entry.data
                for entry in more
                if not isinstance(entry, Damage)
            )
            data += rest
            text += self._lines.encoding.decode(rest)
        blank = 0
        last = self._held[stop - 1]
        if isinstance(last, _Text):
            blank = len(last.text) - 1 - last.text.find("\n") if "\n" in last.text else 0
        if blank:
            data = data[: len(data) - blank * self._lines.width]
            text = text[:-blank]
        return CsvRow(first.line.number, data, text)
