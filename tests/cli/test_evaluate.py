"""`neardup evaluate` on documents and labels of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli import app

ORIGINAL = (
    "The council of the town has said that the bridge over the river will be open in May, and that the old ferry will "
    "then be sold to the museum. Nobody knows what it will be worth, because it has never been looked at by anybody."
)
DOCUMENTS = {
    "original": ORIGINAL,
    "copy": ORIGINAL.replace("anybody", "them"),
    "other": "A recipe for bread that is baked in the oven of a village, with flour that the mill has made in autumn.",
    "half": ORIGINAL[: len(ORIGINAL) // 2]
    + " "
    + ORIGINAL[:60].upper()
    + " and so on and so on, as it was said before.",
    "short": "Too short",
}


@pytest.fixture
def labelled(tmp_path: Path) -> list[str]:
    """Five documents, and pairs of them: one the same, two not, one that is wrongly called the same, one not scored."""
    documents, pairs = tmp_path / "docs.jsonl", tmp_path / "pairs.tsv"
    lines = (
        {"doc_id": name, "url": f"http://a/{name}", "fetched_at": "2026-01-01T00:00:00Z", "text": text}
        for name, text in DOCUMENTS.items()
    )
    documents.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = (("original", "copy", 1, "edits"), ("original", "other", 0, "topics"), ("copy", "short", 0, "topics"),
            ("original", "other", 1, "wrong labels"), ("original", "half", -1, "edits"))  # fmt: skip
    pairs.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return [str(documents), str(pairs)]


def test_scores_and_wrong_pairs_are_told(labelled: list[str]) -> None:
    """A line a kind and one for all; what was judged wrong is named with the reason; the stream is judged, too."""
    result = CliRunner().invoke(app, ["evaluate", *labelled])
    assert result.exit_code == 0, result.output
    for text in ("edits", "topics", "wrong labels", "original ~ other (wrong labels)", "missed: 1"):
        assert text in result.output
    assert "5 documents, 1 duplicates, of them 1 true, 0 in between, 0 false" in " ".join(result.output.split())


def test_json_holds_the_same(labelled: list[str]) -> None:
    """Shares with their intervals, pairs by distance, the stream, the wrong pairs."""
    result = CliRunner().invoke(app, ["evaluate", *labelled, "--json"])
    told = json.loads(result.stdout)
    assert told["scores"]["edits"]["recall"]["value"] == 1
    assert told["scores"]["all"]["recall"]["value"] == told["scores"]["all"]["f1"]["value"] - 1 / 6 == 0.5
    assert sum(told["distances"]["same"]) == sum(told["distances"]["other"]) == 2
    assert told["hard_negatives"] == {"topics": {"pairs": 2, "found": 0, "merged": 0}}
    assert told["stream"] == {"documents": 5, "true": 1, "grey": 0, "false": 0}
    assert [(one["first"], one["second"]) for one in told["wrong"]] == [("original", "other")]


def test_hard_negatives_are_told_by_kind(labelled: list[str]) -> None:
    """Of pairs called other, those found, and those that a stream makes one, even by a third document."""
    documents = Path(labelled[0])
    third = {"doc_id": "third", "url": "http://a/third", "fetched_at": "2026-01-01T00:00:00Z"}
    documents.write_text(documents.read_text() + json.dumps(third | {"text": ORIGINAL.replace("sold", "left")}) + "\n")
    Path(labelled[1]).write_text(
        "original\tcopy\t0\tother bridge\nthird\tcopy\t0\tby a third\noriginal\tother\t0\tby far"
    )
    told = json.loads(CliRunner().invoke(app, ["evaluate", *labelled, "--json"]).stdout)["hard_negatives"]
    assert told["other bridge"] == {"pairs": 1, "found": 1, "merged": 1}
    assert told["by a third"]["merged"] == 1
    assert told["by far"] == {"pairs": 1, "found": 0, "merged": 0}
    shown = CliRunner().invoke(app, ["evaluate", *labelled]).output
    assert "not the same, by kind" in shown


def test_a_plot_is_written_or_refused(labelled: list[str], tmp_path: Path) -> None:
    """A picture where matplotlib is installed; without it the error says how to install it."""
    target = tmp_path / "distances.svg"
    result = CliRunner().invoke(app, ["evaluate", *labelled, "--plot", str(target)])
    assert target.is_file() or "pip install matplotlib" in str(result.exception)


@pytest.mark.parametrize(
    ("line", "told"),
    [("a\tb", "line 1: must be doc_id, doc_id, label"), ("a\tb\t2", "must be doc_id"), ("x\ty\t1", "no pair of")],
)
def test_pairs_of_another_form_are_refused(labelled: list[str], line: str, told: str) -> None:
    """The error names file, line and form; pairs of unknown documents are no pairs."""
    Path(labelled[1]).write_text(line)
    result = CliRunner().invoke(app, ["evaluate", *labelled])
    assert result.exit_code != 0
    assert told in f"{result.output}{result.exception}"
