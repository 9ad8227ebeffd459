"""
Which blocks are main content: decided on the arrays of a Skeleton alone.

A person finds the text of a page without reading it: it is where paragraphs stand close together,
and menus, teasers and comments look different. The selection uses the same signs: lengths, shares
of links, marks that divide sentences, where something stands, and the names that authors give to
classes. It reads no word of the text, so it works alike in every language.

    grade    what each block is by itself                                   measures.py
    sums     what containers hold, and which are lists of something else    measures.py
    cut      menus, margins, forms, and what a class calls none of the text
    root     the core, where most prose is, and the root around it that adds more of the same
    keep     which blocks of the root are kept, which before and behind it

In: blocks and nodes as skeleton.py names their columns. Out: B_KEEP of each block (0 or not).

What always holds:

- Each step is a sweep over blocks or nodes, or a climb of at most a few levels, so the time is
  linear in the page. The climb to the root is as high as the page is deep (512 levels), and looks
  for others like an <article>, or like a container called the body, once at most: each look is a
  sweep.
- All numbers are whole, so the text is the same on every machine. It is part of what a fingerprint
  is made of: a change of any rule is another PAGE_RULES.
- N_CUT of a container is handed down: what stands in something cut is cut.
- A rule that believes a word asks how much prose the container holds: what holds half of the page
  is the page. Words of dialogs, and of comments behind an article, are believed whatever it holds,
  since both outgrow short articles.

Words of classes name either a purpose (ad, related, share) or a shape (widget, slide, gallery,
caption). Shapes are boilerplate on most pages, and the page itself on some: a list article of
slides, or a page that a builder has put together from widgets. Each of these parts is small, so
each went by its word. Now shapes are not believed where they hold most of the prose between them.

What was tried and is not done, measured on the strings of 497 reviewed pages (F1 .9432 with the
rules as they are, precision .9330):

- Trust no word where its boxes hold most of the prose, purposes as well as shapes: the teasers of
  one page of a topic became its text (3,158 letters became 75,142).
- Count shapes however little they hold: what margins say of the site became the text of short pages
  (precision .9312). Hence SHAPES_MIN.
- Keep small boxes with a weak word (box, meta, tools) where they hold a heading: short recipes keep
  their ingredients, but blocks of 20 to 200 letters came in on a dozen of these pages, and no
  string that was missing.

Two more are left out without a trial. Hidden slides are no text, since consent dialogs are hidden
the same way and are longer than many articles. Boxes side by side without headings are no list,
since threads of comments look the same.

README.md has all rules and their reasons; tests/core/pages/test_lists.py and test_select.py have
pages for each.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.measures import (
    ITEM,
    N_BEFORE,
    N_COUNTED,
    N_CUT,
    N_H1,
    N_LENGTH,
    N_LINK,
    N_PARAGRAPHS,
    N_PROSE,
    N_PURE,
    N_SCORE,
    N_TEXT,
    N_TITLES,
    N_UNRELATED,
    N_WAY,
    N_WHOLE,
    NOTICE,
    PROSE,
    find_unrelated,
    grade_blocks,
    is_teasers,
    is_unrelated,
    prose_before,
    sum_up,
    unrelated_prose,
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
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
)

# ---- cut

# Which words are believed: all; those of dialogs and comments; those of comments behind an article
ALL_WORDS, SURE_WORDS, NO_WORDS = range(3)
_BELIEVED = (names.NEGATIVE, names.SURE | names.COMMENT, names.COMMENT)

# Percent of the page's prose: what holds so much is the page, whatever its class says.
HOLDS_PAGE = 50
HOLDS_MIN = 200  # letters of prose: what holds less never is
# Letters of prose in slides and widgets: what a margin says of a site is shorter.
SHAPES_MIN = 1_500
HOLDS_ARTICLE = 20  # percent: <article> and <main> that hold so much
PARAGRAPH_MIN = 80  # letters of prose: a paragraph of an article as long is no boilerplate
COMMENTS_AFTER = 60  # letters of prose: comments behind so much are comments, however many they are
HEADERS_AFTER = 60  # letters of prose: a <header> behind so much is that of a part, not of the page
# Letters without prose: a box as short goes by a weak word (a byline, a date, a credit)
WEAK_LENGTH = 120
ARTICLE_PROSE = 200  # letters of prose that make one of several articles in a page

# Of tables: their classes are of layout.
_PARTS = names.set_of("table tr td th tbody thead tfoot dt dd")
_BOILERPLATE = names.set_of("nav footer aside button label option menu figcaption")
_MARGINS = names.set_of("nav footer aside button option label")
_TEXT = names.set_of("p li pre ul ol dl table blockquote h1 h2 h3 h4 h5 h6")  # goes by no weak word


@fused
def _holds_quotation(room: Any, k: Any) -> Any:
    """Whether a box begins with one: a post from elsewhere."""
    first = room.nodes[k, N_FIRST]
    if first >= room.nodes[k, N_END]:
        return False
    return (room.nodes[room.blocks[first, B_NODE], N_ABOVE] & names.IN_QUOTE) != 0


@fused
def _is_marked(room: Any, k: Any, total: Any, believed: Any) -> Any:
    """
    Whether its element or its words say that it is none of the text; not of what is plainly text.
    """
    nodes = room.nodes
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    above = nodes[nodes[k, N_PARENT], N_ABOVE]
    if tag == names.BUTTON and above & names.IN_HEADING:  # it opens the answer to a question
        return False
    prose = nodes[k, N_PROSE]
    if (
        (tag == names.ARTICLE or tag == names.MAIN)
        and not own & names.COMMENT
        and prose * 100 >= HOLDS_ARTICLE * total
    ):
        return False
    if above & (names.IN_ARTICLE | names.IN_MAIN) and (
        (tag == names.P and prose >= PARAGRAPH_MIN) or _holds_quotation(room, k)
    ):
        return False
    return _BOILERPLATE[tag] or (
        (own & believed) != 0 and not _PARTS[tag] and not names.H1 <= tag <= names.H6
    )


@fused
def _is_shape(nodes: Any, k: Any) -> Any:
    """Whether it is a caption, or its words name a shape; dialogs and comments are none."""
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & (names.SURE | names.COMMENT | names.HIDDEN):
        return False
    return tag == names.FIGCAPTION or (own & names.SHAPE != 0 and not _BOILERPLATE[tag])


@fused
def _shapes_hold_page(room: Any) -> Any:
    """
    Whether captions, slides and widgets outside margins hold most of the page's prose between them.

    One that holds most of it alone is the page anyway, and what it holds is looked at in its place.
    """
    nodes = room.nodes
    half = max(nodes[0, N_PROSE] * HOLDS_PAGE // 100, SHAPES_MIN)
    sum_of_prose = np.int64(0)
    titles = np.int64(0)
    nodes[0, N_COUNTED] = 0
    for k in range(1, room.state[NODES]):
        prose = nodes[k, N_PROSE]
        counted = nodes[nodes[k, N_PARENT], N_COUNTED]
        if not counted and prose < half:
            if _is_shape(nodes, k):
                sum_of_prose += prose
                titles += nodes[k, N_TITLES]
                counted = 1
            elif nodes[k, N_OWN] & names.NEGATIVE or _MARGINS[nodes[k, N_TAG]]:
                counted = 1
        nodes[k, N_COUNTED] = counted
    return sum_of_prose >= half and not is_teasers(titles, sum_of_prose)


@fused
def _holds_much(nodes: Any, k: Any) -> Any:
    """Whether it holds most of the page's prose, or of the part's that it is in."""
    prose = nodes[k, N_PROSE]
    whole = nodes[nodes[k, N_PARENT], N_WHOLE]
    in_part = whole < nodes[0, N_WHOLE]
    return (in_part or prose >= HOLDS_MIN) and prose * 100 >= HOLDS_PAGE * whole


@fused
def _is_cut(room: Any, k: Any, total: Any, words: Any) -> Any:
    nodes = room.nodes
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & names.HIDDEN:
        return True
    is_part = nodes[k, N_WHOLE] != nodes[nodes[k, N_PARENT], N_WHOLE]
    little = not is_part and not _holds_much(nodes, k)
    if _is_marked(room, k, total, _BELIEVED[words]):
        if (
            little
            or tag == names.NAV
            or tag == names.FOOTER
            or (own & names.SURE and words != NO_WORDS)
        ):
            return True
        if own & names.COMMENT and nodes[k, N_BEFORE] >= COMMENTS_AFTER:
            return True
    if little and (
        tag == names.FORM
        or (
            tag == names.HEADER
            and nodes[k, N_BEFORE] < HEADERS_AFTER
            and not nodes[nodes[k, N_PARENT], N_ABOVE] & (names.IN_ARTICLE | names.IN_MAIN)
        )
    ):
        return True
    weak = (
        (own & names.WEAK) != 0 and not own & names.POSITIVE and not _TEXT[tag] and not _PARTS[tag]
    )
    return (
        weak
        and nodes[k, N_PROSE] == 0
        and nodes[k, N_LENGTH] < WEAK_LENGTH
        and not _holds_quotation(room, k)
    )


@fused
def cut_boilerplate(room: Any, words: Any) -> Any:
    """
    Set N_CUT of what is cut out, and of all below it; how many containers. `words`: which are
    believed.
    """
    nodes = room.nodes
    count = 0
    by_shapes = _shapes_hold_page(room)
    nodes[0, N_WHOLE] = nodes[0, N_PROSE]
    for k in range(1, room.state[NODES]):
        cut = nodes[nodes[k, N_PARENT], N_CUT]
        is_part = by_shapes and nodes[k, N_PROSE] > 0 and _is_shape(nodes, k)
        nodes[k, N_WHOLE] = nodes[k, N_PROSE] if is_part else nodes[nodes[k, N_PARENT], N_WHOLE]
        if cut or _is_cut(room, k, nodes[0, N_PROSE], words):
            nodes[k, N_CUT] = 1
            count += 1
    return count


@fused
def _articles_are_parts(room: Any) -> Any:
    """Whether an h1 stands outside all articles with one of their own: then they are its parts."""
    nodes = room.nodes
    titles = room.nodes[0, N_H1]
    for k in range(1, room.state[NODES]):
        if nodes[k, N_TAG] == names.ARTICLE and nodes[k, N_H1] == 1:
            titles -= 1
    return titles > 0


@fused
def cut_later_articles(room: Any) -> Any:
    """
    Of several <article> with an h1 of their own, keep the first: the page goes on with other pages.

    Returns how many are cut. Where an h1 stands above all of them they are parts of one page, and
    none is.
    """
    nodes = room.nodes
    end = -1
    count = 0
    if _articles_are_parts(room):
        return count
    for k in range(1, room.state[NODES]):
        if nodes[nodes[k, N_PARENT], N_CUT]:
            nodes[k, N_CUT] = 1
        if (
            nodes[k, N_CUT]
            or nodes[k, N_TAG] != names.ARTICLE
            or nodes[k, N_H1] != 1
            or nodes[k, N_PROSE] < ARTICLE_PROSE
        ):
            continue
        if end < 0:
            end = nodes[k, N_END]
        elif nodes[k, N_FIRST] >= end:
            nodes[k, N_CUT] = 1
            count += 1
    return count


# ---- root

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


# ---- keep

KEPT = 1
KEPT_HEADING = 2

BESIDE_PARAGRAPHS = 3  # paragraphs of prose side by side: a <div> between them is an insert ...
INSERT_LENGTH = 600  # ... when it is shorter than this and so much of it is links
INSERT_LINKS = 25  # percent
LOOSE_LENGTH = 250  # ... or when its own text is as short
LOOSE_PARAGRAPHS = 2  # a block that is no prose needs fewer
LISTS_UP = 6  # containers in which the list of an item is looked for
PLAIN_MIN = 40  # letters outside links that make a block of links a text
LEAD_LENGTH = 80  # letters of prose outside the root
LEAD_LINKS = 20  # percent
LEAD_UP = 5  # containers around a root outside any article in which a lead is looked for
GAP = 40  # letters left out behind a heading that leave it its text

_LISTS = names.set_of("ul ol dl table")


@fused
def _count_paragraphs(room: Any) -> None:
    """N_PARAGRAPHS of each container."""
    blocks = room.blocks
    nodes = room.nodes
    nodes[: room.state[NODES], N_PARAGRAPHS] = 0
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        if nodes[node, N_TAG] == names.P and blocks[b, B_KEEP] == PROSE:
            nodes[nodes[node, N_PARENT], N_PARAGRAPHS] += 1


@fused
def cut_inserts(room: Any, root: Any) -> None:
    """
    Cut boxes of links between paragraphs: advertisements and pointers to other pages. Posts that
    are quoted stay.
    """
    blocks = room.blocks
    nodes = room.nodes
    _count_paragraphs(room)
    for k in range(root + 1, room.state[NODES]):
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
    """Whether the text before a list is kept and ends with a colon: the list belongs to it."""
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
    """Beside how many paragraphs text stands in a <div> of its own."""
    tag = nodes[node, N_TAG]
    return (
        nodes[max(nodes[node, N_PARENT], 0), N_PARAGRAPHS]
        if (tag == names.DIV or tag == names.SECTION)
        else 0
    )


@fused
def _keeps(room: Any, b: Any, root: Any) -> Any:
    """
    Decide on a block of the root. Prose stays, headings stay for now, and of the rest whatever is
    more than links.
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
    if listed > root:  # a list of links is one of which most is nothing but links
        own_words = own_words or nodes[listed, N_PURE] * 2 <= nodes[listed, N_LENGTH]
        return KEPT if own_words or _is_announced(room, listed) else 0
    if own_words:
        return 0 if _loose_beside(nodes, node) >= LOOSE_PARAGRAPHS else KEPT
    outside = length * (blocks[b, B_BYTES] - blocks[b, B_LINK]) // blocks[b, B_BYTES]
    return KEPT if outside >= PLAIN_MIN else 0


@fused
def _is_lead(blocks: Any, b: Any) -> Any:
    """Prose that may stand outside the root."""
    links = blocks[b, B_LINK] * 100 < LEAD_LINKS * blocks[b, B_BYTES]
    return blocks[b, B_KEEP] == PROSE and blocks[b, B_LENGTH] >= LEAD_LENGTH and links


@fused
def _anchor(nodes: Any, root: Any) -> Any:
    """Where leads are looked for: the article, or a few containers around the root."""
    node = root
    while node > 0 and nodes[node, N_TAG] != names.ARTICLE:
        node = nodes[node, N_PARENT]
    if node == 0:
        node = root
        for _ in range(LEAD_UP):
            if nodes[node, N_PARENT] > 0:  # the whole page is too far
                node = nodes[node, N_PARENT]
    return node


@fused
def keep_blocks(room: Any, root: Any) -> Any:
    """Set B_KEEP of every block; returns the letters that are kept."""
    blocks = room.blocks
    nodes = room.nodes
    first = nodes[root, N_FIRST]
    last = nodes[root, N_END]
    anchor = _anchor(nodes, root)
    begin = nodes[anchor, N_FIRST]
    end = nodes[anchor, N_END] if nodes[anchor, N_ABOVE] & names.IN_ARTICLE else last
    for b in range(room.state[BLOCKS]):
        keep = 0
        if not nodes[blocks[b, B_NODE], N_CUT] and blocks[b, B_KEEP] != NOTICE:
            if first <= b < last:
                keep = _keeps(room, b, root)
            elif begin <= b < end and _is_lead(blocks, b):
                keep = KEPT
        blocks[b, B_KEEP] = keep
    return _drop_bare_headings(room)


@fused
def _drop_bare_headings(room: Any) -> Any:
    """
    Drop each heading without text before the next heading, or before much that is left out. Returns
    the letters kept.
    """
    blocks = room.blocks
    kept = 0
    follows = False
    b = room.state[BLOCKS] - 1
    while b >= 0:
        keep = blocks[b, B_KEEP]
        length = blocks[b, B_LENGTH]
        if keep == KEPT:
            follows = True
        elif keep == KEPT_HEADING:
            if not follows:
                blocks[b, B_KEEP] = 0
        else:
            follows = follows and length < GAP
        if blocks[b, B_KEEP]:
            kept += length
        b -= 1
    return kept


@fused
def keep_most(room: Any) -> Any:
    """All of the page but links, margins and what is marked; returns the letters that are kept."""
    blocks = room.blocks
    nodes = room.nodes
    for k in range(1, room.state[NODES]):
        aside = (
            _MARGINS[nodes[k, N_TAG]] or (nodes[k, N_OWN] & (names.HIDDEN | names.NEGATIVE)) != 0
        )
        nodes[k, N_CUT] = 1 if aside or nodes[nodes[k, N_PARENT], N_CUT] else 0
    grade_blocks(room)
    kept = 0
    for b in range(room.state[BLOCKS]):
        text = blocks[b, B_KEEP] != NOTICE and blocks[b, B_LINK] * 10 <= blocks[b, B_BYTES] * 9
        blocks[b, B_KEEP] = KEPT if text and not nodes[blocks[b, B_NODE], N_CUT] else 0
        if blocks[b, B_KEEP]:
            kept += blocks[b, B_LENGTH]
    return kept


