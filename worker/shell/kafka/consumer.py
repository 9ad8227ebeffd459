"""
The source topic, read as a member of the consumer group: explicit offsets, bounded revocation.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from worker.errors import NeardupError, RetryError, StopError
from worker.settings import Settings
from worker.shell.kafka import client, configuration
from worker.shell.ports import CommittedOffset, Headers, InputMessage
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

# Says at which commit each partition begins, given what the group has committed and a function that
# returns a partition's first offset. See `pipeline.offsets.Admission.starts`.
Admit = Callable[
    [Mapping[int, CommittedOffset], Callable[[int], int]], Mapping[int, CommittedOffset]
]

_log = get_logger(__name__)


class _HeldUp(NamedTuple):
    """What an open transaction does to a partition: nobody can read behind its first document."""

    stable: int  # the last stable offset
    behind: int  # offsets behind it
    since_s: float  # since when it stands there


class Gaps:
    """
    The offsets at the end of partitions that have no document to read.

    A crawler that writes in transactions leaves markers, and aborted documents. No commit ever gets
    past them, so they would count as lag until another document comes. And while one of its
    transactions is open, nobody can read what was written after its first document.

        documents             markers, aborted      held up by an open transaction
        0 ────────────────── after ───────────── upto ──────────────────────────── high watermark
                                                 = last stable offset

    Statistics of the client have the last stable offset. An event at the end of a partition says up
    to where nothing follows what was read. The consumer's thread writes, any thread may ask.

    Args:
        topic: the topic of the documents.
        clock: returns seconds, which never go back.
    """

    def __init__(self, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._held_up: dict[int, _HeldUp] = {}
        self._read: dict[int, int] = {}  # the next offset after what was read
        self._gaps: dict[int, tuple[int, int]] = {}

    def take_statistics(self, text: str) -> None:
        """Take the client's statistics, which are JSON."""
        topics = orjson.loads(text).get("topics", {})
        now_s = self._clock()
        held_up = {}
        for name, part in topics.get(self._topic, {}).get("partitions", {}).items():
            stable = part["ls_offset"]
            behind = part["hi_offset"] - stable
            if stable >= 0 and behind > 0:
                before = self._held_up.get(int(name))
                since_s = now_s if before is None or before.stable != stable else before.since_s
                held_up[int(name)] = _HeldUp(stable, behind, since_s)
        self._held_up = held_up

    def held_s(self, number: int) -> float:
        """Return for how long one open transaction has held a partition up; 0 if none does."""
        held_up = self._held_up.get(number)
        return 0.0 if held_up is None else self._clock() - held_up.since_s

    def go_to(self, offsets: Mapping[int, int]) -> None:
        """Note where partitions are read from now on."""
        for number, offset in offsets.items():
            self._read[number] = offset
            self._gaps.pop(number, None)

    def read(self, inputs: Iterable[InputMessage]) -> None:
        """Note what was read."""
        self._read.update({one.partition: one.offset + 1 for one in inputs})

    def reach(self, number: int, offset: int) -> None:
        """Note that a partition ends at an offset; all that was read so far has been noted."""
        after = self._read.get(number, 0)
        if after <= offset:
            self._gaps[number] = after, offset

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget partitions that have left."""
        for number in numbers:
            self._read.pop(number, None)
            self._gaps.pop(number, None)

    def waiting(self, number: int, published: int, end: int) -> int:
        """
        Return how many offsets wait for a commit.

        Args:
            number: the partition.
            published: what was committed.
            end: its high watermark.
        """
        after, upto = self._gaps.get(number, (0, 0))
        if after <= published < upto:
            published = upto
        held_up = self._held_up.get(number)
        behind = 0 if held_up is None else held_up.behind
        return max(end - behind - published, 0)


class GroupConsumer:
    """
    The source topic as a member of the group: a `ports.GroupSource`.

    An assigned partition starts at the group's committed offset, if `admit` accepts it. Otherwise
    it starts at the one that `admit` returns, which is committed first: as a member, so that the
    group refuses it if another member has the partition meanwhile. This class asks for the offsets
    itself, because the client library applies `auto.offset.reset` instead while another member's
    transaction is pending.

    Args:
        admit: see `Admit`. If it raises a StopError, the next `poll` raises that.
        on_assigned: gets the start of each new partition.
        on_revoked: gets the partitions before another member gets them. After it has returned,
            nothing of these partitions may be published.
        on_lost: gets the partitions that are already lost.
        before_assigned: is called before partitions are taken. If it raises a StopError, the next
            `poll` raises that.
    """

    def __init__(
        self,
        settings: Settings,
        admit: Admit,
        on_assigned: Callable[[dict[int, int]], None],
        on_revoked: Callable[[list[int]], None],
        on_lost: Callable[[list[int]], None],
        before_assigned: Callable[[], None] = lambda: None,
    ) -> None:
        self._topic = settings.topic_documents
        self._call_timeout_s = settings.call_timeout_s
        self._admit = admit
        self._on_assigned = on_assigned
        self._before_assigned = before_assigned
        self._with_headers = settings.tracing or settings.topic_new is not None
        self._are_headers_told = False
        self._failure: NeardupError | None = None
        self._assigned: set[int] = set()
        # Our partitions without a known start, because another member's transaction is pending.
        self._waiting: deque[int] = deque()
        self._waiting_until = 0.0
        self._group_metadata: Any = None
        self._events = client.ErrorEvents(self._call_timeout_s)
        # By partition: the batch, and its offsets that `poll` still has to return.
        self._damaged: dict[int, tuple[client.UnreadableBatch, deque[int]]] = {}
        self._is_paused = False
        config = configuration.group_config(settings)
        self._config = {
            name: value for name, value in config.items() if name != "group.instance.id"
        }
        self._gaps = Gaps(self._topic)
        config["stats_cb"] = self._gaps.take_statistics
        self._consumer = client.made(Consumer, config)
        self._ends = client.Ends(self._consumer)
        self.is_member = self._ends.is_member
        self._subscribe = partial(
            self._consumer.subscribe,
            [self._topic],
            on_assign=self._assign,
            on_revoke=partial(self._give_back, on_revoked),
            on_lost=partial(self._give_back, on_lost),
        )
        self._leaves_until_s = 0.0  # when it must have left the group to join it again; 0: not now
        self._subscribe()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [part.partition for part in partitions]
        self._waiting_until = time.monotonic() + self._call_timeout_s
        try:
            self._before_assigned()
            starts = self._starts(numbers, 0.5)
        except NeardupError as error:
            # While one partition has a pending transaction, no partition gets an answer. The
            # partitions that we already have must not wait for it.
            self._waiting.extend(numbers)
            consumer.incremental_assign([])
            # The client would swallow an exception of its callback, so `poll` raises it.
            if isinstance(error, StopError):
                self._failure = error
                return
            _log.info(
                "partitions wait for their committed offsets", partitions=numbers, cause=str(error)
            )
        else:
            self._take(starts)

    def _take(self, starts: dict[int, int]) -> None:
        self._consumer.incremental_assign(
            [self._at(number, start) for number, start in starts.items()]
        )
        self._assigned.update(starts)
        self._gaps.go_to(starts)
        self._on_assigned(starts)

    def _take_waiting(self) -> None:
        """
        Ask for the start of the partition that has waited longest, and take it if it is known.
        """
        number = self._waiting[0]
        self._waiting.rotate(-1)
        try:
            starts = self._starts([number], 0.1)
        except NeardupError as error:
            if isinstance(error, StopError) or time.monotonic() > self._waiting_until:
                raise
        else:
            self._waiting.remove(number)
            self._take(starts)

    def _give_back(
        self,
        callback: Callable[[list[int]], None],
        consumer: Consumer,
        partitions: list[TopicPartition],
    ) -> None:
        callback([part.partition for part in partitions])
        mine = [part for part in partitions if part.partition in self._assigned]
        if mine:
            consumer.resume(mine)  # a paused partition would come back paused
        consumer.incremental_unassign(mine)
        gone = {part.partition for part in partitions}
        self._assigned -= gone
        self._forget_damage(gone)
        self._gaps.forget(gone)
        self._waiting = deque(number for number in self._waiting if number not in gone)

    def _at(self, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(self._topic, partition, offset)

    def poll(self, messages_max: int, wait_s: float) -> list[InputMessage]:
        if self._leaves_until_s:
            self._join_again()
        if self._waiting:
            self._take_waiting()
        messages = self._consumer.consume(messages_max, wait_s)
        if self._failure is not None:
            raise self._failure
        inputs = [self._input(message) for message in messages if self._is_message(message)]
        self._gaps.read(inputs)
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._gaps.reach(message.partition() or 0, message.offset() or 0)
        if not self._is_paused:
            inputs += self._unreadable(messages_max - len(inputs))
        return inputs

    def _input(self, message: Message) -> InputMessage:
        return InputMessage(
            message.partition() or 0,
            message.offset() or 0,
            message.key(),
            message.value(),
            "",  # positional up to here, because names would double the cost
            self._headers(message) if self._with_headers else (),
            message.timestamp()[1],
        )

    def _headers(self, message: Message) -> Headers:
        """Return a message's headers. If they cannot be read, count it; log the first of all."""
        headers = client.headers_of(message)
        if headers is not None:
            return headers
        metrics.HEADERS_LEFT_OUT.labels("name").inc()
        if not self._are_headers_told:
            self._are_headers_told = True
            _log.warning(
                "the headers of a message cannot be read, because a name is not UTF-8: it is taken "
                "without them, and so are others like it",
                partition=message.partition(),
                offset=message.offset(),
                remedy="have the crawler name its headers in UTF-8; "
                "neardup_headers_left_out_total counts the messages",
            )
        return ()

    def _is_message(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            return False
        if message.partition() not in self._damaged:
            damage = self._events.take(message)
            if damage is not None:
                self._meet(damage)
        return False

    def _meet(self, damage: client.UnreadableBatch) -> None:
        try:
            stop = client.end_of_batch(self._config, damage, self._call_timeout_s)
        except RetryError as error:  # the next event leads to another attempt
            _log.warning("documents cannot be read", cause=str(error))
            return
        _log.error(
            "documents cannot be read: dead letters", cause=str(damage), offsets=stop - damage.first
        )
        self._damaged[damage.partition] = damage, deque(range(damage.first, stop))

    def _unreadable(self, messages_max: int) -> list[InputMessage]:
        """
        Return a message for each one that cannot be read, so that each gets a dead letter.

        After the last of them, reading goes on.
        """
        replacements: list[InputMessage] = []
        for partition, (damage, offsets) in list(self._damaged.items()):
            while offsets and len(replacements) < messages_max:
                offset = offsets.popleft()
                replacements.append(InputMessage(partition, offset, None, None, damage.text))
            if not offsets:
                self.seek({partition: replacements[-1].offset + 1})
        return replacements

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        # There is no answer while another member's transaction is pending. That ends within the
        # transaction's own time-out.
        return self._starts(partitions, self._call_timeout_s)

    def _starts(self, partitions: Sequence[int], wait_s: float) -> dict[int, int]:
        if not partitions:
            return {}
        committed = self._committed(partitions, wait_s)
        starts = self._admit(committed, self._first_of)
        self._commit({n: start for n, start in starts.items() if start != committed[n]})
        return {number: start.offset or 0 for number, start in starts.items()}

    def _committed(self, partitions: Sequence[int], wait_s: float) -> dict[int, CommittedOffset]:
        asked = [TopicPartition(self._topic, number) for number in partitions]

        def ask(timeout_s: float) -> dict[int, CommittedOffset]:
            return client.committed_offsets(self._consumer, asked, timeout_s)

        return client.retry(ask, "asking for committed offsets", wait_s)

    def _first_of(self, partition: int) -> int:
        part = TopicPartition(self._topic, partition)
        name = f"{self._topic}[{partition}]"
        return client.span(self._consumer, part, name, self._call_timeout_s)[0]

    def _commit(self, starts: Mapping[int, CommittedOffset]) -> None:
        """Commit the beginnings of partitions that have no commit of ours."""
        if starts:
            doing = f"committing the beginning of partitions {sorted(starts)}"
            client.commit(self._consumer, self._topic, starts, doing)
            _log.info(
                "partitions begin",
                offsets={number: start.offset for number, start in starts.items()},
            )

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Continue at these offsets, and drop the fetched messages of these partitions."""
        parts = [self._at(partition, offset) for partition, offset in offsets.items()]
        self._forget_damage(offsets)
        self._gaps.go_to(offsets)
        if parts:
            try:
                self._consumer.incremental_unassign(
                    [TopicPartition(self._topic, p.partition) for p in parts]
                )
                self._consumer.incremental_assign(parts)
            except KafkaException as error:
                raise client.translate(error, f"going back in {self._topic}") from error

    def _forget_damage(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._damaged.pop(partition, None)

    def pause(self) -> None:
        self._is_paused = True
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._is_paused = False
        self._consumer.resume(self._consumer.assignment())

    def group_metadata(self) -> Any:
        """
        Return the group metadata that a commit carries; None before the first rebalance.

        After the group has expelled us, this stays the last one that we had, and the group refuses
        it. Fresh metadata would have no member and no generation then. A broker takes that for a
        producer outside any group and accepts the commit, even while others own the partitions.
        """
        metadata = self._consumer.consumer_group_metadata()
        # The member's id is asked for second: if we are expelled in between, it is empty already,
        # and stays so until the next poll.
        if self._consumer.memberid():
            self._group_metadata = metadata
        return self._group_metadata

    def rejoin(self) -> None:
        """
        Leave the group, and join it again as soon as it is left: see `ports.GroupSource`.

        Unlike `close`, unsubscribing also takes a static member out of its group (KIP-345 keeps the
        place of one that ends). The client sends that after the partitions are given up, and has no
        member id from then on.
        """
        # The partitions are given up first, and that may wait for a transaction.
        self._leaves_until_s = time.monotonic() + 2 * self._call_timeout_s
        try:
            self._consumer.unsubscribe()
        except KafkaException as error:
            raise client.translate(error, "leaving the group") from error

    def _join_again(self) -> None:
        if self._consumer.assignment() or self._consumer.memberid():
            if time.monotonic() <= self._leaves_until_s:
                return
            # The client postpones leaving until a rebalance has ended. That one shares the
            # partitions out again, so subscribing takes the order back.
            _log.warning("the group was not left", seconds=2 * self._call_timeout_s)
        else:
            metrics.REJOINS.inc()
        self._leaves_until_s = 0.0
        self._subscribe()

    def waiting(self, published: Mapping[int, int]) -> dict[int, int]:
        """
        Return how many offsets of each partition wait, as of the last fetch. Any thread may ask;
        nothing is sent.

        Args:
            published: what was committed, by partition.
        """
        return {
            number: self._gaps.waiting(
                number, offset, self._ends.of(TopicPartition(self._topic, number))
            )
            for number, offset in published.items()
        }

    def held_s(self, number: int) -> float:
        """Return for how long one open transaction has held a partition up. Any thread may ask."""
        return self._gaps.held_s(number)

    def close(self) -> None:
        """
        Leave the group, within `call_timeout_s`.

        If the client loses the answer to a rebalance that begins meanwhile, closing never returns.
        Then the client is abandoned, and the group notices when the session times out.
        """
        self._ends.close()
        thread = threading.Thread(target=self._consumer.close, name="close", daemon=True)
        thread.start()
        thread.join(self._call_timeout_s)
        if thread.is_alive():
            _log.warning(
                "the client does not leave the group: it is left behind",
                waited_s=self._call_timeout_s,
            )
