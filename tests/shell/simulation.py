"""
A group of workers without Kafka: the real stages and replica, in a world that fails by a seed.

The world is that of simulated_cluster.py. Everything that happens is an event drawn from the seed;
time does not exist. A history ends with the faults switched off and the workers running to the end
of the source; then it is checked as a whole. In every third the log begins with a base, files that
were judged before.

One thread plays all workers, so what happens in the middle of a step is called from within it:

    before metadata are read      the group may expel the worker; its intake polls and learns of it
    between messages and offsets  the same
    before offsets are checked    the group may expel the worker; it learns of that at its next poll
    between check and commit      the group may take partitions away; if the transaction's
                                  lock holds the revocation off, nothing happens; the intake may
                                  poll
    after the commit              the intake may poll

An expelled worker is a member again at once, but in between the others have had its partitions and
have worked. Only one worker at a time is interrupted like this (`World.interrupted`).
`tests/shell/test_simulation.py` removes the worker's defences one by one, and histories turn red.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tests.faults.chaos.checker import judge
from tests.log.test_retention import on_disk
from tests.shell.simulated_cluster import (
    NEW,
    TOPIC_ID,
    WATCHDOG,
    Crash,
    DyingWriter,
    GroupMember,
    SlowReader,
    Transactions,
    World,
)
from worker.errors import FencedError, StopError
from worker.log.columns import anonymous
from worker.log.record import Rows
from worker.settings import Settings
from worker.shell.admin.offsets import restorations
from worker.shell.messages import encode_answers
from worker.shell.pipeline.intake import Intake
from worker.shell.pipeline.offsets import Admission, CommitMetadata
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.sequencer import Sequencer
from worker.shell.pipeline.stage import Batch, Stage
from worker.shell.ports import CommittedOffset, Publisher
from worker.shell.runtime.fault_hooks import Point

QUEUED_MAX = 3
WORKERS = 3
LOG_ID = "simulated-log"
MEDDLING = 0.02  # how often somebody else sets an offset
REJOINING = 0.02  # how often a worker leaves the group and joins it again
WORKER_REFUSES = re.compile("not those that its workers have committed")
STEPS_UNDISTURBED = 1_000  # in which workers that nothing disturbs are done with all there is
STEPS_BETWEEN = 8  # of the other workers, in the middle of a transaction


class SteppedLog(ReplicatedLog):
    """A log of short records that is followed where a thread would wait for it."""

    record_bytes_max = 1_000

    def await_applied(self, offset: int) -> bool:
        """Apply all below this offset."""
        self.restore_to(offset)
        return True


class RowLookup(Stage):
    """Stands for the fingerprinting: finds the row that belongs to a message."""

    def __init__(self, world: World, batches_max: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(batches_max)
        self._world = world
        self._meanwhile = meanwhile
        self.is_slow = False  # nothing is ever found

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """
        Take a batch; without room the stages behind go on, and the group may spread its partitions
        anew.
        """
        if super().submit(batch):
            return True
        if self._world.chance(0.3):
            self._world.rebalance_now()
        if not self._world.chance(0.8):
            self._meanwhile()
        return False

    def poll(self, wait_s: float = 0.0) -> Batch | None:
        return super().poll()

    def _finish(self, batch: Batch, wait_s: float) -> bool:
        rows = {
            (part, row.offset): row for part, rows in enumerate(self._world.sources) for row in rows
        }
        batch.rows = Rows.of(rows[message.partition, message.offset] for message in batch.messages)
        return not self.is_slow


class SteppedPublishing(Publishing):
    """
    Publishing without its thread: one batch in work and one behind it, published when the seed says
    so.
    """

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Take a batch; without room the first one ends before."""
        if super().submit(batch):
            return True
        self.step()
        return False

    def join(self, wait_s: float) -> bool:
        """Publish the next one; return whether it was the last."""
        self.step()
        return not len(self._waiting)


class InterruptedPartitions(Partitions):
    """What a worker knows of its partitions; `before_read` comes before metadata are read."""

    def __init__(self, before_read: Callable[[], None]) -> None:
        self._before_read = before_read
        self._group_metadata: Any = None
        super().__init__()

    @property
    def group_metadata(self) -> Any:
        """Return what a commit carries."""
        self._before_read()
        return self._group_metadata

    @group_metadata.setter
    def group_metadata(self, metadata: Any) -> None:
        self._group_metadata = metadata


