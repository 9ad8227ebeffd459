"""Many small parts of a page are the page where they hold most of it, whatever they are called."""

from __future__ import annotations

import random

import numpy as np

from tests.conftest import EXAMPLES
from tests.core.pages.parts_reference import parts_hold_page as defined
from tests.core.pages.reference import read
from tests.core.pages.region_reference import find_region
from tests.core.pages.test_scan import parts_are_page

SENTENCE = "The ferry was late again on Monday, and nobody on the quay could say why it was. "
TAGS = ("div", "div", "div", "aside", "section", "nav", "figcaption", "article")
NAMES = ("", " class=comment", " class=modal", *[" class=promo", " class=gallery"] * 4)


def random_page(dice: random.Random) -> str:
    """A lead, and series of boxes with headings and without, some in each other, some hidden."""
    parts = [f"<p>{SENTENCE * dice.randrange(4)}</p>"]
    for _ in range(dice.randrange(1, 5)):
        tag, name = dice.choice(TAGS), dice.choice(NAMES)
        hidden = " hidden" if dice.random() < 0.1 else ""
        head = dice.choice(
            ("", "<h2>Quay</h2>", "<h2>Quay</h2>", "<h3><a href=/>To quay 7</a></h3>")
        )
        inner = f"<{dice.choice(TAGS)}{dice.choice(NAMES)}>{SENTENCE}</div>"
        for _ in range(dice.randrange(1, 7)):
            text = SENTENCE * dice.randrange(1, 8) + (inner if dice.random() < 0.2 else "")
            parts.append(f"<{tag}{name}{hidden}>{head}<p>{text}</p></{tag}>")
        if dice.random() < 0.3:
            dice.shuffle(parts)
    around = dice.choice(("{}", "<main>{}</main>", "<div class=promo>{}</div>"))
    heading = dice.choice(("", "<h1>Late</h1>"))
    box = f"<div><p>{SENTENCE * dice.randrange(9)}</p></div>" if dice.random() < 0.3 else ""
    return box + heading + around.format("".join(parts))


def test_parts_equal_their_definition() -> None:
    """On random series of boxes, which are the page about as often as not."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    counts = np.zeros(2, np.int64)
    for _ in range(10 * EXAMPLES):
        html = random_page(dice)
        found = find_region(read(html.encode()))
        expected = defined(found.page, found.region)
        assert parts_are_page(html.encode()) == expected, (seed, html)
        counts[int(expected)] += 1
    assert counts.min() * 10 >= counts.sum(), (seed, counts)
