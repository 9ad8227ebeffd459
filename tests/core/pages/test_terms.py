"""
What a shop says of delivery and payment, and the offer of a newspaper, are no text of a short page;
a page that is about them keeps them.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.made_pages import Writer
from tests.core.pages.test_scan import assert_same
from worker.core.pages import extract_pages, names

HEADINGS = {
    "en": ("Shipping & returns", "Payment", "Subscribe to read on"),
    "de": ("Versand und Lieferzeit", "Zahlungsarten", "Jetzt abonnieren"),
    "ru": ("Доставка", "Оплата и возврат", "Оформите подписку"),
    "ja": ("配送について", "お支払い方法", "有料会員限定"),
    "ar": ("الشحن", "طرق الدفع", "اشترك الآن"),
}
# {h}, {t}: a heading and the text below it, as shops write them.
BOXES = {
    "sections": "<section><h2>{h}</h2>{t}</section>",
    "tabs": "<div class=tab><h3>{h}</h3><div>{t}</div></div>",
    "details": "<details><summary>{h}</summary>{t}</details>",
    "details with headings": "<details><summary><h2>{h}</h2></summary><div>{t}</div></details>",
    "accordion": "<div><h2 class=head><button>{h}</button></h2><div>{t}</div></div>",
    "items": "<ul><li><h4>{h}</h4>{t}</li></ul>",
    "headings alone": "<h3>{h}</h3>{t}",
    "headings beside boxes": "<h3>{h}</h3><div>{t}</div>",
    "buttons in a row": "<button>{h}</button><div>{t}</div>",
    "answers": "<dl><dt>{h}</dt><dd>{t}</dd></dl>",
    "ids": "<div id=tab-shipping>{t}</div>",
}
# {n}: the product's name; {d}: what the shop says of it.
SHOPS = {
    "main": "<main><h1>{n}</h1><p class=price>12.50</p><div>{d}</div>{b}</main>",
    "columns": "<div><div><h1>{n}</h1><span>12.50</span></div><div>{d}</div><div>{b}</div></div>",
    "h2": "<div><h2>{n}</h2><div>12.50</div><div>{d}</div></div><div class=tabs>{b}</div>",
}


def text(page: str) -> str:
    return extract_pages([page]).text(0)


def sentences(writer: Writer, count: int) -> str:
    return " ".join(writer.sentence() for _ in range(count))


@pytest.mark.parametrize("shop", SHOPS)
@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("language", HEADINGS)
def test_terms_of_a_shop_are_no_text_of_its_products(language: str, name: str, shop: str) -> None:
    """Two products with the same terms differ, and two shops' copies do not."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    product = Writer(language, f"{seed} product")
    title = product.phrase(4, 6)
    description = dice.choice(
        [
            f"<p>{sentences(product, dice.randrange(2, 9))}</p>",
            f"<ul>{''.join(f'<li>{product.phrase(3, 6)}</li>' for _ in range(6))}</ul>",
        ]
    )
    texts = []
    for number in range(2):
        writer = Writer(language, f"{seed} shop {number}")
        boxes = "".join(
            BOXES[name].format(h=heading, t=f"<p>{sentences(writer, 3)}</p>" * 2)
            for heading in HEADINGS[language][:2]
        )
        page = SHOPS[shop].format(n=title, d=description, b=boxes)
        texts.append(text(f"<title>{title} | Harbour</title>{page}"))
    assert texts[0] == texts[1], seed
    assert title in texts[0]


@pytest.mark.parametrize("language", HEADINGS)
def test_an_offer_is_no_text_of_an_article(language: str) -> None:
    """Neither beside a lead, nor does it keep hidden what stands behind the lead."""
    writer = Writer(language, "offer")
    lead, story, offer = (sentences(writer, count) for count in (3, 30, 12))
    box = f"<section class=c-7><h2>{HEADINGS[language][2]}</h2><p>{offer}</p></section>"
    head = f"<h1>{writer.phrase(5, 6)}</h1><p>{lead}</p>"
    assert offer not in text(f"<main><article>{head}{box}</article></main>")
    found = text(f"<article>{head}<div class=c hidden><p>{story}</p></div>{box}</article>")
    assert offer not in found
    assert story in found


