"""
Which part of a page its markup names as the page, in plain Python: the kernel must equal it on
every input.

It goes over the skeleton as reference.py makes it, one question after the other, and asks each
container for all that is above and below it. The rules are in worker/core/pages/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tests.core.pages.reference import Reader
from worker.core.pages import names as n

PARENT, TAG, OWN, ABOVE = range(4)
START, END, NODE, LENGTH, LINKED, STOPS, SIZE = range(7)


class Page:
    """The skeleton of a page, and the containers that are hidden."""

    def __init__(self, reader: Reader) -> None:
        self.nodes = [list(row) for row in reader.nodes]
        self.blocks = reader.blocks
        self.out = bytes(reader.out)
        self.title = reader.title
        self.rows = range(1, len(self.nodes))
        self.shown: set[int] = set()  # containers that say that they are hidden, and are the page
        self.ways: set[str] = set()  # rules that few pages come to, and that this one came to
        self.begin = 0  # the blocks before this one stand in boxes before the heading
        self.grades = [self._grade(block) for block in self.blocks]

    def _grade(self, block: list[int]) -> str:
        """What a block is by itself, as far as the region asks."""
        start, end, node, length, linked, stops, size = block
        tag, above = self.nodes[node][TAG], self.nodes[node][ABOVE]
        if self.out.startswith(b"\xc2\xa9", start):
            return "notice"
        titled = linked * 10 >= size * 8 and length >= 15
        if above & n.IN_HEADING and length < 120:
            numbered = re.match(rb"\d{1,3}[.):] ", self.out[start : end + 2])
            name = re.sub(rb"(?s)\A.{0,11}?: (?=.{14})", b"", self.out[start:end])
            own = repeats(self.title.lower(), name.lower())
            return "title" if titled and not numbered and not own else "heading"
        sentence = length >= 80 or (length >= 25 and stops > 0)
        if sentence and linked * 100 < (50 if tag == n.P else 25) * size:
            return "prose"
        return "title" if titled and not above & n.IN_TABLE and tag != n.DT else "other"

    # ---- what stands above and below
    def around(self, node: int) -> Iterator[int]:
        """A container and all around it, inside out, without the page."""
        while node > 0:
            yield node
            node = self.nodes[node][PARENT]

    def above(self, node: int, flags: int) -> bool:
        """Whether a container, or one around it, has one of these flags."""
        return bool(self.nodes[node][ABOVE] & flags)

    def within(self, node: int) -> list[int]:
        """The blocks of a container that are not hidden, and not before the heading."""
        return [
            number
            for number, block in enumerate(self.blocks)
            if number >= self.begin
            and (node == 0 or node in self.around(block[NODE]))
            and not self.veil(block[NODE])
        ]

    def veil(self, node: int) -> int:
        """The outermost container around that is hidden, 0 for none."""
        hidden = [
            k for k in self.around(node) if self.nodes[k][OWN] & n.HIDDEN and k not in self.shown
        ]
        return hidden[-1] if hidden else 0

    def prose(self, node: int) -> int:
        """The letters of prose in a container."""
        return sum(self.blocks[b][LENGTH] for b in self.within(node) if self.grades[b] == "prose")

    def h1s(self, node: int) -> list[int]:
        """The h1 in a container that are no links."""
        heads = []
        for b in self.within(node):
            block = self.blocks[b]
            if self.nodes[block[NODE]][TAG] == n.H1 and block[LINKED] * 2 < block[SIZE]:
                heads.append(block[NODE])
        return heads

    def titles(self, node: int) -> int:
        """Linked titles, twice where they are headings, less the headings that are no links."""
        count = 0
        for b in self.within(node):
            heading = self.above(self.blocks[b][NODE], n.IN_HEADING)
            count += {"title": 1 + heading, "heading": -1}.get(self.grades[b], 0)
        return count


CONTENT = n.IN_ARTICLE | n.IN_MAIN
MARGIN = n.IN_NAV | n.IN_ASIDE | n.IN_FOOTER | n.SURE | n.COMMENT


def open_titled_dialog(page: Page) -> None:
    """Let a dialog with the page's only heading and a third of its prose be none."""
    prose = [0, 0]  # outside dialogs, and in them
    titled = 0
    for block, grade in zip(page.blocks, page.grades, strict=True):
        start, end, node, length, _, _, size = block
        if page.above(node, n.HIDDEN):
            continue
        is_within = page.above(node, n.SURE)
        prose[is_within] += length * (grade == "prose")
        is_half = length >= 8 and size * 2 >= len(page.title)
        text = page.out[start:end].lower()
        if is_within and is_half and page.above(node, n.IN_HEADING):
            titled = node if repeats(page.title.lower(), text) else titled
    dialogs = [k for k in page.around(titled) if page.nodes[k][OWN] & n.ALIKE]
    if not dialogs or prose[1] * 2 < prose[0] or headline_of(page, range(len(page.blocks))) >= 0:
        return
    page.ways.add("a dialog with the title")
    page.nodes[dialogs[0]][OWN] &= ~(n.NEGATIVE | n.SURE | n.ALIKE)
    for k in page.rows:
        handed = page.nodes[k][OWN] | page.nodes[page.nodes[k][PARENT]][ABOVE]
        page.nodes[k][ABOVE] &= ~(n.NEGATIVE | n.SURE)
        page.nodes[k][ABOVE] |= handed & (n.NEGATIVE | n.SURE)


