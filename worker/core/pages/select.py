"""
Decides which blocks are main content. It reads only the arrays of a Skeleton.

A person finds the text of a page without reading it: it is where paragraphs stand close together,
and menus, teasers and comments look different. The selection uses the same signs: lengths, shares
of links, marks that divide sentences, where something stands, and the names that authors give to
classes. It compares headings with the title, and knows the words on buttons by which one agrees,
and those in headings of a shop's terms and of offers. It reads no other word, so it works alike in
every language.

    buttons  which boxes are dialogs, and which buttons are headings                buttons.py
    terms    boxes of a shop's terms, and of the offer of a subscription            terms.py
    region   what the page's markup names as the page, and what of it is hidden     region.py
    grade    what each block is by itself                                           measures.py
    sums     what containers hold, and which are lists of something else            measures.py
    cut      menus, margins, forms, and what a class calls none of the text         cut.py
    root     the core, where most prose is, and what around it adds more of it      root.py
    keep     which blocks of the root are kept, which before and behind it          keep.py
    listed   whether the text introduces a list: then the list is kept, too         listed.py

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
  is the page. Words of dialogs, and of comments after an article, are always believed, because both
  are often longer than a short article.

Words of classes name either a purpose (ad, related, share) or a shape (widget, slide, gallery,
caption). Shapes are boilerplate on most pages, and the page itself on some: a list article of
slides, or a page that a builder has put together from widgets. Each of these parts is small, so
each went by its word. Now shapes are not believed where they hold most of the prose between them.
Nor are purposes where they name a series of boxes with headings of their own, which are the parts
of a list article. Teasers have linked titles instead, and what a site says of itself comes once or
twice.

What was tried and is not done, measured on the strings of 497 reviewed pages (F1 .9432 with the
rules as they are, precision .9330):

- Trust no word where its boxes hold most of the prose, purposes as well as shapes: the teasers of
  one page of a topic became its text (3,158 letters became 75,142).
- Count boxes with headings without asking for a series: two boxes about one organisation became the
  text of an interview (F1 .9435 instead of .9438).
- Count shapes however little they hold: what margins say of the site became the text of short pages
  (precision .9312). Hence PARTS_MIN. With 400 letters in a region, none of these pages changes, but
  the captions of a gallery became the text of an article of two paragraphs.
- Keep small boxes with a weak word (box, meta, tools) where they hold a heading: short recipes keep
  their ingredients, but blocks of 20 to 200 letters came in on a dozen of these pages, and no
  string that was missing.

Two more are left out without a trial. Hidden slides are no text beside others, since consent
dialogs are hidden the same way and are longer than many articles. Boxes side by side without
headings are no list, since threads of comments look the same.

README.md has all rules and their reasons; tests/core/pages/test_lists.py and test_select.py have
pages for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.pages import names
from worker.core.pages.buttons import read_buttons
from worker.core.pages.cut import (
    ALL_WORDS,
    NO_WORDS,
    SURE_WORDS,
    cut_boilerplate,
    cut_later_articles,
)
from worker.core.pages.heading import open_titled_dialog
from worker.core.pages.keep import counts, cut_inserts, keep_all, keep_blocks, keep_most
from worker.core.pages.listed import keep_listed
from worker.core.pages.measures import (
    N_PROSE,
    N_TITLES,
    find_unrelated,
    grade_blocks,
    is_teasers,
    prose_before,
    sum_up,
)
from worker.core.pages.region import cut_to_region, uncover
from worker.core.pages.root import find_core, find_root, items_are_prose, prune
from worker.core.pages.skeleton import (
    B_NODE,
    BLOCKS,
    N_ABOVE,
    N_TAG,
    REGION,
)
from worker.core.pages.terms import mark_terms

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
    A page without a core gives all but links and margins; if that is next to nothing, all. Lists
    are looked for last: what another look finds holds them.
    """
    hidden = grade_blocks(room)
    open_titled_dialog(room)
    read_buttons(room)
    mark_terms(room)
    uncover(room, hidden)
    prose_before(room)
    cut_to_region(room)
    kept, _ = _attempt(room, _first_words(room))
    if kept >= LITTLE:
        keep_listed(room)
        return False
    least = kept * (MUCH_MORE_TITLED if kept >= TITLED_MIN and _has_title(room) else MUCH_MORE)
    for words in range(SURE_WORDS, NO_WORDS + 1):
        kept, teasers = _attempt_again(room, words)
        if kept >= max(least, ENOUGH) and not teasers:
            return False
    most = keep_most(room)
    if most >= max(least, 1):
        if most < SCANT:
            keep_all(room, most * ALL_IS_MORE)
        return True
    # As a variable: numba compiles a function a second time for a constant.
    kept, _ = _attempt_again(room, np.int64(ALL_WORDS))
    if kept < SCANT:
        return keep_all(room, kept * ALL_IS_MORE)
    keep_listed(room)
    return False


@fused
def _first_words(room: Any) -> Any:
    """
    The words that are believed first: few, where the region stands in a box that is named as a
    dialog. The names of such a page mislead.
    """
    return NO_WORDS if room.nodes[room.state[REGION], N_ABOVE] & names.SURE else ALL_WORDS


@apart
def _attempt(room: Any, words: Any) -> Any:
    """
    Choose the blocks of the region, believing these words. Returns the letters kept, and whether of
    teasers.

    Blocks are graded and summed up, and nothing but what is hidden is cut.
    """
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


@apart
def _attempt_again(room: Any, words: Any) -> Any:
    """Choose the blocks anew."""
    grade_blocks(room)
    prose_before(room)
    sum_up(room)
    return _attempt(room, words)


@fused
def _has_title(room: Any) -> Any:
    """Return whether an h1 with text is kept."""
    for b in range(room.state[BLOCKS]):
        if counts(room.blocks, b) and room.nodes[room.blocks[b, B_NODE], N_TAG] == names.H1:
            return True
    return False
