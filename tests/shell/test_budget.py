"""
What reading an input may cost: work and memory follow from the bytes that are read, and whatever is
done to a file, its reader answers.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tests.conftest import output_of
from tests.shell.test_archives import PACKINGS, RECORDS, damage, entries, urls
from tests.shell.test_table_formats import zip_of
from worker.core.kernels.json_elements import (
    CLOSES_NOTHING,
    CONTROL,
    END,
    LEVELS_MAX,
    MORE,
    STATE_SIZE,
    TOO_DEEP,
    scan_element,
)
from worker.errors import StopError
from worker.shell.files.archives import Damage, Entry, Record
from worker.shell.files.archives.budget import COLUMNS_MAX, DAMAGED_FREE, VALUES_MAX, check_values
from worker.shell.files.archives.parquet import batches_of
from worker.shell.files.crawl import CrawlFiles

MIB = 1 << 20
ARC_PAGE = b"HTTP/1.1 200 OK\r\n\r\n<p>The river rose by two metres."
ARC_RECORD = b"http://a/ 1.1.1.1 20200101000000 text/html %d\n%b\n" % (len(ARC_PAGE), ARC_PAGE)
ARC_START = b"filedesc://x 0.0.0.0 20200101000000 text/plain 0\n"
HEAD_RECORD = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"


def utf_16(text: str) -> bytes:
    return b"\xff\xfe" + text.encode("utf-16-le")


# A file of about that many bytes, before a compression, of one thing that was chosen to be slow.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "commas.json": lambda size: b"[" + b"," * size + b"]",
    "numbers.json": lambda size: b"[" + b"1," * (size // 2) + b"1]",
    "empty_objects.json": lambda size: b"[" + b"{}," * (size // 3) + b"{}]",
    "strings.json": lambda size: b'[{"a":[' + b'"",' * (size // 3) + b'""]}]',
    "brackets.json": lambda size: b'[{"a":[' + b"[]," * (size // 3) + b"[]]}]",
    "arrays.json": lambda size: b"[]" * (size // 2),
    "open.json": lambda size: b"[" * size,
    "controls.json": lambda size: b"[" + b'{"\n"},' * (size // 6) + b"{}]",
    "objects.jsonl": lambda size: b"{}\n" * (size // 3),
    "numbers.jsonl": lambda size: b"{\n" + b"1\n" * (size // 2),
    "marks.jsonl": lambda size: b'{"a":1}\n' + b"\xef\xbb\xbf\n" * (size // 4),
    "unfit.tsv": lambda size: b"text\tb\n" + b"a\n" * (size // 2),
    "quotes.csv": lambda size: b"text,b\n" + b'"\n' * (size // 2),
    "quote_pairs.csv": lambda size: b"text,b\n" + b'"a""' * (size // 4),
    "quoted_lines.csv": lambda size: b'text,b\n"' + b'\n""' * (size // 3),
    "open_rows.csv": lambda size: b"text,b\n" + b'"a\nb,"' * (size // 6),
    "unfit_16.csv": lambda size: utf_16("text,b\n" + "a\n" * (size // 4)),
    "lines.arc": lambda size: ARC_START + b"\n" * size,
    "returns.arc": lambda size: ARC_START + b"\r" * size,
    "starts.arc": lambda size: ARC_START + b"http://a 1 20200101000000 x y\n" * (size // 30),
    "starts.warc": lambda size: b"WARC/1.0\r\n" * (size // 10),
    "empty.warc": lambda size: HEAD_RECORD * (size // len(HEAD_RECORD)),
    "blank.warc": lambda size: HEAD_RECORD + b"\r\n" * (size // 2),
    "zeros.warc": lambda size: HEAD_RECORD + bytes(size),
}


# Each line of these is a document, or a part of one that has to be looked at.
OF_LINES = ("marks.jsonl", "quoted_lines.csv", "open_rows.csv")


def steps_of(path: Path) -> int:
    """Return how many functions are called while a file is read."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for _ in CrawlFiles([str(path)]).entries():
            pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_bytes_take_at_most_twice_the_steps_and_few_in_all(
    tmp_path: Path, name: str
) -> None:
    """Twice the bytes, and twice again: no shape has a step of Python for each of its things."""
    path = tmp_path / name
    steps = []
    smallest = 1 << 15 if name in OF_LINES else 1 << 17  # where each line takes steps
    for size in (smallest, 2 * smallest, 4 * smallest):
        path.write_bytes(HOSTILE[name](size))
        steps.append(steps_of(path))
    assert steps[1] <= 2.2 * steps[0] and steps[2] <= 2.2 * steps[1], steps
    assert steps[2] < 120 * DAMAGED_FREE or name in OF_LINES, steps


