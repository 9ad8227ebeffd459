"""
The function-word lists: their form and size; what they anchor, prose and hardly menus; the language
they elect.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from tests.conftest import REPOSITORY
from tests.core.golden import SAMPLES
from worker.core.definition import POINTS_MIN, TOKENS_MAX, detect, elect, votes
from worker.core.stopwords import (
    CHARACTERS_MAX,
    WORDS_MAX,
    advertising,
    digest,
    language_code,
    languages,
    load_stopwords,
    stopwords,
    version,
)
from worker.core.tokens import tokens

LISTS = REPOSITORY / "worker" / "core" / "stopwords"
# Advertisements proper; the others of the corpus's promotional texts are terms of contract in whole
# sentences.
PROMOTIONS = ("Urgency", "Scarcity", "Social Proof", "Misdirection")


@pytest.mark.parametrize("language", languages())
def test_a_list_is_short_lower_case_and_of_tokens(language: str) -> None:
    """A list holds 35 to 120 words, each one token in lower-case NFC."""
    words = stopwords(language)
    assert 35 <= len(words) <= 120
    for word in words:
        assert word == unicodedata.normalize("NFC", word).lower()
        assert all(
            character.isalnum() or unicodedata.category(character)[0] == "M" for character in word
        )
        assert len(tokens(word)) == 1  # else it would never match


@pytest.mark.parametrize("language", languages())
def test_the_words_of_a_list_are_in_order(language: str) -> None:
    """Behind a comment with the language's name: a word that stands there twice is seen."""
    name, *words = (LISTS / f"{language}.txt").read_text("utf-8").splitlines()
    assert name.startswith("# ")
    assert words == sorted(set(words))


def test_an_unknown_language_has_the_union() -> None:
    """None and a language without a list give one and the same wide list."""
    assert stopwords(None) == stopwords("tlh") >= stopwords("en") | stopwords("ja")


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("pt-BR", "pt"), ("zh-Hans", "zh"), ("zh_TW", "zh"), ("deu", "de"), ("GER", "de"), ("EN", "en"), (" fr ", "fr"),
        *((wrong, None) for wrong in ("", "-", "x-private", "english", "../en", "e" * 10_000, "\ud800")),
    ],
)  # fmt: skip
def test_what_the_web_writes_as_a_language_is_mapped(tag: str, code: str | None) -> None:
    """
    Regions, scripts and three letters find the language's list; hostile or meaningless tags mean
    "unknown".
    """
    assert language_code(tag) == code
    assert stopwords(tag) == stopwords(code)


def test_a_users_list_is_folded() -> None:
    """A byte order mark, comments, empty lines, case and decomposed accents do not matter."""
    assert load_stopwords("\ufeff# mine\nThe\n\n  e\u0301t\u00e9 # verb\nthe\n") == {"the", "été"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no words"),
        ("# only a comment", "has no words"),
        ("one\nit's", r"line 2 is \"it's\".*cuts at \"'\""),
        ("two words", "line 1 is 'two words'"),
        ("の\nしかし", "line 2 is 'しかし': in this script each character is one"),
        (
            "a" * (CHARACTERS_MAX + 1),
            f"at most {CHARACTERS_MAX} characters, line 1 has {CHARACTERS_MAX + 1}",
        ),
        (
            "\n".join(str(number) for number in range(WORDS_MAX + 1)),
            f"line {WORDS_MAX + 1} brings another",
        ),
    ],
)
def test_a_bad_list_is_refused_by_line(text: str, message: str) -> None:
    """The error names the line, the bound and the reason."""
    with pytest.raises(ValueError, match=message):
        load_stopwords(text)


def test_the_digest_stands_for_the_words() -> None:
    """Order does not change it, a word does; the built-in lists have one over all."""
    assert (
        digest(frozenset({"a", "b"})) == digest(frozenset({"b", "a"})) != digest(frozenset({"a"}))
    )
    assert len(version()) == 16
    assert version() == version()


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
    """
    At least 40 % of the shingles of prose hold a function word, at most 20 % of those of a menu
    (union: 25 %).
    """
    words = stopwords(language if chosen == "own" else None)
    assert anchored_share(SAMPLES[language]["prose"], words) >= 0.40
    assert anchored_share([" ".join(SAMPLES[language]["menu"])], words) <= (
        0.20 if chosen == "own" else 0.25
    )


def test_no_list_holds_a_word_of_advertising() -> None:
    """
    A language's own list has none of its own advertising words, the union none of any language.
    """
    for language in languages():
        assert stopwords(language) & advertising(language) == set()
    assert stopwords(None) & advertising() == set()
    assert {
        "buy",
        "free",
        "click",
        "new",
        "home",
        "more",
        "shop",
        "now",
        "all",
        "gratis",
    } <= advertising()


def test_the_union_keeps_nearly_every_function_word() -> None:
    """
    Of each language's list the union keeps 85 % or more, and it has no single Latin consonant.
    """
    union = stopwords(None)
    for language in languages():
        assert len(stopwords(language) & union) >= 0.85 * len(stopwords(language)), language
    assert {word for word in union if len(word) == 1 and word.isascii()} == set("aeouvwyz")


def test_the_union_is_hardly_harmful_to_advertisements(corpora: Path) -> None:
    """
    On English advertisements the union anchors at most 2 points more than the English list, which
    anchors 20 %.
    """
    rows = (orjson.loads(line) for line in (corpora / "snippets.jsonl").read_bytes().splitlines())
    texts = [row["text"] for row in rows if row["category"].partition(":")[2] in PROMOTIONS]
    own = anchored_share(texts, stopwords("en"))
    assert len(texts) > 1_000
    assert own <= 0.20
    assert anchored_share(texts, stopwords(None)) <= own + 0.02


# ---- the language that a text votes for


@pytest.mark.parametrize("language", languages())
def test_prose_is_told_from_its_function_words(language: str) -> None:
    """A few sentences are enough, in each language that has a list."""
    assert detect(" ".join(SAMPLES[language]["prose"])) == language


@pytest.mark.parametrize("language", languages())
def test_a_menu_is_of_its_language_or_of_none(language: str) -> None:
    """Menus and advertisements have too few function words; they never elect a foreign language."""
    assert detect(" ".join(SAMPLES[language]["menu"])) in (None, language)


def test_equals_go_to_the_first_code() -> None:
    """
    Where two languages have the same points, the order of the codes decides, on every machine.
    """
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
    """
    The first 4,096 tokens vote, wherever the function words stand among them; what comes behind
    changes nothing.
    """
    german = ["und", "nicht", "der"] * 4
    filler = ["7"] * (TOKENS_MAX - len(german))
    assert elect(german + filler + ["the", "of", "which"] * 100) == "de"
    assert elect(filler + german + ["the", "of", "which"] * 100) == "de"
    assert elect(filler + ["7"] * len(german) + german) is None


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_page_around_a_text_does_not_tip_its_language(language: str, place: str) -> None:
    """
    Sixty words of web addresses, or the menu of any other language, leave the language of prose as
    it is.
    """
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
    texts = {
        row["doc_id"]: row.get("text") or ""
        for row in map(orjson.loads, (corpora / "docs.jsonl").open("rb"))
    }
    lines = (
        line.split("\t")
        for line in (corpora / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    )
    pairs = [(texts[line[0]], texts[line[1]]) for line in lines if line[2] == "1"]
    pairs = [pair for pair in pairs if all(pair)]
    assert len(pairs) > 200
    assert sum(detect(one) != detect(other) for one, other in pairs) <= len(pairs) / 200
