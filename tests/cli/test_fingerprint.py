"""`neardup fingerprint`: one line for each document that has a fingerprint; the others are named."""

from __future__ import annotations

import json
from pathlib import Path

from neardup import Fingerprinter, Parameters, load_stopwords
from typer.testing import CliRunner

from tests.cli.test_dedup import ARTICLE, lines, page
from worker.cli import app


def run(tmp_path: Path, *arguments: str) -> tuple[list[str], str]:
    """Run the command over five documents; give its lines and what it said."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text(
        lines(page(1, text=ARTICLE), page(2, text=""), page(3), page(4, html=f"<p>{ARTICLE}</p>"), page(5, text="One"))
    )
    result = CliRunner().invoke(
        app, ["fingerprint", str(source), "--output", str(target), "--threads", "1", *arguments]
    )
    assert result.exit_code == 0, result.output
    return target.read_text().splitlines(), result.output


def test_lines_hold_the_librarys_fingerprints(tmp_path: Path) -> None:
    """The same as Fingerprinter.one, for text and page alike; empty and unreadable ones are named and counted."""
    written, told = run(tmp_path)
    found = [json.loads(line) for line in written]
    assert [entry["fingerprint"] for entry in found[:2]] == [f"{Fingerprinter().one(ARTICLE):016x}"] * 2
    assert [set(entry) for entry in found] == [{"doc_id", "fingerprint", "features"}] * 3
    assert "1 dead, 1 skipped" in told
    assert "no fingerprint: " in told and "in.jsonl, line 2: " in told


def test_decimal_and_hex_are_the_same_numbers(tmp_path: Path) -> None:
    """Decimal lines are what find-all reads."""
    decimal, _ = run(tmp_path, "--format", "decimal")
    hexadecimal, _ = run(tmp_path, "--format", "hex")
    assert [int(line) for line in decimal] == [int(line, 16) for line in hexadecimal]
    assert len(decimal) == 3


def test_the_engines_options_are_the_librarys_parameters(tmp_path: Path) -> None:
    """Widths, weights, masks and a list of one's own function words."""
    words = tmp_path / "words.txt"
    words.write_text("river\n# a comment\nferry\n")
    options = ["--shingle-widths", "1,3", "--anchored-weight", "9", "--mask-numbers", "--stopwords-file", str(words)]
    written, _ = run(tmp_path, "--format", "hex", *options)
    parameters = Parameters(
        shingle_widths=(1, 3), anchored_weight=9, mask_numbers=True, stopwords=load_stopwords(words.read_text())
    )
    assert written[0] == f"{Fingerprinter(parameters).one(ARTICLE):016x}"
    assert written[0] != f"{Fingerprinter().one(ARTICLE):016x}"
