"""The main job on Apache Kafka: three workers, twelve partitions, real documents where they are at hand."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path

import neardup
import pytest

from tests.conftest import REPOSITORY
from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl, message
from tests.oracle import Oracle, said
from worker.devkit.broker.cluster import lay_out
from worker.settings import Settings
from worker.shell.files.engine import file_engine

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DOCUMENTS = 1_000
PENDING = "neardup_pending_batches"


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """The labelled documents when they are there, and a random crawl with every kind of bad input, shuffled in."""
    corpora = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora")) / "docs.jsonl"
    made = list(crawl(seed=1, count=DOCUMENTS, pages=True))
    if not corpora.is_file():
        return made
    with corpora.open() as lines:
        given = [json.loads(line) for line in itertools.islice(lines, DOCUMENTS)]
    kinds = ["html" if "html" in one else "text" for one in given]
    real = [message(one["doc_id"], one["url"], **{kind: one[kind]}) for one, kind in zip(given, kinds, strict=True)]
    return [message for pair in itertools.zip_longest(real, made[:400]) for message in pair if message is not None]


def test_three_workers_answer_everything_once_and_as_the_log_says(deploy: Deploy, messages: list[Message]) -> None:
    """SIGKILL of one midway and a fourth that joins change nothing; the others end with exit code 0."""
    group = deploy(partitions=12, batch_documents_max=50)
    first, *others = group.start_all("w1", "w2", "w3")
    assert len(messages) >= DOCUMENTS
    half = len(messages) // 2
    group.feed(messages[:half])
    group.until_committed(half // 2)
    first.signal(signal.SIGSTOP)
    group.feed(messages[half:])  # those of its partitions stay where they are
    first.kill()
    others.append(group.start("w4"))
    report = group.finish()
    assert report.documents == len(messages)
    group.until(lambda: others[-1].said("worker runs"), "the fourth runs")
    assert {process.stop() for process in others} == {0}


def test_item_3_at_rest_no_replica_keeps_a_verdict(deploy: Deploy, messages: list[Message]) -> None:
    """What one worker has published the other learns from the group's offsets: both come down to nothing."""
    group, ports = deploy(partitions=4), lay_out(3, 0).client_ports[:2]
    workers = [
        group.start(name, snapshot_interval_s=1, metrics_port=port) for name, port in zip("ab", ports, strict=True)
    ]
    group.until(lambda: all(worker.said("partitions assigned") for worker in workers), "partitions assigned")
    group.feed(messages[:400])
    group.until_all_committed()
    pairs = list(zip(workers, ports, strict=True))
    group.until(lambda: all(worker.metrics(port).get(PENDING) == 0 for worker, port in pairs), "nothing is pending")


def test_files_and_the_library_get_the_verdicts_of_the_group(deploy: Deploy, messages: list[Message]) -> None:
    """The same documents in the log's order: `dedup` and `neardup.Deduplicator` say what a group of workers says."""
    group = deploy(partitions=4)
    group.start_all("w1", "w2")
    group.feed(messages[:400])
    group.until_all_committed()
    oracle = Oracle.of(group.settings.definition)
    for record in group.log():
        oracle.apply(record)
    by_group = dict(group.answers())
    documents = {(m.partition, m.offset): (m.key, m.value) for m in group.read(group.settings.topic_documents)}
    order = [(source.partition, offset) for source, offset in oracle.answers]
    assert len(order) == 400 and len({place[0] for place in order}) == 4
    wanted = [by_group[place] for place in order]
    with file_engine(Settings(threads=1)) as engine:
        assert [said(answered.answer) for answered in engine.answers(documents[place] for place in order)] == wanted
    with neardup.Deduplicator(threads=1) as library:
        verdicts = library.add_many((_given(*documents[place]) for place in order), errors="return")
        for place, answer, verdict in zip(order, wanted, verdicts, strict=True):
            if answer[0] == "dead":
                assert isinstance(verdict, neardup.DocumentError), place
            else:
                assert isinstance(verdict, neardup.Verdict) and said(verdict) == answer, place


def _given(key: bytes | None, value: bytes | None) -> neardup.Deletion | neardup.Record:
    """Return what the library takes for a message."""
    return neardup.Deletion((key or b"").decode()) if value is None else neardup.Record("documents", 0, key, value)
