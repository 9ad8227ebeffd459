"""
A new log from the documents, beside the old one: what a change of parameters needs.

    documents ──► group <group>-<hash> ──► fingerprints-<hash> ──► verdicts-<hash>, documents.dead-letter-<hash>

The hash is that of the new definition, so the names follow from the parameters: the same command goes on where it
stopped, on any machine, and another set of parameters cannot meet this one's log. The old deployment is not touched:
its workers go on and its subscribers notice nothing, until both are given the new names.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from worker.errors import NeardupError, StopError
from worker.log.record import decode
from worker.settings import EngineSettings, Settings
from worker.shell import kafka_config, topics, worker
from worker.shell.kafka import Admin, GroupOffsets, LogConsumer

__all__ = ["Plan", "Progress", "plan", "rebuild"]

LOOK_S = 1.0
_NAMES = ("group", "topic_fingerprints", "topic_verdicts", "topic_dead_letter")
STALL_S = 60.0  # longer than a rebalance, a transaction's time-out and a broker's restart


class Plan(NamedTuple):
    """The new deployment, its topics created or found, and where the documents end that it will answer."""

    settings: Settings
    created: tuple[str, ...]  # empty: an earlier rebuild is taken up
    stops: Mapping[int, int]  # of each partition
    missing: int  # documents that retention has deleted

    def switch(self) -> list[str]:
        """Give the settings that make a worker, or a subscriber, part of the new deployment: lines of TOML."""
        names = [*_NAMES, "topic_documents", *EngineSettings.model_fields]
        if self.settings.state_dir is not None:
            names.append("state_dir")
        values = {name: getattr(self.settings, name) for name in names}
        return [f"{name} = {_toml(value)}" for name, value in values.items()]


class Progress(NamedTuple):
    """How many of the documents have been answered."""

    answered: int
    total: int


def _toml(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value))  # a JSON string is a TOML string


def _beside(settings: Settings, suffix: str) -> dict[str, Any]:
    """Give the names of the new deployment; its snapshots stand in a folder of their own, too."""
    names: dict[str, Any] = {name: f"{getattr(settings, name)}-{suffix}" for name in _NAMES}
    if settings.state_dir is not None:
        names["state_dir"] = settings.state_dir / suffix
    return names


def plan(settings: Settings, admin: Admin) -> Plan:
    """
    Create what the new deployment needs, or find it.

    Args:
        settings: the names of the deployment as it is, the parameters as they shall be.

    Raises:
        StopError: the log has these parameters already, or there are no documents to read.
    """
    suffix = f"{settings.definition.hash:016x}"
    if settings.topic_fingerprints.endswith(f"-{suffix}"):
        raise StopError(
            f"{settings.topic_fingerprints} is the log of these very parameters: there is nothing to rebuild. Name the "
            f"deployment as it is, and the parameters as they shall be"
        )
    found = admin.describe([settings.topic_documents, settings.topic_fingerprints])
    source = found.get(settings.topic_documents)
    if settings.topic_fingerprints in found and _has_these_parameters(settings):
        raise StopError(
            f"the log {settings.topic_fingerprints} has these very parameters: there is nothing to rebuild. Give the "
            f"ones that it shall have"
        )
    if source is None:
        raise StopError(f"topic {settings.topic_documents} does not exist at {settings.bootstrap}: nothing to rebuild")
    new = settings.model_copy(update={**_beside(settings, suffix), "partitions": source.partitions})
    created = tuple(name for name, was_missing in topics.create(admin, new).items() if was_missing)
    ends = admin.ends({new.topic_documents: source.partitions})
    return Plan(
        new,
        created,
        {partition: stop for (_, partition), (first, stop) in ends.items() if stop > first},
        sum(first for first, _ in ends.values()),
    )


def _has_these_parameters(settings: Settings) -> bool:
    """Tell whether the log's first record is of the wanted definition; False when there is no record."""
    config = kafka_config.log_consumer(settings)
    with closing(LogConsumer(config, settings.topic_fingerprints, 0, settings.call_timeout_s)) as log:
        first, stop = log.end()
        if first > 0 or first == stop:
            return False  # what retention has left tells nothing; the names keep the logs apart
        deadline = time.monotonic() + settings.call_timeout_s
        while time.monotonic() < deadline:
            for entry in log.read(1.0):
                author = decode(entry.value).author
                return (author.scheme, author.parameters_hash) == (settings.definition.scheme, settings.definition.hash)
    return False


def rebuild(plan: Plan, on_progress: Callable[[Progress], None] = lambda _: None) -> bool:
    """
    Run a worker of the new deployment until the documents of the plan are answered; more may help at the same time.

    Gives False when it was told to end before (SIGTERM, Ctrl-C).

    Raises:
        StopError: nothing was answered for a minute, though something is left.
    """
    watch = _Watch(plan, on_progress)
    thread = threading.Thread(target=watch.run, name="rebuild", daemon=True)
    thread.start()
    try:
        worker.run(plan.settings)
    finally:
        watch.ended.set()
        thread.join()
    if watch.failure is not None:
        raise StopError(watch.failure)
    return watch.done


class _Watch:
    """Looks at the group's offsets, and ends the worker of this process when there is nothing left to do."""

    def __init__(self, plan: Plan, on_progress: Callable[[Progress], None]) -> None:
        self._plan = plan
        self._on_progress = on_progress
        self.ended = threading.Event()
        self.done = False
        self.failure: str | None = None

    def run(self) -> None:
        settings, stops = self._plan.settings, self._plan.stops
        partitions = max(stops, default=0) + 1
        config = kafka_config.group_offsets(settings)
        answered, since_s = -1, time.monotonic()
        with closing(GroupOffsets(config, settings.topic_documents, partitions, settings.call_timeout_s)) as offsets:
            while not self.ended.wait(LOOK_S):
                try:
                    committed = {number: offset or 0 for number, (offset, _) in offsets.get().items()}
                except NeardupError:  # the group's coordinator moves, or there is none yet
                    continue
                now = sum(min(committed.get(number, 0), stop) for number, stop in stops.items())
                if now > answered:
                    answered, since_s = now, time.monotonic()
                    self._on_progress(Progress(answered, sum(stops.values())))
                left = {number: stop - committed.get(number, 0) for number, stop in stops.items()}
                left = {number: count for number, count in left.items() if count > 0}
                if not left:
                    self.done = True
                    break
                if time.monotonic() - since_s > STALL_S:
                    self.failure = (
                        f"nothing was answered for {STALL_S:g} s, and {sum(left.values())} offsets of partitions "
                        f"{', '.join(map(str, left))} are left. Markers of a crawler's transactions count as offsets "
                        f"and get no answer: `neardup verify` with the new names tells; else see the worker's log, and "
                        f"run the same command again"
                    )
                    break
        if not self.ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
