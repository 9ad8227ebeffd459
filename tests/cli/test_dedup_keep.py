"""
`neardup dedup --keep`: the documents that stay, byte for byte, in the format they came in; files
elsewhere.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType
from moto.server import ThreadedMotoServer
from pyarrow import parquet
from s3fs import S3FileSystem

from tests.cli.program import ARTICLE, OTHER, lines, misused, page, refused, run
from tests.conftest import served
from worker.core.document import Original
from worker.devkit.sample.crawl import write_sample_crawl
from worker.shell.files.archives.inflate import pieces
from worker.shell.files.keeping import copy_documents, revisit_of
from worker.shell.files.places import stamp_of

LONGER = f"{ARTICLE} Nobody else was there."


def dedup(*arguments: object) -> str:
    """Run the command; give what it said."""
    return run("dedup", "--threads", "1", *arguments).output


def unpacked(path: Path) -> bytes:
    """The content of a file, by its name."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        return (
            zstandard.ZstdDecompressor()
            .stream_reader(io.BytesIO(data), read_across_frames=True)
            .read()
        )
    return gzip.decompress(data) if path.suffix.lower() == ".gz" else data


@pytest.mark.parametrize("time", ["9999999999", "20240501120000", "0000000000"])
def test_a_number_of_a_table_that_is_no_time_costs_its_row(tmp_path: Path, time: str) -> None:
    """The rows behind it are read, and kept and others together are the table."""
    head, *rows = (
        "doc_id,text,fetched_at\n",
        f'a,"{ARTICLE}",{time}\n',
        f'b,"{ARTICLE}",2024-05-01\n',
        f'c,"{OTHER}",2024-05-02\n',
    )
    source, kept, others = (tmp_path / f"{name}.csv" for name in ("in", "kept", "others"))
    source.write_text("".join([head, *rows]))
    dedup(source, "--keep", "new", "--output", kept, "--duplicates", others)
    assert kept.read_text() == head + rows[1] + rows[2]
    assert others.read_text() == head + rows[0]


