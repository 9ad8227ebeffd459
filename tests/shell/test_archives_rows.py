"""Readers of lines and rows (JSON lines, Parquet, CSV): what they find, and what damage costs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import random
import struct
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pandas
import pyarrow
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from neardup import CrawlFiles, Deduplicator
from pyarrow import parquet

from tests.shell.test_archives import (
    PACKINGS,
    damage,
    document,
    entries,
    read,
)
from worker.errors import DocumentError, StopError
from worker.shell.files.archives import Damage, Omission, Record
from worker.shell.files.archives import parquet as parquet_module
from worker.shell.files.archives.budget import Budget
from worker.shell.files.archives.column_names import NO_NAMES, OPTION, ColumnNames, SeenColumns
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.rows import InputFile
from worker.shell.files.crawl import format_in
from worker.shell.files.inputs import RowPlace
from worker.shell.messages.documents import decode_document

LINES = [
    b'{"url": "http://example.org/0", "fetched_at": "2024-05-01T12:00:00Z", "text": "zero"}',
    b'{"doc_id": "mine", "url": "http://example.org/1", "fetched_at": "2024-05-01T12:00:00Z", '
    b'"text": "\\ud800"}',
    b"",
    b"not json",
    b"[1, 2]",
    b'{"text": "neither url nor time"}',
]


def test_an_infinite_doc_id_counts_as_missing(tmp_path: Path) -> None:
    """JSON's 1e400 and 1e401 are both infinite: two documents would have one id."""
    lines = (
        b'{"doc_id": %b, "text": "%b"}' % line for line in ((b"1e400", b"a"), (b"1e401", b"b"))
    )
    ids = [document(item).doc_id for item in read(tmp_path, b"\n".join(lines), "a.jsonl")]
    assert ids == [RowPlace(0, 0, 0).doc_id(text) for text in "ab"]


@pytest.mark.parametrize("packing", PACKINGS)
def test_json_lines_pass_as_they_are(tmp_path: Path, packing: str) -> None:
    """Objects pass byte for byte, but a text gets a URL; other lines are damage at their offset."""
    found = read(tmp_path, PACKINGS[packing]([line + b"\n" for line in LINES]), "crawl.jsonl")
    records = [item for item in found if isinstance(item, Record)]
    assert [item.value for item in records[:2]] == LINES[:2]
    assert [item.raw for item in records] == [line + b"\n" for line in (*LINES[:2], LINES[5])]
    assert [item.key for item in records[:2]] == [document(found[0]).doc_id.encode(), b"mine"]
    assert document(records[2]).url == f"urn:neardup:{document(records[2]).doc_id}"
    assert [item.offset for item in damage(found)] == [
        len(b"\n".join(LINES[:3])) + 1,
        len(b"\n".join(LINES[:4])) + 1,
    ]


def test_half_a_pair_in_a_line_is_what_the_worker_reads(tmp_path: Path) -> None:
    """In a text it is U+FFFD; in a name it is an error, also if the line gets another field."""
    data = b'{"doc_id": "a", "text": "cut \\ud83d"}\n{"doc_id": "caf\\udce9", "text": "b"}\n'
    cut, named = read(tmp_path, data, "crawl.jsonl")
    assert document(cut).body == "cut \ufffd"
    with pytest.raises(DocumentError, match="doc_id is 'caf\ufffd'"):
        document(named)


DEEP = "[" * 990 + "]" * 990


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f'{{"id": "x", "text": "x", "attrs": {{"a": {DEEP}}}}}', "nested too deep"),
        (f'{{"id": "x", "content": {DEEP}}}', "nested too deep"),
        (f'{{"id": {DEEP}, "content": "x"}}', "nested too deep"),
        ('{"id": "x", "text": "\xff"}', "not utf-8 ("),
        ("[" * 99_999, "nested too deep"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"fetched_at_default": "2024-05-01T12:00:00Z"},
        {"columns": ColumnNames(text="content"), "fetched_at_default": "2024-05-01T12:00:00Z"},
        {"columns": ColumnNames("id", "content")},
    ],
    ids=["time", "text", "id and text"],
)
def test_a_line_costs_itself(
    tmp_path: Path, line: str, reason: str, options: dict[str, Any]
) -> None:
    """
    Whatever is in it and however lines are read: it is a document or damage, and the others are
    read.
    """
    path = tmp_path / "a.jsonl"
    good = '{{"id": "{0}", "url": "http://example.org/{0}", "text": "{0}", "content": "{0}"}}'
    path.write_bytes("\n".join([good.format("a"), line, good.format("b")]).encode("latin-1"))
    found = entries(path, **options)
    assert [item.line for item in found if not isinstance(item, Omission)] == [1, 2, 3]
    assert [document(found[at]).body for at in (0, 2)] == ["a", "b"]
    assert isinstance(found[1], Record) or found[1].reason.startswith(
        (reason, "no field 'content', there are ")
    )


