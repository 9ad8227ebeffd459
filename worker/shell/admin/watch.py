"""
Read from outside what a group of workers has answered, and what it is doing. For `neardup verdicts`
and `top`.

What it does is asked of Kafka and, where their addresses are known, of the workers:

    Kafka     members, partitions, committed offsets, ends of topics, the last duplicates
    /status   rates, stage times, originals, log offset: of each worker whose address is given
"""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from schemas.fields import TimestampError, parse_timestamp
from worker.core.document import Verdict
from worker.errors import DocumentError, NeardupError, RetryError, StopError
from worker.settings import Settings
from worker.shell.admin.address import WorkerAddress
from worker.shell.kafka.admin import Admin, Member, Topic
from worker.shell.kafka.reader import (
    GroupOffsets,
    TopicMessage,
    TopicReader,
    first_messages,
)
from worker.shell.messages import DeadLetter, decode_dead_letter, decode_verdict
from worker.shell.pipeline.offsets import foreign
from worker.shell.runtime.logging import get_logger, sentence

_WAIT_S = 0.1  # how long a follower waits for an answer before it gives control back
_LOOK_S = 10.0  # how often a follower checks for added partitions
DUPLICATES_MAX = 10  # kept
_TAIL = 200  # verdicts of a partition that are looked through for them at the start
_NEWEST_S = 0.5  # how long a sample takes verdicts
_STATUS_S_MAX = 2.0
_STATUS_BYTES_MAX = 1 << 20

_REMEDY = (
    "another program writes to this topic: have it write elsewhere. `neardup verify` counts what "
    "it has written"
)

_log = get_logger(__name__)


class PublishedAnswer(NamedTuple):
    """One committed answer: when it was published, its message as it came, and what it says."""

    timestamp_ms: int
    value: bytes
    answer: Verdict | DeadLetter


def watch(
    settings: Settings,
    names: Sequence[str],
    *,
    follow: bool,
    since_ms: int | None = None,
    on_start: Callable[[int], None] = lambda _: None,
) -> Iterator[PublishedAnswer | None]:
    """
    Yield the committed answers, in order within a partition. Yields None now and then while none
    arrives.

    A message that is no answer, which any program may write, is passed over. The first one of each
    topic is logged at once, and at the end how many there were.

    Args:
        names: the topics to read: verdicts, dead letters, or both.
        follow: go on after the present end; otherwise stop there.
        since_ms: yield only answers published at this time or later; None starts at the beginning.
        on_start: is called with the number of offsets up to the present end; some have no answer.

    Raises:
        StopError: a topic is missing or unreadable, or was created again while it was followed.
    """
    admin = Admin(settings)
    topics = admin.existing(names)
    starts = dict.fromkeys(_places(topics), 0)
    if since_ms is not None:
        starts = admin.offsets_since(Counter(name for name, _ in starts), since_ms)
    look_s = time.monotonic() + _LOOK_S
    passed_over: Counter[str] = Counter()  # messages by topic
    try:
        with closing(TopicReader(settings, starts)) as reader:
            on_start(reader.offsets)
            while follow or not reader.at_end():
                messages = reader.read(_WAIT_S)
                for message in messages:
                    try:
                        answer = _answer_in(message, settings)
                    except DocumentError as error:
                        if not passed_over[message.topic]:
                            _tell_of(message, error)
                        passed_over[message.topic] += 1
                        continue
                    yield PublishedAnswer(message.timestamp_ms, message.value or b"", answer)
                if follow and time.monotonic() >= look_s:
                    look_s = time.monotonic() + _LOOK_S
                    _look(admin, topics, reader, starts)
                if not messages:
                    yield None
    finally:  # also if the reader ends early
        for topic, messages_passed in sorted(passed_over.items()):
            _log.warning(
                "messages that are no answers were passed over",
                topic=topic,
                messages=messages_passed,
                remedy=_REMEDY,
            )


