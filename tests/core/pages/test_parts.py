"""Many small parts of a page are the page where they hold most of it, whatever they are called."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.conftest import EXAMPLES
from tests.core.pages.parts_reference import parts_hold_page as defined
from tests.core.pages.reference import read
from tests.core.pages.region_reference import find_region
from worker.core.compiled import kernel
from worker.core.kernels.machine import SLACK
from worker.core.pages.buttons import read_buttons
from worker.core.pages.characters import REFERENCES
from worker.core.pages.cut import parts_hold_page
from worker.core.pages.measures import grade_blocks, prose_before
from worker.core.pages.region import cut_to_region
from worker.core.pages.region import uncover as uncover_room
from worker.core.pages.scan import scan
from worker.core.pages.skeleton import room_for

SENTENCE = "The ferry was late again on Monday, and nobody on the quay could say why it was. "
TAGS = ("div", "div", "div", "aside", "section", "nav", "figcaption", "article")
NAMES = ("", " class=comment", " class=modal", *[" class=promo", " class=gallery"] * 4)


@kernel
def _hold(page: Any, size: Any, tags: Any) -> Any:
    room = room_for(size, tags, REFERENCES)
    scan(np.int64(page.ctypes.data), np.int64(0), size, room, False)
    hidden = grade_blocks(room)
    read_buttons(room)
    uncover_room(room, hidden)
    prose_before(room)
    cut_to_region(room)
    return parts_hold_page(room)


def random_page(dice: random.Random) -> str:
    """A lead, and series of boxes with headings and without, some in each other, some hidden."""
    parts = [f"<p>{SENTENCE * dice.randrange(4)}</p>"]
    for _ in range(dice.randrange(1, 5)):
        tag, name = dice.choice(TAGS), dice.choice(NAMES)
        hidden = " hidden" if dice.random() < 0.1 else ""
        head = dice.choice(
            ("", "<h2>Quay</h2>", "<h2>Quay</h2>", "<h3><a href=/>To quay 7</a></h3>")
        )
        inner = f"<{dice.choice(TAGS)}{dice.choice(NAMES)}>{SENTENCE}</div>"
        for _ in range(dice.randrange(1, 7)):
            text = SENTENCE * dice.randrange(1, 8) + (inner if dice.random() < 0.2 else "")
            parts.append(f"<{tag}{name}{hidden}>{head}<p>{text}</p></{tag}>")
        if dice.random() < 0.3:
            dice.shuffle(parts)
    around = dice.choice(("{}", "<main>{}</main>", "<div class=promo>{}</div>"))
    heading = dice.choice(("", "<h1>Late</h1>"))
    box = f"<div><p>{SENTENCE * dice.randrange(9)}</p></div>" if dice.random() < 0.3 else ""
    return box + heading + around.format("".join(parts))


def test_parts_equal_their_definition() -> None:
    """On random series of boxes, which are the page about as often as not."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    counts = np.zeros(2, np.int64)
    for _ in range(10 * EXAMPLES):
        html = random_page(dice)
        found = find_region(read(html.encode()))
        data = np.frombuffer(bytearray(html.encode() + bytes(SLACK)), np.uint8)
        expected = defined(found.page, found.region)
        assert bool(_hold(data, len(html), html.count("<"))) == expected, (seed, html)
        counts[int(expected)] += 1
    assert counts.min() * 10 >= counts.sum(), (seed, counts)
