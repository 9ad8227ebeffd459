"""
Verdicts as messages of the topic `verdicts` and as objects: judged rows in, both out; and back.

`schemas.verdict` defines the format, `verdict_fields.FIELDS` says what each field is made of, and
nothing here knows a field by its name. Every document gets a verdict, so a batch of rows becomes
columns first (`JudgedAnswers`): the bytes fill a template from them, and objects are made of the
same columns, not of the bytes. Tests check that all of these say the same as the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import groupby, repeat
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError

from schemas.verdict import VerdictMessage
from worker.core.document import Outcome, Verdict
from worker.errors import DocumentError, check_type
from worker.log.judge import JudgedRows, Partitions
from worker.log.originals import OriginalStore
from worker.log.record import RowKind
from worker.log.rules import Definition
from worker.log.texts import Texts
from worker.shell.messages.json_columns import FIELD, Chosen, filled, spread
from worker.shell.messages.verdict_fields import (
    CLASSES,
    FIELDS,
    SOURCES,
    Column,
    FieldKind,
    Picked,
    Same,
    VerdictField,
    VerdictRows,
    json_of,
    utf8,
)


class VerdictBytes(NamedTuple):
    """A verdict as a message."""

    key: bytes
    value: bytes
    outcome: Outcome


class SeenBytes(NamedTuple):
    """
    The answer to a question, without the offset that it is as of.

    is_known: whether it is nothing new.
    """

    value: bytes
    outcome: Outcome
    is_known: bool


# `VerdictBytes._make` in three quarters of the time: there is one for every document.
_verdict_bytes = partial(tuple.__new__, VerdictBytes)
_PARTS = tuple((part, tuple(fields)) for part, fields in groupby(FIELDS, lambda one: one.part))


class _Part(NamedTuple):
    """
    Fields of the message that stand together.

    name: of the object that they are in, "" for the message.
    places: the rows that have it; None: all.
    """

    name: str
    places: NDArray[np.int64] | None
    columns: list[tuple[VerdictField, Column]]


class _Columns:
    """The columns of rows that have the same fields."""

    def __init__(self, whole: VerdictRows) -> None:
        self.whole = whole
        self.parts: list[_Part] = []
        sources = {name: source(whole) for name, source in SOURCES.items()}
        for name, fields in _PARTS:
            source = sources[name]
            if source is None:
                continue
            columns = [(field, field.column(source)) for field in fields]
            found = [(field, column) for field, column in columns if column is not None]
            self.parts.append(_Part(name, source.places, found))

    def __len__(self) -> int:
        return len(self.whole.rows)

    def outcomes(self) -> Iterable[Outcome]:
        """Return what each row is."""
        return _values(self.whole.outcomes(), len(self))

    def messages(self) -> list[VerdictBytes]:
        """Return the message of each row. The key is the doc_id."""
        keys = utf8(self.whole.rows.doc_ids)
        values = _written(self.parts, len(self)).tolist()
        return list(map(_verdict_bytes, zip(keys, values, self.outcomes(), strict=True)))

    def seen(self) -> list[SeenBytes]:
        """Return the rows' answers if they are questions."""
        asked = [
            part._replace(columns=[one for one in part.columns if one[0].is_asked])
            for part in self.parts
        ]
        values = _written([part for part in asked if part.columns], len(self)).tolist()
        known = self.whole.are_known().tolist()
        return list(map(SeenBytes, values, self.outcomes(), known))

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each row."""
        count = len(self)
        values: dict[str, Iterable[Any]] = {}
        for part in self.parts:
            if part.places is None:
                for field, column in part.columns:
                    values[field.attribute] = _values(column, count, field.kind)
                continue
            chosen = len(part.places)
            own = {
                field.attribute: _values(column, chosen, field.kind)
                for field, column in part.columns
            }
            objects: list[Any] = [None] * count
            for place, made in zip(
                part.places.tolist(), _made(part.name, own, chosen), strict=True
            ):
                objects[place] = made
            values[part.name] = objects
        return _made("", values, count)


class JudgedAnswers:
    """
    The answers to judged rows, as columns: messages or objects are made of them when asked for.

    What they need of the originals is read at once, so later records do not change them.

    Args:
        held: all documents that were new, by row.
        partition: the source's, of all rows or of each.
        topic: the source's name, which the log does not have.
    """

    def __init__(
        self, rows: JudgedRows, held: OriginalStore, definition: Definition,
        partition: Partitions, topic: str,
    ) -> None:  # fmt: skip
        kinds = rows.record.kinds[rows.first : rows.stop]
        chosen = rows.answered
        self._count = len(kinds)
        self._groups: list[tuple[NDArray[np.int64], _Columns]] = []
        for outcome, is_of in (
            (None, (kinds == RowKind.FULL) | (kinds == RowKind.SHORT)),
            (Outcome.SKIPPED, kinds == RowKind.SKIPPED),
            (Outcome.DELETED, kinds == RowKind.DELETED),
        ):
            places = np.flatnonzero(is_of)
            if not len(places):
                continue
            is_all = len(places) == len(kinds)  # nearly always: every row is judged
            whole = VerdictRows(
                outcome,
                chosen if is_all else chosen.take(places),
                rows.judged if is_all else rows.judged.take(places),
                held,
                definition,
                topic,
                partition if is_all or isinstance(partition, int) else partition[places],
                rows.log_offset,
                rows.timestamp_ms,
            )
            self._groups.append((places, _Columns(whole)))
        self._dead = {
            place: DocumentError.parse(chosen.notes[place].decode("utf-8", "surrogatepass"))
            for place in np.flatnonzero(kinds == RowKind.DEAD).tolist()
        }

    @cached_property
    def outcomes(self) -> list[Outcome | DocumentError]:
        """Each row's outcome, or why it has none. Cost: 0.1 µs per row."""
        return self._each(lambda columns: list(columns.outcomes()))

    @cached_property
    def messages(self) -> list[VerdictBytes | DocumentError]:
        """The message of each row's verdict, or why there is none. Cost: 1.2 µs per row."""
        return self._each(_Columns.messages)

    @cached_property
    def verdicts(self) -> list[Verdict | DocumentError]:
        """The verdict on each row, or why there is none. Cost: 2.5 µs per row."""
        return self._each(_Columns.verdicts)

    def seen(self) -> list[SeenBytes | DocumentError]:
        """Return the answer to each row as a question, or why there is none."""
        return self._each(_Columns.seen)

    def _each(self, make: Callable[[_Columns], list[Any]]) -> list[Any]:
        if not self._dead and len(self._groups) == 1:
            return make(self._groups[0][1])
        answers: dict[int, Any] = dict(self._dead)
        for places, columns in self._groups:
            answers.update(zip(places.tolist(), make(columns), strict=True))
        return [answers[place] for place in range(self._count)]


