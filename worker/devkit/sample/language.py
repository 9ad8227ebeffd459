"""
Word lists -> sentences that no one wrote: grammatical patterns filled from an article's own choice of words.

Function words are drawn evenly and between content words, and a third of an article's nouns are invented names, so
that unrelated articles share no more shingles than chance gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from worker.devkit.sample.dice import Dice

LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "zh", "ja")
TEMPLATES = ("product", "job", "flat", "weather", "figures", "legal")

_CATEGORIES = {
    "D": "determiner",
    "P": "preposition",
    "C": "conjunction",
    "R": "adverb",
    "A": "adjective",
    "N": "noun",
    "V": "verb",
}
_LEXICON = {"D": 7, "P": 9, "C": 6, "R": 6, "A": 15, "N": 30, "V": 20}  # so many of the language's an article uses
_NAMES = 14


@dataclass(frozen=True)
class Language:
    """The words and patterns of one language; `joiner` is empty where words are written without spaces."""

    code: str
    name: str
    joiner: str
    comma: str
    stop: str
    charsets: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    syllables: tuple[str, ...]
    patterns: tuple[tuple[str, ...], ...]
    adverts: tuple[str, ...]
    shorts: tuple[str, ...]
    templates: dict[str, str]  # kind -> title and paragraphs with slots, see `template`


@cache
def load_language(code: str) -> Language:
    """Read a language's word lists: one "key: values" a line, in the order of `Language`."""
    lines = (files("worker.devkit.sample") / "languages" / f"{code}.txt").read_text("utf-8").splitlines()
    values: dict[str, list[str]] = {}
    for line in lines:
        key, _, value = line.partition(": ")
        values.setdefault(key, []).append(value)
    single = {key: {"space": " ", "none": ""}.get(given[0], given[0]) for key, given in values.items()}
    return Language(
        code=code,
        name=single["name"],
        joiner=single["joiner"],
        comma=single["comma"],
        stop=single["stop"],
        charsets=tuple(single["charset"].split()),
        words={letter: tuple(single[category].split()) for letter, category in _CATEGORIES.items()},
        syllables=tuple(single["syllable"].split()),
        patterns=tuple(tuple(pattern.split()) for pattern in values["pattern"]),
        adverts=tuple(single["advert"].split("|")),
        shorts=tuple(single["short"].split("|")),
        templates={kind: single[kind] for kind in TEMPLATES},
    )


class Lexicon:
    """One article's words: its share of the language's, and names of its own."""

    def __init__(self, language: Language, dice: Dice) -> None:
        self.language = language
        self._dice = dice
        chosen = {letter: dice.several(language.words[letter], count) for letter, count in _LEXICON.items()}
        names = [self.name() for _ in range(_NAMES)]
        slots = chosen | {"M": names, "N": [*chosen["N"], *names]}
        self._patterns = [[slots.get(slot) for slot in pattern] for pattern in language.patterns]

    def name(self) -> str:
        """Invent a name."""
        dice, language = self._dice, self.language
        return "".join([dice.pick(language.syllables) for _ in range(dice.number(2, 3))]).capitalize()

    def sentence(self) -> str:
        """Make a sentence, its stop included."""
        language, random = self.language, self._dice.random
        words: list[str] = []
        for slot, pick in zip((pattern := self._pattern())[0], pattern[1], strict=True):
            if pick is not None:
                words.append(pick[int(random() * len(pick))])
            elif slot == "#":
                words.append(str(2 + int(random() * 4_998)))
            elif words:
                words[-1] += language.comma
        text = language.joiner.join(words) + language.stop
        return text[0].upper() + text[1:]

    def title(self) -> str:
        """Make a title: a few words of a sentence, without its stop."""
        dice, language = self._dice, self.language
        words = [*dice.several(language.words["N"], 2), self.name(), dice.pick(language.words["A"])]
        text = language.joiner.join(words)
        return text[0].upper() + text[1:]

    def _pattern(self) -> tuple[tuple[str, ...], list[list[str] | None]]:
        at = int(self._dice.random() * len(self._patterns))
        return self.language.patterns[at], self._patterns[at]
