"""
Protocols for everything that the pipeline needs from outside. Kafka and files both implement them.

As everywhere in neardup, an offset is that of the next message to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from worker.core.document import Document

Headers = tuple[tuple[str, bytes | None], ...]
# The code of a message without content, of which a dead letter is only a pointer.
UNREADABLE = "unreadable"


def headers_bytes(headers: Headers) -> int:
    """
    Return the bytes that headers take in a message, at most.

    >>> headers_bytes((("name", b"value"), ("null", None)))
    33
    """
    return sum(len(name.encode()) + len(value or b"") + 10 for name, value in headers)


class InputMessage(NamedTuple):
    """
    One message of the source topic. If it has a `defect`, the topic has a message here that cannot
    be read.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    defect: str = ""
    headers: Headers = ()  # only read for traces and for `topic_new`
    timestamp_ms: int = 0  # the time stamp in the topic; 0 or -1 if there is none
    # Only from a file: the document that `value` would be decoded to, and the size of that `value`.
    # If it would be too large, there is only the size.
    document: Document | None = None
    document_bytes: int = 0
    defect_code: str = UNREADABLE  # of the dead letter for a `defect`

    @property
    def size_bytes(self) -> int:
        """
        The bytes that it counts in a batch: its key, its value and the headers that were read.
        """
        size = self.document_bytes
        if self.key:
            size += len(self.key)
        if self.value:
            size += len(self.value)
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


def first_stamp_ms(messages: Iterable[InputMessage]) -> int:
    """
    Return the time stamp of the first of these messages that has one; 0 if none has.

    >>> stamps = enumerate([-1, 7, 9])
    >>> first_stamp_ms(InputMessage(0, at, None, None, timestamp_ms=ms) for at, ms in stamps)
    7
    """
    return next((one.timestamp_ms for one in messages if one.timestamp_ms > 0), 0)


class LogEntry(NamedTuple):
    """One record of the ordered log, with the log's own time stamp."""

    offset: int
    timestamp_ms: int
    value: bytes


class Outgoing(NamedTuple):
    """One message to publish."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class CommittedOffset(NamedTuple):
    """A group's commit for a partition. Kafka stores the metadata with the offset."""

    offset: int | None  # None: nothing
    metadata: str = ""


class GroupSource(Protocol):
    """The source topic, read as a member of the consumer group. One thread calls it."""

    def poll(self, messages_max: int, wait_s: float) -> list[InputMessage]:
        """
        Return the messages that have arrived, at most `messages_max` of them, after at most
        `wait_s`.

        Rebalance callbacks run inside this call.
        """

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        """
        Return where to read each partition from: the group's offset, or its beginning, which the
        group has committed when this returns.

        Raises:
            OffsetError: no worker has committed the group's offset.
        """

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Continue at these offsets."""

    def pause(self) -> None:
        """Stop fetching for now, but stay in the group."""

    def resume(self) -> None:
        """Fetch again."""

    def group_metadata(self) -> Any:
        """
        Return the group metadata that a commit carries: member and generation. It changes with
        every rebalance.
        """

    def rejoin(self) -> None:
        """
        Leave the group, and join it again.

        The next polls give all partitions up, as in any rebalance, and get those that the group
        then assigns. If another rebalance is under way for too long, the member stays: that one
        shares the partitions out.
        """

    def close(self) -> None:
        """Leave the group."""


class LogReader(Protocol):
    """The ordered log. Every worker reads all of it, from the offset of its own replica on."""

    def read(self, wait_s: float) -> list[LogEntry]:
        """Return the records that are there, in order. Wait up to `wait_s` for the first one."""

    def position(self) -> int:
        """
        Return the offset below which everything has been read.

        Unlike a record's offset, it also passes over gaps in the log.
        """

    def end(self) -> tuple[int, int]:
        """Return the log's first offset, and the offset after its last record."""

    def end_seen(self) -> int:
        """
        Return the offset after the last record, as far as it is known without asking a broker. Any
        thread may call it.
        """

    def close(self) -> None:
        """Stop reading."""


class LogWriter(Protocol):
    """The ordered log, to append to."""

    def append(self, records: Sequence[bytes]) -> int:
        """
        Append records in order, wait until all are durable, and return the offset of the last one.
        A failure is final.
        """

    def close(self) -> None:
        """Stop writing."""


class Transaction(Protocol):
    """The messages and offsets of one transaction."""

    def produce(self, messages: Iterable[Outgoing]) -> None:
        """Write these messages."""

    def send_offsets(self, offsets: Mapping[int, CommittedOffset], group_metadata: Any) -> None:
        """Write the source offsets that the messages answer, by partition."""


class Publisher(Protocol):
    """
    Publishes verdicts, dead letters and the source offsets that they answer, all together or not at
    all.
    """

    def open(self) -> None:
        """
        Settle any open transaction: that of a predecessor, or our own if its end is in doubt.

        Raises:
            RetryError: the cluster did not answer; ask again.
        """

    def transaction(self, topics: Collection[str]) -> AbstractContextManager[Transaction]:
        """
        Begin a transaction that writes into these topics; the end of the block commits it.

        Raises:
            RetryError: if the error is settled, the transaction is aborted. Otherwise its end is in
                doubt: the caller must ask for the committed offsets and go on from there.
            FencedError: another process has this worker's id.
        """

    def close(self) -> None:
        """Abort the transaction that is open, if any."""
