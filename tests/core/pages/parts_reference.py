"""
Whether many small parts of a page together are the page, in plain Python: the kernel must equal it
on every input.

The rules are those of worker/core/pages/cut.py.
"""

from __future__ import annotations

from itertools import groupby

from tests.core.pages.region_reference import OWN, PARENT, TAG, Page
from worker.core.pages import names as n

NEVER = n.SURE | n.COMMENT | n.HIDDEN
MARGINS = {n.NAV, n.FOOTER, n.ASIDE, n.BUTTON, n.OPTION, n.LABEL}
BOILERPLATE = MARGINS | {n.MENU, n.FIGCAPTION}


def words(page: Page, node: int) -> int:
    """What the words of a container say. What is hidden and is the page is not hidden."""
    own: int = page.nodes[node][OWN]
    return own & ~n.HIDDEN if node in page.shown else own


def is_shape(page: Page, node: int) -> bool:
    """Whether a container is a caption, or is named after its shape."""
    own, tag = words(page, node), page.nodes[node][TAG]
    if own & NEVER:
        return False
    return tag == n.FIGCAPTION or bool(own & n.SHAPE and tag not in BOILERPLATE)


def is_headed(page: Page, node: int) -> bool:
    """
    Whether a container is marked as something else, and has headings that are no links, or is alone
    with its prose beside one.
    """
    own, tag = words(page, node), page.nodes[node][TAG]
    around = page.nodes[node][PARENT]
    alone = page.prose(node) == page.prose(around) and page.titles(around) < 0
    if own & NEVER or not (page.titles(node) < 0 or alone):
        return False
    return tag == n.ASIDE or bool(own & n.NEGATIVE and tag not in BOILERPLATE)


def parts_hold_page(page: Page, region: int) -> bool:
    """Whether shapes, and series of boxes with headings, hold most of the region's prose."""
    half = max(page.prose(region) // 2, 600)
    closed: set[int] = set()  # nothing in these is looked at
    shapes: list[int] = []
    headed: list[int] = []
    for k in page.rows:
        if k == region or (region and region not in page.around(k)):
            continue
        if page.nodes[k][PARENT] in closed:
            closed.add(k)
        elif page.prose(k) >= half:
            continue
        elif is_shape(page, k):
            shapes.append(k)
            closed.add(k)
        elif is_headed(page, k):
            headed.append(k)
            closed.add(k)
        elif words(page, k) & n.NEGATIVE or page.nodes[k][TAG] in MARGINS:
            closed.add(k)
    shaped = sum(page.prose(k) for k in shapes)
    in_series = 0
    for _, boxes in groupby(headed, lambda k: (page.nodes[k][TAG], words(page, k))):
        series = list(boxes)
        if len(series) >= 3:
            in_series += sum(page.prose(k) for k in series)
    if shaped + in_series < 1_500:
        return in_series >= half
    titles = sum(page.titles(k) for k in shapes)
    return shaped + in_series >= half and not (titles >= 3 and shaped < 150 * titles)
