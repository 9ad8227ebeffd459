"""
WARC and WET -> captures. A response of status 2xx, a resource or a conversion is a page; the rest is left out.

    response     200..299: the body, decoded. Redirects, errors and "not modified" carry no article.
    resource     its content as it is
    conversion   the text of a WET file
    revisit      left out: it says that an earlier capture's content was met again, and has none itself
    warcinfo, request, metadata, continuation, …   left out
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, cast

from fastwarc.warc import ArchiveIterator, WarcRecordType

from worker.core.extract import is_prose
from worker.errors import StopError
from worker.shell.files.archives.http_message import (
    HEADERS_BYTES_MAX,
    BodyTooLargeError,
    Response,
    date_ms,
    decoded_body,
    parse_response,
)
from worker.shell.files.archives.record import Capture, Damaged, Found, LeftOut, Record, message_of
from worker.shell.files.archives.segment import Segment

_START = re.compile(rb"(?:(?<=\n)|\A)WARC/\d\.\d+\r?\n")
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_PAGE_SCHEMES = ("http", "https", "ftp", "file")
_PAGE_TYPES = (WarcRecordType.response, WarcRecordType.resource, WarcRecordType.conversion)


def read_warc(file: str, segment: Segment, body_max: int, *, whole: bool = False) -> Iterator[Found]:
    """Return what one segment holds; behind a damaged record the reading goes on at the next line that begins one."""
    start: int | None = 0
    is_damaged = False
    while start is not None:
        last: int | None = None  # the last record that was begun
        try:
            for record in ArchiveIterator(cast("BinaryIO", segment), parse_http=False, stream_detect=False):
                last = record.stream_pos
                segment.forget(last)
                found = _read_record(file, segment.offset_of(last), record, segment, body_max)
                if whole and isinstance(found, Record):
                    found = found._replace(raw=_raw(segment, last, record.content_length))
                is_damaged = isinstance(found, Damaged)
                if found is not None:
                    yield found
        except (GeneratorExit, KeyboardInterrupt, SystemExit, StopError):
            raise
        except BaseException as error:  # a panic of the parser (Rust) is no Exception
            reason = str(error) or type(error).__name__
        else:
            return
        failed = start if last is None else last
        offset = segment.offset_of(failed)
        start = segment.go_to_next(_START, failed + 1)
        if not is_damaged and (segment.problem is None or start is not None):
            yield Damaged(file, offset, reason if last is None else f"{reason} behind this record")
        is_damaged = True


def _read_record(file: str, offset: int, record: Any, segment: Segment, body_max: int) -> Found | None:
    """Return one record; None for one that the segment's own problem cuts short, which is reported with that."""
    try:
        found = _capture(record, body_max)
        return Record(file, offset, *message_of(found)) if isinstance(found, Capture) else LeftOut(file, offset, found)
    except StopError:
        raise
    except _CutShortError as error:
        return Damaged(file, offset, str(error)) if segment.problem is None else None
    except Exception as error:  # whatever it is, it costs this record
        return Damaged(file, offset, str(error) or type(error).__name__)


def _raw(segment: Segment, start: int, content_bytes: int) -> bytes:
    """Return a record as it stands: header, content, and the two line ends behind it."""
    end = _HEADER_END.search(segment.held(start, HEADERS_BYTES_MAX))
    assert end is not None, "its header has just been read"
    return segment.held(start, end.end() + content_bytes).lstrip() + b"\r\n\r\n"


class _CutShortError(ValueError):
    """A record has fewer bytes than it says."""


def _capture(record: Any, body_max: int) -> Capture | str:
    """
    Return the page in a record, or the reason why it is left out.

    Raises:
        ValueError: the record is damaged; the text says how.
    """
    headers = {name.lower(): value for name, value in record.headers.to_tuples()}
    if not headers.get("warc-type"):
        raise ValueError("a record without WARC-Type")
    if record.record_type not in _PAGE_TYPES:
        return str(record.record_type)
    url = (headers.get("warc-target-uri") or "").strip().removeprefix("<").removesuffix(">")
    if not is_page(url):
        return "not-a-page"
    block = _block(record, headers.get("content-length", ""), body_max)
    content_type = headers.get("content-type")
    response = Response(None, {}, block)
    if record.record_type == WarcRecordType.response:
        response = parse_response(block)
        content_type = response.headers.get("content-type") or headers.get("warc-identified-payload-type")
    found = capture_of_response(url, _fetched_at_ms(record, response), response, content_type, body_max)
    if not isinstance(found, Capture):
        return found
    return found._replace(
        payload_digest=headers.get("warc-payload-digest"),
        language=_language(headers.get("warc-identified-content-language")),
        is_text=record.record_type == WarcRecordType.conversion and (content_type or "").startswith("text/plain"),
    )


def is_page(url: str) -> bool:
    """
    Say whether a URL is one of a page: archives hold DNS answers and crawlers' own logs too.

    Raises:
        ValueError: there is none.
    """
    if not url:
        raise ValueError("a record without a URL")
    return url.partition(":")[0].lower() in _PAGE_SCHEMES


def capture_of_response(
    url: str, fetched_at_ms: int, response: Response, content_type: str | None, body_max: int
) -> Capture | str:
    """
    Return the page in a response, or the reason why it is left out.

    Raises:
        ValueError: its content encoding is damaged.
    """
    if response.status is not None and not 200 <= response.status <= 299:
        return f"status-{response.status}"
    if not is_prose(content_type):
        return "unsupported-content-type"
    try:
        return Capture(url, fetched_at_ms, decoded_body(response, body_max), content_type)
    except BodyTooLargeError:
        return "body-too-large"


def _block(record: Any, content_length: str, body_max: int) -> bytes:
    """Read a record's content, of an overlong one the beginning."""
    if not content_length.isdigit():
        raise ValueError(f"Content-Length is {content_length!r}, not a number")
    wanted = min(int(content_length), body_max + HEADERS_BYTES_MAX)
    block: bytes = record.reader.read(wanted)
    if len(block) < wanted:
        raise _CutShortError(f"the record is cut short: {len(block):,} of {int(content_length):,} bytes")
    return block


def _fetched_at_ms(record: Any, response: Response) -> int:
    """Return WARC-Date, where that is no date the server's."""
    fetched_at_ms = _date_ms(record.record_date)
    if fetched_at_ms is None:
        fetched_at_ms = date_ms(response.headers.get("date"))
    if fetched_at_ms is None:
        raise ValueError(f"WARC-Date {record.headers.get('WARC-Date')!r} is no date, and there is no HTTP date")
    return fetched_at_ms


def _date_ms(date: datetime | None) -> int | None:
    if date is None:
        return None
    timestamp_ms = int(date.timestamp() * 1_000)
    return timestamp_ms if timestamp_ms >= 0 else None


def _language(codes: str | None) -> str | None:
    """Return the language when there is one only: "eng,fra" names none for the whole page."""
    return codes if codes and "," not in codes else None