LARGE_BYTES = 5 * MIB  # more than the values that a record may have, three bytes each
# A record that is large only when it is unpacked, with the reason that is given for it.
LARGE: dict[str, tuple[Callable[[int], bytes], str]] = {
    "lists.jsonl": (lambda size: b'{"text":"x","a":[' + b"[]," * (size // 3) + b"[]]}", "values"),
    "numbers.jsonl": (lambda size: b'{"text":"x","a":[' + b"1," * (size // 2) + b"1]}", "values"),
    "surrogates.jsonl": (
        lambda size: b'{"text":"\\ud800","a":[' + b"{}," * (size // 3) + b"{}]}",
        "values",
    ),
    "lists.json": (lambda size: b'[{"text":"x","a":[' + b"[]," * (size // 3) + b"[]]}]", "values"),
    "row.csv": (lambda size: b"text,b\n" + b"," * size + b"\n", "fields"),
    "quoted_row.csv": (lambda size: b"text,b\n" + b'"",' * (size // 3) + b"\n", "fields"),
    "a_quote_within.csv": (lambda size: b'text,b\na"' + b"," * size + b"\n", "fields"),
    "head.csv": (lambda size: b"text" + b",b" * (size // 2) + b"\n", "fields"),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_record_of_many_values_is_damage_before_it_is_split(tmp_path: Path, name: str) -> None:
    """It takes a few times its own bytes; the next file is read."""
    make, reason = LARGE[name]
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(make(LARGE_BYTES)))
    (tmp_path / "b.jsonl").write_text('{"text":"x"}\n')
    tracemalloc.start()
    try:
        found = list(CrawlFiles([str(path), str(tmp_path / "b.jsonl")]).entries())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reason in damage(found)[0].reason and "more than" in damage(found)[0].reason
    assert isinstance(found[-1], Record) and len(found) <= 3
    assert peak < 6 * LARGE_BYTES


def test_a_line_may_have_a_million_values_and_a_text_any_number_of_commas() -> None:
    """Marks in strings are no values, whatever escapes there are."""
    check_values(b"[" + b"1," * (VALUES_MAX - 2) + b"1]")
    check_values(b'{"text":"' + b',[{\\"' * VALUES_MAX + b'"}')
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        check_values(b"[" + b"1," * VALUES_MAX + b"1]")


def test_a_table_may_have_many_columns(tmp_path: Path) -> None:
    """Up to the bound; beyond it no row is read, and the reason names the bound."""
    for columns, count in ((COLUMNS_MAX, 1), (COLUMNS_MAX + 1, 0)):
        path = tmp_path / "wide.csv"
        path.write_bytes(b"text" + b",c" * (columns - 1) + b"\nx" + b"," * (columns - 1) + b"\n")
        found = entries(path)
        assert sum(isinstance(entry, Record) for entry in found) == count
        assert [f"{COLUMNS_MAX:,}" in item.reason for item in damage(found)][:1] == [True] * (
            1 - count
        )


# ---- bytes out


def wacz(name: str, data: bytes) -> bytes:
    """A WACZ with one member, deflated."""
    return zip_of(f"archive/{name}", data, zipfile.ZIP_DEFLATED)


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, "zstd", asbytes=True))


LAYERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip in a zip": lambda data: wacz("a.warc.gz", gzip.compress(data)),
    "zstd in a zip": lambda data: wacz("a.warc.zst", zstd(data)),
}


@pytest.mark.parametrize("layers", LAYERS)
def test_what_becomes_too_large_ends_and_says_so(tmp_path: Path, layers: str) -> None:
    """However large it would become: the same work, and a reason with both numbers."""
    (tmp_path / "b.jsonl").write_text('{"text":"x"}\n')
    steps = []
    for mib in (128, 256):
        path = tmp_path / f"{mib}.wacz"
        path.write_bytes(LAYERS[layers](RECORDS[0] + bytes(mib * MIB)))
        *_, last, other = CrawlFiles([str(path), str(tmp_path / "b.jsonl")]).entries()
        assert isinstance(last, Damage) and "become more than" in last.reason and last.ends_file
        assert isinstance(other, Record)
        steps.append(steps_of(path))
    assert steps[1] < 1.2 * steps[0]


def test_what_deflate_can_make_of_bytes_is_read(tmp_path: Path) -> None:
    """One layer is within the budget, whatever is in it."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text":"x"}\n' + b" " * (128 * MIB) + b'\n{"text":"y"}\n'))
    assert [type(entry) for entry in entries(path)] == [Record, Damage, Record]  # an overlong line


_MEASURED = """
import sys, pyarrow
from worker.shell.files.archives import Record
from worker.shell.files.crawl import CrawlFiles
found = list(CrawlFiles([sys.argv[1]]).entries())
print(sum(isinstance(entry, Record) for entry in found), len(found))
print(pyarrow.default_memory_pool().max_memory())
"""


def test_parquet_takes_memory_by_its_bound_and_not_by_what_it_holds(tmp_path: Path) -> None:
    """
    A text that all rows share, and a page that becomes long, end at the budget; rows of long texts
    of their own are all read.
    """
    chance = random.Random(0)
    shared = pyarrow.array(["word " * (1 << 18)])
    tables = {
        "a dictionary": pyarrow.table(
            {"text": pyarrow.DictionaryArray.from_arrays([0] * 1_000, shared)}
        ),
        "a category": pyarrow.table(
            {"text": pyarrow.DictionaryArray.from_arrays([0] * 1_000, shared)}
        ),
        "a page": pyarrow.table({"text": ["word " * (1 << 15)] * 1_000}),
        "honest": pyarrow.table({"text": [chance.randbytes(1 << 17).hex() for _ in range(300)]}),
    }
    for name, table in tables.items():
        path = tmp_path / f"{name}.parquet"
        is_shared = name in ("a dictionary", "a category")
        parquet.write_table(
            table,
            path,
            compression="zstd",
            use_dictionary=is_shared,
            store_schema=name == "a category",
            dictionary_pagesize_limit=1 << 30,
        )
        counts, peak = output_of(sys.executable, "-c", _MEASURED, str(path)).splitlines()
        records, found = map(int, counts.split())
        assert int(peak) < 200 * MIB, name
        assert (records, found) == (300, 300) if name == "honest" else records < found < 1_000, name


@pytest.mark.parametrize("place", ["text", "a column that is not read", "a list", "a struct"])
def test_rows_of_categories_are_all_read(tmp_path: Path, place: str) -> None:
    """The dictionary of a column of categories counts once, and not for each batch of rows."""
    texts = [f"{number} " + "The river rose by two metres. " * 20 for number in range(2_000)]
    numbers = np.arange(30_000) % len(texts)
    categories = pyarrow.DictionaryArray.from_arrays(numbers, texts)
    columns: dict[str, Any] = {"text": ["The river rose."] * len(numbers)}
    if place == "text":
        columns["text"] = categories
    elif place == "a list":
        columns["other"] = pyarrow.FixedSizeListArray.from_arrays(categories, 1)
    elif place == "a struct":
        columns["other"] = pyarrow.StructArray.from_arrays([categories], names=["inner"])
    else:
        columns["other"] = categories
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    found = entries(path)
    assert len(found) == len(numbers) and not damage(found)
    with path.open("rb") as stream:  # each batch costs the whole dictionary once more
        assert sum(1 for _ in batches_of(stream, print)) == 30


# ---- damage


def test_a_file_of_damage_ends_and_says_so(tmp_path: Path) -> None:
    """A document gives back what a damaged record takes, so a half-broken file is read whole."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" * 5_000 + b'{"text":"a"}\n')
    found = entries(path)
    assert len(found) == DAMAGED_FREE + 1 and not any(isinstance(e, Record) for e in found)
    assert "the rest of the file is not read" in damage(found)[-1].reason
    assert [item.ends_file for item in damage(found)] == [False] * DAMAGED_FREE + [True]
    path.write_bytes(b'1\n{"text":"a"}\n' * 5_000)
    assert len(entries(path)) == 10_000


def documents(count: int) -> list[dict[str, str]]:
    return [
        {"doc_id": f"d{n}", "url": f"http://a/{n}", "fetched_at": "2024-05-01T12:00:00Z",
         "text": f"The river rose by {n} metres; nobody, they said, had \"seen\" it."}
        for n in range(count)
    ]  # fmt: skip


def as_csv(delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(documents(1)[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(documents(12))
    return text.getvalue().encode()


def as_parquet() -> bytes:
    out = io.BytesIO()
    table = pyarrow.Table.from_pylist(documents(12))
    parquet.write_table(table, out, row_group_size=3, compression="zstd")
    return out.getvalue()


LINES = "".join(json.dumps(document) + "\n" for document in documents(12)).encode()
WARC = b"".join(RECORDS)
FILES: dict[str, bytes] = {
    "a.jsonl": LINES,
    "a.jsonl.gz": b"".join(gzip.compress(line) for line in LINES.splitlines(keepends=True)),
    "a.jsonl.zst": zstd(LINES),
    "a.jsonl.bz2": bz2.compress(LINES),
    "a.jsonl.xz": lzma.compress(LINES),
    "a16.jsonl": LINES.decode().encode("utf-16"),
    "a.json": json.dumps(documents(12)).encode(),
    "a.csv": as_csv(","),
    "a.tsv": as_csv("\t"),
    "a.parquet": as_parquet(),
    "a.warc": WARC,
    "a.warc.gz": b"".join(map(gzip.compress, RECORDS)),
    "whole.warc.gz": gzip.compress(WARC),
    "in two members a record.warc.gz": PACKINGS["gzip in two members a record"](RECORDS),
    "a.warc.zst": b"".join(map(zstd, RECORDS)),
    "a.arc": ARC_START + 5 * ARC_RECORD,
    "a.wacz": wacz("a.warc.gz", gzip.compress(WARC)),
    "b.wacz": wacz("a.warc", WARC),
    "stored.wacz": zip_of("archive/a.warc", WARC),
}
ARCHIVES = (".warc", ".wacz")
INDEXED = (".parquet", ".wacz")  # damage behind a document can hide it
WHOLE = ("a.jsonl.zst", "a.jsonl.bz2", "a.jsonl.xz", "whole.warc.gz")  # one member holds all


@st.composite
def changes(draw: st.DrawFn, data: bytes) -> tuple[bytes, int]:
    """Bytes with one to three of them flipped, cut out or put in, and where the first change is."""
    changed = bytearray(data)
    first = len(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(4, max(len(changed) - 1, 4)))
        kind = draw(st.sampled_from(["flip", "set", "cut", "insert", "truncate", "repeat"]))
        first = min(first, at)
        if kind == "flip":
            changed[at : at + 1] = bytes(
                byte ^ 1 << draw(st.integers(0, 7)) for byte in changed[at : at + 1]
            )
        elif kind == "set":
            changed[at : at + 4] = draw(
                st.sampled_from([b"\0\0\0\0", b"\xff" * 4, b"\n\n\n\n", b'","['])
            )
        elif kind == "cut":
            del changed[at : at + draw(st.integers(1, 40))]
        elif kind == "insert":
            changed[at:at] = draw(st.binary(min_size=1, max_size=40))
        elif kind == "truncate":
            del changed[at:]
        else:
            changed[at:at] = changed[max(at - 64, 0) : at]
    return bytes(changed), first


def found_in(path: Path) -> list[Entry]:
    """Return what is found in a file, up to its end or to a refusal of its columns."""
    found: list[Entry] = []
    try:
        found.extend(CrawlFiles([str(path)]).entries())
    except StopError as error:
        assert "column" in str(error) or "is not CSV" in str(error) or "unpack it" in str(error)
    return found


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_any_change_of_a_file_is_answered(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """
    Never by another error, and a zip never by nothing; the documents before the change are read as
    they were. Of WARC no more records come than it had, but for those beside damage, and each
    is a document.
    """
    changed, first = data.draw(changes(FILES[name]))
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(FILES[name])
    before = [entry for entry in found_in(path) if isinstance(entry, Record)]
    assert before
    path.write_bytes(changed)
    found = found_in(path)
    after = [entry for entry in found if isinstance(entry, Record)]
    assert found or not name.endswith(".wacz")
    if any(kind in name for kind in ARCHIVES):
        assert len(urls(found)) <= len(before) + len(damage(found))
    if name.endswith(INDEXED) or name in WHOLE:
        return
    # A document ends where the next one begins at the latest.
    ends = [entry.offset for entry in before[1:]]
    if name.endswith((".csv", ".tsv")):  # which count rows
        ends = [
            FILES[name].find(f"\n{entry.key.decode()}".encode())
            for entry in before[1:]
            if entry.key
        ]
    kept = [entry for entry, end in zip(before, ends, strict=False) if end < first]
    assert [entry.value for entry in after[: len(kept)]] == [entry.value for entry in kept]


def test_an_error_of_a_library_costs_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is damage behind the last document that was read, and the next file is read."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(LINES)

    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    read = iter(CrawlFiles(paths).entries())
    first = next(read)
    assert isinstance(first, Record)
    monkeypatch.setattr("worker.shell.files.archives.rows._key_of", lambda _: 1 / 0)
    rest = list(read)
    assert all(isinstance(entry, Damage) and "division" in entry.reason for entry in rest)


# ---- the kernel


def defined(data: bytes) -> tuple[int, int]:
    """Return where `scan_element` stops from the first byte on, and at what, in plain Python."""
    pairs = {"]": "[", "}": "{"}
    opened: list[str] = []
    in_string = False
    at = 0
    while at < len(data):
        mark = chr(data[at])
        if in_string:
            if mark == "\\" and at + 1 == len(data):
                return at, MORE
            if mark < " " or (mark == "\\" and data[at + 1] < 0x20):
                return at, CONTROL
            in_string = mark != '"'
            at += 2 if mark == "\\" else 1
            continue
        if not opened and mark in ",]":
            return at, END
        at += 1
        if mark == '"':
            in_string = True
        elif mark in pairs.values():
            if len(opened) == LEVELS_MAX:
                return at, TOO_DEEP
            opened.append(mark)
        elif mark in pairs and (not opened or opened.pop() != pairs[mark]):
            return at, CLOSES_NOTHING
    return at, MORE


def scanned(data: bytes, size: int) -> tuple[int, int]:
    """Return the same of the kernel, with the data in pieces of a size."""
    state = np.zeros(STATE_SIZE, np.int64)
    opened = np.zeros(LEVELS_MAX, np.uint8)
    buffer = np.frombuffer(bytearray(data), np.uint8)
    at, outcome = 0, MORE
    for end in [*range(size, len(data), size), len(data)]:
        at, outcome = scan_element(buffer[:end], at, opened, state)
        if outcome != MORE:
            break
    return at, outcome


@given(st.text(st.sampled_from('[]{}",\\a\n é'), max_size=60), st.integers(1, 9))
def test_the_kernel_finds_the_end_that_its_definition_finds(text: str, size: int) -> None:
    """Wherever the bytes are cut."""
    data = text.encode()
    assert scanned(data, size) == defined(data)


def test_the_kernel_counts_levels() -> None:
    """As many as its room has."""
    for levels, outcome in ((LEVELS_MAX, MORE), (LEVELS_MAX + 1, TOO_DEEP)):
        assert scanned(b"[" * levels, 10_000) == defined(b"[" * levels) == (levels, outcome)