def test_a_row_of_parquet_costs_itself(tmp_path: Path) -> None:
    """
    Text that is no UTF-8, or a time beyond all calendars: a record that the worker answers, one for
    each row.
    """
    path = tmp_path / "rows.parquet"
    ends = pyarrow.py_buffer(struct.pack("<4i", 0, 1, 4, 5))
    texts = pyarrow.Array.from_buffers(
        pyarrow.string(), 3, [None, ends, pyarrow.py_buffer(b"a\xff\xfe\xfdb")]
    )
    times = pyarrow.array([0, 0, 1 << 62], pyarrow.timestamp("ms", "UTC"))
    parquet.write_table(pyarrow.table({"text": texts, "fetched_at": times}), path)
    first, *others = entries(path)
    assert document(first).body == "a"
    for found, reason in zip(others, ("text: .* can't decode", "fetched_at.*: "), strict=True):
        assert isinstance(found, Record)
        with pytest.raises(DocumentError, match=reason):
            decode_document(found.key, found.value)
    twice = pyarrow.Table.from_arrays(
        [pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"]
    )
    parquet.write_table(twice, path)
    [found] = entries(path)
    assert isinstance(found, Record) and b"exists 2 times" in found.value


def test_progress_through_parquet_is_that_of_its_rows(tmp_path: Path) -> None:
    """Its bytes are read from its end, and more than once: by them, it would never be done."""
    path = tmp_path / "rows.parquet"
    texts = [random.Random(number).randbytes(500_000).hex() for number in range(8)]
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=1)
    crawl = CrawlFiles([path])
    reached = [crawl.bytes_read for _ in crawl]
    assert reached == sorted({*reached}) and crawl.bytes_read == crawl.bytes_total


def test_a_row_of_parquet_that_cannot_be_read_says_which_column_and_why(tmp_path: Path) -> None:
    """Its dead letter has the code and the text that a frame's row has, not those of its message."""
    path = tmp_path / "rows.parquet"
    columns = {
        "doc_id": pyarrow.array([Decimal("2.50"), Decimal("3.00"), Decimal("4.00")]),
        "text": pyarrow.array([b"a", b"\xff", b"c"]),
        "fetched_at": pyarrow.array([0, 0, 253_402_300_800], pyarrow.timestamp("s")),
    }
    parquet.write_table(pyarrow.table(columns), path)
    said = [
        "invalid-field: document 0: doc_id is Decimal Decimal('2.50'): a number is an id if",
        "invalid-field: document 1: text is not utf-8: name its encoding",
        "unreadable: document 2: fetched_at is 10000-01-01",
    ]
    answers = map(str, Deduplicator(threads=1).add_many(CrawlFiles([path]), errors="return"))
    assert all(answer.startswith(start) for answer, start in zip(answers, said, strict=True))


def test_bytes_of_parquet_are_decoded_as_lines_are(tmp_path: Path) -> None:
    """UTF-8, or the encoding that is named; others cost their row, and are never replaced."""
    path = tmp_path / "rows.parquet"
    parquet.write_table(
        pyarrow.table({"text": [b"K\xc3\xb6ln", b"K\xf6ln"], "b": [b"\xff"] * 2}), path
    )
    first, second = entries(path)
    assert document(first).body == "K\u00f6ln"
    assert isinstance(second, Record)
    with pytest.raises(DocumentError, match="text is not utf-8: name its encoding"):
        decode_document(second.key, second.value)
    assert document(entries(path, encoding="latin-1")[1]).body == "K\u00f6ln"


