"""
Reads a batch of messages of the topic `documents` in one pass: from JSON to the texts of their
fields and their bodies.

Nearly every message is an object of strings and nulls. It is read here, without the interpreter's
lock. Any other message (with numbers, arrays or objects in it, a wrong field, lone surrogates, a
name with escapes or a name that comes twice) is left to `messages.decode_document`, which says what
is wrong. Positions beyond the end may be read, as SLACK allows.

    {"url": "http://a", "html": "<p>It is late.", …}
             └─ URL ┘            └── HTML ────┘     BEGIN and END of each
        1 the message is UTF-8, or it is UNREAD
        2 `_find_fields` walks over the object once: of each field it notes where its text begins
          and ends. A body is written on the way, without escapes or base64: bodies are nearly all
          of the bytes, and one pass over them has to be enough.
        3 `_kind_of` decides which body there is
        4 the other fields are written to `texts`, also without escapes: one after the other in the
          order of their numbers, not in that of the object

What always holds:

- The kernel makes no error and no exception. It reads a message exactly as `decode_document` does,
  or leaves it UNREAD; `tests/shell/test_message_document.py` holds both together for any bytes.
- What is written is never longer than what was read: an escape of two bytes is one, one of six is
  at most three, four digits of base64 are three bytes. So outputs as long as the input have room.

Tried and rejected, in µs per message of 5 KB of text and per page of 58 KB:

- orjson for all messages, and objects of Python: 22 and 118; msgspec: 22 and 119. This kernel: 12.5
  and 34, and other threads go on meanwhile.
- A pass that finds the end of a string, and another one that writes it: 70 for a page of 56 KB in
  place of 45.

Measured in turn with the code before, for a page of 56 KB:

    step                                                           µs    before
    base64 by blocks of 64 digits, where they stand                 7        25  a copy, and a table
    escapes of a block of 64 bytes, from its bits                   8        12  a block per escape
    UTF-8 by blocks of 32 bytes                                   1.6         8  a byte at a time
"""

# ruff: noqa: PLR0911, PLR0912  # kernels return where they find out; "in (…)" compiles a function
# each
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused, kernel
from worker.core.document import DOC_ID_BYTES_MAX, URL_BYTES_MAX, BodyKind
from worker.core.kernels.machine import (
    SLACK,
    STRING_LANES,
    byte_at,
    copy_block,
    copy_string,
    decode_digits,
    put_code_point,
    set_byte,
    trailing_zeros,
)
from worker.core.pages.plain import valid_utf8

