"""
Opens a file for a reader that needs all of its content, unpacked as its first bytes say.

It reads what `packed` of `outputs.py` has written: verdicts, fingerprints, numbers. A half of them
would be taken for all, so damage ends the reader. Readers of documents use `inflate.pieces` itself,
where damage costs only a member.
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from worker.errors import StopError
from worker.shell.files.archives.budget import Budget
from worker.shell.files.archives.inflate import pieces
from worker.shell.files.formats import NO_BYTES, START_BYTES, is_never_empty
from worker.shell.files.places import open_input, shown_name

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_REMEDY = "write or copy it again"


class _UnpackedPieces(io.RawIOBase):
    """What the pieces of a file hold, read forward."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.budget = Budget()
        self._pieces = pieces(stream, self.budget.take_in, self.budget)
        self._name = name
        self._data = memoryview(b"")  # of the last piece, what has not been read
        self._is_at_start = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer).cast("B")
        count = self._read_some(target)
        # Whoever looks at the file's beginning sees enough of it, even if a compressed file begins
        # with a member of a byte or two.
        while self._is_at_start and 0 < count < START_BYTES:
            more = self._read_some(target[count:])
            if not more:
                break
            count += more
        self._is_at_start = False
        return count

    def _read_some(self, target: memoryview) -> int:
        """Read into a buffer what one piece has; 0: the file ends, or the buffer has no room."""
        while not self._data:
            piece = next(self._pieces, None)
            if piece is None:
                self._check_end()
                return 0
            if piece.problem is not None:
                raise StopError(
                    f"cannot read {shown_name(self._name)} to its end: {piece.problem} (from byte "
                    f"{piece.offset:,} on): {_REMEDY}"
                )
            self._data = memoryview(piece.data)
        count = min(len(target), len(self._data))
        target[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def _check_end(self) -> None:
        """Raise StopError for a file without a byte whose name says that it has some."""
        if not self.budget.bytes_in and is_never_empty(self._name):
            raise StopError(f"cannot read {shown_name(self._name)}: {NO_BYTES}")


class UnpackedInput(io.BufferedReader):
    """
    The content of a file.

    Reading it raises StopError if the file cannot be read to its end: it was cut or is damaged, or
    a disk fails.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        content = _UnpackedPieces(stream, name)
        super().__init__(content)
        self._budget = content.budget

    @property
    def bytes_read(self) -> int:
        """How many bytes of the file, as it is stored, have been read."""
        return self._budget.bytes_in

    def skip_mark(self) -> None:
        """
        Pass over a byte order mark of UTF-8, with which editors of Windows begin a file.

        It is for readers of texts whose encoding is given. In a page, the mark tells the encoding.
        """
        if self.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
            self.read(len(BOM_UTF8))


@contextmanager
def opened_unpacked(name: str) -> Iterator[UnpackedInput]:
    """
    Open a file that is plain or compressed; "-" is stdin.

    Raises:
        StopError: it cannot be opened; while the block reads it: it cannot be read to its end.
    """
    with open_input(name) as stream:
        yield UnpackedInput(stream, name)
