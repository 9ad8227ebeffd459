"""
`neardup find-all`, `find-clusters`, `nearest` and `fingerprint`: numbers and documents in, lines
out.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from neardup import Fingerprinter, Parameters, load_stopwords

from tests.cli.program import ARTICLE, defined, documents_of, lines, misused, page, refused, run
from tests.conftest import EVENTUALLY_S
from worker.cli import fingerprints as reading
from worker.devkit.sample.crawl import TEMPLATES, truth_path, write_sample_crawl

NUMBERS = "".join(f"{number}\n" for number in [0, 7, 63, 2**64 - 1, 2**64 - 2, 0, 1 << 40])
ENTRIES = {"a": 0b0, "b": 0b111, "c": 0b0, "d": 0b1, "e": 2**64 - 1}
PROSE = {
    "a": "the bridge over the river was built by two brothers who had learned their trade in the "
    "mountains",
    "b": "THE BRIDGE over the river was built by two brothers, who had learned their trade in the "
    "mountains!",
    "c": "nobody knows why the older plans were never found but it is said that they were kept in "
    "a box below",
}


def answers(*arguments: object, stdin: str = "") -> list[Any]:
    """Run a command; return its JSON, line by line."""
    return [json.loads(line) for line in run(*arguments, stdin=stdin).stdout.splitlines()]


def fingerprints(folder: Path, entries: dict[str, int]) -> Path:
    """Lines as `neardup fingerprint` writes them."""
    path = folder / "fingerprints.jsonl"
    path.write_text(
        lines(
            *({"doc_id": name, "fingerprint": f"{value:016x}"} for name, value in entries.items())
        )
    )
    return path


def test_the_first_of_a_cluster_is_written_with_its_size(tmp_path: Path) -> None:
    """The first of the file, whatever its fingerprint; of numbers the smallest."""
    source = fingerprints(tmp_path, {"late": 0b111, **ENTRIES})
    given = answers("find-clusters", "--input", source, "--copies")
    assert given == [{"doc_id": "late", "copies": 5}]
    assert answers("find-clusters", "--copies", stdin=NUMBERS) == [
        {"fingerprint": 0, "copies": 4},
        {"fingerprint": 2**64 - 2, "copies": 2},
    ]


def test_find_all_gives_every_pair_once_and_find_clusters_joins_them() -> None:
    """
    Equal numbers are one; the largest ones are not cut; 0 and 63 are one cluster, although six bits
    apart.
    """
    expected = [[0, 7], [0, 1 << 40], [7, 63], [2**64 - 2, 2**64 - 1]]
    assert sorted(answers("find-all", stdin=NUMBERS)) == expected
    assert (
        sorted(answers("find-all", "--distance", "3", "--blocks", "6", stdin=NUMBERS)) == expected
    )
    assert sorted(answers("find-all", "--distance", "1", stdin=NUMBERS)) == expected[1::2]
    assert sorted(answers("find-clusters", stdin=NUMBERS)) == [
        [0, 7, 63, 1 << 40],
        [2**64 - 2, 2**64 - 1],
    ]


def test_documents_come_back_by_their_ids(tmp_path: Path) -> None:
    """Also those with equal fingerprints, which are pairs of distance 0."""
    documents = fingerprints(
        tmp_path, {"a": 0, "b": 7, "c": 0, "d": 1 << 63 | 12345, "e": 1 << 63 | 12345}
    )
    pairs = [["a", "b"], ["a", "c"], ["c", "b"], ["d", "e"]]
    assert sorted(answers("find-all", "--input", documents)) == pairs
    assert sorted(answers("find-clusters", "--input", documents)) == [
        ["a", "c", "b"],
        ["d", "e"],
    ]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_is_written_compressed_is_read_again(tmp_path: Path, suffix: str) -> None:
    """Lines of `fingerprint` and numbers, by every command that reads them, and from stdin."""
    source, entries, numbers = (
        tmp_path / name for name in ("in.jsonl", f"f.jsonl{suffix}", f"n.txt{suffix}")
    )
    source.write_text(documents_of(PROSE))
    run("fingerprint", source, "--output", entries)
    run("fingerprint", source, "--format", "decimal", "--output", numbers)
    assert answers("find-all", "--input", entries) == [["a", "b"]]
    assert answers("find-clusters", "--input", entries) == [["a", "b"]]
    assert answers("nearest", entries, "--to", "a", "--count", "1") == [["b", 0]]
    assert answers("find-all", "--input", numbers) == []  # of the two equal ones, one is left
    first = answers("nearest", numbers, "--to", "0")[0][0]
    assert answers("nearest", numbers, "--to", first, "--count", "1") == [[first, 0]]
    assert run("find-all", stdin=numbers.read_bytes()).stdout == ""
    numbers.write_bytes(numbers.read_bytes()[:-1])
    assert "ends within this member" in refused("find-all", "--input", numbers)


def test_documents_are_fingerprinted_first(tmp_path: Path) -> None:
    """
    Plain, compressed and as an archive; a doc_id that comes again with another text is its last
    self.
    """
    plain, packed = tmp_path / "documents.jsonl", tmp_path / "documents.jsonl.gz"
    plain.write_text(documents_of(PROSE) + documents_of({"c": PROSE["a"], "empty": ""}))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        arguments = ("--input", path, "--threads", "1")
        assert answers("find-clusters", *arguments) == [["a", "b", "c"]]
        assert "1 without a fingerprint" in run("find-clusters", *arguments).stderr
        assert answers("find-all", *arguments) == [["a", "b"], ["a", "c"], ["b", "c"]]
    archive = tmp_path / "crawl.warc.gz"
    write_sample_crawl(archive, 120, 1)
    truth = {
        row["doc_id"]: row for row in map(json.loads, truth_path(archive).read_text().splitlines())
    }
    clusters = answers("find-clusters", "--input", archive, "--threads", "1", "--distance", "6")
    assert len(clusters) > 3
    for cluster in clusters:  # distance joins pages of a template
        rows = [truth[doc_id] for doc_id in cluster]
        assert (
            len({row["relation" if row["relation"] in TEMPLATES else "group"] for row in rows}) == 1
        )


def test_what_is_near_is_ranked_by_distance(tmp_path: Path) -> None:
    """
    Documents without the one itself, equal ones first; numbers of a file or stdin, where one is its
    own nearest.
    """
    documents = fingerprints(tmp_path, ENTRIES)
    for to, count, found in (
        ("a", 9, [["c", 0], ["d", 1], ["b", 3], ["e", 64]]),
        ("b", 2, [["d", 2], ["a", 3]]),
        ("0x7", 1, [["b", 0]]),
    ):
        assert answers("nearest", documents, "--to", to, "--count", count) == found
    (tmp_path / "documents.jsonl").write_text(documents_of({"x": PROSE["a"], "y": PROSE["b"]}))
    assert answers("nearest", tmp_path / "documents.jsonl", "--to", "x", "--count", "3") == [
        ["y", 0]
    ]
    text = "8\n1\n3\n18446744073709551615\n"
    assert answers("nearest", "--to", "3", "--count", "3", stdin=text) == [[3, 0], [1, 1], [8, 3]]
    assert answers("nearest", "-", "--to", "0xffffffffffffffff", "--count", "1", stdin=text) == [
        [2**64 - 1, 0]
    ]
    for arguments in ([documents], []):
        assert "got 'nobody'" in refused("nearest", *arguments, "--to", "nobody", stdin=text)


def test_a_long_file_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is never cut between two parts, and a bad one keeps its place in the whole."""
    monkeypatch.setattr(reading, "PART_BYTES", 7)
    numbers = [3**power for power in range(40)]
    text = "\n".join(map(str, numbers))
    assert (
        sorted(
            number for number, _ in answers("nearest", "--to", "0", "--count", "100", stdin=text)
        )
        == numbers
    )
    for bad in ("-5", "9" * 5_000, str(2**64)):
        said = refused("nearest", "--to", "0", stdin=f"{text}\n{bad}\n")
        assert "number 41 must be a decimal" in said


