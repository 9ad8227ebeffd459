"""Row 29 of the fault table: offsets of the group that no worker has committed."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conftest import eventually, free_ports
from tests.faults import cluster
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment
from worker.errors import StopError
from worker.shell.admin.offsets import Restoration, restore
from worker.shell.admin.verify import verify
from worker.shell.ports import CommittedOffset

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

PARTITIONS = 2
MESSAGES = 100
MORE = 40

Change = Callable[[Deployment], None]


def _worked(
    deployment: Deployment,
    seed: int = 29,
    count: int = MESSAGES,
    meanwhile: Callable[[Deployment], None] = lambda _: None,
) -> None:
    """Let a worker without a snapshot answer messages, and end."""
    [worker] = deployment.start_all("one")
    meanwhile(deployment)
    deployment.feed(crawl(seed=seed, count=count))
    deployment.finish()
    assert worker.stop() == 0
    _until_empty(deployment)


def _until_empty(deployment: Deployment) -> None:
    group = deployment.settings.group
    eventually(lambda: deployment.admin.members(group)[0] == "empty", "the group is empty")


def _client(deployment: Deployment) -> AdminClient:
    return AdminClient({"bootstrap.servers": deployment.settings.bootstrap})


def expired(deployment: Deployment) -> None:
    """The group was idle for longer than its offsets are kept, or was deleted."""
    group = deployment.settings.group
    client = _client(deployment)  # its answers come only while it lives
    client.delete_consumer_groups([group])[group].result(60)


def _set(deployment: Deployment, commits: Sequence[TopicPartition]) -> None:
    asked = [ConsumerGroupTopicPartitions(deployment.settings.group, list(commits))]
    client = _client(deployment)
    for future in client.alter_consumer_group_offsets(asked).values():
        assert not [part for part in future.result(60).topic_partitions if part.error]


def set_back(deployment: Deployment) -> None:
    """A tool has set them to the beginning."""
    topic = deployment.settings.topic_documents
    _set(deployment, [TopicPartition(topic, number, 0) for number in range(PARTITIONS)])


def set_back_with_metadata(deployment: Deployment) -> None:
    """A tool has set one back, and has kept the metadata that a worker wrote."""
    offset, metadata = deployment.group_offsets()[0]
    topic = deployment.settings.topic_documents
    _set(deployment, [TopicPartition(topic, 0, (offset or 0) - 3, metadata)])


def read_by_another(deployment: Deployment) -> None:
    """A consumer with the workers' group id has read the documents, and has committed."""
    deployment.feed(crawl(seed=30, count=MORE))
    settings = deployment.settings
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap, "group.id": settings.group,
         "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([settings.topic_documents])
    try:
        read = 0
        while read < MORE:
            read += len(consumer.consume(MORE - read, 1.0))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


CHANGES: tuple[Change, ...] = expired, set_back, set_back_with_metadata, read_by_another


def test_row_29_offsets_that_no_worker_has_committed(deploy: Deploy) -> None:
    """
    Expired, deleted, moved by hand, committed by a foreign consumer: the worker refuses them, and
    nothing is published twice or skipped. The command sets them, and all goes on. A misspelt group
    gets no offsets in a log that is not its own, nor a group whose workers run; a tombstone among
    the verdicts keeps none back.
    """
    deployment = deploy(partitions=PARTITIONS, static_membership=False)  # it leaves at once
    _worked(deployment, meanwhile=_are_left_alone)
    settings = deployment.settings
    misspelt = settings.model_copy(update={"group": f"{settings.group}x"})
    with pytest.raises(StopError, match=f"was begun by group {settings.group}, and this"):
        restore(misspelt, is_confirmed=True, on_found=lambda _: None)
    right = _offsets(deployment)
    for change in CHANGES:
        change(deployment)
        _see_refusal(deployment, change.__name__)
        shown: list[list[Restoration]] = []
        before = deployment.group_offsets()
        restore(settings, is_confirmed=False, on_found=shown.append)
        assert deployment.group_offsets() == before
        found = restore(settings, is_confirmed=True, on_found=shown.append)
        assert shown == [found, found] and any(one.is_set for one in found)
        assert _offsets(deployment) == right, change.__name__
    _worked(deployment, seed=31, count=MORE)
    assert restore(settings, is_confirmed=True, on_found=shown.append) == [
        one._replace(found=one.offset, is_set=False) for one in shown[-1]
    ]
    right = _offsets(deployment)
    expired(deployment)
    cluster.append(settings.bootstrap, settings.topic_verdicts, [None], key=b"a document")
    restore(settings, is_confirmed=True, on_found=lambda _: None)
    assert _offsets(deployment) == right


def _are_left_alone(deployment: Deployment) -> None:
    """While a worker runs, the command refuses to set its offsets, and so does Kafka."""
    with pytest.raises(StopError, match="offsets are set only while no worker runs"):
        restore(deployment.settings, is_confirmed=True, on_found=lambda _: None)
    with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
        deployment._offsets.set({0: CommittedOffset(7)})


