"""
Reads what a report and an explanation need: answers from lines, the answers on one document, texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import orjson
import xxhash
from rich.cells import cell_len

from worker.core.definition import detect
from worker.core.document import Deletion, Document, Outcome, Verdict
from worker.core.extract import Skipped, extract_with_account
from worker.core.fingerprint import Fingerprinter
from worker.core.marks import page_mark
from worker.core.search import CONFIRMED_MAX
from worker.errors import DocumentError, StopError
from worker.log.url_rules import UrlRules
from worker.settings import Settings
from worker.shell.files.apart import name_apart
from worker.shell.files.archives import Record
from worker.shell.files.inputs import RowPlace
from worker.shell.messages import DeadLetter, decode_document, decode_verdict

if TYPE_CHECKING:
    from worker.core.pages import PageAccount

LINE_BYTES_MAX = 1 << 20  # a verdict has three URLs of at most 8 KiB each
# Columns of a doc_id that may stand for it, as tables show them; a wide character takes two.
DOC_ID_START_MIN = 8


# Earlier originals whose texts an explanation reads; a search compares as many.
NEAR_MAX = CONFIRMED_MAX

Answer = Verdict | DeadLetter


class AnswerLine(NamedTuple):
    """An answer, with the line or message that it came in."""

    answer: Answer
    value: bytes


_REMEDY = "name a file that `neardup dedup` or `neardup verdicts --json` has written"


def of_lines(lines: Iterable[bytes], name: str) -> Iterator[AnswerLine]:
    """
    Return the answers of a file's lines; empty lines are passed over.

    Raises:
        StopError: a line is neither a verdict nor a dead letter; names the line.
    """
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        where = f"{name}, line {number:,}"
        if len(line) > LINE_BYTES_MAX:
            raise StopError(
                f"{where}: a verdict has at most {LINE_BYTES_MAX:,} bytes, got more: {_REMEDY}"
            )
        try:
            yield AnswerLine(decode_verdict(line), line)
        except DocumentError as error:
            letter = _dead_letter(line)
            if letter is None:
                raise StopError(f"{where}: {error.text}: {_REMEDY}") from error
            yield AnswerLine(letter, line)


def _dead_letter(line: bytes) -> DeadLetter | None:
    """
    Read a line of `neardup verdicts --only dead --json`, or one that `neardup dedup` wrote in the
    place of a verdict.
    """
    try:
        fields = orjson.loads(line)
        error = fields if "code" in fields else fields["error"]
        source = fields["source"]
        key = fields.get("doc_id")
        return DeadLetter(
            str(source["topic"]), int(source["partition"]), int(source["offset"]),
            str(error["code"]), str(error["text"]), None if key is None else str(key).encode(),
            None, is_pointer=False,
        )  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


class Explanation(NamedTuple):
    """One document's answers and what they refer to."""

    answers: list[Answer]  # in the order in which they were read; the last one is explained
    # The verdict on the original, or on the one that a new document is kept apart from; for any
    # other new document, that on the nearest earlier original.
    other: Verdict | None
    originals: int  # earlier originals that were compared with a new document
    # The earlier originals within a distance of the document, the nearest first; NEAR_MAX at most.
    near: list[Verdict]

    @property
    def last(self) -> Answer:
        """The answer that is explained."""
        return self.answers[-1]


def explain(read: Callable[[], Iterable[Answer]], name: str, distance_max: int = 0) -> Explanation:
    """
    Find the answers on one document, and the original that explains them.

    Args:
        read: returns all answers; called twice.
        name: a doc_id or URL, or the beginning of a doc_id.
        distance_max: the greatest distance, in bits, at which an original counts as near.
    Raises:
        StopError: no document has this name, or several doc_ids begin with it.

    Cost: two passes over the answers, some 25 us each.
    """
    answers = _answers_on(read(), name)
    last = answers[-1]
    if isinstance(last, DeadLetter) or last.fingerprint is None:
        return Explanation(answers, None, 0, [])
    wanted = None if last.duplicate_of is None else last.duplicate_of.original
    original: Verdict | None = None
    apart: Verdict | None = None
    doc_ids = set[str]()
    ranked: list[tuple[int, int, int, Verdict]] = []
    for answer in read():
        if isinstance(answer, DeadLetter) or answer.outcome is not Outcome.NEW:
            continue
        is_wanted = wanted is not None and (answer.doc_id, answer.fetched_at_ms) == (
            wanted.doc_id,
            wanted.fetched_at_ms,
        )
        if is_wanted and original is None:
            original = answer
        if (
            last.kept_apart is not None
            and answer.doc_id == last.kept_apart.doc_id
            and answer.log_offset <= last.log_offset
        ):
            apart = answer
        if not _is_before(answer, last):
            continue
        # A new document has a fingerprint.
        assert answer.fingerprint is not None
        doc_ids.add(answer.doc_id)
        distance = (answer.fingerprint ^ last.fingerprint).bit_count()
        ranked.append((distance, answer.log_offset, answer.source_offset, answer))
        if len(ranked) > 2 * NEAR_MAX:
            ranked = _first(ranked)
    ranked = _first(ranked)
    near = [answer for distance, _, _, answer in ranked if distance <= distance_max]
    if wanted is not None:
        return Explanation(answers, original, 0, near)
    if last.kept_apart is not None:
        return Explanation(answers, apart, len(doc_ids), near)
    return Explanation(answers, ranked[0][3] if ranked else None, len(doc_ids), near)