@pytest.mark.parametrize("suffix", ["", ".gz", ".GZ", ".zst"])
def test_lines_stay_as_they_are_and_none_is_lost(tmp_path: Path, suffix: str) -> None:
    """Fields that nobody reads, spaces, a missing time: kept and others together are the input."""
    given = [
        json.dumps(
            {"url": "https://a.example/", "text": ARTICLE, "mine": [1, {"two": 3}]}, indent=None
        ),
        '{"url":  "https://b.example/",   "text": "' + ARTICLE.upper() + '"}',
        json.dumps({"url": "https://c.example/", "text": ""}),
        json.dumps({"url": "https://d.example/"}),
        json.dumps({"url": "https://e.example/", "text": OTHER}),
        json.dumps({"url": "https://a.example/", "text": ARTICLE, "again": True}),
    ]
    source, kept, others = (
        tmp_path / name for name in ("in.jsonl", f"kept.jsonl{suffix}", f"others.jsonl{suffix}")
    )
    source.write_text("".join(f"{line}\n" for line in given))
    options = ("--fetched-at", "2026-01-02T03:04:05Z", "--keep", "new")
    said = dedup(source, *options, "--output", kept, "--duplicates", others)
    assert f"2 kept in {kept}" in said
    assert unpacked(kept).decode().splitlines() == [given[0], given[4]]
    assert unpacked(others).decode().splitlines() == [given[1], given[2], given[3], given[5]]
    dedup(source, *options, "--output", tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == kept.read_bytes()


ARRAY = [
    {"url": "https://a.example/", "text": ARTICLE, "mine": [1, {"two": 3}]},
    {"url": "https://b.example/", "text": ARTICLE.upper()},
    {"url": "https://e.example/", "text": OTHER},
]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_comes_out_as_an_array(
    tmp_path: Path, suffix: str, indent: int | None
) -> None:
    """Its elements as they stood; one without elements is empty, and what was written is read."""
    source, kept, others = (tmp_path / f"{name}{suffix}" for name in ("in", "kept", "others"))
    text = json.dumps(ARRAY, indent=indent).encode()
    source.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    dedup(source, "--keep", "new", "--output", kept, "--duplicates", others)
    assert json.loads(unpacked(kept)) == [ARRAY[0], ARRAY[2]]
    assert json.loads(unpacked(others)) == [ARRAY[1]]
    dedup(kept, "--keep", "new", "--output", tmp_path / "again.json", "--duplicates", others)
    assert json.loads((tmp_path / "again.json").read_bytes()) == [ARRAY[0], ARRAY[2]]
    assert json.loads(unpacked(others)) == []


def test_tables_of_two_kinds_are_not_written_into_one(tmp_path: Path) -> None:
    """
    A table comes out as it came in; rows with other delimiters or columns would be read as other
    fields.
    """
    first, second, tabs = (tmp_path / name for name in ("a.csv", "b.csv", "c.tsv"))
    first.write_text(f"doc_id;text\na;{ARTICLE}\nb;{ARTICLE}\n")
    second.write_text(f'doc_id,text\nc,"{OTHER}"\n')
    tabs.write_text(f"doc_id\ttext\nd\t{OTHER}\n")
    dedup(first, "--keep", "new", "--output", tmp_path / "kept.csv")
    assert (tmp_path / "kept.csv").read_text() == f"doc_id;text\na;{ARTICLE}\n"
    said = refused("dedup", first, second, "--keep", "new", "--output", tmp_path / "k.csv")
    assert "separates fields by ',', and not ';'" in said
    second.write_text(f"doc_id;body\nc;{OTHER}\n")
    options = ("--text-column", "body", "--keep", "new", "--output", tmp_path / "k.csv")
    first.write_text(f"doc_id;text;body\na;b;{ARTICLE}\n")
    assert "has other columns. Write one at a time" in refused("dedup", first, second, *options)
    dedup(tabs, "--keep", "new", "--output", tmp_path / "kept.tsv")
    assert (tmp_path / "kept.tsv").read_bytes() == tabs.read_bytes()


def test_the_archives_of_a_zip_come_out_as_one_archive(tmp_path: Path) -> None:
    """WARC, also with those of a plain one beside it."""
    plain, zipped, kept = (tmp_path / name for name in ("a.warc.gz", "b.wacz", "kept.warc.gz"))
    write_sample_crawl(plain, 30, seed=1)
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.write(plain, "archive/data.warc.gz")
    dedup(plain, "--keep", "new", "--output", kept)
    dedup(zipped, "--keep", "new", "--output", tmp_path / "of_zip.warc.gz")
    assert kept.read_bytes() == (tmp_path / "of_zip.warc.gz").read_bytes()
    dedup(plain, zipped, "--keep", "new", "--output", tmp_path / "both.warc.gz")
    assert kept.read_bytes() == (tmp_path / "both.warc.gz").read_bytes()


def test_a_choice_that_an_earlier_run_has_made_is_counted(tmp_path: Path) -> None:
    """
    On the second day every page has come again, newer: none of them can take the place of what the
    first day has kept, so none is kept, and the summary says how many and what to do.
    """
    days = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for number, day in enumerate(days):
        time = {"fetched_at": f"2026-11-0{number + 1}T00:00:00Z"}
        pages = [page(1, text=ARTICLE, **time), page(2, text=OTHER, **time)]
        day.write_text(
            lines(*pages, *([page(3, text="Nothing of the kind.", **time)] if number else []))
        )
    options = ("--keep", "new", "--prefer", "newest", "--json", "--quiet")
    summaries = [
        json.loads(
            dedup(
                day, *options, "--state", tmp_path / "state", "--output", day.with_suffix(".kept")
            )
        )
        for day in days
    ]
    assert [one["kept_before"] for one in summaries] == [0, 2]
    assert [one["kept"] for one in summaries] == [2, 1]
    at_once = json.loads(dedup(*days, *options, "--output", tmp_path / "at-once"))
    assert (at_once["kept"], at_once["kept_before"]) == (3, 0)


def test_so_many_documents_of_a_cluster_are_kept(tmp_path: Path) -> None:
    """
    The others are in --duplicates: together the two files have every document once. Which of them
    are chosen is tested in `tests/shell/test_choice.py`.
    """
    options = ("--per-cluster", "2", "--prefer", "longest")
    source, kept, others = (tmp_path / name for name in ("in.jsonl", "kept.jsonl", "others.jsonl"))
    texts = {1: ARTICLE, 2: ARTICLE, 3: LONGER, 4: OTHER}
    source.write_text(lines(*(page(number, text=text) for number, text in texts.items())))
    dedup(source, "--keep", "new", *options, "--output", kept, "--duplicates", others)
    numbers = [
        [int(json.loads(line)["url"][-1]) for line in path.read_text().splitlines()]
        for path in (kept, others)
    ]
    assert numbers == [[1, 3, 4], [2]]


def records(data: bytes) -> dict[str, tuple[WarcRecordType, dict[str, str], bytes]]:
    """Kind, header and content of each record, by URL and time."""
    found = {}
    for record in ArchiveIterator(io.BytesIO(data), parse_http=False):
        headers = dict(record.headers.to_tuples())
        key = f"{headers['WARC-Target-URI']} {headers['WARC-Date']}"
        found[key] = record.record_type, headers, record.reader.read()
    return found


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_records_of_an_archive_are_copied_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    """Headers, chunks and encodings: each record of both outputs stands in the input as it is."""
    source, kept, others = (
        tmp_path / name for name in ("in.warc.gz", f"kept.warc{suffix}", f"others.warc{suffix}")
    )
    write_sample_crawl(source, 300, seed=3)
    verdicts = tmp_path / "verdicts.jsonl"
    dedup(source, "--output", verdicts)
    outcomes = [json.loads(line)["verdict"] for line in verdicts.read_text().splitlines()]
    dedup(source, "--keep", "new", "--output", kept, "--duplicates", others)
    whole = b"".join(piece.data for piece in pieces(io.BytesIO(source.read_bytes())))
    copies = [
        unpacked(path).removesuffix(b"\r\n\r\n").split(b"\r\n\r\nWARC/") for path in (kept, others)
    ]
    assert [len(found) for found in copies] == [
        outcomes.count("new"),
        len(outcomes) - outcomes.count("new"),
    ]
    assert all(record in whole for found in copies for record in found)
    if suffix == ".gz":  # no time, no name, and of no Python
        assert kept.read_bytes()[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\x03"
    if suffix != ".zst":  # what reads archives reads these, a member a record
        again = tmp_path / "again.jsonl"
        dedup(kept, "--output", again)
        assert {json.loads(line)["verdict"] for line in again.read_text().splitlines()} == {"new"}


def test_a_duplicate_leaves_a_revisit_record(tmp_path: Path) -> None:
    """In its place, with its own URL and time, and those of its original."""
    source, kept = tmp_path / "in.warc.gz", tmp_path / "kept.warc.gz"
    write_sample_crawl(source, 200, seed=4)
    dedup(source, "--output", tmp_path / "verdicts.jsonl")
    verdicts = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    duplicates = [verdict for verdict in verdicts if verdict["verdict"] == "duplicate"]
    dedup(source, "--keep", "revisits", "--output", kept)
    revisits = [
        fields
        for kind, fields, content in records(unpacked(kept)).values()
        if kind == WarcRecordType.revisit
    ]
    assert len(revisits) == len(duplicates) > 0
    for fields, verdict in zip(revisits, duplicates, strict=True):
        assert fields["WARC-Target-URI"] == verdict["url"]
        assert fields["WARC-Refers-To-Target-URI"] == verdict["duplicate_of"]["url"]
        assert fields["WARC-Refers-To-Date"] == verdict["duplicate_of"]["fetched_at"]
        assert fields["WARC-Profile"] == "urn:neardup:revisit:near-duplicate"


def test_a_revisit_record_costs_what_the_bytes_of_its_header_do() -> None:
    """Where a step for each of a value's spaces looked at all the others, this would not end."""
    value = b"a" + b" " * (1 << 20) + b"x"
    head = b"WARC/1.0\r\nWARC-Payload-Digest: " + value + b"\r\n\r\n"
    assert value + b"\r\n" in revisit_of(head, Original("a", "http://a.example/", 0))


def test_a_revisit_record_is_made_of_the_head_alone() -> None:
    """Also where lines end without CR: a line of the page is none of the record's."""
    raw = (
        b"WARC/1.0\nWARC-Target-URI: http://b/\n\nHTTP/1.1 200 OK\n\n"
        b"<pre>\nWARC-Payload-Digest: sha1:FORGED\n\r\n\r\n"
    )
    record = revisit_of(raw, Original("a", "http://a/", 0))
    assert b"WARC-Target-URI: http://b/\r\n" in record and b"FORGED" not in record


def test_a_revisit_record_has_the_lines_it_was_given(tmp_path: Path) -> None:
    """A URL with line ends, of the original or of the duplicate, makes no field and no record."""
    forged = "http://a/\r\n\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nX: \x85\u2028\x00"
    head = (
        "WARC/1.0\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Target-URI: http://b/\r{}\r\nWARC-Date: "
        "2026-01-01T00:00:00Z"
    )
    raw = f"{head.format('WARC-Type: response')}\r\nContent-Length: 0\r\n\r\n\r\n\r\n".encode()
    record = revisit_of(raw, Original("a", forged, 0))
    assert [line.partition(": ")[0] for line in record.decode().splitlines()] == [
        "WARC/1.1", "WARC-Type", "WARC-Record-ID", "WARC-Target-URI", "WARC-Date", "WARC-Profile",
        "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date", "Content-Length", "", "", "",
    ]  # fmt: skip
    [(kind, fields, _)] = records(record).values()
    assert kind == WarcRecordType.revisit
    assert fields["WARC-Refers-To-Target-URI"].startswith(
        "http://a/%0D%0A%0D%0A%0D%0AWARC/1.1%0D%0AWARC-Type: response"
    )


def test_outputs_and_verdicts_stay_beside_their_rows_whatever_cannot_be_read(
    tmp_path: Path,
) -> None:
    """
    A row, a line that cannot be read, a file that breaks off: kept and others are the rows that
    were judged.
    """
    deep = "[" * 600 + "]" * 600  # less than what json takes on any Python
    source, kept, others = (tmp_path / f"{name}.jsonl" for name in ("in", "kept", "others"))
    given = [f'{{"body": "{text}"}}' for text in (ARTICLE, ARTICLE, OTHER)]
    source.write_text("\n".join([given[0], f'{{"body": {deep}}}', *given[1:]]))
    options = ("--text-column", "body", "--keep", "new")
    dedup(source, *options, "--output", kept, "--duplicates", others)
    assert (kept.read_text().splitlines(), others.read_text().splitlines()) == (
        [given[0], given[2]],
        [given[1]],
    )
    bad, good, rest = (tmp_path / f"{name}.parquet" for name in ("bad", "good", "rest"))
    ends = pyarrow.py_buffer(struct.pack("<3i", 0, 3, 3 + len(ARTICLE)))
    texts = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, ends, pyarrow.py_buffer(b"\xff" * 3 + ARTICLE.encode())]
    )
    parquet.write_table(pyarrow.table({"body": texts, "n": [0, 1]}), bad)
    parquet.write_table(pyarrow.table({"body": [ARTICLE, OTHER], "n": [2, 3]}), good)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(good.read_bytes()[:-9] + b"PAR1")
    dedup(bad, broken, good, *options, "--output", tmp_path / "out.parquet", "--duplicates", rest)
    assert parquet.read_table(tmp_path / "out.parquet")["n"].to_pylist() == [1, 3]
    assert parquet.read_table(rest, columns=["n"])["n"].to_pylist() == [0, 2]


