"""What containers hold: sums over their blocks and all below, and which of them are lists of something else."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.pages.judge_grade import HEADING, ITEM, PROSE, TITLE, is_nothing_but_link
from worker.core.pages.names import ARTICLE, DIV, H1, IN_ASIDE, IN_FOOTER, IN_HEADING, IN_NAV, NEGATIVE, SECTION
from worker.core.pages.skeleton import (
    B_BYTES,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    BLOCKS,
    N_ABOVE,
    N_FIRST,
    N_PARENT,
    N_TAG,
    NODE_COLUMNS,
    NODES,
)

# ---- sums over a container and all below: letters outside headings, of links, of prose, of prose and items, of blocks
# that are nothing but a link; how many linked titles (headings twice, less those without a link), headings, and h1 that
# are no links.
N_LENGTH, N_LINK, N_PROSE, N_MATTER, N_PURE, N_TITLES, N_HEADS, N_H1 = range(6, 14)
# ---- of its children: how many are boxes of prose, and their prose; the prose of aliens below.
N_BOXES, N_BOXED, N_ALIEN = range(14, 17)
# ---- the prose before it in the page; points; whether it is cut out; whether it stands on the way from root to core;
# its children that are paragraphs of prose.
N_BEFORE, N_SCORE, N_CUT, N_WAY = range(17, 21)
N_PARAGRAPHS = N_SCORE  # when the points have been counted
assert N_WAY == NODE_COLUMNS - 1

TEASERS_MIN = 3  # linked titles ...
TEASER_PROSE = 150  # ... and less prose than this to each: a list of teasers
BOXES_MIN = 4  # boxes side by side ...
BOX_PROSE = 600  # ... of less prose than this each ...
BOXED = 70  # ... and this percentage of the prose in them, without a heading: comments


@fused
def sum_up(room: Any) -> None:
    """Count the blocks that are not cut out into their containers and all above."""
    blocks, nodes = room.blocks, room.nodes
    for k in range(room.state[NODES]):
        for column in range(N_LENGTH, N_H1 + 1):
            nodes[k, column] = 0
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        if not nodes[node, N_CUT]:
            _count_block(room, b, node)
    k = room.state[NODES] - 1
    while k > 0:
        for column in range(N_LENGTH, N_H1 + 1):
            nodes[nodes[k, N_PARENT], column] += nodes[k, column]
        k -= 1


@fused
def _count_block(room: Any, b: Any, node: Any) -> None:
    blocks, nodes = room.blocks, room.nodes
    grade, length, link, size = blocks[b, B_KEEP], blocks[b, B_LENGTH], blocks[b, B_LINK], blocks[b, B_BYTES]
    if grade != HEADING:
        nodes[node, N_LENGTH] += length
    nodes[node, N_LINK] += length * link // size
    if grade == PROSE:
        nodes[node, N_PROSE] += length
    if grade == PROSE or grade == ITEM:
        nodes[node, N_MATTER] += length
    if is_nothing_but_link(blocks, b):
        nodes[node, N_PURE] += length
    heads = (nodes[node, N_ABOVE] & IN_HEADING) != 0
    nodes[node, N_TITLES] += (1 + heads) * (grade == TITLE) - (grade == HEADING)
    nodes[node, N_HEADS] += heads
    nodes[node, N_H1] += nodes[node, N_TAG] == H1 and link * 2 < size


@fused
def prose_before(room: Any) -> None:
    """Nothing is cut out yet. N_BEFORE of each container: the prose before it, but what is marked as something else."""
    blocks, nodes = room.blocks, room.nodes
    b, before = 0, 0
    for k in range(room.state[NODES]):
        while b < nodes[k, N_FIRST]:
            marked = nodes[blocks[b, B_NODE], N_ABOVE] & (NEGATIVE | IN_NAV | IN_ASIDE | IN_FOOTER)
            if blocks[b, B_KEEP] == PROSE and not marked:
                before += blocks[b, B_LENGTH]
            b += 1
        nodes[k, N_BEFORE], nodes[k, N_CUT] = before, 0


@fused
def is_teasers(titles: Any, prose: Any) -> Any:
    """Linked titles with little to each: pointers to other pages."""
    return titles >= TEASERS_MIN and prose < TEASER_PROSE * titles


@fused
def is_alien(nodes: Any, k: Any) -> Any:
    """Teasers, or comments: small boxes of prose side by side, none of them with a heading."""
    if is_teasers(nodes[k, N_TITLES], nodes[k, N_PROSE]):
        return True
    boxed = nodes[k, N_BOXED] * 100 >= BOXED * nodes[k, N_PROSE]
    return nodes[k, N_BOXES] >= BOXES_MIN and boxed and nodes[k, N_HEADS] <= 1


@fused
def alien_prose(nodes: Any, k: Any) -> Any:
    """The prose of a container that is an alien's."""
    return nodes[k, N_PROSE] if is_alien(nodes, k) else nodes[k, N_ALIEN]


@fused
def find_aliens(room: Any) -> None:
    """Count boxes, then the prose of aliens, into the containers that hold them."""
    nodes = room.nodes
    for k in range(room.state[NODES]):
        for column in range(N_BOXES, N_ALIEN + 1):
            nodes[k, column] = 0
    k = room.state[NODES] - 1
    while k > 0:
        parent, tag, prose = nodes[k, N_PARENT], nodes[k, N_TAG], nodes[k, N_PROSE]
        if (tag == DIV or tag == ARTICLE or tag == SECTION) and 0 < prose < BOX_PROSE:
            nodes[parent, N_BOXES] += 1
            nodes[parent, N_BOXED] += prose
        nodes[parent, N_ALIEN] += alien_prose(nodes, k)
        k -= 1
