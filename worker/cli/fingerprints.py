"""
Fingerprints of files, for the commands that compare them without keeping an index.

All read one of two things: decimal numbers, one per line; or documents with doc_ids, whose
fingerprints are made here unless the lines are those of `neardup fingerprint`.
"""

from __future__ import annotations

import io
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
import orjson
import typer
from numpy.typing import NDArray

from worker.cli import shared
from worker.cli.reading import Reading
from worker.cli.shared import STDIN
from worker.errors import StopError
from worker.log.record import COMPARED_KINDS, Row, RowKind
from worker.settings import Settings
from worker.shell.files.apart import FileDocuments, told
from worker.shell.files.archives import Record
from worker.shell.files.archives.inflate import is_packed, pieces
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import prepared_rows
from worker.shell.files.formats import INPUTS, format_of_start
from worker.shell.files.places import files_of, is_pipe, open_input, shown_input
from worker.shell.files.unpacked import opened_unpacked

Ids = dict[int, list[str]]  # fingerprint -> doc_ids

NUMBERS = 2**64
_DIGITS_MAX = len(str(NUMBERS))
PART_BYTES = 1 << 24  # read at once: 16 MB of text are some 800,000 numbers
_FINGERPRINT = re.compile(rb'"fingerprint"\s*:')
_BODY = re.compile(rb'"(?:text|html|body_base64)"\s*:')
_NUMBER_START = re.compile(rb"[-+.]?[0-9]")  # of one with a typo, too
_START_BYTES = 4_096
_LOOK_BYTES = 256 << 10  # a block of zstd is unpacked as a whole, and may have half of this
_OF_A_PIPE = ". Documents must come in a file or, not compressed, through stdin"


class _Fingerprint(NamedTuple):
    value: int
    digest: int  # of the document's content


OutputOption = Annotated[
    Path, typer.Option("--output", help="JSON, one value per line; - is stdout.")
]


FINGERPRINTS_HELP = (
    f"Decimal fingerprints, one per line; or documents ({INPUTS}); or lines of "
    "`neardup fingerprint`. - is stdin."
)


def read_fingerprints(
    source: Path, settings: Settings, reading: Reading, quiet: bool
) -> tuple[NDArray[np.uint64], Ids]:
    """
    Return the distinct fingerprints of a file with their doc_ids, which numbers have not.

    A doc_id that comes again in its file replaces its former self; a deleted one is gone. In
    another file it names another document, as in dedup, which is said on stderr. Lines of `neardup
    fingerprint` do not say which file they are of, so there the last one counts. That is said, too.
    """
    content = _content_of(source)
    if content == "numbers":
        if reading.options().columns.named:
            remedy = _OF_A_PIPE if is_pipe(str(source)) else ""
            raise typer.BadParameter(
                f"a column of documents is named, and numbers have none{remedy}"
            )
        with opened_unpacked(str(source)) as stream:
            stream.skip_mark()
            numbers = _numbers(stream, str(source))
        if not len(numbers):
            raise StopError(
                f"{shown_input(source)} has no fingerprint: there is nothing to compare"
            )
        return numbers, {}
    if content == "documents":
        crawl = reading.open(reading.files([str(source)]))
        fingerprint_of = _of_documents(crawl, settings, reading.id_column, quiet)
    else:
        fingerprint_of = _of_lines(source)
    if not fingerprint_of:
        raise StopError(f"no document of {shown_input(source)} has a fingerprint")
    ids: Ids = {}
    for doc_id, number in fingerprint_of.items():
        ids.setdefault(number, []).append(doc_id)
    return np.fromiter(ids, np.uint64, len(ids)), ids


def _content_of(path: Path) -> Literal["numbers", "fingerprints", "documents"]:
    """
    Return the kind of a file's content: decimals, lines of `neardup fingerprint`, or documents.

    Nothing of stdin is lost by looking. Where nothing can be told, they are numbers: a pipe by name
    would lose what is looked at, and what is looked at may be too little to be unpacked.
    """
    if path == STDIN:
        peek = getattr(sys.stdin.buffer, "peek", None)
        looked = b"" if peek is None else bytes(peek(_LOOK_BYTES))
    elif files_of([str(path)]) != [str(path)]:  # a folder, or a name with *
        return "documents"
    elif is_pipe(str(path)):
        return "numbers"
    else:
        with open_input(str(path)) as stream:
            looked = stream.read(_LOOK_BYTES)
    start = _unpacked_start(looked)
    if not start:
        return "numbers"
    line = start.removeprefix(BOM_UTF8).lstrip().partition(b"\n")[0]
    is_document = format_of_start(str(path), start) is not None or is_packed(looked)
    if line.strip().isdigit() or not is_document:
        return "numbers"
    return "fingerprints" if _FINGERPRINT.search(line) and not _BODY.search(line) else "documents"


