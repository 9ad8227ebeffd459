"""
Columns of JSON text for many messages at once: numbers, times and words as `Texts`, and templates
that are filled from columns.

The kernels are in `core/kernels/json_columns.py`. Each function here checks what they rely on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from worker.core.kernels import json_columns as kernels
from worker.log.record import TIME_MS_MAX, TIME_MS_MIN
from worker.log.texts import Texts

FIELD = b"\0"  # where a template is filled in: JSON has no such byte

_SPECIAL = re.compile(rb'[\x00-\x1f"\\\xed]')  # to be escaped, or the first byte of a surrogate


class Chosen(NamedTuple):
    """
    A column whose rows have these of some texts, by their numbers. Copies nothing.

    >>> filled(b"is \\0", [Chosen(Texts.of([b"false", b"true"]), np.array([1, 0]))]).tolist()
    [b'is true', b'is false']
    """

    texts: Texts
    numbers: NDArray[np.integer | np.bool_]  # of each row

    def __len__(self) -> int:
        return len(self.numbers)


def decimals(values: NDArray[np.integer]) -> Texts:
    """
    Return whole numbers as JSON has them. Cost: 15 ns each.

    Raises ValueError: one is below zero.

    >>> decimals(np.array([0, 41])).tolist()
    [b'0', b'41']
    """
    numbers = values.astype(np.int64)
    if len(numbers) and int(numbers.min()) < 0:
        raise ValueError(f"decimals are not below zero, got {numbers.min()}")
    out = np.empty(len(numbers) * kernels.DECIMAL_BYTES_MAX, np.uint8)
    ends = np.empty(len(numbers), np.int64)
    kernels.write_decimals(numbers, out, ends)
    return Texts(out, ends)


def _read_only(values: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """
    Return a view that cannot be written to: the columns of a record are like that, chosen rows of
    it are not, and a kernel would be compiled for each of the two.
    """
    view = np.ascontiguousarray(values, kind).view()
    view.flags.writeable = False
    return view


def hexadecimals(values: NDArray[np.uint64]) -> Texts:
    """
    Return numbers of 64 bits as 16 digits each. Cost: 20 ns each.

    >>> hexadecimals(np.array([255], np.uint64)).tolist()
    [b'00000000000000ff']
    """
    out = np.empty(len(values) * kernels.HEXADECIMAL_BYTES, np.uint8)
    kernels.write_hexadecimals(_read_only(values, np.uint64), out)
    return _of_one_size(out, kernels.HEXADECIMAL_BYTES, len(values))


def timestamps(times_ms: NDArray[np.int64]) -> Texts:
    """
    Return Unix milliseconds as `schemas.fields.format_timestamp` writes them. Cost: 40 ns each.

    Raises ValueError: one lies outside the years 1 to 9999.

    >>> timestamps(np.array([1714564800500])).tolist()
    [b'2024-05-01T12:00:00.500Z']
    """
    times = _read_only(times_ms, np.int64)
    if len(times) and not TIME_MS_MIN <= int(times.min()) <= int(times.max()) <= TIME_MS_MAX:
        raise ValueError(
            f"times lie between {TIME_MS_MIN} and {TIME_MS_MAX} ms, "
            f"got {times.min()} to {times.max()}"
        )
    out = np.empty(len(times) * kernels.TIME_BYTES, np.uint8)
    kernels.write_times(times, out)
    return _of_one_size(out, kernels.TIME_BYTES, len(times))


def _of_one_size(data: NDArray[np.uint8], size: int, count: int) -> Texts:
    return Texts(data, np.arange(size, size * count + 1, size))


def spread(texts: Texts, places: NDArray[np.int64], count: int) -> Texts:
    """
    Return a column of `count` texts: these at their places, which ascend, and empty ones between.

    >>> spread(Texts.of([b"a", b"b"]), np.array([0, 2]), 4).tolist()
    [b'a', b'', b'b', b'']
    """
    sizes = np.zeros(count, np.int64)
    sizes[places] = texts.sizes
    return Texts(texts.data, np.cumsum(sizes))


def inside(text: str) -> bytes:
    """
    Return a text as it is written between JSON's quotes.

    Lone surrogates, which JSON cannot carry, become "?".
    """
    try:
        return orjson.dumps(text)[1:-1]
    except TypeError:
        return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def insides(texts: Texts) -> Texts:
    """
    Return texts of the log as they are written between JSON's quotes.

    Cost: one search if nothing has to be escaped; then it is the same column that is returned.
    """
    data = texts.data.view()
    data.flags.writeable = False  # the kernel is compiled for read-only data only
    if not kernels.has_special(data, texts.ends[-1] if len(texts) else np.int64(0)):
        return texts
    return Texts.of(
        [
            inside(text.decode("utf-8", "surrogatepass")) if _SPECIAL.search(text) else text
            for text in texts.tolist()
        ]
    )


def filled(template: bytes, columns: Sequence[Texts | Chosen]) -> Texts:
    """
    Return for each row the template, with the row's texts at its FIELDs.

    Args:
        columns: one column per FIELD of the template, all of one length.
    Raises:
        ValueError: they are not; or a number of a `Chosen` is that of no text.
    Cost: 30 µs, and some 10 ns for each column and row.

    >>> filled(b'{"a":\\0,"b":\\0}', [Texts.of([b"1", b"2"]), Texts.of([b"3", b"4"])]).tolist()
    [b'{"a":1,"b":3}', b'{"a":2,"b":4}']
    """
    pieces = template.split(FIELD)
    if len(pieces) != len(columns) + 1:
        raise ValueError(f"the template has {len(pieces) - 1} fields, got {len(columns)} columns")
    constant = np.frombuffer(b"".join(pieces), np.uint8)
    sizes = np.array([len(piece) for piece in pieces])
    described = np.zeros((2 * len(columns) + 1, kernels.COLUMN_WORDS), np.int64)
    described[::2, kernels.DATA] = _address(constant) + np.cumsum(sizes) - sizes
    described[::2, kernels.SIZE] = sizes
    with _described(columns, described[1::2]):
        ends = np.empty(_rows(columns), np.int64)
        if not kernels.measure_rows(described, ends):
            raise ValueError("a row's number is that of no text")
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        kernels.join_rows(described, len(ends), out)
    return Texts(out, ends)


def equal(texts: Texts, others: Texts | Chosen) -> NDArray[np.bool_]:
    """
    Return, for each row, whether the texts of two columns are equal.

    Raises ValueError: as `filled`.

    >>> equal(Texts.of([b"a", b"b"]), Texts.of([b"a", b"c"])).tolist()
    [True, False]
    """
    described = np.zeros((2, kernels.COLUMN_WORDS), np.int64)
    with _described((texts, others), described):
        found = np.empty(_rows((texts, others)), np.bool_)
        if not kernels.measure_rows(described, np.empty(len(found), np.int64)):
            raise ValueError("a row's number is that of no text")
        kernels.compare_texts(described, found)
    return found


def _rows(columns: Sequence[Texts | Chosen]) -> int:
    """Return how many rows the columns have. Raises ValueError: they differ."""
    rows = {len(column) for column in columns}
    if len(rows) != 1:
        raise ValueError(f"columns must be of one length, got {sorted(rows)}")
    return rows.pop()


@contextmanager
def _described(columns: Sequence[Texts | Chosen], described: NDArray[np.int64]) -> Iterator[None]:
    """Describe columns as the kernels read them: by addresses, which hold within the block."""
    alive: list[NDArray[np.generic]] = []
    rows: list[tuple[int, int, int, int]] = []
    for column in columns:
        texts = column.texts if isinstance(column, Chosen) else column
        data = np.ascontiguousarray(texts.data)
        ends = np.ascontiguousarray(texts.ends, np.int64)
        alive += [data, ends]
        numbers_at = 0
        if isinstance(column, Chosen):
            numbers = np.ascontiguousarray(column.numbers, np.int64)
            alive.append(numbers)
            numbers_at = _address(numbers)
        rows.append((_address(data), _address(ends), len(ends), numbers_at))
    described[:] = rows
    yield
    alive.clear()


def _address(array: NDArray[np.generic]) -> int:
    """Return where an array begins: `array.ctypes.data` in a fifth of its time."""
    address: int = array.__array_interface__["data"][0]
    return address
