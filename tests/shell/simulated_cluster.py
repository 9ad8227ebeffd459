"""
The cluster of the simulation: what outlives every worker, and the parts by which a worker meets it.

`World` keeps what a cluster keeps: source, log, committed offsets, published answers, who is in the
group, whose producer is the current one. A worker meets it as a member of its group
(`GroupMember`), through a reader and a writer of the log (`SlowReader`, `DyingWriter`), and through
a publisher (`Transactions`, or `Scripted` where a test says how each transaction ends). Each of
these fails as the seed says. `simulation.py` puts workers into the world and plays histories.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from tests.faults.chaos.checker import Topics
from tests.log.test_replica import FACTS
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.core.search import SearchRules
from worker.errors import FencedError, RetryError
from worker.log.columns import Memory, anonymous
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Section, Source, encode
from worker.log.replica import Replica
from worker.log.rules import Base, Definition, Retention, is_declaration
from worker.log.snapshot import LogIdentity, adopt, capture, with_base
from worker.shell.admin.published import AnswerMessage
from worker.shell.kafka.consumer import Admit
from worker.shell.ports import CommittedOffset, InputMessage, LogEntry, Outgoing
from worker.shell.runtime.health import Watchdog

DEFINITION = Definition("nd1", "0" * 16, SearchRules("exact", 3))
DIRECTED = SearchRules(look_min=700)
RETENTIONS = (
    Retention(),
    Retention(expire_after_ms=4),
    Retention(expire_after_ms=3, expire_from="last"),
    Retention(documents_max=3),
    Retention(expire_after_ms=9, expire_from="last", documents_max=5),
)
TOPIC_ID = b"simulated-topic!"
NEW = "documents.new"
WATCHDOG = Watchdog()


class Crash(BaseException):
    """The process dies here: nothing below may catch it."""


class GroupMetadata(NamedTuple):
    """What a commit is checked by."""

    member: int
    generation: int


class World:
    """What outlives every worker."""

    def __init__(
        self, seed: int, partitions: int = 3, documents: int = 12, gaps: float = 0.1
    ) -> None:
        self.random = random.Random(seed)
        self.definition = replace(
            DEFINITION,
            retention=RETENTIONS[seed % len(RETENTIONS)],
            search=(DEFINITION.search, DIRECTED)[seed // 5 % 2],
        )
        self.faults = True
        self.log = MemoryLog(lambda: self.log.stop)
        self.base_log = MemoryLog(lambda: self.base_log.stop)
        self.base = b"" if seed % 3 else self._judge_base()
        if self.base:
            self.definition = with_base(self.definition, self.base)
        # Offsets without a message are markers of transactions, or what compaction has left out.
        self.sources = [
            [
                self._row(part, at)
                for at in range(documents)
                if at == documents - 1 or self.random.random() >= gaps
            ]
            for part in range(partitions)
        ]
        self.commits: dict[int, CommittedOffset] = {}
        self.unseen: set[int] = set()  # partitions with an offset that no worker has looked at
        self.messages: list[AnswerMessage] = []  # as they stand in the topics of answers
        self.new: list[Outgoing] = []  # as they stand in the topic of new documents
        self.generation = 0
        self.owners: dict[int, int] = {}  # partition -> member
        self.epochs: Counter[str] = Counter()  # of transactional ids
        self.members = 0
        # The history plays these.
        self.rebalance_now: Callable[[], None] = lambda: None
        self.expel: Callable[[GroupMember], None] = lambda _member: None
        self.go_on_without: Callable[[GroupMember], None] = lambda _member: self.rebalance_now()
        self.others_work: Callable[[GroupMember], None] = lambda _member: None
        self.interrupted: GroupMember | None = None  # others work in the middle of its transaction

    def _row(self, partition: int, offset: int) -> Row:
        kind = self.random.choice(
            [RowKind.FULL] * 7 + [RowKind.SHORT, RowKind.SKIPPED, RowKind.DEAD, RowKind.DELETED]
        )
        fingerprint = self.random.randrange(6) * 0x0101_1001_0110_1001 ^ 1 << self.random.randrange(
            64
        )
        note = "some-code: some text" if kind in (RowKind.DEAD, RowKind.SKIPPED) else ""
        doc_id = (
            f"{partition}-{offset}"
            if self.random.random() < 0.8
            else f"again-{self.random.randrange(4)}"
        )
        digest, doubts = (
            self.random.randrange(4),
            self.random.getrandbits(64) & self.random.getrandbits(64),
        )
        facts = FACTS[(partition + offset) % len(FACTS)]
        return Row(
            offset,
            kind,
            doc_id,
            "https://example.org/",
            offset,
            fingerprint,
            digest,
            3,
            note,
            doubts,
            facts,
        )

    def _judge_base(self) -> bytes:
        """Judge a few rows of the kind that the topic has, and return the snapshot."""
        rows, replica = [self._row(9, offset) for offset in range(8)], Replica(self.definition)
        self.base_log.append([self.definition.declaration("files", FORMAT_VERSION)])
        for half in (rows[:4], rows[4:]):
            section = Section(
                Source(b"files".ljust(16), 0), half[0].offset, half[-1].offset + 1, 0, Rows.of(half)
            )
            self.base_log.append(list(encode(self.definition.author("files"), [section], 10_000)))
        for entry in self.base_log.entries:
            replica.read(entry.value, entry.offset, entry.timestamp_ms)
        return b"".join(capture(replica, LogIdentity("files", b"f" * 16)).parts())

    def first_replica(self, memory: Memory = anonymous) -> Replica:
        """Return the replica of the log's beginning."""
        plain = replace(self.definition, base=None)
        return adopt(self.base, plain, memory) if self.base else Replica(plain, memory=memory)

    def documents(self) -> dict[tuple[int, int], InputMessage]:
        """Return the messages of the source by partition and offset."""
        return {
            (part, row.offset): InputMessage(
                part,
                row.offset,
                b"k",
                None if row.kind is RowKind.DELETED else b"%d-%d" % (part, row.offset),
            )
            for part, rows in enumerate(self.sources)
            for row in rows
        }

    def chance(self, probability: float) -> bool:
        return self.faults and self.random.random() < probability

    def crash(self, probability: float) -> None:
        if self.chance(probability):
            raise Crash

    def stray(self) -> None:
        """Let somebody else append a record that is none of the log's."""
        if self.chance(0.05):
            others = [
                replace(self.definition, parameters="f" * 16),
                replace(self.definition, base=Base("f" * 16, 3)),
            ]
            other = self.random.choice(
                [*others, replace(self.definition, base=None)] if self.base else others
            )
            row = [Section(Source(TOPIC_ID, 0), 0, 12, 12, Rows.of([self.sources[0][0]]))]
            rows = next(encode(other.author("stray"), row, 10_000))
            kinds = [b"", b"{}", rows, rows[:-1], rows[:4] + b"\xff" + rows[5:]]
            if any(
                is_declaration(entry.value) for entry in self.log.entries
            ):  # the first one rules
                kinds.append(other.declaration("stray", FORMAT_VERSION))
            self.log.append([self.random.choice(kinds)])

    @property
    def committed(self) -> dict[int, int]:
        """The group's offset of each partition that has one."""
        commits = self.commits.items()
        return {number: commit.offset for number, commit in commits if commit.offset is not None}

    def meddle(self) -> None:
        """
        Let somebody else set or delete an offset: a tool, expiry, or a consumer of the same group.
        """
        partition = self.random.randrange(len(self.sources))
        offset = self.random.randrange(len(self.sources[partition]) + 2)
        before = self.commits.get(partition, CommittedOffset(None))
        kind = self.random.randrange(3)
        if kind == 1:
            self.set_offset(partition, CommittedOffset(offset))
        elif kind == 2 and before.offset not in (None, offset):
            self.set_offset(partition, before._replace(offset=offset))  # with what a worker wrote
        else:
            self.set_offset(partition, None)

    def set_offset(self, partition: int, commit: CommittedOffset | None) -> None:
        """Set an offset as somebody else does, or delete it."""
        self.unseen.add(partition)
        self.commits.pop(partition, None)
        if commit is not None:
            self.commits[partition] = commit

    def commit(self, messages: Sequence[Outgoing], offsets: Mapping[int, CommittedOffset]) -> None:
        self.new += [message for message in messages if message.topic == NEW]
        self.messages += [
            AnswerMessage(key, value, headers, bool(headers))  # none of ours is null
            for topic, key, value, headers in messages
            if topic != NEW
        ]
        self.commits.update(offsets)
        self.unseen -= offsets.keys()

    def topics(self) -> Topics:
        """Return all that was written."""
        documents, new = (
            list(self.documents().values()),
            [(one.key, one.value, one.headers) for one in self.new],
        )
        return Topics(
            self.definition, "documents", TOPIC_ID, self.log.entries, documents, self.messages,
            self.committed, len(documents), new,
        )  # fmt: skip

    def rebalance(self, owners: Mapping[int, int], members: Iterable[GroupMember]) -> None:
        """
        Give partitions to these members' numbers; the live members of a cooperative group give
        theirs up first.
        """
        for member in members:
            leaving = [
                partition for partition in member.owned if owners[partition] != member.member
            ]
            if leaving:
                member.revoke(leaving)
        self.owners, self.generation = dict(owners), self.generation + 1


