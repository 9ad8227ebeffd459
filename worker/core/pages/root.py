"""
Find the root of a page's text: the core, where most prose is, and from there up.

The core is found by points: a block of prose gives its length to its container, and less to the two
around that one. From the core `find_root` climbs while a container adds much of the same, since the
paragraphs of one article may stand in several boxes. What is reached so may hold other things, too:
`prune` cuts the branches beside the way that are not like the core.
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
    BLOCKS,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
)

POINTS_MAX = 2_000  # letters of one block that count
TEXT_PER_PROSE = 4  # so many times its prose in lists and tables: they are the text of the page
WRAPPERS_MAX = 8  # containers of one block that are seen as one paragraph
MORE_PROSE = 60  # percent of what was there: the next container adds so much prose ...
MORE_OF_MAIN = 20  # ... inside <main>, so much ...
MORE_ANYWHERE = 3_000  # ... or so many letters ...
LIKE_PROSE = 60  # ... and of what it adds, so much is prose
MORE_ITEMS = 5  # or it adds so much in lists and tables ...
LIKE_ITEMS = 50  # ... and so much of what it adds is either
# Headings without a link, less the linked titles: a list that an article may be left for.
LIST_HEADS = 3
# Percent of the core's prose that a branch beside the way must have, or half as much in lists ...
BRANCH = 10
BRANCH_ITEMS = 75  # ... which are so much of it
ARTICLE_BRANCH = 80  # letters of prose, three quarters of it, that are enough inside an article

_PARAGRAPHS = names.set_of("p li dd td pre blockquote")
_LISTED = names.set_of("ul ol dl table tbody thead tfoot tr")


@fused
def items_are_prose(room: Any) -> Any:
    """
    Of a page with little prose, a table or a list, the items count as prose; returns whether so.
    """
    blocks = room.blocks
    nodes = room.nodes
    if nodes[0, N_PROSE] * TEXT_PER_PROSE >= nodes[0, N_TEXT]:
        return False
    for b in range(room.state[BLOCKS]):
        if blocks[b, B_KEEP] == ITEM and not nodes[blocks[b, B_NODE], N_CUT]:
            blocks[b, B_KEEP] = PROSE
    return True


@fused
def _container(nodes: Any, node: Any) -> Any:
    """
    What a block's points go to: the container of its paragraph, and of wrappers of this paragraph
    alone.
    """
    if _PARAGRAPHS[nodes[node, N_TAG]]:
        node = max(nodes[node, N_PARENT], 0)
    for _ in range(WRAPPERS_MAX):
        if node == 0 or nodes[node, N_END] - nodes[node, N_FIRST] > 1:
            break
        node = nodes[node, N_PARENT]
    return node


@fused
def _count_points(room: Any) -> None:
    """Prose gives its length to its container, half to the next, a sixth to the third."""
    blocks = room.blocks
    nodes = room.nodes
    nodes[: room.state[NODES], N_SCORE] = 0
    for b in range(room.state[BLOCKS]):
        if blocks[b, B_KEEP] != PROSE or nodes[blocks[b, B_NODE], N_CUT]:
            continue
        points = min(blocks[b, B_LENGTH], POINTS_MAX)
        node = _container(nodes, blocks[b, B_NODE])
        nodes[node, N_SCORE] += points
        if node > 0:
            node = nodes[node, N_PARENT]
            nodes[node, N_SCORE] += points // 2
            if node > 0:
                nodes[nodes[node, N_PARENT], N_SCORE] += points // 6


@fused
def _weighed(nodes: Any, k: Any) -> Any:
    """Points, less by the share of links, more or less by telling words."""
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
    """
    The container of the most points, or what its list or table stands in: they are text of
    something.
    """
    nodes = room.nodes
    _count_points(room)
    core = 0
    most = -1
    for k in range(room.state[NODES]):
        if not nodes[k, N_CUT]:
            score = _weighed(nodes, k)
            if score > most:
                core = k
                most = score
    while core > 0 and _LISTED[nodes[core, N_TAG]]:
        core = nodes[core, N_PARENT]
    return core


@fused
def _has_peers(room: Any, article: Any) -> Any:
    """Whether others of its element and words have as much prose: posts, parts of a list."""
    nodes = room.nodes
    prose = 0
    for k in range(room.state[NODES]):
        same = nodes[k, N_TAG] == nodes[article, N_TAG] and nodes[k, N_OWN] == nodes[article, N_OWN]
        if same and not nodes[k, N_CUT] and k != article:
            prose += nodes[k, N_PROSE]
    return prose * 100 >= MORE_PROSE * nodes[article, N_PROSE]


@fused
def find_root(room: Any, core: Any) -> Any:
    """
    Up from the core while that adds much of the same, and nothing that is unrelated.

    An <article>, and a container that its words call the body, are left only for others like it,
    or for a list under headings that has as much prose.
    """
    nodes = room.nodes
    root = core
    below = core
    unrelated = 0
    is_whole = False
    may_leave_article = True
    may_leave_body = True
    while below > 0:
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
    """Whether a container around the root adds much text, and mostly text."""
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
    """Whether it adds the list behind a lead: as much prose, under headings that are no links."""
    prose = nodes[k, N_PROSE] - nodes[root, N_PROSE] - unrelated
    heads = nodes[root, N_TITLES] - nodes[k, N_TITLES]
    return heads >= LIST_HEADS and prose >= nodes[root, N_PROSE]


@fused
def _is_like(nodes: Any, k: Any, need: Any, in_article: Any) -> Any:
    """Whether a branch beside the way belongs to the text."""
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
    Cut the containers between root and core that are neither on the way to the core nor like it.
    """
    nodes = room.nodes
    nodes[root : room.state[NODES], N_WAY] = 0
    k = core
    while k != root:
        nodes[k, N_WAY] = 1
        k = nodes[k, N_PARENT]
    nodes[root, N_WAY] = 1
    need = nodes[core, N_PROSE] * BRANCH // 100
    in_article = (nodes[root, N_ABOVE] & names.IN_ARTICLE) != 0
    for k in range(root + 1, room.state[NODES]):
        parent = nodes[k, N_PARENT]
        if parent < root or nodes[k, N_WAY]:
            continue
        beside = nodes[parent, N_WAY] and parent != core
        if nodes[parent, N_CUT] or (beside and not _is_like(nodes, k, need, in_article)):
            nodes[k, N_CUT] = 1
