"""
Deduplication for programs: documents in, verdicts out, in one process, without Kafka or files.

It is the engine of `neardup dedup`, and its verdicts are those of a group that read the same
documents in this order.
"""

from __future__ import annotations

import inspect
import math
import os
import threading
import warnings
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, NoReturn, ParamSpec, Self, TypeVar, get_args, overload

import numpy as np

from worker.core.arguments import whole_number
from worker.core.definition import Parameters
from worker.core.document import TEXT_CHARACTERS_LIMIT, TEXT_CHARACTERS_MAX, Verdict
from worker.core.fingerprint import Fingerprinter
from worker.core.search import SearchRules
from worker.errors import DefinitionError, DocumentError, RestoreError, StopError
from worker.log.record import RowKind
from worker.log.replica import Replica
from worker.log.rules import ENDLESS, Definition, LogDefinition, Recrawls, Retention
from worker.log.snapshot import LogIdentity, capture, restore, unpack
from worker.settings import Settings, load_definition
from worker.shell.checkpoint import map_file, newest_named_anyhow
from worker.shell.files.archives.column_names import NO_NAMES, ColumnNames
from worker.shell.files.archives.columns import shown
from worker.shell.files.archives.rows import readable_score
from worker.shell.files.choice import FIRST, ChoiceNotes, Preference
from worker.shell.files.clusters import DuplicateClusters
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import LOG, Answer, FileEngine
from worker.shell.files.frames import (
    CHOSEN,
    Unjudged,
    frame_like,
    is_read_once,
    is_stream,
    is_table,
    judged_frame,
    rows_chosen,
)
from worker.shell.files.given import Errors, InputDocument, documents_of, message_of, messages_of
from worker.shell.files.neighbours import Neighbour, nearest_originals
from worker.shell.files.outputs import written
from worker.shell.files.places import check_name
from worker.shell.files.repeats import FrameRepeats
from worker.shell.files.row_fields import RowFields
from worker.shell.files.state import check_no_state
from worker.shell.pipeline.prepare import Preparer
from worker.shell.runtime import kernels


def _check_choice(name: str, given: object, choices: Any) -> None:
    if not isinstance(given, str) or given not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {given!r}")


def _count(name: str, given: object, most: float = math.inf) -> int:
    with suppress(TypeError):
        number = whole_number(name, given)
        if 0 < number <= most:
            return number
    bounds = "1 or more" if most == math.inf else f"1 to {most:,}"
    raise ValueError(f"{name} must be a whole number, {bounds}, got {given!r}")


_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")

# In the header of a snapshot: pairs of its doc_id and that of its original, in order.
_DUPLICATES = "duplicates"


def _duplicates_of(header: Mapping[str, Any]) -> list[tuple[str, str]]:
    """
    Return the duplicates that a snapshot names, with their originals; a worker's names none.

    Raises RestoreError: they are no pairs of texts.
    """
    pairs = header.get(_DUPLICATES, [])
    if type(pairs) is not list or not all(
        type(pair) is list and [type(name) for name in pair] == [str, str] for pair in pairs
    ):
        raise RestoreError(f"the snapshot's header cannot have these {_DUPLICATES}")
    return [(duplicate, original) for duplicate, original in pairs]


def _remedy_of(error: DefinitionError) -> str:
    """Say what to do about a snapshot whose definition is not the one made of its own rules."""
    if error.differences.keys() == {"stopwords_file"}:
        there, _ = error.differences["stopwords_file"]
        if there:
            return "Give the list of function words that it was saved with, as `stopwords`"
        return "It has no function words of its own: leave `stopwords` out"
    return "Read it with the version that wrote it"