# Those below TEXTS are returned.
DOC_ID = 0
URL = 1
FETCHED_AT = 2
LANGUAGE = 3
CONTENT_TYPE = 4
CHARSET = 5
TEXTS = 6
TEXT = 6
HTML = 7
BODY_BASE64 = 8
ATTRS = 9
_NAMES = (
    b"doc_id", b"url", b"fetched_at", b"language", b"content_type", b"charset", b"text", b"html",
    b"body_base64", b"attrs", b"title", b"payload_digest", b"collection",
)  # fmt: skip
NAMES = np.frombuffer(b"".join(_NAMES), np.uint8)
NAME_ENDS = np.cumsum([len(name) for name in _NAMES])
FIELDS = len(_NAMES)
# In bytes, where the schema has characters: what is longer is looked at by `decode_document`.
BYTES_MAX = np.array(
    [DOC_ID_BYTES_MAX, URL_BYTES_MAX, 64, 128, 1_024, 128, -1, -1, -1, -1, -1, 512, 512]
)
BEGIN = 0
END = 1
PLAIN = 2
UNREAD = 255  # as a kind of body
NO_TIME = np.int64(-1)
OF_TEXT = int(BodyKind.TEXT)
OF_HTML = int(BodyKind.HTML)
OF_BYTES = int(BodyKind.BYTES)
QUOTE = 0x22
COMMA = 0x2C
COLON = 0x3A
BACKSLASH = 0x5C
EQUALS = 0x3D
OPEN = 0x7B
CLOSE = 0x7D
HYPHEN = 0x2D
POINT = 0x2E
LETTER_T = 0x54
LETTER_Z = 0x5A
LETTER_N = 0x6E
LETTER_U = 0x75
LETTER_L = 0x6C
ESCAPES = np.zeros(256, np.uint8)  # what an escape stands for; 0: no escape
ESCAPES[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')
NO_DIGIT = 64
DIGITS = np.full(256, NO_DIGIT, np.uint8)  # of base64
DIGITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = range(64)


@fused
def _skip_blank(page: Any, i: Any, end: Any) -> Any:
    """The next position that is no white space, `end` at most."""
    while i < end and (
        byte_at(page, i) == 0x20 or 9 <= byte_at(page, i) <= 10 or byte_at(page, i) == 13
    ):
        i += 1
    return i


@fused
def _hex(page: Any, i: Any) -> Any:
    """The number of four hexadecimal digits; negative when they are not."""
    value = np.int64(0)
    for k in range(i, i + 4):
        byte = byte_at(page, k)
        letter = byte | 0x20
        if 0x30 <= byte <= 0x39:
            value = value << 4 | (byte - 0x30)
        elif 0x61 <= letter <= 0x66:
            value = value << 4 | (letter - 0x57)
        else:
            return np.int64(-1)
    return value


@apart
def _read_string(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Write the string that begins at `i`, behind its quote, to `out`, without its escapes.

    Returns where its other quote stands (-1: nowhere), and where it ends in `out`.
    """
    while i < end:
        # This loop clears the bits of an escape and of the byte behind it together, so it runs on
        # bits alone. A new block at each escape would wait for the bytes that were just copied.
        found = copy_string(page, i, out, at)
        done = np.int64(0)  # lanes of this block
        while found:
            size = np.int64(trailing_zeros(found))
            plain = np.int64(ESCAPES[byte_at(page, i + size + 1)])
            if byte_at(page, i + size) != BACKSLASH or plain == 0:
                break
            at += size - done
            set_byte(out, at, plain)
            at += 1
            done = size + 2
            copy_block(page, i + done, out, at)
            found &= ~(np.uint64(3) << np.uint64(size))
        if not found:
            at += max(STRING_LANES - done, np.int64(0))
            i += max(STRING_LANES, done)
            continue
        size = np.int64(trailing_zeros(found))
        i += size
        at += size - done
        if i >= end:
            break
        byte = byte_at(page, i)
        if byte == QUOTE:
            return i, at
        if byte != BACKSLASH or byte_at(page, i + 1) != LETTER_U:
            break
        code = _hex(page, i + 2)
        if code < 0 or 0xDC00 <= code < 0xE000:
            break
        i += 6
        if 0xD800 <= code < 0xDC00:
            if byte_at(page, i) != BACKSLASH or byte_at(page, i + 1) != LETTER_U:
                break
            low = _hex(page, i + 2)
            if not 0xDC00 <= low < 0xE000:
                break
            code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
            i += 6
        at = put_code_point(out, at, code)
    return np.int64(-1), at


@fused
def _field_at(page: Any, begin: Any, end: Any) -> Any:
    """The field of this name, FIELDS for another one."""
    for field in range(FIELDS):
        first = NAME_ENDS[field - 1] if field > 0 else 0
        if NAME_ENDS[field] - first == end - begin:
            k = np.int64(0)
            while k < end - begin and byte_at(page, begin + k) == NAMES[first + k]:
                k += 1
            if k == end - begin:
                return field
    return FIELDS


@fused
def _decode_blocks(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Decode whole blocks of digits, up to the first block that has anything else in it.

    Returns where that block begins, and where the bytes end. `out` may be `page`: there are fewer
    bytes than digits, so no digit is written over before it is read, and a block with anything else
    in it stays as it is.
    """
    while i + STRING_LANES <= end and not decode_digits(page, i, out, at):
        i += STRING_LANES
        at += STRING_LANES // 4 * 3
    return i, at


@apart
def _decode_base64(room: Any, begin: Any, end: Any) -> Any:
    """
    Replace base64 by its bytes, in place. Returns where they end; -1 for anything but RFC 4648,
    section 4.
    """
    if (end - begin) & 3:
        return np.int64(-1)
    padding = np.int64(0)
    if begin < end and byte_at(room, end - 1) == EQUALS:
        padding = np.int64(2) if byte_at(room, end - 2) == EQUALS else np.int64(1)
    for i in range(end - padding, end):
        set_byte(room, i, np.int64(0x41))  # "A": no bits
    seen = np.int64(0)
    group = np.int64(0)
    begin, at = _decode_blocks(room, begin, end - 4, room, begin)
    for i in range(begin, end, 4):
        first = np.int64(DIGITS[byte_at(room, i)])
        second = np.int64(DIGITS[byte_at(room, i + 1)])
        third = np.int64(DIGITS[byte_at(room, i + 2)])
        fourth = np.int64(DIGITS[byte_at(room, i + 3)])
        seen |= first | second | third | fourth
        group = first << 18 | second << 12 | third << 6 | fourth
        set_byte(room, at, group >> 16)
        set_byte(room, at + 1, group >> 8)
        set_byte(room, at + 2, group)
        at += 3
    left_over = group & ((1 << 8 * padding) - 1)  # bits that no byte has
    return at - padding if seen < NO_DIGIT and left_over == 0 else np.int64(-1)


@apart
def _find_fields(  # noqa: C901
    page: Any, begin: Any, end: Any, found: Any, room: Any, at: Any
) -> Any:
    """
    Write to `found` where each field's text begins and ends, 0 if it is missing. Returns whether
    the object is in order.

    A body is written to `room`, from `at` on, and END is where it ends there.
    """
    found[:] = 0
    seen = np.int64(0)
    i = _skip_blank(page, begin, end)
    if byte_at(page, i) != OPEN:
        return False
    while True:
        i = _skip_blank(page, i + 1, end)
        if byte_at(page, i) != QUOTE:
            return False
        # A name is written to the room as well, and what comes next overwrites it: only its length
        # is wanted. If that is another than between the quotes, the name has escapes.
        stop, written = _read_string(page, i + 1, end, room, at)
        if written - at != stop - i - 1:  # nowhere, or escapes
            return False
        field = _field_at(page, i + 1, stop)
        i = _skip_blank(page, stop + 1, end)
        # The same name twice: readers of JSON take the last, and here the first may be written.
        if (field < FIELDS and seen >> field & 1) or byte_at(page, i) != COLON:
            return False
        seen |= np.int64(field < FIELDS) << field
        i = _skip_blank(page, i + 1, end)
        if byte_at(page, i) == QUOTE and field != ATTRS:
            rest = i + 1
            rest_at = at
            if field == BODY_BASE64:  # nearly all of it is decoded where it stands
                rest, rest_at = _decode_blocks(page, rest, end, room, at)
            stop, written = _read_string(page, rest, end, room, rest_at)
            if stop < 0:
                return False
            if field == BODY_BASE64:
                written = _decode_base64(room, rest_at, written)
                if written < 0:
                    return False
            if TEXT <= field <= BODY_BASE64:
                found[field, BEGIN], found[field, END] = i + 1, written
                at = written
            elif field < FIELDS:
                found[field, BEGIN], found[field, END] = i + 1, stop
                if BYTES_MAX[field] >= 0 and stop - i - 1 > BYTES_MAX[field]:
                    return False
            i = stop + 1
        elif byte_at(page, i) == LETTER_N and byte_at(page, i + 1) == LETTER_U:
            if byte_at(page, i + 2) != LETTER_L or byte_at(page, i + 3) != LETTER_L:
                return False
            i += 4
        else:
            return False
        i = _skip_blank(page, i, end)
        if byte_at(page, i) == CLOSE:
            return _skip_blank(page, i + 1, end) == end
        if byte_at(page, i) != COMMA:
            return False


@fused
def _kind_of(found: Any) -> Any:
    """The kind of the body, UNREAD where something is missing, or there."""
    text = found[TEXT, BEGIN] > 0
    html = found[HTML, BEGIN] > 0
    raw = found[BODY_BASE64, BEGIN] > 0
    if found[URL, BEGIN] == found[URL, END] or found[FETCHED_AT, BEGIN] == 0:
        return UNREAD
    if (
        found[DOC_ID, BEGIN] > 0 and found[DOC_ID, BEGIN] == found[DOC_ID, END]
    ) or text + html + raw != 1:
        return UNREAD
    return OF_TEXT if text else OF_HTML if html else OF_BYTES


@fused
def _digits(text: Any, begin: Any, end: Any) -> Any:
    """The number that decimal digits say; negative when they are not."""
    value = np.int64(0)
    for k in range(begin, end):
        digit = byte_at(text, k) - 0x30
        if not 0 <= digit <= 9:
            return np.int64(-1)
        value = 10 * value + digit
    return value


@fused
def _days_since_1970(year: Any, month: Any, day: Any) -> Any:
    """The days from 1970-01-01 to a date; source: Hinnant, as `json_columns._date_of`."""
    if month <= 2:
        year -= 1
        month += 12
    of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


@fused
def _is_date(year: Any, month: Any, day: Any) -> Any:
    """Return whether a day is in the calendar, and not before 1970."""
    if year < 1970 or not 1 <= month <= 12:
        return False
    days = 30 + ((month + (month >> 3)) & 1)
    if month == 2:
        days = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 1 <= day <= days


@apart
def _time_of(text: Any, begin: Any, end: Any) -> Any:
    """
    The Unix milliseconds of a time in UTC, as nearly every message has it:
    2024-05-01T12:00:00[.123]Z.

    NO_TIME for any other text, whether it is a time or none: `parse_timestamp` says that.
    """
    size = end - begin
    if not (size == 20 or 22 <= size <= 30) or byte_at(text, end - 1) != LETTER_Z:
        return NO_TIME
    for k in range(2):
        if byte_at(text, begin + 4 + 3 * k) != HYPHEN or byte_at(text, begin + 13 + 3 * k) != COLON:
            return NO_TIME
    year = _digits(text, begin, begin + 4)
    month = _digits(text, begin + 5, begin + 7)
    day = _digits(text, begin + 8, begin + 10)
    hour = _digits(text, begin + 11, begin + 13)
    minute = _digits(text, begin + 14, begin + 16)
    second = _digits(text, begin + 17, begin + 19)
    if byte_at(text, begin + 10) != LETTER_T or not _is_date(year, month, day):
        return NO_TIME
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return NO_TIME
    millisecond = np.int64(0)
    if size > 20:
        digits = size - 21
        if byte_at(text, begin + 19) != POINT or _digits(text, begin + 20, end - 1) < 0:
            return NO_TIME
        millisecond = _digits(text, begin + 20, begin + 20 + min(digits, 3))
        for _ in range(digits, 3):
            millisecond *= 10
    seconds = 3_600 * hour + 60 * minute + second
    return 1_000 * (86_400 * _days_since_1970(year, month, day) + seconds) + millisecond


@kernel
def read_documents(
    data: Any,
    spans: Any,
    texts: Any,
    ends: Any,
    kinds: Any,
    times_ms: Any,
    bodies: Any,
    places: Any,
) -> Any:
    """
    Read what reads as a document.

    Args:
        data, spans: the messages, SLACK zeros behind each; their BEGIN and END.
        texts, ends: by field below TEXTS filled with its texts, back to back, and where that of
            each message ends; an empty one is not there. A row of `texts` is as long as `data`, as
            is `bodies`.
        kinds: filled with the BodyKind of each, or UNREAD: to be read otherwise.
        times_ms: filled with the time in FETCHED_AT, NO_TIME where that is not read here.
        bodies, places: filled with the bodies, SLACK zeros behind each; their BEGIN, END and
            whether they are PLAIN.
    """
    page = np.int64(data.ctypes.data)
    out = np.int64(texts.ctypes.data)
    room = np.int64(bodies.ctypes.data)
    found = np.empty((FIELDS, 2), np.int64)
    text_at = np.zeros(TEXTS, np.int64)
    body_at = np.int64(0)
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, END]
        kind = UNREAD
        if valid_utf8(page, begin, end) and _find_fields(page, begin, end, found, room, body_at):
            kind = _kind_of(found)
        times_ms[number] = NO_TIME
        for field in range(TEXTS):
            if kind != UNREAD and found[field, BEGIN] > 0:
                own = out + field * texts.shape[1]
                at = text_at[field]
                text_at[field] = _read_string(page, found[field, BEGIN], end, own, at)[1]
                if field == FETCHED_AT:
                    times_ms[number] = _time_of(own, at, text_at[field])
            ends[field, number] = text_at[field]
        kinds[number] = kind
        places[number, BEGIN] = body_at
        places[number, PLAIN] = kind != OF_HTML
        if kind != UNREAD:
            body_at = found[TEXT + kind, END]
        places[number, END] = body_at
        for _ in range(SLACK):
            set_byte(room, body_at, np.int64(0))
            body_at += 1
