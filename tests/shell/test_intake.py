"""The intake keeps its limits: no batch larger than it may be, whatever one poll gives."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.shell.simulation import WATCHDOG, GroupMember, World
from worker.settings import Settings
from worker.shell.intake import Batch, Intake
from worker.shell.ownership import Ownership
from worker.shell.ports import SourceMessage
from worker.shell.watchdog import Watchdog

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
        """Give all of them, more than were asked for included."""
        return self._messages


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100_000)), min_size=1, max_size=60))
def test_no_batch_is_larger_than_its_limit(sizes: list[tuple[int, int]]) -> None:
    """Each batch is within `batch_bytes_max` or one message; together they cover every offset once, in order."""
    counts = [0, 0, 0, 0]
    messages = []
    for partition, size in sizes:
        messages.append(SourceMessage(partition, counts[partition], b"k", bytes(size)))
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
        assert len(batch.messages) == 1 or sum(len(m.value or b"") for m in batch.messages) <= BYTES_MAX
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

    class Late(_Source):
        def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
            if ownership.rewinds == 0:
                batches.get_nowait()  # room for the batch that waits
                return [SourceMessage(1, 0, b"k", b"v")]
            return []

    waiting = Batch((), (), intake._preparer.submit([]), 0.0)
    intake._offer(waiting, Late([]))
    assert ownership.rewinds == 1
    assert batches.get_nowait() is waiting
