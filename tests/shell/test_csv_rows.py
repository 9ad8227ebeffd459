"""Where rows of CSV and lines end: quotes that are not closed, encodings, blank lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.errors import StopError
from worker.shell.files.archives import Damage, Entry, Record
from worker.shell.files.archives.budget import Budget
from worker.shell.files.archives.column_names import NO_NAMES, OPTION, SeenColumns
from worker.shell.files.archives.csv_rows import CsvRow, CsvRows
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.lines import Lines
from worker.shell.files.archives.rows import JSON_BLANK, InputFile
from worker.shell.files.inputs import RowPlace

MIB = 1 << 20


def pieces(data: bytes, size: int = MIB) -> Iterator[Piece]:
    """A file in pieces of this size."""
    return (Piece(0, data[at : at + size]) for at in range(0, len(data), size))


def rows(data: bytes, size: int = MIB, bytes_max: int = MIB) -> list[CsvRow | Damage]:
    """The rows of a file, and what is damaged in it."""
    return list(CsvRows("a.csv", Lines("a.csv", pieces(data, size), bytes_max), bytes_max))


def read(data: bytes, encoding: str | None = None, name: str = "csv") -> list[Entry]:
    """The documents of a file, and what is damaged in it."""
    seen = SeenColumns(NO_NAMES, OPTION)
    file = InputFile(
        f"a.{name}", pieces(data), MIB, Budget(), lambda: RowPlace(0, 0, 0), seen, encoding=encoding
    )
    return list(file.json_lines() if name == "jsonl" else file.csv())


TABLES = st.lists(st.lists(st.text('ab",\r\n ü', max_size=6), min_size=2, max_size=3), min_size=1)


@given(TABLES, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), st.integers(1, 20))
def test_what_the_standard_library_writes_is_read(
    table: list[list[str]], quoting: int, size: int
) -> None:
    """Row by row and byte for byte, wherever the pieces of the file end."""
    text = io.StringIO()
    csv.writer(text, quoting=quoting).writerows(table)  # type: ignore[arg-type]  # an int of csv
    found = rows(text.getvalue().encode(), size)
    given_rows = [row for row in found if isinstance(row, CsvRow)]
    assert found == given_rows
    parsed = [next(csv.reader([row.text])) for row in given_rows]
    assert [values for values in parsed if values] == table
    assert b"".join(row.data for row in given_rows) == text.getvalue().encode()


@pytest.mark.parametrize(
    ("broken", "damaged"),
    [
        ('b,"text\nc,plain\n', [2]),
        ('b,"text\n"c","quoted"\nd,x\n', [2]),
        ('b,"text\nc,"quoted"\n', [2]),
        ('b,"two\nlines","open\nc,x\n', [3]),
        ('b,"a""\n"c""\n', [2, 3]),
    ],
    ids=["to the end", "before a quoted row", "before a quoted field", "in a second line", "twice"],
)
def test_a_quote_that_is_not_closed_is_damage_at_its_line(broken: str, damaged: list[int]) -> None:
    """The line of the quote is lost with the row before it in that row; those behind are read."""
    found = rows(f"a,x\n{broken}z,last\n".encode())
    assert [item.line for item in found if isinstance(item, Damage)] == damaged
    assert all("not closed" in item.reason for item in found if isinstance(item, Damage))
    texts = [item.text for item in found if isinstance(item, CsvRow)]
    assert texts[0] == "a,x\n" and texts[-1] == "z,last\n"
    assert len(texts) + len(damaged) == broken.count("\n") + 2 - ("two" in broken)


@pytest.mark.parametrize("size", [1, 10, MIB])
def test_a_line_that_is_too_long_costs_itself_behind_an_open_quote(size: int) -> None:
    """Lines without a quote are read many at a time there; those behind it are rows all the same."""
    found = rows(b'a,x\nb,"\nc,much too long\nd,x\ne,x\nf,x\n', size, bytes_max=10)
    assert [item.line for item in found if isinstance(item, Damage)] == [2, 3]
    texts = [item.text for item in found if isinstance(item, CsvRow)]
    assert texts == ["a,x\n", "d,x\n", "e,x\n", "f,x\n"]


def test_a_row_is_whole_up_to_its_bound() -> None:
    """
    A quoted field of many lines is one row; one line beyond the bound, its quote is not closed.
    """
    field = "a line of the text\n" * 1_000
    data = f'id,"{field}"\nz,last\n'.encode()
    [row, last] = rows(data, bytes_max=len(data))
    assert isinstance(row, CsvRow) and row.text == f'id,"{field}"\n' and isinstance(last, CsvRow)
    found = rows(data, bytes_max=len(data) // 2)
    assert isinstance(found[0], Damage) and found[0].line == 1
    assert isinstance(found[-1], CsvRow) and found[-1].text == "z,last\n"


class CountedLines(Lines):
    """Counts the lines that are made of the file's bytes, again and again or not."""

    made = 0

    def split(self, data: bytes, position: int, number: int) -> Iterator[object]:  # type: ignore[override]
        """Count lines that are read again."""
        for line in super().split(data, position, number):
            self.made += 1
            yield line

    def first(self, data: bytearray) -> bytes:
        """Count a line that is taken out of a block."""
        self.made += 1
        return super().first(data)