def _first(
    ranked: list[tuple[int, int, int, Verdict]],
) -> list[tuple[int, int, int, Verdict]]:
    """Return the nearest originals; of equally near ones, the earliest."""
    return sorted(ranked, key=lambda one: one[:3])[:NEAR_MAX]


def _answers_on(answers: Iterable[Answer], name: str) -> list[Answer]:
    """
    Return the answers whose doc_id or URL is this name; if there are none, those of the only doc_id
    that begins with it.
    """
    named: list[Answer] = []
    start = name.removesuffix("…")  # a table cuts a long doc_id
    is_long = cell_len(start) >= DOC_ID_START_MIN
    begun: list[Answer] = []
    begun_ids: dict[str, None] = {}  # two are enough to know that there are several
    for answer in answers:
        doc_id = answer.doc_id
        if name in (doc_id, getattr(answer, "url", None)):
            named.append(answer)
        elif not is_long or not doc_id or doc_id == start or len(begun_ids) > 1:
            continue  # `start` itself: a table cuts only doc_ids that are longer
        elif _begins_with(doc_id, start):
            begun_ids[doc_id] = None
            begun.append(answer)
    if named:
        return named
    if len(begun_ids) > 1:
        raise StopError(
            f"several doc_ids begin with {start!r}, such as "
            f"{' and '.join(map(repr, begun_ids))}: write more of it"
        )
    if not begun:
        raise StopError(
            f"there is no verdict on {name!r}: name a document by its URL, its doc_id, or at least "
            f"the first {DOC_ID_START_MIN} characters of its doc_id"
        )
    return begun


def _begins_with(doc_id: str, start: str) -> bool:
    """
    Say whether a doc_id begins with a text of which a table may have replaced control characters.

    >>> _begins_with("crawl/170", "crawl/17"), _begins_with("crawl\\t1/70", "crawl\ufffd1/7")
    (True, True)
    """
    if "\ufffd" not in start:
        return doc_id.startswith(start)
    return len(doc_id) >= len(start) and all(
        shown == char or (shown == "\ufffd" and not char.isprintable())
        for shown, char in zip(start, doc_id, strict=False)
    )


def _is_before(verdict: Verdict, last: Verdict) -> bool:
    if verdict.doc_id == last.doc_id or verdict.parameters != last.parameters:
        return False
    place = (verdict.source_topic, verdict.source_partition)
    other = (last.source_topic, last.source_partition)
    if verdict.log_offset == last.log_offset:  # both of one batch: its partition gives their order
        return place == other and verdict.source_offset < last.source_offset
    return verdict.log_offset < last.log_offset


# Documents whose language is detected. Shares are right within 2.2 %; a document takes some 3 ms.
LANGUAGES_SAMPLE = 2_000
_CHARACTERS_READ = 3_000  # characters of a text that are read for its language
# The first part of a language tag: "de" of "de-AT".
_PRIMARY = re.compile(r"\s*([a-z]{2,3})\s*(?:[-_]|$)")


_APART = re.compile(r"-[0-9a-f]{16}\Z")
_SURROGATES = ("utf-8", "surrogatepass")


class ReadText(NamedTuple):
    """
    The text of a document, its language as the message names it, and what was left out of a page.
    """

    text: str
    language: str | None = None
    account: PageAccount | None = None
    url: str = ""

    @property
    def title(self) -> int:
        """The words of the page's title; 0 if it has none."""
        return 0 if self.account is None else self.account.title

    def page(self, url_rules: UrlRules) -> str:
        """Return the URL that names the page."""
        return url_rules.page_of(self.url.encode(*_SURROGATES)).decode(*_SURROGATES)

    def mark(self, features: int, url_rules: UrlRules) -> int:
        """Return the mark of the page, with so many features; 0 if it has none."""
        return page_mark(self.page(url_rules), self.title, features)


@dataclass
class WantedTexts:
    """Texts and languages of documents."""

    texts: dict[str, ReadText] = field(default_factory=dict)  # by wanted doc_id
    # Languages of the sample; "" if there are too few function words.
    languages: Counter[str] = field(default_factory=Counter)