TERMS = (
    "We send it within three days, and you may pay by card, by invoice or when it has come. " * 5
)
OWN = "<p>Knitted by hand in Galway, of the wool of two sheep that we know by their names.</p>"
PRICE = "<p>12.50</p>"
BOX = f"<section><h2>Delivery and payment</h2><p>{TERMS}</p></section>"
KEPT = {
    "a page about them": f"<main><h1>Payment</h1>{PRICE}{OWN}{BOX}</main>",
    "no price": f"<main><h1>Norway</h1>{OWN}{BOX}</main>",
    "no heading": f"<main>{PRICE}{OWN}{BOX}</main>",
    "nothing before them": f"<main><h1>A hat</h1>{PRICE}{BOX}</main>",
    "before the heading": f"<div>{BOX}{BOX}<h1>A hat</h1>{PRICE}{OWN}</div>",
    "long pages": f"<main><h1>A hat</h1>{PRICE}{OWN * 40}{BOX}</main>",
    "a box with a heading behind a heading": f"<main><h1>A hat</h1>{PRICE}{OWN}<h2>Payment</h2><div>"
    f"<h3>Wool</h3><p>{TERMS}</p></div></main>",
    "a box called paywall": f"<main><h1>A hat</h1>{OWN}<div class=paywall><p>{TERMS}</p></div></main>",
    "the main part's class": f"<h1>A hat</h1>{PRICE}{OWN}<main class=shipping><p>{TERMS}</p></main>",
    "a cell's class": f"<h1>A hat</h1>{PRICE}{OWN}<table><tr><td class=shipping><p>{TERMS}</p></table>",
    "a date": f"<main><h1>A new pupil</h1><p>12.05.2024</p>{OWN}{BOX}</main>",
    "a version": f"<main><h1>A library</h1><p>v2.31</p>{OWN}<section id=payment>{BOX[9:]}</main>",
    "days in the box": f"<main><h1>A hat</h1>{OWN}<section>{BOX[9:-10]}<p>3-5 days, $4</p></section>",
    "an article whose body begins with such a heading": f"<h1>Films</h1>{PRICE}{OWN}<div class=c-7>"
    f"<h2>How payment is made</h2><p>{TERMS * 6}</p></div>",
    "the same of subscribers": f"<h1>Films</h1>{OWN}<div class=c-7>"
    f"<h2>Why subscribers leave</h2><p>{TERMS * 6}</p></div>",
    "the same in four paragraphs": f"<h1>Films</h1>{OWN}<div class=c-7>"
    f"<h2>Why subscribers leave</h2>{f'<p>{TERMS[:86]}</p>' * 4}<p>{TERMS}</div>",
    "the same in a body's class": f"<h1>Films</h1>{OWN}<div class=content>"
    f"<h2>Why subscribers leave</h2><p>{TERMS}</p></div>",
    "a manual in sections": f"<main><h1>Topics</h1>{OWN}<section><h2>Subscribing to a topic</h2>"
    f"<p>{TERMS}</p></section><section><h2>Names</h2>{OWN}</section></main>",
    "two sections on subscriptions": f"<main><h1>Topics</h1>{OWN}<section><h2>Subscriptions</h2>"
    f"<p>{TERMS}</p></section><section><h2>Subscribers</h2>{OWN}</section></main>",
    "an answer": f"<main><h1>Topics</h1>{OWN}<details open><summary>Subscriptions</summary>{TERMS}",
    "the first of two tabs": f"<main><h1>A hat</h1>{PRICE}{OWN}<div class=tabs><div><button>Wool</button>"
    f"<button>Shipping</button></div><div>{TERMS}</div><div>{TERMS[:80]}</div></div></main>",
    "the first of two tabs in a flat row": f"<main><h1>A hat</h1>{PRICE}{OWN}<div><button>Wool</button>"
    f"<button>Shipping</button><div>{TERMS}</div><div>{TERMS[:80]}</div></div></main>",
    "behind a form to buy": f"<main><h1>A hat</h1>{PRICE}{OWN}<div><span>Size</span><button>Buy</button>"
    f"<button>More payment options</button></div><div class=description>{TERMS}</div></main>",
    "behind a column": f"<main><h1>A hat</h1>{PRICE}{OWN}<div><p>Wool.</p><h3>Payment</h3></div>"
    f"<div>{TERMS}</div></main>",
    "a slogan behind them": f"<main><h1>A hat</h1>{PRICE}{BOX}<div>Hats for hares and hounds and horses"
    " of all sizes</div></main>",
    "a birth": f"<main><h1>A baby</h1>{PRICE}{OWN}<section><h2>Delivery at home</h2><p>{TERMS}</p>",
}


