"""What the function-word lists anchor: prose of every language, and hardly its menus and advertisements."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from worker.core.stopwords import advertising, language_code, languages, stopwords
from worker.core.tokens import tokens

# Two or three sentences of prose, and a menu with an advertisement, in each language.
SAMPLES: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "data" / "prose.json").read_text(encoding="utf-8")
)
# Advertisements proper; the others of the corpus's promotional texts are terms of contract in whole sentences.
PROMOTIONS = ("Urgency", "Scarcity", "Social Proof", "Misdirection")


def anchored_share(texts: Iterable[str], words: frozenset[str]) -> float:
    """The share of shingles of two tokens with at least one of the words."""
    anchored = shingles = 0
    folded = frozenset(token for word in words for token in tokens(word))
    for text in texts:
        found = [token in folded for token in tokens(text)]
        shingles += max(0, len(found) - 1)
        anchored += sum(left or right for left, right in pairwise(found))
    return anchored / shingles


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("chosen", ["own", "union"])
def test_prose_is_anchored_and_a_menu_is_not(language: str, chosen: str) -> None:
    """At least 40 % of the shingles of prose hold a function word, at most 20 % of those of a menu (union: 25 %)."""
    words = stopwords(language if chosen == "own" else None)
    assert anchored_share(SAMPLES[language]["prose"], words) >= 0.40
    assert anchored_share([" ".join(SAMPLES[language]["menu"])], words) <= (0.20 if chosen == "own" else 0.25)


@pytest.mark.parametrize("language", languages())
def test_a_word_is_one_token(language: str) -> None:
    """The tokeniser does not cut a word of a list, so that it can match."""
    assert [word for word in stopwords(language) if len(tokens(word)) != 1] == []


def test_no_list_holds_a_word_of_advertising() -> None:
    """A language's own list has none of its own advertising words, the union none of any language."""
    for language in languages():
        assert stopwords(language) & advertising(language) == set()
    assert stopwords(None) & advertising() == set()
    assert {"buy", "free", "click", "new", "home", "more", "shop", "now", "all", "gratis"} <= advertising()


def test_the_union_keeps_nearly_every_function_word() -> None:
    """Of each language's list the union keeps 85 % or more, and it has no single Latin consonant."""
    union = stopwords(None)
    for language in languages():
        assert len(stopwords(language) & union) >= 0.85 * len(stopwords(language)), language
    assert {word for word in union if len(word) == 1 and word.isascii()} == set("aeouvwyz")


def test_the_union_is_hardly_harmful_to_advertisements(corpora: Path) -> None:
    """On English advertisements the union anchors at most 2 points more than the English list, which anchors 20 %."""
    rows = (orjson.loads(line) for line in (corpora / "snippets.jsonl").read_bytes().splitlines())
    texts = [row["text"] for row in rows if row["category"].partition(":")[2] in PROMOTIONS]
    own = anchored_share(texts, stopwords("en"))
    assert len(texts) > 1_000
    assert own <= 0.20
    assert anchored_share(texts, stopwords(None)) <= own + 0.02


@pytest.mark.parametrize("chosen", ["own", "union"])
def test_documents_are_anchored_in_every_language(corpora: Path, chosen: str) -> None:
    """Of real technical pages, lists of links and code in them, 15 % or more of the shingles are anchored."""
    rows = (orjson.loads(line) for line in (corpora / "docs.jsonl").read_bytes().splitlines())
    texts: dict[str, list[str]] = {}
    for row in rows:
        code = language_code({"tw": "zh"}.get(row.get("lang"), row.get("lang")))
        if row["set"] == "multilingual" and code is not None:
            texts.setdefault(code, []).append(row["text"][:5_000])
    assert len(texts) >= 24
    for language, pages in texts.items():
        share = anchored_share(pages[:10], stopwords(language if chosen == "own" else None))
        assert share >= (0.10 if language == "he" else 0.15), language
