"""The table of file formats: what a beginning and a name stand for, and that each row is whole."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from tests.shell.test_archives import entries
from worker.errors import StopError
from worker.shell.files.archives import Damage, Record
from worker.shell.files.formats import (
    ARC,
    CSV,
    FORMATS,
    INPUTS,
    JSON,
    JSON_LINES,
    PARQUET,
    TSV,
    UNKNOWN,
    WACZ,
    WARC,
    FileFormat,
    check_format,
    format_of,
    format_of_start,
)

BEGINNINGS: dict[str, tuple[str, bytes, FileFormat | None]] = {
    "a signature needs no name": ("-", b"WARC/1.0\r\n", WARC),
    "blanks and a mark may stand before text": ("-", codecs.BOM_UTF8 + b'\n {"a":1}', JSON_LINES),
    "nothing may stand before a binary signature": ("-", b" PAR1", None),
    "a signature counts more than a name": ("a.csv", b"filedesc://a", ARC),
    "a signature counts more than a name of text": ("a.jsonl.gz", b"WARC/1.0\r\n", WARC),
    "a name counts where bytes mean nothing": ("a.csv.gz", b"url,text\n", CSV),
    "a name may go on behind its suffix": ("a.ndjson.part1", b"\x00", JSON_LINES),
    "a name counts more than a hint": ("a.csv", b"[a],b\n", CSV),
    "a hint counts where a name says nothing": ("-", b"[1, 2]", JSON),
    "an array in a file of lines is read as lines": ("a.jsonl", b"[1, 2]", JSON_LINES),
    "an object in a file of JSON is a line": ("a.json", b'{"a":1}', JSON_LINES),
    "a table with tabs goes by its name": ("a.tsv", b"url\ttext", TSV),
    "a zip is taken for its archives": ("-", b"PK\x03\x04", WACZ),
    "a name alone makes no Parquet": ("a.parquet", b"text", None),
    "a format that is only written is never recognised": ("a.html", b"<html>", None),
    "the folder's name says nothing": ("a.csv/data", b"text", None),
    "a name of an archive is enough": ("a.WET.gz", b"damaged", WARC),
    "a suffix that only begins a word is none": ("my.table.json", b"[1, 2]", JSON),
}


@pytest.mark.parametrize("case", BEGINNINGS)
def test_the_beginning_decides_then_the_name_then_a_hint(case: str) -> None:
    """Bytes that only one format has count most, because names lie more often."""
    name, start, wanted = BEGINNINGS[case]
    assert format_of_start(name, start) is wanted


def test_each_suffix_stands_for_its_own_format() -> None:
    """An output's name is refused for every other format, and the remedy is a suffix that fits."""
    for kind in FORMATS:
        for suffix in kind.suffixes:
            assert format_of(f"A{suffix.upper()}.zst") is kind
            check_format(f"a{suffix}.gz", kind)
            # Many call JSON Lines .json, so it may be written there.
            refused = set(FORMATS) - {kind, JSON_LINES if kind is JSON else kind}
            for other in refused:
                with pytest.raises(StopError, match=f"let it end in {other.suffixes[0]}"):
                    check_format(f"a{suffix}", other)
    assert format_of("-") is None
    check_format("-", PARQUET)
    for free in ("/dev/null", "verdicts", "verdicts.txt.gz", "of.pdfs", "v.1"):
        check_format(free, JSON_LINES)
    check_format("verdicts.json", JSON_LINES)


@pytest.mark.parametrize("name", ["v.jsonl.bz2", "v.jsonl.XZ", "report.html.xz"])
def test_an_output_is_not_named_after_a_compression_that_it_has_not(name: str) -> None:
    """It would be a plain text, which no program can unpack."""
    with pytest.raises(StopError, match=r"outputs are compressed as \.gz or \.zst"):
        check_format(name, JSON_LINES)


@pytest.mark.parametrize("name", ["out.xlsx", "out.PDF", "out.zip", "out.avro.gz"])
def test_an_output_is_not_named_after_another_programs_files(name: str) -> None:
    """That program would call it damaged."""
    with pytest.raises(StopError, match=r"does not say: let it end in \.csv"):
        check_format(name, CSV)


def test_helps_and_errors_name_every_format_that_is_read() -> None:
    """A new row that is read is named in both texts; one that is only written in neither."""
    for kind in FORMATS:
        assert (kind.name in INPUTS) == (kind.name in UNKNOWN) == (kind.reader is not None)


def tar_of(name: str, data: bytes, kind: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as packed:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


LINES = b'{"text":"The river rose."}\n' * 3
UNREAD = {
    "POSIX": tar_of("a.jsonl", LINES, tarfile.PAX_FORMAT),
    "GNU": tar_of("a.jsonl", LINES, tarfile.GNU_FORMAT),
    "packed": gzip.compress(tar_of("a.jsonl", LINES, tarfile.GNU_FORMAT)),
    "lzma": lzma.compress(LINES, lzma.FORMAT_ALONE),
    "lz4": b"\x04\x22\x4d\x18\x60\x40\x82\x51\0\0\x80" + LINES + bytes(4),
}


@pytest.mark.parametrize("data", UNREAD.values(), ids=UNREAD)
def test_a_file_that_others_have_to_unpack_says_what_it_is(tmp_path: Path, data: bytes) -> None:
    """Its name says what is in it: read by that, a tar would lose the first line of each file."""
    path = tmp_path / "a.jsonl.packed"
    path.write_bytes(data)
    [found] = entries(path)
    assert isinstance(found, Damage) and found.ends_file
    assert "which is not read: unpack it, and name what is in it" in found.reason


def test_a_text_with_the_mark_of_a_tar_is_a_text(tmp_path: Path) -> None:
    """The mark alone is a part of an English word."""
    data = b'{"text":"%s"}\n' % (b"." * 247 + b"mustard")
    assert data.startswith(b"ustar", 257)
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    [found] = entries(path)
    assert isinstance(found, Record)


@pytest.mark.parametrize(
    "name", ["a.jsonl.gz", "a.zst", "a.CSV.BZ2", "a.xz", "a.parquet", "a.wacz"]
)
def test_a_file_without_a_byte_was_cut_if_its_name_says_that_it_has_some(
    tmp_path: Path, name: str
) -> None:
    """A compressed file has bytes even if it holds nothing. Lines of no document have none."""
    for empty, data in ((name, b""), ("a.jsonl", b""), ("b.jsonl.gz", gzip.compress(b""))):
        (tmp_path / empty).write_bytes(data)
    [found] = entries(tmp_path / name)
    assert isinstance(found, Damage) and found.ends_file and "so it was cut" in found.reason
    assert not entries(tmp_path / "a.jsonl") and not entries(tmp_path / "b.jsonl.gz")


def test_parquet_that_was_compressed_as_a_whole_is_to_be_unpacked(tmp_path: Path) -> None:
    """It lacks its index as a cut file does, but to write it again would not help."""
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1 and what follows"))
    [found] = entries(path)
    assert isinstance(found, Damage) and found.ends_file and "unpack it" in found.reason
