"""
Finds the region: the part of a page that its markup names as the page. All else is cut.

Lengths alone take the longest prose of a page for its text. On a short page that is the text of a
consent box, or a slogan, which all pages of a site share, so two of them would be equal. Markup
knows better: there is one `<main>`, or one `<article>`, or one box with the page's heading. The
heading is what the `<title>` repeats, or else the h1.

Before that, `uncover` shows what is hidden until a script shows it, where that is the page. A page
that waits for its script, or that stands behind an open dialog, hides its text the same way as
others hide their dialogs. So something hidden must look like content, and what is shown must not;
or, beside a sentence, the hidden must hold most of all letters.
Beside content, what is hidden must be much more, and be a part of an article (its body behind a
lead, or slides), or hold the page's heading or stand behind it. A wall that asks for consent or
money may have a heading of its own: if that is all that is like content, and the title is repeated
by a hidden heading alone, a third is enough. Closed answers of an FAQ are text wherever they stand.

The region is a range of the rows of containers, and one of blocks. All later steps go over these
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.pages import names
from worker.core.pages.heading import (
    HEADLINE_MIN,
    MENU,
    begin_at_heading,
    find_headline,
    foreign_before,
    heading_of,
)
from worker.core.pages.measures import (
    N_BEFORE,
    N_BOXED,
    N_BOXES,
    N_CUT,
    N_H1,
    N_PROSE,
    N_TITLES,
    PROSE,
    prose_before,
    sum_up,
)
from worker.core.pages.skeleton import (
    B_BYTES,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_STOPS,
    BLOCKS,
    HEADING,
    MARK,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_MARK,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
    REGION,
    REGION_END,
    TITLE_SIZE,
    common_container,
)
from worker.core.pages.titles import repeats_title

# A region holds this much of the page's prose, in percent:
MAIN_SHARE = 5  # a <main>
ARTICLE_SHARE = 10  # the only article, or the only one with an h1
H1_SHARE = 10  # the box with all h1, directly in <body> ...
INNER_SHARE = 20  # ... or in wrappers around the whole page: some of these are parts of an article
HEADLINE_SHARE = 50  # ... or, if it is not the h1 that repeats the title
BOX_SHARE = 5  # ... and in any case this much, also of what boxes before the heading hold
BESIDE_MORE = 2  # times the prose of a <main> or an article that stands beside the page
LIST_HEADS = 3  # an article is the lead of a list under so many headings, and no region
LEAD_MIN = 120  # letters of prose between a heading and the part, which is then no region by itself
LEAD_SHARE = 50  # ... if both hold this percentage of the prose of the box around them

HIDDEN_PAGE = 150  # letters of prose that a hidden page has, at least ...
HIDDEN_PART = 3  # ... and a third of what is shown
HIDDEN_MOST = 100  # letters, links too, of a hidden box with twice as many as are shown
HIDDEN_MIN = 400  # the same of the hidden part of an article ...
# ... and twice as much as what is shown. Less would do for what is named as the body of an article,
# but shops call their hidden tabs "entry-content", too (WooCommerce).
HIDDEN_MORE = 2
HIDDEN_BODY = 10  # ... or so many times the letters of any text, behind the title's heading
SLIDES_MIN = 6  # hidden containers side by side: fewer may be the tabs of a shop
# Closed panels of a page; one behind a question counts twice. Fewer may be the terms of a shop, or
# a menu, a newsletter and a consent box.
PANELS_MIN = 6

_CONTENT = names.IN_ARTICLE | names.IN_MAIN
_OF_PAGES = _CONTENT | names.IN_HEADING | names.IN_LIST | names.IN_TABLE
_MARGIN = names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER | names.SURE | names.COMMENT
# While hidden containers are looked at: the outermost one around, and the prose in it.
N_VEIL = N_CUT
N_VEILED = N_BEFORE
# ... and of a container, how many hidden ones with prose stand directly in it, and their prose.
N_SLIDES = N_BOXES
N_SLIDES_PROSE = N_BOXED
# ... or what of a page it has.
N_LIKE_PAGE = N_BOXES


@fused
def uncover(room: Any, hidden: Any) -> None:
    """
    Show what is hidden where it is the page, or the greater part of an article.

    Args:
        hidden: letters of prose that are hidden.
    """
    if _find_veils(room):
        _uncover_most(room)
        room.nodes[: room.state[NODES], N_VEIL] = 0  # nothing is cut so far
    if hidden >= HIDDEN_PAGE:
        _uncover(room)


@apart
def _uncover_most(room: Any) -> None:
    """
    Show a hidden container that has most of all letters, links too, where nothing like content and
    little prose is shown: the page shows a sentence, and waits for its script with the rest. The
    container holds a heading or a list, as pages do.
    """
    nodes = room.nodes
    blocks = room.blocks
    prose, signs = _count_veiled(room)
    if signs or prose >= HIDDEN_PAGE:
        return
    nodes[: room.state[NODES], N_VEILED] = 0
    nodes[: room.state[NODES], N_LIKE_PAGE] = 0
    shown = 0
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        veil = nodes[node, N_VEIL]
        if veil > 0:
            nodes[veil, N_VEILED] += blocks[b, B_LENGTH]
            nodes[veil, N_LIKE_PAGE] |= (
                nodes[node, N_ABOVE] & _OF_PAGES & ~nodes[nodes[veil, N_PARENT], N_ABOVE]
            )
        elif not nodes[node, N_ABOVE] & (names.SURE | names.COMMENT):
            shown += blocks[b, B_LENGTH]
    for k in range(1, room.state[NODES]):
        is_page = nodes[k, N_VEIL] == k and nodes[k, N_LIKE_PAGE] > 0
        letters = nodes[k, N_VEILED] if is_page else 0
        if letters >= max(HIDDEN_MOST, HIDDEN_MORE * shown) and not nodes[k, N_ABOVE] & _MARGIN:
            nodes[k, N_OWN] &= ~names.HIDDEN
    _hand_down_hidden(room)


@fused
def _find_veils(room: Any) -> Any:
    """
    Find the outermost hidden container around each container. Its prose is not counted yet.
    Returns whether there is one.
    """
    nodes = room.nodes
    nodes[0, N_VEIL] = 0
    some = False
    for k in range(1, room.state[NODES]):
        veil = nodes[nodes[k, N_PARENT], N_VEIL]
        if veil == 0 and nodes[k, N_OWN] & names.HIDDEN:
            veil = k
            some = True
        nodes[k, N_VEIL] = veil
        nodes[k, N_VEILED] = 0
    return some


@fused
def _hand_down_hidden(room: Any) -> None:
    """Let containers be hidden that say so, and all in them; and no others."""
    nodes = room.nodes
    for k in range(1, room.state[NODES]):
        is_hidden = (nodes[k, N_OWN] | nodes[nodes[k, N_PARENT], N_ABOVE]) & names.HIDDEN
        nodes[k, N_ABOVE] = (nodes[k, N_ABOVE] & ~names.HIDDEN) | is_hidden


@apart
def _uncover(room: Any) -> None:
    nodes = room.nodes
    headline = find_headline(room)  # hidden or not: nothing is cut so far
    shown, signs = _count_veiled(room)
    titled = nodes[room.blocks[headline, B_NODE], N_VEIL] if headline >= 0 else np.int64(0)
    is_walled = titled > 0 and _is_walled(room, headline)
    letters = _letters_shown(room)
    answers = _are_answers(room, shown)
    for k in range(1, room.state[NODES]):
        veil = nodes[k, N_VEIL]
        if veil == 0 or nodes[k, N_ABOVE] & _MARGIN:
            continue
        prose = nodes[veil, N_VEILED]
        sign = (
            nodes[k, N_TAG] == names.H1
            or nodes[k, N_ABOVE] & _CONTENT
            or nodes[k, N_OWN] & names.BODY_WORD
        )
        if signs:
            around = nodes[veil, N_PARENT]
            if nodes[around, N_SLIDES] >= SLIDES_MIN:
                prose = nodes[around, N_SLIDES_PROSE]
            within = nodes[around, N_ABOVE] & _CONTENT or (sign and veil == titled)
            is_page = within and prose >= max(HIDDEN_MIN, HIDDEN_MORE * shown)
            behind = headline >= 0 and titled == 0 and _stands_behind(room, veil, headline)
            is_body = nodes[veil, N_VEILED] >= max(HIDDEN_PAGE, HIDDEN_BODY * letters)
            is_page = is_page or (behind and is_body)
            is_most = nodes[veil, N_VEILED] >= max(HIDDEN_PAGE, shown // HIDDEN_PART)
            is_page = is_page or (is_walled and sign and veil == titled and is_most)
        else:
            is_page = sign and prose >= max(HIDDEN_PAGE, shown // HIDDEN_PART)
        if is_page or (answers and _is_panel(room, veil)):
            nodes[veil, N_OWN] &= ~names.HIDDEN
    _hand_down_hidden(room)


@fused
def _is_walled(room: Any, headline: Any) -> Any:
    """
    Return whether a page stands hidden behind a wall: a hidden heading is half of the title, and
    what is shown has no heading that repeats it, and no prose in an article or a main.
    """
    nodes = room.nodes
    blocks = room.blocks
    above = nodes[blocks[headline, B_NODE], N_ABOVE]
    if not above & names.IN_HEADING or blocks[headline, B_BYTES] * 2 < room.state[TITLE_SIZE]:
        return False
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        above = nodes[node, N_ABOVE]
        if nodes[node, N_VEIL] > 0 or above & _MARGIN:
            continue
        if above & _CONTENT and blocks[b, B_KEEP] == PROSE:
            return False
        is_link = blocks[b, B_LINK] * 2 >= blocks[b, B_BYTES]
        is_heading = above & names.IN_HEADING and blocks[b, B_LENGTH] >= HEADLINE_MIN
        if is_heading and not is_link and repeats_title(room, b):
            return False
    return True


@fused
def _letters_shown(room: Any) -> Any:
    """Return the letters that are shown outside headings and margins."""
    nodes = room.nodes
    letters = np.int64(0)
    for b in range(room.state[BLOCKS]):
        node = room.blocks[b, B_NODE]
        if nodes[node, N_VEIL] == 0 and not nodes[node, N_ABOVE] & (_MARGIN | names.IN_HEADING):
            letters += room.blocks[b, B_LENGTH]
    return letters


@fused
def _stands_behind(room: Any, k: Any, heading: Any) -> Any:
    """Return whether a container stands behind a heading, in one box with it."""
    around = room.nodes[k, N_PARENT]
    return around > 0 and room.nodes[around, N_FIRST] <= heading < room.nodes[k, N_FIRST]


@fused
def _is_panel(room: Any, k: Any) -> Any:
    """
    Return whether a container is an outermost hidden one with prose that stands directly behind a
    heading or a button, beside it or beside a box that ends with it.
    """
    nodes = room.nodes
    b = nodes[k, N_FIRST] - 1
    if nodes[k, N_VEIL] != k or nodes[k, N_VEILED] == 0 or nodes[k, N_ABOVE] & _MARGIN:
        return False
    if b < nodes[nodes[k, N_PARENT], N_FIRST]:
        return False
    head = room.blocks[b, B_NODE]
    is_button = nodes[head, N_TAG] == names.BUTTON or nodes[head, N_OWN] & names.QUESTION
    return nodes[head, N_VEIL] == 0 and (is_button or nodes[head, N_ABOVE] & names.IN_HEADING)


@fused
def _are_answers(room: Any, shown: Any) -> Any:
    """
    Return whether the closed panels of a page are its text, as the answers of an FAQ are: they are
    many, or stand behind questions, and hold as much as is shown.
    """
    nodes = room.nodes
    panels = 0
    prose = 0
    for k in range(1, room.state[NODES]):
        if _is_panel(room, k):
            is_question = room.blocks[nodes[k, N_FIRST] - 1, B_STOPS] > 0
            panels += 1 + is_question
            prose += nodes[k, N_VEILED]
    return panels >= PANELS_MIN and prose >= max(HIDDEN_MIN, shown)


@fused
def _count_veiled(room: Any) -> Any:
    """
    Find the outermost hidden container around each container, and the prose that it hides.

    Margins and dialogs count nowhere. Returns the letters of prose shown, and whether anything
    shown looks like content: an h1, or prose in an article or a main.
    """
    nodes = room.nodes
    blocks = room.blocks
    signs = False
    _find_veils(room)
    for k in range(1, room.state[NODES]):
        is_head = nodes[k, N_TAG] == names.H1 and not nodes[k, N_ABOVE] & _MARGIN
        signs = signs or (is_head and nodes[k, N_VEIL] == 0)
    shown = 0
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        if blocks[b, B_KEEP] != PROSE or nodes[node, N_ABOVE] & _MARGIN:
            continue
        if nodes[node, N_VEIL] > 0:
            nodes[nodes[node, N_VEIL], N_VEILED] += blocks[b, B_LENGTH]
        else:
            shown += blocks[b, B_LENGTH]
            signs = signs or nodes[node, N_ABOVE] & _CONTENT != 0
    _count_slides(nodes, room.state[NODES])
    return shown, signs


@fused
def _count_slides(nodes: Any, count: Any) -> None:
    """Count the hidden containers with prose that stand side by side, and their prose."""
    nodes[:count, N_SLIDES : N_SLIDES_PROSE + 1] = 0
    for k in range(1, count):
        if nodes[k, N_VEIL] == k and nodes[k, N_VEILED] > 0:
            nodes[nodes[k, N_PARENT], N_SLIDES] += 1
            nodes[nodes[k, N_PARENT], N_SLIDES_PROSE] += nodes[k, N_VEILED]


@fused
def cut_to_region(room: Any) -> None:
    """
    Find the region, and sum up what its containers hold. Boxes before its heading are cut.
    """
    nodes = room.nodes
    state = room.state
    state[REGION] = 0
    state[REGION_END] = state[NODES]
    sum_up(room)
    region = _find_region(room)
    if region > 0:
        end = region + 1
        while end < state[NODES] and nodes[end, N_PARENT] >= region:
            end += 1
        state[REGION] = region
        state[REGION_END] = end
    if begin_at_heading(room):
        prose_before(room)
        sum_up(room)


@fused
def _find_region(room: Any) -> Any:
    """The region: a <main>, an article, or the box with all h1; 0 for the whole page."""
    nodes = room.nodes
    main = np.int64(0)  # the outermost <main> with prose, if there is but one
    mains = 0
    article = np.int64(0)
    articles = 0
    titled = np.int64(0)  # the outermost article with an h1
    titleds = 0
    first = np.int64(0)  # the first and the last h1, outside dialogs and menus
    last = np.int64(0)
    heads = 0
    k = room.state[MARK]
    while k > 0:
        tag = nodes[k, N_TAG]
        above = nodes[nodes[k, N_PARENT], N_ABOVE]
        own = nodes[k, N_OWN]
        shown = not nodes[k, N_CUT]
        if shown and (tag == names.MAIN or own & names.IN_MAIN) and not above & names.IN_MAIN:
            if nodes[k, N_PROSE] > 0:
                main = k
                mains += 1
        elif shown and tag == names.ARTICLE and not (above & names.IN_ARTICLE or own & names.SURE):
            if nodes[k, N_PROSE] > 0:
                article = k
                articles += 1
                if nodes[k, N_H1] > 0:
                    titled = k
                    titleds += 1
        elif shown and nodes[k, N_H1] > 0 and tag == names.H1 and not (above | own) & MENU:
            first = k
            last = max(last, k)
            heads += 1
        k = nodes[k, N_MARK]
    headline = find_headline(room)
    room.state[HEADING] = headline
    if headline < 0 and heads == 1:
        room.state[HEADING] = heading_of(nodes, first)
    is_main = mains == 1 and _holds(nodes, main, MAIN_SHARE)
    part = main if is_main else np.int64(0)
    if not is_main and titleds == 1 and heads == 1 and _holds(nodes, titled, ARTICLE_SHARE):
        part = titled
    elif not is_main and articles == 1 and _holds(nodes, article, ARTICLE_SHARE):
        part = article
    if part == 0 or _is_beside_page(room, headline, part):
        return _titled_box(room, first, last, headline)
    if not is_main and _leads_list(nodes, part):
        return np.int64(0)
    return _part_with_lead(room, headline, part)


@fused
def _is_beside_page(room: Any, headline: Any, k: Any) -> Any:
    """
    Return whether a <main> or an article stands beside the page: the box with the h1 that repeats
    the title, as far as it holds nothing of `k`, has BESIDE_MORE times its prose behind the h1.
    """
    nodes = room.nodes
    if headline < 0 or nodes[room.blocks[headline, B_NODE], N_TAG] != names.H1:
        return False
    if nodes[k, N_FIRST] <= headline < nodes[k, N_END]:
        return False
    first = nodes[k, N_FIRST]
    box = np.int64(0)
    around = room.blocks[headline, B_NODE]
    while around > 0 and not nodes[around, N_FIRST] <= first < nodes[around, N_END]:
        box = around
        around = nodes[box, N_PARENT]
    end = nodes[box, N_END]
    return box > 0 and _lead_behind(room, headline, end, end) > BESIDE_MORE * nodes[k, N_PROSE]


@fused
def _lead_behind(room: Any, heading: Any, box_end: Any, end: Any) -> Any:
    """
    Return the letters of prose behind a heading, without those in margins: up to the block where
    its box ends, and up to `end` what stands in no box.
    """
    nodes = room.nodes
    blocks = room.blocks
    lead = np.int64(0)
    for b in range(heading + 1, end):
        node = blocks[b, B_NODE]
        is_marked = nodes[node, N_ABOVE] & (_MARGIN | names.NEGATIVE)
        if blocks[b, B_KEEP] != PROSE or nodes[node, N_CUT] or is_marked:
            continue
        around = nodes[node, N_PARENT] if nodes[node, N_TAG] == names.P else node
        if b < box_end or nodes[around, N_END] > end:
            lead += blocks[b, B_LENGTH]
    return lead


@fused
def _part_with_lead(room: Any, headline: Any, part: Any) -> Any:
    """
    A <main> or an article; or what is around it and a heading with a lead before it. An h1 that no
    title repeats may be the site's name over its slogan, so its lead is no longer than the part.
    """
    nodes = room.nodes
    heading = room.state[HEADING]
    lead = _lead_before(room, heading, part)
    if lead < LEAD_MIN or (headline < 0 and lead > nodes[part, N_PROSE]):
        return part
    box = _box_of(nodes, room.blocks[heading, B_NODE], part)
    is_most = (lead + nodes[part, N_PROSE]) * 100 >= LEAD_SHARE * nodes[box, N_PROSE]
    return box if is_most else part


@fused
def _lead_before(room: Any, heading: Any, part: Any) -> Any:
    """
    Return the letters of prose between a heading and the part that it stands before, in one box
    with the heading or in none; 0 if it stands elsewhere.

    Such a page has its title and its own words above what <main> or an article holds, and that may
    be the same on all its pages.
    """
    nodes = room.nodes
    end = nodes[part, N_FIRST]
    box = room.blocks[heading, B_NODE] if heading >= 0 else np.int64(0)
    if box == 0 or nodes[box, N_END] > end:
        return np.int64(0)
    box_end = end
    while nodes[box, N_END] <= end:  # the page ends behind the part
        if nodes[box, N_TAG] == names.HEADER:  # these are cut
            return np.int64(0)
        box_end = nodes[box, N_END]
        box = nodes[box, N_PARENT]
    return _lead_behind(room, heading, box_end, end)


@fused
def _titled_box(room: Any, first: Any, last: Any, headline: Any) -> Any:
    """
    The box around the block that repeats the title, if there is one; else around all h1, from
    `first` to `last`; 0 for none. What boxes before a heading hold is no part of the whole.
    """
    nodes = room.nodes
    heading = headline if headline >= 0 or first != last else heading_of(nodes, first)
    is_other = headline >= 0 and (first != last or first != room.blocks[headline, B_NODE])
    if is_other:
        first = room.blocks[headline, B_NODE]
        last = first
    box = _box_of(nodes, first, last)
    share = HEADLINE_SHARE if is_other else INNER_SHARE
    if nodes[box, N_PARENT] <= 0:
        share = H1_SHARE
    whole = nodes[0, N_PROSE]
    if heading >= 0:
        whole -= foreign_before(room, np.int64(0), heading)
    is_box = nodes[box, N_PROSE] * 100 >= share * whole
    return box if is_box and _holds(nodes, box, BOX_SHARE) else np.int64(0)


@fused
def _holds(nodes: Any, k: Any, share: Any) -> Any:
    """Return whether a container holds this percentage of the page's prose."""
    return nodes[k, N_PROSE] * 100 >= share * nodes[0, N_PROSE]


@fused
def _leads_list(nodes: Any, k: Any) -> Any:
    """
    Return whether an article is the lead of a list: as much prose stands beside it, under headings.
    """
    around = nodes[k, N_PARENT]
    heads = nodes[k, N_TITLES] - nodes[around, N_TITLES]
    return heads >= LIST_HEADS and nodes[around, N_PROSE] >= 2 * nodes[k, N_PROSE]


@fused
def _box_of(nodes: Any, first: Any, last: Any) -> Any:
    """
    The outermost container around both headings beside which there is other prose; 0 for none.

    Wrappers around the whole page are no boxes.
    """
    around = common_container(nodes, first, last)
    box = np.int64(0)
    while around > 0:
        parent = nodes[around, N_PARENT]
        if nodes[around, N_PROSE] < nodes[parent, N_PROSE]:
            box = around
        around = parent
    return box
