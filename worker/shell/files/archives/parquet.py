"""
Reads tables of Parquet in batches of Arrow that stay within a budget of bytes, whatever the file
claims.

A file of some hundred bytes can hold gigabytes in two ways. A page of a column may be compressed a
thousandfold, and Arrow decompresses a whole page at once. A column may also have a dictionary: one
long text, and a number for each row that has it.

    column chunk   [dictionary][page][page]…   the header of each page says how long it becomes

`_rows_at_once` finds how many rows may be in a batch. A row has its share of the densest page or,
in the worst case, all of the dictionary. A page that is too long is damage.

A column of categories (`category` of pandas, `dictionary` of Arrow) stays one: a batch has the
dictionary once, and a number for each row. So there is no worst case, a batch is cut where the
texts of its rows become too long, and these texts are what counts: not the dictionary, which all
batches share.

Tried and rejected: to read texts as numbers of their dictionary, and to take them out for a few
rows at a time. It needs no worst case, and took eight times as long for a table of ordinary texts.

Arrow reserves what a page's header says and not what the index of the file says, so the headers are
what is read here. They are structs of Thrift's compact protocol, and so is the index, which says
where the pages are. Arrow tells that, too, but an index that it doubts (a damaged one, or that of
an encrypted column) ends the program there: the exception of C++ is not translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from worker.errors import StopError, install_extra
from worker.shell.files.archives.budget import (
    CHUNKS_MAX,
    DICTIONARY_ROWS_BYTES_MAX,
    INDEX_BYTES_MAX,
    OUT_PER_BYTE,
    PAGE_BYTES_MAX,
    PAGE_FREE_BYTES,
    ROWS_BYTES_MAX,
    Budget,
)

_ROWS_MAX = 1_000  # rows of a batch
_BUFFER_BYTES = 1 << 20  # of a column chunk, which would be held as a whole otherwise
_HEADER_BYTES = 1 << 10  # of a page, mostly
_HEADER_BYTES_MAX = 16 << 20  # as in Arrow
_LEVELS_MAX = 16
_DICTIONARY_PAGE = 2
_FIXED_LENGTH = 7  # the type of a column whose values have a length that the schema says
_FOOTER_BYTES = 8  # behind the index: its length, and the magic number
_MAGIC = b"PAR1"
# Kinds of values in Thrift's compact protocol.
_BOOLEANS = (1, 2)
_BYTE = 3
_I16 = 4
_I32 = 5
_I64 = 6
_DOUBLE = 7
_BINARY = 8
_LIST = 9
_SET = 10
_STRUCT = 12
_BYTES_OF = {_BYTE: 1, _DOUBLE: 8}
_BITS_OF = {_I16: 16, _I32: 32, _I64: 64}
_FIELD_MAX = (1 << 15) - 1
_Field: TypeAlias = tuple[int, int]  # of a struct: its number and kind
_Fields: TypeAlias = dict[_Field, Any]
# Fields of the index, of a row group, of a column chunk and its metadata.
_ROW_GROUPS = (4, _LIST)
_CHUNKS = (1, _LIST)
_METADATA = (3, _STRUCT)
_ENCRYPTION = (8, _STRUCT)
_PAGE_INDEXES = (((4, _I64), (5, _I32)), ((6, _I64), (7, _I32)))  # the place and length of each
_TYPE = (1, _I32)
_VALUES = (5, _I64)
_BYTES = (7, _I64)
_DATA_AT = (9, _I64)
_DICTIONARY_AT = (11, _I64)
# Fields of the header of a page, and of what it has for each type of page.
_PAGE_TYPE = (1, _I32)
_BYTES_OUT = (2, _I32)
_BYTES_IN = (3, _I32)
_OF_PAGE_TYPE = {0: (5, _STRUCT), _DICTIONARY_PAGE: (7, _STRUCT), 3: (8, _STRUCT)}
_PAGE_VALUES = (1, _I32)
_WRONG = "an index, or the header of a page,"
_REMEDY = "write the file again"
_LARGER = f"{_REMEDY} with larger row groups, or as several files"


def parquet_module() -> Any:
    """Return pyarrow's module for Parquet, or say how to install it."""
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise StopError(f"Parquet needs pyarrow: {install_extra('parquet')}") from None
    return parquet