def _alone(method: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return the method of a Deduplicator that refuses while another thread uses it."""

    @wraps(method)
    def alone(*given: _Given.args, **named: _Given.kwargs) -> _Returned:
        deduplicator: Any = given[0]
        with deduplicator._in_use():
            return method(*given, **named)

    return alone


class Deduplicator(AbstractContextManager["Deduplicator"]):
    """
    Judges documents one after the other: each is new, or a duplicate of an earlier one.

    A document is a `str`, a dict or a frame's row with fields of `DocumentMessage` (text, html or
    body_base64; doc_id, url, fetched_at where it has them), such a message, a `Document`, a
    `Deletion`, or a `Record` of `CrawlFiles`. One without a doc_id, or a URL at a time, is called
    RUN.INPUT.ROW-DIGEST as in `neardup dedup`: each call is an input of one run, and each file of
    `CrawlFiles`.

    One thread at a time may use it; it uses threads itself. A call while another thread's call is
    running raises a RuntimeError. So does every later call if an exception from outside (Ctrl-C, a
    time limit, no memory) has ended one while it judged. In a forked process it goes on with
    threads of its own, unless another thread's call was running when it was forked.

    Args:
        parameters: how a text becomes a fingerprint, in 64 bits.
        search: how the original is searched, and what counts as near.
        retention: when originals are forgotten; never by default. It goes by this machine's clock.
        recrawls: whether a new version of a URL is compared with the earlier version like any other
            document, or replaces it.
        text_characters_max: how many characters of a text are fingerprinted.
        preferred_copies: which copies verdicts call better than their originals: hosts, the best
            one first, and at the end `earliest`, if the one that was fetched first is better.
        url_rules: which URLs name one page: `standard`, and names of parameters that do not count.
        threads: how many threads extract and fingerprint; by default as many as the machine has
            cores, from three on less one.

    Raises:
        TypeError, ValueError: an argument of another type or out of bounds; parameters with fields,
            or not of 64 bits.

    Cost: an original takes as much memory as in a worker; a duplicate takes two doc_ids as `str`
    and their entry in a dict.

    >>> found = Deduplicator()
    >>> story = "The council of the town has said that the bridge over the river is open to all."
    >>> documents = [story, "Nothing of the kind.", story.upper()]
    >>> [verdict.outcome.value for verdict in found.add_many(documents)]
    ['new', 'new', 'duplicate']
    >>> found.add({"doc_id": "c", "html": f"<p>{story}</p>"}).duplicate_of.original.doc_id
    '0.0.0-0baf99aa906c6cc0'
    >>> found.clusters()
    [['0.0.0-0baf99aa906c6cc0', '0.0.2-c206d946afc6b438', 'c']]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        *,
        search: SearchRules | None = None,
        retention: Retention = ENDLESS,
        recrawls: Recrawls = "compare",
        text_characters_max: int = TEXT_CHARACTERS_MAX,
        preferred_copies: Iterable[str] = (),
        url_rules: Iterable[str] = (),
        threads: int | None = None,
    ) -> None:
        parameters = Parameters() if parameters is None else parameters
        search = SearchRules() if search is None else search
        for kind, part in ((Parameters, parameters), (SearchRules, search), (Retention, retention)):
            if not isinstance(part, kind):
                raise TypeError(f"wanted neardup.{kind.__name__}(…), got {shown(part)}")
        _check_choice("recrawls", recrawls, Recrawls)
        # The defaults as they are: a library does not read its settings from the environment.
        given: dict[str, Any] = {}
        if threads is not None:
            given["threads"] = _count("threads", threads)
        text_characters_max = _count(
            "text_characters_max", text_characters_max, TEXT_CHARACTERS_LIMIT
        )
        self.definition = Definition.of(
            parameters,
            search,
            retention,
            recrawls,
            text_characters_max,
            preferred_copies,
            url_rules,
        )
        self._settings = Settings.model_construct(
            text_characters_max=text_characters_max,
            url_rules=tuple(self.definition.url_rules.entries),
            **given,
        )
        kernels.compile_first(
            kernels.KernelRules(parameters, self.definition, self._settings.search_threads)
        )
        self._preparer = Preparer(self._settings, Fingerprinter(parameters))
        self._reading: Generator[Answer, None, None] | None = None  # of `add_many`
        self._is_closed = False
        self._user = threading.RLock()
        self._user_process = os.getpid()  # the one in which it was taken last
        self._warned: set[str] = set()
        self._use(Replica(self.definition))

    def _use(self, replica: Replica, duplicates: Iterable[tuple[str, str]] = ()) -> None:
        self._clusters = DuplicateClusters(self.definition.search, duplicates)
        self._engine = FileEngine(
            replica, self._preparer, self._settings, notes=[self._clusters.take]
        )

    def __len__(self) -> int:
        """Return the number of originals."""
        self._engine.check_whole()
        return self._engine.replica.documents

    def __repr__(self) -> str:
        try:
            self._engine.check_whole()
        except RuntimeError as error:
            return f"<Deduplicator: {error}>"
        known = f"{len(self):,} originals, {len(self._clusters):,} duplicates"
        return f"<Deduplicator: {known}, {self.definition.search}>"

    def __reduce_ex__(self, _: object, /) -> NoReturn:
        # What `copy`, `deepcopy` and `pickle` call. `copy` alone would give a second name of one
        # replica and one lock.
        raise TypeError(
            "a Deduplicator cannot be copied or pickled: write what it knows with save(path), and "
            "make another one of it with Deduplicator.load(path)"
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """
        Stop judging, and end the threads, which otherwise end with the program. Questions can still
        be asked.
        """
        with self._in_use(even_if_broken=True):
            self._at_rest()
            self._is_closed = True
            self._preparer.__exit__()

    @_alone
    def add(self, document: InputDocument) -> Verdict:
        """
        Judge one document and remember it.

        Raises:
            TypeError: it is no document; DocumentError: it cannot be judged. Each names the value
                and the remedy.
            RuntimeError: the Deduplicator is closed.

        Cost: 1 ms, most of it waiting; `add_many` takes a tenth of that for each of many.

        >>> Deduplicator().add(b"bytes")
        Traceback (most recent call last):
        TypeError: document 0 is bytes b'bytes': decode it, or give a Document of BodyKind.BYTES
        """
        with closing(self.add_many([document])) as verdicts:
            return next(verdicts)

    @overload
    def add_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Literal["raise", "skip"] = "raise",
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Generator[Verdict, None, None]: ...

    @overload
    def add_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Literal["return"],
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Generator[Verdict | Exception, None, None]: ...

    def add_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Errors = "raise",
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Any:
        """
        Judge documents in their order. Verdicts can be taken one by one, while later documents are
        being prepared.

        Args:
            documents: any iterable; a column or a frame of pandas, polars, Arrow or Hugging Face
                datasets; `CrawlFiles`. It is read up to 5,000 documents ahead of the verdicts.
            errors: what happens if a document cannot be judged. "raise": its error is raised in the
                place of its verdict; documents before it are judged, later ones are not. "skip": it
                gets no verdict; a warning says how many. "return": its error takes the place of its
                verdict.
            id_column: the field of dicts and frames with the doc_id. By default `doc_id` or, with a
                warning, the `id` of a document that has no other name.
            text_column: the field with the text. If it is given, no other body is read.
                All four name those of `CrawlFiles`, too.
            url_column: the field with the URL; `url` by default.
            time_column: the field with the fetch time; `fetched_at` by default. A time without a
                zone is UTC, and a number a Unix time.

        Raises:
            TypeError, DocumentError: as in `add`. TypeError also: `documents` is one document
                instead of an iterable, or a frame that lacks a named column, or has a column of a
                type that can never be what it is read for; at the end, no dict has had a named one.
            ValueError: `errors` has another value.
            RuntimeError: a later call has ended this one before all verdicts were taken, the
                documents themselves call this Deduplicator, or it is closed. Errors of the iterable
                itself are raised after the verdicts on the documents before them.

        Cost: some 60 µs of a processor for a text of 5 KB.

        >>> texts = iter(["One text that is short.", "one text -- that is short"])
        >>> verdicts = Deduplicator().add_many(texts)
        >>> next(verdicts).outcome.value, next(verdicts).duplicate_of.kind.value
        ('new', 'exact')
        """
        columns = ColumnNames(id_column, text_column, url_column, time_column)
        _check_choice("errors", errors, Errors)
        return self._added(documents, documents_of(documents, columns), columns, errors)

    def _added(
        self,
        documents: Any,
        given: Iterator[Any],
        columns: ColumnNames,
        errors: Errors,
        repeated: FrameRepeats | None = None,
    ) -> Generator[Any, None, None]:
        """Judge what `documents_of` has made of documents."""
        if self._is_closed:
            raise RuntimeError("this Deduplicator is closed: make another one")
        crawl = documents if isinstance(documents, CrawlFiles) else None
        wrong: dict[int, Exception] = {}
        with self._in_use():
            self._at_rest()
            inputs = self._engine.begin(crawl)
            rows = RowFields(columns if crawl is None else NO_NAMES, inputs, self._warned)
            messages = messages_of(given, rows, wrong, errors)
            answers = self._engine.answers(messages, stop_at_dead=errors == "raise")
            self._reading = answers
            repeated = FrameRepeats() if is_table(documents) else repeated
            return self._verdicts(answers, wrong, errors, rows, repeated)

    def _verdicts(
        self,
        answers: Generator[Answer, None, None],
        wrong: dict[int, Exception],
        errors: Errors,
        rows: RowFields,
        repeated: FrameRepeats | None = None,
        *,
        are_questions: bool = False,
    ) -> Generator[Any, None, None]:
        """
        Yield verdicts, then raise the error that has ended the reading.

        With `errors` "raise", no document after a wrong one is judged.
        """
        skipped = Unjudged()
        with closing(answers), ExitStack() as stack:
            if repeated is not None:
                stack.enter_context(self._engine.noting(repeated.take))
            while True:
                with self._in_use():
                    answered = next(answers, None)
                    if answered is None:
                        break
                    judged: Any = answered.answer
                if not isinstance(judged, Verdict):
                    named = rows.of_document(judged, answered.offset)
                    judged = wrong.pop(answered.offset, named)
                    if errors == "raise":
                        raise judged
                skipped.take(judged)
                if errors != "skip" or isinstance(judged, Verdict):
                    yield judged
        if self._reading is not answers and not are_questions:
            raise RuntimeError(
                "another call has ended this `add_many`: take all of its verdicts before"
            )
        if wrong:
            raise wrong.popitem()[1]
        if skipped.rows:
            rows.check_columns()
        if errors == "skip":
            skipped.warn()
        if repeated is not None and (said := repeated.told()):
            warnings.warn(said, stacklevel=2)

    @_alone
    def ask(self, document: InputDocument) -> Verdict:
        """
        Return the verdict that `add` would give a document now, and keep nothing of it.

        Asked before or not, `add` answers the same and `save` writes the same. In the middle of an
        `add_many` the answer is as of what has been judged by then, which is ahead of the verdicts
        that have been taken. The time is that of the last `add`: with a retention by time, what
        expires with the next one is still known.

        Args:
            document: as for `add`.
        Raises:
            TypeError, DocumentError: as in `add`.

        Cost: some 0.9 ms of a processor for a text of 5 KB, as `add`.

        >>> found = Deduplicator()
        >>> text = "The council of the town has said that the bridge over the river is open."
        >>> verdicts = found.ask(text), found.add(text), found.ask(text)
        >>> [verdict.outcome.value for verdict in verdicts]
        ['new', 'new', 'duplicate']
        >>> len(found)
        1
        """
        number = self._engine.next_offset
        fields = RowFields(NO_NAMES, self._engine.asked_inputs(), self._warned)
        answer = self._engine.ask(message_of(document, number, fields)).answer
        if isinstance(answer, DocumentError):
            raise fields.of_document(answer, number)
        return answer

    @overload
    def ask_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Literal["raise", "skip"] = "raise",
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Generator[Verdict, None, None]: ...

    @overload
    def ask_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Literal["return"],
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Generator[Verdict | Exception, None, None]: ...

    def ask_many(
        self,
        documents: Iterable[InputDocument] | Any,
        *,
        errors: Errors = "raise",
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
    ) -> Any:
        """
        Yield what `ask` would return for each document, and keep nothing of them.

        So none is a duplicate of another one of them. `match` does this for a frame, and takes
        documents of other origin that happen to have the same ids. Documents that are added while
        the verdicts are being taken are known to those that come later.

        Args:
            documents, errors, id_column, text_column, url_column, time_column: as in `add_many`.
        Raises:
            TypeError, DocumentError, ValueError: as in `add_many`.

        Cost: that of `add_many`, a tenth of what `ask` costs for each.

        >>> found = Deduplicator()
        >>> text = "The council of the town has said that the bridge over the river is open."
        >>> _ = found.add({"doc_id": "a", "text": text})
        >>> [verdict.outcome.value for verdict in found.ask_many(["Other.", "Other.", text])]
        ['new', 'new', 'duplicate']
        >>> len(found)
        1
        """
        columns = ColumnNames(id_column, text_column, url_column, time_column)
        return self.questions(documents, columns, errors, as_others=False)

    def questions(
        self, documents: Any, columns: ColumnNames, errors: Errors, *, as_others: bool
    ) -> Generator[Any, None, None]:
        """
        Yield the answer to each document, if it were the next, as `ask_many` does.

        `as_others`: each is another document than all originals, whatever its doc_id.
        """
        _check_choice("errors", errors, Errors)
        given = documents_of(documents, columns)
        crawl = documents if isinstance(documents, CrawlFiles) else None
        wrong: dict[int, Exception] = {}
        with self._in_use():
            inputs = self._engine.asked_inputs(crawl)
            rows = RowFields(columns if crawl is None else NO_NAMES, inputs, self._warned)
            messages = messages_of(given, rows, wrong, errors)
            answers = self._engine.ask_many(messages, inputs, as_others=as_others)
            return self._verdicts(answers, wrong, errors, rows, are_questions=True)

    def verdicts_frame(
        self,
        frame: Any,
        *,
        id_column: Hashable | None = None,
        text_column: Hashable | None = None,
        url_column: Hashable | None = None,
        time_column: Hashable | None = None,
        prefer: str = "first",
    ) -> Any:
        """
        Judge a frame's rows, or a column's texts; return the verdicts as a frame of the same kind,
        in the same order.

        Its columns: doc_id, verdict, reason, stays, duplicate_of (a doc_id), original_url, kind,
        distance, similarity, copies (of the original so far), better_copy (whether it is better
        than its original; empty without preferred_copies), kept_apart (why it is new although an
        original is similar enough); and, unless the frame is judged as it is read, cluster (the
        doc_id of its original) and cluster_size (how many of the frame's rows are in it), both
        empty for a row whose doc_id a later original of the frame has, and for copies of that row.
        A row that cannot be judged is "not-judged", its error the reason; a warning counts them.

        Args:
            frame: a frame of pandas (its index is kept, and read as columns where it has names),
                polars, Arrow or Hugging Face datasets. A `LazyFrame`, a `RecordBatchReader` and an
                `IterableDataset` are read in batches. For the last two, the result is of the same
                kind. It judges rows as they are read, and can be read once. With `prefer`, a reader
                is read to its end before this returns.
            id_column, text_column, url_column, time_column: as in `add_many`.
            prefer: which row of each cluster has `stays`: "first", "longest", "newest",
                "shortest-url", or "highest:COLUMN" for the largest number in a column. Of copies of
                an earlier call's document none has. Where no row has a time or a number, the first
                has it, and a warning says so.

        Raises:
            ValueError: `prefer` is none of these, or the frame is an `IterableDataset`.
            TypeError: it is no frame, has none of the columns text, html and body_base64, lacks a
                named column, or has a column of a type that can never be what it is read for.
            TypeError, DocumentError: none of its rows could be judged.
            RuntimeError: the Deduplicator is closed.
            Exception: errors of the frame itself, when it is read.

        >>> import polars
        >>> frame = polars.DataFrame({"text": ["The ferry is late.", None, "the ferry is late"]})
        >>> found = Deduplicator().verdicts_frame(frame)
        >>> found["verdict"].to_list(), found["duplicate_of"][2]
        (['new', 'not-judged', 'duplicate'], '0.0.0-54a8885b0bb058a3')
        >>> frame.filter(found["stays"])["text"].to_list()
        ['The ferry is late.']
        """
        columns = ColumnNames(id_column, text_column, url_column, time_column)
        # so that None, or any other value, gets the error for an unknown rule
        preference = Preference.parse(str(prefer))
        if not is_read_once(frame) or (preference != FIRST and not is_stream(frame)):
            notes = ChoiceNotes(preference, has_table=True)
            # Closed whatever happens: a traceback may hold it, and with its note, later calls would
            # end in rows that it does not expect.
            with closing(self._noted(frame, columns, notes, preference.field)) as judged:
                rows = rows_chosen(judged, notes)
                if is_read_once(frame):  # its verdicts are returned in batches, errors raised here
                    rows = iter(list(rows))
                return frame_like(frame, rows, CHOSEN)
        if preference != FIRST:
            raise ValueError(
                f"prefer={prefer!r} needs all rows, and {type(frame).__name__} is judged as it is "
                "read, which may be without an end: "
                "give a frame or a RecordBatchReader, or leave prefer= out"
            )
        judge = partial(self._judged_rows, columns=columns, repeats=FrameRepeats(is_stream=True))
        return judged_frame(frame, judge, columns)

    def _judged_rows(self, rows: Any, columns: ColumnNames, repeats: FrameRepeats) -> Iterator[Any]:
        """Judge some rows of a stream; errors take the places of verdicts."""
        repeats.begin(self._engine.next_inputs())
        return self._added(rows, documents_of(rows, columns), columns, "return", repeats)

    def _noted(
        self, frame: Any, columns: ColumnNames, notes: ChoiceNotes, score_column: str | None
    ) -> Generator[Verdict | Exception, None, None]:
        """Judge a frame's rows, and note for the choice what they mean."""

        def scored(rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                score = None if score_column is None else row.get(score_column)
                notes.expect(readable_score(score))
                yield row

        if score_column is not None and not is_table(frame):
            raise TypeError(
                f"prefer= names the column {score_column!r}, "
                "which a column alone has not: give its frame"
            )
        rows = documents_of(frame, columns, score_column)
        judged = self._added(frame, scored(rows), columns, "return")
        with self._engine.noting(notes.take_expected):
            yield from judged

    @contextmanager
    def _in_use(self, *, even_if_broken: bool = False) -> Iterator[None]:
        """
        Keep other threads out. RuntimeError: one is in, or a call has ended halfway.

        They are not made to wait: what `add_many` reads may wait for them in its turn. A process
        that was forked meanwhile has the lock, but not the thread that would release it.
        """
        if not self._user.acquire(blocking=False):
            if self._user_process != os.getpid():  # nobody in this process will ever release it
                raise RuntimeError(
                    "this process was forked while another thread was using this Deduplicator, "
                    "and has only half of what that call was changing: load the last one saved "
                    "(Deduplicator.load), or fork while no call is running"
                )
            raise RuntimeError(
                "another thread is using this Deduplicator: one at a time, or one for each"
            )
        self._user_process = os.getpid()
        try:
            if not even_if_broken:
                self._engine.check_whole()
            yield
        finally:
            self._user.release()

    def _at_rest(self) -> None:
        """End the reading that another `add_many` has begun. RuntimeError: it is calling this."""
        if self._reading is not None:
            if inspect.getgeneratorstate(self._reading) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "the documents that `add_many` is reading call the Deduplicator that judges "
                    "them: add, save or close when their verdicts have been taken, or use another "
                    "Deduplicator. Only `ask`, `nearest` and `clusters` may be called by them"
                )
            self._reading.close()
            self._reading = None

    @_alone
    def clusters(self) -> list[list[str]]:
        """
        Return clusters of doc_ids: each original that has duplicates, followed by them.

        Clusters are in the order of their first duplicates.

        Every duplicate is near its original; two duplicates may be less near. If the doc_id of an
        original comes again with another text, or after it was deleted or had left by `retention`,
        its former duplicates are in no cluster any more.

        Cost: O(duplicates).
        """
        return self._clusters.lists()

    @_alone
    def nearest(self, document: InputDocument, count: int = 10) -> list[Neighbour]:
        """
        Return the originals nearest to a document, by distance, however far away. The document is
        not remembered.

        A short document is near to its equals only, one without text to none. One that has a doc_id
        is not near itself.
        Args:
            document: as for `add`.
            count: how many at most, 0 or more.
        Raises:
            TypeError, DocumentError: as `add`; TypeError: `count` is no whole number.
            ValueError: `count` is negative.

        Cost: a scan of all originals.

        >>> found = Deduplicator()
        >>> text = "The council of the town has said that the bridge over the river is open."
        >>> _ = found.add({"doc_id": "a", "text": text})
        >>> [near] = found.nearest(text.replace("said that", "said") + "!")
        >>> near.original.doc_id, near.distance < 16
        ('a', True)
        """
        if not isinstance(count, int | np.integer):
            raise TypeError(f"count must be a whole number, 0 or more, got {shown(count)}")
        if count < 0:
            raise ValueError(f"count must be 0 or more, got {count}")
        fields = RowFields(NO_NAMES, self._engine.asked_inputs(), self._warned)
        row = self._engine.row(message_of(document, self._engine.next_offset, fields))
        if row.kind == RowKind.DEAD:
            raise DocumentError.parse(row.note)
        return nearest_originals(self._engine.replica.judge.held, row, count)

    @_alone
    def save(self, path: str | Path) -> None:
        """
        Write all that is known to a file, whole or not at all: a snapshot as workers write them.

        Raises:
            StopError: it cannot be written, or stands in a state of runs, which do not know it.
            TypeError: the path is neither a str nor a Path.

        Cost: that of a worker's snapshot, and two doc_ids per duplicate.
        """
        path = Path(path).absolute()  # a program names a file "-"
        check_no_state(path)
        self._at_rest()
        snapshot = capture(self._engine.replica, LOG, {_DUPLICATES: self._clusters.pairs()})
        with written(path) as stream:
            for part in snapshot.parts():
                stream.write(part)

    @classmethod
    def of_definition(cls, path: str | Path, *, threads: int | None = None) -> Self:
        """
        Judge by a definition: the TOML file that `--definition` gives to workers and commands.

        Args:
            path: the file. It is read once.
            threads: as of `Deduplicator`.

        Raises:
            StopError: the file is no definition, or has a wrong value.
            ValueError: its values contradict each other.
        """
        check_name(path)
        keys = load_definition(Path(path))
        return cls(
            keys.parameters,
            search=keys.search,
            retention=keys.retention,
            recrawls=keys.recrawls,
            text_characters_max=keys.text_characters_max,
            preferred_copies=keys.preferred_copies,
            url_rules=keys.url_rules,
            threads=threads,
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        stopwords: frozenset[str] | None = None,
        threads: int | None = None,
    ) -> Self:
        """
        Go on where a snapshot ends, with its parameters, rules and retention.

        A worker's snapshot is one, too: what its group knows can be asked, and gone on from. The
        clusters of what came before are known to snapshots of `save` alone.

        Args:
            path: the file, or a folder of snapshots; then the newest is taken: of a worker's by
                their names, otherwise the one that was written last. The file must stay as it is.
            stopwords: the list of function words, where it is one of your own.

        Raises:
            StopError: there is none, it is damaged, of another version, or its list of function
                words is missing.
            TypeError, ValueError: an argument of another type or out of bounds.

        Cost: that of a worker's start.
        """
        check_name(path)
        path = Path(path)
        try:
            if path.is_dir():
                path = newest_named_anyhow(path)
            data = map_file(path)
            header, _ = unpack(data)
            made = cls(**LogDefinition(*header["definition"]).arguments(stopwords), threads=threads)
            made._use(
                restore(data, made.definition, LogIdentity.of(header)),
                _duplicates_of(header),
            )
        except DefinitionError as error:
            remedy = error.remedy or _remedy_of(error)
            raise DefinitionError(str(path), error.differences, remedy) from error
        except (OSError, RestoreError, StopError) as error:
            raise StopError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        return made
