"""Messages of the topic `documents` read in batches are what they are read one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.shell.test_message_document import BAD, TIME, URL
from worker.core.document import Document
from worker.core.kernels.documents import TEXTS, read_documents
from worker.core.pages import extract_packed
from worker.core.pages.batch import joined
from worker.errors import DocumentError
from worker.shell.messages import decode_document, decode_documents

LETTERS = st.text(st.sampled_from('ab"\\/\b\f\n\r\t\x00\x1f\x7fé한😀\u2028'), max_size=60) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=6,
)
DATES = st.datetimes(datetime(1969, 12, 30), datetime(2400, 1, 1)).map(datetime.isoformat)  # noqa: DTZ001
TIMES = st.builds(
    str.__add__, DATES, st.sampled_from(["Z", "+00:00", "-11:30", "+23:59", "+24:00", "", "z", "Z\n"])
) | st.from_regex(
    r"\A20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?(Z|[+-][0-2][0-9]:[0-5][0-9])\Z"
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "doc_id": LETTERS, "title": LETTERS, "attrs": VALUES, "charset": LETTERS, "content_type": LETTERS,
    "language": st.sampled_from(["en", "ü" * 128, "x" * 129]), "text": LETTERS, "html": LETTERS, "body_base64": LETTERS,
    "payload_digest": VALUES, "other": VALUES, "\\u0075rl": LETTERS,
}  # fmt: skip


def text_of(spans: Any, bodies: Any, place: int) -> bytes:
    """The body of one message."""
    return bytes(bodies[spans[place, 0] : spans[place, 1]])


def check(values: Sequence[bytes]) -> list[bool]:
    """Assert that what was read of each message is what `decode_document` reads; return which were read."""
    found = decode_documents(values)
    for place, value in enumerate(values):
        if not found.is_read[place]:
            assert (found.doc_ids[place], found.urls[place]) == (b"", b"")
            continue
        document = decode_document(None, value)
        assert isinstance(document, Document)
        assert found.doc_ids[place].decode() == document.doc_id
        assert found.urls[place].decode() == document.url
        assert found.languages[place].decode() == (document.language or "")
        assert found.times_ms[place] == document.fetched_at_ms
        assert text_of(found.spans, found.bodies, place).decode() == document.body
        assert bool(found.spans[place, 2]) == (document.kind == 0)
    return [bool(is_read) for is_read in found.is_read]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Messages that are documents, and such as nearly are."""
    fields: list[tuple[str, Any]] = [("url", draw(LETTERS)), ("fetched_at", draw(TIMES)), ("text", draw(LETTERS))]
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=3)):
        fields.append((name, draw(FIELDS[name] | st.none())))
    if draw(st.booleans()):
        del fields[draw(st.integers(0, len(fields) - 1))]
    ascii_only, blank = draw(st.booleans()), draw(st.sampled_from(["", " ", "\n\t", "\x0b"]))
    members = (
        f'{blank}"{name}"{blank}:{blank}{json.dumps(value, ensure_ascii=ascii_only)}{blank}'
        for name, value in draw(st.permutations(fields))
    )
    value = (blank + "{" + ",".join(members) + "}" + blank).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        return value
    at = draw(st.integers(0, len(value)))
    return (
        value[:at]
        + draw(st.sampled_from([b"", b"\\", b'"', b",", b"\x80", b"\xed\xa0\x80", b"\\ud83d", b"{", b"]", b"0"]))
        + value[at + draw(st.integers(0, 1)) :]
    )


@settings(max_examples=25 * EXAMPLES)
@given(st.lists(messages(), min_size=1, max_size=8))
def test_a_batch_is_read_as_each_message_is(values: list[bytes]) -> None:
    """What is read is what is read alone; what is refused alone is not read."""
    check(values)


