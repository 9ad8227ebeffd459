"""
Finds the root of a page's text: the container that holds all of the article, and little else.

First `find_core` finds the container with the most prose, the core. Each block of prose gives
points to its container, and fewer points to the two containers around that one. Then `find_root`
climbs from the core as long as the next container adds much of the same kind, because the
paragraphs of one article may stand in several boxes. The root may hold other things, too. So
`prune` cuts the branches between core and root that do not look like the core.
"""

from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.pages import names
from worker.core.pages.measures import (
    ITEM,
    N_CUT,
    N_LENGTH,
    N_LINK,
    N_PROSE,
    N_SCORE,
    N_TEXT,
    N_TITLES,
    N_UNRELATED,
    N_WAY,
    PROSE,
    is_teasers,
    is_unrelated,
    unrelated_prose,
)
from worker.core.pages.skeleton import (
    B_KEEP,
    B_LENGTH,
    B_NODE,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    REGION,
    REGION_END,
)

POINTS_MAX = 2_000  # points that one block gives, at most: a point is a letter
# If a page has this many times as much text as prose, its lists and tables are its text.
TEXT_PER_PROSE = 4
WRAPPERS_MAX = 8  # nested containers of a single block that count as one paragraph

# `find_root` climbs to the next container if that adds enough text ...
MORE_PROSE = 60  # prose, in percent of the prose of the root so far,
MORE_OF_MAIN = 20  # or, inside <main>, this many percent,
MORE_ANYWHERE = 3_000  # or this many letters of prose,
MORE_ITEMS = 5  # or lists and tables, in percent of the text of the root so far,
# ... and if what it adds is mostly text.
LIKE_PROSE = 60  # percent of prose
LIKE_ITEMS = 50  # percent of prose, lists and tables together
# `find_root` leaves an article only for a list with this many more headings than linked titles.
LIST_HEADS = 3

# `prune` keeps a branch that has enough prose or, half as much, of prose, lists and tables.
BRANCH = 10  # percent of the core's prose
BRANCH_ITEMS = 75  # percent of the branch that must be prose, lists and tables
# Inside an article this many letters of prose are enough, if they are three quarters of the branch.
ARTICLE_BRANCH = 80

_PARAGRAPHS = names.set_of("p li dd td pre blockquote")
_LISTED = names.set_of("ul ol dl table tbody thead tfoot tr")


@fused
def items_are_prose(room: Any) -> Any:
    """
    Let the items of lists and tables count as prose, if the page has little prose. Returns whether
    it has.
    """
    blocks = room.blocks
    nodes = room.nodes
    region = room.state[REGION]
    if nodes[region, N_PROSE] * TEXT_PER_PROSE >= nodes[region, N_TEXT]:
        return False
    for b in range(nodes[region, N_FIRST], nodes[region, N_END]):
        if blocks[b, B_KEEP] == ITEM and not nodes[blocks[b, B_NODE], N_CUT]:
            blocks[b, B_KEEP] = PROSE
    return True


@fused
def _container(nodes: Any, node: Any, region: Any) -> Any:
    """
    The container that gets a block's points: the one around its paragraph, or around the containers
    that hold this paragraph alone.
    """
    if node > region and _PARAGRAPHS[nodes[node, N_TAG]]:
        node = nodes[node, N_PARENT]
    for _ in range(WRAPPERS_MAX):
        if node <= region or nodes[node, N_END] - nodes[node, N_FIRST] > 1:
            break
        node = nodes[node, N_PARENT]
    return node


@fused
def _count_points(room: Any) -> None:
    """Give each container the length of its prose, half of it to the next, a sixth to the third."""
    blocks = room.blocks
    nodes = room.nodes
    region = room.state[REGION]
    nodes[region : room.state[REGION_END], N_SCORE] = 0
    for b in range(nodes[region, N_FIRST], nodes[region, N_END]):
        if blocks[b, B_KEEP] != PROSE or nodes[blocks[b, B_NODE], N_CUT]:
            continue
        points = min(blocks[b, B_LENGTH], POINTS_MAX)
        node = _container(nodes, blocks[b, B_NODE], region)
        nodes[node, N_SCORE] += points
        if node > region:
            node = nodes[node, N_PARENT]
            nodes[node, N_SCORE] += points // 2
            if node > region:
                nodes[nodes[node, N_PARENT], N_SCORE] += points // 6


@fused
def _weighed(nodes: Any, k: Any) -> Any:
    """
    The points of a container: links lower them, and the words of its class raise or lower them.
    """
    score = nodes[k, N_SCORE] * (100 - nodes[k, N_LINK] * 100 // max(nodes[k, N_LENGTH], 1))
    own = nodes[k, N_OWN]
    if own & names.BODY_WORD or (own & names.PART_A and own & names.PART_B):
        score = score * 3 // 2
    elif own & names.POSITIVE or nodes[k, N_TAG] == names.ARTICLE:
        score = score * 5 // 4
    if own & names.WEAK:
        score = score * 3 // 4
    if nodes[k, N_ABOVE] & (names.NEGATIVE | names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER):
        score //= 2
    return score // 2 if is_unrelated(nodes, k) else score


@fused
def find_core(room: Any) -> Any:
    """Find the container with the most points; for a list or a table, the container around it."""
    nodes = room.nodes
    _count_points(room)
    region = room.state[REGION]
    core = region
    most = -1
    for k in range(region, room.state[REGION_END]):
        if not nodes[k, N_CUT]:
            score = _weighed(nodes, k)
            if score > most:
                core = k
                most = score
    while core > region and _LISTED[nodes[core, N_TAG]]:
        core = nodes[core, N_PARENT]
    return core


@fused
def _has_peers(room: Any, article: Any) -> Any:
    """
    Return whether containers like this one have about as much prose, as the posts of a thread have.
    """
    nodes = room.nodes
    prose = 0
    for k in range(room.state[REGION], room.state[REGION_END]):
        same = nodes[k, N_TAG] == nodes[article, N_TAG] and nodes[k, N_OWN] == nodes[article, N_OWN]
        if same and not nodes[k, N_CUT] and k != article:
            prose += nodes[k, N_PROSE]
    return prose * 100 >= MORE_PROSE * nodes[article, N_PROSE]


@fused
def find_root(room: Any, core: Any) -> Any:
    """
    Climb from the core as long as a container adds much text that is not unrelated.

    The climb leaves an <article>, or a container whose class calls it the body, only if the page
    has others like it, or if a list under headings has as much prose.
    """
    nodes = room.nodes
    root = core
    below = core
    unrelated = 0
    is_whole = False
    may_leave_article = True
    may_leave_body = True
    while below > room.state[REGION]:
        if nodes[below, N_OWN] & names.BODY_WORD and not is_whole:
            is_whole = not (may_leave_body and _has_peers(room, below))
            may_leave_body = False
        if nodes[below, N_TAG] == names.ARTICLE and not is_whole:
            is_whole = not (may_leave_article and _has_peers(room, below))
            may_leave_article = False
        k = nodes[below, N_PARENT]
        unrelated += nodes[k, N_UNRELATED] - unrelated_prose(nodes, below)
        if _adds_text(nodes, k, root, unrelated) and (
            not is_whole or _adds_list(nodes, k, root, unrelated)
        ):
            root = k
            unrelated = 0
            is_whole = False
        below = k
    return root


@fused
def _adds_text(nodes: Any, k: Any, root: Any, unrelated: Any) -> Any:
    """Return whether a container around the root adds much text, and mostly text."""
    prose = nodes[k, N_PROSE] - nodes[root, N_PROSE] - unrelated
    text = nodes[k, N_TEXT] - nodes[root, N_TEXT] - unrelated
    length = nodes[k, N_LENGTH] - nodes[root, N_LENGTH] - unrelated
    if text <= 0 or is_teasers(nodes[k, N_TITLES] - nodes[root, N_TITLES], prose):
        return False
    if prose * 100 < LIKE_PROSE * length and text * 100 < LIKE_ITEMS * length:
        return False
    more = MORE_OF_MAIN if nodes[k, N_ABOVE] & names.IN_MAIN else MORE_PROSE
    items = text - prose
    return (
        prose * 100 >= more * nodes[root, N_PROSE]
        or prose >= MORE_ANYWHERE
        or (items * 100 >= MORE_ITEMS * nodes[root, N_TEXT] and items * 2 >= prose)
    )


@fused
def _adds_list(nodes: Any, k: Any, root: Any, unrelated: Any) -> Any:
    """
    Return whether a container adds as much prose again, under headings that are not links: a list
    article.
    """
    prose = nodes[k, N_PROSE] - nodes[root, N_PROSE] - unrelated
    heads = nodes[root, N_TITLES] - nodes[k, N_TITLES]
    return heads >= LIST_HEADS and prose >= nodes[root, N_PROSE]


@fused
def _is_like(nodes: Any, k: Any, need: Any, in_article: Any) -> Any:
    """Return whether a branch between root and core looks like text of the same article."""
    tag = nodes[k, N_TAG]
    prose = nodes[k, N_PROSE]
    if names.H1 <= tag <= names.H6 or (tag == names.P and prose > 0):
        return True
    if is_unrelated(nodes, k):
        return False
    if prose >= need or (
        in_article and prose >= ARTICLE_BRANCH and prose * 4 >= nodes[k, N_LENGTH] * 3
    ):
        return True
    text = nodes[k, N_TEXT]
    return text * 2 >= need and text * 100 >= BRANCH_ITEMS * nodes[k, N_LENGTH]


@fused
def prune(room: Any, core: Any, root: Any) -> None:
    """
    Cut each branch that leaves the way from the root to the core and does not look like the core.
    """
    nodes = room.nodes
    nodes[root : room.state[REGION_END], N_WAY] = 0
    k = core
    while k != root:
        nodes[k, N_WAY] = 1
        k = nodes[k, N_PARENT]
    nodes[root, N_WAY] = 1
    need = nodes[core, N_PROSE] * BRANCH // 100
    in_article = (nodes[root, N_ABOVE] & names.IN_ARTICLE) != 0
    for k in range(root + 1, room.state[REGION_END]):
        parent = nodes[k, N_PARENT]
        if parent < root or nodes[k, N_WAY]:
            continue
        beside = nodes[parent, N_WAY] and parent != core
        if nodes[parent, N_CUT] or (beside and not _is_like(nodes, k, need, in_article)):
            nodes[k, N_CUT] = 1