TABLE: dict[str, list[Any]] = {
    "name": ["a", "b", "c", "d"],
    "content": [ARTICLE, ARTICLE.upper(), OTHER, None],
    "score": [0.5, None, 2.0, 3.0],
    "tags": [["x"], [], ["y", "z"], None],
}


def test_rows_of_parquet_stay_with_all_their_columns(tmp_path: Path) -> None:
    """
    Columns named by options; types and other columns are the same; several files of the same
    columns go together.
    """
    one, two, kept, others = (
        tmp_path / f"{name}.parquet" for name in ("one", "two", "kept", "others")
    )
    table = pyarrow.table(TABLE)
    parquet.write_table(table.slice(0, 2), one)
    parquet.write_table(table.slice(2), two)
    options = ("--id-column", "name", "--text-column", "content")
    dedup(one, two, *options, "--keep", "new", "--output", kept, "--duplicates", others)
    assert parquet.read_table(kept).equals(table.take([0, 2]))
    assert parquet.read_table(others).equals(table.take([1, 3]))
    dedup(one, two, *options, "--output", tmp_path / "verdicts")
    found = [json.loads(line) for line in (tmp_path / "verdicts").read_text().splitlines()]
    assert [(verdict["doc_id"], verdict["verdict"]) for verdict in found] == [
        ("a", "new"), ("b", "duplicate"), ("c", "new"), ("d", "dead-letter"),
    ]  # fmt: skip
    assert found[1]["duplicate_of"]["doc_id"] == "a"
    assert found[3]["input"] == {"file": str(two), "line": 2, "offset": 1}
    parquet.write_table(table.select(["name", "content"]), two)
    said = refused("dedup", one, two, *options, "--keep", "new", "--output", kept)
    assert "have different columns" in said and f"rows of {two}" in said
    assert parquet.read_table(kept).num_rows == 2  # what stood there stays


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-", "--keep", "new"), "--keep reads its files twice"),
        (("FILE", "--duplicates", "x"), "require --keep new"),
        (("FILE", "--prefer", "newest"), "require --keep new"),
        (("FILE", "--per-cluster", "2"), "require --keep new"),
        (("FILE", "--keep", "new", "--per-cluster", "-1"), "to 1,000,000,000, got -1"),
        (
            ("FILE", "--keep", "revisits", "--prefer", "newest"),
            "leave --prefer and --per-cluster out",
        ),
        (("FILE", "--keep", "old"), "'--keep': 'old' is not one of 'new', 'revisits'"),
    ],
)
def test_what_does_not_go_together_is_said(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    """With exit code 2, before anything is read."""
    (tmp_path / "FILE").write_text("")
    assert text in misused(
        "dedup", *(tmp_path / one if one == "FILE" else one for one in arguments)
    )


def test_a_file_with_another_inode_is_unchanged(tmp_path: Path) -> None:
    """Some file systems in user space give a file another inode each time that it is asked for."""
    given, copy = tmp_path / "in.jsonl", tmp_path / "copy.jsonl"
    given.write_text(lines({"text": "a text"}))
    before = stamp_of(str(given))
    inode = given.stat().st_ino
    shutil.copy2(given, copy)
    copy.replace(given)
    assert given.stat().st_ino != inode
    assert stamp_of(str(given)) == before is not None


TEXTS = [f"text of number {number // 2}" for number in range(200)]  # a step of the progress
BEFORE, AFTER = (lines(*({"text": text} for text in texts)) for texts in (TEXTS, TEXTS[::-1]))


def refused_keeping(given: Path | str, output: Path, replace: Callable[[], object], at: str) -> str:
    """What `dedup --keep` says when its input is replaced before it is copied or while it is."""

    def copied(*arguments: Any, stamps: Any) -> int:
        files, kind, choice, outputs, options, on_progress = arguments
        if at == "before":
            replace()
        else:

            def on_progress(_: int) -> None:
                replace()

        return copy_documents(files, kind, choice, outputs, options, on_progress, stamps=stamps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.cli.dedup.copy_documents", copied)
        said = refused("dedup", given, "--keep", "new", "--output", output)
    assert not output.exists()
    return said


@pytest.mark.parametrize("at", ["before", "while"])
def test_a_file_that_is_replaced_between_its_two_readings_is_refused(
    tmp_path: Path, at: str
) -> None:
    """Another one with as many documents would be copied by verdicts that are not its own."""
    given, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(BEFORE)
    said = refused_keeping(given, output, lambda: given.write_text(AFTER), at)
    assert f"{given} has changed since it was judged: run this again" in said


def test_what_cannot_be_kept_is_said_before_anything_is_judged(tmp_path: Path) -> None:
    """
    Formats are not mixed, a name is obeyed, a revisit record needs an archive, and ARC is not
    written.
    """
    source, archive, arc, state = (
        tmp_path / name for name in ("in.jsonl", "in.warc.gz", "in.arc", "state")
    )
    source.write_text(lines(page(1, text=ARTICLE), page(2, text=ARTICLE)))
    write_sample_crawl(archive, 20, seed=1)
    arc.write_bytes(b"filedesc://x 0.0.0.0 20260101000000 text/plain 0\n\n")
    kept, others = tmp_path / "kept", tmp_path / "others.warc"
    formats = f"{source} is JSON Lines, and {archive} is WARC"
    for text, files, *options in (
        ("would be JSON Lines and WARC: write an output for each", [source, archive], "new"),
        (formats, [source, source, archive], "new"),
        ("leave `--keep revisits` out", [source], "revisits"),
        ("would be JSON Lines, and its name says WARC", [source], "new", "--duplicates", others),
        ("is ARC, which is not written", [arc], "new"),
    ):
        assert text in refused(
            "dedup", *files, "--output", kept, "--state", state, "--keep", *options
        )
        assert not any(path.exists() for path in (kept, others, state))


def test_the_summary_is_for_people_or_for_scripts(tmp_path: Path) -> None:
    """One JSON object on stdout, where nothing else is written; nothing at all with --quiet."""
    source, kept = tmp_path / "in.jsonl", tmp_path / "kept"
    source.write_text(lines(page(1, text=ARTICLE), page(2, text=ARTICLE), page(3)) + "[]\n")
    told = json.loads(dedup(source, "--keep", "new", "--output", kept, "--json").splitlines()[-1])
    assert told.pop("seconds") >= 0
    outcomes = {"new": 1, "duplicate": 1, "dead-letter": 1}
    assert told == {
        "documents": 3, "damaged": 1, "left_out": {}, "assumed": {}, "references": 0,
        "references_unmatched": 0,
        "outcomes": outcomes, "redelivered": 0, "named_apart": 0, "kept": 1, "unscored": None, "kept_before": None,
    }  # fmt: skip
    for command, *options in (("fingerprint",), ("nearest", "--to", "0")):
        said = run(command, source, *options, "--output", kept, "--quiet").output.splitlines()
        assert [line.split(":")[0] for line in said] == ["no fingerprint"]


GIVEN = [page(1, text=ARTICLE), page(2, text=ARTICLE), page(3, text=OTHER)]


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3FileSystem]:
    """A bucket of this name, found as any other is: by the variables of AWS."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "anyone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        S3FileSystem.clear_instance_cache()  # of a former server, whose buckets are still there
        system = S3FileSystem()
        system.makedirs("bucket", exist_ok=True)
        system.pipe_file("bucket/in.jsonl.gz", gzip.compress(lines(*GIVEN).encode()))
        yield system
    server.stop()


def test_an_object_that_is_replaced_between_its_two_readings_is_refused(
    bucket: S3FileSystem, tmp_path: Path
) -> None:
    """Although its folder was listed before."""
    bucket.pipe_file("bucket/folder/in.jsonl", BEFORE.encode())

    def replace() -> None:  # as somebody else would, whose changes this process does not see
        S3FileSystem(skip_instance_cache=True).pipe_file("bucket/folder/in.jsonl", AFTER.encode())

    said = refused_keeping("s3://bucket/folder/*.jsonl", tmp_path / "out.jsonl", replace, "before")
    assert "s3://bucket/folder/in.jsonl has changed since it was judged" in said


def test_s3_is_read_and_written(bucket: S3FileSystem, tmp_path: Path) -> None:
    """
    Lines and Parquet; the verdicts of what was kept; what is not there, or has no place, is named.
    """
    dedup("s3://bucket/in.jsonl.gz", "--keep", "new", "--output", "s3://bucket/kept.jsonl.gz")
    kept = gzip.decompress(bucket.cat_file("bucket/kept.jsonl.gz")).splitlines()
    assert [json.loads(line) for line in kept] == [GIVEN[0], GIVEN[2]]
    dedup("s3://bucket/kept.jsonl.gz", "--output", "s3://bucket/verdicts")
    verdicts = bucket.cat_file("bucket/verdicts").splitlines()
    assert [json.loads(line)["verdict"] for line in verdicts] == ["new", "new"]
    with bucket.open("bucket/in.parquet", "wb") as stream:
        parquet.write_table(pyarrow.table(TABLE), stream)
    options = ("--text-column", "content", "--keep", "new", "--output", "s3://bucket/kept.parquet")
    dedup("s3://bucket/in.parquet", *options)
    with bucket.open("bucket/kept.parquet") as stream:
        assert parquet.read_table(stream).equals(pyarrow.table(TABLE).take([0, 2]))
    assert "cannot read s3://bucket/none.jsonl: no such file" in refused(
        "dedup", "s3://bucket/none.jsonl"
    )
    for output in ("s3://bucket/in.jsonl.gz", "s3a://bucket/in.jsonl.gz"):
        assert "is an input and the output" in refused(
            "dedup", "s3://bucket/in.jsonl.gz", "--output", output
        )
    options = (
        "--keep",
        "new",
        "--output",
        "s3://bucket/new",
        "--duplicates",
        "simplecache::s3a://bucket/new",
    )
    assert "are the same file" in refused("dedup", "s3://bucket/in.jsonl.gz", *options)
    assert "cannot write s3://none/out" in refused(
        "dedup", "s3://bucket/in.jsonl.gz", "--output", "s3://none/out"
    )


@pytest.mark.usefixtures("bucket", "commands_settings")
def test_s3_is_fed() -> None:
    """Into the topic, like a file of this machine."""
    for arguments in (["topics", "create"], ["feed", "s3://bucket/in.jsonl.gz", "--json"]):
        result = run(*arguments)
    told = json.loads(result.stdout)
    assert told.pop("seconds") > 0
    assert told == {
        "documents": 3, "damaged": 0, "left_out": {}, "assumed": {}, "delivered": 3, "failed": 0,
    }  # fmt: skip


def test_http_is_read_and_not_written(tmp_path: Path) -> None:
    """A scheme that nobody knows is named; `tests/shell/test_outputs.py` has a server's answers."""
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(lines(*GIVEN).encode()))
    with served(tmp_path) as url:
        dedup(f"{url}/in.jsonl.gz", "--keep", "new", "--output", tmp_path / "kept.jsonl")
        assert "cannot write http://" in refused(
            "dedup", f"{url}/in.jsonl.gz", "--output", f"{url}/out"
        )
    kept = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [GIVEN[0], GIVEN[2]]
    for other in ("nowhere://x", "ftp://127.0.0.1:1/b"):  # the latter logs in at once
        assert f"cannot read {other}: " in refused("dedup", other)