@pytest.mark.parametrize("unit", [b'"a""\n', b'"a\n', b'"\n', b',"\n'])
def test_lines_are_read_again_once_at_the_most(unit: bytes) -> None:
    """In a file of nothing but quotes that are not closed, whatever its length."""
    for number in (1_000, 50_000):
        lines = CountedLines("a.csv", pieces(unit * number), MIB)
        assert len(list(CsvRows("a.csv", lines, MIB))) <= number
        assert lines.made <= number


def test_half_a_character_at_the_end_is_damage_at_its_line() -> None:
    """An odd byte in UTF-16, whether a line has begun or not."""
    whole = '{"text":"a"}\n'.encode("utf-16")
    for rest, name in ((b"\n", "jsonl"), (b" ", "csv"), ("b".encode("utf-16-le") + b"c", "jsonl")):
        [*_, damage] = read(
            ("text\n".encode("utf-16") if name == "csv" else whole) + rest, name=name
        )
        assert isinstance(damage, Damage) and damage.line == 2, damage
        assert "truncated" in damage.reason


@pytest.mark.parametrize("name", ["jsonl", "csv"])
@pytest.mark.parametrize("blank", [b"\n", b"\r\n"])
def test_blank_lines_are_one_step(name: str, blank: bytes) -> None:
    """However many there are in a piece: a file of them is read without a step for each."""
    start = b"text\na\n" if name == "csv" else b'{"text":"a"}\n'
    characters = "\r" if name == "csv" else JSON_BLANK
    lines = list(Lines("a", pieces(start + blank * 100_000), MIB, None, characters).read())
    assert len(lines) <= 5
    end = b"b\n" if name == "csv" else b'{"text":"b"}\n'
    [_, last] = read(start + blank * 1_000 + end, name=name)
    assert isinstance(last, Record) and last.line == start.count(b"\n") + 1_001


def test_blank_lines_before_the_head_are_passed_over() -> None:
    """
    The first line with something in it names the columns, and lines are counted from the file's
    first.
    """
    [record] = read(b"\r\n\n\ntext\nThe river rose.\n")
    assert isinstance(record, Record) and record.line == 5
    assert record.head is not None and record.head.data == b"text\n"


def test_bytes_that_are_not_utf_8_cost_a_row_where_they_are_read() -> None:
    """A text with one is damage with the remedy; in another column they stay as they are."""
    data = b"text,city\nThe river,K\xf6ln\nr\xf6se,Bonn\n"
    [record, damage] = read(data)
    assert isinstance(record, Record) and record.raw == b"The river,K\xf6ln\n"
    assert isinstance(damage, Damage) and damage.line == 3
    assert damage.reason.startswith("text is not utf-8: name its encoding with --encoding")
    named = read(data, "latin-1")
    assert [item.raw for item in named if isinstance(item, Record)] == data.splitlines(True)[1:]
    assert b"r\xc3\xb6se" in [item for item in named if isinstance(item, Record)][1].value


ENCODINGS = ["utf-8-sig", "utf-16", "utf-32", "utf-16-be", "cp1252", "shift_jis", "iso2022_jp"]