def test_a_damaged_file_of_parquet_ends_no_run(tmp_path: Path) -> None:
    """It is named; of one that breaks off in its midst the rows before that are read."""
    path = tmp_path / "rows.parquet"
    parquet.write_table(
        pyarrow.table({"text": ["a"] * 2_000}), path, row_group_size=1_000, compression="NONE"
    )
    whole = path.read_bytes()
    place = parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    for data, rows in (
        (whole[:-20], 0),
        (b"PAR1", 0),
        (whole[:place] + b"\xff" * 9 + whole[place + 9 :], 1_000),
    ):
        found = read(tmp_path, data, "rows.parquet")
        assert [type(item) for item in found] == [Record] * rows + [Damage]


MARKED = ("utf-8", "utf-16-le", "utf-32-be")


@pytest.mark.parametrize("encoding", MARKED)
def test_a_line_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    """As where files were joined, or a writer begins each line so; a kept line has no mark."""
    lines = ['{"doc_id": "a", "text": "one"}\n', '{"doc_id": "b", "text": "two"}\n', "\n"]
    data = "".join(f"\ufeff{line}" for line in lines).encode(encoding)
    found = read(tmp_path, data, "a.jsonl")
    assert [item.key for item in found if isinstance(item, Record)] == [b"a", b"b"]
    assert [item.raw.decode(encoding) for item in found if isinstance(item, Record)] == lines[:2]
    assert not damage(found)


@pytest.mark.parametrize("window", [27, 28, 31])
def test_long_windows_of_zstd_are_read(tmp_path: Path, window: int) -> None:
    """Up to `--long=31`, as in the dumps of some forums; members behind each other, too."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window, enable_ldm=True)
    packing = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = packing.compress(LINES[0] + b"\n") + packing.flush()
    found = read(tmp_path, data + data, "a.jsonl.zst")
    assert [type(item) for item in found] == [Record, Record]


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_bzip2_and_xz_are_read_member_by_member(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """A damaged member costs itself, and reading goes on at the next one."""
    members = [pack(LINES[0] + b"\n" * 3_000_000) for _ in range(3)]
    assert len(read(tmp_path, b"".join(members), "a.jsonl")) == 3
    broken = bytearray(members[1])
    broken[len(broken) // 2] ^= 0xFF
    found = read(tmp_path, members[0] + bytes(broken) + members[2], "a.jsonl")
    assert [type(item) for item in (found[0], found[-1])] == [Record, Record]
    assert "damaged compression" in damage(found)[0].reason
    assert (
        "the file ends within this member" in damage(read(tmp_path, members[0][:-9], "a"))[0].reason
    )


def test_a_window_that_needs_too_much_memory_names_the_remedy(tmp_path: Path) -> None:
    """With the library's words."""
    huge = b"\x28\xb5\x2f\xfd\x00" + bytes([31 - 10 + 3 << 3]) + bytes(20)
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    data = lzma.compress(LINES[0], filters=filters)
    for packed, remedy in ((huge, "zstd -d --long=31"), (data, "unpack it first")):
        [found] = read(tmp_path, packed, "a.jsonl")
        assert isinstance(found, Damage) and remedy in found.reason


def test_an_endless_line_is_damage_and_not_memory(tmp_path: Path) -> None:
    """The lines around it are read, and it is told of once."""
    found = read(
        tmp_path, LINES[0] + b"\n" + b"x" * 5_000_000 + b"\n" + LINES[1], "a.jsonl", body_max=1_000
    )
    assert [type(item).__name__ for item in found] == ["Record", "Damage", "Record"]
    found = read(
        tmp_path,
        b"text\na\n" + b"x" * 5_000_000 + b"\nb\n" + b"y" * 2_000_000,
        "a.csv",
        body_max=1_000,
    )
    assert [document(item).body for item in found if isinstance(item, Record)] == ["a", "b"]
    assert [item.reason for item in damage(found)] == ["a line of more than 1,000 bytes"] * 2


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_body_of_the_largest_size_is_read_as_base64(tmp_path: Path, name: str) -> None:
    """Which makes it longer by a third."""
    body = "x" * (5 << 20)
    packed = orjson.dumps({"doc_id": "a", "body_base64": b64encode(body.encode()).decode()})
    [found] = read(tmp_path, b"[%b]" % packed if name == "a.json" else packed, name, len(body))
    assert document(found).body == body.encode()


