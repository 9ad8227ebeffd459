"""
Reads the lines of text files as bytes, and finds the encoding of a file.

The encoding of a file is the one that `--encoding` names, else that of its byte order mark, else
UTF-8 (or UTF-16, if every second byte is a NUL). Bytes are never replaced. A line that cannot be
decoded is damage, and a kept row is written with its original bytes.

    file ─► Encoding.of ─► Lines.read ─► Line | Damage

A line includes the blank lines after it. A gzip file of a thousand bytes can contain a million
blank lines, and one step of Python for each would take a second per MiB.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from worker.errors import StopError
from worker.shell.files.archives import Damage
from worker.shell.files.archives.inflate import Piece

ENCODING_REMEDY = "name its encoding with --encoding, or convert it to UTF-8"
_MARK_BYTES_MAX = 4
_MARKS = {  # the marks of UTF-32 before those of UTF-16, which they begin with
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_UTF_8 = {"utf-8", "utf-8-sig", "ascii"}
_ESCAPED = re.compile("[\ud800-\udfff]")
_WITHOUT_QUOTE = re.compile(rb'(?:[^"\n]*+\n)++')
_WITHOUT_QUOTE_BYTES_MAX = 64 << 10


class Encoding(NamedTuple):
    """
    How the text of a file is decoded.

    Attributes:
        name: Python's name of the codec, the one without a byte order mark.
        mark: the bytes of the byte order mark at the file's start; empty if it has none.
    """

    name: str
    mark: bytes = b""

    @classmethod
    def of(cls, start: bytes, named: str | None = None) -> Self:
        """
        Return the encoding of a file that starts with these bytes.

        Args:
            start: at least four bytes, or the whole file.
            named: the encoding that the user names; it counts more than the mark.
        Raises:
            StopError: Python has no encoding of this name.

        >>> Encoding.of(codecs.BOM_UTF16_LE + "text".encode("utf-16-le"))
        Encoding(name='utf-16-le', mark=b'\\xff\\xfe')
        >>> Encoding.of(b"text", "latin-1").name
        'iso8859-1'
        """
        mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
        if named is None:
            return cls(_MARKS.get(mark) or _name_without_mark(start), mark)
        name = codec_name(named)
        if name in _UTF_8:
            name = "utf-8"
        elif name in (
            "utf-16",
            "utf-32",
        ):  # the mark says which; without one, most are little-endian
            name = _MARKS[mark] if _MARKS.get(mark, "").startswith(name) else f"{name}-le"
        return cls(name, mark if _MARKS.get(mark) == name else b"")

    @property
    def is_utf_8(self) -> bool:
        """Whether the file has the bytes that a message has."""
        return self.name == "utf-8"

    def decode(self, data: bytes) -> str:
        """
        Return a line's text. A byte that is not UTF-8 becomes a lone surrogate, as in
        `os.fsdecode`.

        So only the field with such a byte is lost, and nothing if the field is not read.
        `is_decoded` says whether a text has such a byte.

        Raises:
            UnicodeDecodeError: in another encoding, where a wrong byte may hide the commas behind
                it.
        """
        return data.decode(self.name, "surrogateescape" if self.is_utf_8 else "strict")


def _name_without_mark(start: bytes) -> str:
    """
    Return the encoding of a file without a mark: UTF-16 if every second byte is a NUL.

    No text in UTF-8 begins so, and a table or JSON begins with ASCII. Source: RFC 4627, section 3.
    """
    is_nul = [not byte for byte in start[:_MARK_BYTES_MAX]]
    if is_nul == [False, True, False, True]:
        return "utf-16-le"
    if is_nul == [True, False, True, False]:
        return "utf-16-be"
    return "utf-8"


def codec_name(named: str) -> str:
    """
    Return Python's name of an encoding. Raises StopError if there is none, or if it is not one of
    texts.

    >>> codec_name("latin1")
    'iso8859-1'
    """
    try:
        "".encode(named)  # LookupError for codecs of bytes, such as hex
        return codecs.lookup(named).name
    except (LookupError, ValueError):
        raise StopError(
            f"there is no encoding {named!r}: name one such as utf-16, cp1252, shift_jis"
        ) from None


def is_decoded(text: str) -> bool:
    """Return whether all bytes of a text were UTF-8."""
    return text.isascii() or _ESCAPED.search(text) is None


class Line(NamedTuple):
    """
    A line with its end, and with the blank lines after it.

    `position` is where it begins in the file's decompressed bytes; `number` counts lines from 1.
    """

    position: int
    number: int
    data: bytes


class Lines:
    """
    The lines of one file.

    Args:
        file: the name of the file, for damage.
        pieces: its decompressed bytes.
        bytes_max: the longest line. A longer one is damage, and is not held in memory.
        encoding: the one that the user names.
        blank: the characters that a blank line may have before its end.

    Attributes:
        encoding: the encoding of the file.
        width: bytes of each character that a blank line may have.
        is_quoted: whether lines without a quote are read many at a time, as one, from here on.
    Raises:
        StopError: Python has no encoding of this name.
    """

    is_quoted = False

    def __init__(
        self,
        file: str,
        pieces: Iterator[Piece],
        bytes_max: int,
        encoding: str | None = None,
        blank: str = "\r",
    ) -> None:
        self._file = file
        self._bytes_max = bytes_max
        # Lines that are read as one are lost as one, if the first of them is too long.
        self._at_once_bytes_max = min(bytes_max, _WITHOUT_QUOTE_BYTES_MAX)
        start, self._pieces = with_start(pieces)
        self.encoding = Encoding.of(start, encoding)
        self._end = "\n".encode(self.encoding.name)
        self.width = len(self._end)
        self._line, self._blank_lines = _patterns(
            self._end, [char.encode(self.encoding.name) for char in blank]
        )

    def read(self) -> Iterator[Line | Damage]:
        """
        Yield the lines in order, the first one with the file's mark.

        If bytes are lost, because a line is too long or the compression is damaged, damage takes
        their place.

        Cost: O(bytes) in C, and a step of Python for each line that is not blank.
        """
        position = 0
        number = 1
        held = bytearray()  # the beginning of a line whose end has not been read
        is_overlong = False
        for piece in _whole_units(self._pieces, self.width):
            start = 0
            while start < len(piece.data):
                line = None
                if self.is_quoted and not held and self.width == 1:
                    line = _WITHOUT_QUOTE.match(piece.data, start, start + self._at_once_bytes_max)
                line = line or self._blank_lines.match(piece.data, start)
                part = piece.data[start:] if line is None else line[0]  # a character is cut off
                start += len(part)
                held += part
                is_ended = part.endswith(self._end)
                if not is_overlong and self._is_overlong(held):
                    is_overlong = True
                    reason = f"a line of more than {self._bytes_max:,} bytes"
                    yield Damage(self._file, position, reason, number)
                if is_ended and not is_overlong:
                    yield Line(position, number, bytes(held))
                if is_ended:
                    number += self.count(held)
                if is_ended or is_overlong:
                    position += len(held)
                    held.clear()
                    is_overlong = not is_ended
            if piece.problem is not None:
                yield Damage(self._file, piece.offset, piece.problem)
                position += len(held)
                held.clear()
                is_overlong = False
        if held:
            yield Line(position, number, bytes(held))

    def split(self, data: bytes, position: int, number: int) -> Iterator[Line]:
        """
        Yield the lines of bytes that begin with a line, at this position and with this number.
        """
        for part in self._blank_lines.findall(data):
            yield Line(position, number, part)
            position += len(part)
            number += self.count(part)

    def first(self, data: bytearray) -> bytes:
        """Return the first line of some bytes, with the blank lines after it."""
        line = self._blank_lines.match(data)
        assert line is not None, "there is one"
        return line[0]

    def count(self, data: bytes | bytearray) -> int:
        """Return how many lines end in these bytes."""
        if self.width == 1:
            return data.count(self._end)
        unit = np.dtype(f"u{self.width}")
        return int(np.count_nonzero(np.frombuffer(data, unit) == np.frombuffer(self._end, unit)))

    def _is_overlong(self, line: bytearray) -> bool:
        """Return whether a line is too long, without the blank lines after it."""
        if len(line) <= self._bytes_max:
            return False
        start = self._line.match(line)
        return start is not None and start.end() > self._bytes_max


def _patterns(end: bytes, blank: list[bytes]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """
    Return a pattern of a line, and one of a line with the blank lines after it.

    A line may lack its end. Characters are units of as many bytes as a line's end has, and a match
    begins at the first byte of one: in UTF-16 the bytes of a line's end also stand across two
    characters. No part is matched twice.
    """
    stop = re.escape(end)
    unit = b"(?:(?!%b)[\\s\\S]{%d})" % (stop, len(end)) if len(end) > 1 else b"[^%b]" % stop
    blanks = b"(?:%b)*+%b" % (b"|".join(map(re.escape, blank)), stop)
    line = b"%b*+(?:%b)?" % (unit, stop)
    return re.compile(line), re.compile(b"%b*+%b(?:%b)*+|%b++" % (unit, stop, blanks, unit))


def with_start(
    pieces: Iterator[Piece], least: int = _MARK_BYTES_MAX
) -> tuple[bytes, Iterator[Piece]]:
    """
    Return the first bytes of a file, and all of its pieces.

    A member of a compressed file is a piece of its own, and the first one may have a byte or two.

    Args:
        least: so many bytes, if the file has them; by default enough for its mark.
    """
    start = b""
    read: list[Piece] = []
    for piece in pieces:
        read.append(piece)
        start += piece.data[:least]
        if len(start) >= least or piece.problem is not None:
            break
    return start, itertools.chain(read, pieces)


def without_mark(pieces: Iterator[Piece], encoding: Encoding) -> Iterator[Piece]:
    """Yield the pieces of a file without its byte order mark, which may be cut between two."""
    left = len(encoding.mark)
    for piece in pieces:
        yield piece._replace(data=piece.data[left:])
        left = max(left - len(piece.data), 0)


def _whole_units(pieces: Iterator[Piece], width: int) -> Iterator[Piece]:
    """
    Yield pieces that end between two characters of `width` bytes. Only the last piece may end
    within a character, if the file does.
    """
    if width == 1:
        yield from pieces
        return
    rest = b""
    for piece in pieces:
        data = rest + piece.data
        cut = len(data) - len(data) % width if piece.problem is None else len(data)
        rest = data[cut:]
        yield piece._replace(data=data[:cut])
    if rest:
        yield Piece(0, rest)
