"""
The scanner equals the reference on every input and writes nothing outside its arrays; both equal
the web's own tests.

The web's are html5lib's tokenizer cases, and the text that Lexbor finds. Of the cases these are out
of scope, since they change no text that a fingerprint sees:

- U+0000 in names and raw text, CR for LF: both are white space here, or in no name that is known;
- references in attribute values: what is read of them are words of classes, and whether there is a
  link;
- the data of comments and doctypes: only where they end matters;
- a start inside CDATA: it is only read inside SVG and MathML, and left out there;
- lone surrogates: UTF-8 has none.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import EXAMPLES, REPOSITORY, output_of
from tests.core.pages.made_pages import reviewed_pages
from tests.core.pages.reference import End, Reader, Start, Text, Tokenizer, meaning, pieces, read
from tests.core.pages.region_reference import Found, find_region
from worker.core.charset import well_formed
from worker.core.compiled import kernel
from worker.core.kernels.machine import SLACK
from worker.core.pages import names
from worker.core.pages import skeleton as k
from worker.core.pages.buttons import read_buttons
from worker.core.pages.characters import REFERENCES
from worker.core.pages.cut import parts_hold_page
from worker.core.pages.measures import grade_blocks, prose_before
from worker.core.pages.region import cut_to_region, uncover
from worker.core.pages.scan import scan
from worker.core.pages.select import select
from worker.core.pages.terms import mark_terms

TAGS = [*sorted(names.TAGS), "x-y", "cookie-banner", "annotation-x"]
ATTRIBUTES = [
    "", " class='sidebar nav'", ' class="has-sidebar ad"', " id=mainContent", " hidden",
    " style='Display: none'", " href=/x", " HREF='/x>y'", " role=navigation", " aria-hidden=true",
    " data-hidden=true", " itemprop='articleBody'", " class='a\"b", ' title="a > b"', " /", " =x",
    " a = 'b' c", " class=artICLEBody", " role=main", " role=dialog", " class=modal", " shadowrootmode=open",
    " shadowrootmode=no", " hidden=until-found", " style='backface-visibility:hidden'",
    " style='top:0;visibility:hidden'", " aria-modal=true", " ARIA-Modal=TRUE", " aria-modal=false",
]  # fmt: skip
# Each attribute that is read, in capital letters, and in the letters of a program.
IN_CAPITALS = "".join(
    f"<{tag} {name}={value}><p>a</p></{tag}>"
    for tag, lower, value in (
        ("div", "class", "ad"), ("div", "id", "sidebar"), ("div", "style", "display:none"),
        ("div", "hidden", "''"), ("div", "role", "navigation"), ("div", "itemprop", "articleBody"),
        ("div", "aria-hidden", "true"), ("div", "aria-modal", "true"), ("a", "href", "x"),
        ("template", "shadowrootmode", "open"), ("div", "id", "B:1"),
    )
    for name in (lower.upper(), lower.title())
)  # fmt: skip
TEXTS = [
    "word", "Some words, and more of them. ", " ", "\n\t", "&", "&amp;", "&notit;", "&nbsp;",
    "&#160;", "&#x80;",
    "&#0;", "&#xD800;", "&nGt;", "&#", "&ampx", "&#99999999999;", "ä", "\u00a0", "文字、と。", "<", "</",
    "</>", "<!", "<!--", "-->", "--!>", "<!-->", "<?x>", "<![CDATA[a]]>", "]]>", "<!DOCTYPE html>",
    ">", "'", '"', "=", "\0", "؟", "x" * 40, "<scr", "</scr", "<script", "</script", "\r\n",
]  # fmt: skip
start_tags = st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES))
upper_tags = st.sampled_from(TAGS).map(lambda name: f"<{name.upper()}>")
end_tags = st.builds("</{}{}>".format, st.sampled_from(TAGS), st.sampled_from(["", "", " x", "/"]))
texts = st.sampled_from(TEXTS)
markup = st.lists(st.one_of(start_tags, start_tags, end_tags, end_tags, texts, upper_tags)).map(
    "".join
)
few = "p div span table tr td tbody li ul a svg desc select option form h1 h2 button x-y".split()  # noqa: SIM905
nests = st.lists(
    st.one_of(
        st.builds(
            "<{}{}>".format,
            st.sampled_from(few),
            st.sampled_from(["", "", " hidden", " href", " class=ad"]),
        ),
        st.builds("</{}>".format, st.sampled_from(few)),
        st.sampled_from(["word, ", " ", "<br>", "text"]),
    ),
    max_size=60,
).map("".join)
CANARY = 64  # elements before and behind each array
MARK, OTHER_MARK = 0xA7, 0x3C  # what stands there, and in the arrays themselves at first


@kernel
def _scan_one(page: Any, size: Any, room: Any, is_xml: Any) -> Any:
    return scan(np.int64(page.ctypes.data), np.int64(0), size, room, is_xml)


@kernel
def _select_one(room: Any, as_far_as_parts: Any) -> Any:
    # One kernel for both: each compiles for seconds, and most of the code is the same.
    if not as_far_as_parts:
        return select(room)
    hidden = grade_blocks(room)
    read_buttons(room)
    mark_terms(room)
    uncover(room, hidden)
    prose_before(room)
    cut_to_region(room)
    return parts_hold_page(room)


def with_slack(page: bytes) -> NDArray[np.uint8]:
    """The bytes of a page as kernels read them: a few zeros stand behind it."""
    return np.frombuffer(bytearray(page + bytes(SLACK)), np.uint8)


def room_of(size: int, tags: int, mark: int) -> tuple[k.Skeleton, list[NDArray[Any]]]:
    """
    A Skeleton with no more room than a page of this size and so many '<' needs, and the arrays that
    its own are parts of. All elements, also those before and behind each part, are the mark.
    """
    shapes = [(size * 5 // 4 + SLACK,), (tags + 2, k.BLOCK_COLUMNS), (tags + 2, k.NODE_COLUMNS),
              (k.TITLE_MAX * 5 // 4 + SLACK,), (k.STACK_MAX, k.STACK_COLUMNS), (256,), (k.STATE_SIZE,)]  # fmt: skip
    kinds = [np.uint8, np.int64, np.int64, np.uint8, np.int64, np.int64, np.int64]
    wholes: list[NDArray[Any]] = [
        np.full(np.prod(shape) + 2 * CANARY, mark, kind)
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    arrays = (
        whole[CANARY:-CANARY].reshape(shape) for whole, shape in zip(wholes, shapes, strict=True)
    )
    return k.Skeleton(*arrays, REFERENCES), wholes  # type: ignore[call-arg]


def scanned(page: bytes, is_xml: bool = False) -> k.Skeleton:
    """The room of a page that has been scanned, for kernels of what comes after."""
    room, _ = room_of(len(page), page.count(b"<"), MARK)
    _scan_one(with_slack(page), len(page), room, is_xml)
    return room


def parts_are_page(page: bytes) -> bool:
    """Whether the selection finds that small parts of a page hold most of it."""
    return bool(_select_one(scanned(page), True))


def skeleton(
    page: bytes | str, is_xml: bool = False, mark: int = MARK
) -> tuple[k.Skeleton, str, list[list[int]]]:
    """
    What was read and selected of one page: its arrays, as far as in use, all its text, and its
    containers before the selection.

    The arrays have no more room than a page of its size needs; nothing is written before or behind
    them.
    """
    raw = (
        page.decode("utf-8", "replace") if isinstance(page, bytes) else well_formed(page)
    ).encode()
    room, wholes = room_of(len(raw), raw.count(b"<"), mark)
    text = _scan_one(with_slack(raw), len(raw), room, is_xml)
    columns = [k.N_PARENT, k.N_TAG, k.N_OWN, k.N_ABOVE, k.N_FIRST, k.N_END]
    read_nodes = room.nodes[: room.state[k.NODES], columns].tolist()
    _select_one(room, False)
    assert all(
        (whole[:CANARY] == mark).all() and (whole[-CANARY:] == mark).all() for whole in wholes
    ), page
    nodes, blocks, title = (int(room.state[at]) for at in (k.NODES, k.BLOCKS, k.TITLE_SIZE))
    cut = room._replace(
        blocks=room.blocks[:blocks], nodes=room.nodes[:nodes], title=room.title[:title]
    )
    return cut, room.out[:text].tobytes().decode(), read_nodes


def assert_same(page: str) -> tuple[Reader, Found]:
    """
    Blocks, containers, text, title and region of a page are those of the references, as HTML and as
    XML. Returns what the references say of it as HTML.
    """
    _assert_same(page, is_xml=True)
    return _assert_same(page, is_xml=False)


def _assert_same(page: str, is_xml: bool) -> tuple[Reader, Found]:
    expected = read(page.encode(), is_xml)
    found, text, nodes = skeleton(page, is_xml)
    assert text.encode() == bytes(expected.out)
    assert found.title.tobytes() == expected.title
    blocks = np.delete(found.blocks, k.B_KEEP, axis=1)
    assert blocks.tolist() == expected.blocks
    assert nodes == expected.nodes
    where = find_region(expected)
    words = [row[1:3] for row in where.page.nodes]
    for node in where.page.shown:
        words[node][1] &= ~names.HIDDEN
    assert found.nodes[:, [k.N_TAG, k.N_OWN]].tolist() == words
    state = found.state[[k.REGION, k.REGION_END, k.HEADING, k.TEXT_BEGIN]]
    assert state.tolist() == list(where[1:])
    return expected, where


@settings(max_examples=5 * EXAMPLES)
@example("<p>a<br><br>b<br> <br>c")
@example("<table><td>a<tr>b<table>c</table>d</table>e")
@example("<svg><desc><div>a</svg>b</desc>c</div></svg>d<p>e")
@example("<frameset><p>text")
@example("<body><frameset><p>text")
@example("<title/><script src=a/>x<iframe/><textarea/><p/>y<br/>z<div class=ad/>w<svg/><b>v")
@example("<![CDATA[<p>a</p>]]>b<svg><![CDATA[c]]></svg><plaintext/>d<frameset/>e")
@example("<plaintext>a</plaintext><b>&amp;")
@example("<form><div></form>a</div>b<form>c</form>")
@example("<div>" * 600 + "a" + "</div>" * 600 + "b")
@example("<span class=ad>" * 600 + "a" + "</span>" * 600 + "b")
@example("<a href=x>a<table><td>b<a href=y>c</table>d</a>e")
@example(IN_CAPITALS)
@example("<p class='adBanner subNav md:NAV aDs Ad'>a<p class='x:hidden hidden md:block'>b")
@example("<script><!-- <script> </script> --></script>a<script><!--></script>b")
@given(markup)
def test_the_scanner_equals_the_reference_on_any_markup(page: str) -> None:
    """
    Any sequence of tags, attributes, references and broken markup gives the same blocks and
    containers.
    """
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
    """Pages from all parts of the corpus give the same blocks and containers; many examples, all."""
    for page in real_pages[:: max(1, 240 // EXAMPLES)]:
        assert_same(page)


def random_pages(count: int, seed: int) -> Iterator[str]:
    """Long pages of few kinds of markup, some cut off anywhere."""
    dice = random.Random(seed)
    bits = [*TEXTS, *ATTRIBUTES, *(f"<{name}>" for name in TAGS), *(f"</{name}>" for name in TAGS)]
    for _ in range(count):
        few = dice.sample(bits, dice.randrange(1, len(bits)))
        page = "".join(dice.choices(few, k=dice.randrange(400)))
        yield page[: dice.randrange(len(page) + 1)] if dice.random() < 0.2 else page


def test_the_scanner_equals_the_reference_on_long_pages() -> None:
    """However much is open, and wherever a page ends."""
    for page in random_pages(5 * EXAMPLES, random.randrange(1 << 32)):
        assert_same(page)


def test_nothing_is_read_beyond_an_array_nor_before_it_is_written() -> None:
    """What stands there changes nothing of what is read and selected of long random pages."""
    for page in random_pages(5 * EXAMPLES, random.randrange(1 << 32)):
        looks = []
        for mark in (MARK, OTHER_MARK):
            found, text, nodes = skeleton(page, mark=mark)
            arrays = (found.blocks, found.title, found.state[k.REGION : k.TEXT_BEGIN + 1])
            looks.append((text, nodes, [array.tolist() for array in arrays]))
        assert looks[0] == looks[1], page


@pytest.mark.nightly
def test_every_index_is_within_its_array() -> None:
    """
    With numba's checks of bounds compiled in, no random page reads or writes beyond an array's end.

    In every run, the tests above show that nothing stands beyond an array that was not there before,
    and that nothing there changes what is read.

    These kernels have a cache of their own, which is kept: they take longer to compile than to run.
    """
    checks = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(REPOSITORY / "build" / "kernels_with_checks"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = (
        "from tests.core.pages import test_scan as t; [t.skeleton(page) for page in "
        "t.random_pages(400, 2)]"
    )
    output_of(sys.executable, "-c", script, env=os.environ | checks)


RAW_STATES = ("RCDATA state", "RAWTEXT state", "Script data state")
OUT_OF_SCOPE = re.compile(r"[\0\r\ud800-\udfff]|<[a-z][^>]*=[^>]*&", re.DOTALL)


def cases(folder: Path) -> Iterator[tuple[str, str, str, list[Any]]]:
    """Input, initial state, name of the last start tag, expected tokens."""
    for path in sorted(folder.glob("*.test")):
        for case in json.loads(path.read_text(encoding="utf-8")).get("tests", []):
            if case.get("doubleEscaped"):
                case = json.loads(json.dumps(case).replace("\\\\u", "\\u"))  # noqa: PLW2901
            if not OUT_OF_SCOPE.search(case["input"]):
                for state in case.get("initialStates", ["Data state"]):
                    yield case["input"], state, case.get("lastStartTag", "none"), case["output"]


def merged(tokens: list[Any]) -> list[Any]:
    """Tokens without comments and doctypes, the characters between two tags as one."""
    found: list[Any] = []
    for kind, *rest in tokens:
        if kind == "Character" and found and found[-1][0] == "Character":
            found[-1] = ["Character", found[-1][1] + rest[0]]
        elif kind not in ("Comment", "DOCTYPE"):
            found.append([kind, *rest])
    return found


def tokens(page: str, state: str, last: str) -> list[Any]:
    """What the reference reads, in html5lib's words."""
    tokenizer = Tokenizer(page.encode())
    found: list[Any] = []
    if state in RAW_STATES:
        content = b"".join(pieces(tokenizer.raw(last), references=state == RAW_STATES[0])).decode()
        found += [["Character", content]] if content else []
        found += [["EndTag", last]] if tokenizer.closed else []
    while (token := tokenizer.token()) is not None:
        if isinstance(token, Text) and token.pieces:
            found.append(["Character", b"".join(token.pieces).decode()])
        elif isinstance(token, Start):
            attributes = {
                name.encode("latin-1").decode(): value.decode()
                for name, value in token.attributes[::-1]
            }
            name = token.name.encode("latin-1").decode()
            found.append(["StartTag", name, attributes, *([True] if token.self_closing else [])])
        elif isinstance(token, End):
            found.append(["EndTag", token.name.encode("latin-1").decode()])
    return merged(found)