class Collected:
    """What a transaction of a publisher without Kafka writes."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self.offsets: Mapping[int, CommittedOffset] = {}
        self.group_metadata: Any = None

    def produce(self, messages: Iterable[Outgoing]) -> None:
        self.messages += messages

    def send_offsets(self, offsets: Mapping[int, CommittedOffset], group_metadata: Any) -> None:
        self.offsets, self.group_metadata = offsets, group_metadata


class WithoutKafka:
    """A publisher that is told all that a transaction writes at its end, by `publish`."""

    @contextmanager
    def transaction(self, topics: Collection[str]) -> Iterator[Collected]:
        written = Collected()
        yield written
        assert topics == {message.topic for message in written.messages}
        self.publish(written.messages, written.offsets, written.group_metadata)

    def publish(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[int, CommittedOffset],
        group_metadata: Any,
    ) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


class Scripted(WithoutKafka):
    """A publisher that does as it is told, call after call, and keeps a diary."""

    def __init__(self, *outcomes: Exception | None, always: Exception | None = None) -> None:
        self.outcomes = list(outcomes)
        self.always = always
        self.diary: list[str | set[int]] = []
        self.written: list[Collected] = []

    @contextmanager
    def transaction(self, topics: Collection[str]) -> Iterator[Collected]:
        with super().transaction(topics) as written:
            self.written.append(written)
            yield written

    def open(self) -> None:
        self.diary.append("open")

    def publish(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[int, CommittedOffset],
        group_metadata: Any,
    ) -> None:
        self.diary.append(set(offsets))
        outcome = self.outcomes.pop(0) if self.outcomes else self.always
        if outcome is not None:
            raise outcome


class SlowReader(MemoryReader):
    """Reads the log in pieces: how far a replica lags is up to the seed."""

    def __init__(self, world: World) -> None:
        super().__init__(world.log)
        self._world = world
        self._held: list[LogEntry] = []

    def read(self, wait_s: float) -> list[LogEntry]:
        """
        Return some of the records that are there; at least one if there is one and the caller
        waits.
        """
        self._held += super().read(wait_s)
        count = self._world.random.randint(1 if wait_s else 0, max(len(self._held), 1))
        given, self._held = self._held[:count], self._held[count:]
        return given

    def position(self) -> int:
        """Return the offset below which everything was given."""
        return self._held[0].offset if self._held else super().position()


class DyingWriter:
    """Appends, and may die before, between and after."""

    def __init__(self, world: World) -> None:
        self._world = world

    def append(self, records: Sequence[bytes]) -> int:
        last = -1
        for record in records:
            self._world.stray()
            self._world.crash(0.01)
            last = self._world.log.append([record])
            self._world.crash(0.01)
        return last

    def close(self) -> None:
        """Nothing is open."""


def begins_at_first(
    committed: Mapping[int, CommittedOffset], first_of: Callable[[int], int]
) -> dict[int, CommittedOffset]:
    """Accept every offset, and begin at the first one where there is none."""
    return {
        number: CommittedOffset(first_of(number)) if commit.offset is None else commit
        for number, commit in committed.items()
    }


class GroupMember:
    """A member of the group."""

    def __init__(
        self,
        world: World,
        member: int,
        callbacks: tuple[Callable[..., None], ...],
        admit: Admit = begins_at_first,
    ) -> None:
        self._world = world
        self._admit = admit
        self.member = member
        self._messages = world.documents()
        self._on_assigned, self._on_revoked, self._on_lost = callbacks
        self.owned: dict[int, int] = {}  # partition -> position
        self._left_at: dict[int, int] = {}  # partition -> position when it went
        self._stale: list[InputMessage] = []  # fetched before partitions went, and they are back
        self.kicked = False
        self._generation = -1
        self._paused: set[int] = set()  # a partition that is assigned later is none of them
        self._is_leaving = False
        self.is_held: Callable[[], bool] = lambda: False  # a revocation would wait

    def poll(self, messages_max: int, wait_s: float) -> list[InputMessage]:
        """
        Learn of a rebalance, then give a few messages, perhaps such as were fetched before a
        partition went.
        """
        self._world.crash(0.01)
        if self._is_leaving and self.is_held():
            return []  # as a poll that has not come back from its callback yet
        if self._is_leaving:
            self._leave()
        if self._generation != self._world.generation:
            self._rebalance()
        messages: list[InputMessage] = []
        if self._stale and not self._paused and self._world.chance(0.5):
            messages = self._stale[:messages_max]
            self._stale = []
        open_ = sorted(self.owned.keys() - self._paused)
        for partition in self._world.random.sample(open_, len(open_)):
            rows = self._world.sources[partition]
            few = [row for row in rows if row.offset >= self.owned[partition]][
                : self._world.random.randint(0, 4)
            ]
            few = few[: messages_max - len(messages)]
            messages += [self._messages[partition, row.offset] for row in few]
            if few:
                self.owned[partition] = few[-1].offset + 1
        return messages

    def _rebalance(self) -> None:
        if (
            self.kicked
        ):  # out of the group for a while: whatever was owned may have been another's since
            self._on_lost(sorted(self.owned))
            self._let_go(list(self.owned))
            self.kicked = False
        mine = {
            partition for partition, owner in self._world.owners.items() if owner == self.member
        }
        gone, came = sorted(set(self.owned) - mine), sorted(mine - set(self.owned))
        if gone:
            self._on_lost(gone)
        self._let_go(gone)
        starts = self.starts(came)
        self._stale = self._stale_of(starts)
        self.owned.update(starts)
        self._generation = self._world.generation
        if came:
            self._on_assigned(starts)

    def revoke(self, partitions: list[int]) -> None:
        """
        Give partitions up as a live member of a cooperative group does: before anybody else gets
        them.
        """
        if self._world.interrupted is self:
            self.kicked = True  # it does not answer in time: the group goes on without it
            return
        self._on_revoked(partitions)
        self._let_go(partitions)
        self._paused -= set(partitions)

    def _let_go(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._left_at[partition] = self.owned.pop(partition)

    def _stale_of(self, starts: Mapping[int, int]) -> list[InputMessage]:
        """Return what was fetched of partitions before they went; others have answered it since."""
        return [
            self._messages[partition, row.offset]
            for partition, start in starts.items()
            for row in self._world.sources[partition]
            if self._left_at.get(partition, row.offset + 1) <= row.offset < start
        ]

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        commits = self._world.commits
        committed = {number: commits.get(number, CommittedOffset(None)) for number in partitions}
        starts = self._admit(committed, lambda _partition: 0)
        self._world.crash(0.01)
        commits.update(starts)
        self._world.unseen -= starts.keys()
        self._world.crash(0.01)
        return {number: start.offset or 0 for number, start in starts.items()}

    def seek(self, offsets: Mapping[int, int]) -> None:
        self.owned.update(
            {partition: offset for partition, offset in offsets.items() if partition in self.owned}
        )

    def pause(self) -> None:
        self._paused = set(self.owned)

    def resume(self) -> None:
        self._paused = set()

    def group_metadata(self) -> GroupMetadata | None:
        """Return member and generation; None before the first rebalance."""
        return None if self._generation < 0 else GroupMetadata(self.member, self._generation)

    def rejoin(self) -> None:
        self._is_leaving = True

    def _leave(self) -> None:
        """
        Give everything up, and be out of the group for a while.

        librdkafka calls the callback for what is revoked in a poll after `unsubscribe`, sends
        LeaveGroup when that has come back, and joins with a new member id. So the group rebalances
        twice, and commits with the group metadata of before are refused from the first time on.
        """
        self._is_leaving = False
        if not self.kicked:  # else the group has gone on without it already
            self.revoke(sorted(self.owned))
        self._world.go_on_without(self)

    def close(self) -> None:
        self.revoke(sorted(self.owned))


def _nothing() -> None:
    """Happens where no history is played."""


class Transactions(WithoutKafka):
    """A transactional producer; the world says how a transaction ends, callbacks interrupt it."""

    def __init__(
        self,
        world: World,
        worker_id: str,
        meanwhile: Callable[[], None] = _nothing,
        before_check: Callable[[], None] = _nothing,
        after_check: Callable[[], None] = _nothing,
    ) -> None:
        self._world = world
        self._id = worker_id
        self._meanwhile = meanwhile
        self._before_check = before_check
        self._after_check = after_check
        world.epochs[worker_id] += 1
        self._epoch = world.epochs[worker_id]

    def open(self) -> None:
        if self._epoch != self._world.epochs[self._id]:
            raise FencedError("fenced")
        if self._world.chance(0.1):
            raise RetryError("timed out")

    def publish(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[int, CommittedOffset],
        group_metadata: Any,
    ) -> None:
        """Commit, or fail in any way that a cluster knows."""
        self._world.crash(0.02)
        if self._epoch != self._world.epochs[self._id]:
            raise FencedError("fenced")
        self._before_check()
        members = set(self._world.owners.values())
        if (
            group_metadata.member not in members
        ) or group_metadata.generation != self._world.generation:
            raise RetryError("illegal generation", settled=True)
        if self._world.chance(0.05):
            raise RetryError("coordinator moved", settled=True)
        if self._world.chance(0.05):
            raise RetryError("timed out, and was not committed")
        self._after_check()
        self._meanwhile()
        self._world.commit(messages, offsets)
        self._meanwhile()
        self._world.crash(0.02)
        if self._world.chance(0.05):
            raise RetryError("timed out, but was committed")
