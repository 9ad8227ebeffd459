"""The topics as they should be, on Apache Kafka."""

from __future__ import annotations

import uuid

import pytest

from tests.cli.program import run
from tests.conftest import Kafka, deployment
from worker.errors import StopError
from worker.shell.kafka.admin import check_topics, create_topics, require_topics

pytestmark = pytest.mark.kafka


def test_created_topics_are_as_they_should_be(kafka: Kafka) -> None:
    """Creating is complete, and a second time changes nothing."""
    settings, admin = deployment(kafka, partitions=5)
    assert set(create_topics(admin, settings).values()) == {True}
    assert check_topics(admin, settings) == []
    found, problems = require_topics(admin, settings)
    assert problems == []
    assert found[settings.topic_documents].partitions == 5
    assert found[settings.topic_fingerprints].partitions == 1
    assert len({topic.topic_id for topic in found.values()}) == 4
    assert set(create_topics(admin, settings).values()) == {False}


def test_a_missing_topic_stops_a_worker_with_the_remedy(kafka: Kafka) -> None:
    """Its name, and the command that creates it, with the options that name it."""
    settings, admin = deployment(kafka, topic_documents="documents", topic_new="new")
    creates = f"neardup topics create --topic-fingerprints {settings.topic_fingerprints} .* --topic-new new$"
    with pytest.raises(StopError, match=rf"(?m)^new: the topic does not exist\. Create it: {creates}"):
        require_topics(admin, settings)


def test_a_problem_is_mended_by_the_command_that_it_names(kafka: Kafka) -> None:
    """As it stands; what the cluster refuses is told."""
    settings, admin = deployment(kafka)
    admin.create(settings.topic_fingerprints, 1, 1, {"cleanup.policy": "compact", "retention.ms": "60000"})
    create_topics(admin, settings)
    remedies = [problem.remedy.split() for problem in check_topics(admin, settings)]
    assert len(remedies) == 3
    for _, *command in remedies:
        run(*command, "--bootstrap", kafka.bootstrap)
    assert check_topics(admin, settings) == []
    with pytest.raises(StopError, match=r"altering topic .*\.verdicts: .*retention"):
        admin.alter(settings.topic_verdicts, {"retention.ms": "long"})


def test_a_topic_of_new_documents_takes_the_largest_one(kafka: Kafka) -> None:
    """It is created with room for one; without room no worker starts."""
    settings, admin = deployment(kafka, topic_new=uuid.uuid4().hex, document_bytes_max=1 << 20)
    assert create_topics(admin, settings)[str(settings.topic_new)]
    assert check_topics(admin, settings) == []
    larger = settings.model_copy(update={"document_bytes_max": 9 << 20})
    with pytest.raises(
        StopError, match=r"a new document of document_bytes_max would stop.*max\.message\.bytes=9502720"
    ):
        require_topics(admin, larger)
