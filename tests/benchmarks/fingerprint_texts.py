"""The texts: unrelated ones of equal size for speed, and originals with changed copies; generated, and the corpus's."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from worker.core.definition import detect
from worker.devkit.sample.crawl import LANGUAGES, Dice, load_language, write_article

MIXED_BYTES = 4_500
ENGLISH_BYTES = 5_000
CHANGES = ("1 word", "1 % of words", "5 % of words", "menu and footer")
_MENUS: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parents[1] / "core" / "data" / "prose.json").read_text(encoding="utf-8")
)


def speed_texts(folder: Path, texts: int) -> dict[str, list[str]]:
    """Sets of texts by name, each cut to one size."""
    mixed = [_generated(LANGUAGES[number % len(LANGUAGES)], number, MIXED_BYTES) for number in range(texts)]
    found = {
        "generated, 8 languages, 4.5 KB": mixed,
        "generated, English, 5 KB": [_generated("en", number, ENGLISH_BYTES) for number in range(texts // 2)],
    }
    corpus = [text for text, language in corpus_texts(folder) if language != "en"]
    corpus = [cut(text, MIXED_BYTES) for text in corpus if len(text.encode()) >= MIXED_BYTES]
    if corpus:
        found["corpus, 30 languages, 4.5 KB"] = corpus
    return found


def quality_texts(folder: Path, originals: int) -> dict[str, dict[str, Any]]:
    """Originals that have nothing to do with each other, and for each change a copy of each of them."""
    generated: list[tuple[str, str | None]] = [
        (_generated(language, 10_000 + number, MIXED_BYTES), language)
        for language in LANGUAGES
        for number in range(originals // len(LANGUAGES))
    ]
    sets: dict[str, list[tuple[str, str | None]]] = {"generated": generated}
    corpus = [(cut(text, MIXED_BYTES), language) for text, language in corpus_texts(folder) if len(text) > 1_000]
    if corpus:
        sets["corpus"] = random.Random(1).sample(corpus, min(originals, len(corpus)))
    return {
        name: {
            "originals": [text for text, _ in chosen],
            "changes": {
                change: [_changed(text, language, change, random.Random(number))
                         for number, (text, language) in enumerate(chosen)]
                for change in CHANGES
            },
        }
        for name, chosen in sets.items()
    }  # fmt: skip


def corpus_texts(folder: Path) -> Iterator[tuple[str, str | None]]:
    """One text for each document of the labelled corpus, of its versions the first, and its language."""
    path = folder / "docs.jsonl"
    seen: set[str] = set()
    for row in map(orjson.loads, path.read_bytes().splitlines() if path.is_file() else []):
        if "text" not in row or row["set"] in ("minhash", "adswap") or row["url"] in seen:
            continue  # these two sets are made of copies
        seen.add(row["url"])
        yield row["text"], detect(row["text"])


def cut(text: str, size: int) -> str:
    """
    The text's first bytes in UTF-8, whole characters.

    >>> cut("größe", 4)
    'grö'
    """
    return text.encode()[:size].decode(errors="ignore")


def _generated(language: str, number: int, size: int) -> str:
    """An article, made long enough by others of the same words."""
    dice = Dice(number)
    text = ""
    while len(text.encode()) < size:
        article = write_article(str(number), load_language(language), dice)
        joiner = article.language.joiner
        text += "\n\n".join(joiner.join(sentences) for sentences in article.paragraphs) + "\n\n"
    return cut(text, size)


def _changed(text: str, language: str | None, change: str, rng: random.Random) -> str:
    """The text with words replaced by other words of it (characters, where words are not apart), or with a frame."""
    if change == "menu and footer":
        menu = _MENUS.get(language or "en", _MENUS["en"])["menu"]
        return "\n\n".join([menu[0], text, *menu[1:]])
    joiner = " " if text.count(" ") > len(text) / 20 else ""
    words = text.split(" ") if joiner else list(text)
    places = [place for place, word in enumerate(words) if word.strip() and any(map(str.isalpha, word))]
    count = 1 if change == "1 word" else max(1, round(int(change.split(maxsplit=1)[0]) / 100 * len(places)))
    originals = list(words)
    for place in rng.sample(places, count):
        while words[place] == originals[place]:
            words[place] = originals[rng.choice(places)]
    return joiner.join(words)
