"""The scanner equals the reference on every input, and the pages of the corpora."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.core.pages.reference import read
from worker.core.charset import well_formed
from worker.core.compiled import kernel
from worker.core.kernels.machine import count_less_than
from worker.core.pages import names
from worker.core.pages import skeleton as k
from worker.core.pages.batch import joined
from worker.core.pages.characters import REFERENCES
from worker.core.pages.select import select

TAGS = sorted(names.TAGS)
ATTRIBUTES = [
    "", " class='sidebar nav'", ' class="has-sidebar ad"', " id=mainContent", " hidden", " style='Display: none'",
    " href=/x", " HREF='/x>y'", " role=navigation", " aria-hidden=true", " data-hidden=true", " itemprop='articleBody'",
    " class='a\"b", ' title="a > b"', " /", " =x", " a = 'b' c", " class=artICLEBody",
]  # fmt: skip
TEXTS = [
    "word", "Some words, and more of them. ", " ", "\n\t", "&", "&amp;", "&notit;", "&nbsp;", "&#160;", "&#x80;",
    "&#0;", "&#xD800;", "&nGt;", "&#", "&ampx", "&#99999999999;", "ä", "\u00a0", "文字、と。", "<", "</", "</>", "<!",
    "<!--", "-->", "--!>", "<!-->", "<?x>", "<![CDATA[a]]>", "]]>", "<!DOCTYPE html>", ">", "'", '"', "=", "\0", "؟",
    "x" * 40, "<scr", "</scr", "<script", "</script", "\r\n",
]  # fmt: skip
start_tags = st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES))
upper_tags = st.sampled_from(TAGS).map(lambda name: f"<{name.upper()}>")
end_tags = st.builds("</{}{}>".format, st.sampled_from(TAGS), st.sampled_from(["", "", " x", "/"]))
texts = st.sampled_from(TEXTS)
markup = st.lists(st.one_of(start_tags, start_tags, end_tags, end_tags, texts, upper_tags)).map("".join)
few = "p div span table tr td tbody li ul a svg desc select option form h1 h2 button".split()  # noqa: SIM905
nests = st.lists(
    st.one_of(
        st.builds("<{}{}>".format, st.sampled_from(few), st.sampled_from(["", "", " hidden", " href", " class=ad"])),
        st.builds("</{}>".format, st.sampled_from(few)),
        st.sampled_from(["word, ", " ", "<br>", "text"]),
    ),
    max_size=60,
).map("".join)


@kernel
def _scan_one(page: Any, size: Any, references: Any) -> Any:
    room = k.room_for(size, count_less_than(page, 0, size), references)
    text = k.scan(np.int64(page.ctypes.data), np.int64(0), size, room)
    return room, text, select(room)


def skeleton(page: bytes | str) -> tuple[k.Skeleton, str]:
    """What was read and selected of one page: its arrays, as far as in use, and all its text."""
    raw = page.decode("utf-8", "replace") if isinstance(page, bytes) else well_formed(page)
    data, spans = joined([raw.encode()], None)
    room, text, _ = _scan_one(data, spans[0, 1], REFERENCES)
    nodes, blocks, title = (int(room.state[at]) for at in (k.NODES, k.BLOCKS, k.TITLE_SIZE))
    cut = room._replace(blocks=room.blocks[:blocks], nodes=room.nodes[:nodes], title=room.title[:title])
    return cut, room.out[:text].tobytes().decode()


def assert_same(page: str) -> None:
    """Blocks, containers, text and title of a page are those of the reference."""
    expected = read(page.encode())
    found, text = skeleton(page)
    assert text.encode() == bytes(expected.out)
    assert found.title.tobytes() == expected.title
    blocks = np.delete(found.blocks, k.B_KEEP, axis=1)
    assert blocks.tolist() == [block.row(bytes(expected.out)) for block in expected.blocks]
    assert found.nodes[:, [k.N_PARENT, k.N_TAG, k.N_OWN, k.N_ABOVE, k.N_FIRST, k.N_END]].tolist() == expected.nodes


@settings(max_examples=5 * EXAMPLES)
@example("<p>a<br><br>b<br> <br>c")
@example("<table><td>a<tr>b<table>c</table>d</table>e")
@example("<svg><desc><div>a</svg>b</desc>c</div></svg>d<p>e")
@example("<frameset><p>text")
@example("<body><frameset><p>text")
@example("<plaintext>a</plaintext><b>&amp;")
@example("<form><div></form>a</div>b<form>c</form>")
@example("<div>" * 600 + "a" + "</div>" * 600 + "b")
@example("<span class=ad>" * 600 + "a" + "</span>" * 600 + "b")
@example("<a href=x>a<table><td>b<a href=y>c</table>d</a>e")
@example("<script><!-- <script> </script> --></script>a<script><!--></script>b")
@given(markup)
def test_the_scanner_equals_the_reference_on_any_markup(page: str) -> None:
    """Any sequence of tags, attributes, references and broken markup gives the same blocks and containers."""
    assert_same(page)


@settings(max_examples=5 * EXAMPLES)
@given(nests)
def test_the_scanner_equals_the_reference_on_misnested_elements(page: str) -> None:
    """Elements opened and closed in any order give the same blocks and containers."""
    assert_same(page)


@settings(max_examples=3 * EXAMPLES)
@given(st.text() | st.text(alphabet="<>/!-=&#;'\"abA \n\u00a0\0", max_size=80))
def test_the_scanner_equals_the_reference_on_any_text(page: str) -> None:
    """Any text at all gives the same blocks and containers."""
    assert_same(page.encode("utf-8", "replace").decode())


def test_the_scanner_equals_the_reference_on_real_pages(real_pages: list[str]) -> None:
    """Every twelfth page of the corpus gives the same blocks and containers."""
    for page in real_pages[::12]:
        assert_same(page)
