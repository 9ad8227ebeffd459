"""
A member of the group and its publisher: what the simulated ones and Apache Kafka's both promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.conftest import Kafka, deployed, eventually
from tests.shell.simulated_cluster import GroupMember, Transactions, World, begins_at_first
from worker.errors import FencedError, RetryError
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.kafka.reader import Feeder, GroupOffsets, TopicReader
from worker.shell.ports import CommittedOffset, GroupSource, InputMessage, Outgoing, Publisher

PARTITIONS = 2
DOCUMENTS = 20
POLLS_MAX = 600

Diary = list[tuple[str, str, tuple[int, ...]]]
"""Who, what, and of which partitions, in the order in which it happened."""


class SimulatedGroup:
    """The simulation's world, without faults."""

    topic = "answers"

    def __init__(self) -> None:
        self._world = World(0, PARTITIONS, DOCUMENTS // PARTITIONS, gaps=0)
        self._world.faults = False
        self._world.rebalance_now = self._spread
        self._members: list[GroupMember] = []

    def join(self, assigned: Callable[..., None], gone: Callable[..., None]) -> GroupSource:
        """Add a member; the group is spread anew at once."""
        member = GroupMember(self._world, len(self._members), (assigned, gone, gone))
        self._members.append(member)
        self._spread()
        return member

    def _spread(self) -> None:
        owners = {partition: partition % len(self._members) for partition in range(PARTITIONS)}
        self._world.rebalance(owners, self._members)

    def publisher(self, worker_id: str) -> Publisher:
        return Transactions(self._world, worker_id)

    def committed(self) -> dict[int, int]:
        return dict(self._world.committed)

    def published(self) -> list[bytes | None]:
        return [message.key for message in self._world.messages]

    def close(self) -> None:
        """Nothing is open."""


class KafkaGroup:
    """Topics and a group of its own on a cluster."""

    def __init__(self, kafka: Kafka) -> None:
        self._settings = deployed(kafka, partitions=PARTITIONS, call_timeout_s=30, worker_id="w")
        self.topic = self._settings.topic_verdicts
        feeder = Feeder(self._settings)
        for number in range(DOCUMENTS):
            feeder.send(b"%d" % number, b"v")
        assert feeder.flush(60) == 0 and feeder.delivered == DOCUMENTS
        self._open: list[Any] = []

    def join(self, assigned: Callable[..., None], gone: Callable[..., None]) -> GroupSource:
        settings = self._settings.model_copy(update={"worker_id": f"w{len(self._open)}"})
        self._open.append(GroupConsumer(settings, begins_at_first, assigned, gone, gone))
        return self._open[-1]  # type: ignore[no-any-return]

    def publisher(self, worker_id: str) -> Publisher:
        settings = self._settings.model_copy(update={"worker_id": worker_id})
        self._open.append(TransactionalPublisher(settings))
        return self._open[-1]  # type: ignore[no-any-return]

    def committed(self) -> dict[int, int]:
        with closing(GroupOffsets(self._settings, PARTITIONS)) as offsets:
            return {
                part: offset for part, (offset, _) in offsets.get().items() if offset is not None
            }

    def published(self) -> list[bytes | None]:
        starts = {(self.topic, number): 0 for number in range(self._settings.partitions)}
        found = []
        with closing(TopicReader(self._settings, starts)) as reader:
            while not reader.at_end():
                found += [message.key for message in reader.read(0.2)]
        return found

    def close(self) -> None:
        for client in reversed(self._open):
            client.close()


Group = SimulatedGroup | KafkaGroup


@pytest.fixture(params=["simulated", pytest.param("kafka", marks=pytest.mark.kafka)])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """Each kind of group in turn."""
    kafka = request.param == "kafka"
    with closing(
        KafkaGroup(request.getfixturevalue("kafka")) if kafka else SimulatedGroup()
    ) as group:
        yield group


class Member:
    """A member that keeps what it read and a diary."""

    def __init__(self, group: Group, name: str, diary: Diary) -> None:
        self.owned: set[int] = set()
        self.starts: dict[int, int] = {}
        self.read: list[InputMessage] = []
        self._name = name
        self._diary = diary
        self.source = group.join(self._assigned, self._gone)

    def _assigned(self, starts: dict[int, int]) -> None:
        self._diary.append((self._name, "assigned", tuple(starts)))
        self.starts.update(starts)
        self.owned |= set(starts)

    def _gone(self, partitions: list[int]) -> None:
        self._diary.append((self._name, "gone", tuple(partitions)))
        self.owned -= set(partitions)

    def poll(self) -> None:
        self.read += self.source.poll(100, 0.1)


def until(condition: Callable[[], bool], members: Sequence[Member]) -> None:
    """Poll these members until it holds."""
    for _ in range(POLLS_MAX):
        if condition():
            return
        for member in members:
            member.poll()
    raise AssertionError("it has not come to be")


def alone(group: Group) -> Member:
    """The only member, which has all partitions and has read everything."""
    member = Member(group, "a", [])
    until(lambda: len(member.read) >= DOCUMENTS, [member])
    return member


def places(messages: Sequence[InputMessage]) -> list[tuple[int, int]]:
    """Where messages stand."""
    return [(message.partition, message.offset) for message in messages]


def answer(group: Group, key: bytes) -> Outgoing:
    """A message to publish."""
    return Outgoing(group.topic, key, b"{}")


def publish(
    publisher: Publisher, messages: list[Outgoing], offsets: dict[int, int], group_metadata: Any
) -> None:
    """One transaction."""
    with publisher.transaction({message.topic for message in messages}) as transaction:
        transaction.produce(messages)
        commits = {number: CommittedOffset(offset) for number, offset in offsets.items()}
        transaction.send_offsets(commits, group_metadata)


def test_a_member_reads_every_message_once_and_in_order(group: Group) -> None:
    """From the beginning, where the group has committed nothing, and which it then commits."""
    member = alone(group)
    assert (
        member.starts == dict.fromkeys(range(PARTITIONS), 0)
        and member.source.group_metadata() is not None
    )
    by_partition = [
        [offset for part, offset in places(member.read) if part == number]
        for number in range(PARTITIONS)
    ]
    assert [sorted(offsets) for offsets in by_partition] == by_partition
    assert sorted(places(member.read)) == [
        (number, offset)
        for number, offsets in enumerate(by_partition)
        for offset in range(len(offsets))
    ]


def test_before_the_group_has_it_a_member_proves_nothing(group: Group) -> None:
    """A proof without a generation would be accepted unchecked."""
    diary: Diary = []
    source = group.join(lambda starts: diary.append(("", "", tuple(starts))), print)
    assert source.group_metadata() is None and diary == []


def test_reading_goes_on_where_seek_says(group: Group) -> None:
    """Other partitions go on where they were."""
    member = alone(group)
    before = len(member.read)
    first = [place for place in places(member.read) if place[0] == 0]
    member.source.seek({0: 0})
    until(lambda: len(member.read) >= before + len(first), [member])
    assert places(member.read[before:]) == first
    member.source.seek({0: len(first) - 1})
    until(lambda: len(member.read) > before + len(first), [member])
    assert places(member.read[before + len(first) :]) == first[-1:]


def test_a_paused_member_gets_nothing_and_later_everything(group: Group) -> None:
    """Staying in the group costs no message."""
    member = Member(group, "a", [])
    until(lambda: len(member.owned) == PARTITIONS, [member])
    before = len(member.read)
    member.source.pause()
    for _ in range(5):
        member.poll()
    assert len(member.read) == before
    member.source.resume()
    until(lambda: len(member.read) >= DOCUMENTS, [member])
    assert len(set(places(member.read))) == len(member.read) == DOCUMENTS


def test_messages_and_offsets_are_committed_together(group: Group) -> None:
    """Both or none; what is committed is where the next owner begins."""
    member, publisher = alone(group), group.publisher("a")
    publisher.open()
    eventually(lambda: group.committed() == {0: 0, 1: 0})
    assert group.published() == []
    publish(
        publisher,
        [answer(group, b"x"), answer(group, b"y")],
        {0: 2},
        member.source.group_metadata(),
    )
    # Which is known a moment after the transaction's end.
    eventually(lambda: group.committed() == {0: 2, 1: 0})
    assert sorted(map(bytes, filter(None, group.published()))) == [b"x", b"y"]
    assert member.source.starts(range(PARTITIONS)) == {0: 2, 1: 0}
    publisher.open()
    publish(publisher, [], {0: 3, 1: 1}, member.source.group_metadata())
    eventually(lambda: group.committed() == {0: 3, 1: 1})
    assert len(group.published()) == 2


def test_a_successor_fences_its_predecessor(group: Group) -> None:
    """Two processes with one id: the older one can publish nothing more, and says so."""
    member, older = alone(group), group.publisher("a")
    older.open()
    publish(older, [answer(group, b"x")], {0: 1}, member.source.group_metadata())
    newer = group.publisher("a")
    newer.open()
    with pytest.raises(FencedError):
        publish(older, [answer(group, b"lost")], {0: 2}, member.source.group_metadata())
    publish(newer, [answer(group, b"y")], {0: 2}, member.source.group_metadata())
    eventually(lambda: group.committed() == {0: 2, 1: 0})
    assert set(group.published()) == {b"x", b"y"}


def test_a_partition_moves_when_it_has_been_given_up_and_an_old_proof_is_refused(
    group: Group,
) -> None:
    """
    The new owner starts at the committed offset; a commit with the proof of before leaves nothing
    behind.
    """
    diary: Diary = []
    one = Member(group, "one", diary)
    until(lambda: len(one.owned) == PARTITIONS, [one])
    publisher, old = group.publisher("a"), one.source.group_metadata()
    publisher.open()
    publish(publisher, [], {0: 1, 1: 1}, old)
    two = Member(group, "two", diary)
    until(lambda: len(one.owned) == len(two.owned) == 1, [one, two])
    [moved] = two.owned
    assert two.starts == {moved: 1} and one.owned == set(range(PARTITIONS)) - two.owned
    gone, came = diary.index(("one", "gone", (moved,))), diary.index(("two", "assigned", (moved,)))
    assert gone < came
    with pytest.raises(RetryError) as refusal:
        publish(publisher, [answer(group, b"lost")], {moved: 2}, old)
    assert refusal.value.settled
    for _ in range(POLLS_MAX):
        try:
            publish(
                publisher,
                [answer(group, b"x")],
                {next(iter(one.owned)): 2},
                one.source.group_metadata(),
            )
            break
        except RetryError as error:
            assert error.settled
            one.poll()
    eventually(lambda: group.committed() == {moved: 1, next(iter(one.owned)): 2})
    assert group.published() == [b"x"]


def test_a_member_that_leaves_gives_its_partitions_up(group: Group) -> None:
    """Before anybody else gets them."""
    member = alone(group)
    member.source.close()
    assert member.owned == set()


def test_a_member_that_joins_again_gives_everything_up_and_goes_on_where_it_committed(
    group: Group,
) -> None:
    """It has left the group in between: a proof of before is refused, a new one is taken."""
    diary: Diary = []
    member = Member(group, "a", diary)
    until(lambda: len(member.read) >= DOCUMENTS, [member])
    publisher, old = group.publisher("a"), member.source.group_metadata()
    publisher.open()
    publish(publisher, [], {0: 1, 1: 2}, old)
    before = len(diary)
    member.source.rejoin()
    until(lambda: len(diary) > before and len(member.owned) == PARTITIONS, [member])
    gone = [parts for _, what, parts in diary[before:] if what == "gone"]
    assert sorted(sum(gone, ())) == list(range(PARTITIONS))
    assert member.starts == {0: 1, 1: 2}
    with pytest.raises(RetryError) as refusal:
        publish(publisher, [answer(group, b"lost")], {0: 2}, old)
    assert refusal.value.settled
    publish(publisher, [answer(group, b"x")], {0: 2}, member.source.group_metadata())
    eventually(lambda: group.committed() == {0: 2, 1: 2})
    assert group.published() == [b"x"]
