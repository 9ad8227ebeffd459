"""
`neardup verify --mend`, on a real Kafka: what is missing is published once, as the log says, and
nothing else is.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import orjson
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.program import run
from tests.conftest import Kafka, eventually, variables
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.audit import Defect
from worker.shell.admin.mend import MendReport, mend
from worker.shell.admin.remains import MENDED
from worker.shell.admin.verify import verify
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.configuration import feeder_config
from worker.shell.kafka.reader import GroupOffsets, TopicMessage, TopicReader
from worker.shell.kafka.topics import create_topics
from worker.shell.ports import CommittedOffset

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.xdist_group("mend")]

Change = Callable[[bytes], bytes]


class Judged(NamedTuple):
    """A group that has judged a crawl and runs no more, and its answers."""

    settings: Settings
    verdicts: list[TopicMessage]
    dead_letters: list[TopicMessage]

    def cut(self, missing: Collection[int] = (), change: Change = bytes) -> Settings:
        """
        Return settings of the same group and log whose topics of answers lack some.

        Args:
            missing: places of verdicts that are left out, and one dead letter with them.
            change: what the first of the others that it alters says instead.
        """
        name = f"cut{uuid.uuid4().hex[:10]}"
        names = {"topic_verdicts": f"{name}.verdicts", "topic_dead_letter": f"{name}.dead"}
        settings = self.settings.model_copy(update=names)
        create_topics(Admin(settings), settings)
        producer = Producer(feeder_config(settings))
        kept = [self.verdicts[at] for at in range(len(self.verdicts)) if at not in missing]
        # Which verdict comes first depends on the partitions, and a skipped one has no features.
        for at, message in enumerate(kept):
            changed = change(message.value or b"")
            if changed != message.value:
                kept[at] = message._replace(value=changed)
                break
        for message in kept:
            producer.produce(settings.topic_verdicts, message.value, message.key)
        for message in self.dead_letters[1 if missing else 0 :]:
            headers: list[tuple[str, str | bytes | None]] = [*message.headers]
            producer.produce(
                settings.topic_dead_letter, message.value, message.key, headers=headers
            )
        assert producer.flush(60) == 0
        return settings


@pytest.fixture(scope="module")
def judged(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """Some documents of a crawl, and some that cannot be read."""
    folder = tmp_path_factory.mktemp("judged")
    with Deployment(kafka.bootstrap, folder, static_membership=False) as deployment:
        deployment.feed(crawl(seed=3, count=60))
        deployment.feed((b"%d" % number, b"{") for number in range(3))
        worker = deployment.start("one")
        deployment.until_all_committed()
        settings = deployment.settings
        with pytest.raises(StopError, match=r"one\): missing answers are published only while no"):
            mend(settings, dry_run=True, on_found=ignore)
        assert worker.stop() == 0  # and has left at once
        eventually(lambda: Admin(settings).members(settings.group)[0] == "empty", "it has ended")
        verdicts = published(settings, settings.topic_verdicts)
        yield Judged(settings, verdicts, published(settings, settings.topic_dead_letter))


def ignore(*_: object) -> None:
    """Show nothing."""


def published(settings: Settings, topic: str) -> list[TopicMessage]:
    """Return the committed messages of a topic."""
    messages: list[TopicMessage] = []
    count = Admin(settings).existing([topic])[topic].partitions
    starts = {(topic, number): 0 for number in range(count)}
    with closing(TopicReader(settings, starts)) as reader:
        while not reader.at_end():
            messages += reader.read(0.2)
    return messages


def contents(messages: Sequence[TopicMessage]) -> Counter[tuple[object, ...]]:
    """
    Return how often each message stands in a topic, wherever it stands there, and whether it was
    mended or not.
    """
    return Counter(
        (
            message.partition,
            message.key,
            message.value,
            tuple(header for header in message.headers if header[0] != MENDED),
        )
        for message in messages
    )


def offsets(settings: Settings) -> dict[int, CommittedOffset]:
    """Return what the group has committed."""
    with closing(GroupOffsets(settings, settings.partitions)) as asking:
        return asking.get()


def mended(settings: Settings, on_found: Callable[..., None] = ignore) -> MendReport:
    return mend(settings, dry_run=False, on_found=on_found)


def is_as_before(judged: Judged, settings: Settings) -> bool:
    """Return whether the topics have each answer of the group once, byte for byte."""
    return contents(published(settings, settings.topic_verdicts)) == contents(
        judged.verdicts
    ) and contents(published(settings, settings.topic_dead_letter)) == contents(judged.dead_letters)


def test_what_is_missing_is_published_once(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Three verdicts and a dead letter: shown by a dry run that writes nothing, published byte for
    byte as the worker had, where it had; the group's offsets stay; a second time does nothing.
    """
    settings = judged.cut({0, 7, 20})
    before = offsets(settings)
    assert verify(settings).defects[Defect.LOST] == 4
    names = settings.model_fields_set | {"topic_verdicts", "topic_dead_letter"}
    given = {name: getattr(settings, name) for name in names - {"worker_id", "threads"}}
    for name, value in variables(given).items():
        monkeypatch.setenv(name, value)
    shown = run("verify", "--mend", "--dry-run", "--quiet", code=1).output
    assert shown.count(f"to publish: {settings.topic_verdicts}: {{") == 3
    assert shown.count(f"to publish: {settings.topic_dead_letter}: ") == 1
    assert "4 answers would be published" in shown
    assert verify(settings).defects[Defect.LOST] == 4
    shown = run("verify", "--mend", "--quiet").output
    assert "to publish" in shown and shown.endswith("4 answers published in one transaction\n")
    assert verify(settings).clean and is_as_before(judged, settings)
    topics = (settings.topic_verdicts, settings.topic_dead_letter)
    messages = [message for topic in topics for message in published(settings, topic)]
    assert sum(MENDED in dict(message.headers) for message in messages) == 4
    shown = run("verify", "--mend", "--quiet").output
    assert shown.endswith("no answer is missing that the log has: nothing to publish\n")
    assert is_as_before(judged, settings) and offsets(settings) == before


