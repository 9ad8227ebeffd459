"""
From messages of `documents` to what the log needs of each: decode, extract, fingerprint.

Runs in a page process; in the worker itself when there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from worker.core.document import Deletion, Document
from worker.core.extract import PageLimits, extract
from worker.core.pages import BatchFingerprinter, Extractor, PageResult, fingerprint_pages
from worker.errors import DocumentError
from worker.shell.messages import decode_document
from worker.shell.page_protocol import PageRead

__all__ = ["read_pages"]


def read_pages(
    messages: Iterable[bytes],
    fingerprinter: BatchFingerprinter,
    limits: PageLimits,
    before_page: Callable[[], None] = lambda: None,
    extractor: Extractor = extract,
) -> list[PageRead]:
    """
    Give what came of each message, in order. What cannot be read costs itself only.

    The size of a message is its sender's to check: here nothing is too large to be decoded.

    Args:
        before_page: called before each message and each page, as a sign of life.
    """
    documents: list[Document] = []
    read: list[tuple[str, str, int, PageResult | None]] = []
    for value in messages:
        before_page()
        try:
            document = decode_document(None, value, value_bytes_max=len(value))
        except DocumentError as error:
            read.append(("", "", 0, error))
            continue
        assert not isinstance(document, Deletion)  # that is a message without a value
        documents.append(document)
        read.append((*document[:3], None))
    results = iter(fingerprint_pages(documents, fingerprinter, limits, before_page=before_page, extractor=extractor))
    return [
        PageRead(doc_id, url, fetched_at_ms, next(results) if error is None else error)
        for doc_id, url, fetched_at_ms, error in read
    ]
