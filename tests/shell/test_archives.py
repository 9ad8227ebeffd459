"""Readers of crawler output: what they find, what they leave out, and what damage costs."""

from __future__ import annotations

import base64
import errno
import gzip
import io
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
import zstandard
from fastwarc.stream_io import BrotliWriter
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields import TIMESTAMP_MS_MAX, parse_timestamp
from worker.core.document import BodyKind, Document
from worker.core.extract import Extracted, extract
from worker.core.fingerprint import Fingerprinter
from worker.errors import DocumentError, StopError
from worker.log.record import RowKind
from worker.settings import MESSAGE_BYTES_MAX, Settings
from worker.shell.files import crawl as crawl_module
from worker.shell.files.archives import Capture, Damage, Entry, Omission, Record
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import source_message
from worker.shell.files.formats import UNKNOWN, WRITE_LINES
from worker.shell.kafka.feeding import FED_BODY_BYTES_MAX
from worker.shell.messages.documents import decode_document
from worker.shell.pipeline.prepare import JobReader

PAGE = b"<html><body><p>The harbour master counted the boats twice.</p></body></html>"


def warc_record(
    number: int, body: bytes = PAGE, http: str = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
) -> bytes:
    """A response record with its own URL."""
    block = http.encode() + b"\r\n\r\n" + body
    return record(
        "response", f"http://example.org/{number}", "application/http; msgtype=response", block
    )


def record(
    kind: str, url: str, content_type: str, block: bytes, date: str = "2024-05-01T12:00:00Z"
) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n"
        f"WARC-Payload-Digest: sha1:AAAA\r\nContent-Type: {content_type}\r\nContent-Length: "
        f"{len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


# The names of tests hold it: each process must collect the same ones.
zipped = partial(gzip.compress, mtime=0)


zstd = zstandard.ZstdCompressor().compress


