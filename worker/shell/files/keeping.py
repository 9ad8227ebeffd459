"""
The documents that stay, copied as they stand in their files, and the others beside them.

    1 check     the files' beginnings say which format it is: one for all of them, and the outputs
    2 choose    every document gets its verdict; `Choice` notes one of each cluster
    3 copy      the files are read again: what was chosen goes to one output, the rest to another

The output has the format of the input; its name says how it is compressed (.gz, .zst). Of an
archive only documents are
copied: what is none (requests, images, redirects) has no verdict.
"""

from __future__ import annotations

import re
import sys
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import numpy as np
import zstandard

from schemas.fields import format_timestamp
from worker.core.document import Original, Verdict
from worker.errors import DocumentError, StopError
from worker.shell.files.archives import Head, Record
from worker.shell.files.archives.rows import batches_of, parquet_module
from worker.shell.files.crawl import CrawlFiles, format_in
from worker.shell.files.places import PACK_LEVEL, STDIO, check_format, open_input, packed

Prefer = Literal["first", "longest", "newest"]
# The white space around a value is stripped afterwards: a pattern that leaves it out would try
# each end of a value at each of its spaces.
_FIELD = rb"(?im)^%b:(.*)$"
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")  # could end the line, for some reader
_PROFILE = "urn:neardup:revisit:near-duplicate"  # those of the standard say that payloads are equal


class Choice:
    """
    Which documents stay: of each cluster one, and all that are like no other.

    Args:
        prefer: the first of a cluster; the longest (most distinct shingles in its main text), or
            the one fetched last.
            Among equals the first.
        originals: note the original of each duplicate.

    Cost: a byte a document; 100 bytes per cluster unless the first is preferred.
    """

    def __init__(self, prefer: Prefer = "first", *, originals: bool = False) -> None:
        self.kept = bytearray()  # 1: the document stays
        self.originals: dict[int, Original] = {}
        self._prefer = prefer
        self._notes = originals
        # By the original's doc_id: place and measure of the best so far.
        self._best: dict[str, tuple[int, int]] = {}

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
            # unknown: of a former run, which kept it.
            best, most = self._best.get(original.doc_id, (-1, measure))
            if measure > most:
                self.kept[best], self.kept[place] = 0, 1
                self._best[original.doc_id] = place, measure


def format_kept(files: Sequence[str], outputs: Sequence[str], *, revisits: bool = False) -> str:
    """
    Return the format of files, in which their documents are written; the beginning of each is
    looked at.

    Raises:
        StopError: several formats; ARC; an output's name says something else; revisit records are
            wanted of what is no
            WARC; what is binary would go to a terminal.
    """
    kind = ""
    for file in files:
        found = format_in(file)
        if found == "ARC":
            raise StopError(f"{file} is ARC, which is not written: make WARC of it first")
        if kind and found not in (None, kind):
            raise StopError(
                f"{_named(outputs[0])} would be {kind} and {found}: write an output for each"
            )
        kind = found or kind
    if revisits and kind and kind != "WARC":
        raise StopError(f"revisit records stand in WARC: leave `--keep revisits` out for {kind}")
    for output in outputs if kind else ():
        check_format(output, kind)
        if output == STDIO and kind in ("WARC", "Parquet") and sys.stdout.isatty():
            raise StopError(f"{kind} is not for a terminal: name an --output, or send it on")
    return kind


def _named(output: str) -> str:
    return "stdout" if output == STDIO else output


class _Output:
    """A file of documents of one format; its name tells the compression."""

    def __init__(self, stream: BinaryIO, name: str, kind: str) -> None:
        self._stream, self._name, self._kind = stream, _named(name), kind
        self._head: Head | None = None  # of the first file
        self._stack = ExitStack()
        self._writer: Any = None  # it leaves the stream open; None: nothing has been written
        if kind not in ("WARC", "Parquet"):
            self._writer = self._stack.enter_context(packed(stream, self._name))

    def begin(self, record: Record) -> None:
        """Write what stands before all rows, once: a table without rows has columns, too."""
        if record.head is not None and self._head is None:
            self._head = record.head
            self._writer.write(record.head.data)

    def write(self, record: Record) -> None:
        """Add a document as it stands in its file."""
        if self._kind == "WARC":
            self.write_record(record.raw)
            return
        head = self._head
        if head is None or record.head is None:
            raise ValueError(f"{record.place}: a row without a head")
        if record.head.columns != head.columns:
            raise StopError(f"{self._name}: {record.file} has other columns. Write one at a time")
        if record.head.encoding != head.encoding:
            names = f"{record.head.encoding}, and not {head.encoding}"
            raise StopError(f"{self._name}: {record.file} is {names}. Write one at a time")
        self._writer.write(record.raw)

    def write_rows(self, rows: Any) -> None:
        """Add rows of Parquet."""
        if self._writer is None:
            made = parquet_module().ParquetWriter(self._stream, rows.schema, compression="zstd")
            self._writer = self._stack.enter_context(closing(made))
        try:
            self._writer.write_batch(rows)
        except ValueError as error:
            raise StopError(
                f"{self._name}: the files have different columns: {error}. Write one at a time"
            ) from error

    def write_record(self, record: bytes) -> None:
        """Add a record of WARC, a member of its own where the file is compressed."""
        name, self._writer = self._name.lower(), self._stream
        if name.endswith(".gz"):
            # gzip.compress writes another header on each Python.
            record = zlib.compress(record, PACK_LEVEL, wbits=31)
        elif name.endswith(".zst"):
            record = zstandard.ZstdCompressor().compress(record)
        self._writer.write(record)

    def close(self) -> None:
        """Write what is held back; what holds nothing is still compressed as its name says."""
        if self._writer is None:
            self._stack.enter_context(packed(self._stream, self._name))
        self._stack.close()


