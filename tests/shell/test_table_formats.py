"""JSON arrays, tables with other delimiters and encodings, and archives in a zip."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.conftest import EXAMPLES, JSON_VALUES
from tests.shell.test_archives import PAGE, RECORDS, damage, entries, urls
from worker.errors import StopError
from worker.shell.files import writers as writers_module
from worker.shell.files.archives import Damage, Record
from worker.shell.files.archives import wacz as wacz_module
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.json_array import ArrayElements
from worker.shell.files.archives.lines import Line
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.formats import CSV, JSON, JSON_LINES, TSV, WARC
from worker.shell.files.unpacked import opened_unpacked
from worker.shell.files.writers import TableWriter

DOCUMENTS = [{"doc_id": f"d{n}", "text": f'the ] "river", {{ rose \\ by {n} ü\n'} for n in range(5)]


def read_bytes(folder: Path, name: str, data: bytes, **options: Any) -> list[Any]:
    path = folder / name
    path.write_bytes(data)
    return entries(path, **options)


def doc_ids(found: list[Any]) -> list[str]:
    return [entry.key.decode() for entry in found if isinstance(entry, Record) and entry.key]


def pieces_of(data: bytes, size: int) -> Iterator[Piece]:
    for at in range(0, len(data), size):
        yield Piece(0, data[at : at + size], is_plain=True)


def elements(data: bytes, size: int = 7, bytes_max: int = 1_000_000) -> list[Line | Damage]:
    return list(ArrayElements("a.json", pieces_of(data, size), bytes_max))


# ---- JSON arrays


@settings(max_examples=2 * EXAMPLES)
@given(
    st.lists(JSON_VALUES, max_size=6),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(1, 40),
)
def test_the_elements_are_those_that_a_parser_finds(
    array: list[Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    """Wherever the file is cut into pieces, and whatever stands in the strings."""
    data = json.dumps(array, indent=indent, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    found = elements(data, size)
    assert all(isinstance(element, Line) for element in found)
    assert [json.loads(element.data) for element in found if isinstance(element, Line)] == array
    for element in found:
        assert isinstance(element, Line)
        assert data[element.position :].startswith(element.data)
        assert element.number == data[: element.position].count(b"\n") + 1


@settings(max_examples=2 * EXAMPLES)
@given(st.binary(max_size=60), st.integers(1, 20))
def test_any_bytes_are_read_to_their_end(data: bytes, size: int) -> None:
    """As elements or as damage, the same in pieces of any size."""
    assert elements(b"[" + data, size) == elements(b"[" + data, 1_000)


def broken_array(wrong: str) -> bytes:
    parts = [json.dumps(document) for document in DOCUMENTS]
    parts[2] = wrong
    return f"[{', '.join(parts)}]".encode()


@pytest.mark.parametrize(
    "wrong",
    [
        '{"doc_id": "d2", "text": "a quote is missing\n}',
        '{"doc_id": "d2", "text": ["x"}}',
        '{"doc_id": "d2", "text": nothing}',
        '{"doc_id": "d2", "text": "' + "x" * 200_000 + '"}',
        "17",
        '{"a":' * 1_001 + "1" + "}" * 1_001,
    ],
    ids=["quote", "bracket", "word", "too long", "number", "deep"],
)
def test_a_damaged_element_costs_itself(wrong: str) -> None:
    """The objects behind it are read."""
    found = elements(broken_array(wrong), bytes_max=100_000)
    readable = []
    for element in found:
        if isinstance(element, Line):
            try:
                value = json.loads(element.data)
            except ValueError:
                continue
            readable.append(value)
    assert [value["doc_id"] for value in readable if isinstance(value, dict)] == [
        "d0", "d1", "d3", "d4"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["documents.json", "documents"])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_as_its_lines_would_be(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    """The beginning says that it is one, behind blanks and a mark as well."""
    text = json.dumps(DOCUMENTS, indent=indent)
    for data in (text.encode(), b"\xef\xbb\xbf \n" + text.encode(), gzip.compress(text.encode())):
        found = read_bytes(tmp_path, name, data)
        assert not damage(found)
        assert [json.loads(entry.value)["text"] for entry in found] == [
            document["text"] for document in DOCUMENTS
        ]
    assert doc_ids(read_bytes(tmp_path, name, text.encode() + b"\n" + text.encode())) == 2 * [
        document["doc_id"] for document in DOCUMENTS
    ]
    for cut in (text[:-1], text[: len(text) // 2]):
        found = read_bytes(tmp_path, name, cut.encode())
        assert len(damage(found)) >= 1
        assert doc_ids(found)[:2] == ["d0", "d1"]
    [only] = read_bytes(tmp_path, "documents.json", text.encode("utf-16"))
    assert "convert it to UTF-8" in only.reason


def test_an_array_takes_the_memory_of_an_element(tmp_path: Path) -> None:
    """However many there are."""
    peaks = []
    for count in (1_000, 8_000):
        path = tmp_path / "a.json"
        path.write_text(json.dumps([{"text": "x" * 1_000} for _ in range(count)]))
        tracemalloc.start()
        read_count = sum(isinstance(entry, Record) for entry in iterated(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert read_count == count
    assert peaks[1] < 1.5 * peaks[0]


def iterated(path: Path) -> Iterator[Any]:
    yield from CrawlFiles([str(path)]).entries()


# ---- tables

ROWS = [("a", "the river; rose\tby, a metre"), ("b", 'he said "no",\nand left'), ("c", "x")]


def table(delimiter: str, quoted: bool = True) -> str:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quoted else text

    lines = [delimiter.join(("doc_id", "text"))]
    lines += [delimiter.join(map(field, row)) for row in ROWS]
    return "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "delimiter"),
    [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.tab.gz", "\t")],
)
def test_a_table_is_read_whatever_separates_its_fields(
    tmp_path: Path, name: str, delimiter: str, encoding: str
) -> None:
    """As its first line does; in UTF-16 with a byte order mark or without one."""
    data = table(delimiter).encode(encoding)
    found = read_bytes(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
    assert not damage(found)
    texts = [json.loads(entry.value)["text"] for entry in found]
    assert texts == [text for _, text in ROWS]
    assert doc_ids(found) == ["a", "b", "c"]


def test_the_column_that_is_read_tells_the_delimiter(tmp_path: Path) -> None:
    """A name may hold another delimiter, however often."""
    data = b"doc_id,a;b;c;d,text\nx,1;2;3;4,words\n"
    assert doc_ids(read_bytes(tmp_path, "a.csv", data)) == ["x"]
    with pytest.raises(StopError, match="there are doc_id, a, body"):
        read_bytes(tmp_path, "b.csv", b"doc_id;a;body\nx;1;words\n")


def test_the_first_row_of_a_table_without_a_head_is_not_quoted_whole(tmp_path: Path) -> None:
    """Ten names by their first characters, and where names stand; Parquet has no first line."""
    row = [f"{number} {'words ' * 99}" for number in range(1, 50)]
    with pytest.raises(StopError) as refusal:
        read_bytes(tmp_path, "a.csv", f"{','.join(row)}\n1,2\n".encode())
    said = str(refusal.value)
    assert f", {row[9][:40]}…, …: --text-column names one (its first line names the" in said
    assert "11 words" not in said and len(said) < 800
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"name": ["a"], "content": ["The river rose."]}), path)
    with pytest.raises(StopError, match=r"there are name, content: --text-column names one$"):
        entries(path)


# ---- WACZ


def wacz(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as zipped:
        for name, data in members:
            zipped.writestr(name, data)
    return path


BESIDE = ("datapackage.json", b"{}"), ("pages/pages.jsonl", b'{"text": "no document"}\n')
WARC_GZ = b"".join(map(gzip.compress, RECORDS[:3]))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_archives_in_a_zip_are_read(tmp_path: Path, method: int) -> None:
    """Those in folders as well, in the order of the zip; what else is in it is left alone."""
    path = wacz(
        tmp_path / "crawl.wacz",
        *BESIDE,
        ("archive/b.warc.gz", WARC_GZ),
        ("archive/deep/er/a.WARC", b"".join(RECORDS[3:])),
        method=method,
    )
    found = entries(path)
    assert not damage(found)
    assert urls(found) == ["0", "1", "2", "3", "4", "5"]
    assert {entry.file for entry in found} == {
        f"{path}/archive/b.warc.gz",
        f"{path}/archive/deep/er/a.WARC",
    }


def test_a_damaged_member_of_a_zip_costs_itself(tmp_path: Path) -> None:
    """The archives behind it are read, and what is damaged is named."""
    path = wacz(
        tmp_path / "crawl.wacz",
        ("archive/a.warc.gz", WARC_GZ),
        ("archive/b.warc", b"".join(RECORDS[3:])),
        method=zipfile.ZIP_DEFLATED,
    )
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as zipped:
        begin = zipped.infolist()[0].header_offset + 60
    for at in range(begin, begin + 20):
        data[at] ^= 0xFF
    path.write_bytes(data)
    found = entries(path)
    assert urls(found)[-3:] == ["3", "4", "5"]
    assert {entry.file for entry in damage(found)} == {f"{path}/archive/a.warc.gz"}


@pytest.mark.parametrize(
    "name",
    ["archive/more.warc.xz", "archive/part-00001", "archive/a.warc.gz.open", "a.WACZ", "x.arc.bz2"],
)
def test_an_archive_in_a_zip_that_is_not_read_is_damage(tmp_path: Path, name: str) -> None:
    """Its documents are not left out without a word; what else a WACZ holds is left alone."""
    others = ("datapackage.json", "pages/pages.jsonl", "indexes/a.warc.cdx.gz", "archive/.part")
    path = wacz(
        tmp_path / "a.wacz",
        ("archive/a.warc", b"".join(RECORDS)),
        *((other, b"{}") for other in others),
        (name, RECORDS[0]),
    )
    found = entries(path)
    assert urls(found) == list("012345")
    [unread] = damage(found)
    assert unread.file == f"{path}/{name}" and "unpack it, and name the file" in unread.reason


@pytest.mark.parametrize("lost", ["its entry", "its name", "all of its name"])
def test_an_archive_that_the_index_of_a_zip_has_lost_is_damage(tmp_path: Path, lost: str) -> None:
    """The index says how many members there are, and no name has a NUL."""
    named = ("archive/a.warc", "archive/b.warc")
    path = wacz(tmp_path / "a.wacz", *((name, b"".join(RECORDS)) for name in named))
    data = path.read_bytes()
    at = data.rindex(b"PK\1\2")  # the entry of the second one
    (size,) = struct.unpack_from("<L", data, len(data) - 22 + 12)
    entry, end = data[at:-22], data[-22:]
    if lost == "its entry":
        shorter = struct.pack("<L", size - len(entry))
        entry, end = b"", end.replace(struct.pack("<L", size), shorter)
    gone = b"archive/b.warc" if lost == "all of its name" else b"hive/b.warc"
    path.write_bytes(data[:at] + entry.replace(gone, bytes(len(gone))) + end)
    found = entries(path)
    assert urls(found) == list("012345")
    [damaged] = damage(found)
    said = "1 members, and says that it has 2" if lost == "its entry" else "its name is damaged"
    assert said in damaged.reason
    assert damaged.file == (f"{path}/arc" if lost == "its name" else str(path))


def zip_of(name: str, data: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip with one member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as zipped:
        zipped.writestr(name, data)
    return out.getvalue()


def overlapping() -> bytes:
    """A zip whose index names one member many times."""
    data = zip_of("archive/a.warc", b"".join(RECORDS))
    (size, at) = struct.unpack_from("<LL", data, len(data) - 22 + 12)
    entry = data[at : at + size]
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 50, 50, 50 * size, at, 0)
    return data[:at] + 50 * entry + end


def encrypted() -> bytes:
    data = bytearray(zip_of("archive/a.warc", b"".join(RECORDS)))
    at = data.rfind(b"PK\1\2")
    data[6] |= 1
    data[at + 8] |= 1
    return bytes(data)


def with_nothing() -> bytes:
    return zip_of("word/document.xml", PAGE)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "no archive in it": (with_nothing, "a zip without a file"),
    "overlapping members": (overlapping, "they overlap"),
    "encrypted": (encrypted, "it is encrypted"),
    "bzip2, which expands 45,000 times": (
        lambda: zip_of("archive/a.warc", bytes(1 << 20), zipfile.ZIP_BZIP2),
        "by method 12",
    ),
    "cut short": (lambda: with_nothing()[:-30], "not a whole zip"),
    "no more than a signature": (lambda: b"PK\3\4", "not a whole zip"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_zip_that_is_not_read_is_damage(tmp_path: Path, name: str) -> None:
    """With its reason, and without a look at what it claims to hold."""
    make, reason = HOSTILE[name]
    found = read_bytes(tmp_path, "a.wacz", make())
    [only] = damage(found)
    assert reason in only.reason
    assert len(found) == 1


def test_a_zip_with_a_large_index_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would hold all of it."""
    monkeypatch.setattr(wacz_module, "_INDEX_BYTES_MAX", 100)
    path = wacz(tmp_path / "a.wacz", *((f"archive/{n}.warc", RECORDS[0]) for n in range(9)))
    [only] = damage(entries(path))
    assert "at most 100 are read" in only.reason


