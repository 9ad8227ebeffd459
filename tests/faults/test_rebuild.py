"""`neardup rebuild` on Apache Kafka: a new log beside the old one, and the switch to it."""

from __future__ import annotations

import subprocess
import tomllib
import uuid
from typing import Any

import pytest

from tests.conftest import plain_environment, variables
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.forked import ran
from tests.faults.harness import Deployment
from worker.settings import Settings
from worker.shell.admin.verify import verify

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MESSAGES = 300


def _rebuild(deployment: Deployment, **changed: Any) -> subprocess.CompletedProcess[str]:
    return _neardup(deployment, "rebuild", **changed)


def _neardup(
    deployment: Deployment, *command: str, **changed: Any
) -> subprocess.CompletedProcess[str]:
    values = {**deployment.values, "worker_id": "rebuilder", **changed}
    return ran(*command, environment={**plain_environment(), **variables(values)})


def test_a_new_log_beside_the_old_one_and_the_switch(deploy: Deploy) -> None:
    """
    The old workers go on meanwhile; again, nothing is done twice; switched to, new workers answer
    what comes.
    """
    deployment = deploy(topic_new=f"new-{uuid.uuid4().hex}")
    deployment.start_all("one")
    deployment.feed(crawl(seed=1, count=MESSAGES))
    deployment.until_all_committed()
    same = _rebuild(deployment)
    assert same.returncode == 1 and "already has these parameters" in same.stderr

    first = _rebuild(deployment, max_distance=6, shingle_widths=(3,))
    assert first.returncode == 0, first.stderr
    assert "(created)" in first.stderr and "the old ones are not touched" in first.stderr
    switched = tomllib.loads(first.stdout)
    assert Settings(definition=switched["definition"]).max_distance == 6
    assert switched["topic_new"].startswith(f"{deployment.settings.topic_new}-")
    new = Settings(**{**deployment.values, **switched}, worker_id="check")
    report = verify(new)
    assert report.clean and (report.answered, report.unanswered) == (MESSAGES, 0)
    assert report.new_documents == report.outcomes["new"] + report.outcomes["deleted"]

    again = _rebuild(deployment, max_distance=6, shingle_widths=(3,))
    assert again.returncode == 0 and again.stdout == first.stdout
    assert "(taken up again)" in again.stderr
    assert verify(new).log_rows == MESSAGES

    deployment.feed(crawl(seed=2, count=MESSAGES))
    deployment.start("new", **switched)
    deployment.finish()
    deployment.until(
        lambda: verify(new).answered == 2 * MESSAGES, "the new workers have answered, too"
    )
    assert verify(new).clean


def test_a_rebuild_whose_topics_were_deleted_is_not_said_to_be_done(deploy: Deploy) -> None:
    """
    The group's offsets stay where they were. First the topics of answers are gone, then the log.
    """
    deployment = deploy()
    deployment.feed(crawl(seed=1, count=30))
    first = _rebuild(deployment, max_distance=6)
    assert first.returncode == 0, first.stderr
    new = Settings(**{**deployment.values, **tomllib.loads(first.stdout)}, worker_id="check")
    answers = (new.topic_verdicts, new.topic_dead_letter)
    for topics, said in ((answers, "are empty: they were deleted since"),
                         ((new.topic_fingerprints,), "were committed with another log")):  # fmt: skip
        for topic in topics:
            deployment.admin.delete(topic)
        # Brokers learn of it a moment later.
        deployment.until(lambda: not deployment.admin.describe(topics), "the topics are gone")  # noqa: B023
        again = _rebuild(deployment, max_distance=6)
        assert again.returncode == 1 and said in again.stderr, again.stderr
        assert again.stdout == ""


def test_another_group_judges_the_same_documents_from_the_beginning(deploy: Deploy) -> None:
    """
    As "Start over" says: a new group, new topics, no other setting. What one document alone decides
    comes out again; which of two copies was first is decided by the new log's order. The old log
    and its verdicts stay as they are.
    """
    deployment = deploy()
    deployment.start_all("one")
    deployment.feed(crawl(seed=3, count=MESSAGES))
    deployment.finish()
    before = verify(Settings(**deployment.values, worker_id="check"))
    topics = ("topic_fingerprints", "topic_verdicts", "topic_dead_letter")
    names: dict[str, Any] = {
        name: f"{getattr(deployment.settings, name)}.second" for name in ("group", *topics)
    }
    created = _neardup(deployment, "topics", "create", **names)
    assert created.returncode == 0, created.stderr
    deployment.start("two", **names)
    second = Settings(**{**deployment.values, **names}, worker_id="check")
    deployment.until(lambda: verify(second).answered == MESSAGES, "the new group has answered")
    report = verify(second)
    assert report.clean
    alone = ("dead-letter", "deleted", "skipped")
    assert [report.outcomes[kind] for kind in alone] == [before.outcomes[kind] for kind in alone]
    assert report.outcomes["duplicate"] > MESSAGES // 4
    after = verify(Settings(**deployment.values, worker_id="check"))
    assert after.clean and after.outcomes == before.outcomes
