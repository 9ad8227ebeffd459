"""Where the main content stands: the core, by points; the root around it; what stands between and is not like it."""

from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.pages.judge_grade import ITEM, PROSE
from worker.core.pages.judge_sums import (
    N_ALIEN,
    N_CUT,
    N_LENGTH,
    N_LINK,
    N_MATTER,
    N_PROSE,
    N_SCORE,
    N_TITLES,
    N_WAY,
    alien_prose,
    is_alien,
    is_teasers,
)
from worker.core.pages.names import (
    ARTICLE,
    BLOCKQUOTE,
    BODY_WORD,
    DD,
    DL,
    H1,
    H6,
    IN_ARTICLE,
    IN_ASIDE,
    IN_FOOTER,
    IN_MAIN,
    IN_NAV,
    LI,
    NEGATIVE,
    OL,
    PART_A,
    PART_B,
    POSITIVE,
    PRE,
    TABLE,
    TBODY,
    TD,
    TFOOT,
    THEAD,
    TR,
    UL,
    WEAK,
    P,
    set_of,
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
MATTER_PER_PROSE = 4  # so many times its prose in lists and tables: they are the text of the page
WRAPPERS_MAX = 8  # containers of one block that are seen as one paragraph
MORE_PROSE = 60  # percent of what was there: the next container adds so much prose ...
MORE_OF_MAIN = 20  # ... inside <main>, so much ...
MORE_ANYWHERE = 3_000  # ... or so many letters ...
LIKE_PROSE = 60  # ... and of what it adds, so much is prose
MORE_ITEMS = 5  # or it adds so much in lists and tables ...
LIKE_ITEMS = 50  # ... and so much of what it adds is either
BRANCH = 10  # percent of the core's prose that a branch beside the way must have, or half as much in lists ...
BRANCH_ITEMS = 75  # ... which are so much of it
ARTICLE_BRANCH = 80  # letters of prose, three quarters of it, that are enough inside an article

_PARAGRAPHS = set_of(P, LI, DD, TD, PRE, BLOCKQUOTE)
_LISTED = set_of(UL, OL, DL, TABLE, TBODY, THEAD, TFOOT, TR)


@fused
def items_are_prose(room: Any) -> Any:
    """Of a page with little prose, a table or a list, the items count as prose; returns whether so."""
    blocks, nodes = room.blocks, room.nodes
    if nodes[0, N_PROSE] * MATTER_PER_PROSE >= nodes[0, N_MATTER]:
        return False
    for b in range(room.state[BLOCKS]):
        if blocks[b, B_KEEP] == ITEM and not nodes[blocks[b, B_NODE], N_CUT]:
            blocks[b, B_KEEP] = PROSE
    return True


@fused
def _container(nodes: Any, node: Any) -> Any:
    """What a block's points go to: the container of its paragraph, and of wrappers of this paragraph alone."""
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
    blocks, nodes = room.blocks, room.nodes
    for k in range(room.state[NODES]):
        nodes[k, N_SCORE] = 0
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
    if own & BODY_WORD or (own & PART_A and own & PART_B):
        score = score * 3 // 2
    elif own & POSITIVE or nodes[k, N_TAG] == ARTICLE:
        score = score * 5 // 4
    if own & WEAK:
        score = score * 3 // 4
    if nodes[k, N_ABOVE] & (NEGATIVE | IN_NAV | IN_ASIDE | IN_FOOTER):
        score //= 2
    return score // 2 if is_alien(nodes, k) else score


@fused
def find_core(room: Any) -> Any:
    """The container of the most points, or what its list or table stands in: they are text of something."""
    nodes = room.nodes
    _count_points(room)
    core, most = 0, -1
    for k in range(room.state[NODES]):
        if not nodes[k, N_CUT]:
            score = _weighed(nodes, k)
            if score > most:
                core, most = k, score
    while core > 0 and _LISTED[nodes[core, N_TAG]]:
        core = nodes[core, N_PARENT]
    return core


@fused
def _has_peers(room: Any, article: Any) -> Any:
    """Whether other articles with the same words have as much prose: posts of a thread."""
    nodes, prose = room.nodes, 0
    for k in range(room.state[NODES]):
        same = nodes[k, N_TAG] == ARTICLE and nodes[k, N_OWN] == nodes[article, N_OWN]
        if same and not nodes[k, N_CUT] and k != article:
            prose += nodes[k, N_PROSE]
    return prose * 100 >= MORE_PROSE * nodes[article, N_PROSE]


@fused
def find_root(room: Any, core: Any) -> Any:
    """Up from the core as long as that adds much of the same, aliens apart; out of no article but one of many."""
    nodes = room.nodes
    root, below, alien, inside = core, core, 0, True
    while below > 0 and not nodes[below, N_OWN] & BODY_WORD:
        if nodes[below, N_TAG] == ARTICLE:
            if not (inside and _has_peers(room, below)):
                break
            inside = False
        k = nodes[below, N_PARENT]
        alien += nodes[k, N_ALIEN] - alien_prose(nodes, below)
        prose = nodes[k, N_PROSE] - nodes[root, N_PROSE] - alien
        matter = nodes[k, N_MATTER] - nodes[root, N_MATTER] - alien
        length = nodes[k, N_LENGTH] - nodes[root, N_LENGTH] - alien
        items = matter - prose
        like = prose * 100 >= LIKE_PROSE * length or matter * 100 >= LIKE_ITEMS * length
        more = MORE_OF_MAIN if nodes[k, N_ABOVE] & IN_MAIN else MORE_PROSE
        much = prose * 100 >= more * nodes[root, N_PROSE] or prose >= MORE_ANYWHERE
        much = much or (items * 100 >= MORE_ITEMS * nodes[root, N_MATTER] and items * 2 >= prose)
        if like and much and matter > 0 and not is_teasers(nodes[k, N_TITLES] - nodes[root, N_TITLES], prose):
            root, alien = k, 0
        below = k
    return root


@fused
def _is_like(nodes: Any, k: Any, need: Any, in_article: Any) -> Any:
    """Whether a branch beside the way belongs to the text."""
    tag, prose = nodes[k, N_TAG], nodes[k, N_PROSE]
    if H1 <= tag <= H6 or (tag == P and prose > 0):
        return True
    if is_alien(nodes, k):
        return False
    if prose >= need or (in_article and prose >= ARTICLE_BRANCH and prose * 4 >= nodes[k, N_LENGTH] * 3):
        return True
    matter = nodes[k, N_MATTER]
    return matter * 2 >= need and matter * 100 >= BRANCH_ITEMS * nodes[k, N_LENGTH]


@fused
def prune(room: Any, core: Any, root: Any) -> None:
    """Cut what stands beside the way from root to core and is not like it."""
    nodes = room.nodes
    for k in range(root, room.state[NODES]):
        nodes[k, N_WAY] = 0
    k = core
    while k != root:
        nodes[k, N_WAY] = 1
        k = nodes[k, N_PARENT]
    nodes[root, N_WAY] = 1
    need = nodes[core, N_PROSE] * BRANCH // 100
    in_article = (nodes[root, N_ABOVE] & IN_ARTICLE) != 0
    for k in range(root + 1, room.state[NODES]):
        parent = nodes[k, N_PARENT]
        if parent < root or nodes[k, N_WAY]:
            continue
        beside = nodes[parent, N_WAY] and parent != core
        if nodes[parent, N_CUT] or (beside and not _is_like(nodes, k, need, in_article)):
            nodes[k, N_CUT] = 1
