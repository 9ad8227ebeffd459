"""`neardup nearest`: ranked by distance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from worker.cli import app
from worker.cli import pairs as reading
from worker.errors import StopError

ENTRIES = [("a", 0b0), ("b", 0b111), ("c", 0b0), ("d", 0b1), ("e", 2**64 - 1)]


def run(*arguments: str, text: str = "") -> Result:
    """Run over stdin."""
    return CliRunner().invoke(app, ["nearest", *arguments], input=text)


def ranked(result: Result) -> list[list[Any]]:
    """What was written, in its order."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def documents(tmp_path: Path) -> str:
    """Lines as `neardup fingerprint` writes them."""
    path = tmp_path / "fingerprints.jsonl"
    path.write_text("".join(json.dumps({"doc_id": i, "fingerprint": f"{n:016x}"}) + "\n" for i, n in ENTRIES))
    return str(path)


def test_documents_are_ranked_by_distance_without_the_one_itself(documents: str) -> None:
    """Equal ones first; as many as were asked for."""
    result = run("--documents", documents, "--to", "a")
    assert ranked(result) == [["c", 0], ["d", 1], ["b", 3], ["e", 64]]
    assert ranked(run("--documents", documents, "--to", "b", "--count", "2")) == [["d", 2], ["a", 3]]
    assert ranked(run("--documents", documents, "--to", "0x7", "--count", "1")) == [["b", 0]]


def test_a_file_of_documents_is_told_from_its_content(documents: str, tmp_path: Path) -> None:
    """Lines with doc_ids, or documents themselves, where decimal numbers could stand."""
    assert ranked(run(documents, "--to", "a", "--count", "1")) == [["c", 0]]
    texts = {
        "x": "the bridge over the river was built by two brothers and their sons",
        "y": "THE BRIDGE, over the river was built by two brothers and their sons.",
    }
    path = tmp_path / "documents.jsonl"
    lines = ({"doc_id": i, "url": f"https://example.org/{i}", "text": text} for i, text in texts.items())
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run(str(path), "--to", "x", "--count", "3", "--threads", "1")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [["y", 0]]


def test_numbers_are_ranked_by_distance() -> None:
    """Those of a file, or of stdin; one that is there is its own nearest."""
    text = "8\n1\n3\n18446744073709551615\n"
    assert ranked(run("--to", "3", "--count", "3", text=text)) == [[3, 0], [1, 1], [8, 3]]
    assert ranked(run("-", "--to", "0xffffffffffffffff", "--count", "1", text=text)) == [[2**64 - 1, 0]]
    assert ranked(run("--to", "3")) == []


def test_an_unknown_document_is_named(documents: str) -> None:
    """With what would have been right."""
    for arguments in (["--documents", documents], []):
        result = run(*arguments, "--to", "nobody")
        assert isinstance(result.exception, StopError)
        assert "got 'nobody'" in str(result.exception)


def test_a_long_file_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is never cut between two parts, and a bad one keeps its place in the whole."""
    monkeypatch.setattr(reading, "PART_BYTES", 7)
    numbers = [3**power for power in range(40)]
    text = "\n".join(map(str, numbers))
    found = ranked(run("--to", "0", "--count", "100", text=text))
    assert sorted(number for number, _ in found) == numbers
    result = run("--to", "0", text=text + "\n-5\n")
    assert "number 41 must be a decimal" in str(result.exception)


def test_a_fingerprint_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    """With its line."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"doc_id": "a", "fingerprint": "10000000000000000"}\n')
    result = run("--documents", str(path), "--to", "a")
    assert "line 1: must be an object with doc_id and fingerprint (16 hex digits)" in str(result.exception)
