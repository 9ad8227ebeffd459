"""
Which boxes of a page hold terms or an offer, in plain Python: the kernel must equal it on every
input.

The rules are in worker/core/pages/README.md.
"""

from __future__ import annotations

import re

from tests.core.pages.buttons_reference import of, prose_of
from tests.core.pages.region_reference import (
    ABOVE,
    END,
    LENGTH,
    LINKED,
    NODE,
    OWN,
    PARENT,
    SIZE,
    START,
    TAG,
    Page,
    level_of,
    repeats,
)
from worker.core.pages import names as n

NO_BOXES = n.set_of(
    "article main body html h1 h2 h3 h4 h5 h6 table tbody thead tfoot tr td th dt span"
)
HEADS = (n.BUTTON, n.SUMMARY, n.DT)
RUN = (n.P, n.UL, n.OL, n.DL, n.DD)
BOXES = (n.DIV, n.SECTION, n.DD)
ALIKE = n.ALIKE | n.NEGATIVE | n.SURE
WORD = re.compile(rb"[a-z\x80-\xff]+")
ELSEWHERE = n.HIDDEN | n.IN_NAV | n.IN_ASIDE | n.IN_FOOTER | n.SURE


def mark_terms(page: Page) -> None:
    """Mark boxes of terms behind the heading and a text of a short page as dialogs."""
    if prose_of(page, range(len(page.blocks))) > 8_000:
        return
    heading = next((b for b in range(len(page.blocks)) if is_page_heading(page, b)), -1)
    if heading < 0 or terms_in(page, heading):
        return
    heads = [b for b in range(heading + 1, len(page.blocks)) if heads_terms(page, b)]
    for b in heads[:16]:
        box = box_of_terms(page, b)
        if box and (terms_in(page, b) == n.TERMS or may_offer(page, b, box, heading)):
            page.nodes[box][OWN] |= terms_in(page, b)
        elif not box and terms_in(page, b) == n.TERMS:
            for k in run_behind(page, b):
                page.nodes[k][OWN] |= n.TERMS
    wanted = n.OFFER | n.TERMS if has_price(page, heading) else n.OFFER
    boxes = [k for k in page.rows if page.nodes[k][OWN] & wanted and is_box(page, k, heading)]
    inside = [k for k in page.rows if any(box in page.around(k) for box in boxes)]
    terms = [b for b, block in enumerate(page.blocks) if block[NODE] in inside]
    others = [
        b
        for b, block in enumerate(page.blocks)
        if b not in terms and not page.above(block[NODE], ELSEWHERE | n.IN_HEADING)
    ]
    behind = [b for b in others if wanted & n.TERMS and page.grades[b] == "prose"]
    own_letters = sum(
        page.blocks[b][LENGTH]
        for b in others
        if terms and heading < b and (b < terms[0] or b in behind) and not is_link(page, b)
    )
    long = sum(page.blocks[b][LENGTH] for b in terms) > 2_000
    if own_letters < 40 or prose_of(page, others) > 2_000 or long:
        return
    for k in inside:
        page.nodes[k][ABOVE] |= ALIKE
        if page.nodes[k][PARENT] not in inside:
            page.nodes[k][OWN] |= ALIKE


def is_link(page: Page, b: int) -> bool:
    """Whether most of a block is links."""
    return page.blocks[b][LINKED] * 2 >= page.blocks[b][SIZE]


def is_page_heading(page: Page, b: int) -> bool:
    """Whether a block is an h1, or a heading that repeats the title; no link, and in no menu."""
    start, end, node, length = page.blocks[b][:4]
    is_heading = page.above(node, n.IN_HEADING) and not page.above(node, n.IN_NAV | n.SURE)
    names_page = length >= 8 and repeats(page.title.lower(), page.out[start:end].lower())
    return is_heading and not is_link(page, b) and (level_of(page, b) == 0 or names_page)


def may_offer(page: Page, b: int, box: int, heading: int) -> bool:
    """Whether no other heading behind the page's has the level of a box's, and none of its names."""
    level = level_of(page, b)
    others = [
        other
        for other in range(heading + 1, len(page.blocks))
        if other not in of(page, box)
        and not page.above(page.blocks[other][NODE], ELSEWHERE)
        and not is_link(page, other)
    ]
    is_alone = all(level_of(page, other) != level for other in others)
    is_short = sum(page.grades[k] == "prose" for k in of(page, box)) <= 3
    return level < 6 and is_alone and is_short and not page.nodes[box][OWN] & n.POSITIVE