def copy_documents(
    files: Sequence[str],
    kind: str,
    choice: Choice,
    outputs: Sequence[tuple[BinaryIO, str]],
    reading: Callable[..., CrawlFiles] = CrawlFiles,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """
    Read files again, which have been judged in this order, and copy their documents; return how
    many stay.

    Args:
        kind: their format, of `format_kept`.
        choice: where it has originals, a duplicate leaves a revisit record beside the documents
            that stay.
        outputs: streams and their names: one for the documents that stay, another for the others if
            they are wanted.
        reading: opens files as they were opened to be judged.
    Raises:
        StopError: one of the files has changed meanwhile, or has other columns.
    """
    place = 0
    with ExitStack() as stack:
        output, *others = (
            stack.enter_context(closing(_Output(stream, name, kind))) for stream, name in outputs
        )
        for file in files:
            found = format_in(file)
            if found not in (None, kind):
                raise StopError(
                    f"{file} was {kind} while it was judged, and is {found} now: run this again"
                )
            if found == "Parquet":
                with open_input(file) as stream:
                    place = _copy_rows(stream, choice, output, others, place)
                on_progress(place)
                continue
            for record in reading([file], whole=True):
                if place == len(choice.kept):
                    raise StopError(f"{file} has grown while it was judged: run this again")
                for target in (output, *others):
                    target.begin(record)
                for target in [output] if choice.kept[place] else others:
                    target.write(record)
                if place in choice.originals:
                    output.write_record(revisit_of(record.raw, choice.originals[place]))
                place += 1
                if place % 200 == 0:
                    on_progress(place)
    if place != len(choice.kept):
        raise StopError(
            f"the files have {place:,} documents now, {len(choice.kept):,} were judged: run this "
            f"again"
        )
    return choice.kept.count(1)


def _copy_rows(
    stream: BinaryIO, choice: Choice, output: _Output, others: Sequence[_Output], place: int
) -> int:
    """Copy rows of Parquet, all of their columns; return the place behind the last."""
    for batch in batches_of(stream, lambda _: None):  # it has been told
        kept = np.frombuffer(bytes(choice.kept[place : place + batch.num_rows]), np.bool_)
        for target, wanted in (output, kept), *((other, ~kept) for other in others):
            target.write_rows(batch.filter(wanted))
        place += batch.num_rows
    return place


def revisit_of(raw: bytes, original: Original) -> bytes:
    """
    Return a revisit record in place of a duplicate's: it names the original, and has no content.

    Source: WARC 1.1, section 6.7; the profile is our own, because payloads that are alike are not
    equal.
    """
    head = raw.partition(b"\r\n\r\n")[0]
    given: Mapping[str, bytes] = {
        name: found[1].strip()
        for name in ("WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Payload-Digest")
        if (found := re.search(_FIELD % name.encode(), head)) is not None
    }
    fields = {
        "WARC-Type": "revisit",
        "WARC-Record-ID": f"<{uuid.uuid5(uuid.NAMESPACE_URL, repr(given.get('WARC-Record-ID'))).urn}>",
        **{
            name: value.decode("utf-8", "replace")
            for name, value in given.items()
            if name != "WARC-Record-ID"
        },
        "WARC-Profile": _PROFILE,
        "WARC-Refers-To-Target-URI": original.url,
        "WARC-Refers-To-Date": format_timestamp(original.fetched_at_ms),
        "Content-Length": "0",
    }
    lines = "".join(f"{name}: {_CONTROL.sub(_quoted, value)}\r\n" for name, value in fields.items())
    return f"WARC/1.1\r\n{lines}\r\n\r\n\r\n".encode("utf-8", "replace")


def _quoted(found: re.Match[str]) -> str:
    return quote(found[0])