def brotli(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = BrotliWriter(out)
    writer.write(data)
    writer.close()
    return out.getvalue()


Packing = Callable[[Iterable[bytes]], bytes]
PACKINGS: dict[str, Packing] = {
    "plain": b"".join,
    "gzip a record": lambda records: b"".join(gzip.compress(record) for record in records),
    "gzip as a whole": lambda records: gzip.compress(b"".join(records)),
    "gzip in two members a record": lambda records: (
        b"".join(  # as some writers end one behind the headers
            gzip.compress(record[:150]) + gzip.compress(record[150:]) for record in records
        )
    ),
    "zstd a record": lambda records: b"".join(zstd(record) for record in records),
    "zstd as a whole": lambda records: zstd(b"".join(records)),
}


def entries(path: Path | str, **options: Any) -> list[Entry]:
    """What is in a file."""
    return list(CrawlFiles([str(path)], **options).entries())


def read(
    tmp_path: Path, data: bytes, name: str = "crawl.warc", body_max: int = 1 << 20
) -> list[Entry]:
    """Read bytes as a file of that name."""
    path = tmp_path / name
    path.write_bytes(data)
    return entries(path, body_max=body_max)


def document(found: Entry) -> Document:
    assert isinstance(found, Record)
    decoded = decode_document(found.key, found.value)
    assert isinstance(decoded, Document)
    return decoded


def urls(found: list[Entry]) -> list[str]:
    return [document(item).url.rpartition("/")[2] for item in found if isinstance(item, Record)]


def damage(found: list[Entry]) -> list[Damage]:
    return [item for item in found if isinstance(item, Damage)]


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_page_is_read_the_same_from_every_packing(tmp_path: Path, packing: str) -> None:
    """
    URL, time, body, type and digest arrive; the key is the doc_id that the worker derives; all
    bytes are counted.
    """
    (tmp_path / "crawl.warc").write_bytes(PACKINGS[packing]([warc_record(0), warc_record(1)]))
    reader = CrawlFiles([str(tmp_path / "crawl.warc")])
    found = list(reader.entries())
    assert urls(found) == ["0", "1"] and reader.bytes_read == reader.bytes_total
    page = document(found[0])
    assert (page.kind, page.body, page.content_type) == (BodyKind.BYTES, PAGE, "text/html")
    assert page.fetched_at_ms == 1714564800000
    assert isinstance(found[0], Record)
    assert found[0].key == page.doc_id.encode()
    assert orjson.loads(found[0].value)["payload_digest"] == "sha1:AAAA"
    assert found[0].raw == b""  # who holds many records would hold all bytes twice
    broken = warc_record(0, http="HTTP/1.1 200 OK\r\nContent-Type: text/html; x=\xff").replace(
        b"/0", b"/\xff\xfe"
    )
    # No UTF-8 is JSON all the same.
    assert document(read(tmp_path, broken)[0]).url.startswith("http://example.org/")


def test_what_is_no_page_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """
    Redirects, errors, images, requests, DNS answers and the crawler's own records carry no article.
    """
    found = read(
        tmp_path,
        b"".join(
            [
                record("warcinfo", "", "application/warc-fields", b"software: x"),
                record(
                    "request", "http://example.org/", "application/http", b"GET / HTTP/1.1\r\n\r\n"
                ),
                warc_record(1, http="HTTP/1.1 301 Moved\r\nLocation: /"),
                warc_record(2, http="HTTP/1.1 404 Not Entry\r\nContent-Type: text/html"),
                warc_record(3, http="HTTP/1.1 200 OK\r\nContent-Type: image/png"),
                record(
                    "revisit",
                    "http://example.org/4",
                    "application/http",
                    b"HTTP/1.1 200 OK\r\n\r\n",
                ),
                record(
                    "response",
                    "dns:example.org",
                    "text/dns",
                    b"20240501120000\nexample.org. 60 IN A 1.2.3.4",
                ),
                record("resource", "metadata://example.org/log", "text/plain", b"log"),
                warc_record(
                    5, gzip.compress(bytes(30_000_000)), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip"
                ),
                warc_record(6),
            ]
        ),
    )
    assert [item.reason for item in found if isinstance(item, Omission)] == [
        "warcinfo", "request", "status-301", "status-404", "unsupported-content-type", "revisit",
        "not-a-page", "not-a-page", "body-too-large",
    ]  # fmt: skip
    assert urls(found) == ["6"]


def test_conversion_records_are_texts_and_resources_are_pages(tmp_path: Path) -> None:
    """A WET file's text is the text; a resource has no HTTP headers, its record says what it is."""
    text = "Ein Satz über Boote."
    found = read(
        tmp_path,
        record("conversion", "http://example.org/0", "text/plain", text.encode())
        + record("resource", "<http://example.org/1>", "text/html; charset=utf-8", PAGE),
        "crawl.warc.wet",
    )
    wet, resource = document(found[0]), document(found[1])
    assert (wet.kind, wet.body) == (BodyKind.TEXT, text)
    assert (resource.url, resource.body) == ("http://example.org/1", PAGE)
    assert resource.content_type == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [("text/plain", "latin-1"), ("text/plain; charset=utf-16le", "utf-16-le")],
)
def test_a_text_of_another_charset_is_decoded_as_a_page_is(
    tmp_path: Path, content_type: str, encoding: str
) -> None:
    """No character of it is replaced, as reading it as UTF-8 would do."""
    text = "Über die Brücke von Köln fährt um fünf Uhr früh niemand mehr nach Düsseldorf."
    block = record("conversion", "http://example.org/0", content_type, text.encode(encoding))
    [found] = read(tmp_path, block, "crawl.warc.wet")
    extracted = extract(document(found))
    assert isinstance(extracted, Extracted) and extracted.text == text


