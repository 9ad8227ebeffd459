"""What is cut out of a page: menus, margins, forms, and what the words of its class say is none of the text."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.pages.judge_sums import N_BEFORE, N_CUT, N_H1, N_LENGTH, N_PROSE
from worker.core.pages.names import (
    ARTICLE,
    ASIDE,
    BLOCKQUOTE,
    BUTTON,
    COMMENT,
    DD,
    DL,
    DT,
    FIGCAPTION,
    FOOTER,
    FORM,
    H1,
    H6,
    HEADER,
    HIDDEN,
    IN_ARTICLE,
    IN_HEADING,
    IN_MAIN,
    IN_QUOTE,
    LABEL,
    LI,
    MAIN,
    MENU,
    NAV,
    NEGATIVE,
    OL,
    OPTION,
    POSITIVE,
    PRE,
    SURE,
    TABLE,
    TBODY,
    TD,
    TFOOT,
    TH,
    THEAD,
    TR,
    UL,
    WEAK,
    P,
    set_of,
)
from worker.core.pages.skeleton import B_NODE, N_ABOVE, N_END, N_FIRST, N_OWN, N_PARENT, N_TAG, NODES

# ---- which words are believed: all; those of dialogs and comments; those of comments behind an article
ALL_WORDS, SURE_WORDS, NO_WORDS = range(3)
_BELIEVED = (NEGATIVE, SURE | COMMENT, COMMENT)

HOLDS_PAGE = 50  # percent of the page's prose: what holds so much is the page, whatever its class says
HOLDS_MIN = 200  # letters of prose: what holds less never is
HOLDS_ARTICLE = 20  # percent: <article> and <main> that hold so much
PARAGRAPH_MIN = 80  # letters of prose: a paragraph of an article as long is none of the furniture
COMMENTS_AFTER = 60  # letters of prose: comments behind so much are comments, however many they are
WEAK_LENGTH = 120  # letters without prose: a box as short goes by a weak word (a byline, a date, a credit)
ARTICLE_PROSE = 200  # letters of prose that make one of several articles in a page

_PARTS = set_of(TABLE, TR, TD, TH, TBODY, THEAD, TFOOT, DT, DD)  # of tables: their classes are of layout
_ASIDE = set_of(NAV, FOOTER, ASIDE, BUTTON, LABEL, OPTION, MENU, FIGCAPTION)
_TEXT = set_of(P, LI, PRE, UL, OL, DL, TABLE, BLOCKQUOTE, *range(H1, H6 + 1))  # goes by no weak word


@fused
def _holds_quotation(room: Any, k: Any) -> Any:
    """Whether a box begins with one: a post from elsewhere."""
    first = room.nodes[k, N_FIRST]
    if first >= room.nodes[k, N_END]:
        return False
    return (room.nodes[room.blocks[first, B_NODE], N_ABOVE] & IN_QUOTE) != 0


@fused
def _is_marked(room: Any, k: Any, total: Any, believed: Any) -> Any:
    """Whether its element or its words say that it is none of the text; not of what is plainly text."""
    nodes = room.nodes
    own, tag, above = nodes[k, N_OWN], nodes[k, N_TAG], nodes[nodes[k, N_PARENT], N_ABOVE]
    if tag == BUTTON and above & IN_HEADING:  # it opens the answer to a question
        return False
    prose = nodes[k, N_PROSE]
    if (tag == ARTICLE or tag == MAIN) and not own & COMMENT and prose * 100 >= HOLDS_ARTICLE * total:
        return False
    if above & (IN_ARTICLE | IN_MAIN) and ((tag == P and prose >= PARAGRAPH_MIN) or _holds_quotation(room, k)):
        return False
    return _ASIDE[tag] or ((own & believed) != 0 and not _PARTS[tag] and not H1 <= tag <= H6)


@fused
def _is_cut(room: Any, k: Any, total: Any, words: Any) -> Any:
    nodes = room.nodes
    own, tag = nodes[k, N_OWN], nodes[k, N_TAG]
    if own & HIDDEN:
        return True
    little = nodes[k, N_PROSE] < HOLDS_MIN or nodes[k, N_PROSE] * 100 < HOLDS_PAGE * total
    if _is_marked(room, k, total, _BELIEVED[words]):
        if little or tag == NAV or tag == FOOTER or (own & SURE and words != NO_WORDS):
            return True
        if own & COMMENT and nodes[k, N_BEFORE] >= COMMENTS_AFTER:
            return True
    if little and (tag == FORM or (tag == HEADER and not nodes[nodes[k, N_PARENT], N_ABOVE] & (IN_ARTICLE | IN_MAIN))):
        return True
    weak = (own & WEAK) != 0 and not own & POSITIVE and not _TEXT[tag] and not _PARTS[tag]
    return weak and nodes[k, N_PROSE] == 0 and nodes[k, N_LENGTH] < WEAK_LENGTH and not _holds_quotation(room, k)


@fused
def cut_furniture(room: Any, words: Any) -> Any:
    """Set N_CUT of what is cut out, and of all below it; how many containers. `words`: which are believed."""
    nodes, count = room.nodes, 0
    for k in range(1, room.state[NODES]):
        cut = nodes[nodes[k, N_PARENT], N_CUT]
        if cut or _is_cut(room, k, nodes[0, N_PROSE], words):
            nodes[k, N_CUT] = 1
            count += 1
    return count


@fused
def cut_later_articles(room: Any) -> Any:
    """Of several <article> with an h1 of their own, the first stays (the page goes on with others); how many go."""
    nodes = room.nodes
    end, count = -1, 0
    for k in range(1, room.state[NODES]):
        if nodes[nodes[k, N_PARENT], N_CUT]:
            nodes[k, N_CUT] = 1
        if nodes[k, N_CUT] or nodes[k, N_TAG] != ARTICLE or nodes[k, N_H1] != 1 or nodes[k, N_PROSE] < ARTICLE_PROSE:
            continue
        if end < 0:
            end = nodes[k, N_END]
        elif nodes[k, N_FIRST] >= end:
            nodes[k, N_CUT] = 1
            count += 1
    return count
