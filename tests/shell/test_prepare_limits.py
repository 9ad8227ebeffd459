"""No document takes much longer, or much more memory, than its bytes: whatever was chosen for it."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import orjson
import pytest

from tests.conftest import REPOSITORY
from worker.core.fingerprint import Fingerprinter
from worker.log.record import Row, RowKind
from worker.settings import Settings
from worker.shell.pipeline.batch import Batch
from worker.shell.pipeline.prepare import Preparer
from worker.shell.ports import SourceMessage

SIZE = 1 << 20
SECONDS_A_MIB = 0.6  # processor time; 0.16 was the most that was measured
HEAD = b'{"url":"http://a.example/","fetched_at":"2024-05-01T12:00:00Z",'


def _text(piece: str) -> bytes:
    return HEAD + b'"text":' + orjson.dumps(piece * (SIZE // len(piece.encode()))) + b"}"


def _page(piece: str, before: str = "") -> bytes:
    return HEAD + b'"html":' + orjson.dumps(before + piece * (SIZE // len(piece.encode()))) + b"}"


def _encoded(body: bytes, charset: str) -> bytes:
    fields = {"content_type": "text/html", "charset": charset, "body_base64": base64.b64encode(body).decode()}
    return HEAD + orjson.dumps(fields)[1:]


WORST: dict[str, Callable[[], bytes]] = {
    "one-letter tokens": lambda: _text("a b c d "),
    "one token": lambda: _text("x"),
    "a token a character": lambda: _text("".join(map(chr, range(0x4E00, 0x9E00)))),
    "to be composed": lambda: _text("e\u0301\u0327\u0315 "),
    "marks in the wrong order": lambda: _text("\u0315\u0301\u0327\u0334\u05b0\u0345"),
    "lone surrogates": lambda: HEAD + b'"text":"' + rb"\ud800" * (SIZE // 6) + b'"}',
    "a million values": lambda: HEAD + b'"text":"x","attrs":{"a":[' + b",".join([b"{}"] * (SIZE // 3)) + b"]}}",
    "nested elements": lambda: _page("<div><p>x"),
    "formatting elements": lambda: _page("<b><i><u><s><p>x"),
    "formatting elements and their ends": lambda: _page("</b>", "<b a=1><div>" * 50_000),
    "end tags of nothing": lambda: _page("<ol></blockquote>x "),
    "attributes": lambda: _page(" a", "<p"),
    "open brackets": lambda: _page("<"),
    "open comments": lambda: _page("<!--", "<b>" * 5_000),
    "scripts in scripts": lambda: _page("<!--<script>", "<script>"),
    "character references": lambda: _page("&CounterClockwiseContourIntegra"),
    "rows": lambda: _page("<tr><td>x", "<table>"),
    "undefined in windows-1252": lambda: _encoded(b"\x81" * SIZE, "windows-1252"),
    "undefined in windows-874": lambda: _encoded(b"\xff" * SIZE, "windows-874"),
    "half pairs in UTF-16": lambda: _encoded(b"\x00\xd8" * (SIZE // 2), "utf-16"),
    "not in Big5": lambda: _encoded(b"\xff" * SIZE, "big5"),
}


def prepared(preparer: Preparer, messages: list[SourceMessage]) -> Sequence[Row]:
    """The rows of these messages."""
    assert preparer.submit(Batch(messages))
    batch = preparer.poll(600)
    assert batch is not None
    return list(batch.rows)


@pytest.fixture(scope="module")
def preparer() -> Iterator[Preparer]:
    """One thread, as a worker on two cores has it."""
    with Preparer(Settings(threads=1), Fingerprinter()) as preparer:
        messages = [SourceMessage(0, 0, None, value) for value in (_text("e\u0301 "), _page("<p>x "))]
        prepared(preparer, messages)
        yield preparer


@pytest.mark.parametrize("name", WORST)
def test_row_27_a_document_that_is_slow_to_judge_has_its_limit(preparer: Preparer, name: str) -> None:
    """A batch of the worst documents takes a second or two; nothing in it is tried twice, nothing waits for a limit."""
    message = SourceMessage(0, 0, None, WORST[name]())
    began = time.process_time()
    [row] = prepared(preparer, [message])
    seconds = time.process_time() - began
    assert row.kind in (RowKind.FULL, RowKind.SHORT, RowKind.SKIPPED)
    assert seconds < SECONDS_A_MIB * message.size_bytes / SIZE


GROWTH = """
import sys
from pathlib import Path
from worker.settings import Settings
from worker.shell.ports import SourceMessage
from worker.shell.pipeline.batch import Batch
from worker.shell.pipeline.prepare import Preparer

def prepare(values):
    preparer.submit(Batch([SourceMessage(0, 0, None, value) for value in values]))
    preparer.poll(600)

def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) >> 10

HEAD = b'{"url":"http://a.example/","fetched_at":"2024-05-01T12:00:00Z",'
SIZE = 8_300_000
BODIES = {
    "letters": lambda: b'"text":"' + b"a b c d " * (SIZE // 8) + "\U0001f600".encode() + b'"}',
    "tags": lambda: b'"html":"' + b"<p>x" * (SIZE // 4) + "\U0001f600".encode() + b'"}',
    "values": lambda: b'"text":"x","attrs":{"a":[' + b",".join([b"{}"] * (SIZE // 3)) + b"]}}",
}
with Preparer(Settings(threads=int(sys.argv[2]))) as preparer:
    small = [HEAD + b'"text":"e\\xcc\\x81 x"}', HEAD + b'"html":"<p>x"}']
    prepare(small)
    values = [HEAD + BODIES[sys.argv[1]]() for _ in range(int(sys.argv[2]))]
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    prepare(values)
    print(held("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "threads", "mib_max"),
    [("letters", 1, 100), ("tags", 1, 160), ("values", 3, 320)],
)
def test_a_document_needs_no_more_memory_than_the_readme_says(kind: str, threads: int, mib_max: int) -> None:
    """Of 8 MiB, one a thread: thirty times one message while it is decoded, then 100 to 160 MiB a thread."""
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, kind, str(threads)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    print(kind, threads, done.stdout)
    assert int(done.stdout) < mib_max