def _unpacked_start(data: bytes) -> bytes:
    """Return what a file begins with, unpacked; damage may follow, which its reader reports."""
    start = b""
    for piece in pieces(io.BytesIO(data)):
        start += piece.data
        if len(start) >= _START_BYTES:
            break
    return start


def _numbers(stream: BinaryIO, name: str) -> NDArray[np.uint64]:
    """
    Return the numbers of a file, read part by part.

    As Python objects, ten million numbers would take more memory than finding their pairs.
    """
    parts = [np.empty(0, np.uint64)]
    while text := stream.read(PART_BYTES):
        lines = (text + stream.readline()).split()
        are_short = max(map(len, lines), default=0) <= _DIGITS_MAX
        are_digits = are_short and all(map(bytes.isdigit, lines))
        if not are_digits or any(int(line) >= NUMBERS for line in lines):
            bad = next(at for at, line in enumerate(lines) if not _is_number(line))
            place = sum(map(len, parts)) + bad + 1
            are_documents = place == 1 and not _NUMBER_START.match(lines[bad])
            remedy = _OF_A_PIPE if are_documents and is_pipe(name) else ""
            raise StopError(
                f"{name}: number {place} must be a decimal "
                f"from 0 to 2^64 - 1, got {lines[bad][:100]!r}{remedy}"
            )
        parts.append(np.array(list(map(int, lines)), np.uint64))
    return np.concatenate(parts)


def _is_number(line: bytes) -> bool:
    """Say whether a line is a fingerprint. Of thousands of digits, Python makes no number."""
    return line.isdigit() and len(line) <= _DIGITS_MAX and int(line) < NUMBERS


def _of_lines(path: Path) -> dict[str, int]:
    """Return the fingerprint of each doc_id in the lines of `neardup fingerprint`."""
    fingerprint_of: dict[str, int] = {}
    replaced = 0
    with opened_unpacked(str(path)) as stream:
        stream.skip_mark()
        for line_number, line in enumerate(stream, start=1):
            if line.isspace():
                continue
            try:
                fields = orjson.loads(line)
                doc_id = str(fields["doc_id"])
                number = int(fields["fingerprint"], 16)
                number.to_bytes(8, "big")  # else too large, or negative
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                raise StopError(
                    f"{path}, line {line_number}: must be an object with doc_id and fingerprint "
                    f"(16 hex digits), as `neardup fingerprint` writes them, got {line[:100]!r}"
                ) from error
            former = fingerprint_of.pop(doc_id, number)
            replaced += former != number
            fingerprint_of[doc_id] = number
    if replaced:
        subject = f"{replaced:,} {'line' if replaced == 1 else 'lines'} of {path}"
        shared.notice(
            f"{subject} replaced the fingerprint that an earlier line with the same doc_id has. "
            "If the lines are of documents of several files, name these files instead"
        )
    return fingerprint_of


def _of_documents(
    crawl: CrawlFiles, settings: Settings, id_column: str | None, quiet: bool
) -> dict[str, int]:
    """Return the fingerprint of each document that has one, by its doc_id."""
    documents: FileDocuments[_Fingerprint] = FileDocuments(lambda document: document.digest)
    without = 0
    for record, row in prepared(crawl, settings, quiet):
        documents.next_row(record.file)
        if row.kind in COMPARED_KINDS:
            documents.put(row.doc_id, _Fingerprint(row.fingerprint, row.digest))
        elif row.kind == RowKind.DELETED:
            documents.remove(row.doc_id)
        else:
            without += 1
            if row.kind == RowKind.DEAD:
                shared.notice(f"no fingerprint: {record.place}: {row.note}")
    if not quiet:
        typer.echo(f"{crawl.tally.told()}, {without} without a fingerprint", err=True)
    if documents.count:
        shared.notice(told(documents.count, documents.positions, id_column))
    return {doc_id: document.value for doc_id, document in documents.by_id.items()}


def prepared(crawl: CrawlFiles, settings: Settings, quiet: bool) -> Iterator[tuple[Record, Row]]:
    """Return each document with its row."""
    return with_answers(
        shared.tracked(crawl, "fingerprinting", quiet=quiet),
        partial(prepared_rows, settings=settings),
    )


def write_arrays(stream: BinaryIO, arrays: Iterable[Any]) -> int:
    """Write each as a line of JSON, and return how many there were."""
    count = 0
    for array in arrays:
        stream.write(orjson.dumps(array, option=orjson.OPT_APPEND_NEWLINE))
        count += 1
    return count