def batches_of(
    stream: BinaryIO,
    on_damage: Callable[[str], None],
    on_rows: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[Any]:
    """
    Yield the rows of a Parquet file in Arrow batches, up to damage or the end of its budget.

    Args:
        on_damage: gets the reason why the rest of the file is not read.
        on_rows: gets the number of rows done, and their total.

    Cost: O(bytes). Memory: a page of each column, rows of ROWS_BYTES_MAX or one row, and some
    five times the index.
    """
    parquet = parquet_module()
    budget = Budget()  # of its own: all who read the file must end at the same row
    done = 0
    try:
        budget.take_in(stream.seek(0, 2))
        groups = _row_groups(stream)
        stream.seek(0)
        opened = parquet.ParquetFile(
            stream, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
        )
        for group in range(opened.metadata.num_row_groups):
            rows = _rows_at_once(stream, opened, group, groups[group])
            for batch in opened.iter_batches(rows, [group]):
                for part, part_bytes in _parts(batch):
                    reason = budget.take_out(part_bytes)
                    if reason is not None:
                        on_damage(reason)
                        return
                    yield part
                    done += part.num_rows
                    on_rows(done, opened.metadata.num_rows)
        if done != opened.metadata.num_rows:
            said = f"it has {done:,} rows, and its index says {opened.metadata.num_rows:,}"
            on_damage(f"{said}: {_REMEDY}")
    except StopError:
        raise
    except Exception as error:  # Arrow's own errors, and those of what its metadata claims
        on_damage(str(error) or type(error).__name__)


def _parts(batch: Any) -> Iterator[tuple[Any, int]]:
    """Yield a batch in parts of ROWS_BYTES_MAX or one row, each with its bytes."""
    ends = np.cumsum(_row_bytes(batch))
    start = 0
    bytes_before = 0.0
    while start < batch.num_rows:
        stop = int(np.searchsorted(ends, bytes_before + ROWS_BYTES_MAX, "right"))
        stop = max(stop, start + 1)
        yield batch.slice(start, stop - start), int(ends[stop - 1] - bytes_before)
        bytes_before = float(ends[stop - 1])
        start = stop


def _row_bytes(batch: Any) -> NDArray[np.float64]:
    """
    Return the bytes of each row: of a category those of its text, else its share of the column.
    """
    row_bytes = np.zeros(batch.num_rows)
    for column in batch.columns:
        if _has_categories(column.type):
            row_bytes += _category_bytes(column)
        else:
            row_bytes += _own_bytes(column) / max(batch.num_rows, 1)
    return row_bytes


def _own_bytes(column: Any) -> float:
    """Return the bytes of a column, with the texts of categories in it and not their dictionary."""
    import pyarrow  # noqa: PLC0415

    if _has_categories(column.type):
        return float(_category_bytes(column).sum())
    if hasattr(column, "flatten"):  # of lists their values, of structs their fields
        if pyarrow.types.is_map(column.type):  # a list of pairs, which Arrow does not flatten
            begin = column.offsets[0].as_py()
            end = column.offsets[-1].as_py()
            inner = [column.keys[begin:end], column.items[begin:end]]
        else:
            inner = column.flatten()
        parts = inner if isinstance(inner, list) else [inner]
        return 8.0 * len(column) + sum(map(_own_bytes, parts))
    return float(column.nbytes)


def _leaves(kind: Any) -> Iterator[Any]:
    """Yield the types of the columns that Parquet has for a type, in its order."""
    kind = getattr(kind, "storage_type", kind)
    if not kind.num_fields:
        yield kind
    for index in range(kind.num_fields):
        yield from _leaves(kind.field(index).type)


def _has_categories(kind: Any) -> bool:
    """Return whether a column has texts of a dictionary, which Arrow has read as such."""
    import pyarrow  # noqa: PLC0415

    types = pyarrow.types
    if not types.is_dictionary(kind):
        return False
    return bool(types.is_string(kind.value_type) or types.is_binary(kind.value_type))


def _category_bytes(column: Any) -> NDArray[np.float64]:
    """Return the bytes of each row's number and text."""
    texts = column.dictionary
    own_bytes = np.full(len(column), column.indices.type.bit_width / 8)
    if len(texts):
        edges = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :].astype(np.int64)
        numbers = column.indices.fill_null(0).to_numpy().astype(np.int64)
        own_bytes += edges[numbers + 1] - edges[numbers]
    return own_bytes


