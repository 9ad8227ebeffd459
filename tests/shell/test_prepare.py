"""
From messages to rows: every message gets one, in order, whatever is wrong with its neighbours.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EVENTUALLY_S, EXAMPLES
from tests.core.test_bodies import CASES, Case
from worker.core import bodies, extract
from worker.core.fingerprint import Fingerprinter
from worker.core.kernels.fingerprint import PackedTexts
from worker.core.marks import page_mark
from worker.core.pages import title_words
from worker.log.record import Row, RowKind, Rows
from worker.settings import Settings
from worker.shell.pipeline import prepare
from worker.shell.pipeline.prepare import JOB_BYTES_MAX, JobReader, Preparer
from worker.shell.pipeline.stage import Batch, cut
from worker.shell.ports import InputMessage

FETCHED_MS = 1_714_564_800_000
WORDS = (
    "the harbour master counted the boats twice for the fog had come in early and the lamps were "
    "weak"
)


def message(offset: int, **body: Any) -> InputMessage:
    fields = {
        "doc_id": f"d{offset}",
        "url": "https://example.org/",
        "fetched_at": "2024-05-01T12:00:00Z",
        **body,
    }
    return InputMessage(0, offset, b"k", orjson.dumps(fields))


@pytest.fixture(scope="module")
def fingerprinter() -> Fingerprinter:
    return Fingerprinter()


SETTINGS = Settings(threads=2, document_bytes_max=10_000)


@pytest.fixture
def preparer(fingerprinter: Fingerprinter) -> Iterator[Preparer]:
    """One with two threads."""
    with Preparer(SETTINGS, fingerprinter) as preparer:
        yield preparer


def prepared(preparer: Preparer, messages: list[InputMessage]) -> Sequence[Row]:
    assert preparer.submit(Batch(messages))
    batch = preparer.poll(600)
    assert batch is not None
    return list(batch.rows)


def test_each_message_of_a_batch_has_its_own_time_stamp(preparer: Preparer) -> None:
    """The time of one that names none is its own, whoever stands beside it."""
    value = orjson.dumps({"doc_id": "d", "url": "https://example.org/", "text": WORDS})
    batch = [
        InputMessage(0, 0, b"k", value, timestamp_ms=5_000),
        message(1, text=WORDS)._replace(timestamp_ms=6_000),
        InputMessage(0, 2, b"k", value, timestamp_ms=7_000),
        InputMessage(0, 3, b"k", value),
    ]
    rows = prepared(preparer, batch)
    assert [row.fetched_at_ms for row in rows] == [5_000, 1_714_564_800_000, 7_000, 0]
    assert [row.kind for row in rows] == [RowKind.FULL] * 3 + [RowKind.DEAD]


@pytest.mark.parametrize("kind", ["html", "bytes", "a charset", "an unusual message"])
def test_a_page_has_the_mark_of_its_url_and_title(preparer: Preparer, kind: str) -> None:
    """However its body comes; a text, and a page without a title or a host, has none."""
    titled = f"<title>The  Ferry</title><main><p>{WORDS}</p></main>"
    bodies: dict[str, dict[str, Any]] = {
        "html": {"html": titled},
        "bytes": {"body_base64": base64.b64encode(titled.encode()).decode()},
        "a charset": {
            "body_base64": base64.b64encode(titled.encode("utf-16")).decode(),
            "charset": "utf-16",
        },
        "an unusual message": {"html": titled, "attrs": {"a": 1}},
    }
    batch = [
        message(0, **bodies[kind]),
        message(1, html=f"<p>{WORDS}</p>"),
        message(2, text=WORDS, title="The Ferry"),
        message(3, **bodies[kind], url="urn:x"),
    ]
    row, *others = prepared(preparer, batch)
    assert row.mark == page_mark("https://example.org/", title_words("the ferry"), row.features) > 0
    assert [other.mark for other in others] == [0, 0, 0]


def test_every_kind_of_message_gets_its_row_in_order(
    preparer: Preparer, fingerprinter: Fingerprinter
) -> None:
    """Texts, pages, deletions and errors mixed: a row each, at its place, with its own identity."""
    batch = [
        message(0, text=WORDS),
        message(1, html=f"<main><p>{WORDS}</p></main>"),
        InputMessage(0, 2, b"gone", None),
        InputMessage(0, 3, b"k", b"no JSON"),
        message(4, text=" "),
        message(5, html="<p>x</p>", text="y"),
        message(6, text="x" * 10_000),
        message(7, text=f'the "html" field and {WORDS}'),
        message(8, content_type="html", text=WORDS),  # looks like a page and is none
        InputMessage(
            0, 9, b"k", b'{"url":"u","fetched_at":"2024-05-01T12:00:00Z","ht\\u006dl":"<p>x</p>"}'
        ),
    ]
    rows = prepared(preparer, batch)
    value = fingerprinter.one(WORDS)
    assert [row.offset for row in rows] == list(range(10))
    assert [row.kind for row in rows] == [
        RowKind.FULL, RowKind.FULL, RowKind.DELETED, RowKind.DEAD, RowKind.SKIPPED, RowKind.DEAD,
        RowKind.DEAD, RowKind.FULL, RowKind.FULL, RowKind.SHORT,
    ]  # fmt: skip
    assert [row.doc_id for row in rows[:5]] == ["d0", "d1", "gone", "", "d4"]
    assert [rows[i].fingerprint for i in (0, 1, 8)] == [value] * 3
    assert all(
        (row.url, row.fetched_at_ms) == ("https://example.org/", FETCHED_MS) for row in rows[:2]
    )
    assert [rows[i].fetched_at_ms for i in (2, 3, 5, 6)] == [0] * 4  # deletions and errors
    assert [row.note.split(":")[0] for row in rows if row.kind == RowKind.DEAD] == [
        "invalid-json", "two-bodies", "oversize",
    ]  # fmt: skip
    assert rows[4].note == "empty-text"


@settings(max_examples=2 * EXAMPLES)
@given(st.lists(CASES, min_size=1, max_size=8))
def test_bodies_of_bytes_get_the_rows_that_each_gets_alone(cases: list[Case]) -> None:
    """What is settled at once and what goes one by one: verdict, reason and error are the same."""
    messages = [
        message(
            place,
            body_base64=base64.b64encode(raw).decode(),
            content_type=content_type,
            charset=charset,
            language="fr",
        )
        for place, (raw, content_type, charset) in enumerate(cases)
    ]
    reader = JobReader(SETTINGS, Fingerprinter())
    at_once = list(reader.rows(messages))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "settle", lambda data, spans, rows, *_: np.zeros(len(rows), bool))
        assert at_once == list(reader.rows(messages))


def test_an_unexpected_error_while_bodies_are_settled_leaves_them_to_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The body that it comes with gets its own row all the same, and so do its neighbours."""
    messages = [
        message(place, body_base64=base64.b64encode(f"<p>{WORDS} {place}".encode()).decode())
        for place in range(3)
    ]
    reader = JobReader(SETTINGS, Fingerprinter())
    rows = list(reader.rows(messages))

    def failing(start: bytes) -> bool:
        if start.endswith(b"1"):
            raise RuntimeError("no ones please")
        return False

    monkeypatch.setattr(bodies, "is_binary", failing)
    assert list(reader.rows(messages)) == rows
    monkeypatch.setattr(extract, "is_binary", failing)
    failed = reader.rows(messages)
    assert [row.kind for row in failed] == [RowKind.FULL, RowKind.DEAD, RowKind.FULL]


