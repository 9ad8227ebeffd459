"""
From messages to rows of the log: decode, extract, fingerprint. Stateless, so several batches are on their way at once.

    batch ──► jobs of at most JOB_BYTES_MAX ──► worker threads ─┬► text, page ──► main text ──► fingerprint ─┬► rows
                                                                └► deletion, nothing to compare, error ──────┘

The kernels of pages and fingerprints take a whole job each, without the interpreter's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import NamedTuple, cast

import structlog

from worker.core.document import Deletion, Document
from worker.core.extract import Content, Skipped, content_of
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.pages import extract_pages
from worker.errors import DocumentError
from worker.log.record import Row, RowKind
from worker.settings import Settings
from worker.shell.messages import decode_document
from worker.shell.pipeline.batch import Batch, cut
from worker.shell.pipeline.stage import BatchQueue
from worker.shell.ports import SourceMessage
from worker.shell.runtime import metrics

__all__ = ["JOB_BYTES_MAX", "Preparer"]

_log = structlog.get_logger(__name__)

JOB_DOCUMENTS_MAX = 1_000
JOB_BYTES_MAX = 1 << 20  # decoded at once by a thread: few enough to share a batch, enough for the kernels' calls
_NOTHING_TO_COMPARE = "empty-text"


class _Item(NamedTuple):
    """A document to fingerprint, and its place in the job."""

    place: int
    offset: int
    document: Document
    content: Content


class Preparer:
    """
    The stage between intake and sequencer: at most `batches_max` batches, worked on in threads.

    Each thread holds the decoded documents of one job, and what the kernels need for one text. The end of the
    context drops what has not begun, and waits for what has: a job, or one document of the largest size.
    """

    def __init__(self, settings: Settings, fingerprinter: Fingerprinter | None = None, batches_max: int = 4) -> None:
        self._fingerprinter = fingerprinter or Fingerprinter(settings.parameters)
        self._document_bytes_max = settings.document_bytes_max
        self._text_characters_max = settings.text_characters_max
        self._decoding_large = Lock()  # JSON of many small values takes 30 times its size: of one message at a time
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="prepare")
        self._batches: BatchQueue[tuple[Batch, list[Future[list[Row]]]]] = BatchQueue(batches_max)
        self._awaited_since_s: float | None = None

    def __len__(self) -> int:
        """Return the number of batches that `poll` has not given back yet."""
        return len(self._batches)

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Start a batch; False: there was no room for it within `wait_s`."""
        if not self._batches.has_room(wait_s):
            return False
        jobs = cut(batch.messages, JOB_DOCUMENTS_MAX, JOB_BYTES_MAX)
        self._batches.put((batch, [self._threads.submit(self.rows, job) for job in jobs]))
        return True

    def poll(self, wait_s: float | None = 0.0) -> Batch | None:
        """Return the next batch with its rows, in order; None: it was not there within `wait_s` (None: for ever)."""
        began_s = time.monotonic()
        if (head := self._batches.head(wait_s)) is None:
            return None
        batch, jobs = head
        self._awaited_since_s = self._awaited_since_s or time.monotonic()
        if wait(jobs, wait_s and began_s + wait_s - time.monotonic()).not_done:
            return None
        batch.rows = [row for job in jobs for row in job.result()]
        self._batches.take()
        metrics.STAGE_S.labels("prepare").observe(time.monotonic() - self._awaited_since_s)
        self._awaited_since_s = None
        return batch

    def close(self, *, finish: bool = True) -> None:
        """Take no more batches; unless `finish`, drop those that are here."""
        self._batches.close(finish=finish)

    def join(self, wait_s: float) -> bool:
        """Return whether it is closed and has given everything back within `wait_s`."""
        return self._batches.join(wait_s)

    def rows(self, messages: Sequence[SourceMessage]) -> list[Row]:
        """Return the row of each message of a job, here and now."""
        rows: dict[int, Row] = {}
        texts: list[_Item] = []
        pages: list[_Item] = []
        for place, message in enumerate(messages):
            found = self._read(place, message)
            if isinstance(found, Row):
                rows[place] = found
            else:
                (pages if found.content.is_page else texts).append(found)
        rows.update(_isolating(self._of_texts, texts))
        rows.update(_isolating(self._of_pages, pages))
        return [rows[place] for place in range(len(messages))]

    def _read(self, place: int, message: SourceMessage) -> _Item | Row:
        """Decode a message: a text, or what becomes of it without one."""
        _, offset, key, value, defect, _ = message
        if defect:
            return _dead(offset, DocumentError("unreadable", defect))
        try:
            if message.size_bytes <= JOB_BYTES_MAX:
                document = decode_document(key, value, value_bytes_max=self._document_bytes_max)
            else:
                with self._decoding_large:
                    document = decode_document(key, value, value_bytes_max=self._document_bytes_max)
            if isinstance(document, Deletion):
                return Row(offset, RowKind.DELETED, document.doc_id, "", 0)
            found = content_of(document)
        except DocumentError as error:
            return _dead(offset, error)
        except Exception as error:  # of a decoder that meets what nobody foresaw
            return _failed(offset, error)
        if isinstance(found, Skipped):
            return Row(offset, RowKind.SKIPPED, *document[:3], note=found.reason)
        return _Item(place, offset, document, found)

    def _of_texts(self, items: Sequence[_Item]) -> FingerprintBatch:
        texts = [cast(str, item.content.body)[: self._text_characters_max] for item in items]
        return self._fingerprinter.batch(texts, [item.document.language for item in items])

    def _of_pages(self, items: Sequence[_Item]) -> FingerprintBatch:
        pages = extract_pages([item.content.body for item in items], characters_max=self._text_characters_max)
        return self._fingerprinter.packed(pages.texts, [item.document.language for item in items])

    def __enter__(self) -> Preparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(finish=False)
        self._threads.shutdown(wait=True, cancel_futures=True)


def _isolating(
    fingerprint: Callable[[Sequence[_Item]], FingerprintBatch], items: Sequence[_Item]
) -> list[tuple[int, Row]]:
    """Return place and row of each item. One that the kernels fail on is searched for, and costs itself only."""
    if not items:
        return []
    try:
        batch = fingerprint(items)
    except Exception as error:  # whatever it is, it would come again with every attempt at the batch
        if len(items) == 1:
            return [(items[0].place, _failed(items[0].offset, error))]
        middle = len(items) // 2
        return _isolating(fingerprint, items[:middle]) + _isolating(fingerprint, items[middle:])
    columns = (batch.fingerprints, batch.digests, batch.features, batch.doubts)
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [
        (place, Row(offset, kind, *document[:3], fingerprint, digest, features, "", doubts))
        if kind != RowKind.SKIPPED
        else (place, Row(offset, kind, *document[:3], note=_NOTHING_TO_COMPARE))
        for (place, offset, document, _), kind, (fingerprint, digest, features, doubts) in zip(
            items, batch.kinds.tolist(), values, strict=True
        )
    ]


def _dead(offset: int, error: DocumentError) -> Row:
    return Row(offset, RowKind.DEAD, "", "", 0, note=str(error))


def _failed(offset: int, error: Exception) -> Row:
    _log.error("a document could not be fingerprinted", offset=offset, exc_info=error)
    return _dead(offset, DocumentError("fingerprint-failed", f"{type(error).__name__}: {error}"))