# ---- pages


class _Page(NamedTuple):
    """The content of a page's header, and the header's length."""

    is_dictionary: bool
    bytes_out: int
    bytes_in: int
    values: int
    header_bytes: int


class _Chunk(NamedTuple):
    """
    The pages of a column in a row group: type and number of their values, and their place.

    `last` is where the last thing of the column ends. A writer may put more of it behind the pages
    of all columns: the least and the greatest text of each page, for example.
    """

    kind: int
    values: int
    begin: int
    end: int
    last: int


class _Wanted(NamedTuple):
    """
    The fields of a struct that are read: numbers (None), and structs or lists of them with theirs.

    `made` says what is held of them, since a list may have millions. `lists` has the kinds of the
    elements of all its lists, by the numbers of their fields.
    """

    fields: Mapping[_Field, _Wanted | None]
    made: Callable[[_Fields], Any] = dict
    lists: Mapping[int, int] = MappingProxyType({})


def _chunk_of(column: _Fields) -> _Chunk | None:
    """Return a column chunk as the index has it. None: it is encrypted, or has no place."""
    metadata = column.get(_METADATA, {})
    kind = metadata.get(_TYPE, 0)
    values = metadata.get(_VALUES, 0)
    size = metadata.get(_BYTES, 0)
    data_at = metadata.get(_DATA_AT, -1)
    dictionary_at = metadata.get(_DICTIONARY_AT, 0)
    if _ENCRYPTION in column or min(values, size, data_at) < 0:
        return None
    begin = dictionary_at if 0 < dictionary_at < data_at else data_at
    end = begin + size
    last = max(end, *(column.get(at, 0) + column.get(length, 0) for at, length in _PAGE_INDEXES))
    return _Chunk(kind, values, begin, end, last)


def _chunks_of(group: _Fields) -> Sequence[_Chunk | None]:
    """Return the column chunks of a row group."""
    chunks: Sequence[_Chunk | None] = group.get(_CHUNKS, ())
    return chunks


_METADATA_NUMBERS = (_TYPE, _VALUES, _BYTES, _DATA_AT, _DICTIONARY_AT)
_SIZES = (16, _STRUCT)
_SHAPES = (17, _STRUCT)
_OF_METADATA = _Wanted(
    {
        **dict.fromkeys(_METADATA_NUMBERS),
        _SIZES: _Wanted({}, lists={2: _I64, 3: _I64}),
        _SHAPES: _Wanted({}, lists={2: _I32}),
    },
    lists={2: _I32, 3: _BINARY, 8: _STRUCT, 13: _STRUCT},
)
_OF_COLUMN = {
    _METADATA: _OF_METADATA,
    _ENCRYPTION: _Wanted({}),
    **dict.fromkeys(field for place in _PAGE_INDEXES for field in place),
}
_PAGE_NUMBERS: Mapping[_Field, None] = dict.fromkeys((_PAGE_TYPE, _BYTES_OUT, _BYTES_IN))
_PAGE_INNER = dict.fromkeys(_OF_PAGE_TYPE.values(), _Wanted({_PAGE_VALUES: None}))
_OF_PAGE = _Wanted({**_PAGE_NUMBERS, **_PAGE_INNER})


