"""
The worker: puts the stages together, runs them, and takes them apart again in the right order.

    thread       reads and writes          does                             hands on by
    intake       source consumer           poll, gather                     QUEUE_BATCHES_MAX
    prepare …    nothing                   decode, extract, fingerprint     the same, in order
    sequencer    log, replica              append, apply, write verdicts    a queue of 1
    publish      transactional producer    write dead letters, commit       a list, back

    watchdog     ends the process when a call outlives its limit
    incarnation  asks for the topics' ids; commits asks for the group's offsets; snapshot writes one
    group        asks who is in the group, and for the lag of partitions that no worker has; has the
                 intake leave and join again if partitions have no owner (rejoin.py)
    http …       answers probes, scrapes and questions, a thread per connection
    status       takes samples of the metrics

The sequencer is the thread that calls `run`. Each Kafka client belongs to one thread, and what the
threads share besides the queues is `Partitions`.

The start has an order. Metrics come first, so that a worker that the log refuses is seen. Kernels
are compiled and the log is replayed before the worker joins its group: from then on the group waits
for it. Before it joins, it makes sure that offsets, log and documents belong together (`admit`):

    the group's offsets      were committed with this log, and nothing of it is lost  else refused
    each of them             was committed by a worker (see offsets.py)               else refused
    the log                  was begun by this group (`ReplicatedLog`, at any time)   else refused
    a partition without one  is read from its beginning, which nobody has deleted     else a warning

With another log, or one that has lost its end, a worker would call documents new that the group has
already answered, and the error would go unnoticed. So the worker refuses, and says the remedy.

The end has the reverse order. The intake stops reading but stays a member of the group, because
only a member may publish. The messages that have been read go through all stages. Then the worker
leaves the group.

Rejected, and why
- A process per core: each would hold the index once more. The kernels release the interpreter's
  lock, so that one process per machine with threads is enough.
- A refused worker that ends at once: its start takes a second, so no scrape ever saw it, and the
  alert on definitions that differ never fired. It answers scrapes for 90 s (`_seen_when_refused`).
- Learning committed offsets only from the records: if a partition gets no more documents, no record
  carries its last commit, and its verdicts would never be dropped. So the worker asks for the
  offsets now and then.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from importlib.metadata import version
from typing import Any, Generic, TypeVar

from worker.core.fingerprint import Fingerprinter
from worker.errors import DefinitionError, NeardupError, OffsetError, StopError
from worker.log.record import record_digest
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import LogIdentity
from worker.settings import TOPICS, Settings, command
from worker.shell.ask.questions import Questions
from worker.shell.checkpoint import Checkpoint, first_definition, first_replica
from worker.shell.http.server import HttpServer
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.kafka.log import LogAppender, LogConsumer, log_entries
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.kafka.reader import GroupOffsets
from worker.shell.kafka.topics import require_topics
from worker.shell.pipeline.intake import Intake
from worker.shell.pipeline.membership import Membership
from worker.shell.pipeline.offsets import (
    Admission,
    CommitMetadata,
    Committed,
    check_founder,
    check_log,
    is_ours,
    trusted,
)
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.prepare import JobReader, Preparer
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.rejoin import LOOK_S
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.sequencer import Sequencer
from worker.shell.pipeline.stage import Batch
from worker.shell.ports import GroupSource
from worker.shell.runtime import fault_hooks, kernels, metrics
from worker.shell.runtime.health import Status, Watchdog
from worker.shell.runtime.logging import get_logger
from worker.shell.runtime.memory import GIVE_BACK_S, give_back
from worker.shell.runtime.tracing import Tracing

INCARNATION_S = 5.0
# One batch is at hand when a thread falls idle, and one more when that one is small. Further ones
# would only take memory, 32 MiB each.
QUEUE_BATCHES_MAX = 2
REFUSED_S = 90.0  # a refused worker answers this long; Prometheus scrapes once a minute
# How long a thread that comes back from Kafka waits for the interpreter's lock, if another one
# decodes: Python's own 5 ms would be most of a batch's time.
_SWITCH_INTERVAL_S = 0.000_5
# Containers made and not freed before the youngest generation is looked through.
_ALLOCATIONS = 200_000

Answer = TypeVar("Answer")
_log = get_logger(__name__)


def run(
    settings: Settings,
    stop: threading.Event,
    on_serving: Callable[[], None] = lambda: None,
    on_refused: Callable[[], None] | None = None,
) -> None:
    """
    Run one worker until `stop` is set; returns when it has left the group.

    Args:
        on_serving: called when the log is applied: from here on documents are read, and there is
            something to finish.
        on_refused: called when the log has another definition, or the group has offsets that no
            worker has committed. The worker then answers scrapes for `REFUSED_S`, which `stop` cuts
            short; without `on_refused` it ends at once.

    Raises:
        StopError: settings, topics or log are wrong, or the cluster went away for too long; the
            text says the remedy.
        FencedError: another process has taken over this worker id.
    """
    fault_hooks.warn()
    admin = Admin(settings)
    topics = _required_topics(settings, admin)
    ready_if: dict[str, Callable[[], bool]] = {"log replayed": lambda: False}
    with ExitStack() as stack:
        # Metrics come first, so that a worker that the log refuses is seen.
        checkpoint = _checkpoint(settings, admin, topics)
        questions = _open_server(settings, checkpoint, ready_if, stack)
        stack.callback(Periodic("memory", give_back, GIVE_BACK_S).close)
        if on_refused is not None and settings.metrics_port:
            stack.enter_context(_seen_when_refused(stop, on_refused))
        stack.enter_context(_of_one_definition(settings))
        _run_on_log(settings, stop, admin, topics, checkpoint, questions, ready_if, on_serving)


def _run_on_log(
    settings: Settings,
    stop: threading.Event,
    admin: Admin,
    topics: Mapping[str, Topic],
    checkpoint: Checkpoint | None,
    questions: Questions,
    ready_if: dict[str, Callable[[], bool]],
    on_serving: Callable[[], None],
) -> None:
    """Replay the log, make sure that the worker may join its group, and serve; save at the end."""
    started_s = time.monotonic()
    documents = topics[settings.topic_documents]
    with ExitStack() as stack:
        # 1. What takes long is done before the worker joins its group, which would wait for it.
        fingerprinter = Fingerprinter(settings.parameters)
        kernels.ready(settings)
        if checkpoint is not None:
            replica = checkpoint.restore(record_digest_at=partial(record_digest_at, settings))
        else:
            replica = first_replica(settings.rules, settings.base_snapshot)
        log_id = topics[settings.topic_fingerprints].topic_id.hex()
        log = _replicated_log(settings, replica, log_id, stack, questions)
        # 2. Verdicts below the group's offsets are not kept while the log is replayed.
        at_start = committed(settings, documents.partitions)
        replica.serve(documents.topic_id, trusted(at_start, log_id))
        on_idle = _upkeep(settings, documents, log, checkpoint, stack)
        incarnation = Incarnation(admin, {name: one.topic_id for name, one in topics.items()})
        stack.callback(incarnation.close)
        # 3. The threads of the pages have nothing to do until the log is read; later the sequencer
        #    decides how many search.
        replica.use_threads(settings.search_threads)
        records = log.restore(on_idle, stop)
        replica.use_threads(1)
        if stop.is_set():
            return
        # 4. Offsets and a log that do not belong together are refused before a document is read.
        #    The offsets are asked for again: what the log has now was covered after its partition
        #    had got a commit of ours.
        admit(settings, admin, documents, log)
        ready_if["log replayed"] = lambda: True
        _log.info(
            "log applied",
            records=records,
            next_offset=replica.next_offset,
            documents=replica.documents,
            seconds=round(time.monotonic() - started_s, 2),
        )
        # 5. From here on questions are answered, and documents until `stop` is set.
        questions.open(JobReader(settings, fingerprinter).rows)
        _serve(
            settings,
            stop,
            log,
            fingerprinter,
            incarnation,
            ready_if,
            questions=questions,
            on_serving=on_serving,
            on_idle=on_idle,
        )
        # 6. The worker has left the group; the next start replays nothing that it has applied.
        if checkpoint is not None:
            checkpoint.save(replica)


def _required_topics(settings: Settings, admin: Admin) -> Mapping[str, Topic]:
    """Return the group's topics by name; warn of those that are not as they should be."""
    topics, problems = require_topics(admin, settings)
    for problem in problems:
        _log.warning(
            "topic is not as it should be",
            topic=problem.topic,
            problem=problem.text,
            remedy=problem.remedy,
        )
    return topics


