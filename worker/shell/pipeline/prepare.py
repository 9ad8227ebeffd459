"""
Turns messages into rows of the log: decode, extract, fingerprint. It has no state, so several
batches are prepared at once.

    batch ──► jobs of at most JOB_BYTES_MAX ──► worker threads ──► rows
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.bodies import settle
from worker.core.document import BodyKind, Deletion, Document
from worker.core.extract import Skipped, content_of
from worker.core.fingerprint import Fingerprinter
from worker.core.kernels.documents import UNREAD
from worker.core.kernels.marks import page_marks
from worker.core.pages import extract_packed, pack_bodies
from worker.core.sketch import WORDS
from worker.errors import DocumentError
from worker.log.record import RowKind, Rows
from worker.log.texts import Texts
from worker.log.url_rules import UrlRules
from worker.settings import Settings
from worker.shell.messages import DocumentColumns, decode_document, decode_documents, oversize
from worker.shell.pipeline.stage import Batch, Stage, cut
from worker.shell.ports import InputMessage
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

# One job of the preparation: messages in, rows of the log out, as columns.
#
#     messages ─┬► decode_documents ─┬► texts and pages as UTF-8 ────┬► text ─► fingerprint ─┬► rows
#               │                    └► bytes ─┬► settle: ordinary ──┤                       │
#               │                              └► charset, one by one┤                       │
#               └► the unusual ones, one by one: decode_document ────┘                       │
#                         └► deletion, nothing to compare, error ────────────────────────────┘
#
# The kernels of messages, pages and fingerprints take a whole job each, without the interpreter's
# lock.
#
# Processor time of a WARC page of 56 KB, whose message has 75, in µs: the page's text 112, its
# fingerprint 27, reading the message 20 (8 of them the copy of a job's messages side by side), its
# charset 13, all else 4. Refused: one look for all byte order marks, .6; fewer reads of a message's
# size in the intake and the last stage, whose Python takes 2.2 for a document in all.

_log = get_logger(__name__)

# Decoded at once by a thread: few enough to share a batch, enough for the kernels' calls. Processor
# time of a page of 56 KB by the size of its job, in turn, in two of three set-ups: with 2 MiB .91
# of what it takes with 1, with 4 MiB .88; of a text .99 and .98. 4 MiB are refused: they leave two
# jobs of a batch of texts, and a thread holds several times the bytes of its job.
JOB_BYTES_MAX = 2 << 20
# JSON of many small values takes 30 times its size: above this, one message at a time.
_LARGE_BYTES = 1 << 20
_NOTHING_TO_COMPARE = b"empty-text"


class _Bodies(NamedTuple):
    """
    Bodies as the kernels read them, with their places in the job and the languages that their
    messages name.
    """

    places: NDArray[np.intp]
    data: NDArray[np.uint8]
    spans: NDArray[np.int64]
    languages: list[str | None]

    def at(self, chosen: slice) -> _Bodies:
        return _Bodies(self.places[chosen], self.data, self.spans[chosen], self.languages[chosen])


class _Draft:
    """The rows of a job while they are made; a row of which nothing else is known is DEAD."""

    def __init__(self, offsets: Sequence[int]) -> None:
        count = len(offsets)
        self.offsets = np.array(offsets, np.int64)
        self.kinds = np.full(count, RowKind.DEAD, np.uint8)
        self.doc_ids = self.urls = _empty_texts(count)
        self.times_ms = np.zeros(count, np.int64)
        self.fingerprints, self.digests, self.doubts = (
            np.zeros(count, np.uint64) for _ in range(3)
        )
        self.features = np.zeros(count, np.uint32)
        self.sketches = np.zeros((count, WORDS), np.uint64)
        self.titles = np.zeros(count, np.uint32)
        # By place, of the rows whose texts are not those of the columns.
        self._doc_ids: dict[int, bytes] = {}
        self._urls: dict[int, bytes] = {}
        self._notes: dict[int, bytes] = {}

    def take(
        self, place: int, kind: RowKind, document: Document | Deletion, note: bytes = b""
    ) -> None:
        """Enter one document that has no fingerprint, or none yet."""
        self.kinds[place] = kind
        self.note(place, note)
        self._doc_ids[place] = _utf8(document.doc_id)
        self.times_ms[place] = 0  # a deletion has none, and the kernel has left NO_TIME there
        if isinstance(document, Document):
            self._urls[place] = _utf8(document.url)
            self.times_ms[place] = document.fetched_at_ms

    def note(self, place: int, note: bytes) -> None:
        """Say why a row is skipped or dead."""
        self._notes[place] = note

    def reject(self, place: int, error: DocumentError) -> None:
        """Enter a message that cannot be judged."""
        self.kinds[place] = RowKind.DEAD
        self.note(place, _utf8(str(error)))
        self._doc_ids[place] = b""
        self._urls[place] = b""
        self.times_ms[place] = 0

    def fail(self, place: int, error: Exception) -> None:
        """
        Enter a message on which a decoder or a kernel fails unexpectedly, or for which no memory is
        left when it is alone.

        For lack of memory, too, it is a dead letter for good. A worker that ended instead would
        read the document again, and so would its successor. What the log says of it is the same for
        all replicas, and the dead letter has the document, to be fed again.
        """
        _log.error(
            "a document could not be fingerprinted", offset=int(self.offsets[place]), exc_info=error
        )
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError):
            text += " (no memory was left for this document: allow more, and feed it again)"
        self.reject(place, DocumentError("fingerprint-failed", text))

    def rows(self, url_rules: UrlRules) -> Rows:
        """Return the rows; their marks are those of the pages that their URLs name."""
        urls = _with_texts(self.urls, self._urls)
        pages = url_rules.pages_of(urls)
        return Rows(
            offsets=self.offsets,
            kinds=self.kinds,
            doc_ids=_with_texts(self.doc_ids, self._doc_ids),
            urls=urls,
            fetched_at_ms=self.times_ms,
            fingerprints=self.fingerprints,
            digests=self.digests,
            features=self.features,
            notes=_with_texts(_empty_texts(len(self.kinds)), self._notes),
            doubts=self.doubts,
            sketches=self.sketches,
            marks=page_marks(pages.data, pages.ends, self.titles, self.features),
        )


def _empty_texts(count: int) -> Texts:
    return Texts(np.empty(0, np.uint8), np.zeros(count, np.int64))


def _with_texts(column: Texts, texts: Mapping[int, bytes]) -> Texts:
    """Return the column with these texts at their places. Cost: nothing where there are none."""
    if not texts:
        return column
    all_texts = column.tolist()
    for place, text in texts.items():
        all_texts[place] = text
    return Texts.of(all_texts)


class JobReader:
    """Reads jobs, in several threads at once."""

    def __init__(self, settings: Settings, fingerprinter: Fingerprinter) -> None:
        self._fingerprinter = fingerprinter
        self._names_languages = fingerprinter.parameters.anchors == "named"
        self._document_bytes_max = settings.document_bytes_max
        self._text_characters_max = settings.text_characters_max
        self._url_rules = settings.pages_of_urls
        self._decoding_large = Lock()

    def rows(self, messages: Sequence[InputMessage]) -> Rows:
        """Return the row of each message."""
        draft = _Draft([message.offset for message in messages])
        found = decode_documents(
            [
                value
                if value is not None and not defect and len(value) <= self._document_bytes_max
                else b""
                for _, _, _, value, defect, *_ in messages
            ]
        )
        in_place = self._in_place(found, draft)
        others = self._others(messages, found, draft)
        self._fingerprint(in_place, draft)
        # Apart from those in place: the kernels take one buffer, so one call would cost a copy.
        if others is not None:
            self._fingerprint(others, draft)
        return draft.rows(self._url_rules)

    def _in_place(self, found: DocumentColumns, draft: _Draft) -> _Bodies:
        """Enter the documents whose bodies can be compared where they are."""
        draft.doc_ids, draft.urls, draft.times_ms = found.doc_ids, found.urls, found.times_ms
        is_ready = (found.kinds == BodyKind.TEXT) | (found.kinds == BodyKind.HTML)
        raw = np.flatnonzero(found.kinds == BodyKind.BYTES)
        if len(raw):
            content_types = found.content_types.take(raw).tolist()
            charsets = found.charsets.take(raw).tolist()
            is_ready[raw] = settle(found.bodies, found.spans, raw, content_types, charsets)
        places = np.flatnonzero(is_ready)
        draft.kinds[places] = RowKind.FULL
        named = (
            [language.decode() or None for language in found.languages.tolist()]
            if self._names_languages
            else None
        )
        return _Bodies(
            places, found.bodies, found.spans[places],
            [named[place] for place in places.tolist()] if named else [None] * len(places),
        )  # fmt: skip

    def _others(
        self, messages: Sequence[InputMessage], found: DocumentColumns, draft: _Draft
    ) -> _Bodies | None:
        """
        Enter the remaining messages one by one: bodies of bytes that are not ordinary, and those
        that the kernel has not read.

        Returns the bodies that are to be fingerprinted, if there are any.
        """
        bodies: list[tuple[int, str | bytes, int, str | None]] = []
        for place in np.flatnonzero(draft.kinds == RowKind.DEAD).tolist():
            try:
                is_read = found.kinds[place] != UNREAD
                document = found.document(place) if is_read else self._decode(messages[place])
                if isinstance(document, Deletion):
                    draft.take(place, RowKind.DELETED, document)
                    continue
                content = content_of(document)
                if isinstance(content, Skipped):
                    draft.take(place, RowKind.SKIPPED, document, content.reason.encode())
                    continue
                draft.take(place, RowKind.FULL, document)
                bodies.append((place, content.body, content.kind, document.language))
            except DocumentError as error:
                draft.reject(place, error)
            except Exception as error:
                draft.fail(place, error)
        if not bodies:
            return None
        places, contents, kinds, languages = zip(*bodies, strict=True)
        data, spans = pack_bodies(contents, kinds)
        return _Bodies(np.array(places, np.intp), data, spans, list(languages))

    def _decode(self, message: InputMessage) -> Document | Deletion:
        _, _, key, value, defect, *_ = message
        if defect:
            raise DocumentError(message.defect_code, defect)
        if message.document is not None:
            return message.document
        if message.document_bytes > self._document_bytes_max:
            raise oversize(message.document_bytes, self._document_bytes_max)
        with self._decoding_large if message.size_bytes > _LARGE_BYTES else nullcontext():
            return decode_document(
                key,
                value,
                value_bytes_max=self._document_bytes_max,
                timestamp_ms=message.timestamp_ms,
            )

    def _fingerprint(self, bodies: _Bodies, draft: _Draft) -> None:
        """
        Enter the fingerprints.

        If the kernels fail on a batch, the body that causes it is searched for by halving, and
        costs itself only.
        """
        places = bodies.places
        count = len(bodies.places)
        if not count:
            return
        try:
            pages = extract_packed(
                bodies.data, bodies.spans, characters_max=self._text_characters_max
            )
            batch = self._fingerprinter.packed(pages.texts, bodies.languages)
        except (
            Exception
        ) as error:  # whatever it is, it would come again with every attempt at the batch
            if count == 1:
                draft.fail(int(places[0]), error)
                return
        else:
            draft.kinds[places] = batch.kinds
            draft.fingerprints[places], draft.digests[places] = batch.fingerprints, batch.digests
            draft.features[places], draft.doubts[places] = batch.features, batch.doubts
            draft.sketches[places], draft.titles[places] = batch.sketches, pages.titles
            for place in places[batch.kinds == RowKind.SKIPPED].tolist():
                draft.note(place, _NOTHING_TO_COMPARE)
            return
        for half in (slice(count // 2), slice(count // 2, count)):
            self._fingerprint(bodies.at(half), draft)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


JOB_DOCUMENTS_MAX = 1_000


class Preparer(Stage):
    """
    The stage between intake and sequencer: works on batches in threads.

    Each thread holds the decoded documents of one job, and what the kernels need for one text. The
    end of the context drops what has not begun, and waits for what has: a job, or one document of
    the largest size.
    """

    def __init__(
        self, settings: Settings, fingerprinter: Fingerprinter | None = None, batches_max: int = 4
    ) -> None:
        super().__init__(batches_max)
        self._settings = settings
        self.fingerprinter = fingerprinter or Fingerprinter(settings.parameters)
        self._threads_max = settings.threads
        self._awaited_since_s: float | None = None
        self._make_threads()

    def _make_threads(self) -> None:
        self._process = os.getpid()
        self._reader = JobReader(self._settings, self.fingerprinter)
        self._threads = ThreadPoolExecutor(self._threads_max, thread_name_prefix="prepare")

    def _follow_fork(self) -> None:
        """
        Make the threads again in a forked child, and begin the batches that are here again.

        A child has none of its parent's threads. What they held when it was forked (a lock, a job
        half done) stays so for ever, so nothing of it is touched.
        """
        if self._process == os.getpid():
            return
        self._make_threads()
        for batch in self._batches:
            self._begin(batch)

    def rows(self, messages: Sequence[InputMessage]) -> Rows:
        """Return the row of each message, made by the calling thread."""
        self._follow_fork()
        return self._reader.rows(messages)

    def _begin(self, batch: Batch) -> None:
        self._follow_fork()
        jobs = cut(batch.messages, JOB_DOCUMENTS_MAX, JOB_BYTES_MAX)
        batch.jobs = [self._threads.submit(self.rows, job) for job in jobs]

    def _finish(self, batch: Batch, wait_s: float) -> bool:
        self._follow_fork()
        self._awaited_since_s = self._awaited_since_s or time.monotonic()
        if wait(batch.jobs, wait_s).not_done:
            return False
        batch.rows = Rows.joined([job.result() for job in batch.jobs])
        metrics.STAGE_S.labels("prepare").observe(time.monotonic() - self._awaited_since_s)
        self._awaited_since_s = None
        return True

    def drop(self) -> None:
        """Forget the batches that are here. A job that has begun goes on, and its rows are lost."""
        with self._changed:
            self._follow_fork()
            for batch in self._batches:
                for job in batch.jobs:
                    job.cancel()
            self._batches.clear()
            self._awaited_since_s = None
            self._changed.notify_all()

    def idle_threads(self) -> int:
        """`Stage.idle_threads`. Cost: some µs, for each job of the batches that are here."""
        with self._changed:
            jobs = [job for batch in self._batches for job in batch.jobs]
        return max(0, self._threads_max - sum(not job.done() for job in jobs))

    def __enter__(self) -> Preparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(finish=False)
        self._threads.shutdown(wait=True, cancel_futures=True)
