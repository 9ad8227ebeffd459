"""
The worker: puts the parts together, runs them, and takes them apart again in the right order.

    intake thread     source consumer                       ──► bounded queue of batches
    prepare threads   decode, extract, fingerprint
    main thread       log reader and writer, replica        ──► one batch waits
    publish thread    transactional producer
    watchdog          ends the process when a call outlives its limit
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import structlog

from worker.core.fingerprint import Fingerprinter
from worker.core.warm import warm_up_documents
from worker.errors import DefinitionError, NeardupError, StopError
from worker.log.replica import Replica
from worker.log.snapshot import LogIdentity
from worker.settings import DECIDING, Settings
from worker.settings.load import flag
from worker.shell.kafka import (
    Admin,
    GroupConsumer,
    LogAppender,
    LogConsumer,
    Scope,
    Topic,
    TransactionalPublisher,
    topics,
)
from worker.shell.kafka import config as kafka_config
from worker.shell.pipeline import admission
from worker.shell.pipeline.commits import Commits
from worker.shell.pipeline.incarnation import Incarnation
from worker.shell.pipeline.intake import Batch, Intake
from worker.shell.pipeline.loop import Loop, Surroundings
from worker.shell.pipeline.ordering import Ordering
from worker.shell.pipeline.ownership import Ownership
from worker.shell.pipeline.prepare import Preparer
from worker.shell.pipeline.publishing import Publishing, PublishingThread
from worker.shell.ports import GroupSource
from worker.shell.runtime import interpreter, metrics
from worker.shell.runtime.fault_hooks import FaultHook, from_setting
from worker.shell.runtime.health import HealthServer, Readiness
from worker.shell.runtime.status import Status
from worker.shell.runtime.watchdog import Watchdog
from worker.shell.storage.checkpoint import Checkpoint

__all__ = ["run"]

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """
    Run one worker until SIGTERM or SIGINT; returns when it has left the group.

    Raises:
        StopError: settings, topics or log are wrong, or the cluster went away for too long; the text says the remedy.
        FencedError: another process has taken over this worker id.
    """
    started = time.monotonic()
    reach = from_setting(settings.fault)
    admin = Admin(kafka_config.admin(settings), settings.call_timeout_s)
    found, problems = topics.require(admin, settings)
    for problem in problems:
        _log.warning("topic is not as it should be", topic=problem.topic, problem=problem.text, remedy=problem.remedy)
    readiness = Readiness()
    readiness.needs("log replayed", lambda: False)
    with ExitStack() as stack:
        stack.enter_context(_of_one_definition(settings))
        status = stack.enter_context(Status())
        stack.enter_context(HealthServer(settings.metrics_host, settings.metrics_port, readiness, status.to_dict))
        fingerprinter = Fingerprinter(settings.parameters)
        warm_up_documents(fingerprinter)
        watchdog = Watchdog()
        stack.callback(watchdog.close)
        checkpoint = _checkpoint(settings, admin, found, reach)
        replica = Replica(settings.definition) if checkpoint is None else checkpoint.restore()
        replica.warm_up()
        ordering = _ordering(settings, replica, found[settings.topic_fingerprints].topic_id.hex(), stack)
        documents = found[settings.topic_documents]
        ask = partial(admission.committed, settings, documents.partitions)
        committed = ask()
        replica.serve(documents.topic_id, admission.offsets(committed))
        commits = Commits(lambda: admission.offsets(ask()), settings.snapshot_interval_s)
        stack.callback(commits.close)

        def tick() -> None:
            if told := commits.take():
                replica.serve(documents.topic_id, told)
            if checkpoint is not None:
                checkpoint.tick(replica)

        read = (settings.topic_documents, settings.topic_fingerprints)
        incarnation = Incarnation(admin, {name: found[name].topic_id for name in read})
        stack.callback(incarnation.close)
        records = ordering.restore(tick)
        readiness.needs("log replayed", lambda: True)
        admission.check(settings, admin, committed, ordering)
        _log.info(
            "log applied",
            records=records,
            next_offset=ordering.replica.next_offset,
            documents=ordering.replica.documents,
            seconds=round(time.monotonic() - started, 2),
        )
        publisher = _publisher(settings, watchdog, reach)
        publisher.open()
        stack.callback(publisher.close)
        preparer = stack.enter_context(Preparer(settings, fingerprinter))
        interpreter.tune()
        _serve(
            settings,
            ordering,
            publisher,
            preparer,
            watchdog,
            reach,
            readiness,
            incarnation,
            between=tick,
        )
        if checkpoint is not None:
            checkpoint.save(replica)


@contextmanager
def _of_one_definition(settings: Settings) -> Iterator[None]:
    """Add to the refusal of a log the command that makes one of these settings."""
    try:
        yield
    except DefinitionError as error:
        flags = [flag(settings, name) for name in error.differences if name in DECIDING]
        command = " ".join(["neardup rebuild", *flags])
        raise error.with_remedy(
            f"Start it with the log's settings, or judge the documents anew, beside the old log: {command}"
        ) from error


def _checkpoint(settings: Settings, admin: Admin, found: Mapping[str, Topic], reach: FaultHook) -> Checkpoint | None:
    """Return the folder of snapshots, if there is one."""
    if settings.state_dir is None:
        return None
    log = LogIdentity(admin.cluster_id(), found[settings.topic_fingerprints].topic_id)
    return Checkpoint(
        settings.state_dir,
        settings.definition,
        log,
        settings.worker_id,
        settings.snapshot_interval_s,
        on_disk_from=settings.originals_on_disk_from,
        reach=reach,
    )


def _ordering(settings: Settings, replica: Replica, log_id: str, stack: ExitStack) -> Ordering:
    """Make the two ends of the log."""
    reader = LogConsumer(
        kafka_config.log_consumer(settings), settings.topic_fingerprints, replica.next_offset, settings.call_timeout_s,
        expires=settings.definition.retention.expire_after_ms > 0,
    )  # fmt: skip
    writer = LogAppender(kafka_config.appender(settings), settings.topic_fingerprints, settings.call_timeout_s)
    stack.callback(reader.close)
    stack.callback(writer.close)
    author = replica.definition.author(admission.author_name(settings))
    return Ordering(replica, reader, writer, author, settings.record_bytes_max, log_id, settings.record_format)


def _publisher(settings: Settings, watchdog: Watchdog, reach: FaultHook) -> TransactionalPublisher:
    return TransactionalPublisher(
        kafka_config.publisher(settings),
        Scope(
            settings.topic_documents,
            (settings.topic_verdicts, settings.topic_dead_letter),
            kafka_config.group_offsets(settings),
            settings.topic_fingerprints,
        ),
        settings.call_timeout_s,
        settings.transaction_timeout_ms / 1_000,
        reach,
        watchdog.limit,
    )


def _serve(
    settings: Settings,
    ordering: Ordering,
    publisher: TransactionalPublisher,
    preparer: Preparer,
    watchdog: Watchdog,
    reach: FaultHook,
    readiness: Readiness,
    incarnation: Incarnation,
    *,
    between: Callable[[], None],
) -> None:
    """Answer documents until told to stop; then finish what has been read, leave the group and return."""
    ownership = Ownership()
    batches: queue.Queue[Batch | None] = queue.Queue(settings.queue_batches_max)

    def connect(on_assigned: Any, on_revoked: Any, on_lost: Any) -> GroupSource:
        source = GroupConsumer(
            kafka_config.group_consumer(settings), settings.topic_documents, settings.call_timeout_s,
            on_assigned, on_revoked, on_lost, incarnation.look,
        )  # fmt: skip
        _observe(settings, ordering, source, ownership, batches)
        readiness.needs("member of the group", lambda: ownership.membership is not None and source.is_member())
        return source

    intake = Intake(settings, connect, preparer, ownership, batches, watchdog, reach)
    thread = threading.Thread(target=intake.run, name="intake", daemon=True)

    readiness.needs("member of the group", lambda: False)
    readiness.needs("not stopping", lambda: not intake.stopping.is_set())

    def stop(number: int, _frame: object) -> None:
        _log.info("stopping", signal=signal.Signals(number).name)
        intake.stopping.set()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

    publishing = Publishing(settings, publisher, ownership, reach)

    def between_batches() -> None:
        incarnation.check()
        publishing.dead_letters.tick()
        between()

    loop = Loop(
        settings, incarnation.topics[settings.topic_documents], ordering,
        PublishingThread(publishing.publish), publishing.committed, ownership, batches,
        Surroundings(watchdog, reach, intake.stopping, between_batches),
    )  # fmt: skip
    thread.start()
    _log.info("worker runs", worker_id=settings.worker_id, group=settings.group, bootstrap=settings.bootstrap)
    try:
        loop.run()
    finally:
        intake.stopping.set()
        intake.answered.set()
        _drain(batches, thread, settings.call_timeout_s)
        for number, handler in previous.items():
            signal.signal(number, handler)
    if isinstance(intake.failure, NeardupError):
        incarnation.look()  # which would be the better reason
        raise intake.failure
    if intake.failure is not None:
        raise StopError(f"the intake thread failed: {intake.failure!r}") from intake.failure
    _log.info("worker has left the group")


def _observe(
    settings: Settings,
    ordering: Ordering,
    source: GroupConsumer,
    ownership: Ownership,
    batches: queue.Queue[Batch | None],
) -> None:
    """Connect the gauges that are asked at each scrape."""
    definition = settings.definition
    metrics.BUILD.info(
        {
            "version": version("neardup"),
            "scheme": definition.scheme,
            "parameters": definition.parameters,
            "definition": f"{definition.hash:016x}",
            "worker_id": settings.worker_id,
            "group": settings.group,
        }
    )
    metrics.QUEUED_BATCHES.set_function(batches.qsize)
    metrics.LOG_LAG.set_function(ordering.behind)
    metrics.PENDING_BATCHES.set_function(lambda: sum(map(len, list(ordering.replica.pending.values()))))

    def lags() -> dict[int, int]:
        committed = dict(ownership.committed)
        ends = source.ends(list(committed))
        return {part: max(end - max(committed.get(part, 0), 0), 0) for part, end in ends.items()}

    metrics.watch_source(lags)


def _drain(batches: queue.Queue[Batch | None], thread: threading.Thread, wait_s: float) -> None:
    """Let the intake thread end, which may be waiting for room in the queue."""
    deadline = time.monotonic() + wait_s
    while thread.is_alive() and time.monotonic() < deadline:
        try:
            batches.get(timeout=0.05)
        except queue.Empty:
            continue
    thread.join(0.1)