def _open_server(
    settings: Settings,
    checkpoint: Checkpoint | None,
    ready_if: Mapping[str, Callable[[], bool]],
    stack: ExitStack,
) -> Questions:
    """
    Serve metrics and questions. Returns the questions, which are refused until they are opened.
    """
    status = stack.enter_context(Status())
    if checkpoint is not None:
        _say_what_runs(settings, checkpoint.definition())
    else:
        _say_what_runs(settings, first_definition(settings.rules, settings.base_snapshot))
    registry = metrics.of_group(settings.group)
    questions = Questions(settings)
    stack.enter_context(HttpServer(settings, questions, ready_if, status.to_dict, registry))
    return questions


def _upkeep(
    settings: Settings,
    documents: Topic,
    log: ReplicatedLog,
    checkpoint: Checkpoint | None,
    stack: ExitStack,
) -> Callable[[], None]:
    """
    Return what the sequencer's thread does to the replica between batches.

    No other thread may change or save the replica, and this one only while it stands still.
    """
    # If a partition gets no more documents, no record of the log carries its last commit.
    commits = Periodic(
        name="commits",
        ask=lambda: trusted(committed(settings, documents.partitions), log.log_id),
        every_s=settings.snapshot_interval_s,
        without="committed offsets are not known, verdicts wait until they are",
    )
    stack.callback(commits.close)

    def on_idle() -> None:
        offsets = commits.take()
        if offsets:
            log.replica.serve(documents.topic_id, offsets)
        if checkpoint is not None:
            checkpoint.tick(log.replica)

    return on_idle