def _offsets(deployment: Deployment) -> dict[int, int | None]:
    return {number: offset for number, (offset, _) in deployment.group_offsets().items()}


def _see_refusal(deployment: Deployment, change: str) -> None:
    """Start a worker, which ends with the reason and the remedy, and publishes nothing."""
    before = len(deployment.published())
    refused = deployment.start("one", metrics_port=0)
    assert refused.wait() == 1, change
    said = refused.log_path.read_text()
    assert "not those that its workers have committed" in said and "Traceback" not in said
    assert "partition 0" in said and "neardup offsets restore --bootstrap" in said
    assert len(deployment.published()) == before


def test_row_29_a_worker_that_dies_between_its_first_append_and_its_first_commit(
    deploy: Deploy,
) -> None:
    """
    The log covers partitions for which no verdict was ever committed: the next worker answers them,
    because their beginning was committed before.
    """
    deployment = deploy(partitions=PARTITIONS)
    deployment.feed(crawl(seed=29, count=MESSAGES))
    killed = deployment.start("one", fault="after-append:kill:1")
    killed.wait()
    assert len(deployment.log()) > 1 and not deployment.answers()
    assert all(offset == 0 and metadata for offset, metadata in deployment.group_offsets().values())
    deployment.start("one")
    deployment.finish()


def test_row_29_a_partition_that_another_has_read_before_any_worker(deploy: Deploy) -> None:
    """
    The log has nothing of it, and an offset that skips its documents is refused; one at its
    beginning is not. Scrapes see the refusal.
    """
    deployment = deploy(partitions=PARTITIONS)
    deployment.feed(crawl(seed=29, count=MESSAGES))
    topic = deployment.settings.topic_documents
    _set(deployment, [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 7)])
    [port] = free_ports()
    refused = deployment.start("one", metrics_port=port)
    deployment.until(lambda: refused.said("refused, ends after some scrapes"), "a refusal")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert f'neardup_offsets_refused{{group="{deployment.settings.group}"}} 1.0' in (
            answer.read().decode()
        )
    assert refused.stop() == 1
    said = refused.log_path.read_text()
    assert "would skip the documents from 0 on: set 0" in said and "partition 0" not in said
    restore(deployment.settings, is_confirmed=True, on_found=lambda _: None)
    assert deployment.group_offsets()[1].offset == 0
    deployment.start("one")
    deployment.finish()


def test_row_29_another_takes_partitions_of_a_running_group(deploy: Deploy) -> None:
    """It reads, commits and leaves: the worker that gets its partitions back ends."""
    deployment = deploy(partitions=PARTITIONS)
    [worker] = deployment.start_all("one", metrics_port=0)
    deployment.feed(crawl(seed=29, count=MESSAGES))
    deployment.until_all_committed()
    settings = deployment.settings
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap, "group.id": settings.group,
         "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([settings.topic_documents])
    taken: list[TopicPartition] = []
    while not taken:
        consumer.poll(0.2)
        taken = consumer.assignment()
    deployment.feed(crawl(seed=30, count=MORE))
    number = taken[0].partition
    end = deployment.admin.ends({settings.topic_documents: PARTITIONS})
    stop = end[settings.topic_documents, number][1]
    consumer.commit(
        offsets=[TopicPartition(settings.topic_documents, number, stop)], asynchronous=False
    )
    consumer.close()
    assert worker.wait() == 1
    said = worker.log_path.read_text()
    assert f"partition {number}: the group's offset is {stop}, and no worker has committed it" in (
        said
    )
    _until_empty(deployment)
    restore(settings, is_confirmed=True, on_found=lambda _: None)
    deployment.start("one")
    deployment.finish()


def test_row_29_offsets_and_answers_have_expired(deploy: Deploy) -> None:
    """
    Nobody can say what was answered of the last batches: nothing is set unless the user vouches for
    it; `verify` calls nothing lost.
    """
    deployment = deploy(partitions=PARTITIONS, static_membership=False)
    _worked(deployment)
    right = _offsets(deployment)
    settings = deployment.settings
    ends = deployment.admin.ends({settings.topic_verdicts: settings.partitions})
    last = {number: stop for (_, number), (_, stop) in ends.items() if stop}
    cluster.delete_records(settings.bootstrap, settings.topic_verdicts, last)
    assert verify(settings).clean
    expired(deployment)
    found = restore(settings, is_confirmed=True, on_found=lambda _: None)
    assert any(one.undecided for one in found)
    assert all(deployment.group_offsets()[one.partition].offset is None
               for one in found if one.undecided)  # fmt: skip
    restore(settings, is_confirmed=True, assume_answered=True, on_found=lambda _: None)
    assert _offsets(deployment) == right
