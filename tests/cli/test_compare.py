"""`neardup compare`: two documents side by side, on the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli import app
from worker.core.fingerprint import Fingerprinter

A = "The old bridge over the river was built by two brothers in the spring of that year."
B = "The old bridge over the river was built by three sisters in the spring of that year."


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A text, and a page with nearly the same one."""
    (tmp_path / "a.txt").write_text(A)
    (tmp_path / "b.html").write_text(f"<!doctype html><nav><a href='/'>Home</a></nav><main><p>{B}</p></main>")
    return [str(tmp_path / "a.txt"), str(tmp_path / "b.html")]


def test_the_terminal_shows_bits_measures_shingles_and_the_diff(pair: list[str]) -> None:
    """Into a pipe without colours; as many marks as bits differ."""
    result = CliRunner().invoke(app, ["compare", *pair])
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in result.output.splitlines() if line.startswith(("A  ", "B  ", "differ "))}
    distance = (Fingerprinter().one(A) ^ Fingerprinter().one(B)).bit_count()
    assert rows["differ"].count("x") == distance
    said = " ".join(result.output.split())  # the terminal's lines are 80 columns
    assert f"{distance} of 64 bits differ: no duplicate, same template, other facts: similarity 0." in said
    assert "0.750 wanted" in said
    assert "[-two brothers-] {+three sisters+}" in result.output
    assert "longest common subsequence / longer text  0.882" in result.output
    assert "two brothers (1)" in result.output
    assert "\x1b[" not in result.output


def test_json_holds_everything(pair: list[str]) -> None:
    """Fingerprints as hex text, each shingle in one list, the steps from A to B; stdin is one of the two."""
    result = CliRunner().invoke(app, ["compare", "-", pair[1], "--json"], input=A)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [one["fingerprint"] for one in found["documents"]] == [
        f"{Fingerprinter().one(text):016x}" for text in (A, B)
    ]
    assert len(found["differing_bits"]) == found["distance"]
    assert found["subsequence"] == 15 / 17
    assert [step["kind"] for step in found["steps"]] == ["equal", "removed", "added", "equal"]
    assert {one["shingle"] for one in found["documents"][0]["only"]} == {"by two", "two brothers", "brothers in"}
    assert {"shingle": "of that", "weights": [3, 3]} in found["shared"]


def test_options_change_the_fingerprint_as_everywhere(pair: list[str]) -> None:
    """Wider shingles are what the definition makes of them."""
    result = CliRunner().invoke(app, ["compare", *pair, "--json", "--shingle-widths", "3"])
    assert all(len(one["shingle"].split()) == 3 for one in json.loads(result.stdout)["shared"])


def test_equal_documents_say_so(pair: list[str]) -> None:
    """No bit, no shingle, no step."""
    result = CliRunner().invoke(app, ["compare", pair[0], pair[0]])
    assert "0 of 64 bits differ: a duplicate, similarity 1.000\ndirected, distance 15, " in result.output
    assert "token for token the same" in result.output


def test_what_is_not_compared_says_so(tmp_path: Path) -> None:
    """Of nothing a worker makes `skipped`, of a few words a duplicate only when they are the same."""
    texts = {"empty": "", "few": "four words and no more", "others": "four words or no more", "marks": "!?"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for first, second, said in (
        ("empty", "empty", "0 of 64 bits differ: a worker skips what has nothing to compare"),
        ("marks", "few", "bits differ: a worker skips what has nothing to compare"),
        ("few", "few", "0 of 64 bits differ: so few tokens match only their equals, as here"),
        ("few", "others", "bits differ: so few tokens match only their equals\n"),
    ):
        result = CliRunner().invoke(app, ["compare", str(tmp_path / first), str(tmp_path / second)])
        assert said in result.output


def test_what_cannot_be_compared_is_named(tmp_path: Path, pair: list[str]) -> None:
    """A missing file, an image, stdin twice."""
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    missing = CliRunner().invoke(app, ["compare", str(tmp_path / "none"), pair[0]])
    assert "cannot read" in str(missing.exception)
    image = CliRunner().invoke(app, ["compare", str(tmp_path / "image"), pair[0]])
    assert "no text to compare" in str(image.exception)
    assert CliRunner().invoke(app, ["compare", "-", "-"]).exit_code == 2