class Allergic:
    """A fingerprinter that fails on the texts of some."""

    def __init__(self, real: Fingerprinter, error: Exception) -> None:
        self._error = error
        self._real = real
        self.parameters = real.parameters
        self.calls = 0

    def packed(self, texts: PackedTexts, languages: Sequence[str | None] | None = None) -> Any:
        self.calls += 1
        if any(
            b"nuts" in texts.narrow[start:end].tobytes()
            for start, end in texts.spans[:, :2].tolist()
        ):
            raise self._error
        return self._real.packed(texts, languages)


@pytest.mark.parametrize("culprits", [{0}, {99}, {13, 14, 77}])
def test_a_text_that_the_fingerprinter_fails_on_costs_itself_only(
    fingerprinter: Fingerprinter, culprits: set[int]
) -> None:
    """
    The culprit is a dead letter, found by halving; its neighbours have the fingerprints that they
    always have.
    """
    allergic: Any = Allergic(fingerprinter, RuntimeError("no nuts please"))
    batch = [
        message(i, text=f"{'nuts' if i in culprits else 'bread'} number {i}: {WORDS}")
        for i in range(100)
    ]
    with Preparer(SETTINGS, allergic) as preparer:
        rows = prepared(preparer, batch)
    assert {row.offset for row in rows if row.kind == RowKind.DEAD} == culprits
    assert allergic.calls <= 1 + 14 * len(culprits)
    assert all(
        row.note == "fingerprint-failed: RuntimeError: no nuts please"
        for row in rows
        if row.offset in culprits
    )
    good = [row for row in rows if row.offset not in culprits]
    assert [row.fingerprint for row in good] == [
        fingerprinter.one(f"bread number {row.offset}: {WORDS}") for row in good
    ]
    assert isinstance(good[0], Row)


