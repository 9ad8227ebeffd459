"""
Crawler output -> documents messages: WARC, ARC, WET, JSON Lines, Parquet; plain, gzip or zstd; files, URLs or stdin.

    file ─► inflate ─┬─► segment ─┬─► warc ─┬─► Record | LeftOut | Damaged, in the order of the file
                     │            └─► arc ──┤
                     ├─► json_lines ────────┤
                     └─► parquet ───────────┘

Damage costs what is damaged: it is named with file and offset, and the reading goes on behind it.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from worker.core.document import BODY_BYTES_MAX
from worker.errors import StopError
from worker.shell.files.archives.arc import read_arc
from worker.shell.files.archives.csv_rows import read_csv
from worker.shell.files.archives.inflate import Piece, pieces
from worker.shell.files.archives.json_lines import read_json_lines
from worker.shell.files.archives.parquet import MAGIC, read_parquet
from worker.shell.files.archives.record import Damaged, Found, LeftOut, Record
from worker.shell.files.archives.segment import segments
from worker.shell.files.archives.warc import read_warc
from worker.shell.files.remote import open_remote, path_of, size_remote
from worker.shell.files.rows import ColumnNames

__all__ = ["ArchiveReader", "Damaged", "Found", "LeftOut", "Record"]

STDIN = "-"


class ArchiveReader:
    """
    Iterates over one archive, once; the file is open only meanwhile.

    The format is told from the content, for a damaged start from the name.

    Args:
        path: the file, a URL that fsspec knows, or "-" for stdin.
        body_max: bytes of a decoded body; a longer one is left out as "body-too-large".
        fetched_at_default: the fetch time of JSON Lines and rows that have none, ISO 8601.
        columns: the names that doc_id and text have in JSON Lines and Parquet.
        whole: have each record's `raw`, too.
        number_of: asked for the number of each document that may need one for a name; counted here if None.
    Raises:
        StopError: there is no such file, or it may not be read.

    Attributes:
        bytes_read: of the file, so far; compressed bytes for a compressed one.
        bytes_total: of the file; None for a pipe.

    Cost: that of decompression and of base64 for the bodies. Memory: a few MiB and one record.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        body_max: int = BODY_BYTES_MAX,
        fetched_at_default: str | None = None,
        columns: ColumnNames | None = None,
        whole: bool = False,
        number_of: Callable[[], int] | None = None,
    ) -> None:
        self.file = str(path)
        self.bytes_read = 0
        self.bytes_total: int | None = None
        self._body_max = body_max
        self._fetched_at_default = fetched_at_default
        self._columns = columns
        self._whole = whole
        self._number_of = number_of or itertools.count().__next__
        self._path = path_of(path)
        if self._path is None:
            self.bytes_total = size_remote(self.file)
        elif self.file != STDIN:
            if not os.access(self._path, os.R_OK):
                raise StopError(f"cannot read {self.file}: no such file, or no permission")
            if self._path.is_file():
                self.bytes_total = self._path.stat().st_size

    def __iter__(self) -> Iterator[Found]:
        with self.open() as stream:
            found = pieces(stream, self._count)
            first = next((piece for piece in found if piece.data or piece.problem), None)
            if first is None:
                return
            yield from self._read(first, itertools.chain([first], found))

    def open(self) -> BinaryIO:
        """Open the file as it stands. Raises StopError with the system's reason."""
        if self._path is None:
            return open_remote(self.file)
        try:
            return sys.stdin.buffer if self.file == STDIN else self._path.open("rb")
        except OSError as error:
            raise StopError(f"cannot read {self.file}: {error.strerror or error}") from error

    def _count(self, number: int) -> None:
        self.bytes_read += number

    def _rows(self) -> Iterator[Found]:
        """Return the rows of a file of Parquet, whose index stands at its end."""
        if self.file == STDIN:
            raise StopError("Parquet cannot be read from stdin: its index stands at its end. Name the file")

        def count(done: int, rows: int) -> None:
            self.bytes_read = (self.bytes_total or 0) * done // rows

        with self.open() as stream:
            given = self._fetched_at_default, self._columns, self._number_of
            yield from read_parquet(self.file, stream, *given, count)

    def _read(self, first: Piece, found: Iterator[Piece]) -> Iterator[Found]:
        start, name = first.data[:64].lstrip(), Path(self.file).name.lower()
        if first.data.startswith(MAGIC):
            yield from self._rows()
            return
        if ".csv" in name and not start.startswith((b"{", b"WARC/", b"filedesc:")):
            given = self._fetched_at_default, self._columns, self._number_of
            yield from read_csv(self.file, found, self._body_max, *given)
            return
        if start[:1] in (b"{", b"[") or ".jsonl" in name or ".ndjson" in name:
            line_bytes_max = self._body_max * 4 // 3 + (1 << 20)  # base64, and the other fields
            given = self._fetched_at_default, self._columns, self._number_of
            yield from read_json_lines(self.file, found, line_bytes_max, *given)
            return
        is_arc = start.startswith(b"filedesc:") or (".arc" in name and not start.startswith(b"WARC/"))
        if not is_arc and not start.startswith(b"WARC/") and ".warc" not in name and ".wet" not in name:
            yield Damaged(
                self.file,
                0,
                f"neither WARC nor ARC, JSON Lines, CSV (by its name) nor Parquet: it begins with {start[:20]!r}",
            )
            return
        for segment in segments(found):
            if is_arc:
                yield from read_arc(self.file, segment, self._body_max)
            else:
                yield from read_warc(self.file, segment, self._body_max, whole=self._whole)
            segment.drain()
            if segment.problem is not None:
                yield Damaged(self.file, segment.problem_offset, segment.problem)
