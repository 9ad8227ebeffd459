"""Row 30 of the fault table: transactions of a crawler, aborted or left open at a topic's end."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from confluent_kafka import Consumer, Producer

from tests.conftest import free_ports, plain_environment, variables
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.forked import ran
from tests.faults.harness import Deployment
from worker.shell.admin.verify import verify
from worker.shell.admin.watch import GroupWatch
from worker.shell.pipeline.membership import lags, look, partitions_of

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

PARTITIONS = 2
MESSAGES = 60
ENDS_KNOWN_S = 2.0  # a fetch, which brings the end of a partition, waits for 0.1 s


def _document(number: int) -> bytes:
    text = " ".join(f"word{number}x{place}" for place in range(40))
    return orjson.dumps(
        {"url": f"https://e.example/{number}", "fetched_at": "2026-11-22T09:00:04Z", "text": text}
    )


def _crawler(deployment: Deployment, name: str) -> Producer:
    crawler = Producer(
        {
            "bootstrap.servers": deployment.settings.bootstrap,
            "transactional.id": f"{deployment.settings.group}.{name}",
            "transaction.timeout.ms": 600_000,
        }
    )
    crawler.init_transactions(60)
    return crawler


def _write(deployment: Deployment, crawler: Producer, first: int, partitions: range) -> None:
    for number in range(first, first + 10):
        partition = partitions[number % len(partitions)]
        crawler.produce(deployment.settings.topic_documents, _document(number), None, partition)
    crawler.flush(60)


@contextmanager
def _open_transaction(deployment: Deployment) -> Iterator[None]:
    """Hold up partition 0, and write committed documents to both partitions behind it."""
    crawler = _crawler(deployment, "open")
    crawler.begin_transaction()
    _write(deployment, crawler, 1_000, range(1))
    _write(deployment, _plain(deployment), 2_000, range(PARTITIONS))
    yield
    crawler.abort_transaction(60)


def _plain(deployment: Deployment) -> Producer:
    return Producer({"bootstrap.servers": deployment.settings.bootstrap})


def _rebuild(deployment: Deployment) -> subprocess.CompletedProcess[str]:
    values = {**deployment.values, "worker_id": "rebuilder", "max_distance": 6}
    return ran("rebuild", environment={**plain_environment(), **variables(values)})


def _lag(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as reply:
        return sum(orjson.loads(reply.read())["partitions"].values())


def _stays_without_lag(port: int) -> bool:
    """Return whether no look shows a lag until the worker must have heard of its partitions' ends."""
    until = time.monotonic() + ENDS_KNOWN_S
    while time.monotonic() < until:
        if _lag(port):
            return False
        time.sleep(0.05)
    return True


def _held_up(port: int) -> set[str]:
    """Return the partitions that the worker's metrics call held up."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
        text = reply.read().decode()
    return set(
        re.findall(
            r'^neardup_source_held_seconds{.*partition="(\d)"} (?!0\.0$)', text, re.MULTILINE
        )
    )


def _top_lag(deployment: Deployment) -> int:
    with GroupWatch(deployment.settings) as watch:
        watch.sample()
        return watch.sample().lag


def _answered(deployment: Deployment) -> int:
    return len(deployment.published())


def test_row_30_a_transaction_that_has_ended_leaves_no_lag(deploy: Deploy) -> None:
    """
    Markers and aborted documents stand behind the last document, and nobody waits for them: where
    nothing else stands, behind committed ones, and behind those of an aborted transaction.
    """
    deployment = deploy(partitions=PARTITIONS, static_membership=False)
    [port] = free_ports(1)
    [worker] = deployment.start_all("one", metrics_port=port)
    crawler = _crawler(deployment, "crawler")
    for at, how in enumerate(("aborted", "committed", "aborted")):
        crawler.begin_transaction()
        _write(deployment, crawler, at * 100, range(PARTITIONS))
        end = crawler.commit_transaction if how == "committed" else crawler.abort_transaction
        end(60)
        wanted = 10 if at else 0
        deployment.until(lambda: _answered(deployment) == wanted, "all are answered")  # noqa: B023
        deployment.until(lambda: _stays_without_lag(port), "the worker has no lag")
        assert _top_lag(deployment) == 0, how
    assert worker.stop() == 0
    # Of partitions that no worker has, those who look count by the same rule.
    deployment.until(lambda: deployment.admin.members(deployment.settings.group)[0] == "empty", "")
    crawler.begin_transaction()
    _write(deployment, crawler, 300, range(PARTITIONS))
    crawler.abort_transaction(60)
    assert verify(deployment.settings).clean and _top_lag(deployment) == 0
    _write(deployment, _plain(deployment), 400, range(PARTITIONS))
    assert _top_lag(deployment) == 10


def test_row_30_an_open_transaction_holds_up_its_partition_alone(deploy: Deploy) -> None:
    """
    Lag counts to the last stable offset; `verify` and `rebuild` end there, and name the partition.
    """
    deployment = deploy(partitions=PARTITIONS)
    [port] = free_ports(1)
    deployment.start_all("one", metrics_port=port)
    deployment.feed(crawl(seed=30, count=MESSAGES))
    deployment.until_all_committed()
    ends = deployment.admin.ends({deployment.settings.topic_documents: PARTITIONS})
    held_at = ends[deployment.settings.topic_documents, 0][1]
    before = _answered(deployment)
    with _open_transaction(deployment):
        deployment.until(lambda: _answered(deployment) == before + 5, "the other partition goes on")
        deployment.until(lambda: _lag(port) == 0, "the worker has no lag")
        deployment.until(lambda: _held_up(port) == {"0"}, "the worker says what is held up")
        assert _top_lag(deployment) == 0
        with GroupWatch(deployment.settings) as watch:
            assert watch.sample().held_up == {0: held_at}
        report = verify(deployment.settings)
        assert report.clean and report.held_up == {0: held_at}
        done = _rebuild(deployment)
        assert done.returncode == 0, done.stderr
        assert f"holds up the documents of partition 0 at offset {held_at}:" in done.stderr
    deployment.until(lambda: _answered(deployment) == before + 10, "those behind it are answered")
    deployment.until(lambda: _lag(port) == 0, "the worker has no lag")
    deployment.until(lambda: not _held_up(port), "nothing is held up any more")
    report = verify(deployment.settings)
    assert report.clean and not report.held_up


def test_row_30_a_partition_that_another_program_has(deploy: Deploy) -> None:
    """What one worker counts of it steps over aborted documents, and counts those behind them."""
    deployment = deploy(partitions=PARTITIONS)
    deployment.start_all("one")
    settings = deployment.settings.model_copy(update={"worker_id": "one"})
    other = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
        }
    )
    other.subscribe([settings.topic_documents])

    def unowned() -> dict[int, int]:
        other.poll(0.05)
        if not other.assignment():
            return {}
        seen = look(settings, deployment.admin, partitions_of(settings, deployment.admin))
        return {} if seen is None else lags(settings, deployment.admin, seen)

    try:
        deployment.until(unowned, "the other program has a partition")
        [number] = unowned()
        crawler = _crawler(deployment, "crawler")
        crawler.begin_transaction()
        _write(deployment, crawler, 0, range(number, number + 1))
        crawler.abort_transaction(60)
        assert unowned() == {number: 0}
        _write(deployment, _plain(deployment), 100, range(number, number + 1))
        assert unowned() == {number: 10}
    finally:
        other.close()