def _look(
    admin: Admin,
    topics: Mapping[str, Topic],
    reader: TopicReader,
    starts: dict[tuple[str, int], int],
) -> None:
    """
    Have the reader read partitions that are not among `starts`, and add them there.

    Raises StopError: a topic was deleted and created again. The reader would go on in the new one
    where it stands in the old one, and leave out what comes before.
    """
    try:
        present = admin.existing([*topics])
        added = [place for place in _places(present) if place not in starts]
        reader.add(added)
        starts |= dict.fromkeys(added, 0)
    except NeardupError:  # brokers that are away for a while: the next look finds them
        return
    for name, topic in present.items():
        if topic.topic_id != topics[name].topic_id:
            raise StopError(
                f"topic {name} was deleted and created again while it was read: start again, to "
                "read it from its beginning"
            )


def _places(topics: Mapping[str, Topic]) -> list[tuple[str, int]]:
    """Return the partitions of topics."""
    return [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]


def _answer_in(message: TopicMessage, settings: Settings) -> Verdict | DeadLetter:
    """Return what a message says. Raises DocumentError: it is no answer."""
    if message.topic == settings.topic_dead_letter:
        return decode_dead_letter(message.key, message.value, message.headers)
    return decode_verdict(message.value or b"")


def _tell_of(message: TopicMessage, error: DocumentError) -> None:
    _log.warning(
        "a message is no answer: it is passed over, and so are others like it",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        cause=str(error),
        remedy=_REMEDY,
    )


class Missing(Enum):
    """Why a message is not there, with what can be done."""

    DELETED = "deleted by the topic's retention"
    NONE = "not there: no committed message has that offset"
    LATE = "not read in time: is a broker away? Run the command again"


def message_at(
    settings: Settings, topic: str, partition: int, offset: int
) -> TopicMessage | Missing:
    """
    Return one committed message, or why it is missing.

    Raises:
        StopError: there is no such partition.
    """
    deadline = time.monotonic() + settings.call_timeout_s
    is_passed = False
    with closing(TopicReader(settings, {(topic, partition): offset})) as reader:
        while not is_passed and not reader.at_end() and time.monotonic() < deadline:
            for message in reader.read(1.0, 1):
                if message.offset == offset:
                    return message
                is_passed = True
        is_passed = is_passed or reader.at_end()
    # Asked last: retention may have deleted the message while it was waited for.
    first, _ = Admin(settings).ends({topic: partition + 1})[topic, partition]
    if offset < first:
        return Missing.DELETED
    return Missing.NONE if is_passed else Missing.LATE


class PartitionSample(NamedTuple):
    """A partition of the source: where it ends, and up to where its documents are answered."""

    end: int
    answered: int

    @property
    def lag(self) -> int:
        """Documents that wait for their answer."""
        return max(self.end - self.answered, 0)


class WorkerStatus(NamedTuple):
    """A worker's own report at /status, or the reason why there is none."""

    address: str
    fields: dict[str, Any]
    error: str = ""


class ReportedProblem(NamedTuple):
    """
    The last warning or error of a worker's log, as a sentence, and how old it is (None: unknown).
    """

    text: str
    age_s: float | None


def last_problem(status: WorkerStatus, now_ms: int) -> ReportedProblem | None:
    """
    Return the last problem in a worker's log. None if there was none, or if the worker does not
    answer.

    Args:
        status: what the worker says of itself.
        now_ms: the time now, Unix milliseconds. A worker whose clock is ahead has a problem of now.

    >>> line = {"event": "snapshot not written", "cause": "disk full", "path": "/state",
    ...         "timestamp": "2026-01-31T12:00:00Z", "level": "warning"}
    >>> status = WorkerStatus("a:1", {"last_error": line})
    >>> last_problem(status, parse_timestamp("2026-01-31T12:01:30Z"))
    ReportedProblem(text='snapshot not written: disk full (path=/state)', age_s=90.0)
    """
    line = status.fields.get("last_error")
    if not line:
        return None
    if not isinstance(line, dict):
        return ReportedProblem(str(line), None)
    text = sentence(line)
    try:
        age_s = max(now_ms - parse_timestamp(str(line.get("timestamp"))), 0) / 1_000
    except TimestampError:
        return ReportedProblem(text, None)
    return ReportedProblem(text, age_s)