def read_texts(
    records: Iterable[Record],
    wanted: Set[str],
    settings: Settings,
    sample_of: int | None = None,
    *,
    from_topics: bool = False,
) -> WantedTexts:
    """
    Read documents once, and return the texts that are wanted.

    If a sample is asked for, its languages are counted on the way.

    If a doc_id appears again, the last text counts. But a doc_id of files belongs to the first of
    them, as in `shell.files.apart`: in another one it names another document. Where the first one
    is a duplicate, both documents have a verdict under this doc_id, and the text of the first is
    returned. Documents that cannot be read are skipped: they have dead letters.

    Args:
        wanted: the doc_ids of these texts. One that neardup derived for a document without a name
            is found by the digest in it: the rest is its place in the run that judged it.
        sample_of: about how many documents there are. Of more than LANGUAGES_SAMPLE documents, only
            a part is sampled.
        from_topics: the answers are of a stream, to which the files were fed: there a doc_id that
            comes again names a version of its document.
    """
    wanted_texts = WantedTexts()
    derived = _derived_names(wanted)
    apart = _NamedApart(frozenset() if from_topics else wanted, settings)
    file_of: dict[str, str] = {}
    for record in records:
        doc_id = "" if record.key is None else record.key.decode("utf-8", "replace")
        number = xxhash.xxh3_64_intdigest(record.key or b"")
        is_sampled = sample_of is not None and number % max(sample_of, 1) < LANGUAGES_SAMPLE
        names = derived.get(_digest_in(doc_id), [])  # they all have this text
        if not names and doc_id in wanted:
            names = [doc_id]
        may_be_apart = apart.may_name(doc_id)
        if not names and not is_sampled and not may_be_apart:
            continue
        readable = _readable_text(record, settings)
        if readable is None:
            continue
        for name in names:
            if from_topics or file_of.setdefault(name, record.file) == record.file:
                wanted_texts.texts[name] = readable
        if may_be_apart:
            name = apart.name_of(doc_id, readable)
            if name in wanted:
                wanted_texts.texts[name] = readable
        if is_sampled:
            named = _PRIMARY.match((readable.language or "").lower())
            code = named[1] if named else detect(readable.text[:_CHARACTERS_READ]) or ""
            wanted_texts.languages[code] += 1
    return wanted_texts


class _NamedApart:
    """
    Finds documents of files that are called ID-DIGEST: their file has only ID (`files/apart.py`).

    Args:
        wanted: the doc_ids of documents, of which any may have been named so.
        settings: how texts become the digests in these names.

    Cost: a fingerprint of each document whose ID may be one of theirs.
    """

    def __init__(self, wanted: Set[str], settings: Settings) -> None:
        self._stems = {_stem_of(doc_id) for doc_id in wanted if _APART.search(doc_id)}
        self._settings = settings

    def may_name(self, doc_id: str) -> bool:
        """Return whether a document with this doc_id may be one of them."""
        return bool(self._stems) and _stem_of(_named(doc_id, 0)) in self._stems

    def name_of(self, doc_id: str, read: ReadText) -> str:
        """Return what a document is called that is named apart."""
        batch = self._fingerprinter.batch([read.text], [read.language])
        return _named(doc_id, int(batch.digests[0]))

    @cached_property
    def _fingerprinter(self) -> Fingerprinter:
        return Fingerprinter(self._settings.parameters)


def _named(doc_id: str, digest: int) -> str:
    return name_apart(doc_id.encode(*_SURROGATES), digest).decode(*_SURROGATES)


def _stem_of(name: str) -> str:
    """Return what stands before the digest in the name of a document that is named apart."""
    return name.rpartition("-")[0]


def _derived_names(wanted: Set[str]) -> dict[str, list[str]]:
    """Return those of the doc_ids that neardup has derived, by the digests in them."""
    derived: dict[str, list[str]] = {}
    for doc_id in wanted:
        digest = _digest_in(doc_id)
        if digest:
            derived.setdefault(digest, []).append(doc_id)
    return derived


def _digest_in(doc_id: str) -> str:
    """Return the digest of the body in a doc_id that neardup has derived; "" of any other."""
    place = RowPlace.in_doc_id(doc_id.encode(*_SURROGATES))
    return "" if place is None else doc_id.rpartition("-")[2]


def text_of(
    key: bytes | None, value: bytes | None, settings: Settings, timestamp_ms: int = 0
) -> tuple[Document | Deletion, ReadText | None]:
    """
    Return a message's document, and its text as a worker sees it; None if it has none.

    Raises every error that reading the message raises.
    """
    document = decode_document(
        key, value, value_bytes_max=settings.document_bytes_max, timestamp_ms=timestamp_ms
    )
    if isinstance(document, Deletion):
        return document, None
    found, account = extract_with_account(document, settings.text_characters_max)
    if isinstance(found, Skipped):
        return document, None
    return document, ReadText(found.text, document.language, account, document.url)


def _readable_text(record: Record, settings: Settings) -> ReadText | None:
    """Return the text of a document; None if there is no text, or it cannot be read."""
    try:
        return text_of(record.key, record.value, settings)[1]
    except Exception:  # any failure costs only this text
        return None