@pytest.mark.parametrize("name", KEPT)
def test_other_pages_keep_what_they_say_of_them(name: str) -> None:
    """A word proves little."""
    assert TERMS.strip() in text(KEPT[name])


def test_what_stands_behind_terms_is_kept() -> None:
    """In the same box, behind a heading of its own; and below them, if nothing stands before."""
    sizes = (
        f"{BOX[9:-10]}<h2>Sizes</h2><p>All heads of hares, hounds and horses have their hats.</p>"
    )
    shown = text(f"<main><h1>A hat</h1>{PRICE}{OWN}<section>{sizes}</section></main>")
    assert "All heads" in shown
    assert TERMS.strip() not in shown
    shown = text(f"<main><h1>A hat</h1>{PRICE}{BOX}<div>{OWN}</div></main>")
    assert "Galway" in shown
    assert TERMS.strip() not in shown


@pytest.mark.parametrize(
    "price", ["12.50", "1,50", "$5", "5 €", "12,50\xa0€*", "CHF 12.–", "12.800円", "from 12 руб."]
)
def test_a_price_marks_a_shop(price: str) -> None:
    """In any currency that is known, or as an amount alone."""
    page = f"<main><h1>A hat</h1><p>{price}</p>{OWN}{BOX}</main>"
    assert TERMS.strip() not in text(page)
    assert "Galway" in text(page)


@pytest.mark.parametrize("line", ["3 days", "12.05.2024", "v1.20", "5 min read", "1.2.30", "€", ""])
def test_other_lines_are_no_price(line: str) -> None:
    """A date, a version, a number of minutes."""
    page = f"<main><h1>A hat</h1><p>{line}</p>{OWN}{BOX}</main>"
    assert TERMS.strip() in text(page)


PRICES = ("12.50", "3 days", "12.05.2024", "$", "12,50 Евро", "3 руб.", "￥800")
LINES = (
    "Shipping",
    "Payment & more",
    "<button>Wool</button><button>Shipping</button>",
    "Subscribe now",
    "12.50",
    "3 days",
    "A hat of wool",
    "Доставка",
    TERMS[:86],
    TERMS,
    TERMS * 5,
    "<a href=/>Delivery</a>",
    "The ferry is late",
)
TAGS = (
    ["div"] * 4 + "p section details summary button h1 h2 h2 h3 article main nav li".split()  # noqa: SIM905
)


def random_page(dice: random.Random, depth: int = 0) -> str:
    """A tree of boxes, of which many begin with a heading of terms."""
    if dice.random() < 0.2:
        return dice.choice(tuple(BOXES.values())).format(h=dice.choice(LINES), t=dice.choice(LINES))
    parts = []
    for _ in range(dice.randrange(1, 5)):
        is_box = depth < 3 and dice.random() < 0.6
        parts.append(random_page(dice, depth + 1) if is_box else dice.choice(LINES))
    tag = dice.choice(TAGS)
    name = dice.choice(
        ["", "", "", " hidden", " class=shipping", " id=mainContent", " role=dialog"]
    )
    return f"<{tag}{name}>{' '.join(parts)}</{tag}>"


def test_terms_are_marked_by_their_definition() -> None:
    """On trees of boxes behind headings, of which many hold terms."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    counts = np.zeros(2, np.int64)
    for _ in range(10 * EXAMPLES):
        head = dice.choice(["", "<h1>A hat of wool</h1>", "<h2>The ferry is late</h2>"])
        head += dice.choice(["", f"<p>{dice.choice(PRICES)}</p>{OWN}"])
        page = head + "".join(random_page(dice) for _ in range(dice.randrange(1, 5)))
        if dice.random() < 0.5:
            page = f"<title>The ferry is late - Courier</title>{page}"
        _, found = assert_same(page)
        counts += [1, any(row[2] & names.ALIKE for row in found.page.nodes)]
    assert counts[1] * 50 >= counts[0], seed


def test_many_headings_cost_a_sweep() -> None:
    """Only the first ones are looked at: the work stays linear in the page."""
    page = f"<h1>A hat</h1>{PRICE}{OWN}<div>" + "<div><h2>Payment</h2>No.</div>" * 40
    _, found = assert_same(page)
    assert sum(bool(row[2] & names.ALIKE) for row in found.page.nodes) == 16
