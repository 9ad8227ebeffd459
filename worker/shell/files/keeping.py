"""
The documents that stay, copied as they stand in their files, and the others beside them.

    1 judge     every document gets its verdict; `Choice` notes one of each cluster
    2 copy      the files are read again: what was chosen goes to one output, the rest to another

The output has the format of the input; its name says how it is compressed (.gz, .zst). Of an archive only documents are
copied: what is none (requests, images, redirects) has no verdict.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import numpy as np
import zstandard

from schemas.timestamp import format_timestamp
from worker.core.verdict import Original, Verdict
from worker.errors import DocumentError, StopError
from worker.shell.files.archives import ArchiveReader, Record
from worker.shell.files.archives.parquet import MAGIC, batches_of, parquet_module
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.outputs import PACK_LEVEL, check_format, packed

Prefer = Literal["first", "longest", "newest"]
_FIELD = rb"(?im)^%b:[ \t]*(.*?)[ \t]*\r?$"
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")  # could end the line, for some reader
_PROFILE = "urn:neardup:revisit:near-duplicate"  # those of the standard say that payloads are equal


class Choice:
    """
    Which documents stay: of each cluster one, and all that are like no other.

    Args:
        prefer: the first of a cluster; the longest (most distinct shingles in its main text), or the one fetched last.
            Among equals the first.
        originals: note the original of each duplicate.

    Cost: a byte a document; 100 bytes a cluster unless the first is preferred.
    """

    def __init__(self, prefer: Prefer = "first", *, originals: bool = False) -> None:
        self.kept = bytearray()  # 1: the document stays
        self.originals: dict[int, Original] = {}
        self._prefer = prefer
        self._notes = originals
        self._best: dict[str, tuple[int, int]] = {}  # by the original's doc_id: place and measure of the best so far

    def take(self, answer: Verdict | DocumentError) -> None:
        """Note the answer to the next document."""
        place = len(self.kept)
        self.kept.append(0)
        if not isinstance(answer, Verdict):
            return
        measure = answer.features if self._prefer == "longest" else answer.fetched_at_ms or 0
        if answer.stays:
            self.kept[place] = 1
            if self._prefer != "first":
                self._best[answer.doc_id] = place, measure
        elif answer.duplicate_of is not None:
            original = answer.duplicate_of.original
            if self._notes:
                self.originals[place] = original
            best, most = self._best.get(original.doc_id, (-1, measure))  # unknown: of a former run, which kept it
            if measure > most:
                self.kept[best], self.kept[place] = 0, 1
                self._best[original.doc_id] = place, measure


class Output:
    """
    A file of documents in the format of the first one.

    Args:
        name: tells the compression.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.documents = 0
        self._stream = stream
        self._name = name
        self._format = ""
        self._writer: Any = None  # of lines, or of Parquet; it leaves the stream open
        self._columns = b""  # of CSV
        self._stack = ExitStack()

    def begin(self, record: Record) -> None:
        """Name the columns of CSV, if nothing has been written: a table without rows has them, too."""
        if record.head and not self._format:
            self._is("CSV")
            self._columns = record.head
            self._writer.write(record.head + b"\n")

    def write(self, record: Record) -> None:
        """Add a document as it stands in its file."""
        self.begin(record)
        if record.raw.startswith(b"WARC/"):
            self._is("WARC")
            self._stream.write(self._member(record.raw))
        elif record.raw:
            self._is("CSV" if record.head else "JSON Lines")
            if record.head != self._columns:
                raise StopError(f"{self._name}: {record.file} has other columns. Write one at a time")
            self._writer.write(record.raw + b"\n")
        else:
            raise StopError(f"{record.file} is ARC, which is not written: make WARC of it first")
        self.documents += 1

    def write_rows(self, rows: Any) -> None:
        """Add rows of Parquet."""
        self._is("Parquet")
        if self._writer is None:
            made = parquet_module().ParquetWriter(self._stream, rows.schema, compression="zstd")
            self._writer = self._stack.enter_context(closing(made))
        try:
            self._writer.write_batch(rows)
        except ValueError as error:
            raise StopError(f"{self._name}: the files have different columns: {error}. Write one at a time") from error
        self.documents += rows.num_rows

    def write_revisit(self, record: bytes) -> None:
        """Add a record that stands for a document that does not stay."""
        self._is("WARC")
        self._stream.write(self._member(record))

    def close(self) -> None:
        """Write what is held back; what holds nothing is still compressed as its name says."""
        if not self._format:
            self._stack.enter_context(packed(self._stream, self._name))
        self._stack.close()

    def _is(self, wanted: str) -> None:
        if self._format and self._format != wanted:
            raise StopError(f"{self._name} would be {self._format} and {wanted}: write an output for each")
        if self._format:
            return
        check_format(self._name, wanted)
        if wanted in ("WARC", "Parquet") and self._stream.isatty():
            raise StopError(f"{wanted} is not for a terminal: name an --output, or send it on")
        if wanted in ("JSON Lines", "CSV"):
            self._writer = self._stack.enter_context(packed(self._stream, self._name))
        self._format = wanted

    def _member(self, record: bytes) -> bytes:
        name = self._name.lower()
        if name.endswith(".gz"):
            return zlib.compress(record, PACK_LEVEL, wbits=31)  # gzip.compress writes another header on each Python
        return zstandard.ZstdCompressor().compress(record) if name.endswith(".zst") else record


