"""
Reads captures from WARC, WET and ARC. Responses of status 2xx, resources and conversions are pages;
other records are left out.

    response     200..299: the body, decoded. Redirects, errors and "not modified" carry no article.
    resource     its content as it is
    conversion   the text of a WET file
    revisit      left out: it says that an earlier content was met again, and has none itself
    warcinfo, request, metadata, continuation, …   left out

A header of WARC is read as ISO 28500 has it: names in any case, lines that are folded, and CR LF at
the end of each. It begins with a version line, ends with an empty line, and has at most
HEADERS_BYTES_MAX bytes. If a second version line, a line of blanks or a field twice stands in it,
it may be the header of two records. Then its length is not trusted, and reading goes on at the next
version line.

ARC is the format before WARC, which archives still hold in billions:

    http://example.com/ 93.184.216.119 20140216050221 text/html 1591   version 1: five fields
    HTTP/1.1 200 OK …                                                 1,591 bytes, then a newline

Version 2 has more fields between the type and the length. A URL may hold spaces, and so may a type:
the last field of 14 digits or more is the date, and shows where URL and type end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from schemas.fields import TIMESTAMP_MS_MAX
from worker.core.charset import claimed_codec
from worker.core.extract import agreed_type, is_prose
from worker.errors import StopError
from worker.shell.files.archives import Capture, Damage, Entry, Omission, Record
from worker.shell.files.archives.budget import Budget
from worker.shell.files.archives.http import (
    HEADERS_BYTES_MAX,
    LENGTH,
    BodyTooLargeError,
    Response,
    behind_body,
    decoded_body,
    parse_response,
)
from worker.shell.files.archives.inflate import HISTORY_BYTES_MAX, Segment

_LINE_BYTES_MAX = 16 << 10  # of ARC
_HEAD_BYTES = 4 << 10  # of the header of a record, mostly
# A literal at the beginning makes a search fast.
_HEADERS_END = re.compile(rb"\n\r?\n")
# Blocks of tapes and tar files are filled up with NUL.
_WARC_START = re.compile(rb"WARC/(?:(?<=[\n\0]WARC/)|(?<=\AWARC/))\d\.\d+[ \t]*\r?\n")
_ARC_START = re.compile(
    rb"(?:(?<=\n)|\A)(?:https?|ftp|dns|filedesc)://?\S[^\n]{0,900} \d{14,} [^\n]{1,80}(?=\n)"
)
_WARC_LINE = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n")
# In a header: the version line of the next record, at the end of a line that was cut in its name.
_SECOND_WARC_LINE = re.compile(rb"\n[^:\n]*WARC/\d\.\d+[ \t]*\r?\n")
_BLANK_LINE = re.compile(rb"\n[ \t]+\r?\n")
_FOLD = re.compile(rb"\r\n[ \t]+")  # the line goes on
_ESCAPED = re.compile("[\ud800-\udfff]")
_LINE_ENDS = re.compile(rb"[\r\n]++")
_BLANKS = re.compile(rb"[ \t\r\n]++")
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_HOLE = (
    "its header is that of two records, or has a hole: bytes between are lost, so copy the archive "
    "again"
)
_PAGE_SCHEMES = ("http", "https", "ftp", "file")
_PAGE_TYPES = ("response", "resource", "conversion")
_TYPES = (*_PAGE_TYPES, "warcinfo", "request", "metadata", "revisit", "continuation")
# ISO 28500 lets only WARC-Concurrent-To stand more than once. Crawlers repeat fields of their own
# (Common Crawl: WARC-Protocol), so these are the ones that most records have.
_SINGLE_FIELDS = (
    "content-length",
    "content-type",
    "warc-block-digest",
    "warc-date",
    "warc-payload-digest",
    "warc-record-id",
    "warc-target-uri",
    "warc-type",
)


class _NoPageError(Exception):
    """The record is not a page, by a rule. The text is the reason, in kebab-case."""


class _CutShortError(Exception):
    """A record has fewer bytes than it says."""


class _NoRecordError(Exception):
    """No record begins here, or one whose length is unknown. The text is the reason."""


def _entry(file: str, offset: int, read: Callable[..., Capture], *record: Any) -> Entry:
    """
    Return the page in a record, or why it is left out, or what is wrong with it. Damage costs this
    record alone.
    """
    try:
        capture = read(*record)
        return Record(file, offset, capture.doc_id.encode(), capture)
    except _NoPageError as rule:
        return Omission(file, offset, str(rule))
    except StopError:
        raise
    except Exception as error:  # any error
        return Damage(file, offset, str(error) or type(error).__name__)


def _text_of(data: bytes) -> str:
    """
    Return a line of an archive. A byte that is not UTF-8 is written as browsers write it in a URL,
    so that two URLs do not become one.

    >>> _text_of(b"http://a/\\xfc"), _text_of(b"http://a/\\xc3\\xbc")
    ('http://a/%FC', 'http://a/ü')
    """
    text = data.decode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text)


def _check_url(url: str) -> None:
    """Archives hold DNS answers and crawlers' own logs too."""
    if not url:
        raise ValueError("a record without a URL")
    if not _SCHEME.match(url):
        raise ValueError(f"its URL is {url[:80]!r}, without a scheme such as https:")
    if url.partition(":")[0].lower() not in _PAGE_SCHEMES:
        raise _NoPageError("not-a-page")


