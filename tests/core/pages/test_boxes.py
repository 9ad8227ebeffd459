"""A box that a site shows on each page is no page's text, whatever framework and box."""

from __future__ import annotations

import random

import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.made_boxes import BOXES, PLACES, SITES, pages
from worker.core.pages import extract_pages

# Not Thai: it has no marks, so its short lines are no prose, neither the page's nor the box's.
LANGUAGES = ("en", "de", "ru", "zh", "ar", "hi", "ja")


@pytest.mark.parametrize("site", SITES)
def test_a_box_takes_no_place(site: str) -> None:
    """Two pages with one box have different texts, and a page with and without it the same text."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    cases = [(name, place) for name in BOXES for place in PLACES]
    made = []
    dice.shuffle(cases)
    for k in range(EXAMPLES * len(cases) // 50):
        name, place = cases[k % len(cases)]
        language = dice.choice(LANGUAGES)
        made.append((name, place, language, pages(site, name, place, language, seed + k)))
    texts = extract_pages([page for *_, three in made for page in three])
    wrong = []
    for k, (name, place, language, _) in enumerate(made):
        first, second, alone = (texts.text(3 * k + number) for number in range(3))
        if first == second or first != alone:
            wrong.append((name, place, language, k))
    assert wrong == [], seed
