"""
No document takes much longer, or much more memory, than its bytes: whatever was chosen for it.
"""

from __future__ import annotations

import base64
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import orjson
import pytest

from tests.conftest import REPOSITORY, output_of
from tests.shell.test_prepare import prepared
from worker.core.fingerprint import Fingerprinter
from worker.log.record import RowKind
from worker.settings import Settings
from worker.shell.pipeline.prepare import Preparer
from worker.shell.ports import InputMessage

SIZE = 1 << 20
SECONDS_A_MIB = 0.6  # processor time; 0.16 was the most that was measured
ROUNDS_MAX = 100  # of a comparison of times: some seconds, longer than what a neighbour starts
# That chosen bytes may cost as much as; 11 was measured, of half pairs in UTF-16.
ORDINARY_PAGES_MAX = 15
# Of the same bytes in documents four times as long: 1 is linear, 4 is quadratic. What no longer fits
# into a cache costs up to twice as much.
GROWTH_MAX = 2.5
HEAD = b'{"url":"http://a.example/","fetched_at":"2024-05-01T12:00:00Z",'
MULTIBYTE = ("big5", "euc-jp", "euc-kr", "gb18030", "hz-gb-2312", "iso-2022-jp", "shift_jis")
Worst: TypeAlias = Callable[[int], bytes]  # a message of about so many bytes


