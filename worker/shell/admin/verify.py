"""
The check that a user can run: reads all topics of a live or stopped system and holds them against the rules.

The ends are asked for in an order in which each covers the one before: the group's offsets, then the answers (up to
the end of transactions that are open just now), then the log, then the documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.audit import check
from worker.shell.admin.audit_new import NewDocuments
from worker.shell.admin.findings import AnswerMessage, Report
from worker.shell.kafka import Admin, Topic, TopicMessage, TopicReader
from worker.shell.pipeline import service
from worker.shell.ports import LogEntry, SourceMessage

_Ends = Mapping[tuple[str, int], tuple[int, int]]
STALL_S = 60.0  # nothing at all came for so long: longer than a dead worker's transaction stays open


Tell = Callable[[str, int, int], None]  # topics, messages done, offsets in total


def verify(settings: Settings, *, read_documents: bool = True, on_progress: Tell = lambda *_: None) -> Report:
    """
    Read everything, replay the log, compare.

    Args:
        read_documents: also read the source topic, bodies included; else the log says which documents there are.
        on_progress: told after each portion how far it is.

    Raises:
        StopError: a topic is missing, the log does not start at 0, or cannot be replayed with these settings.
    """
    admin = Admin(settings)
    log, documents = settings.topic_fingerprints, settings.topic_documents
    published = [settings.topic_verdicts, settings.topic_dead_letter]
    new = [] if settings.topic_new is None else [settings.topic_new]
    topics = admin.existing([documents, log, *published, *new])
    committed = {
        number: offset for number, (offset, _) in service.committed(settings, topics[documents].partitions).items()
    }
    answer_ends, new_ends, log_ends, document_ends = (
        admin.ends({name: topics[name].partitions for name in names}) if names else {}
        for names in (published, new, [log], [documents])
    )
    if log_ends[log, 0][0] > 0:
        raise StopError(
            f"the log starts at offset {log_ends[log, 0][0]}: what came before cannot be replayed. Set the topic's "
            f"retention to unlimited"
        )

    def messages(names: Sequence[str], ends: _Ends) -> Iterator[TopicMessage]:
        return _read(settings, {name: topics[name].partitions for name in names}, ends, on_progress)

    return check(
        settings.definition,
        documents,
        topics[documents].topic_id,
        log=(LogEntry(one.offset, one.timestamp_ms, one.value or b"") for one in messages([log], log_ends)),
        documents=(
            SourceMessage(one.partition, one.offset, one.key, one.value)
            for one in messages([documents] if read_documents else [], document_ends)
        ),
        answers=(
            AnswerMessage(one.key, one.value, one.headers, one.topic == settings.topic_dead_letter)
            for one in messages(published, answer_ends)
        ),
        committed=committed,
        answers_since_ms=_oldest_kept_ms(settings, topics, answer_ends),
        new=_new_documents(settings, topics[new[0]], new_ends, messages(new, new_ends)) if new else None,
    )


def _new_documents(settings: Settings, topic: Topic, ends: _Ends, messages: Iterator[TopicMessage]) -> NewDocuments:
    """Take all that stands in the topic of new documents."""
    found = NewDocuments(
        _oldest_kept_ms(settings, {topic.name: topic}, ends), is_compacted="compact" in topic.config["cleanup.policy"]
    )
    for message in messages:
        found.take(message.key, message.value)
    return found


def _oldest_kept_ms(settings: Settings, topics: Mapping[str, Topic], ends: _Ends) -> int:
    """Return the time since which no answer has been deleted by retention; 0 if none ever was."""
    cut = {(name, part): first for (name, part), (first, _) in ends.items() if first > 0}
    newest = 0
    for name, part in cut:
        counts = {name: topics[name].partitions}
        for message in _read(settings, counts, {key: span for key, span in ends.items() if key == (name, part)}):
            newest = max(newest, message.timestamp_ms)
            break
    return newest


def _read(
    settings: Settings,
    partitions: Mapping[str, int],
    ends: _Ends,
    on_progress: Tell = lambda *_: None,
) -> Iterator[TopicMessage]:
    """Return the committed messages of these topics up to `ends`."""
    stops = {
        (name, part): ends.get((name, part), (0, 0))[1] for name, count in partitions.items() for part in range(count)
    }
    total = sum(stop - first for (name, _), (first, stop) in ends.items() if name in partitions)
    is_source = settings.topic_documents in partitions
    done, deadline = 0, time.monotonic() + STALL_S
    with closing(
        TopicReader(
            settings, partitions, from_beginning=True, ends=stops,
            step_over=is_source,  # their answers are dead letters, as the log says
        )
    ) as reader:  # fmt: skip
        while not reader.at_end():
            messages = reader.read(0.2)
            done += len(messages)
            for message in messages:
                if message.offset < stops[message.topic, message.partition]:
                    yield message
            if messages:
                deadline = time.monotonic() + STALL_S
                on_progress(", ".join(partitions), done, total)
            elif time.monotonic() > deadline:
                behind = ", ".join(f"{name}[{part}]" for name, part in reader.awaited())
                raise StopError(
                    f"nothing came from {behind} in {STALL_S:g} s: is a broker away, or a transaction open?"
                )