def test_a_second_verdict_stays_and_gets_no_third(judged: Judged) -> None:
    """It cannot be deleted from a topic; what is missing beside it is published."""
    settings = judged.cut({3})
    producer = Producer(feeder_config(settings))
    producer.produce(settings.topic_verdicts, judged.verdicts[5].value, judged.verdicts[5].key)
    producer.flush(60)
    assert not mended(settings).is_clean
    report = mended(settings).report
    assert (report.defects[Defect.LOST], report.defects[Defect.REPEATED]) == (0, 1)


def test_of_two_at_a_time_one_publishes(judged: Judged) -> None:
    """The first one has read what is missing when the second one begins, and is fenced by it."""
    settings = judged.cut({1, 2})
    reports: list[MendReport] = []

    def meanwhile(*_: object) -> None:
        reports.append(mended(settings))

    with pytest.raises(StopError, match="was started after this one"):
        mended(settings, meanwhile)
    [report] = reports
    assert report.is_published and is_as_before(judged, settings)


def test_what_a_worker_will_answer_is_left_to_it(judged: Judged) -> None:
    """The group's offset is moved back below a missing answer, meanwhile or before: it refuses."""
    # In another partition than the dead letter that is left out, too, which is published.
    apart = dict(judged.dead_letters[0].headers)["neardup.source.partition"]
    sources = [orjson.loads(verdict.value or b"")["source"] for verdict in judged.verdicts]
    at = next(at for at, source in enumerate(sources) if b"%d" % source["partition"] != apart)
    settings = judged.cut({at})
    partition = sources[at]["partition"]
    before, metadata = offsets(settings)[partition]
    assert before is not None

    def move(offset: int) -> None:
        part = TopicPartition(settings.topic_documents, partition, offset, metadata)
        asked = [ConsumerGroupTopicPartitions(settings.group, [part])]
        client = AdminClient({"bootstrap.servers": settings.bootstrap})
        for future in client.alter_consumer_group_offsets(asked).values():
            future.result(60)

    try:
        with pytest.raises(StopError, match="have changed since they were looked"):
            mended(settings, lambda *_: move(sources[at]["offset"]))
        with pytest.raises(StopError, match="no worker has committed the offsets"):
            mended(settings)
    finally:
        move(before)
    assert verify(settings).defects[Defect.LOST] == 2


@pytest.mark.parametrize("is_another_log", [False, True])
def test_another_groups_word_is_not_published(judged: Judged, is_another_log: bool) -> None:
    """Answers that are not what the log says, and a log that the offsets do not belong to."""
    if is_another_log:
        settings = judged.cut({8}).model_copy(
            update={"topic_fingerprints": f"{judged.settings.topic_fingerprints}.other"}
        )
        create_topics(Admin(settings), settings)
    else:
        settings = judged.cut({8}, lambda value: value.replace(b'"features":', b'"features":1'))
    said = "committed with another log" if is_another_log else "differ from the log"
    with pytest.raises(StopError, match=said):
        mended(settings)
    assert len(published(settings, settings.topic_verdicts)) == len(judged.verdicts) - 1