HIGHEST = ("--keep", "new", "--prefer", "highest:quality")


def test_a_score_that_cannot_be_read_leaves_its_row_its_verdict(tmp_path: Path) -> None:
    """Bytes that are no text in the score's column of Parquet are no number, and no dead letter."""
    source = tmp_path / "in.parquet"
    rows: list[dict[str, Any]] = [
        page(1, text=ARTICLE) | {"quality": b"\xff"},
        page(2, text=ARTICLE) | {"quality": b"3"},
    ]
    table = pyarrow.Table.from_pylist(rows)
    text_type = pyarrow.string()
    quality = pyarrow.Array.from_buffers(text_type, 2, table["quality"].chunk(0).buffers())
    parquet.write_table(table.set_column(3, "quality", quality), source)
    said = json.loads(dedup(source, *HIGHEST, "--output", tmp_path / "kept.parquet", "--json"))
    assert said["outcomes"] == {"new": 1, "duplicate": 1} and said["unscored"] == 1
    [kept] = parquet.read_table(tmp_path / "kept.parquet").to_pylist()
    assert kept["url"] == "https://example.org/2"


def test_a_score_that_no_document_can_have_is_refused(tmp_path: Path) -> None:
    """
    A field without a number, a missing or doubled column, and an archive are named with a remedy.
    """
    target = tmp_path / "kept"
    options = (*HIGHEST, "--output", target)
    source = tmp_path / "in.jsonl"
    source.write_text(lines(page(1, text=ARTICLE), page(2, text=OTHER) | {"quality": "high"}))
    said = refused("dedup", source, *options)
    assert "no document has a finite number in 'quality', of 2: name a field" in said
    table = tmp_path / "in.csv"
    table.write_text(f'url,text\nhttps://a.example/,"{ARTICLE}"\n')
    assert "has no column 'quality', there are url, text" in refused("dedup", table, *options)
    table.write_text(f'url,text,quality,quality\nhttps://a.example/,"{ARTICLE}",1,2\n')
    assert "has two columns 'quality'" in refused("dedup", table, *options)
    archive = tmp_path / "in.warc.gz"
    write_sample_crawl(archive, 5, seed=1)
    said = refused("dedup", archive, *options)
    assert "WARC has none: prefer first, longest, newest or shortest-url" in said
    for prefer in ("highest", "highest:", "lowest:quality", "first:quality"):
        said = misused("dedup", source, "--keep", "new", "--prefer", prefer)
        assert "is not one of first, longest, newest, shortest-url and highest:FIELD" in said
    assert not target.exists()


