"""
The engine of a run over files: documents come from an iterator, each batch goes right to the
replica, and verdicts come back in order.

There is no log's topic, no other worker, no transaction and no restart. The same code judges.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from worker.core.document import Verdict
from worker.errors import DefinitionError, DocumentError
from worker.held_signals import held_back
from worker.log.judge import JudgedRows
from worker.log.originals import OriginalStore
from worker.log.record import (
    FORMAT_VERSION,
    RECORD_BYTES_MAX,
    Row,
    RowKind,
    Rows,
    Section,
    Source,
    record_ends,
)
from worker.log.replica import Encoded, Encoder, Replica
from worker.log.rules import Definition
from worker.log.snapshot import LogIdentity
from worker.settings import Settings
from worker.shell.checkpoint import Checkpoint
from worker.shell.files.apart import NamesApart, named_later
from worker.shell.files.archives import Capture, Message, Record, Unreadable
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.inputs import Inputs
from worker.shell.files.places import shown_name
from worker.shell.files.records import records_of
from worker.shell.files.state import STATE_REMEDY, RunState
from worker.shell.messages import JudgedAnswers, VerdictBytes
from worker.shell.pipeline.prepare import Preparer
from worker.shell.pipeline.stage import POLL_S, Batch, cut
from worker.shell.ports import InputMessage
from worker.shell.runtime import kernels

TOPIC = "files"
_SOURCE = Source(b"neardup:files".ljust(16, b"\0"), 0)
DEAD_LETTER = "dead-letter"  # in place of a verdict's word
LOG = LogIdentity("files", _SOURCE.topic_id)


Note: TypeAlias = Callable[[JudgedRows, OriginalStore], None]  # with the originals that they name
# The same, with the offset of each row's record in the log.
RecordsNote: TypeAlias = Callable[[JudgedRows, OriginalStore, NDArray[np.int64]], None]


class Answer:
    """
    The answer to one message, with the message's number in the stream.

    The bytes and the object are made of the same columns, for a whole batch when the first is asked
    for. So nothing is parsed that has just been written, and nothing is made that nobody wants.
    """

    __slots__ = ("_answers", "_place", "offset")

    def __init__(self, offset: int, answers: JudgedAnswers, place: int) -> None:
        self.offset = offset
        self._answers = answers
        self._place = place

    @property
    def outcome(self) -> str:
        """The outcome: the word of a verdict, or DEAD_LETTER."""
        outcome = self._answers.outcomes[self._place]
        return DEAD_LETTER if isinstance(outcome, DocumentError) else outcome.value

    @property
    def error(self) -> DocumentError | None:
        """Why the document cannot be judged; None: it can."""
        outcome = self._answers.outcomes[self._place]
        return outcome if isinstance(outcome, DocumentError) else None

    @property
    def written(self) -> VerdictBytes | DocumentError:
        """The verdict as a message."""
        return self._answers.messages[self._place]

    @property
    def answer(self) -> Verdict | DocumentError:
        """The verdict as an object."""
        return self._answers.verdicts[self._place]


def judged_answers(
    rows: JudgedRows,
    held: OriginalStore,
    definition: Definition,
) -> list[Answer]:
    """Return the answer to each row, as `encode_answers` returns its message."""
    answers = JudgedAnswers(rows, held, definition, _SOURCE.partition, TOPIC)
    return [Answer(offset, answers, place) for place, offset in enumerate(rows.offsets())]


class FileEngine:
    """
    Judges a stream of messages in its order. With a restored replica, it continues where that one
    ended.

    An exception from outside (Ctrl-C, a time limit, no memory) may come at any instruction. Within
    a change of the replica, it would leave documents judged of which the engine does not know, and
    later ones would get their answers. So signals wait until a change has been made, some 50 ms for
    a batch. After any other exception within one, the engine refuses everything (`check_whole`).

    Args:
        clock_ms: returns the time of a record, which is also that of its verdicts.
        notes: each gets all judged rows, as a part of the change that they belong to.
    """

    def __init__(
        self,
        replica: Replica,
        preparer: Preparer,
        settings: Settings,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        notes: Iterable[Note] = (),
    ) -> None:
        self.replica = replica
        replica.use_threads(settings.threads)
        self._clock_ms = clock_ms
        self._preparer = preparer
        self._settings = settings
        self._notes = list(notes)
        self.names = NamesApart()
        # The exception that has ended a change halfway; "" if there was none.
        self._broken_by = ""
        covered = list(replica.coverage.get(_SOURCE, ()))
        # The number of the stream's next message.
        self.next_offset = covered[-1].stop if covered else 0
        # A worker's state has no run over files, but its log may have begun with the state of some.
        # So this run, and those that follow, have numbers of its log.
        is_workers = replica.definition.base is not None or bool({*replica.coverage} - {_SOURCE})
        self._run = self.next_offset
        if is_workers or not self.next_offset:
            self._run = replica.next_offset
        self._inputs_begun = 0
        self._inputs = self.next_inputs()

    def next_inputs(self) -> Inputs:
        """Return the run's next input, which has not begun."""
        return Inputs(self._run, self._inputs_begun, self.next_offset)

    def asked_inputs(self, crawl: CrawlFiles | None = None) -> Inputs:
        """
        Return what the documents of a question would be, each as if it came next and alone.

        Args:
            crawl: the files that are read for it.
        """
        inputs = self.next_inputs()
        if crawl is not None:
            crawl.begin(inputs)
        return replace(inputs, are_asked=True)

    def begin(self, crawl: CrawlFiles | None = None) -> Inputs:
        """
        Begin with the run's next inputs, and return them.

        Args:
            crawl: the files that are read next; None: one input, which is not a file.
        """
        inputs = self.next_inputs()
        if crawl is None:
            self._inputs_begun += 1
        else:
            self._inputs_begun += crawl.files
            inputs = crawl.begin(inputs)
        self._inputs = inputs
        return inputs

    def resume(self, inputs: Inputs) -> None:
        """Go on in the middle of inputs."""
        self._inputs = inputs

    def answers(
        self, messages: Iterable[Message], *, stop_at_dead: bool = False
    ) -> Generator[Answer, None, None]:
        """
        Yield the answer to each message of the inputs that have begun, as it would be for the topic
        `documents`. A few batches are prepared ahead.

        Args:
            stop_at_dead: whether to stop at the first message that cannot be judged. The log then
                has no later one.
        """
        batches = _prepared(self._preparer, messages, self._settings, self.next_offset)
        with closing(batches):
            for record in self.records(batch.rows for batch in batches):
                is_dead = record.kinds == RowKind.DEAD
                is_last = stop_at_dead and bool(is_dead.any())
                rows = record.between(0, int(is_dead.argmax()) + 1) if is_last else record
                yield from self.judge_rows(rows, self._encode)
                if is_last:
                    return

    @contextmanager
    def noting(self, note: Note) -> Iterator[None]:
        """
        Call `note` with judged rows until the block ends, before `answers` yields their answers.
        """
        self._notes.append(note)
        try:
            yield
        finally:
            self._notes.remove(note)

    def _encode(
        self, rows: JudgedRows, held: OriginalStore, definition: Definition, *_: object
    ) -> list[Answer]:
        for note in self._notes:
            note(rows, held)
        return judged_answers(rows, held, definition)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make a change as a whole. If an exception ends it halfway, refuse all later ones."""
        self.check_whole()
        with held_back():
            self._broken_by = "an exception"
            try:
                yield
            except BaseException as error:
                if not isinstance(error, GeneratorExit):  # which closes what an exception has left
                    self._broken_by = type(error).__name__
                raise
            self._broken_by = ""

    def check_whole(self) -> None:
        """Raise RuntimeError if an exception has ended a change halfway."""
        if self._broken_by:
            raise RuntimeError(
                f"{self._broken_by} ended a call in the middle of judging, so that later verdicts "
                "would be those of other documents: make another Deduplicator, "
                "or `load` what was saved before"
            )

    def row(self, message: Message) -> Row:
        """Return a message as the row that the log would get, without judging it."""
        [row] = self._preparer.rows(
            [source_message(0, *message, self._settings.document_bytes_max)]
        )
        return row

    def ask(self, message: Message) -> Answer:
        """
        Return the answer that a message would get if it were the next one. Nothing is kept.

        The time is that of the last record, so originals are still there that will expire with the
        next one.
        Cost: some 0.9 ms of a processor.
        """
        [answer] = self._asked(Rows.of([self.row(message)]), as_others=False)
        return answer

    def ask_many(
        self, messages: Iterable[Message], inputs: Inputs, *, as_others: bool
    ) -> Generator[Answer, None, None]:
        """
        Yield the answer to each message as `ask` gives it, for many at once.

        Threads of its own prepare them, because `answers` may be in the middle of its messages.

        Args:
            inputs: what they are named as, from `asked_inputs`. Their answers are numbered from its
                offset on.
            as_others: whether each is another document than all originals, whatever its doc_id.
        """
        with Preparer(self._settings, self._preparer.fingerprinter) as preparer:
            batches = _prepared(preparer, messages, self._settings, inputs.offset)
            with closing(batches):
                for batch in batches:
                    numbers = batch.rows.offsets.tolist()
                    rows = named_later(batch.rows, inputs, self._inputs_begun)
                    asked = self._asked(rows, as_others=as_others)
                    for number, answer in zip(numbers, asked, strict=True):
                        answer.offset = number
                        yield answer

    def _asked(self, rows: Rows, *, as_others: bool) -> list[Answer]:
        """Return the answer that each row would get if it came next and alone."""
        replica = self.replica
        # The log's first record is its definition.
        log_offset = replica.next_offset + (not replica.acceptance.record_format)

        def encode(
            rows: JudgedRows, held: OriginalStore, definition: Definition, *_: object
        ) -> list[Answer]:
            rows = rows._replace(log_offset=log_offset, timestamp_ms=self._clock_ms())
            return judged_answers(rows, held, definition)

        rows = replace(rows, offsets=np.full(len(rows), self.next_offset, np.int64))
        with self._whole():  # originals that a message would replace are hidden meanwhile
            return replica.ask(rows, encode, as_others=as_others)

    def records(self, parts: Iterable[Rows]) -> Iterator[Rows]:
        """Join and cut the next rows of the stream into those that the log gets together."""
        return records_of(self._inputs, parts, self._settings.batch_documents_max)

    def judge_rows(self, rows: Rows, encode: Encoder[Encoded]) -> list[Encoded]:
        """
        Return what `encode` makes of the answers to the next rows of the stream, as `records`
        yields them.
        """
        definition = self.replica.definition
        answers: list[Encoded] = []

        def note(judged: JudgedRows, held: OriginalStore, log_offsets: NDArray[np.int64]) -> None:
            for part in judged.by_record(log_offsets):
                answers.extend(encode(part, held, definition, _SOURCE.partition, TOPIC))

        self.judge_together([rows], note)
        return answers

    def judge_together(self, records: Iterable[Rows], note: RecordsNote) -> int:
        """
        Judge the next records of the stream, as `records` yields them, in one call if possible.

        Records keep their places in the log, and all answers are those of `judge_rows`. Fewer are
        judged than are given where something is done between two of them, or the names of rows
        depend on what has become of earlier ones.

        Args:
            records: at least one. None is taken behind the first that must wait.
            note: gets the judged rows, as a part of the change, with the log's offset of each.
        Returns:
            How many of the records were judged, at least one.

        Cost: that of `judge_rows` for one record with all the rows.
        """
        together = self._together(records)
        ends = list(accumulate(map(len, together)))
        rows = Rows.joined(together)
        rows = self.names.rows(rows, self._inputs, self.replica.judge.held, ends)
        ends = [end for end in ends if end <= len(rows)]
        replica = self.replica
        author = replica.definition.author(TOPIC)
        own_ends: list[int] = []  # of the log's records: one that is too large is cut
        for begin, end in pairwise([0, *ends]):
            cuts = record_ends(author, rows.between(begin, end), RECORD_BYTES_MAX)
            own_ends += [begin + cut for cut in cuts]
        with self._whole():
            if not replica.acceptance.record_format:
                declared = replica.definition.declaration(TOPIC, FORMAT_VERSION)
                replica.read(declared, replica.next_offset, self._clock_ms())
            are_together = replica.may_apply_together(len(rows))
            calls = [own_ends] if are_together else [[end] for end in own_ends]
            begin = 0
            for call_ends in calls:
                self._apply_together(rows, begin, call_ends, note)
                begin = call_ends[-1]
        return len(ends)

    def _apply_together(
        self, rows: Rows, begin: int, ends: Sequence[int], note: RecordsNote
    ) -> None:
        """Judge the rows from `begin` on, of records that end there, in one call."""
        replica = self.replica
        own = rows.between(begin, ends[-1])
        stop = int(own.offsets[-1]) + 1
        section = Section(_SOURCE, self.next_offset, stop, self.next_offset, own)
        log_offsets = replica.next_offset + np.arange(len(ends))
        judged = replica.apply_together(section, len(ends), self._clock_ms())
        note(judged, replica.judge.held, np.repeat(log_offsets, np.diff(ends, prepend=begin)))
        replica.committed(_SOURCE, stop)
        self.next_offset = stop

    def _together(self, records: Iterable[Rows]) -> list[Rows]:
        """Return the first records that are of one input, while nothing is done between these."""
        together: list[Rows] = []
        first = count = 0
        for rows in records:
            if not together:
                first = self._inputs.place(int(rows.offsets[0])).input
            count += len(rows)
            is_of_input = self._inputs.place(int(rows.offsets[-1])).input == first
            if together and not (is_of_input and self.replica.may_apply_together(count)):
                break
            together.append(rows)
            if not is_of_input:
                break
        return together


def _prepared(
    preparer: Preparer, messages: Iterable[Message], settings: Settings, first: int = 0
) -> Generator[Batch, None, None]:
    """
    Number messages from `first` on, and yield them in batches with their rows. A few batches are
    prepared ahead.
    """
    bytes_max = settings.document_bytes_max
    numbered = (
        source_message(offset, key, value, bytes_max)
        for offset, (key, value) in enumerate(messages, start=first)
    )
    # An exception can have ended the reading before this one at any line, its clean-up included.
    _drop(preparer)
    try:
        for piece in cut(numbered, settings.batch_documents_max, settings.batch_bytes_max):
            batch = Batch(piece)
            while not _is_submitted(preparer, batch):
                yield _next(preparer)
        while len(preparer):
            yield _next(preparer)
    finally:  # if the caller stops here, documents that are being prepared are not needed
        _drop(preparer)


def source_message(
    offset: int, key: bytes | None, value: bytes | Capture | Unreadable | None, bytes_max: int
) -> InputMessage:
    """
    Return a message of the stream. A capture stays a document, unless it will be refused for its
    length.
    """
    if isinstance(value, Unreadable):
        return InputMessage(0, offset, key, None, value.text, defect_code=value.code)
    if not isinstance(value, Capture):
        return InputMessage(0, offset, key, value)
    if len(value.body) > bytes_max:  # refused for its length, so the body is not kept
        return InputMessage(0, offset, key, None, document_bytes=len(value.body))
    found = value.document(bytes_max)
    if found is None:
        return InputMessage(0, offset, key, value.message())
    document, document_bytes = found
    return InputMessage(0, offset, key, None, document=document, document_bytes=document_bytes)


# A signal may be heard between these calls only. Within one, what its handler raises could leave a
# lock locked for which a thread of the preparer waits.


def _is_submitted(preparer: Preparer, batch: Batch) -> bool:
    with held_back():
        return preparer.submit(batch)


def _next(preparer: Preparer) -> Batch:
    while True:
        with held_back():
            batch = preparer.poll(POLL_S)
        if batch is not None:
            return batch


def _drop(preparer: Preparer) -> None:
    with held_back():
        preparer.drop()


def prepared_rows(messages: Iterable[Message], settings: Settings) -> Iterator[Row]:
    """Yield each message as the row that the log would get, in order, without judging it."""
    with Preparer(settings) as preparer:
        for batch in _prepared(preparer, messages, settings):
            yield from batch.rows


@contextmanager
def file_engine(
    settings: Settings, state: RunState | None = None, *, with_pages: bool = False
) -> Iterator[FileEngine]:
    """
    Make an engine with these settings, and end its threads after the block.

    Args:
        with_pages: pages are expected. What makes texts of them is compiled beforehand, if it has
            to be, in place of when the first one comes.
        state: the engine continues where its last run ended, and stores its own end there. A run
            that fails leaves it as it was, and can be repeated.

    Raises:
        StopError: the state has other settings, is damaged, or cannot be written.
    """
    kernels.compile_first(settings, with_pages=with_pages)
    with Preparer(settings) as preparer:
        if state is None:
            yield FileEngine(Replica(settings.rules), preparer, settings)
            return
        checkpoint = Checkpoint(state.folder, settings.rules, LOG, "files", math.inf)
        try:
            replica = checkpoint.restore(has_log=False, skip=state.skipped)
        except DefinitionError as error:
            raise error.with_remedy(STATE_REMEDY) from error
        engine = FileEngine(replica, preparer, settings)
        yield engine
        state.save(checkpoint, engine.replica)


def line_of(record: Record, answered: Answer) -> bytes:
    """Return an answer as a line of JSON: the verdict as in its topic, or the error and place."""
    answer = answered.written
    if isinstance(answer, VerdictBytes):
        return answer.value
    fields = {
        "verdict": DEAD_LETTER,
        "doc_id": None if record.key is None else record.key.decode(),
        "error": {"code": answer.code, "text": answer.text},
        "input": {"file": shown_name(record.file), "line": record.line, "offset": record.offset},
        "source": {"topic": TOPIC, "partition": 0, "offset": answered.offset},
    }
    return orjson.dumps(fields)
