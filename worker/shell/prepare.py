"""
From messages to rows of the log: decode, extract, fingerprint. Stateless, so any number of batches can be under way.

    message ──► decode ──► text ──► fingerprint, in a thread (the kernel releases the GIL) ──┐
                  │  └───► page ──► extract and fingerprint, in a child process ─────────────┤
                  └─ error, deletion ────────────────────────────────────────────────────────┴─► Row
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from worker.core.document import BodyKind, Deletion, Document
from worker.core.extract import Skipped
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import Fingerprinted, PageResult
from worker.errors import DocumentError
from worker.log.record import Row, RowKind
from worker.shell.messages import decode_document
from worker.shell.pool import PagePool
from worker.shell.ports import SourceMessage

__all__ = ["Prepared", "Preparer"]

_NOTHING_TO_COMPARE = "empty-text"


PAGES_PER_JOB = 16  # what a child takes at once: few enough to share a batch, and to try again when a page kills it


class Prepared:
    """A batch on its way: `wait` tells when it is there, `rows` gives it."""

    def __init__(
        self,
        offsets: Sequence[int],
        decoded: Sequence[Document | Deletion | DocumentError],
        texts: Future[dict[int, PageResult]] | None,
        pages: Future[list[Future[list[PageResult]]]] | None,
        page_positions: Sequence[int],
    ) -> None:
        self._offsets = offsets
        self._decoded = decoded
        self._texts = texts
        self._pages = pages
        self._page_positions = page_positions

    def wait(self, seconds: float) -> bool:
        """Wait up to this long; tell whether `rows` would answer at once."""
        deadline = time.monotonic() + seconds
        try:
            if self._texts:
                self._texts.exception(seconds)
            for job in self._pages.result(max(deadline - time.monotonic(), 0)) if self._pages else ():
                job.exception(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            return False
        return True

    def rows(self) -> list[Row]:
        """Give one row a message, in the order of the messages; waits until all are there."""
        results: dict[int, PageResult] = dict(self._texts.result()) if self._texts else {}
        if self._pages:
            of_pages = (result for job in self._pages.result() for result in job.result())
            results.update(zip(self._page_positions, of_pages, strict=True))
        return [
            _row(offset, decoded, results.get(position))
            for position, (offset, decoded) in enumerate(zip(self._offsets, self._decoded, strict=True))
        ]


def _row(offset: int, decoded: Document | Deletion | DocumentError, result: PageResult | None) -> Row:
    if isinstance(decoded, Deletion):
        return Row(offset, RowKind.DELETED, decoded.doc_id, "", 0)
    error = decoded if isinstance(decoded, DocumentError) else result
    if isinstance(error, DocumentError):
        return Row(offset, RowKind.DEAD, "", "", 0, note=f"{error.code}: {error.text}")
    assert isinstance(decoded, Document)
    assert result is not None
    assert not isinstance(result, DocumentError)
    identity = (decoded.doc_id, decoded.url, decoded.fetched_at_ms)
    if isinstance(result, Skipped):
        return Row(offset, RowKind.SKIPPED, *identity, note=result.reason)
    if result.kind == RowKind.SKIPPED:
        return Row(offset, RowKind.SKIPPED, *identity, note=_NOTHING_TO_COMPARE)
    return Row(offset, result.kind, *identity, result.fingerprint, result.digest, result.features)


class Preparer:
    """
    Decodes in the caller's thread, fingerprints texts in one thread and pages in the pool.

    Args:
        document_bytes_max: a larger message is a dead letter.
    """

    def __init__(self, fingerprinter: Fingerprinter, pool: PagePool, document_bytes_max: int) -> None:
        self._fingerprinter = fingerprinter
        self._pool = pool
        self._document_bytes_max = document_bytes_max
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fingerprint")
        self._page_thread = ThreadPoolExecutor(1, thread_name_prefix="pages")  # waits for the pool in our place

    def submit(self, messages: Sequence[SourceMessage]) -> Prepared:
        """Start a batch. Cost here: the decoding, some 10 µs for a message of 5 KB."""
        decoded = [self._decode(message) for message in messages]
        texts = [(i, d) for i, d in enumerate(decoded) if isinstance(d, Document) and d.kind == BodyKind.TEXT]
        pages = [(i, d) for i, d in enumerate(decoded) if isinstance(d, Document) and d.kind != BodyKind.TEXT]
        return Prepared(
            [message.offset for message in messages],
            decoded,
            self._thread.submit(self._fingerprint, texts) if texts else None,
            self._page_thread.submit(self._submit_pages, [page for _, page in pages]) if pages else None,
            [i for i, _ in pages],
        )

    def _decode(self, message: SourceMessage) -> Document | Deletion | DocumentError:
        try:
            return decode_document(message.key, message.value, value_bytes_max=self._document_bytes_max)
        except DocumentError as error:
            return error

    def _submit_pages(self, pages: Sequence[Document]) -> list[Future[list[PageResult]]]:
        return [self._pool.submit(pages[at : at + PAGES_PER_JOB]) for at in range(0, len(pages), PAGES_PER_JOB)]

    def _fingerprint(self, texts: Sequence[tuple[int, Document]]) -> dict[int, PageResult]:
        batch = self._fingerprinter.batch([str(d.body) for _, d in texts], [d.language for _, d in texts])
        columns = (batch.fingerprints.tolist(), batch.features.tolist(), batch.digests.tolist(), batch.kinds.tolist())
        return {
            i: Fingerprinted(fingerprint, features, digest, kind, "text")
            for (i, _), fingerprint, features, digest, kind in zip(texts, *columns, strict=True)
        }

    def close(self) -> None:
        """Stop the threads. The pool is its owner's to close, and closed first: a thread may wait for it."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._page_thread.shutdown(wait=True, cancel_futures=True)
