"""Streamed content is read where the page's script puts it, in whatever order it was sent."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.streamed_reference import placed
from worker.core.compiled import kernel
from worker.core.kernels.machine import SLACK
from worker.core.pages import extract_pages
from worker.core.pages.streamed import place_streamed

SENTENCE = "The ferry was late again on Monday, and nobody on the quay could say why it was. "
BODY = "".join(f"<p>{SENTENCE * 2}Day {k}.</p>" for k in range(5))
WAIT = "<p>We are loading the page for you, please wait for it a moment longer.</p>"


@kernel
def _place_one(page: Any, size: Any, tags: Any) -> Any:
    return place_streamed(np.int64(page.ctypes.data), np.int64(0), size, tags)


def place(page: bytes) -> bytes:
    """What the kernel makes of a page."""
    data = np.frombuffer(bytearray(page + bytes(SLACK)), np.uint8)
    out, size = _place_one(data, len(page), page.count(b"<"))
    assert not out[size:].any()
    return bytes(out[:size].tobytes())


SLOT = '<!--$?--><template id="B:0"></template>{}<!--/$-->'
PLACED = {
    "a slot, and its part behind": (
        f'<main>{SLOT.format(WAIT)}</main><div hidden id="S:0">{BODY}</div>',
        f"<main><!--$?-->{BODY}</main>",
    ),
    "a placeholder": (
        f"<p><template id=P:1></template></p><div id=S:1 hidden>{BODY}</div>",
        f"<p>{BODY}</p>",
    ),
    "a slot in a part": (
        "<a><template id=B:0></template></a><div id=S:0>b<template id=P:1></template>c</div>"
        "<div id=S:1>d</div>",
        "<a>bdc</a>",
    ),
    "boundaries in each other": (
        '<!--$?--><template id="B:0"></template>w<!--$-->x<!--/$-->y<!--/$-->z<i id=S:0>a</i>',
        "<!--$?-->az",
    ),
    "a slot in what is shown meanwhile": (
        "<template id=B:0></template>w<template id=B:1></template>x<!--/$-->y<!--/$-->"
        "<div id=S:1>a</div><div id=S:0>b</div>",
        "by<!--/$-->",
    ),
    "elements of the part's name in it": (
        "<template id=P:0></template><div id=S:0><div>a</div>b</div>c",
        "<div>a</div>bc",
    ),
    "an end tag in a script, a comment, a value": (
        "<template id=P:0></template><div id=S:0><script>'</div>'</script><!--</div>-->"
        "<i title='</div>'>a</i></div>c",
        "<script>'</div>'</script><!--</div>--><i title='</div>'>a</i>c",
    ),
    "prefixes of two roots": (
        "<template id=shop-P:0></template>,<template id='a b S:B:0'></template>w<!--/$-->"
        "<div hidden id='a b S:S:0'>b</div><div hidden id=shop-S:0>a</div>",
        "a,b",
    ),
    "a table": ("<template id=P:a></template><table id=S:a><tr></table>", "<tr>"),
}
KEPT = {
    "a part without a slot": "<p>a</p><div hidden id=S:0>b</div>",
    "a slot without a part": "<template id=B:0></template>a<!--/$-->",
    "a part before its slot": "<div hidden id=S:0>b</div><template id=B:0></template>",
    "a part that holds its own slot": "<div id=S:0><template id=B:0></template></div>",
    "a part that never ends": "<template id=P:0></template><div id=S:0>a",
    "an end tag that the page's end cuts off": "<template id=P:0></template><div id=S:0>a</div",
    "another number": "<template id=P:0></template><div id=S:00>a</div>",
    "another prefix": "<template id=aP:0></template><div id=S:0>a</div>",
    "too many digits": "<template id=P:123456789></template><div id=S:123456789>a</div>",
    "no number": "<template id=P:g></template><div id=S:g>a</div>",
    "a template that holds something": "<template id=P:0>b</template><div id=S:0>a</div>",
    "a slot in a script": "<script><template id=P:0></template></script><div id=S:0>a</div>",
}


@pytest.mark.parametrize("name", PLACED)
def test_a_part_takes_the_place_of_its_slot(name: str) -> None:
    """And of what the slot shows meanwhile; the part is not where it was."""
    page, expected = PLACED[name]
    assert placed(page.encode()).decode() == expected
    assert place(page.encode()).decode() == expected


@pytest.mark.parametrize("name", KEPT)
def test_a_page_without_a_pair_stays_as_it_is(name: str) -> None:
    """Nothing is lost where a slot and its part do not come together."""
    page = KEPT[name].encode()
    assert (place(page), placed(page)) == (page, page)


def test_a_streamed_page_has_the_text_of_the_rendered_one() -> None:
    """The hidden part is the page; the part that is no pair's stays hidden."""
    frame = "<header><a href=/>Home</a></header><main>{}</main>{}"
    article = f"<article><h1>Late</h1>{BODY}</article>"
    rendered = frame.format(article, "")
    streamed = frame.format(SLOT.format(WAIT), f'<div hidden id="S:0">{article}</div>')
    prefixed = streamed.replace("B:0", "shop-B:0").replace("S:0", "shop-S:0")
    unpaired = frame.format(
        article, f'<div hidden id="S:7">{BODY}</div><template id=B:0></template>'
    )
    pages = extract_pages([rendered, streamed, prefixed, unpaired])
    assert pages.text(0) == pages.text(1) == pages.text(2) == pages.text(3)
    assert pages.text(0).count(SENTENCE.strip()) == 10


