"""
Reads what a page's buttons say of the boxes around them, and links by which one agrees.

    agreement   a box that ends with a button by which one agrees is a dialog: consent, terms
    question    a series of buttons, each with text behind it, are the headings of that text

Nothing else in the markup of many consent boxes says what they are: their classes are made by a
program, or have the name of a library. But all have a button or a link by which one agrees, and
the words on it are few. These are the only words of a language that the selection knows.

An agreement is believed of a box alone that holds neither the page's heading nor a landmark, and
ends with its buttons. So a video that asks before it loads does not take an article with it.

Links have such words more often: "Informed consent", "Accept answer", "Agree" below each post. So a
page with more than two has no agreement among them, and a box with more prose than stands outside
it stays.

Tried and rejected: `role=button` as a button, for agreements or for all. Of 2,000 made pairs of
different pages 1 to 3 were told apart that were not, and reviewed pages lost links that turn them
over (readability's F1 .9753 -> .9748).
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, fused
from worker.core.kernels.machine import byte_at
from worker.core.pages import names
from worker.core.pages.measures import PROSE
from worker.core.pages.skeleton import (
    B_BYTES,
    B_END,
    B_KEEP,
    B_LENGTH,
    B_LINK,
    B_NODE,
    B_START,
    BLOCKS,
    MARK,
    N_ABOVE,
    N_END,
    N_FIRST,
    N_MARK,
    N_OWN,
    N_PARENT,
    N_TAG,
    NODES,
)
from worker.core.pages.titles import repeats_title

AGREEMENT_MAX = 48  # letters on a button by which one agrees ...
LINK_MAX = 24  # ... or on a link that stands alone ...
ALONE_MAX = 10  # ... or with a word that elsewhere means something else ("Got it")
BACK_MAX = 32  # blocks before the button in which the text of its box is looked for ...
LINK_BACK_MAX = 4  # ... or before the link
TRIES_MAX = 16  # buttons of a page that are looked at, each at the cost of its box
LINKS_MAX = 2  # "Accept all" and "Accept necessary": more links stand below posts, one each
QUESTION_MIN = 10  # letters of a question on a button
QUESTIONS_MIN = 3  # questions in a series

NO_LIMIT = np.int64(1) << np.int64(62)

_DIALOG = names.NEGATIVE | names.SURE


@fused
def read_buttons(room: Any) -> None:
    """
    Mark dialogs, and let questions on buttons be text. Blocks are graded.

    Cost: a sweep over the blocks, and TRIES_MAX sweeps over boxes that end with an agreement.
    """
    blocks = room.blocks
    nodes = room.nodes
    tries = 0
    links = 0
    first = np.int64(0)  # the links
    second = np.int64(0)
    prose = np.int64(0)
    for b in range(room.state[BLOCKS]):
        prose += blocks[b, B_LENGTH] if blocks[b, B_KEEP] == PROSE else 0
        if nodes[blocks[b, B_NODE], N_TAG] == names.BUTTON:
            if tries < TRIES_MAX and blocks[b, B_LENGTH] <= AGREEMENT_MAX and _agrees(room, b):
                tries += 1
                _mark_dialog(room, b, BACK_MAX, NO_LIMIT)
        elif (
            links <= LINKS_MAX
            and blocks[b, B_LINK] >= blocks[b, B_BYTES]
            and blocks[b, B_LENGTH] <= LINK_MAX
            and _agrees(room, b)
        ):
            links += 1
            first = second
            second = np.int64(b)
    if links == LINKS_MAX:
        _mark_dialog(room, first, LINK_BACK_MAX, prose // 2)
    if 0 < links <= LINKS_MAX:
        _mark_dialog(room, second, LINK_BACK_MAX, prose // 2)
    _name_questions(room)


@fused
def _agrees(room: Any, b: Any) -> Any:
    """Return whether a word on a button or a link is one by which one agrees."""
    key = names.SEED
    for k in range(room.blocks[b, B_START], room.blocks[b, B_END] + 1):
        byte = byte_at(room.out, k) if k < room.blocks[b, B_END] else np.int64(32)
        if byte >= 0x80 or 97 <= byte | 32 <= 122:
            key = names.add_byte(key, byte | 32 if byte < 0x80 else byte)
        elif key != names.SEED:
            found = names.look_up(names.AGREEMENT_TABLE, names.finished(key))
            if found and (room.blocks[b, B_LENGTH] <= ALONE_MAX or not found & names.ALONE):
                return True
            key = names.SEED
    return False


@apart
def _mark_dialog(room: Any, b: Any, back: Any, most: Any) -> None:
    """
    Mark the smallest box that holds a button or a link and the text before it as a dialog, if it
    can be one and has at most so many letters of prose.
    """
    blocks = room.blocks
    nodes = room.nodes
    text = b - 1
    while text >= 0 and b - text <= back and blocks[text, B_KEEP] != PROSE:
        text -= 1
    if text < 0 or b - text > back:
        return
    box = blocks[b, B_NODE]
    while box > 0 and nodes[box, N_FIRST] > text:
        box = nodes[box, N_PARENT]
    end = box + 1
    while end < room.state[NODES] and nodes[end, N_PARENT] >= box:
        end += 1
    if box > 0 and _may_be_dialog(room, box, end, b) and _prose_of(room, box) <= most:
        nodes[box, N_OWN] |= _DIALOG
        for k in range(box, end):
            nodes[k, N_ABOVE] |= _DIALOG


@fused
def _prose_of(room: Any, box: Any) -> Any:
    """Return the letters of prose in a box."""
    letters = np.int64(0)
    for b in range(room.nodes[box, N_FIRST], room.nodes[box, N_END]):
        letters += room.blocks[b, B_LENGTH] if room.blocks[b, B_KEEP] == PROSE else 0
    return letters


@fused
def _may_be_dialog(room: Any, box: Any, end: Any, b: Any) -> Any:
    """
    Return whether a box, up to container `end`, holds no main, no article, not the page's heading,
    and no prose behind the button; and is itself none of them.
    """
    blocks = room.blocks
    nodes = room.nodes
    own = nodes[box, N_OWN]
    tag = nodes[box, N_TAG]
    if own & (names.BODY_WORD | names.IN_MAIN) or tag == names.ARTICLE or tag == names.MAIN:
        return False
    for k in range(b + 1, nodes[box, N_END]):
        if blocks[k, B_KEEP] == PROSE:
            return False
    for k in range(nodes[box, N_FIRST], b + 1):
        if repeats_title(room, k):
            return False
    heads = 0
    inside = 0
    mark = room.state[MARK]
    while mark > 0:
        within = box < mark < end
        is_head = nodes[mark, N_TAG] == names.H1
        if within and not is_head:
            return False
        heads += is_head
        inside += is_head and within
        mark = nodes[mark, N_MARK]
    return inside == 0 or inside < heads


@fused
def _name_questions(room: Any) -> None:
    """
    Let buttons be text where they are the headings of text: three or more in a row that stand alike
    and are followed by prose each. Buttons of one text, such as "Read more", are none.
    """
    blocks = room.blocks
    nodes = room.nodes
    first = np.int64(0)  # the buttons before, and where the last one stands
    second = np.int64(0)
    place = np.int64(-1)
    size = np.int64(0)
    count = 0
    for b in range(room.state[BLOCKS] - 1):
        node = blocks[b, B_NODE]
        if nodes[node, N_TAG] != names.BUTTON or nodes[node, N_ABOVE] & names.IN_HEADING:
            continue
        around = nodes[node, N_PARENT]
        if nodes[around, N_FIRST] == b and around > 0:
            around = nodes[around, N_PARENT] if nodes[around, N_END] > b + 1 else around
        length = blocks[b, B_LENGTH]
        is_question = (
            length >= QUESTION_MIN
            and length != size
            and blocks[b + 1, B_KEEP] == PROSE
            and b + 1 < nodes[around, N_END]
        )
        size = length
        if not is_question or around != place:
            count = 0
        place = around
        if not is_question:
            continue
        count += 1
        if count == QUESTIONS_MIN:
            _be_text(nodes, first)
            _be_text(nodes, second)
        if count >= QUESTIONS_MIN:
            _be_text(nodes, node)
        first = second
        second = node


@fused
def _be_text(nodes: Any, button: Any) -> None:
    """Let a button be a paragraph, and note that it is a question: its answer may be closed."""
    nodes[button, N_TAG] = names.P
    nodes[button, N_OWN] |= names.QUESTION
