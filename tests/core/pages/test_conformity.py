"""
The scanner against the web's own tests: html5lib's tokenizer cases, and the text that Lexbor finds.

Of the tokenizer cases these are out of scope, since they change no text that a fingerprint sees:

- U+0000 in names and raw text, CR for LF: both are white space here, or in no name that is known;
- references in attribute values: what is read of them are words of classes, and whether there is a link;
- the data of comments and doctypes: only where they end matters;
- a start inside CDATA: it is only read inside SVG and MathML, and left out there;
- lone surrogates: UTF-8 has none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.core.pages.reference import End, Start, Text, Tokenizer, meaning, pieces
from tests.core.pages.test_scan import assert_same, skeleton
from worker.core.pages.names import HIDDEN

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
        if isinstance(token, Text):
            found.append(["Character", b"".join(token.pieces).decode()])
        elif isinstance(token, Start):
            attributes = {name.encode("latin-1").decode(): value.decode() for name, value in token.attributes[::-1]}
            name = token.name.encode("latin-1").decode()
            found.append(["StartTag", name, attributes, *([True] if token.self_closing else [])])
        elif isinstance(token, End):
            found.append(["EndTag", token.name.encode("latin-1").decode()])
    return merged(found)


def test_tokens_are_those_of_html5lib(corpora: Path) -> None:
    """The reference reads the tags and characters of every case in scope, and the scanner equals it on their input."""
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
        if meaning([(name, (value or "").encode()) for name, value in node.attributes.items()]) & HIDDEN:
            node.attrs["out"] = ""
    for node in tree.css("[out]:not([out] [out])"):
        node.decompose()
    tree.strip_tags(DROPPED, recursive=True)
    return str(tree.text())


def test_the_text_of_real_pages_is_lexbors(real_pages: list[str]) -> None:
    """All characters of all words of a real page, in their order; one page in a hundred may differ."""
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
@example("<table><tr>word1.<td>word2.<table>word3.</td>word4.</table><p><b>word5.<div></b>word6.</p>word7.")
@given(trees)
def test_the_words_of_any_tree_are_lexbors(page: str) -> None:
    """However elements are nested, no word is lost; what stands wrongly in a table keeps its place in the page."""
    page = "<body>" + page
    assert Counter(re.findall("word[0-9]+", skeleton(page)[1])) == Counter(re.findall("word[0-9]+", lexbor(page)))
