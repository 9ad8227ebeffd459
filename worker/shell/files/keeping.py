"""
Copies the kept documents unchanged from their files, and the removed ones into a second output.

    1 check     the files' beginnings say which format it is: one for all of them, and the outputs
    2 choose    every document gets its verdict, and one of each cluster is chosen (`choice.py`)
    3 copy      the files are read again: what was chosen goes to one output, the rest to another

The output has the format of the input; its name says how it is compressed (.gz, .zst). Only the
documents of an archive are copied: its other records (requests, images, redirects) have no verdict.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from schemas.fields import format_timestamp
from worker.core.document import Original
from worker.errors import StopError
from worker.shell.files.archives.parquet import batches_of
from worker.shell.files.choice import HIGHEST, RULES, Choice
from worker.shell.files.crawl import format_in
from worker.shell.files.formats import PARQUET, WARC, FileFormat, check_format
from worker.shell.files.options import FileOptions
from worker.shell.files.outputs import written
from worker.shell.files.places import (
    STDOUT,
    FileStamp,
    descriptor_of,
    named,
    open_input,
    shown_name,
    stamp_of,
)
from worker.shell.files.writers import DocumentWriter, LineWriter

# White space around a value is stripped afterwards. A pattern that excludes it would try to end the
# value at each of its spaces.
_FIELD = rb"(?im)^%b:(.*)$"
_HEAD_END = re.compile(rb"\r?\n\r?\n")  # some writers end lines without CR
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")  # some readers would end the line here
# The standard's own profiles say that payloads are equal.
_PROFILE = "urn:neardup:revisit:near-duplicate"


def _check_unchanged(stamps: Sequence[FileStamp | None]) -> None:
    """Raise StopError if a file has another stamp now: documents would get verdicts of others."""
    for stamp in stamps:
        if stamp is not None and stamp_of(stamp.path) != stamp:
            raise StopError(
                f"{shown_name(stamp.path)} has changed since it was judged: run this again, and "
                "leave the file as it is meanwhile"
            )


def format_kept(
    files: Sequence[str],
    outputs: Sequence[str],
    options: FileOptions,
) -> FileFormat | None:
    """
    Look at the beginning of each file, and return the format in which their documents are written.

    Args:
        files: the files to be judged. Pipes and empty files may have any format.
        outputs: the names of the outputs; "-" is stdout.
        options: whether revisit records are wanted, and which document of a cluster is kept.
    Returns:
        The format of all files, which has a writer. None if no file has a document.
    Raises:
        StopError: the files have several formats, or one without a writer (ARC); an output's name
            says another format; revisit records are wanted, but the files are not WARC; documents
            are preferred by a field's number, but the files are WARC; or a binary format would go
            to a terminal.
    """
    kind: FileFormat | None = None
    first = ""  # the first file of this format
    for file in files:
        found = _copied(format_in(file))
        if found is None:
            continue
        if found.writer is None:
            raise StopError(
                f"{file} is {found.name}, which is not written: make {WARC.name} of it first"
            )
        if kind not in (None, found):
            raise StopError(
                f"{named(outputs[0])} would be {kind.name} and {found.name}: write an output for "
                f"each. {shown_name(first)} is {kind.name}, and {shown_name(file)} is {found.name}"
            )
        first = first or file
        kind = found
    if kind is None:
        return None
    if options.has_revisits and kind is not WARC:
        raise StopError(
            f"only WARC has revisit records: leave `--keep revisits` out for {kind.name}"
        )
    field = options.preference.field
    if field is not None and kind is WARC:
        raise StopError(
            f"--prefer {HIGHEST}:{field} reads a field of JSON or a column of a table, and "
            f"{kind.name} has none: prefer {', '.join(RULES[:-1])} or {RULES[-1]}"
        )
    for output in outputs:
        check_format(output, kind)
        if kind.is_binary and descriptor_of(output) == STDOUT and sys.stdout.isatty():
            raise StopError(
                f"{kind.name} is not written to a terminal: name an --output, or use a pipe"
            )
    return kind


def copy_documents(
    files: Sequence[str],
    kind: FileFormat | None,
    choice: Choice,
    outputs: Sequence[str | Path],
    options: FileOptions,
    on_progress: Callable[[int], None] = lambda _: None,
    *,
    stamps: Sequence[FileStamp | None] = (),
) -> int:
    """
    Read again the files that have been judged, in the same order, and copy their documents.

    Args:
        files: the judged files.
        kind: their format, from `format_kept`.
        choice: says which documents are kept. If it has originals, each duplicate leaves a revisit
            record among the kept documents.
        outputs: one for the kept documents and, if wanted, another for the others.
        options: those with which the files were judged.
        on_progress: is called with the number of documents that have been copied.
        stamps: those of the files from before they were judged; without them the caller has
            checked that the files are the same.
    Returns:
        How many documents are kept.
    Raises:
        StopError: one of the files has changed meanwhile, or has other columns.
    """
    _check_unchanged(stamps)
    make_writer = LineWriter if kind is None or kind.writer is None else kind.writer
    place = 0
    with ExitStack() as stack:
        streams = [(stack.enter_context(written(name)), str(name)) for name in outputs]
        kept, *others = (stack.enter_context(closing(make_writer(*output))) for output in streams)
        for file in files:
            if kind is PARQUET:
                with open_input(file) as stream:
                    place = _copy_rows(file, stream, choice, kept, others, place)
                on_progress(place)
                continue
            crawl = options.open([file], whole=True)
            for record in crawl.documents():
                if _copied(crawl.format) is not kind:
                    raise StopError(_changed(file, kind, crawl.format))
                if place == len(choice.kept):
                    raise StopError(_grown(file))
                for writer in (kept, *others):
                    writer.begin(record)
                for writer in [kept] if choice.kept[place] else others:
                    writer.write(record)
                if place in choice.originals:
                    revisit = revisit_of(record.raw, choice.originals[place])
                    kept.write(record._replace(raw=revisit))
                place += 1
                if place % 200 == 0:
                    on_progress(place)
        # Before the outputs take their places.
        _check_unchanged(stamps)
        if place != len(choice.kept):
            raise StopError(
                f"the files have {place:,} documents now, "
                f"{len(choice.kept):,} were judged: run this again"
            )
    return int(choice.kept.sum())


def _copied(kind: FileFormat | None) -> FileFormat | None:
    """Return the format in which documents of a format are copied."""
    return None if kind is None else kind.copied_as or kind


def _grown(file: str) -> str:
    return f"{shown_name(file)} has grown while it was judged: run this again"


def _changed(file: str, before: FileFormat | None, now: FileFormat | None) -> str:
    """Return the error for a file that has another format than when it was judged."""
    name_before = "of no format" if before is None else before.name
    name_now = "of no format" if now is None else now.name
    return f"{file} was {name_before} while it was judged, and is {name_now} now: run this again"


def _copy_rows(
    file: str,
    stream: BinaryIO,
    choice: Choice,
    kept: DocumentWriter,
    others: Sequence[DocumentWriter],
    place: int,
) -> int:
    """Copy rows of Parquet with all of their columns. Returns the place after the last row."""
    for batch in batches_of(stream, lambda _: None):  # it has been reported
        stays = choice.kept[place : place + batch.num_rows]
        if len(stays) < batch.num_rows:
            raise StopError(_grown(file))
        try:
            kept.write(batch.filter(stays))
            for writer in others:
                writer.write(batch.filter(~stays))
        except StopError as error:
            raise StopError(f"cannot copy the rows of {shown_name(file)}: {error}") from error
        place += batch.num_rows
    return place


def revisit_of(raw: bytes, original: Original) -> bytes:
    """
    Return a revisit record in place of a duplicate's: it names the original, and has no content.

    Source: WARC 1.1, section 6.7; the profile is our own, because payloads that are alike are not
    equal.
    """
    head = _HEAD_END.split(raw, 1)[0]
    given: dict[str, bytes] = {}
    for name in ("WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Payload-Digest"):
        line = re.search(_FIELD % name.encode(), head)
        if line is not None:
            given[name] = line[1].strip()
    identifier = uuid.uuid5(uuid.NAMESPACE_URL, repr(given.get("WARC-Record-ID")))
    fields = {
        "WARC-Type": "revisit",
        "WARC-Record-ID": f"<{identifier.urn}>",
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