@fused
def keep_all(room: Any, least: Any) -> Any:
    """All text but what is hidden, if that is at least so much; returns whether."""
    blocks = room.blocks
    length = 0
    for b in range(room.state[BLOCKS]):
        length += 0 if room.nodes[blocks[b, B_NODE], N_OWN] & names.HIDDEN else blocks[b, B_LENGTH]
    if length < least:
        return False
    for b in range(room.state[BLOCKS]):
        blocks[b, B_KEEP] = 0 if room.nodes[blocks[b, B_NODE], N_OWN] & names.HIDDEN else KEPT
    return True


# ---- all of it

LITTLE = 300  # letters: less is looked at again
MUCH_MORE = 4  # times as much must be found then
MUCH_MORE_TITLED = 12  # where the little has a text below an h1 ...
TITLED_MIN = 60  # ... of so many letters: a short page
ENOUGH = 100  # letters that another look must find
SCANT = 30  # letters of main content, below which all text is taken ...
ALL_IS_MORE = 10  # ... if it is so many times as much: two indexes of one kind share their headings


@apart
def select(room: Any) -> Any:
    """
    Set B_KEEP of the page's blocks; returns whether all text was taken.

    All is taken where next to nothing is main content.

    A page whose words of classes hide its text is looked at again with fewer of them believed.
    A page without a core gives all but links and margins; if that is next to nothing, all.
    """
    kept, _ = _attempt(room, ALL_WORDS)
    if kept >= LITTLE:
        return False
    least = kept * (MUCH_MORE_TITLED if kept >= TITLED_MIN and _has_title(room) else MUCH_MORE)
    for words in range(SURE_WORDS, NO_WORDS + 1):
        kept, teasers = _attempt(room, words)
        if kept >= max(least, ENOUGH) and not teasers:
            return False
    most = keep_most(room)
    if most >= max(least, 1):
        if most < SCANT:
            keep_all(room, most * ALL_IS_MORE)
        return True
    kept, _ = _attempt(room, ALL_WORDS)
    return kept < SCANT and keep_all(room, kept * ALL_IS_MORE)


@apart
def _attempt(room: Any, words: Any) -> Any:
    """
    Choose the blocks, believing these words; returns the letters kept, and whether of teasers.
    """
    grade_blocks(room)
    prose_before(room)
    sum_up(room)
    if cut_boilerplate(room, words) > 0:
        sum_up(room)
    if cut_later_articles(room) + items_are_prose(room) > 0:
        sum_up(room)
    find_unrelated(room)
    core = find_core(room)
    root = find_root(room, core)
    if root != core:
        prune(room, core, root)
        sum_up(room)
    teasers = is_teasers(room.nodes[root, N_TITLES], room.nodes[root, N_PROSE])
    cut_inserts(room, root)
    return keep_blocks(room, root), teasers


@fused
def _has_title(room: Any) -> Any:
    """Whether an h1 is kept."""
    for b in range(room.state[BLOCKS]):
        if room.blocks[b, B_KEEP] and room.nodes[room.blocks[b, B_NODE], N_TAG] == names.H1:
            return True
    return False