CSV = """\ufeffid,"content, whole",url
a,"He said: ""It is late.""
And he went.",https://example.org/a

b,,
c,too,many,fields
d,"The river, it rose.",
"""


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_row_of_csv_is_a_document(tmp_path: Path, packing: str, end: str) -> None:
    """
    Quotes, commas and line ends within a field; an empty one is missing; a row of another length
    costs itself.
    """
    data = PACKINGS[packing]([CSV.replace("\n", end).encode()])
    (tmp_path / "rows.csv.gz").write_bytes(data)
    found = entries(tmp_path / "rows.csv.gz", columns=ColumnNames("id", "content, whole"))
    records = [item for item in found if isinstance(item, Record)]
    assert [item.key for item in records] == [b"a", b"b", b"d"]
    given = [orjson.loads(item.value) for item in records]
    text = f'He said: "It is late."{end}And he went.'
    assert [fields.get("text") for fields in given] == [text, None, "The river, it rose."]
    assert [fields["url"] for fields in given] == [
        "https://example.org/a",
        "urn:neardup:b",
        "urn:neardup:d",
    ]
    assert [(item.line, item.reason) for item in damage(found)] == [
        (6, "4 fields, and the first line has 3")
    ]
    head = records[0].head
    assert head is not None
    again = b"".join([head.data, *(record.raw for record in records)])
    (tmp_path / "again.csv").write_bytes(again)
    second = entries(tmp_path / "again.csv", columns=ColumnNames("id", "content, whole"))
    assert [(item.key, item.value) for item in second if isinstance(item, Record)] == [
        r[2:4] for r in records
    ]


def test_a_row_with_a_cr_inside_is_told_without_a_remedy_for_programmers(tmp_path: Path) -> None:
    """It costs itself; the library's own remedy is an argument of `open`. In quotes a CR is text."""
    found = read(tmp_path, b'doc_id,text\na,x\rb,y\nc,"in\rquotes"\n', "a.csv")
    assert [(item.line, item.reason) for item in damage(found)] == [
        (2, "not CSV: the row has a CR inside: end lines with LF or CR LF")
    ]
    [record] = [item for item in found if isinstance(item, Record)]
    assert record.key == b"c"
    assert orjson.loads(record.value)["text"] == "in\rquotes"


def test_lines_of_json_that_end_with_cr_alone_are_told_with_the_remedy(tmp_path: Path) -> None:
    """All of them are one line."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text":"a"}\r{"text":"b"}\r')
    [found] = entries(path)
    assert isinstance(found, Damage) and "end lines with LF or CR LF" in found.reason


def test_a_row_has_the_doc_id_of_the_worker_for_its_key(tmp_path: Path) -> None:
    """
    Also where it names none, whatever the format: what is delivered again goes into the same
    partition.
    """
    fields = {
        "url": "https://example.org/a",
        "fetched_at": "2026-01-31T12:00:00Z",
        "text": "The river rose.",
    }
    parquet.write_table(pyarrow.Table.from_pylist([fields]), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text(",".join(fields) + "\n" + ",".join(fields.values()) + "\n")
    (tmp_path / "rows.jsonl").write_bytes(orjson.dumps(fields))
    for path in tmp_path.iterdir():
        [record] = entries(path)
        assert isinstance(record, Record) and record.key == document(record).doc_id.encode()


SCORES: list[Any] = [0.5, "0.75", "nan", None, -7, True]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_a_score_is_the_finite_number_in_a_field(tmp_path: Path, suffix: str) -> None:
    """In every format with fields, as a number or a text; whatever else is there is none."""
    path = tmp_path / f"in.{suffix}"
    frame = pandas.DataFrame({"text": ["The river rose."] * len(SCORES), "quality": SCORES})
    if suffix == "parquet":
        numbers = pyarrow.array([0.5, 0.75, math.nan, None, -7.0, math.inf])
        parquet.write_table(pyarrow.table({"text": frame["text"], "quality": numbers}), path)
    elif suffix.startswith("json"):
        frame.to_json(path, orient="records", lines=suffix == "jsonl")
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    scores = [record.score for record in CrawlFiles([str(path)], score_column="quality")]
    assert scores == [0.5, 0.75, None, None, -7.0, None]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"text\ra\rb\r", "a CR inside: end lines with LF"),
        (b"text,id,text\na,1,b\n", "has two columns 'text': rename one"),
    ],
)
def test_a_table_that_could_be_misread_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """In a line, before any row is judged."""
    with pytest.raises(StopError, match=reason):
        read(tmp_path, data, "a.csv")


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, zstandard.compress])
def test_what_is_compressed_twice_is_damage_with_the_remedy(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Its bytes look like a text in another encoding, which no --encoding reads."""
    [found] = read(tmp_path, pack(pack(b'{"text":"a"}\n')), "a.jsonl")
    assert isinstance(found, Damage) and "compressed twice: unpack it once" in found.reason


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_format_is_recognised_though_the_first_member_has_a_byte_or_two(
    tmp_path: Path, cut: int
) -> None:
    """Programs that write lines one by one may end a member of gzip anywhere, also behind a blank."""
    lines = b'\n\n{"doc_id":"a","text":"The river rose.","url":"https://example.org/"}\n'
    data = gzip.compress(lines[:cut]) + gzip.compress(lines[cut:])
    for name in ("a.json.gz", "a"):
        [found] = read(tmp_path, data, name)
        assert isinstance(found, Record) and found.key == b"a"
        kind = format_in(str(tmp_path / name))
        assert kind is not None and kind.name == "JSON Lines"


