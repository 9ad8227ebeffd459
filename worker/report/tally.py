"""
Counts in one pass what a report shows: columns by answer, counters by host, distance and reason,
and clusters.

Memory: 9 bytes per answer, 24 per copy; hosts, reasons and classes of errors have a maximum each.
"""

from __future__ import annotations

import tempfile
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import xxhash

from worker.core.document import ApartReason, MatchKind, Original, Outcome, Verdict
from worker.core.hosts import host_of
from worker.errors import StopError
from worker.shell.files.archives.rows import brought_url
from worker.shell.messages import DeadLetter, decode_verdict

APART_SHOWN_MAX = 4  # documents that are kept apart, as examples of each rule
MEMBERS_READ_MAX = 200  # members of a cluster that are kept; its size counts all


class Cluster(NamedTuple):
    """
    An original and its copies. `members` are the first copies, in the order of their verdicts, each
    document once.
    """

    original: Original
    size: int  # the original and all copies
    members: list[Verdict]

    @property
    def farthest(self) -> Verdict:
        """The member that is least similar to the original."""
        return min(self.members, key=_likeness)


def _likeness(verdict: Verdict) -> tuple[float, int]:
    match = verdict.duplicate_of
    return (match.similarity, -match.distance) if match else (1.0, 0)


@contextmanager
def _named_place() -> Iterator[None]:
    """Name the folder of temporary files in an error about a file there. It raises StopError."""
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or "the folder of temporary files"
        raise StopError(
            f"cannot keep verdicts in {folder}: {error.strerror or error}. Make room there, or "
            "name another folder with the variable TMPDIR"
        ) from error


class Clusters:
    """
    Copies by their original.

    For each copy, it keeps the hashes of the original's doc_id and of its own URL, and where its
    verdict ends on disk. The verdict lies there as it came, and is read again if it is shown.
    """

    def __init__(self) -> None:
        self._originals = array("Q")
        self._urls = array("Q")  # of the copies that brought one
        self._ends = array("q")
        with _named_place():
            # Closed by `close`.
            self._kept = tempfile.TemporaryFile(prefix="neardup-report-")  # noqa: SIM115

    def add(self, original: str, copy: bytes, url: str | None) -> None:
        """Take the verdict on a copy of an original, as it came, and the copy's URL."""
        self._originals.append(_hash_of(original))
        if url is not None:
            self._urls.append(_hash_of(url))
        with _named_place():
            written = self._kept.write(copy)
        self._ends.append(written + (self._ends[-1] if self._ends else 0))

    def __len__(self) -> int:
        return len(self._originals)

    def captured_again(self) -> int:
        """Return how many copies have the URL of an earlier one. Cost: sorting the URLs' hashes."""
        return len(self._urls) - len(np.unique(np.asarray(self._urls)))

    def sizes(self) -> dict[int, int]:
        """
        Return how many clusters there are of each size, the original included, the smallest first.
        """
        _, copies = np.unique(np.asarray(self._originals), return_counts=True)
        sizes, counts = np.unique(copies + 1, return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    def largest(self, count: int) -> list[Cluster]:
        """Return the largest clusters. Of clusters of one size, the earlier ones come first."""
        hashes = np.asarray(self._originals)
        different, first, copies = np.unique(hashes, return_index=True, return_counts=True)
        clusters = []
        for number in np.lexsort((first, -copies))[:count].tolist():
            rows = np.flatnonzero(hashes == different[number])[:MEMBERS_READ_MAX]
            verdicts = map(self._read, rows.tolist())
            members = {verdict.doc_id: verdict for verdict in verdicts}
            original = next(
                member.duplicate_of.original for member in members.values() if member.duplicate_of
            )
            clusters.append(Cluster(original, int(copies[number]) + 1, list(members.values())))
        return clusters

    def _read(self, row: int) -> Verdict:
        begin = self._ends[row - 1] if row else 0
        with _named_place():
            self._kept.seek(begin)  # which writes what is left in the buffer
            data = self._kept.read(self._ends[row] - begin)
        return decode_verdict(data)

    def close(self) -> None:
        """Throw everything away, also what a full disk has left in the buffer."""
        with suppress(OSError):
            self._kept.close()


def _hash_of(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


HOSTS_MAX = 200_000
REASONS_MAX = 1_000
OTHER = "all others"
NO_HOST = "(no host)"
NO_TIME = np.iinfo(np.int64).min

Key = TypeVar("Key", bound=Hashable)


class Class(IntEnum):
    """
    What an answer means to a reader of the report.

    If the same URL was captured again, it is a re-crawl with any verdict, because it is not a copy
    on another page.

    A verdict tells so of pages that were originals: neardup keeps the URLs of these. A page that
    was a copy, captured again, is a copy again. The report says so, and how many there are: it
    knows only when it has read all answers, and then by hashes (`Clusters.captured_again`).
    """

    NEW = 0
    VERSION = 1  # a new version of a page that was seen before
    EXACT = 2  # a copy, token for token
    NEAR = 3  # a copy
    RECRAWL = 4  # a duplicate of the same page
    SKIPPED = 5
    DELETED = 6
    DEAD = 7


def class_of(answer: Verdict | DeadLetter) -> Class:
    if isinstance(answer, DeadLetter):
        return Class.DEAD
    match = answer.duplicate_of
    if match is None:
        if answer.outcome is Outcome.NEW:
            return Class.VERSION if answer.former_version else Class.NEW
        return Class.SKIPPED if answer.outcome is Outcome.SKIPPED else Class.DELETED
    if match.same_url or answer.former_version:
        return Class.RECRAWL
    return Class.EXACT if match.kind is MatchKind.EXACT else Class.NEAR


def brought_ms(fetched_at_ms: int | None) -> int | None:
    """Return a time of capture; None for the one that a document without a time has."""
    return fetched_at_ms or None


class Tally:
    """
    Everything that a report says about its answers. Use it as a context manager, because it keeps
    copies in a temporary file.
    """

    def __init__(self) -> None:
        self.classes = array("B")  # of each answer
        # The time of capture of each answer's document, or NO_TIME.
        self.times_ms = array("q")
        self.hosts: dict[str, list[int]] = {}  # host -> answers by class
        self.without_url = 0  # documents that brought none
        self.distances = np.zeros((len(Class), 65), np.int64)  # of duplicates, by class
        self.reasons: Counter[tuple[Class, str]] = Counter()
        self.changed: Counter[str] = Counter()  # of pages seen before
        self.found_by: Counter[str] = Counter()
        # Documents that stay new although an original is similar enough: by rule how many, and the
        # first of them.
        self.apart: Counter[ApartReason] = Counter()
        self.apart_examples: dict[ApartReason, list[Verdict]] = {by: [] for by in ApartReason}
        # Code -> count, text and source of the first.
        self.errors: dict[str, tuple[int, str, str]] = {}
        self.schemes: Counter[tuple[str, str]] = Counter()  # scheme and hash of the parameters
        self.sources: Counter[str] = Counter()
        self.decided_ms: tuple[int, int] | None = None  # the first and the last
        self.index_documents = 0  # after the last record of the log
        self.horizon_ms: int | None = None
        self._log_offset = -1
        self.clusters = Clusters()

    def take(self, answer: Verdict | DeadLetter, value: bytes) -> None:
        """Count one answer, which came as this line or message. Cost: some 10 us."""
        answer_class = class_of(answer)
        self.classes.append(answer_class)
        _count(self.sources, answer.source_topic)
        if isinstance(answer, DeadLetter):
            self.times_ms.append(NO_TIME)
            self._take_error(answer)
            return
        time_ms = brought_ms(answer.fetched_at_ms)
        self.times_ms.append(NO_TIME if time_ms is None else time_ms)
        self._take_state(answer)
        url = brought_url(answer.url)
        if url is None:
            self.without_url += 1
        else:
            host = host_of(url) or NO_HOST
            known = host if host in self.hosts or len(self.hosts) < HOSTS_MAX else OTHER
            self.hosts.setdefault(known, [0] * len(Class))[answer_class] += 1
        if answer.reason is not None:
            _count(self.reasons, (answer_class, answer.reason), (answer_class, OTHER))
        if answer.former_version is not None:
            self.changed[answer.former_version.changed.value] += 1
        if answer.kept_apart is not None:
            self._take_apart(answer, answer.kept_apart.reason)
        if (match := answer.duplicate_of) is not None:
            self.distances[answer_class, match.distance] += 1
            self.found_by[match.found_by.value] += 1
            if answer_class is not Class.RECRAWL:
                self.clusters.add(match.original.doc_id, value, url)

    def _take_apart(self, verdict: Verdict, reason: ApartReason) -> None:
        self.apart[reason] += 1
        if len(self.apart_examples[reason]) < APART_SHOWN_MAX:
            self.apart_examples[reason].append(verdict)

    def _take_state(self, verdict: Verdict) -> None:
        first, last = self.decided_ms or (verdict.decided_at_ms, verdict.decided_at_ms)
        self.decided_ms = min(first, verdict.decided_at_ms), max(last, verdict.decided_at_ms)
        if verdict.fingerprint is not None:
            _count(self.schemes, (verdict.scheme, verdict.parameters), (OTHER, ""))
        if verdict.log_offset >= self._log_offset:
            self._log_offset = verdict.log_offset
            self.index_documents = verdict.index_documents
            self.horizon_ms = verdict.horizon_ms

    def _take_error(self, letter: DeadLetter) -> None:
        code = (
            letter.code if letter.code in self.errors or len(self.errors) < REASONS_MAX else OTHER
        )
        place = f"{letter.source_topic}[{letter.source_partition}] at {letter.source_offset:,}"
        named = place if letter.doc_id is None else f"{place}, {letter.doc_id}"
        count, text, first = self.errors.get(code, (0, letter.text, named))
        self.errors[code] = count + 1, text, first

    def wanted(self, largest: Sequence[Cluster]) -> set[str]:
        """
        Return the documents whose texts the report shows: of each of the largest clusters two, and
        the examples of what is kept apart.
        """
        pairs = [(cluster.original.doc_id, cluster.farthest.doc_id) for cluster in largest]
        for examples in self.apart_examples.values():
            pairs += [(one.doc_id, one.kept_apart.doc_id) for one in examples if one.kept_apart]
        return set(chain.from_iterable(pairs))

    def __len__(self) -> int:
        return len(self.classes)

    def counts(self) -> dict[Class, int]:
        counted = np.bincount(np.asarray(self.classes), minlength=len(Class)).tolist()
        return dict(zip(Class, counted, strict=True))

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *_: object) -> None:
        self.clusters.close()


def _count(counter: Counter[Key], key: Key, other: Key | None = None) -> None:
    """Count a key; beyond REASONS_MAX different ones, new ones count as `other`."""
    if key not in counter and len(counter) >= REASONS_MAX:
        if other is None:
            return
        key = other
    counter[key] += 1
