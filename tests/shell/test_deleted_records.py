"""Readers outside the group where records have been deleted before they were read."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from tests.conftest import EVENTUALLY_S, Kafka, deployed
from tests.faults import cluster
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka import client
from worker.shell.kafka.log import LogConsumer
from worker.shell.kafka.reader import TopicReader

RECORDS = 20


def cut(kafka: Kafka, topic: str, *before: int) -> tuple[Settings, dict[tuple[str, int], int]]:
    """
    Write records to each partition of a topic, and delete those before an offset.

    Returns:
        The settings, and offset 0 of each partition.
    """
    settings = deployed(kafka, partitions=len(before))
    name = getattr(settings, topic)
    for partition in range(len(before)):
        records = [b"%d" % number for number in range(RECORDS)]
        cluster.append(settings.bootstrap, name, records, partition=partition)
    cluster.delete_records(settings.bootstrap, name, dict(enumerate(before)))
    return settings, {(name, partition): 0 for partition in range(len(before))}


def reader_at(
    settings: Settings, starts: dict[tuple[str, int], int], monkeypatch: pytest.MonkeyPatch
) -> TopicReader:
    """Return a reader that begins there, as one whose next records are deleted meanwhile."""
    with monkeypatch.context() as before:
        before.setattr(client, "span", lambda *_: (0, RECORDS))
        return TopicReader(settings, starts)


def read(reader: TopicReader) -> list[tuple[int, int]]:
    """Read to the end; return partitions and offsets."""
    found = []
    deadline = time.monotonic() + EVENTUALLY_S
    while not reader.at_end():
        assert time.monotonic() < deadline, reader.awaited()
        found += [(message.partition, message.offset) for message in reader.read(0.2)]
    return found


def test_a_reader_goes_on_behind_what_retention_has_deleted(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a warning for each partition; one of which nothing is left is at its end."""
    settings, starts = cut(kafka, "topic_documents", 10, 0, RECORDS)
    with closing(reader_at(settings, starts, monkeypatch)) as reader, capture_logs() as lines:
        found = read(reader)
    kept = [(0, offset) for offset in range(10, RECORDS)]
    assert sorted(found) == kept + [(1, offset) for offset in range(RECORDS)]
    told = [line for line in lines if "retention has deleted" in line["event"]]
    assert sorted((line["partition"], line["offsets"]) for line in told) == [(0, 10), (2, RECORDS)]


def test_nobody_goes_on_behind_deleted_records_of_the_log(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them its verdicts are others: a replica and `verify` say so, with the remedy."""
    settings, starts = cut(kafka, "topic_fingerprints", 10)
    says = "no longer has record 0, .*retention to unlimited .*judge the documents again"
    with (
        closing(reader_at(settings, starts, monkeypatch)) as reader,
        pytest.raises(StopError, match=says),
    ):
        read(reader)
    with closing(LogConsumer(settings, 0)) as log, pytest.raises(StopError, match=says):
        for _ in range(100):
            log.read(1.0)