def _check_end(response: Response) -> None:
    """
    Raise ValueError if another record begins where the body ends by its headers.

    The record's length then reaches over the next one. Reading does not go on there: a server can
    write any headers, so it could make a record of a part of its page.
    """
    behind = behind_body(response).lstrip(b"\r\n")
    if _WARC_START.match(behind) or _ARC_START.match(behind):
        raise ValueError(
            f"its length reaches {len(behind):,} bytes too far, over the beginning of another "
            "record: write the archive again"
        )


def _capture(
    url: str, fetched_at_ms: int, response: Response, content_type: str | None, body_max: int
) -> Capture:
    """Return the page in a response; a ValueError says how it is damaged."""
    _check_end(response)
    if response.status is not None and not 200 <= response.status <= 299:
        raise _NoPageError(f"status-{response.status}")
    if not is_prose(content_type):
        raise _NoPageError("unsupported-content-type")
    if fetched_at_ms > TIMESTAMP_MS_MAX:  # no message could write it
        raise ValueError("its date lies behind the year 9999")
    try:
        body = decoded_body(response, body_max)
    except BodyTooLargeError:
        raise _NoPageError("body-too-large") from None
    return Capture(url, fetched_at_ms, body, content_type)


# ---- WARC


class _WarcRecord(NamedTuple):
    """A record: its header, the beginning of its content, and where these are in the segment."""

    start: int
    offset: int  # in the file
    head: bytes
    headers: dict[str, str]  # by lower-case names
    length: int  # of the content, as the header says
    block: bytes
    content: int
    end: int  # of the content that there is

    @property
    def type(self) -> str:
        """The type, in lower case; "unknown" if ISO 28500 has no such type."""
        name = self.headers.get("warc-type", "").lower()
        return name if name in _TYPES else "unknown"


def read_warc(
    file: str,
    segment: Segment,
    body_max: int,
    budget: Budget,
    *,
    whole: bool = False,
    default_ms: int | None = None,
) -> Iterator[Entry]:
    """
    Yield the entries of one segment. Behind a damaged record, reading goes on at the next line that
    begins one.

    It does not behind a page that is cut short. That is mostly the last one of a file that was cut,
    so its server could make a record of a part of it.

    Args:
        budget: pays for what is read again, and for damage that is not reported, because it stands
            behind other damage.
        default_ms: fetch time of a page without one that can be read; None: it is damaged.
    """
    start: int | None = 0
    is_damaged = False
    while start is not None:
        offset: int | None = None  # of the last record
        behind = 0  # where the next one is looked for, if none follows it
        try:
            for record in _records(segment, body_max + HEADERS_BYTES_MAX):
                offset = record.offset
                behind = record.start + 1
                is_damaged = False
                found = _entry(file, offset, _capture_of_warc, record, body_max, default_ms)
                _check_whole(record)
                if isinstance(found, Record):
                    behind = record.end  # not within the page: it may quote a record
                    found = _with_raw(found, segment, record, whole=whole)
                is_damaged = isinstance(found, Damage)
                yield found
        except _CutShortError as error:
            if segment.problem is not None:  # which is reported separately
                return
            reason = str(error)
            if record.type in _PAGE_TYPES:
                yield Damage(file, record.offset, reason, ends_file=True)
                return
        except _NoRecordError as error:
            reason = str(error)
        else:
            return
        end = segment.tell()
        if _WARC_LINE.match(segment.peek(_HEAD_BYTES)):  # the header of this one is wrong
            offset = None
            is_damaged = False
        if offset is None:
            offset = segment.offset_of(end)
            behind = end + 1
        # The next record may begin within a line that was cut.
        start = segment.go_to_next(_WARC_LINE if reason == _HOLE else _WARC_START, behind)
        budget.take_again(max(end - segment.tell(), 0))
        if not is_damaged and (segment.problem is None or start is not None):
            yield Damage(file, offset, reason)
        else:
            budget.take_damaged()
        is_damaged = True


