"""`neardup find-all` and `find-clusters`: decimal lines in, JSON arrays out."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from worker.cli import app

NUMBERS = [0, 7, 63, 2**64 - 1, 2**64 - 2, 0, 1 << 40]


def run(command: str, text: str, *arguments: str) -> Result:
    """Run over stdin."""
    return CliRunner().invoke(app, [command, *arguments], input=text)


def arrays(result: Result) -> list[list[object]]:
    """What was written, in any order."""
    assert result.exit_code == 0, result.output
    return sorted(json.loads(line) for line in result.output.splitlines())


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


def test_a_line_that_is_no_fingerprint_is_named() -> None:
    """Its place, the bound and what stands there."""
    for bad in ("18446744073709551616", "-1", "0x10", "12.5"):
        result = run("find-all", f"1\n{bad}\n3\n")
        assert result.exit_code == 1
        assert f"number 2 must be a decimal from 0 to 2^64 - 1, got b'{bad}'" in str(result.exception)


def test_blocks_within_the_distance_are_refused() -> None:
    """Exit code 2, both values, the reason."""
    result = run("find-all", "1\n", "--blocks", "3")
    assert result.exit_code == 2
    assert "--blocks 3 --distance 3" in result.output
