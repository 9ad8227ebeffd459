"""
A synthetic crawl on disk: real WARC records (gzip, one member each), and the truth about them beside it.

    OUT.warc.gz        warcinfo, then one response record a document
    OUT.truth.jsonl    a line a document, in their order: doc_id, url, fetched_at, group, relation, language, expected

`group` is the article: documents of one group are copies of each other, of different groups they are not. Each page
of a template is a group of its own, since to a person it is another page; its `relation` is the template's kind.
`expected` is "verdict", for pages of templates "new", "skipped" (nothing in it) or "unreadable" (the record itself is
damaged: no document comes out of it).
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson

from schemas.timestamp import format_timestamp
from worker.core.document import derive_doc_id
from worker.devkit.sample.crawl import FIRST_FETCH_S, Capture, crawl
from worker.shell.files.outputs import check_places, written

_CHUNK_BYTES = 4_096
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def truth_path(archive: Path) -> Path:
    """
    Return where the truth of a sample crawl lies.

    >>> truth_path(Path("out/crawl.warc.gz")).name
    'crawl.truth.jsonl'
    """
    return archive.with_name(archive.name.removesuffix(".gz").removesuffix(".warc") + ".truth.jsonl")


def write_sample_crawl(
    archive: Path, documents: int, seed: int, on_document: Callable[[int], None] = lambda _: None
) -> Counter[str]:
    """
    Write a crawl and its truth; return the number of documents by relation. The bytes depend on both numbers only.

    Args:
        on_document: told the number of documents written, after each: for progress.
    Raises:
        ValueError: no documents.
        StopError: a file cannot be written.

    Cost: about 0.5 ms a document, some 50 MB of memory however many there are.
    """
    if documents < 1:
        raise ValueError(f"documents must be 1 or more, got {documents}: an empty crawl shows nothing")
    relations: Counter[str] = Counter()
    check_places((), (archive, truth_path(archive)))
    with written(archive) as warc, written(truth_path(archive)) as truth:
        warc.write(_member(_warcinfo(documents, seed)))
        for number, capture in enumerate(crawl(documents, seed), 1):
            warc.write(_record_bytes(capture))
            truth.write(_truth(capture))
            relations[capture.relation] += 1
            on_document(number)
    return relations


def _record_bytes(capture: Capture) -> bytes:
    """Return the record's bytes in the file, damaged as the capture says."""
    record = _record(capture)
    if capture.harm == "no-header":
        record = b"\r\n".join(record.split(b"\r\n")[3:])
    member = _member(record)
    if capture.harm == "flipped-bits":
        middle = len(member) // 2
        member = member[:middle] + bytes(byte ^ 0x55 for byte in member[middle : middle + 64]) + member[middle + 64 :]
    return member


def _record(capture: Capture) -> bytes:
    body = capture.body
    payload = _chunked(body) if "chunked" in capture.header else body
    block = capture.header.encode() + b"\r\n\r\n" + payload
    digest = base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: {_record_id(capture.url, capture.fetched_at_s)}\r\n"
        f"WARC-Target-URI: {capture.url}\r\nWARC-Date: {_warc_date(capture.fetched_at_s)}\r\n"
        f"WARC-Payload-Digest: sha1:{digest}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def _warcinfo(documents: int, seed: int) -> bytes:
    block = (
        f"software: neardup sample-crawl\r\ndocuments: {documents}\r\nseed: {seed}\r\nformat: WARC File Format 1.0\r\n"
    )
    head = (
        f"WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: {_record_id('warcinfo', seed)}\r\n"
        f"WARC-Date: {_warc_date(FIRST_FETCH_S)}\r\nContent-Type: application/warc-fields\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return f"{head}{block}\r\n\r\n".encode()


def _record_id(name: str, number: int) -> str:
    """Return a name-based UUID, so that the same crawl has the same ids."""
    digits = hashlib.sha256(f"{name} {number}".encode()).hexdigest()
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}>"


def _warc_date(seconds: int) -> str:
    return format_timestamp(seconds * 1_000)[:-5] + "Z"


def _chunked(body: bytes) -> bytes:
    parts = []
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES]
        parts.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    return b"".join(parts) + b"0\r\n\r\n"


def _member(record: bytes) -> bytes:
    """
    Return one gzip member. Huffman coding alone: the implementations of zlib find different matches, but build the same
    codes, and the bytes shall be equal on every machine.
    """
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    data = deflate.compress(record) + deflate.flush()
    tail = zlib.crc32(record).to_bytes(4, "little") + (len(record) & 0xFFFF_FFFF).to_bytes(4, "little")
    return _GZIP_HEADER + data + tail


def _truth(capture: Capture) -> bytes:
    fetched_at_ms = capture.fetched_at_s * 1_000
    return orjson.dumps(
        {
            "doc_id": derive_doc_id(capture.url, fetched_at_ms),
            "url": capture.url,
            "fetched_at": format_timestamp(fetched_at_ms),
            "group": capture.group,
            "relation": capture.relation,
            "language": capture.language,
            "expected": capture.expected,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )
