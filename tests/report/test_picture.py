"""The README's picture of a report shows the page as it is."""

from __future__ import annotations

from tests.report.picture import DIGEST, PICTURE, page_digest


def test_the_picture_is_of_the_page_as_it_is() -> None:
    """Otherwise: make picture, which needs Chromium, and look at it."""
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert DIGEST.read_text().strip() == page_digest()
