"""Content-Type headers as browsers read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.media_type import media_type_of

CASES = [
    # Most of these are of the Fetch standard and of MIME Sniffing.
    ("text/html", "text/html", None),
    ("TEXT/HTML;CHARSET=GBK", "text/html", "GBK"),
    ("text/html;charset=gbk; charset=utf-8", "text/html", "gbk"),
    ('text/html; charset="g\\"b"', "text/html", 'g\\"b'),
    ("text/html, text/html; charset=utf-8", "text/html", "utf-8"),
    ("text/plain;charset=utf-8, text/html", "text/html", "utf-8"),
    ("text/html;charset=utf-8, text/html;x=y", "text/html", "utf-8"),
    ("text/html;charset=gbk, x/x", "x/x", "gbk"),
    ("text/html, */*", "text/html", None),
    ("text/html,", "text/html", None),
    (", text/html", "text/html", None),
    ("text/html, cannot-parse", "text/html", None),
    ('text/html;" \\" text/plain', "text/html", None),
    ('text/html;x=","text/plain', "text/html", None),
    ("text/html charset=utf-8", "", "utf-8"),
    ("html; charset=utf-8", "", "utf-8"),
    ("text / html", "", None),
    ("text/", "", None),
    ("/html", "", None),
    ("text/html;", "text/html", None),
    ("text/html;charset", "text/html", None),
    ("text/html;charset=", "text/html", None),
    ("  text/html  ", "text/html", None),
    ("*/*", "", None),
    ("", "", None),
    (None, "", None),
]


@pytest.mark.parametrize(("header", "essence", "charset"), CASES)
def test_a_header_says_what_browsers_take_from_it(
    header: str | None, essence: str, charset: str | None
) -> None:
    """The last type that is one; a charset that was given, though its type could not be read."""
    assert media_type_of(header) == (essence, charset)


@given(st.text(alphabet='ab/;=,"\\ \t*', max_size=40))
def test_no_header_is_an_error(header: str) -> None:
    """Any characters give a type in lower case, or none."""
    essence = media_type_of(header).essence
    assert essence == "" or essence.count("/") == 1


def test_a_long_header_costs_what_a_short_one_does() -> None:
    """A header of a megabyte is read to its limit, whatever it repeats."""
    for piece in (',"', ";x", "a/b,", '"\\', ";charset=x", "charset "):
        assert len(media_type_of("text/html" + piece * 300_000).essence) < 20