def test_a_text_that_no_memory_is_left_for_is_a_dead_letter_with_the_remedy(
    fingerprinter: Fingerprinter,
) -> None:
    """No worker dies of it, and its neighbours, which need less, are judged."""
    starved: Any = Allergic(fingerprinter, MemoryError())
    batch = [message(i, text=f"{'nuts' if i == 1 else 'bread'} {i}: {WORDS}") for i in range(3)]
    with Preparer(SETTINGS, starved) as preparer:
        rows = prepared(preparer, batch)
    assert [row.kind for row in rows] == [RowKind.FULL, RowKind.DEAD, RowKind.FULL]
    assert re.fullmatch("fingerprint-failed: MemoryError: .*allow more, and feed.*", rows[1].note)


def test_a_batch_is_shared_by_the_threads_and_keeps_its_order(fingerprinter: Fingerprinter) -> None:
    """Four jobs on two threads: the rows are those of one text after the other."""
    large = " ".join(f"{WORDS} {n}" for n in range(JOB_BYTES_MAX // 400))
    batch = [message(i, text=f"number {i}: {large}") for i in range(16)]
    with Preparer(Settings(threads=2), fingerprinter) as preparer:
        rows = prepared(preparer, batch)
    assert [row.offset for row in rows] == list(range(16))
    assert [row.fingerprint for row in rows] == [
        fingerprinter.one(f"number {i}: {large}") for i in range(16)
    ]


def test_threads_without_a_job_are_idle(
    fingerprinter: Fingerprinter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is idle unless a job waits for it or runs in it; the batch may stay here."""
    released = threading.Event()

    def rows(messages: Sequence[InputMessage]) -> Rows:
        assert released.wait(EVENTUALLY_S)
        return Rows.of([])

    with Preparer(Settings(threads=3), fingerprinter) as preparer:
        monkeypatch.setattr(preparer, "rows", rows)
        assert preparer.idle_threads() == 3
        assert preparer.submit(Batch([message(0)]))
        assert preparer.submit(Batch([message(1)]))
        assert preparer.idle_threads() == 1
        assert preparer.submit(Batch([message(2)]))
        assert preparer.submit(Batch([message(3)]))
        assert preparer.idle_threads() == 0
        released.set()
        assert preparer.poll(EVENTUALLY_S) is not None
        for batch in list(preparer._batches):
            wait(batch.jobs, EVENTUALLY_S)
        assert preparer.idle_threads() == 3


def test_a_text_is_judged_by_its_beginning(fingerprinter: Fingerprinter) -> None:
    """Of texts and pages text_characters_max characters count, whatever follows."""
    settings = Settings(threads=1, text_characters_max=1_000)
    beginning = (WORDS * 20)[:1_000]
    bodies = [{"text": beginning + end} for end in ("", "x", WORDS * 300)] + [
        {"html": f"<p>{beginning}{WORDS}</p>"}
    ]
    with Preparer(settings, fingerprinter) as preparer:
        rows = prepared(preparer, [message(i, **body) for i, body in enumerate(bodies)])
    assert {row.fingerprint for row in rows} == {fingerprinter.one(beginning)}


def test_pieces_are_bounded_in_messages_and_in_bytes() -> None:
    """Keys count like values: a million deletions with long keys are no small batch."""
    sizes = [(100, 0)] * 40 + [(1_001, 0)] * 2 + [(1, 499)] * 5 + [(500, None)] * 10
    messages = [
        InputMessage(0, at, bytes(key), None if value is None else bytes(value))
        for at, (key, value) in enumerate(sizes)
    ]
    pieces = list(cut(messages, 16, 1_000))
    assert [message for piece in pieces for message in piece] == messages
    assert all(
        len(piece) == 1 or sum(message.size_bytes for message in piece) <= 1_000 for piece in pieces
    )
    assert max(map(len, pieces)) == 10  # by bytes
    assert [len(piece) for piece in pieces] == [10] * 4 + [1, 1] + [2] * 7 + [1]