def test_a_bomb_in_a_zip_takes_the_memory_of_its_pieces(tmp_path: Path) -> None:
    """Deflated and compressed within."""
    peaks = []
    for mib in (8, 32):
        bomb = gzip.compress(b"WARC/1.0\r\n" + bytes(mib << 20))
        path = wacz(
            tmp_path / f"{mib}.wacz", ("archive/a.warc.gz", bomb), method=zipfile.ZIP_DEFLATED
        )
        tracemalloc.start()
        assert not [entry for entry in iterated(path) if isinstance(entry, Record)]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_what_a_member_is_called_elsewhere_makes_no_arc_of_it(tmp_path: Path) -> None:
    """The name of its site has ".arc"; a member that is ARC is damage, and not left out silently."""
    path = wacz(
        tmp_path / "a.wacz",
        ("archive/web.archive.org-2024.warc", b"".join(RECORDS)),
        ("archive/b.arc.gz", b"filedesc://x"),
    )
    found = entries(path)
    assert sum(isinstance(entry, Record) for entry in found) > 1
    [refused] = damage(found)
    assert refused.file.endswith("b.arc.gz") and "ARC" in refused.reason


def test_a_packed_zip_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Its index stands at its end, which is not looked for in what is packed."""
    path = wacz(tmp_path / "a.wacz", ("archive/a.warc", b"".join(RECORDS)))
    packed = tmp_path / "a.wacz.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(StopError, match="unpack it first"):
        entries(packed)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_an_output_without_documents_is_a_file_of_its_kind(tmp_path: Path, suffix: str) -> None:
    """Columns without rows, an array without elements; compressed as its name says."""
    [row] = read_bytes(tmp_path, "in.csv", b"doc_id,text\na,The river rose.\n")
    [tabbed] = read_bytes(tmp_path, "in.tsv", b"doc_id\ttext\na\tThe river rose.\n")
    begun = {CSV: row, TSV: tabbed}
    empty = {
        CSV: b"doc_id,text\n",
        TSV: b"doc_id\ttext\n",
        JSON_LINES: b"",
        JSON: b"[]\n",
        WARC: b"",
    }
    for kind, content in empty.items():
        path = tmp_path / f"out{kind.suffixes[0]}{suffix}"
        assert kind.writer is not None
        with path.open("wb") as stream, closing(kind.writer(stream, str(path))) as writer:
            if kind in begun:
                writer.begin(begun[kind])
        assert path.stat().st_size or not suffix
        with opened_unpacked(str(path)) as written:
            assert written.read() == content


def test_copied_rows_of_categories_take_no_more_than_their_own(tmp_path: Path) -> None:
    """
    They are stored with the categories that they have. Ordered ones stay as they are, because their
    order means something.
    """
    chance = random.Random(0)
    texts = [chance.randbytes(160).hex() for _ in range(2_000)]
    numbers = np.arange(len(texts), dtype=np.int32)
    categories = pyarrow.DictionaryArray.from_arrays(numbers, texts)
    sizes = pyarrow.DictionaryArray.from_arrays(
        (numbers % 3).astype(np.int8), ["small", "medium", "large"], ordered=True
    )
    table = pyarrow.table({"text": categories, "size": sizes}).slice(0, 100)
    path = tmp_path / "kept.parquet"
    with path.open("wb") as stream, closing(TableWriter(stream, str(path))) as writer:
        for batch in table.to_batches(max_chunksize=20):
            writer.write(batch)
    kept = parquet.read_table(path)
    assert kept.schema == table.schema
    assert kept.to_pylist() == table.to_pylist()
    assert kept["size"].chunk(0).dictionary.to_pylist() == ["small", "medium", "large"]
    assert path.stat().st_size < 2 * sum(map(len, texts[:100]))


def test_copied_rows_share_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a batch has: the index of a file has an entry for each column of each group."""
    table = pyarrow.table({"text": [f"{number:07}" for number in range(1_000)]})
    path = tmp_path / "kept.parquet"
    groups = []
    for group_bytes in (32 << 20, table.nbytes // 4):
        monkeypatch.setattr(writers_module, "_GROUP_BYTES", group_bytes)
        with path.open("wb") as stream, closing(TableWriter(stream, str(path))) as writer:
            for batch in table.to_batches(max_chunksize=10):
                writer.write(batch)
        assert parquet.read_table(path) == table
        groups.append(parquet.read_metadata(path).num_row_groups)
    assert groups[0] == 1 and 4 <= groups[1] <= 5


def test_rows_that_wait_for_their_group_hold_no_more_than_their_own_categories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Each batch that is read has all categories of its file, in memory of its own: of few kept rows,
    they would be held a hundred times over. Ordered ones stay, and count.
    """
    texts = [f"{number:0200}" for number in range(1_000)]
    own_bytes = sum(map(len, texts))
    monkeypatch.setattr(writers_module, "_GROUP_BYTES", own_bytes)
    stays = pyarrow.array([number % 100 == 0 for number in range(1_000)])
    numbers = pyarrow.array([*range(999), None], pyarrow.int32())
    groups = []
    before = pyarrow.total_allocated_bytes()
    for is_ordered in (False, True):
        path = tmp_path / "kept.parquet"
        with path.open("wb") as stream, closing(TableWriter(stream, str(path))) as writer:
            for _ in range(50):
                own = pyarrow.array(texts).take(pyarrow.array(range(1_000)))
                column = pyarrow.DictionaryArray.from_arrays(numbers, own, ordered=is_ordered)
                batch = pyarrow.RecordBatch.from_arrays([column], ["text"])
                writer.write(batch.filter(stays))
                del own, column, batch
                assert pyarrow.total_allocated_bytes() - before < 4 * own_bytes
        assert parquet.read_table(path)["text"].to_pylist() == 50 * texts[::100]
        groups.append(parquet.read_metadata(path).num_row_groups)
    assert groups == [1, 50]


def test_copied_rows_may_have_more_categories_than_the_numbers_of_one_file_reach(
    tmp_path: Path,
) -> None:
    """pandas numbers up to 127 categories with a byte, and two files have others."""
    path = tmp_path / "kept.parquet"
    texts = [f"{number}" for number in range(200)]
    numbers = pyarrow.array(range(100), pyarrow.int8())
    with path.open("wb") as stream, closing(TableWriter(stream, str(path))) as writer:
        for part in (texts[:100], texts[100:]):
            column = pyarrow.DictionaryArray.from_arrays(numbers, part)
            writer.write(pyarrow.RecordBatch.from_arrays([column], ["text"]))
    assert parquet.ParquetFile(path).read()["text"].to_pylist() == texts
