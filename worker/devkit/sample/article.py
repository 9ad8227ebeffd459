"""An article: a title and paragraphs of sentences; and small edits of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from worker.devkit.sample.dice import Dice
from worker.devkit.sample.language import Language, Lexicon

_SENTENCES = (15, 90)  # about 130 to 800 words


@dataclass(frozen=True)
class Article:
    """`group` is the same for an article and every copy of it, edited or not."""

    group: str
    language: Language
    lexicon: Lexicon
    title: str
    paragraphs: tuple[tuple[str, ...], ...]


def write_article(group: str, language: Language, dice: Dice) -> Article:
    """Write a new article; short ones are more frequent than long ones."""
    lexicon = Lexicon(language, dice)
    shortest, longest = _SENTENCES
    count = shortest + int((longest - shortest) * dice.random() * dice.random())
    paragraphs = []
    while count > 0:
        size = min(count, dice.number(3, 6))
        paragraphs.append(tuple([lexicon.sentence() for _ in range(size)]))
        count -= size
    return Article(group, language, lexicon, lexicon.title(), tuple(paragraphs))


def edited(article: Article, dice: Dice) -> Article:
    """
    Return the article with one small edit: a word, a number or the title changed, a sentence added or dropped.

    That is what editors do to a story between two captures: at most about five words in a hundred.
    """
    paragraphs = [list(paragraph) for paragraph in article.paragraphs]
    paragraph = dice.pick(paragraphs)
    at = dice.number(0, len(paragraph) - 1)
    edit = dice.number(0, 3)
    if edit == 0:
        return replace(article, title=article.lexicon.title())
    if edit == 1:
        paragraph.insert(at, article.lexicon.sentence())
    elif edit == 2 and len(paragraph) > 1:
        del paragraph[at]
    else:
        paragraph[at] = _with_another_word(paragraph[at], article, dice)
    return replace(article, paragraphs=tuple(tuple(sentences) for sentences in paragraphs))


def _with_another_word(sentence: str, article: Article, dice: Dice) -> str:
    """Return the sentence with one word replaced, or with a few characters where words are not apart."""
    name = article.lexicon.name()
    if article.language.joiner:
        words = sentence.split(" ")
        at = dice.number(1, len(words) - 2)
        words[at] = name
        return " ".join(words)
    at = dice.number(1, max(1, len(sentence) - 4))
    return sentence[:at] + name + sentence[at + len(name) :]
