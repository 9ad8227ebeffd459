"""
Begins a new log from the state of the old one, for `neardup log renew`, and lets the old one go.

A log grows with every document, however few originals stay, and a start without a snapshot reads
all of it. The new log begins with a snapshot of the old one's end as its base:

    old log   r0 r1 r2 … rn│                       deleted when nothing needs it any more
                           │ snapshot: the base
    new log                │ definition, with this base │ offsets that the old log had │ r0 r1 …
                                                        ▲
    the group's offsets    committed with the old log   │ committed with the new log

The group stands still meanwhile. Everything that the old log has must be answered and committed, so
no verdict is under way between the two. What has been answered is covered in the new log, too, by
sections without rows: a worker that reads such a document again appends and publishes nothing.

The steps, and what a kill after each of them leaves behind. Only the last one changes what a worker
may do, and Kafka does it whole or not at all: it commits all offsets in one request.

    read      the old log is replayed to its end         nothing
    base      the snapshot is written                    a file; the same command uses it again
    topic     the new log's topic is created             an empty topic; found again
    begin     its definition, and what is covered        records; only those that lack are appended
    switch    the group's offsets name the new log       done; the same command only prints

Up to the switch, workers with the old settings go on as if nothing had happened, and those with the
new ones are refused: the group's offsets name the old log. After it, it is the other way round. A
worker that was frozen all the while cannot publish: its group has expelled it.

What it must never do, and why it does not
- Lose or repeat a verdict: it refuses while the group has a member, while the log has documents
  whose verdicts are not committed, and if offsets have changed since it looked.
- Destroy what cannot be made again: it deletes nothing. `retire` deletes an old log, if the present
  log goes on from it and begins with a whole base, and the group's offsets name the present log.
  The bases show what a log goes on from: each names the log that it was made of, and the base with
  which that log had begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from worker.errors import StopError
from worker.log.record import Rows, Section, Source
from worker.log.replica import Replica
from worker.log.rules import LogDefinition
from worker.log.snapshot import LogIdentity
from worker.settings import TOPICS, Settings, toml_lines
from worker.shell.admin.stopped_group import stopped_group
from worker.shell.admin.verify import is_declared
from worker.shell.checkpoint import (
    SUFFIX,
    Checkpoint,
    digest_at,
    first_replica,
    header_at,
    locked,
    newest,
    snapshot_at,
)
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.topics import create_topics, require_topics
from worker.shell.pipeline.offsets import CommitMetadata, Committed, foreign, is_ours, trusted
from worker.shell.pipeline.service import committed, connected_log, record_digest_at
from worker.shell.runtime.logging import get_logger

_log = get_logger(__name__)

_SUFFIX = re.compile(r"-[0-9a-f]{16}$")  # of a renewed log: the digest of its base


class RenewStep(StrEnum):
    """The steps of `renew`, in their order; see the head of this file."""

    READ = "read"
    BASE = "base"
    TOPIC = "topic"
    BEGIN = "begin"
    SWITCH = "switch"


class Renewal(NamedTuple):
    """A renewed log."""

    settings: Settings  # of its workers
    was_done: bool  # by an earlier call

    def switch(self) -> list[str]:
        """Return the settings that all workers need from now on, as lines of TOML."""
        return toml_lines(self.settings, ("topic_fingerprints", "base_snapshot", "state_dir"))


def renew(
    settings: Settings, folder: Path, on_step: Callable[[RenewStep], None] = lambda _step: None
) -> Renewal:
    """
    Begin a new log where the group's present one ends, and move the group over to it.

    Args:
        settings: the settings of the group's workers before the move. No worker may be running,
            unless an earlier call has moved the group: then nothing is changed.
        folder: where the new log's base is written. All workers must be able to read it there.
        on_step: called after each step.
    Raises:
        StopError: what the head of this file says is refused, or another call has the folder.

    Cost: a start of a worker, and writing a snapshot.
    """
    admin = Admin(settings)
    topics, _ = require_topics(admin, settings)
    documents = topics[settings.topic_documents]
    # Of two calls at once, the second could replace the base that the group has moved to.
    with locked(folder):
        done = _done(settings, admin, folder, committed(settings, documents.partitions))
        if done is not None:  # the group may be at work with it
            return done
        with stopped_group(settings, admin, topics, "a log is renewed") as group:
            group.refuse_foreign()
            log = topics[settings.topic_fingerprints]
            identity = LogIdentity(admin.cluster_id(), log.topic_id)
            commits = group.committed
            base, former = _made_base(settings, identity, documents, commits, folder, on_step)
            new = _renamed(settings, base)
            _tell_fewer_replicas(settings, log)
            create_topics(admin, new, like=settings)
            on_step(RenewStep.TOPIC)
            stops = {
                Source(documents.topic_id, number): commit.offset or 0
                for number, commit in commits.items()
            }
            metadata = _begin(new, admin, {**former, **stops})
            on_step(RenewStep.BEGIN)
            group.set(
                {
                    number: metadata.committed_at(commit.offset)
                    for number, commit in commits.items()
                    if commit.offset is not None
                }
            )
        on_step(RenewStep.SWITCH)
    return Renewal(new, was_done=False)


def _tell_fewer_replicas(settings: Settings, log: Topic) -> None:
    """Tell if the settings ask for fewer copies of the new log than the old one has."""
    wanted = settings.replication_factor
    if "replication_factor" in settings.model_fields_set and wanted < log.replicas:
        _log.warning(
            f"the new log gets replication_factor={wanted}, and {log.name} has {log.replicas} "
            "replicas: leave the setting out, and the new log has as many"
        )


def _done(settings: Settings, admin: Admin, folder: Path, commits: Committed) -> Renewal | None:
    """Return what an earlier call has done, if the group's offsets name the log that it began."""
    base = _newest_base(settings, folder)
    if base is None:
        return None
    new = _renamed(settings, base)
    log = admin.topic_ids([new.topic_fingerprints]).get(new.topic_fingerprints)
    made = [commit for commit in commits.values() if commit.offset is not None]
    if log is None or not made or not all(is_ours(commit, log.hex()) for commit in made):
        return None
    return Renewal(new, was_done=True)