BITS = """<div> </div> <div> </div> <p> word <!--$?--> <!--$--> <!--/$--> <!--$x--> <!--x--> <script> </script>
<svg> <![CDATA[ ]]> <title> </title> <textarea> " ' > < </ <a_href=" <plaintext> </template> &amp; é""".split()  # noqa: SIM905


def random_page(dice: random.Random) -> bytes:
    """Slots, parts and boundaries of few numbers among other markup, some pages cut off."""
    bits = dice.sample(BITS, dice.randrange(4, 12))
    for number in range(dice.randrange(1, 6)):
        name = dice.choice(["div", "div", "p", "table", "section"])
        prefix = dice.choice(["", "", "a", "x S:"])
        bits += [f'<template id="{prefix}{dice.choice("BP")}:{number}"></template>'] * 2
        bits += [f"<{name} hidden id='{prefix}S:{number}'>", f"</{name}>", f"</{name}>"]
    page = "".join(dice.choices(bits, k=dice.randrange(80)))
    return page[: dice.randrange(len(page) + 1) if dice.random() < 0.2 else None].encode()


def test_placing_equals_its_definition() -> None:
    """On random pages, of which many have a part that is moved."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    moved = 0
    for _ in range(20 * EXAMPLES):
        page = random_page(dice)
        expected = placed(page)
        assert place(page) == expected, (seed, page)
        moved += expected != page
    assert moved * 20 >= 20 * EXAMPLES, seed


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_many_slots_are_placed(count: int) -> None:
    """Side by side, with one number, and each in the part of the one before; no byte comes twice."""
    count_placed = min(count, 30_000)
    numbers = [f"{k:x}" for k in range(count_placed)]
    slots = "".join(f"<template id=P:{k}></template>" for k in numbers)
    parts = "".join(f"<div id=S:{k}>{k} </div>" for k in numbers)
    assert place((slots + parts).encode()) == "".join(f"{k} " for k in numbers).encode()
    same = "<template id=B:0></template>" * count + "<div id=S:0>a</div>" * count
    left = "<template id=B:0></template>" * (count - 1)
    kept = "<div id=S:0>a</div>" * (count - 1)
    if count < 1 << 16:
        assert place(same.encode()) == ("a" + left + kept).encode()
    else:
        assert place(same.encode()) == same.encode()  # beyond PLACES_MAX nothing is a part
    nested = "<template id=P:0></template>" + "".join(
        f"<div id=S:{k:x}>{k:x} <template id=P:{k + 1:x}></template></div>"
        for k in range(count_placed - 1)
    )
    expected = "".join(f"{k} " for k in numbers[:-1])
    last = f"<template id=P:{count_placed - 1:x}></template>"
    assert place(nested.encode()) == (expected + last).encode()
