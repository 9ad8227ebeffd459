"""
Pages of one template, with other facts each: text that all have in common, and slots that are filled for each page.

    {99}, {1950-2020}    a number up to the one, from the one to the other
    {N}, {A}             a word of that kind
    {M}; {a}, {b}        an invented name; names that stay the same all over the page
"""

from __future__ import annotations

import re

from worker.devkit.sample.article import Article
from worker.devkit.sample.dice import Dice
from worker.devkit.sample.language import Lexicon, load_language

PAGES_MAX = 350  # of one template
_SLOT = re.compile(r"{(?:(\d+)-)?(\w+)}")


def fill_template(kind: str, group: str, language_code: str, dice: Dice) -> Article:
    """Write one page of a kind's template, as an article: to a person it is another page than all others."""
    language = load_language(language_code)
    lexicon = Lexicon(language, dice)
    names = {name: lexicon.name() for name in "ab"}

    def fact(slot: re.Match[str]) -> str:
        first, name = slot.groups()
        if name.isdecimal():
            return str(dice.number(int(first or int(name) // 10 + 1), int(name)))
        return names.get(name) or (lexicon.name() if name == "M" else dice.pick(language.words[name]))

    title, *paragraphs = _SLOT.sub(fact, language.templates[kind]).split("|")
    return Article(group, language, lexicon, title, tuple((paragraph,) for paragraph in paragraphs))
