"""`neardup tune` and `evaluate` on documents and labels of our own."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import documents_of, misused, run
from tests.core.test_evaluation import made_texts
from worker.cli.tune import _changed
from worker.core.evaluation import Trial
from worker.core.search import SearchRules
from worker.settings import Settings

ORIGINAL = (
    "The council of the town has said that the bridge over the river will be open in May, and that the old ferry will "
    "then be sold to the museum. Nobody knows what it will be worth, because it has never been looked at by anybody."
)
DOCUMENTS = {
    "original": ORIGINAL,
    "copy": ORIGINAL.replace("anybody", "them"),
    "other": "A recipe for bread that is baked in the oven of a village, with flour that the mill has made in autumn.",
    "half": f"{ORIGINAL[: len(ORIGINAL) // 2]} {ORIGINAL[:60].upper()} and so on and so on, as it was said before.",
    "short": "Too short",
}


def written(path: Path, texts: dict[str, str]) -> Path:
    path.write_text(documents_of(texts))
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> list[str]:
    """Five documents, and pairs of them: one the same, two not, one that is wrongly called the same, one not scored."""
    documents, pairs = written(tmp_path / "docs.jsonl", DOCUMENTS), tmp_path / "pairs.tsv"
    rows = (("original", "copy", 1, "edits"), ("original", "other", 0, "topics"), ("copy", "short", 0, "topics"),
            ("original", "other", 1, "wrong labels"), ("original", "half", -1, "edits"))  # fmt: skip
    pairs.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return [str(documents), str(pairs)]


def test_scores_and_wrong_pairs_are_told(labelled: list[str]) -> None:
    """A line a kind and one for all; what was judged wrong is named with the reason; the stream is judged, too."""
    said = run("evaluate", *labelled).output
    for text in ("edits", "topics", "wrong labels", "original ~ other (wrong labels)", "missed: 1"):
        assert text in said
    assert "5 documents, 1 duplicates, of them 1 true, 0 in between, 0 false" in " ".join(said.split())
    told = json.loads(run("evaluate", *labelled, "--json").stdout)
    assert told["scores"]["edits"]["recall"]["value"] == 1
    assert told["scores"]["all"]["recall"]["value"] == told["scores"]["all"]["f1"]["value"] - 1 / 6 == 0.5
    assert sum(told["distances"]["same"]) == sum(told["distances"]["other"]) == 2
    assert told["hard_negatives"] == {"topics": {"pairs": 2, "found": 0, "merged": 0}}
    assert told["stream"] == {"documents": 5, "true": 1, "grey": 0, "false": 0}
    assert [(one["first"], one["second"]) for one in told["wrong"]] == [("original", "other")]


def test_hard_negatives_are_told_by_kind(labelled: list[str]) -> None:
    """Of pairs called other, those found, and those that a stream makes one, even by a third document."""
    written(Path(labelled[0]), {**DOCUMENTS, "third": ORIGINAL.replace("sold", "left")})
    Path(labelled[1]).write_text(
        "original\tcopy\t0\tother bridge\nthird\tcopy\t0\tby a third\noriginal\tother\t0\tby far"
    )
    told = json.loads(run("evaluate", *labelled, "--json").stdout)["hard_negatives"]
    assert told["other bridge"] == {"pairs": 1, "found": 1, "merged": 1}
    assert told["by a third"]["merged"] == 1
    assert told["by far"] == {"pairs": 1, "found": 0, "merged": 0}
    assert "not the same, by kind" in run("evaluate", *labelled).output


def test_a_plot_is_written_or_refused(labelled: list[str], tmp_path: Path) -> None:
    """A picture where matplotlib is installed; without it the error says how to install it."""
    target = tmp_path / "distances.svg"
    said = run("evaluate", *labelled, "--plot", target, code=find_spec("matplotlib") is None)
    assert target.is_file() or "pip install matplotlib" in str(said.exception)


@pytest.mark.parametrize(
    ("line", "told"),
    [("a\tb", "line 1: must be doc_id, doc_id, label"), ("a\tb\t2", "must be doc_id"), ("x\ty\t1", "no pair of")],
)
def test_pairs_of_another_form_are_refused(labelled: list[str], line: str, told: str) -> None:
    """The error names file, line and form; pairs of unknown documents are no pairs."""
    Path(labelled[1]).write_text(line)
    result = run("evaluate", *labelled, code=1)
    assert told in f"{result.output}{result.exception}"


def test_settings_are_chosen_from_sampled_pairs(tmp_path: Path) -> None:
    """Without labels: pairs are sampled, too few are told, the chosen settings come with memory, time and chance."""
    documents = written(tmp_path / "docs.jsonl", {str(at): text for at, text in enumerate(made_texts(40))})
    said = " ".join(run("tune", documents, "--expected", "1M").output.split())
    for text in ("too little data: 40 groups of copies", "40 pairs the same", "at 1,000,000 originals: an index of"):
        assert text in said
    best = json.loads(run("tune", documents, "--json", "--quiet").stdout.splitlines()[0])
    assert set(best) == {"recall", "false_positives", "settings"} and best["recall"] > 0.9
    assert "no pair is the same" in run("tune", written(documents, {"a": "one text alone"}), code=1).output


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
    assert "got '9999^99'" in misused("tune", "missing.jsonl", "--expected", "9999^99")