def test_the_newest_is_preferred_where_there_are_times(tmp_path: Path) -> None:
    """
    A document without a time is older than every other, and is counted; without any time it is an
    error, and no output is written.
    """
    source, kept = tmp_path / "in.jsonl", tmp_path / "kept.jsonl"
    options = ("--keep", "new", "--prefer", "newest", "--output", kept)
    bare: list[dict[str, Any]] = [{"doc_id": name, "text": ARTICLE} for name in "abc"]
    source.write_text(lines(*bare))
    said = refused("dedup", source, *options)
    assert "--prefer newest: no document has a time in 'fetched_at', of 3: rename" in said
    assert not kept.exists()
    dated = [bare[0], bare[1] | {"fetched_at": "2026-10-28"}, bare[2] | {"fetched_at": 1793000000}]
    source.write_text(lines(*dated))
    said = dedup(source, *options)
    assert "; 1 without a number or time to be preferred by" in said
    assert "1 time without a zone, read as UTC" in said
    assert "1 time given as a number, read as Unix seconds" in said
    newest = json.loads(kept.read_text())
    assert newest["doc_id"] == "b"


def test_references_are_matched_against_and_never_written(tmp_path: Path) -> None:
    """Copies of a reference are removed, whatever is preferred; the summary counts references."""
    known, also, source = (tmp_path / f"{name}.jsonl" for name in ("known", "also", "in"))
    kept, others = tmp_path / "kept.jsonl", tmp_path / "others.jsonl"
    known.write_text(lines(page(1, text=ARTICLE), {"url": "https://example.org/none"}))
    also.write_text(lines(page(2, text=f"{OTHER} {OTHER[::-1]}")))
    given: list[dict[str, Any]] = [
        page(3, text=LONGER) | {"quality": 9},
        page(4, text=OTHER),
        page(5, text=OTHER),
    ]
    source.write_text(lines(*given))
    options = ("--reference", known, "--reference", also, "--output", kept)
    for prefer in ("first", "longest", "highest:quality"):
        said = dedup(source, *options, "--keep", "new", "--prefer", prefer, "--duplicates", others)
        assert "3 documents, " in said
        assert "matched against 2 references (1 more could not be judged)" in said
        assert kept.read_text() == lines(given[1])
        assert others.read_text() == lines(given[0], given[2])
    dedup(source, *options)
    verdicts = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [verdict["verdict"] for verdict in verdicts] == ["duplicate", "new", "duplicate"]
    assert verdicts[0]["duplicate_of"]["url"] == "https://example.org/1"