@given(st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_are_read_alike(values: list[bytes]) -> None:
    """Whatever comes in."""
    check(values)


@given(st.dictionaries(st.sampled_from(["doc_id", "title", "language", "attrs", "other"]), LETTERS), LETTERS, LETTERS)
def test_a_plain_document_is_read(more: dict[str, str], url: str, body: str) -> None:
    """The way of nearly every message is the fast one."""
    plain = {name: text for name, text in more.items() if name != "attrs" and text} | {"attrs": {"a": [1, -2.5, {}]}}
    for name in ("text", "html"):
        fields = {"url": f"u{url}", "fetched_at": TIME, name: body, **plain}
        assert check([json.dumps(fields).encode(), orjson.dumps(fields)]) == [True, True]


@pytest.mark.parametrize(
    "value", [value for _, _, value, _ in BAD if value is not None], ids=[bad[0] for bad in BAD if bad[2] is not None]
)
def test_no_error_is_read(value: bytes) -> None:
    """What `decode_document` refuses is left to it."""
    assert check([value]) == [False]


@given(TIMES)
@example("2024-02-30T00:00:00Z")
@example("2100-02-29T00:00:00Z")
@example("2000-02-29T23:59:59.9999Z")
@example("1970-01-01T00:00:00Z")
@example("1970-01-01T00:00:00+00:01")
@example("9999-12-31T23:59:59.999Z")
@example("9999-12-31T23:59:59-00:01")
def test_a_time_is_read_or_left(time: str) -> None:
    """A time that is one is read, and nothing else; an offset of 60 minutes, which some take for one, is left."""
    value = orjson.dumps({"url": URL, "fetched_at": time, "text": ""})
    try:
        decode_document(None, value)
    except DocumentError:
        assert check([value]) == [False]
    else:
        assert check([value]) == [True]


def test_bodies_are_ready_for_the_pages_kernel() -> None:
    """Zeros stand behind each body, whatever the message has behind it."""
    pages = [
        f'{{"html":"<p>{"x" * n} é</p>","url":"u","fetched_at":"{TIME}","title":"<b>"}}'.encode() for n in range(100)
    ]
    found = decode_documents(pages)
    texts = extract_packed(found.bodies, found.spans)
    assert [texts.text(n) for n in range(100)] == [f"{'x' * n} é" if n else "é" for n in range(100)]


PIECES = ("", "a", "é", "\\n", "\\u4e2d", "\\ud83d\\ude00", '\\"', "\\\\", "x" * 31, "x" * 32, "x" * 33, "中" * 11)
NAMES = ("url", "text", "html", "doc_id", "language", "title", "attrs")
GUARD = 256


def damaged(chance: random.Random) -> bytes:
    """A message of any strings, often a document; some are cut off or have another byte."""
    fields = ["url", chance.choice(["text", "html"]), *chance.choices(NAMES, k=chance.randrange(3))]
    members = [f'"{name}": "{"".join(chance.choices(PIECES, k=chance.randrange(8)))}"' for name in fields]
    members.append(f'"fetched_at": "{TIME}"')
    chance.shuffle(members)
    value = f"{{{', '.join(members)}}}".encode()
    at = chance.randrange(len(value))
    return chance.choice([value, value, value[:at], value[:at] + bytes([chance.randrange(256)]) + value[at + 1 :]])


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_written_beside_the_texts_and_bodies(seed: int) -> None:
    """The bytes around what the kernel fills stay as they are, whatever it reads."""
    chance, read = random.Random(seed), 0
    for _ in range(1_000):
        values = [damaged(chance) for _ in range(chance.randrange(1, 6))]
        data, spans = joined(values, None)
        rooms = np.full((2, GUARD + data.size + GUARD), 0xAA, np.uint8)
        ends, places = np.empty((len(values), TEXTS), np.int64), np.empty((len(values), 3), np.int64)
        times_ms, (texts, bodies) = np.empty(len(values), np.int64), rooms[:, GUARD:-GUARD]
        read_documents(data, spans, texts, ends, times_ms, bodies, places)
        assert (rooms[:, :GUARD] == 0xAA).all() and (rooms[:, -GUARD:] == 0xAA).all(), values
        read += sum(check(values))
    assert read > 500
