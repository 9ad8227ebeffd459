"""
Read all topics of a live or stopped deployment, and check them with `audit.check`; or the log
alone, for commands that need no more.

The ends of the topics are asked for in an order in which each covers the one before: the group's
offsets, then the answers (up to the end of transactions that are open just now), then the log, then
the documents. So a document that is answered meanwhile is never called wrong or invented.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from worker.errors import StopError
from worker.log.rules import Acceptance, Definition
from worker.settings import Settings
from worker.shell.admin.audit import Defect, Left, Report, check
from worker.shell.admin.new_documents import NewDocuments
from worker.shell.admin.published import AnswerMessage
from worker.shell.admin.remains import MENDED, OLDEST_MAX
from worker.shell.checkpoint import first_replica
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.reader import TopicMessage, TopicReader
from worker.shell.pipeline import service
from worker.shell.pipeline.offsets import foreign
from worker.shell.ports import InputMessage, LogEntry

# If no message arrives for this long, reading ends with an error. A dead worker's transaction,
# which holds up its readers, is over sooner.
STALL_S = 60.0
_POLL_S = 0.2

Ends = Mapping[tuple[str, int], tuple[int, int]]  # topic and partition -> first and end offset
Progress = Callable[[str, int, int], None]  # topics, messages read so far, messages in total


def no_progress(topics: str, done: int, total: int) -> None:
    """Report no progress."""


def verify(
    settings: Settings,
    *,
    read_documents: bool = True,
    on_progress: Progress = no_progress,
) -> Report:
    """
    Read everything, replay the log, and compare.

    Args:
        settings: the settings of the group's workers.
        read_documents: also read the source topic with all its bodies. If False, the log says which
            documents exist.
        on_progress: called after each portion.

    Raises:
        StopError: a topic is missing, the log does not start at offset 0, or it cannot be replayed
            with these settings.
    """
    admin = Admin(settings)
    answer_topics = [settings.topic_verdicts, settings.topic_dead_letter]
    new_topics = [] if settings.topic_new is None else [settings.topic_new]
    names = [settings.topic_documents, settings.topic_fingerprints, *answer_topics, *new_topics]
    topics = admin.existing(names)
    asked = _ask(settings, admin, topics, read_documents=read_documents)
    new_documents = None
    if settings.topic_new is not None:
        topic = topics[settings.topic_new]
        new_documents = _new_documents(settings, admin, topic, asked.new, on_progress)
    documents = topics[settings.topic_documents]
    report = check(
        first_replica(settings.rules, settings.base_snapshot),
        documents.name,
        documents.topic_id,
        log=read_log(settings, asked.log, on_progress),
        documents=_documents(read_committed(settings, asked.documents, on_progress)),
        answers=_answers(settings, read_committed(settings, asked.answers, on_progress)),
        committed=asked.committed,
        left=lambda: Left(
            *(_answers_left(settings, admin, topics[name]) for name in answer_topics)
        ),
        new=new_documents,
        again=lambda: (
            first_replica(settings.rules, settings.base_snapshot),
            read_log(settings, asked.log, on_progress),
        ),
    )
    return dataclasses.replace(report, held_up=asked.held_up, foreign_offsets=asked.foreign_offsets)


def refuse_wrong(report: Report, therefore: str) -> None:
    """
    Refuse if published answers differ from the log: these may be another group's topics or
    settings.

    Messages that are no answers at all do not count: anybody can write one, and they stay.

    Args:
        therefore: what follows, for the message.
    Raises:
        StopError: there are wrong answers.
    """
    wrong = report.defects[Defect.WRONG] - report.no_answers + report.defects[Defect.MUTUAL]
    if wrong:
        raise StopError(
            f"{wrong} answers differ from the log, so {therefore}. Look at neardup verify first: "
            "are these the group's settings?"
        )


class _Asked(NamedTuple):
    """What was asked before anything was read, in the order in which it was."""

    committed: Mapping[int, int | None]
    answers: Ends  # of verdicts and dead letters
    new: Ends
    log: Ends
    documents: Ends
    held_up: Mapping[int, int]
    foreign_offsets: Mapping[int, int]


def _ask(
    settings: Settings, admin: Admin, topics: Mapping[str, Topic], *, read_documents: bool
) -> _Asked:
    """
    Ask up to where to read. The order of these questions matters: see the head of this file.

    Raises:
        StopError: the log does not start at offset 0.
    """
    source = topics[settings.topic_documents]
    commits = service.committed(settings, source.partitions)
    committed = {number: commit.offset for number, commit in commits.items()}
    foreign_offsets = foreign(commits, topics[settings.topic_fingerprints].topic_id.hex())
    answers = _ends(admin, topics[settings.topic_verdicts], topics[settings.topic_dead_letter])
    new = {} if settings.topic_new is None else _ends(admin, topics[settings.topic_new])
    log = admin.ends({settings.topic_fingerprints: 1})  # workers use partition 0 alone
    log_start = log[settings.topic_fingerprints, 0][0]
    if log_start > 0:
        raise StopError(
            f"the log starts at offset {log_start}: earlier records cannot be replayed. Set the "
            f"topic's retention to unlimited"
        )
    documents: Ends = {}
    held_up: Mapping[int, int] = {}
    if read_documents:
        documents, held_up = admin.readable(source.name, source.partitions)
    return _Asked(committed, answers, new, log, documents, held_up, foreign_offsets)


def _ends(admin: Admin, *topics: Topic) -> Ends:
    """Return where the partitions of some topics start and end now."""
    return admin.ends({topic.name: topic.partitions for topic in topics})


def read_log(
    settings: Settings, ends: Ends, on_progress: Progress = no_progress
) -> Generator[LogEntry, None, None]:
    """
    Yield the records of the log between its ends.

    Raises:
        StopError: no record arrived for `STALL_S`.
    """
    for message in read_committed(settings, ends, on_progress):
        yield LogEntry(message.offset, message.timestamp_ms, message.value or b"")


def _documents(messages: Iterable[TopicMessage]) -> Iterator[InputMessage]:
    for message in messages:
        yield InputMessage(message.partition, message.offset, message.key, message.value)


def _answers(settings: Settings, messages: Iterable[TopicMessage]) -> Iterator[AnswerMessage]:
    """Yield verdicts and dead letters for the check, both as answers with their topic."""
    for message in messages:
        yield AnswerMessage(
            message.key,
            message.value,
            message.headers,
            is_dead_letter=message.topic == settings.topic_dead_letter,
        )


def _new_documents(
    settings: Settings, admin: Admin, topic: Topic, ends: Ends, on_progress: Progress
) -> NewDocuments:
    """Read the whole topic of new documents, and then ask what retention may have deleted of it."""
    new_documents = NewDocuments(is_compacted=_is_compacted(topic))
    for message in read_committed(settings, ends, on_progress):
        new_documents.take(message.key, message.value)
    for messages in oldest_left(settings, topic, _ends(admin, topic)):
        new_documents.take_oldest((message.key, message.value) for message in messages)
    return new_documents


def _answers_left(settings: Settings, admin: Admin, topic: Topic) -> list[list[AnswerMessage]]:
    """Return the oldest answers left of each partition of which some were deleted."""
    left = oldest_left(settings, topic, _ends(admin, topic))
    return [list(_answers(settings, messages)) for messages in left]


def _is_compacted(topic: Topic) -> bool:
    """Return whether messages of a topic may have been replaced by later ones of the same key."""
    return "compact" in topic.config["cleanup.policy"]


def oldest_left(settings: Settings, topic: Topic, ends: Ends) -> list[list[TopicMessage]]:
    """
    Return the oldest messages left of each partition of which some were deleted; see `remains.py`.

    Messages that `verify --mend` has published are passed over. Of a compacted topic nothing counts
    as left: compaction removes any verdict whose document has a later one, and leaves no trace of
    it.
    """
    if _is_compacted(topic):
        return [[]]
    return [
        list(
            islice(
                (
                    message
                    for message in read_committed(settings, {place: (first, end)})
                    if MENDED not in dict(message.headers)
                ),
                OLDEST_MAX,
            )
        )
        for place, (first, end) in ends.items()
        if first > 0
    ]


def is_declared(settings: Settings, admin: Admin, definition: Definition) -> bool:
    """
    Return whether the log has this definition; not if it has none yet, or has lost its beginning.

    Raises:
        DefinitionError: it has another one.
        StopError: no record arrived for `STALL_S`, so nobody knows.

    Cost: the log up to its first declaration.
    """
    acceptance = Acceptance(definition)
    ends = admin.ends({settings.topic_fingerprints: 1})
    if ends[settings.topic_fingerprints, 0][0] > 0:
        return False
    with closing(read_log(settings, ends)) as entries:
        for entry in entries:
            acceptance.accept(entry.value, entry.offset)
            if acceptance.declared is not None:
                return True
    return False


def read_committed(
    settings: Settings, ends: Ends, on_progress: Progress = no_progress
) -> Iterator[TopicMessage]:
    """
    Yield the committed messages between these ends of partitions.

    Raises:
        StopError: no message arrived for `STALL_S`.
    """
    starts = {place: first for place, (first, _) in ends.items()}
    stops = {place: end for place, (_, end) in ends.items()}
    total = sum(stops.values()) - sum(starts.values())
    names = dict.fromkeys(name for name, _ in ends)
    # A source message that cannot be read has a dead letter, and the log knows it.
    step_over = settings.topic_documents in names
    done = 0
    deadline = time.monotonic() + STALL_S
    with closing(TopicReader(settings, starts, ends=stops, step_over=step_over)) as reader:
        while not reader.at_end():
            messages = reader.read(_POLL_S)
            done += len(messages)
            for message in messages:
                if message.offset < stops[message.topic, message.partition]:
                    yield message
            if messages:
                deadline = time.monotonic() + STALL_S
                on_progress(", ".join(names), done, total)
            elif time.monotonic() > deadline:
                behind = ", ".join(f"{name}[{part}]" for name, part in reader.awaited())
                raise StopError(
                    f"nothing arrived from {behind} in {STALL_S:g} s: is a broker away, "
                    "or a transaction open? It is safe to run the command again"
                )