def copy_documents(
    files: Sequence[str],
    choice: Choice,
    output: Output,
    others: Output | None,
    reading: Callable[..., CrawlFiles] = CrawlFiles,
    on_progress: Callable[[int], None] = lambda _: None,
) -> None:
    """
    Read files again, which have been judged in this order, and copy their documents.

    Args:
        choice: where it has originals, a duplicate leaves a revisit record in the output.
        others: gets the documents that do not stay.
        reading: opens files as they were opened to be judged.
        on_progress: told how many documents have been copied.

    Raises:
        StopError: the files have several formats, one is ARC, or one has changed meanwhile.
    """
    place = 0
    for file in files:
        with ArchiveReader(file).open() as stream:
            if stream.read(len(MAGIC)) == MAGIC:
                stream.seek(0)
                place = _copy_rows(stream, choice, output, others, place)
                on_progress(place)
                continue
        for record in reading([file], whole=True):
            if place == len(choice.kept):
                raise StopError(f"{file} has grown while it was judged: run this again")
            for target in filter(None, (output, others)):
                target.begin(record)
            if choice.kept[place]:
                output.write(record)
            elif others is not None:
                others.write(record)
            if place in choice.originals:
                output.write_revisit(revisit_of(record.raw, choice.originals[place]))
            place += 1
            if place % 200 == 0:
                on_progress(place)
    if place != len(choice.kept):
        raise StopError(f"the files have {place:,} documents now, {len(choice.kept):,} were judged: run this again")


def _copy_rows(stream: BinaryIO, choice: Choice, output: Output, others: Output | None, place: int) -> int:
    """Copy rows of Parquet, all of their columns; return the place behind the last."""
    import pyarrow  # noqa: PLC0415

    if choice.originals:
        raise StopError("revisit records stand in WARC: leave `--keep revisits` out for Parquet")
    for batch in batches_of(stream, lambda _: None):  # it has been told
        kept = np.frombuffer(bytes(choice.kept[place : place + batch.num_rows]), np.bool_)
        output.write_rows(batch.filter(pyarrow.array(kept)))
        if others is not None:
            others.write_rows(batch.filter(pyarrow.array(~kept)))
        place += batch.num_rows
    return place


def revisit_of(raw: bytes, original: Original) -> bytes:
    """
    Return a revisit record in place of a duplicate's: it names the original, and has no content.

    Source: WARC 1.1, section 6.7; the profile is our own, because payloads that are alike are not equal.

    >>> raw = b"WARC/1.0\\r\\nWARC-Record-ID: <urn:uuid:1>\\r\\nWARC-Target-URI: http://a/\\r\\n\\r\\nHTTP/1.1 200 OK"
    >>> revisit_of(raw, Original("o", "http://o/", 0)).split(b"\\r\\n")[3:6:2]
    [b'WARC-Target-URI: http://a/', b'WARC-Refers-To-Target-URI: http://o/']
    """
    if not raw.startswith(b"WARC/"):
        raise StopError("revisit records stand in WARC: leave `--keep revisits` out for other formats")
    head = raw.partition(b"\r\n\r\n")[0]
    given: Mapping[str, bytes] = {
        name: found[1]
        for name in ("WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Payload-Digest")
        if (found := re.search(_FIELD % name.encode(), head)) is not None
    }
    fields = {
        "WARC-Type": "revisit",
        "WARC-Record-ID": f"<{uuid.uuid5(uuid.NAMESPACE_URL, repr(given.get('WARC-Record-ID'))).urn}>",
        **{name: value.decode("utf-8", "replace") for name, value in given.items() if name != "WARC-Record-ID"},
        "WARC-Profile": _PROFILE,
        "WARC-Refers-To-Target-URI": original.url,
        "WARC-Refers-To-Date": format_timestamp(original.fetched_at_ms),
        "Content-Length": "0",
    }
    lines = "".join(f"{name}: {_CONTROL.sub(_quoted, value)}\r\n" for name, value in fields.items())
    return f"WARC/1.1\r\n{lines}\r\n\r\n\r\n".encode("utf-8", "replace")


def _quoted(found: re.Match[str]) -> str:
    return quote(found[0])
