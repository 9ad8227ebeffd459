"""Crawler output, file after file: documents in order, what was left out or damaged counted; and into their topic."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from worker.core.document import BODY_BYTES_MAX
from worker.errors import StopError
from worker.settings import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, Settings
from worker.shell.files.archives import ArchiveReader, ColumnNames, Damage, Omission, Record
from worker.shell.files.archives.record import Message

if TYPE_CHECKING:
    from worker.shell.kafka.reader import Feeder

# A larger body does not fit into a message: base64 makes it longer by a third.
FED_BODY_BYTES_MAX = (MESSAGE_BYTES_MAX - OVERHEAD_BYTES_MAX) * 3 // 4

Answer = TypeVar("Answer")


@dataclass
class Tally:
    """What has been read so far."""

    documents: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # by reason
    damaged: int = 0


class CrawlFiles:
    """
    The documents of some files, in order; what is not one is counted.

    Args:
        paths: archives, JSON Lines or Parquet, here or elsewhere; "-" is stdin.
        on_damage: told of each damaged record: its file, its offset there, what is wrong.
        body_max: bytes of a body; a longer one is left out and counted as "body-too-large".
        fetched_at_default: fetch time of JSON Lines and rows that bring none, ISO 8601.
        columns: the names that doc_id and text have in JSON Lines and Parquet.
        whole: have each record's `raw`, too.
        number_from: of the first document; what has no name gets one with its number in it.
    Raises:
        StopError: a file cannot be opened; TypeError: it is one file, not a list.

    >>> from pathlib import Path; from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "documents.jsonl"
    >>> _ = file.write_text('{"doc_id": "a", "text": "The river rose."}\\n\\n[]\\n')
    >>> files = CrawlFiles([str(file)])
    >>> [record.key for record in files], files.tally.damaged
    ([b'a'], 1)
    """

    def __init__(
        self,
        paths: Sequence[str],
        on_damage: Callable[[Damage], None] = lambda _: None,
        *,
        body_max: int = BODY_BYTES_MAX,
        fetched_at_default: str | None = None,
        columns: ColumnNames | None = None,
        whole: bool = False,
        number_from: int = 0,
    ) -> None:
        if isinstance(paths, str | Path):
            raise TypeError(f"wanted a list of files, got {str(paths)!r}: give a list of it")
        self.on_damage = on_damage
        self._readers = [
            ArchiveReader(
                path,
                body_max=body_max,
                fetched_at_default=fetched_at_default,
                columns=columns,
                whole=whole,
                number_of=self._number_of,
            )
            for path in paths
        ]
        self.number_from = number_from
        self.tally = Tally()

    def _number_of(self) -> int:
        return self.number_from + self.tally.documents

    def __iter__(self) -> Iterator[Record]:
        for reader in self._readers:
            for found in reader:
                if isinstance(found, Record):
                    self.tally.documents += 1
                    yield found
                elif isinstance(found, Omission):
                    self.tally.left_out[found.reason] += 1
                else:
                    self.tally.damaged += 1
                    self.on_damage(found)

    @property
    def bytes_read(self) -> int:
        """Bytes of all files, so far."""
        return sum(reader.bytes_read for reader in self._readers)

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all files; None if one is a pipe."""
        sizes = [reader.bytes_total for reader in self._readers]
        return None if None in sizes else sum(size or 0 for size in sizes)


def with_answers(
    records: Iterable[Record], answer: Callable[[Iterator[Message]], Iterable[Answer]]
) -> Iterator[tuple[Record, Answer]]:
    """Return each record with what `answer` makes of its key and value, however many of them it reads ahead."""
    ahead: deque[Record] = deque()  # itertools.tee would hold 57 more, whatever their size

    def message(record: Record) -> Message:
        ahead.append(record)
        return record.key, record.content

    return ((ahead.popleft(), answered) for answered in answer(map(message, records)))


def feed_documents(
    settings: Settings, records: Iterable[Record], rate: float = 0, sent: Callable[[int, int, int], None] | None = None
) -> Feeder:
    """
    Send documents and wait until all are acknowledged; the feeder given back holds the counts.

    Args:
        rate: documents a second at the most; 0 is no limit.
        sent: told partition, offset and the time of sending (Unix ms) of each delivered document.

    Raises:
        StopError: the topic does not exist.
    """
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415  # a library that reads files has no need of it
    from worker.shell.kafka.reader import Feeder  # noqa: PLC0415  # a library that reads files has no need of it

    Admin(settings).existing([settings.topic_documents])
    feeder = Feeder(settings, sent)
    started = time.monotonic()
    for count, record in enumerate(records):
        if rate:
            wait_s = started + count / rate - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
        feeder.send(record.key, record.value)
    left = feeder.flush(120.0)
    if left:
        raise StopError(f"{left} documents were not acknowledged in 120 s: is the cluster there? Feed them again")
    return feeder
