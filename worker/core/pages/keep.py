"""
Decides which blocks of the root are kept, and which before and after it: a lead, or values.

Inside the root, nearly all is text. Left out are lists of links, boxes of links between paragraphs,
loose lines next to paragraphs, and headings without text. `keep_most` and `keep_all` are for pages
without a root. `listed.py` looks for a list that the text introduces.

Not done: the questions of a quiz are no text where labels follow them. The filters of a shop are
written the same way, headings over labels, and so are the parts of most forms.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.cut import MARGINS
from worker.core.pages.heading import NO_LEVEL, level_of
from worker.core.pages.measures import (
    N_CUT,
    N_LENGTH,
    N_LINK,
    N_PARAGRAPHS,
    N_PURE,
    NOTICE,
    PROSE,
    grade_blocks,
)
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    BLOCKS,
    HEADING,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    REGION,
    REGION_END,
    TITLE_BLOCK,
)

KEPT = 1
KEPT_HEADING = 2
# What is kept, too, and does not count where it is asked how much text a page has.
KEPT_BARE = 3  # the page's heading, without a text that follows it, or one of a closed answer
KEPT_LISTED = 4  # a list that the text introduces
FACT = 5  # while blocks are chosen: may be kept on a short page

# A <div> between this many paragraphs of prose is an insert ...
BESIDE_PARAGRAPHS = 3
INSERT_LENGTH = 600  # ... if it has fewer letters than this, and this much of it is links,
INSERT_LINKS = 25  # percent
LOOSE_LENGTH = 250  # ... or if a block of prose in it has fewer letters than this.
LOOSE_PARAGRAPHS = 2  # for a block that is not prose, this many paragraphs are enough
LISTS_UP = 6  # the list of an item is looked for in this many containers
PLAIN_MIN = 40  # a block of links with as many letters outside links is kept
# A lead is a block of prose before or after the root.
LEAD_LENGTH = 80  # letters that it has, at least
LEAD_LINKS = 20  # percent of links that it has, at most
LEAD_OF_HEADING = 40  # ... or, between the page's heading and the root, as many, if it is sentences
LEAD_UP = 5  # without an article, a lead is looked for in this many containers around the root
SHORT = 1_000  # letters: a page with fewer has its heading, wherever that stands
FACTS_MAX = 400  # letters of other text: values beside more are no fair part of a page ...
FACTS_MANY = 4  # ... unless they are so many (a line or two may be a date and a name) ...
FACTS_SHARE = 10  # ... and have one of so many letters: four lines of a byline have fewer
GAP = 40  # a heading loses its text if a block of as many letters after it is left out

_LISTS = names.set_of("ul ol dl table")


@fused
def _count_paragraphs(room: Any) -> None:
    """Count the paragraphs of prose of each container, into N_PARAGRAPHS."""
    blocks = room.blocks
    nodes = room.nodes
    region = room.state[REGION]
    nodes[region : room.state[REGION_END], N_PARAGRAPHS] = 0
    for b in range(nodes[region, N_FIRST], nodes[region, N_END]):
        node = blocks[b, B_NODE]
        if node > region and nodes[node, N_TAG] == names.P and blocks[b, B_KEEP] == PROSE:
            nodes[nodes[node, N_PARENT], N_PARAGRAPHS] += 1


@fused
def cut_inserts(room: Any, root: Any) -> None:
    """
    Cut boxes of links between paragraphs, such as advertisements and links to other pages. Quoted
    posts stay.
    """
    blocks = room.blocks
    nodes = room.nodes
    _count_paragraphs(room)
    for k in range(root + 1, room.state[REGION_END]):
        parent = nodes[k, N_PARENT]
        first = nodes[k, N_FIRST]
        if nodes[parent, N_CUT] or (
            parent >= root
            and nodes[k, N_TAG] == names.DIV
            and nodes[parent, N_PARAGRAPHS] >= BESIDE_PARAGRAPHS
            and nodes[k, N_LENGTH] < INSERT_LENGTH
            and nodes[k, N_LINK] * 100 >= INSERT_LINKS * nodes[k, N_LENGTH]
            and first < nodes[k, N_END]
            and not nodes[blocks[first, B_NODE], N_ABOVE] & (names.IN_QUOTE | names.IN_TABLE)
        ):
            nodes[k, N_CUT] = 1


@fused
def _list_of(nodes: Any, node: Any) -> Any:
    """The list or table that a container is in, 0 for none."""
    for _ in range(LISTS_UP):
        if node == 0 or _LISTS[nodes[node, N_TAG]]:
            return node
        node = nodes[node, N_PARENT]
    return 0


@fused
def _is_announced(room: Any, listed: Any) -> Any:
    """
    Return whether the text before a list is kept and ends with a colon: the list belongs to it.
    """
    out = room.out
    b = room.nodes[listed, N_FIRST] - 1
    if b < 0 or room.blocks[b, B_KEEP] != KEPT:
        return False
    end = room.blocks[b, B_END]
    if byte_at(out, end - 1) == 58:
        return True
    wide = (
        end - room.blocks[b, B_START] > 2
        and byte_at(out, end - 3) == 0xEF
        and byte_at(out, end - 2) == 0xBC
    )
    return wide and byte_at(out, end - 1) == 0x9A


@fused
def _loose_beside(nodes: Any, node: Any) -> Any:
    """Return how many paragraphs of prose stand next to this <div>; 0 for other elements."""
    tag = nodes[node, N_TAG]
    return (
        nodes[max(nodes[node, N_PARENT], 0), N_PARAGRAPHS]
        if (tag == names.DIV or tag == names.SECTION)
        else 0
    )


@fused
def _keeps(room: Any, b: Any, root: Any) -> Any:
    """
    Decide on a block of the root. Prose stays, headings stay for now, and other blocks stay if they
    have more than links.
    """
    blocks = room.blocks
    nodes = room.nodes
    node = blocks[b, B_NODE]
    grade = blocks[b, B_KEEP]
    length = blocks[b, B_LENGTH]
    if grade == PROSE:
        return (
            0 if length < LOOSE_LENGTH and _loose_beside(nodes, node) >= BESIDE_PARAGRAPHS else KEPT
        )
    if nodes[node, N_ABOVE] & names.IN_HEADING:
        return KEPT_HEADING
    own_words = blocks[b, B_LINK] * 2 <= blocks[b, B_BYTES]
    listed = _list_of(nodes, node)
    if listed > root:  # a list of links: most of its items are nothing but a link
        own_words = own_words or nodes[listed, N_PURE] * 2 <= nodes[listed, N_LENGTH]
        return KEPT if own_words or _is_announced(room, listed) else 0
    if own_words:
        return 0 if _loose_beside(nodes, node) >= LOOSE_PARAGRAPHS else KEPT
    outside = length * (blocks[b, B_BYTES] - blocks[b, B_LINK]) // blocks[b, B_BYTES]
    return KEPT if outside >= PLAIN_MIN else 0


@fused
def _is_lead(blocks: Any, b: Any, least: Any) -> Any:
    """
    Return whether a block is long enough, and has few enough links, to be kept outside the root.
    """
    links = blocks[b, B_LINK] * 100 < LEAD_LINKS * blocks[b, B_BYTES]
    return blocks[b, B_KEEP] == PROSE and blocks[b, B_LENGTH] >= least and links


@fused
def _ends_sentence(out: Any, end: Any) -> Any:
    """
    Return whether a mark that ends a sentence stands before `end`, perhaps in front of a quotation
    mark. Dates, names of authors and credits end with none.
    """
    last = byte_at(out, end - 1)
    if last == 34 or last == 41:
        last = byte_at(out, end - 2)
    if last < 0x80:
        return last == 46 or last == 33 or last == 63
    second = byte_at(out, end - 2)
    third = byte_at(out, end - 3)
    return (
        (third == 0xE2 and second == 0x80 and (last == 0xA6 or last == 0x9C or last == 0x9D))
        or (third == 0xE3 and second == 0x80 and last == 0x82)  # ideographic full stop
        or (third == 0xEF and second == 0xBC and (last == 0x81 or last == 0x9F or last == 0x8E))
        or (third == 0xE0 and second == 0xA5 and last == 0xA4)  # danda
        or (second == 0xD8 and last == 0x9F)
        or (second == 0xDB and last == 0x94)
        or (second == 0xC2 and last == 0xBB)
    )


@fused
def _anchor(nodes: Any, root: Any, region: Any) -> Any:
    """
    The container in which leads are looked for: the article, or one a few levels above the root,
    within the region.
    """
    node = root
    while node > region and nodes[node, N_TAG] != names.ARTICLE:
        node = nodes[node, N_PARENT]
    if nodes[node, N_TAG] != names.ARTICLE:
        node = root
        for _ in range(LEAD_UP):
            if node > region and nodes[node, N_PARENT] > 0:  # the whole page is too far
                node = nodes[node, N_PARENT]
    return node


@fused
def keep_blocks(room: Any, root: Any) -> Any:
    """Set B_KEEP of every block; none outside the region stays. Returns how many letters do."""
    blocks = room.blocks
    nodes = room.nodes
    first = nodes[root, N_FIRST]
    last = nodes[root, N_END]
    heading = room.state[HEADING]
    beside = nodes[blocks[heading, B_NODE], N_PARENT] if heading >= 0 else np.int64(-1)
    anchor = _anchor(nodes, root, room.state[REGION])
    begin = nodes[anchor, N_FIRST]
    end = nodes[anchor, N_END] if nodes[anchor, N_ABOVE] & names.IN_ARTICLE else last
    for b in range(room.state[BLOCKS]):
        keep = 0
        if not nodes[blocks[b, B_NODE], N_CUT] and blocks[b, B_KEEP] != NOTICE:
            if first <= b < last:
                keep = _keeps(room, b, root)
            elif (begin <= b < end and _is_lead(blocks, b, LEAD_LENGTH)) or (
                0 <= heading < b < first
                and nodes[blocks[b, B_NODE], N_PARENT] == beside
                and _is_lead(blocks, b, LEAD_OF_HEADING)
                and _ends_sentence(room.out, blocks[b, B_END])
            ):
                keep = KEPT
            elif 0 <= heading < b < first and blocks[b, B_LINK] * 2 <= blocks[b, B_BYTES]:
                keep = FACT
        blocks[b, B_KEEP] = keep
    kept = _drop_bare_headings(room)
    is_short = kept < SHORT
    kept += _keep_facts(room, heading, first, kept)
    title = heading if heading >= 0 else room.state[TITLE_BLOCK]
    if is_short and title >= 0 and not nodes[blocks[title, B_NODE], N_CUT]:
        blocks[title, B_KEEP] = blocks[title, B_KEEP] or KEPT_BARE
    return kept


@fused
def _keep_facts(room: Any, heading: Any, first: Any, others: Any) -> Any:
    """
    Keep what stands between the page's heading and the root, if the root begins with or behind a
    lower heading and no more than a few sentences (`others`, in letters): values, beside what a
    site says on all its pages. In an article, or on a page with a lead there, it is a date or a
    name. Returns how many letters are kept.
    """
    blocks = room.blocks
    is_headed = False
    facts = 0
    letters = np.int64(0)
    for b in range(max(heading, 0), first):
        facts += blocks[b, B_KEEP] == FACT
        letters += blocks[b, B_LENGTH] if blocks[b, B_KEEP] == FACT else 0
    is_much = facts >= FACTS_MANY and letters * FACTS_SHARE >= others
    if heading >= 0 and others < (SHORT if is_much else FACTS_MAX):
        level = level_of(room.nodes, blocks[heading, B_NODE])
        for b in range(max(heading + 1, first - 1), min(first + 1, room.state[BLOCKS])):
            is_headed |= level < level_of(room.nodes, blocks[b, B_NODE]) < NO_LEVEL
        is_headed &= not room.nodes[blocks[heading, B_NODE], N_ABOVE] & names.IN_ARTICLE
        for b in range(heading + 1, first):
            is_headed &= blocks[b, B_KEEP] != KEPT
    kept = 0
    for b in range(max(heading, 0), first):
        if blocks[b, B_KEEP] == FACT:
            blocks[b, B_KEEP] = KEPT if is_headed else 0
            kept += blocks[b, B_LENGTH] if is_headed else 0
    return kept


@fused
def counts(blocks: Any, b: Any) -> Any:
    """Return whether a block is kept and counts as text of the page."""
    return 0 < blocks[b, B_KEEP] <= KEPT_HEADING


@fused
def _heads_hidden(room: Any, b: Any) -> Any:
    """Return whether a hidden block of GAP letters follows a heading: a closed answer."""
    if b + 1 >= room.state[BLOCKS] or room.blocks[b + 1, B_LENGTH] < GAP:
        return False
    return room.nodes[room.blocks[b + 1, B_NODE], N_ABOVE] & names.HIDDEN != 0


@fused
def _drop_bare_headings(room: Any) -> Any:
    """
    Drop each heading that no kept text follows before the next heading, or before a block of GAP
    letters that is left out. The page's heading stays, and so do those of closed answers: a page of
    questions is known by them. But they count as none of the letters that are kept, which are
    returned.
    """
    blocks = room.blocks
    kept = 0
    heading = room.state[HEADING]
    follows = False
    b = room.state[BLOCKS] - 1
    while b >= 0:
        keep = blocks[b, B_KEEP]
        length = blocks[b, B_LENGTH]
        if keep == KEPT:
            follows = True
        elif keep == KEPT_HEADING:
            if not follows:
                stays = b == heading or _heads_hidden(room, b)
                blocks[b, B_KEEP] = KEPT_BARE if stays else 0
        else:
            follows = follows and length < GAP
        if counts(blocks, b):
            kept += length
        b -= 1
    return kept


@fused
def keep_most(room: Any) -> Any:
    """Keep all of the region except links, margins and marked boxes. Returns how many letters."""
    blocks = room.blocks
    nodes = room.nodes
    region = room.state[REGION]
    nodes[region, N_CUT] = 0
    for k in range(region + 1, room.state[REGION_END]):
        aside = MARGINS[nodes[k, N_TAG]] or (nodes[k, N_OWN] & (names.HIDDEN | names.NEGATIVE)) != 0
        nodes[k, N_CUT] = 1 if aside or nodes[nodes[k, N_PARENT], N_CUT] else 0
    grade_blocks(room)
    kept = 0
    for b in range(room.state[BLOCKS]):
        if b < nodes[region, N_FIRST] or b >= nodes[region, N_END]:
            blocks[b, B_KEEP] = 0
            continue
        text = blocks[b, B_KEEP] != NOTICE and blocks[b, B_LINK] * 10 <= blocks[b, B_BYTES] * 9
        blocks[b, B_KEEP] = KEPT if text and not nodes[blocks[b, B_NODE], N_CUT] else 0
        if blocks[b, B_KEEP]:
            kept += blocks[b, B_LENGTH]
    return kept


@fused
def keep_all(room: Any, least: Any) -> Any:
    """
    Keep all text that is not hidden, if that is at least `least` letters. Returns whether it is.
    """
    blocks = room.blocks
    length = 0
    for b in range(room.state[BLOCKS]):
        length += 0 if room.nodes[blocks[b, B_NODE], N_OWN] & names.HIDDEN else blocks[b, B_LENGTH]
    if length < least:
        return False
    for b in range(room.state[BLOCKS]):
        blocks[b, B_KEEP] = 0 if room.nodes[blocks[b, B_NODE], N_OWN] & names.HIDDEN else KEPT
    return True