def uncover(page: Page) -> None:
    """Show what is hidden where it is the page, the greater part of an article, or its answers."""
    everything = sum(
        block[LENGTH]
        for block, grade in zip(page.blocks, page.grades, strict=True)
        if grade == "prose" and page.veil(block[NODE])
    )
    uncover_most(page)
    veils = {k: page.veil(k) for k in page.rows}
    veils[0] = 0
    hidden = dict.fromkeys(veils.values(), 0)
    signs = shows_content(page, veils)
    for block, grade in zip(page.blocks, page.grades, strict=True):
        if grade == "prose" and not page.above(block[NODE], MARGIN):
            hidden[veils[block[NODE]]] += block[LENGTH]
    if everything < 150:
        return
    headline = headline_of(page, range(len(page.blocks)))
    titled = veils[page.blocks[headline][NODE]] if headline >= 0 else 0
    letters = sum(
        block[LENGTH]
        for block in page.blocks
        if not veils[block[NODE]] and not page.above(block[NODE], MARGIN | n.IN_HEADING)
    )
    answers = answers_of(page, hidden)
    walled = titled if titled and stands_behind_wall(page, headline) else 0
    for k in page.rows:
        veil = veils[k]
        if not veil or page.above(k, MARGIN):
            continue
        sign = page.nodes[k][TAG] == n.H1 or page.nodes[k][OWN] & n.BODY_WORD
        sign = bool(sign or page.above(k, CONTENT))
        if signs:
            around = page.nodes[veil][PARENT]
            slides = [k for k in set(hidden) if k and page.nodes[k][PARENT] == around and hidden[k]]
            prose = sum(hidden[k] for k in slides) if len(slides) >= 6 else hidden[veil]
            within = page.above(around, CONTENT) or (sign and veil == titled)
            is_page = within and prose >= max(400, 2 * hidden[0])
            is_body = hidden[veil] >= max(150, 10 * letters) and titled == 0
            if is_body and not is_page and stands_behind(page, veil, headline):
                page.ways.add("hidden, behind the title")
                is_page = True
            if is_page and not page.above(around, CONTENT):
                page.ways.add("hidden, by its title")
            is_most = hidden[veil] >= max(150, hidden[0] // 3)
            if sign and veil == walled and is_most and not is_page:
                page.ways.add("hidden, behind a wall")
                is_page = True
        else:
            is_page = sign and hidden[veil] >= max(150, hidden[0] // 3)
        if is_page or veil in answers:
            page.shown.add(veil)
    if answers:
        page.ways.add("closed answers")


def stands_behind(page: Page, veil: int, heading: int) -> bool:
    """Whether a hidden container follows a heading in one box."""
    around = page.nodes[veil][PARENT]
    is_within = heading >= 0 and around in page.around(page.blocks[heading][NODE])
    return is_within and heading < first_of(page, veil)


def stands_behind_wall(page: Page, headline: int) -> bool:
    """
    Whether a hidden heading is half of the title, and what is shown has no heading that repeats it,
    and no prose in an article or a main.
    """
    _, _, node, *_, size = page.blocks[headline]
    if not page.above(node, n.IN_HEADING) or size * 2 < len(page.title):
        return False
    shown = [
        b
        for b, block in enumerate(page.blocks)
        if not page.veil(block[NODE]) and not page.above(block[NODE], MARGIN)
    ]
    prose = [b for b in shown if page.grades[b] == "prose"]
    heads = [b for b in shown if page.above(page.blocks[b][NODE], n.IN_HEADING)]
    return headline_of(page, heads) < 0 and not any(
        page.above(page.blocks[b][NODE], CONTENT) for b in prose
    )


def shows_content(page: Page, veils: dict[int, int]) -> bool:
    """Whether something like content is shown: an h1, or prose in an article or a main."""
    heads = [k for k in page.rows if page.nodes[k][TAG] == n.H1]
    prose = [
        block[NODE]
        for block, grade in zip(page.blocks, page.grades, strict=True)
        if grade == "prose" and page.above(block[NODE], CONTENT)
    ]
    return any(not veils.get(k) and not page.above(k, MARGIN) for k in heads + prose)


def uncover_most(page: Page) -> None:
    """
    Show each hidden container with twice as many letters, links too, as all that is shown, where
    nothing like content is, and less than 150 letters of prose. It holds a heading, a list, a
    table, an article or a main.
    """
    veils = {k: page.veil(k) for k in page.rows}
    prose = sum(
        block[LENGTH]
        for block, grade in zip(page.blocks, page.grades, strict=True)
        if grade == "prose" and not veils.get(block[NODE]) and not page.above(block[NODE], MARGIN)
    )
    if shows_content(page, veils) or prose >= 150:
        return
    hidden = dict.fromkeys([0, *veils.values()], 0)
    pages = set()
    for block in page.blocks:
        veil = veils.get(block[NODE], 0)
        outside = page.nodes[page.nodes[veil][PARENT]][ABOVE] if veil else 0
        like_page = CONTENT | n.IN_HEADING | n.IN_LIST | n.IN_TABLE
        if page.nodes[block[NODE]][ABOVE] & ~outside & like_page:
            pages.add(veil)
        if veil or not page.above(block[NODE], n.SURE | n.COMMENT):
            hidden[veil] += block[LENGTH]
    for veil, letters in hidden.items():
        is_most = veil in pages and letters >= max(100, 2 * hidden[0])
        if veil and is_most and not page.above(veil, MARGIN):
            page.shown.add(veil)
            page.ways.add("hidden, with most of all letters")


def answers_of(page: Page, hidden: dict[int, int]) -> list[int]:
    """
    The hidden containers directly behind a heading or a button, if they are six, or three behind
    questions, and hold as much as is shown.
    """
    panels, count = [], 0
    for k, prose in hidden.items():
        if not k or not prose or page.above(k, MARGIN):
            continue
        before = first_of(page, k) - 1
        around = page.nodes[k][PARENT]
        if before < 0 or (around and around not in page.around(page.blocks[before][NODE])):
            continue
        head = page.blocks[before][NODE]
        button = page.nodes[head][TAG] == n.BUTTON or page.nodes[head][OWN] & n.QUESTION
        if (button or page.above(head, n.IN_HEADING)) and not page.veil(head):
            panels.append(k)
            count += 2 if page.blocks[before][STOPS] else 1
    enough = sum(hidden[k] for k in panels) >= max(400, hidden[0])
    return panels if count >= 6 and enough else []


def mains_of(page: Page) -> list[int]:
    """The outermost containers that are a main, or say so."""
    return [
        k
        for k in page.rows
        if (page.nodes[k][TAG] == n.MAIN or page.nodes[k][OWN] & n.IN_MAIN)
        and not page.above(page.nodes[k][PARENT], n.IN_MAIN)
        and not page.veil(k)
    ]


def region_of(page: Page) -> int:
    """The container that is the page, 0 for all of it."""
    total = page.prose(0)
    main_like = mains_of(page)
    mains = [k for k in main_like if page.prose(k)]
    headline = headline_of(page, page.within(0))
    if len(mains) == 1 and page.prose(mains[0]) * 100 >= 5 * total:
        if is_beside_page(page, headline, mains[0]):
            return titled_box(page, heads_of(page))
        return part_with_lead(page, headline, mains[0])
    others = [k for k in page.rows if k not in main_like and not page.veil(k)]
    heads = heads_of(page)
    articles = [
        k
        for k in others
        if page.nodes[k][TAG] == n.ARTICLE
        and not page.above(page.nodes[k][PARENT], n.IN_ARTICLE)
        and not page.nodes[k][OWN] & n.SURE
        and page.prose(k)
    ]
    titled = [k for k in articles if page.h1s(k)]
    if not (len(titled) == len(heads) == 1 and page.prose(titled[0]) * 100 >= 10 * total):
        titled = articles
    is_one = len(titled) == 1 and page.prose(titled[0]) * 100 >= 10 * total
    if not is_one or is_beside_page(page, headline, titled[0]):
        return titled_box(page, heads)
    return 0 if leads_list(page, titled[0]) else part_with_lead(page, headline, titled[0])


def is_beside_page(page: Page, headline: int, part: int) -> bool:
    """Whether the largest box with the title's h1 and nothing of a part has twice its prose."""
    if headline < 0 or page.nodes[page.blocks[headline][NODE]][TAG] != n.H1:
        return False
    if part in page.around(page.blocks[headline][NODE]):
        return False
    begin = first_of(page, part)
    boxes = []
    for k in page.around(page.blocks[headline][NODE]):
        if k in page.around(page.blocks[begin][NODE]):
            break
        boxes.append(k)
    found = bool(boxes) and lead_behind(page, headline, page.within(boxes[-1])) > 2 * page.prose(
        part
    )
    if found:
        page.ways.add("a part beside the page")
    return found


def part_with_lead(page: Page, headline: int, part: int) -> int:
    """A main or an article; or what is around it and a heading with a lead that stand before it."""
    heads = heads_of(page)
    begin = first_of(page, part)
    outer = set(page.around(page.blocks[begin][NODE]))
    heading = headline if headline >= 0 or len(heads) != 1 else first_of(page, heads[0])
    inner = [k for k in page.around(page.blocks[heading][NODE]) if k not in outer]
    if not (0 <= heading < begin and inner):
        return part

    def is_beside(b: int) -> bool:
        node = page.blocks[b][NODE]
        around = page.nodes[node][PARENT] if page.nodes[node][TAG] == n.P else node
        return inner[-1] in page.around(node) or around == 0 or around in outer

    lead = lead_behind(page, heading, [b for b in page.within(0) if b < begin and is_beside(b)])
    if lead < 120 or any(page.nodes[k][TAG] == n.HEADER for k in inner):
        return part
    if headline < 0 and lead > page.prose(part):  # the site's name over its slogan
        return part
    box = box_of(page, [page.blocks[heading][NODE], part])
    if (lead + page.prose(part)) * 100 < 50 * page.prose(box):
        return part
    kind = "a main" if part in mains_of(page) else "an article"
    page.ways.add(f"a lead before {kind}")
    if headline < 0:
        page.ways.add("a lead behind the only h1")
    return box


def lead_behind(page: Page, heading: int, blocks: Iterable[int]) -> int:
    """The letters of prose behind a heading among blocks, outside of margins by any name."""
    return sum(
        page.blocks[b][LENGTH]
        for b in blocks
        if b > heading
        and page.grades[b] == "prose"
        and not page.above(page.blocks[b][NODE], MARGIN | n.NEGATIVE)
    )


def titled_box(page: Page, heads: list[int]) -> int:
    """The box around the heading, without what boxes before it hold; 0 for none."""
    headline, inner = headline_of(page, page.within(0)), 20
    heading = headline if headline >= 0 or len(heads) != 1 else first_of(page, heads[0])
    if headline >= 0 and heads != [page.blocks[headline][NODE]]:
        heads, inner = [page.blocks[headline][NODE]], 50
    box = box_of(page, heads)
    share = 10 if page.nodes[box][PARENT] <= 0 else inner
    total = page.prose(0)
    whole = total - sum(page.blocks[b][LENGTH] for b in foreign_before(page, 0, heading))
    prose = page.prose(box)
    return box if prose * 100 >= share * whole and prose * 100 >= 5 * total else 0


def first_of(page: Page, node: int) -> int:
    """The first block of a container."""
    return next(b for b, block in enumerate(page.blocks) if node in page.around(block[NODE]))


def level_of(page: Page, block: int) -> int:
    """The level of a heading, from 0 for an h1; 6 of what is none."""
    tags = [page.nodes[k][TAG] for k in islice(page.around(page.blocks[block][NODE]), 8)]
    return next((tag - n.H1 for tag in tags if n.H1 <= tag <= n.H6), 6)


def is_title(page: Page, block: int) -> bool:
    """Whether a block is a heading that is no link, and stands in no menu and no dialog."""
    _, _, node, _, linked, _, size = page.blocks[block]
    is_heading = page.above(node, n.IN_HEADING) and not page.above(node, n.IN_NAV | n.SURE)
    return is_heading and linked * 2 < size


def foreign_before(page: Page, around: int, heading: int) -> list[int]:
    """
    The prose in boxes before the heading of a container, if none stands beside it, no article ends
    before it, enough follows, and the heading stands in no margin.
    """
    margin = n.NEGATIVE | n.COMMENT | n.IN_ASIDE | n.IN_FOOTER
    if heading >= 0 and page.above(page.blocks[heading][NODE], margin):
        return []
    level = level_of(page, heading) if heading >= 0 else 0
    levels = [level_of(page, b) for b in page.within(around) if b < heading and is_title(page, b)]
    if any(one < level for one in levels) or levels.count(level) > 1:
        return []
    prose = [b for b in page.within(around) if page.grades[b] == "prose"]
    before = [b for b in prose if b < heading]
    for k in page.rows:
        is_within = around == 0 or (k != around and around in page.around(k))
        if is_within and page.nodes[k][TAG] == n.ARTICLE and page.prose(k):
            ends = all(
                b < heading for b, block in enumerate(page.blocks) if k in page.around(block[NODE])
            )
            if ends:
                return []
    for b in before:
        node = page.blocks[b][NODE]
        if page.nodes[node][TAG] == n.P:
            node = page.nodes[node][PARENT]
        if node == 0 or node in page.around(page.blocks[heading][NODE]):
            return []
    sizes = [sum(page.blocks[b][LENGTH] for b in some) for some in (before, prose)]
    is_heading = before and page.above(page.blocks[heading][NODE], n.IN_HEADING)
    rest = sizes[1] - sizes[0]
    enough = rest >= 60 and rest * 100 >= (10 if is_heading else 20) * sizes[1]
    return before if enough else []


def headline_of(page: Page, among: Iterable[int]) -> int:
    """
    The longest of these headings that repeats the title, or else of the other blocks; -1 for none.
    """
    found = []
    for number in among:
        start, end, node, length, linked, _, size = page.blocks[number]
        heading = page.above(node, n.IN_HEADING)
        if length < (8 if heading else 15) or linked * 2 >= size:
            continue
        if page.above(node, n.IN_NAV | n.SURE):
            continue
        if repeats(page.title.lower(), page.out[start:end].lower()):
            found.append((heading, length, -number))
    return -max(found)[-1] if found else -1


def repeats(title: bytes, text: bytes) -> bool:
    """Whether a title begins or ends with a text, in whole words."""
    if title.startswith(text):
        return not title[len(text) : len(text) + 1].isalnum()
    return title.endswith(text) and not title[: -len(text)][-1:].isalnum()


def is_heading_of(page: Page, node: int) -> bool:
    """Whether an h1 is no link, and stands in no menu and no dialog."""
    return bool(page.h1s(node)) and not page.above(node, n.IN_NAV | n.SURE)


def leads_list(page: Page, article: int) -> bool:
    """Whether as much prose stands beside an article, under three headings."""
    around = page.nodes[article][PARENT]
    heads = page.titles(article) - page.titles(around)
    return heads >= 3 and page.prose(around) >= 2 * page.prose(article)


def box_of(page: Page, heads: list[int]) -> int:
    """The outermost container around all these headings beside which there is other prose."""
    ways = [list(page.around(head)) for head in heads]
    boxes = [
        k
        for k in (ways[0] if ways else ())
        if all(k in way for way in ways) and page.prose(k) < page.prose(page.nodes[k][PARENT])
    ]
    return boxes[-1] if boxes else 0


def heads_of(page: Page) -> list[int]:
    """The h1 that are shown, no main, no links, and stand in no menu and no dialog."""
    mains = mains_of(page)
    return [
        k
        for k in page.rows
        if page.nodes[k][TAG] == n.H1
        and k not in mains
        and not page.veil(k)
        and is_heading_of(page, k)
    ]


class Found(NamedTuple):
    """
    The region, the first container behind it, the block of its heading (-1 for none), and where it
    begins if boxes before the heading are cut.
    """

    page: Page
    region: int
    end: int
    heading: int
    begin: int


def find_region(reader: Reader) -> Found:
    """Find the region of a page, after its buttons were read and what is hidden was looked at."""
    # A circle: buttons and terms are defined by what this file says of a page.
    from tests.core.pages.buttons_reference import read_buttons  # noqa: PLC0415
    from tests.core.pages.terms_reference import mark_terms  # noqa: PLC0415

    page = Page(reader)
    open_titled_dialog(page)
    read_buttons(page)
    mark_terms(page)
    uncover(page)
    region = region_of(page)
    inside = [k for k in page.rows if region == 0 or region in page.around(k)]
    heads = heads_of(page)
    heading = headline_of(page, page.within(0))
    if heading < 0 and len(heads) == 1:
        heading = first_of(page, heads[0])
    if heading < 0 or not (region == 0 or region in page.around(page.blocks[heading][NODE])):
        heading = -1
    page.begin = heading if foreign_before(page, region, heading) else 0
    return Found(page, region, max(inside, default=region) + 1, heading, page.begin)
