"""The language that a text votes for."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.core.golden import SAMPLES
from worker.core.definition import POINTS_MIN, TOKENS_MAX, detect, elect, votes
from worker.core.stopwords import language_code, languages, stopwords
from worker.core.tokens import tokens


@pytest.mark.parametrize("language", languages())
def test_prose_is_told_from_its_function_words(language: str) -> None:
    """A few sentences are enough, in each language that has a list."""
    assert detect(" ".join(SAMPLES[language]["prose"])) == language


@pytest.mark.parametrize("language", languages())
def test_a_menu_is_of_its_language_or_of_none(language: str) -> None:
    """Menus and advertisements have too few function words; they never elect a foreign language."""
    assert detect(" ".join(SAMPLES[language]["menu"])) in (None, language)


def test_equals_go_to_the_first_code() -> None:
    """Where two languages have the same points, the order of the codes decides, on every machine."""
    shared = sorted(stopwords("id") & stopwords("ms"))
    words = [word for word in shared if votes()[word][0].bit_count() == 2]
    assert elect(words * 3) == "id"


def test_a_few_words_elect_nobody() -> None:
    """One or two function words are no evidence: three of one language are."""
    alone = sorted(word for word in stopwords("de") if votes()[word][1] == 2)
    assert elect(alone[:2]) is None
    assert elect(alone[:3]) == "de"
    assert POINTS_MIN == 3 * 2


def test_all_tokens_vote_up_to_a_bound() -> None:
    """The first 4,096 tokens vote, wherever the function words stand among them; what comes behind changes nothing."""
    german = ["und", "nicht", "der"] * 4
    filler = ["7"] * (TOKENS_MAX - len(german))
    assert elect(german + filler + ["the", "of", "which"] * 100) == "de"
    assert elect(filler + german + ["the", "of", "which"] * 100) == "de"
    assert elect(filler + ["7"] * len(german) + german) is None


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_page_around_a_text_does_not_tip_its_language(language: str, place: str) -> None:
    """Sixty words of web addresses, or the menu of any other language, leave the language of prose as it is."""
    prose = tokens(" ".join(SAMPLES[language]["prose"])) * 3
    around = [["www", "example", "com", "en", "us", "shop", "net", "de", "index", "html"] * 6]
    around += [tokens(" ".join(SAMPLES[other]["menu"])) for other in languages()]
    for words in around:
        assert elect(words + prose if place == "before" else prose + words) == language


def test_real_documents_are_told(corpora: Path) -> None:
    """Of labelled technical pages in 26 languages, English code among the text, 98 % are told."""
    rows = [orjson.loads(line) for line in (corpora / "docs.jsonl").read_bytes().splitlines()]
    labelled = [
        (language_code({"tw": "zh"}.get(row["lang"], row["lang"])), detect(row["text"]))
        for row in rows
        if row["set"] == "multilingual"
    ]
    assert len(labelled) > 500
    assert sum(label == found for label, found in labelled) >= 0.98 * len(labelled)


def test_versions_of_a_document_have_one_language(corpora: Path) -> None:
    """Of the labelled copies at most one in two hundred pairs gets two languages."""
    texts = {row["doc_id"]: row.get("text") or "" for row in map(orjson.loads, (corpora / "docs.jsonl").open("rb"))}
    lines = (line.split("\t") for line in (corpora / "pairs.tsv").read_text(encoding="utf-8").splitlines())
    pairs = [(texts[line[0]], texts[line[1]]) for line in lines if line[2] == "1"]
    pairs = [pair for pair in pairs if all(pair)]
    assert len(pairs) > 200
    assert sum(detect(one) != detect(other) for one, other in pairs) <= len(pairs) / 200
