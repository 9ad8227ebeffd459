"""Records of archives that are cut, or whose lengths, headers or URLs are wrong: none is silent."""

from __future__ import annotations

import bz2
import gzip
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.shell.test_archives import (
    PAGE,
    RECORDS,
    arc_record,
    damage,
    entries,
    read,
    record,
    urls,
    warc_record,
    zipped,
)
from worker.shell.files.archives import Damage, Omission, Record
from worker.shell.files.archives import budget as budget_module
from worker.shell.files.archives import inflate as inflate_module
from worker.shell.files.archives import warc as warc_module
from worker.shell.files.archives.budget import Budget, BudgetError
from worker.shell.files.archives.inflate import Piece, Segment
from worker.shell.files.archives.warc import read_warc


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


@pytest.mark.parametrize("written", [bytes.lower, bytes.upper])
def test_names_in_a_header_may_be_written_in_any_case(
    tmp_path: Path, written: Callable[[bytes], bytes]
) -> None:
    """ISO 28500 says so. Pages were left out as records of an unknown type, or ended their file."""
    names = re.compile(rb"^[\w-]+(?=:)", re.MULTILINE)

    def rewritten(data: bytes) -> bytes:
        head, end, rest = data.partition(b"\r\n\r\n")
        return names.sub(lambda name: written(name[0]), head) + end + rest

    data = b"".join(map(rewritten, RECORDS))
    path = tmp_path / "a.warc"
    path.write_bytes(data)
    found = entries(path, whole=True)
    assert urls(found) == list("012345") and not damage(found)
    assert b"".join(item.raw for item in found if isinstance(item, Record)) == data


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


