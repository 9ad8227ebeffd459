"""
The fields of a verdict, in one table: name, kind, place in `Verdict`, and the column that it comes
from.

    judged rows ─► `VerdictRows` ─► FIELDS ─► columns ─► bytes of the topic, of `/v1/seen`
                                                     └─► `Verdict` objects ─► CSV, Parquet, frames
    bytes or a dict of JSON  ◄─────  FIELDS  ─────►  `Verdict`

`verdicts.py` goes along the table and knows no field by name. `schemas.verdict` publishes the same
fields with their descriptions and bounds; a test compares the two.

The order is that of the message. Fields with a dot are parts of an object of the message, which is
left out where its first field has no value. Nothing is computed per row in Python: a column is an
array, texts back to back, numbers of a few values (`Picked`), or one value for all rows (`Same`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from schemas.fields import format_timestamp, parse_timestamp
from worker.core.document import (
    ApartReason,
    Changed,
    DuplicateOf,
    FormerVersion,
    FoundBy,
    KeptApart,
    MatchKind,
    Original,
    Outcome,
    Verdict,
)
from worker.core.search import APART_SHIFT, ApartBy, looks
from worker.core.sketch import SIMILARITY_MAX, sketch_similarities
from worker.log.judge import REASONS, Judgements, Partitions, ReasonCode
from worker.log.originals import OriginalStore
from worker.log.record import RowKind, Rows
from worker.log.rules import Definition
from worker.log.texts import Texts
from worker.shell.messages.json_columns import (
    Chosen,
    decimals,
    equal,
    hexadecimals,
    inside,
    insides,
    timestamps,
)


class Words:
    """Values that a column picks from, by number. None stands for a field that is left out."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)


class Picked(NamedTuple):
    """A column whose rows have these of some values."""

    words: Words
    numbers: NDArray[Any]  # of each row


class Same(NamedTuple):
    """A column with one value for all rows; None: the field is left out."""

    value: Any


Column = Texts | NDArray[Any] | Picked | Same


class FieldKind(NamedTuple):
    """
    What the values of a field are: in `Verdict`, as JSON, and as columns.

    type: of the value in a frame. texts: writes a column as JSON, without quotes. values: returns a
    column's values as `Verdict` has them. to_json, of_json: convert one value.
    """

    type: type
    is_quoted: bool
    texts: Callable[[Any], Texts]
    values: Callable[[Any], list[Any]]
    to_json: Callable[[Any], Any]
    of_json: Callable[[Any], Any]


def utf8(texts: Texts) -> list[bytes]:
    """Return texts of the log in UTF-8: lone surrogates, which it cannot have, become "?"."""
    if insides(texts) is texts:
        return texts.tolist()
    return [
        text.decode("utf-8", "surrogatepass").encode("utf-8", "replace") for text in texts.tolist()
    ]


def strings(texts: Texts) -> list[str]:
    """Return texts of the log as the fields of verdicts have them; see `utf8`."""
    return [text.decode() for text in utf8(texts)]


def _numbers(values: NDArray[Any]) -> list[Any]:
    numbers: list[Any] = values.tolist()
    return numbers


def _as_it_is(value: Any) -> Any:
    return value


def _never(column: Any) -> Any:
    raise AssertionError(f"a column of this kind is picked from words, got {column}")


def _word(kind: type[Enum]) -> FieldKind:
    return FieldKind(str, True, _never, _never, attrgetter("value"), kind)


TEXT = FieldKind(str, True, insides, strings, _as_it_is, _as_it_is)
URL = TEXT._replace()  # a kind of its own, since people are not shown one that was made up
TIME = FieldKind(str, True, timestamps, _numbers, format_timestamp, parse_timestamp)
WHOLE = FieldKind(int, False, decimals, _numbers, _as_it_is, _as_it_is)  # 0 or more
HEX = FieldKind(str, True, hexadecimals, _numbers, "{:016x}".format, lambda text: int(text, 16))
SIMILARITY = FieldKind(float, False, _never, _never, _as_it_is, _as_it_is)
BOOLEAN = FieldKind(bool, False, _never, _never, _as_it_is, _as_it_is)