def _of_index() -> _Wanted:
    """Return what is wanted of an index, at most CHUNKS_MAX row groups and columns in them."""
    numbers = count(1)

    def counted(made: Callable[[_Fields], Any]) -> Callable[[_Fields], Any]:
        def make(fields: _Fields) -> Any:
            if next(numbers) > CHUNKS_MAX:
                raise ValueError(
                    f"of its row groups and the columns in them, at most {CHUNKS_MAX:,} are read: "
                    f"{_LARGER}"
                )
            return made(fields)

        return make

    of_chunk = _Wanted(_OF_COLUMN, counted(_chunk_of))
    of_group = _Wanted({_CHUNKS: of_chunk}, counted(_chunks_of), {1: _STRUCT, 4: _STRUCT})
    return _Wanted({_ROW_GROUPS: of_group}, lists=dict.fromkeys((2, 4, 5, 7), _STRUCT))


def _index_bytes(stream: BinaryIO) -> int:
    """Return how long a file says that its index is; 0 if it is no Parquet."""
    stream.seek(max(stream.seek(0, 2) - _FOOTER_BYTES, 0))
    footer = stream.read(_FOOTER_BYTES)
    return int.from_bytes(footer[:4], "little") if footer.endswith(_MAGIC) else 0


def _row_groups(stream: BinaryIO) -> Sequence[Sequence[_Chunk | None]]:
    """
    Return the column chunks of each row group of a file.

    Raises:
        ValueError: the index is beyond the budget, or damaged. Arrow holds all of it, some 700
            bytes for a column chunk that takes three bytes there, so this is seen before.
    """
    index_bytes = _index_bytes(stream)
    if index_bytes > INDEX_BYTES_MAX:
        raise ValueError(
            f"its index has {index_bytes:,} bytes, at most {INDEX_BYTES_MAX:,} are read: {_LARGER}"
        )
    begin = stream.seek(0, 2) - _FOOTER_BYTES - index_bytes
    if not index_bytes or begin < 0:
        stream.seek(0)
        if stream.read(len(_MAGIC)) == _MAGIC:
            raise ValueError(f"it has no index at its end, so it was cut: {_REMEDY}")
        raise ValueError(
            "it neither begins nor ends as Parquet does: if it is compressed as a whole, unpack it "
            "(Parquet compresses its columns), else " + _REMEDY
        )
    stream.seek(begin)
    try:
        index = _struct(stream.read(index_bytes), 0, _LEVELS_MAX, _of_index())[0]
    except IndexError:
        raise ValueError(f"its index is cut short: {_REMEDY}") from None
    groups: Sequence[Sequence[_Chunk | None]] = index.get(_ROW_GROUPS, ())
    chunks_bytes = sum(chunk.end - chunk.begin for group in groups for chunk in group if chunk)
    if chunks_bytes > stream.tell():
        raise ValueError(
            f"its columns have {chunks_bytes:,} bytes, and the file {stream.tell():,}: some stand "
            f"in one place, {_REMEDY}"
        )
    lasts = [chunk.last for group in groups for chunk in group if chunk]
    _check_single(stream, max(lasts, default=0), begin)
    return groups


def _check_single(stream: BinaryIO, start: int, end: int) -> None:
    """
    Raise ValueError if another file ends between what the index names and the index: files were
    appended to each other, and the index of the last one says nothing of the others.
    """
    stream.seek(start)
    before = b""
    while start < end and (data := stream.read(min(end - start, _BUFFER_BYTES))):
        start += len(data)
        if _MAGIC + _MAGIC in before + data:
            raise ValueError("it consists of several files, one behind the other: take them apart")
        before = data[-len(_MAGIC + _MAGIC) :]


