"""Columns of JSON text equal their plain definitions, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields import TimestampError, format_timestamp, parse_timestamp
from worker.core.kernels.documents import NO_TIME, UNREAD
from worker.log.columns import (
    BYTES_BITS,
    PLACE,
    ChunkedColumn,
    TextPairs,
    anonymous,
    bytes_column,
)
from worker.log.record import TIME_MS_MAX, TIME_MS_MIN
from worker.log.texts import Texts
from worker.shell.messages import decode_documents
from worker.shell.messages.json_columns import (
    FIELD,
    Chosen,
    decimals,
    equal,
    filled,
    hexadecimals,
    inside,
    insides,
    spread,
    timestamps,
)

TEXTS = st.lists(st.binary(max_size=70), max_size=12)
# Hypothesis wants bounds without a time zone.
FIRST = datetime(1960, 1, 1)  # noqa: DTZ001
LAST = datetime(9999, 12, 31)  # noqa: DTZ001
TIMES_MS = st.integers(TIME_MS_MIN, TIME_MS_MAX) | st.sampled_from([TIME_MS_MIN, -1, 0])


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 1_000), max_size=20))
def test_decimals_are_as_python_writes_them(values: list[int]) -> None:
    """Of any size, and 0 has a digit."""
    assert decimals(np.array(values, np.int64)).tolist() == [b"%d" % value for value in values]


def test_a_decimal_below_zero_is_refused() -> None:
    """The kernel would write anything."""
    with pytest.raises(ValueError, match="not below zero, got -1"):
        decimals(np.array([3, -1]))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_hexadecimals_have_sixteen_digits(values: list[int]) -> None:
    """As Python writes them."""
    column = hexadecimals(np.array(values, np.uint64))
    assert column.tolist() == [b"%016x" % value for value in values]


@given(st.lists(TIMES_MS, max_size=20))
def test_times_are_as_the_schema_writes_them(times_ms: list[int]) -> None:
    """In all years, leap days and those before 1970 included."""
    column = timestamps(np.array(times_ms, np.int64))
    assert column.tolist() == [format_timestamp(time_ms).encode() for time_ms in times_ms]


def test_each_day_of_four_centuries_is_written_and_read() -> None:
    """A cycle of the calendar, and what is written of it is read again by the kernel."""
    days = np.arange(146_098, dtype=np.int64) * 86_400_000 + 12_345_678
    column = timestamps(days).tolist()
    for day in range(0, len(days), 997):
        assert column[day].decode() == format_timestamp(int(days[day]))
    value = b'{"url":"u","text":"","fetched_at":"%b"}'
    assert (decode_documents([value % time for time in column]).times_ms == days).all()


@pytest.mark.parametrize("time_ms", [TIME_MS_MIN - 1, TIME_MS_MAX + 1])
def test_a_time_of_another_year_is_refused(time_ms: int) -> None:
    """It has no four digits."""
    with pytest.raises(ValueError, match="times lie between"):
        timestamps(np.array([0, time_ms]))


DAMAGE = st.tuples(st.integers(0, 23), st.sampled_from("0123456789-:.TZ+ a"))


@given(
    st.datetimes(FIRST, LAST),
    st.integers(0, 9),
    st.lists(DAMAGE),
)
def test_a_time_is_read_as_the_schema_reads_it(
    time: datetime, digits: int, damage: list[tuple[int, str]]
) -> None:
    """Whether the kernel reads it or leaves it; a text that is no time is not read."""
    fraction = f".{time.microsecond:06}000"[: digits + 1] if digits else ""
    text = list(time.replace(tzinfo=UTC).isoformat()[:19] + fraction + "Z")
    for place, character in damage[:2]:
        text[min(place, len(text) - 1)] = character
    written = "".join(text)
    found = decode_documents([b'{"url":"u","text":"","fetched_at":"%b"}' % written.encode()])
    try:
        expected = parse_timestamp(written)
    except TimestampError:
        assert found.kinds[0] == UNREAD
    else:
        assert found.times_ms[0] == expected != NO_TIME


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 2)), max_size=12), TEXTS)
def test_a_template_is_filled_row_by_row(
    rows: list[tuple[bytes, int]], constants: list[bytes]
) -> None:
    """What stands between the fields, an own text per row, and one of some words."""
    words = Texts.of([b"", b"one", b"another word that is longer than a vector of bytes"])
    first, second, third = (*constants, b"a", b"", b"c")[:3]
    pieces = [piece.replace(FIELD, b"") for piece in (first, second, third)]
    column = Texts.of([text for text, _ in rows])
    numbers = np.array([number for _, number in rows], np.int64)
    column_of_words = Chosen(words, numbers)
    assert filled(FIELD.join(pieces), [column, column_of_words]).tolist() == [
        pieces[0] + text + pieces[1] + words[number] + pieces[2] for text, number in rows
    ]


def test_columns_that_do_not_fit_are_refused() -> None:
    """Kernels check no bounds."""
    texts = Texts.of([b"a", b"b"])
    with pytest.raises(ValueError, match="has 1 fields, got 2"):
        filled(b"\0", [texts, texts])
    with pytest.raises(ValueError, match="of one length"):
        filled(b"\0\0", [texts, Texts.of([b"a"])])
    with pytest.raises(ValueError, match="of one length"):
        equal(texts, Texts.of([b"a"]))
    for number in (-1, 2):
        with pytest.raises(ValueError, match="that of no text"):
            filled(b"\0", [Chosen(texts, np.array([0, number]))])
        with pytest.raises(ValueError, match="that of no text"):
            equal(texts, Chosen(texts, np.array([0, number])))


@given(TEXTS, st.data())
def test_texts_are_equal_if_their_bytes_are(texts: list[bytes], data: st.DataObject) -> None:
    """Of any size."""
    others = [data.draw(st.sampled_from([text, text + b"x", text[:-1] + b"y"])) for text in texts]
    found = equal(Texts.of(texts), Texts.of(others)).tolist()
    assert found == [text == other for text, other in zip(texts, others, strict=True)]


@given(st.lists(st.none() | st.binary(min_size=1, max_size=9), max_size=12))
def test_spread_texts_stand_at_their_places(texts: list[bytes | None]) -> None:
    """And nothing stands between them."""
    places = np.flatnonzero([text is not None for text in texts])
    column = spread(Texts.of([text for text in texts if text]), places, len(texts))
    assert column.tolist() == [text or b"" for text in texts]


@given(st.lists(st.text(max_size=70) | st.sampled_from(["é" * 40 + '"', "\x1f", "퟿", "\ud800"])))
def test_what_is_special_in_json_is_escaped(texts: list[str]) -> None:
    """Wherever it stands; a column without any is not copied."""
    column = Texts.of([text.encode("utf-8", "surrogatepass") for text in texts])
    written = [inside(text) for text in texts]
    assert insides(column).tolist() == written
    if all(text.isascii() and inside(text) == text.encode() for text in texts):
        assert insides(column) is column


def test_texts_of_originals_are_taken_across_chunks() -> None:
    """A text may lie in two chunks, or in more."""
    places: ChunkedColumn[Any] = ChunkedColumn(PLACE)
    pairs = TextPairs(places, bytes_column(anonymous))
    sizes = (5, 0, (1 << BYTES_BITS) + 7, 3, 2 << BYTES_BITS, 1)
    doc_ids = [b"%d" % number * size for number, size in enumerate(sizes)]
    urls = [b"u%d" % number for number in range(len(sizes))]
    places.append(pairs.append(Texts.of(doc_ids), Texts.of(urls)))
    rows = np.array([5, 2, 4, 0, 2, 1, 3])
    taken = pairs.take(rows)
    assert taken[0].tolist() == [doc_ids[row] for row in rows.tolist()]
    assert taken[1].tolist() == [urls[row] for row in rows.tolist()]
    with pytest.raises(IndexError, match="rows must lie in"):
        pairs.take(np.array([len(sizes)]))
