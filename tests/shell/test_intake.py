"""The intake keeps its limits: no batch larger than it may be, whatever one poll gives."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.shell.simulation import WATCHDOG, GroupMember, World
from worker.settings import Settings
from worker.shell.pipeline.intake import Batch, Intake
from worker.shell.pipeline.ownership import Ownership
from worker.shell.ports import SourceMessage
from worker.shell.runtime.watchdog import Watchdog

BYTES_MAX = 65_536


class _Given:
    """Stands for the fingerprinting, and for a source that gives some messages at once."""

    def submit(self, messages: Sequence[SourceMessage]) -> Any:
        """Prepare nothing."""
        return len(messages)


class _Source(GroupMember):
    def __init__(self, messages: list[SourceMessage]) -> None:
        super().__init__(World(0), 1, (print, print, print))
        self._messages = messages

    def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
        """Return all of them, more than were asked for included."""
        return self._messages


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 40_000]), st.integers(0, 100_000)), min_size=1))
def test_no_batch_is_larger_than_its_limit(sizes: list[tuple[int, int, int]]) -> None:
    """Each batch is within `batch_bytes_max`, keys included, or one message; together they cover every offset once."""
    counts = [0, 0, 0, 0]
    messages = []
    for partition, key_size, size in sizes:
        messages.append(SourceMessage(partition, counts[partition], bytes(key_size), bytes(size)))
        counts[partition] += 1
    batches: queue.Queue[Batch | None] = queue.Queue()
    ownership = Ownership()
    settings = Settings(batch_bytes_max=BYTES_MAX, document_bytes_max=BYTES_MAX)
    prepare: Any = _Given()
    connect: Any = print
    intake = Intake(settings, connect, prepare, ownership, batches, WATCHDOG)
    intake._on_assigned(dict.fromkeys(range(4), 0))
    intake._assigned_now.clear()
    intake._step(_Source(messages))
    found = [batch for batch in batches.queue if batch is not None]
    for batch in found:
        assert len(batch.messages) == 1 or sum(m.size_bytes for m in batch.messages) <= BYTES_MAX
        assert batch.prepared == len(batch.messages)
    for partition, count in enumerate(counts):
        spans = [(s.first, s.stop) for batch in found for s in batch.sections if s.claim.partition == partition]
        assert all(before[1] == after[0] for before, after in pairwise(spans))
        assert (spans[0][0], spans[-1][1]) == (0, count) if spans else count == 0


def _intake(batches: queue.Queue[Batch | None], watchdog: Watchdog = WATCHDOG) -> tuple[Intake, Ownership]:
    prepare: Any = _Given()
    connect: Any = print
    ownership = Ownership()
    intake = Intake(Settings(), connect, prepare, ownership, batches, watchdog)
    intake._on_assigned(dict.fromkeys(range(4), 0))
    intake._assigned_now.clear()
    return intake, ownership


def test_a_source_that_never_returns_is_the_watchdogs() -> None:
    """Each call into the source runs under a limit: nothing else could end a worker whose intake hangs."""
    running: list[str] = []

    class Watched(_Source):
        def _note(self) -> None:
            running.extend(doing for doing, _, _ in WATCHDOG._running.values())

        def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
            self._note()
            return super().poll(messages_max, wait_s)

        def seek(self, offsets: Mapping[int, int | None]) -> None:
            self._note()

        def close(self) -> None:
            self._note()

    batches: queue.Queue[Batch | None] = queue.Queue()
    intake, ownership = _intake(batches)
    source = Watched([SourceMessage(0, 0, b"k", b"v")])
    intake._step(source)
    ownership.rewind()
    intake._step(source)
    intake._poll_paused(source)
    intake._connect = lambda *_: source
    intake.stopping.set()
    intake.answered.set()
    intake.run()
    assert set(running) == {
        "reading the source", "going back in the source", "staying in the group", "leaving the group",
    }  # fmt: skip
    assert WATCHDOG._running == {}


def test_what_comes_while_the_source_is_paused_is_read_again() -> None:
    """A partition that comes in while there is no room brings messages: they are dropped, so all is read again."""
    batches: queue.Queue[Batch | None] = queue.Queue(1)
    intake, ownership = _intake(batches)
    source = _Source([SourceMessage(0, 0, b"k", b"v")])
    intake._step(source)
    assert batches.full()
    intake._gather(_messages(0, 1, 1_001))  # a full batch: only then it is paused

    class Late(_Source):
        def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
            if ownership.rewinds == 0:
                batches.get_nowait()  # room for the batch that waits
                return [SourceMessage(1, 0, b"k", b"v")]
            return []

    waiting = Batch((), (), intake._preparer.submit([]), 0.0, threading.Event())
    intake._offer(waiting, Late([]))
    assert ownership.rewinds == 1
    assert batches.get_nowait() is waiting


def test_while_there_is_no_room_the_source_is_read_slowly_before_it_is_paused() -> None:
    """A resumed consumer may stand still for a second: as long as a batch can grow it gets a message a poll instead."""
    batches: queue.Queue[Batch | None] = queue.Queue(1)
    intake, ownership = _intake(batches)
    intake._step(_Source([SourceMessage(0, 0, b"k", b"v")]))
    asked: list[int] = []
    paused: list[int] = []

    class Busy(_Source):
        def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
            asked.append(messages_max)
            if len(asked) == 3:
                batches.get_nowait()
            return _messages(1, len(asked) - 1, len(asked))

        def pause(self) -> None:
            paused.append(len(asked))

    waiting = Batch((), (), intake._preparer.submit([]), 0.0, threading.Event())
    intake._offer(waiting, Busy([]))
    assert batches.get_nowait() is waiting
    assert (asked, paused, ownership.rewinds) == ([1, 1, 1], [], 0)
    intake._hand_on(Busy([]))
    found = batches.get_nowait()
    assert found is not None
    assert [(message.partition, message.offset) for message in found.messages] == [(1, 0), (1, 1), (1, 2)]


class _Polls(_Source):
    """Returns one list a poll; a function among them is a rebalance that the poll runs."""

    def __init__(self, polls: list[Any]) -> None:
        super().__init__([])
        self._polls = polls
        self.asked: list[int] = []
        self.sought: list[Mapping[int, int | None]] = []

    def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
        """Return what comes next."""
        self.asked.append(messages_max)
        given = self._polls.pop(0)
        found: list[SourceMessage] = given() if callable(given) else given
        return found

    def seek(self, starts: Mapping[int, int | None]) -> None:
        """Note it."""
        self.sought.append(starts)


def _messages(partition: int, first: int, stop: int) -> list[SourceMessage]:
    return [SourceMessage(partition, offset, b"k", b"v") for offset in range(first, stop)]


def _spans(batch: Batch | None) -> list[tuple[int, int, int]]:
    assert batch is not None
    return [(section.claim.partition, section.first, section.stop) for section in batch.sections]


def test_while_a_batch_is_underway_the_next_one_grows() -> None:
    """The first goes at once; what comes before it has ended goes together, with nothing left out; a full one goes."""
    batches: queue.Queue[Batch | None] = queue.Queue()
    intake, _ = _intake(batches)
    full = Settings().batch_documents_max
    source = _Polls(
        [
            _messages(0, 0, 2),
            _messages(1, 0, 3),
            _messages(0, 2, 4),
            [],
            [],
            _messages(0, 4, 4 + full),
            _messages(1, 3, 5),
        ]
    )
    intake._step(source)
    first = batches.get_nowait()
    assert _spans(first) == [(0, 0, 2)]
    for _ in range(3):
        intake._step(source)
    assert batches.empty()
    assert first is not None
    first.ended.set()
    intake._step(source)
    assert _spans(batches.get_nowait()) == [(0, 2, 4), (1, 0, 3)]
    assert source.asked == [full, full, full - 3, full - 5, full - 5]
    intake._step(source)
    assert _spans(batches.get_nowait()) == [(0, 4, 4 + full)]
    intake._step(source)
    assert batches.empty()


def test_what_was_gathered_of_a_partition_that_moves_is_void() -> None:
    """A partition that goes, or goes and comes back, starts where its owner says; the others keep what they have."""
    batches: queue.Queue[Batch | None] = queue.Queue()
    intake, _ = _intake(batches)

    def back() -> list[SourceMessage]:
        intake._on_revoked([0, 1])
        intake._on_assigned({0: 1})
        return _messages(0, 0, 9)  # fetched before it went

    source = _Polls(
        [_messages(3, 0, 1), _messages(0, 0, 4), [*_messages(1, 0, 4), *_messages(2, 0, 2)], back, _messages(0, 1, 3)]
    )
    intake._step(source)
    first = batches.get_nowait()
    for _ in range(3):
        intake._step(source)
    assert source.sought == [{0: 1}]
    assert first is not None
    first.ended.set()
    intake._step(source)
    assert _spans(batches.get_nowait()) == [(0, 1, 3), (2, 0, 2)]


def test_what_was_gathered_before_reading_again_is_void() -> None:
    """Everything since the committed offsets comes again."""
    batches: queue.Queue[Batch | None] = queue.Queue()
    intake, ownership = _intake(batches)

    class Committed(_Polls):
        def committed(self, partitions: Sequence[int]) -> dict[int, int | None]:
            """Nothing yet."""
            return dict.fromkeys(partitions)

    source = Committed([_messages(0, 0, 2), _messages(0, 2, 5), _messages(0, 0, 5), []])
    intake._step(source)
    intake._step(source)
    ownership.rewind()
    first = batches.get_nowait()
    assert first is not None
    first.ended.set()
    intake._step(source)
    assert _spans(batches.get_nowait()) == [(0, 0, 5)]


def test_batches_that_have_ended_are_forgotten() -> None:
    """Full ones too, which do not ask whether any is underway: catching up takes days, and must not take memory."""
    batches: queue.Queue[Batch | None] = queue.Queue()
    intake, _ = _intake(batches)
    full = Settings().batch_documents_max
    source = _Polls([_messages(0, number * full, (number + 1) * full) for number in range(20)])
    for _ in range(20):
        intake._step(source)
        batch = batches.get_nowait()
        assert batch is not None
        batch.ended.set()
    assert len(intake._underway) <= 1
