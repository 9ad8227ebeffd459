"""
Cuts everything that is not the page's own text: menus, margins, forms, boxes whose class names say
so, and articles after the first.

Two signs are weighed against each other: what an element or a word of a class says, and how much of
the page's prose the container holds. A word alone proves little, since authors name things as they
like. So a container with most of the prose stays, under any name. `_is_cut` shows the order in
which the signs are looked at. A container hands N_CUT down to all that it holds.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import fused
from worker.core.pages import names
from worker.core.pages.measures import (
    N_BEFORE,
    N_COUNTED,
    N_CUT,
    N_H1,
    N_HEADS,
    N_LENGTH,
    N_LINK,
    N_PROSE,
    N_TEXT,
    N_TITLES,
    N_WHOLE,
    PROSE,
    is_teasers,
)
from worker.core.pages.skeleton import (
    B_BYTES,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    HEADING,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_OWN,
    N_PARENT,
    N_TAG,
    REGION,
    REGION_END,
)

# Which words are believed: all; those of dialogs and comments; those of comments behind an article
ALL_WORDS, SURE_WORDS, NO_WORDS = range(3)
_BELIEVED = (names.NEGATIVE, names.SURE | names.COMMENT, names.COMMENT)

# All limits count letters of prose, or a percentage of the page's prose, unless they say otherwise.
HOLDS_PAGE = 50  # percent: a container with as much is the page itself, under any class name
HOLDS_MIN = 200  # a container with less is never the page
PARTS_MIN = 1_500  # slides and widgets with less are not the page: a margin may have as much
HEADED_MIN = 600  # the same of a series of boxes with headings
SERIES_MIN = 3  # boxes: a series of fewer is not the page
HOLDS_ARTICLE = 20  # percent: an <article> or a <main> with as much is not boilerplate
PARAGRAPH_MIN = 80  # a paragraph of an article with as much is not boilerplate
COMMENTS_AFTER = 60  # a class "comment" is believed if as much stands before the box
THREAD = 80  # percent of prose and items: comments with as much, and less before them, are the page
VALUES_BEFORE = 120  # letters: the same of text that is no prose
CAPTIONS_BESIDE = 600  # a caption is text of a page with less
HEADERS_AFTER = 60  # a <header> with as much before it heads a part of the page, not the page
WEAK_LENGTH = 120  # letters, none of prose: a weak word cuts a shorter box (byline, date, credit)
ARTICLE_PROSE = 200  # an <article> with less is not counted as one of several

# Class names of parts of tables describe the layout, so they cut nothing.
_PARTS = names.set_of("table tr td th tbody thead tfoot dt dd")
_BOILERPLATE = names.set_of("nav footer aside button label option menu figcaption")
_WHOLE = names.set_of("html body main article")  # a consent tool gives these its classes, too
MARGINS = names.set_of("nav footer aside button option label")
# A weak word cuts none of these.
_TEXT = names.set_of("p li pre ul ol dl table blockquote h1 h2 h3 h4 h5 h6")


@fused
def _holds_quotation(room: Any, k: Any) -> Any:
    """Return whether a box begins with a quotation, as an embedded post from another site does."""
    first = room.nodes[k, N_FIRST]
    if first >= room.nodes[k, N_END]:
        return False
    return (room.nodes[room.blocks[first, B_NODE], N_ABOVE] & names.IN_QUOTE) != 0


@fused
def _holds_heading(room: Any, k: Any) -> Any:
    """Return whether a container holds the page's heading, and that is an h1."""
    heading = room.state[HEADING]
    is_within = room.nodes[k, N_FIRST] <= heading < room.nodes[k, N_END]
    return is_within and room.nodes[room.blocks[heading, B_NODE], N_TAG] == names.H1


@fused
def _is_lead(room: Any, k: Any) -> Any:
    """
    Return whether a box is called a teaser and belongs to the page: prose without a link or a
    heading, in the box that the page's heading stands in before it, with no other prose before.
    """
    nodes = room.nodes
    own = nodes[k, N_OWN]
    heading = room.state[HEADING]
    if not own & names.TEASER or own & (names.SURE | names.COMMENT) or heading < 0:
        return False
    follows = nodes[nodes[k, N_PARENT], N_FIRST] <= heading < nodes[k, N_FIRST]
    is_text = nodes[k, N_PROSE] > 0 and nodes[k, N_LINK] == 0 and nodes[k, N_HEADS] == 0
    return follows and is_text and nodes[k, N_BEFORE] < COMMENTS_AFTER