@pytest.mark.parametrize("name", ["csv", "jsonl"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_rows_of_every_encoding_are_read_and_kept(encoding: str, name: str) -> None:
    """The text is the same, and head and rows together are the bytes of the file."""
    word = "川、上流" if "jp" in encoding or "jis" in encoding else "Fluß, Köln"
    text = (
        f'text,id\r\n"{word}\nrose",1\r\n"ਊ",2\r\n'
        if "utf" in encoding
        else f'text,id\n"{word}",1\n'
    )
    if name == "jsonl":
        text = f'{{"text": "{word}"}}\n{{"text": "b"}}\r\n'
    data = text.encode(encoding)
    has_mark = encoding in ("utf-8-sig", "utf-16", "utf-32")
    found = read(data, None if has_mark else encoding, name)
    records = [item for item in found if isinstance(item, Record)]
    assert records == found and records[0].head is not None
    assert word in records[0].value.decode()
    assert records[0].head.data + b"".join(record.raw for record in records) == data


def test_a_line_that_is_not_of_its_encoding_is_damage() -> None:
    """It costs itself."""
    good = "a\n".encode("utf-16-le")
    found = read(b"\xff\xfe" + "text\n".encode("utf-16-le") + b"\x00\xd8" + good + good)
    assert [type(item) for item in found] == [Damage, Record]
    assert "not utf-16-le" in found[0].reason  # type: ignore[union-attr]


@pytest.mark.parametrize("between", [0, 1, 5_000])
def test_a_text_of_tsv_that_begins_with_a_quote_takes_no_other_rows(between: int) -> None:
    """Programs that write tabs write quotes as they are. Texts of several lines are read, too."""
    texts = ['"Open', *["plain"] * between, 'closed"', "last"]
    lines = [f"{number}\t{text}\n" for number, text in enumerate(texts)]
    quoted = ['a\t"two\nlines"\n', 'b\t"three\n\tor\nmore"\n', 'c\t"tabs\tand\nlines\tof it"\n']
    data = "".join(["doc_id\ttext\n", *lines, *quoted])
    damage, *found = read(data.encode(), name="tsv")
    assert isinstance(damage, Damage) and damage.line == 2
    keys = [item.key for item in found if isinstance(item, Record)]
    assert keys == [b"%d" % number for number in range(1, len(texts))] + [b"a", b"b", b"c"]


class CountedRows(CsvRows):
    """Counts the searches for the end of a quoted field."""

    searches = 0

    def _closing(self, start: int, first: int) -> tuple[int, int] | None:
        self.searches += 1
        return super()._closing(start, first)


def test_lines_of_tsv_that_all_close_and_open_a_quote_are_searched_once() -> None:
    """Each of them is damage, and a search to the end for each would take hours."""
    count = 5_000
    data = b'id\ttext\na\t"y\n' + b'x"\t"y\n' * count + b'x"\tz\nb\tlast\n'
    found = CountedRows("a.tsv", Lines("a.tsv", pieces(data), MIB), MIB, lambda _: "\t")
    items = list(found)
    assert [item.text for item in items if isinstance(item, CsvRow)] == [
        "id\ttext\n", 'x"\tz\n', "b\tlast\n"
    ]  # fmt: skip
    assert sum(isinstance(item, Damage) for item in items) == count + 1
    assert found.searches <= count + 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_rows_with_a_hole_between_them_do_not_become_one(encoding: str, quote: str) -> None:
    """A disk leaves NUL where nothing was written. A single one in a text is a part of it."""
    first, second, *others = (f"{id_},{quote}The river\0 rose.{quote}\n" for id_ in "abcd")
    hole = "\0" * len(first)
    text = "".join(["doc_id,text\n", first[:9], hole, second[9:], *others])
    found = read(text.encode(encoding), encoding)
    assert [item.key for item in found if isinstance(item, Record)] == [b"c", b"d"]
    [damage] = [item for item in found if isinstance(item, Damage)]
    assert "NUL characters" in damage.reason and damage.line == 2


def test_an_encoding_that_nobody_knows_is_refused() -> None:
    """By name, and codecs that are none of texts, too."""
    for name in ("latin-99", "hex"):
        with pytest.raises(StopError, match=f"there is no encoding '{name}'"):
            read(b"text\na\n", name)
