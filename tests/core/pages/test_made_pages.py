"""Made pages, whose text is known: fifty languages in five layouts, and a kind of page for each cause."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import pytest

from tests.core.pages.made_pages import KINDS, Writer, f1, layout
from worker.core.pages import extract_pages

LANGUAGES = sorted(file.name[:2] for file in files("worker.core.stopwords").iterdir() if file.name.endswith(".txt"))


@pytest.mark.parametrize("number", range(5))
def test_articles_are_found_in_every_language(number: int) -> None:
    """An article's text is its text in all languages, with or without spaces, marks, telling names."""
    writers = {language: Writer(language, str(number)) for language in LANGUAGES}
    found = extract_pages([layout(page, number) for page in writers.values()])
    shares = {language: f1("\n".join(page.text), found.text(k)) for k, (language, page) in enumerate(writers.items())}
    assert len(shares) >= 20
    assert min(shares.values()) >= 0.97, shares


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_page_gives_its_text(kind: Callable[[Writer], str]) -> None:
    """What a person would call the text of the page, in sections, in named boxes and in boxes without a name."""
    pages = [Writer(language, f"{kind.__name__}{k}") for k in range(3) for language in ("en", "ru", "zh", "ar", "th")]
    found = extract_pages([page.around(k // 5, kind(page)) for k, page in enumerate(pages)])
    shares = [f1("\n".join(page.text), found.text(k)) for k, page in enumerate(pages)]
    assert min(shares) >= 0.94, shares


def test_class_words_are_not_believed_where_they_hide_the_text() -> None:
    """Builders of pages call each part "widget"; then the word tells nothing."""
    sentence = "The ferry was late on Monday, and nobody has said why so far."
    part = f"<div class='page-widget'><h2>Part</h2><p>{sentence}</p></div>"
    text = extract_pages(
        [f"<div>{part * 8}</div><div class='cookie-note'><p>{'We use cookies, of course. ' * 40}</p></div>"]
    )
    assert text.text(0).count("ferry") == 8
    assert "cookies" not in text.text(0)


def test_a_list_of_links_is_text_where_a_colon_announces_it() -> None:
    """What a sentence counts up belongs to it, links or not."""
    sentences = "<p>The ferry was late on Monday, and nobody has said why so far.</p>" * 3
    links = "<ul><li><a href=/a>Why the ferry is late</a><li><a href=/b>Who is to repair it</a></ul>"
    lasts = ("These are known:", "已知如下\uff1a", "Some are known.")
    found = extract_pages([f"<div>{sentences}<p>{last}</p>{links}{sentences}</div>" for last in lasts])
    assert ["Who is to repair it" in found.text(k) for k in range(3)] == [True, True, False]


def test_a_formula_is_said_once() -> None:
    """MathML is text; not its source beside it, nor what a script has drawn of it."""
    source = "<annotation encoding='application/x-tex'>x^{2}</annotation>"
    drawn = "<span class=MathJax><nobr aria-hidden=true><span class=math>x2</span></nobr>"
    math = f"<math><semantics><msup><mi>x</mi><mn>2</mn></msup>{source}</semantics></math></span>"
    text = extract_pages([f"<p>The area of the square is {drawn}{math}, as everybody knows.</p>"]).text(0)
    assert text == "The area of the square is x2, as everybody knows."


def test_ruby_glosses_are_no_text() -> None:
    """How a character is read stands beside it, not in the text."""
    page = "<p><ruby>文<rt>も</rt>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>は書いてあるとおりに読まれる。"
    assert extract_pages([page]).text(0).startswith("文字は書いてある")


def test_an_index_of_links_is_its_links() -> None:
    """Without them only its headings would be left, and all indexes of one kind would be taken for one page."""
    links = "".join(
        f"<li><a href='{name}.html'>{name}</a></li>" for name in ("Aggregator", "Initializer", "Merger") * 9
    )
    text = extract_pages([f"<div><h2>Interfaces</h2><ul>{links}</ul><h2>Classes</h2></div>"]).text(0)
    assert text.split() == ["Interfaces", *("Aggregator", "Initializer", "Merger") * 9, "Classes"]