@pytest.mark.parametrize("pack", [bytes, zipped], ids=["plain", "gzip"])
def test_a_header_that_breaks_off_costs_its_record_alone(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """A writer that was killed left it, and the next record follows, anywhere in a line."""
    records = [warc_record(number) for number in range(4)]
    for size in range(len(b"WARC/1.0\r\n"), records[1].index(b"\r\n\r\n") + 3):
        parts = [records[0], records[1][:size], *records[2:]]
        found = read(tmp_path, b"".join(map(pack, parts)))
        assert urls(found) == ["0", "2", "3"], size
        assert [item.reason[:33] for item in damage(found)] == ["its header is that of two records"]


REPEATED = {
    "length": b"Content-Length: 9",
    "longer than the file": b"content-length: 99999",
    "the same length": b"Content-Length: " + re.findall(rb"Length: (\d+)", RECORDS[1])[0],
    "type": b"WARC-Type: request",
    "URL": b"WARC-Target-URI: http://example.org/9",
    "date": b"WARC-Date: 2024-05-01T12:00:00Z",
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_field_of_a_header_that_stands_twice_is_damage(
    tmp_path: Path, name: str, *, is_first: bool
) -> None:
    """ISO 28500 forbids it: the rest of another record stands there, and one value is not its own."""
    behind = b"\r\n" if is_first else b"\r\n\r\n"
    wrong = RECORDS[1].replace(behind, b"\r\n" + REPEATED[name] + behind, 1)
    found = read(tmp_path, RECORDS[0] + wrong + RECORDS[2])
    assert urls(found) == ["0", "2"] and len(damage(found)) == 1


def test_a_header_that_ends_with_a_line_of_blanks_costs_its_record_alone(tmp_path: Path) -> None:
    """The head of HTTP became a part of it, and the page a part of the next record."""
    wrong = RECORDS[1].replace(b"\r\n\r\n", b"\r\n \r\n", 1)
    found = read(tmp_path, RECORDS[0] + wrong + RECORDS[2])
    assert urls(found) == ["0", "2"]
    [only] = damage(found)
    assert only.offset == len(RECORDS[0]) and "nothing but blanks" in only.reason


@pytest.mark.parametrize("filler", [bytes(50), b"rubbish\r\n"], ids=["NUL", "a line"])
def test_what_stands_behind_a_record_is_told_with_the_remedy(tmp_path: Path, filler: bytes) -> None:
    """The offset is that of the record before, so the text says that it stands behind that one."""
    found = read(tmp_path, RECORDS[0] + filler + RECORDS[1])
    assert urls(found) == ["0", "1"]
    [only] = damage(found)
    assert "behind this record" in only.reason and "write the archive again" in only.reason


@pytest.mark.parametrize("start", [b"", b"\r\n"])
def test_a_file_that_begins_with_no_record_may_have_a_wrong_name(
    tmp_path: Path, start: bytes
) -> None:
    """Also one that begins with an empty line."""
    [only] = damage(read(tmp_path, start + b"The harbour master counted the boats."))
    assert "its name is wrong" in only.reason


def test_records_whose_version_line_ends_with_blanks_are_found_behind_damage(
    tmp_path: Path,
) -> None:
    """They are read where a record is expected, so they are looked for as well."""
    records = [data.replace(b"WARC/1.0", b"WARC/1.0 \t", 1) for data in RECORDS[:3]]
    found = read(tmp_path, records[0] + b"rubbish\r\n" + records[1] + records[2])
    assert urls(found) == ["0", "1", "2"] and len(damage(found)) == 1


def test_a_length_with_a_no_break_space_is_damage(tmp_path: Path) -> None:
    """Blanks in a header are those of ASCII."""
    wrong = re.sub(rb"(Content-Length: \d+)", b"\\1\xc2\xa0", RECORDS[1])
    found = read(tmp_path, RECORDS[0] + wrong + RECORDS[2])
    assert urls(found) == ["0", "2"]
    assert "not a number" in damage(found)[0].reason


def test_fields_that_crawlers_repeat_are_read(tmp_path: Path) -> None:
    """Common Crawl has a WARC-Protocol for HTTP and one for TLS."""
    fields = b"\r\nWARC-Protocol: h2\r\nWARC-Protocol: tls/1.3\r\nWARC-Concurrent-To: <urn:a>"
    fields += b"\r\nWARC-Concurrent-To: <urn:b>\r\nX-Reader: http://example.org/WARC/1.0\r\n"
    found = read(tmp_path, RECORDS[0].replace(b"\r\n", fields, 1) + RECORDS[1])
    assert urls(found) == ["0", "1"] and not damage(found)


def test_two_records_of_arc_whose_lines_have_become_one_are_damage(tmp_path: Path) -> None:
    """NUL where a disk has lost blocks: the first one would have the second one's page."""
    records = [arc_record(f"http://example.org/{number}") for number in range(4)]
    begin = records[1].index(b"/html")
    end = records[2].index(b"/html") + len(b"/html")
    hole = bytes(len(records[1]) - begin + end)
    found = read(
        tmp_path, records[0] + records[1][:begin] + hole + records[2][end:] + records[3], "a.arc"
    )
    assert urls(found) == ["0", "3"] and len(damage(found)) == 1


@pytest.mark.parametrize("length", [10**6, 10**17, 2**64 - 1])
@pytest.mark.parametrize("kind", ["metadata", "request"])
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


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_what_stands_behind_zeros_in_a_packed_file_is_not_left_out(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """Zeros may be the filling of a block, or the beginning of a member that a disk has lost."""
    members = [compress(warc_record(number)) for number in range(3)]
    lost = bytes(9) + members[1][9:]
    found = read(tmp_path, members[0] + lost + members[2])
    assert urls(found) == ["0", "2"] and len(damage(found)) == 1
    found = read(tmp_path, bytes(99).join(members) + bytes(99))
    assert urls(found) == ["0", "1", "2"] and not damage(found)


def test_no_record_is_looked_for_within_a_page_that_was_read(tmp_path: Path) -> None:
    """Not if rubbish stands behind it, either: a page may quote a record."""
    page = warc_record(1, PAGE + b"\r\n\r\n" + warc_record(2))
    found = read(tmp_path, page + b"rubbish\r\n\r\n" + warc_record(3))
    assert urls(found) == ["1", "3"] and len(damage(found)) == 1


@pytest.mark.parametrize("kind", ["response", "resource", "conversion"])
def test_no_record_is_looked_for_within_a_page_that_is_cut_short(tmp_path: Path, kind: str) -> None:
    """The last page of a file that was cut would bring pages under any URL, as its server likes."""
    page = record(kind, "http://a.org/1", "text/plain", b"The boats.\r\n" + warc_record(9) + PAGE)
    found = read(tmp_path, warc_record(0) + page[:-100])
    assert urls(found) == ["0"]
    [only] = damage(found)
    assert "cut short" in only.reason and "write the archive again" in only.reason


def test_an_arc_that_is_cut_within_a_page_which_its_crawler_unpacked_says_so(
    tmp_path: Path,
) -> None:
    """The response still has the length of the packed body, and half of the page is longer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 9\r\n\r\n"
    line = b"http://example.org/%d 1.2.3.4 20240501120000 text/html %d\n"
    records = [line % (number, len(head + PAGE)) + head + PAGE + b"\n" for number in range(2)]
    assert urls(read(tmp_path, b"".join(records)[:-1], "a.arc")) == ["0", "1"]
    for lost in range(2, len(PAGE) - 9):
        found = read(tmp_path, b"".join(records)[:-lost], "a.arc")
        assert urls(found) == ["0"]
        assert "cut short" in damage(found)[0].reason


class CountedSegment(Segment):
    """Counts the bytes that are read, again or not."""

    read_bytes = 0

    def read(self, size: int = 1 << 20) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


def beyond_the_end(count: int) -> bytes:
    """Requests that have more bytes than the file, with a page behind each."""
    wrong = record("request", "http://a.org/9", "application/http", b"GET /")
    return (wrong.replace(b"Length: 5", b"Length: 999999999") + warc_record(1)) * count


def nested(count: int) -> bytes:
    """Requests each of which is the content of the one before, and rubbish behind them all."""
    data = bytes(1 << 20)
    for _ in range(count):
        head = record("request", "http://a.org/9", "application/http", b"")
        length = b"Length: %d" % len(data)
        data = head.removesuffix(b"\r\n\r\n").replace(b"Length: 0", length) + data
        data = b"\n" + data
    return data + b"\r\n\r\nrubbish"


@pytest.mark.parametrize("made", [beyond_the_end, nested])
def test_records_that_reach_over_others_are_read_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[int], bytes]
) -> None:
    """Each record that reaches to the end of the file would cost the whole of it again."""
    monkeypatch.setattr(budget_module, "AGAIN_FREE_BYTES", 1 << 20)
    data = made(900) + bytes(1 << 20)
    budget = Budget()
    budget.take_in(len(data))
    segment = CountedSegment(Piece(0, data, is_plain=True), iter(()))
    with pytest.raises(BudgetError, match="lengths of damaged records reach over more than"):
        for _ in read_warc("a.warc", segment, 1 << 20, budget):
            pass
    assert segment.read_bytes <= 25 * len(data)


def test_a_page_whose_record_is_too_long_to_be_held_costs_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading goes on behind it, not within, whether records are to be copied or not."""
    for module in (inflate_module, warc_module):
        monkeypatch.setattr(module, "HISTORY_BYTES_MAX", 1 << 20)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    block += gzip.compress(PAGE) + bytes(4 << 20) + b"\r\n" + warc_record(9)
    long = record("response", "http://a.org/1", "application/http", block)
    data = b"".join([warc_record(0), long, b"rubbish\r\n", warc_record(2)])
    for whole in (False, True):
        segment = Segment(Piece(0, data[:99], is_plain=True), pieces_behind(data, 99))
        found = list(read_warc("a.warc", segment, 1 << 20, Budget(), whole=whole))
        assert urls(found) == ["0", "2"]
        assert [item.reason[:24] for item in damage(found)] == ["the record has more than"]


def test_a_record_is_held_however_much_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one byte less than the bound, or none. The same file was read in one packing only."""
    for module in (inflate_module, warc_module):
        monkeypatch.setattr(module, "HISTORY_BYTES_MAX", 1 << 20)
    long = warc_record(1, PAGE.ljust((1 << 20) - 330))
    long = warc_record(1, PAGE.ljust((2 << 20) - 330 - len(long.removesuffix(b"\r\n\r\n"))))
    assert len(long) - len(b"\r\n\r\n") == 1 << 20
    data = long + warc_record(2, PAGE * 9_999)
    for ahead in (1 << 10, 1 << 19):
        ends = [0, (1 << 20) - 99, (1 << 20) + ahead, len(data)]
        first, *more = [
            Piece(0, data[begin:end], is_plain=True) for begin, end in itertools.pairwise(ends)
        ]
        found = list(read_warc("a.warc", Segment(first, iter(more)), 2 << 20, Budget()))
        assert urls(found) == ["1", "2"] and not damage(found)


def pieces_behind(data: bytes, start: int) -> Iterator[Piece]:
    for at in range(start, len(data), 1 << 16):
        yield Piece(0, data[at : at + (1 << 16)], is_plain=True)
