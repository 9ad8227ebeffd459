"""
Which log the group's offsets belong to: every committed offset carries the log's topic id, how far it was applied, and
a digest of the last record applied.

A log that was deleted and created again is empty, and with it a worker would call everything "new" that the old one had
seen; so it would with one that has lost its end, whether or not it has grown again since. The group's offsets outlive
the log, so they are where its identity is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

import xxhash

from worker.errors import StopError

LAG_WAIT_S = 10.0  # a new leader may show an end of the log that is a moment old


class CommitMetadata(NamedTuple):
    """
    A log and the next offset in it, as the metadata of a committed offset.

    >>> CommitMetadata.parse(str(CommitMetadata("0d9f", 7, "5c")))
    CommitMetadata(log_id='0d9f', next_offset=7, digest='5c')
    """

    log_id: str  # of the topic, in hex
    next_offset: int
    digest: str = ""  # of the record before `next_offset`; empty: not known

    def __str__(self) -> str:
        return f"log={self.log_id} next={self.next_offset}" + (f" last={self.digest}" if self.digest else "")

    @classmethod
    def parse(cls, metadata: str | None) -> Self | None:
        """Read what a worker has written; None for an offset that was set by hand."""
        fields = dict(part.partition("=")[::2] for part in (metadata or "").split())
        try:
            return cls(fields["log"], int(fields["next"]), fields.get("last", ""))
        except (KeyError, ValueError):
            return None


def digest(record: bytes) -> str:
    """Return 64 bits of a record, in hex."""
    return xxhash.xxh3_64_hexdigest(record)


def check(
    committed: Iterable[CommitMetadata],
    log_id: str,
    log_end: Callable[[], int],
    digest_at: Callable[[int], str | None],
    *,
    group: str,
    log_topic: str,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Make sure that the group's offsets were committed with this log, and that none of it is lost since.

    Args:
        digest_at: of the record at an offset; None when it has been deleted.

    Raises:
        StopError: another log, or one that lacks what was in it; with the remedy.
    """
    committed = list(committed)
    for metadata in committed:
        if metadata.log_id != log_id:
            raise StopError(
                f"the offsets of group {group} were committed with another log (topic id {metadata.log_id}, "
                f"{log_topic} has {log_id}): it was created anew, and what it had seen would be called new again. "
                f"Bring the old log back, or let another --group read the documents from their beginning"
            )
    needed = max((metadata.next_offset for metadata in committed), default=0)
    waited_s = 0.0
    while log_end() < needed:
        if waited_s >= LAG_WAIT_S:
            raise StopError(
                f"the log {log_topic} ends at offset {log_end()}, but verdicts were committed at {needed}: records of "
                f"it are lost. Let another --group with a new log read the documents from their beginning"
            )
        sleep(0.5)
        waited_s += 0.5
    last = max((metadata for metadata in committed if metadata.digest), key=lambda it: it.next_offset, default=None)
    if last is not None and digest_at(last.next_offset - 1) not in (None, last.digest):
        raise StopError(
            f"record {last.next_offset - 1} of the log {log_topic} is not the one with which verdicts were committed: "
            f"the log has lost records that it had acknowledged, and has grown again since. Let another --group with a "
            f"new log read the documents from their beginning, and set unclean.leader.election.enable=false"
        )