def test_a_doc_id_of_two_files_names_two_documents(tmp_path: Path) -> None:
    """As in dedup: the first file has the doc_id. The same content is one document in both."""
    for name, texts in (
        ("1.jsonl", {"0": PROSE["a"], "1": PROSE["c"]}),
        ("2.jsonl", {"0": PROSE["b"], "1": f"{PROSE['c']} and in two boxes above"}),
    ):
        (tmp_path / name).write_text(documents_of(texts))
    result = run("find-all", "--input", tmp_path, "--distance", "15")
    pairs = [json.loads(line) for line in result.stdout.splitlines()]
    assert [pair[0] for pair in pairs] == ["1"]
    assert pairs[0][1].startswith("1-") and len(pairs[0][1]) == len("1-") + 16
    assert "1 document has a doc_id that an earlier input" in result.stderr
    assert "only number the rows of each file" in result.stderr


def test_lines_of_fingerprints_with_one_doc_id_are_counted(tmp_path: Path) -> None:
    """The last one counts, as a version of its document; the lines may also be of two files."""
    source = tmp_path / "fingerprints.jsonl"
    values = ("0" * 16, "0" * 15 + "7", "0" * 15 + "7")
    source.write_text(lines(*({"doc_id": "a", "fingerprint": value} for value in values)))
    result = run("find-clusters", "--input", source)
    assert "1 line of" in result.stderr and "with the same doc_id" in result.stderr