@dataclass(frozen=True, eq=False)
class VerdictField:
    """
    A field of a verdict.

    name: its path in the message.
    kind: what its values are.
    attribute: its path in `Verdict`.
    column: returns its column, of what `SOURCES` has for the part of the message that it is in;
        None if these rows lack it.
    is_asked: whether the answer to a question has it; only a document in the log has the others.
    without: what `Verdict` has where the message lacks it.
    shown: its column in CSV, Parquet and frames; "": it is not there.
    """

    name: str
    kind: FieldKind
    attribute: str
    column: Callable[[Any], Column | None]
    is_asked: bool = True
    without: Any = None
    shown: str = ""

    @cached_property
    def part(self) -> str:
        """The object of the message that it is in; "" is the message."""
        return self.name.rpartition(".")[0]

    @cached_property
    def key(self) -> str:
        """Its name within that object."""
        return self.name.rpartition(".")[2]

    @cached_property
    def head(self) -> bytes:
        """Its name as it stands before its value."""
        return b'"%b":' % self.key.encode()

    @cached_property
    def value_in(self) -> Callable[[Verdict], Any]:
        """The getter of its value in a verdict; None where the object that has it is not there."""
        name, _, rest = self.attribute.partition(".")
        holder = attrgetter(name)
        if not rest:
            return holder
        inner = attrgetter(rest)

        def value(verdict: Verdict) -> Any:
            held = holder(verdict)
            return None if held is None else inner(held)

        return value


_OUTCOMES = Words([Outcome.NEW, Outcome.DUPLICATE])  # by whether there is an original
_REASONS = Words([reason for _, reason in sorted(REASONS.items())])
_THOUSANDTHS = [thousandths / 1_000 for thousandths in range(SIMILARITY_MAX + 1)]
_SIMILARITIES = Words(_THOUSANDTHS)
_OF_A_FORMER = Words([*_THOUSANDTHS, None])
_NO_SIMILARITY = len(_THOUSANDTHS)
_KINDS = Words([MatchKind.NEAR, MatchKind.EXACT])
_BOOLEANS = Words([False, True])
_CHANGES = Words([Changed.NOT, Changed.LITTLE, Changed.MUCH])
_APART_BY = Words([ApartReason[by.name] if by else None for by in ApartBy])
_FOUND_BY = {way.value: Words([way, FoundBy.TEXT]) for way in FoundBy}  # by mode


class VerdictRows(NamedTuple):
    """Rows of a record that have the same fields, with the judge's results."""

    outcome: Outcome | None  # None: NEW or DUPLICATE
    rows: Rows
    judged: Judgements
    held: OriginalStore
    definition: Definition
    topic: str
    partition: Partitions
    log_offset: int
    timestamp_ms: int

    @property
    def places(self) -> None:
        """The rows that have a part of the message that is made of this: all."""
        return None

    def outcomes(self) -> Column:
        """Return what each row is."""
        if self.outcome is not None:
            return Same(self.outcome)
        return Picked(_OUTCOMES, self.judged.originals >= 0)

    def reasons(self) -> Column:
        """Return the reason of each outcome that needs one."""
        if self.outcome is Outcome.SKIPPED:
            return self.rows.notes
        return Picked(_REASONS, self.judged.remarks)

    def are_known(self) -> NDArray[np.bool_]:
        """Return which rows are nothing new: duplicates, and originals again."""
        are_known: NDArray[np.bool_] = self.judged.originals >= 0
        are_known |= self.judged.remarks != ReasonCode.NONE
        return are_known


class _Originals:
    """
    The rows that name an original, and these originals. It is read at once: later records change
    the store.

    Args:
        places: the rows that have one.
        originals: the original of each of them.
    """

    def __init__(
        self, whole: VerdictRows, places: NDArray[np.int64], originals: NDArray[np.int64]
    ) -> None:
        held = whole.held
        self.places = places
        self.originals = originals
        self.whole = whole
        self.doc_ids, self.urls = held.texts.take(originals)
        self.times_ms = held.times.take(originals)

    def own(self, name: str) -> NDArray[Any]:
        """Return a column of these rows."""
        column: NDArray[Any] = getattr(self.whole.rows, name)[self.places]
        return column

    def judged(self, name: str) -> NDArray[Any]:
        """Return a column of what was found for these rows."""
        column: NDArray[Any] = getattr(self.whole.judged, name)[self.places]
        return column

    def other(self, name: str) -> NDArray[Any]:
        """Return the same column of their originals."""
        column: NDArray[Any] = getattr(self.whole.held, name).take(self.originals)
        return column


class _Matches(_Originals):
    """The duplicates, and their originals."""

    def kinds(self) -> Column:
        """Return how each equals its original."""
        is_exact = self.judged("distances") == 0
        originals = self.originals[is_exact]
        digests = self.whole.rows.digests[self.places[is_exact]]
        is_exact[is_exact] = self.whole.held.digests.take(originals) == digests
        return Picked(_KINDS, is_exact)

    def same_urls(self) -> Column:
        """Return which have the URL of their original."""
        return Picked(_BOOLEANS, equal(self.urls, Chosen(self.whole.rows.urls, self.places)))

    def are_better(self) -> Column | None:
        """Return which are better copies than their originals, if the definition says of any."""
        preferred = self.whole.definition.preferred
        if not preferred.entries:
            return None
        urls = self.whole.rows.urls.take(self.places)
        times_ms = self.own("fetched_at_ms")
        return Picked(_BOOLEANS, preferred.are_better(urls, times_ms, self.urls, self.times_ms))

    def found_by(self) -> Column:
        """Return the way to each original."""
        words = _FOUND_BY[self.whole.definition.search.mode]
        return Picked(words, self.own("kinds") == RowKind.SHORT)


