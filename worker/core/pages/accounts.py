"""
Accounts for a page: how much of it was kept, how much was left out, and as what.

For people who ask why two pages are, or are not, copies. Nothing here changes a text: it reads what
the selection has left behind.

A block that was left out is counted by the nearest container around it that says what it is: by its
element, or by a word of its class or id. What no container explains stands outside the region, or
beside the text.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused
from worker.core.pages import names
from worker.core.pages.cut import MARGINS
from worker.core.pages.measures import N_SCORE
from worker.core.pages.skeleton import (
    B_KEEP,
    B_LENGTH,
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

# The columns of an account: the region, one of REGIONS; letters kept; letters left out, by reason.
A_REGION, A_KEPT, A_HIDDEN, A_DIALOG, A_COMMENTS, A_MENU, A_FORM, A_NAMED, A_OUTSIDE, A_BESIDE = (
    range(10)
)
ACCOUNT_COLUMNS = 10
REGIONS = ("page", "main", "article", "box")
_PAGE, _MAIN, _ARTICLE, _BOX = range(4)
_REASONS = {
    A_HIDDEN: "hidden",
    A_DIALOG: "dialogs",
    A_COMMENTS: "comments",
    A_MENU: "menus and margins",
    A_FORM: "forms",
    A_NAMED: "boxes named as something else",
    A_OUTSIDE: "outside the region",
    A_BESIDE: "beside the text",
}
_SHOWN = {
    "page": "the whole page",
    "main": "the page's <main>",
    "article": "an <article>",
    "box": "the box with the heading",
}
N_REASON = N_SCORE  # when the selection is done


class PageAccount(NamedTuple):
    """
    What the text of a page was taken from, in letters as the selection counts them.

    `region` is "page", "main", "article" or "box": the part that the text was looked for in.
    `left_out` has the letters by reason, the largest first. `title` has the words of the title, as
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
        "146 of 203 letters, from the page's <main>; left out: dialogs 50, menus and margins 7"
        """
        whole = self.kept + sum(self.left_out.values())
        parts = ", ".join(f"{reason} {letters:,}" for reason, letters in self.left_out.items())
        told = f"{self.kept:,} of {whole:,} letters, from {_SHOWN[self.region]}"
        return f"{told}; left out: {parts}" if parts else told


def page_account(row: NDArray[np.int64], title: int = 0) -> PageAccount:
    """Return one row of `PackedPages.accounts` in words, with the title's of `PackedPages`."""
    letters = row.tolist()
    found = {reason: letters[column] for column, reason in _REASONS.items() if letters[column]}
    ordered = dict(sorted(found.items(), key=lambda one: -one[1]))
    return PageAccount(REGIONS[letters[A_REGION]], letters[A_KEPT], ordered, title)


@fused
def _reason_of(nodes: Any, k: Any) -> Any:
    """Return the reason that a container gives itself, as a column of accounts; 0 for nothing."""
    own = nodes[k, N_OWN]
    tag = nodes[k, N_TAG]
    if own & names.SURE:
        return A_DIALOG
    if own & names.COMMENT:
        return A_COMMENTS
    if MARGINS[tag] or tag == names.HEADER or tag == names.MENU:
        return A_MENU
    if tag == names.FORM:
        return A_FORM
    return A_NAMED if own & names.NEGATIVE else 0


@fused
def account_for(room: Any, accounts: Any, number: Any) -> None:
    """
    Fill a row of zeros for the page that was selected last, if there are rows. Overwrites N_REASON.
    """
    if accounts.shape[0] == 0:
        return
    row = accounts[number]
    nodes = room.nodes
    blocks = room.blocks
    region = room.state[REGION]
    tag = nodes[region, N_TAG]
    if region > 0:
        row[A_REGION] = _BOX
        if tag == names.ARTICLE:
            row[A_REGION] = _ARTICLE
        if tag == names.MAIN or nodes[region, N_OWN] & names.IN_MAIN:
            row[A_REGION] = _MAIN
    nodes[0, N_REASON] = 0
    for k in range(1, room.state[NODES]):
        own = _reason_of(nodes, k)
        nodes[k, N_REASON] = own if own > 0 else nodes[nodes[k, N_PARENT], N_REASON]
    for b in range(room.state[BLOCKS]):
        node = blocks[b, B_NODE]
        column = nodes[node, N_REASON]
        if column == 0:
            column = A_BESIDE if region <= node < room.state[REGION_END] else A_OUTSIDE
        if nodes[node, N_ABOVE] & names.HIDDEN:
            column = A_HIDDEN
        row[A_KEPT if blocks[b, B_KEEP] else column] += blocks[b, B_LENGTH]
