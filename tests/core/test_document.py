"""The document value."""

from __future__ import annotations

from worker.core.document import derive_doc_id


def test_a_capture_is_a_url_at_a_time() -> None:
    """The same page at two times is two documents, at one time it is one."""
    assert derive_doc_id("https://example.org/", 1) == derive_doc_id("https://example.org/", 1)
    assert derive_doc_id("https://example.org/", 1) != derive_doc_id("https://example.org/", 2)
    assert derive_doc_id("https://example.org/1", 2) != derive_doc_id("https://example.org/", 12)


def test_a_url_with_a_lone_surrogate_has_an_id() -> None:
    """Hostile text in a URL does not raise."""
    assert len(derive_doc_id("https://example.org/\ud800", 0)) == 32
