"""What a block of text is by itself: prose, a heading, a linked title, an item of a list or table, a notice."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

from worker.core.compiled import fused
from worker.core.kernels.machine import byte_at
from worker.core.pages.names import DD, DT, IN_HEADING, IN_LIST, IN_QUOTE, IN_TABLE, PRE, P
from worker.core.pages.skeleton import (
    B_BYTES,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    B_STOPS,
    BLOCKS,
    N_ABOVE,
    N_TAG,
)

PLAIN, PROSE, HEADING, TITLE, ITEM, NOTICE = range(6)  # grades; they stand in B_KEEP until blocks are chosen

PROSE_MIN = 25  # letters: what is shorter is never prose by itself
PROSE_LONG = 80  # what is as long is prose without a mark that divides sentences
LINKS_OF_PARAGRAPH = 50  # percent of its bytes from where a <p> is no prose: encyclopedias link every other word
LINKS_OF_BLOCK = 25  # and any other block: a teaser is a linked title and a sentence
HEADING_MAX = 120  # letters: a longer heading is text
TITLE_MIN = 15  # letters: a shorter link is a word of a menu
LINKS_OF_ITEM = 60  # percent: an item of a list or table has words of its own


@fused
def plain_length(blocks: Any, b: Any) -> Any:
    """How much of a block is outside links."""
    size = blocks[b, B_BYTES]
    return blocks[b, B_LENGTH] * (size - blocks[b, B_LINK]) // size


@fused
def is_nothing_but_link(blocks: Any, b: Any) -> Any:
    """A comma may stand beside it."""
    return blocks[b, B_LINK] * 10 >= blocks[b, B_BYTES] * 9


@fused
def _is_notice(room: Any, b: Any) -> Any:
    """A block that begins with the copyright sign: the same in every language."""
    start = room.blocks[b, B_START]
    return byte_at(room.out, start) == 0xC2 and byte_at(room.out, start + 1) == 0xA9


@fused
def _is_prose(blocks: Any, b: Any, tag: Any) -> Any:
    """Long, or with a mark that divides sentences; and mostly outside links."""
    length, links = blocks[b, B_LENGTH], LINKS_OF_PARAGRAPH if tag == P else LINKS_OF_BLOCK
    sentence = length >= PROSE_LONG or (length >= PROSE_MIN and blocks[b, B_STOPS] > 0)
    return sentence and blocks[b, B_LINK] * 100 < links * blocks[b, B_BYTES]


@fused
def _is_item(blocks: Any, b: Any, tag: Any, above: Any) -> Any:
    """A cell, an item, a term, a line of code: text by where it stands."""
    if tag == DD or tag == DT or tag == PRE:
        return True
    listed = (above & (IN_LIST | IN_TABLE | IN_QUOTE)) != 0
    return listed and blocks[b, B_LINK] * 100 <= LINKS_OF_ITEM * blocks[b, B_BYTES]


@fused
def _grade(room: Any, b: Any) -> Any:
    blocks, node = room.blocks, room.blocks[b, B_NODE]
    tag, above, length = room.nodes[node, N_TAG], room.nodes[node, N_ABOVE], blocks[b, B_LENGTH]
    if _is_notice(room, b):
        return NOTICE
    titled = blocks[b, B_LINK] * 10 >= blocks[b, B_BYTES] * 8 and length >= TITLE_MIN
    if above & IN_HEADING and length < HEADING_MAX:
        return TITLE if titled else HEADING
    if _is_prose(blocks, b, tag):
        return PROSE
    if titled and not above & IN_TABLE and tag != DT:
        return TITLE
    return ITEM if _is_item(blocks, b, tag, above) else PLAIN


@fused
def grade_blocks(room: Any) -> None:
    """Write each block's grade into B_KEEP."""
    for b in range(room.state[BLOCKS]):
        room.blocks[b, B_KEEP] = _grade(room, b)
