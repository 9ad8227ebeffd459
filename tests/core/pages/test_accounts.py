"""
What was left out of a page is counted once, in words, by the nearest container that says what it
is.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.made_pages import KINDS, Writer
from tests.core.pages.test_scan import skeleton
from tests.core.pages.test_select import random_tree
from worker.core.document import BodyKind, Document
from worker.core.extract import Extracted, extract_with_account
from worker.core.pages import REASONS, REGIONS, extract_pages, names, page_account
from worker.core.pages import skeleton as k
from worker.core.tokens import tokens

ARTICLE = "<h1>The ferry</h1>" + "".join(
    f"<p>The ferry {number} was late again on Monday, and nobody has said why.</p>"
    for number in range(5)
)
SLOGAN = "We carry you over, since 1920, with a smile and without a break."
MENUS = names.set_of("nav aside footer header menu button option label")


def defined(page: str) -> tuple[str, Counter[str]]:
    """The region of a page, and the words of its blocks by what became of them."""
    room, _, _ = skeleton(page)
    nodes, blocks = room.nodes.tolist(), room.blocks.tolist()
    begin, end = int(room.state[k.REGION]), int(room.state[k.REGION_END])
    words: Counter[str] = Counter()
    for block in blocks:
        node = block[k.B_NODE]
        if block[k.B_KEEP]:
            reason = "kept"
        elif nodes[node][k.N_ABOVE] & names.HIDDEN:
            reason = "hidden"
        else:
            beyond = "beside the text" if begin <= node < end else "outside the region"
            reason = nearest(nodes, node) or beyond
        words[reason] += len(tokens(bytes(room.out[block[k.B_START] : block[k.B_END]]).decode()))
    tag, own = nodes[begin][k.N_TAG], nodes[begin][k.N_OWN]
    if begin == 0:
        return "page", words
    if tag == names.MAIN or own & names.IN_MAIN:
        return "main", words
    return "article" if tag == names.ARTICLE else "box", words


def nearest(nodes: list[list[int]], node: int) -> str | None:
    """What the container or the nearest one around it says that it is."""
    while node > 0:
        own, tag = nodes[node][k.N_OWN], nodes[node][k.N_TAG]
        if own & names.SURE:
            return "dialogs"
        if own & names.COMMENT:
            return "comments"
        if MENUS[tag]:
            return "menus and margins"
        if tag == names.FORM:
            return "forms"
        if own & names.NEGATIVE:
            return "boxes named as something else"
        node = nodes[node][k.N_PARENT]
    return None


def test_an_account_equals_its_definition_and_changes_no_text() -> None:
    """Of made pages, and of trees of all elements and telling words."""
    pages = [
        Writer(language, kind.__name__).around(number % 3, kind(Writer(language, kind.__name__)))
        for kind in KINDS
        for number, language in enumerate(("en", "zh"))
    ]
    pages += [random_tree(random.Random(seed)) for seed in range(5 * EXAMPLES)]
    fields = ("text", *REASONS)
    found = extract_pages(pages, fields=fields)
    plain = extract_pages(pages)
    for number, page in enumerate(pages):
        places = range(number * len(fields), (number + 1) * len(fields))
        text, *left_out = map(found.text, places)
        account = page_account(text, left_out, int(found.regions[number]))
        region, words = defined(page)
        assert account.region == region == REGIONS[plain.regions[number]]
        assert Counter(account.left_out) + Counter(kept=account.kept) == +words, page
        assert text == plain.text(number)


@pytest.mark.parametrize(
    ("page", "region", "reasons"),
    [
        (f"<main>{ARTICLE}</main>", "main", []),
        (f"<article>{ARTICLE}</article><p>Elsewhere.</p>", "article", ["outside the region"]),
        (f"<p>{SLOGAN}</p><div>{ARTICLE}</div>", "box", ["outside the region"]),
        (f"{ARTICLE}<nav><a href=/>Home</a></nav>", "page", ["menus and margins"]),
        (f"{ARTICLE}<div class=cookie-consent><p>We bake.</p></div>", "page", ["dialogs"]),
        (f"<main>{ARTICLE}<p hidden>Not yet.</p></main>", "main", ["hidden"]),
        (f"<main>{ARTICLE}<form><p>Your name</p></form></main>", "main", ["forms"]),
        (f"<main>{ARTICLE}<div class=ad><p>Buy!</p></div></main>", "main",
         ["boxes named as something else"]),
        (f"<main>{ARTICLE}<div class=comments><p>Me too.</p></div></main>", "main", ["comments"]),
    ],
)  # fmt: skip
def test_each_reason_has_its_name(page: str, region: str, reasons: list[str]) -> None:
    """One page for each region, and one for each thing that is left out."""
    _, account = extract_with_account(Document("a", "https://a.example/", 0, BodyKind.HTML, page))
    assert account is not None
    assert (account.region, list(account.left_out)) == (region, reasons)
    assert account.kept > 0


def test_an_account_counts_what_a_fingerprint_compares() -> None:
    """Its words are tokens: in Chinese, Japanese and Thai, each character is one."""
    page = (
        "<main><h1>渡轮时刻</h1><p>渡轮又晚点了，没有人知道为什么。</p></main><nav>菜单 Home</nav>"
    )
    document = Document("a", "https://a.example/", 0, BodyKind.HTML, page)
    found, account = extract_with_account(document)
    assert isinstance(found, Extracted) and account is not None
    assert (account.kept, account.left_out) == (len(tokens(found.text)), {"menus and margins": 3})


def test_what_is_no_page_has_no_account() -> None:
    """Plain text is kept whole, and an image has no text."""
    text = Document("a", "https://a.example/", 0, BodyKind.TEXT, "A text.")
    assert extract_with_account(text)[1] is None
    image = Document("a", "https://a.example/", 0, BodyKind.BYTES, b"GIF89a\0", "image/gif")
    assert extract_with_account(image)[1] is None
