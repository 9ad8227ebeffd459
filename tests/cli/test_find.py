"""`neardup find-all` and `find-clusters`: decimal lines in, JSON arrays out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from worker.cli import app
from worker.devkit.sample.crawl import TEMPLATES, truth_path, write_sample_crawl

NUMBERS = [0, 7, 63, 2**64 - 1, 2**64 - 2, 0, 1 << 40]


def run(command: str, text: str, *arguments: str) -> Result:
    """Run over stdin."""
    return CliRunner().invoke(app, [command, *arguments], input=text)


def arrays(result: Result) -> list[list[object]]:
    """What was written, in any order."""
    assert result.exit_code == 0, result.output
    return sorted(json.loads(line) for line in result.stdout.splitlines())


def text() -> str:
    """One number a line."""
    return "".join(f"{number}\n" for number in NUMBERS)


def test_find_all_gives_every_pair_once() -> None:
    """Equal numbers are one; the largest ones are not cut."""
    expected = [[0, 7], [0, 1 << 40], [7, 63], [2**64 - 2, 2**64 - 1]]
    assert arrays(run("find-all", text())) == sorted(expected)
    assert arrays(run("find-all", text(), "--distance", "3", "--blocks", "6")) == sorted(expected)
    assert arrays(run("find-all", text(), "--distance", "1")) == sorted([[0, 1 << 40], [2**64 - 2, 2**64 - 1]])


def test_find_clusters_joins_the_pairs() -> None:
    """0, 7 and 63 are one cluster, although 0 and 63 are six bits apart."""
    assert arrays(run("find-clusters", text())) == [[0, 7, 63, 1 << 40], [2**64 - 2, 2**64 - 1]]


def test_documents_come_back_by_their_ids(tmp_path: Path) -> None:
    """Also those with equal fingerprints, which are pairs of distance 0."""
    documents = tmp_path / "fingerprints.jsonl"
    entries = [("a", 0), ("b", 7), ("c", 0), ("d", 1 << 63 | 12345), ("e", 1 << 63 | 12345)]
    documents.write_text("".join(json.dumps({"doc_id": i, "fingerprint": f"{n:016x}"}) + "\n" for i, n in entries))
    pairs = arrays(run("find-all", "", "--documents", str(documents)))
    assert pairs == [["a", "b"], ["a", "c"], ["c", "b"], ["d", "e"]]
    assert arrays(run("find-clusters", "", "--documents", str(documents))) == [["a", "c", "b"], ["d", "e"]]


PROSE = {
    "a": "the bridge over the river was built by two brothers who had learned their trade in the mountains",
    "b": "THE BRIDGE over the river was built by two brothers, who had learned their trade in the mountains!",
    "c": "nobody knows why the older plans were never found but it is said that they were kept in a box below",
}


def documents_of(texts: dict[str, str]) -> str:
    """Documents as lines of JSON; they need no fetch time to be compared."""
    fields = ({"doc_id": name, "url": f"https://example.org/{name}", "text": text} for name, text in texts.items())
    return "".join(json.dumps(one) + "\n" for one in fields)


def test_documents_are_fingerprinted_first(tmp_path: Path) -> None:
    """Plain, compressed and as an archive; a doc_id that comes again with another text is its last self."""
    plain, packed = tmp_path / "documents.jsonl", tmp_path / "documents.jsonl.gz"
    plain.write_text(documents_of(PROSE) + documents_of({"c": PROSE["a"], "empty": ""}))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        arguments = ("--documents", str(path), "--threads", "1")
        result = run("find-clusters", "", *arguments)
        assert [json.loads(line) for line in result.stdout.splitlines()] == [["a", "b", "c"]]
        assert "1 without a fingerprint" in result.stderr
        pairs = [json.loads(line) for line in run("find-all", "", *arguments).stdout.splitlines()]
        assert pairs == [["a", "b"], ["a", "c"], ["b", "c"]]


def test_an_archive_is_compared_by_derived_ids(tmp_path: Path) -> None:
    """The copies of the sample crawl are found, by the doc_ids of its truth; distance joins pages of a template."""
    archive = tmp_path / "crawl.warc.gz"
    write_sample_crawl(archive, 120, 1)
    truth = {row["doc_id"]: row for row in map(json.loads, truth_path(archive).read_text().splitlines())}
    result = run("find-clusters", "", "--documents", str(archive), "--threads", "1", "--distance", "6")
    clusters = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(clusters) > 3
    for cluster in clusters:
        rows = [truth[doc_id] for doc_id in cluster]
        assert len({row["relation" if row["relation"] in TEMPLATES else "group"] for row in rows}) == 1


def test_a_line_that_is_no_fingerprint_is_named() -> None:
    """Its place, the bound and what stands there."""
    for bad in ("18446744073709551616", "-1", "0x10", "12.5"):
        result = run("find-all", f"1\n{bad}\n3\n")
        assert result.exit_code == 1
        assert f"number 2 must be a decimal from 0 to 2^64 - 1, got b'{bad}'" in str(result.exception)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    """What was to be done with them, and why it cannot be."""
    absent = tmp_path / "absent" / "file"
    for arguments, doing in ((["--input"], "read"), (["--documents"], "read"), (["--output"], "write")):
        result = run("find-clusters", "1\n", *arguments, str(absent))
        assert result.exit_code == 1
        assert f"cannot {doing} {absent}: No such file or directory" in str(result.exception)


def test_two_inputs_are_refused(tmp_path: Path) -> None:
    """One of them would be left unread."""
    for command in ("find-all", "find-clusters"):
        result = run(command, "", "--input", str(tmp_path / "a"), "--documents", str(tmp_path / "b"))
        assert result.exit_code == 2 and "name one of them" in result.output


@pytest.mark.parametrize(
    ("blocks", "reason"), [("3", "no block would be left"), ("64", "41664 tables"), ("9999", "each block needs a bit")]
)
def test_blocks_that_make_no_tables_are_refused(blocks: str, reason: str) -> None:
    """Exit code 2, both values, the reason."""
    result = run("find-all", "1\n", "--blocks", blocks)
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", "").split())
    assert f"--blocks {blocks} --distance 3" in said and reason in said
