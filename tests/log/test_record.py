"""Records of the log: what goes in comes out, nothing else comes out, and damage is named."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import plain, unpack
from worker.errors import RecordError
from worker.log.record import (
    ROWS_MAX,
    TIME_MS_MAX,
    TIME_MS_MIN,
    Author,
    Row,
    RowKind,
    Rows,
    Section,
    Source,
    decode,
    encode,
    record_ends,
    row_count,
)

AUTHOR = Author("worker-α", "nd1", 0xFEDCBA9876543210)
TOPIC = bytes(range(16))

texts = st.text(max_size=20)
u64 = st.integers(0, 2**64 - 1)


@st.composite
def sections(draw: st.DrawFn) -> list[Section]:
    """Some sections of different partitions, with gaps between their rows."""
    made = []
    for partition in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, 2**40))
        offsets = sorted(draw(st.sets(st.integers(0, 50), max_size=12)))
        kinds, times, u32, u512 = (
            st.sampled_from(RowKind), st.integers(TIME_MS_MIN, TIME_MS_MAX),
            st.integers(0, 2**32 - 1), st.integers(0, 2**512 - 1),
        )  # fmt: skip
        rest = st.tuples(kinds, texts, texts, times, u64, u64, u32, texts, u64, u512, u64)
        rows = [Row(first + offset, *draw(rest)) for offset in offsets]
        stop = first + (offsets[-1] + 1 if offsets else 0) + draw(st.integers(0, 3))
        made.append(
            Section(
                Source(TOPIC, partition), first, stop, draw(st.integers(-1, 2**40)), Rows.of(rows)
            )
        )
    return made


@given(sections(), st.integers(200, 1500) | st.just(1 << 20))
def test_a_cut_section_covers_each_offset_once(made: list[Section], record_bytes_max: int) -> None:
    """
    However small the records, their ranges join without gap or overlap, and the rows come back in
    their order.
    """
    records = list(encode(AUTHOR, made, record_bytes_max))
    assert {decode(record).author for record in records} == {AUTHOR}
    assert [row_count(record) for record in records] == [len(decode(record)) for record in records]
    parts = [section for record in records for section in unpack(record)]
    for section in made:
        mine = [part for part in parts if part.source == section.source]
        assert [row for part in mine for row in part.rows] == list(section.rows)
        assert (mine[0].first, mine[-1].stop) == (section.first, section.stop)
        assert {part.committed for part in mine} == {section.committed}
        assert all(a.stop == b.first for a, b in itertools.pairwise(mine))
        assert all(part.first <= row.offset < part.stop for part in mine for row in part.rows)
    worst = max(
        len(r.doc_id + r.url + r.note) * 4 for s in made for r in [*s.rows, Row(0, 0, "", "", 0)]
    )
    assert all(len(record) <= max(record_bytes_max, worst + 400) for record in records)


@given(sections(), st.integers(200, 1500) | st.just(1 << 20))
def test_the_rows_of_each_record_of_a_section_are_known_without_encoding_it(
    made: list[Section], record_bytes_max: int
) -> None:
    """However small the records are."""
    for section in made:
        if len(section.rows):
            records = [decode(data) for data in encode(AUTHOR, [section], record_bytes_max)]
            ends = [*itertools.accumulate(map(len, records))]
            assert record_ends(AUTHOR, section.rows, record_bytes_max) == ends


def test_sections_without_rows_fill_records_too() -> None:
    """
    A range that only covers offsets has its bytes: many of them are cut into records within the
    limit.
    """
    made = [Section(Source(TOPIC, partition), 0, 5, -1, Rows.of([])) for partition in range(100)]
    records = list(encode(AUTHOR, made, 500))
    assert plain(section for record in records for section in unpack(record)) == plain(made)
    assert max(map(len, records)) <= 500


@given(sections(), st.data())
def test_a_record_cut_or_lengthened_anywhere_is_refused(
    made: list[Section], data: st.DataObject
) -> None:
    """No prefix of a record is taken for one, nor a record with bytes behind it."""
    record = b"".join(encode(AUTHOR, made, 1 << 20))
    with pytest.raises(RecordError):
        decode(record[: data.draw(st.integers(0, len(record) - 1))])
    with pytest.raises(RecordError):
        decode(record + b"\0")
    with pytest.raises(
        RecordError, match="not a record of neardup's log: it starts with b'\\[NDL'"
    ):
        decode(b"[" + record)


@pytest.mark.parametrize("number", [1, 2, 9])
def test_another_format_is_named(number: int) -> None:
    """A record of a later or a much earlier version is refused with both formats."""
    record = bytearray(
        next(encode(AUTHOR, [Section(Source(TOPIC, 0), 0, 0, -1, Rows.of([]))], 1000))
    )
    record[4] = number
    with pytest.raises(RecordError, match=rf"format {number}, this version reads 4$") as refusal:
        decode(bytes(record))
    assert refusal.value.record_format == number


@given(st.binary(max_size=300))
def test_any_bytes_are_a_record_or_a_stop(data: bytes) -> None:
    """Bytes from outside never raise anything but RecordError."""
    with pytest.raises(RecordError):
        decode(b"NDLG\x03\x00" + data)
    assert 0 <= row_count(b"NDLG\x03\x00" + data) <= ROWS_MAX
    assert row_count(b"{" + data) == 0