@contextmanager
def _of_one_definition(settings: Settings) -> Iterator[None]:
    """
    Add the remedy to the refusal of a log: the command that makes a log of these settings.

    The command names the definition that this worker has.
    """
    try:
        yield
    except DefinitionError as error:
        own = "the default" if settings.definition is None else str(settings.definition)
        rebuilds = command(settings, "rebuild", "group", *TOPICS, "definition")
        raise error.with_remedy(
            f"Start it with the log's definition (its own is {own}), or judge the documents anew, "
            f"next to the old log: {rebuilds}"
        ) from error


@contextmanager
def _seen_when_refused(stop: threading.Event, on_refused: Callable[[], None]) -> Iterator[None]:
    """
    Let a refused worker answer scrapes for `REFUSED_S`, or until `stop` is set: one that the log
    refuses, or that refuses the group's offsets.

    The start up to the refusal takes about a second, much less than passes between two scrapes.
    Without the wait no scrape would see the worker, however often its supervisor starts it again,
    and no alert would name the cause. The wait costs nothing: until somebody changes the settings
    or the offsets, the worker is refused every time. It has left its group by then.
    """
    try:
        yield
    except (DefinitionError, OffsetError) as error:
        if isinstance(error, OffsetError):
            metrics.OFFSETS_REFUSED.set(error.partitions)
        _log.error("refused, ends after some scrapes", reason=str(error), wait_s=REFUSED_S)
        on_refused()
        stop.wait(REFUSED_S)
        raise


def _say_what_runs(settings: Settings, definition: Definition) -> None:
    """
    Set the metrics that say what runs before anything else, so that they also describe a refused
    worker.
    """
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


def _checkpoint(settings: Settings, admin: Admin, topics: Mapping[str, Topic]) -> Checkpoint | None:
    """Return the folder of snapshots, if the settings name one."""
    if settings.state_dir is None:
        return None
    return Checkpoint(
        settings.state_dir,
        settings.rules,
        LogIdentity(admin.cluster_id(), topics[settings.topic_fingerprints].topic_id),
        settings.worker_id,
        settings.snapshot_interval_s,
        reach=fault_hooks.from_environment(),
        base=settings.base_snapshot,
    )