@fused
def _has_text_before(room: Any, k: Any) -> Any:
    """
    Return whether a page says something before a container, whatever the boxes around it are
    called: prose, or other text without links, as values and captions are.
    """
    nodes = room.nodes
    prose = np.int64(0)
    letters = np.int64(0)
    for b in range(nodes[room.state[REGION], N_FIRST], nodes[k, N_FIRST]):
        node = room.blocks[b, B_NODE]
        above = nodes[node, N_ABOVE]
        if above & (names.HIDDEN | names.IN_NAV | names.IN_FOOTER | names.IN_HEADING):
            continue
        if room.blocks[b, B_LINK] * 2 >= room.blocks[b, B_BYTES]:
            continue
        if nodes[node, N_TAG] == names.FIGCAPTION:
            return True
        letters += room.blocks[b, B_LENGTH]
        prose += room.blocks[b, B_LENGTH] if room.blocks[b, B_KEEP] == PROSE else 0
    return prose >= COMMENTS_AFTER or letters >= VALUES_BEFORE


@fused
def _has_heading_of_its_own(room: Any, k: Any) -> Any:
    """
    Return whether comments begin with a heading that is neither the page's nor that of the first of
    them, or stand directly behind one: "3 comments".
    """
    nodes = room.nodes
    for b in range(max(nodes[k, N_FIRST] - 1, 0), nodes[k, N_FIRST] + 1):
        node = room.blocks[b, B_NODE]
        if b == room.state[HEADING] or not nodes[node, N_ABOVE] & names.IN_HEADING:
            continue
        while node > k and not nodes[node, N_OWN] & names.COMMENT:
            node = nodes[node, N_PARENT]
        if node <= k:
            return True
    return False


@fused
def _is_thread(room: Any) -> Any:
    """
    Return whether the comments of the region are the page, as the posts of an issue are: they hold
    most of its prose and items, next to nothing stands before them, and no heading names them.
    """
    nodes = room.nodes
    region = room.state[REGION]
    text = np.int64(0)
    for k in range(region + 1, room.state[REGION_END]):
        is_within = nodes[nodes[k, N_PARENT], N_ABOVE] & names.COMMENT
        if nodes[k, N_OWN] & names.COMMENT and not is_within and nodes[k, N_PROSE] > 0:
            if text == 0 and (_has_text_before(room, k) or _has_heading_of_its_own(room, k)):
                return False
            text += nodes[k, N_TEXT]
    return text > 0 and text * 100 >= THREAD * nodes[region, N_TEXT]


@fused
def _is_caption_of_page(room: Any, k: Any, total: Any) -> Any:
    """Return whether a container is a caption on a short page, and named like nothing else."""
    own = room.nodes[k, N_OWN]
    is_named = own & (names.SURE | names.COMMENT) or (
        own & names.NEGATIVE and not own & names.SHAPE
    )
    return room.nodes[k, N_TAG] == names.FIGCAPTION and not is_named and total < CAPTIONS_BESIDE


@fused
def _is_marked(room: Any, k: Any, total: Any, believed: Any) -> Any:
    """
    Return whether a container's element or class name says that it is not text. False for
    containers that are plainly text.
    """
    nodes = room.nodes
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    above = nodes[nodes[k, N_PARENT], N_ABOVE]
    if tag == names.BUTTON and above & names.IN_HEADING:  # it opens the answer to a question
        return False
    if _holds_heading(room, k):
        return tag == names.FOOTER
    if _is_lead(room, k) or _is_caption_of_page(room, k, total):
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
    """
    Return whether a container is a caption, or its class names a shape. Dialogs and comments are
    none.
    """
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & (names.SURE | names.COMMENT | names.HIDDEN):
        return False
    return tag == names.FIGCAPTION or (own & names.SHAPE != 0 and not _BOILERPLATE[tag])


@fused
def _is_headed(nodes: Any, k: Any) -> Any:
    """
    Return whether a container that is marked as something else has headings that are no links, as
    the parts of a list article have; or stands alone beside one. Dialogs, comments and margins at
    the page's ends are none.
    """
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & (names.SURE | names.COMMENT | names.HIDDEN):
        return False
    marked = tag == names.ASIDE or (own & names.NEGATIVE != 0 and not _BOILERPLATE[tag])
    around = nodes[k, N_PARENT]
    alone = nodes[around, N_PROSE] == nodes[k, N_PROSE]
    return marked and (nodes[k, N_TITLES] < 0 or (alone and nodes[around, N_TITLES] < 0))


@fused
def _is_part(nodes: Any, k: Any) -> Any:
    """Return whether a container may be one of many that together are the page."""
    return nodes[k, N_PROSE] > 0 and (_is_shape(nodes, k) or _is_headed(nodes, k))


