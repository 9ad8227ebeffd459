"""
From messages to rows of the log: decode, extract, fingerprint. Stateless, so any number of batches can be under way.

    message ─┬► text ──► decode, fingerprint in a thread (the kernel releases the GIL) ──────────────────┬► Row
             ├► page ──► as it is to a child process: decode, extract, fingerprint ──────────────────────┤
             └► deletion, error ─────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import structlog

from worker.core.document import BodyKind, Deletion, Document
from worker.core.extract import Skipped
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import Fingerprinted, PageResult
from worker.errors import DocumentError
from worker.log.record import Row, RowKind
from worker.shell.messages import carries_page, decode_document
from worker.shell.page_protocol import PageRead
from worker.shell.pool import PagePool
from worker.shell.ports import SourceMessage

__all__ = ["Prepared", "Preparer"]

_log = structlog.get_logger(__name__)

_NOTHING_TO_COMPARE = "empty-text"
PAGES_PER_JOB = 16  # what a child takes at once: few enough to share a batch, and to try again when a page kills it
JOB_BYTES_MAX = 2 << 20


class _Text(NamedTuple):
    """A text to fingerprint, and its place in the batch."""

    place: int
    offset: int
    document: Document


class Prepared:
    """A batch on its way: `wait` tells when it is there, `rows` gives it."""

    def __init__(
        self,
        rows: list[Row | None],
        offsets: Sequence[int],
        texts: Future[list[tuple[int, Row]]] | None,
        pages: Future[list[Future[list[PageRead]]]] | None,
        page_places: Sequence[int],
    ) -> None:
        self._rows = rows
        self._offsets = offsets
        self._texts = texts
        self._pages = pages
        self._page_places = page_places

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
        rows = list(self._rows)
        for place, row in self._texts.result() if self._texts else ():
            rows[place] = row
        if self._pages:
            pages = (page for job in self._pages.result() for page in job.result())
            for place, page in zip(self._page_places, pages, strict=True):
                rows[place] = _row(self._offsets[place], page.doc_id, page.url, page.fetched_at_ms, page.result)
        found = [row for row in rows if row is not None]
        assert len(found) == len(rows)
        return found


def _row(offset: int, doc_id: str, url: str, fetched_at_ms: int, result: PageResult) -> Row:
    if isinstance(result, Fingerprinted):
        fingerprint, features, digest, kind, _ = result
        if kind != RowKind.SKIPPED:
            return Row(offset, kind, doc_id, url, fetched_at_ms, fingerprint, digest, features)
        result = Skipped(_NOTHING_TO_COMPARE)
    if isinstance(result, Skipped):
        return Row(offset, RowKind.SKIPPED, doc_id, url, fetched_at_ms, note=result.reason)
    return _dead(offset, result)


def _dead(offset: int, error: DocumentError) -> Row:
    return Row(offset, RowKind.DEAD, "", "", 0, note=f"{error.code}: {error.text}")


class Preparer:
    """
    Decodes texts in the caller's thread and fingerprints them in one of its own; pages go to the pool, unread.

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
        """Start a batch. Cost here: the decoding of texts, some 10 µs for 5 KB, and the look for pages, 2 µs."""
        rows: list[Row | None] = [None] * len(messages)
        texts: list[_Text] = []
        pages: list[bytes] = []
        page_places: list[int] = []
        for place, (_, offset, key, value) in enumerate(messages):
            if value is not None and len(value) <= self._document_bytes_max and carries_page(value):
                page_places.append(place)
                pages.append(value)
                continue
            try:
                document = decode_document(key, value, value_bytes_max=self._document_bytes_max)
            except DocumentError as error:
                rows[place] = _dead(offset, error)
                continue
            if isinstance(document, Deletion):
                rows[place] = Row(offset, RowKind.DELETED, document.doc_id, "", 0)
            elif document.kind == BodyKind.TEXT:
                texts.append(_Text(place, offset, document))
            elif value is not None:  # a page that did not look like one
                page_places.append(place)
                pages.append(value)
        return Prepared(
            rows,
            [message.offset for message in messages],
            self._thread.submit(self._fingerprint, texts) if texts else None,
            self._page_thread.submit(self._submit_pages, pages) if pages else None,
            page_places,
        )

    def _submit_pages(self, pages: Sequence[bytes]) -> list[Future[list[PageRead]]]:
        return [self._pool.submit(job) for job in _jobs(pages)]

    def _fingerprint(self, texts: Sequence[_Text]) -> list[tuple[int, Row]]:
        """Give the row of each text. One that the fingerprinter fails on is searched for, and costs itself only."""
        try:
            batch = self._fingerprinter.batch(
                [str(text.document.body) for text in texts], [text.document.language for text in texts]
            )
        except Exception as error:  # whatever it is, it would come again with every attempt at the batch
            if len(texts) == 1:
                text = texts[0]
                _log.exception("a text could not be fingerprinted", offset=text.offset, url=text.document.url)
                problem = DocumentError("fingerprint-failed", f"{type(error).__name__}: {error}")
                return [(text.place, _dead(text.offset, problem))]
            middle = len(texts) // 2
            return self._fingerprint(texts[:middle]) + self._fingerprint(texts[middle:])
        columns = (batch.kinds.tolist(), batch.fingerprints.tolist(), batch.digests.tolist(), batch.features.tolist())
        return [
            (place, Row(offset, kind, *document[:3], fingerprint, digest, features))
            if kind != RowKind.SKIPPED
            else (place, Row(offset, kind, *document[:3], note=_NOTHING_TO_COMPARE))
            for (place, offset, document), kind, fingerprint, digest, features in zip(texts, *columns, strict=True)
        ]

    def close(self) -> None:
        """Stop the threads. The pool is its owner's to close, and closed first: a thread may wait for it."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._page_thread.shutdown(wait=True, cancel_futures=True)


def _jobs(pages: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Cut into jobs of at most PAGES_PER_JOB pages and JOB_BYTES_MAX, or one page alone."""
    job: list[bytes] = []
    size = 0
    for page in pages:
        if job and (len(job) == PAGES_PER_JOB or size + len(page) > JOB_BYTES_MAX):
            yield job
            job, size = [], 0
        job.append(page)
        size += len(page)
    if job:
        yield job