@cache
def _settings(worker_id: str) -> Settings:
    return Settings(worker_id=worker_id, batch_documents_max=3, topic_new=NEW)


class SimulatedWorker:
    """The real stages on the world's parts, one step at a time."""

    def __init__(self, world: World, worker_id: str, publisher: Publisher | None = None) -> None:
        self.world = world
        self.worker_id = worker_id
        world.members += 1
        self.member = world.members
        settings = _settings(worker_id)
        memory = on_disk() if world.random.random() < 0.5 else anonymous
        self.replica = world.first_replica(memory)
        self.log = SteppedLog(
            self.replica,
            SlowReader(world),
            DyingWriter(world),
            world.definition.author(worker_id),
            LOG_ID,
        )
        self.log.restore()
        self.partitions = InterruptedPartitions(partial(self._expelled_and_told, 0.2))
        callbacks = self.partitions.assign, self.partitions.revoke, self.partitions.lose
        admission = Admission(settings, TOPIC_ID, self.log)
        self.source = GroupMember(world, self.member, callbacks, admission.starts)
        self.source.is_held = self.partitions.transaction.locked
        self.stop = threading.Event()
        self._batches_max = world.random.choice((1, QUEUED_MAX)) if world.faults else QUEUED_MAX
        self.preparer = RowLookup(world, self._batches_max, self._sequence)
        self._is_reading = False
        self.intake = Intake(
            settings, lambda: self.source, self.preparer, self.partitions, WATCHDOG, self.stop
        )
        self.publishing = SteppedPublishing(
            settings,
            publisher or self._transactions(),
            self.partitions,
            self._reach,
            self._sleep,
            batches_max=2,
            retries_max=4,
        )
        self.settings = settings
        self.sequencer = self.make_sequencer()
        # What it is asked for: of chances of its own, so that histories are those without questions.
        self._asked = random.Random(self.member)

    def _transactions(self) -> Transactions:
        return Transactions(
            self.world,
            self.worker_id,
            self._meanwhile,
            before_check=self._expelled,
            after_check=self._revoked,
        )

    def make_sequencer(self, clock: Callable[[], float] = lambda: 0.0) -> Sequencer:
        return Sequencer(
            self.settings, TOPIC_ID, self.log, self.partitions, self.preparer, self.publishing,
            WATCHDOG, reach=self._reach, clock=clock,
        )  # fmt: skip

    def fill(self) -> None:
        """
        Read until no more batches fit; while one is in flight the next one must be full to be
        handed on.
        """
        for _ in range(1_000):
            if len(self.preparer) == QUEUED_MAX:
                return
            self.intake.step()

    def _reach(self, point: Point) -> None:
        self.world.crash(0.02 if point is not Point.AFTER_COMMIT else 0.01)
        if point is Point.IN_TRANSACTION:
            self._expelled_and_told(0.3)

    def _expelled(self, probability: float = 0.15) -> None:
        """Perhaps the group expels this worker and takes it back; the others work in between."""
        if self.world.chance(probability):
            self.world.expel(self.source)

    def _expelled_and_told(self, probability: float) -> None:
        """The same, and the intake polls: the worker learns of it in the midst of its commit."""
        if self.world.chance(probability):
            self.world.expel(self.source)
            self._read()

    def _revoked(self) -> None:
        """Perhaps the group takes partitions away, unless a lock holds the revocation off."""
        if not self.world.chance(0.15):
            return
        if self.partitions.transaction.acquire(blocking=False):
            self.partitions.transaction.release()
            self.world.rebalance_now()
            self.world.others_work(self.source)

    def _sequence(self) -> None:
        self.sequencer.step()

    def _read(self) -> None:
        """
        Let the intake read, if there is room for it: while it waits for room nothing here can go
        on.
        """
        if len(self.preparer) < self._batches_max:
            self._step_intake()

    def _step_intake(self) -> None:
        """
        Let the intake read, unless it waits for room further up: it is one thread, and hands on in
        order.
        """
        if not self._is_reading:
            self._is_reading = True
            self.intake.step()
            self._is_reading = False

    def _meanwhile(self) -> None:
        """While a transaction runs the intake polls and learns of rebalances."""
        if self.world.chance(0.2):
            self._read()

    def _sleep(self, _seconds: float) -> None:
        """While a transaction is tried again the intake goes on, and the log is followed."""
        self._read()
        self.sequencer.follow()

    def step(self) -> None:
        """
        Read, sequence, publish, or follow the log; or the first three, else little would be
        committed.
        """
        action = self.world.random.randrange(6)
        if action in (0, 4, 5):
            self._step_intake()
        if action in (1, 4, 5):
            self.sequencer.step()
        if action in (2, 4, 5):
            self.publishing.step()
        if action == 3:
            self.sequencer.follow()
        if self._asked.random() < 0.25:
            self._ask()

    def _ask(self) -> None:
        """Ask the worker for some rows of the source: that must change nothing, ever."""
        rows = self._asked.choice(self.world.sources)
        asked = self._asked.sample(rows, min(len(rows), 3))
        answers, as_of = self.log.ask(Rows.of(asked), encode_answers)
        assert (len(answers), as_of.log_offset) == (len(asked), self.replica.next_offset)