class _Apart(_Originals):
    """The rows that stay new although an original is similar enough, and the most similar one."""

    def reasons(self) -> Column:
        """Return the rule that keeps each apart."""
        return Picked(_APART_BY, self.judged("kept_apart") >> APART_SHIFT)

    def similarities(self) -> Column:
        """Return how similar each is to the original."""
        return Picked(_SIMILARITIES, self.judged("kept_apart") & ((1 << APART_SHIFT) - 1))


class _Formers(_Originals):
    """The new versions of pages, and the versions before."""

    @cached_property
    def _is_same(self) -> NDArray[np.bool_]:
        is_same: NDArray[np.bool_] = self.own("digests") == self.other("digests")
        is_same &= self.own("kinds") == self.other("kinds")
        return is_same

    @cached_property
    def _is_full(self) -> NDArray[np.bool_]:
        is_full: NDArray[np.bool_] = self.own("kinds") == RowKind.FULL
        is_full &= self.other("kinds") == RowKind.FULL
        return is_full

    @cached_property
    def _alike(self) -> NDArray[np.uint16]:
        return sketch_similarities(self.own("sketches"), self.other("sketches"))

    def changes(self) -> Column:
        """Return how much each has changed."""
        search = self.whole.definition.search
        differ = self.own("fingerprints") ^ self.other("fingerprints")
        is_near = self._is_full & (np.bitwise_count(differ) <= search.max_distance)
        is_near &= self._alike >= search.similarity_thousandths
        if search.mode == "directed":
            seen = looks(differ, self.own("doubts"), self.other("doubts"))
            is_near &= seen >= search.look_min
        return Picked(_CHANGES, np.where(self._is_same, 0, np.where(is_near, 1, 2)))

    def similarities(self) -> Column:
        """Return how similar both versions are. Short texts have no similarity, only equality."""
        numbers = self._alike.astype(np.int64)
        numbers[self._is_same] = SIMILARITY_MAX
        numbers[~(self._is_full | self._is_same)] = _NO_SIMILARITY
        return Picked(_OF_A_FORMER, numbers)


def _if_any(source: type[_Originals], name: str) -> Callable[[VerdictRows], _Originals | None]:
    """Return a function that makes the source of the rows with an original in this column."""

    def of(whole: VerdictRows) -> _Originals | None:
        if whole.outcome is not None:
            return None
        originals: NDArray[np.int64] = getattr(whole.judged, name)
        places = np.flatnonzero(originals >= 0)
        return source(whole, places, originals[places]) if len(places) else None

    return of


def _whole(whole: VerdictRows) -> VerdictRows:
    return whole


def _if_judged(whole: VerdictRows) -> VerdictRows | None:
    return None if whole.outcome is not None else whole


# What the columns of each part of the message are made of; None: no row has the part.
SOURCES: dict[str, Callable[[VerdictRows], VerdictRows | _Originals | None]] = {
    "": _whole,
    "duplicate_of": _if_any(_Matches, "originals"),
    "kept_apart": _if_any(_Apart, "apart_from"),
    "former_version": _if_any(_Formers, "formers"),
    "fingerprint": _if_judged,
    "index": _whole,
    "source": _whole,
}

