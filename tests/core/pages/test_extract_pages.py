"""Pages in, packed texts out."""

from __future__ import annotations

import numpy as np
import pytest

from worker.core.definition import Parameters
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import METHODS, extract_pages

PAGE = (
    "<title>The ferry &amp; the river</title><nav><a href='/'>Home</a> <a href='/news'>News</a></nav>"
    "<h1>The ferry is late</h1><p>It was late again on Monday, and nobody has said why it was so late.</p>"
    "<div class='sidebar'><a href='/x'>Buy a car now</a></div>"
)
MAIN = "The ferry is late\nIt was late again on Monday, and nobody has said why it was so late."


def texts(*pages: bytes | str, plain: list[bool] | None = None, **options: object) -> list[str]:
    packed = extract_pages(pages, plain, **options)  # type: ignore[arg-type]
    return [packed.text(number) for number in range(len(packed.texts.spans))]


def test_menus_are_left_out() -> None:
    """The text of a page is its main content; bytes and str are the same page."""
    assert texts(PAGE, PAGE.encode()) == [MAIN, MAIN]


def test_pages_of_a_batch_do_not_touch() -> None:
    """Each page is read to its own end: what it leaves open does not reach into the next."""
    pages = ["<p>An open comment follows, it is here.<!-- ", PAGE, "<p>One more <a href='", PAGE, "", "&am", PAGE, "<"]
    assert texts(*pages) == [texts(page)[0] for page in pages]
    assert texts(*pages)[1::2][:2] == [MAIN, MAIN]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    """Invalid bytes become what Python makes of them, in plain text and in HTML."""
    raw = b"The caf\xe9 is open, and \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf \xe2\x82 too, it is."
    assert texts(b"<p>" + raw, raw, plain=[False, True]) == [raw.decode("utf-8", "replace")] * 2


def test_plain_text_passes_whole() -> None:
    """Plain text is not read as HTML, and its white space stays."""
    packed = extract_pages(["a  <b>\n", PAGE], [True, False])
    assert [packed.text(0), packed.text(1)] == ["a  <b>\n", MAIN]
    assert [METHODS[number] for number in packed.methods] == ["plain", "main"]


def test_fields_share_a_page_out() -> None:
    """Title, headings and body are texts of their own, side by side."""
    found = texts(PAGE, "plain", plain=[False, True], fields=("title", "headings", "body"))
    title, heading, body = "The ferry & the river", *MAIN.split("\n")
    assert found == [title, heading, body, "", "", "plain"]


def test_long_texts_end_at_the_limit() -> None:
    """`characters_max` counts characters of the text, whatever their size."""
    pages = ["<p>" + "word, " * 1_000, "<p>" + "wörd, " * 1_000, "ä" * 5_000]
    assert [len(text) for text in texts(*pages, plain=[False, False, True], characters_max=100)] == [100] * 3


@pytest.mark.parametrize("unit", ["word", "character"])
def test_packed_texts_have_the_fingerprints_of_strings(unit: str) -> None:
    """Fingerprints of packed texts are those of the same texts as strings, in every unit and by fields."""
    pages = [PAGE, PAGE.replace("late", "spät"), "<p>e\u0301 " * 50, "", "<p>short"]
    plain = Fingerprinter(Parameters(token_unit=unit))  # type: ignore[arg-type]
    packed = extract_pages(pages)
    expected = plain.batch([packed.text(number) for number in range(len(pages))])
    for found, column in zip(plain.packed(packed.texts), expected, strict=True):
        np.testing.assert_array_equal(found, column)
    weights = Fingerprinter(Parameters(token_unit=unit, fields=(("title", 3), ("headings", 2), ("body", 1))))  # type: ignore[arg-type]
    names = [name for name, _ in weights.parameters.fields]
    fields = extract_pages(pages, fields=names)
    documents = [{name: fields.text(3 * number + k) for k, name in enumerate(names)} for number in range(len(pages))]
    for found, column in zip(weights.packed(fields.texts), weights.of_fields(documents), strict=True):
        np.testing.assert_array_equal(found, column)


def test_wrong_arguments_are_refused() -> None:
    """Unknown fields and missing flags are errors that name what was given."""
    with pytest.raises(ValueError, match=r"got \['lead'\]"):
        extract_pages([PAGE], fields=["lead"])
    with pytest.raises(ValueError, match="got 1 bodies and 0 flags"):
        extract_pages([PAGE], [])


def test_an_empty_batch_is_empty() -> None:
    """No pages, no texts."""
    assert extract_pages([]).texts.spans.shape == (0, 4)