def _records(segment: Segment, block_max: int) -> Iterator[_WarcRecord]:
    """
    Yield the records of a segment, with at most `block_max` bytes of their content.

    A record stays in memory up to the header of the next one, if it is not too long.

    Raises:
        _NoRecordError: no record begins where the last one has ended, or its header is damaged.
    """
    is_first = True
    while True:
        segment.skip(_BLANKS)
        start = segment.tell()
        head = _head_of(segment, is_first=is_first)
        if not head:
            return
        headers = _headers_of(head)
        try:
            length = _length(headers.get("content-length", ""), "Content-Length")
        except ValueError as error:
            raise _NoRecordError(str(error)) from None
        segment.forget(start)
        offset = segment.offset_of(start)
        segment.take(len(head))
        content = segment.tell()
        block = _content(segment, length, block_max)
        end = segment.tell()
        yield _WarcRecord(start, offset, head, headers, length, block, content, end)
        is_first = False


def _head_of(segment: Segment, *, is_first: bool) -> bytes:
    """
    Return the header that begins here, with the empty line behind it; nothing at the end.

    Args:
        is_first: no record stands before this one. Otherwise damage is reported of the one before.
    Raises:
        _NoRecordError: there is none, or it has no end.
    """
    for size in (_HEAD_BYTES, HEADERS_BYTES_MAX):
        data = segment.peek(size)
        if data and not _WARC_LINE.match(data):
            if not is_first:
                raise _NoRecordError(
                    f"{data[:20]!r} stands behind this record, and no other record: its length is "
                    "too small, or bytes were put there: write the archive again"
                )
            reason = f"{data[:20]!r} stands where a WARC record should begin"
            if not segment.offset_of(0):
                reason += (
                    ": the file begins with no record of WARC. If it is none, its name is wrong"
                )
            raise _NoRecordError(reason)
        end = _HEADERS_END.search(data)
        if end is not None or not data:
            return data[: end.end()] if end else b""
    reason = f"has more than {HEADERS_BYTES_MAX:,} bytes, the most that are read"
    if len(data) < HEADERS_BYTES_MAX:
        reason = "is cut short"
    raise _NoRecordError(f"the header of the record {reason}")


def _headers_of(head: bytes) -> dict[str, str]:
    r"""
    Return the values in a header by their names, in lower case. Of a name that occurs twice, the
    last one counts.

    Raises:
        _NoRecordError: it may be that of two records, or end earlier. Its length may be wrong.

    >>> _headers_of(b"WARC/1.0\r\nwarc-type: re\r\n source\r\n\r\n")
    {'warc-type': 're source'}
    """
    if _BLANK_LINE.search(head):  # which may be meant as its end
        raise _NoRecordError(
            "a line of its header holds nothing but blanks: write the archive again"
        )
    lines = [line.partition(":") for line in _text_of(_FOLD.sub(b" ", head)).split("\n")]
    fields = [
        (name.strip(" \t\r").lower(), value.strip(" \t\r")) for name, _, value in lines if value
    ]
    headers = dict(fields)
    if len(headers) < len(fields):
        names = [name for name, _ in fields]
        if any(names.count(name) > 1 for name in _SINGLE_FIELDS):
            raise _NoRecordError(_HOLE)
    if _SECOND_WARC_LINE.search(head):
        raise _NoRecordError(_HOLE)
    return headers


def _content(segment: Segment, length: int, block_max: int) -> bytes:
    """Take the content of a record, as far as it goes, and return its beginning."""
    block = bytearray()
    left = length
    while left and (data := segment.read(min(left, 1 << 20))):
        left -= len(data)
        if len(block) < block_max:
            block += data
    return bytes(block)