def encode_answers(
    rows: JudgedRows,
    held: OriginalStore,
    definition: Definition,
    partition: Partitions,
    topic: str,
) -> list[VerdictBytes | DocumentError]:
    """Return the message of each row's verdict, or why there is none (`JudgedAnswers`)."""
    return JudgedAnswers(rows, held, definition, partition, topic).messages


def encode_seen(
    rows: JudgedRows,
    held: OriginalStore,
    definition: Definition,
    partition: Partitions,
    topic: str,
) -> list[SeenBytes | DocumentError]:
    """Return the answer to each row as a question, or why there is none."""
    return JudgedAnswers(rows, held, definition, partition, topic).seen()


# ---- columns to bytes


def _written(parts: Sequence[_Part], count: int) -> Texts:
    """Return the JSON of each row."""
    template = bytearray(b"{")
    texts: list[Texts | Chosen] = []
    for part in parts:
        start = b"" if len(template) == 1 else b","
        if part.places is not None:
            inner = bytearray(b'%b"%b":{' % (start, part.name.encode()))
            inner_texts: list[Texts | Chosen] = []
            _write_fields(part, inner, inner_texts)
            texts.append(spread(filled(bytes(inner) + b"}", inner_texts), part.places, count))
            template += FIELD
        elif part.name:
            template += b'%b"%b":{' % (start, part.name.encode())
            _write_fields(part, template, texts)
            template += b"}"
        else:
            template += start
            _write_fields(part, template, texts)
    return filled(bytes(template) + b"}", texts)


def _write_fields(part: _Part, template: bytearray, texts: list[Texts | Chosen]) -> None:
    """Write the fields of a part into a template, a FIELD for each that differs from row to row."""
    comma = b""
    for field, column in part.columns:
        start = comma + field.head
        if isinstance(column, Same):
            if column.value is None:
                continue
            template += start + json_of(field.kind.to_json(column.value))
        elif isinstance(column, Picked):
            template += FIELD  # with its name: some of the words may stand for no field
            texts.append(Chosen(_words(column.words, field, comma), column.numbers))
        else:
            template += start + (b'"\0"' if field.kind.is_quoted else FIELD)
            texts.append(field.kind.texts(column))
        comma = b","


@lru_cache(maxsize=64)
def _words(words: Any, field: VerdictField, comma: bytes) -> Texts:
    """Return the text of a field for each word, nothing for None."""
    start = comma + field.head
    return Texts.of(
        [
            b"" if value is None else start + json_of(field.kind.to_json(value))
            for value in words.values
        ]
    )


# ---- columns to objects


def _values(column: Column, count: int, kind: FieldKind | None = None) -> Iterable[Any]:
    """Return the values of a column of `count` rows as `Verdict` has them."""
    if isinstance(column, Same):
        return repeat(column.value, count)
    if isinstance(column, Picked):
        return map(column.words.values.__getitem__, column.numbers.tolist())
    assert kind is not None, "only columns of several values need it"
    return kind.values(column)


