"""
ARC -> captures: the format before WARC, which archives still hold in billions.

    http://example.com/ 93.184.216.119 20140216050221 text/html 1591        version 1: five fields
    HTTP/1.1 200 OK …                                                      1,591 bytes, then a newline

Version 2 has more fields between the type and the length. A URL may hold spaces, and so may a type: the last field of
14 digits or more is the date, and tells where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from worker.errors import StopError
from worker.shell.files.archives.http_message import HEADERS_BYTES_MAX, parse_response
from worker.shell.files.archives.record import Capture, Damaged, Found, LeftOut, Record, message_of
from worker.shell.files.archives.segment import Segment
from worker.shell.files.archives.warc import capture_of_response, is_page

_LINE_BYTES_MAX = 16 << 10
_START = re.compile(rb"(?:(?<=\n)|\A)(?:https?|ftp|dns|filedesc)://?\S[^\n]{0,900} \d{14,} [^\n]{1,80}(?=\n)")


class _Line(NamedTuple):
    url: str
    date: str
    content_type: str
    length: int


def read_arc(file: str, segment: Segment, body_max: int) -> Iterator[Found]:
    """Return what one segment holds; behind a damaged record the reading goes on at the next line that begins one."""
    position: int | None = 0
    is_damaged = False
    while position is not None:
        position += _skip_blank_lines(segment)
        segment.forget(position)
        line = segment.peek(_LINE_BYTES_MAX).partition(b"\n")[0]
        if not line:
            return
        offset = segment.offset_of(position)
        try:
            parsed = _parse_line(line.decode("utf-8", "replace").rstrip())
            segment.take(len(line) + 1)
            block, taken = _block(segment, parsed.length, body_max)
        except StopError:
            raise
        except Exception as error:
            if not is_damaged and (segment.problem is None or "cut short" not in str(error)):
                yield Damaged(file, offset, str(error))
            is_damaged = True
            position = segment.go_to_next(_START, position + 1)
        else:
            position += len(line) + 1 + taken
            is_damaged = False
            yield _found(file, offset, parsed, block, body_max)


def _skip_blank_lines(segment: Segment) -> int:
    skipped = 0
    while segment.peek(1) in (b"\n", b"\r"):
        segment.take(1)
        skipped += 1
    return skipped


def _parse_line(line: str) -> _Line:
    """
    Return the fields of a record's line; a ValueError says what is wrong with it.

    >>> _parse_line("http://a.example/a b 1.2.3.4 20140216050221 text/html; charset=utf-8 12")
    _Line(url='http://a.example/a b', date='20140216050221', content_type='text/html;', length=12)
    """
    *parts, length = line.split(" ")
    if not length.isdigit():
        raise ValueError(f"the length of an ARC record is {length[:20]!r}, not a number")
    date = next((at for at in range(len(parts) - 1, 1, -1) if len(parts[at]) >= 14 and parts[at].isdigit()), None)
    if date is None:
        raise ValueError(f"not a line of ARC fields, with a date of 14 digits: {line[:80]!r}")
    return _Line(" ".join(parts[: date - 1]), parts[date], "".join(parts[date + 1 : date + 2]), int(length))


def _block(segment: Segment, length: int, body_max: int) -> tuple[bytes, int]:
    """Take a record's content, of an overlong one the beginning; and how many bytes it has."""
    block, taken = bytearray(), 0
    while taken < length:
        data = segment.read(min(length - taken, 1 << 20))
        if not data and _is_whole(bytes(block)):
            break
        if not data:
            raise ValueError(f"the record is cut short: {taken:,} of {length:,} bytes")
        taken += len(data)
        if len(block) < body_max + HEADERS_BYTES_MAX:
            block += data
    return bytes(block), taken


def _is_whole(block: bytes) -> bool:
    """Say whether a response has all that it promises: the record's length may count line ends that a copy has lost."""
    response = parse_response(block)
    length = response.headers.get("content-length", "")
    return length.isdigit() and len(response.body) >= int(length)


def _found(file: str, offset: int, line: _Line, block: bytes, body_max: int) -> Found:
    """Return the page in a record, why it is left out, or what is wrong with it."""
    try:
        if line.url.startswith("filedesc:"):
            return LeftOut(file, offset, "filedesc")
        if not is_page(line.url):
            return LeftOut(file, offset, "not-a-page")
        response = parse_response(block)
        content_type = response.headers.get("content-type") or line.content_type
        found = capture_of_response(line.url, _date_ms(line.date), response, content_type, body_max)
        return Record(file, offset, *message_of(found)) if isinstance(found, Capture) else LeftOut(file, offset, found)
    except Exception as error:  # whatever it is, it costs this record
        return Damaged(file, offset, str(error) or type(error).__name__)


def _date_ms(date: str) -> int:
    """Read 14 digits as a time; some writers add more digits."""
    try:
        return int(datetime.strptime(date[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()) * 1_000
    except ValueError:
        raise ValueError(f"the date of an ARC record is {date[:20]!r}") from None
