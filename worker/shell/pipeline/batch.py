"""
A batch: messages on their way to their answers. Each stage adds its column, and reads those before it.

    column      added by    one entry a message
    messages    intake      what was read, by partition and offset
    rows        prepare     what the log gets
    answers     sequencer   what the log says: a verdict, or why there is none
    outgoing    publishing  what leaves

A batch is one stage's at a time; a queue hands it to the next one. Of shares that were void before a stage came to them
the later columns have None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from worker.errors import DocumentError, RetryError
from worker.log.rows import Rows
from worker.shell.messages import VerdictBytes
from worker.shell.pipeline.partitions import Claim
from worker.shell.ports import Outgoing, SourceMessage

_NO_ROWS = Rows.of([])


class Share(NamedTuple):
    """One partition's share of a batch: offsets [first, stop), entries [begin, end) of every column."""

    claim: Claim
    first: int
    stop: int
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Batch:
    """
    Messages with all that becomes of them.

    Args:
        shares: by partition; a stage drops those whose claims have become void.
        read_at_s: monotonic, of the first message.
        jobs: the rows while they are made.
        failure: why the log gives no answers: everything must be read again.
        commit_metadata: kept beside the offsets: the log, and how much of it had been applied.
    """

    messages: Sequence[SourceMessage]
    shares: Sequence[Share] = ()
    read_at_s: float = 0.0
    jobs: Sequence[Future[Rows]] = ()
    rows: Rows = _NO_ROWS
    answers: Sequence[VerdictBytes | DocumentError | None] = ()
    failure: RetryError | None = None
    commit_metadata: str = ""
    outgoing: Sequence[Outgoing | None] = ()


def cut(messages: Iterable[SourceMessage], documents_max: int, bytes_max: int) -> Iterator[list[SourceMessage]]:
    """Cut into pieces of at most so many messages and bytes, or one message alone."""
    piece: list[SourceMessage] = []
    size_bytes = 0
    for message in messages:
        more_bytes = message.size_bytes
        if piece and (len(piece) >= documents_max or size_bytes + more_bytes > bytes_max):
            yield piece
            piece, size_bytes = [], 0
        piece.append(message)
        size_bytes += more_bytes
    if piece:
        yield piece