def test_a_number_with_too_many_digits_is_told_without_a_remedy_for_programmers(
    tmp_path: Path,
) -> None:
    """The library's own remedy is a setting of Python."""
    line = b'{"text":"a","number":' + b"9" * 5_000 + b"}\n"
    found = read(tmp_path, line + b'{"text":"b"}\n', "a.jsonl")
    [reason] = [item.reason for item in damage(found)]
    assert "5000 digits" in reason and "sys." not in reason and len(found) == 2


@given(st.binary(max_size=300).map(lambda data: b"text,id\n" + data), st.integers(1, 40))
def test_any_bytes_are_csv_or_damage(data: bytes, size: int) -> None:
    """
    Wherever the pieces of a file end: nothing is raised, and what is read does not depend on it.
    """
    place = RowPlace(0, 0, 0)
    seen = SeenColumns(NO_NAMES, OPTION)
    pieces = (Piece(at, data[at : at + size], None) for at in range(0, len(data), size))
    found, whole = (
        list(InputFile("a.csv", parts, 1 << 20, Budget(), lambda: place, seen).csv())
        for parts in (pieces, iter([Piece(0, data, None)]))
    )
    assert found == whole


def test_a_table_that_was_appended_to_another_brings_no_row_of_names(tmp_path: Path) -> None:
    """Its first line, with its mark, is no document: it is counted as left out."""
    first = b"\xef\xbb\xbfdoc_id,text\r\na,The river rose.\r\n"
    second = first.replace(b"a,", b'"b",')
    one, left_out, other = read(tmp_path, first + second, "a.csv")
    assert isinstance(left_out, Omission) and left_out.reason == "names-of-columns"
    assert (document(one).doc_id, document(other).doc_id) == ("a", "b")


def test_a_page_of_parquet_that_was_changed_is_damage_if_its_writer_has_summed_it(
    tmp_path: Path,
) -> None:
    """A bit that a disk has turned makes another text, which nobody could tell from its own."""
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"text": ["The river rose."]})
    parquet.write_table(
        table, path, write_page_checksum=True, compression="NONE", use_dictionary=False
    )
    [found] = read(tmp_path, path.read_bytes().replace(b"river rose", b"raven rose"), path.name)
    assert isinstance(found, Damage) and "checksum" in found.reason


def test_an_index_of_parquet_that_arrow_doubts_ends_its_file_and_not_the_program(
    tmp_path: Path,
) -> None:
    """Asked for such a column, Arrow would end the program: a column that must have values now."""
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": ["The river rose."]}), path)
    optional = b"\x15\x0c\x25\x02"  # texts, of which some may be missing
    data = path.read_bytes()
    assert data.count(optional) == 1
    [found] = read(tmp_path, data.replace(optional, b"\x15\x0c\x25\x00"), path.name)
    assert isinstance(found, Damage) and found.ends_file