def has_price(page: Page, heading: int) -> bool:
    """Whether one of the sixteen blocks behind a heading, before all boxes, is a price."""
    flags = n.OFFER | n.TERMS
    boxes = [k for k in page.rows if page.nodes[k][OWN] & flags and is_box(page, k, heading)]
    stop = min([heading + 17, *(of(page, k)[0] for k in boxes)])
    return any(is_price(page, b) for b in range(heading + 1, min(stop, len(page.blocks))))


def is_price(page: Page, b: int) -> bool:
    """Whether a short line is an amount, or has a digit and a currency."""
    start, end, size = (page.blocks[b][at] for at in (START, END, SIZE))
    text = page.out[start:end]
    words = {word.decode("utf-8", "replace") for word in re.findall(WORD, text.lower())}
    is_money = re.search("[$¢-¥₠-₿]", text.decode()) or words & n.CURRENCIES.keys()
    is_amount = re.fullmatch(rb"[0-9]{1,6}[.,][0-9]{2}", text)
    short = size < 40 and page.grades[b] != "prose"
    return short and bool(is_amount or (is_money and re.search(rb"[0-9]", text)))


def terms_in(page: Page, b: int) -> int:
    """The flags of the first word of a block that is one of terms or offers; 0 if none is."""
    text = page.out[page.blocks[b][START] : page.blocks[b][END]].lower()
    words = re.findall(WORD, text)
    found = [n.TERM_WORDS.get(word.decode("utf-8", "replace"), 0) for word in words]
    return next(filter(None, found), 0)


def heads_terms(page: Page, b: int) -> bool:
    """Whether a block is a heading, a summary, a button or a dt with a word of terms."""
    return heads(page, b) and page.blocks[b][LENGTH] <= 48 and terms_in(page, b) > 0


def heads(page: Page, b: int) -> bool:
    """Whether a block may head a text."""
    node = page.blocks[b][NODE]
    return page.nodes[node][TAG] in HEADS or bool(page.above(node, n.IN_HEADING))


def box_of_terms(page: Page, b: int) -> int:
    """The smallest box with a heading and the block behind it, where it begins with the heading."""
    if b + 1 == len(page.blocks) or page.nodes[page.blocks[b + 1][NODE]][TAG] == n.BUTTON:
        return 0
    around = [k for k in page.around(page.blocks[b][NODE]) if of(page, k)[-1] > b]
    if not around or of(page, around[0])[0] != b:
        return 0
    level = level_of(page, b)
    others = of(page, around[0])[1:]
    tags = [page.nodes[page.blocks[other][NODE]][TAG] for other in [b, *others]]
    levels = [level_of(page, other) for other in others]
    is_one_of_many = min(levels) <= level if level < 6 else tags[0] in tags[1:]
    return 0 if is_one_of_many else around[0]


def run_behind(page: Page, b: int) -> list[int]:
    """
    A box without a heading behind a heading, and paragraphs and lists beside both; unless the
    heading ends a box with more in it, or a row of buttons.
    """
    tags = [page.nodes[page.blocks[other][NODE]][TAG] for other in (b - 1, b)]
    around = page.around(page.blocks[b][NODE])
    below = [k for k in around if of(page, k)[-1] <= b]
    if not below or b + 1 == len(page.blocks) or tags == [n.BUTTON, n.BUTTON]:
        return []
    if any(of(page, k) != [b] for k in below):
        return []
    run = []
    for k in page.rows:
        held = of(page, k)
        is_beside = page.nodes[k][PARENT] == page.nodes[below[-1]][PARENT]
        if not is_beside or k <= below[-1] or not held:
            continue
        is_text = page.nodes[k][TAG] in BOXES and not any(heads(page, other) for other in held)
        if not (is_text and held[0] == b + 1) and page.nodes[k][TAG] not in RUN:
            break
        run.append(k)
    return run


def is_box(page: Page, k: int, heading: int) -> bool:
    """Whether a container can be a box, and stands behind the page's heading."""
    own, tag = page.nodes[k][OWN], page.nodes[k][TAG]
    if own & (n.BODY_WORD | n.IN_MAIN):
        return False
    held = of(page, k)
    is_behind = bool(held) and held[0] > heading
    return is_behind and not NO_BOXES[tag]