def connected_log(
    settings: Settings, replica: Replica, log_id: str, stack: ExitStack
) -> ReplicatedLog:
    """Connect a replica to the two ends of its log, until the stack is closed."""
    expires = settings.rules.retention.expires
    reader = LogConsumer(settings, replica.next_offset, expires=expires)
    stack.callback(reader.close)
    writer = LogAppender(settings)
    stack.callback(writer.close)
    author = replica.definition.author(f"{settings.group}/{settings.worker_id}")
    return ReplicatedLog(replica, reader, writer, author, log_id, partial(check_founder, settings))


def _replicated_log(
    settings: Settings, replica: Replica, log_id: str, stack: ExitStack, questions: Questions
) -> ReplicatedLog:
    """Connect a replica to its log, and those who ask to both."""
    log = connected_log(settings, replica, log_id, stack)
    metrics.LOG_LAG.set_function(log.behind)  # from here on: the replay is what it tells first
    questions.follow(log)
    stack.callback(questions.close)  # before the two ends of the log are
    return log


def _serve(
    settings: Settings,
    stop: threading.Event,
    log: ReplicatedLog,
    fingerprinter: Fingerprinter,
    incarnation: Incarnation,
    ready_if: dict[str, Callable[[], bool]],
    *,
    questions: Questions,
    on_serving: Callable[[], None],
    on_idle: Callable[[], None],
) -> None:
    """
    Answer documents until `stop` is set; then finish what has been read, and leave the group.

    Args:
        ready_if: conditions of /readyz, to which those of a member are added.
        questions: leave documents their share from here on.
        on_serving: called before the first document is read.
        on_idle: called between batches, while the replica stands still.
    """
    reach = fault_hooks.from_environment()
    partitions = Partitions(settings.call_timeout_s)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog())
        publisher = _publisher(settings, watchdog, stack)
        idle = Preparer(settings, fingerprinter, QUEUE_BATCHES_MAX)
        preparer = stack.enter_context(idle)
        _tune_interpreter()
        topic_id = incarnation.topics[settings.topic_documents]
        admission = Admission(settings, topic_id, log)
        connect = partial(_connect, settings, partitions, admission, incarnation, ready_if)
        intake = Intake(settings, connect, preparer, partitions, watchdog, stop, reach)
        watch_group = _group_watch(settings, intake.rejoin, stack)
        traced = _spans(settings, stack)
        publishing = Publishing(settings, publisher, partitions, reach, traced=traced)
        sequencer = Sequencer(
            settings, topic_id, log, partitions, preparer, publishing, watchdog, reach=reach
        )

        def between_batches() -> None:
            """Do the sequencer thread's work between batches."""
            if stop.is_set():
                sequencer.close()
            incarnation.check()
            watch_group()
            on_idle()

        ready_if |= {
            "member of the group": lambda: False,
            "not stopping": lambda: not stop.is_set(),
        }
        metrics.QUEUED_BATCHES.set_function(preparer.__len__)
        questions.yield_to(lambda: len(preparer) > 1)  # one is being judged
        on_serving()
        intake.start()
        publishing.start()
        named = {"worker_id": settings.worker_id, "group": settings.group}
        _log.info("worker runs", **named, bootstrap=settings.bootstrap)
        try:
            sequencer.run(between_batches)
        finally:
            _leave_group(settings, intake, preparer)
        try:
            intake.check()
        except NeardupError:
            incarnation.look()  # a topic that was deleted is the better reason, if it is one
            raise
    _log.info("worker has left the group")


def _group_watch(
    settings: Settings, rejoin: Callable[[], None], stack: ExitStack
) -> Callable[[], None]:
    """
    Look at the group before joining it, and then at intervals; return what tells of these looks.
    """
    membership = Membership(settings, Admin(settings), rejoin)
    with suppress(NeardupError):  # the next look tells it
        membership.tell(membership.look())
    group = Periodic(
        "group",
        membership.look,
        LOOK_S,
        "the group cannot be looked at: "
        "its other members and partitions without a worker are not known",
    )
    stack.callback(group.close)
    return lambda: membership.tell(group.take())


