"""
What the buttons of a page say of the boxes around them, in plain Python: the kernel must equal it
on every input.

The rules are in worker/core/pages/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    repeats,
)
from worker.core.pages import names as n

DIALOG = n.NEGATIVE | n.SURE


def read_buttons(page: Page) -> None:
    """Mark boxes that end with an agreement, and let questions on buttons be text."""
    agreements = [
        b
        for b, block in enumerate(page.blocks)
        if block[LENGTH] <= (48 if is_button(page, b) else 24)
        and (is_button(page, b) or block[LINKED] == block[SIZE])
        and agrees(page, b)
    ]
    buttons = [b for b in agreements if is_button(page, b)]
    links = [b for b in agreements if not is_button(page, b)]
    for b in buttons[:16] + (links if len(links) <= 2 else []):
        box = dialog_of(page, b)
        if b in links and prose_of(page, of(page, box)) * 2 > prose_of(
            page, range(len(page.blocks))
        ):
            continue
        for k in page.rows if box else ():
            if box in page.around(k):
                page.nodes[k][ABOVE] |= DIALOG
        if box:
            page.nodes[box][OWN] |= DIALOG
    for series in series_of_questions(page):
        for node in series if len(series) >= 3 else ():
            page.nodes[node][TAG] = n.P
            page.nodes[node][OWN] |= n.QUESTION


def prose_of(page: Page, blocks: Iterable[int]) -> int:
    """The letters of prose in some blocks."""
    return sum(page.blocks[b][LENGTH] for b in blocks if page.grades[b] == "prose")


def is_button(page: Page, b: int) -> bool:
    return page.nodes[page.blocks[b][NODE]][TAG] == n.BUTTON


def agrees(page: Page, b: int) -> bool:
    """Whether a word on a button or a link is one by which one agrees."""
    text = page.out[page.blocks[b][START] : page.blocks[b][END]].lower()
    words = re.findall(rb"[a-z\x80-\xff]+", text)
    found = [n.AGREEMENTS.get(word.decode("utf-8", "replace"), 0) for word in words]
    is_short = page.blocks[b][LENGTH] <= 10
    return any(flags and (is_short or not flags & n.ALONE) for flags in found)


def of(page: Page, node: int) -> list[int]:
    """The blocks of a container, hidden ones, too."""
    return [b for b, block in enumerate(page.blocks) if node in page.around(block[NODE])]


def dialog_of(page: Page, b: int) -> int:
    """The box that a button or a link makes a dialog, 0 for none."""
    back = 32 if is_button(page, b) else 4
    texts = [k for k in range(max(b - back, 0), b) if page.grades[k] == "prose"]
    around = page.around(page.blocks[b][NODE])
    boxes = [k for k in around if texts and texts[-1] in of(page, k)]
    return boxes[0] if boxes and may_be_dialog(page, boxes[0], b) else 0


def may_be_dialog(page: Page, box: int, b: int) -> bool:
    """Whether a box holds no main, no article, not the heading, and no prose behind the button."""
    own, tag = page.nodes[box][OWN], page.nodes[box][TAG]
    if own & (n.BODY_WORD | n.IN_MAIN) or tag in (n.ARTICLE, n.MAIN):
        return False
    title = page.title.lower()
    for k in of(page, box):
        start, end = page.blocks[k][START : END + 1]
        if page.grades[k] == "prose" if k > b else repeats(title, page.out[start:end].lower()):
            return False
    marks = [
        k for k in page.rows if n.LANDMARKS[page.nodes[k][TAG]] or page.nodes[k][OWN] & n.IN_MAIN
    ]
    heads = [k for k in marks if page.nodes[k][TAG] == n.H1]
    within = [k for k in marks if k != box and box in page.around(k)]
    return set(within) <= set(heads) and (not within or within != heads)


def series_of_questions(page: Page) -> list[list[int]]:
    """Buttons in a row that stand alike, each with another text, and each followed by prose."""
    series: list[list[int]] = [[]]
    turned: set[int] = set()  # those that are text already: no buttons any more
    place, size = -1, 0
    for b, (_, _, node, length, *_) in enumerate(page.blocks[:-1]):
        is_button = page.nodes[node][TAG] == n.BUTTON and node not in turned
        if not is_button or page.above(node, n.IN_HEADING):
            continue
        around = page.nodes[node][PARENT]
        inside = of(page, around) if around else []
        if inside and inside[0] == b and inside[-1] > b:
            around = page.nodes[around][PARENT]
        last = of(page, around)[-1] if around else len(page.blocks) - 1
        is_question = length >= 10 and length != size and page.grades[b + 1] == "prose" and b < last
        if not is_question or around != place:
            series.append([])
        if is_question:
            series[-1].append(node)
            turned |= set(series[-1] if len(series[-1]) >= 3 else ())
        place, size = around, length
    return series
