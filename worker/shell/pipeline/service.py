"""
The worker: puts the stages together, runs them, and takes them apart again in the right order.

    thread       reads and writes                does                                 hands on by
    intake       source consumer                 poll, gather                         a queue of queue_batches_max
    prepare …    nothing                         decode, extract, fingerprint         the same: a batch keeps its place
    sequencer    log, replica                    append, apply, write verdicts        a queue of 1
    publish      transactional producer          write dead letters, commit           a list back to the sequencer

    watchdog     ends the process when a call outlives its limit
    incarnation  asks for the topics' ids; commits asks for the group's offsets; snapshot writes one
    health       answers /metrics, /status and /readyz; status takes its samples

The sequencer is the thread that calls `run`. Intake, sequencer and publish share `Partitions`, and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib.metadata import version

import structlog

from worker.core.fingerprint import Fingerprinter
from worker.errors import DefinitionError, NeardupError
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
from worker.shell.pipeline.batch import Batch
from worker.shell.pipeline.incarnation import Incarnation
from worker.shell.pipeline.intake import Intake
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.periodic import Periodic
from worker.shell.pipeline.prepare import Preparer
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.sequencer import Sequencer
from worker.shell.ports import GroupSource
from worker.shell.runtime import interpreter, kernels, metrics
from worker.shell.runtime.fault_hooks import FaultHook, from_setting
from worker.shell.runtime.health import HealthServer, Readiness
from worker.shell.runtime.status import Status
from worker.shell.runtime.tracing import Tracing, untraced
from worker.shell.runtime.watchdog import Watchdog
from worker.shell.storage.checkpoint import Checkpoint

_log = structlog.get_logger(__name__)


def run(settings: Settings, stop: threading.Event, on_serving: Callable[[], None] = lambda: None) -> None:
    """
    Run one worker until `stop` is set; returns when it has left the group.

    Args:
        on_serving: called when the log is applied: from here on documents are read, and there is something to finish.

    Raises:
        StopError: settings, topics or log are wrong, or the cluster went away for too long; the text says the remedy.
        FencedError: another process has taken over this worker id.
    """
    started_s = time.monotonic()
    admin = Admin(kafka_config.admin(settings), settings.call_timeout_s)
    found, problems = topics.require(admin, settings)
    for problem in problems:
        _log.warning("topic is not as it should be", topic=problem.topic, problem=problem.text, remedy=problem.remedy)
    readiness = Readiness()
    readiness.needs("log replayed", lambda: False)
    with ExitStack() as stack:
        stack.enter_context(_of_one_definition(settings))
        status = stack.enter_context(Status())
        _say_what_runs(settings)
        registry = metrics.of_group(settings.group)
        server = HealthServer(settings.metrics_host, settings.metrics_port, readiness, status.to_dict, registry)
        stack.enter_context(server)
        fingerprinter = Fingerprinter(settings.parameters)
        kernels.ready(settings)
        checkpoint = _checkpoint(settings, admin, found)
        replica = Replica(settings.definition) if checkpoint is None else checkpoint.restore()
        log = _replicated_log(settings, replica, found[settings.topic_fingerprints].topic_id.hex(), stack)
        documents = found[settings.topic_documents]
        ask = partial(admission.committed, settings, documents.partitions)
        committed = ask()
        replica.serve(documents.topic_id, admission.offsets(committed))
        commits = Periodic(  # no record of the log tells the last commit of a partition that falls silent
            "commits", lambda: admission.offsets(ask()), settings.snapshot_interval_s,
            "committed offsets are not known, verdicts wait until they are",
        )  # fmt: skip
        stack.callback(commits.close)

        def on_idle() -> None:
            if told := commits.take():
                replica.serve(documents.topic_id, told)
            if checkpoint is not None:
                checkpoint.tick(replica)

        read = (settings.topic_documents, settings.topic_fingerprints)
        incarnation = Incarnation(admin, {name: found[name].topic_id for name in read})
        stack.callback(incarnation.close)
        records = log.restore(on_idle, stop)
        if stop.is_set():
            return
        readiness.needs("log replayed", lambda: True)
        admission.check(settings, admin, committed, log)
        _log.info(
            "log applied",
            records=records,
            next_offset=replica.next_offset,
            documents=replica.documents,
            seconds=round(time.monotonic() - started_s, 2),
        )
        _serve(settings, stop, log, fingerprinter, incarnation, readiness, on_serving=on_serving, on_idle=on_idle)
        if checkpoint is not None:
            checkpoint.save(replica)


@contextmanager
def _of_one_definition(settings: Settings) -> Iterator[None]:
    """Add to the refusal of a log the command that makes one of these settings."""
    try:
        yield
    except DefinitionError as error:
        own = [name for name in error.differences if name in DECIDING]
        flags = [flag(settings, name) for name in own if getattr(settings, name) != Settings.model_fields[name].default]
        command = " ".join(["neardup rebuild", *flags])
        raise error.with_remedy(
            f"Start it with the log's settings, or judge the documents anew, beside the old log: {command}"
        ) from error


def _checkpoint(settings: Settings, admin: Admin, found: Mapping[str, Topic]) -> Checkpoint | None:
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
        reach=from_setting(settings.fault),
    )


def _replicated_log(settings: Settings, replica: Replica, log_id: str, stack: ExitStack) -> ReplicatedLog:
    """Connect a replica to the two ends of its log."""
    reader = LogConsumer(
        kafka_config.log_consumer(settings), settings.topic_fingerprints, replica.next_offset, settings.call_timeout_s,
        expires=settings.definition.retention.expire_after_ms > 0,
    )  # fmt: skip
    writer = LogAppender(kafka_config.appender(settings), settings.topic_fingerprints, settings.call_timeout_s)
    stack.callback(reader.close)
    stack.callback(writer.close)
    author = replica.definition.author(admission.author_name(settings))
    return ReplicatedLog(replica, reader, writer, author, settings.record_bytes_max, log_id, settings.record_format)


def _publisher(settings: Settings, watchdog: Watchdog, reach: FaultHook) -> TransactionalPublisher:
    return TransactionalPublisher(
        kafka_config.publisher(settings),
        Scope(
            settings.topic_documents,
            [name for name in (settings.topic_verdicts, settings.topic_dead_letter, settings.topic_new) if name],
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
    stop: threading.Event,
    log: ReplicatedLog,
    fingerprinter: Fingerprinter,
    incarnation: Incarnation,
    readiness: Readiness,
    *,
    on_serving: Callable[[], None],
    on_idle: Callable[[], None],
) -> None:
    """Answer documents until told to stop; then finish what has been read, leave the group and return."""
    reach, partitions = from_setting(settings.fault), Partitions(settings.call_timeout_s)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog())
        publisher = _publisher(settings, watchdog, reach)
        publisher.open()
        stack.callback(publisher.close)
        preparer = stack.enter_context(Preparer(settings, fingerprinter, settings.queue_batches_max))
        interpreter.tune()

        def connect() -> GroupSource:
            source = GroupConsumer(
                kafka_config.group_consumer(settings), settings.topic_documents, settings.call_timeout_s,
                partitions.assign, partitions.revoke, partitions.lose, incarnation.look,
                with_headers=settings.tracing or settings.topic_new is not None,
            )  # fmt: skip
            metrics.watch_source(lambda: _lags(partitions, source))
            readiness.needs("member of the group", lambda: partitions.membership() is not None and source.is_member())
            return source

        intake = Intake(settings, connect, preparer, partitions, watchdog, stop, reach)
        traced: Callable[[Batch], AbstractContextManager[None]] = untraced
        if settings.tracing:
            tracing = Tracing()
            stack.callback(tracing.close)
            traced = tracing.spans
        publishing = Publishing(settings, publisher, partitions, reach, traced=traced)
        topic_id = incarnation.topics[settings.topic_documents]
        sequencer = Sequencer(settings, topic_id, log, partitions, preparer, publishing, watchdog, reach=reach)

        def between_batches() -> None:
            if stop.is_set():
                sequencer.close()
            incarnation.check()
            on_idle()

        readiness.needs("member of the group", lambda: False)
        readiness.needs("not stopping", lambda: not stop.is_set())
        metrics.QUEUED_BATCHES.set_function(preparer.__len__)
        metrics.LOG_LAG.set_function(log.behind)
        on_serving()
        intake.start()
        publishing.start()
        _log.info("worker runs", worker_id=settings.worker_id, group=settings.group, bootstrap=settings.bootstrap)
        try:
            sequencer.run(between_batches)
        finally:
            preparer.close(finish=False)  # after a failure: the intake may be waiting for room
            # Leaving may wait for a transaction and for the group, each for as long as a call may take.
            if not intake.join(3 * settings.call_timeout_s):
                _log.warning("the group was not left in time: its partitions move when the session ends")
        try:
            intake.poll()
        except NeardupError:
            incarnation.look()  # which would be the better reason
            raise
    _log.info("worker has left the group")


def _say_what_runs(settings: Settings) -> None:
    """Have the metrics say it from the start: whoever is refused is seen, too."""
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


def _lags(partitions: Partitions, source: GroupConsumer) -> dict[int, metrics.Lag]:
    known, now_s = partitions.known(), time.time()
    ends = source.ends(list(known))
    since_s = {number: ours.waits_since_ms / 1_000 for number, ours in known.items()}
    return {
        number: metrics.Lag(
            max(end - max(known[number].published, 0), 0),
            max(now_s - since_s[number], 0.0) if since_s[number] else 0.0,
        )
        for number, end in ends.items()
    }