def _publisher(settings: Settings, watchdog: Watchdog, stack: ExitStack) -> TransactionalPublisher:
    """Open the transactional producer, which fences a worker of the same id."""
    publisher = TransactionalPublisher(settings, watchdog.limit)
    publisher.open()
    stack.callback(publisher.close)
    return publisher


def _spans(settings: Settings, stack: ExitStack) -> Callable[[Batch], AbstractContextManager[Any]]:
    """Return the context in which a batch is published: its spans, if they are to be traced."""
    if not settings.tracing:
        return nullcontext
    tracing = Tracing()
    stack.callback(tracing.close)
    return tracing.spans


def _connect(
    settings: Settings,
    partitions: Partitions,
    admission: Admission,
    incarnation: Incarnation,
    ready_if: dict[str, Callable[[], bool]],
) -> GroupSource:
    """Join the group, in the intake's thread; from here on its lag and membership are shown."""
    source = GroupConsumer(
        settings,
        admission.starts,
        partitions.assign,
        partitions.revoke,
        partitions.lose,
        incarnation.look,
    )
    metrics.SOURCE_LAG.lags = lambda: _lags(partitions, source)
    ready_if["member of the group"] = lambda: (
        partitions.group_metadata is not None and source.is_member()
    )
    return source


def _leave_group(settings: Settings, intake: Intake, preparer: Preparer) -> None:
    """End the intake, and wait until it has left the group."""
    # After a failure the intake may be waiting for room in the queue.
    preparer.close(finish=False)
    # Leaving may wait for a transaction and for the group, each for as long as a call may take.
    if not intake.join(3 * settings.call_timeout_s):
        _log.warning("the group was not left in time: its partitions move when the session ends")


