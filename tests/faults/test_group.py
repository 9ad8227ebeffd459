"""
The main job on Apache Kafka: three workers, real documents where they are at hand; one dies, the
others go on.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import neardup
import orjson
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from schemas.fields import OFFSET_MAX
from tests.conftest import REPOSITORY
from tests.faults import cluster
from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl, message
from tests.faults.harness import Deployment
from tests.oracle import Oracle, said
from worker.devkit.broker.cluster import lay_out
from worker.settings import Settings
from worker.shell.files.engine import file_engine
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.publisher import VOID
from worker.shell.kafka.reader import TopicReader

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DOCUMENTS = 1_000
PENDING = "neardup_pending_batches"
PARTITIONS = 6
PORTION = 30


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """
    The labelled documents when they are there, and a random crawl with every kind of bad input,
    shuffled in.
    """
    corpora = (
        Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
        / "docs.jsonl"
    )
    made = list(crawl(seed=1, count=DOCUMENTS, pages=True))
    if not corpora.is_file():
        return made
    with corpora.open() as lines:
        given = [json.loads(line) for line in itertools.islice(lines, DOCUMENTS)]
    kinds = ["html" if "html" in one else "text" for one in given]
    real = [
        message(one["doc_id"], one["url"], **{kind: one[kind]})
        for one, kind in zip(given, kinds, strict=True)
    ]
    return [
        message
        for pair in itertools.zip_longest(real, made[:400])
        for message in pair
        if message is not None
    ]


def test_three_workers_answer_everything_once_and_as_the_log_says(
    deploy: Deploy, messages: list[Message]
) -> None:
    """
    SIGKILL of one midway and a fourth that joins change nothing; the others end with exit code 0.
    """
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
    """
    What one worker has published the other learns from the group's offsets: both come down to
    nothing.
    """
    group, ports = deploy(partitions=4), lay_out(3, 0).client_ports[:2]
    workers = [
        group.start(name, snapshot_interval_s=1, metrics_port=port)
        for name, port in zip("ab", ports, strict=True)
    ]
    group.until(
        lambda: all(worker.said("partitions assigned") for worker in workers), "partitions assigned"
    )
    group.feed(messages[:400])
    group.until_all_committed()
    pairs = list(zip(workers, ports, strict=True))
    group.until(
        lambda: all(worker.metrics(port).get(PENDING) == 0 for worker, port in pairs),
        "nothing is pending",
    )


def test_files_and_the_library_get_the_verdicts_of_the_group(
    deploy: Deploy, messages: list[Message]
) -> None:
    """
    The same documents in the log's order: `dedup` and `neardup.Deduplicator` say what a group of
    workers says.
    """
    group = deploy(partitions=4)
    group.start_all("w1", "w2")
    group.feed(messages[:400])
    group.until_all_committed()
    oracle = Oracle.of(group.settings.rules)
    for record in group.log():
        oracle.apply(record)
    by_group = dict(group.answers())
    documents = {
        (m.partition, m.offset): (m.key, m.value)
        for m in group.read(group.settings.topic_documents)
    }
    order = [(source.partition, offset) for source, offset in oracle.answers]
    assert len(order) == 400 and len({place[0] for place in order}) == 4
    wanted = [by_group[place] for place in order]
    with file_engine(Settings(threads=1)) as engine:
        assert [
            said(answered.answer)
            for answered in engine.answers(documents[place] for place in order)
        ] == wanted
    with neardup.Deduplicator(threads=1) as library:
        verdicts = library.add_many((_given(*documents[place]) for place in order), errors="return")
        for place, answer, verdict in zip(order, wanted, verdicts, strict=True):
            if answer[0] == "dead":
                assert isinstance(verdict, neardup.DocumentError), place
            else:
                assert isinstance(verdict, neardup.Verdict) and said(verdict) == answer, place


def _given(key: bytes | None, value: bytes | None) -> neardup.Deletion | neardup.Record:
    """Return what the library takes for a message."""
    return (
        neardup.Deletion((key or b"").decode())
        if value is None
        else neardup.Record("documents", 0, key, value)
    )


def _portions() -> Iterator[list[Message]]:
    """
    Return documents that get a verdict each (dead letters go elsewhere), some for every partition.
    """
    for seed in itertools.count():
        yield [
            message
            for message in crawl(seed, PORTION)
            if message[1] is not None and b'"text"' in message[1]
        ]


def _coming(deployment: Deployment) -> Iterator[list[tuple[int, int]]]:
    """
    Feed a portion, and return the places of the verdicts that have come since, uncommitted ones,
    too, for ever.
    """
    settings = deployment.settings
    uncommitted = settings.model_copy(update={"kafka": {"isolation.level": "read_uncommitted"}})
    now = {(settings.topic_verdicts, number): OFFSET_MAX for number in range(settings.partitions)}
    reader = TopicReader(uncommitted, now)
    try:
        for portion in _portions():
            deployment.feed(portion)
            found = [message.value for message in reader.read(0.2)]
            sources = [orjson.loads(value)["source"] for value in found if value and value != VOID]
            yield [(source["partition"], source["offset"]) for source in sources]
    finally:
        reader.close()


def test_while_a_dead_workers_partitions_are_silent_the_others_go_on(deploy: Deploy) -> None:
    """
    Between its death and the first verdict of each of its partitions every other partition has had
    some.
    """
    deployment = deploy(partitions=PARTITIONS)
    dying, *_ = deployment.start_all("w1", "w2", "w3")
    deployment.until_shared()
    coming, begun = _coming(deployment), set[int]()
    while begun != set(range(PARTITIONS)):
        begun |= {partition for partition, _ in next(coming)}
    own = dying.partitions()
    dying.kill()
    name = deployment.settings.topic_documents
    fed = {place[1]: stop for place, (_, stop) in deployment.admin.ends({name: PARTITIONS}).items()}
    # The partitions of which documents are answered that were fed after its death.
    since: set[int] = set()
    while not since & own:
        since |= {partition for partition, offset in next(coming) if offset >= fed[partition]}
    assert since >= set(range(PARTITIONS)) - own
    coming.close()  # type: ignore[attr-defined]
    deployment.finish()


def test_a_member_that_is_no_worker_is_named_and_what_it_takes_is_counted(deploy: Deploy) -> None:
    """
    A subscriber with the workers' group id is told before a worker joins, by its client id; it owns
    no documents, whatever the numbers of its partitions. One that takes documents' partitions is
    told later, and one worker counts what waits there. Added partitions are read.
    """
    group = deploy(partitions=2)
    settings = group.settings
    ports = lay_out(3, 0).client_ports[:2]
    reader = {
        "bootstrap.servers": settings.bootstrap, "group.id": settings.group,
        "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False,
    }  # fmt: skip
    subscriber = Consumer({**reader, "client.id": "a-subscriber"})
    subscriber.subscribe([settings.topic_verdicts])
    thief = Consumer({**reader, "client.id": "a-thief"})
    try:
        while not subscriber.assignment():
            subscriber.poll(0.1)
        workers = [
            group.start(name, metrics_port=port)
            for name, port in zip(("one", "two"), ports, strict=True)
        ]

        def told(client_id: str) -> list[dict[str, object]]:
            subscriber.poll(0.05)
            lines = [line for worker in workers for line in worker.events()]
            return [line for line in lines if line.get("client_id") == client_id]

        group.until(lambda: told("a-subscriber"), "the subscriber is told")
        [line] = told("a-subscriber")[:1]
        assert line["documents_partitions"] == [] and line["other_partitions"]
        group.until(
            lambda: told("") or all(worker.partitions() for worker in workers), "both have some"
        )
        members = {one.worker_id: one for one in Admin(settings).members(settings.group)[1]}
        assert members["a-subscriber"].partitions == ()
        assert members["one"].partitions and members["two"].partitions
        subscriber.close()
        client = AdminClient({"bootstrap.servers": settings.bootstrap})
        [added] = client.create_partitions([NewPartitions(settings.topic_documents, 5)]).values()
        added.result(60)
        group.until(
            lambda: set().union(*(worker.partitions() for worker in workers)) == set(range(5)),
            "the added partitions are read",
        )
        thief.subscribe([settings.topic_documents])
        while not thief.assignment():
            thief.poll(0.1)
        cluster.append(
            settings.bootstrap,
            settings.topic_documents,
            [b"{}"] * 7,
            partition=(thief.assignment()[0].partition),
        )

        def unowned() -> list[dict[str, float]]:
            thief.poll(0.05)
            scrapes = [worker.metrics(port) for worker, port in zip(workers, ports, strict=True)]
            return [
                found
                for scrape in scrapes
                if (found := {k: v for k, v in scrape.items() if "unowned_lag{" in k and v})
            ]

        group.until(unowned, "what waits there is counted")
        assert [list(found.values()) for found in unowned()] == [[7.0]]
    finally:
        thief.close()
        subscriber.close()
