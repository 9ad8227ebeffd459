"""The ordered log: what the in-memory one and Apache Kafka's both promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.conftest import Kafka, deployed
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.shell.kafka.log import LogAppender, LogConsumer
from worker.shell.ports import LogEntry, LogReader, LogWriter


class Log(NamedTuple):
    """A new, empty log: its writers and its readers from an offset on."""

    writer: Callable[[], LogWriter]
    reader: Callable[[int], LogReader]


def in_memory() -> Log:
    """A list."""
    log = MemoryLog(lambda: 5)
    return Log(lambda: log, lambda offset: MemoryReader(log, offset))


def on_kafka(kafka: Kafka) -> Log:
    """A topic with one partition."""
    settings = deployed(kafka)
    return Log(lambda: LogAppender(settings), lambda offset: LogConsumer(settings, offset))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    """Each kind of log in turn."""
    yield in_memory() if request.param == "memory" else on_kafka(request.getfixturevalue("kafka"))


def read_to(reader: LogReader, stop: int) -> list[LogEntry]:
    """Read until the reader stands at `stop`."""
    entries: list[LogEntry] = []
    for _ in range(900):
        if reader.position() >= stop:
            return entries
        entries += reader.read(0.2)
    raise AssertionError(f"at {reader.position()} after 180 s, expected {stop}")


def test_an_empty_log_ends_where_it_starts(log: Log) -> None:
    """Nothing is there: first offset and end are 0, and a read gives nothing."""
    reader = log.reader(0)
    assert reader.end() == (0, 0)
    assert reader.read(0.1) == []
    reader.close()


def test_every_reader_sees_the_records_of_all_writers_in_one_order(log: Log) -> None:
    """
    Appends of two writers get one order, the same for everybody, with time stamps that never fall.
    """
    writers = [log.writer(), log.writer()]
    last = -1
    for turn in range(6):
        last = writers[turn % 2].append([f"{turn}a".encode(), f"{turn}b".encode()])
    readers = [log.reader(0), log.reader(0)]
    seen = [read_to(reader, last + 1) for reader in readers]
    assert [entry.value for entry in seen[0]] == [
        f"{turn}{half}".encode() for turn in range(6) for half in "ab"
    ]
    assert seen[0] == seen[1]
    assert [entry.offset for entry in seen[0]] == list(range(last + 1))
    stamps = [entry.timestamp_ms for entry in seen[0]]
    assert stamps == sorted(stamps)
    for writer in writers:
        writer.close()
    for reader in readers:
        reader.close()


def test_a_reader_starts_where_it_is_told(log: Log) -> None:
    """
    A restored replica reads the tail only, up to the offset that `append` returns, and nothing
    twice.
    """
    writer = log.writer()
    assert writer.append([b"0", b"1", b"2", b"3"]) == 3
    reader = log.reader(2)
    assert [entry.offset for entry in read_to(reader, 4)] == [2, 3] and reader.end() == (0, 4)
    writer.append([b"4"])
    assert [entry.offset for entry in read_to(reader, 5)] == [4]
    writer.close()
    reader.close()