def test_rows_of_parquet_that_are_missing_are_damage(tmp_path: Path) -> None:
    """The index says how many there are, and Arrow reads what there is without a word."""
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": ["The river rose."] * 2_000}), path)
    head, name, tail = path.read_bytes().partition(b"schema")
    tail = tail.replace(b"\x16\xa0\x1f", b"\x16\xa2\x1f", 1)  # 2,000 in the index
    *rows, damaged = read(tmp_path, head + name + tail, path.name)
    assert len(rows) == 2_000
    assert isinstance(damaged, Damage) and "2,000 rows, and its index says 2,001" in damaged.reason


def varint(number: int) -> bytes:
    """A number in seven bits a byte, as Thrift writes it."""
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def index_of_parquet(of_metadata: bytes, of_index: bytes = b"") -> io.BytesIO:
    """
    What stands behind the rows of a file: one row group with one column.

    Args:
        of_metadata: more fields of the column, behind its place (number 9).
        of_index: more fields of the index, behind the row groups (number 4).
    """
    metadata = b"\x15\x0c\x46\x02\x26\x14\x26\x08" + of_metadata + b"\0"
    index = b"\x49\x1c\x19\x1c\x3c" + metadata + b"\0\0" + of_index + b"\0"
    return io.BytesIO(index + struct.pack("<L", len(index)) + b"PAR1")


I64 = b"\x06"  # the kind of a field whose number follows


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(I64 + varint(2 * (9 + 65_536)) + b"\x64", id="a number that becomes that"),
        pytest.param(I64 + varint(2 * 9) + b"\x64", id="the place once more"),
        pytest.param(b"\x16" + varint(2**65 + 100), id="a value of more than 64 bits"),
        pytest.param(b"\x15" + varint(2**33), id="a value of more than 32 bits"),
        pytest.param(I64 + varint(2 * 9 - 1) + b"\x64", id="a number below 0"),
    ],
)
def test_an_index_of_parquet_that_arrow_would_read_otherwise_is_refused(odd: bytes) -> None:
    """Arrow would read pages in other places than those whose lengths have been checked."""
    [[chunk]] = parquet_module._row_groups(index_of_parquet(b""))
    assert chunk == (6, 1, 4, 14, 14)
    with pytest.raises(ValueError, match="write the file again"):
        parquet_module._row_groups(index_of_parquet(odd))


def test_a_header_of_a_page_whose_length_is_cut_to_32_bits_is_refused() -> None:
    """The next page would be looked for behind the column, and Arrow looks for it right here."""
    assert parquet_module._parsed(b"\x15\0\x15\x14\x15\x10\0")[:3] == (False, 10, 8)
    with pytest.raises(ValueError, match="more than 32 bits"):
        parquet_module._parsed(b"\x15\0\x15\x14\x15" + varint(2**32 + 16) + b"\0")


def test_zeros_are_no_header_of_a_page() -> None:
    """Else a hole in a file would be a page at each of its bytes."""
    with pytest.raises(ValueError, match="lacks what every page has"):
        parquet_module._parsed(bytes(9))


def test_columns_of_parquet_in_one_place_are_refused() -> None:
    """Their pages are looked at before they are read: a column a byte of the file, millions of them."""
    index = index_of_parquet(b"").getvalue()[:-8].replace(b"\x26\x14", b"\x26" + varint(20_000))
    stream = io.BytesIO(index + struct.pack("<L", len(index)) + b"PAR1")
    with pytest.raises(ValueError, match="10,000 bytes, and the file"):
        parquet_module._row_groups(stream)


@pytest.mark.parametrize(
    ("of_metadata", "of_index"),
    [
        pytest.param(b"", b"\x19\x18\0", id="of the file"),
        pytest.param(b"\x49\x18\0", b"", id="of a column"),
        pytest.param(b"\x7c\x29\x18\0\0", b"", id="of the sizes of a column"),
    ],
)
def test_a_list_of_parquet_with_other_elements_than_arrow_reads_is_refused(
    of_metadata: bytes, of_index: bytes
) -> None:
    """It does not look at their kind: here a text that is empty, and a struct or number for it."""
    with pytest.raises(ValueError, match="list of kind 8"):
        parquet_module._row_groups(index_of_parquet(of_metadata, of_index))