def _made_base(
    settings: Settings,
    identity: LogIdentity,
    documents: Topic,
    commits: Committed,
    folder: Path,
    on_step: Callable[[RenewStep], None],
) -> tuple[Path, dict[Source, int]]:
    """
    Replay the old log to its end, and write the base of the new one.

    When this returns, the replica is gone: that of the new log takes as much memory.

    Returns:
        The base; and where the coverage ends of source topics that were deleted and created again.
        Without it, `verify` would take their answers for those of the present topic.
    """
    replica = _replayed(settings, identity)
    _refuse_unpublished(settings, documents, replica, commits)
    replica.serve(documents.topic_id, trusted(commits, identity.topic_id.hex()))
    on_step(RenewStep.READ)
    base = _base(settings, identity, replica, folder)
    on_step(RenewStep.BASE)
    return base, former_stops(replica, documents.topic_id)


def former_stops(replica: Replica, topic_id: bytes) -> dict[Source, int]:
    """Return where the coverage of the partitions ends that are of another topic than this one."""
    return {
        source: replica.reach(source).stop
        for source in replica.coverage
        if source.topic_id != topic_id
    }


def _replayed(settings: Settings, identity: LogIdentity) -> Replica:
    """Return a replica at the end of the old log. Nothing is appended to it."""
    with ExitStack() as stack:
        if settings.state_dir is None:
            replica = first_replica(settings.rules, settings.base_snapshot)
        else:
            replica = _checkpoint(settings, settings.state_dir, identity).restore(
                record_digest_at=partial(record_digest_at, settings)
            )
        log = connected_log(settings, replica, identity.topic_id.hex(), stack)
        replica.use_threads(settings.search_threads)
        log.restore()
        replica.use_threads(1)
    return replica


def _refuse_unpublished(
    settings: Settings, documents: Topic, replica: Replica, commits: Committed
) -> None:
    """
    Refuse a log with documents whose verdicts are not committed, and a group that has none.

    Raises:
        StopError: with the partitions and the remedy.
    """
    waiting = {}
    for number, commit in commits.items():
        stop = replica.reach(Source(documents.topic_id, number)).stop
        if stop > (commit.offset or 0):
            waiting[number] = stop - (commit.offset or 0)
    if waiting:
        raise StopError(
            f"the log {settings.topic_fingerprints} has {sum(waiting.values()):,} offsets of "
            f"partitions {', '.join(map(str, waiting))} whose verdicts are not committed: start a "
            "worker, and stop it with SIGTERM once it has published them"
        )
    if all(commit.offset is None for commit in commits.values()):
        raise StopError(
            f"group {settings.group} has committed nothing yet: there is no log to renew"
        )


