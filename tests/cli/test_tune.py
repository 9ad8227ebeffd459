"""`neardup tune` on documents of our own."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.core.test_tuning import made_texts
from worker.cli import app


def test_settings_are_chosen_from_sampled_pairs(tmp_path: Path) -> None:
    """Without labels: pairs are sampled, too few are told, the chosen settings come with memory, time and chance."""
    documents = tmp_path / "docs.jsonl"
    lines = (
        {"doc_id": str(number), "url": f"http://a/{number}", "fetched_at": "2026-01-01T00:00:00Z", "text": text}
        for number, text in enumerate(made_texts(40))
    )
    documents.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(app, ["tune", str(documents), "--expected", "1M"])
    assert result.exit_code == 0, (result.output, result.exception)
    output = " ".join(result.output.split())
    assert "too little data: 40 groups of copies" in output
    assert "40 pairs the same" in output
    assert "at 1,000,000 originals: an index of" in output


def test_nothing_can_be_tuned_without_copies(tmp_path: Path) -> None:
    """No pair that is the same is an error that says so."""
    documents = tmp_path / "docs.jsonl"
    documents.write_text('{"doc_id": "a", "url": "http://a/", "text": "one text alone, and nothing that is like it"}\n')
    result = CliRunner().invoke(app, ["tune", str(documents)])
    assert result.exit_code == 1
    assert "no pair is the same" in result.output
