"""
Crawler output -> documents messages: WARC, ARC, WET, JSON Lines, CSV, Parquet; plain, gzip or zstd; files, URLs, stdin.

    file ─► inflate ─┬─► segments ─► warc ─┬─► Record | Omission | Damage, in the order of the file
                     └─► rows ─────────────┘

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
from worker.shell.files.archives.inflate import Piece, Segment, pieces
from worker.shell.files.archives.record import Damage, Entry, Omission, Record
from worker.shell.files.archives.rows import PARQUET, ColumnNames, RowReader
from worker.shell.files.archives.warc import read_arc, read_warc
from worker.shell.files.places import open_remote, path_of, size_remote

__all__ = ["ArchiveReader", "ColumnNames", "Damage", "Entry", "Omission", "Record"]

STDIN = "-"


class ArchiveReader:
    """
    Iterates over one archive, once; the file is open only meanwhile.

    Args:
        path: the file, a URL that fsspec knows, or "-" for stdin.
        body_max: bytes of a decoded body; a longer one is left out as "body-too-large".
        fetched_at_default: the fetch time of rows that have none, ISO 8601.
        columns: the names that doc_id and text have in rows.
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
        self._whole = whole
        self._rows = RowReader(self.file, columns, fetched_at_default, number_of or itertools.count().__next__)
        self._path = path_of(path)
        if self._path is None:
            self.bytes_total = size_remote(self.file)
        elif self.file != STDIN:
            if not os.access(self._path, os.R_OK):
                raise StopError(f"cannot read {self.file}: no such file, or no permission")
            if self._path.is_file():
                self.bytes_total = self._path.stat().st_size

    def open(self) -> BinaryIO:
        """Open the file as it stands. Raises StopError with the system's reason."""
        if self._path is None:
            return open_remote(self.file)
        try:
            return sys.stdin.buffer if self.file == STDIN else self._path.open("rb")
        except OSError as error:
            raise StopError(f"cannot read {self.file}: {error.strerror or error}") from error

    @property
    def format(self) -> str | None:
        """What the file is, as outputs name it; None: empty, none of these, or a pipe, which is not read for it."""
        if self._path is not None and not self._path.is_file():
            return None
        with self.open() as stream:
            first = _first(pieces(stream))
        return None if first is None else self._format_of(first.data)

    def __iter__(self) -> Iterator[Entry]:
        with self.open() as stream:
            found = pieces(stream, self._count)
            first = _first(found)
            if first is not None:
                yield from self._read(self._format_of(first.data), itertools.chain([first], found), first.data)

    def _count(self, number: int) -> None:
        self.bytes_read += number

    def _format_of(self, data: bytes) -> str | None:
        """Tell the format from the content, for a damaged start from the name."""
        start, name = data[:64].lstrip(), Path(self.file).name.lower()
        if data.startswith(PARQUET):
            return "Parquet"
        if ".csv" in name and not start.startswith((b"{", b"WARC/", b"filedesc:")):
            return "CSV"
        if start[:1] in (b"{", b"[") or ".jsonl" in name or ".ndjson" in name:
            return "JSON Lines"
        if start.startswith(b"filedesc:") or (".arc" in name and not start.startswith(b"WARC/")):
            return "ARC"
        return "WARC" if start.startswith(b"WARC/") or ".warc" in name or ".wet" in name else None

    def _read(self, kind: str | None, found: Iterator[Piece], start: bytes) -> Iterator[Entry]:
        if kind == "Parquet":
            yield from self._parquet()
        elif kind == "CSV":
            yield from self._rows.csv(found, self._body_max)
        elif kind == "JSON Lines":
            yield from self._rows.json_lines(found, self._body_max * 4 // 3 + (1 << 20))  # base64, and other fields
        elif kind is None:
            wanted = "neither WARC nor ARC, JSON Lines, CSV (by its name) nor Parquet"
            yield Damage(self.file, 0, f"{wanted}: it begins with {start[:64].lstrip()[:20]!r}")
        else:
            for piece in found:
                segment = Segment(piece, found)
                if kind == "ARC":
                    yield from read_arc(self.file, segment, self._body_max)
                else:
                    yield from read_warc(self.file, segment, self._body_max, whole=self._whole)
                segment.drain()
                if segment.problem is not None:
                    yield Damage(self.file, segment.problem_offset, segment.problem)

    def _parquet(self) -> Iterator[Entry]:
        if self.file == STDIN:
            raise StopError("Parquet cannot be read from stdin: its index stands at its end. Name the file")

        def count(done: int, rows: int) -> None:
            self.bytes_read = (self.bytes_total or 0) * done // rows

        with self.open() as stream:
            yield from self._rows.parquet(stream, count)


def _first(found: Iterator[Piece]) -> Piece | None:
    return next((piece for piece in found if piece.data or piece.problem), None)