FIELDS = (
    VerdictField("doc_id", TEXT, "doc_id", lambda rows: rows.rows.doc_ids, shown="doc_id"),
    VerdictField("url", URL, "url", lambda rows: _unless_deleted(rows, rows.rows.urls)),
    VerdictField(
        "fetched_at",
        TIME,
        "fetched_at_ms",
        lambda rows: _unless_deleted(rows, rows.rows.fetched_at_ms),
    ),
    VerdictField("verdict", _word(Outcome), "outcome", VerdictRows.outcomes, shown="verdict"),
    VerdictField("reason", TEXT, "reason", VerdictRows.reasons, shown="reason"),
    VerdictField(
        "duplicate_of.doc_id",
        TEXT,
        "duplicate_of.original.doc_id",
        lambda matches: matches.doc_ids,
        shown="duplicate_of",
    ),
    VerdictField(
        "duplicate_of.url",
        URL,
        "duplicate_of.original.url",
        lambda matches: matches.urls,
        shown="original_url",
    ),
    VerdictField(
        "duplicate_of.fetched_at",
        TIME,
        "duplicate_of.original.fetched_at_ms",
        lambda matches: matches.times_ms,
    ),
    VerdictField(
        "duplicate_of.kind", _word(MatchKind), "duplicate_of.kind", _Matches.kinds, shown="kind"
    ),
    VerdictField(
        "duplicate_of.distance",
        WHOLE,
        "duplicate_of.distance",
        lambda matches: matches.judged("distances"),
        shown="distance",
    ),
    VerdictField(
        "duplicate_of.similarity",
        SIMILARITY,
        "duplicate_of.similarity",
        lambda matches: Picked(_SIMILARITIES, matches.judged("similarities")),
        shown="similarity",
    ),
    VerdictField("duplicate_of.same_url", BOOLEAN, "duplicate_of.same_url", _Matches.same_urls),
    VerdictField(
        "duplicate_of.found_by", _word(FoundBy), "duplicate_of.found_by", _Matches.found_by
    ),
    VerdictField(
        "duplicate_of.copies",
        WHOLE,
        "duplicate_of.copies",
        lambda matches: matches.judged("copies"),
        shown="copies",
    ),
    VerdictField(
        "duplicate_of.better_copy",
        BOOLEAN,
        "duplicate_of.better_copy",
        _Matches.are_better,
        shown="better_copy",
    ),
    VerdictField("kept_apart.doc_id", TEXT, "kept_apart.doc_id", lambda aparts: aparts.doc_ids),
    VerdictField(
        "kept_apart.reason",
        _word(ApartReason),
        "kept_apart.reason",
        _Apart.reasons,
        shown="kept_apart",
    ),
    VerdictField("kept_apart.similarity", SIMILARITY, "kept_apart.similarity", _Apart.similarities),
    VerdictField(
        "former_version.doc_id",
        TEXT,
        "former_version.original.doc_id",
        lambda formers: formers.doc_ids,
    ),
    VerdictField(
        "former_version.url", URL, "former_version.original.url", lambda formers: formers.urls
    ),
    VerdictField(
        "former_version.fetched_at",
        TIME,
        "former_version.original.fetched_at_ms",
        lambda formers: formers.times_ms,
    ),
    VerdictField(
        "former_version.changed", _word(Changed), "former_version.changed", _Formers.changes
    ),
    VerdictField(
        "former_version.similarity",
        SIMILARITY,
        "former_version.similarity",
        _Formers.similarities,
    ),
    VerdictField("fingerprint.value", HEX, "fingerprint", lambda rows: rows.rows.fingerprints),
    VerdictField(
        "fingerprint.scheme",
        TEXT,
        "scheme",
        lambda rows: Same(rows.definition.scheme),
        without="",
    ),
    VerdictField(
        "fingerprint.parameters",
        TEXT,
        "parameters",
        lambda rows: Same(rows.definition.parameters),
        without="",
    ),
    VerdictField(
        "fingerprint.features", WHOLE, "features", lambda rows: rows.rows.features, without=0
    ),
    VerdictField("index.documents", WHOLE, "index_documents", lambda rows: rows.judged.documents),
    VerdictField(
        "index.log_offset",
        WHOLE,
        "log_offset",
        lambda rows: Same(rows.log_offset),
        is_asked=False,
    ),
    VerdictField("index.horizon", TIME, "horizon_ms", lambda rows: Same(rows.judged.horizon_ms)),
    VerdictField(
        "source.topic", TEXT, "source_topic", lambda rows: Same(rows.topic), is_asked=False
    ),
    VerdictField(
        "source.partition",
        WHOLE,
        "source_partition",
        lambda rows: Same(rows.partition) if isinstance(rows.partition, int) else rows.partition,
        is_asked=False,
    ),
    VerdictField(
        "source.offset", WHOLE, "source_offset", lambda rows: rows.rows.offsets, is_asked=False
    ),
    VerdictField(
        "decided_at",
        TIME,
        "decided_at_ms",
        lambda rows: Same(rows.timestamp_ms),
        is_asked=False,
    ),
)
# The classes of the objects that `Verdict` is made of, by their path in it.
CLASSES: dict[str, type] = {
    "": Verdict,
    "duplicate_of": DuplicateOf,
    "duplicate_of.original": Original,
    "kept_apart": KeptApart,
    "former_version": FormerVersion,
    "former_version.original": Original,
}


def _unless_deleted(rows: VerdictRows, column: Column) -> Column | None:
    """Return a column that deletions lack."""
    return None if rows.outcome is Outcome.DELETED else column


def json_of(value: Any) -> bytes:
    """Return a value as JSON. Lone surrogates, which JSON cannot carry, become "?"."""
    if isinstance(value, str):
        return b'"%b"' % inside(value)
    return orjson.dumps(value)
