"""
Which blocks are main content: the judgement, on the arrays of a Skeleton alone.

    judge_grade   what each block is by itself
    judge_cut     what is cut out
    judge_sums    what containers hold
    judge_root    the core of most prose, and the root around it
    judge_keep    which blocks are kept

In: blocks and nodes as skeleton.py names their columns. Out: B_KEEP of each block (0 or not). Each step is a sweep over
blocks or nodes; parents stand before their children, so that sums over all below are one backward sweep. The rules and
their reasons are written down in README.md; tests/core/pages/reference_judge.py says them again in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.pages.judge_cut import cut_furniture, cut_later_articles
from worker.core.pages.judge_grade import grade_blocks
from worker.core.pages.judge_keep import cut_inserts, keep_all, keep_blocks, keep_most
from worker.core.pages.judge_root import find_core, find_root, items_are_prose, prune
from worker.core.pages.judge_sums import N_PROSE, N_TITLES, find_aliens, is_teasers, prose_before, sum_up
from worker.core.pages.names import H1
from worker.core.pages.skeleton import B_KEEP, B_NODE, BLOCKS, N_TAG

MAIN, ALL = 0, 1  # what was kept: main content, or all text because next to nothing was

LITTLE = 300  # letters: less is looked at again
MUCH_MORE = 4  # times as much must be found then
MUCH_MORE_TITLED = 12  # where the little has a text below an h1 ...
TITLED_MIN = 60  # ... of so many letters: a short page
ENOUGH = 100  # letters that another look must find
SCANT = 30  # letters of main content, below which all text is taken ...
ALL_IS_MORE = 10  # ... if it is so many times as much: two indexes of one kind share their headings


@apart
def judge(room: Any) -> Any:
    """
    Set B_KEEP of the page's blocks; returns MAIN or ALL.

    A page whose words of classes hide its text is judged again with fewer of them believed; one without a core gives
    all but links and margins; what is then still next to nothing, all.
    """
    kept = least = np.int64(0)
    for turn in range(4):
        if turn == 3:
            most = keep_most(room)
            if most >= max(least, 1):
                if most < SCANT:
                    keep_all(room, most * ALL_IS_MORE)
                return ALL
        kept, teasers = _attempt(room, turn % 3)
        if turn == 0:
            if kept >= LITTLE:
                return MAIN
            least = kept * (MUCH_MORE_TITLED if kept >= TITLED_MIN and _has_title(room) else MUCH_MORE)
        elif turn < 3 and kept >= max(least, ENOUGH) and not teasers:
            return MAIN
    return ALL if kept < SCANT and keep_all(room, kept * ALL_IS_MORE) else MAIN


@fused
def _attempt(room: Any, words: Any) -> Any:
    """Choose the blocks; returns how many letters, and whether they are a list of teasers. `words`: the believed."""
    grade_blocks(room)
    prose_before(room)
    sum_up(room)
    if cut_furniture(room, words) > 0:
        sum_up(room)
    if cut_later_articles(room) + items_are_prose(room) > 0:
        sum_up(room)
    find_aliens(room)
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
        if room.blocks[b, B_KEEP] and room.nodes[room.blocks[b, B_NODE], N_TAG] == H1:
            return True
    return False