def _checkpoint(settings: Settings, folder: Path, identity: LogIdentity) -> Checkpoint:
    return Checkpoint(
        folder,
        settings.rules,
        identity,
        f"renew-{settings.worker_id}",
        settings.snapshot_interval_s,
        base=settings.base_snapshot,
    )


def _base(settings: Settings, identity: LogIdentity, replica: Replica, folder: Path) -> Path:
    """
    Return the snapshot of the old log's end, whole and on the disk. Write it, unless it is there.

    Two replicas at one offset may number their originals differently, and so have other digests.
    So a snapshot that an earlier call has written is kept, and with it the new log's name.
    """
    kept = folder / f"{settings.topic_fingerprints}-{replica.next_offset}"
    if newest(kept) is None:
        what = f"the base of the new log cannot be written to {kept}"
        _checkpoint(settings, kept, identity).save_or_stop(replica, what)
    base = newest(kept)
    if base is None or LogIdentity.of(header_at(base)) != identity:
        raise StopError(f"{kept} has a snapshot of another log: name another folder")
    return base


def _newest_base(settings: Settings, folder: Path) -> Path | None:
    """Return the last base that an earlier call has made of the present log, if there is one."""
    name = settings.topic_fingerprints
    found = {
        int(kept.name.rpartition("-")[2]): newest(kept)
        for kept in folder.glob(f"{name}-*")
        if re.fullmatch(rf"{re.escape(name)}-[0-9]+", kept.name)
    }
    return found[max(found)] if found else None


def _renamed(settings: Settings, base: Path) -> Settings:
    """Return the settings of the new log: the digest of its base tells it from all others."""
    digest = digest_at(base)
    renamed = {
        "topic_fingerprints": f"{_SUFFIX.sub('', settings.topic_fingerprints)}-{digest}",
        "base_snapshot": base,
    }
    folder = settings.state_dir
    if folder is not None:
        # The old log's snapshots stay where they are: a worker would refuse them.
        is_renewed = _SUFFIX.fullmatch(f"-{folder.name}") is not None
        renamed["state_dir"] = (folder.parent if is_renewed else folder) / digest
    return settings.model_copy(update=renamed)


def _begin(new: Settings, admin: Admin, stops: Mapping[Source, int]) -> CommitMetadata:
    """
    Have the new log begin: with its definition, and with what is answered. Append what lacks.

    Args:
        stops: up to where the log before had the documents of each source.
    Returns:
        What offsets are committed with that belong to this log.
    """
    topic_id = admin.existing([new.topic_fingerprints])[new.topic_fingerprints].topic_id
    with ExitStack() as stack:
        replica = first_replica(new.rules, new.base_snapshot)
        log = connected_log(new, replica, topic_id.hex(), stack)
        log.restore()
        lacking: list[Section] = []
        for source, stop in stops.items():
            if log.replica.reach(source).stop > stop:
                raise StopError(
                    f"the log {new.topic_fingerprints} already has documents of partition "
                    f"{source.partition} beyond offset {stop}: another group reads it, "
                    "or the group's offsets were moved back"
                )
            if stop > 0:
                lacking += log.missing(Section(source, 0, stop, stop, Rows.of([])))
        log.append(lacking)
        return log.commit_metadata()


class Retirement(NamedTuple):
    """An old log, and what shows that nothing needs it."""

    topic: str
    records: int
    base: Path  # made of it: the present log begins with this one, or a log did that came between
    base_offset: int  # where the base stands in the old log


