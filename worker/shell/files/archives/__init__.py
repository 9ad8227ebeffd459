"""
Crawler output -> documents messages: WARC, ARC, WET and JSON Lines; plain, gzip or zstd; files or stdin.

    file ─► inflate ─┬─► segment ─┬─► warc ─┬─► Record | LeftOut | Damaged, in the order of the file
                     │            └─► arc ──┤
                     └─► json_lines ────────┘

Damage costs what is damaged: it is named with file and offset, and the reading goes on behind it.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from worker.core.document import BODY_BYTES_MAX
from worker.errors import StopError
from worker.shell.files.archives.arc import ArcFields, read_arc
from worker.shell.files.archives.inflate import Piece, pieces
from worker.shell.files.archives.json_lines import read_json_lines
from worker.shell.files.archives.record import Damaged, Found, LeftOut, Record
from worker.shell.files.archives.segment import segments
from worker.shell.files.archives.warc import read_warc

__all__ = ["ArchiveReader", "Damaged", "Found", "LeftOut", "Record"]

STDIN = "-"


class ArchiveReader:
    """
    Iterates over one archive, once; the file is open only meanwhile.

    The format is told from the content, for a damaged start from the name.

    Args:
        path: the file, or "-" for stdin.
        body_max: bytes of a decoded body; a longer one is left out as "body-too-large".
        fetched_at_default: the fetch time of JSON Lines that have none, ISO 8601.
    Raises:
        StopError: there is no such file, or it may not be read.

    Attributes:
        bytes_read: of the file, so far; compressed bytes for a compressed one.
        bytes_total: of the file; None for a pipe.

    Cost: that of decompression and of base64 for the bodies. Memory: a few MiB and one record.
    """

    def __init__(
        self, path: str | Path, *, body_max: int = BODY_BYTES_MAX, fetched_at_default: str | None = None
    ) -> None:
        self.file = str(path)
        self.bytes_read = 0
        self.bytes_total: int | None = None
        self._body_max = body_max
        self._fetched_at_default = fetched_at_default
        if self.file != STDIN:
            if not os.access(self.file, os.R_OK):
                raise StopError(f"cannot read {self.file}: no such file, or no permission")
            if Path(path).is_file():
                self.bytes_total = Path(path).stat().st_size

    def __iter__(self) -> Iterator[Found]:
        with self._opened() as stream:
            found = pieces(stream, self._count)
            first = next((piece for piece in found if piece.data or piece.problem), None)
            if first is None:
                return
            yield from self._read(first, itertools.chain([first], found))

    def _opened(self) -> BinaryIO:
        try:
            return sys.stdin.buffer if self.file == STDIN else Path(self.file).open("rb")
        except OSError as error:
            raise StopError(f"cannot read {self.file}: {error.strerror or error}") from error

    def _count(self, number: int) -> None:
        self.bytes_read += number

    def _read(self, first: Piece, found: Iterator[Piece]) -> Iterator[Found]:
        start, name = first.data[:64].lstrip(), Path(self.file).name.lower()
        if start[:1] in (b"{", b"[") or ".jsonl" in name or ".ndjson" in name:
            line_bytes_max = self._body_max * 4 // 3 + (1 << 20)  # base64, and the other fields
            yield from read_json_lines(self.file, found, line_bytes_max, self._fetched_at_default)
            return
        is_arc = start.startswith(b"filedesc:") or (".arc" in name and not start.startswith(b"WARC/"))
        if not is_arc and not start.startswith(b"WARC/") and ".warc" not in name and ".wet" not in name:
            yield Damaged(self.file, 0, f"neither WARC nor ARC nor JSON Lines: it begins with {start[:20]!r}")
            return
        fields = ArcFields()
        for segment in segments(found):
            if is_arc:
                yield from read_arc(self.file, segment, self._body_max, fields)
            else:
                yield from read_warc(self.file, segment, self._body_max)
            segment.drain()
            if segment.problem is not None:
                yield Damaged(self.file, segment.problem_offset, segment.problem)
