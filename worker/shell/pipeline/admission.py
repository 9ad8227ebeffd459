"""
What a worker makes sure of before it joins its group: that offsets, log and documents belong together.

    the group's offsets      were committed with this log, of which nothing is lost since       else refused
    a group without offsets  finds the log empty, or begun by itself                            else refused
    a partition without one  is read from its beginning: nothing has been deleted before that   else a warning
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

import structlog

from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka import Admin, GroupOffsets, LogConsumer
from worker.shell.kafka import config as kafka_config
from worker.shell.pipeline.commit_metadata import CommitMetadata, digest
from worker.shell.pipeline.commit_metadata import check as check_log
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.ports import LogEntry

Committed = Mapping[int, tuple[int | None, str]]  # by partition: offset, if there is one, and metadata

_log = structlog.get_logger(__name__)


def author_name(settings: Settings) -> str:
    """Return what this worker writes into its records as their author: group and worker id."""
    return f"{settings.group}/{settings.worker_id}"


def committed(settings: Settings, partitions: int) -> Committed:
    """Ask for the group's offsets in the documents."""
    config = kafka_config.group_offsets(settings)
    with closing(GroupOffsets(config, settings.topic_documents, partitions, settings.call_timeout_s)) as asking:
        return asking.get()


def offsets(committed: Committed) -> dict[int, int]:
    """Return the offsets alone, of the partitions that have one."""
    return {number: offset for number, (offset, _) in committed.items() if offset is not None}


def check(settings: Settings, admin: Admin, committed: Committed, log: ReplicatedLog) -> None:
    """
    Make sure of all that stands at this file's head.

    Raises:
        StopError: with the remedy.
    """
    parsed = (CommitMetadata.parse(text) for _, text in committed.values())
    known = [metadata for metadata in parsed if metadata is not None]

    def digest_at(offset: int) -> str | None:
        entry = _record(settings, offset)
        return None if entry is None else digest(entry.value)

    check_log(
        known,
        log.commit_metadata().log_id,
        log.log_end,
        digest_at,
        group=settings.group,
        log_topic=settings.topic_fingerprints,
    )
    if not known:
        _check_founder(settings, log)
    _tell_deleted(settings, admin, {number for number, (offset, _) in committed.items() if offset is None})


def _check_founder(settings: Settings, log: ReplicatedLog) -> None:
    """Refuse a log that another group has begun."""
    name, declared = settings.topic_fingerprints, log.replica.acceptance.declared
    group, is_named, _ = declared.author.partition("/") if declared else ("", "", "")
    if is_named and group != settings.group:
        raise StopError(
            f"the log {name} was begun by group {group}, and this worker is of group {settings.group}: each would drop "
            f"verdicts that the other still needs. Give this one a log of its own (--topic-fingerprints), or --group "
            f"{group}"
        )


def _tell_deleted(settings: Settings, admin: Admin, uncommitted: set[int]) -> None:
    """Warn of documents that retention has deleted before the group ever read them."""
    if not uncommitted:
        return
    ends = admin.ends({settings.topic_documents: max(uncommitted) + 1})
    deleted = {number: first for (_, number), (first, _) in ends.items() if number in uncommitted and first > 0}
    if deleted:
        _log.warning(
            "documents were deleted before this group has read them",
            partitions=sorted(deleted),
            offsets=sum(deleted.values()),
            remedy="they get no verdict; if they should have, raise the retention of the topic",
        )


def _record(settings: Settings, offset: int) -> LogEntry | None:
    """Return the log's record at an offset; None when it is gone, or does not come."""
    config, topic = kafka_config.log_consumer(settings), settings.topic_fingerprints
    with closing(LogConsumer(config, topic, offset, settings.call_timeout_s)) as log:
        first, stop = log.end()
        deadline = time.monotonic() + settings.call_timeout_s
        while first <= offset < stop and time.monotonic() < deadline:
            for entry in log.read(1.0):
                return entry if entry.offset == offset else None
    return None