def _tune_interpreter() -> None:
    """
    Prepare the interpreter for the worker's threads. This comes after all long-lived objects exist.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Modules, kernels and tables hold no garbage, and batches leave none in cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 100)


def _lags(partitions: Partitions, source: GroupConsumer) -> dict[int, metrics.Lag]:
    """
    Return how many offsets of each partition are not answered, how long they have waited, and how
    long an open transaction has held the partition up.
    """
    known = partitions.known()
    now_s = time.time()
    lags = {}
    published = {number: max(partition.published, 0) for number, partition in known.items()}
    for number, offsets in source.waiting(published).items():
        partition = known[number]
        waited_s = 0.0
        if partition.waits_since_ms > 0:
            # The time stamps are the brokers' or the writers', whose clocks may be ahead.
            waited_s = max(now_s - partition.waits_since_ms / 1_000, 0.0)
        lags[number] = metrics.Lag(offsets, waited_s, source.held_s(number))
    return lags


class Periodic(Generic[Answer]):
    """
    Asks a question at intervals, on its own thread, until it is closed.

    Another thread takes the answer when it needs it, and never waits for the cluster.

    Args:
        name: the name of the thread.
        ask: returns the answer. If it raises an error, it is called again after the next interval.
        every_s: seconds between two questions, and before the first one.
        without: the line to log if the cluster gives no answer: once, until it has given one.
            Empty logs nothing.
    """

    def __init__(
        self, name: str, ask: Callable[[], Answer], every_s: float, without: str = ""
    ) -> None:
        self._name = name
        self._ask = ask
        self._every_s = every_s
        self._without = without
        self._answers: list[Answer] = []
        self._closed = threading.Event()
        self.close = self._closed.set
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        told: type[Exception] | None = None  # the kind of the last error, since the last answer
        while not self._closed.wait(self._every_s):
            try:
                self._answers = [self._ask()]
                told = None
            except NeardupError as error:
                if self._without and told is not NeardupError:
                    _log.warning(self._without, cause=str(error))
                told = NeardupError
            except Exception as error:
                # Whatever it is, nobody would ask again if it ended the thread.
                if told is not type(error) and not self._closed.is_set():
                    _log.exception(f"the {self._name} thread's question has failed: it asks again")
                told = type(error)

    def take(self) -> Answer | None:
        """Return the last answer, once; None when there is no new one."""
        return self._answers.pop() if self._answers else None


class Incarnation(Periodic[Mapping[str, bytes]]):
    """
    Watches that the topics are the ones that the worker started with.

    If a topic is deleted and created again, it has the same name and other offsets. Its messages
    would be taken for those of the former topic; and answers that went with it would be missed by
    nobody.

    Args:
        topics: name -> id, as found at the start.
        every_s: seconds between two looks.
    """

    def __init__(
        self, admin: Admin, topics: Mapping[str, bytes], every_s: float = INCARNATION_S
    ) -> None:
        self.topics = topics
        # No line is logged without an answer, because readers and writers report the same trouble.
        super().__init__("incarnation", partial(admin.topic_ids, list(topics)), every_s)

    def check(self) -> None:
        """
        Compare the last answer, if there is a new one. Raises StopError if a topic was created
        again.
        """
        self._compare(self.take() or {})

    def look(self) -> None:
        """
        Ask now, and compare. Without an answer, nothing happens. Cost: a request.

        Raises StopError if a topic was created again.
        """
        try:
            topic_ids = self._ask()
        except NeardupError:
            return
        self._compare(topic_ids)

    def _compare(self, topic_ids: Mapping[str, bytes]) -> None:
        for name, topic_id in topic_ids.items():
            if topic_id != self.topics[name]:
                raise StopError(
                    f"topic {name} was deleted and created again while this worker ran (its id was "
                    f"{self.topics[name].hex()}, now {topic_id.hex()}): start the worker again. If "
                    "it has answers, neardup verify tells which ones are gone"
                )


def committed(settings: Settings, partitions: int) -> Committed:
    """
    Ask for the group's committed offsets in the documents, with their metadata.

    Args:
        partitions: how many partitions the topic of documents has.
    Raises:
        RetryError: no answer came in time.
        StopError: a later question would get no answer either.
    """
    with closing(GroupOffsets(settings, partitions)) as asking:
        return asking.get()


def admit(settings: Settings, admin: Admin, documents: Topic, log: ReplicatedLog) -> None:
    """
    Make sure that offsets, log and documents belong together, by the rules in the module's
    docstring.

    Args:
        documents: the source topic.
        log: replayed to its end.
    Raises:
        StopError: they do not belong together; the text says the remedy.
    """
    admission = Admission(settings, documents.topic_id, log)
    before = admission.reaches(range(documents.partitions))
    commits = committed(settings, documents.partitions)
    parsed = (CommitMetadata.parse(commit.metadata) for commit in commits.values())
    known = [metadata for metadata in parsed if metadata is not None]
    check_log(
        settings,
        known,
        log.log_id,
        log_end=log.end,
        digest_at=lambda offset: record_digest_at(settings, offset),
    )
    # Other workers have appended since the log was replayed.
    log.restore_to(admission.needed(commits))
    ends = admin.ends({documents.name: documents.partitions})
    firsts = {number: first for (_, number), (first, _) in ends.items()}
    admission.decide(commits, firsts.__getitem__, before)
    _tell_deleted(
        {n: firsts[n] for n, commit in commits.items() if not is_ours(commit, log.log_id)}
    )


def record_digest_at(settings: Settings, offset: int) -> str | None:
    """
    Return the digest of the log's record at an offset; None if it is gone.

    Raises:
        StopError: it did not arrive in time, so nobody knows.
    """
    with closing(log_entries(settings, offset)) as entries:
        for entry in entries:
            return record_digest(entry.value) if entry.offset == offset else None
    return None


def _tell_deleted(firsts: Mapping[int, int]) -> None:
    """
    Warn of documents that retention has deleted before the group ever read them.

    The worker only warns and does not refuse, because a group may begin long after its topic.

    Args:
        firsts: the first offset that is still there, of each partition that the group begins.
    """
    deleted = {number: first for number, first in firsts.items() if first > 0}
    if deleted:
        _log.warning(
            "documents were deleted before this group has read them",
            partitions=sorted(deleted),
            offsets=sum(deleted.values()),
            remedy="they get no verdict; if they should have, raise the retention of the topic",
        )
