"""
Makes a new log from the documents, next to the old one, as a change of parameters requires.

    documents ──► group <group>-<hash> ──► fingerprints-<hash> ─┬─► verdicts-<hash>
                                                                └─► documents.dead-letter-<hash>

The hash is that of the new definition, so the names follow from the parameters: the same command
goes on where it stopped, on any machine, and another set of parameters cannot meet this one's log.
The old deployment is not touched: its workers go on and its subscribers notice nothing, until both
are given the new names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from worker.errors import DefinitionError, NeardupError, StopError
from worker.log.record import LogRecord, RowKind, Source
from worker.log.rules import Acceptance, Definition
from worker.settings import Settings, toml_lines
from worker.shell.admin.verify import is_declared, read_log
from worker.shell.checkpoint import first_definition
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.reader import GroupOffsets, first_messages
from worker.shell.kafka.topics import create_topics
from worker.shell.pipeline import service
from worker.shell.pipeline.offsets import trusted

LOOK_S = 1.0
CALL_S = 20.0
_NAMES = ("group", "topic_fingerprints", "topic_verdicts", "topic_dead_letter", "topic_new")
STALL_S = 60.0  # longer than a rebalance, a transaction's time-out and a broker's restart


class RebuildPlan(NamedTuple):
    """The new deployment: its topics, and the offsets up to which it will answer the documents."""

    settings: Settings
    created: tuple[str, ...]  # empty: an earlier rebuild is taken up
    stops: Mapping[int, int]  # of each partition
    firsts: Mapping[int, int]  # the first offset of each partition; retention has deleted the rest
    # The last stable offset of each partition that an open transaction holds up.
    held_up: Mapping[int, int]

    @property
    def missing(self) -> int:
        """How many documents retention has deleted."""
        return sum(self.firsts.values())

    def answered(self, committed: Mapping[int, int]) -> int:
        """Return how many of the offsets that are still there lie before those of a group."""
        return sum(
            max(min(committed.get(number, 0), stop) - self.firsts.get(number, 0), 0)
            for number, stop in self.stops.items()
        )

    def switch(self) -> list[str]:
        """
        Return the settings that make a worker or a subscriber part of the new deployment, as lines
        of TOML.
        """
        further = ("topic_documents", "definition", "state_dir", "base_snapshot")
        return toml_lines(self.settings, (*_NAMES, *further))


def _beside(settings: Settings, suffix: str) -> dict[str, Any]:
    """Return the names of the new deployment; its snapshots stand in a folder of their own, too."""
    former = {name: getattr(settings, name) for name in _NAMES}
    names: dict[str, Any] = {
        name: f"{value}-{suffix}" for name, value in former.items() if value is not None
    }
    if settings.state_dir is not None:
        names["state_dir"] = settings.state_dir / suffix
    return names


def plan(settings: Settings, admin: Admin) -> RebuildPlan:
    """
    Create the topics of the new deployment, or find them.

    Args:
        settings: the names of the deployment as it is, the parameters as they shall be.

    Raises:
        StopError: the log has these parameters already, or there are no documents to read; or it
            begins with a base, which the new one would lack.
    """
    definition = first_definition(settings.rules, settings.base_snapshot)
    suffix = f"{definition.hash:016x}"
    if settings.topic_fingerprints.endswith(f"-{suffix}"):
        raise StopError(
            f"{settings.topic_fingerprints} already has these parameters: there is nothing to "
            "rebuild. Give the deployment's present topics, and the new parameters"
        )
    found = admin.describe([settings.topic_documents, settings.topic_fingerprints])
    source = found.get(settings.topic_documents)
    if settings.topic_fingerprints in found and _has_definition(settings, admin, definition):
        raise StopError(
            f"the log {settings.topic_fingerprints} already has these parameters: there is "
            "nothing to rebuild. Give the new parameters"
        )
    if source is None:
        raise StopError(
            f"topic {settings.topic_documents} does not exist "
            f"at {settings.bootstrap}: nothing to rebuild"
        )
    beside = {**_beside(settings, suffix), "partitions": source.partitions}
    new = settings.model_copy(update=beside)
    was_missing = create_topics(admin, new, like=settings)
    created = tuple(name for name, is_new in was_missing.items() if is_new)
    ends, held_up = admin.readable(new.topic_documents, source.partitions)
    return RebuildPlan(
        new,
        created,
        {partition: stop for (_, partition), (first, stop) in ends.items() if stop > first},
        {partition: first for (_, partition), (first, _) in ends.items()},
        held_up,
    )


def _has_definition(settings: Settings, admin: Admin, definition: Definition) -> bool:
    """
    Return whether the log has the wanted definition.

    False if it has none yet, or if retention has deleted it.
    """
    try:
        return is_declared(settings, admin, definition)
    except DefinitionError as error:
        there, here = error.differences.get("base_snapshot", (None, None))
        if there and not here:
            raise StopError(
                f"the log {settings.topic_fingerprints} begins with a snapshot ({there}), and a "
                "new log without one would call copies of its documents new: judge them by these "
                "parameters (`neardup archive --state` or `dedup --state`), "
                "and name that as base_snapshot"
            ) from error
    return False


def rebuild(
    plan: RebuildPlan,
    stop: threading.Event,
    on_progress: Callable[[int, int], None] = lambda _answered, _total: None,
    on_serving: Callable[[], None] = lambda: None,
) -> bool:
    """
    Run a worker of the new deployment until the plan's documents are answered. More workers may
    help at the same time.

    Returns False when `stop` was set before that; `on_serving` is called when the worker begins to
    read.

    Raises:
        StopError: nothing was answered for a minute, though something is left; or the answers of an
            earlier rebuild are gone.
    """
    admin = Admin(plan.settings)
    log_topic = plan.settings.topic_fingerprints
    log_id = admin.existing([log_topic])[log_topic].topic_id.hex()
    partitions = max(plan.stops, default=0) + 1
    with closing(GroupOffsets(plan.settings, partitions, CALL_S)) as offsets:
        watch = _Watch(
            plan.settings,
            log_id,
            plan.stops,
            offsets,
            stop,
            on_progress,
            check=partial(_check_answers, plan, admin),
        )
        if watch.look():
            return True
        thread = threading.Thread(target=watch.run, name="rebuild", daemon=True)

        def serve() -> None:
            on_serving()
            thread.start()

        try:
            service.run(plan.settings, stop, serve)
        finally:
            stop.set()
            if thread.is_alive():
                thread.join()
    if watch.failure is not None:
        raise StopError(watch.failure)
    return watch.done


def _check_answers(plan: RebuildPlan, admin: Admin, committed: Mapping[int, int]) -> None:
    """
    Check that an earlier rebuild has left verdicts, if the group has answered documents. Every one
    may have been a dead letter. Then there are as many, or fewer, as markers of transactions and
    aborted messages get none; only the log says which.

    Raises:
        StopError: their topic is empty: it was deleted, and created again. The log and the offsets
            are there, so that nothing would ever be answered again.
    """
    answered = plan.answered(committed)
    if not answered:
        return
    new = plan.settings
    names = [new.topic_verdicts, new.topic_dead_letter]
    topics = admin.existing(names)
    ends = admin.ends({name: topic.partitions for name, topic in topics.items()})
    verdicts, dead = (sum(ends[place][1] for place in ends if place[0] == name) for name in names)
    if verdicts or dead >= answered:
        return
    topic_id = admin.existing([new.topic_documents])[new.topic_documents].topic_id
    sources = {Source(topic_id, number): offset for number, offset in committed.items()}
    if dead and not _has_judged(new, admin, sources):
        return
    gone = f"{' and '.join(names)} are empty: they were deleted"
    if dead:
        gone = f"{names[0]} is empty, and {names[1]} has at most {dead:,}: verdicts were deleted"
    raise StopError(
        f"group {new.group} has answered {answered:,} offsets, but {gone} since. Delete "
        f"{new.topic_fingerprints}, too, and name another --group to judge all documents again"
    )


def _has_judged(settings: Settings, admin: Admin, committed: Mapping[Source, int]) -> bool:
    """
    Return whether the log has a row of an answered offset that got a verdict.

    Cost: the log up to the first such row.
    """
    acceptance = Acceptance(first_definition(settings.rules, settings.base_snapshot))
    ends = admin.ends({settings.topic_fingerprints: 1})
    with closing(read_log(settings, ends)) as entries:
        for entry in entries:
            record = acceptance.accept(entry.value, entry.offset)
            if not isinstance(record, LogRecord):
                continue
            for section in record.sections:
                is_answered = section.rows.offsets < committed.get(section.source, 0)
                if np.any(is_answered & (section.rows.kinds != RowKind.DEAD)):
                    return True
    return False


@dataclass(eq=False)
class _Watch:
    """
    Watches the group's offsets, and ends this process's worker when nothing is left to do. Offsets
    that were not committed with the log of this id, or by no worker, say nothing.
    """

    settings: Settings
    log_id: str
    stops: Mapping[int, int]
    offsets: GroupOffsets
    stop: threading.Event
    on_progress: Callable[[int, int], None]
    check: Callable[[Mapping[int, int]], None] = lambda _committed: None  # with the first offsets
    answered: int = -1
    since_s: float = 0.0
    left: Mapping[int, int] = field(default_factory=dict)
    done: bool = False
    trouble: str = ""  # why the last look had no answer
    failure: str | None = None

    def look(self) -> bool:
        """
        Ask for the group's offsets once; return whether everything is answered.

        Raises:
            StopError: the first offsets that are known do not pass the check, or a later look would
                get no answer either.
        """
        try:
            committed = trusted(self.offsets.get(), self.log_id)
            if self.answered < 0:
                self.check(committed)
        except StopError:
            raise
        except NeardupError as error:
            # The group's coordinator moves, there is none yet, or a broker is silent. The next look
            # asks again, and checks.
            self.trouble = str(error)
            return False
        self.trouble = ""
        answered = sum(min(committed.get(number, 0), stop) for number, stop in self.stops.items())
        has_moved = answered > self.answered
        if has_moved:
            self.answered, self.since_s = answered, time.monotonic()
            self.on_progress(answered, sum(self.stops.values()))
        left = {number: stop - committed.get(number, 0) for number, stop in self.stops.items()}
        self.left = {number: count for number, count in left.items() if count > 0}
        if self.left and not has_moved:
            self._step_over(committed)
        self.done = not self.left
        return self.done

    def _step_over(self, committed: Mapping[int, int]) -> None:
        """
        Leave out partitions of which only markers of transactions and aborted messages are left:
        these get no answer, so nothing is ever committed behind them.
        """
        topic = self.settings.topic_documents
        starts = {(topic, number): committed.get(number, 0) for number in self.left}
        ends = {(topic, number): self.stops[number] for number in self.left}
        try:
            firsts = first_messages(self.settings, starts, ends)
        except NeardupError:  # the next look asks again
            return
        self.left = {
            number: count
            for number, count in self.left.items()
            if firsts.get((topic, number), 0) < self.stops[number]
        }

    def run(self) -> None:
        """Look until everything is answered, or nothing is any more. Then the worker ends."""
        try:
            self._run()
        except StopError as error:
            self.failure = str(error)
        except Exception as error:
            # Such as a progress that nobody reads any more. Unwatched, the worker never ends.
            self.failure = f"the rebuild could not be watched any more: {error!r}"
        finally:
            self.stop.set()

    def _run(self) -> None:
        self.since_s = time.monotonic()
        while not self.stop.wait(LOOK_S):
            if self.look():
                return
            if time.monotonic() - self.since_s >= STALL_S:
                left = (
                    f"{sum(self.left.values())} offsets of partitions "
                    f"{', '.join(map(str, self.left))} are left"
                )
                self.failure = (
                    f"nothing was answered for {STALL_S:g} s, and {self.trouble or left}: see the "
                    "worker's log, and run the same command again"
                )
                return