def test_tokens_are_those_of_html5lib(corpora: Path) -> None:
    """
    The reference reads the tags and characters of every case in scope, and the scanner equals it on
    their input.
    """
    folder = corpora / "html5lib-tests" / "tokenizer"
    if not folder.exists():
        pytest.skip(f"no html5lib-tests at {folder}")
    count = 0
    for page, state, last, expected in cases(folder):
        if state == "PLAINTEXT state":
            assert_same("<plaintext>" + page)
        elif state != "CDATA section state":
            assert tokens(page, state, last) == merged(expected), (page, state)
            assert_same(page)
            count += 1
    assert count > 6_500


DROPPED = """script style noscript template svg select textarea iframe title annotation annotation-xml canvas audio
video datalist noembed noframes rt rp""".split()  # noqa: SIM905


def words(text: str) -> str:
    return "".join(re.findall(r"\w+", text))


def lexbor(page: str) -> str:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415

    tree = LexborHTMLParser(page)
    for node in tree.css("span, nobr, math"):
        if (
            meaning([(name, (value or "").encode()) for name, value in node.attributes.items()])
            & names.HIDDEN
        ):
            node.attrs["out"] = ""
    for node in tree.css("[out]:not([out] [out])"):
        node.decompose()
    tree.strip_tags(DROPPED, recursive=True)
    return str(tree.text())


