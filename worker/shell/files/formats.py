"""
The file formats: how a file of each is named, recognised, read and written.

`FORMATS` is the only list. To add an input format, write its reader (in `archives/`), give it a row
here, and name it in `INPUTS` and `UNKNOWN`. A format whose kept documents can be written also has a
writer (in `writers.py`).

The first bytes of a file, decompressed, decide its format, because names are wrong more often than
bytes. If these bytes could begin any format, the name decides (`format_of_start`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from worker.errors import StopError
from worker.shell.files.archives import Damage, Entry
from worker.shell.files.archives.inflate import Segment, pieces
from worker.shell.files.archives.rows import PARQUET as PARQUET_MAGIC
from worker.shell.files.archives.rows import TAB_SUFFIXES, InputFile
from worker.shell.files.archives.wacz import ZIP, is_arc, members
from worker.shell.files.archives.warc import read_arc, read_warc
from worker.shell.files.places import STDIO, open_input
from worker.shell.files.writers import (
    ArrayWriter,
    DocumentWriter,
    LineWriter,
    RecordWriter,
    TableWriter,
)

# The formats that are read, as helps list them. WET is WARC with texts for pages.
INPUTS = "WARC, WACZ, ARC, WET, JSON Lines, JSON, CSV, TSV, Parquet"
# What is wrong with a file of none of them.
UNKNOWN = (
    "neither WARC nor WACZ, ARC, JSON Lines, JSON (an array), CSV, TSV (by their names) nor Parquet"
)
# What to do with it, if it is a page or a text.
WRITE_LINES = 'Of pages or texts, write JSON Lines: {"url": …, "html": …} or {"text": …}'
START_BYTES = 64  # a file's format is recognised by this many bytes
# What is wrong with a file without a byte where `is_never_empty`.
NO_BYTES = (
    "it has no bytes, and a file of this name has some even if it holds nothing, so it was cut: "
    "write or copy it again"
)
_PACKED = (".gz", ".zst", ".bz2", ".xz")


class FileFormat(NamedTuple):
    """
    One row of the table of formats.

    Attributes:
        name: the format's name in messages and outputs.
        suffixes: how the names of its files end, before `.gz` or `.zst`; errors propose the first.
        signatures: beginnings that no other format has; they count more than a name.
        hints: beginnings that mean this format where the name says nothing.
        has_fixed_start: every file begins with a signature, so a name alone means nothing.
        is_binary: a terminal would be garbled.
        reader: yields the records of a file; None if the format is only written.
        writer: writes documents as they stand in their files; None: they cannot be copied.
        copied_as: another row, the format in which its documents are copied; None: its own.
    """

    name: str
    suffixes: tuple[str, ...]
    signatures: tuple[bytes, ...] = ()
    hints: tuple[bytes, ...] = ()
    has_fixed_start: bool = False
    is_binary: bool = False
    reader: Callable[[InputFile], Iterator[Entry]] | None = None
    writer: type[DocumentWriter] | None = None
    copied_as: FileFormat | None = None


# ---- readers


def _read_warc(file: InputFile) -> Iterator[Entry]:
    return _of_segments(file, partial(read_warc, whole=file.whole))


def _read_wacz(file: InputFile) -> Iterator[Entry]:
    if file.name == STDIO:
        raise StopError("WACZ cannot be read from stdin: its index is at its end. Name the file")
    with open_input(file.name) as stream:
        if stream.read(len(ZIP)) != ZIP:
            raise StopError(f"{file.name} is a packed WACZ: unpack it first")
        file.budget.take_in(stream.seek(0, 2))  # by now, its first bytes may have been all
        for member in members(file.name, stream, file.on_rows):
            if isinstance(member, Damage):
                yield member
            elif is_arc(member.name):
                reason = "ARC, which a WACZ does not hold: unpack it, and name the file"
                yield Damage(member.name, 0, reason)
            else:
                unpacked = pieces(cast("BinaryIO", member), budget=file.budget)
                yield from _read_warc(file._replace(name=member.name, pieces=unpacked))


def _of_segments(file: InputFile, read: Callable[..., Iterator[Entry]]) -> Iterator[Entry]:
    """Yield what an archive holds, segment by segment: each ends where bytes are damaged."""
    default_ms = file.default_ms
    for piece in file.pieces:
        segment = Segment(piece, file.pieces)
        yield from read(file.name, segment, file.body_max, file.budget, default_ms=default_ms)
        segment.drain()
        if segment.problem is not None:
            yield Damage(file.name, segment.problem_offset, segment.problem)


# ---- the table

PARQUET = FileFormat(
    "Parquet",
    (".parquet",),
    signatures=(PARQUET_MAGIC,),
    has_fixed_start=True,
    is_binary=True,
    reader=InputFile.parquet,
    writer=TableWriter,
)
CSV = FileFormat("CSV", (".csv",), reader=InputFile.csv, writer=LineWriter)
TSV = FileFormat("TSV", TAB_SUFFIXES, reader=InputFile.csv, writer=LineWriter)
JSON_LINES = FileFormat(
    "JSON Lines",
    (".jsonl", ".ndjson"),
    signatures=(b"{",),
    reader=InputFile.json_lines,
    writer=LineWriter,
)
JSON = FileFormat(
    "JSON",
    (".json",),
    hints=(b"[",),  # a CSV file may begin with it
    reader=InputFile.json_array,
    writer=ArrayWriter,
)
ARC = FileFormat(
    "ARC", (".arc",), signatures=(b"filedesc:",), reader=partial(_of_segments, read=read_arc)
)
WARC = FileFormat(
    "WARC",
    (".warc", ".wet"),
    signatures=(b"WARC/",),
    is_binary=True,
    reader=_read_warc,
    writer=RecordWriter,
)
WACZ = FileFormat(
    "WACZ",
    (".wacz",),
    signatures=(ZIP,),
    has_fixed_start=True,
    is_binary=True,
    reader=_read_wacz,
    writer=RecordWriter,
    copied_as=WARC,
)
HTML = FileFormat("HTML", (".html",))
ARCHIVES = (ARC, WARC, WACZ)  # whose documents have no columns
# In a name with two suffixes, the first wins.
FORMATS = (PARQUET, WACZ, CSV, TSV, JSON_LINES, JSON, ARC, WARC, HTML)


# Ends of names that would be wrong for each output: other compressions, other programs' files.
_OTHER_PACKED = (".bz2", ".xz", ".lzma", ".lz4", ".br", ".z")
_OTHER_BINARY = (
    ".7z", ".arrow", ".avro", ".db", ".doc", ".docx", ".feather", ".ods", ".odt", ".orc", ".pdf",
    ".pickle", ".pkl", ".rar", ".sqlite", ".tar", ".tgz", ".xls", ".xlsx", ".zip",
)  # fmt: skip


# ---- what a file is


def format_of(name: str | Path) -> FileFormat | None:
    """
    Return the format that an output's name stands for.

    Args:
        name: the name of the output, perhaps with `.gz` or `.zst` at its end.
    Returns:
        None: the name stands for no format, so it may be any.

    >>> format_of("verdicts.jsonl.zst").name
    'JSON Lines'
    """
    plain = str(name).lower().removesuffix(".gz").removesuffix(".zst")
    for kind in FORMATS:
        if plain.endswith(kind.suffixes):
            return kind
    return None


def is_never_empty(name: str | Path) -> bool:
    """
    Return whether a file of this name has bytes even if it holds nothing: it is packed, or of a
    format with a fixed start.

    >>> is_never_empty("a.jsonl.xz"), is_never_empty("a.parquet"), is_never_empty("a.jsonl")
    (True, True, False)
    """
    kind = format_of(name)
    return str(name).lower().endswith(_PACKED) or (kind is not None and kind.has_fixed_start)


def are_pages_expected(names: Iterable[str | Path]) -> bool:
    """
    Return whether the names of inputs make pages likely. It is a guess: JSON Lines may hold pages.

    >>> are_pages_expected(["a.jsonl", "b.warc.gz"]), are_pages_expected(["a.jsonl", "-"])
    (True, False)
    """
    return any(format_of(name) in (WARC, WACZ, ARC) for name in names)


def check_format(name: str | Path, wanted: FileFormat) -> None:
    """
    Check that an output may have this name.

    Args:
        name: the name of the output.
        wanted: the format in which it will be written.
    Raises:
        StopError: the name stands for another format or compression.
    """
    remedy = f"let it end in {wanted.suffixes[0]}"
    end = Path(str(name)).suffix.lower()
    if end in _OTHER_PACKED:
        raise StopError(f"{name} would not be {end[1:]}: outputs are compressed as .gz or .zst")
    if Path(str(name).lower().removesuffix(".gz").removesuffix(".zst")).suffix in _OTHER_BINARY:
        raise StopError(f"{name} would be {wanted.name}, which its name does not say: {remedy}")
    named = format_of(name)
    if wanted is JSON_LINES and named is JSON:  # many programs name JSON Lines so
        return
    if named not in (None, wanted):
        raise StopError(f"{name} would be {wanted.name}, and its name says {named.name}: {remedy}")


def format_of_start(file: str, data: bytes) -> FileFormat | None:
    """
    Return the format of an input.

    The beginning decides; where it could be that of anything, the name does; and where the name
    says nothing either, a hint.

    Args:
        file: the name of the file, or its URL.
        data: its first bytes, decompressed: `START_BYTES` of them, or more, or all.
    Returns:
        A format with a reader. None: it is none that we read.

    >>> format_of_start("page.csv", b"WARC/1.0").name, format_of_start("-", b"url,text") is None
    ('WARC', True)
    """
    start = data[:START_BYTES].removeprefix(codecs.BOM_UTF8).lstrip()
    inputs = [kind for kind in FORMATS if kind.reader is not None]
    for kind in inputs:
        # A fixed start is at the very beginning: binary files have no marks and no blanks.
        if (data if kind.has_fixed_start else start).startswith(kind.signatures):
            return kind
    name = Path(file).name.lower()
    for kind in inputs:
        if not kind.has_fixed_start and any(_is_in(suffix, name) for suffix in kind.suffixes):
            return kind
    for kind in inputs:
        if start.startswith(kind.hints):
            return kind
    return None


def _is_in(suffix: str, name: str) -> bool:
    """
    Return whether a name has a suffix: also in its middle, but not as the beginning of a word.

    >>> _is_in(".tab", "a.tab-1"), _is_in(".tab", "a.table.json"), _is_in(".json", "a.jsonl")
    (True, False, False)
    """
    return re.search(rf"{re.escape(suffix)}(?![a-z])", name) is not None