def test_a_number_that_is_no_doc_id_is_said_to_be_a_fingerprint(tmp_path: Path) -> None:
    """Where doc_ids are numbers, too, it may have been meant for one; in hex it may not."""
    source = fingerprints(tmp_path, {"1": 5, "2": 6})
    said = "no document has the doc_id '7': it is taken for a fingerprint"
    assert said in run("nearest", source, "--to", "7").stderr
    for clear in ("0x7", "2"):
        assert "it is taken" not in run("nearest", source, "--to", clear).stderr


def test_byte_order_marks_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    """As in documents: numbers, lines of fingerprints, and either as the file of `nearest`."""
    mark = codecs.BOM_UTF8
    numbers = tmp_path / "numbers.txt"
    numbers.write_bytes(mark + b"6\r\n\r\n7\r\n")
    assert answers("find-all", "--input", numbers) == [[6, 7]]
    assert answers("nearest", numbers, "--to", "6") == [[6, 0], [7, 1]]
    entries = fingerprints(tmp_path, {"a": 6, "b": 7})
    entries.write_bytes(mark + entries.read_bytes().replace(b"\n", b"\n\n"))
    assert answers("find-all", "--input", entries) == [["a", "b"]]
    assert answers("nearest", entries, "--to", "a") == [["b", 1]]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """
    A line that is no fingerprint, with its place and the bound. Files that cannot be opened are
    tested in `tests/shell/test_outputs.py`.
    """
    for bad in ("18446744073709551616", "-1", "0x10", "12.5"):
        said = refused("find-all", stdin=f"1\n{bad}\n3\n")
        assert f"number 2 must be a decimal from 0 to 2^64 - 1, got b'{bad}'" in said
    long = fingerprints(tmp_path, {"a": 1 << 64})
    said = refused("nearest", long, "--to", "a")
    assert "line 1: must be an object with doc_id and fingerprint (16 hex digits)" in said


