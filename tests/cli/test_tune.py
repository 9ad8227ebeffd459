"""`neardup tune` on documents of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.core.test_tuning import made_texts
from worker.cli import app
from worker.cli.tune import _changed
from worker.core.search import SearchRules
from worker.core.tuning import Trial
from worker.settings import Settings


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


@pytest.mark.parametrize("given", [{}, {"similarity_min": 0.9}, {"search_mode": "exact", "max_distance": 6}])
@pytest.mark.parametrize("rules", [SearchRules(), SearchRules(patterns=16), SearchRules("exact", 3)])
def test_the_settings_that_are_shown_make_what_was_tried(given: dict[str, Any], rules: SearchRules) -> None:
    """Set beside those that are given, they are these very rules; none is shown where they are them already."""
    settings = Settings(**given)
    shown = _changed(Trial("", settings.parameters, rules, 1, 0), settings)
    assert Settings(**{**given, **shown}).search == rules
    assert bool(shown) == (settings.search != rules)
    assert rules.mode == "directed" or not any(name.startswith("search_") for name in shown if name != "search_mode")


def test_a_count_that_no_index_holds_is_refused_at_once() -> None:
    """Before a file is opened."""
    result = CliRunner().invoke(app, ["tune", "missing.jsonl", "--expected", "9999^99"])
    assert result.exit_code == 2 and "got '9999^99'" in result.output