def _made(path: str, values: Mapping[str, Iterable[Any]], count: int) -> list[Any]:
    """
    Return `count` objects of the class at a path of `Verdict`.

    Args:
        values: those of its attributes, by their path in `Verdict`.
    """
    made = CLASSES[path]
    columns: list[Iterable[Any]] = []
    for name in made._fields:  # type: ignore[attr-defined]
        attribute = f"{path}.{name}" if path else name
        if attribute in values:
            columns.append(values[attribute])
        elif attribute in CLASSES and attribute not in SOURCES:  # a part of the same object
            columns.append(_made(attribute, values, count))
        else:
            columns.append(repeat(_WITHOUT.get(attribute), count))
    return list(map(partial(tuple.__new__, made), zip(*columns, strict=True)))


# ---- one verdict to JSON and back


_WITHOUT = {field.attribute: field.without for field in FIELDS}
_BY_ATTRIBUTE = {field.attribute: field for field in FIELDS}


_WRITERS = [
    (part, [(field.key, field.value_in, field.kind.to_json) for field in fields])
    for part, fields in _PARTS
]


def message_fields(verdict: Verdict) -> dict[str, Any]:
    """
    Return the fields of a verdict as its message has them.

    A field without a value is left out, and so is an object whose first field has no value.
    """
    message: dict[str, Any] = {}
    for part, fields in _WRITERS:
        target: dict[str, Any] = {} if part else message
        for key, value_in, to_json in fields:
            value = value_in(verdict)
            if value is not None:
                target[key] = to_json(value)
            elif part and not target:
                break
        if part and target:
            message[part] = target
    return message


def encode_verdict(verdict: Verdict) -> tuple[bytes, bytes]:
    """
    Return key and value of a verdict's message. The key is the doc_id; a field without a value is
    left out.

    Text with lone surrogates, which JSON cannot carry, is written with "?" in their place.

    Raises TypeError: it is no verdict.

    Cost: O(size), 10 us; equal bytes for equal verdicts. `encode_answers` is for many.

    >>> who = "a", None, None, Outcome.DELETED, "removed", None, None
    >>> deleted = Verdict(*who, 0, "", "", 1, 7, None, "d", 0, 5, 0)
    >>> encode_verdict(deleted)[0], decode_verdict(encode_verdict(deleted)[1]) == deleted
    (b'a', True)
    """
    check_type("verdict", verdict, Verdict)
    return verdict.doc_id.encode("utf-8", "replace"), _dumped(message_fields(verdict))


def _dumped(fields: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:  # lone surrogates
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def decode_verdict(value: bytes) -> Verdict:
    """
    Read a message of the topic `verdicts`.

    Scheme, parameters and features stand with the fingerprint; without one they come back as "", ""
    and 0.

    Raises:
        DocumentError: code "invalid-verdict": the bytes are not a verdict.

    Cost: O(size), 10 us.

    >>> decode_verdict(b"{}")
    Traceback (most recent call last):
    worker.errors.DocumentError: invalid-verdict: not a verdict: doc_id: Field required
    """
    try:
        message = VerdictMessage.model_validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the value"
        raise DocumentError("invalid-verdict", f"not a verdict: {where}: {first['msg']}") from None
    return verdict_of(message.model_dump())


def _reader(path: str, part: str) -> Callable[[Mapping[str, Any]], Any]:
    """
    Return what reads the object at a path of `Verdict` from a part of the message.

    Made once for each class: to go along the table for each verdict would take twice as long.
    """
    made = CLASSES[path]
    readers: list[Callable[[Mapping[str, Any]], Any]] = []
    for name in made._fields:  # type: ignore[attr-defined]
        attribute = f"{path}.{name}" if path else name
        if attribute in _BY_ATTRIBUTE:
            readers.append(_value_reader(_BY_ATTRIBUTE[attribute], part))
        elif attribute in SOURCES:
            readers.append(_part_reader(attribute, _reader(attribute, attribute)))
        else:
            readers.append(_reader(attribute, part))
    new = partial(tuple.__new__, made)
    return lambda fields: new([read(fields) for read in readers])


def _part_reader(
    part: str, read: Callable[[Mapping[str, Any]], Any]
) -> Callable[[Mapping[str, Any]], Any]:
    def of(fields: Mapping[str, Any]) -> Any:
        inner = fields.get(part)
        return None if inner is None else read(inner)

    return of


def _value_reader(field: VerdictField, part: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return what reads a field, from the part of the message that it is in, or from the whole."""
    key = field.key
    of_json = field.kind.of_json
    without = field.without

    inner = field.part

    def of(fields: Mapping[str, Any]) -> Any:
        value = fields.get(key)
        return without if value is None else of_json(value)

    def of_inner(fields: Mapping[str, Any]) -> Any:
        value = (fields.get(inner) or _NONE).get(key)
        return without if value is None else of_json(value)

    return of if inner == part else of_inner


_NONE: Mapping[str, Any] = {}
_read: Callable[[Mapping[str, Any]], Verdict] = _reader("", "")


def verdict_of(fields: Mapping[str, Any]) -> Verdict:
    """
    Make a verdict of a message's fields, without checking them.

    The answer to a question has only some of these fields; the others become None.
    """
    return _read(fields)
