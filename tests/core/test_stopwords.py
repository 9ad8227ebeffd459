"""The function-word lists: their form, their size and what they anchor."""

from __future__ import annotations

import unicodedata

import pytest

from worker.core.stopwords import (
    CHARACTERS_MAX,
    WORDS_MAX,
    digest,
    language_code,
    languages,
    load_stopwords,
    stopwords,
    version,
)


@pytest.mark.parametrize("language", languages())
def test_a_list_is_short_lower_case_and_of_tokens(language: str) -> None:
    """A list holds 35 to 120 words, each one token in lower-case NFC."""
    words = stopwords(language)
    assert 35 <= len(words) <= 120
    for word in words:
        assert word == unicodedata.normalize("NFC", word).lower()
        assert all(character.isalnum() or unicodedata.category(character)[0] == "M" for character in word)


def test_an_unknown_language_has_the_union() -> None:
    """None and a language without a list give one and the same wide list."""
    assert stopwords(None) == stopwords("tlh") >= stopwords("en") | stopwords("ja")


@pytest.mark.parametrize(
    ("tag", "code"),
    [("pt-BR", "pt"), ("zh-Hans", "zh"), ("zh_TW", "zh"), ("deu", "de"), ("GER", "de"), ("EN", "en"), (" fr ", "fr")],
)
def test_regions_scripts_and_three_letters_are_mapped(tag: str, code: str) -> None:
    """What the web writes as a language tag finds the language's list."""
    assert language_code(tag) == code
    assert stopwords(tag) == stopwords(code)


@pytest.mark.parametrize("tag", ["", "-", "x-private", "english", "../en", "e" * 10_000, "\ud800"])
def test_a_tag_that_is_none_has_no_code(tag: str) -> None:
    """Hostile or meaningless tags mean "unknown" and do not raise."""
    assert language_code(tag) is None


def test_a_users_list_is_folded() -> None:
    """Comments, empty lines, case and decomposed accents do not matter."""
    assert load_stopwords("# mine\nThe\n\n  e\u0301t\u00e9 # verb\nthe\n") == {"the", "été"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no words"),
        ("# only a comment", "has no words"),
        ("one\nit's", r"line 2 is \"it's\".*cuts at \"'\""),
        ("two words", "line 1 is 'two words'"),
        ("の\nしかし", "line 2 is 'しかし': in this script each character is one"),
        ("a" * (CHARACTERS_MAX + 1), f"at most {CHARACTERS_MAX} characters, line 1 has {CHARACTERS_MAX + 1}"),
        ("\n".join(str(number) for number in range(WORDS_MAX + 1)), f"line {WORDS_MAX + 1} brings another"),
    ],
)
def test_a_bad_list_is_refused_by_line(text: str, message: str) -> None:
    """The error names the line, the bound and the reason."""
    with pytest.raises(ValueError, match=message):
        load_stopwords(text)


def test_the_digest_stands_for_the_words() -> None:
    """Order does not change it, a word does; the built-in lists have one over all."""
    assert digest(frozenset({"a", "b"})) == digest(frozenset({"b", "a"})) != digest(frozenset({"a"}))
    assert len(version()) == 16
    assert version() == version()
