"""
Documents as they stand in their files: a writer for lines, for rows of Parquet, for WARC records.

`keeping` uses one writer per output. The table in `formats` says which format has which writer.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, BinaryIO

import zstandard

from worker.errors import StopError
from worker.shell.files.archives import Head, Record
from worker.shell.files.archives.parquet import parquet_module
from worker.shell.files.outputs import PACK_LEVEL, packed
from worker.shell.files.places import named

_GROUP_BYTES = 32 << 20  # of a row group of Parquet, before it is packed; it is held in memory


class DocumentWriter(ABC):
    """
    Writes an output of documents; the output's name says how it is compressed.

    Args:
        stream: the stream to write to. It stays open.
        name: the name of the output; "-" is stdout.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = named(name)
        self._stack = ExitStack()  # of what writes to the stream, and holds something back

    def begin(self, record: Record) -> None:  # noqa: B027
        """
        Write the head of the file, once, before all documents.

        Args:
            record: any document of the file that is being read, which may go to another output.
        """

    @abstractmethod
    def write(self, document: Any) -> None:
        """
        Add a document as it stands in its file.

        Args:
            document: a `Record` with its `raw`; of Parquet, rows as a batch of Arrow.
        Raises:
            StopError: it has other columns than those before it, or another encoding.
        """

    def close(self) -> None:
        """Write what is held back. An output without documents is compressed as its name says."""
        self._stack.close()


class LineWriter(DocumentWriter):
    """Writes lines of JSON Lines or CSV, byte for byte, behind the head of the first file."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        super().__init__(stream, name)
        self._lines = self._stack.enter_context(packed(stream, self._name))
        self._head: Head | None = None  # of the first file

    def begin(self, record: Record) -> None:
        """Write the head of the first file: a table without rows has columns, too."""
        if record.head is not None and self._head is None:
            self._head = record.head
            self._lines.write(record.head.data)

    def write(self, document: Record) -> None:
        """
        Add a line.

        Raises:
            StopError: its file has other columns or another encoding than the first one.
            ValueError: it is no line: no head has been written, or it has none.
        """
        head = self._head
        if head is None or document.head is None:
            raise ValueError(f"{document.place}: a row without a head")
        if document.head.columns != head.columns:
            raise StopError(f"{self._name}: {document.file} has other columns. Write one at a time")
        if document.head.encoding != head.encoding:
            names = f"{document.head.encoding}, and not {head.encoding}"
            raise StopError(f"{self._name}: {document.file} is {names}. Write one at a time")
        if document.head.delimiter != head.delimiter:
            names = f"{document.head.delimiter!r}, and not {head.delimiter!r}"
            raise StopError(
                f"{self._name}: {document.file} separates fields by {names}. Write one at a time"
            )
        self._lines.write(document.raw)


class ArrayWriter(DocumentWriter):
    """Writes a JSON array of elements as they stand in their files, one after the other."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        super().__init__(stream, name)
        self._array = self._stack.enter_context(packed(stream, self._name))
        self._before = b"["

    def write(self, document: Record) -> None:
        """Add an element."""
        self._array.write(self._before + b"\n" + document.raw)
        self._before = b","

    def close(self) -> None:
        """Close the array, and write what the compression holds back."""
        self._array.write(b"[]\n" if self._before == b"[" else b"\n]\n")
        super().close()


class TableWriter(DocumentWriter):
    """
    Writes rows of Parquet, with all of their columns; Parquet compresses within itself.

    Rows are held until they make a row group of some size. Each group has an entry for each column
    in the file's index, which is read as a whole.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        super().__init__(stream, name)
        self._table: Any = None  # pyarrow's; it needs the columns, so it waits for the first rows
        self._held: list[Any] = []  # batches of the next row group
        self._held_bytes = 0

    def write(self, document: Any) -> None:
        """
        Add rows: a batch of Arrow.

        Raises:
            StopError: they have other columns than those before them.
        """
        if self._table is None:
            table = parquet_module().ParquetWriter(
                self._stream, document.schema, compression="zstd"
            )
            self._table = self._stack.enter_context(closing(table))
        elif not document.schema.equals(self._table.schema):
            raise StopError(
                f"{self._name}: the files have different columns. Write one at a time. They are\n"
                f"{document.schema.to_string(show_schema_metadata=False)}\nand\n"
                f"{self._table.schema.to_string(show_schema_metadata=False)}"
            )
        rows = _with_categories(document, _with_own)
        self._held.append(rows)
        self._held_bytes += rows.nbytes  # with its dictionaries
        if self._held_bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        """Write the rows that are held."""
        import pyarrow  # noqa: PLC0415

        if self._held:
            try:
                # One dictionary for each column: Parquet stores it once for a row group.
                whole = pyarrow.Table.from_batches(self._held)
                groups = [_with_categories(whole, pyarrow.ChunkedArray.combine_chunks)]
            except pyarrow.ArrowInvalid:  # more categories than a number of theirs reaches
                groups = [pyarrow.Table.from_batches([batch]) for batch in self._held]
            for group in groups:
                self._table.write_table(group)
        self._held = []
        self._held_bytes = 0

    def close(self) -> None:
        """Write the rows that are held, and the index."""
        with self._stack:
            if self._table is None:
                self._stack.enter_context(packed(self._stream, self._name))
            self._write_group()


def _with_categories(rows: Any, change: Callable[[Any], Any]) -> Any:
    """
    Return a batch or a table of Arrow with its columns of categories changed.

    Ordered categories stay: their order means something.
    """
    import pyarrow  # noqa: PLC0415

    columns = list(rows.columns)
    for number, column in enumerate(columns):
        if pyarrow.types.is_dictionary(column.type) and not column.type.ordered:
            columns[number] = change(column)
    return type(rows).from_arrays(columns, schema=rows.schema)


def _with_own(column: Any) -> Any:
    """
    Return a column with the categories that its rows have, and no others.

    A batch has all categories of its file, in memory of its own, also when few of its rows are
    written.

    Cost: O(rows), and the bytes of the categories that are left.
    """
    import pyarrow  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    numbers = compute.unique(column.indices).drop_null()
    if len(numbers) == len(column.dictionary):
        return column
    indices = compute.index_in(column.indices, value_set=numbers)
    return pyarrow.DictionaryArray.from_arrays(
        indices.cast(column.type.index_type), column.dictionary.take(numbers)
    )


class RecordWriter(DocumentWriter):
    """Writes records of WARC; where the output is compressed, each is a member of its own."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        super().__init__(stream, name)
        self._is_empty = True

    def write(self, document: Record) -> None:
        """Add a record."""
        data = document.raw
        name = self._name.lower()
        if name.endswith(".gz"):
            # gzip.compress writes another header on each Python.
            data = zlib.compress(data, PACK_LEVEL, wbits=31)
        elif name.endswith(".zst"):
            data = zstandard.ZstdCompressor().compress(data)
        self._stream.write(data)
        self._is_empty = False

    def close(self) -> None:
        """Write an empty member where there is no record; nothing else is held back."""
        if self._is_empty:
            self._stack.enter_context(packed(self._stream, self._name))
        super().close()