@pytest.mark.parametrize("command", [["find-all"], ["find-clusters"], ["nearest", "--to", "5"]])
def test_no_fingerprint_at_all_is_refused(tmp_path: Path, command: list[str]) -> None:
    """As is a file of documents of which none has a fingerprint. The output stays as it was."""
    output = tmp_path / "out.json"
    output.write_text("before")
    assert "stdin has no fingerprint" in refused(*command, "--output", output, stdin="\n")
    assert output.read_text() == "before"


@pytest.mark.parametrize("command", ["find-all", "find-clusters"])
def test_that_nothing_is_near_is_said(command: str) -> None:
    """An empty output might as well come from an input that was not read."""
    said = run(command, "--distance", "2", stdin="0\n7\n")
    assert (said.stdout, said.stderr) == (
        "",
        "no two of 2 different fingerprints are within 2 bits\n",
    )
    assert run(command, "--distance", "2", "--quiet", stdin="0\n7\n").output == ""
    assert "no two" not in run(command, "--distance", "3", stdin="0\n7\n").stderr


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [("3", "no block would be left"), ("64", "41664 tables"), ("9999", "each block needs a bit")],
)
def test_blocks_that_make_no_tables_are_refused(blocks: str, reason: str) -> None:
    """Exit code 2, both values, the reason."""
    said = misused("find-all", "--blocks", blocks)
    assert f"--blocks {blocks} --distance 3" in said and reason in said


def test_each_document_with_a_fingerprint_has_a_line(tmp_path: Path) -> None:
    """
    That of the library, for text and page alike, in each format and with its parameters; the others
    are named.
    """
    source, words = tmp_path / "in.jsonl", tmp_path / "words.txt"
    source.write_text(
        lines(
            page(1, text=ARTICLE),
            page(2, text=""),
            page(3),
            page(4, html=f"<p>{ARTICLE}</p>"),
            page(5, text="One"),
        )
    )
    words.write_text("river\n# a comment\nferry\n")
    told = run("fingerprint", source, "--threads", "1")
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert [entry["fingerprint"] for entry in found[:2]] == [
        f"{Fingerprinter().one(ARTICLE):016x}"
    ] * 2
    assert [set(entry) for entry in found] == [{"doc_id", "fingerprint", "features"}] * 3
    assert "1 dead, 1 skipped" in told.stderr and "no fingerprint: " in told.stderr
    assert "in.jsonl, line 2: " in told.stderr
    numbers = [int(entry["fingerprint"], 16) for entry in found]
    for name, base in (("decimal", 10), ("hex", 16)):  # decimal lines are what find-all reads
        written = run("fingerprint", source, "--format", name).stdout.splitlines()
        assert [int(line, base) for line in written] == numbers
    options = defined(
        shingle_widths=(1, 3), anchored_weight=9, mask_numbers=True, stopwords_file=words
    )
    own_words = load_stopwords(words.read_text())
    parameters = Parameters(
        shingle_widths=(1, 3), anchored_weight=9, mask_numbers=True, stopwords=own_words
    )
    own = Fingerprinter(parameters).one(ARTICLE)
    assert (
        run("fingerprint", source, "--format", "hex", *options).stdout.splitlines()[0]
        == f"{own:016x}"
    )
    assert own != numbers[0]


@pytest.mark.parametrize("command", ["find-all --input", "nearest --to 6"])
def test_a_pipe_by_name_has_numbers(tmp_path: Path, command: str) -> None:
    """What is looked at to tell its content would be missing, so nobody looks at it."""
    for content, code in ((b"6\n7\n", 0), (documents_of(PROSE).encode(), 1)):
        pipe = tmp_path / f"pipe-{code}"
        os.mkfifo(pipe)
        writer = Thread(target=pipe.write_bytes, args=[content], daemon=True)
        writer.start()
        said = run(*command.split(), pipe, code=code)
        writer.join(EVENTUALLY_S)
        assert ("7" in said.stdout) == (code == 0)
        assert code == 0 or "Documents must come in a file" in str(said.exception)