@pytest.fixture(scope="module")
def real_pages(corpora: Path) -> list[str]:
    """The pages of the corpus, well-formed."""
    pages = reviewed_pages(corpora, "benchmark") + reviewed_pages(corpora, "strings")
    return [page["html"].encode("utf-8", "replace").decode() for page in pages] or pytest.skip(
        "no pages"
    )


def test_the_text_of_real_pages_is_lexbors(real_pages: list[str]) -> None:
    """
    All characters of all words of a real page, in their order; one page in a hundred may differ.
    """
    differing = [page for page in real_pages if words(skeleton(page)[1]) != words(lexbor(page))]
    assert len(differing) * 100 <= len(real_pages)


ELEMENTS = """p div span table tr td tbody li ul ol dl dt dd a b i form h1 h2 button pre article section header
blockquote caption th thead hr br center""".split()  # noqa: SIM905
trees = st.lists(
    st.builds("<{}{}>".format, st.sampled_from(ELEMENTS), st.sampled_from(["", " href=x"]))
    | st.builds("</{}>".format, st.sampled_from(ELEMENTS))
    | st.builds("word{}.".format, st.integers(0, 99)),
    max_size=40,
).map("".join)


@settings(max_examples=4 * EXAMPLES)
@example(
    "<table><tr>word1.<td>word2.<table>word3.</td>word4.</table><p><b>word5.<div></b>word6.</p>word7."
)
@given(trees)
def test_the_words_of_any_tree_are_lexbors(page: str) -> None:
    """
    However elements are nested, no word is lost; what stands wrongly in a table keeps its place in
    the page.
    """
    page = "<body>" + page
    assert Counter(re.findall("word[0-9]+", skeleton(page)[1])) == Counter(
        re.findall("word[0-9]+", lexbor(page))
    )
