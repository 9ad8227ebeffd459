"""The judgement's kernel is its reference."""

from __future__ import annotations

import random

import pytest

from tests.core.pages.reference_judge import reference
from worker.core.pages import names
from worker.core.pages.batch import skeleton
from worker.core.pages.skeleton import B_KEEP

TAGS = (
    *["div", "p", "a"] * 4,
    *("li", "ul", "ol", "dl", "dt", "dd", "table", "tr", "td", "th", "section", "article", "article", "main"),
    *("aside", "figcaption"),
    *(
        "nav",
        "footer",
        "header",
        "h1",
        "h2",
        "h3",
        "blockquote",
        "pre",
        "form",
        "button",
        "figure",
        "figcaption",
        "span",
    ),
)
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


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_is_the_reference(seed: int) -> None:
    """On generated trees of all elements and telling words, every block is judged as the plain reference judges it."""
    dice = random.Random(seed)
    for _ in range(120):
        page = "".join(random_tree(dice) for _ in range(dice.randrange(1, 6)))
        room, _ = skeleton(page)
        expected = reference(room)
        assert room.blocks[:, B_KEEP].tolist() == expected.keeps, page