def _filled(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[:size]


def _text(piece: str) -> Worst:
    return lambda size: (
        HEAD
        + b'"text":'
        + orjson.dumps(_filled(piece.encode(), size).decode("utf-8", "ignore"))
        + b"}"
    )


def _escapes(piece: bytes, before: bytes = b"") -> Worst:
    return lambda size: HEAD + b'"text":"' + before + piece * (size // len(piece)) + b'"}'


def _page(piece: str, before: str = "") -> Worst:
    return lambda size: (
        HEAD + b'"html":' + orjson.dumps(before + _filled(piece.encode(), size).decode()) + b"}"
    )


def _bytes(piece: bytes, before: bytes = b"", content_type: str = "text/html") -> Worst:
    """As archives are fed."""

    def message(size: int) -> bytes:
        body = base64.b64encode(before + _filled(piece, size)).decode()
        return HEAD + orjson.dumps({"content_type": content_type, "body_base64": body})[1:]

    return message


# As an ordinary page that goes one by one, like those that are compared with it: in UTF-8 it would
# stay where it is, which takes a sixth less.
ORDINARY = _bytes(
    b"<p>The council of the town has said that the bridge over the river will be open. ",
    b"\xe9",
    "text/html; charset=windows-1252",
)
WORST: dict[str, Worst] = {
    "one-letter tokens": _text("a b c d "),
    "one token": _text("x"),
    "a token a character": _text("".join(map(chr, range(0x4E00, 0x9E00)))),
    "to be composed": _text("e\u0301\u0327\u0315 "),
    "marks in the wrong order": _text("\u0315\u0301\u0327\u0334\u05b0\u0345"),
    "lone surrogates": _escapes(rb"\ud800"),
    "escapes behind a lone surrogate": _escapes(rb"\n", rb"\ud800"),
    "backslashes behind a lone surrogate": _escapes(rb"\\", rb"\ud800"),
    "a million values": lambda size: (
        HEAD + b'"text":"x","attrs":{"a":[' + b",".join([b"{}"] * (size // 3)) + b"]}}"
    ),
    "nested elements": _page("<div><p>x"),
    "formatting elements": _page("<b><i><u><s><p>x"),
    "formatting elements and their ends": lambda size: _page("</b>", "<b a=1><div>" * (size // 20))(
        size
    ),
    "end tags of nothing": _page("<ol></blockquote>x "),
    "attributes": _page(" a", "<p"),
    "open brackets": _page("<"),
    "open comments": lambda size: _page("<!--", "<b>" * (size // 200))(size),
    "scripts in scripts": _page("<!--<script>", "<script>"),
    "character references": _page("&CounterClockwiseContourIntegra"),
    "rows": _page("<tr><td>x", "<table>"),
    "tables in formatting elements": _page("<table><i></table>x "),
    "a div that an object keeps open": _page("<div><object></div>x "),
    "levels around paragraphs": _page("<p>x</p>", "<div>" * 400),
    "a long attribute": _page("x", '<p title="'),
    "short character references": _page("&amp;"),
    "undefined in windows-1252": _bytes(b"\x81", content_type="text/html; charset=windows-1252"),
    "undefined in windows-874": _bytes(b"\xff", content_type="text/html; charset=windows-874"),
    "half pairs in UTF-16": _bytes(b"\x00\xd8", content_type="text/html; charset=utf-16"),
    "too large for UTF-32": _bytes(b"\xff", content_type="text/html; charset=utf-32"),
    **{
        f"not in {name}": _bytes(b"\xff", content_type=f"text/html; charset={name}")
        for name in MULTIBYTE
    },
    "Cyrillic without a charset": _bytes("Мост через реку будет открыт. ".encode("koi8-r")),
    "any bytes without a charset": _bytes(random.Random(1).randbytes(SIZE)),
    "escape sequences without a charset": _bytes(b"\x1b$B"),
    "no type": _bytes(b"\x01<", content_type=""),
    "comments without an end": _bytes(b"<!--x>", b"charset"),
    "quotes without an end": _bytes(b"<a '\"", b"charset"),
    "meta elements": _bytes(b"<meta a ", b"charset"),
    "meta elements with unknown charsets": _bytes(b"<meta charset=x>"),
    "meta elements that say charset in vain": _bytes(
        b"<meta http-equiv=content-type content='charset charset'>"
    ),
    "a declaration without an end": _bytes(b"encoding ", b"<?xml "),
    "a header that says charset in vain": _bytes(
        b"<p>x", content_type="text/html; " + "charset " * 40
    ),
}


@pytest.fixture(scope="module")
def preparer() -> Iterator[Preparer]:
    """One thread, as a worker on two cores has it."""
    with Preparer(Settings(threads=1), Fingerprinter()) as preparer:
        messages = [InputMessage(0, 0, None, worst(1 << 10)) for worst in WORST.values()]
        prepared(preparer, messages)
        gc.freeze()  # what other tests have left is not walked with each large message
        yield preparer
        gc.unfreeze()


def _costs_no_more_in_one(preparer: Preparer, value: bytes) -> None:
    """One large document stays within its bound, in the best of a few rounds."""
    seconds_max = SECONDS_A_MIB * len(value) / SIZE
    seconds = float("inf")
    for _ in range(ROUNDS_MAX):
        began = time.process_time()
        rows = prepared(preparer, [InputMessage(0, 0, None, value)])
        seconds = min(seconds, time.process_time() - began)
        assert len(rows) == 1
        if seconds < seconds_max:
            return
    pytest.fail(f"{len(value):,} bytes cost {seconds} s, at most {seconds_max} s are allowed")


@pytest.mark.parametrize("name", WORST)
def test_row_27_chosen_bytes_cost_what_ordinary_ones_do(preparer: Preparer, name: str) -> None:
    """
    Half a MiB of a few documents costs no more than of many small ones, and never more than the
    bounds: so a batch of the worst takes a second or two. Nothing in it waits for a limit. Nor does
    one document of a whole MiB.
    """
    batches = {
        (worst, size): [
            InputMessage(0, number, None, worst(size)) for number in range(SIZE // 2 // size)
        ]
        for worst, size in (
            (WORST[name], 1 << 14),
            (WORST[name], 1 << 16),
            (WORST[name], 1 << 18),
            (ORDINARY, 1 << 18),
        )
    }
    bytes_of_large = sum(message.size_bytes for message in batches[WORST[name], 1 << 18])
    seconds_max = SECONDS_A_MIB * bytes_of_large / SIZE
    # Another process can only add to a time: more rounds are nearer.
    least = dict.fromkeys(batches, float("inf"))
    for number in range(ROUNDS_MAX):
        for batch, messages in batches.items():
            began = time.process_time()
            rows = prepared(preparer, messages)
            least[batch] = min(least[batch], time.process_time() - began)
            assert len(rows) == len(messages)
            assert {row.kind for row in rows} <= {RowKind.FULL, RowKind.SHORT, RowKind.SKIPPED}
        small, middle, large, ordinary = least.values()
        is_bounded = large < ORDINARY_PAGES_MAX * ordinary and large < seconds_max
        if (
            number
            and is_bounded
            and middle < GROWTH_MAX * small + 0.002
            and large < GROWTH_MAX * middle + 0.002
        ):
            break
    else:
        pytest.fail(
            f"the same bytes in documents four times as long cost at most {GROWTH_MAX} times the "
            f"time, at most {ORDINARY_PAGES_MAX} times that of ordinary pages, and at most "
            f"{seconds_max} s; {name} in seconds (small, middle, large, ordinary): {least.values()}"
        )
    _costs_no_more_in_one(preparer, WORST[name](SIZE))


GROWTH = """
import sys
from pathlib import Path
from worker.settings import Settings
from worker.shell.ports import InputMessage
from worker.shell.pipeline.stage import Batch
from worker.shell.pipeline.prepare import Preparer

def prepare(values):
    preparer.submit(Batch([InputMessage(0, 0, None, value) for value in values]))
    preparer.poll(600)

def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) >> 10

HEAD = b'{"url":"http://a.example/","fetched_at":"2024-05-01T12:00:00Z",'
SIZE = 8_300_000
BODIES = {
    "letters": lambda: b'"text":"' + b"a b c d " * (SIZE // 8) + "\U0001f600".encode() + b'"}',
    "tags": lambda: b'"html":"' + b"<p>x" * (SIZE // 4) + "\U0001f600".encode() + b'"}',
    "escapes": lambda: b'"text":"' + b"\\\\ud800" + b"\\\\n" * (SIZE // 2) + b'"}',
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
    [("letters", 1, 100), ("tags", 1, 160), ("escapes", 1, 100), ("values", 3, 320)],
)
def test_a_document_needs_no_more_memory_than_the_readme_says(
    kind: str, threads: int, mib_max: int
) -> None:
    """
    Of 8 MiB, one a thread: thirty times one message while it is decoded, then 100 to 160 MiB per
    thread.
    """
    said = output_of(sys.executable, "-c", GROWTH, kind, str(threads), cwd=REPOSITORY)
    print(kind, threads, said)
    assert int(said) < mib_max