def _check_whole(record: _WarcRecord) -> None:
    """
    Raise _CutShortError if a record says that it has more bytes than there are.

    Its file is cut, or its length is wrong: that of a request, too, reaches over pages behind it.
    """
    have = record.end - record.content
    if have < record.length:
        raise _CutShortError(
            f"the record is cut short: {have:,} of {record.length:,} bytes. If there are more "
            "records, its length is wrong: write the archive again"
        )


def _with_raw(found: Record, segment: Segment, record: _WarcRecord, *, whole: bool) -> Entry:
    """
    Return a page, if it is to be `whole` with its record as it stands: header, content, and the two
    line ends behind it. A record that may not be in memory any more is damage, whether it is copied
    or not: all who read a file must find the same in it.
    """
    if record.end - record.start > HISTORY_BYTES_MAX:
        reason = f"the record has more than {HISTORY_BYTES_MAX:,} bytes: write the archive again"
        return Damage(found.file, found.offset, reason)
    if not whole:
        return found
    raw = segment.held(record.start, record.end - record.start) + b"\r\n\r\n"
    return found._replace(raw=raw)


def _capture_of_warc(record: _WarcRecord, body_max: int, default_ms: int | None) -> Capture:
    """Return the page in a record; a ValueError says how it is damaged."""
    lines = record.head.partition(b"\n")[2]
    if lines.count(b"\n") != lines.count(b"\r\n"):
        raise ValueError("a line of its header ends with LF alone: end each with CR LF")
    if b"\0" in lines:
        raise ValueError(_HOLE)
    headers = record.headers
    if not headers.get("warc-type"):
        raise ValueError("a record without WARC-Type")
    if record.type not in _PAGE_TYPES:
        raise _NoPageError(record.type)
    url = headers.get("warc-target-uri", "").strip().removeprefix("<").removesuffix(">")
    _check_url(url)
    block = record.block
    content_type = headers.get("content-type")
    response = Response(None, {}, block)
    if record.type == "response":
        response = parse_response(block)
        content_type = agreed_type(
            response.headers.get("content-type"), headers.get("warc-identified-payload-type")
        )
    language = headers.get("warc-identified-content-language")
    fetched_at_ms = _fetched_at_ms(headers.get("warc-date"), response, default_ms)
    return _capture(url, fetched_at_ms, response, content_type, body_max)._replace(
        payload_digest=headers.get("warc-payload-digest"),
        language=language
        if language and "," not in language
        else None,  # "eng,fra" names none for the whole page
        is_text=record.type == "conversion"
        and (content_type or "").startswith("text/plain")
        and _is_utf_8(block, content_type),
    )


def _is_utf_8(block: bytes, content_type: str | None) -> bool:
    """
    Return whether a text is UTF-8, as in every WET file. Of any other, the worker finds the charset
    as for a page.
    """
    if claimed_codec(None, content_type) not in (None, "utf-8"):
        return False
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _length(digits: str, name: str) -> int:
    """Return a length as it is written; a ValueError names it if it is none."""
    if not LENGTH.fullmatch(digits):
        raise ValueError(f"{name} is {digits[:20]!r}, not a number of at most 18 digits")
    return int(digits)


def _date_of(text: str) -> datetime | None:
    """
    Return the date that a text of ISO 8601 says, None if it says none.

    WARC 1.1 allows one that is less precise than to the second. Without a zone it is UTC, as
    everywhere. A leap second, which Python does not know, is the second before.

    >>> _date_of("2024-05").isoformat(), _date_of("May 2024")
    ('2024-05-01T00:00:00+00:00', None)
    >>> _date_of("2016-12-31T23:59:60Z").isoformat()
    '2016-12-31T23:59:59+00:00'
    """
    text = text.strip()
    if len(text) < len("2024-05-01"):
        text = f"{text}-01-01"[: len("2024-05-01")]
    second = len("2016-12-31T23:59:")
    if text[second - 1 : second + 2] == ":60":
        text = f"{text[:second]}59{text[second + 2 :]}"
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _fetched_at_ms(written: str | None, response: Response, default_ms: int | None) -> int:
    """Return WARC-Date; where that is no date the server's, and where there is none the default."""
    date = _date_of(written or "")
    fetched_at_ms = -1 if date is None else int(date.timestamp() * 1_000)
    is_far = fetched_at_ms > TIMESTAMP_MS_MAX and default_ms is not None
    if fetched_at_ms >= 0 and not is_far:
        return fetched_at_ms
    try:
        served_at = parsedate_to_datetime(response.headers.get("date", ""))
        return max(0, int(served_at.timestamp())) * 1_000
    except (ValueError, OverflowError, TypeError):
        if default_ms is not None:
            return default_ms
        raise ValueError(
            f"WARC-Date {written!r} is no date of ISO 8601 from 1970 on, and there is no HTTP "
            "date: give one with --fetched-at"
        ) from None