def _rows_at_once(
    stream: BinaryIO, opened: Any, number: int, chunks: Sequence[_Chunk | None]
) -> int:
    """
    Return how many rows of a row group have at most ROWS_BYTES_MAX in its densest pages, and at
    most DICTIONARY_ROWS_BYTES_MAX if each had the whole dictionary.

    Args:
        number: the number of the row group.
        chunks: its columns, as the index has them.
    Raises:
        ValueError: a page is beyond the budget, or has no header.
    """
    kinds = [leaf for field in opened.schema_arrow for leaf in _leaves(field.type)]
    group_rows = max(opened.metadata.row_group(number).num_rows, 1)
    row_bytes = 1.0
    dictionary_bytes = 1.0
    for index, (kind, chunk) in enumerate(zip(kinds, chunks, strict=True)):
        name = opened.schema.column(index).path
        if chunk is None:
            raise ValueError(
                f"column {name!r} is encrypted or damaged: write it without encryption"
            )
        if chunk.kind == _FIXED_LENGTH:
            row_bytes += opened.schema.column(index).length
        values_per_row = chunk.values / group_rows
        densest = 0.0
        for page in _pages(stream, chunk):
            bytes_max = min(PAGE_BYTES_MAX, PAGE_FREE_BYTES + OUT_PER_BYTE * page.bytes_in)
            if page.bytes_out > bytes_max:
                raise ValueError(
                    f"a page of column {name!r} has {page.bytes_out:,} bytes, at "
                    f"most {bytes_max:,} are read of {page.bytes_in:,}: "
                    "write the file again with smaller pages"
                )
            if page.is_dictionary and not _has_categories(kind):
                dictionary_bytes += page.bytes_out * values_per_row
            elif not page.is_dictionary:
                densest = max(densest, page.bytes_out / max(page.values, 1))
        row_bytes += densest * values_per_row
    rows = min(
        ROWS_BYTES_MAX // row_bytes, DICTIONARY_ROWS_BYTES_MAX // dictionary_bytes, _ROWS_MAX
    )
    return max(int(rows), 1)


def _pages(stream: BinaryIO, chunk: _Chunk) -> Iterator[_Page]:
    """Yield the pages of a column chunk, without their content."""
    at = chunk.begin
    values = 0
    while at < chunk.end and values < chunk.values:
        page = _page_at(stream, at)
        yield page
        if not page.is_dictionary:
            values += page.values
        at += page.header_bytes + page.bytes_in


def _page_at(stream: BinaryIO, at: int) -> _Page:
    """Read the header of a page. Raises ValueError if there is none."""
    size = _HEADER_BYTES
    while True:
        stream.seek(at)
        data = stream.read(size)
        try:
            return _parsed(data)
        except IndexError:
            if len(data) < size or size >= _HEADER_BYTES_MAX:
                raise ValueError(f"no page begins at byte {at:,}") from None
            size *= 16


def _parsed(data: bytes) -> _Page:
    """Parse the header of a page. Raises IndexError if it is cut short."""
    fields, end = _struct(data, 0, _LEVELS_MAX, _OF_PAGE)
    if not fields.keys() >= _PAGE_NUMBERS.keys():
        raise ValueError(f"{_WRONG} lacks what every page has: {_REMEDY}")
    kind = fields[_PAGE_TYPE]
    inner = fields.get(_OF_PAGE_TYPE.get(kind, (0, 0)), {})
    bytes_out = fields[_BYTES_OUT]
    bytes_in = fields[_BYTES_IN]
    values = inner.get(_PAGE_VALUES, 0)
    if min(bytes_out, bytes_in, values) < 0:
        raise ValueError(f"the header of a page has numbers that cannot be: {_REMEDY}")
    return _Page(kind == _DICTIONARY_PAGE, bytes_out, bytes_in, values, end)


