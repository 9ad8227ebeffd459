"""
What is selected of a page stays what it is: digests of the texts of pages that are made here, and of the corpora's.

Where another text is meant, PAGE_RULES is another, and `python -m tests.core.pages.test_select` writes the file anew.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash

from tests.core.pages.made_pages import KINDS, Writer, layout
from tests.core.pages.quality import labelled_pages, reviewed_pages
from worker.core.pages import FIELDS, METHODS, PAGE_RULES, extract_pages, names

DIGESTS = Path(__file__).parent / "data" / "digests.tsv"
TAGS = """div p a div p a div p a div p a li ul ol dl dt dd table tr td th section article article main aside figcaption
nav footer header h1 h2 h3 blockquote pre form button figure figcaption span""".split()  # noqa: SIM905
CLASSES = [*random.Random(5).sample(sorted(names.WORDS), 60), *["c1"] * 60, *["post-body", "comment", "teaser"] * 3]
SENTENCES = (
    "The ferry was late again on Monday, and nobody has said why.",
    "Read on",
    "A longer paragraph tells of the river and of the ferry, of the people who wait and of those who do not; it goes "
    "on for a while, so that it is prose by itself, and ends here.",
    "© 2026 The ferry company. All rights are reserved, of course.",
    "12.50",
    "These reasons are known:",
    "渡船又晚点了，没有人说明原因。河边的人们一直在等待，直到天黑才离开。",
)


def random_tree(dice: random.Random, depth: int = 0) -> str:
    """Elements inside each other, with telling classes and without, prose, links, items."""
    tag = dice.choice(TAGS)
    name = f' class="{dice.choice(CLASSES)}"' if dice.random() < 0.3 else ""
    inside = []
    for _ in range(dice.randrange(1, 6)):
        if depth < 6 and dice.random() < 0.6:
            inside.append(random_tree(dice, depth + 1))
        else:
            text = dice.choice(SENTENCES) * dice.choice((1, 1, 1, 3))
            inside.append(f"<a href=/>{text}</a>" if dice.random() < 0.25 else text)
    return f"<{tag}{' href=/' if tag == 'a' else ''}{name}>{' '.join(inside)}</{tag}>"


def made() -> Iterator[tuple[str, list[str]]]:
    """Names, and pages of each: every kind and layout in some scripts, and trees of all elements and telling words."""
    for kind in KINDS:
        for number, language in enumerate(("en", "ru", "zh", "ar", "th")):
            page = Writer(language, kind.__name__)
            yield f"{kind.__name__} {language}", [page.around(number % 3, kind(page))]
    for number in range(5):
        for language in ("de", "fi", "hi", "ja", "ko", "ur"):
            yield f"layout {number} {language}", [layout(Writer(language, str(number)), number)]
    for seed in range(150):
        dice = random.Random(seed)
        yield f"trees {seed}", ["".join(random_tree(dice) for _ in range(dice.randrange(1, 6))) for _ in range(5)]


def real(corpora: Path) -> Iterator[tuple[str, list[str]]]:
    """Names of the corpora's sets, and their pages."""
    for name in ("benchmark", "readability", "strings"):
        yield f"set {name}", [page["html"] for page in reviewed_pages(corpora, name)]
    for name in ("adswap", "kafka"):
        yield f"set {name}", [*labelled_pages(corpora, name)[0].values()]


def digest(pages: list[str]) -> tuple[str, str]:
    """Of pages, and of all that is made of them: methods, texts, titles, headings."""
    found = extract_pages(pages, fields=[*FIELDS])
    said = [METHODS[method] for method in found.methods] + [found.text(k) for k in range(len(found.texts.spans))]
    one, other = (xxhash.xxh3_64_hexdigest("\0".join(lines).encode("utf-8", "replace")) for lines in (pages, said))
    return one, other


def kept() -> dict[str, tuple[str, str]]:
    """Digests of pages and texts by name."""
    head, *lines = DIGESTS.read_text().splitlines()
    assert head == PAGE_RULES
    return {name: (page, text) for name, page, text in (line.split("\t") for line in lines)}


def test_made_pages_have_their_texts() -> None:
    """Some 300 digests, each of a page that is made here or of five trees."""
    expected, found = kept(), {name: digest(pages) for name, pages in made()}
    assert {name: page for name, (page, _) in found.items() if page != expected[name][0]} == {}, "other pages are made"
    assert [name for name, (_, text) in found.items() if text != expected[name][1]] == []


def test_real_pages_have_their_texts(corpora: Path) -> None:
    """Every page of the corpora, a digest a set."""
    expected = kept()
    sets = {name: pages for name, pages in real(corpora) if pages} or pytest.skip("no pages")
    assert [name for name, pages in sets.items() if digest(pages) != expected[name]] == []


if __name__ == "__main__":
    both = [*made(), *real(Path(os.environ["NEARDUP_CORPORA"]))]
    DIGESTS.write_text("\n".join([PAGE_RULES, *("\t".join((name, *digest(pages))) for name, pages in both)]) + "\n")
