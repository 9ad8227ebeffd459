"""A worker dies: its partitions are silent for a session, and the others' verdicts go on coming."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import orjson
import pytest

from schemas.fields import OFFSET_MAX
from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl
from tests.faults.harness import Deployment
from worker.shell.kafka.publisher import VOID
from worker.shell.kafka.reader import TopicReader

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 6
PORTION = 30


def _portions() -> Iterator[list[Message]]:
    """Return documents that get a verdict each (dead letters go elsewhere), some for every partition."""
    for seed in itertools.count():
        yield [message for message in crawl(seed, PORTION) if message[1] is not None and b'"text"' in message[1]]


def _coming(deployment: Deployment) -> Iterator[list[tuple[int, int]]]:
    """Feed a portion, and return the places of the verdicts that have come since, uncommitted ones, too, for ever."""
    settings = deployment.settings
    uncommitted = settings.model_copy(update={"kafka_options": {"isolation.level": "read_uncommitted"}})
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
    """Between its death and the first verdict of each of its partitions every other partition has had some."""
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
    since: set[int] = set()  # the partitions of which documents are answered that were fed after its death
    while not since & own:
        since |= {partition for partition, offset in next(coming) if offset >= fed[partition]}
    assert since >= set(range(PARTITIONS)) - own
    coming.close()  # type: ignore[attr-defined]
    deployment.finish()
