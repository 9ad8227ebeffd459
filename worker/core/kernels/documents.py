"""
Messages of the topic `documents` in a batch: JSON in, the texts of their fields and their bodies out as UTF-8.

What reads as a document with a text or a page goes this way. All else (another body, a wrong field, lone surrogates, a
name with escapes or twice, numbers of many digits) is left to `messages.decode_document`, which says what is wrong.
"""

# ruff: noqa: PLR0911, PLR0912, PLR1714, SIM109  # kernels return where they find out; "in (…)" compiles a function each
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused, kernel
from worker.core.document import DOC_ID_BYTES_MAX, URL_BYTES_MAX
from worker.core.kernels.json import read_string, skip_blank, value_end
from worker.core.kernels.machine import SLACK, byte_at, set_byte
from worker.core.kernels.times import read_time
from worker.core.pages.batch import valid_utf8

DOC_ID, URL, LANGUAGE, TEXTS = 0, 1, 2, 3  # the first three are returned as texts
FETCHED_AT, TEXT, HTML, BODY_BASE64, TITLE, ATTRS, BOUNDED = 3, 4, 5, 6, 7, 8, 9
_NAMES = (b"doc_id", b"url", b"language", b"fetched_at", b"text", b"html", b"body_base64", b"title", b"attrs",
          b"content_type", b"charset", b"payload_digest", b"collection")  # fmt: skip
NAMES = np.frombuffer(b"".join(_NAMES), np.uint8)
NAME_ENDS = np.cumsum([len(name) for name in _NAMES])
FIELDS = len(_NAMES)
# In bytes, where the schema has characters: what is longer is looked at by `decode_document`.
BYTES_MAX = np.array([DOC_ID_BYTES_MAX, URL_BYTES_MAX, 128, 64, -1, -1, 0, -1, -1, 1_024, 128, 512, 512])
BEGIN, END, PLAIN = 0, 1, 2
QUOTE, COMMA, COLON, OPEN, CLOSE, LETTER_N = 0x22, 0x2C, 0x3A, 0x7B, 0x7D, 0x6E


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


@apart
def find_fields(page: Any, begin: Any, end: Any, found: Any, room: Any, at: Any) -> Any:
    """
    Fill `found` with where each field's text begins and ends, 0 where there is none; whether all is in order.

    TEXT or HTML is written to `room`, from `at` on, and END is where it ends there.
    """
    found[:] = 0
    seen = np.int64(0)
    i = skip_blank(page, begin, end)
    if byte_at(page, i) != OPEN:
        return False
    while True:
        i = skip_blank(page, i + 1, end)
        if byte_at(page, i) != QUOTE:
            return False
        stop, written = read_string(page, i + 1, end, room, at)
        if written - at != stop - i - 1:  # nowhere, or escapes
            return False
        field = _field_at(page, i + 1, stop)
        i = skip_blank(page, stop + 1, end)
        if (field < FIELDS and seen >> field & 1) or byte_at(page, i) != COLON:
            return False
        i = skip_blank(page, i + 1, end)
        first = byte_at(page, i)
        if first == QUOTE and field != ATTRS:
            stop, written = read_string(page, i + 1, end, room, at)
            if stop < 0:
                return False
            if field == TEXT or field == HTML:
                found[field, BEGIN], found[field, END] = i + 1, written
                at = written
            elif field < FIELDS:
                found[field, BEGIN], found[field, END] = i + 1, stop
                if BYTES_MAX[field] >= 0 and stop - i - 1 > BYTES_MAX[field]:
                    return False
            i = stop + 1
        else:
            if field < FIELDS and first != LETTER_N and not (field == ATTRS and first == OPEN):
                return False
            i = value_end(page, i, end, room, at)
            if i < 0:
                return False
        if field < FIELDS:
            seen |= 1 << field
        i = skip_blank(page, i, end)
        if byte_at(page, i) == CLOSE:
            return skip_blank(page, i + 1, end) == end
        if byte_at(page, i) != COMMA:
            return False


@kernel
def read_documents(data: Any, spans: Any, texts: Any, ends: Any, times: Any, bodies: Any, places: Any) -> Any:
    """
    Read what reads as a document.

    Args:
        data, spans: the messages, SLACK zeros behind each; their BEGIN and END.
        texts, ends: filled with DOC_ID, URL and LANGUAGE of each, back to back, and where each ends. An empty URL: left
            to be read otherwise; an empty doc_id: there is none. `texts` and `bodies` are as long as `data`.
        times: filled with the time of each.
        bodies, places: filled with the bodies, SLACK zeros behind each; their BEGIN, END and whether they are PLAIN.
    """
    page, out, room = np.int64(data.ctypes.data), np.int64(texts.ctypes.data), np.int64(bodies.ctypes.data)
    found = np.empty((FIELDS, 2), np.int64)
    at, body_at = np.int64(0), np.int64(0)
    for number in range(spans.shape[0]):
        begin, end, before = spans[number, BEGIN], spans[number, END], at
        good = begin < end and valid_utf8(page, begin, end) and find_fields(page, begin, end, found, room, body_at)
        good = good and found[URL, BEGIN] < found[URL, END] and found[BODY_BASE64, BEGIN] == 0
        good = good and (found[DOC_ID, BEGIN] == 0 or found[DOC_ID, BEGIN] < found[DOC_ID, END])
        good = good and (found[TEXT, BEGIN] == 0) != (found[HTML, BEGIN] == 0)
        if good:
            times[number] = read_time(page, found[FETCHED_AT, BEGIN], found[FETCHED_AT, END])
            good = times[number] >= 0
        if good:
            for field in range(TEXTS):
                if found[field, BEGIN] > 0:
                    at = read_string(page, found[field, BEGIN], end, out, at)[1]
                ends[number, field] = at
        else:
            for field in range(TEXTS):
                ends[number, field] = before
        places[number, BEGIN] = body_at
        places[number, PLAIN] = not good or found[TEXT, BEGIN] > 0
        if good:
            body_at = found[TEXT if found[TEXT, BEGIN] > 0 else HTML, END]
        places[number, END] = body_at
        for _ in range(SLACK):
            set_byte(room, body_at, np.int64(0))
            body_at += 1
