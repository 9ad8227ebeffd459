"""Pages of many like parts keep their text: list articles, slide shows, live blogs, recipes."""

from __future__ import annotations

from functools import cache
from statistics import mean

import pytest

from tests.core.pages import made_lists
from tests.core.pages.made_lists import LAYOUTS
from tests.core.pages.made_pages import Quality, overlap
from worker.core.pages import extract_pages

LANGUAGES = ("en", "ru", "zh", "th")
SEEDS = range(6)
LEAST = 0.90
FALLS_SHORT = {  # layouts of which less is found, and how much at least
    "short descriptions": 0.80,  # a sentence without any mark (Thai) is no prose; credits are kept
    "slides behind the first": 0.65,  # beside no article and no main, what is hidden stays hidden
}


@cache
def quality(name: str) -> Quality:
    """The mean precision and recall of a layout over languages and seeds."""
    pages = [made_lists.made(name, language, seed) for language in LANGUAGES for seed in SEEDS]
    texts = extract_pages([html for html, _ in pages])
    shares = [overlap(expected, texts.text(k)) for k, (_, expected) in enumerate(pages)]
    precision = mean(share.precision for share in shares)
    recall = mean(share.recall for share in shares)
    return Quality(2 * precision * recall / (precision + recall), precision, recall)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_keeps_its_text(name: str) -> None:
    """The text of the parts is found, and little else, whatever their markup calls them."""
    found, least = quality(name), FALLS_SHORT.get(name, LEAST)
    assert min(found.precision, found.recall) >= least, found


@pytest.mark.parametrize("held_out", [False, True], ids=["chosen by", "held out"])
def test_list_articles_keep_their_text(held_out: bool) -> None:
    """List articles reach .90 recall at .90 precision, also where no rule was chosen by them."""
    names = [name for name, layout in LAYOUTS.items() if layout.kind == "list"]
    shares = [quality(name) for name in names if ("held out" in name) == held_out]
    assert len(shares) >= 10
    assert mean(share.recall for share in shares) >= LEAST
    assert mean(share.precision for share in shares) >= LEAST


SENTENCE = "The ferry was late on Monday, and nobody has said why so far."
ARTICLE = f"<div class=story><h1>Late</h1>{f'<p>{SENTENCE}</p>' * 4}</div>"
ABOUT = f"<div class=widget><h3>About us</h3><p>{SENTENCE}</p></div>"
CHAPTER = f"<h2>Chapter</h2><p>{SENTENCE} {SENTENCE}</p>"
STORY = (
    f"<article class=story><h2><a href=/x>Another ferry sinks</a></h2><p>{SENTENCE}</p></article>"
)


@pytest.mark.parametrize(
    "beside", [ABOUT * 8, STORY * 12], ids=["widgets of a site", "other articles"]
)
def test_what_is_no_part_of_an_article_stays_out(beside: str) -> None:
    """Short widgets and teasers are no parts of a page, though they have more text than it."""
    page = f"<main>{ARTICLE}</main><div class=column>{beside}</div>"
    assert extract_pages([page]).text(0).split("\n") == ["Late", *[SENTENCE] * 4]


def test_an_article_is_left_for_a_list_alone() -> None:
    """Text behind an <article> belongs to it only where headings divide it."""
    lead = f"<article><h1>Late</h1>{f'<p>{SENTENCE}</p>' * 9}</article>"
    divided = extract_pages([f"{lead}<div>{CHAPTER * 5}</div>"]).text(0)
    assert divided.count("Chapter") == 5
    plain = extract_pages([f"{lead}<div>{CHAPTER.replace('h2', 'b') * 5}</div>"]).text(0)
    assert plain.split("\n") == ["Late", *[SENTENCE] * 9]