def test_what_an_index_of_parquet_has_besides_pages_takes_no_memory() -> None:
    """A list of a million structs with nothing in them has a byte for each."""
    many = index_of_parquet(b"", b"\xb9\xfc" + varint(1_000_000) + bytes(1_000_000))
    tracemalloc.start()
    parquet_module._row_groups(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((1, 1), "several files, one behind the other"),
        ((900, 1), "several files, one behind the other"),
        ((1, 900), "an index, or the header of a page"),  # it names a place within the first file
    ],
)
def test_files_of_parquet_that_were_appended_to_each_other_are_damage(
    tmp_path: Path, counts: tuple[int, int], reason: str
) -> None:
    """An index says nothing of the file before it: its rows would be left out without a word."""
    data = b""
    for number, count in enumerate(counts):
        path = tmp_path / "part.parquet"
        texts = [f"The river rose {number} {row}." for row in range(count)]
        parquet.write_table(pyarrow.table({"text": texts}), path)
        data += path.read_bytes()
    [only] = read(tmp_path, data, "a.parquet")
    assert isinstance(only, Damage) and only.ends_file
    assert reason in only.reason


@pytest.mark.parametrize("appended", [False, True])
def test_a_text_with_the_mark_of_parquet_in_an_index_of_pages_is_no_end_of_a_file(
    tmp_path: Path, appended: bool
) -> None:
    """A page of the crawl would cost the whole file. Two files with such an index are damage still."""
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": ["PAR1PAR1 is a mark.", "The river rose."]})
    parquet.write_table(table, path, write_page_index=True)
    data = path.read_bytes()
    items = read(tmp_path, data + data if appended else data, "a.parquet")
    assert [type(item) for item in items] == ([Damage] if appended else [Record, Record])


def test_maps_of_parquet_are_read_and_count_with_keys_and_values(tmp_path: Path) -> None:
    """Spark writes such columns. A row without a map, and a part of a column, count for themselves."""
    pairs = [[("one", 1)], None, [("two", 2), ("three", 3)]]
    maps = pyarrow.array(pairs, pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    table = pyarrow.table({"text": ["zero", "one", "two"], "maps": maps})
    path = tmp_path / "a.parquet"
    nested = pyarrow.StructArray.from_arrays([maps], ["maps"])
    parquet.write_table(table.append_column("nested", nested), path)
    assert [type(item) for item in entries(path)] == [Record] * 3
    of_texts = [len("one"), 0, len("twothree")]
    for row, count in enumerate([1, 0, 2]):
        expected = 8 + count * (4 + 8) + of_texts[row]
        assert parquet_module._own_bytes(maps.slice(row, 1)) == pytest.approx(expected, abs=8)


@pytest.mark.parametrize("is_group", [False, True])
def test_no_more_of_an_index_of_parquet_is_held_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, is_group: bool
) -> None:
    """Each row group, and each column of one, has a byte or more in the index, and an object here."""
    number = 1_000_000
    many = b"\xfc" + varint(number) + bytes(number)
    index = b"\x49" + (many if is_group else b"\x1c\x19" + many + b"\0") + b"\0"
    stream = io.BytesIO(index + struct.pack("<L", len(index)) + b"PAR1")
    monkeypatch.setattr(parquet_module, "CHUNKS_MAX", 1_000)
    tracemalloc.start()
    with pytest.raises(ValueError, match="at most 1,000 are read"):
        parquet_module._row_groups(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_a_file_of_parquet_with_a_large_index_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow would hold all of it."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["The river rose."]}), path)
    assert not damage(entries(path))
    for name, most in (("INDEX_BYTES_MAX", 100), ("CHUNKS_MAX", 0)):
        with monkeypatch.context() as patched:
            patched.setattr(parquet_module, name, most)
            patched.setattr(parquet, "ParquetFile", None)
            [only] = damage(entries(path))
        remedy = f"at most {most} are read: write the file again with larger row groups"
        assert remedy in only.reason
