"""
Accounts for a page: how much of it was kept, how much was left out, and as what.

For people who ask why two pages are, or are not, copies. Nothing here changes a text: it reads what
the selection has left behind.

A block that was left out is counted by the nearest container around it that says what it is: by its
element, or by a word of its class or id. What no container explains stands outside the region, or
beside the text.

An account counts words as fingerprints do, by the tokens of the text (`core.tokens`). So the words
kept are the tokens that are compared, and a character of Chinese, Japanese or Thai is a word. The
selection has other lengths, of letters; they are its own.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from worker.core.compiled import fused
from worker.core.pages import names
from worker.core.pages.cut import MARGINS
from worker.core.pages.measures import N_SCORE
from worker.core.pages.skeleton import (
    B_KEEP,
    B_LINK,
    B_NODE,
    BLOCKS,
    N_ABOVE,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
    REGION,
    REGION_END,
)
from worker.core.tokens import tokens_quickly

REGIONS = ("page", "main", "article", "box")
_PAGE, _MAIN, _ARTICLE, _BOX = range(4)
# Why a block is left out, by number; 0 is no reason.
REASONS = (
    "hidden",
    "dialogs",
    "comments",
    "menus and margins",
    "forms",
    "boxes named as something else",
    "outside the region",
    "beside the text",
)
_HIDDEN, _DIALOG, _COMMENTS, _MENU, _FORM, _NAMED, _OUTSIDE, _BESIDE = range(1, len(REASONS) + 1)
_SHOWN = {
    "page": "the whole page",
    "main": "the page's <main>",
    "article": "an <article>",
    "box": "the box with the heading",
}
# Columns that the selection no longer needs when it is done.
B_REASON = B_LINK
_N_REASON = N_SCORE


class PageAccount(NamedTuple):
    """
    The parts of a page that its text was taken from, in words.

    `region` is "page", "main", "article" or "box": the part that the text was looked for in.
    `left_out` has the words by reason, the largest first. `title` has the words of the title, as
    `title_words` gives them.
    """

    region: str
    kept: int
    left_out: dict[str, int]
    title: int = 0

    @property
    def text(self) -> str:
        """
        A sentence.

        >>> PageAccount("main", 146, {"dialogs": 50, "menus and margins": 7}).text
        "146 of 203 words, from the page's <main>; left out: dialogs 50, menus and margins 7"
        """
        whole = self.kept + sum(self.left_out.values())
        parts = ", ".join(f"{reason} {words:,}" for reason, words in self.left_out.items())
        told = f"{self.kept:,} of {whole:,} words, from {_SHOWN[self.region]}"
        return f"{told}; left out: {parts}" if parts else told


def page_account(text: str, left_out: Sequence[str], region: int, title: int = 0) -> PageAccount:
    """
    Return the account of a page.

    Args:
        text: what was kept.
        left_out: what was left out, a text for each of REASONS.
        region: its position in REGIONS.
        title: the words of the title.

    Cost: some 30 ns per character.
    """
    words = [len(tokens_quickly(part)) for part in left_out]
    found = {reason: count for reason, count in zip(REASONS, words, strict=True) if count}
    ordered = dict(sorted(found.items(), key=lambda one: -one[1]))
    return PageAccount(REGIONS[region], len(tokens_quickly(text)), ordered, title)


@fused
def _reason_of(nodes: Any, k: Any) -> Any:
    """Return the reason that a container gives itself; 0 for none."""
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & names.SURE:
        return _DIALOG
    if own & names.COMMENT:
        return _COMMENTS
    if MARGINS[tag] or tag == names.HEADER or tag == names.MENU:
        return _MENU
    if tag == names.FORM:
        return _FORM
    return _NAMED if own & names.NEGATIVE else 0


@fused
def _region_of(room: Any) -> Any:
    node = room.state[REGION]
    if node == 0:
        return _PAGE
    tag = room.nodes[node, N_TAG]
    if tag == names.MAIN or room.nodes[node, N_OWN] & names.IN_MAIN:
        return _MAIN
    return _ARTICLE if tag == names.ARTICLE else _BOX


@fused
def _give_reasons(room: Any) -> None:
    """
    Write into B_REASON why each block was left out, 0 for those that were kept. Overwrites
    _N_REASON.
    """
    nodes = room.nodes
    blocks = room.blocks
    region = room.state[REGION]
    nodes[0, _N_REASON] = 0
    for k in range(1, room.state[NODES]):
        own = _reason_of(nodes, k)
        nodes[k, _N_REASON] = own if own > 0 else nodes[nodes[k, N_PARENT], _N_REASON]
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        reason = nodes[node, _N_REASON]
        if reason == 0:
            reason = _BESIDE if region <= node < room.state[REGION_END] else _OUTSIDE
        if nodes[node, N_ABOVE] & names.HIDDEN:
            reason = _HIDDEN
        blocks[b, B_REASON] = 0 if blocks[b, B_KEEP] else reason


@fused
def account_for(room: Any, has_left_out: Any) -> Any:
    """
    Return the region of the page that was selected last, a position in REGIONS; and write why its
    blocks were left out, if fields of these were asked for.
    """
    if has_left_out:
        _give_reasons(room)
    return _region_of(room)
