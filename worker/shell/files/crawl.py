"""
Reads crawler output file after file: documents in order, with counts of what was left out or
damaged.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from schemas.fields import TimestampError, parse_timestamp
from worker.core.document import BODY_BYTES_MAX
from worker.errors import StopError
from worker.shell.files.account import InputTally
from worker.shell.files.archives import Damage, Entry, Message, Omission, Record
from worker.shell.files.archives.budget import Budget, BudgetError
from worker.shell.files.archives.column_names import NO_NAMES, OPTION, ColumnNames, SeenColumns
from worker.shell.files.archives.columns import shown
from worker.shell.files.archives.inflate import (
    UNREAD_BYTES,
    Piece,
    is_packed,
    pieces,
    unread_packing,
)
from worker.shell.files.archives.lines import codec_name, with_start
from worker.shell.files.archives.rows import InputFile
from worker.shell.files.digests import DigestedInput, FileDigest
from worker.shell.files.formats import (
    ARCHIVES,
    NO_BYTES,
    START_BYTES,
    UNKNOWN,
    WRITE_LINES,
    FileFormat,
    format_of_start,
    is_never_empty,
)
from worker.shell.files.inputs import Inputs, RowPlace
from worker.shell.files.places import (
    check_read_once,
    is_pipe,
    open_input,
    path_of,
    shown_name,
    size_of,
)

_REASON_CHARACTERS_MAX = 1_000
# Both processes have one place in an open file: what one reads, the other does not get.
_FORKED = (
    "the reading of these CrawlFiles was begun before this process was forked, and would take "
    "documents from the process that began it: iterate over them again"
)

Answer = TypeVar("Answer")


class CrawlFiles:
    """
    The documents of some files, in order. Records that are no documents are counted.

    Args:
        paths: files of any format of `formats.py`, here or elsewhere; "-" is stdin. Folders are
            refused: name the files in them.
        on_damage: is called for each damaged record, with its file, its offset and the reason.
            A file with more damage than its budget (`archives/budget.py`) ends there.
        body_max: the largest body, in bytes. A longer one is left out and counted as
            "body-too-large".
        fetched_at_default: the fetch time of documents without a readable one, ISO 8601.
        columns: the names of the fields or columns with doc_id, text, URL and time.
        encoding: of JSON Lines, CSV, TSV and bytes in Parquet. None: the byte order mark decides,
            else UTF-8.
        whole: whether a record of WARC has its `raw` bytes, too. Who holds many records, as a
            program does that waits for their verdicts, would hold as many bytes again.
        score_column: a field or column whose number becomes the `score` of a record.
    Raises:
        StopError: a file cannot be opened, a pipe is named twice, there is no such encoding, or the
            fetch time is invalid; when all has been read, no row has had a column that is named.
        TypeError: `paths` is one name, not a list of names.

    Attributes:
        named_columns: as `columns`, given here or later.
        bytes_read: bytes read so far of all files; of compressed files, the compressed bytes.
        bytes_total: the size of all files; None if one is a pipe.
        format: the format of the file that is being read; None if it is unknown.
        files: how many there are.
        digests: of each file that has been read, what was in it, if `is_digested` has been set.

    They can be read again, as a list can, but for pipes. The tally then counts the records once
    more. Only the reading that was begun last may go on: another one that does raises RuntimeError.

    Cost: that of decompression and of base64 for the bodies. Memory: a few MiB and one record.

    >>> from pathlib import Path; from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "documents.jsonl"
    >>> _ = file.write_text('{"doc_id": "a", "text": "The river rose."}\\n\\n[]\\n')
    >>> files = CrawlFiles([str(file)])
    >>> [record.key for record in files], files.tally.damaged
    ([b'a'], 1)
    """

    def __init__(
        self,
        paths: Iterable[str | Path],
        on_damage: Callable[[Damage], None] = lambda _: None,
        *,
        body_max: int = BODY_BYTES_MAX,
        fetched_at_default: str | None = None,
        columns: ColumnNames | None = None,
        whole: bool = False,
        encoding: str | None = None,
        score_column: str | None = None,
    ) -> None:
        if isinstance(paths, str | Path):
            raise TypeError(f"wanted a list of files, got {str(paths)!r}: give a list of it")
        paths = list(paths)  # an iterator can be gone through once only
        if encoding is not None:
            codec_name(encoding)  # refused before a file is opened
        if fetched_at_default is not None:
            _check_time(fetched_at_default)
        for path in paths:
            if not isinstance(path, str | Path):
                raise TypeError(f"a file is named by a str or a Path, got {shown(path)}")
        self.on_damage = on_damage
        self.tally = InputTally()
        self.bytes_read = 0
        self.format: FileFormat | None = None
        self._sizes = [(str(path), size_of(str(path))) for path in paths]
        check_read_once(name for name, size in self._sizes if size is None)
        sizes = [size for _, size in self._sizes]
        self.bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._body_max = body_max
        self._whole = whole
        self.named_columns = columns or NO_NAMES
        self._seen = SeenColumns(self.named_columns, OPTION)
        self._fetched_at_default = fetched_at_default
        self._encoding = encoding
        self._score_column = score_column
        self.files = len(self._sizes)
        self.begin(Inputs(run=0, number=0, offset=0))
        self.is_digested = False
        self.digests: list[FileDigest] = []
        self._pipes_read: list[str] = []
        self._reading = object()  # the one that was begun last

    def begin(self, inputs: Inputs) -> Inputs:
        """
        Let the files be these inputs, from the next reading on, and return them.

        A document without a name is named by its place among them (`inputs.py`). Where each file
        begins is known when the reading has come to it.
        """
        self._begins: list[int] = []
        self._read_documents = 0  # of the reading that was begun last
        self._inputs = replace(inputs, begins=self._begins, are_files=True)
        return self._inputs

    def _note_assumed(self, what: str) -> None:
        self.tally.assumed[what] += 1

    def _place_of(self) -> RowPlace:
        """Return the place of the next document."""
        return self._inputs.place(self._inputs.offset + self._read_documents)

    def __iter__(self) -> Iterator[Record]:
        return self._checked(self.documents())

    def documents(self) -> Iterator[Record]:
        """
        Yield the documents as iterating does, for one who reads the files of a run apart.

        A named column that none of these rows has is no error then: rows of other files have it.
        """
        self._reading = object()
        return self._records(self._reading)

    def _checked(self, documents: Iterator[Record]) -> Iterator[Record]:
        """Yield documents, then raise StopError if a column is named that no row has had."""
        yield from documents
        if self._seen.has_rows or self._read_documents:
            self._refuse_unseen(self._seen)

    def _records(self, reading: object) -> Iterator[Record]:
        """
        Yield the documents.

        Raises:
            RuntimeError: it goes on although another reading has begun, or in a forked process.
        """
        self._check_latest(reading)
        process = os.getpid()
        self._seen = SeenColumns(self.named_columns, OPTION)
        for entry in self.entries():
            if isinstance(entry, Record):
                self.tally.documents += 1
                self._read_documents += 1
                yield entry
                self._check_latest(reading)
                if os.getpid() != process:
                    raise RuntimeError(_FORKED)
            elif isinstance(entry, Omission):
                self.tally.left_out[entry.reason] += 1
            else:
                self.tally.note_damage(entry.place, entry.reason)
                self.on_damage(entry)

    def _check_latest(self, reading: object) -> None:
        # All readings name documents by the same attributes: the run, and where each file begins.
        if reading is not self._reading:
            raise RuntimeError(
                "these CrawlFiles are being read a second time before the first reading has ended: "
                "make CrawlFiles(…) of the same files for each reader"
            )

    def _refuse_unseen(self, seen: SeenColumns) -> None:
        names = [shown_name(file) for file, _ in self._sizes]
        told = seen.told(f"{names[0]} has" if len(names) == 1 else f"the {len(names):,} files have")
        if told is not None:
            raise StopError(told)

    def check_columns(self) -> None:
        """
        Raise now the error that reading to the end would raise for a named column that no row has.

        Files that can be read only once are left to the reading. Cost: that of the first row, where
        it has all columns; that of reading all tables and lines of JSON, where none has.
        """
        seen = SeenColumns(self.named_columns, OPTION)
        is_empty = True
        for file, _ in self._sizes:
            if seen.is_complete or is_pipe(file):
                return
            kind = format_in(file)
            is_empty &= kind is None
            if kind is None or kind in ARCHIVES:
                continue
            reading = CrawlFiles([file], columns=self.named_columns, encoding=self._encoding)
            reading._seen = seen
            with closing(reading.entries()) as entries:
                for _entry in entries:
                    if seen.is_complete:
                        return
        if not is_empty:
            self._refuse_unseen(seen)

    def entries(self) -> Generator[Entry, None, None]:
        """Yield all records of the files, documents or not, without counting them."""
        if self._begins:  # of an earlier reading, whose verdicts may still be taken
            self.begin(self._inputs)
        for file, size in self._sizes:
            self.format = None
            self._begins.append(self._read_documents)
            if is_pipe(file):
                check_read_once([*self._pipes_read, file], "is read twice")
                self._pipes_read.append(file)
            yield from self._entries_of(file, size or 0)

    def _entries_of(self, file: str, size: int) -> Iterator[Entry]:
        """Yield the records of a file of so many bytes."""
        before = self.bytes_read
        budget = Budget()

        def on_rows(done: int, rows: int) -> None:
            self.bytes_read = before + size * done // rows

        def on_read(count: int) -> None:
            self.bytes_read += count
            budget.take_in(count)

        with open_input(file) as opened:
            source = DigestedInput(opened, file)
            stream = cast("BinaryIO", source) if self.is_digested else opened
            unpacked = pieces(stream, on_read, budget)
            found = self._read(file, unpacked, budget, on_rows)
            yield from _within(file, found, budget)
            if self.is_digested:
                self.digests.append(source.finish())

    def _read(
        self,
        file: str,
        unpacked: Iterator[Piece],
        budget: Budget,
        on_rows: Callable[[int, int], None],
    ) -> Iterator[Entry]:
        begin = _start_of(unpacked)
        if begin is None:
            if not budget.bytes_in and is_never_empty(file):
                yield Damage(file, 0, NO_BYTES, ends_file=True)
            return
        start, unpacked = begin
        if is_packed(start):
            yield Damage(file, 0, "it is compressed twice: unpack it once", ends_file=True)
            return
        unread = unread_packing(start)
        if unread is not None:
            reason = f"it is {unread}, which is not read: unpack it, and name what is in it"
            yield Damage(file, 0, reason, ends_file=True)
            return
        kind = format_of_start(file, start)
        self.format = kind
        if kind is None or kind.reader is None:
            found = f"it begins with {start[:64].lstrip()[:20]!r}"
            yield Damage(file, 0, f"{UNKNOWN}: {found}. {WRITE_LINES}")
            return
        yield from kind.reader(
            InputFile(
                file,
                unpacked,
                self._body_max,
                budget,
                self._place_of,
                self._seen,
                columns=self.named_columns,
                fetched_at_default=self._fetched_at_default,
                encoding=self._encoding,
                score_column=self._score_column,
                whole=self._whole,
                on_rows=on_rows,
                on_assumed=self._note_assumed,
            )
        )


def _within(file: str, found: Iterator[Entry], budget: Budget) -> Iterator[Entry]:
    """
    Yield what a reader finds in a file, up to the end of the file or of its budget.

    An error that nobody has foreseen is damage where it was raised. It costs the rest of this file,
    and the other files are read.
    """
    offset = 0
    line: int | None = None
    try:
        for entry in found:
            offset = entry.offset
            line = None if isinstance(entry, Omission) else entry.line
            if isinstance(entry, Damage):
                budget.take_damaged()
                yield _shortened(entry)._replace(ends_file=entry.ends_file or budget.is_spent)
                continue
            if isinstance(entry, Record):
                budget.give_document()
            yield entry
    except BudgetError as error:
        yield Damage(file, offset, str(error), line, ends_file=True)
    except (StopError, GeneratorExit):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        reason = f"what stands behind this cannot be read: {reason}"
        yield Damage(file, offset, reason, line, ends_file=True)


def _shortened(damage: Damage) -> Damage:
    """Return damage with a reason that can be read: it may quote what the file has."""
    if len(damage.reason) <= _REASON_CHARACTERS_MAX:
        return damage
    return damage._replace(reason=f"{damage.reason[:_REASON_CHARACTERS_MAX]}…")


def _check_time(fetched_at: str) -> None:
    """Raise StopError for a fetch time that no document could have."""
    try:
        parse_timestamp(fetched_at)
    except TimestampError as error:
        raise StopError(f"the fetch time {fetched_at!r:.60} is no time: {error}") from None


def format_in(file: str) -> FileFormat | None:
    """
    Return the format of a file, as it begins.

    Returns:
        None: the file is empty, of no format that we read, or a pipe, which is not looked into.
    Raises:
        StopError: it cannot be read.
    """
    size_of(file)
    path = path_of(file)
    if path is not None and not path.is_file():
        return None
    with open_input(file) as stream:
        begin = _start_of(pieces(stream))
    return None if begin is None else format_of_start(file, begin[0])


def _start_of(unpacked: Iterator[Piece]) -> tuple[bytes, Iterator[Piece]] | None:
    """
    Return the first bytes of a file, by which its format is known, and all of its pieces. None if
    the file is empty.
    """
    filled = (piece for piece in unpacked if piece.data or piece.problem)
    first = next(filled, None)
    if first is None:
        return None
    return with_start(itertools.chain([first], filled), max(START_BYTES, UNREAD_BYTES))


def with_answers(
    records: Iterable[Record], answer: Callable[[Iterator[Message]], Iterable[Answer]]
) -> Iterator[tuple[Record, Answer]]:
    """
    Yield each record with its answer. `answer` takes keys and values, and may read any number of
    them ahead.

    The records come back without their content, which only `answer` needs: each may have megabytes.
    """
    ahead: deque[Record] = deque()  # itertools.tee would hold 57 more, of any size

    def message(record: Record) -> Message:
        ahead.append(record._replace(content=b"", raw=b""))
        return record.key, record.content

    return ((ahead.popleft(), answered) for answered in answer(map(message, records)))