# ---- ARC


def read_arc(
    file: str,
    segment: Segment,
    body_max: int,
    budget: Budget,
    *,
    default_ms: int | None = None,
) -> Iterator[Entry]:
    """
    Yield the entries of one segment. Behind a damaged record, reading goes on at the next line that
    begins one.

    Args:
        budget: as of `read_warc`.
        default_ms: fetch time of a page whose digits are no date; None: it is damaged.
    """
    is_damaged = False
    while True:
        segment.skip(_LINE_ENDS)
        position = segment.tell()
        segment.forget(position)
        line = segment.peek(_LINE_BYTES_MAX).partition(b"\n")[0]
        if not line:
            return
        offset = segment.offset_of(position)
        try:
            *fields, length = _parse_line(_text_of(line).rstrip())
            segment.take(len(line) + 1)
            block = _block_of_arc(segment, length, body_max)
        except StopError:
            raise
        except Exception as error:
            if not is_damaged and (segment.problem is None or "cut short" not in str(error)):
                yield Damage(file, offset, str(error))
            else:
                budget.take_damaged()
            is_damaged = True
            if segment.go_to_next(_ARC_START, position + 1) is None:
                return
        else:
            is_damaged = False
            yield _entry(file, offset, _capture_of_arc, *fields, block, body_max, default_ms)


def _parse_line(line: str) -> tuple[str, str, str, int]:
    """
    Return URL, date, type and length in a record's line; a ValueError says what is wrong with it.
    """
    if "\0" in line:
        raise ValueError(_HOLE)
    *parts, digits = line.split(" ")
    length = _length(digits, "the length of an ARC record")
    # The last field that can be a date: blanks in a URL make fields of it.
    for date in range(len(parts) - 1, 1, -1):
        if len(parts[date]) >= 14 and parts[date].isdigit():
            url = " ".join(parts[: date - 1])
            content_type = "".join(parts[date + 1 : date + 2])
            if not _SCHEME.match(url):
                break
            return url, parts[date], content_type, length
    raise ValueError(f"not a line of ARC, with a URL and a date of 14 digits: {line[:80]!r}")


def _block_of_arc(segment: Segment, length: int, body_max: int) -> bytes:
    """Take a record's content, of an overlong one return the beginning."""
    begin = segment.tell()
    block = _content(segment, length, body_max + HEADERS_BYTES_MAX)
    taken = segment.tell() - begin
    if taken < length and not _is_whole(block):
        raise ValueError(f"the record is cut short: {taken:,} of {length:,} bytes")
    return block


def _is_whole(block: bytes) -> bool:
    """
    Return whether a response has all the bytes that it promises, and no others.

    The record's length may count line ends that a copy has lost. A body that is longer than it
    promises, because the crawler has unpacked it, may have had any length.
    """
    response = parse_response(block)
    length = response.headers.get("content-length", "")
    if not LENGTH.fullmatch(length) or len(response.body) < int(length):
        return False
    return not behind_body(response).strip(b"\r\n")


def _capture_of_arc(  # the fields of its line, and what is asked
    url: str, date: str, content_type: str, block: bytes, body_max: int, default_ms: int | None
) -> Capture:
    if url.startswith("filedesc:"):
        raise _NoPageError("filedesc")
    _check_url(url)
    response = parse_response(block)
    try:  # some writers add more digits
        fetched_at = datetime.strptime(date[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        fetched_at_ms = int(fetched_at.timestamp()) * 1_000
    except ValueError:
        if default_ms is None:
            raise ValueError(
                f"the date of an ARC record is {date[:20]!r}: give one with --fetched-at"
            ) from None
        fetched_at_ms = default_ms
    content_type = agreed_type(response.headers.get("content-type"), content_type) or content_type
    return _capture(url, fetched_at_ms, response, content_type, body_max)
