"""Times on the wire."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.fields import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN, TimestampError, format_timestamp, parse_timestamp

TIMES_MS = st.integers(TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)


@given(TIMES_MS)
@example(TIMESTAMP_MS_MIN)
@example(TIMESTAMP_MS_MAX)
def test_a_time_survives_writing_and_reading(timestamp_ms: int) -> None:
    """format_timestamp and parse_timestamp are each other's inverse, and say what the standard library says."""
    text = format_timestamp(timestamp_ms)
    assert parse_timestamp(text) == timestamp_ms
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.integers(86_400_000, TIMESTAMP_MS_MAX - 86_400_000), st.integers(-1439, 1439))
def test_an_offset_is_taken_off(timestamp_ms: int, offset_minutes: int) -> None:
    """The same moment written in any time zone is the same time."""
    zone = timezone(timedelta(minutes=offset_minutes))
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)).astimezone(zone)
    assert parse_timestamp(moment.isoformat(timespec="milliseconds")) == timestamp_ms


@given(st.text() | st.from_regex(r"[0-9]{4,5}-[0-9]{2}-[0-9]{2}(T[0-9:.Z+-]*)?", fullmatch=True))
@example("2024-05-01T12:00:00Z\n")
@example("٢٠٢٤-05-01T12:00:00Z")
@example("2024-02-30T12:00:00Z")
@example("2024-05-01T12:00:00+99:99")
def test_any_text_is_a_time_or_a_timestamp_error(text: str) -> None:
    """Nothing else comes out, and a time that is taken lies within the bounds."""
    with contextlib.suppress(TimestampError):
        assert TIMESTAMP_MS_MIN <= parse_timestamp(text) <= TIMESTAMP_MS_MAX


@pytest.mark.parametrize(
    ("text", "out_of_range", "says"),
    [
        ("2024-05-01", False, "a date without a time of day"),
        ("2024-05-01T12:00:00", False, "a time without an offset: add Z"),
        ("0000-01-01T00:00:00Z", True, "between 1970-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00Z", True, "between 1970"),
        ("1969-12-31T23:59:59.999Z", True, "between 1970"),
        ("1970-01-01T00:00:00+00:01", True, "between 1970"),
        ("9999-12-31T23:59:59-00:01", True, "between 1970"),
        ("99999-01-01T00:00:00Z", True, "between 1970"),
        ("+12024-01-01T00:00:00Z", True, "between 1970"),
        ("2024-13-01T00:00:00Z", False, "month"),
        ("20240501120000", False, "not an ISO 8601 date-time"),
        ("yesterday", False, "write it like 2024-05-01T12:00:00Z"),
        ("", False, "not an ISO 8601 date-time"),
        ("2024-05-01T12:00:00Z" * 100_000, False, "not an ISO 8601 date-time"),
    ],
)
def test_a_refusal_names_the_rule(text: str, out_of_range: bool, says: str) -> None:
    """The error tells a date out of bounds from a text that is no date, and says what to write instead."""
    with pytest.raises(TimestampError) as caught:
        parse_timestamp(text)
    assert caught.value.out_of_range is out_of_range
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_is_finer_than_a_millisecond_is_cut() -> None:
    """Nine digits, as in a WARC-Date, are read; the time is never rounded up into the next second."""
    assert parse_timestamp("1970-01-01T00:00:01.999999999Z") == 1_999
    assert parse_timestamp("1970-01-01T00:01Z") == 60_000
