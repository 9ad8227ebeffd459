"""Records of archives that are cut, or whose lengths, headers or URLs are wrong: none is silent."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.shell.test_archives import (
    PAGE,
    arc_record,
    damage,
    read,
    record,
    urls,
    warc_record,
)
from worker.shell.files.archives import Damage, Omission, Record


def test_a_warc_that_is_cut_within_any_record_says_so(tmp_path: Path) -> None:
    """Also within a header, and within a record that is left out: pages may have stood behind it."""
    records = [
        warc_record(0),
        record("request", "http://example.org/0", "application/http", b"GET / HTTP/1.1\r\n\r\n"),
        warc_record(1),
    ]
    ends = list(itertools.accumulate(map(len, records)))
    whole = b"".join(records)
    for size in range(1, len(whole)):
        found = read(tmp_path, whole[:size])
        is_end = any(end - 4 <= size <= end for end in ends)  # the line ends may be missing
        assert len(damage(found)) == (not is_end), whole[:size][-30:]
        assert urls(found) == ["0", "1"][: sum(end - 4 <= size for end in (ends[0], ends[2]))]


@pytest.mark.parametrize("filler", [b"", bytes(300)], ids=["nothing", "NUL"])
def test_two_records_whose_headers_have_become_one_are_damage(
    tmp_path: Path, filler: bytes
) -> None:
    """Lost blocks of a disk are left out of a copy, or are NUL in it. A page may have been there."""
    records = [
        warc_record(number).replace(
            b"WARC-Target", b"WARC-Record-ID: <urn:uuid:%d>\r\nWARC-Target" % number
        )
        for number in range(3)
    ]
    begin = records[0].index(b"WARC-Payload")
    rest = records[1][len(b"WARC/1.0\r\nWARC-Ty") :]
    found = read(tmp_path, records[0][:begin] + filler + rest + records[2])
    assert urls(found) == ["2"] and len(damage(found)) == 1


@pytest.mark.parametrize("length", [10**6, 10**17, 2**64 - 1])
@pytest.mark.parametrize("kind", ["response", "request"])
def test_a_length_beyond_the_file_costs_its_record(tmp_path: Path, kind: str, length: int) -> None:
    """What it reaches over is read all the same, and none of it is a part of that record."""
    wrong = record(kind, "http://example.org/9", "application/http", b"GET / HTTP/1.1\r\n\r\n")
    wrong = wrong.replace(b"Content-Length: 18", b"Content-Length: %d" % length)
    found = read(tmp_path, warc_record(0) + wrong + warc_record(1))
    assert urls(found) == ["0", "1"] and len(damage(found)) == 1


@pytest.mark.parametrize("url", ["example.org/1", "//example.org/1", "h\0\0\0", "/1"])
def test_a_url_without_a_scheme_is_damage(tmp_path: Path, url: str) -> None:
    """It is the rest of one, or of a line of ARC. Crawlers' own records have schemes of their own."""
    warc = record("response", url, "application/http", b"HTTP/1.1 200 OK\r\n\r\n" + PAGE)
    own = record("resource", "metadata:log", "text/plain", b"The crawl has ended.")
    for found in (
        read(tmp_path, own + warc + warc_record(2)),
        read(tmp_path, arc_record("dns:a") + arc_record(url) + arc_record("http://a/2"), "a.arc"),
    ):
        assert [type(item) for item in found] == [Omission, Damage, Record]


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("kind", ["warc", "arc"])
def test_a_length_that_reaches_over_the_next_record_is_damage(
    tmp_path: Path, kind: str, *, is_chunked: bool
) -> None:
    """
    The reader goes on behind both, so nothing else would say that the second one is missing. A page
    that quotes a record is a page.
    """
    end = b"\r\n\r\n" if kind == "warc" else b"\n"

    def made(number: int, page: bytes, behind: bytes = b"") -> bytes:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}"
        body = page
        if is_chunked:
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked"
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(page), page)
        if kind == "warc":
            return warc_record(number, body + behind, head)
        block = head.encode() + b"\r\n\r\n" + body + behind
        line = f"http://example.org/{number} 1.2.3.4 20240501120000 text/html {len(block)}\n"
        return line.encode() + block + end

    second = made(2, PAGE).removesuffix(end)
    records = [made(1, PAGE, end + second), made(3, PAGE + end + second), made(4, PAGE)]
    found = read(tmp_path, b"".join(records), f"crawl.{kind}")
    assert urls(found) == ["3", "4"]
    [reason] = [item.reason for item in damage(found)]
    assert f"reaches {len(second):,} bytes too far" in reason