def _struct(data: bytes, at: int, levels: int, wanted: _Wanted | None) -> tuple[Any, int]:
    """
    Return what is wanted of a struct, and where it ends.

    Arrow passes over a field that has another kind than its own, so the kind is a part of its name.
    It takes the last bits of a number that is too long for its kind, adds up a field that occurs
    twice, and does not look at the kind of a list's elements. Each would make it read other pages
    than those that are checked, so they are refused.
    """
    if not levels:
        raise ValueError(f"{_WRONG} is nested too deep: {_REMEDY}")
    fields: _Fields = {}
    number = 0
    while data[at] != 0:
        kind = data[at] & 15
        step = data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _signed_at(data, at, _I16)
        field = number, kind
        if not 0 < number <= _FIELD_MAX or field in fields:
            raise ValueError(f"{_WRONG} has a field {number} that cannot be: {_REMEDY}")
        if wanted is not None and kind == _LIST:
            _check_list(data[at], wanted.lists.get(number))
        if wanted is None or field not in wanted.fields:
            at = _skip(data, at, kind, levels)
        elif kind == _STRUCT:
            fields[field], at = _struct(data, at, levels - 1, wanted.fields[field])
        elif kind == _LIST:
            fields[field], at = _structs(data, at, levels - 1, wanted.fields[field])
        else:
            fields[field], at = _signed_at(data, at, kind)
    return None if wanted is None else wanted.made(fields), at + 1


def _check_list(head: int, wanted: int | None) -> None:
    """Raise ValueError if a list, by its first byte, has elements of another kind than `wanted`."""
    kind = head & 15
    is_empty = head >> 4 == 0
    if wanted is None or is_empty or kind == wanted:
        return
    if not (kind in _BITS_OF and wanted in _BITS_OF):  # numbers are written alike
        raise ValueError(f"{_WRONG} has a list of kind {kind} that cannot be: {_REMEDY}")


def _skip(data: bytes, at: int, kind: int, levels: int) -> int:
    """Return where a value ends. Raises IndexError if that is behind the data."""
    if kind in _BOOLEANS:  # in a struct their kind is their value
        end = at
    elif kind in _BITS_OF:
        end = _signed_at(data, at, kind)[1]
    elif kind in _BYTES_OF:
        end = at + _BYTES_OF[kind]
    elif kind == _BINARY:
        size, begin = _varint(data, at)
        end = begin + size
    elif kind == _STRUCT:
        end = _struct(data, at, levels - 1, None)[1]
    elif kind in (_LIST, _SET):
        end = _structs(data, at, levels - 1, None)[1]
    else:
        raise ValueError(f"{_WRONG} has a field of kind {kind}: {_REMEDY}")
    if end > len(data):
        raise IndexError
    return end


def _structs(
    data: bytes, at: int, levels: int, wanted: _Wanted | None
) -> tuple[Sequence[Any], int]:
    """
    Return what is wanted of the structs of a list, and its end. Without `wanted`, the list may have
    other elements, and none is held.
    """
    if not levels:
        raise ValueError(f"{_WRONG} is nested too deep: {_REMEDY}")
    size = data[at] >> 4
    kind = data[at] & 15
    at += 1
    if size == 15:  # the length of a longer list follows
        size, at = _varint(data, at)
    if size > len(data) - at:  # each element has a byte or more
        raise IndexError
    if wanted is None:
        for _ in range(size):
            at = at + 1 if kind in _BOOLEANS else _skip(data, at, kind, levels)
        return (), at
    structs: list[Any] = []
    for _ in range(size):
        fields, at = _struct(data, at, levels - 1, wanted)
        structs.append(fields)
    return structs, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"{_WRONG} has a number of more than 64 bits: {_REMEDY}")


def _signed_at(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """Return a number with its sign in the lowest bit, and where it ends."""
    value, end = _varint(data, at)
    if value >> _BITS_OF[kind]:
        raise ValueError(f"{_WRONG} has a number of more than {_BITS_OF[kind]} bits: {_REMEDY}")
    return value >> 1 ^ -(value & 1), end
