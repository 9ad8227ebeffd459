"""
A box that ends with a button by which one agrees is a dialog; buttons before text are its headings.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.reference import read
from tests.core.pages.region_reference import find_region
from tests.core.pages.test_scan import assert_same
from worker.core.pages import extract_pages, names

TEXT = (
    "We keep what a device tells of itself, and our partners read it, as far as you allow that, and "
    "you may object to each of these purposes, one by one, whenever you like to look at them again."
)
ARTICLE = "The ferry was late again on Monday, and nobody on the quay could say why it was."
HEAD = "<h1>The ferry is late</h1>"
PAGE = f"{HEAD}<p>{ARTICLE}</p>"
ASKED = "<p>{}</p><div><button>{}</button> <button>{}</button></div>"
LABELS = {
    "en": ("Accept all", "Reject"),
    "de": ("Alle akzeptieren", "Ablehnen"),
    "fr": ("Continuer sans accepter", "J'accepte"),
    "ru": ("Отклонить", "Принять"),
    "ja": ("拒否する", "同意する"),
    "ar": ("رفض", "موافق"),
    "second word": ("No", "I AGREE"),
}


@pytest.mark.parametrize("language", LABELS)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_an_agreement_makes_a_box_a_dialog(language: str, place: str) -> None:
    """Beside paragraphs in <body>, without a name, and longer than the article."""
    box = f"<div><h2>Hello</h2>{ASKED.format(TEXT * 3, *LABELS[language])}</div>"
    page = box + PAGE if place == "before" else PAGE + box
    assert extract_pages([page]).text(0) == f"The ferry is late\n{ARTICLE}"


def test_a_link_by_which_one_agrees_does_so_too() -> None:
    """Many boxes have no other button."""
    box = (
        f"<div><h2>Hello</h2><p>{TEXT}</p><a href=/p>More</a><br><br><a href=#>Accept all</a></div>"
    )
    page = f"<div>{PAGE}<p>{ARTICLE} {ARTICLE}</p></div>"
    for links in (box, box.replace("<h2>", "<a href=/>Accept necessary</a><h2>")):
        assert extract_pages([page + links]).text(0) == extract_pages([page]).text(0)


OTHERS = {
    "holds the heading": f"<div>{PAGE}<p>{TEXT}</p><button>Accept</button></div>",
    "holds the article": f"<div><p>{TEXT}</p><article>{PAGE}</article><button>Accept</button></div>",
    "is the article": f"<article><p>{TEXT}</p><p>{ARTICLE}</p><button>Accept</button></article>",
    "a link far behind": f"<div><p>{TEXT}</p><p>{ARTICLE}</p>{'<p>No.</p>' * 4}<a href=/a>Accept</a></div>",
    "a long link": f"<div><p>{TEXT}</p><p>{ARTICLE}</p><a href=/a>They accept what was said of them</a>"
    "</div>",
    "a link to what a word means": f"<div><p>{TEXT}</p><p>{ARTICLE}</p><a href=/a>Informed consent</a></div>",
    "a link below an answer": f"{HEAD}<p>{ARTICLE}</p><div><p>{TEXT}</p><a href=/a>Accept answer</a></div>",
    "links below posts": f"<div><p>{ARTICLE}</p><p>{TEXT}</p></div>"
    + f"<div><p>{ARTICLE}</p><a href=/a>Agree (12)</a></div>" * 3,
    "goes on behind the button": f"<div><p>{TEXT}</p><button>Accept</button><p>{ARTICLE}</p></div>",
    "another word": f"<div><p>{TEXT}</p><p>{ARTICLE}</p><button>Acceptable</button></div>",
    "no button": f"<div><p>{TEXT}</p><p>{ARTICLE}</p><p>Accept all</p></div>",
    "the page": f"<p>{TEXT}</p><p>{ARTICLE}</p><button>Accept</button>",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_boxes_are_no_dialogs(name: str) -> None:
    """An article that asks before it loads a video is not taken for a dialog."""
    assert ARTICLE in extract_pages([OTHERS[name]]).text(0)
    found = find_region(read(OTHERS[name].encode()))
    assert not any(row[2] & names.SURE for row in found.page.nodes)


def test_questions_on_buttons_are_kept() -> None:
    """In boxes of their own and side by side; what says the same each time is no question."""
    boxed = "<div><button>What is late {0}?</button><div><p>{1}</p></div></div>"
    flat = "<button>What is late, {0}?</button><div><p>{1}</p></div>"
    for part, number in ((boxed, 6), (flat, 6), (flat.replace("{0}", "x"), 0)):
        parts = "".join(part.format("and " * k, ARTICLE) for k in range(6))
        text = extract_pages([f"<main>{HEAD}<p>{TEXT}</p>{parts}</main>"]).text(0)
        assert text.count("What is") == number, part
        assert text.count(ARTICLE) == 6


LINES = (
    "Accept all", "I agree", "Read more of it", "Is it late?", "And how late is it then?",
    "<a href=/>Accept all</a>", "<a href=#>I agree</a>", "<a href=/>Accept</a> it",
    "Where does it go to?", "Late", "принять", TEXT, ARTICLE, "The ferry is late",
)  # fmt: skip
TAGS = ["div"] * 4 + ["p", "button", "button", "button", "h1", "h2", "article", "main", "section"]


def random_page(dice: random.Random, depth: int = 0) -> str:
    """A tree of boxes with many buttons, some of them in series before text."""
    if dice.random() < 0.15:
        text = dice.choice(("<p>{}</p>", "<div>{}</div>")).format(ARTICLE)
        part = dice.choice(("<div><button>{}</button>{}</div>", "<button>{}</button>{}"))
        return "".join(part.format(dice.choice(LINES), text) for _ in range(dice.randrange(2, 6)))
    parts = []
    for _ in range(dice.randrange(1, 5)):
        is_box = depth < 4 and dice.random() < 0.6
        parts.append(random_page(dice, depth + 1) if is_box else dice.choice(LINES))
    tag = dice.choice(TAGS)
    hidden = " hidden" if dice.random() < 0.05 else ""
    return f"<{tag}{hidden}>{dice.choice((' ', '<br><br>')).join(parts)}</{tag}>"


def test_buttons_are_read_by_their_definition() -> None:
    """On trees of boxes with buttons, of which many are dialogs, or have questions."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    counts = np.zeros(3, np.int64)
    for _ in range(10 * EXAMPLES):
        page = "".join(random_page(dice) for _ in range(dice.randrange(1, 4)))
        if dice.random() < 0.5:
            page = f"<title>The ferry is late - Courier</title>{page}"
        reader, found = assert_same(page)
        pairs = list(zip(reader.nodes, found.page.nodes, strict=True))
        is_dialog = any(a[2] != b[2] for a, b in pairs)
        counts += [1, is_dialog, any(a[1] != b[1] for a, b in pairs)]
    assert counts[1] * 50 >= counts[0], seed
    assert counts[2] * 50 >= counts[0], seed


def test_many_agreements_cost_a_sweep() -> None:
    """Only the first buttons of a page are looked at: the work stays linear in it."""
    page = f"<title>x</title><div>{f'<div><p>{TEXT}</p><button>Accept</button></div>' * 40}</div>"
    found = find_region(read(page.encode()))
    assert sum(bool(row[2] & names.SURE) for row in found.page.nodes) == 16
    assert_same(page)