def test_references_are_in_the_state_like_other_documents(tmp_path: Path) -> None:
    """
    A second run with the state needs no references; naming them again changes nothing.
    """
    known, source, kept = (tmp_path / f"{name}.jsonl" for name in ("known", "in", "kept"))
    known.write_text(lines({"text": ARTICLE}))  # its name is made of its number
    source.write_text(lines({"text": OTHER}))
    options = ("--state", tmp_path / "state", "--keep", "new", "--output", kept)
    dedup(source, "--reference", known, *options)
    assert kept.read_text() == source.read_text()
    for references in ((), ("--reference", known)):
        source.write_text(lines({"day": len(references), "text": LONGER}))
        dedup(source, *references, *options)
        assert kept.read_text() == ""


def test_a_reference_is_no_input(tmp_path: Path) -> None:
    """Whatever it is called; and references of which none can be judged are not passed over."""
    known, source, link = tmp_path / "known.jsonl", tmp_path / "in.jsonl", tmp_path / "link.jsonl"
    known.write_text(lines(page(1, text=ARTICLE)))
    source.write_text(lines(page(2, text=OTHER)))
    link.symlink_to(known)
    for reference in (known, link, tmp_path / "*.jsonl"):
        said = refused("dedup", known, "--reference", reference)
        assert "is an input and a reference" in said and "leave it out of one of them" in said
    known.write_text(lines(page(1, body=ARTICLE)))
    said = refused("dedup", source, "--reference", known, "--output", tmp_path / "kept")
    assert "no reference could be judged: 1 document" in said
    assert "no such file" in refused("dedup", source, "--reference", tmp_path / "none.jsonl")