def without_faults(seed: int) -> World:
    """
    Return a world in which nothing went wrong, with all of its documents answered and committed.
    """
    history = History(seed)
    history.world.faults = False
    history.finish()
    return history.world


class History:
    """A world, its workers, and the events between them."""

    def __init__(self, seed: int, workers: int = WORKERS) -> None:
        self.world = World(seed)
        self.workers: dict[str, SimulatedWorker] = {}
        self.stopped: dict[str, SimulatedWorker] = {}  # as by SIGSTOP: alive, and knowing nothing
        self._is_refused = False  # a worker has ended because of the offsets
        self.restored = 0  # how often the operator had to set them
        # Of chances of its own, so that histories without meddling stay what they were.
        self._meddling = random.Random(seed)
        self._rejoining = random.Random(f"rejoining {seed}")  # not when somebody meddles
        self.world.rebalance_now = self._rebalance
        self.world.expel = self._expel
        self.world.go_on_without = self._go_on_without
        self.world.others_work = self._others_work
        self.goal = {
            partition: rows[-1].offset + 1 for partition, rows in enumerate(self.world.sources)
        }
        for number in range(workers):
            self._start(f"w{number}")
        self._rebalance()

    def start(self, worker_id: str, publisher: Publisher | None = None) -> SimulatedWorker:
        """Start a worker, perhaps with a publisher of its own, and give it its partitions."""
        self.workers[worker_id] = SimulatedWorker(self.world, worker_id, publisher)
        self._rebalance()
        return self.workers[worker_id]

    def _start(self, worker_id: str) -> None:
        try:
            self.workers[worker_id] = SimulatedWorker(self.world, worker_id)
        except Crash:
            self.workers.pop(worker_id, None)

    def _rebalance(self) -> None:
        """
        Spread the partitions anew over the workers that answer; live owners give theirs up first.
        """
        members = [worker.source for worker in self.workers.values()]
        for worker in self.stopped.values():
            worker.source.kicked = True
        self._spread(members, members)

    def _spread(self, owners: Sequence[GroupMember], live: Sequence[GroupMember]) -> None:
        """Give each partition to one of `owners`; members that are `live` give theirs up first."""
        if owners:
            numbers = [owner.member for owner in owners]
            partitions = range(len(self.world.sources))
            chosen = {partition: self.world.random.choice(numbers) for partition in partitions}
            self.world.rebalance(chosen, live)

    def _others(self, member: GroupMember) -> list[GroupMember]:
        sources = [worker.source for worker in self.workers.values()]
        return [source for source in sources if source is not member]

    def _expel(self, member: GroupMember) -> None:
        """Have the group expel a member, as when its session ends, and take it back later."""
        if self._others(member) and self.world.interrupted is None:
            member.kicked = True
            self._go_on_without(member)

    def _go_on_without(self, member: GroupMember) -> None:
        """Give a member's partitions to the others, let them work, and take it back."""
        others = self._others(member)
        self._spread(others, others)
        self._others_work(member)
        others = self._others(member)
        self._spread([*others, member], others)

    def _others_work(self, member: GroupMember) -> None:
        """Play some steps of the other workers in the middle of a member's transaction."""
        if self.world.interrupted is not None:
            return
        self.world.interrupted = member
        for _ in range(STEPS_BETWEEN):
            others = [name for name, worker in self.workers.items() if worker.source is not member]
            if others:
                name = self.world.random.choice(others)
                self._act(name, self.workers[name].step)
        self.world.interrupted = None

    def _act(self, worker_id: str, act: Callable[[], None]) -> None:
        try:
            act()
        except StopError as error:
            if not WORKER_REFUSES.search(str(error)):
                raise
            self.workers.pop(worker_id, None)
            self.stopped.pop(worker_id, None)
            self._is_refused = True  # until the operator comes, others may refuse as well
            self._rebalance()
        except (Crash, FencedError):
            self.workers.pop(worker_id, None)
            self.stopped.pop(worker_id, None)
            if worker_id not in self.workers and worker_id not in self.stopped:
                self._start(worker_id)
            self._rebalance()

    def _restore(self) -> None:
        """
        Play the operator, if a worker has refused the offsets: stop all workers, set the offsets
        that `neardup offsets restore` finds, start workers again.
        """
        if not self._is_refused:
            return
        self._is_refused = False
        world = self.world
        self.workers.clear()
        self.stopped.clear()
        known = judge(
            world.topics(), replica=world.first_replica(), base=world.base_log.entries
        ).report.partitions
        partitions = range(len(world.sources))
        committed = {n: world.commits.get(n, CommittedOffset(None)) for n in partitions}
        for found in restorations(committed, known, dict.fromkeys(partitions, 0), LOG_ID):
            assert not (found.undecided or found.deleted or found.unanswered)
            if found.is_set:
                metadata = CommitMetadata(LOG_ID, world.log.stop)
                world.commits[found.partition] = metadata.committed_at(found.offset)
        self.restored += 1
        for number in range(WORKERS):
            self._start(f"w{number}")
        self._rebalance()

    def run(self, events: int = 150) -> None:
        """Let things happen, then let everything come to its end."""
        world = self.world
        for _ in range(events):
            if world.committed == self.goal:
                break
            draw = world.random.random()
            if draw < 0.03:
                self._rebalance()
            elif draw < 0.05 and len(self.workers) > 1:
                name = world.random.choice(sorted(self.workers))
                self.stopped[name] = self.workers.pop(name)
                self._rebalance()
            elif draw < 0.08 and self.stopped:
                name = world.random.choice(sorted(self.stopped))
                worker = self.stopped.pop(name)
                if world.random.random() < 0.5:
                    # A last step of somebody who does not know that he is out.
                    self._act(name, worker.step)
                if name not in self.workers:
                    self.workers[name] = worker
                self._rebalance()
            elif draw < 0.10:
                # Perhaps a second process with the same id.
                self._start(f"w{world.random.randrange(4)}")
                self._rebalance()
            if world.random.random() < 0.2:  # it takes an operator a while
                self._restore()
            if self._meddling.random() < MEDDLING:
                world.meddle()
                self._rebalance()
            if self._rejoining.random() < REJOINING and self.workers:
                worker = self.workers[self._rejoining.choice(sorted(self.workers))]
                worker.source.rejoin()
            everybody = {**self.stopped, **self.workers} if draw > 0.9 else self.workers
            if everybody:
                name = world.random.choice(sorted(everybody))
                self._act(name, everybody[name].step)
        self.finish()

    def finish(self) -> None:
        """Let nothing go wrong any more, and the workers come to the end of the source."""
        world = self.world
        world.faults = False
        self.stopped.clear()
        self._start("w0")
        self._rebalance()
        for step in range(20_000):
            is_at_end = world.committed == self.goal
            if world.unseen and (is_at_end or step % STEPS_UNDISTURBED == STEPS_UNDISTURBED - 1):
                self._start_anew()
            elif is_at_end:
                return
            self._restore()
            name = world.random.choice(sorted(self.workers))
            self._act(name, self.workers[name].step)
        raise AssertionError(f"not at the end after 20,000 steps: {world.committed} of {self.goal}")

    def _start_anew(self) -> None:
        """
        Start all workers anew, and have each take its partitions.

        A worker looks at an offset when it is given the partition. If somebody else has set one
        since, no worker has seen it yet: the group may look done when it is not, or never get done.
        Nothing else is a reason for a restart, because it would hide a worker that is stuck.
        """
        self.workers.clear()
        for number in range(WORKERS):
            self._start(f"w{number}")
        self._rebalance()
        for name, worker in sorted(self.workers.items()):
            self._act(name, worker.intake.step)

    def check(self) -> None:
        world = self.world
        result = judge(world.topics(), replica=world.first_replica(), base=world.base_log.entries)
        assert result.clean, result.findings
        # Only the beginning of a renewed log says that another one had what it covers.
        assert not result.report.carried