@pytest.mark.parametrize("served", ["application/x-javascript", "octet-stream", "image/png", ""])
def test_a_page_under_a_wrong_type_has_the_one_that_the_crawler_found(
    tmp_path: Path, served: str
) -> None:
    """WARC-Identified-Payload-Type counts where the server's type would leave the page out."""
    found = warc_record(0, http=f"HTTP/1.1 200 OK\r\nContent-Type: {served}")
    head, mark, rest = found.partition(b"Content-Type:")
    identified = b"WARC-Identified-Payload-Type: text/html\r\n"
    [page] = read(tmp_path, head + identified + mark + rest)
    assert document(page).content_type == "text/html"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked", b"5\r\n<p>ab\r\n4;x=y\r\ncdef\r\n0\r\n\r\n"),
        ("Content-Encoding: gzip", b"<p>abcdef"),  # it says so and is not
        ("Content-Encoding: gzip", zipped(b"<p>ab") + zipped(b"cd") + zipped(b"ef")),
        ("Content-Encoding: gzip", zipped(b"<p>abcdef") + b"\r\n"),  # as some scripts leave it
        ("Content-Encoding: deflate", b"<p>abcdef"),
        ("Content-Encoding: zstd", zstd(b"<p>ab") + zstd(b"cdef")),
        ("Content-Encoding: deflate", zlib.compress(b"<p>abcdef")),
        (
            "Content-Encoding: deflate",
            zlib.compress(b"<p>abcdef")[2:-4],
        ),  # raw, as some servers send it
        ("Content-Encoding: br", base64.b64decode("CwSAPHA+YWJjZGVmAw==")),
        ("Content-Encoding: gzip, gzip", zipped(zipped(b"<p>abcdef"))),
        ("Content-Encoding: identity", b"<p>abcdef"),
        ("Content-Encoding: never-heard-of", b"<p>abcdef"),
    ],
)
def test_transfer_and_content_encodings_are_undone(
    tmp_path: Path, headers: str, body: bytes
) -> None:
    """And where the headers lie, the body is taken as it is."""
    found = read(
        tmp_path, warc_record(0, body, f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{headers}")
    )
    assert document(found[0]).body == b"<p>abcdef"


RAW = zlib.compressobj(wbits=-15)
LONG = b"".join(b"<p>Paragraph %d of a page</p>" % number for number in range(400))
ENCODED = {
    "gzip": gzip.compress(LONG),
    "gzip, second member": gzip.compress(b"<p>First") + gzip.compress(LONG),
    "deflate": zlib.compress(LONG),
    "deflate, raw": RAW.compress(LONG) + RAW.flush(),
    "zstd": zstd(LONG),
    "br": brotli(LONG),
}


@pytest.mark.parametrize("harm", ["a flipped bit", "cut in the midst", "cut before its last byte"])
@pytest.mark.parametrize("encoding", ENCODED)
def test_a_body_that_breaks_off_in_its_encoding_is_damaged(
    tmp_path: Path, encoding: str, harm: str
) -> None:
    """Half a body is no page, and never taken for the whole; the next record is one."""
    body = bytearray(ENCODED[encoding])
    if harm == "a flipped bit":
        body[len(body) // 2] ^= 0xFF
    else:
        del body[len(body) // 2 if harm == "cut in the midst" else -1 :]
    headers = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding.partition(',')[0]}"
    found = read(tmp_path, warc_record(0, bytes(body), headers) + warc_record(1))
    if encoding in ("zstd", "deflate, raw") and harm == "a flipped bit":  # neither has a checksum
        assert len(damage(found)) <= 1 and urls(found)[-1] == "1"
    else:
        assert [item.offset for item in damage(found)] == [0]
        assert urls(found) == ["1"]


RECORDS = [warc_record(number, PAGE + b" more words" * number) for number in range(6)]
BROKEN = {
    "a record of another format": RECORDS[2].replace(b"WARC/1.0", b"JUNK/9.9"),
    "no length": RECORDS[2].replace(b"Content-Length: ", b"Content-Length: x"),
    "no date": RECORDS[2].replace(b"2024-05-01T", b"yesterday "),
    "a date behind the year 9999": RECORDS[2].replace(
        b"2024-05-01T12:00:00Z", b"9999-12-31T23:59:59-05:00"
    ),
    "no URL": RECORDS[2].replace(b"WARC-Target-URI", b"WARC-Target-URL"),
    "no type": RECORDS[2].replace(b"WARC-Type", b"WARC-Tipe"),
    "garbage": b"garbage \xff\x00\n" * 50,
    "a type that nobody knows, and no content": b"WARC/1.0\r\n\r\n\r\n",
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_damaged_record_costs_itself(tmp_path: Path, packing: str, broken: str) -> None:
    """It is named once, and every other record is read."""
    found = read(tmp_path, PACKINGS[packing]([*RECORDS[:2], BROKEN[broken], *RECORDS[3:]]))
    assert urls(found) == ["0", "1", "3", "4", "5"]
    assert len(damage(found)) == 1


ARC_HEAD = b"filedesc://x.arc 0.0.0.0 20140216050221 text/plain 3\n1 0\n"
NO_DATES = {
    "WARC": BROKEN["no date"],
    "WARC behind the year 9999": BROKEN["a date behind the year 9999"],
    "WARC without one": RECORDS[2].replace(b"WARC-Date: 2024-05-01T12:00:00Z\r\n", b""),
    "ARC": ARC_HEAD
    + b"http://example.org/2 1.2.3.4 20149916050221 text/html %d\n" % (len(PAGE) + 19)
    + b"HTTP/1.0 200 OK\r\n\r\n"
    + PAGE
    + b"\n",
}


@pytest.mark.parametrize("name", NO_DATES)
def test_a_page_whose_date_cannot_be_read_has_the_given_one(tmp_path: Path, name: str) -> None:
    """It is damaged only where no time is given; a date that can be read counts more."""
    path = tmp_path / "archive"
    path.write_bytes(NO_DATES[name] if name == "ARC" else RECORDS[1] + NO_DATES[name])
    without = entries(path)
    assert len(damage(without)) == 1
    read_again = entries(path, fetched_at_default="2001-02-03T04:05:06Z")
    assert not damage(read_again)
    times = {
        capture.url: capture.fetched_at_ms
        for capture in (entry.content for entry in read_again if isinstance(entry, Record))
        if isinstance(capture, Capture)
    }
    assert times["http://example.org/2"] == parse_timestamp("2001-02-03T04:05:06Z")
    assert times.get("http://example.org/1") in (None, parse_timestamp("2024-05-01T12:00:00Z"))


def test_a_time_that_is_none_is_refused_before_a_file_is_read(tmp_path: Path) -> None:
    """The error names it, and how to write one."""
    path = tmp_path / "archive"
    path.write_bytes(RECORDS[1])
    with pytest.raises(
        StopError, match=r"^the fetch time 'yesterday' is no time.*2024-05-01T12:00:00Z"
    ):
        CrawlFiles([str(path)], fetched_at_default="yesterday")


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
@pytest.mark.parametrize("where", ["head", "middle", "end"])
def test_a_damaged_member_costs_itself(
    tmp_path: Path, compress: Callable[[bytes], bytes], where: str
) -> None:
    """Flipped bits in one member of a compressed file: its offset is named, the others are read."""
    members = [bytearray(compress(record)) for record in RECORDS]
    at = {"head": 0, "middle": len(members[2]) // 2, "end": len(members[2]) - 5}[where]
    members[2][at] ^= 0xFF
    members[2][at + 1] ^= 0x55
    found = read(tmp_path, b"".join(members))
    assert [number for number in urls(found) if number != "2"] == ["0", "1", "3", "4", "5"]
    if compress is gzip.compress or where != "end":  # zstd frames carry no checksum by default
        assert [item.offset for item in damage(found)] == [sum(map(len, members[:2]))]


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("pack", [bytes, zipped], ids=["plain", "gzip"])
def test_a_header_whose_lines_end_with_lf_alone_is_damage(
    tmp_path: Path, pack: Callable[[bytes], bytes], *, is_whole: bool
) -> None:
    """Its length counts CR LF, or does not: nobody knows."""
    head, end, rest = RECORDS[1].partition(b"\r\n\r\n")
    wrong = (head + end).replace(b"\r\n", b"\n") + rest
    if is_whole:
        wrong = RECORDS[1].replace(b"\r\n", b"\n")
    found = read(tmp_path, b"".join(map(pack, (RECORDS[0], wrong, RECORDS[2]))))
    assert damage(found)[0].reason == "a line of its header ends with LF alone: end each with CR LF"
    assert not [entry for entry in found if isinstance(entry, Omission)]
    assert is_whole or urls(found) == ["0", "2"]


@pytest.mark.parametrize("blank", [b" ", b"\t"], ids=["blank", "tab"])
def test_a_header_line_that_is_folded_is_read(tmp_path: Path, blank: bytes) -> None:
    """A line that begins with a blank goes on with the one before: its own end is CR LF."""
    folded = RECORDS[1].replace(b"\r\n", b"\r\nX-Note: one\r\n" + blank + b"more\r\n", 1)
    found = read(tmp_path, b"".join((RECORDS[0], folded, RECORDS[2])))
    assert urls(found) == ["0", "1", "2"] and not damage(found)


@pytest.mark.parametrize(
    "between",
    [bytes(512), b"\r\n" + bytes(99), b"garbage\n"],
    ids=["NUL", "a line end and NUL", "a line"],
)
def test_records_behind_what_fills_up_a_block_are_read(tmp_path: Path, between: bytes) -> None:
    """Tapes and tar files have NUL between two archives."""
    found = read(tmp_path, between.join(RECORDS), "a.warc")
    assert urls(found) == list("012345")


def with_dictionary(stored: bytes, compress: Callable[[bytes], bytes] = zstd) -> bytes:
    return (
        b"\x5d\x2a\x4d\x18"
        + len(stored).to_bytes(4, "little")
        + stored
        + b"".join(map(compress, RECORDS))
    )


def test_a_zstd_file_with_a_dictionary(tmp_path: Path) -> None:
    """A skippable frame at the start holds the dictionary, compressed or not."""
    content = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/" * 20
    dictionary = zstandard.ZstdCompressionDict(content)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    for stored in (content, zstd(content)):
        found = read(tmp_path, with_dictionary(stored, compressor.compress), "crawl.warc.zst")
        assert urls(found) == list("012345")


@pytest.mark.parametrize(
    "stored",
    [
        zstd(b"")[:4] + b"\xff" * 36,
        zstd(bytes(100))[:-3],
        b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\1\0\0",
        b"\x37\xa4\x30\xec" + bytes(20),
    ],
    ids=["garbage", "cut", "asks for 2^64 bytes", "its tables are no tables"],
)
def test_a_damaged_dictionary_is_named(tmp_path: Path, stored: bytes) -> None:
    """Its offset and what is wrong. What needs no dictionary is read."""
    found = read(tmp_path, with_dictionary(stored), "crawl.warc.zst")
    assert [(item.offset, item.reason.partition(":")[0]) for item in damage(found)] == [
        (0, "damaged dictionary")
    ]
    assert urls(found) == list("012345")


def test_a_skippable_frame_that_takes_the_rest_of_its_file_says_so(tmp_path: Path) -> None:
    """A wrong length hides all members behind it."""
    data = b"\x50\x2a\x4d\x18" + b"\xff" * 4 + b"".join(map(zstd, RECORDS))
    assert [item.reason for item in damage(read(tmp_path, data, "a.warc.zst"))] == [
        "the file ends within this frame"
    ]


ARC_VERSION = b"filedesc://test.arc 0.0.0.0 20240501120000 text/plain %d\n%s\n"
ARC_FIELDS = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
ARC2_FIELDS = b"2 0 Test\nURL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length\n"


def arc_record(url: str, fields: str = "1.2.3.4 20240501120000 text/html") -> bytes:
    """One ARC record with an HTTP response."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE
    return f"{url} {fields} {len(block)}\n".encode() + block + b"\n"


@pytest.mark.parametrize(
    ("date", "wanted"),
    [
        ("2024", "2024-01-01T00:00:00Z"),
        ("2024-05", "2024-05-01T00:00:00Z"),
        ("2024-05-03", "2024-05-03T00:00:00Z"),
        ("2024-05-03T04:05:06", "2024-05-03T04:05:06Z"),
        pytest.param("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z", id="a leap second"),
    ],
)
def test_a_date_of_a_record_may_be_rough(tmp_path: Path, date: str, wanted: str) -> None:
    """WARC 1.1 allows it from the year on; one without a zone is UTC."""
    block = record("resource", "http://example.org/0", "text/html", PAGE, date=date)
    [found] = read(tmp_path, block)
    assert document(found).fetched_at_ms == parse_timestamp(wanted)


def warc_resource(url: str) -> bytes:
    return record("resource", url, "text/html", PAGE)


@pytest.mark.parametrize(("kind", "made"), [("arc", arc_record), ("warc", warc_resource)])
def test_urls_that_are_not_utf_8_stay_apart(
    tmp_path: Path, kind: str, made: Callable[[str], bytes]
) -> None:
    """With U+FFFD for each such byte, two pages would be one, and the second take its place."""
    places = (b"first", b"\xfc"), (b"second", b"\xe9"), (b"third", "ü".encode())
    data = b"".join(
        made(f"http://example.org/{place.decode()}").replace(place, byte) for place, byte in places
    )
    found = read(tmp_path, data, f"a.{kind}")
    assert urls(found) == ["%FC", "%E9", "ü"]


@pytest.mark.parametrize("packing", PACKINGS)
def test_arc_files(tmp_path: Path, packing: str) -> None:
    """Version 1 with a space in a URL, a record that is damaged, and one behind it."""
    version = ARC_VERSION % (len(ARC_FIELDS), ARC_FIELDS)
    damaged = b"http://example.org/2 1.2.3.4 20240501120000 text/html many\n" + PAGE + b"\n"
    records = [
        version,
        arc_record("http://example.org/a b"),
        damaged,
        arc_record("http://example.org/3"),
    ]
    found = read(tmp_path, PACKINGS[packing](records), "crawl.arc")
    assert urls(found) == ["a b", "3"]
    assert document(found[1]).fetched_at_ms == 1714564800000
    assert document(found[1]).body == PAGE
    assert ["not a number" in item.reason for item in damage(found)] == [True]


@pytest.mark.parametrize(
    "length",
    [
        pytest.param("-5", id="negative"),
        pytest.param("5.0", id="a fraction"),
        pytest.param("\u00b2", id="a power"),
        pytest.param("\uff15", id="full width"),
        pytest.param("9" * 5_000, id="more digits than Python reads"),
    ],
)
def test_a_length_that_is_no_number_is_damage(tmp_path: Path, length: str) -> None:
    """In the words of neardup, of an ARC record and of HTTP in one; the next record is read."""
    version = ARC_VERSION % (len(ARC_FIELDS), ARC_FIELDS)
    line = f"http://example.org/1 1.2.3.4 20240501120000 text/html {length}\n".encode()
    arc = read(tmp_path, version + line + arc_record("http://example.org/2"), "crawl.arc")
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()
    cut = b"http://example.org/1 1.2.3.4 20240501120000 text/html 100000\n" + head
    end = read(tmp_path, version + arc_record("http://example.org/2") + cut, "cut.arc")
    for found in (arc, end):
        assert urls(found) == ["2"]
        [reason] = [item.reason for item in damage(found)]
        assert "not a number of at most 18 digits" in reason or "is cut short" in reason


@pytest.mark.parametrize(
    "called", [None, ARC2_FIELDS, ARC_FIELDS, b"1 0 Test\nURL Archive-length\n", b""]
)
@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("http://example.org/1", "1.2.3.4 20240501120000 text/html 200 - - 0 test.arc"),
        ("http://example.org/a b  c", "1.2.3.4 20240501120000 text/html"),
        ("http://example.org/a 20240501120000 b", "1.2.3.4 20240501120000 text/html"),
        ("http://example.org/a", "1.2.3.4 20240501120000 text/html; charset=utf-8"),
        ("http://example.org/a", "1.2.3.4 20240501120000 "),
        ("http://example.org/a", "- 20240501120000123 no-type"),
    ],
)
def test_lines_of_arc_are_read_by_what_is_in_them(
    tmp_path: Path, url: str, fields: str, called: bytes | None
) -> None:
    """
    Before the address is the URL; the type may have a parameter, or be missing; version 2 has ten
    fields.
    """
    version = b"" if called is None else ARC_VERSION % (len(called), called)
    found = read(
        tmp_path,
        version + arc_record(url, fields) + arc_record("http://example.org/b"),
        "crawl.arc",
    )
    assert urls(found) == [url.rpartition("/")[2], "b"] and not damage(found)


def test_a_last_arc_record_that_lost_its_carriage_returns_is_whole(tmp_path: Path) -> None:
    """If its response says so; else it is cut short."""
    head = b"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: %d\n\n" % len(PAGE)
    line = b"http://example.org/a 1.2.3.4 20240501120000 text/html %d\n" % (len(head + PAGE) + 12)
    assert document(read(tmp_path, line + head + PAGE, "crawl.arc")[0]).body == PAGE
    assert "cut short" in damage(read(tmp_path, line + head + PAGE[:-1], "crawl.arc"))[0].reason


MEMBERS = {
    "warc": b"".join(RECORDS[:3]),
    "arc": ARC_VERSION % (len(ARC_FIELDS), ARC_FIELDS)
    + b"".join(arc_record(f"http://example.org/{number}") for number in range(3)),
    "jsonl": b"".join(
        b'{"url": "http://example.org/%d", "fetched_at": "2024-05-01T12:00:00Z", "text": "x"}\n'
        % at
        for at in range(3)
    ),
}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize(
    "error",
    [RecursionError("deep"), IndexError("place"), LookupError(), MemoryError(), KeyError(1)],
)
def test_any_error_of_a_record_costs_that_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    """Also one that nobody has foreseen: it is named once, and its neighbours are read."""
    times: list[None] = []

    def at_the_second(*arguments: Any, original: Callable[..., Any]) -> Any:
        times.append(None)
        if len(times) == 2:
            raise error
        return original(*arguments)

    module = f"worker.shell.files.archives.{'rows' if kind == 'jsonl' else 'warc'}"
    name = "derive_doc_id" if kind == "jsonl" else "parse_response"
    original = getattr(import_module(module), name)
    monkeypatch.setattr(f"{module}.{name}", partial(at_the_second, original=original))
    found = read(tmp_path, MEMBERS[kind], f"crawl.{kind}")
    assert urls(found) == ["0", "2"]
    is_named_otherwise = kind == "jsonl" and isinstance(error, RecursionError)
    reason = "nested too deep" if is_named_otherwise else str(error) or type(error).__name__
    assert [item.reason for item in damage(found)] == [reason]


def test_an_error_at_the_beginning_of_a_file_costs_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its format is known, too: the file behind it is read."""
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for path in paths:
        path.write_text('{"text": "The river rose."}\n')
    begin_of = crawl_module._start_of

    def fails_once(unpacked: Any) -> Any:
        monkeypatch.setattr(crawl_module, "_start_of", begin_of)
        raise ArithmeticError("nobody knows")

    monkeypatch.setattr(crawl_module, "_start_of", fails_once)
    damaged, document = CrawlFiles(paths).entries()
    assert isinstance(document, Record) and isinstance(damaged, Damage)
    assert damaged.ends_file and "nobody knows" in damaged.reason


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_stdin_is_read_as_a_file_and_a_disk_that_fails_is_no_damage(
    monkeypatch: pytest.MonkeyPatch, kind: str, pack: Callable[[bytes], bytes]
) -> None:
    """It ends the run with its reason, wherever it fails: what stands behind has not been seen."""
    data = pack(MEMBERS[kind])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert urls(entries("-")) == ["0", "1", "2"]

    class Failing(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            if self.tell() == len(data):
                raise OSError(errno.EIO, "no disk")
            return super().read(97)

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Failing(data)))
    with pytest.raises(StopError, match=r"cannot read a file to its end: .*no disk"):
        entries("-")


def test_other_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    """
    A file that is no archive is one piece of damage, an empty one is nothing, a missing one an
    error.
    """
    assert [item.reason for item in damage(read(tmp_path, b"\x7fELF" * 99, "a.bin"))] == [
        f"{UNKNOWN}: it begins with b'\\x7fELF\\x7fELF\\x7fELF\\x7fELF\\x7fELF'. {WRITE_LINES}"
    ]
    [named] = damage(read(tmp_path, b"\x7fELF" * 99, "a.warc"))
    assert named.reason.endswith("begins with no record of WARC. If it is none, its name is wrong")
    assert read(tmp_path, b"", "a.warc") == []
    with pytest.raises(StopError, match="no such file"):
        entries(tmp_path / "missing.warc")
    with pytest.raises(StopError, match="it is a folder: name the files in it"):
        entries(tmp_path)


EXPECTED = {  # records, damaged
    "chatnoir-resiliparse__clueweb-quirk.warc.gz": (29, 0),
    "chatnoir-resiliparse__warcfile.warc.gz": (16, 0),
    "warcio__bad.arc": (1, 2),
    "warcio__example-bad-non-chunked.warc.gz": (1, 0),
    "warcio__example-digest.warc": (0, 0),
    "warcio__example-iana.org-chunked.warc": (1, 0),
    "warcio__example-resource.warc.gz": (1, 0),
    "warcio__example-space-in-target-uri.warc.gz": (0, 0),
    "warcio__example-space-in-url.arc": (1, 0),
    "warcio__example-trunc.warc": (0, 1),
    "warcio__example-wget-bad-target-uri.warc.gz": (1, 0),
    "warcio__example-wrong-chunks.warc.gz": (1, 0),
    "warcio__example.arc": (1, 0),
    "warcio__example.arc.gz": (1, 0),
    "warcio__example.warc": (1, 0),
    "warcio__example.warc.gz": (1, 0),
    "warcio__post-test.warc.gz": (0, 0),
    "whirlwind-python__whirlwind.warc.gz": (1, 0),
    "whirlwind-python__whirlwind.warc.wet.gz": (1, 0),
}


def test_files_of_the_wild_end_with_a_count(corpora: Path) -> None:
    """Archives that other projects keep because they are odd: each is read to its end."""
    counted = {}
    for path in sorted((corpora / "warc").iterdir()):
        kinds = Counter(map(type, entries(path)))
        counted[path.name] = (kinds[Record], kinds[Damage])
    assert counted == EXPECTED


TEXTS = st.none() | st.text(max_size=9) | st.sampled_from(["text/html", "x" * 5_000, "\ud800"])
YEAR_1_MS = -62_135_596_800_000  # of an ARC record: its date has four digits of a year


@given(
    st.builds(
        Capture, st.text(min_size=1) | st.just("ü" * 4_097),
        st.integers(YEAR_1_MS, TIMESTAMP_MS_MAX), st.binary(max_size=999), TEXTS, TEXTS, TEXTS,
        st.booleans(),
    ),
    st.integers(0, 9_999),
)  # fmt: skip
def test_a_capture_is_the_document_of_its_message(capture: Capture, bytes_max: int) -> None:
    """
    Without JSON and base64 it is the same document, of as many bytes; a text, or one to be refused,
    is none.
    """
    value = capture.message()
    try:
        wanted = decode_document(None, value, value_bytes_max=bytes_max), len(value)
    except DocumentError:
        wanted = None
    assert capture.document(bytes_max) == (None if capture.is_text else wanted)


def test_a_page_that_fits_into_no_message_is_left_out_and_counted(tmp_path: Path) -> None:
    """
    The largest body that is taken fits, base64 and all; one byte more is counted as too large, and
    the rest goes.
    """
    path = tmp_path / "crawl.warc"
    bodies = (
        b"<p>one</p>",
        b"x" * FED_BODY_BYTES_MAX,
        b"y" * (FED_BODY_BYTES_MAX + 1),
        b"<p>two</p>",
    )
    path.write_bytes(b"".join(warc_record(number, body) for number, body in enumerate(bodies)))
    crawl = CrawlFiles([str(path)], body_max=FED_BODY_BYTES_MAX)
    sizes = [len(record.key or b"") + len(record.value or b"") for record in crawl]
    assert len(sizes) == 3
    assert max(sizes) < MESSAGE_BYTES_MAX
    assert crawl.tally.left_out == {"body-too-large": 1}


def test_records_that_are_read_ahead_are_held_without_their_content() -> None:
    """Each may have megabytes: whoever judges them holds what it needs, and nobody else does."""
    alive = weakref.WeakSet[Any]()

    class Page:
        def __init__(self) -> None:
            alive.add(self)

    records = (Record("crawl", 0, b"%d" % number, cast("Any", Page())) for number in range(200))
    most = 0
    count = 0
    for record, key in with_answers(records, lambda messages: iter([key for key, _ in messages])):
        assert record.key == key
        most = max(most, len(alive))
        count += 1
    assert count == 200
    assert most <= 3


def test_a_page_that_is_too_long_to_be_judged_is_a_dead_letter_that_nobody_holds(
    tmp_path: Path,
) -> None:
    """Its message is not made, and pages around it get their verdicts."""
    settings = Settings(threads=1, document_bytes_max=10_000)
    large = warc_record(1, zipped(bytes(30_000)), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip")
    path = tmp_path / "crawl.warc"
    path.write_bytes(warc_record(0) + large + warc_record(2))
    crawl = list(CrawlFiles([str(path)]))
    message = source_message(1, crawl[1].key, crawl[1].content, settings.document_bytes_max)
    assert (message.value, message.document, message.document_bytes) == (None, None, 30_000)
    rows = JobReader(settings, Fingerprinter(settings.parameters)).rows(
        [
            source_message(number, record.key, record.content, settings.document_bytes_max)
            for number, record in enumerate(crawl)
        ]
    )
    assert [row.kind == RowKind.DEAD for row in rows] == [False, True, False]
    assert [row.note for row in rows][1].startswith(
        "oversize: the value has 30,000 bytes, at most 10,000 are taken"
    )