class Sample(NamedTuple):
    """The group at one time."""

    at_s: float  # monotonic, for rates
    state: str
    members: list[Member]
    partitions: dict[int, PartitionSample]
    log_end: int
    statuses: list[WorkerStatus]
    duplicates: list[Verdict]  # the latest last
    unix_ms: int = 0  # for the age of what workers report
    # The last stable offset of each partition that an open transaction of a crawler holds up.
    held_up: Mapping[int, int] = MappingProxyType({})
    # Offsets that no worker has committed with the present log, by partition.
    foreign_offsets: Mapping[int, int] = MappingProxyType({})

    @property
    def lag(self) -> int:
        """Documents that wait for their answer."""
        return sum(partition.lag for partition in self.partitions.values())

    @property
    def fed(self) -> int:
        """The sum of all partitions' ends."""
        return sum(partition.end for partition in self.partitions.values())

    @property
    def answered(self) -> int:
        """The sum of all committed offsets."""
        return sum(partition.answered for partition in self.partitions.values())


def rate(before: Sample, now: Sample, count: Callable[[Sample], int]) -> float | None:
    """Return the growth per second between two samples; None if no time has passed."""
    seconds = now.at_s - before.at_s
    return (count(now) - count(before)) / seconds if seconds > 0 else None


class _Step(NamedTuple):
    """The first message at or behind an offset."""

    start: int
    first: int
    is_end: bool  # there was none up to the end of then