@fused
def parts_hold_page(room: Any) -> Any:
    """
    Return whether captions, slides and widgets outside margins, and series of boxes with headings,
    hold most of the page's prose between them.

    One that alone holds most of it is the page itself, so the containers in it are looked at
    instead. In a series each box has the element and the words of the one before.
    """
    nodes = room.nodes
    region = room.state[REGION]
    half = max(nodes[region, N_PROSE] * HOLDS_PAGE // 100, HEADED_MIN)
    sum_of_prose = np.int64(0)
    headed = np.int64(0)
    titles = np.int64(0)
    last = 0  # of the series: its last box, how many there are, and their prose
    length = 0
    series = 0
    nodes[region, N_COUNTED] = 0
    for k in range(region + 1, room.state[REGION_END]):
        prose = nodes[k, N_PROSE]
        counted = nodes[nodes[k, N_PARENT], N_COUNTED]
        if not counted and prose < half:
            if _is_shape(nodes, k):
                sum_of_prose += prose
                titles += nodes[k, N_TITLES]
                counted = 1
            elif _is_headed(nodes, k):
                if nodes[k, N_OWN] != nodes[last, N_OWN] or nodes[k, N_TAG] != nodes[last, N_TAG]:
                    length = 0
                    series = 0
                last = k
                length += 1
                series += prose
                if length >= SERIES_MIN:
                    headed += series
                    series = 0
                counted = 1
            elif nodes[k, N_OWN] & names.NEGATIVE or MARGINS[nodes[k, N_TAG]]:
                counted = 1
        nodes[k, N_COUNTED] = counted
    if sum_of_prose + headed < PARTS_MIN:
        return headed >= half
    return sum_of_prose + headed >= half and not is_teasers(titles, sum_of_prose)


@fused
def _holds_much(nodes: Any, k: Any, total: Any) -> Any:
    """
    Return whether a container holds most of the prose of the region, or of the part that it is in.
    """
    prose = nodes[k, N_PROSE]
    whole = nodes[nodes[k, N_PARENT], N_WHOLE]
    in_part = whole < total
    return (in_part or prose >= HOLDS_MIN) and prose * 100 >= HOLDS_PAGE * whole


@fused
def _is_cut(room: Any, k: Any, total: Any, words: Any, is_thread: Any) -> Any:
    nodes = room.nodes
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    is_part = nodes[k, N_WHOLE] != nodes[nodes[k, N_PARENT], N_WHOLE]
    little = not is_part and not _holds_much(nodes, k, total)
    is_post = is_thread and own & names.COMMENT and not own & names.SURE
    if not is_post and _is_marked(room, k, total, _BELIEVED[words]):
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
    return (
        (own & names.WEAK) != 0
        and not own & names.POSITIVE
        and not _TEXT[tag]
        and not _PARTS[tag]
        and nodes[k, N_PROSE] == 0
        and 0 < nodes[k, N_LENGTH] < WEAK_LENGTH
        and not nodes[nodes[k, N_PARENT], N_ABOVE] & names.IN_HEADING
        and not _holds_quotation(room, k)
        and not _holds_heading(room, k)
        and not _is_caption_of_page(room, k, total)
    )


@fused
def cut_boilerplate(room: Any, words: Any) -> Any:
    """
    Set N_CUT of the region's containers that are cut out and of all containers in them.

    The region itself is never cut by its name: the page's markup says that it is the page.

    Args:
        words: which class names are believed: ALL_WORDS, SURE_WORDS or NO_WORDS.
    Returns:
        How many containers are cut.
    """
    nodes = room.nodes
    count = 0
    by_parts = parts_hold_page(room)
    region = room.state[REGION]
    total = nodes[region, N_PROSE]
    nodes[region, N_WHOLE] = total
    is_thread = _is_thread(room)
    for k in range(region + 1, room.state[REGION_END]):
        cut = nodes[nodes[k, N_PARENT], N_CUT] or nodes[k, N_CUT]
        is_part = by_parts and _is_part(nodes, k)
        nodes[k, N_WHOLE] = nodes[k, N_PROSE] if is_part else nodes[nodes[k, N_PARENT], N_WHOLE]
        # A dialog with an h1 may be all that there is.
        may_be_page = _WHOLE[nodes[k, N_TAG]] or nodes[k, N_H1] > 0
        is_terms = nodes[k, N_ABOVE] & names.TERMS != 0
        is_alike = nodes[k, N_OWN] & names.ALIKE != 0 and (is_terms or not may_be_page)
        if cut or is_alike or _is_cut(room, k, total, words, is_thread):
            nodes[k, N_CUT] = 1
            count += 1
    return count


@fused
def _articles_are_parts(room: Any) -> Any:
    """
    Return whether an h1 stands outside all articles that have an h1: then they are parts of one
    page.
    """
    nodes = room.nodes
    region = room.state[REGION]
    titles = room.nodes[region, N_H1]
    for k in range(region + 1, room.state[REGION_END]):
        if nodes[k, N_TAG] == names.ARTICLE and nodes[k, N_H1] == 1:
            titles -= 1
    return titles > 0


@fused
def cut_later_articles(room: Any) -> Any:
    """
    Keep the first <article> with an h1, and cut the others: they are other pages, shown below it.

    If an h1 stands outside all of them, they are parts of one page, and none is cut. Returns how
    many are cut.
    """
    nodes = room.nodes
    end = -1
    count = 0
    if _articles_are_parts(room):
        return count
    for k in range(room.state[REGION] + 1, room.state[REGION_END]):
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