def retire(settings: Settings, topic: str, *, is_confirmed: bool) -> Retirement:
    """
    Delete a log that was renewed.

    Args:
        settings: the settings of the group's workers, with the present log. They may be running.
        topic: the old log.
        is_confirmed: otherwise nothing is deleted.
    Raises:
        StopError: the group may still need it.
    """
    admin = Admin(settings)
    if topic in {getattr(settings, name) for name in TOPICS}:
        raise StopError(f"{topic} is a topic of the group's workers: nothing is deleted")
    if settings.base_snapshot is None:
        raise StopError(
            "name the base of the present log (base_snapshot): only what it was made of can go"
        )
    topics = admin.existing([settings.topic_documents, settings.topic_fingerprints, topic])
    present = topics[settings.topic_fingerprints]
    _refuse_without_base(settings, admin)
    _refuse_offsets(settings, topics, present)
    identity = LogIdentity(admin.cluster_id(), topics[topic].topic_id)
    try:
        made = base_made_of(identity, settings.base_snapshot)
    except StopError as error:
        raise StopError(
            f"the log {present.name} does not go on from {topic}: {error}. Nothing is deleted"
        ) from error
    end = admin.log_end(topic)
    # Everything is read before: an error after the deletion would tell of what was not done.
    retirement = Retirement(topic, end, made, int(header_at(made)["next_offset"]))
    if is_confirmed:
        admin.delete(topic)
    return retirement


def base_made_of(log: LogIdentity, base: Path) -> Path:
    """
    Return the base that was made of a log: this one, or one that leads to it (see `lineage`).

    Args:
        base: a snapshot, or a folder of which the newest counts.
    Raises:
        StopError: none was, as far as the files show. It names those that cannot be read.
    """
    base = snapshot_at(base).resolve()
    bases, unreadable = lineage(base)
    for made in bases:
        if LogIdentity.of(header_at(made)) == log:
            return made
    text = (
        f"neither its base {base} nor one before it that lies in {_folder_of(base)} was made of it"
    )
    if unreadable:
        text += (
            ". The base that is missing may be among the files there that cannot be read: put a "
            f"whole copy in the place of each ({'; '.join(unreadable)})"
        )
    raise StopError(text)


def lineage(base: Path) -> tuple[list[Path], list[str]]:
    """
    Return a base, the base with which the log began that it was made of, and so on.

    They end with the first log of all, and where a file is no longer in the folder of the bases.

    Args:
        base: as `Path.resolve` returns it.
    Returns:
        The bases, and the errors of the files in their folder that cannot be read.
    Raises:
        StopError: the base itself cannot be read.

    Cost: reading the headers of the bases in the folder.
    """
    earlier: dict[str, Path] = {}
    begun: dict[Path, str] = {}  # base -> the digest of the one with which its log began
    unreadable = []
    for kept in {base, *_folder_of(base).glob(f"*-*/*{SUFFIX}")}:
        try:
            began_with = LogDefinition(*header_at(kept)["definition"]).base
            earlier[digest_at(kept)] = kept
        except StopError as error:
            if kept == base:
                raise
            unreadable.append(str(error))
            continue
        begun[kept] = "" if began_with is None else began_with.digest
    bases = []
    found: Path | None = base
    while found is not None:
        bases.append(found)
        found = earlier.pop(begun[found], None)
    return bases, sorted(unreadable)


def _folder_of(base: Path) -> Path:
    """Return the folder of the bases, in which each has a folder of its own."""
    return base.parent.parent


def _refuse_without_base(settings: Settings, admin: Admin) -> None:
    """
    Refuse if the present log does not begin with the base, or if the base is not whole.

    Raises:
        StopError: which of it is wrong.
    """
    replica = first_replica(settings.rules, settings.base_snapshot)  # reads the base
    if not is_declared(settings, admin, replica.definition):
        raise StopError(
            f"the log {settings.topic_fingerprints} is empty, or its beginning was deleted"
        )


def _refuse_offsets(settings: Settings, topics: Mapping[str, Topic], present: Topic) -> None:
    """
    Refuse if an offset of the group does not name the present log.

    Raises:
        StopError: with the partitions.
    """
    partitions = topics[settings.topic_documents].partitions
    commits = committed(settings, partitions)
    foreign_offsets = foreign(commits, present.topic_id.hex())
    if foreign_offsets or all(commit.offset is None for commit in commits.values()):
        raise StopError(
            f"the offsets of group {settings.group} in partitions "
            f"{', '.join(map(str, foreign_offsets or commits))} were not committed with the log "
            f"{present.name}: nothing is deleted"
        )