class GroupWatch:
    """
    Takes samples of a group, and of workers by the addresses of their metrics. Use it as a context
    manager.

    Raises StopError: a topic is missing or unreadable, or an address is none.
    """

    def __init__(self, settings: Settings, addresses: Sequence[str] = ()) -> None:
        self._settings = settings
        self._addresses = [WorkerAddress.of(address) for address in addresses]
        self._admin = Admin(settings)
        topics = self._topics()
        self._counts = {name: topic.partitions for name, topic in topics.items()}
        self._log_id = topics[settings.topic_fingerprints].topic_id.hex()
        self._offsets = GroupOffsets(settings, self._counts[settings.topic_documents])
        self._duplicates: list[Verdict] = []
        self._before: dict[int, int] = {}  # what was answered, by partition, at the last sample
        self._steps: dict[tuple[str, int], _Step] = {}
        self._verdicts = self._tail()

    def _topics(self) -> dict[str, Topic]:
        """Return the topics of the group as they are now."""
        settings = self._settings
        names = (settings.topic_documents, settings.topic_fingerprints, settings.topic_verdicts)
        return self._admin.existing(names)

    def _take_added(self) -> None:
        """Also watch partitions that were added since the last sample, and a log that is new."""
        before = self._counts
        topics = self._topics()
        self._log_id = topics[self._settings.topic_fingerprints].topic_id.hex()
        counts = {name: topic.partitions for name, topic in topics.items()}
        documents, verdicts = self._settings.topic_documents, self._settings.topic_verdicts
        added = range(before[verdicts], counts[verdicts])
        with suppress(NeardupError):  # not every broker knows them yet: the next sample asks again
            self._verdicts.add([(verdicts, number) for number in added])
            self._counts = before | {verdicts: counts[verdicts]}
            if counts[documents] != before[documents]:
                former = self._offsets
                self._offsets = GroupOffsets(self._settings, counts[documents])
                former.close()
            self._counts = counts

    def _tail(self) -> TopicReader:
        verdicts = {self._settings.topic_verdicts: self._counts[self._settings.topic_verdicts]}
        ends = self._admin.ends(verdicts)
        starts = {place: max(stop - _TAIL, 0) for place, (_, stop) in ends.items()}
        reader = TopicReader(self._settings, starts)
        deadline = time.monotonic() + self._settings.call_timeout_s
        while not reader.at_end() and time.monotonic() < deadline:
            self._take(reader, 0.2)
        return reader

    def _take(self, reader: TopicReader, wait_s: float) -> int:
        """Take the verdicts that arrive within `wait_s`; return how many messages these were."""
        duplicates = [*self._duplicates]
        messages = reader.read(wait_s)
        for message in messages:
            try:
                verdict = decode_verdict(message.value or b"")
            except DocumentError:  # something else in the topic, which `neardup verify` names
                continue
            # The end of the topic may be read again: see `_take_newest`.
            if verdict.duplicate_of is not None and verdict not in self._duplicates:
                duplicates.append(verdict)
        duplicates.sort(key=lambda verdict: (verdict.decided_at_ms, verdict.log_offset))
        self._duplicates = duplicates[-DUPLICATES_MAX:]
        return len(messages)

    def _take_newest(self) -> None:
        """
        Take the verdicts that have arrived, as many as `_NEWEST_S` allows.

        If more wait, go on shortly before the end: what is stepped over is older than what is shown
        of the end.
        """
        deadline = time.monotonic() + _NEWEST_S
        while self._take(self._verdicts, 0.0):
            if time.monotonic() > deadline:
                newest = self._tail()
                self._verdicts.close()
                self._verdicts = newest
                return

    def sample(self) -> Sample:
        """
        Return the state of the group now.

        Cost: some requests, and up to 2 s for a worker that does not answer.
        """
        settings = self._settings
        self._take_added()
        self._take_newest()
        documents = settings.topic_documents
        ends, held_up = self._admin.readable(documents, self._counts[documents])
        log_end = self._admin.log_end(settings.topic_fingerprints)
        try:
            committed = self._offsets.get()
        except RetryError:  # the group's coordinator moves
            committed = {}
        state, members = self._admin.members(settings.group)
        answered = {
            number: offset for number, (offset, _) in committed.items() if offset is not None
        }
        partitions = {
            number: PartitionSample(stop, answered.get(number, start))
            for (_, number), (start, stop) in sorted(ends.items())
        }
        partitions = self._stepped(partitions)
        return Sample(
            at_s=time.monotonic(),
            state=state,
            members=members,
            partitions=partitions,
            log_end=log_end,
            statuses=[status_of(address) for address in self._addresses],
            duplicates=self._duplicates,
            unix_ms=time.time_ns() // 1_000_000,
            held_up=held_up,
            foreign_offsets=foreign(committed, self._log_id),
        )

    def _stepped(self, partitions: dict[int, PartitionSample]) -> dict[int, PartitionSample]:
        """
        Return the partitions with the offsets stepped over that have no message: markers of
        transactions and aborted messages. Nobody ever commits those at a partition's end.

        Only partitions are read whose group stands still, once for each place where it stands.
        """
        topic = self._settings.topic_documents
        stands = {
            (topic, number): sample.answered
            for number, sample in partitions.items()
            if sample.lag and self._before.get(number) == sample.answered
        }
        self._before = {number: sample.answered for number, sample in partitions.items()}
        known = self._steps
        asked = {
            place: start
            for place, start in stands.items()
            if place not in known or known[place].start != start or known[place].is_end
        }
        ends = {place: partitions[place[1]].end for place in asked}
        firsts = first_messages(self._settings, asked, ends) if asked else {}
        for place, first in firsts.items():
            known[place] = _Step(asked[place], first, is_end=first == ends[place])
        for place, start in stands.items():
            step = known.get(place)
            if step is not None and step.start == start:
                number = place[1]
                partitions[number] = partitions[number]._replace(answered=step.first)
        return partitions

    def __enter__(self) -> GroupWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._verdicts.close()
        self._offsets.close()


def status_of(worker: WorkerAddress) -> WorkerStatus:
    """Return the JSON of a worker's /status. No reply is an error here."""
    address = worker.given
    connection = worker.connection(_STATUS_S_MAX)
    try:
        connection.request("GET", worker.path + "/status")
        body = connection.getresponse().read(_STATUS_BYTES_MAX)
        fields = orjson.loads(body)
    except (
        OSError,
        UnicodeError,
        http.client.HTTPException,
    ) as error:
        return WorkerStatus(address, {}, str(error) or type(error).__name__)
    except ValueError:
        return WorkerStatus(address, {}, "it answers, but not as a worker does")
    finally:
        connection.close()
    is_worker = isinstance(fields, dict) and isinstance(fields.get("worker_id"), str)
    return (
        WorkerStatus(address, fields, "")
        if is_worker
        else WorkerStatus(address, {}, "it is no worker, or starts")
    )
