"""
Rows 8 and 28 of the fault table: brokers that die, come back, freeze; leaders that move; brokers
that refuse.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.conftest import Kafka
from tests.faults import cluster
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl, message
from tests.faults.harness import Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.errors import StopError
from worker.settings import Settings
from worker.settings.kafka import TIMES_MS
from worker.shell.admin.verify import verify
from worker.shell.kafka.configuration import group_config
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.pipeline.membership import look, partitions_of

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

MESSAGES_PER_S = 60
LEAVES = "partitions have no owner, and the group does not share them out: leaving it and joining it again"


@contextmanager
def _fed(deployment: Deployment) -> Iterator[None]:
    """Feed while the block runs, and a second longer."""
    enough = threading.Event()

    def feed() -> None:
        for seed in range(1_000):
            deployment.feed(crawl(seed=seed, count=MESSAGES_PER_S // 2), wait_s=90)
            if enough.wait(0.5):
                return

    with ThreadPoolExecutor() as pool:
        fed = pool.submit(feed)
        try:
            yield
            time.sleep(1)
        finally:
            enough.set()
        fed.result()


@contextmanager
def _frozen(deployment: Deployment) -> Iterator[None]:
    """
    Freeze the workers while the block runs, and let the broker first write the ends of what they
    have committed.
    """
    for process in deployment.processes:
        process.signal(signal.SIGSTOP)
    # It takes 3 ms where nothing else runs; see "What one broker cannot promise" in
    # deploy/runbook.md.
    time.sleep(0.5)
    yield
    for process in deployment.processes:
        process.signal(signal.SIGCONT)


def _survived(deployment: Deployment) -> None:
    """
    Everything is answered; no worker hangs, and none ended more than once.

    One may end: a static member whose broker dies before telling it its new id looks like its own
    predecessor. Then partitions may wait for `rejoin.py`.
    """
    deployment.until_all_committed()
    deployment.check()
    print("ended and started again:", deployment.endings)
    assert set(Counter(deployment.endings).values()) <= {1}


def test_row_08_restart_of_the_only_broker(kafka_to_break: EmbeddedKafka, tmp_path: Path) -> None:
    """
    Twice while documents come: no worker hangs or ends, and `neardup verify` sees the same all the
    while.
    """

    def restart(*_: object) -> None:
        if restarts:
            restarts.pop()
            kafka_to_break.kill(1)
            kafka_to_break.up(1)

    with Deployment(kafka_to_break.bootstrap, tmp_path) as deployment:
        deployment.supervise(*deployment.start_all("one", "two"))
        with _fed(deployment):
            for _ in range(2):
                time.sleep(1.5)
                with _frozen(deployment):
                    kafka_to_break.kill(1)
                time.sleep(1)
                kafka_to_break.up(1)
        _survived(deployment)
        deployment.end()
        restarts = [1]
        report = verify(deployment.settings, on_progress=restart)
        assert not restarts
        assert report.clean and (report.answered, report.unanswered) == (deployment.fed, 0)


def test_row_08_each_of_three_brokers_dies_in_turn(deploy3: Deploy, kafka3: EmbeddedKafka) -> None:
    """
    Whatever that node led, another takes over, also of a worker that is killed meanwhile in a
    transaction.
    """
    deployment = deploy3()
    dying, other = deployment.start_all("one", fault="after-offsets:kill:8") + deployment.start_all(
        "two"
    )
    deployment.supervise(other)
    with _fed(deployment):
        dying.wait()
        for node in (1, 2, 3):
            kafka3.kill(node)
            if node == 2:
                deployment.supervise(deployment.start("one"))
            time.sleep(2)
            kafka3.up(node)
            cluster.until_in_sync(kafka3.bootstrap)
    _survived(deployment)


def test_row_08_each_of_three_brokers_freezes_in_turn(
    deploy3: Deploy, kafka3: EmbeddedKafka
) -> None:
    """
    Connections stay open and nothing answers: time-outs, new leaders, then two who think that they
    lead.
    """
    deployment = deploy3()
    deployment.supervise(*deployment.start_all("one", "two"))
    with _fed(deployment):
        for node in (1, 2, 3):
            kafka3.pause(node)
            time.sleep(8)
            kafka3.resume(node)
            cluster.until_in_sync(kafka3.bootstrap)
    _survived(deployment)


@contextmanager
def _replaceable(deployment: Deployment, worker_id: str) -> Iterator[threading.Event]:
    """
    Be a member in a worker's place, which does nothing; when it is to give partitions up, it stops
    there, as a process that is frozen or fenced. Yields whether it has.
    """
    settings = deployment.settings.model_copy(
        update={"worker_id": worker_id, "kafka": {"max.poll.interval.ms": "600000"}}
    )
    asked = threading.Event()
    ended = threading.Event()

    def stop(*_: object) -> None:
        asked.set()
        ended.wait()

    def run() -> None:
        member = Consumer(group_config(settings))
        member.subscribe([settings.topic_documents], on_revoke=stop)
        while not ended.is_set():
            member.poll(0.1)

    with ThreadPoolExecutor() as pool:
        ran = pool.submit(run)
        deployment.until(
            lambda: any(one.partitions for one in deployment.admin.members(settings.group)[1]),
            "it has the partitions",
        )
        try:
            yield asked
        finally:
            ended.set()
            ran.result()


def test_row_08_partitions_that_a_stable_group_leaves_without_an_owner(deploy: Deploy) -> None:
    """
    A static member is replaced after a rebalance took partitions from it, and before the one that
    would have given them to another: no rebalance follows, until a worker leaves and joins again.
    """
    # Sessions that no busy machine lets end: that would mend it, too.
    deployment = deploy(call_timeout_s=10.0, kafka={"session.timeout.ms": 20_000})
    settings = deployment.settings
    workers: list[WorkerProcess] = []

    def has_no_owner() -> bool:
        seen = look(settings, deployment.admin, partitions_of(settings, deployment.admin))
        is_seen = seen is not None and len(seen.shares.without_owner) == 2
        return is_seen or any(worker.said(LEAVES) for worker in workers)

    with _replaceable(deployment, "one") as is_asked:
        workers.append(deployment.start("two"))
        deployment.until(is_asked.is_set, "one is to give partitions up")
        workers.append(deployment.start("one"))
        deployment.until(
            lambda: all(worker.said("partitions assigned") for worker in workers), "both are in"
        )
        deployment.until(has_no_owner, "two partitions have no owner")
        deployment.feed(crawl(seed=1, count=200))
        deployment.until_all_committed()
    deployment.check()
    assert deployment.processes == workers  # none has ended


def test_row_08_dead_letters_whose_broker_is_away(deploy3: Deploy, kafka3: EmbeddedKafka) -> None:
    """
    The dead letters' only replica is offline when a worker starts: everything else is answered,
    they wait for it.
    """
    deployment = deploy3(partitions=1, call_timeout_s=10.0)
    name = deployment.settings.topic_dead_letter
    cluster.delete_topic(kafka3.bootstrap, name)
    deployment.until(lambda: name not in deployment.admin.describe([name]), "it is gone")
    cluster.create_on(kafka3.bootstrap, name, 3)
    deployment.until(lambda: cluster.has_leader(kafka3.bootstrap, name), "it is there")
    kafka3.kill(3)
    deployment.until(lambda: not cluster.has_leader(kafka3.bootstrap, name), "it is offline")
    deployment.supervise(deployment.start("one"))
    deployment.feed(
        message(f"{n}", f"http://x/{n}", text=f"the text of number {n}") for n in range(50)
    )
    deployment.until_all_committed()
    assert deployment.processes[0].said(
        "partitions without a leader: their topics get no answers until they have one"
    )
    deployment.feed([(b"p", b"no JSON")])
    kafka3.up(3)
    assert deployment.finish().outcomes["dead-letter"] == 1


def test_row_28_brokers_take_no_transaction_as_long_as_the_workers(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Their maximum is below our setting: a worker that asked again would never begin, so it ends with
    the remedy.
    """
    # Our bound is what brokers allow by default: these stand for brokers that allow less.
    monkeypatch.setitem(TIMES_MS, "transaction.timeout.ms", (10_000, 1_000, 900_001))
    settings = Settings(bootstrap=kafka.bootstrap, group="row-28", worker_id="one")
    publisher = TransactionalPublisher(
        settings.model_copy(update={"kafka": {"transaction.timeout.ms": "900001"}})
    )
    try:
        with pytest.raises(StopError, match=r"lower kafka\.transaction\.timeout\.ms"):
            publisher.open()
    finally:
        publisher.close()
