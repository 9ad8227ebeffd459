"""
The intake keeps its limits: batches as large as they may be, no room, a silent source. See
`simulation.py`, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.shell.simulated_cluster import WATCHDOG, GroupMember, World
from worker.settings import Settings
from worker.shell.pipeline.intake import REJOIN_S, Intake
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.stage import Batch, Stage
from worker.shell.ports import InputMessage
from worker.shell.runtime.health import Watchdog

BYTES_MAX = 65_536
FULL = Settings().batch_documents_max

Poll = list[InputMessage] | Callable[[], list[InputMessage]]


class Polls(GroupMember):
    """
    A source that gives one list a poll, whatever was asked for; a function among them is a
    rebalance in the poll.
    """

    def __init__(self, *polls: Poll) -> None:
        super().__init__(World(0), 1, (print, print, print))
        self.polls = list(polls)
        self.asked: list[int] = []
        self.sought: list[Mapping[int, int]] = []
        self.calls: list[str] = []

    def poll(self, messages_max: int, wait_s: float) -> list[InputMessage]:
        self.asked.append(messages_max)
        given = self.polls.pop(0) if self.polls else []
        return given() if callable(given) else given

    def seek(self, offsets: Mapping[int, int]) -> None:
        self.sought.append(offsets)

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def rejoin(self) -> None:
        self.calls.append("rejoin")


def messages(partition: int, first: int, stop: int) -> list[InputMessage]:
    return [InputMessage(partition, offset, b"k", b"v") for offset in range(first, stop)]


def intake(
    source: GroupMember, batches: Stage, settings: Settings | None = None
) -> tuple[Intake, Partitions]:
    """One with four partitions, read from offset 0."""
    partitions = Partitions()
    partitions.assign(dict.fromkeys(range(4), 0))
    return Intake(
        settings or Settings(), lambda: source, batches, partitions, WATCHDOG, threading.Event()
    ), partitions


def spans(batch: Batch | None) -> list[tuple[int, int, int]]:
    assert batch is not None
    return [(share.claim.partition, share.first, share.stop) for share in batch.shares]


def publish(partitions: Partitions, batch: Batch | None) -> None:
    assert batch is not None
    partitions.publish({share.claim: share.stop for share in batch.shares})


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([1, 40_000]), st.integers(0, 100_000)),
        min_size=1,
    )
)
def test_batches_are_as_large_as_their_limit_allows(sizes: list[tuple[int, int, int]]) -> None:
    """
    Each is within the limit, keys included, or one message; none that could grow goes while one is
    in flight.
    """
    counts = [0, 0, 0, 0]
    given = []
    for partition, key_size, size in sizes:
        given.append(InputMessage(partition, counts[partition], bytes(key_size), bytes(size)))
        counts[partition] += 1
    batches = Stage(1_000)
    settings = Settings(batch_bytes_max=BYTES_MAX)
    reading, partitions = intake(Polls(given), batches, settings)
    reading.step()
    found = []
    while (batch := batches.poll()) or reading._gathered:
        if batch is None:  # nothing is in flight any more
            reading.step()
            continue
        publish(partitions, batch)
        found.append(batch)
        assert len(batch.messages) == 1 or sum(m.size_bytes for m in batch.messages) <= BYTES_MAX
        for share in batch.shares:
            mine = batch.messages[share.begin : share.end]
            assert {message.partition for message in mine} == {share.claim.partition}
            assert [message.offset for message in mine] == list(range(share.first, share.stop))
    for before, after in pairwise(found):
        assert sum(m.size_bytes for m in (*before.messages, *after.messages)) > BYTES_MAX
    for partition, count in enumerate(counts):
        covered = [span[1:] for batch in found for span in spans(batch) if span[0] == partition]
        assert all(before[1] == after[0] for before, after in pairwise(covered))
        assert (covered[0][0], covered[-1][1]) == (0, count) if covered else count == 0


def test_a_document_without_a_time_stamp_does_not_hide_how_long_the_next_one_waits() -> None:
    """In one batch with it, and in the next one."""
    given = [
        InputMessage(partition, offset, b"k", b"v", timestamp_ms=stamp)
        for partition, offset, stamp in [(0, 0, -1), (0, 1, 2_000), (0, 2, 3_000), (1, 0, -1)]
    ]
    reading, partitions = intake(Polls(given), Stage(9))
    reading.step()
    partitions.read(partitions.claims()[1], 2, 4_000)
    assert [partitions.known()[number].waits_since_ms for number in (0, 1)] == [2_000, 4_000]


def test_a_backlog_goes_in_full_batches() -> None:
    """
    Of pages that do not fill a batch exactly the last one does not go alone, and none waits for
    long.
    """
    given = [InputMessage(offset % 4, offset // 4, b"", bytes(14_000)) for offset in range(400)]
    source, batches = Polls(*[given[first : first + 5] for first in range(0, 400, 5)]), Stage(1_000)
    reading, partitions = intake(source, batches, Settings(batch_bytes_max=BYTES_MAX))
    partitions.read(partitions.claims()[3], 0, 0)  # something is in flight all the time
    for _ in range(80):
        reading.step()
    found = []
    while batch := batches.poll():
        found.append(batch)
    assert {len(batch.messages) for batch in found} == {4}
    order = [given.index(message) for batch in found for message in batch.messages]
    assert all(abs(index - place) < 8 for place, index in enumerate(order))


class Noting(Watchdog):
    """Knows what is being done under a limit."""

    def __init__(self) -> None:
        self.doing: list[str] = []

    @contextmanager
    def limit(self, doing: str, limit_s: float) -> Iterator[None]:
        self.doing.append(doing)
        yield
        self.doing.pop()


def test_a_source_that_never_returns_is_the_watchdogs() -> None:
    """
    Each call into the source runs under a limit: nothing else could end a worker whose intake
    hangs.
    """
    watched: list[tuple[str, ...]] = []
    watchdog, left, stays = Noting(), threading.Event(), threading.Event()

    def note() -> None:
        watched.append(tuple(watchdog.doing))

    class Watched(Polls):
        def poll(self, messages_max: int, wait_s: float) -> list[InputMessage]:
            note()
            if watched[-1] == ("staying in the group",):
                stays.set()
            return super().poll(messages_max, wait_s)

        def starts(self, partitions: Sequence[int]) -> dict[int, int]:
            note()
            return dict.fromkeys(partitions, 0)

        def seek(self, offsets: Mapping[int, int]) -> None:
            note()

        def close(self) -> None:
            note()
            left.set()

    def connect() -> Watched:
        note()
        return Watched(messages(0, 0, 1))

    partitions, stop = Partitions(), threading.Event()
    reading = Intake(Settings(), connect, Stage(9), partitions, watchdog, stop)
    reading.step()
    partitions.assign({0: 0})
    partitions.rewind()
    reading.step()
    stop.set()
    reading.start()
    assert stays.wait(60) and not left.is_set()
    assert reading.join(60) and left.is_set()
    reading.check()
    joining, back = ("joining the group",), ("going back in the source",)
    read, stay, leave = ("reading the source",), ("staying in the group",), ("leaving the group",)
    assert watched[:5] == [joining, read, back, back, read]
    assert set(watched[5:-1]) == {stay} and watched[-1] == leave and watchdog.doing == []


def test_what_comes_while_the_source_is_paused_is_read_again() -> None:
    """
    A partition that comes in while there is no room brings messages: they are dropped, and read
    once more.
    """
    batches = Stage(1)

    def late() -> list[InputMessage]:
        partitions.assign({1: 4})
        batches.poll()  # room for the batch that waits
        return messages(1, 7, 8)

    source = Polls(
        messages(0, 0, 1), messages(0, 1, 1 + FULL), messages(2, 0, FULL), late, messages(1, 4, 5)
    )
    reading, partitions = intake(source, batches)
    reading.step()
    reading.step()
    assert spans(batches.poll()) == [(0, 1, 1 + FULL)]
    assert source.sought == [{1: 4}] and source.calls == ["pause"]
    assert all(partitions.holds(claim) for claim in partitions.claims().values())
    reading.step()
    assert spans(batches.poll()) == [(2, 0, FULL), (1, 4, 5)] and source.calls == [
        "pause",
        "resume",
    ]


def test_while_there_is_no_room_the_source_is_read_slowly_before_it_is_paused() -> None:
    """
    A resumed consumer may stand still for a second: as long as a batch can grow it gets a message a
    poll instead.
    """
    batches = Stage(1)

    def third() -> list[InputMessage]:
        publish(partitions, batches.poll())
        return messages(1, 2, 3)

    source = Polls(
        messages(0, 0, 1), messages(2, 0, FULL), messages(1, 0, 1), messages(1, 1, 2), third
    )
    reading, partitions = intake(source, batches)
    reading.step()
    reading.step()
    assert (source.asked[2:], source.calls) == ([1, 1, 1], [])
    second = batches.poll()
    assert spans(second) == [(2, 0, FULL)]
    publish(partitions, second)
    reading.step()
    assert spans(batches.poll()) == [(1, 0, 3)]


def test_while_a_batch_is_in_flight_the_next_one_grows() -> None:
    """
    The first goes at once; what comes before it has ended goes together, with nothing left out; a
    full one goes.
    """
    batches = Stage(9)
    source = Polls(
        messages(0, 0, 2),
        messages(1, 0, 3),
        messages(0, 2, 4),
        [],
        [],
        messages(0, 4, 4 + FULL),
        messages(1, 3, 5),
    )
    reading, partitions = intake(source, batches)
    reading.step()
    first = batches.poll()
    assert spans(first) == [(0, 0, 2)]
    for _ in range(3):
        reading.step()
    assert not len(batches)
    publish(partitions, first)
    reading.step()
    assert spans(batches.poll()) == [(1, 0, 3), (0, 2, 4)]
    assert source.asked == [FULL, FULL, FULL - 3, FULL - 5, FULL - 5]
    reading.step()
    assert spans(batches.poll()) == [(0, 4, 4 + FULL)]
    reading.step()
    assert not len(batches)


def test_offsets_without_a_message_are_covered_and_messages_from_before_a_seek_are_not_taken() -> (
    None
):
    """
    A batch covers from the position on, whatever gap the topic has there; what lies below was read
    before.
    """
    batches = Stage(9)
    source = Polls(messages(0, 0, 5), [*messages(0, 7, 8), *messages(0, 3, 4)])
    reading, partitions = intake(source, batches)
    reading.step()
    publish(partitions, batches.poll())
    reading.step()
    batch = batches.poll()
    assert spans(batch) == [(0, 5, 8)]
    assert batch is not None and [message.offset for message in batch.messages] == [7]


def test_what_was_gathered_of_a_partition_that_moves_is_void() -> None:
    """
    A partition that goes, or goes and comes back, starts where its owner says; the others keep what
    they have.
    """
    batches = Stage(9)

    def back() -> list[InputMessage]:
        partitions.revoke([0, 1])
        partitions.assign({0: 1})
        return messages(0, 0, 9)  # fetched before it went

    source = Polls(
        messages(3, 0, 1),
        messages(0, 0, 4),
        [*messages(1, 0, 4), *messages(2, 0, 2)],
        back,
        messages(0, 1, 3),
    )
    reading, partitions = intake(source, batches)
    reading.step()
    first = batches.poll()
    for _ in range(3):
        reading.step()
    assert source.sought == [{0: 1}]
    publish(partitions, first)
    reading.step()
    assert spans(batches.poll()) == [(2, 0, 2), (0, 1, 3)]


def test_a_batch_of_a_partition_that_goes_while_it_waits_for_room_is_taken_once() -> None:
    """
    What is handed on is taken at once: a partition that comes back meanwhile is read again, from
    its start.
    """
    batches = Stage(1)
    settings = Settings(batch_bytes_max=BYTES_MAX)
    large = [InputMessage(0, offset, b"k", bytes(60_000)) for offset in range(3)]

    def back() -> list[InputMessage]:
        partitions.lose([0])
        partitions.assign({0: 0})
        first.append(batches.poll())
        return []

    first: list[Batch | None] = []
    source = Polls(large, back, large)
    reading, partitions = intake(source, batches, settings)
    reading.step()
    second = batches.poll()
    assert [spans(batch) for batch in (*first, second)] == [[(0, 0, 1)], [(0, 1, 2)]]
    assert second is not None and not partitions.holds(second.shares[0].claim)
    assert not partitions.are_in_flight() and partitions.known()[0].position == 0


def test_an_order_to_join_again_is_followed_once_and_only_while_it_is_fresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that the intake could not follow in time rests on an old look at the group, and is told."""
    source = Polls()
    reading, _ = intake(source, Stage(9))
    reading.rejoin()
    reading.step()
    reading.step()
    assert source.calls == ["rejoin"]
    reading.rejoin()
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + REJOIN_S + 1)
    with capture_logs() as logs:
        reading.step()
    assert source.calls == ["rejoin"]
    assert [line["waited_s_max"] for line in logs] == [REJOIN_S]


def test_an_order_to_join_again_is_followed_while_there_is_no_room() -> None:
    """A busy worker waits for room most of the time, and polls meanwhile."""
    batches = Stage(1)

    def room() -> list[InputMessage]:
        batches.poll()
        return []

    def order() -> list[InputMessage]:
        reading.rejoin()
        return []

    source = Polls(messages(0, 0, 4), order, [], room)
    reading, _ = intake(source, batches)
    assert batches.submit(Batch([], []))
    reading.step()
    assert source.calls == ["rejoin"]
    assert spans(batches.poll()) == [(0, 0, 4)]


def test_a_worker_that_stops_does_not_join_again() -> None:
    """What it has read is still to be published, and only a member may."""
    source = Polls()
    reading, _ = intake(source, Stage(9))
    reading.rejoin()
    reading.stop.set()
    reading._poll_paused()
    assert "rejoin" not in source.calls
